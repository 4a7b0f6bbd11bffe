use super::super::division::Divisible;
use super::super::{F16, F32, F64, Format, Mode, div_fixup, div_fmas, div_scale, fma, mul, rcp};
use super::{Random, edges, single};

fn negated<F: Format>(value: F::Bits) -> F::Bits {
    F::narrow(F::wide(value) ^ F::SIGN)
}

/// What LLVM's backend emits for a division of FP32 (LowerFDIV32).
fn divide_single(numerator: u32, denominator: u32) -> u32 {
    let mode = Mode::default();
    let fused = |a, b, c| fma::<F32>(&mode, a, b, c);
    let (scaled, _) = div_scale::<F32>(&mode, denominator, denominator, numerator);
    let (over, vcc) = div_scale::<F32>(&mode, numerator, denominator, numerator);
    let (minus, inverse) = (negated::<F32>(scaled), rcp::<F32>(&mode, scaled));
    let inverse = fused(fused(minus, inverse, single(1.0)), inverse, inverse);
    let quotient = mul::<F32>(&mode, over, inverse);
    let quotient = fused(fused(minus, quotient, over), inverse, quotient);
    let rest = fused(minus, quotient, over);
    div_fixup::<F32>(&mode, div_fmas::<F32>(&mode, vcc, rest, inverse, quotient), denominator, numerator)
}

/// The same for FP64 (LowerFDIV64).
fn divide_double(numerator: u64, denominator: u64) -> u64 {
    let mode = Mode::default();
    let fused = |a, b, c| fma::<F64>(&mode, a, b, c);
    let one = 1.0f64.to_bits();
    let (scaled, _) = div_scale::<F64>(&mode, denominator, denominator, numerator);
    let (minus, inverse) = (negated::<F64>(scaled), rcp::<F64>(&mode, scaled));
    let inverse = fused(inverse, fused(minus, inverse, one), inverse);
    let inverse = fused(inverse, fused(minus, inverse, one), inverse);
    let (over, vcc) = div_scale::<F64>(&mode, numerator, denominator, numerator);
    let quotient = mul::<F64>(&mode, over, inverse);
    let rest = fused(minus, quotient, over);
    div_fixup::<F64>(&mode, div_fmas::<F64>(&mode, vcc, rest, inverse, quotient), denominator, numerator)
}

fn check_single(numerator: u32, denominator: u32) {
    let found = f32::from_bits(divide_single(numerator, denominator));
    let expected = f32::from_bits(numerator) / f32::from_bits(denominator);
    let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
    assert!(same, "{numerator:08x} / {denominator:08x}: {:08x}, expected {:08x}", found.to_bits(), expected.to_bits());
}

fn check_double(numerator: u64, denominator: u64) {
    let found = f64::from_bits(divide_double(numerator, denominator));
    let expected = f64::from_bits(numerator) / f64::from_bits(denominator);
    let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
    assert!(
        same,
        "{numerator:016x} / {denominator:016x}: {:016x}, expected {:016x}",
        found.to_bits(),
        expected.to_bits()
    );
}

#[test]
fn the_steps_of_a_division_give_the_quotient() {
    let mut random = Random(0xd1f);
    for &numerator in &edges::<F32>() {
        edges::<F32>().into_iter().for_each(|denominator| check_single(numerator, denominator));
    }
    for &numerator in &edges::<F64>() {
        edges::<F64>().into_iter().for_each(|denominator| check_double(numerator, denominator));
    }
    for _ in 0..100_000 {
        check_single(random.next() as u32, random.next() as u32);
        check_single(random.value::<F32>(), random.value::<F32>());
    }
    for _ in 0..20_000 {
        check_double(random.next(), random.next());
        check_double(random.value::<F64>(), random.value::<F64>());
    }
}

#[test]
fn quotients_at_the_edge_of_the_denormals_are_rounded_once() {
    let mut random = Random(0xd3);
    for _ in 0..100_000 {
        // Quotients from 2^-150 to 2^-125.
        let exponent = random.next() % 26;
        let numerator = (random.next() as u32 & 0x7f_ffff) | (20 + exponent as u32) << 23;
        let denominator = (random.next() as u32 & 0x7f_ffff) | 170 << 23;
        check_single(numerator, denominator);
    }
}

fn scale(value: u32, denominator: u32, numerator: u32) -> (u32, bool) {
    div_scale::<F32>(&Mode::default(), value, denominator, numerator)
}

#[test]
fn scaling_is_what_hardware_was_seen_to_do() {
    // Of 1.0 and each denominator, from gfx1200: the denominator scaled, and whether V_DIV_FMAS is to undo something.
    let one = single(1.0);
    for (denominator, scaled, vcc) in [
        (one, one, false),
        (0, 0xffc0_0000, true),
        (0x8000_0000, 0xffc0_0000, true),
        (0x7f80_0000, 0x7f80_0000, true),
        (0x7fc0_0000, 0x7fc0_0000, true),
        (0x0000_0001, 0x1500_0000, true),
        (0x0080_0000, 0x2080_0000, true),
        (0x7f7f_ffff, 0x5f7f_ffff, true),
        (0x4049_0fdb, 0x4049_0fdb, false),
    ] {
        assert_eq!(scale(denominator, denominator, one), (scaled, vcc), "{denominator:08x}");
        let numerator = if denominator << 1 == 0 { 0xffc0_0000 } else { one };
        assert_eq!(scale(one, denominator, one), (numerator, vcc), "1.0 over {denominator:08x}");
    }
    // gfx11: a tiny numerator, of which the quotient may be denormal.
    assert_eq!(scale(0x0080_0000, one, 0x0080_0000), (0x2080_0000, true));
    // Both are scaled if only the numerator is tiny.
    assert_eq!(scale(10 << 23, 30 << 23, 10 << 23), (74 << 23, false));
    assert_eq!(scale(30 << 23, 30 << 23, 10 << 23), (94 << 23, false));
    let double = |value: u64, denominator| div_scale::<F64>(&Mode::default(), value, denominator, 1.0f64.to_bits());
    assert_eq!(double(0x7fef_ffff_ffff_ffff, 0x7fef_ffff_ffff_ffff), (0x77ef_ffff_ffff_ffff, true));
    assert_eq!(double(1, 1), (0x04d0_0000_0000_0000, true));
    assert_eq!(double(0x01a5_6e1f_c2f8_f359, 0x01a5_6e1f_c2f8_f359), (0x09a5_6e1f_c2f8_f359, true));
}

#[test]
fn fmas_scales_by_the_quotients_size() {
    let mode = Mode::default();
    let (one, two) = (single(1.0), single(2.0));
    assert_eq!(div_fmas::<F32>(&mode, false, two, single(3.0), one), single(7.0));
    assert_eq!(div_fmas::<F32>(&mode, true, one, one, two), single(3.0 * 2f32.powi(64)));
    assert_eq!(div_fmas::<F32>(&mode, true, two, single(3.0), one), single(7.0 * 2f32.powi(-64)));
    assert_eq!(div_fmas::<F64>(&mode, true, 0, 0, 1.0f64.to_bits()), 2f64.powi(-128).to_bits());
    assert_eq!(div_fmas::<F32>(&mode, true, one, 0x7fa0_0000, one), 0x7fe0_0000);
    assert_eq!(<F64 as Divisible>::SCALE, 128);
}

#[test]
fn fixing_up_knows_the_special_quotients() {
    let mode = Mode::default();
    let fix = |quotient, denominator, numerator| div_fixup::<F32>(&mode, quotient, denominator, numerator);
    let (infinity, minus_infinity, nan) = (0x7f80_0000, 0xff80_0000, 0x7fa0_0000);
    let (one, minus_one) = (single(1.0), single(-1.0));
    assert_eq!(fix(one, one, nan), 0x7fe0_0000);
    assert_eq!(fix(one, nan, one), 0x7fe0_0000);
    assert_eq!(fix(one, 0, 0x8000_0000), 0xffc0_0000);
    assert_eq!(fix(one, infinity, minus_infinity), 0xffc0_0000);
    assert_eq!(fix(one, 0x8000_0000, one), minus_infinity);
    assert_eq!(fix(one, one, minus_infinity), minus_infinity);
    assert_eq!(fix(one, minus_infinity, one), 0x8000_0000);
    assert_eq!(fix(one, minus_one, 0), 0x8000_0000);
    assert_eq!(fix(single(-5.0), minus_one, minus_one), single(5.0), "the sign is that of the operands");
    assert_eq!(fix(0x7fc0_0000, one, minus_one), minus_infinity, "a quotient that overflowed on its way");
    assert_eq!(fix(one, 254 << 23, 0x8080_0000), 0x8000_0000, "far below the denormals");
    assert_eq!(div_fixup::<F16>(&mode, 0x3800, 0xc000, 0x3c00), 0xb800);
    assert_eq!(div_fixup::<F16>(&mode, 0x3800, 0x0000, 0x0000), 0xfe00);
}
