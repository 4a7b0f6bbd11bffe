//! A wave.

use crate::matrix::Factors;
use crate::number::Mode;
use crate::order::Order;
use crate::pending::Pending;
use crate::registers::{LANES, Registers, Vgpr};
use crate::target::Target;
use crate::verdict::Met;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    /// Running, behind an access by which waves may tell what others have done.
    Synced,
    AtBarrier,
    Ended,
}

/// Lanes that a barrier was the first to be without.
pub(crate) struct Skipped {
    pub lanes: u64,
    /// The lanes that came to it.
    pub came: u64,
    /// Index of the barrier.
    pub at: usize,
    /// The round of numbers behind the last barrier that these lanes came to.
    pub span: u32,
}

pub(crate) struct Wave {
    pub registers: Registers,
    /// Index of the next instruction.
    pub at: usize,
    pub state: State,
    pub mode: Mode,
    pub mode_bits: u32,
    pub pending: Pending,
    /// Barriers that it has passed.
    pub barriers: u32,
    /// Indices of instructions: where it waited at the first barrier for which another wave waited elsewhere; which wave, and where.
    pub elsewhere: Option<(usize, u32, usize)>,
    /// Lanes that barriers were without.
    pub skipped: Vec<Skipped>,
    /// EXEC has all lanes for the compiler's own purposes. Known where barriers were without lanes.
    pub whole: bool,
    /// Within the block.
    pub number: u32,
    /// Lanes that exist.
    pub lanes: u64,
    /// Address of its scratch.
    pub scratch: u64,
    /// What the first value was that was loaded though nobody had written it.
    pub origin: Option<String>,
    pub order: Order,
    /// The first race that left a value open which it has read.
    pub raced: Option<Box<Met>>,
    /// Registers are indexed by M0.
    pub indexed: bool,
}

/// The most registers that one access of whole dwords loads.
pub(crate) const MOST_LOADED: usize = 4;

/// Room for the values of one instruction.
pub(crate) struct Temporaries {
    pub sources: [Vgpr; 3],
    pub out: Vgpr,
    pub second: Vgpr,
    pub wide: [[u64; LANES]; 3],
    pub wide_out: [u64; LANES],
    /// What an access loads, until all of it is there.
    pub loaded: [Vgpr; MOST_LOADED],
    /// A and B of a matrix instruction, where there is one.
    pub factors: Option<Box<Factors>>,
}

impl Temporaries {
    pub fn new() -> Box<Self> {
        Box::new(Self {
            sources: [[0; LANES]; 3],
            out: [0; LANES],
            second: [0; LANES],
            wide: [[0; LANES]; 3],
            wide_out: [0; LANES],
            loaded: [[0; LANES]; MOST_LOADED],
            factors: None,
        })
    }
}

impl Wave {
    pub fn new(target: &Target, lanes: usize) -> Self {
        Self {
            registers: Registers::new(lanes),
            at: 0,
            state: State::Running,
            barriers: 0,
            elsewhere: None,
            skipped: Vec::new(),
            whole: false,
            mode: Mode { ocp: target.has_ocp(), ..Mode::default() },
            mode_bits: 0,
            pending: Pending::new(target.most_scalar()),
            number: 0,
            lanes: 0,
            scratch: 0,
            origin: None,
            order: Order::default(),
            raced: None,
            indexed: false,
        }
    }

    pub fn set_mode(&mut self, bits: u32) {
        self.mode_bits = bits;
        self.mode = Mode { ocp: self.mode.ocp, ..Mode::from_bits(bits) };
    }
}
