//! Vector ALU on integers and bits ("VOP1, VOP2, VOP3, VOP3P Instructions" of the instruction set documents).

use super::vector::{Definition, Run, carry, define, lanes, wide};
use crate::number::{self, Lanes};

type Row = (&'static str, Definition);

pub(crate) fn rows() -> Vec<Row> {
    [
        moves(),
        sums(),
        products(),
        logic(),
        fields(),
        smaller(),
        choices(),
        halves(),
        packed(),
        wider(),
        dots(),
        lanes_below(),
    ]
    .concat()
}

pub(super) fn i24(value: u32) -> i64 {
    i64::from((value << 8) as i32 >> 8)
}

pub(super) fn u24(value: u32) -> u64 {
    u64::from(value & 0xff_ffff)
}

fn sign_bits(value: u32) -> u32 {
    let same = value ^ (value as i32 >> 31) as u32;
    if same == 0 { u32::MAX } else { same.leading_zeros() }
}

fn first(value: u32, at: u32) -> u32 {
    if value == 0 { u32::MAX } else { at }
}

/// V_PERM_B32: each byte of `selector` names a byte of `high:low`, a sign of one, or a constant.
pub(crate) fn permute(high: u32, low: u32, selector: u32) -> u32 {
    let both = u64::from(high) << 32 | u64::from(low);
    let byte = |select: u8| match select {
        0..=7 => (both >> (8 * select)) as u8,
        8..=11 => 0_u8.wrapping_sub((both >> (16 * (select - 8) + 15)) as u8 & 1),
        12 => 0,
        _ => 0xff,
    };
    u32::from_le_bytes(selector.to_le_bytes().map(byte))
}

fn bfe_i32(value: u32, offset: u32, width: u32) -> u32 {
    let (offset, width) = (offset & 31, width & 31);
    if width == 0 {
        0
    } else if offset + width < 32 {
        ((value << (32 - width - offset)) as i32 >> (32 - width)) as u32
    } else {
        (value as i32 >> offset) as u32
    }
}

fn moves() -> Vec<Row> {
    let mov = define!(U32 [U32] bitwise; lanes!(|_, a, _, _| a));
    vec![
        ("mov_b32", mov),
        ("accvgpr_read_b32", mov),
        ("accvgpr_write_b32", mov),
        ("accvgpr_mov_b32", mov),
        ("mov_b16", define!(U16 [U16] bitwise; lanes!(|_, a, _, _| a))),
        ("mov_b64", define!(U64 [U64]; Run::MovePair)),
        ("pk_mov_b32", define!(U64 [U32 U32]; Run::PackedMove)),
        ("not_b32", define!(U32 [U32] bitwise; lanes!(|_, a, _, _| !a))),
        ("not_b16", define!(U16 [U16] bitwise; lanes!(|_, a, _, _| !a & 0xffff))),
        ("bfrev_b32", define!(U32 [U32] bitwise; lanes!(|_, a, _, _| a.reverse_bits()))),
        ("ffbh_u32", define!(U32 [U32]; lanes!(|_, a, _, _| first(a, a.leading_zeros())))),
        ("clz_i32_u32", define!(U32 [U32]; lanes!(|_, a, _, _| first(a, a.leading_zeros())))),
        ("ffbl_b32", define!(U32 [U32]; lanes!(|_, a, _, _| first(a, a.trailing_zeros())))),
        ("ctz_i32_b32", define!(U32 [U32]; lanes!(|_, a, _, _| first(a, a.trailing_zeros())))),
        ("ffbh_i32", define!(U32 [U32]; lanes!(|_, a, _, _| sign_bits(a)))),
        ("cls_i32", define!(U32 [U32]; lanes!(|_, a, _, _| sign_bits(a)))),
        ("cndmask_b32", define!(U32 [U32 U32 Mask]; Run::Select)),
        ("cndmask_b16", define!(U16 [U16 U16 Mask]; Run::Select)),
    ]
}

fn sums() -> Vec<Row> {
    let add = define!(U32 [U32 U32] upward; lanes!(|_, a, b, _| a.wrapping_add(b)));
    let sub = define!(U32 [U32 U32] upward; lanes!(|_, a, b, _| a.wrapping_sub(b)));
    let subrev = define!(U32 [U32 U32] upward; lanes!(|_, a, b, _| b.wrapping_sub(a)));
    let add_co = define!(U32 [U32 U32] mask_out; carry!(NarrowCarry u32, |_, a, b, _, _| a.overflowing_add(b)));
    let sub_co = define!(U32 [U32 U32] mask_out; carry!(NarrowCarry u32, |_, a, b, _, _| a.overflowing_sub(b)));
    let subrev_co = define!(U32 [U32 U32] mask_out; carry!(NarrowCarry u32, |_, a, b, _, _| b.overflowing_sub(a)));
    let addc = define!(U32 [U32 U32 Mask] mask_out; carry!(NarrowCarry u32, |_, a, b, _, bit| {
        let sum = u64::from(a) + u64::from(b) + u64::from(bit);
        (sum as u32, sum >> 32 != 0)
    }));
    let subb = define!(U32 [U32 U32 Mask] mask_out; carry!(NarrowCarry u32, |_, a, b, _, bit| {
        let taken = u64::from(b) + u64::from(bit);
        (a.wrapping_sub(taken as u32), taken > u64::from(a))
    }));
    let subbrev = define!(U32 [U32 U32 Mask] mask_out; carry!(NarrowCarry u32, |_, a, b, _, bit| {
        let taken = u64::from(a) + u64::from(bit);
        (b.wrapping_sub(taken as u32), taken > u64::from(b))
    }));
    vec![
        ("add_u32", add),
        ("add_nc_u32", add),
        ("add_i32", add),
        ("add_nc_i32", add),
        ("sub_u32", sub),
        ("sub_nc_u32", sub),
        ("sub_i32", sub),
        ("sub_nc_i32", sub),
        ("subrev_u32", subrev),
        ("subrev_nc_u32", subrev),
        ("add_u32 clamp", define!(U32 [U32 U32]; lanes!(|_, a, b, _| a.saturating_add(b)))),
        ("add_nc_u32 clamp", define!(U32 [U32 U32]; lanes!(|_, a, b, _| a.saturating_add(b)))),
        ("sub_u32 clamp", define!(U32 [U32 U32]; lanes!(|_, a, b, _| a.saturating_sub(b)))),
        ("sub_nc_u32 clamp", define!(U32 [U32 U32]; lanes!(|_, a, b, _| a.saturating_sub(b)))),
        ("add_i32 clamp", define!(U32 [U32 U32]; lanes!(|_, a, b, _| (a as i32).saturating_add(b as i32) as u32))),
        ("add_nc_i32 clamp", define!(U32 [U32 U32]; lanes!(|_, a, b, _| (a as i32).saturating_add(b as i32) as u32))),
        ("sub_i32 clamp", define!(U32 [U32 U32]; lanes!(|_, a, b, _| (a as i32).saturating_sub(b as i32) as u32))),
        ("sub_nc_i32 clamp", define!(U32 [U32 U32]; lanes!(|_, a, b, _| (a as i32).saturating_sub(b as i32) as u32))),
        ("add_co_u32", add_co),
        ("sub_co_u32", sub_co),
        ("subrev_co_u32", subrev_co),
        ("addc_co_u32", addc),
        ("add_co_ci_u32", addc),
        ("subb_co_u32", subb),
        ("sub_co_ci_u32", subb),
        ("subbrev_co_u32", subbrev),
        ("subrev_co_ci_u32", subbrev),
        ("add3_u32", define!(U32 [U32 U32 U32] upward; lanes!(|_, a, b, c| a.wrapping_add(b).wrapping_add(c)))),
        ("lshl_add_u32", define!(U32 [U32 U32 U32] upward; lanes!(|_, a, b, c| (a << (b & 31)).wrapping_add(c)))),
        ("add_lshl_u32", define!(U32 [U32 U32 U32] upward; lanes!(|_, a, b, c| a.wrapping_add(b) << (c & 31)))),
        ("xad_u32", define!(U32 [U32 U32 U32] upward; lanes!(|_, a, b, c| (a ^ b).wrapping_add(c)))),
        ("sad_u32", define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| a.abs_diff(b).wrapping_add(c)))),
        (
            "sad_u16",
            define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| {
                let low = (a & 0xffff).abs_diff(b & 0xffff);
                c.wrapping_add(low).wrapping_add((a >> 16).abs_diff(b >> 16))
            })),
        ),
        (
            "sad_u8",
            define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| {
                let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
                a.iter().zip(b).fold(c, |sum, (a, b)| sum.wrapping_add(u32::from(a.abs_diff(b))))
            })),
        ),
    ]
}

fn products() -> Vec<Row> {
    vec![
        ("mul_lo_u32", define!(U32 [U32 U32] upward; lanes!(|_, a, b, _| a.wrapping_mul(b)))),
        ("mul_lo_i32", define!(U32 [U32 U32] upward; lanes!(|_, a, b, _| a.wrapping_mul(b)))),
        ("mul_hi_u32", define!(U32 [U32 U32]; lanes!(|_, a, b, _| ((u64::from(a) * u64::from(b)) >> 32) as u32))),
        (
            "mul_hi_i32",
            define!(U32 [U32 U32]; lanes!(|_, a, b, _| {
                ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32
            })),
        ),
        ("mul_i32_i24", define!(U32 [U32 U32] upward; lanes!(|_, a, b, _| (i24(a) * i24(b)) as u32))),
        ("mul_hi_i32_i24", define!(U32 [U32 U32]; lanes!(|_, a, b, _| ((i24(a) * i24(b)) >> 32) as u32))),
        ("mul_u32_u24", define!(U32 [U32 U32] upward; lanes!(|_, a, b, _| (u24(a) * u24(b)) as u32))),
        ("mul_hi_u32_u24", define!(U32 [U32 U32]; lanes!(|_, a, b, _| ((u24(a) * u24(b)) >> 32) as u32))),
        (
            "mad_i32_i24",
            define!(U32 [U32 U32 U32] upward; lanes!(|_, a, b, c| ((i24(a) * i24(b)) as u32).wrapping_add(c))),
        ),
        (
            "mad_u32_u24",
            define!(U32 [U32 U32 U32] upward; lanes!(|_, a, b, c| ((u24(a) * u24(b)) as u32).wrapping_add(c))),
        ),
        (
            "mad_u32_u24 clamp",
            define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| {
                u32::try_from(u24(a) * u24(b) + u64::from(c)).unwrap_or(u32::MAX)
            })),
        ),
        (
            "mad_i32_i24 clamp",
            define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| {
                (i24(a) * i24(b) + i64::from(c as i32)).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32
            })),
        ),
        ("mad_u32_u16", define!(U32 [U16 U16 U32]; lanes!(|_, a, b, c| (a * b).wrapping_add(c)))),
        (
            "mad_i32_i16",
            define!(U32 [U16 U16 U32]; lanes!(|_, a, b, c| {
                (i32::from(a as i16) * i32::from(b as i16)).wrapping_add(c as i32) as u32
            })),
        ),
    ]
}

fn logic() -> Vec<Row> {
    vec![
        ("and_b32", define!(U32 [U32 U32] bitwise; lanes!(|_, a, b, _| a & b))),
        ("or_b32", define!(U32 [U32 U32] bitwise; lanes!(|_, a, b, _| a | b))),
        ("xor_b32", define!(U32 [U32 U32] bitwise; lanes!(|_, a, b, _| a ^ b))),
        ("xnor_b32", define!(U32 [U32 U32] bitwise; lanes!(|_, a, b, _| !(a ^ b)))),
        ("and_b16", define!(U16 [U16 U16] bitwise; lanes!(|_, a, b, _| a & b))),
        ("or_b16", define!(U16 [U16 U16] bitwise; lanes!(|_, a, b, _| a | b))),
        ("xor_b16", define!(U16 [U16 U16] bitwise; lanes!(|_, a, b, _| a ^ b))),
        ("or3_b32", define!(U32 [U32 U32 U32] bitwise; lanes!(|_, a, b, c| a | b | c))),
        ("xor3_b32", define!(U32 [U32 U32 U32] bitwise; lanes!(|_, a, b, c| a ^ b ^ c))),
        ("and_or_b32", define!(U32 [U32 U32 U32] bitwise; lanes!(|_, a, b, c| a & b | c))),
        ("lshl_or_b32", define!(U32 [U32 U32 U32] bitwise; lanes!(|_, a, b, c| a << (b & 31) | c))),
        ("lshlrev_b32", define!(U32 [U32 U32] bitwise; lanes!(|_, a, b, _| b << (a & 31)))),
        ("lshrrev_b32", define!(U32 [U32 U32] bitwise; lanes!(|_, a, b, _| b >> (a & 31)))),
        ("ashrrev_i32", define!(U32 [U32 U32] bitwise; lanes!(|_, a, b, _| (b as i32 >> (a & 31)) as u32))),
        ("lshlrev_b64", define!(U64 [U32 U64] bitwise; wide!(|_, a, b, _| b << (a & 63)))),
        ("lshrrev_b64", define!(U64 [U32 U64] bitwise; wide!(|_, a, b, _| b >> (a & 63)))),
        ("ashrrev_i64", define!(U64 [U32 U64] bitwise; wide!(|_, a, b, _| (b as i64 >> (a & 63)) as u64))),
    ]
}

fn fields() -> Vec<Row> {
    vec![
        ("bfe_u32", define!(U32 [U32 U32 U32] bitwise; lanes!(|_, a, b, c| a >> (b & 31) & ((1 << (c & 31)) - 1)))),
        ("bfe_i32", define!(U32 [U32 U32 U32] bitwise; lanes!(|_, a, b, c| bfe_i32(a, b, c)))),
        ("bfi_b32", define!(U32 [U32 U32 U32] bitwise; lanes!(|_, a, b, c| a & b | !a & c))),
        ("bfm_b32", define!(U32 [U32 U32]; lanes!(|_, a, b, _| ((1 << (a & 31)) - 1) << (b & 31)))),
        (
            "alignbit_b32",
            define!(U32 [U32 U32 U32] bitwise; lanes!(|_, a, b, c| {
                ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32
            })),
        ),
        (
            "alignbyte_b32",
            define!(U32 [U32 U32 U32] bitwise; lanes!(|_, a, b, c| {
                ((u64::from(a) << 32 | u64::from(b)) >> (8 * (c & 3))) as u32
            })),
        ),
        ("perm_b32", define!(U32 [U32 U32 U32] bitwise; lanes!(|_, a, b, c| permute(a, b, c)))),
        ("bcnt_u32_b32", define!(U32 [U32 U32]; lanes!(|_, a, b, _| a.count_ones().wrapping_add(b)))),
        ("cvt_pk_u16_u32", define!(U32 [U32 U32]; lanes!(|_, a, b, _| a.min(0xffff) | b.min(0xffff) << 16))),
        (
            "cvt_pk_i16_i32",
            define!(U32 [U32 U32]; lanes!(|_, a, b, _| {
                let half = |value: u32| (value as i32).clamp(-0x8000, 0x7fff) as u32 & 0xffff;
                half(a) | half(b) << 16
            })),
        ),
        (
            "sat_pk_u8_i16",
            define!(U16 [U32]; lanes!(|_, a, _, _| {
                let byte = |value: i16| value.clamp(0, 255) as u32;
                byte(a as i16) | byte((a >> 16) as i16) << 8
            })),
        ),
        ("pack_b32_f16", define!(U32 [F16 F16] bitwise; lanes!(|_, a, b, _| a | b << 16))),
    ]
}

fn smaller() -> Vec<Row> {
    vec![
        ("min_i32", define!(U32 [U32 U32]; lanes!(|_, a, b, _| (a as i32).min(b as i32) as u32))),
        ("max_i32", define!(U32 [U32 U32]; lanes!(|_, a, b, _| (a as i32).max(b as i32) as u32))),
        ("min_u32", define!(U32 [U32 U32]; lanes!(|_, a, b, _| a.min(b)))),
        ("max_u32", define!(U32 [U32 U32]; lanes!(|_, a, b, _| a.max(b)))),
        ("min_i16", define!(U16 [U16 U16]; lanes!(|_, a, b, _| (a as i16).min(b as i16) as u32 & 0xffff))),
        ("max_i16", define!(U16 [U16 U16]; lanes!(|_, a, b, _| (a as i16).max(b as i16) as u32 & 0xffff))),
        ("min_u16", define!(U16 [U16 U16]; lanes!(|_, a, b, _| a.min(b)))),
        ("max_u16", define!(U16 [U16 U16]; lanes!(|_, a, b, _| a.max(b)))),
    ]
}

fn choices() -> Vec<Row> {
    fn median(a: i64, b: i64, c: i64) -> u32 {
        a.min(b).max(a.max(b).min(c)) as u32
    }
    vec![
        ("min3_i32", define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| (a as i32).min(b as i32).min(c as i32) as u32))),
        ("max3_i32", define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| (a as i32).max(b as i32).max(c as i32) as u32))),
        (
            "med3_i32",
            define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| {
                median(i64::from(a as i32), i64::from(b as i32), i64::from(c as i32))
            })),
        ),
        ("min3_u32", define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| a.min(b).min(c)))),
        ("max3_u32", define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| a.max(b).max(c)))),
        (
            "med3_u32",
            define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| {
                median(i64::from(a), i64::from(b), i64::from(c))
            })),
        ),
        ("maxmin_i32", define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| (a as i32).max(b as i32).min(c as i32) as u32))),
        ("minmax_i32", define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| (a as i32).min(b as i32).max(c as i32) as u32))),
        ("maxmin_u32", define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| a.max(b).min(c)))),
        ("minmax_u32", define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| a.min(b).max(c)))),
        (
            "min3_i16",
            define!(U16 [U16 U16 U16]; lanes!(|_, a, b, c| {
                (a as i16).min(b as i16).min(c as i16) as u32 & 0xffff
            })),
        ),
        (
            "max3_i16",
            define!(U16 [U16 U16 U16]; lanes!(|_, a, b, c| {
                (a as i16).max(b as i16).max(c as i16) as u32 & 0xffff
            })),
        ),
        (
            "med3_i16",
            define!(U16 [U16 U16 U16]; lanes!(|_, a, b, c| {
                median(i64::from(a as i16), i64::from(b as i16), i64::from(c as i16)) & 0xffff
            })),
        ),
        ("min3_u16", define!(U16 [U16 U16 U16]; lanes!(|_, a, b, c| a.min(b).min(c)))),
        ("max3_u16", define!(U16 [U16 U16 U16]; lanes!(|_, a, b, c| a.max(b).max(c)))),
        (
            "med3_u16",
            define!(U16 [U16 U16 U16]; lanes!(|_, a, b, c| {
                median(i64::from(a), i64::from(b), i64::from(c))
            })),
        ),
    ]
}

fn halves() -> Vec<Row> {
    let add = define!(U16 [U16 U16]; lanes!(|_, a, b, _| a.wrapping_add(b) & 0xffff));
    let sub = define!(U16 [U16 U16]; lanes!(|_, a, b, _| a.wrapping_sub(b) & 0xffff));
    let subrev = define!(U16 [U16 U16]; lanes!(|_, a, b, _| b.wrapping_sub(a) & 0xffff));
    let mad = define!(U16 [U16 U16 U16]; lanes!(|_, a, b, c| (a * b).wrapping_add(c) & 0xffff));
    vec![
        ("add_u16", add),
        ("add_nc_u16", add),
        ("add_i16", add),
        ("add_nc_i16", add),
        ("sub_u16", sub),
        ("sub_nc_u16", sub),
        ("sub_i16", sub),
        ("sub_nc_i16", sub),
        ("subrev_u16", subrev),
        ("add_u16 clamp", define!(U16 [U16 U16]; lanes!(|_, a, b, _| (a + b).min(0xffff)))),
        ("add_nc_u16 clamp", define!(U16 [U16 U16]; lanes!(|_, a, b, _| (a + b).min(0xffff)))),
        ("sub_u16 clamp", define!(U16 [U16 U16]; lanes!(|_, a, b, _| a.saturating_sub(b)))),
        ("sub_nc_u16 clamp", define!(U16 [U16 U16]; lanes!(|_, a, b, _| a.saturating_sub(b)))),
        (
            "add_nc_i16 clamp",
            define!(U16 [U16 U16]; lanes!(|_, a, b, _| {
                u32::from((a as i16).saturating_add(b as i16) as u16)
            })),
        ),
        (
            "sub_nc_i16 clamp",
            define!(U16 [U16 U16]; lanes!(|_, a, b, _| {
                u32::from((a as i16).saturating_sub(b as i16) as u16)
            })),
        ),
        ("mul_lo_u16", define!(U16 [U16 U16]; lanes!(|_, a, b, _| (a * b) & 0xffff))),
        ("mad_u16 clamp", define!(U16 [U16 U16 U16]; lanes!(|_, a, b, c| (a * b + c).min(0xffff)))),
        (
            "mad_i16 clamp",
            define!(U16 [U16 U16 U16]; lanes!(|_, a, b, c| {
                let sum = i64::from(a as i16) * i64::from(b as i16) + i64::from(c as i16);
                sum.clamp(-0x8000, 0x7fff) as u32 & 0xffff
            })),
        ),
        ("mad_u16", mad),
        ("mad_legacy_u16", mad),
        ("mad_i16", mad),
        ("mad_legacy_i16", mad),
        ("lshlrev_b16", define!(U16 [U16 U16]; lanes!(|_, a, b, _| b << (a & 15) & 0xffff))),
        ("lshrrev_b16", define!(U16 [U16 U16]; lanes!(|_, a, b, _| b >> (a & 15)))),
        ("ashrrev_i16", define!(U16 [U16 U16]; lanes!(|_, a, b, _| u32::from((b as i16 >> (a & 15)) as u16)))),
    ]
}

fn packed() -> Vec<Row> {
    let pick = |name: &'static str, of: &str, all: &[Row]| {
        let row = all.iter().find(|(found, _)| *found == of);
        row.and_then(|(_, definition)| match definition.run {
            Run::Narrow(run) => Some((name, Definition { run: Run::Packed(run), ..*definition })),
            _ => None,
        })
    };
    let all = [halves(), smaller()].concat();
    let names = [
        ("pk_add_u16", "add_u16"),
        ("pk_add_i16", "add_i16"),
        ("pk_sub_u16", "sub_u16"),
        ("pk_sub_i16", "sub_i16"),
        ("pk_add_u16 clamp", "add_u16 clamp"),
        ("pk_add_i16 clamp", "add_nc_i16 clamp"),
        ("pk_sub_u16 clamp", "sub_u16 clamp"),
        ("pk_sub_i16 clamp", "sub_nc_i16 clamp"),
        ("pk_mad_u16 clamp", "mad_u16 clamp"),
        ("pk_mad_i16 clamp", "mad_i16 clamp"),
        ("pk_mul_lo_u16", "mul_lo_u16"),
        ("pk_mad_u16", "mad_u16"),
        ("pk_mad_i16", "mad_i16"),
        ("pk_lshlrev_b16", "lshlrev_b16"),
        ("pk_lshrrev_b16", "lshrrev_b16"),
        ("pk_ashrrev_i16", "ashrrev_i16"),
        ("pk_min_i16", "min_i16"),
        ("pk_max_i16", "max_i16"),
        ("pk_min_u16", "min_u16"),
        ("pk_max_u16", "max_u16"),
    ];
    names.into_iter().filter_map(|(name, of)| pick(name, of, &all)).collect()
}

fn wider() -> Vec<Row> {
    vec![
        ("lshl_add_u64", define!(U64 [U64 U32 U64] upward; wide!(|_, a, b, c| (a << (b & 7)).wrapping_add(c)))),
        (
            "mad_u64_u32",
            define!(U64 [U32 U32 U64] mask_out upward; carry!(WideCarry u64, |_, a, b, c, _| {
                (a * b).overflowing_add(c)
            })),
        ),
        (
            "mad_i64_i32",
            define!(U64 [U32 U32 U64] mask_out upward; carry!(WideCarry u64, |_, a, b, c, _| {
                let product = i64::from(a as i32) * i64::from(b as i32);
                let (sum, overflow) = product.overflowing_add(c as i64);
                (sum as u64, overflow)
            })),
        ),
    ]
}

fn dots() -> Vec<Row> {
    use Lanes::{Signed, Unsigned};
    vec![
        ("dot2_i32_i16", define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| number::dot2_i16(Signed, false, a, b, c)))),
        (
            "dot2_i32_i16 clamp",
            define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| number::dot2_i16(Signed, true, a, b, c))),
        ),
        ("dot2_u32_u16", define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| number::dot2_i16(Unsigned, false, a, b, c)))),
        (
            "dot4_i32_i8",
            define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| number::dot4_i8(Signed, Signed, false, a, b, c))),
        ),
        (
            "dot4c_i32_i8",
            define!(U32 [U32 U32 U32] tied; lanes!(|_, a, b, c| {
                number::dot4_i8(Signed, Signed, false, a, b, c)
            })),
        ),
        (
            "dot4_i32_i8 clamp",
            define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| {
                number::dot4_i8(Signed, Signed, true, a, b, c)
            })),
        ),
        (
            "dot4_u32_u8",
            define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| {
                number::dot4_i8(Unsigned, Unsigned, false, a, b, c)
            })),
        ),
        (
            "dot8_i32_i4",
            define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| number::dot8_i4(Signed, Signed, false, a, b, c))),
        ),
        (
            "dot8_u32_u4",
            define!(U32 [U32 U32 U32]; lanes!(|_, a, b, c| {
                number::dot8_i4(Unsigned, Unsigned, false, a, b, c)
            })),
        ),
    ]
}

/// V_MBCNT: how many bits of a mask belong to lanes before this one.
fn lanes_below() -> Vec<Row> {
    fn low(_: &number::Mode, out: &mut [u32], [a, b, _]: [&[u32]; 3]) {
        for (lane, ((out, a), b)) in out.iter_mut().zip(a).zip(b).enumerate() {
            let below = if lane < 32 { (1 << lane) - 1 } else { u32::MAX };
            *out = (a & below).count_ones().wrapping_add(*b);
        }
    }
    fn high(_: &number::Mode, out: &mut [u32], [a, b, _]: [&[u32]; 3]) {
        for (lane, ((out, a), b)) in out.iter_mut().zip(a).zip(b).enumerate() {
            let below = if lane > 32 { (1 << (lane - 32)) - 1 } else { 0 };
            *out = (a & below).count_ones().wrapping_add(*b);
        }
    }
    vec![
        ("mbcnt_lo_u32_b32", define!(U32 [U32 U32]; Run::Narrow(low))),
        ("mbcnt_hi_u32_b32", define!(U32 [U32 U32]; Run::Narrow(high))),
    ]
}
