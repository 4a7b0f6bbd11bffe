use super::super::format::{is_infinite, is_nan};
use super::super::mode::Round;
use super::super::{
    F16, F32, F64, Format, Mode, ceil, cos, exp2, floor, fract, frexp_exponent, frexp_mantissa, ldexp, log2, rcp,
    round_even, rsq, sin, sqrt, trunc,
};
use super::{ROUNDS, Random, edges, flushing, rounding, single};
use rustc_apfloat::Float;

/// Arguments and results.
type Cases = &'static [(u32, u32)];
type Unary<F> = fn(&Mode, <F as Format>::Bits) -> <F as Format>::Bits;

fn integral<F: Format>(values: impl Iterator<Item = F::Bits>) {
    use rustc_apfloat::Round as Exact;
    let mode = Mode::default();
    let functions: [(Unary<F>, Exact); 4] = [
        (trunc::<F>, Exact::TowardZero),
        (ceil::<F>, Exact::TowardPositive),
        (floor::<F>, Exact::TowardNegative),
        (round_even::<F>, Exact::NearestTiesToEven),
    ];
    for value in values {
        for (function, round) in functions {
            let found = function(&mode, value);
            let expected = F::from_exact(F::exact(value).round_to_integral(round).value);
            assert!(found == expected || is_nan::<F>(found) && is_nan::<F>(expected), "{round:?} {value:x}: {found:x}");
        }
    }
}

#[test]
fn integers_are_apfloats() {
    let mut random = Random(7);
    integral::<F16>(0..=u16::MAX);
    integral::<F32>(edges::<F32>().into_iter().chain((0..20_000).map(|_| random.value::<F32>())));
    integral::<F64>(edges::<F64>().into_iter().chain((0..20_000).map(|_| random.value::<F64>())));
    assert_eq!(ceil::<F32>(&Mode::default(), 1), single(1.0));
    assert_eq!(ceil::<F32>(&flushing(true, true), 1), 0);
    assert_eq!(floor::<F32>(&Mode::default(), 0x7fa0_0000), 0x7fe0_0000, "NaNs are quieted");
}

#[test]
fn exponents_and_mantissas_belong_together() {
    let mode = Mode::default();
    let check = |value: u16| {
        let (mantissa, exponent) = (frexp_mantissa::<F16>(&mode, value), frexp_exponent::<F16>(&mode, value));
        if is_nan::<F16>(value) || is_infinite::<F16>(value) || value << 1 == 0 {
            assert_eq!((mantissa | 0x200, exponent), (value | 0x200, 0));
        } else {
            let fraction = F16::to_f64(mantissa);
            assert!((0.5..1.0).contains(&fraction.abs()), "{value:x}");
            assert_eq!(fraction * 2f64.powi(exponent), F16::to_f64(value), "{value:x}");
            assert_eq!(ldexp::<F16>(&mode, mantissa, exponent), value);
        }
    };
    (0..=u16::MAX).filter(|&value| value << 1 != 0 && value & 0x7fff != 0x7c00).for_each(check);
    // From gfx1200.
    for (value, mantissa, exponent) in [
        (0x0000_0001, 0x3f00_0000, -148),
        (0x807f_ffff, 0xbf7f_fffe, -126),
        (0x7f7f_ffff, 0x3f7f_ffff, 128),
        (0xff80_0000, 0xff80_0000, 0),
    ] {
        assert_eq!((frexp_mantissa::<F32>(&mode, value), frexp_exponent::<F32>(&mode, value)), (mantissa, exponent));
    }
    assert_eq!(frexp_exponent::<F64>(&mode, 1), -1073);
    assert_eq!(frexp_exponent::<F32>(&flushing(true, false), 1), 0);
}

#[test]
fn scaling_rounds_once() {
    let mut random = Random(99);
    for round in ROUNDS {
        let mode = rounding(round);
        for _ in 0..20_000 {
            let (value, power) = (random.value::<F32>(), (random.next() % 600) as i32 - 300);
            let found = ldexp::<F32>(&mode, value, power);
            let expected = F32::from_exact(F32::exact(value).scalbn_r(power, round.exact()));
            assert!(found == expected || is_nan::<F32>(found), "{value:x} * 2^{power}, {round:?}: {found:x}");
        }
    }
    let mode = Mode::default();
    for power in [i32::MAX, 1 << 30, 1000] {
        assert_eq!(ldexp::<F32>(&mode, single(1.5), power), single(f32::INFINITY));
        assert_eq!(ldexp::<F32>(&mode, single(-1.5), -power), 0x8000_0000);
        assert_eq!(ldexp::<F32>(&mode, 0x7fa0_0000, power), 0x7fe0_0000);
        assert_eq!(ldexp::<F32>(&mode, 0xff80_0000, -power), 0xff80_0000);
    }
    assert_eq!(ldexp::<F32>(&mode, single(1.5), i32::MIN), 0);
    assert_eq!(ldexp::<F32>(&mode, 0x807f_ffff, 3), 0x81ff_fffe, "gfx1200");
    assert_eq!(ldexp::<F64>(&mode, 1, 2000), 2f64.powi(926).to_bits());
    assert_eq!(ldexp::<F32>(&flushing(false, true), single(1.0), -140), 0);
}

#[test]
fn fractions_are_below_one() {
    let mode = Mode::default();
    for value in 0..=u16::MAX {
        let found = fract::<F16>(&mode, value);
        let exact = F16::to_f64(value);
        if exact.is_finite() {
            let expected = F16::from_f64_nearest(exact - exact.floor()).min(0x3bff);
            assert_eq!(found, expected, "{value:x}");
        } else if exact.is_infinite() {
            assert_eq!(found, 0xfe00);
        } else {
            assert_eq!(found, value | 0x200);
        }
    }
    assert_eq!(fract::<F32>(&mode, single(-1.2)), single(-1.2f32 - -2.0));
    assert_eq!(fract::<F32>(&mode, 0x8000_0001), 0x3f7f_ffff);
    assert_eq!(fract::<F32>(&rounding(Round::ToZero), 0x8000_0001), 0x3f7f_ffff);
    assert_eq!(fract::<F64>(&mode, 0x800f_ffff_ffff_ffff), 0x3fef_ffff_ffff_ffff, "gfx1200");
    assert_eq!(fract::<F32>(&mode, 0x8000_0000), 0);
    assert_eq!(fract::<F32>(&rounding(Round::Down), single(-3.0)), 0);
}

#[test]
fn documented_examples_of_the_functions_hold() {
    let mode = Mode::default();
    let functions: [(Unary<F32>, Cases); 7] = [
        (
            rcp::<F32>,
            &[
                (0xff80_0000, 0x8000_0000),
                (0xc000_0000, 0xbf00_0000),
                (0x8000_0000, 0xff80_0000),
                (0, 0x7f80_0000),
                (0x7f80_0000, 0),
            ],
        ),
        (
            rsq::<F32>,
            &[
                (0xff80_0000, 0xffc0_0000),
                (0x8000_0000, 0xff80_0000),
                (0, 0x7f80_0000),
                (0x4080_0000, 0x3f00_0000),
                (0x7f80_0000, 0),
            ],
        ),
        (
            sqrt::<F32>,
            &[
                (0xff80_0000, 0xffc0_0000),
                (0x8000_0000, 0x8000_0000),
                (0, 0),
                (0x4080_0000, 0x4000_0000),
                (0x7f80_0000, 0x7f80_0000),
            ],
        ),
        (exp2::<F32>, &[(0xff80_0000, 0), (0x8000_0000, 0x3f80_0000), (0x7f80_0000, 0x7f80_0000)]),
        (
            log2::<F32>,
            &[
                (0xff80_0000, 0xffc0_0000),
                (0xbf80_0000, 0xffc0_0000),
                (0x8000_0000, 0xff80_0000),
                (0, 0xff80_0000),
                (0x3f80_0000, 0),
                (0x7f80_0000, 0x7f80_0000),
            ],
        ),
        (
            sin::<F32>,
            &[
                (0xff80_0000, 0xffc0_0000),
                (0xff7f_ffff, 0),
                (0x8000_0000, 0x8000_0000),
                (0x3e80_0000, 0x3f80_0000),
                (0x7f80_0000, 0xffc0_0000),
            ],
        ),
        (
            cos::<F32>,
            &[
                (0xff80_0000, 0xffc0_0000),
                (0xff7f_ffff, 0x3f80_0000),
                (0x8000_0000, 0x3f80_0000),
                (0x3e80_0000, 0),
                (0x7f80_0000, 0xffc0_0000),
            ],
        ),
    ];
    for (index, (function, cases)) in functions.iter().enumerate() {
        for &(value, expected) in *cases {
            assert_eq!(function(&mode, value), expected, "function {index} of {value:08x}");
        }
        assert_eq!(function(&mode, 0x7fa0_0000), 0x7fe0_0000, "NaNs are quieted");
    }
}

/// Results of gfx1200, which its document allows to be 1 ULP off.
#[test]
fn results_are_within_one_ulp_of_hardwares() {
    let mode = Mode::default();
    let functions: [(Unary<F32>, Cases); 5] = [
        (
            rcp::<F32>,
            &[
                (0x3fc0_0000, 0x3f2a_aaaa),
                (0xc020_0000, 0xbecc_cccd),
                (0x4049_0fdb, 0x3ea2_f983),
                (0x7f7f_ffff, 0),
                (1, 0x7f80_0000),
            ],
        ),
        (
            rsq::<F32>,
            &[
                (0x3fc0_0000, 0x3f51_05ec),
                (0x4049_0fdb, 0x3f10_6eba),
                (0x0080_0000, 0x5f00_0000),
                (0x807f_ffff, 0xff80_0000),
            ],
        ),
        (
            sqrt::<F32>,
            &[
                (0x3fc0_0000, 0x3f9c_c470),
                (0x4049_0fdb, 0x3fe2_dfc5),
                (0x7f7f_ffff, 0x5f7f_ffff),
                (0x807f_ffff, 0x8000_0000),
            ],
        ),
        (
            exp2::<F32>,
            &[(0x4049_0fdb, 0x410d_331c), (0xc020_0000, 0x3e35_04f3), (0x7f7f_ffff, 0x7f80_0000), (1, 0x3f80_0000)],
        ),
        (
            log2::<F32>,
            &[(0x4049_0fdb, 0x3fd3_643a), (0x3fc0_0000, 0x3f15_c01a), (0x7f7f_ffff, 0x42ff_ffff), (1, 0xff80_0000)],
        ),
    ];
    for (index, (function, cases)) in functions.iter().enumerate() {
        for &(value, hardware) in *cases {
            let found = function(&mode, value);
            assert!(
                found.abs_diff(hardware) <= 1,
                "function {index} of {value:08x}: {found:08x}, hardware {hardware:08x}"
            );
        }
    }
    assert_eq!(sin::<F32>(&mode, single(-1.0)), 0, "a zero of the sine is +0");
    assert_eq!(sin::<F32>(&mode, 1), 6, "the sine keeps denormals");
    assert_eq!(sin::<F32>(&flushing(true, true), 1), 0);
}

#[test]
fn functions_of_denormals() {
    let mode = Mode::default();
    assert_eq!(exp2::<F32>(&mode, single(-127.0)), 0, "FP32 flushes always");
    assert_eq!(log2::<F32>(&mode, 0x0040_0000), 0xff80_0000);
    assert_eq!(rcp::<F16>(&mode, 0x0200), 0x7800, "2^-15 in FP16");
    assert_eq!(rcp::<F16>(&mode, 0x0001), 0x7c00);
    assert_eq!(rcp::<F16>(&flushing(true, true), 0x0200), 0x7c00);
    assert_eq!(rcp::<F16>(&Mode { clamp_overflow: true, ..mode }, 0x0001), 0x7bff);
    assert_eq!(rcp::<F16>(&Mode { clamp_overflow: true, ..mode }, 0x8000), 0xfc00);
    assert_eq!(rcp::<F64>(&mode, 0x7fef_ffff_ffff_ffff), 0x0004_0000_0000_0000);
    assert_eq!(sqrt::<F64>(&mode, 1), 2f64.powi(-537).to_bits());
}

#[test]
fn every_half_has_the_nearest_root_and_reciprocal() {
    let mode = Mode::default();
    for value in 0..=u16::MAX {
        let exact = F16::to_f64(value);
        for (found, expected) in [
            (rcp::<F16>(&mode, value), 1.0 / exact),
            (sqrt::<F16>(&mode, value), exact.sqrt()),
            (exp2::<F16>(&mode, value), exact.exp2()),
            (log2::<F16>(&mode, value), exact.log2()),
        ] {
            // Half a unit in the last place, of which the host's error is nothing.
            let found = F16::to_f64(found);
            let unit = (expected.abs() * 2f64.powi(-11)).max(2f64.powi(-25));
            let near = (found - expected).abs() <= unit * 1.000_001
                || found == expected
                || found.is_infinite() && expected.abs() >= 65_520.0;
            assert!(near || found.is_nan() && expected.is_nan(), "{value:x}: {found} for {expected}");
        }
    }
}
