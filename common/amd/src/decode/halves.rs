//! Halves of registers: which instructions use them, and which they choose.

use super::encoding::Form;
use super::operand::Wanted;
use super::{Decoded, Raw};
use crate::instruction::Select;
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

/// Sources of which 16 bits are used, and which RDNA 3 takes from either half, though their operations have 32.
pub(super) fn takes_half(name: &str, index: usize) -> bool {
    index == 2 && matches!(name, "alignbit_b32" | "alignbyte_b32") || index == 1 && name.ends_with("_class_f16")
}

/// "V_CVT_SR_FP8_F32": the last two bits of `op_sel` choose a byte of the result.
pub(super) fn chooses_byte(name: &str) -> bool {
    name.starts_with("cvt_sr_")
}

/// What a source of a dot product is made of, where it is not the register as it is.
pub(super) fn halves_of(raw: &Raw<'_>, index: usize) -> Option<Select> {
    let bit = |name: &str, or: bool| three(raw.text.bits(name), or)[index];
    let (low, high, negate) =
        (bit("op_sel", false), bit("op_sel_hi", true), [bit("neg_lo", false), bit("neg_hi", false)]);
    ((low, high, negate) != (false, true, [false; 2])).then_some(Select::Halves { low, high, negate })
}

/// # Errors
/// Halves or signs are chosen that the instruction does not use: all but those of the first two sources of a dot product.
pub(super) fn no_halves(raw: &Raw<'_>, form: Form, dotted: bool) -> Decoded<()> {
    let from = if dotted && form == Form::Packed { 2 } else { 0 };
    let names = [("op_sel", false), ("op_sel_hi", true), ("neg_lo", false), ("neg_hi", false)];
    let named = names.iter().filter(|(name, _)| form != Form::Long || *name != "op_sel");
    for (name, usual) in named {
        if raw.text.bits(name).is_some_and(|bits| bits.iter().skip(from).any(|bit| bit != usual)) {
            return Err(format!("{name} of {}", raw.text.mnemonic));
        }
    }
    Ok(())
}

pub(super) fn three(bits: Option<Vec<bool>>, or: bool) -> [bool; 3] {
    let bits = bits.unwrap_or_default();
    [0, 1, 2].map(|at| bits.get(at).copied().unwrap_or(or))
}
