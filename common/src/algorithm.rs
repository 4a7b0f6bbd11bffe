//! The algorithm of a solver, in MIOpen's words.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::problem::Direction;

/// What kind of computation a solver is. The find db and the kernel db group solvers by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Algorithm {
    /// `GEMM`: im2col and a library's matrix product, or that alone for 1x1 filters.
    Gemm,
    /// `Direct`: sums over the filter as the definition says.
    Direct,
    /// `FFT`: a product of the transforms of both; not for weights.
    Fft,
    /// `Winograd`: minimal filtering of small tiles, with fewer multiplications.
    Winograd,
    /// `ImplicitGEMM`: a matrix product whose matrix is never laid out in memory.
    ImplicitGemm,
}

/// A text that names no algorithm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("algorithm: found {found:?}, expected one of GEMM Direct FFT Winograd ImplicitGEMM")]
pub struct UnknownAlgorithm {
    found: String,
}

impl Algorithm {
    /// Every algorithm, in the order of MIOpen's numbers, 0 to 3 and 5.
    pub const ALL: [Self; 5] = [Self::Gemm, Self::Direct, Self::Fft, Self::Winograd, Self::ImplicitGemm];

    /// MIOpen's name: what follows `miopenConvolutionFwdAlgo`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gemm => "GEMM",
            Self::Direct => "Direct",
            Self::Fft => "FFT",
            Self::Winograd => "Winograd",
            Self::ImplicitGemm => "ImplicitGEMM",
        }
    }

    /// What MIOpen's find db calls it for a convolution of `direction`; `None` where MIOpen has none: there is no FFT for weights.
    #[must_use]
    pub fn miopen_name(self, direction: Direction) -> Option<String> {
        self.is_of(direction).then(|| format!("{}{self}", miopen_prefix(direction)))
    }

    /// The one that MIOpen's find db calls `name` for a convolution of `direction`.
    #[must_use]
    pub fn of_miopen(name: &str, direction: Direction) -> Option<Self> {
        let name = name.strip_prefix(miopen_prefix(direction))?;
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name && algorithm.is_of(direction))
    }

    /// Whether MIOpen has it for convolutions of `direction`.
    fn is_of(self, direction: Direction) -> bool {
        !(self == Self::Fft && direction == Direction::BackwardWeights)
    }
}

/// What the names of all algorithms of `direction` begin with.
fn miopen_prefix(direction: Direction) -> &'static str {
    match direction {
        Direction::Forward => "miopenConvolutionFwdAlgo",
        Direction::BackwardData => "miopenConvolutionBwdDataAlgo",
        Direction::BackwardWeights => "miopenConvolutionBwdWeightsAlgo",
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = || UnknownAlgorithm { found: text.chars().take(32).collect() };
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == text).ok_or_else(found)
    }
}
