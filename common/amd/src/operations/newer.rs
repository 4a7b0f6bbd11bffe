//! What gfx950, gfx11 and gfx12 added to the vector ALU, and what few programs have.

use super::vector::{Definition, Kind, Narrow, Run, define, lanes, wide};
use crate::number::{self, Eight, F16, F32, F64, Format, Lanes, Mode};

type Row = (&'static str, Definition);

pub(crate) fn rows() -> Vec<Row> {
    [packs(), extremes(), signed_dots(), float_dots(), preparation(), multiplications(), norms(), shifts(), legacy()]
        .concat()
}

/// Two results of 16 bits.
fn halves(low: u16, high: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

fn half_of(mode: &Mode, value: u32) -> u16 {
    number::resize::<F32, F16>(mode, value)
}

/// V_PRNG_B32: the pseudo-random number behind one.
pub(super) fn next_random(value: u32) -> u32 {
    value << 1 ^ if value >> 31 == 1 { 197 } else { 0 }
}

fn packs() -> Vec<Row> {
    vec![
        ("cvt_pk_f16_f32", define!(U32 [F32 F32]; lanes!(|mode, a, b, _| halves(half_of(mode, a), half_of(mode, b))))),
        (
            "cvt_pk_bf16_f32",
            define!(U32 [F32 F32]; lanes!(|_, a, b, _| {
                halves(number::bf16_from_f32(a), number::bf16_from_f32(b))
            })),
        ),
        (
            "cvt_sr_f16_f32",
            define!(F16 [F32 U32] keeps; lanes!(|mode, a, b, _| u32::from(number::sixteen_from_f32(mode, false, a, b)))),
        ),
        (
            "cvt_sr_bf16_f32",
            define!(F16 [F32 U32] keeps; lanes!(|mode, a, b, _| u32::from(number::sixteen_from_f32(mode, true, a, b)))),
        ),
        ("cvt_f32_bf16", define!(F32 [F16]; lanes!(|_, a, _, _| a << 16))),
        ("cvt_pk_i16_f32", define!(U32 [F32 F32]; lanes!(|_, a, b, _| number::pack_i16(a, b)))),
        ("cvt_pk_u16_f32", define!(U32 [F32 F32]; lanes!(|_, a, b, _| number::pack_u16(a, b)))),
        ("cvt_pkaccum_u8_f32", define!(U32 [F32 U32 U32] tied; lanes!(|_, a, b, c| number::pack_u8(a, b & 3, c)))),
        ("prng_b32", define!(U32 [U32]; lanes!(|_, a, _, _| next_random(a)))),
    ]
}

/// The larger or the smaller one; a NaN, quieted, where one is ("minimum" and "maximum" of IEEE 754-2019).
pub(super) fn extreme<F: Format>(mode: &Mode, larger: bool, a: F::Bits, b: F::Bits) -> F::Bits {
    // Of a NaN and anything else, an addition returns the NaN, quieted.
    if F::to_f64(a).is_nan() || F::to_f64(b).is_nan() {
        return number::add::<F>(mode, a, b);
    }
    if larger { number::max::<F>(mode, a, b) } else { number::min::<F>(mode, a, b) }
}

/// The same on both halves of each source.
fn packed(definition: Definition) -> Definition {
    match definition.run {
        Run::Narrow(run) => Definition { run: Run::Packed(run), ..definition },
        _ => definition,
    }
}

fn extremes() -> Vec<Row> {
    macro_rules! single {
        ($a:ident $b:ident, $larger:literal) => {
            define!(F32 [F32 F32]; lanes!(|mode, $a, $b, _| extreme::<F32>(mode, $larger, $a, $b)))
        };
    }
    macro_rules! three {
        ($first:literal, $second:literal) => {
            define!(F32 [F32 F32 F32]; lanes!(|mode, a, b, c| {
                extreme::<F32>(mode, $second, extreme::<F32>(mode, $first, a, b), c)
            }))
        };
    }
    macro_rules! half {
        ($larger:literal) => {
            define!(F16 [F16 F16]; lanes!(|mode, a, b, _| {
                u32::from(extreme::<F16>(mode, $larger, a as u16, b as u16))
            }))
        };
    }
    macro_rules! three_halves {
        ($first:literal, $second:literal) => {
            define!(F16 [F16 F16 F16]; lanes!(|mode, a, b, c| {
                let first = extreme::<F16>(mode, $first, a as u16, b as u16);
                u32::from(extreme::<F16>(mode, $second, first, c as u16))
            }))
        };
    }
    macro_rules! numbers {
        ($first:ident, $second:ident) => {
            define!(F16 [F16 F16 F16]; lanes!(|mode, a, b, c| {
                u32::from(number::$second::<F16>(mode, number::$first::<F16>(mode, a as u16, b as u16), c as u16))
            }))
        };
    }
    vec![
        ("minimum_f32", single!(a b, false)),
        ("maximum_f32", single!(a b, true)),
        ("minimum3_f32", three!(false, false)),
        ("maximum3_f32", three!(true, true)),
        ("maximumminimum_f32", three!(true, false)),
        ("minimummaximum_f32", three!(false, true)),
        ("minimum_f16", half!(false)),
        ("maximum_f16", half!(true)),
        ("pk_minimum_f16", packed(half!(false))),
        ("pk_maximum_f16", packed(half!(true))),
        ("minimum3_f16", three_halves!(false, false)),
        ("maximum3_f16", three_halves!(true, true)),
        ("maximumminimum_f16", three_halves!(true, false)),
        ("minimummaximum_f16", three_halves!(false, true)),
        ("pk_minimum3_f16", packed(three_halves!(false, false))),
        ("pk_maximum3_f16", packed(three_halves!(true, true))),
        ("minimum_f64", define!(F64 [F64 F64]; wide!(|mode, a, b, _| extreme::<F64>(mode, false, a, b)))),
        ("maximum_f64", define!(F64 [F64 F64]; wide!(|mode, a, b, _| extreme::<F64>(mode, true, a, b)))),
        ("minmax_f16", numbers!(min, max)),
        ("maxmin_f16", numbers!(max, min)),
    ]
}

/// Dot products whose first two sources are signed where `neg_lo` says so; its bits stand behind the name.
fn signed_dots() -> Vec<Row> {
    use Lanes::{Signed, Unsigned};
    macro_rules! dot {
        ($operation:ident, $clamp:literal, $a:ident, $b:ident) => {
            define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| number::$operation($a, $b, $clamp, a, b, c)))
        };
    }
    vec![
        ("dot4_i32_iu8 0", dot!(dot4_i8, false, Unsigned, Unsigned)),
        ("dot4_i32_iu8 1", dot!(dot4_i8, false, Signed, Unsigned)),
        ("dot4_i32_iu8 2", dot!(dot4_i8, false, Unsigned, Signed)),
        ("dot4_i32_iu8 3", dot!(dot4_i8, false, Signed, Signed)),
        ("dot4_i32_iu8 0 clamp", dot!(dot4_i8, true, Unsigned, Unsigned)),
        ("dot4_i32_iu8 1 clamp", dot!(dot4_i8, true, Signed, Unsigned)),
        ("dot4_i32_iu8 2 clamp", dot!(dot4_i8, true, Unsigned, Signed)),
        ("dot4_i32_iu8 3 clamp", dot!(dot4_i8, true, Signed, Signed)),
        ("dot8_i32_iu4 0", dot!(dot8_i4, false, Unsigned, Unsigned)),
        ("dot8_i32_iu4 1", dot!(dot8_i4, false, Signed, Unsigned)),
        ("dot8_i32_iu4 2", dot!(dot8_i4, false, Unsigned, Signed)),
        ("dot8_i32_iu4 3", dot!(dot8_i4, false, Signed, Signed)),
        ("dot8_i32_iu4 0 clamp", dot!(dot8_i4, true, Unsigned, Unsigned)),
        ("dot8_i32_iu4 1 clamp", dot!(dot8_i4, true, Signed, Unsigned)),
        ("dot8_i32_iu4 2 clamp", dot!(dot8_i4, true, Unsigned, Signed)),
        ("dot8_i32_iu4 3 clamp", dot!(dot8_i4, true, Signed, Signed)),
    ]
}

/// Dot products of FP8 and BF8.
fn float_dots() -> Vec<Row> {
    use Eight::{E4M3, E5M2};
    macro_rules! dot {
        ($a:ident, $b:ident) => {
            define!(F32 [U32 U32 F32]; lanes!(|mode, a, b, c| {
                number::dot4_f32(mode, [mode.eight($a), mode.eight($b)], a, b, c)
            }))
        };
    }
    vec![
        ("dot4_f32_fp8_fp8", dot!(E4M3, E4M3)),
        ("dot4_f32_fp8_bf8", dot!(E4M3, E5M2)),
        ("dot4_f32_bf8_fp8", dot!(E5M2, E4M3)),
        ("dot4_f32_bf8_bf8", dot!(E5M2, E5M2)),
    ]
}

/// Sums of products with the destination, and those of FP16 with a constant of gfx9.
fn multiplications() -> Vec<Row> {
    use Lanes::Signed;
    let brains = define!(F32 [U32 U32 F32] tied; lanes!(|mode, a, b, c| number::dot2_f32_bf16(mode, a, b, c)));
    let mad = define!(F16 [F16 F16 F16]; lanes!(|mode, a, b, c| {
        u32::from(number::mad::<F16>(mode, a as u16, b as u16, c as u16))
    }));
    vec![
        ("dot2c_f32_bf16", brains),
        ("dot2acc_f32_bf16", brains),
        (
            "dot2c_i32_i16",
            define!(U32 [U32 U32 U32] tied; lanes!(|_, a, b, c| number::dot2_i16(Signed, false, a, b, c))),
        ),
        (
            "dot8c_i32_i4",
            define!(U32 [U32 U32 U32] tied; lanes!(|_, a, b, c| {
                number::dot8_i4(Signed, Signed, false, a, b, c)
            })),
        ),
        ("mullit_f32", define!(F32 [F32 F32 F32]; lanes!(|mode, a, b, c| number::mul_lit(mode, a, b, c)))),
        ("madak_f16", mad),
        ("madmk_f16", mad),
    ]
}

/// What games of DirectX 9 wanted: 0 times anything is 0.
fn legacy() -> Vec<Row> {
    let fma = lanes!(|mode, a, b, c| number::fma_legacy(mode, a, b, c));
    vec![
        ("fma_legacy_f32", define!(F32 [F32 F32 F32]; fma)),
        ("fma_dx9_zero_f32", define!(F32 [F32 F32 F32]; fma)),
        ("fmac_legacy_f32", define!(F32 [F32 F32 F32] tied; fma)),
        ("fmac_dx9_zero_f32", define!(F32 [F32 F32 F32] tied; fma)),
        ("mad_legacy_f32", define!(F32 [F32 F32 F32]; lanes!(|mode, a, b, c| number::mad_legacy(mode, a, b, c)))),
        ("exp_legacy_f32", define!(F32 [F32]; lanes!(|mode, a, _, _| number::exp2::<F32>(mode, a)))),
        ("log_legacy_f32", define!(F32 [F32]; lanes!(|mode, a, _, _| number::log2::<F32>(mode, a)))),
    ]
}

/// FP16 from -1 or 0 to 1 as integers of 16 bits.
fn norms() -> Vec<Row> {
    let signed = define!(U32 [F16 F16]; lanes!(|_, a, b, _| number::pack_norm_i16::<F16>(a as u16, b as u16)));
    let unsigned = define!(U32 [F16 F16]; lanes!(|_, a, b, _| number::pack_norm_u16::<F16>(a as u16, b as u16)));
    vec![
        ("cvt_pknorm_i16_f16", signed),
        ("cvt_pk_norm_i16_f16", signed),
        ("cvt_pknorm_u16_f16", unsigned),
        ("cvt_pk_norm_u16_f16", unsigned),
        ("cvt_norm_i16_f16", define!(U16 [F16]; lanes!(|_, a, _, _| number::pack_norm_i16::<F16>(a as u16, 0)))),
        ("cvt_norm_u16_f16", define!(U16 [F16]; lanes!(|_, a, _, _| number::pack_norm_u16::<F16>(a as u16, 0)))),
    ]
}

/// V_ASHR_PK_I8_I32, V_ASHR_PK_U8_I32: two sources shifted and saturated, a byte each.
fn shifts() -> Vec<Row> {
    macro_rules! shifted {
        ($low:expr, $high:expr) => {
            define!(U16 [U32 U32 U32] keeps; lanes!(|_, a, b, c| {
                let byte = |value: u32| ((value as i32) >> (c & 31)).clamp($low, $high) as u32 & 0xff;
                byte(a) | byte(b) << 8
            }))
        };
    }
    vec![("ashr_pk_i8_i32", shifted!(-128, 127)), ("ashr_pk_u8_i32", shifted!(0, 255))]
}

fn preparation() -> Vec<Row> {
    vec![("trig_preop_f64", define!(F64 [F64 U32]; wide!(|_, a, b, _| number::trig_preop(a, b as u32))))]
}

/// V_BITOP3: each bit of the result is the one of the table that the bits of the sources choose, the first being the highest.
fn choose<const TABLE: u8>(_: &Mode, out: &mut [u32], [a, b, c]: [&[u32]; 3]) {
    for (((out, a), b), c) in out.iter_mut().zip(a).zip(b).zip(c) {
        *out = (0..8).filter(|at| TABLE >> at & 1 == 1).fold(0, |all, at| {
            let bit = |source: &u32, place: u32| if at >> place & 1 == 1 { *source } else { !*source };
            all | bit(a, 2) & bit(b, 1) & bit(c, 0)
        });
    }
}

macro_rules! tables {
    ($($table:literal)*) => {
        const TABLES: [Narrow; 256] = [$(choose::<$table>),*];
    };
}

tables! {
    0x00 0x01 0x02 0x03 0x04 0x05 0x06 0x07 0x08 0x09 0x0a 0x0b 0x0c 0x0d 0x0e 0x0f
    0x10 0x11 0x12 0x13 0x14 0x15 0x16 0x17 0x18 0x19 0x1a 0x1b 0x1c 0x1d 0x1e 0x1f
    0x20 0x21 0x22 0x23 0x24 0x25 0x26 0x27 0x28 0x29 0x2a 0x2b 0x2c 0x2d 0x2e 0x2f
    0x30 0x31 0x32 0x33 0x34 0x35 0x36 0x37 0x38 0x39 0x3a 0x3b 0x3c 0x3d 0x3e 0x3f
    0x40 0x41 0x42 0x43 0x44 0x45 0x46 0x47 0x48 0x49 0x4a 0x4b 0x4c 0x4d 0x4e 0x4f
    0x50 0x51 0x52 0x53 0x54 0x55 0x56 0x57 0x58 0x59 0x5a 0x5b 0x5c 0x5d 0x5e 0x5f
    0x60 0x61 0x62 0x63 0x64 0x65 0x66 0x67 0x68 0x69 0x6a 0x6b 0x6c 0x6d 0x6e 0x6f
    0x70 0x71 0x72 0x73 0x74 0x75 0x76 0x77 0x78 0x79 0x7a 0x7b 0x7c 0x7d 0x7e 0x7f
    0x80 0x81 0x82 0x83 0x84 0x85 0x86 0x87 0x88 0x89 0x8a 0x8b 0x8c 0x8d 0x8e 0x8f
    0x90 0x91 0x92 0x93 0x94 0x95 0x96 0x97 0x98 0x99 0x9a 0x9b 0x9c 0x9d 0x9e 0x9f
    0xa0 0xa1 0xa2 0xa3 0xa4 0xa5 0xa6 0xa7 0xa8 0xa9 0xaa 0xab 0xac 0xad 0xae 0xaf
    0xb0 0xb1 0xb2 0xb3 0xb4 0xb5 0xb6 0xb7 0xb8 0xb9 0xba 0xbb 0xbc 0xbd 0xbe 0xbf
    0xc0 0xc1 0xc2 0xc3 0xc4 0xc5 0xc6 0xc7 0xc8 0xc9 0xca 0xcb 0xcc 0xcd 0xce 0xcf
    0xd0 0xd1 0xd2 0xd3 0xd4 0xd5 0xd6 0xd7 0xd8 0xd9 0xda 0xdb 0xdc 0xdd 0xde 0xdf
    0xe0 0xe1 0xe2 0xe3 0xe4 0xe5 0xe6 0xe7 0xe8 0xe9 0xea 0xeb 0xec 0xed 0xee 0xef
    0xf0 0xf1 0xf2 0xf3 0xf4 0xf5 0xf6 0xf7 0xf8 0xf9 0xfa 0xfb 0xfc 0xfd 0xfe 0xff
}

/// V_BITOP3_B32, V_BITOP3_B16 with a table.
pub(crate) fn bit_operation(name: &str, table: u8) -> Option<Definition> {
    let run = TABLES.get(usize::from(table)).copied().map(Run::Narrow)?;
    let whole = define!(U32 [U32 U32 U32] bitwise; run);
    match name {
        "bitop3_b32" => Some(whole),
        "bitop3_b16" => Some(Definition { result: Kind::U16, sources: &[Kind::U16, Kind::U16, Kind::U16], ..whole }),
        _ => None,
    }
}
