//! Vector ALU on floats. What is computed is in [`crate::number`]; here it is put over lanes, with shorter ways where MODE is as
//! kernels have it.

use super::vector::{Definition, Kind, Run, carry, define, lanes, wide};
use crate::number::{self, Behaviour, Eight, F16, F32, F64, Mode};

type Row = (&'static str, Definition);

pub(crate) fn rows() -> Vec<Row> {
    [
        singles(),
        halves(),
        doubles(),
        rounding(),
        transcendental(),
        division(),
        conversions(),
        eights(),
        packed(),
        dots(),
    ]
    .concat()
}

/// What the host's own arithmetic can be used for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// MODE asks for what the host does.
    Plain,
    /// The same, with denormals made zeros before and behind.
    Flushed,
    /// Each lane by exact arithmetic.
    Exact,
}

fn way(mode: &Mode) -> Way {
    if mode.single == Behaviour::IEEE {
        Way::Plain
    } else if mode.single == (Behaviour { flush_in: true, flush_out: true, ..Behaviour::IEEE }) {
        Way::Flushed
    } else {
        Way::Exact
    }
}

#[inline(always)]
fn flushed(value: f32) -> f32 {
    let bits = value.to_bits();
    f32::from_bits(if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits })
}

/// Lanes by the host's arithmetic; where that gives a NaN, they are to be done by the exact one, which knows which NaN.
#[inline(always)]
fn quickly(out: &mut [u32], [a, b, c]: [&[u32]; 3], flush: bool, quick: impl Fn(f32, f32, f32) -> f32) -> bool {
    let mut nan = false;
    for (((out, a), b), c) in out.iter_mut().zip(a).zip(b).zip(c) {
        let (a, b, c) = (f32::from_bits(*a), f32::from_bits(*b), f32::from_bits(*c));
        let value = if flush { flushed(quick(flushed(a), flushed(b), flushed(c))) } else { quick(a, b, c) };
        nan |= value.is_nan();
        *out = value.to_bits();
    }
    nan
}

macro_rules! quick {
    (|$a:tt, $b:tt, $c:tt| $quick:expr, |$mode:tt| $exact:expr) => {{
        fn run(mode: &Mode, out: &mut [u32], sources: [&[u32]; 3]) {
            let unfinished = match way(mode) {
                Way::Plain => pulp::Arch::new().dispatch(
                    #[inline(always)]
                    || {
                        quickly(
                            out,
                            sources,
                            false,
                            #[inline(always)]
                            |$a: f32, $b: f32, $c: f32| $quick,
                        )
                    },
                ),
                Way::Flushed => pulp::Arch::new().dispatch(
                    #[inline(always)]
                    || {
                        quickly(
                            out,
                            sources,
                            true,
                            #[inline(always)]
                            |$a: f32, $b: f32, $c: f32| $quick,
                        )
                    },
                ),
                Way::Exact => true,
            };
            if unfinished {
                let ($mode, [a, b, c]) = (mode, sources);
                for (((out, a), b), c) in out.iter_mut().zip(a).zip(b).zip(c) {
                    let ($a, $b, $c) = (*a, *b, *c);
                    *out = $exact;
                }
            }
        }
        Run::Narrow(run)
    }};
}

/// V_CVT_F32_F16 and V_CVT_F16_F32 where MODE keeps denormals and rounds to the nearest.
fn converts_plainly(mode: &Mode) -> bool {
    mode.single == Behaviour::IEEE && mode.half_double == Behaviour::IEEE && !mode.clamp_overflow
}

fn widen(mode: &Mode, out: &mut [u32], [a, _, _]: [&[u32]; 3]) {
    let quick = |out: &mut [u32]| {
        let mut nan = false;
        for (out, a) in out.iter_mut().zip(a) {
            nan |= a & 0x7fff > 0x7c00;
            *out = number::half_to_single(*a as u16).to_bits();
        }
        nan
    };
    if !converts_plainly(mode) || quick(out) {
        out.iter_mut().zip(a).for_each(|(out, a)| *out = number::resize::<F16, F32>(mode, *a as u16));
    }
}

fn narrow(mode: &Mode, out: &mut [u32], [a, _, _]: [&[u32]; 3]) {
    let quick = |out: &mut [u32]| {
        let mut nan = false;
        for (out, a) in out.iter_mut().zip(a) {
            nan |= a & 0x7fff_ffff > 0x7f80_0000;
            *out = u32::from(number::single_to_half(f32::from_bits(*a)));
        }
        nan
    };
    if !converts_plainly(mode) || quick(out) {
        out.iter_mut().zip(a).for_each(|(out, a)| *out = u32::from(number::resize::<F32, F16>(mode, *a)));
    }
}

pub(crate) fn fma_run() -> Run {
    quick!(|a, b, c| a.mul_add(b, c), |mode| number::fma::<F32>(mode, a, b, c))
}

fn add_run() -> Run {
    quick!(|a, b, _c| a + b, |mode| number::add::<F32>(mode, a, b))
}

fn mul_run() -> Run {
    quick!(|a, b, _c| a * b, |mode| number::mul::<F32>(mode, a, b))
}

fn singles() -> Vec<Row> {
    let mad = lanes!(|mode, a, b, c| number::mad::<F32>(mode, a, b, c));
    let fma3 = define!(F32 [F32 F32 F32]; fma_run());
    let legacy = define!(F32 [F32 F32]; lanes!(|mode, a, b, _| number::mul_legacy(mode, a, b)));
    vec![
        ("add_f32", define!(F32 [F32 F32]; add_run())),
        ("sub_f32", define!(F32 [F32 F32]; quick!(|a, b, _c| a - b, |mode| number::sub::<F32>(mode, a, b)))),
        ("subrev_f32", define!(F32 [F32 F32]; quick!(|a, b, _c| b - a, |mode| number::sub::<F32>(mode, b, a)))),
        ("mul_f32", define!(F32 [F32 F32]; mul_run())),
        ("mul_legacy_f32", legacy),
        ("mul_dx9_zero_f32", legacy),
        ("fma_f32", fma3),
        ("fmaak_f32", fma3),
        ("fmamk_f32", fma3),
        ("fmac_f32", define!(F32 [F32 F32 F32] tied; fma_run())),
        ("mad_f32", define!(F32 [F32 F32 F32]; mad)),
        ("madak_f32", define!(F32 [F32 F32 F32]; mad)),
        ("madmk_f32", define!(F32 [F32 F32 F32]; mad)),
        ("mac_f32", define!(F32 [F32 F32 F32] tied; mad)),
        ("min_f32", define!(F32 [F32 F32]; lanes!(|mode, a, b, _| number::min::<F32>(mode, a, b)))),
        ("max_f32", define!(F32 [F32 F32]; lanes!(|mode, a, b, _| number::max::<F32>(mode, a, b)))),
        ("min3_f32", define!(F32 [F32 F32 F32]; lanes!(|mode, a, b, c| number::min3::<F32>(mode, a, b, c)))),
        ("max3_f32", define!(F32 [F32 F32 F32]; lanes!(|mode, a, b, c| number::max3::<F32>(mode, a, b, c)))),
        ("med3_f32", define!(F32 [F32 F32 F32]; lanes!(|mode, a, b, c| number::median3::<F32>(mode, a, b, c)))),
        (
            "maxmin_f32",
            define!(F32 [F32 F32 F32]; lanes!(|mode, a, b, c| {
                number::min::<F32>(mode, number::max::<F32>(mode, a, b), c)
            })),
        ),
        (
            "minmax_f32",
            define!(F32 [F32 F32 F32]; lanes!(|mode, a, b, c| {
                number::max::<F32>(mode, number::min::<F32>(mode, a, b), c)
            })),
        ),
        ("fma_mix_f32", define!(F32 [F32 F32 F32]; Run::Mix(Kind::F32))),
        ("fma_mixlo_f16", define!(F16 [F32 F32 F32] keeps; Run::Mix(Kind::F16))),
        ("fma_mixhi_f16", define!(F16 [F32 F32 F32] keeps; Run::Mix(Kind::F16))),
    ]
}

macro_rules! half {
    (1, $name:ident) => {
        define!(F16 [F16]; lanes!(|mode, a, _, _| u32::from(number::$name::<F16>(mode, a as u16))))
    };
    (2, $name:ident) => {
        define!(F16 [F16 F16]; lanes!(|mode, a, b, _| u32::from(number::$name::<F16>(mode, a as u16, b as u16))))
    };
    (3, $name:ident $($flag:ident)*) => {
        define!(F16 [F16 F16 F16] $($flag)*; lanes!(|mode, a, b, c| {
            u32::from(number::$name::<F16>(mode, a as u16, b as u16, c as u16))
        }))
    };
}

fn halves() -> Vec<Row> {
    let fma3 = half!(3, fma);
    vec![
        ("add_f16", half!(2, add)),
        ("sub_f16", half!(2, sub)),
        (
            "subrev_f16",
            define!(F16 [F16 F16]; lanes!(|mode, a, b, _| u32::from(number::sub::<F16>(mode, b as u16, a as u16)))),
        ),
        ("mul_f16", half!(2, mul)),
        ("fma_f16", fma3),
        ("fmaak_f16", fma3),
        ("fmamk_f16", fma3),
        ("fma_legacy_f16", fma3),
        ("fmac_f16", half!(3, fma tied)),
        ("mad_f16", half!(3, mad)),
        ("mad_legacy_f16", half!(3, mad)),
        ("mac_f16", half!(3, mad tied)),
        ("min_f16", half!(2, min)),
        ("max_f16", half!(2, max)),
        ("min3_f16", half!(3, min3)),
        ("max3_f16", half!(3, max3)),
        ("med3_f16", half!(3, median3)),
        ("rcp_f16", half!(1, rcp)),
        ("rsq_f16", half!(1, rsq)),
        ("sqrt_f16", half!(1, sqrt)),
        ("exp_f16", half!(1, exp2)),
        ("log_f16", half!(1, log2)),
        ("sin_f16", half!(1, sin)),
        ("cos_f16", half!(1, cos)),
        ("trunc_f16", half!(1, trunc)),
        ("ceil_f16", half!(1, ceil)),
        ("floor_f16", half!(1, floor)),
        ("rndne_f16", half!(1, round_even)),
        ("fract_f16", half!(1, fract)),
        ("frexp_mant_f16", half!(1, frexp_mantissa)),
        (
            "frexp_exp_i16_f16",
            define!(U16 [F16]; lanes!(|mode, a, _, _| {
                number::frexp_exponent::<F16>(mode, a as u16) as u32 & 0xffff
            })),
        ),
        (
            "ldexp_f16",
            define!(F16 [F16 U16]; lanes!(|mode, a, b, _| {
                u32::from(number::ldexp::<F16>(mode, a as u16, i32::from(b as i16)))
            })),
        ),
        ("div_fixup_f16", half!(3, div_fixup)),
        ("div_fixup_legacy_f16", half!(3, div_fixup)),
    ]
}

macro_rules! double {
    (1, $name:ident) => {
        define!(F64 [F64]; wide!(|mode, a, _, _| number::$name::<F64>(mode, a)))
    };
    (2, $name:ident) => {
        define!(F64 [F64 F64]; wide!(|mode, a, b, _| number::$name::<F64>(mode, a, b)))
    };
    (3, $name:ident $($flag:ident)*) => {
        define!(F64 [F64 F64 F64] $($flag)*; wide!(|mode, a, b, c| number::$name::<F64>(mode, a, b, c)))
    };
}

fn doubles() -> Vec<Row> {
    vec![
        ("add_f64", double!(2, add)),
        ("mul_f64", double!(2, mul)),
        ("fma_f64", double!(3, fma)),
        ("fmac_f64", double!(3, fma tied)),
        ("min_f64", double!(2, min)),
        ("max_f64", double!(2, max)),
        ("rcp_f64", double!(1, rcp)),
        ("rsq_f64", double!(1, rsq)),
        ("sqrt_f64", double!(1, sqrt)),
        ("trunc_f64", double!(1, trunc)),
        ("ceil_f64", double!(1, ceil)),
        ("floor_f64", double!(1, floor)),
        ("rndne_f64", double!(1, round_even)),
        ("fract_f64", double!(1, fract)),
        ("frexp_mant_f64", double!(1, frexp_mantissa)),
        (
            "frexp_exp_i32_f64",
            define!(U32 [F64]; wide!(|mode, a, _, _| {
                u64::from(number::frexp_exponent::<F64>(mode, a) as u32)
            })),
        ),
        ("ldexp_f64", define!(F64 [F64 U32]; wide!(|mode, a, b, _| number::ldexp::<F64>(mode, a, b as i32)))),
    ]
}

macro_rules! single {
    ($name:ident) => {
        define!(F32 [F32]; lanes!(|mode, a, _, _| number::$name::<F32>(mode, a)))
    };
}

fn rounding() -> Vec<Row> {
    vec![
        ("trunc_f32", single!(trunc)),
        ("ceil_f32", single!(ceil)),
        ("floor_f32", single!(floor)),
        ("rndne_f32", single!(round_even)),
        ("fract_f32", single!(fract)),
        ("frexp_mant_f32", single!(frexp_mantissa)),
        (
            "frexp_exp_i32_f32",
            define!(U32 [F32]; lanes!(|mode, a, _, _| number::frexp_exponent::<F32>(mode, a) as u32)),
        ),
        ("ldexp_f32", define!(F32 [F32 U32]; lanes!(|mode, a, b, _| number::ldexp::<F32>(mode, a, b as i32)))),
    ]
}

fn transcendental() -> Vec<Row> {
    vec![
        ("exp_f32", single!(exp2)),
        ("log_f32", single!(log2)),
        ("rcp_f32", single!(rcp)),
        ("rcp_iflag_f32", single!(rcp)),
        ("rsq_f32", single!(rsq)),
        ("sqrt_f32", single!(sqrt)),
        ("sin_f32", single!(sin)),
        ("cos_f32", single!(cos)),
    ]
}

fn division() -> Vec<Row> {
    vec![
        (
            "div_scale_f32",
            define!(F32 [F32 F32 F32] mask_out; carry!(NarrowCarry u32, |mode, a, b, c, _| {
                number::div_scale::<F32>(mode, a, b, c)
            })),
        ),
        (
            "div_scale_f64",
            define!(F64 [F64 F64 F64] mask_out; carry!(WideCarry u64, |mode, a, b, c, _| {
                number::div_scale::<F64>(mode, a, b, c)
            })),
        ),
        (
            "div_fmas_f32",
            define!(F32 [F32 F32 F32 Mask]; carry!(NarrowCarry u32, |mode, a, b, c, bit| {
                (number::div_fmas::<F32>(mode, bit, a, b, c), false)
            })),
        ),
        (
            "div_fmas_f64",
            define!(F64 [F64 F64 F64 Mask]; carry!(WideCarry u64, |mode, a, b, c, bit| {
                (number::div_fmas::<F64>(mode, bit, a, b, c), false)
            })),
        ),
        ("div_fixup_f32", define!(F32 [F32 F32 F32]; lanes!(|mode, a, b, c| number::div_fixup::<F32>(mode, a, b, c)))),
        ("div_fixup_f64", define!(F64 [F64 F64 F64]; wide!(|mode, a, b, c| number::div_fixup::<F64>(mode, a, b, c)))),
    ]
}

fn conversions() -> Vec<Row> {
    let toward_zero = define!(U32 [F32 F32]; lanes!(|mode, a, b, _| number::pack_round_to_zero(mode, a, b)));
    let nearest = define!(U32 [F32]; lanes!(|mode, a, _, _| number::to_i32_nearest(mode, a) as u32));
    let floor = define!(U32 [F32]; lanes!(|mode, a, _, _| number::to_i32_floor(mode, a) as u32));
    let norm_i16 = define!(U32 [F32 F32]; lanes!(|_, a, b, _| number::pack_norm_i16::<F32>(a, b)));
    let norm_u16 = define!(U32 [F32 F32]; lanes!(|_, a, b, _| number::pack_norm_u16::<F32>(a, b)));
    vec![
        ("cvt_f16_f32", define!(F16 [F32]; Run::Narrow(narrow))),
        ("cvt_f32_f16", define!(F32 [F16]; Run::Narrow(widen))),
        ("cvt_f64_f32", define!(F64 [F32]; wide!(|mode, a, _, _| number::resize::<F32, F64>(mode, a as u32)))),
        ("cvt_f32_f64", define!(F32 [F64]; wide!(|mode, a, _, _| u64::from(number::resize::<F64, F32>(mode, a))))),
        ("cvt_f32_u32", define!(F32 [U32]; lanes!(|mode, a, _, _| number::float_from_u32::<F32>(mode, a)))),
        ("cvt_f32_i32", define!(F32 [U32]; lanes!(|mode, a, _, _| number::float_from_i32::<F32>(mode, a as i32)))),
        ("cvt_f64_u32", define!(F64 [U32]; wide!(|mode, a, _, _| number::float_from_u32::<F64>(mode, a as u32)))),
        ("cvt_f64_i32", define!(F64 [U32]; wide!(|mode, a, _, _| number::float_from_i32::<F64>(mode, a as i32)))),
        (
            "cvt_f16_u16",
            define!(F16 [U16]; lanes!(|mode, a, _, _| {
                u32::from(number::float_from_u32::<F16>(mode, a))
            })),
        ),
        (
            "cvt_f16_i16",
            define!(F16 [U16]; lanes!(|mode, a, _, _| {
                u32::from(number::float_from_i32::<F16>(mode, i32::from(a as i16)))
            })),
        ),
        ("cvt_u32_f32", define!(U32 [F32]; lanes!(|_, a, _, _| number::float_to_u32::<F32>(a)))),
        ("cvt_i32_f32", define!(U32 [F32]; lanes!(|_, a, _, _| number::float_to_i32::<F32>(a) as u32))),
        ("cvt_u32_f64", define!(U32 [F64]; wide!(|_, a, _, _| u64::from(number::float_to_u32::<F64>(a))))),
        ("cvt_i32_f64", define!(U32 [F64]; wide!(|_, a, _, _| u64::from(number::float_to_i32::<F64>(a) as u32)))),
        ("cvt_u16_f16", define!(U16 [F16]; lanes!(|_, a, _, _| u32::from(number::to_u16(a as u16))))),
        ("cvt_i16_f16", define!(U16 [F16]; lanes!(|_, a, _, _| u32::from(number::to_i16(a as u16) as u16)))),
        ("cvt_i32_i16", define!(U32 [U16]; lanes!(|_, a, _, _| a as i16 as u32))),
        ("cvt_u32_u16", define!(U32 [U16]; lanes!(|_, a, _, _| a))),
        ("cvt_rpi_i32_f32", nearest),
        ("cvt_nearest_i32_f32", nearest),
        ("cvt_flr_i32_f32", floor),
        ("cvt_floor_i32_f32", floor),
        ("cvt_f32_ubyte0", define!(F32 [U32] bitwise; lanes!(|_, a, _, _| number::ubyte_to_f32(a, 0)))),
        ("cvt_f32_ubyte1", define!(F32 [U32] bitwise; lanes!(|_, a, _, _| number::ubyte_to_f32(a, 1)))),
        ("cvt_f32_ubyte2", define!(F32 [U32] bitwise; lanes!(|_, a, _, _| number::ubyte_to_f32(a, 2)))),
        ("cvt_f32_ubyte3", define!(F32 [U32] bitwise; lanes!(|_, a, _, _| number::ubyte_to_f32(a, 3)))),
        ("cvt_pk_u8_f32", define!(U32 [F32 U32 U32]; lanes!(|_, a, b, c| number::pack_u8(a, b & 3, c)))),
        ("cvt_pkrtz_f16_f32", toward_zero),
        ("cvt_pk_rtz_f16_f32", toward_zero),
        ("cvt_pknorm_i16_f32", norm_i16),
        ("cvt_pk_norm_i16_f32", norm_i16),
        ("cvt_pknorm_u16_f32", norm_u16),
        ("cvt_pk_norm_u16_f32", norm_u16),
    ]
}

fn pair_of(format: Eight, value: u64) -> u64 {
    let [low, high, ..] = value.to_le_bytes();
    u64::from(number::eight_to_f32(format, low)) | u64::from(number::eight_to_f32(format, high)) << 32
}

fn eights() -> Vec<Row> {
    use Eight::{E4M3, E5M2};
    fn pack(mode: &Mode, format: Eight, a: u32, b: u32) -> u32 {
        u32::from(number::eight_from_f32(mode, format, a)) | u32::from(number::eight_from_f32(mode, format, b)) << 8
    }
    vec![
        ("cvt_f32_fp8", define!(F32 [U32]; lanes!(|mode, a, _, _| number::eight_to_f32(mode.eight(E4M3), a as u8)))),
        ("cvt_f32_bf8", define!(F32 [U32]; lanes!(|mode, a, _, _| number::eight_to_f32(mode.eight(E5M2), a as u8)))),
        ("cvt_pk_f32_fp8", define!(F64 [U32]; wide!(|mode, a, _, _| pair_of(mode.eight(E4M3), a)))),
        ("cvt_pk_f32_bf8", define!(F64 [U32]; wide!(|mode, a, _, _| pair_of(mode.eight(E5M2), a)))),
        (
            "cvt_sr_fp8_f32",
            define!(U32 [F32 U32]; lanes!(|mode, a, b, _| {
                u32::from(number::eight_from_f32_stochastic(mode, mode.eight(E4M3), a, b))
            })),
        ),
        (
            "cvt_sr_bf8_f32",
            define!(U32 [F32 U32]; lanes!(|mode, a, b, _| {
                u32::from(number::eight_from_f32_stochastic(mode, mode.eight(E5M2), a, b))
            })),
        ),
        ("cvt_pk_fp8_f32", define!(U16 [F32 F32] keeps; lanes!(|mode, a, b, _| pack(mode, mode.eight(E4M3), a, b)))),
        ("cvt_pk_bf8_f32", define!(U16 [F32 F32] keeps; lanes!(|mode, a, b, _| pack(mode, mode.eight(E5M2), a, b)))),
    ]
}

fn packed() -> Vec<Row> {
    let packed_half = |definition: Definition| match definition.run {
        Run::Narrow(run) => Definition { run: Run::Packed(run), ..definition },
        _ => definition,
    };
    let pair = |definition: Definition| match definition.run {
        Run::Narrow(run) => Definition { run: Run::PackedPair(run), ..definition },
        _ => definition,
    };
    vec![
        ("pk_add_f16", packed_half(half!(2, add))),
        ("pk_mul_f16", packed_half(half!(2, mul))),
        ("pk_fma_f16", packed_half(half!(3, fma))),
        ("pk_min_f16", packed_half(half!(2, min))),
        ("pk_max_f16", packed_half(half!(2, max))),
        ("pk_fmac_f16", packed_half(half!(3, fma tied))),
        ("pk_add_f32", pair(define!(F32 [F32 F32]; add_run()))),
        ("pk_mul_f32", pair(define!(F32 [F32 F32]; mul_run()))),
        ("pk_fma_f32", pair(define!(F32 [F32 F32 F32]; fma_run()))),
    ]
}

fn dots() -> Vec<Row> {
    let dot2 = lanes!(|mode, a, b, c| number::dot2_f32_f16(mode, a, b, c));
    vec![
        ("dot2_f32_f16", define!(F32 [U32 U32 F32]; dot2)),
        ("dot2c_f32_f16", define!(F32 [U32 U32 F32] tied; dot2)),
        ("dot2acc_f32_f16", define!(F32 [U32 U32 F32] tied; dot2)),
        ("dot2_f32_bf16", define!(F32 [U32 U32 F32]; lanes!(|mode, a, b, c| number::dot2_f32_bf16(mode, a, b, c)))),
        (
            "dot2_f16_f16",
            define!(F16 [U32 U32 F16]; lanes!(|mode, a, b, c| {
                u32::from(number::dot2_f16(mode, a, b, c as u16))
            })),
        ),
        (
            "dot2_bf16_bf16",
            define!(U16 [U32 U32 U16]; lanes!(|_, a, b, c| {
                u32::from(number::dot2_bf16(a, b, c as u16))
            })),
        ),
    ]
}
