//! Where an instruction on images goes.

/// A descriptor, and coordinates of texels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImageAddress {
    /// The first register of the descriptor, and how many it has: four, or eight.
    pub descriptor: u8,
    pub words: u8,
    /// Coordinates, and a level behind them: one in each register, or two with `halves`.
    pub registers: [Option<u16>; 4],
    pub halves: bool,
    pub extent: Extent,
    /// There is a level.
    pub leveled: bool,
    /// The coordinates are floats.
    pub sampling: Option<Sampling>,
}

/// What a sample of an image has beside its coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sampling {
    /// The first register of the sampler's descriptor, which has four.
    pub sampler: u8,
    /// What is ahead of the coordinates: an offset, if `moves`; a bias and derivatives, which choose among levels.
    pub ahead: [Option<u16>; Self::AHEAD],
    pub moves: bool,
    /// Coordinates count texels, whatever the sampler says.
    pub unnormalized: bool,
    /// One component of the four texels that a linear filter is made of.
    pub gathers: bool,
}

impl Sampling {
    /// An offset, and derivatives of three coordinates in two directions.
    pub const AHEAD: usize = 7;
}

impl ImageAddress {
    /// All registers of the address.
    pub fn vgprs(&self) -> Vec<u16> {
        let ahead = self.sampling.iter().flat_map(|sampling| sampling.ahead);
        ahead.chain(self.registers).flatten().collect()
    }
}

/// What an image is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// One dimension.
    Line,
    /// Two.
    Plane,
    /// Three.
    Volume,
    /// An array of images of one dimension.
    Lines,
    /// An array of images of two.
    Planes,
}

impl Extent {
    /// That of the field "DIM" of an instruction, if it is executed.
    pub fn of(dim: u8) -> Option<Self> {
        Some(match dim {
            0 => Self::Line,
            1 => Self::Plane,
            2 => Self::Volume,
            4 => Self::Lines,
            5 => Self::Planes,
            _ => return None,
        })
    }

    /// "TYPE" of its descriptor.
    pub fn number(self) -> u64 {
        match self {
            Self::Line => 8,
            Self::Plane => 9,
            Self::Volume => 10,
            Self::Lines => 12,
            Self::Planes => 13,
        }
    }

    /// Whether there are rows.
    pub fn has_rows(self) -> bool {
        matches!(self, Self::Plane | Self::Volume | Self::Planes)
    }

    /// Whether there are slices, or elements of an array.
    pub fn has_slices(self) -> bool {
        matches!(self, Self::Volume | Self::Lines | Self::Planes)
    }

    /// Whether these are elements of an array.
    pub fn is_array(self) -> bool {
        matches!(self, Self::Lines | Self::Planes)
    }

    /// How many coordinates a texel has.
    pub fn coordinates(self) -> usize {
        1 + usize::from(self.has_rows()) + usize::from(self.has_slices())
    }
}
