//! Conversions with a scale (V_CVT_SCALEF32 of gfx950): of FP4, FP6 and BF6, FP8 and BF8, from and to FP32, FP16 and BF16.
//!
//! The scale is the exponent of an FP32 alone: two to it multiplies what becomes wider, and divides what becomes narrower. It is E8M0,
//! whose largest code is a NaN and whose 0 is 2^-127 ("Small Float Data Format Conversion ops with SCALE", CDNA 4; how digits are
//! lost, and what comes of infinities and NaNs, is as in HIP's `amd_hip_ocp_host.hpp`, which is written after gfx950).

use super::newer::next_random;
use super::vector::{Definition, define, lanes, wide};
use crate::number::{self, Behaviour, Eight, F16, F32, Mode, Rounding};

type Row = (&'static str, Definition);

const FP8: Eight = Eight::OcpE4M3;
const BF8: Eight = Eight::OcpE5M2;

/// Rounding to the nearest with denormals, whatever MODE says.
const EXACT: Mode = Mode {
    single: Behaviour::IEEE,
    half_double: Behaviour::IEEE,
    dx10_clamp: true,
    ieee: true,
    clamp_overflow: false,
    ocp: true,
};

fn scale(value: u32) -> f32 {
    match value >> 23 & 0xff {
        0xff => f32::NAN,
        0 => f32::from_bits(1 << 22),
        field => f32::from_bits(field << 23),
    }
}

/// A NaN has the sign of the value.
fn changed(value: f32, by: f32, changed: f32) -> u32 {
    if value.is_nan() || by.is_nan() { f32::NAN.copysign(value).to_bits() } else { changed.to_bits() }
}

/// What becomes wider: exact.
fn multiplied(value: f32, by: u32) -> u32 {
    let by = scale(by);
    changed(value, by, value * by)
}

/// What becomes narrower: exact but for what is too large or too small for any of the narrow formats.
fn divided(value: u32, by: u32) -> u32 {
    let (value, by) = (f32::from_bits(value), scale(by));
    changed(value, by, value / by)
}

/// An FP32 as MODE has it, whose denormals may be zeros.
fn single(mode: &Mode, value: u32) -> u32 {
    if mode.single.flush_in && value & 0x7f80_0000 == 0 { value & 1 << 31 } else { value }
}

/// The elements that conversions have, as FP32 and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    Single,
    Half,
    Brain,
    Fp8,
    Bf8,
    Fp6,
    Bf6,
    Fp4,
}

impl Element {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "f32" => Self::Single,
            "f16" => Self::Half,
            "bf16" => Self::Brain,
            "fp6" => Self::Fp6,
            "bf6" => Self::Bf6,
            _ => return None,
        })
    }

    pub fn bits(self) -> usize {
        match self {
            Self::Single => 32,
            Self::Half | Self::Brain => 16,
            Self::Fp8 | Self::Bf8 => 8,
            Self::Fp6 | Self::Bf6 => 6,
            Self::Fp4 => 4,
        }
    }

    /// Digits behind the leading one.
    fn digits(self) -> u32 {
        match self {
            Self::Single => 23,
            Self::Half => 10,
            Self::Brain => 7,
            Self::Fp8 | Self::Fp6 => 3,
            Self::Bf8 | Self::Bf6 => 2,
            Self::Fp4 => 1,
        }
    }

    /// The one that is in the lowest bits.
    fn read(self, mode: &Mode, word: u32) -> u32 {
        match self {
            Self::Single => single(mode, word),
            Self::Half => number::half_to_single(word as u16).to_bits(),
            Self::Brain => word << 16,
            Self::Fp8 => number::eight_to_f32(FP8, word as u8),
            Self::Bf8 => number::eight_to_f32(BF8, word as u8),
            Self::Fp6 => number::small_to_f32(word & 63, 2, 3).to_bits(),
            Self::Bf6 => number::small_to_f32(word & 63, 3, 2).to_bits(),
            Self::Fp4 => number::small_to_f32(word & 15, 2, 1).to_bits(),
        }
    }

    fn write(self, mode: &Mode, value: u32, rounding: Rounding) -> u32 {
        match self {
            Self::Single => value,
            Self::Half => u32::from(number::resize::<F32, F16>(&EXACT, value)),
            Self::Brain => u32::from(number::bf16_from_f32(value)),
            Self::Fp8 => u32::from(number::eight_rounded(mode, FP8, value, rounding)),
            Self::Bf8 => u32::from(number::eight_rounded(mode, BF8, value, rounding)),
            Self::Fp6 => number::small_from_f32(value, 2, 3, rounding),
            Self::Bf6 => number::small_from_f32(value, 3, 2, rounding),
            Self::Fp4 => number::small_from_f32(value, 2, 1, rounding),
        }
    }

    /// Converts the one in the lowest bits of a word, to the nearest or by a random number.
    fn convert(self, to: Element, mode: &Mode, word: u32, by: u32, random: Option<u32>) -> u32 {
        let value = self.read(mode, word);
        if self.bits() < to.bits() {
            return to.write(mode, multiplied(f32::from_bits(value), by), Rounding::Nearest);
        }
        let digits = self.digits();
        let rounding = random.map_or(Rounding::Nearest, |random| Rounding::Stochastic { random, digits });
        to.write(mode, divided(value, by), rounding)
    }
}

/// Converts two elements of a word.
fn pair(from: Element, to: Element, mode: &Mode, word: u32, by: u32, random: Option<[u32; 2]>) -> u32 {
    let [low, high] =
        [0, 1].map(|at| from.convert(to, mode, word >> (at * from.bits()), by, random.map(|random| random[at])));
    low | high << to.bits()
}

/// Conversions of one element or of two.
pub(crate) fn rows() -> Vec<Row> {
    use Element::{Bf8, Brain, Fp4, Fp8, Half, Single};
    macro_rules! widened {
        ($from:ident) => {
            define!(U64 [U32 F32]; wide!(|mode, a, b, _| {
                let [low, high] = [0, 1].map(|at| {
                    u64::from($from.convert(Single, mode, a as u32 >> (at * $from.bits()), b as u32, None))
                });
                low | high << 32
            }))
        };
    }
    macro_rules! packed {
        ($from:ident $to:ident) => {
            define!(U32 [U32 F32]; lanes!(|mode, a, b, _| pair($from, $to, mode, a, b, None)))
        };
    }
    macro_rules! to_word {
        ($from:ident $to:ident) => {
            define!(U16 [U32 F32] keeps; lanes!(|mode, a, b, _| pair($from, $to, mode, a, b, None)))
        };
    }
    macro_rules! singles {
        ($result:ident $($flag:ident)*, $to:ident) => {
            define!($result [F32 F32 F32] $($flag)*; lanes!(|mode, a, b, c| {
                let [low, high] = [a, b].map(|value| Single.convert($to, mode, value, c, None));
                low | high << $to.bits()
            }))
        };
    }
    macro_rules! random {
        ($kind:ident $from:ident $to:ident) => {
            define!(U32 [$kind U32 F32]; lanes!(|mode, a, b, c| $from.convert($to, mode, a, c, Some(b))))
        };
    }
    macro_rules! random_pair {
        ($from:ident) => {
            define!(U32 [U32 U32 F32]; lanes!(|mode, a, b, c| {
                pair($from, Fp4, mode, a, c, Some([b, next_random(b)]))
            }))
        };
    }
    vec![
        ("cvt_scalef32_pk_f32_fp8", widened!(Fp8)),
        ("cvt_scalef32_pk_f32_bf8", widened!(Bf8)),
        ("cvt_scalef32_pk_f32_fp4", widened!(Fp4)),
        ("cvt_scalef32_pk_f16_fp8", packed!(Fp8 Half)),
        ("cvt_scalef32_pk_f16_bf8", packed!(Bf8 Half)),
        ("cvt_scalef32_pk_f16_fp4", packed!(Fp4 Half)),
        ("cvt_scalef32_pk_bf16_fp8", packed!(Fp8 Brain)),
        ("cvt_scalef32_pk_bf16_bf8", packed!(Bf8 Brain)),
        ("cvt_scalef32_pk_bf16_fp4", packed!(Fp4 Brain)),
        ("cvt_scalef32_f32_fp8", define!(F32 [U32 F32]; lanes!(|mode, a, b, _| Fp8.convert(Single, mode, a, b, None)))),
        ("cvt_scalef32_f32_bf8", define!(F32 [U32 F32]; lanes!(|mode, a, b, _| Bf8.convert(Single, mode, a, b, None)))),
        (
            "cvt_scalef32_f16_fp8",
            define!(F16 [U32 F32] keeps; lanes!(|mode, a, b, _| Fp8.convert(Half, mode, a, b, None))),
        ),
        (
            "cvt_scalef32_f16_bf8",
            define!(F16 [U32 F32] keeps; lanes!(|mode, a, b, _| Bf8.convert(Half, mode, a, b, None))),
        ),
        ("cvt_scalef32_pk_fp8_f32", singles!(U16 keeps, Fp8)),
        ("cvt_scalef32_pk_bf8_f32", singles!(U16 keeps, Bf8)),
        ("cvt_scalef32_pk_fp4_f32", singles!(U32, Fp4)),
        ("cvt_scalef32_pk_fp8_f16", to_word!(Half Fp8)),
        ("cvt_scalef32_pk_bf8_f16", to_word!(Half Bf8)),
        ("cvt_scalef32_pk_fp8_bf16", to_word!(Brain Fp8)),
        ("cvt_scalef32_pk_bf8_bf16", to_word!(Brain Bf8)),
        ("cvt_scalef32_pk_fp4_f16", packed!(Half Fp4)),
        ("cvt_scalef32_pk_fp4_bf16", packed!(Brain Fp4)),
        ("cvt_scalef32_sr_fp8_f32", random!(F32 Single Fp8)),
        ("cvt_scalef32_sr_bf8_f32", random!(F32 Single Bf8)),
        ("cvt_scalef32_sr_fp8_f16", random!(F16 Half Fp8)),
        ("cvt_scalef32_sr_bf8_f16", random!(F16 Half Bf8)),
        ("cvt_scalef32_sr_fp8_bf16", random!(F16 Brain Fp8)),
        ("cvt_scalef32_sr_bf8_bf16", random!(F16 Brain Bf8)),
        ("cvt_scalef32_sr_pk_fp4_f16", random_pair!(Half)),
        ("cvt_scalef32_sr_pk_fp4_bf16", random_pair!(Brain)),
        (
            "cvt_scalef32_sr_pk_fp4_f32",
            define!(U32 [U64 U32 F32]; wide!(|mode, a, b, c| {
                let random = [b as u32, next_random(b as u32)];
                let [low, high] = [0, 1].map(|at| {
                    Single.convert(Fp4, mode, (a >> (32 * at)) as u32, c as u32, Some(random[at]))
                });
                u64::from(low | high << 4)
            })),
        ),
    ]
}

/// A conversion of 32 elements, which are in several registers one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    pub from: Element,
    pub to: Element,
    /// Each element has the random number behind the one before.
    pub stochastic: bool,
    /// There are two sources, which have elements in turns.
    pub two: bool,
}

/// Elements of a block.
pub(crate) const BLOCK: usize = 32;

/// The conversion of 32 elements of that name.
pub(crate) fn blocks(name: &str) -> Option<Blocks> {
    let rest = name.strip_prefix("cvt_scalef32_")?;
    let (stochastic, rest) = rest.strip_prefix("sr_").map_or((false, rest), |rest| (true, rest));
    let (two, formats) = match rest.strip_prefix("pk32_") {
        Some(formats) => (false, formats),
        None => (true, rest.strip_prefix("2xpk16_")?),
    };
    let (to, from) = formats.split_once('_')?;
    Some(Blocks { from: Element::named(from)?, to: Element::named(to)?, stochastic, two })
}

impl Blocks {
    /// Registers of a source and of the result.
    pub fn registers(&self) -> [usize; 2] {
        let elements = if self.two { BLOCK / 2 } else { BLOCK };
        [elements * self.from.bits() / 32, BLOCK * self.to.bits() / 32]
    }

    /// The elements, which are in the lowest bits of their words, converted.
    pub fn convert(&self, mode: &Mode, elements: &[u32; BLOCK], by: u32, mut random: u32) -> [u32; BLOCK] {
        elements.map(|element| {
            let own = self.stochastic.then_some(random);
            random = next_random(random);
            self.from.convert(self.to, mode, element, by, own)
        })
    }
}
