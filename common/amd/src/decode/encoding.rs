//! What an encoding says that its text may not show: LLVM leaves out bits that its tables give no meaning ("Microcode Formats" of the
//! instruction set documents). Each of them is read here, or has to be 0.

use super::operand::vgprs;
use super::{Decoded, Raw};
use crate::instruction::{Source, VectorSource};
use crate::registers::VCC;
use crate::target::Target;

/// How a vector instruction is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// VOP1, VOP2, VOPC.
    Short,
    /// VOP3.
    Long,
    /// VOP3P, and what is encoded like it.
    Packed,
    Other,
}

const DPP16: u32 = 0xfa;
const SDWA: u32 = 0xf9;
const DPP8: [u32; 2] = [0xe9, 0xea];
/// The constants 240 to 248: 0.5, 1, 2, 4 and their negatives, 1 / (2 pi).
const FLOATS: [u32; 9] = [
    0x3f00_0000,
    0xbf00_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x4000_0000,
    0xc000_0000,
    0x4080_0000,
    0xc080_0000,
    0x3e22_f983,
];
/// EXEC, where a comparison of RDNA 3 says that it writes it.
const EXEC_FIELD: u32 = 0x7e;

impl Form {
    pub fn of(target: &Target, words: &[u32]) -> Self {
        let Some(first) = words.first() else { return Self::Other };
        match (target.is_gfx9(), first >> 26) {
            (_, 0..0b10_0000) => Self::Short,
            (true, 0b11_0100) if first >> 23 == 0b1_1010_0111 => Self::Packed,
            (true, 0b11_0100) | (false, 0b11_0101) => Self::Long,
            (false, 0b11_0011) => Self::Packed,
            _ => Self::Other,
        }
    }
}

fn word(raw: &Raw<'_>, at: usize) -> u32 {
    raw.line.words.get(at).copied().unwrap_or(0)
}

pub(super) fn unread(raw: &Raw<'_>, what: &str) -> String {
    let words: Vec<String> = raw.line.words.iter().map(|word| format!("{word:08X}")).collect();
    format!("{what} in the encoding {} of `{}`", words.join(" "), raw.line.text)
}

/// # Errors
/// A bit of `mask` is set in word `at`.
fn zero(raw: &Raw<'_>, at: usize, mask: u32, what: &str) -> Decoded<()> {
    if word(raw, at) & mask == 0 { Ok(()) } else { Err(unread(raw, what)) }
}

/// `op_sel` of VOP3: of the three sources and of the result.
pub(super) fn selections(raw: &Raw<'_>) -> [bool; 4] {
    [11, 12, 13, 14].map(|bit| word(raw, 0) >> bit & 1 == 1)
}

/// The fields of the sources of a vector instruction, as far as they are in its first words.
pub(super) fn vector_fields(raw: &Raw<'_>, form: Form) -> [Option<u32>; 3] {
    let mut fields = match form {
        Form::Short => [Some(word(raw, 0) & 0x1ff), None, None],
        Form::Long | Form::Packed => [0, 9, 18].map(|bit| Some(word(raw, 1) >> bit & 0x1ff)),
        Form::Other => [None; 3],
    };
    // The first source is in the word behind.
    fields[0] = fields[0].filter(|field| ![SDWA, DPP16].contains(field) && !DPP8.contains(field));
    fields
}

/// # Errors
/// As [`register`], of a mask that VOP3 writes: the result, or beside it.
pub(super) fn mask(raw: &Raw<'_>, form: Form, at: u8, beside: bool) -> Decoded<()> {
    match form {
        Form::Long => register(raw, at, if beside { word(raw, 0) >> 8 & 0x7f } else { word(raw, 0) & 0xff }),
        _ => Ok(()),
    }
}

/// Whether a short encoding says that the result is the upper half of its register, where the text does not say so.
pub(super) fn is_upper_result(raw: &Raw<'_>, form: Form) -> bool {
    const COMPARISONS: u32 = 0b11_1110;
    let first = word(raw, 0);
    let shown = raw.text.operands.first().and_then(|text| vgprs(text)).is_some_and(|(at, _)| at >= 128);
    form == Form::Short && first >> 25 != COMPARISONS && first >> 24 & 1 == 1 && !shown
}

/// The float that is a source `at`, where a constant of the encoding is one: of single precision.
///
/// 16-bit integers take the lower half of it, which the text shows as if it were of half precision.
pub(super) fn inline_float(raw: &Raw<'_>, form: Form, at: usize) -> Option<u64> {
    let field = (*vector_fields(raw, form).get(at)?)?;
    FLOATS.get(usize::try_from(field.checked_sub(240)?).ok()?).map(|bits| u64::from(*bits))
}

/// # Errors
/// A bit of a vector instruction that its text does not show and that nothing else reads: the signs of sources, and what is reserved.
pub(super) fn signs(raw: &Raw<'_>, form: Form, sources: &[VectorSource], has_mask_out: bool) -> Decoded<()> {
    let shown = |at: usize, negative: bool| {
        sources.get(at).is_some_and(|source| if negative { source.change.negate } else { source.change.absolute })
    };
    let (abs, neg) = match form {
        Form::Long => {
            let abs = if has_mask_out { 0 } else { word(raw, 0) >> 8 & 7 };
            (abs, word(raw, 1) >> 29)
        }
        Form::Short if word(raw, 0) & 0x1ff == DPP16 => {
            let bits = word(raw, 1) >> 20 & 15;
            (bits >> 1 & 1 | bits >> 2 & 2, bits & 1 | bits >> 1 & 2)
        }
        _ => return Ok(()),
    };
    for at in 0..3 {
        if abs >> at & 1 == 1 && !shown(at, false) || neg >> at & 1 == 1 && !shown(at, true) {
            return Err(unread(raw, "a sign of a source"));
        }
    }
    Ok(())
}

/// # Errors
/// A reserved bit is set.
pub(super) fn reserved(raw: &Raw<'_>, target: &Target, form: Form) -> Decoded<()> {
    let (source, at) = match form {
        Form::Short => (word(raw, 0) & 0x1ff, 1),
        Form::Long | Form::Packed => (word(raw, 1) & 0x1ff, 2),
        Form::Other => return Ok(()),
    };
    if source == SDWA && form == Form::Short && target.is_gfx9() {
        zero(raw, at, 1 << 22 | 1 << 30, "a reserved bit of SDWA")?;
    }
    if raw.text.mnemonic.starts_with("v_accvgpr_") && form == Form::Packed {
        zero(raw, 0, 1 << 15, "a modifier")?;
    }
    if source == DPP16 {
        zero(raw, at, if target.is_gfx9() { 3 << 17 } else { 1 << 17 }, "a reserved bit of DPP")?;
        if form != Form::Short {
            zero(raw, at, 15 << 20, "a sign of DPP")?;
        }
    }
    let compares = form == Form::Long && !target.is_gfx9() && raw.text.mnemonic.starts_with("v_cmpx_");
    if compares && ![0, EXEC_FIELD].contains(&(word(raw, 0) & 0xff)) {
        return Err(unread(raw, "a destination"));
    }
    Ok(())
}

/// Instructions across lanes: VOP3 of which `known` bits of `op_sel` are read.
///
/// # Errors
/// Another bit is set.
pub(super) fn plain(raw: &Raw<'_>, form: Form, known: u32) -> Decoded<()> {
    if form != Form::Long {
        return Ok(());
    }
    zero(raw, 0, (15 << 11 | 7 << 8 | 1 << 15) & !known, "a modifier")?;
    zero(raw, 1, 31 << 27, "a modifier")
}

/// # Errors
/// A reserved bit of a memory instruction of RDNA 3 is set.
pub(super) fn memory(raw: &Raw<'_>, target: &Target) -> Decoded<()> {
    if target.is_gfx9() {
        return Ok(());
    }
    match word(raw, 0) >> 26 {
        0b11_0110 if raw.text.mnemonic.starts_with("ds_") => zero(raw, 0, 1 << 16, "a reserved bit"),
        0b11_0111 => zero(raw, 0, 1 << 25, "a reserved bit"),
        0b11_1000 => zero(raw, 0, 7 << 15, "a reserved bit"),
        0b11_1101 => {
            zero(raw, 0, 7 << 15, "a reserved bit")?;
            zero(raw, 1, 15 << 21, "a reserved bit")
        }
        _ => Err(unread(raw, "another format")),
    }
}

/// # Errors
/// A scalar register is not the one that `field` names: pairs begin at even ones, and the text rounds down.
pub(super) fn register(raw: &Raw<'_>, at: u8, field: u32) -> Decoded<()> {
    // Those behind have other numbers on some targets, and begin no pair wrongly.
    if u32::from(at) == field || at >= VCC { Ok(()) } else { Err(unread(raw, "a register that no pair begins at")) }
}

/// The fields of scalar instructions: the result and the sources.
pub(super) fn scalar_fields(raw: &Raw<'_>) -> (u32, [u32; 2]) {
    let first = word(raw, 0);
    (first >> 16 & 0x7f, [first & 0xff, first >> 8 & 0xff])
}

/// # Errors
/// As [`register`], of a source.
pub(super) fn source(raw: &Raw<'_>, source: Source, field: u32) -> Decoded<()> {
    match source {
        Source::Sgpr(at) => register(raw, at, field),
        _ => Ok(()),
    }
}

/// # Errors
/// As [`register`], of what a scalar load loads and of where its base is.
pub(super) fn scalar_load(raw: &Raw<'_>, to: u8, base: u8) -> Decoded<()> {
    register(raw, to, word(raw, 0) >> 6 & 0x7f)?;
    register(raw, base, (word(raw, 0) & 0x3f) * 2)
}
