//! Sums of absolute differences of bytes, and what else programs on images and videos have.

use super::vector::{Definition, define, lanes, wide};
use crate::number::{self, F32};

type Row = (&'static str, Definition);

pub(crate) fn rows() -> Vec<Row> {
    vec![
        ("sad_hi_u8", define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| (difference(a, b, 0) << 16).wrapping_add(c)))),
        ("msad_u8", define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| masked_difference(a, b, c)))),
        ("qsad_pk_u16_u8", define!(U64 [U64 U32 U64]; wide!(|_, a, b, c| four(a, b as u32, c, difference)))),
        ("mqsad_pk_u16_u8", define!(U64 [U64 U32 U64]; wide!(|_, a, b, c| four(a, b as u32, c, masked_difference)))),
        ("lerp_u8", define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| lerp(a, b, c)))),
        ("cubeid_f32", define!(F32 [F32 F32 F32]; lanes!(|_, x, y, z| face(x, y, z).number.to_bits()))),
        ("cubesc_f32", define!(F32 [F32 F32 F32]; lanes!(|_, x, y, z| face(x, y, z).across))),
        ("cubetc_f32", define!(F32 [F32 F32 F32]; lanes!(|_, x, y, z| face(x, y, z).down))),
        (
            "cubema_f32",
            define!(F32 [F32 F32 F32]; lanes!(|mode, x, y, z| {
                let major = face(x, y, z).major;
                number::add::<F32>(mode, major, major)
            })),
        ),
        (
            "cvt_off_f32_i4",
            define!(F32 [U32]; lanes!(|_, a, _, _| ((a << 28) as i32 as f32 / (1_u32 << 31) as f32 / 2.0).to_bits())),
        ),
    ]
}

/// The face of a cube that a direction meets, its coordinates there, and the one that is largest.
struct Face {
    number: f32,
    across: u32,
    down: u32,
    major: u32,
}

/// As LLVM evaluates constants ("llvm.amdgcn.cubeid" and its like).
fn face(x: u32, y: u32, z: u32) -> Face {
    let [size_x, size_y, size_z] = [x, y, z].map(|value| f32::from_bits(value).abs());
    let (negative, minus) = (|value: u32| f32::from_bits(value) < 0.0, |value: u32| value ^ 1 << 31);
    let (number, across, down, major) = if size_z >= size_x && size_z >= size_y {
        if negative(z) { (5.0, minus(x), minus(y), z) } else { (4.0, x, minus(y), z) }
    } else if size_y >= size_x {
        if negative(y) { (3.0, x, minus(z), y) } else { (2.0, x, z, y) }
    } else if negative(x) {
        (1.0, z, minus(y), x)
    } else {
        (0.0, minus(z), minus(y), x)
    };
    Face { number, across, down, major }
}

pub(super) fn difference(a: u32, b: u32, sum: u32) -> u32 {
    let bytes = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    bytes.fold(sum, |sum, (a, b)| sum.wrapping_add(u32::from(a.abs_diff(b))))
}

/// Bytes that are 0 in `reference` do not count.
pub(super) fn masked_difference(a: u32, reference: u32, sum: u32) -> u32 {
    let bytes = a.to_le_bytes().into_iter().zip(reference.to_le_bytes()).filter(|(_, reference)| *reference != 0);
    bytes.fold(sum, |sum, (a, b)| sum.wrapping_add(u32::from(a.abs_diff(b))))
}

/// Four sums of 16 bits, each of four bytes of `a` from one byte further on.
pub(super) fn four(a: u64, b: u32, sums: u64, of: impl Fn(u32, u32, u32) -> u32) -> u64 {
    (0..4).fold(0, |all, at| {
        let sum = of((a >> (8 * at)) as u32, b, (sums >> (16 * at)) as u32 & 0xffff);
        all | u64::from(sum as u16) << (16 * at)
    })
}

/// V_MQSAD_U32_U8: the same into four sums of 32 bits, bytes that are 0 in `reference` left out. The sums wrap, or saturate.
pub(crate) fn masked_sums(a: u64, reference: u32, sums: [u32; 4], saturate: bool) -> [u32; 4] {
    std::array::from_fn(|at| {
        let found = masked_difference((a >> (8 * at)) as u32, reference, 0);
        if saturate { sums[at].saturating_add(found) } else { sums[at].wrapping_add(found) }
    })
}

/// The mean of each two bytes, rounded up where the third one is odd.
fn lerp(a: u32, b: u32, round: u32) -> u32 {
    let [a, b, round] = [a, b, round].map(u32::to_le_bytes);
    let mean = |at: usize| ((u16::from(a[at]) + u16::from(b[at]) + u16::from(round[at] & 1)) >> 1) as u8;
    u32::from_le_bytes([0, 1, 2, 3].map(mean))
}
