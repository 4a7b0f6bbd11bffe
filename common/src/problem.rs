//! Problems: the operations that are tuned. Each has one canonical form and one digest.
//!
//! A convolution is kept in the forward sense whatever its direction: `x` is n,c,\[d,\]h,w, the weights are
//! k,c/g,\[fz,\]fy,fx and `y` is n,k,\[od,\]oh,ow.

mod aiter;
mod batch_norm;
pub mod command;
mod conv;
mod data_type;
mod direction;
pub mod driver;
mod gemm;
mod kernel;
mod layout;
mod operator;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use aiter::AiterProblem;
pub use batch_norm::{BatchNormProblem, NormDirection, NormMode};
pub use conv::{ConvProblem, ConvShape, Transposed};
pub use data_type::{DataType, UnknownDataType, write_types};
pub use direction::Direction;
pub use driver::parse;
pub use gemm::GemmProblem;
pub use kernel::{KernelProblem, read_size};
pub use layout::{Layout, UnknownLayout};
pub use operator::{Operation, Operator};

use crate::digest::{self, Digest};
use crate::value::Value;

/// Why values do not make a problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: found {found}, expected {expected}")]
pub struct ProblemError {
    /// The size or property that is wrong.
    pub field: &'static str,
    /// What it was.
    pub found: String,
    /// What it could have been.
    pub expected: String,
}

impl ProblemError {
    /// Of the value `found` of `field`.
    pub fn new(field: &'static str, found: impl fmt::Display, expected: impl Into<String>) -> Self {
        Self { field, found: found.to_string(), expected: expected.into() }
    }
}

/// One operation to be tuned.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Problem {
    /// A convolution in one direction.
    Conv(ConvProblem),
    /// A matrix product.
    Gemm(GemmProblem),
    /// A user's own kernel with its sizes.
    Kernel(KernelProblem),
    /// A batch norm in one direction.
    BatchNorm(BatchNormProblem),
    /// A shape of one of aiter's operators.
    Aiter(AiterProblem),
}

impl Problem {
    /// What all problems have in common.
    #[must_use]
    pub fn operation(&self) -> &dyn Operation {
        match self {
            Self::Conv(conv) => conv,
            Self::Gemm(gemm) => gemm,
            Self::Kernel(kernel) => kernel,
            Self::BatchNorm(norm) => norm,
            Self::Aiter(aiter) => aiter,
        }
    }

    /// [`Operation::canonical`]. The driver parser reads it back to an equal problem.
    #[must_use]
    pub fn canonical(&self) -> String {
        self.operation().canonical()
    }

    /// Digest of the canonical form.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of_parts(digest::PROBLEM, [self.canonical().as_bytes()])
    }

    /// What kernel specs know of the problem; the names are those of the spec format.
    #[must_use]
    pub fn variables(&self) -> BTreeMap<String, Value> {
        self.operation().variables()
    }

    /// [`Operation::flops`]
    #[must_use]
    pub fn flops(&self) -> f64 {
        self.operation().flops()
    }

    /// [`Operation::label`]
    #[must_use]
    pub fn label(&self) -> String {
        self.operation().label()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.canonical())
    }
}

/// Collects named values into the map that expressions read.
fn variables<const N: usize>(pairs: [(&str, Value); N]) -> BTreeMap<String, Value> {
    pairs.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems() -> [Problem; 5] {
        let conv = ConvProblem::new(ConvShape::plain(Direction::Forward, DataType::Fp16)).unwrap();
        let gemm = GemmProblem {
            m: 1,
            n: 2,
            k: 3,
            batch: 4,
            trans_a: true,
            trans_b: false,
            col_major: false,
            a_type: DataType::Bf16,
            b_type: DataType::Bf16,
            c_type: DataType::Bf16,
        };
        let kernel = KernelProblem::new("saxpy".to_string(), [("n".to_string(), (-5_i64).into())].into()).unwrap();
        let norm = BatchNormProblem {
            direction: NormDirection::Backward,
            mode: NormMode::Spatial,
            n: 2,
            c: 3,
            input: [1, 4, 5],
            layout: Layout::Nhwc,
            data_type: DataType::Bf16,
            mixed: true,
            save: true,
            run: false,
        };
        let shape = vec![("M".to_string(), "64".to_string()), ("q_dtype_w".to_string(), "torch.int8".to_string())];
        let aiter = AiterProblem::new("ck_gemm_a8w8".to_string(), shape).unwrap();
        [
            Problem::Conv(conv),
            Problem::Gemm(gemm),
            Problem::Kernel(kernel),
            Problem::BatchNorm(norm),
            Problem::Aiter(aiter),
        ]
    }

    #[test]
    fn problems_travel() {
        let config = bincode::config::standard();
        for problem in problems() {
            let bytes = bincode::serde::encode_to_vec(&problem, config).unwrap();
            let (decoded, read) = bincode::serde::decode_from_slice::<Problem, _>(&bytes, config).unwrap();
            assert_eq!((decoded, read), (problem, bytes.len()));
        }
    }

    #[test]
    fn each_has_the_variables_of_its_operator() {
        for problem in problems() {
            let operator = problem.operation().operator();
            let mut expected = operator.variables.to_vec();
            expected.sort_unstable();
            let found = problem.variables();
            assert!(expected.is_empty() || found.keys().eq(&expected), "{}: {found:?}", operator.word);
            assert_eq!(parse(&problem.canonical(), None), Ok(vec![problem.clone()]), "{problem}");
        }
    }

    /// Digests name problems in every store: a change here loses what was tuned before.
    #[test]
    fn digests_stay() {
        let shown = problems().map(|problem| problem.digest().short());
        assert_eq!(shown, ["3d32706b1d1e", "2adc4cfee18b", "366672e3510f", "f8b1e6a0229e", "d84ceb1757fc"]);
    }
}
