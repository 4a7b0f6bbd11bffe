use super::super::{
    F16, F32, Format, Lanes, Mode, Part, dot2_bf16, dot2_f16, dot2_f32_bf16, dot2_f32_f16, dot2_i16, dot4_i8, dot8_i4,
    fma_mix, fma_mix_f16, mix_source,
};
use super::{Random, flushing, single};

fn halves(low: f64, high: f64) -> u32 {
    u32::from(F16::from_f64_nearest(low)) | u32::from(F16::from_f64_nearest(high)) << 16
}

fn bf16s(low: f32, high: f32) -> u32 {
    low.to_bits() >> 16 | high.to_bits() & 0xffff_0000
}

#[test]
fn dots_of_floats_add_in_order() {
    let mode = Mode::default();
    assert_eq!(dot2_f32_f16(&mode, halves(1.0, 2.0), halves(-2.0, 3.0), single(10.0)), single(14.0));
    // The first product goes under beside c, before the second one takes c away.
    let large = single(2f32.powi(24));
    assert_eq!(dot2_f32_f16(&mode, halves(1.0, -4096.0), halves(1.0, 4096.0), large), single(0.0));
    assert_eq!(dot2_f32_f16(&mode, halves(-4096.0, 1.0), halves(4096.0, 1.0), large), single(1.0));
    assert_eq!(dot2_f32_bf16(&mode, bf16s(2.0, 3.0), bf16s(4.0, 5.0), single(1.0)), single(24.0));
    assert_eq!(dot2_f16(&mode, halves(2.0, 3.0), halves(4.0, 5.0), 0x3c00), 0x4e00);
    assert_eq!(dot2_bf16(bf16s(2.0, 3.0), bf16s(4.0, 5.0), 0x3f80), 0x41c0);
    assert_eq!(dot2_bf16(bf16s(1.0, 1.0), bf16s(1.0, 1.0), 0x4380), 0x4380, "256 + 1 + 1 in steps of 2");
    assert_eq!(dot2_f32_f16(&flushing(true, false), 0x0001, 0x3c00, 0), 0);
}

fn naive(bits: u32, signed: [bool; 2], a: u32, b: u32) -> i64 {
    let lane = |register: u32, index: u32, signed: bool| {
        let value = i64::from(register >> (index * bits)) & ((1 << bits) - 1);
        if signed && value >> (bits - 1) == 1 { value - (1 << bits) } else { value }
    };
    (0..32 / bits).map(|index| lane(a, index, signed[0]) * lane(b, index, signed[1])).sum()
}

#[test]
fn dots_of_integers_are_exact_and_saturate() {
    let mut random = Random(0xd07);
    let lanes = |signed| if signed { Lanes::Signed } else { Lanes::Unsigned };
    for _ in 0..5_000 {
        let [a, b, c] = [0; 3].map(|_| random.next() as u32);
        for signed in [[true, true], [false, false], [true, false], [false, true]] {
            let unsigned = signed == [false, false];
            let start = if unsigned { i64::from(c) } else { i64::from(c as i32) };
            let (a_lanes, b_lanes) = (lanes(signed[0]), lanes(signed[1]));
            for saturate in [false, true] {
                let limited = |sum: i64| match (saturate, unsigned) {
                    (false, _) => sum as u32,
                    (true, true) => sum.min(i64::from(u32::MAX)) as u32,
                    (true, false) => sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32,
                };
                assert_eq!(dot4_i8(a_lanes, b_lanes, saturate, a, b, c), limited(start + naive(8, signed, a, b)));
                assert_eq!(dot8_i4(a_lanes, b_lanes, saturate, a, b, c), limited(start + naive(4, signed, a, b)));
                if signed[0] == signed[1] {
                    assert_eq!(dot2_i16(a_lanes, saturate, a, b, c), limited(start + naive(16, signed, a, b)));
                }
            }
        }
    }
    assert_eq!(dot4_i8(Lanes::Signed, Lanes::Signed, true, 0x7f7f_7f7f, 0x7f7f_7f7f, 0x7fff_fff0), 0x7fff_ffff);
}

#[test]
fn mixed_sources_are_widened() {
    let mode = Mode::default();
    let pair = halves(1.5, -2.0);
    assert_eq!(mix_source(&mode, Part::Whole, pair), pair);
    assert_eq!(mix_source(&mode, Part::Low, pair), single(1.5));
    assert_eq!(mix_source(&mode, Part::High, pair), single(-2.0));
    assert_eq!(mix_source(&flushing(true, true), Part::Low, 1), 0);
    assert_eq!(fma_mix(&mode, single(1.5), single(-2.0), single(0.25)), single(-2.75));
    assert_eq!(fma_mix_f16(&mode, single(1.5), single(-2.0), single(0.25)), 0xc180);
    // Rounded twice: 1 + 2^-11 + 2^-25 is 1 + 2^-11 in FP32, and that is a tie in FP16.
    let odd = F32::from_f64_nearest(1.0 + 2f64.powi(-11));
    assert_eq!(fma_mix_f16(&mode, odd, single(1.0), single(2f32.powi(-25))), 0x3c00);
}
