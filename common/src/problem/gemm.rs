//! Matrix products.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::command::{Command, DriverError, Flag, int, own_word, size, word};
use super::{DataType, Operation, Operator, Problem, ProblemError, variables};
use crate::value::Value;

pub(super) static OPERATOR: Operator = Operator {
    word: "gemm",
    problems: "matrix products",
    in_miopen: true,
    variables: &["m", "n", "k", "batch", "trans_a", "trans_b", "col_major", "a_type", "b_type", "c_type", "dtype"],
    is_base: |base| data_type(base).is_some(),
    flags: FLAGS,
    parse,
};

/// The flags of driver/gemm_driver.hpp, and bluefin's own for products of several types.
const FLAGS: &[Flag] = &[
    int("forw", 'F', "1"),
    int("batch_count", 'b', "1"),
    int("isColMajor", 'C', "0"),
    size("a_h", 'm', "256"),
    size("a_w", 'k', "256"),
    size("b_w", 'n', "256"),
    word("alpha", 'A', "1.0"),
    word("beta", 'B', "0.0"),
    int("transA", 'u', "0"),
    int("transB", 'v', "0"),
    own_word("b_type"),
    own_word("c_type"),
    int("iter", 'i', "10"),
    int("verify", 'V', "0"),
    int("time", 't', "0"),
];

const MAX: u32 = i32::MAX as u32;

/// C = A x B: A is m x k, B is k x n and C is m x n, each `batch` times.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct GemmProblem {
    /// Rows of A and C.
    pub m: u32,
    /// Columns of B and C.
    pub n: u32,
    /// Columns of A and rows of B.
    pub k: u32,
    /// Independent products, at least 1.
    pub batch: u32,
    /// A lies in memory as k x m.
    pub trans_a: bool,
    /// B lies in memory as n x k.
    pub trans_b: bool,
    /// Matrices lie column by column.
    pub col_major: bool,
    /// Of A.
    pub a_type: DataType,
    /// Of B.
    pub b_type: DataType,
    /// Of C.
    pub c_type: DataType,
}

/// The same fields before they are checked.
#[derive(Deserialize)]
struct Unchecked {
    m: u32,
    n: u32,
    k: u32,
    batch: u32,
    trans_a: bool,
    trans_b: bool,
    col_major: bool,
    a_type: DataType,
    b_type: DataType,
    c_type: DataType,
}

impl TryFrom<Unchecked> for GemmProblem {
    type Error = ProblemError;

    fn try_from(fields: Unchecked) -> Result<Self, Self::Error> {
        let Unchecked { m, n, k, batch, trans_a, trans_b, col_major, a_type, b_type, c_type } = fields;
        Self { m, n, k, batch, trans_a, trans_b, col_major, a_type, b_type, c_type }.checked()
    }
}

impl GemmProblem {
    /// One product of matrices that lie row by row, none of them transposed.
    #[must_use]
    pub const fn plain([m, n, k]: [u32; 3], data_type: DataType) -> Self {
        let c_type = data_type.product();
        let (a_type, b_type) = (data_type, data_type);
        Self { m, n, k, batch: 1, trans_a: false, trans_b: false, col_major: false, a_type, b_type, c_type }
    }

    /// The problem, if its sizes make one.
    ///
    /// # Errors
    /// The first size that is out of range.
    pub fn checked(self) -> Result<Self, ProblemError> {
        for (field, size) in [("m", self.m), ("n", self.n), ("k", self.k), ("batch count", self.batch)] {
            if !(1..=MAX).contains(&size) {
                return Err(ProblemError::new(field, size, format!("1 to {MAX}")));
            }
        }
        for (field, rows, columns) in
            [("elements of a", self.m, self.k), ("elements of b", self.k, self.n), ("elements of c", self.m, self.n)]
        {
            let elements = u128::from(rows) * u128::from(columns) * u128::from(self.batch);
            if elements > 1 << 60 {
                return Err(ProblemError::new(field, elements, format!("at most {}", 1_u64 << 60)));
            }
        }
        Ok(self)
    }

    /// The type of all three matrices, where it is one.
    #[must_use]
    pub fn data_type(&self) -> Option<DataType> {
        (self.a_type == self.b_type && self.a_type.product() == self.c_type).then_some(self.a_type)
    }

    /// `FP16`, or `FP8 x BF8 to FP16`.
    fn types(&self) -> String {
        match self.data_type() {
            Some(data_type) => data_type.to_string(),
            None => format!("{} x {} to {}", self.a_type, self.b_type, self.c_type),
        }
    }
}

impl Operation for GemmProblem {
    fn operator(&self) -> &'static Operator {
        &OPERATOR
    }

    fn canonical(&self) -> String {
        let mut text = format!(
            "gemm{} -m {} -n {} -k {} -b {} -u {} -v {} -C {}",
            self.a_type.driver_suffix(),
            self.m,
            self.n,
            self.k,
            self.batch,
            u8::from(self.trans_a),
            u8::from(self.trans_b),
            u8::from(self.col_major)
        );
        for (flag, own, implied) in
            [("b_type", self.b_type, self.a_type), ("c_type", self.c_type, self.a_type.product())]
        {
            if own != implied {
                text.push_str(&format!(" --{flag} {own}"));
            }
        }
        text
    }

    fn variables(&self) -> BTreeMap<String, Value> {
        variables([
            ("m", self.m.into()),
            ("n", self.n.into()),
            ("k", self.k.into()),
            ("batch", self.batch.into()),
            ("trans_a", self.trans_a.into()),
            ("trans_b", self.trans_b.into()),
            ("col_major", self.col_major.into()),
            ("a_type", self.a_type.name().into()),
            ("b_type", self.b_type.name().into()),
            ("c_type", self.c_type.name().into()),
            // For specs of kernels that know one.
            ("dtype", self.data_type().map_or("mixed", DataType::name).into()),
        ])
    }

    fn kind(&self) -> String {
        format!("gemm {}", self.types())
    }

    fn flops(&self) -> f64 {
        2.0 * f64::from(self.m) * f64::from(self.n) * f64::from(self.k) * f64::from(self.batch)
    }

    /// For example `gemm TN 4864x4096x4096 FP16`: which operands are transposed, then m, n and k.
    fn label(&self) -> String {
        let letter = |transposed| if transposed { 'T' } else { 'N' };
        let mut label = format!(
            "gemm {}{} {}x{}x{} {}",
            letter(self.trans_a),
            letter(self.trans_b),
            self.m,
            self.n,
            self.k,
            self.types()
        );
        if self.batch != 1 {
            label.push_str(&format!(" b{}", self.batch));
        }
        if self.col_major {
            label.push_str(" col");
        }
        label
    }

    fn with_type(&self, data_type: DataType) -> Option<Result<Problem, ProblemError>> {
        let c_type = data_type.product();
        Some(Ok(Problem::Gemm(Self { a_type: data_type, b_type: data_type, c_type, ..self.clone() })))
    }
}

/// The type of a base word.
fn data_type(base: &str) -> Option<DataType> {
    base.strip_prefix("gemm").and_then(DataType::from_driver_suffix)
}

fn parse(command: &Command<'_>) -> Result<Vec<Problem>, DriverError> {
    let a_type = data_type(command.base).ok_or_else(|| command.unknown())?;
    let flags = &command.flags;
    // A different alpha or beta would be another operation; a problem has no place for it.
    for (long, only) in [("alpha", 1.0), ("beta", 0.0)] {
        if flags.text(long).parse::<f64>() != Ok(only) {
            return Err(DriverError::value(long, flags.text(long), format!("{only}, for C = A x B")));
        }
    }
    let of = |long| flags.number(long, 1..=MAX);
    let switch = |long| Ok::<_, DriverError>(flags.number(long, 0..=1)? == 1);
    let problem = GemmProblem {
        m: of("a_h")?,
        n: of("b_w")?,
        k: of("a_w")?,
        batch: of("batch_count")?,
        trans_a: switch("transA")?,
        trans_b: switch("transB")?,
        col_major: switch("isColMajor")?,
        a_type,
        b_type: flags.data_type("b_type", a_type)?,
        c_type: flags.data_type("c_type", a_type.product())?,
    };
    Ok(vec![Problem::Gemm(problem.checked()?)])
}

#[cfg(test)]
mod tests {
    use super::super as problem;
    use super::*;

    fn gemm() -> GemmProblem {
        GemmProblem {
            m: 4864,
            n: 4096,
            k: 64,
            batch: 1,
            trans_a: false,
            trans_b: true,
            col_major: false,
            a_type: DataType::Fp16,
            b_type: DataType::Fp16,
            c_type: DataType::Fp16,
        }
    }

    #[test]
    fn reads_as_a_driver_command() {
        assert_eq!(gemm().canonical(), "gemmfp16 -m 4864 -n 4096 -k 64 -b 1 -u 0 -v 1 -C 0");
        assert_eq!(gemm().label(), "gemm NT 4864x4096x64 FP16");
        assert_eq!(gemm().flops(), 2.0 * 4864.0 * 4096.0 * 64.0);
    }

    #[test]
    fn sizes_are_checked() {
        let error = GemmProblem { k: 0, ..gemm() }.checked().unwrap_err();
        assert_eq!(error.to_string(), "k: found 0, expected 1 to 2147483647");
        let big = 1 << 30;
        let error = GemmProblem { m: big, n: big, batch: 2, ..gemm() }.checked().unwrap_err();
        assert_eq!(error.field, "elements of c");
    }

    #[test]
    fn matrices_may_differ_in_type() {
        for (command, label) in [
            (
                "gemmfp8 -m 1 -n 2 -k 3 -b 1 -u 0 -v 0 -C 0 --b_type BF8 --c_type FP16",
                "gemm NN 1x2x3 FP8 x BF8 to FP16",
            ),
            ("gemmint8 -m 1 -n 2 -k 3 -b 1 -u 0 -v 0 -C 0", "gemm NN 1x2x3 INT8"),
            ("gemmbfp16 -m 1 -n 2 -k 3 -b 1 -u 0 -v 0 -C 0 --c_type FP32", "gemm NN 1x2x3 BF16 x BF16 to FP32"),
        ] {
            let problems = problem::parse(command, None).unwrap();
            let [problem] = problems.as_slice() else { panic!("{command}") };
            assert_eq!((problem.canonical().as_str(), problem.label().as_str()), (command, label));
        }
        let message = problem::parse("gemm --c_type FP7", None).unwrap_err().to_string();
        assert!(
            message.starts_with("driver command: c_type: found \"FP7\", expected a type name such as FP16"),
            "{message}"
        );
    }

    #[test]
    fn sizes_have_the_drivers_names() {
        let problems = problem::parse("gemmfp16 --a_h 2 --a_w 3 --b_w 4 -u 1 -b 5 -C 1 -i 1 -t 1", None).unwrap();
        let expected = GemmProblem {
            m: 2,
            n: 4,
            k: 3,
            batch: 5,
            trans_a: true,
            trans_b: false,
            col_major: true,
            a_type: DataType::Fp16,
            b_type: DataType::Fp16,
            c_type: DataType::Fp16,
        };
        assert_eq!(problems, [Problem::Gemm(expected)]);
    }

    #[test]
    fn only_plain_products_are_problems() {
        let message = problem::parse("gemm -B 1", None).unwrap_err().to_string();
        assert_eq!(message, "driver command: beta: found \"1\", expected 0, for C = A x B");
        assert!(problem::parse("gemm -u 2", None).is_err());
        assert!(problem::parse("gemm -m 0", None).is_err());
    }
}
