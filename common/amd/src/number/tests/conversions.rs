use rustc_apfloat::FloatConvert;

use super::super::format::{half_to_single, is_nan, single_to_half};
use super::super::mode::Round;
use super::super::{
    F16, F32, F64, Format, Mode, bf16_from_f32, bf16_to_f32, float_from_i32, float_from_u32, float_to_i32,
    float_to_u32, pack_norm_i16, pack_norm_u16, pack_round_to_zero, pack_u8, resize, to_i16, to_i32_floor,
    to_i32_nearest, to_u16, ubyte_to_f32,
};
use super::{ROUNDS, Random, edges, flushing, rounding, single};

#[test]
fn every_half_widens_exactly_and_comes_back() {
    let mode = Mode::default();
    for half in 0..=u16::MAX {
        let wide = resize::<F16, F32>(&mode, half);
        let expected = F32::from_exact(F16::exact(half).convert_r(rustc_apfloat::Round::TowardZero, &mut false).value);
        if is_nan::<F16>(half) {
            assert_eq!(wide, u32::from(half & 0x8000) << 16 | 0x7fc0_0000 | u32::from(half & 0x3ff) << 13, "{half:x}");
            assert_eq!(resize::<F32, F16>(&mode, wide), half | 0x200);
        } else {
            assert_eq!(wide, expected, "{half:x}");
            assert_eq!(half_to_single(half).to_bits(), expected);
            assert_eq!(resize::<F32, F16>(&mode, wide), half);
            assert_eq!(resize::<F16, F64>(&mode, half), f64::from(f32::from_bits(wide)).to_bits());
        }
    }
}

#[test]
fn halves_are_rounded_at_their_middles() {
    // Between each half and the next one, and beyond the largest.
    for half in 0..0x7c00u16 {
        let (low, high) = (half_to_single(half), if half == 0x7bff { 65_536.0 } else { half_to_single(half + 1) });
        let middle = (low + high) / 2.0;
        let even = if half & 1 == 0 { half } else { half + 1 };
        assert_eq!(single_to_half(middle), even, "{half:x}");
        assert_eq!(single_to_half(f32::from_bits(middle.to_bits() - 1)), half);
        assert_eq!(single_to_half(f32::from_bits(middle.to_bits() + 1)), half + 1);
        assert_eq!(single_to_half(-middle), even | 0x8000);
    }
    assert_eq!(single_to_half(f32::MAX), 0x7c00);
    assert_eq!(single_to_half(f32::from_bits(1)), 0);
    assert_eq!(single_to_half(-f32::from_bits(0x007f_ffff)), 0x8000);
}

fn check_resize<From, To>(values: impl Iterator<Item = From::Bits>)
where
    From: Format,
    From::Exact: FloatConvert<To::Exact>,
    To: Format,
{
    for value in values {
        for round in ROUNDS {
            let found = resize::<From, To>(&rounding(round), value);
            let exact = To::from_exact(From::exact(value).convert_r(round.exact(), &mut false).value);
            if is_nan::<From>(value) {
                assert!(is_nan::<To>(found) && To::wide(found) & To::QUIET != 0);
            } else {
                assert_eq!(found, exact, "{value:x}, {round:?}");
            }
        }
    }
}

#[test]
fn sizes_are_changed_as_apfloat_does() {
    let mut random = Random(0xc0de);
    check_resize::<F32, F16>(edges::<F32>().into_iter().chain((0..20_000).map(|_| random.value::<F32>())));
    let mut random = Random(0xc0df);
    check_resize::<F64, F32>(edges::<F64>().into_iter().chain((0..20_000).map(|_| random.value::<F64>())));
    check_resize::<F32, F64>(edges::<F32>().into_iter());
    // Values whose FP32 neighbour is a tie of FP16 or FP32.
    let tie = 1.0 + 2f64.powi(-24) + 2f64.powi(-52);
    check_resize::<F64, F32>([tie.to_bits(), (tie - 2f64.powi(-51)).to_bits()].into_iter());
    let small = 2f64.powi(-150);
    check_resize::<F64, F32>([small.to_bits(), small.to_bits() + 1, (3.0 * small).to_bits() - 1].into_iter());
}

#[test]
fn conversions_flush_and_clamp_as_the_mode_says() {
    let tiny = single(2f32.powi(-20));
    assert_eq!(resize::<F32, F16>(&Mode::default(), tiny), 0x0010);
    assert_eq!(resize::<F32, F16>(&flushing(false, true), tiny), 0);
    assert_eq!(resize::<F16, F32>(&flushing(true, false), 0x8010), 0x8000_0000);
    assert_eq!(resize::<F16, F32>(&flushing(false, true), 0x0010), tiny, "normal in FP32");
    let clamping = Mode { clamp_overflow: true, ..Mode::default() };
    assert_eq!(resize::<F32, F16>(&clamping, single(-70_000.0)), 0xfbff);
    assert_eq!(resize::<F32, F16>(&clamping, single(f32::INFINITY)), 0x7c00);
    assert_eq!(resize::<F32, F16>(&Mode::default(), 0x7fa0_0000), 0x7f00, "gfx1200");
    assert_eq!(resize::<F64, F32>(&Mode::default(), 0x7ff4 << 48), 0x7fe0_0000, "gfx1200");
}

#[test]
fn pairs_are_packed_towards_zero() {
    let mode = Mode::default();
    assert_eq!(pack_round_to_zero(&mode, single(1.0), single(-2.0)), 0xc000_3c00);
    assert_eq!(pack_round_to_zero(&mode, single(65_535.0), single(1e30)), 0x7bff_7bff, "no overflow");
    assert_eq!(pack_round_to_zero(&mode, single(f32::NEG_INFINITY), 0x7fa0_0000), 0x7f00_fc00);
    assert_eq!(pack_round_to_zero(&rounding(Round::Up), single(1.0005), single(-1.0005)), 0xbc00_3c00);
    assert_eq!(pack_round_to_zero(&mode, single(2f32.powi(-24) * 1.9), single(-2f32.powi(-25))), 0x8000_0001);
}

#[test]
fn integers_saturate_and_nans_are_zero() {
    for (value, signed, unsigned) in [
        (f32::INFINITY, i32::MAX, u32::MAX),
        (f32::NEG_INFINITY, i32::MIN, 0),
        (f32::NAN, 0, 0),
        (f32::MAX, i32::MAX, u32::MAX),
        (2_147_483_648.0, i32::MAX, 0x8000_0000),
        (4_294_967_040.0, i32::MAX, 4_294_967_040),
        (-0.99, 0, 0),
        (0.999, 0, 0),
        (-2.5, -2, 0),
        (1.5, 1, 1),
        (-2_147_483_648.0, i32::MIN, 0),
    ] {
        assert_eq!(float_to_i32::<F32>(single(value)), signed, "{value}");
        assert_eq!(float_to_u32::<F32>(single(value)), unsigned, "{value}");
        assert_eq!(float_to_i32::<F64>(f64::from(value).to_bits()), signed, "{value}");
    }
    assert_eq!(float_to_u32::<F64>(4_294_967_295.9f64.to_bits()), u32::MAX);
    assert_eq!(to_i16(0x7bff), i16::MAX);
    assert_eq!(to_i16(0xfc00), i16::MIN);
    assert_eq!(to_u16(0x7c00), u16::MAX);
    assert_eq!(to_u16(0xbc00), 0);
    assert_eq!(to_i16(0x7e00), 0);
}

#[test]
fn integers_are_rounded_up_down_and_near() {
    let mode = Mode::default();
    for (value, nearest, floor) in
        [(0.5, 1, 0), (-0.5, 0, -1), (1.5, 2, 1), (-1.5, -1, -2), (2.4, 2, 2), (-2.6, -3, -3)]
    {
        assert_eq!(to_i32_nearest(&mode, single(value)), nearest, "{value}");
        assert_eq!(to_i32_floor(&mode, single(value)), floor, "{value}");
    }
    assert_eq!(to_i32_nearest(&mode, 0x3eff_ffff), 1, "the sum with 0.5 is rounded");
    assert_eq!(to_i32_floor(&mode, 0x8000_0001), -1);
    assert_eq!(to_i32_floor(&flushing(true, true), 0x8000_0001), 0);
    assert_eq!(to_i32_floor(&mode, single(f32::NAN)), 0);
}

#[test]
fn integers_become_floats() {
    let mode = Mode::default();
    for (value, signed, unsigned) in [
        (0xffff_ffff, 0xbf80_0000, 0x4f80_0000),
        (0x8000_0000, 0xcf00_0000, 0x4f00_0000),
        (0x7fff_ffff, 0x4f00_0000, 0x4f00_0000),
        (0xdead_beef, 0xce05_4904, 0x4f5e_adbf),
    ] {
        assert_eq!(float_from_i32::<F32>(&mode, value as i32), signed, "gfx1200, {value:x}");
        assert_eq!(float_from_u32::<F32>(&mode, value), unsigned, "gfx1200, {value:x}");
        assert_eq!(float_from_u32::<F64>(&mode, value), f64::from(value).to_bits());
    }
    assert_eq!(float_from_u32::<F32>(&rounding(Round::ToZero), u32::MAX), 0x4f7f_ffff);
    assert_eq!(float_from_i32::<F32>(&rounding(Round::Up), -0x7fff_ffff), 0xceff_ffff);
    for value in i16::MIN..=i16::MAX {
        let expected = single_to_half(f32::from(value));
        assert_eq!(float_from_i32::<F16>(&mode, i32::from(value)), expected);
    }
    assert_eq!(float_from_u32::<F16>(&mode, 65_535), 0x7c00);
    assert_eq!(float_from_u32::<F16>(&Mode { clamp_overflow: true, ..mode }, 65_535), 0x7bff);
    let bytes = 0x80ff_0103;
    assert_eq!([0, 1, 2, 3].map(|byte| f32::from_bits(ubyte_to_f32(bytes, byte))), [3.0, 1.0, 255.0, 128.0]);
}

#[test]
fn normalized_integers_reach_both_ends() {
    let pair = pack_norm_i16::<F32>(single(1.0), single(-1.0));
    assert_eq!(pair, 0x8001_7fff);
    assert_eq!(pack_norm_i16::<F32>(single(f32::NAN), single(7.0)), 0x7fff_0000);
    assert_eq!(pack_norm_i16::<F16>(0x3800, 0xb800), 0xc000_4000, "16,383.5 to the even one");
    assert_eq!(pack_norm_u16::<F32>(single(1.0), single(-1.0)), 0x0000_ffff);
    assert_eq!(pack_norm_u16::<F32>(single(0.5), single(f32::NAN)), 0x0000_8000);
    assert_eq!(pack_norm_u16::<F16>(0x7c00, 0x3c00), 0xffff_ffff);
}

#[test]
fn a_byte_is_replaced() {
    assert_eq!(pack_u8(single(200.0), 1, 0x1122_3344), 0x1122_c844);
    assert_eq!(pack_u8(single(-5.0), 0, 0x1122_3344), 0x1122_3300);
    assert_eq!(pack_u8(single(300.0), 3, 0x1122_3344), 0xff22_3344);
    assert_eq!(pack_u8(single(f32::NAN), 2, 0x1122_3344), 0x1100_3344);
    assert_eq!(pack_u8(single(2.5), 4, 0), 2, "the byte's number is taken modulo 4");
}

#[test]
fn every_bf16_is_a_float_of_its_bits() {
    for bits in 0..=u16::MAX {
        let wide = bf16_to_f32(bits);
        assert_eq!(wide, u32::from(bits) << 16);
        let expected = if is_nan::<F32>(wide) { bits | 0x40 } else { bits };
        assert_eq!(bf16_from_f32(wide), expected);
        if bits & 0x7f80 != 0x7f80 {
            assert_eq!(bf16_from_f32(wide | 0x7fff), bits);
            assert_eq!(bf16_from_f32(wide | 0x8000), bits + (bits & 1), "a tie");
            assert_eq!(bf16_from_f32(wide | 0x8001), bits + 1);
        }
    }
    assert_eq!(bf16_from_f32(0x7f80_0001), 0x7fc0, "a NaN stays one");
    assert_eq!(bf16_from_f32(0xffff_ffff), 0xffff);
    assert_eq!(bf16_from_f32(single(f32::MAX)), 0x7f80);
}
