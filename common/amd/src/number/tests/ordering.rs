use std::cmp::Ordering;

use super::super::compare::Class;
use super::super::format::{is_nan, is_signalling};
use super::super::{
    Comparison, F16, F32, F64, Format, Mode, clamp, class, compare, max, max3, median3, min, min3, output_modifier,
};
use super::{edges, flushing, single};

const NAMES: [&str; 16] =
    ["f", "lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg", "ngt", "nle", "neq", "nlt", "tru"];

fn comparisons<F: Format>() {
    for &a in &edges::<F>() {
        for &b in &edges::<F>() {
            let order = F::to_f64(a).partial_cmp(&F::to_f64(b));
            let [less, equal, greater] =
                [Ordering::Less, Ordering::Equal, Ordering::Greater].map(|is| order == Some(is));
            let unordered = order.is_none();
            let expected = [
                false,
                less,
                equal,
                less || equal,
                greater,
                less || greater,
                greater || equal,
                !unordered,
                unordered,
                !(greater || equal),
                !(less || greater),
                !greater,
                !(less || equal),
                !equal,
                !less,
                true,
            ];
            for (name, expected) in NAMES.into_iter().zip(expected) {
                let comparison = Comparison::named(name).expect("a condition");
                assert_eq!(compare::<F>(&Mode::default(), comparison, a, b), expected, "{name} {a:x} {b:x}");
            }
        }
    }
}

#[test]
fn sixteen_conditions_hold_as_they_say() {
    comparisons::<F16>();
    comparisons::<F32>();
    comparisons::<F64>();
    assert_eq!(Comparison::named("t"), Comparison::named("tru"));
    assert_eq!(Comparison::named("ne"), None, "a condition of integers");
}

#[test]
fn comparisons_flush_their_inputs() {
    let flush = flushing(true, false);
    let equal = Comparison::named("eq").expect("a condition");
    assert!(compare::<F32>(&flush, equal, 1, 0));
    assert!(!compare::<F32>(&flushing(false, true), equal, 1, 0));
}

#[test]
fn classes_are_the_bits_of_the_mask() {
    let cases: [(u32, Class, u32); 12] = [
        (0x7fa0_0000, Class::SignallingNan, 0),
        (0xff80_0001, Class::SignallingNan, 0),
        (0x7fc0_0000, Class::QuietNan, 1),
        (0xffc0_0000, Class::QuietNan, 1),
        (0xff80_0000, Class::NegativeInfinity, 2),
        (0xbf80_0000, Class::NegativeNormal, 3),
        (0x807f_ffff, Class::NegativeDenormal, 4),
        (0x8000_0000, Class::NegativeZero, 5),
        (0x0000_0000, Class::PositiveZero, 6),
        (0x0000_0001, Class::PositiveDenormal, 7),
        (0x0080_0000, Class::PositiveNormal, 8),
        (0x7f80_0000, Class::PositiveInfinity, 9),
    ];
    for (bits, expected, bit) in cases {
        assert_eq!(class::<F32>(bits), expected, "{bits:x}");
        assert_eq!(expected as u32, 1 << bit);
    }
    assert_eq!(class::<F16>(0x7d00), Class::SignallingNan);
    assert_eq!(class::<F16>(0x8001), Class::NegativeDenormal);
    assert_eq!(class::<F64>(1), Class::PositiveDenormal);
}

/// By the pseudocode of V_MIN and V_MAX (CDNA 3), case by case.
fn documented<F: Format>(ieee: bool, larger: bool, a: F::Bits, b: F::Bits) -> F::Bits {
    let quiet = |bits| F::narrow(F::wide(bits) | F::QUIET);
    let (x, y) = (F::to_f64(a), F::to_f64(b));
    if ieee && is_signalling::<F>(a) {
        quiet(a)
    } else if ieee && is_signalling::<F>(b) {
        quiet(b)
    } else if is_nan::<F>(a) {
        b
    } else if is_nan::<F>(b) {
        a
    } else if x == 0.0 && y == 0.0 && x.is_sign_negative() != y.is_sign_negative() {
        if x.is_sign_negative() == larger { b } else { a }
    } else if larger {
        if x >= y { a } else { b }
    } else if x < y {
        a
    } else {
        b
    }
}

fn extremes<F: Format>() {
    for ieee in [true, false] {
        let mode = Mode { ieee, ..Mode::default() };
        for &a in &edges::<F>() {
            for &b in &edges::<F>() {
                assert_eq!(min::<F>(&mode, a, b), documented::<F>(ieee, false, a, b), "min {a:x} {b:x} {ieee}");
                assert_eq!(max::<F>(&mode, a, b), documented::<F>(ieee, true, a, b), "max {a:x} {b:x} {ieee}");
            }
        }
    }
}

#[test]
fn extremes_are_the_pseudocodes() {
    extremes::<F16>();
    extremes::<F32>();
    extremes::<F64>();
}

#[test]
fn extremes_flush_denormals() {
    assert_eq!(min::<F32>(&flushing(true, true), 0x8000_0001, single(1.0)), 0x8000_0000);
    assert_eq!(max::<F32>(&flushing(false, true), 1, 0), 0);
    assert_eq!(max::<F32>(&Mode::default(), 1, 0), 1);
}

#[test]
fn the_median_is_in_the_middle() {
    let mode = Mode::default();
    let numbers: Vec<u32> = edges::<F32>().into_iter().filter(|&bits| !is_nan::<F32>(bits)).collect();
    for &a in &numbers {
        for &b in &numbers {
            for &c in &numbers {
                let mut sorted = [a, b, c].map(f32::from_bits);
                sorted.sort_by(f32::total_cmp);
                let found = f32::from_bits(median3::<F32>(&mode, a, b, c));
                assert_eq!(found, sorted[1], "{a:x} {b:x} {c:x}");
                assert_eq!(f32::from_bits(min3::<F32>(&mode, a, b, c)).total_cmp(&sorted[0]), Ordering::Equal);
                assert_eq!(f32::from_bits(max3::<F32>(&mode, a, b, c)).total_cmp(&sorted[2]), Ordering::Equal);
            }
        }
    }
    let nan = single(f32::NAN);
    assert_eq!(median3::<F32>(&mode, nan, single(2.0), single(1.0)), single(1.0), "with a NaN, the minimum");
    assert_eq!(median3::<F32>(&mode, single(2.0), single(3.0), nan), single(2.0));
    assert_eq!(median3::<F32>(&mode, nan, nan, nan), nan);
}

#[test]
fn clamping_makes_zero_of_nan_in_dx10_mode() {
    let (dx10, other) = (Mode::default(), Mode { dx10_clamp: false, ..Mode::default() });
    assert_eq!(clamp::<F32>(&dx10, 0x7fc0_0001), 0);
    assert_eq!(clamp::<F32>(&other, 0x7fc0_0001), 0x7fc0_0001);
    for (value, expected) in
        [(2.0, 1.0), (f32::INFINITY, 1.0), (1.0, 1.0), (0.25, 0.25), (-0.0, 0.0), (-3.0, 0.0), (f32::NEG_INFINITY, 0.0)]
    {
        assert_eq!(clamp::<F32>(&dx10, single(value)), single(expected), "{value}");
    }
    assert_eq!(clamp::<F16>(&dx10, 0x4000), 0x3c00);
    assert_eq!(clamp::<F64>(&dx10, 7.0f64.to_bits()), 1.0f64.to_bits());
    assert_eq!(clamp::<F32>(&dx10, 5), 5);
}

#[test]
fn output_modifiers_need_flushed_denormals_and_no_ieee() {
    let on = Mode { ieee: false, ..flushing(true, true) };
    assert_eq!(output_modifier::<F32>(&on, 0, single(3.0)), single(3.0));
    assert_eq!(output_modifier::<F32>(&on, 1, single(3.0)), single(6.0));
    assert_eq!(output_modifier::<F32>(&on, 2, single(-3.0)), single(-12.0));
    assert_eq!(output_modifier::<F32>(&on, 3, single(3.0)), single(1.5));
    assert_eq!(output_modifier::<F32>(&on, 1, 0x8000_0000), 0, "-0 becomes +0");
    assert_eq!(output_modifier::<F32>(&on, 3, 0x0080_0000), 0, "a denormal result is flushed");
    assert_eq!(output_modifier::<F32>(&on, 1, single(f32::MAX)), single(f32::INFINITY));
    assert_eq!(output_modifier::<F16>(&on, 2, 0x3c00), 0x4400);
    for off in [flushing(true, true), Mode { ieee: false, ..Mode::default() }] {
        assert_eq!(output_modifier::<F32>(&off, 1, single(3.0)), single(3.0));
    }
}
