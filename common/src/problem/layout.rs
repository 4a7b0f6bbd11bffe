//! Tensor layouts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How a tensor lies in memory. Weights use the same names: N stands for K there, H and W for the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Layout {
    /// `miopenTensorNCHW`: the default in 2D.
    Nchw,
    /// `miopenTensorNHWC`: channels innermost.
    Nhwc,
    /// `miopenTensorCHWN`: the batch innermost.
    Chwn,
    /// `miopenTensorNCDHW`: the default in 3D.
    Ncdhw,
    /// `miopenTensorNDHWC`: 3D, channels innermost.
    Ndhwc,
    /// Channels in vectors of 4, innermost.
    NchwC4,
    /// Channels in vectors of 8, innermost.
    NchwC8,
    /// CHWN, with channels in vectors of 4, innermost.
    ChwnC4,
    /// CHWN, with channels in vectors of 8, innermost.
    ChwnC8,
}

/// A text that names no layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("layout: found {found:?}, expected one of NCHW NHWC CHWN NCDHW NDHWC NCHWc4 NCHWc8 CHWNc4 CHWNc8")]
pub struct UnknownLayout {
    found: String,
}

impl Layout {
    /// Every layout.
    pub const ALL: [Self; 9] = [
        Self::Nchw,
        Self::Nhwc,
        Self::Chwn,
        Self::Ncdhw,
        Self::Ndhwc,
        Self::NchwC4,
        Self::NchwC8,
        Self::ChwnC4,
        Self::ChwnC8,
    ];

    /// The layout that a tensor has when nobody asks for one.
    #[must_use]
    pub const fn default_for(spatial: u32) -> Self {
        if spatial == 3 { Self::Ncdhw } else { Self::Nchw }
    }

    /// MIOpen's name, in which the vector lengths 4 and 8 look the same.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NchwC4 | Self::NchwC8 => "NCHWc",
            Self::ChwnC4 | Self::ChwnC8 => "CHWNc",
            other => other.order(),
        }
    }

    /// The dimensions from outermost to innermost, without the vector.
    #[must_use]
    pub const fn order(self) -> &'static str {
        match self {
            Self::Nchw | Self::NchwC4 | Self::NchwC8 => "NCHW",
            Self::Chwn | Self::ChwnC4 | Self::ChwnC8 => "CHWN",
            Self::Nhwc => "NHWC",
            Self::Ncdhw => "NCDHW",
            Self::Ndhwc => "NDHWC",
        }
    }

    /// Spatial dimensions: 2 or 3.
    #[must_use]
    pub const fn spatial(self) -> u32 {
        match self {
            Self::Ncdhw | Self::Ndhwc => 3,
            _ => 2,
        }
    }

    /// Channels in one vector: 1, 4 or 8.
    #[must_use]
    pub const fn vector_length(self) -> u32 {
        match self {
            Self::NchwC4 | Self::ChwnC4 => 4,
            Self::NchwC8 | Self::ChwnC8 => 8,
            _ => 1,
        }
    }

    /// This layout with its channels in vectors of `length`, where such a layout exists.
    #[must_use]
    pub fn with_vector(self, length: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.order() == self.order() && layout.vector_length() == length)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.vector_length() {
            1 => f.write_str(self.order()),
            length => write!(f, "{}c{length}", self.order()),
        }
    }
}

impl FromStr for Layout {
    type Err = UnknownLayout;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|layout| layout.to_string() == text)
            .ok_or_else(|| UnknownLayout { found: text.chars().take(32).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for layout in Layout::ALL {
            assert_eq!(layout.to_string().parse(), Ok(layout));
        }
        assert!("NCHWc".parse::<Layout>().is_err());
    }
}
