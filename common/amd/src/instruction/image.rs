//! Where an instruction on images goes.

/// A descriptor, and coordinates of texels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImageAddress {
    /// The first register of the descriptor, and how many it has: four, or eight.
    pub descriptor: u8,
    pub words: u8,
    /// Coordinates, and a level behind them: one in each register, or two with `halves`.
    pub registers: [Option<u16>; 3],
    pub halves: bool,
    pub dimensions: u8,
    /// There is a level.
    pub leveled: bool,
}
