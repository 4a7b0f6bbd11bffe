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
        "dot2_f32_bf16" | "dot2_bf16_bf16" => Some(Wanted { brain: true, ..Kind::F16.into() }),
        "dot2_i32_i16" | "dot2_u32_u16" => Some(Kind::U16.into()),
        _ => None,
    }
}

/// "V_CVT_SR_FP8_F32": the last two bits of `op_sel` choose a byte of the result.
pub(super) fn chooses_byte(name: &str) -> bool {
    name.starts_with("cvt_sr_")
}

/// What a source of a dot product is made of, where it is not the register as it is.
pub(super) fn halves_of(raw: &Raw<'_>, index: usize) -> Option<Select> {
    let modifiers = &raw.encoded.modifiers;
    let bit = |bits: u8| bits >> index & 1 == 1;
    let (low, high) = (bit(modifiers.op_sel), bit(modifiers.op_sel_hi));
    let negate = [bit(modifiers.neg_lo), bit(modifiers.neg_hi)];
    ((low, high, negate) != (false, true, [false; 2])).then_some(Select::Halves { low, high, negate })
}

/// # Errors
/// Halves or signs are chosen that the instruction does not use: all but those of the first two sources of a dot product.
pub(super) fn no_halves(raw: &Raw<'_>, dotted: bool) -> Decoded<()> {
    let encoded = raw.encoded;
    if encoded.family != Family::Vop3p {
        return Ok(());
    }
    let modifiers = &encoded.modifiers;
    let of_sources = (1 << encoded.operands.iter().filter(|operand| operand.source.is_some()).count()) - 1;
    let of_halves = if dotted { of_sources & !3 } else { of_sources };
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
