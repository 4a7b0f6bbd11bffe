//! Integers with `clamp`, whose results saturate: products, sums of differences, dot products, and gfx9's names of 16-bit sums.

use super::integer::{i24, u24};
use super::media::{difference, four, masked_difference};
use super::vector::{Definition, Run, define, lanes, wide};
use crate::number::{self, Lanes};

type Row = (&'static str, Definition);

pub(crate) fn rows() -> Vec<Row> {
    [sums(), products(), differences(), dots()].concat()
}

/// Whether no result can be beyond what is representable, so that `clamp` changes none: of extremes, of shifts to the right, and of upper
/// parts of products.
pub(crate) fn always_fits(name: &str) -> bool {
    const STEMS: [&str; 9] = ["min", "max", "min3", "max3", "med3", "minmax", "maxmin", "lshrrev", "ashrrev"];
    let name = name.strip_prefix("pk_").unwrap_or(name);
    let is_upper = matches!(name, "mul_hi_u32_u24" | "mul_hi_i32_i24");
    is_upper || name.split_once('_').is_some_and(|(stem, _)| STEMS.contains(&stem))
}

/// "The result must be clamped to the largest and smallest representable value" (LLVM, "Syntax of AMDGPU Instruction Modifiers", clamp): as
/// multiply-adds to which nothing is added.
fn products() -> Vec<Row> {
    let low = define!(U16 [U16 U16]; lanes!(|_, a, b, _| (a * b).min(0xffff)));
    let packed = match low.run {
        Run::Narrow(run) => Definition { run: Run::Packed(run), ..low },
        _ => low,
    };
    vec![
        ("mul_lo_u16 clamp", low),
        ("pk_mul_lo_u16 clamp", packed),
        (
            "mul_u32_u24 clamp",
            define!(U32 [U32 U32]; lanes!(|_, a, b, _| u32::try_from(u24(a) * u24(b)).unwrap_or(u32::MAX))),
        ),
        (
            "mul_i32_i24 clamp",
            define!(U32 [U32 U32]; lanes!(|_, a, b, _| {
                (i24(a) * i24(b)).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32
            })),
        ),
    ]
}

fn sums() -> Vec<Row> {
    let subrev = define!(U32 [U32 U32]; lanes!(|_, a, b, _| b.saturating_sub(a)));
    vec![
        ("subrev_u32 clamp", subrev),
        ("subrev_nc_u32 clamp", subrev),
        ("subrev_u16 clamp", define!(U16 [U16 U16]; lanes!(|_, a, b, _| b.saturating_sub(a)))),
        (
            "add_i16 clamp",
            define!(U16 [U16 U16]; lanes!(|_, a, b, _| u32::from((a as i16).saturating_add(b as i16) as u16))),
        ),
        (
            "sub_i16 clamp",
            define!(U16 [U16 U16]; lanes!(|_, a, b, _| u32::from((a as i16).saturating_sub(b as i16) as u16))),
        ),
        ("mad_u32_u16 clamp", define!(U32 [U16 U16 U32]; lanes!(|_, a, b, c| (a * b).saturating_add(c)))),
        (
            "mad_i32_i16 clamp",
            define!(U32 [U16 U16 U32]; lanes!(|_, a, b, c| {
                (i32::from(a as i16) * i32::from(b as i16)).saturating_add(c as i32) as u32
            })),
        ),
    ]
}

/// Every term is positive: adding the rest to the sum of all differences saturates where any other order does.
fn differences() -> Vec<Row> {
    vec![
        ("sad_u8 clamp", define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| difference(a, b, 0).saturating_add(c)))),
        (
            "sad_hi_u8 clamp",
            define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| (difference(a, b, 0) << 16).saturating_add(c))),
        ),
        (
            "sad_u16 clamp",
            define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| {
                let halves = (a & 0xffff).abs_diff(b & 0xffff) + (a >> 16).abs_diff(b >> 16);
                halves.saturating_add(c)
            })),
        ),
        ("sad_u32 clamp", define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| a.abs_diff(b).saturating_add(c)))),
        (
            "msad_u8 clamp",
            define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| masked_difference(a, b, 0).saturating_add(c))),
        ),
        (
            "qsad_pk_u16_u8 clamp",
            define!(U64 [U64 U32 U64]; wide!(|_, a, b, c| {
                four(a, b as u32, c, |a, b, sum| difference(a, b, sum).min(0xffff))
            })),
        ),
        (
            "mqsad_pk_u16_u8 clamp",
            define!(U64 [U64 U32 U64]; wide!(|_, a, b, c| {
                four(a, b as u32, c, |a, b, sum| masked_difference(a, b, sum).min(0xffff))
            })),
        ),
    ]
}

fn dots() -> Vec<Row> {
    use Lanes::{Signed, Unsigned};
    macro_rules! dot {
        ($($flag:ident)*; $operation:ident $($lanes:ident)*) => {
            define!(U32 [U32 U32 U32] $($flag)*; lanes!(|_, a, b, c| number::$operation($($lanes,)* true, a, b, c)))
        };
    }
    vec![
        ("dot2_u32_u16 clamp", dot!(; dot2_i16 Unsigned)),
        ("dot4_u32_u8 clamp", dot!(; dot4_i8 Unsigned Unsigned)),
        ("dot8_i32_i4 clamp", dot!(; dot8_i4 Signed Signed)),
        ("dot8_u32_u4 clamp", dot!(; dot8_i4 Unsigned Unsigned)),
        ("dot2c_i32_i16 clamp", dot!(tied; dot2_i16 Signed)),
        ("dot4c_i32_i8 clamp", dot!(tied; dot4_i8 Signed Signed)),
        ("dot8c_i32_i4 clamp", dot!(tied; dot8_i4 Signed Signed)),
    ]
}
