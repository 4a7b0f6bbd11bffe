//! Layouts as keys print them.

use std::fmt;

use bluefin_common::problem::Layout;

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
            let label = LayoutLabel::parse(layout.name(), layout.spatial()).unwrap();
            assert_eq!(label.to_string(), layout.name());
            assert_eq!(label, LayoutLabel::from(layout));
        }
    }

    #[test]
    fn a_label_has_every_dimension_once() {
        assert_eq!(LayoutLabel::parse("NHCW", 2).unwrap().layout(), None);
        for (wrong, spatial) in [("NCHH", 2), ("NCHW", 3), ("NCDHW", 2), ("nchw", 2), ("", 2), ("c", 2)] {
            assert_eq!(LayoutLabel::parse(wrong, spatial), None, "{wrong}");
        }
    }
}
