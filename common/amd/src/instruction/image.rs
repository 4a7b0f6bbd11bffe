//! Where an instruction on images goes.

/// A descriptor, and coordinates of texels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImageAddress {
    /// The first register of the descriptor, and how many it has: four, or eight.
    pub descriptor: u8,
    pub words: u8,
    /// As many as there are dimensions; with `halves`, the first register has both. Of the size of an image, a level.
    pub coordinates: [Option<u16>; 2],
    pub halves: bool,
    pub dimensions: u8,
}
