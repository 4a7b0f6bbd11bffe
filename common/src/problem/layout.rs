//! Tensor layouts, and the labels that MIOpen's keys print for them.

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

/// A layout as a key prints it: any order of the dimensions, because MIOpen sorts them by stride and sizes of one make
/// orders that no user asked for (an NHWC tensor with one channel and width 1 is labelled `NHCW`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LayoutLabel {
    /// `NCHW` or `NCDHW` permuted; a 2D label leaves the last byte zero.
    letters: [u8; 5],
    vector: bool,
}

impl LayoutLabel {
    /// Reads a label of the key of a problem with `spatial` dimensions.
    #[must_use]
    pub fn parse(text: &str, spatial: u32) -> Option<Self> {
        let (order, vector) = match text.strip_suffix('c') {
            Some(order) => (order, true),
            None => (text, false),
        };
        let expected: &[u8] = if spatial == 3 { b"NCDHW" } else { b"NCHW" };
        let complete = order.len() == expected.len() && expected.iter().all(|letter| order.as_bytes().contains(letter));
        complete.then(|| Self::from_letters(order.bytes(), vector))
    }

    pub(super) fn from_letters(order: impl IntoIterator<Item = u8>, vector: bool) -> Self {
        let mut letters = [0; 5];
        letters.iter_mut().zip(order).for_each(|(slot, letter)| *slot = letter);
        Self { letters, vector }
    }

    /// Whether the channels lie in vectors.
    #[must_use]
    pub fn is_vector(self) -> bool {
        self.vector
    }

    /// Whether this is the layout that keys print only once for all three tensors.
    #[must_use]
    pub fn is_default(self) -> bool {
        !self.vector && matches!(&self.letters, b"NCHW\0" | b"NCDHW")
    }

    /// The layout of this name. A vector layout is taken to have vectors of 4, as labels do not tell.
    #[must_use]
    pub fn layout(self) -> Option<Layout> {
        Layout::ALL.into_iter().find(|layout| Self::from(*layout) == self)
    }
}

impl From<Layout> for LayoutLabel {
    fn from(layout: Layout) -> Self {
        Self::from_letters(layout.order().bytes(), layout.vector_length() > 1)
    }
}

impl fmt::Display for LayoutLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = self.letters.iter().take_while(|letter| **letter != 0).map(|letter| char::from(*letter));
        letters.chain(self.vector.then_some('c')).try_for_each(|letter| write!(f, "{letter}"))
    }
}

impl fmt::Debug for LayoutLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for layout in Layout::ALL {
            assert_eq!(layout.to_string().parse(), Ok(layout));
            let label = LayoutLabel::parse(layout.name(), layout.spatial()).unwrap();
            assert_eq!(label.to_string(), layout.name());
            assert_eq!(label, LayoutLabel::from(layout));
        }
        assert!("NCHWc".parse::<Layout>().is_err());
    }

    #[test]
    fn a_label_has_every_dimension_once() {
        assert_eq!(LayoutLabel::parse("NHCW", 2).unwrap().layout(), None);
        for (wrong, spatial) in [("NCHH", 2), ("NCHW", 3), ("NCDHW", 2), ("nchw", 2), ("", 2), ("c", 2)] {
            assert_eq!(LayoutLabel::parse(wrong, spatial), None, "{wrong}");
        }
    }
}
