//! Which problems of a file are imported, and in which precision, by the words that MITuna has for them.

use bluefin_common::problem::{DataType, Problem};
use clap::ValueEnum;

/// A driver's base word, for its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "help would print them, of words that say it themselves")]
pub enum Precision {
    Conv,
    Convfp16,
    #[value(alias = "convbfp16")]
    Convbf16,
}

impl Precision {
    /// The type that it stands for.
    #[must_use]
    pub fn data_type(self) -> DataType {
        match self {
            Self::Conv => DataType::Fp32,
            Self::Convfp16 => DataType::Fp16,
            Self::Convbf16 => DataType::Bf16,
        }
    }
}

/// A kind of problem, by MITuna's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "help would print them, of words that say it themselves")]
pub enum Operation {
    Convolution,
    #[value(name = "batch_norm", alias = "batch-norm")]
    BatchNorm,
}

impl Operation {
    /// Whether a problem is one.
    #[must_use]
    pub fn only(self) -> fn(&Problem) -> bool {
        match self {
            Self::Convolution => |problem| matches!(problem, Problem::Conv(_)),
            Self::BatchNorm => |problem| matches!(problem, Problem::BatchNorm(_)),
        }
    }
}
