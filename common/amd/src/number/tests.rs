//! Against APFloat, against the documents' examples, and over all values where these are few.

mod arithmetic;
mod conversions;
mod division;
mod dot;
mod eight_bit;
mod functions;
mod ordering;

use super::format::{is_denormal, is_nan};
use super::mode::Round;
use super::{Behaviour, F16, F32, F64, Format, Mode};

/// FP32's and FP64's specials and neighbours of what rounding cares about, FP16's made of them.
fn edges<F: Format>() -> Vec<F::Bits> {
    let step = 1 << F::MANTISSA_BITS;
    let positive = [
        0,
        1,
        2,
        F::MANTISSA,
        step,
        step + 1,
        F::ONE - 1,
        F::ONE,
        F::ONE + 1,
        F::ONE + F::MANTISSA,
        F::ONE + F::QUIET,
        F::ONE - step,
        F::ONE + step,
        F::ONE + step * 12,
        F::ONE - step * 12,
        F::INFINITY - step,
        F::INFINITY - 1,
        F::INFINITY,
        // A signalling and a quiet NaN with a payload.
        F::INFINITY | 5,
        F::INFINITY | F::QUIET | 3,
    ];
    positive.iter().flat_map(|&bits| [F::narrow(bits), F::narrow(bits | F::SIGN)]).collect()
}

/// Bits at random.
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// An integer from `-most` to `most`.
    pub(crate) fn integer(&mut self, most: i64) -> i64 {
        (self.next() >> 11) as i64 % (2 * most + 1) - most
    }

    /// Of exponents that meet each other more often than not.
    fn value<F: Format>(&mut self) -> F::Bits {
        let bits = self.next();
        if self.next().is_multiple_of(4) {
            return F::narrow(bits);
        }
        let near = (F::BIAS as u64 - 6 + self.next() % 12) << F::MANTISSA_BITS;
        // Few digits, so that ties and exact results happen.
        let digits = F::MANTISSA << (self.next() % u64::from(F::MANTISSA_BITS));
        F::narrow(bits & F::SIGN | near | bits & digits & F::MANTISSA)
    }
}

const ROUNDS: [Round; 4] = [Round::NearestEven, Round::Up, Round::Down, Round::ToZero];

fn rounding(round: Round) -> Mode {
    let how = Behaviour { round, ..Behaviour::IEEE };
    Mode { single: how, half_double: how, ..Mode::default() }
}

fn flushing(flush_in: bool, flush_out: bool) -> Mode {
    let how = Behaviour { flush_in, flush_out, ..Behaviour::IEEE };
    Mode { single: how, half_double: how, ..Mode::default() }
}

fn single(value: f32) -> u32 {
    value.to_bits()
}

#[test]
fn the_register_is_read_field_by_field() {
    assert_eq!(Mode::from_bits(0x3f0), Mode { ..Mode::default() }, "what LLVM sets: all denormals, DX10_CLAMP, IEEE");
    let mode = Mode::from_bits(0b10 << 4 | 0b01 << 6 | 0b01 | 0b10 << 2 | 1 << 23);
    assert_eq!(mode.single, Behaviour { round: Round::Up, flush_in: true, flush_out: false });
    assert_eq!(mode.half_double, Behaviour { round: Round::Down, flush_in: false, flush_out: true });
    assert!(mode.clamp_overflow && !mode.ieee && !mode.dx10_clamp);
    assert_eq!(Mode::from_bits(0xf).single.round, Round::ToZero);
}

#[test]
fn edges_are_what_they_say() {
    assert!(edges::<F16>().contains(&0x7c05) && edges::<F16>().contains(&0xfe03));
    assert!(edges::<F32>().iter().any(|&bits| is_denormal::<F32>(bits)));
    assert!(edges::<F64>().iter().any(|&bits| is_nan::<F64>(bits)));
}
