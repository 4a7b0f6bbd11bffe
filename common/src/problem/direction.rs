//! Directions of convolutions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::ProblemError;

/// Which of a convolution's three tensors is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Direction {
    /// y from x and w.
    Forward,
    /// dx from dy and w.
    BackwardData,
    /// dw from x and dy.
    BackwardWeights,
}

impl Direction {
    /// Every direction, in the order of the driver's bits.
    pub const ALL: [Self; 3] = [Self::Forward, Self::BackwardData, Self::BackwardWeights];

    /// MIOpen's letter: F, B or W.
    #[must_use]
    pub const fn letter(self) -> &'static str {
        match self {
            Self::Forward => "F",
            Self::BackwardData => "B",
            Self::BackwardWeights => "W",
        }
    }

    /// The bit of the driver's `-F`.
    #[must_use]
    pub const fn driver_bit(self) -> u32 {
        match self {
            Self::Forward => 1,
            Self::BackwardData => 2,
            Self::BackwardWeights => 4,
        }
    }

    /// The direction that a transposed convolution's direction is, seen as a plain convolution.
    pub(super) const fn of_transposed(self) -> Self {
        match self {
            Self::Forward => Self::BackwardData,
            Self::BackwardData => Self::Forward,
            Self::BackwardWeights => Self::BackwardWeights,
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.letter())
    }
}

impl FromStr for Direction {
    type Err = ProblemError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|direction| direction.letter() == text).ok_or_else(|| {
            ProblemError::new("direction", format_args!("{:?}", text.chars().take(32).collect::<String>()), "F, B or W")
        })
    }
}
