//! VOP1, VOP2, VOP3, VOP3P, VOPC, VOPD, with SDWA and DPP.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::encoding::{self, Form};
use super::halves::{chooses_byte, dotted, halves_of, no_halves, takes_half, three};
use super::memory::dword;
use super::operand::{Wanted, sgpr, source, vgpr, vgprs};
use super::{Decoded, Decoder, Raw};
use crate::instruction::{
    Action, Change, Cross, Destination, Dpp, Halves, MatrixMultiply, Output, Permutation, Select, Source, Unused,
    Vector, VectorSource,
};
use crate::matrix::{Matrix, Modifiers as MatrixModifiers, Operand};
use crate::operations::vector::{Definition, Kind, Run, comparison};
use crate::operations::{float, integer};
use crate::registers::VCC;
use crate::text::integer as parse_integer;

/// All that is understood on any vector ALU instruction.
const KNOWN: &[&str] = &[
    "op_sel",
    "op_sel_hi",
    "neg_lo",
    "neg_hi",
    "clamp",
    "mul",
    "div",
    "dst_sel",
    "dst_unused",
    "src0_sel",
    "src1_sel",
    "quad_perm",
    "row_shl",
    "row_shr",
    "row_ror",
    "wave_shl",
    "wave_rol",
    "wave_shr",
    "wave_ror",
    "row_mirror",
    "row_half_mirror",
    "row_bcast",
    "row_newbcast",
    "row_share",
    "row_xmask",
    "dpp8",
    "row_mask",
    "bank_mask",
    "bound_ctrl",
    "fi",
];

/// 16-bit operations of gfx9 that leave the upper half alone, since it introduced them so; others clear it.
const KEEP_UPPER_HALF: &[&str] = &[
    "mad_f16",
    "mad_u16",
    "mad_i16",
    "fma_f16",
    "div_fixup_f16",
    "min3_f16",
    "max3_f16",
    "med3_f16",
    "min3_i16",
    "max3_i16",
    "med3_i16",
    "min3_u16",
    "max3_u16",
    "med3_u16",
    "add_i16",
    "sub_i16",
];

fn find(name: &str) -> Option<Definition> {
    static TABLE: LazyLock<HashMap<&'static str, Definition>> =
        LazyLock::new(|| integer::rows().into_iter().chain(float::rows()).collect());
    TABLE.get(name).copied().or_else(|| comparison(name))
}

/// A mnemonic without its encoding.
fn stem(mnemonic: &str) -> &str {
    let name = mnemonic.strip_prefix("v_").unwrap_or(mnemonic);
    let name = name.strip_suffix("_dpp").unwrap_or(name);
    let name = name.strip_suffix("_e32").or_else(|| name.strip_suffix("_e64")).unwrap_or(name);
    name.strip_suffix("_sdwa").unwrap_or(name)
}

fn select(text: &str) -> Decoded<Select> {
    Ok(match text {
        "BYTE_0" => Select::Byte(0),
        "BYTE_1" => Select::Byte(1),
        "BYTE_2" => Select::Byte(2),
        "BYTE_3" => Select::Byte(3),
        "WORD_0" => Select::Word(0),
        "WORD_1" => Select::Word(1),
        "DWORD" => Select::Dword,
        _ => return Err(format!("SDWA selection {text}")),
    })
}

fn dpp(raw: &Raw<'_>) -> Decoded<Option<Dpp>> {
    let list = |text: &str| {
        let inner = text.trim_start_matches('[').trim_end_matches(']');
        inner.split(',').map(|number| number.trim().parse::<u8>().ok()).collect::<Option<Vec<u8>>>()
    };
    let mut permutation = None;
    for (name, value) in &raw.text.modifiers {
        let number = || parse_integer(value).and_then(|number| u8::try_from(number).ok());
        let refused = || format!("DPP {name}:{value}");
        let found = match *name {
            "quad_perm" => {
                let lanes = list(value).and_then(|lanes| <[u8; 4]>::try_from(lanes).ok());
                Permutation::Quad(lanes.filter(|lanes| lanes.iter().all(|lane| *lane < 4)).ok_or_else(refused)?)
            }
            "dpp8" => {
                let lanes = list(value).and_then(|lanes| <[u8; 8]>::try_from(lanes).ok());
                Permutation::Eight(lanes.filter(|lanes| lanes.iter().all(|lane| *lane < 8)).ok_or_else(refused)?)
            }
            "row_shl" => Permutation::RowShiftLeft(number().ok_or_else(refused)?),
            "row_shr" => Permutation::RowShiftRight(number().ok_or_else(refused)?),
            "row_ror" => Permutation::RowRotateRight(number().ok_or_else(refused)?),
            "wave_shl" => Permutation::WaveShiftLeft,
            "wave_rol" => Permutation::WaveRotateLeft,
            "wave_shr" => Permutation::WaveShiftRight,
            "wave_ror" => Permutation::WaveRotateRight,
            "row_mirror" => Permutation::RowMirror,
            "row_half_mirror" => Permutation::RowHalfMirror,
            "row_bcast" => match number() {
                Some(15) => Permutation::Broadcast15,
                Some(31) => Permutation::Broadcast31,
                _ => return Err(refused()),
            },
            "row_share" | "row_newbcast" => {
                Permutation::RowShare(number().filter(|lane| *lane < 16).ok_or_else(refused)?)
            }
            "row_xmask" => Permutation::RowXor(number().filter(|mask| *mask < 16).ok_or_else(refused)?),
            _ => continue,
        };
        permutation = Some(found);
    }
    let Some(permutation) = permutation else { return Ok(None) };
    let mask = |name: &str| raw.text.modifier(name).map_or(Some(15), parse_integer);
    let flag = |name: &str| raw.text.number(name).unwrap_or(0) == 1;
    let (row_mask, bank_mask) = (mask("row_mask").unwrap_or(15) as u8, mask("bank_mask").unwrap_or(15) as u8);
    let eight = matches!(permutation, Permutation::Eight(_));
    Ok(Some(Dpp {
        permutation,
        row_mask,
        bank_mask,
        bound_zero: flag("bound_ctrl") || eight,
        fetch_inactive: flag("fi"),
    }))
}

fn byte(bits: [bool; 3]) -> u8 {
    bits.iter().enumerate().fold(0, |byte, (at, bit)| byte | u8::from(*bit) << at)
}

fn output(raw: &Raw<'_>) -> Decoded<Output> {
    let omod = match (raw.text.modifier("mul"), raw.text.modifier("div")) {
        (None, None) => 0,
        (Some("2"), None) => 1,
        (Some("4"), None) => 2,
        (None, Some("2")) => 3,
        _ => return Err("an output modifier".into()),
    };
    Ok(Output { clamp: raw.text.modifier("clamp").is_some(), omod })
}

/// Whether a vector instruction of that name is executed.
#[cfg(test)]
pub(super) fn knows(mnemonic: &str) -> bool {
    let cross = ["readlane", "readfirstlane", "writelane", "permlane16", "permlanex16", "swap"];
    let name = stem(mnemonic);
    let dual = mnemonic.strip_prefix("v_dual_").unwrap_or(name);
    Matrix::named(mnemonic).is_some()
        || find(name).is_some()
        || find(dual).is_some()
        || cross.iter().any(|cross| name.strip_suffix("_b32") == Some(cross))
}

impl Decoder<'_> {
    pub(super) fn vector_action(&self, raw: &Raw<'_>) -> Decoded {
        if let Some(matrix) = Matrix::named(raw.text.mnemonic) {
            return self.matrix(raw, matrix);
        }
        let form = Form::of(self.target, &raw.line.words);
        if let Some(cross) = cross(raw)? {
            let known = if matches!(cross, Cross::PermuteRow { .. }) { 3 << 11 } else { 0 };
            encoding::plain(raw, form, known)?;
            if encoding::is_upper_result(raw, form) {
                return Err(encoding::unread(raw, "a half of the result"));
            }
            return Ok(Action::Cross(cross));
        }
        encoding::reserved(raw, self.target, form)?;
        Ok(Action::Vector(Box::new(self.vector(raw, stem(raw.text.mnemonic), form)?)))
    }

    /// A half of VOPD.
    pub(super) fn dual(&self, raw: &Raw<'_>) -> Decoded<Vector> {
        let name = raw.text.mnemonic.strip_prefix("v_dual_").ok_or_else(|| format!("`{}`", raw.line.text))?;
        self.vector(raw, name, Form::Other)
    }

    fn vector(&self, raw: &Raw<'_>, name: &str, form: Form) -> Decoded<Vector> {
        let refused = || raw.text.mnemonic.to_string();
        raw.only(KNOWN)?;
        let mut output = output(raw)?;
        let saturates = output.clamp.then(|| find(&format!("{name} clamp"))).flatten();
        let definition = saturates.or_else(|| find(name)).ok_or_else(refused)?;
        if saturates.is_some() {
            output.clamp = false;
        } else if output.clamp && !definition.result.is_float() {
            return Err(format!("clamp of {}", raw.text.mnemonic));
        }
        let packed = matches!(definition.run, Run::Packed(_));
        let has_masks = raw.text.mnemonic.ends_with("_sdwa");
        let mut operands = raw.text.operands.iter().copied().peekable();
        let mut next = || operands.next().ok_or_else(|| format!("{} with other operands", raw.text.mnemonic));
        let compares_into_exec = name.starts_with("cmpx_");
        let first = if compares_into_exec && !self.target.is_gfx9() { None } else { Some(next()?) };
        let mask_to = if definition.mask_out { Some(sgpr(next()?)?) } else { None };
        mask_to.map_or(Ok(()), |at| encoding::mask(raw, form, at, true))?;
        let selects = form == Form::Long && !definition.mask_out;
        let op_sel = if selects { encoding::selections(raw) } else { [false; 4] };
        if op_sel.contains(&true) && self.target.is_gfx9() && raw.text.modifier("op_sel").is_none() {
            return Err(encoding::unread(raw, "a half"));
        }
        let fields = encoding::vector_fields(raw, form);
        let short = form == Form::Short && !self.target.is_gfx9();
        let mixed = matches!(definition.run, Run::Mix(_));
        let dotted = dotted(name);
        let halves_of_mixed = raw.text.bits("op_sel_hi").unwrap_or_default();
        let unused = VectorSource { at: Source::Constant(0), kind: Kind::U32, change: Change::default() };
        let (mut sources, mut count, mut mask) = ([unused; 3], 0, None);
        let values = definition.sources.iter().filter(|kind| **kind != Kind::Mask).count();
        for (index, kind) in definition.sources.iter().enumerate() {
            let field = fields.get(index).copied().flatten();
            if *kind == Kind::Mask {
                let at = next().ok().map_or(Ok(VCC), sgpr)?;
                field.filter(|_| form == Form::Long).map_or(Ok(()), |of| encoding::register(raw, at, of))?;
                mask = Some(at);
                continue;
            }
            let slot = sources.get_mut(index).ok_or_else(refused)?;
            let tied = definition.tied && index + 1 == values;
            let text = if tied { first.ok_or_else(refused)? } else { next()? };
            // A constant is one of the width that is read.
            let as_half = mixed && halves_of_mixed.get(index).copied().unwrap_or(false);
            let wanted = match dotted {
                Some(half) if index < 2 => half,
                _ if as_half => Kind::F16.into(),
                _ => Wanted { signed: name.contains("_i64"), ..(*kind).into() },
            };
            let (mut at, mut change) = source(text, wanted)?;
            let half = kind.is_half() && !packed && !mixed;
            if let (Kind::U16, Source::Constant(_), Some(bits)) = (kind, at, encoding::inline_float(raw, form, index)) {
                at = Source::Constant(bits);
            }
            let mut high = op_sel[index] && !chooses_byte(name);
            if let (Source::Vgpr(register @ 128..256), true) = (at, short && (half || takes_half(name, index))) {
                // The register's eighth bit chooses the half ("16-bit operations", RDNA 3).
                (at, high) = (Source::Vgpr(register - 128), true);
            }
            high |= std::mem::take(&mut change.high);
            match half {
                true => change.high = high,
                false if high && takes_half(name, index) => change.select = Some(Select::Word(1)),
                false if high => return Err(format!("operand {text}")),
                false => {}
            }
            if let (Some(_), Form::Packed, 0..2) = (dotted, form, index) {
                change.select = halves_of(raw, index);
            }
            if let Some(field) = field {
                encoding::source(raw, at, field)?;
            }
            if has_masks {
                let name = ["src0_sel", "src1_sel"].get(index).copied().unwrap_or_default();
                change.select = raw.text.modifier(name).map(select).transpose()?;
            }
            if change.extend && change.select.is_none() {
                return Err(format!("operand {text}"));
            }
            *slot = VectorSource { at, kind: *kind, change };
            count += 1;
        }
        if operands.next().is_some() {
            return Err(format!("{} with more operands", raw.text.mnemonic));
        }
        if op_sel.iter().enumerate().take(3).any(|(at, bit)| *bit && at >= count && !chooses_byte(name)) {
            return Err(encoding::unread(raw, "a half of no source"));
        }
        encoding::signs(raw, form, &sources[..count], definition.mask_out)?;
        let has_halves = packed || mixed || matches!(definition.run, Run::PackedPair(_) | Run::PackedMove);
        if !has_halves {
            no_halves(raw, form, dotted.is_some())?;
        }
        let halves = Halves {
            low: three(raw.text.bits("op_sel"), false),
            high: three(raw.text.bits("op_sel_hi"), !mixed),
            negate_low: three(raw.text.bits("neg_lo"), false),
            negate_high: three(raw.text.bits("neg_hi"), false),
        };
        if let Run::PackedPair(_) = definition.run {
            for (index, source) in sources.iter().enumerate().take(count) {
                let constant = matches!(source.at, Source::Constant(_));
                if constant && (halves.high[index] || halves.low[index]) {
                    return Err(format!("upper half of a constant in {}", raw.text.mnemonic));
                }
            }
        }
        let to = self.destination(raw, &definition, name, short, first, op_sel)?;
        let dpp = dpp(raw)?;
        let narrow = |kind: &Kind| matches!(kind, Kind::U32 | Kind::F32 | Kind::Mask);
        let simple = dpp.is_none()
            && output == Output::default()
            && definition.sources.iter().all(narrow)
            && narrow(&definition.result)
            && sources.iter().all(|source| source.change == Change::default())
            && matches!(to, Destination::Vgpr(_) | Destination::Mask(_) | Destination::Exec(_));
        Ok(Vector {
            run: definition.run,
            result: definition.result,
            to,
            mask_to,
            sources,
            count,
            mask,
            bitwise: definition.bitwise,
            upward: definition.upward,
            simple,
            dpp,
            output,
            halves,
        })
    }

    fn destination(
        &self,
        raw: &Raw<'_>,
        definition: &Definition,
        name: &str,
        short: bool,
        first: Option<&str>,
        op_sel: [bool; 4],
    ) -> Decoded<Destination> {
        let is_half = definition.result.is_half() && !matches!(definition.run, Run::Packed(_) | Run::Mix(_));
        let upper = encoding::is_upper_result(raw, Form::of(self.target, &raw.line.words));
        if (op_sel[3] && !chooses_byte(name) || upper) && !is_half {
            return Err(encoding::unread(raw, "a half of the result"));
        }
        let Some(text) = first else { return Ok(Destination::Exec(None)) };
        if definition.result == Kind::Mask {
            let at = sgpr(text)?;
            encoding::mask(raw, Form::of(self.target, &raw.line.words), at, false)?;
            return Ok(if name.starts_with("cmpx_") { Destination::Exec(Some(at)) } else { Destination::Mask(at) });
        }
        let at = vgpr(text)?;
        if let Some(part) = raw.text.modifier("dst_sel") {
            let unused = match raw.text.modifier("dst_unused") {
                Some("UNUSED_PAD") | None => Unused::Pad,
                Some("UNUSED_SEXT") => Unused::Sext,
                Some("UNUSED_PRESERVE") => Unused::Preserve,
                Some(other) => return Err(format!("SDWA {other}")),
            };
            return Ok(Destination::Part(at, select(part)?, unused));
        }
        if chooses_byte(name) {
            // "V_CVT_SR_FP8_F32": the last two bits choose the byte.
            let [low, high] = [2, 3].map(|at| u8::from(op_sel[at]));
            return Ok(Destination::Part(at, Select::Byte(low | high << 1), Unused::Preserve));
        }
        if !definition.result.is_half() || matches!(definition.run, Run::Packed(_)) {
            return Ok(Destination::Vgpr(at));
        }
        if let Run::Mix(_) = definition.run {
            return Ok(Destination::Half(at, name == "fma_mixhi_f16"));
        }
        let high = op_sel[3] || upper || text.ends_with(".h");
        if !self.target.clears_upper_half {
            return Ok(match at {
                128..256 if short => Destination::Half(at - 128, true),
                at => Destination::Half(at, high),
            });
        }
        let keeps = high || definition.keeps || KEEP_UPPER_HALF.contains(&name);
        Ok(if keeps { Destination::Half(at, high) } else { Destination::Cleared(at) })
    }

    fn matrix(&self, raw: &Raw<'_>, matrix: &'static Matrix) -> Decoded {
        raw.only(&["cbsz", "abid", "blgp", "neg", "neg_lo", "neg_hi", "op_sel", "op_sel_hi", "clamp"])?;
        let number = |name: &str| raw.number(name).map(|number| number as u8);
        let negations = raw.text.bits("neg").map(|bits| byte(three(Some(bits), false)));
        let modifiers = MatrixModifiers {
            cbsz: number("cbsz")?,
            abid: number("abid")?,
            blgp: negations.map_or_else(|| number("blgp"), Ok)?,
            neg_lo: byte(three(raw.text.bits("neg_lo"), false)),
            neg_hi: byte(three(raw.text.bits("neg_hi"), false)),
            op_sel: byte(three(raw.text.bits("op_sel"), false)),
            clamp: raw.text.modifier("clamp").is_some(),
        };
        let lanes = self.lanes as usize;
        let register = |at: usize, operand: Operand| {
            let text = raw.operand(at)?;
            let (first, count) = vgprs(text).ok_or_else(|| format!("operand {text} of {}", raw.text.mnemonic))?;
            match usize::from(count) == matrix.registers(operand, lanes) {
                true => Ok(first),
                false => Err(format!("operand {text} of {}", raw.text.mnemonic)),
            }
        };
        let (d, a, b) = (register(0, Operand::C)?, register(1, Operand::A)?, register(2, Operand::B)?);
        let kind = match matrix.result {
            crate::matrix::Element::F64 => Kind::F64,
            crate::matrix::Element::F16 | crate::matrix::Element::Bf16 => Kind::F16,
            _ => Kind::F32,
        };
        let text = raw.operand(3)?;
        let c = match vgprs(text) {
            Some(_) => Source::Vgpr(register(3, Operand::C)?),
            None => match source(text, kind)?.0 {
                constant @ Source::Constant(_) => constant,
                _ => return Err(format!("operand {text} of {}", raw.text.mnemonic)),
            },
        };
        Ok(Action::Matrix(Box::new(MatrixMultiply { matrix, modifiers, a, b, c, d })))
    }
}

/// Instructions that move data between lanes.
fn cross(raw: &Raw<'_>) -> Decoded<Option<Cross>> {
    let name = raw.text.mnemonic;
    let name = name.strip_suffix("_e32").or_else(|| name.strip_suffix("_e64")).unwrap_or(name);
    let op_sel = || three(raw.text.bits("op_sel"), false);
    Ok(Some(match name {
        "v_readlane_b32" => {
            Cross::ReadLane { to: sgpr(raw.operand(0)?)?, from: vgpr(raw.operand(1)?)?, lane: dword(raw.operand(2)?)? }
        }
        "v_readfirstlane_b32" => Cross::ReadFirstLane { to: sgpr(raw.operand(0)?)?, from: vgpr(raw.operand(1)?)? },
        "v_writelane_b32" => Cross::WriteLane {
            to: vgpr(raw.operand(0)?)?,
            value: dword(raw.operand(1)?)?,
            lane: dword(raw.operand(2)?)?,
        },
        "v_permlane16_b32" | "v_permlanex16_b32" => {
            raw.only(&["op_sel"])?;
            let [fetch_inactive, bound_zero, _] = op_sel();
            Cross::PermuteRow {
                to: vgpr(raw.operand(0)?)?,
                from: vgpr(raw.operand(1)?)?,
                selects: [dword(raw.operand(2)?)?, dword(raw.operand(3)?)?],
                crossed: name == "v_permlanex16_b32",
                fetch_inactive,
                bound_zero,
            }
        }
        "v_permlane64_b32" => Cross::ExchangeHalves { to: vgpr(raw.operand(0)?)?, from: vgpr(raw.operand(1)?)? },
        "v_swap_b32" => Cross::Swap(vgpr(raw.operand(0)?)?, vgpr(raw.operand(1)?)?),
        _ => return Ok(None),
    }))
}
