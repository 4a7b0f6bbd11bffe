//! Scalar ALU ("SOP1, SOP2, SOPC, SOPK Instructions" of the instruction set documents).

/// Sources and SCC in, result and SCC out. `old` is what the destination held.
pub(crate) type Run = fn(a: u64, b: u64, old: u64, scc: &mut bool) -> u64;

/// Scalar ALU instruction.
#[derive(Clone, Copy)]
pub(crate) struct Definition {
    /// Dwords of the result; 0 if there is only SCC.
    pub result: u8,
    /// Dwords of each source.
    pub sources: &'static [u8],
    pub run: Run,
    pub writes_scc: bool,
    pub reads_scc: bool,
    /// The destination is a source as well.
    pub reads_old: bool,
    /// Each bit of the result is one of a source or a constant: bits that nobody wrote are followed one by one.
    pub bitwise: bool,
}

impl Definition {
    /// Whether the result is the intersection of both sources.
    pub fn intersects(&self) -> bool {
        let of = |a, b| (self.run)(a, b, 0, &mut false);
        self.bitwise && self.sources.len() == 2 && [of(3, 5), of(5, 3), of(0, 7), of(1, 1)] == [1, 1, 0, 1]
    }
}

macro_rules! op {
    ($result:literal [$($source:literal)*] $($flag:ident)*; |$a:tt, $b:tt, $old:tt, $scc:tt| $body:expr) => {{
        #[allow(unused_variables, reason = "not every operation has all inputs")]
        fn run(a: u64, b: u64, old: u64, scc: &mut bool) -> u64 {
            let ($a, $b, $old, $scc) = (a, b, old, scc);
            $body
        }
        #[allow(unused_mut, reason = "not every operation has a flag")]
        let mut definition = Definition {
            result: $result,
            sources: &[$($source),*],
            run,
            writes_scc: false,
            reads_scc: false,
            reads_old: false,
            bitwise: false,
        };
        $(definition.$flag = true;)*
        definition
    }};
}

pub(super) use op;

/// A result that is 0 clears SCC.
fn nonzero(scc: &mut bool, value: u64) -> u64 {
    *scc = value != 0;
    value
}

fn overflowed(scc: &mut bool, (value, overflow): (i32, bool)) -> u64 {
    *scc = overflow;
    u64::from(value as u32)
}

fn carried(scc: &mut bool, (value, carry): (u32, bool)) -> u64 {
    *scc = carry;
    u64::from(value)
}

/// Offset in bits 0-4, width in bits 16-22.
fn field(value: u64, how: u64, bits: u32) -> (u64, u32) {
    let (offset, width) = ((how as u32) & (bits - 1), (how as u32 >> 16 & 0x7f).min(bits));
    let shifted = value >> offset;
    (if width == 0 { 0 } else { shifted & (u64::MAX >> (64 - width)) }, width)
}

fn extend(value: u64, width: u32) -> u64 {
    if width == 0 || width >= 64 { value } else { ((value << (64 - width)) as i64 >> (64 - width)) as u64 }
}

fn shifted_sum(a: u64, b: u64, by: u32, scc: &mut bool) -> u64 {
    let sum = (u64::from(a as u32) << by) + u64::from(b as u32);
    *scc = sum > u64::from(u32::MAX);
    u64::from(sum as u32)
}

fn low(value: u64) -> u64 {
    u64::from(value as u32)
}

fn quads(value: u64, bits: u32) -> u64 {
    (0..bits / 4).filter(|quad| value >> (quad * 4) & 15 != 0).fold(0, |mask, quad| mask | 1 << quad)
}

fn whole_quads(value: u64) -> u64 {
    (0..16).filter(|quad| value >> (quad * 4) & 15 != 0).fold(0, |mask, quad| mask | 15 << (quad * 4))
}

/// Bits before the first one that differs from the sign.
fn sign_bits(value: u64, bits: u32) -> u64 {
    let value = extend(value, bits);
    let same = (value ^ ((value as i64) >> 63) as u64) << (64 - bits);
    if same == 0 { u64::from(u32::MAX) } else { u64::from(same.leading_zeros()) }
}

fn first(value: u64, at: u32) -> u64 {
    if value == 0 { u64::from(u32::MAX) } else { u64::from(at) }
}

/// All but those of floats, by name.
pub(super) fn rows() -> Vec<(&'static str, Definition)> {
    let mut all = arithmetic();
    all.extend(logic());
    all.extend(bits());
    all.extend(compares());
    all
}

fn arithmetic() -> Vec<(&'static str, Definition)> {
    vec![
        ("s_add_u32", op!(1 [1 1] writes_scc; |a, b, _, scc| carried(scc, (a as u32).overflowing_add(b as u32)))),
        ("s_sub_u32", op!(1 [1 1] writes_scc; |a, b, _, scc| carried(scc, (a as u32).overflowing_sub(b as u32)))),
        ("s_add_i32", op!(1 [1 1] writes_scc; |a, b, _, scc| overflowed(scc, (a as i32).overflowing_add(b as i32)))),
        ("s_sub_i32", op!(1 [1 1] writes_scc; |a, b, _, scc| overflowed(scc, (a as i32).overflowing_sub(b as i32)))),
        (
            "s_addk_i32",
            op!(1 [1] writes_scc reads_old; |a, _, old, scc| {
                overflowed(scc, (old as i32).overflowing_add(a as i32))
            }),
        ),
        ("s_add_nc_u64", op!(2 [2 2]; |a, b, _, _| a.wrapping_add(b))),
        ("s_sub_nc_u64", op!(2 [2 2]; |a, b, _, _| a.wrapping_sub(b))),
        ("s_mul_u64", op!(2 [2 2]; |a, b, _, _| a.wrapping_mul(b))),
        ("s_mulk_i32", op!(1 [1] reads_old; |a, _, old, _| low(old.wrapping_mul(a)))),
        (
            "s_addc_u32",
            op!(1 [1 1] writes_scc reads_scc; |a, b, _, scc| {
                let sum = low(a) + low(b) + u64::from(*scc);
                *scc = sum > u64::from(u32::MAX);
                low(sum)
            }),
        ),
        (
            "s_subb_u32",
            op!(1 [1 1] writes_scc reads_scc; |a, b, _, scc| {
                let (taken, from) = (low(b) + u64::from(*scc), low(a));
                *scc = taken > from;
                low(from.wrapping_sub(taken))
            }),
        ),
        ("s_mul_i32", op!(1 [1 1]; |a, b, _, _| low(a.wrapping_mul(b)))),
        ("s_mul_hi_u32", op!(1 [1 1]; |a, b, _, _| (low(a) * low(b)) >> 32)),
        (
            "s_mul_hi_i32",
            op!(1 [1 1]; |a, b, _, _| {
                low(((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u64)
            }),
        ),
        ("s_abs_i32", op!(1 [1] writes_scc; |a, _, _, scc| nonzero(scc, u64::from((a as i32).unsigned_abs())))),
        (
            "s_absdiff_i32",
            op!(1 [1 1] writes_scc; |a, b, _, scc| {
                nonzero(scc, u64::from((a as i32).wrapping_sub(b as i32).unsigned_abs()))
            }),
        ),
        (
            "s_min_i32",
            op!(1 [1 1] writes_scc; |a, b, _, scc| {
                *scc = (a as i32) < b as i32;
                low(if *scc { a } else { b })
            }),
        ),
        (
            "s_min_u32",
            op!(1 [1 1] writes_scc; |a, b, _, scc| {
                *scc = low(a) < low(b);
                low(if *scc { a } else { b })
            }),
        ),
        (
            "s_max_i32",
            op!(1 [1 1] writes_scc; |a, b, _, scc| {
                *scc = a as i32 >= b as i32;
                low(if *scc { a } else { b })
            }),
        ),
        (
            "s_max_u32",
            op!(1 [1 1] writes_scc; |a, b, _, scc| {
                *scc = low(a) >= low(b);
                low(if *scc { a } else { b })
            }),
        ),
        ("s_lshl1_add_u32", op!(1 [1 1] writes_scc; |a, b, _, scc| shifted_sum(a, b, 1, scc))),
        ("s_lshl2_add_u32", op!(1 [1 1] writes_scc; |a, b, _, scc| shifted_sum(a, b, 2, scc))),
        ("s_lshl3_add_u32", op!(1 [1 1] writes_scc; |a, b, _, scc| shifted_sum(a, b, 3, scc))),
        ("s_lshl4_add_u32", op!(1 [1 1] writes_scc; |a, b, _, scc| shifted_sum(a, b, 4, scc))),
    ]
}

fn logic() -> Vec<(&'static str, Definition)> {
    vec![
        ("s_mov_b32", op!(1 [1] bitwise; |a, _, _, _| a)),
        ("s_mov_b64", op!(2 [2] bitwise; |a, _, _, _| a)),
        ("s_movk_i32", op!(1 [1]; |a, _, _, _| low(a))),
        ("s_cmov_b32", op!(1 [1] reads_scc reads_old; |a, _, old, scc| if *scc { a } else { old })),
        ("s_cmov_b64", op!(2 [2] reads_scc reads_old; |a, _, old, scc| if *scc { a } else { old })),
        ("s_cmovk_i32", op!(1 [1] reads_scc reads_old; |a, _, old, scc| if *scc { low(a) } else { old })),
        ("s_cselect_b32", op!(1 [1 1] reads_scc bitwise; |a, b, _, scc| if *scc { a } else { b })),
        ("s_cselect_b64", op!(2 [2 2] reads_scc bitwise; |a, b, _, scc| if *scc { a } else { b })),
        ("s_not_b32", op!(1 [1] writes_scc bitwise; |a, _, _, scc| nonzero(scc, low(!a)))),
        ("s_not_b64", op!(2 [2] writes_scc bitwise; |a, _, _, scc| nonzero(scc, !a))),
        ("s_and_b32", op!(1 [1 1] writes_scc bitwise; |a, b, _, scc| nonzero(scc, a & b))),
        ("s_and_b64", op!(2 [2 2] writes_scc bitwise; |a, b, _, scc| nonzero(scc, a & b))),
        ("s_or_b32", op!(1 [1 1] writes_scc bitwise; |a, b, _, scc| nonzero(scc, a | b))),
        ("s_or_b64", op!(2 [2 2] writes_scc bitwise; |a, b, _, scc| nonzero(scc, a | b))),
        ("s_xor_b32", op!(1 [1 1] writes_scc bitwise; |a, b, _, scc| nonzero(scc, a ^ b))),
        ("s_xor_b64", op!(2 [2 2] writes_scc bitwise; |a, b, _, scc| nonzero(scc, a ^ b))),
        ("s_andn2_b32", op!(1 [1 1] writes_scc bitwise; |a, b, _, scc| nonzero(scc, a & !b))),
        ("s_andn2_b64", op!(2 [2 2] writes_scc bitwise; |a, b, _, scc| nonzero(scc, a & !b))),
        ("s_and_not1_b32", op!(1 [1 1] writes_scc bitwise; |a, b, _, scc| nonzero(scc, a & !b))),
        ("s_and_not1_b64", op!(2 [2 2] writes_scc bitwise; |a, b, _, scc| nonzero(scc, a & !b))),
        ("s_orn2_b32", op!(1 [1 1] writes_scc bitwise; |a, b, _, scc| nonzero(scc, low(a | !b)))),
        ("s_orn2_b64", op!(2 [2 2] writes_scc bitwise; |a, b, _, scc| nonzero(scc, a | !b))),
        ("s_or_not1_b32", op!(1 [1 1] writes_scc bitwise; |a, b, _, scc| nonzero(scc, low(a | !b)))),
        ("s_or_not1_b64", op!(2 [2 2] writes_scc bitwise; |a, b, _, scc| nonzero(scc, a | !b))),
        ("s_nand_b32", op!(1 [1 1] writes_scc bitwise; |a, b, _, scc| nonzero(scc, low(!(a & b))))),
        ("s_nand_b64", op!(2 [2 2] writes_scc bitwise; |a, b, _, scc| nonzero(scc, !(a & b)))),
        ("s_nor_b32", op!(1 [1 1] writes_scc bitwise; |a, b, _, scc| nonzero(scc, low(!(a | b))))),
        ("s_nor_b64", op!(2 [2 2] writes_scc bitwise; |a, b, _, scc| nonzero(scc, !(a | b)))),
        ("s_xnor_b32", op!(1 [1 1] writes_scc bitwise; |a, b, _, scc| nonzero(scc, low(!(a ^ b))))),
        ("s_xnor_b64", op!(2 [2 2] writes_scc bitwise; |a, b, _, scc| nonzero(scc, !(a ^ b)))),
        ("s_lshl_b32", op!(1 [1 1] writes_scc bitwise; |a, b, _, scc| nonzero(scc, low(a << (b & 31))))),
        ("s_lshl_b64", op!(2 [2 1] writes_scc bitwise; |a, b, _, scc| nonzero(scc, a << (b & 63)))),
        ("s_lshr_b32", op!(1 [1 1] writes_scc bitwise; |a, b, _, scc| nonzero(scc, low(a) >> (b & 31)))),
        ("s_lshr_b64", op!(2 [2 1] writes_scc bitwise; |a, b, _, scc| nonzero(scc, a >> (b & 63)))),
        (
            "s_ashr_i32",
            op!(1 [1 1] writes_scc bitwise; |a, b, _, scc| nonzero(scc, low((a as i32 >> (b & 31)) as u64))),
        ),
        ("s_ashr_i64", op!(2 [2 1] writes_scc bitwise; |a, b, _, scc| nonzero(scc, (a as i64 >> (b & 63)) as u64))),
        ("s_pack_ll_b32_b16", op!(1 [1 1] bitwise; |a, b, _, _| a & 0xffff | (b & 0xffff) << 16)),
        ("s_pack_lh_b32_b16", op!(1 [1 1] bitwise; |a, b, _, _| a & 0xffff | b & 0xffff_0000)),
        ("s_pack_hh_b32_b16", op!(1 [1 1] bitwise; |a, b, _, _| (a >> 16) & 0xffff | b & 0xffff_0000)),
        ("s_pack_hl_b32_b16", op!(1 [1 1] bitwise; |a, b, _, _| (a >> 16) & 0xffff | (b & 0xffff) << 16)),
        ("s_wqm_b32", op!(1 [1] writes_scc; |a, _, _, scc| nonzero(scc, low(whole_quads(low(a)))))),
        ("s_wqm_b64", op!(2 [2] writes_scc; |a, _, _, scc| nonzero(scc, whole_quads(a)))),
        ("s_quadmask_b32", op!(1 [1] writes_scc; |a, _, _, scc| nonzero(scc, quads(a, 32)))),
        ("s_quadmask_b64", op!(2 [2] writes_scc; |a, _, _, scc| nonzero(scc, quads(a, 64)))),
    ]
}

fn bits() -> Vec<(&'static str, Definition)> {
    let trailing = op!(1 [1]; |a, _, _, _| first(low(a), a.trailing_zeros()));
    let trailing64 = op!(1 [2]; |a, _, _, _| first(a, a.trailing_zeros()));
    let leading = op!(1 [1]; |a, _, _, _| first(low(a), (a as u32).leading_zeros()));
    let leading64 = op!(1 [2]; |a, _, _, _| first(a, a.leading_zeros()));
    let signs = op!(1 [1]; |a, _, _, _| sign_bits(a, 32));
    let signs64 = op!(1 [2]; |a, _, _, _| sign_bits(a, 64));
    vec![
        ("s_brev_b32", op!(1 [1] bitwise; |a, _, _, _| u64::from((a as u32).reverse_bits()))),
        ("s_brev_b64", op!(2 [2] bitwise; |a, _, _, _| a.reverse_bits())),
        ("s_bcnt0_i32_b32", op!(1 [1] writes_scc; |a, _, _, scc| nonzero(scc, u64::from((a as u32).count_zeros())))),
        ("s_bcnt0_i32_b64", op!(1 [2] writes_scc; |a, _, _, scc| nonzero(scc, u64::from(a.count_zeros())))),
        ("s_bcnt1_i32_b32", op!(1 [1] writes_scc; |a, _, _, scc| nonzero(scc, u64::from((a as u32).count_ones())))),
        ("s_bcnt1_i32_b64", op!(1 [2] writes_scc; |a, _, _, scc| nonzero(scc, u64::from(a.count_ones())))),
        ("s_ff0_i32_b32", op!(1 [1]; |a, _, _, _| first(low(!a), (!a as u32).trailing_zeros()))),
        ("s_ff0_i32_b64", op!(1 [2]; |a, _, _, _| first(!a, (!a).trailing_zeros()))),
        ("s_ff1_i32_b32", trailing),
        ("s_ctz_i32_b32", trailing),
        ("s_ff1_i32_b64", trailing64),
        ("s_ctz_i32_b64", trailing64),
        ("s_flbit_i32_b32", leading),
        ("s_clz_i32_u32", leading),
        ("s_flbit_i32_b64", leading64),
        ("s_clz_i32_u64", leading64),
        ("s_flbit_i32", signs),
        ("s_cls_i32", signs),
        ("s_flbit_i32_i64", signs64),
        ("s_cls_i32_i64", signs64),
        ("s_sext_i32_i8", op!(1 [1] bitwise; |a, _, _, _| low(extend(a, 8)))),
        ("s_sext_i32_i16", op!(1 [1] bitwise; |a, _, _, _| low(extend(a, 16)))),
        ("s_bfe_u32", op!(1 [1 1] writes_scc bitwise; |a, b, _, scc| nonzero(scc, field(low(a), b, 32).0))),
        (
            "s_bfe_i32",
            op!(1 [1 1] writes_scc bitwise; |a, b, _, scc| {
                let (value, width) = field(extend(a, 32), b, 32);
                nonzero(scc, low(extend(value, width)))
            }),
        ),
        ("s_bfe_u64", op!(2 [2 1] writes_scc bitwise; |a, b, _, scc| nonzero(scc, field(a, b, 64).0))),
        (
            "s_bfe_i64",
            op!(2 [2 1] writes_scc bitwise; |a, b, _, scc| {
                let (value, width) = field(a, b, 64);
                let offset = b as u32 & 63;
                let beyond = width != 0 && offset + width > 64;
                nonzero(scc, if beyond { (a as i64 >> offset) as u64 } else { extend(value, width) })
            }),
        ),
        ("s_bfm_b32", op!(1 [1 1]; |a, b, _, _| low(((1 << (a & 31)) - 1) << (b & 31)))),
        ("s_bfm_b64", op!(2 [1 1]; |a, b, _, _| ((1 << (a & 63)) - 1) << (b & 63))),
        ("s_bitset0_b32", op!(1 [1] reads_old; |a, _, old, _| old & !(1 << (a & 31)))),
        ("s_bitset0_b64", op!(2 [1] reads_old; |a, _, old, _| old & !(1 << (a & 63)))),
        ("s_bitset1_b32", op!(1 [1] reads_old; |a, _, old, _| old | 1 << (a & 31))),
        ("s_bitset1_b64", op!(2 [1] reads_old; |a, _, old, _| old | 1 << (a & 63))),
        (
            "s_bitreplicate_b64_b32",
            op!(2 [1]; |a, _, _, _| (0..32).filter(|bit| a >> bit & 1 == 1).fold(0, |all, bit| all | 3 << (2 * bit))),
        ),
    ]
}

macro_rules! compare {
    ($dwords:literal $type:ty, $operator:tt) => {
        op!(0 [$dwords $dwords] writes_scc; |a, b, _, scc| {
            *scc = (a as $type) $operator (b as $type);
            0
        })
    };
}

fn compares() -> Vec<(&'static str, Definition)> {
    vec![
        ("s_cmp_eq_i32", compare!(1 i32, ==)),
        ("s_cmp_lg_i32", compare!(1 i32, !=)),
        ("s_cmp_gt_i32", compare!(1 i32, >)),
        ("s_cmp_ge_i32", compare!(1 i32, >=)),
        ("s_cmp_lt_i32", compare!(1 i32, <)),
        ("s_cmp_le_i32", compare!(1 i32, <=)),
        ("s_cmp_eq_u32", compare!(1 u32, ==)),
        ("s_cmp_lg_u32", compare!(1 u32, !=)),
        ("s_cmp_gt_u32", compare!(1 u32, >)),
        ("s_cmp_ge_u32", compare!(1 u32, >=)),
        ("s_cmp_lt_u32", compare!(1 u32, <)),
        ("s_cmp_le_u32", compare!(1 u32, <=)),
        ("s_cmp_eq_u64", compare!(2 u64, ==)),
        ("s_cmp_lg_u64", compare!(2 u64, !=)),
        ("s_cmpk_eq_i32", compare!(1 i32, ==)),
        ("s_cmpk_lg_i32", compare!(1 i32, !=)),
        ("s_cmpk_gt_i32", compare!(1 i32, >)),
        ("s_cmpk_ge_i32", compare!(1 i32, >=)),
        ("s_cmpk_lt_i32", compare!(1 i32, <)),
        ("s_cmpk_le_i32", compare!(1 i32, <=)),
        ("s_cmpk_eq_u32", compare!(1 u32, ==)),
        ("s_cmpk_lg_u32", compare!(1 u32, !=)),
        ("s_cmpk_gt_u32", compare!(1 u32, >)),
        ("s_cmpk_ge_u32", compare!(1 u32, >=)),
        ("s_cmpk_lt_u32", compare!(1 u32, <)),
        ("s_cmpk_le_u32", compare!(1 u32, <=)),
        ("s_bitcmp0_b32", op!(0 [1 1] writes_scc; |a, b, _, scc| { *scc = a >> (b & 31) & 1 == 0; 0 })),
        ("s_bitcmp1_b32", op!(0 [1 1] writes_scc; |a, b, _, scc| { *scc = a >> (b & 31) & 1 == 1; 0 })),
        ("s_bitcmp0_b64", op!(0 [2 1] writes_scc; |a, b, _, scc| { *scc = a >> (b & 63) & 1 == 0; 0 })),
        ("s_bitcmp1_b64", op!(0 [2 1] writes_scc; |a, b, _, scc| { *scc = a >> (b & 63) & 1 == 1; 0 })),
    ]
}
