//! Instructions that move data between lanes, or between registers of a lane.

use super::Source;

/// Data that moves between lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// To the lane of an address.
    Permute {
        to: u16,
        address: u16,
        data: u16,
        offset: u32,
    },
    /// From the lane of an address.
    BackwardPermute {
        to: u16,
        address: u16,
        data: u16,
        offset: u32,
        /// Lanes that EXEC leaves out are read.
        fetch_inactive: bool,
    },
    Swizzle {
        to: u16,
        data: u16,
        how: u16,
    },
}

/// A vector instruction across lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cross {
    ReadLane {
        to: u8,
        from: u16,
        lane: Source,
    },
    ReadFirstLane {
        to: u8,
        from: u16,
    },
    WriteLane {
        to: u16,
        value: Source,
        lane: Source,
    },
    /// V_PERMLANE16, V_PERMLANEX16.
    PermuteRow {
        to: u16,
        from: u16,
        selects: [Source; 2],
        crossed: bool,
        fetch_inactive: bool,
        bound_zero: bool,
    },
    /// V_PERMLANE16_VAR, V_PERMLANEX16_VAR: each lane has a selector of its own.
    PermuteByLane {
        to: u16,
        from: u16,
        select: u16,
        crossed: bool,
        fetch_inactive: bool,
        bound_zero: bool,
    },
    /// V_PERMLANE64.
    ExchangeHalves {
        to: u16,
        from: u16,
    },
    Swap(u16, u16),
    /// V_SWAP_B16: halves, the upper one where it is true.
    SwapHalves([(u16, bool); 2]),
    /// V_SWAPREL_B32: the first register is bits 16 to 25 of M0 further, the second one bits 0 to 9.
    SwapRelative(u16, u16),
    /// V_PERMLANE16_SWAP, V_PERMLANE32_SWAP: of each two rows of so many lanes, the upper one of the first register and the lower one of the
    /// second.
    SwapRows {
        first: u16,
        second: u16,
        rows: usize,
    },
}
