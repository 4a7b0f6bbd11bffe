//! Halves of registers: which instructions use them, and which they choose.

use super::operand::Wanted;
use super::{Decoded, Raw};
use crate::instruction::Select;
use crate::isa::Family;
use crate::operations::vector::Kind;

/// What the first two sources of a dot product of halves are, for constants.
pub(super) fn dotted(name: &str) -> Option<Wanted> {
    match name {
        "dot2_f32_f16" | "dot2c_f32_f16" | "dot2acc_f32_f16" | "dot2_f16_f16" => Some(Kind::F16.into()),
        "dot2_f32_bf16" | "dot2c_f32_bf16" | "dot2acc_f32_bf16" | "dot2_bf16_bf16" => {
            Some(Wanted { brain: true, ..Kind::F16.into() })
        }
        "dot2_i32_i16" | "dot2c_i32_i16" | "dot2_u32_u16" => Some(Kind::U16.into()),
        _ => None,
    }
}

/// "V_CVT_SR_FP8_F32", "V_CVT_SCALEF32_PK_FP4_F32": the last two bits of `op_sel` choose a byte of the result.
pub(super) fn chooses_byte(name: &str) -> bool {
    let scaled = name.strip_prefix("cvt_scalef32_");
    let random = scaled.unwrap_or(name.strip_prefix("cvt_").unwrap_or(name)).strip_prefix("sr_");
    let eight = random.is_some_and(|rest| rest.starts_with("fp8_") || rest.starts_with("bf8_"));
    eight || scaled.is_some_and(|rest| random.unwrap_or(rest).starts_with("pk_fp4_"))
}

/// Which part of the first source a conversion with a scale reads, by the first bits of `op_sel`; `None` for all of it.
///
/// # Errors
/// A bit chooses something that the conversion does not have.
pub(super) fn part_of_source(name: &str, op_sel: u8) -> Decoded<Option<Select>> {
    let scaled = name.strip_prefix("cvt_scalef32_");
    let from = scaled.and_then(|rest| rest.rsplit_once('_')).map(|(_, from)| from);
    let pair = scaled.is_some_and(|rest| rest.starts_with("pk_"));
    let (part, unused) = match from {
        Some("fp4") => (Some(Select::Byte(op_sel & 3)), 4),
        Some("fp8" | "bf8") if pair => (Some(Select::Word(op_sel & 1)), 6),
        Some("fp8" | "bf8") => (Some(Select::Byte(op_sel & 3)), 4),
        _ if chooses_byte(name) => (None, 3),
        Some(_) => (None, 7),
        None => (None, 0),
    };
    if op_sel & unused != 0 { Err(format!("op_sel:{op_sel} of {name}")) } else { Ok(part) }
}

/// What a source of a dot product is made of, where it is not the register as it is.
pub(super) fn halves_of(raw: &Raw<'_>, index: usize) -> Option<Select> {
    let modifiers = &raw.encoded.modifiers;
    let bit = |bits: u8| bits >> index & 1 == 1;
    let (low, high) = (bit(modifiers.op_sel), bit(modifiers.op_sel_hi));
    let negate = [bit(modifiers.neg_lo), bit(modifiers.neg_hi)];
    ((low, high, negate) != (false, true, [false; 2])).then_some(Select::Halves { low, high, negate })
}

/// "V_DOT4_F32_FP8_FP8" and its like: the sum has signs, and its sources none; NEG_HI is its absolute value, as VOP3P_DOTF8 of LLVM has it.
pub(super) fn has_signed_sum(name: &str) -> bool {
    name.starts_with("dot4_f32_")
}

/// # Errors
/// Halves or signs are chosen that the instruction does not use: all but those of the sources in `free`, a bit each.
pub(super) fn no_halves(raw: &Raw<'_>, free: u8) -> Decoded<()> {
    let encoded = raw.encoded;
    if encoded.family != Family::Vop3p {
        return Ok(());
    }
    let modifiers = &encoded.modifiers;
    let of_sources = (1 << encoded.operands.iter().filter(|operand| operand.source.is_some()).count()) - 1;
    let of_halves = of_sources & !free;
    let chosen = (modifiers.op_sel | modifiers.neg_lo | modifiers.neg_hi) & of_halves;
    let high = modifiers.op_sel_hi & of_halves;
    if chosen != 0 || high != of_halves && high != 0 {
        return Err(format!("halves of {}", encoded.name));
    }
    Ok(())
}

pub(super) fn three(bits: u8) -> [bool; 3] {
    [0, 1, 2].map(|at| bits >> at & 1 == 1)
}
