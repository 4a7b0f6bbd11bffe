use rustc_apfloat::Float;

use super::super::format::{flush, is_nan, is_signalling};
use super::super::mode::Round;
use super::super::{F16, F32, F64, Format, Mode, add, fma, mad, mul, mul_legacy, sub};
use super::{ROUNDS, Random, edges, flushing, rounding, single};

/// The operands' first NaN, quieted, or the default one; `None` if the result is a number.
fn expected_nan<F: Format>(result: F::Bits, operands: &[F::Bits]) -> Option<u64> {
    is_nan::<F>(result).then(|| {
        operands.iter().find(|bits| is_nan::<F>(**bits)).map_or(F::DEFAULT_NAN, |bits| F::wide(*bits) | F::QUIET)
    })
}

fn check<F: Format>(round: Round, name: &str, found: F::Bits, exact: F::Bits, operands: &[F::Bits]) {
    let expected = expected_nan::<F>(exact, operands).unwrap_or(F::wide(exact));
    assert_eq!(F::wide(found), expected, "{name} of {operands:x?}, {round:?}: {found:x?}, expected {expected:x}");
}

fn check_pair<F: Format>(mode: &Mode, round: Round, a: F::Bits, b: F::Bits) {
    let (exact_a, exact_b) = (F::exact(a), F::exact(b));
    let apply = |value: F::Exact| F::from_exact(value);
    check::<F>(round, "add", add::<F>(mode, a, b), apply(exact_a.add_r(exact_b, round.exact()).value), &[a, b]);
    check::<F>(round, "sub", sub::<F>(mode, a, b), apply(exact_a.sub_r(exact_b, round.exact()).value), &[a, b]);
    check::<F>(round, "mul", mul::<F>(mode, a, b), apply(exact_a.mul_r(exact_b, round.exact()).value), &[a, b]);
}

fn check_triple<F: Format>(mode: &Mode, round: Round, a: F::Bits, b: F::Bits, c: F::Bits) {
    let exact = F::exact(a).mul_add_r(F::exact(b), F::exact(c), round.exact()).value;
    check::<F>(round, "fma", fma::<F>(mode, a, b, c), F::from_exact(exact), &[a, b, c]);
}

fn check_format<F: Format>() {
    let mut random = Random(0x5eed);
    for round in ROUNDS {
        let mode = rounding(round);
        for &a in &edges::<F>() {
            for &b in &edges::<F>() {
                check_pair::<F>(&mode, round, a, b);
                for &c in edges::<F>().iter().step_by(3) {
                    check_triple::<F>(&mode, round, a, b, c);
                }
            }
        }
        for _ in 0..8_000 {
            let [a, b, c] = [0; 3].map(|_| random.value::<F>());
            check_pair::<F>(&mode, round, a, b);
            check_triple::<F>(&mode, round, a, b, c);
        }
    }
}

#[test]
fn half_sums_and_products_are_apfloats() {
    check_format::<F16>();
}

#[test]
fn single_sums_and_products_are_apfloats() {
    check_format::<F32>();
}

#[test]
fn double_sums_and_products_are_apfloats() {
    check_format::<F64>();
}

#[test]
fn every_half_is_added_and_multiplied_right() {
    let mode = Mode::default();
    for other in [0x0001, 0x03ff, 0x0401, 0x1234, 0x3c01, 0x4e39, 0x7bff] {
        for value in 0..=u16::MAX {
            check_pair::<F16>(&mode, Round::NearestEven, value, other);
        }
    }
}

#[test]
fn fma_rounds_once() {
    // 1 + 2^-11 + 2^-24 + ..: the product's lowest digit decides a tie that FP64 can not hold beside 65,504's sum.
    let mode = Mode::default();
    let fused = fma::<F32>(&mode, single(1.000_000_1), single(1.000_000_1), single(-1.000_000_2));
    assert_eq!(f32::from_bits(fused), 1.421_085_5e-14);
    // 2^-24 * (1 + 2^-10) + 2048: above the middle between 2048 and 2050 by less than FP64's last digit would be if it were summed
    // in FP32.
    assert_eq!(fma::<F16>(&mode, 0x3c01, 0x3c00, 0x6800), 0x6800 + 1, "2048 + 1.00098 rounds up");
    assert_eq!(fma::<F16>(&mode, 0x3c00, 0x3c00, 0x6800), 0x6800, "2048 + 1 is a tie");
}

#[test]
fn denormals_are_flushed_where_the_mode_says() {
    let denormal = 0x0000_0003;
    let negative = 0x8000_0003;
    let smallest = 0x0080_0000;
    let keep = flushing(false, false);
    let (inputs, outputs) = (flushing(true, false), flushing(false, true));
    assert_eq!(add::<F32>(&keep, denormal, denormal), 6);
    assert_eq!(add::<F32>(&inputs, denormal, denormal), 0);
    assert_eq!(add::<F32>(&inputs, negative, negative), 0x8000_0000);
    assert_eq!(add::<F32>(&outputs, denormal, denormal), 0);
    assert_eq!(mul::<F32>(&outputs, negative, single(1.0)), 0x8000_0000);
    // A denormal input may give a normal result, and the other way.
    assert_eq!(mul::<F32>(&outputs, 0x0040_0000, single(2.0)), smallest);
    assert_eq!(mul::<F32>(&inputs, 0x0040_0000, single(2.0)), 0);
    assert_eq!(mul::<F32>(&inputs, smallest, single(0.5)), 0x0040_0000);
    assert_eq!(fma::<F32>(&inputs, single(1.0), single(1.0), denormal), single(1.0));
    assert_eq!(fma::<F16>(&outputs, 0x0001, 0x3c00, 0x8002), 0x8000);
    assert_eq!(add::<F64>(&inputs, 5, 1.0f64.to_bits()), 1.0f64.to_bits());
    // A tie that a flushed input no longer tips.
    assert_eq!(fma::<F32>(&keep, single(1.0), single(16_777_216.0), single(1.0)), single(16_777_216.0));
}

#[test]
fn mad_rounds_twice_and_flushes_always() {
    let mode = Mode::default();
    let (a, b, c) = (single(1.000_000_1), single(1.000_000_1), single(-1.000_000_2));
    assert_eq!(mad::<F32>(&mode, a, b, c), 0);
    assert_eq!(mad::<F32>(&mode, 3, single(1.0), single(0.0)), 0);
    assert_eq!(mad::<F32>(&mode, 0x0080_0000, single(0.5), single(0.0)), 0);
    assert_eq!(mad::<F32>(&mode, single(2.0), single(3.0), single(1.0)), single(7.0));
}

#[test]
fn legacy_products_with_zero_are_zero() {
    let mode = Mode::default();
    for other in edges::<F32>() {
        assert_eq!(mul_legacy(&mode, 0, other), 0);
        assert_eq!(mul_legacy(&mode, other, 0x8000_0000), 0);
    }
    assert_eq!(mul_legacy(&mode, single(3.0), single(-2.0)), single(-6.0));
    assert_eq!(mul_legacy(&flushing(true, true), 1, single(f32::INFINITY)), 0, "a flushed denormal is a zero");
    assert_eq!(mul_legacy(&mode, 1, single(f32::INFINITY)), single(f32::INFINITY));
}

#[test]
fn nans_are_quieted_and_the_first_one_wins() {
    let mode = Mode::default();
    let (signalling, quiet) = (0x7fa0_0001, 0xffc0_0002);
    assert!(is_signalling::<F32>(signalling));
    assert_eq!(add::<F32>(&mode, signalling, quiet), 0x7fe0_0001);
    assert_eq!(add::<F32>(&mode, quiet, signalling), quiet);
    assert_eq!(sub::<F32>(&mode, single(1.0), quiet), quiet, "a subtraction does not change a NaN's sign");
    assert_eq!(fma::<F32>(&mode, single(1.0), single(1.0), signalling), 0x7fe0_0001);
    assert_eq!(add::<F32>(&mode, 0x7f80_0000, 0xff80_0000), 0xffc0_0000);
    assert_eq!(mul::<F32>(&mode, 0, 0x7f80_0000), 0xffc0_0000);
    assert_eq!(mul::<F16>(&mode, 0, 0xfc00), 0xfe00);
    assert_eq!(sub::<F64>(&mode, F64::INFINITY, F64::INFINITY), 0xfff8 << 48);
}

#[test]
fn halves_that_overflow_are_clamped_if_the_mode_says_so() {
    let clamping = Mode { clamp_overflow: true, ..Mode::default() };
    assert_eq!(add::<F16>(&Mode::default(), 0x7bff, 0x7bff), 0x7c00);
    assert_eq!(add::<F16>(&clamping, 0x7bff, 0x7bff), 0x7bff);
    assert_eq!(mul::<F16>(&clamping, 0xfbff, 0x7bff), 0xfbff);
    assert_eq!(add::<F16>(&clamping, 0x7c00, 0x3c00), 0x7c00, "a true infinity stays");
    assert_eq!(add::<F32>(&clamping, single(f32::MAX), single(f32::MAX)), single(f32::INFINITY));
}

#[test]
fn zeros_have_the_sign_of_the_rounding() {
    let (one, minus_one) = (single(1.0), single(-1.0));
    for round in ROUNDS {
        let zero = if round == Round::Down { 0x8000_0000 } else { 0 };
        assert_eq!(add::<F32>(&rounding(round), one, minus_one), zero);
        assert_eq!(add::<F32>(&rounding(round), 0x8000_0000, 0x8000_0000), 0x8000_0000);
    }
    assert_eq!(flush::<F32>(true, 0x8000_0001), 0x8000_0000);
}
