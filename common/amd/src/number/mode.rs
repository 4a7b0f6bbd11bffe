//! The MODE register: rounding, denormals, and how NaNs and overflows are treated.

use rustc_apfloat::Round as ExactRound;

/// Direction of rounding, in the order of the register's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    NearestEven,
    Up,
    Down,
    ToZero,
}

impl Round {
    fn from_bits(bits: u32) -> Round {
        match bits & 3 {
            0 => Round::NearestEven,
            1 => Round::Up,
            2 => Round::Down,
            _ => Round::ToZero,
        }
    }

    pub(super) fn exact(self) -> ExactRound {
        match self {
            Round::NearestEven => ExactRound::NearestTiesToEven,
            Round::Up => ExactRound::TowardPositive,
            Round::Down => ExactRound::TowardNegative,
            Round::ToZero => ExactRound::TowardZero,
        }
    }
}

/// What MODE says of one group of formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    pub round: Round,
    /// Denormal inputs are zeros of their sign.
    pub flush_in: bool,
    /// Denormal results are zeros of their sign.
    pub flush_out: bool,
}

impl Behaviour {
    /// Rounds to the nearest and keeps denormals, whatever MODE says.
    pub const IEEE: Behaviour = Behaviour { round: Round::NearestEven, flush_in: false, flush_out: false };

    fn from_bits(round: u32, denormals: u32) -> Behaviour {
        Behaviour { round: Round::from_bits(round), flush_in: denormals & 1 == 0, flush_out: denormals & 2 == 0 }
    }

    /// The same with all denormals flushed.
    pub(super) fn flushed(self) -> Behaviour {
        Behaviour { flush_in: true, flush_out: true, ..self }
    }
}

/// The MODE register's part that concerns numbers ("Mode register" in the CDNA 3 and RDNA 3 documents).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    pub single: Behaviour,
    /// FP16 and FP64 share their fields.
    pub half_double: Behaviour,
    /// `clamp` makes 0 of a NaN.
    pub dx10_clamp: bool,
    /// `min`, `max` and `med3` return a signalling NaN, quieted, instead of passing over it; `omod` is ignored.
    pub ieee: bool,
    /// An FP16, FP8 or BF8 result that overflows is the largest finite number (FP16_OVFL).
    pub clamp_overflow: bool,
    /// FP8 and BF8 are those of the Open Compute Project: no part of MODE, but of the target.
    pub ocp: bool,
}

impl Mode {
    /// From the register's bits: rounding 0-3, denormals 4-7, DX10_CLAMP 8, IEEE 9, FP16_OVFL 23. Bits 12-19 of a kernel
    /// descriptor's rsrc1 are bits 0-7 here; its bits 21, 23 and 26 are DX10_CLAMP, IEEE and FP16_OVFL.
    pub fn from_bits(bits: u32) -> Mode {
        Mode {
            single: Behaviour::from_bits(bits, bits >> 4),
            half_double: Behaviour::from_bits(bits >> 2, bits >> 6),
            dx10_clamp: bits >> 8 & 1 == 1,
            ieee: bits >> 9 & 1 == 1,
            ocp: false,
            clamp_overflow: bits >> 23 & 1 == 1,
        }
    }
}

impl Default for Mode {
    /// What LLVM sets up for a compute kernel: nearest even, all denormals, DX10_CLAMP and IEEE.
    fn default() -> Mode {
        Mode {
            single: Behaviour::IEEE,
            half_double: Behaviour::IEEE,
            dx10_clamp: true,
            ieee: true,
            ocp: false,
            clamp_overflow: false,
        }
    }
}
