//! Matrix products.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{DataType, ProblemError, variables};
use crate::value::Value;

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
    /// Of A, B and C.
    pub data_type: DataType,
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
    data_type: DataType,
}

impl TryFrom<Unchecked> for GemmProblem {
    type Error = ProblemError;

    fn try_from(fields: Unchecked) -> Result<Self, Self::Error> {
        let Unchecked { m, n, k, batch, trans_a, trans_b, col_major, data_type } = fields;
        Self { m, n, k, batch, trans_a, trans_b, col_major, data_type }.checked()
    }
}

impl GemmProblem {
    /// The problem, if its sizes make one.
    ///
    /// # Errors
    /// The first size that is out of range.
    pub fn checked(self) -> Result<Self, ProblemError> {
        const MAX: u32 = i32::MAX as u32;
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

    /// The driver command that asks for this problem and no other.
    #[must_use]
    pub fn canonical(&self) -> String {
        format!(
            "gemm{} -m {} -n {} -k {} -b {} -u {} -v {} -C {}",
            self.data_type.driver_suffix(),
            self.m,
            self.n,
            self.k,
            self.batch,
            u8::from(self.trans_a),
            u8::from(self.trans_b),
            u8::from(self.col_major)
        )
    }

    /// What kernel specs know of a matrix product.
    #[must_use]
    pub fn variables(&self) -> BTreeMap<String, Value> {
        variables([
            ("m", self.m.into()),
            ("n", self.n.into()),
            ("k", self.k.into()),
            ("batch", self.batch.into()),
            ("trans_a", self.trans_a.into()),
            ("trans_b", self.trans_b.into()),
            ("col_major", self.col_major.into()),
            ("dtype", self.data_type.name().into()),
        ])
    }

    /// Two operations for each multiply-add.
    #[must_use]
    pub fn flops(&self) -> f64 {
        2.0 * f64::from(self.m) * f64::from(self.n) * f64::from(self.k) * f64::from(self.batch)
    }

    /// For example `gemm TN 4864x4096x4096 FP16`: which operands are transposed, then m, n and k.
    #[must_use]
    pub fn label(&self) -> String {
        let letter = |transposed| if transposed { 'T' } else { 'N' };
        let mut label = format!(
            "gemm {}{} {}x{}x{} {}",
            letter(self.trans_a),
            letter(self.trans_b),
            self.m,
            self.n,
            self.k,
            self.data_type
        );
        if self.batch != 1 {
            label.push_str(&format!(" b{}", self.batch));
        }
        if self.col_major {
            label.push_str(" col");
        }
        label
    }
}

#[cfg(test)]
mod tests {
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
            data_type: DataType::Fp16,
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
}
