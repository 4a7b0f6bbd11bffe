//! VOP1, VOP2, VOP3, VOP3P, VOPC, VOPD, with SDWA and DPP.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::halves::{chooses_byte, dotted, halves_of, has_signed_sum, no_halves, part_of_source, three};
use super::operand::{Wanted, dword, sgpr, source, vgpr};
use super::{Decoded, Decoder, Raw};
use crate::instruction::{
    Action, Conversion, Cross, Destination, Halves, MatrixMultiply, Output, Select, Source, Sums, Unused, Vector,
    VectorSource,
};
use crate::isa::{At, Family, Operand, Scales};
use crate::matrix::{Matrix, Modifiers as MatrixModifiers, Operand as Factor};
use crate::operations::vector::{Definition, Kind, Run, comparison};
use crate::operations::{float, integer, media, newer, saturating, scaled};
use crate::registers::VCC;

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
    static TABLE: LazyLock<HashMap<&'static str, Definition>> = LazyLock::new(|| {
        let rows = [integer::rows(), float::rows(), newer::rows(), media::rows(), saturating::rows(), scaled::rows()];
        rows.into_iter().flatten().collect()
    });
    TABLE.get(name).copied().or_else(|| comparison(name)).or_else(|| {
        // gfx12's names of what returns a number where one of both is, and of what has a carry.
        let plain = ["_num_", "_co_"].iter().find(|part| name.contains(**part))?;
        find(&name.replace(plain, "_"))
    })
}

/// A mnemonic without its encoding.
fn stem(mnemonic: &str) -> &str {
    let name = mnemonic.strip_prefix("v_").unwrap_or(mnemonic);
    let name = name.strip_suffix("_dpp").unwrap_or(name);
    let name = name.strip_suffix("_e32").or_else(|| name.strip_suffix("_e64")).unwrap_or(name);
    name.strip_suffix("_sdwa").unwrap_or(name)
}

/// "V_MOVRELS", "V_MOVRELD", "V_MOVRELSD": the source, the result, or both are relative, as [`Action::Relative`] has it.
fn relative(name: &str) -> Option<u8> {
    match name {
        "movrels_b32" => Some(1),
        "movreld_b32" => Some(8),
        "movrelsd_b32" => Some(9),
        "movrelsd_2_b32" => Some(0x19),
        _ => None,
    }
}

/// "Pseudo-scalar transcendentals" (RDNA 4): of one scalar, into a scalar register. The operation of lanes that does the same.
fn lone(name: &str) -> Option<&str> {
    name.strip_prefix("s_")
}

/// Whether a vector instruction of that name is executed.
#[cfg(test)]
pub(super) fn knows(mnemonic: &str, target: &crate::target::Target) -> bool {
    let cross = [
        "readlane",
        "readfirstlane",
        "writelane",
        "permlane16",
        "permlanex16",
        "permlane64",
        "permlane16_var",
        "permlanex16_var",
        "swap",
        "swaprel",
        "permlane16_swap",
        "permlane32_swap",
    ];
    let name = stem(mnemonic);
    let dual = mnemonic.strip_prefix("v_dual_").unwrap_or(name);
    let signed = format!("{name} 0");
    Matrix::of(mnemonic, target.generation).is_some()
        || [name, dual, &signed].iter().any(|name| find(name).is_some())
        || relative(name).is_some()
        || ["swap_b16", "mqsad_u32_u8"].contains(&name)
        || lone(name).is_some_and(|name| find(name).is_some())
        || newer::bit_operation(name, 0).is_some()
        || scaled::blocks(name).is_some()
        || cross.iter().any(|cross| name.strip_suffix("_b32") == Some(cross))
}

impl Decoder<'_> {
    pub(super) fn vector_action(&self, raw: &Raw<'_>) -> Decoded {
        let name = raw.encoded.name;
        let plain = name.replace("_scale_", "_");
        if let Some(matrix) = Matrix::of(&plain, self.target.generation) {
            return self.matrix(raw, *matrix);
        }
        if let Some(cross) = cross(raw)? {
            return Ok(Action::Cross(cross));
        }
        if let Some(blocks) = scaled::blocks(stem(name)) {
            return conversion(raw, blocks);
        }
        if stem(name) == "mqsad_u32_u8" {
            return sums(raw);
        }
        if let Some(which) = relative(stem(name)) {
            return Ok(Action::Relative(Box::new(self.vector(raw, "mov_b32")?), which));
        }
        if let Some(name) = lone(stem(name)) {
            return self.lone(raw, name);
        }
        Ok(Action::Vector(Box::new(self.vector(raw, stem(name))?)))
    }

    /// A transcendental of a scalar.
    fn lone(&self, raw: &Raw<'_>, name: &str) -> Decoded {
        let vector = self.vector(raw, name)?;
        let source = vector.sources[0];
        // Those of FP16 have no constants in their encoding ("hasNoF16PseudoScalarTransInlineConstants" of LLVM), but literals.
        let inline = matches!(raw.operand(1)?.at, At::Integer(_) | At::Float(_)) && source.kind == Kind::F16;
        if inline || matches!(source.at, Source::Vgpr(_)) {
            return Err(format!("operand {} of {}", raw.operand(1)?, raw.encoded.name));
        }
        Ok(Action::Vector(Box::new(vector)))
    }

    /// A half of VOPD.
    pub(super) fn dual(&self, raw: &Raw<'_>) -> Decoded<Vector> {
        self.vector(raw, raw.encoded.name.strip_prefix("v_dual_").ok_or_else(|| raw.text())?)
    }

    fn vector(&self, raw: &Raw<'_>, name: &str) -> Decoded<Vector> {
        let (mnemonic, modifiers, family) = (raw.encoded.name, &raw.encoded.modifiers, raw.encoded.family);
        let refused = || mnemonic.to_string();
        let mut output = Output { clamp: modifiers.clamp, omod: modifiers.omod };
        let signs = name.ends_with("_iu8") || name.ends_with("_iu4");
        let signed_name = signs.then(|| format!("{name} {}", modifiers.neg_lo & 3));
        let name = signed_name.as_deref().unwrap_or(name);
        let saturates = output.clamp.then(|| find(&format!("{name} clamp"))).flatten();
        let by_table = modifiers.table.and_then(|table| newer::bit_operation(name, table));
        let definition = saturates.or(by_table).or_else(|| find(name)).ok_or_else(refused)?;
        if !definition.result.is_float() {
            if output.omod != 0 {
                return Err(format!("a factor of the result of {mnemonic}, which is no float"));
            }
            if output.clamp && saturates.is_none() && !saturating::always_fits(name) {
                return Err(format!("clamp of {mnemonic}, of which no document says what it does"));
            }
            output.clamp = false;
        }
        let packed = matches!(definition.run, Run::Packed(_));
        let mut operands = raw.encoded.operands.iter().peekable();
        let mut next = || operands.next().ok_or_else(|| format!("{mnemonic} with other operands"));
        let compares_into_exec = name.starts_with("cmpx_");
        let first = if compares_into_exec && !self.target.is_gfx9() { None } else { Some(next()?) };
        let mask_to = if definition.mask_out { Some(sgpr(next()?)?) } else { None };
        let op_sel =
            if family == Family::Vop3 { [0, 1, 2, 3].map(|at| modifiers.op_sel >> at & 1 == 1) } else { [false; 4] };
        let mixed = matches!(definition.run, Run::Mix(_));
        let (dotted, signed_sum) = (dotted(name), has_signed_sum(name));
        let part = part_of_source(name, if family == Family::Vop3 { modifiers.op_sel } else { 0 })?;
        let scaled = name.starts_with("cvt_scalef32_");
        let unused = VectorSource { at: Source::Constant(0), kind: Kind::U32, change: Default::default() };
        let (mut sources, mut count, mut mask) = ([unused; 3], 0, None);
        let values = definition.sources.iter().filter(|kind| **kind != Kind::Mask).count();
        for (index, kind) in definition.sources.iter().enumerate() {
            if *kind == Kind::Mask {
                mask = Some(next().ok().map_or(Ok(VCC), sgpr)?);
                continue;
            }
            let slot = sources.get_mut(index).ok_or_else(refused)?;
            let tied = definition.tied && index + 1 == values;
            let operand = if tied { first.ok_or_else(refused)? } else { next()? };
            // A constant is one of the width that is read.
            let as_half = mixed && modifiers.op_sel_hi >> index & 1 == 1;
            let wanted = match dotted {
                Some(half) if index < 2 => half,
                _ if as_half => Kind::F16.into(),
                _ if name == "cvt_f32_bf16" => Wanted { brain: true, ..Kind::F16.into() },
                _ => Wanted { signed: name.contains("_i64"), ..(*kind).into() },
            };
            let (at, mut change) = source(operand, wanted)?;
            let half = kind.is_half() && !packed && !mixed;
            if mixed || signed_sum && index == 2 {
                // Signs stand where others have those of halves.
                let bit = |bits: u8| bits >> index & 1 == 1;
                (change.negate, change.absolute) = (bit(modifiers.neg_lo), bit(modifiers.neg_hi));
            }
            let whole = tied || scaled || chooses_byte(name);
            let high = if whole { false } else { operand.half.unwrap_or(op_sel[index]) };
            match half {
                true => change.high = high || tied && change.high,
                // Only 16 bits are read, of either half.
                false if high && operand.half.is_some() => {
                    (change.high, change.select) = (false, Some(Select::Word(1)))
                }
                false if high => return Err(format!("operand {operand}")),
                false => {}
            }
            if let (Some(_), Family::Vop3p, 0..2) = (dotted, family, index) {
                change.select = halves_of(raw, index);
            }
            if scaled && index == 0 {
                change.select = part;
                // "CVT_SR_* and CVT_PK_* support only VGPRs"; what a sign of several elements is, is not said.
                let several = !kind.is_float() && (change.negate || change.absolute);
                if several || kind != &Kind::F32 && matches!(at, Source::Constant(_)) {
                    return Err(format!("operand {operand} of {mnemonic}"));
                }
            }
            if let Some(parts) = modifiers.sdwa {
                change.select = parts.sources.get(index).copied();
            }
            let by_word = modifiers.sdwa.is_some() || modifiers.dpp.is_some();
            let signs = change.negate || change.absolute;
            if change.extend && change.select.is_none()
                || signs && by_word && !kind.is_float() && !name.starts_with("cndmask")
            {
                return Err(format!("operand {operand}"));
            }
            *slot = VectorSource { at, kind: *kind, change };
            count += 1;
        }
        if operands.next().is_some() {
            return Err(format!("{mnemonic} with more operands"));
        }
        let has_halves = packed || mixed || matches!(definition.run, Run::PackedPair(_) | Run::PackedMove);
        if !has_halves && !signs {
            no_halves(raw, if dotted.is_some() { 3 } else { u8::from(signed_sum) << 2 })?;
        }
        let halves = match family {
            Family::Vop3p if mixed => {
                Halves { low: three(modifiers.op_sel), high: three(modifiers.op_sel_hi), ..Halves::default() }
            }
            Family::Vop3p => Halves {
                low: three(modifiers.op_sel),
                high: three(modifiers.op_sel_hi),
                negate_low: three(modifiers.neg_lo),
                negate_high: three(modifiers.neg_hi),
            },
            _ => Halves::default(),
        };
        let to = self.destination(raw, &definition, name, first, op_sel)?;
        let dpp = modifiers.dpp;
        let is_wide = matches!(definition.run, Run::Wide(_));
        let whole = |kind: &Kind| matches!(kind, Kind::U32 | Kind::F32 | Kind::Mask) || is_wide && kind.is_wide();
        let simple = dpp.is_none()
            && output == Output::default()
            && definition.sources.iter().all(whole)
            && whole(&definition.result)
            && sources.iter().all(|source| source.change == Default::default())
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
        first: Option<&Operand>,
        op_sel: [bool; 4],
    ) -> Decoded<Destination> {
        let is_half = definition.result.is_half() && !matches!(definition.run, Run::Packed(_) | Run::Mix(_));
        let Some(operand) = first else { return Ok(Destination::Exec(None)) };
        let high = operand.half.unwrap_or(op_sel[3] && !chooses_byte(name));
        if high && !is_half {
            return Err(format!("a half of the result of {}", raw.text()));
        }
        if definition.result == Kind::Mask {
            let at = sgpr(operand)?;
            return Ok(if name.starts_with("cmpx_") { Destination::Exec(Some(at)) } else { Destination::Mask(at) });
        }
        if lone(stem(raw.encoded.name)).is_some() {
            return Ok(Destination::Sgpr(sgpr(operand)?));
        }
        let at = vgpr(operand)?;
        // A pair of registers has no parts.
        if let Some(parts) = raw.encoded.modifiers.sdwa.filter(|_| !definition.result.is_wide()) {
            return Ok(Destination::Part(at, parts.to, parts.unused));
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
        if !self.target.clears_upper_half {
            return Ok(Destination::Half(at, high));
        }
        let keeps = high || definition.keeps || KEEP_UPPER_HALF.contains(&name);
        Ok(if keeps { Destination::Half(at, high) } else { Destination::Cleared(at) })
    }

    fn matrix(&self, raw: &Raw<'_>, matrix: Matrix) -> Decoded {
        let (name, modifiers) = (raw.encoded.name, &raw.encoded.modifiers);
        let (matrix, cbsz, blgp) = if name.ends_with("_f8f6f4") {
            let formats = matrix.with_formats(modifiers.cbsz, modifiers.blgp);
            (formats.ok_or_else(|| format!("a format of {name}"))?, 0, 0)
        } else {
            (matrix, modifiers.cbsz, modifiers.blgp)
        };
        let scale = |operand: At| Ok::<_, String>(source(&operand.into(), Kind::U32)?.0);
        let byte = |scales: &Scales, of: u8| scales.op_sel >> of & 1 | (scales.op_sel_hi >> of & 1) << 1;
        let scales = match &modifiers.scales {
            Some(scales) => Some(([scale(scales.a)?, scale(scales.b)?], [byte(scales, 0), byte(scales, 1)])),
            None => None,
        };
        let modifiers = MatrixModifiers {
            cbsz,
            abid: modifiers.abid,
            blgp,
            neg_lo: modifiers.neg_lo,
            neg_hi: modifiers.neg_hi,
            op_sel: modifiers.op_sel,
            clamp: modifiers.clamp,
        };
        let lanes = self.lanes as usize;
        let register = |at: usize, factor: Factor| match raw.operand(at)?.at {
            At::Vgpr(first, count) if usize::from(count) == matrix.registers(factor, lanes) => Ok(first),
            other => Err(format!("operand {other} of {name}")),
        };
        let (d, a, b) = (register(0, Factor::C)?, register(1, Factor::A)?, register(2, Factor::B)?);
        let kind = match matrix.result {
            crate::matrix::Element::F64 => Kind::F64,
            crate::matrix::Element::F16 | crate::matrix::Element::Bf16 => Kind::F16,
            _ => Kind::F32,
        };
        let operand = raw.operand(3)?;
        let index = if matrix.sparse { Some(register(3, Factor::Index)?) } else { None };
        let c = match operand.at {
            _ if matrix.sparse => Source::Vgpr(d),
            At::Vgpr(..) => Source::Vgpr(register(3, Factor::C)?),
            _ => match source(operand, kind)?.0 {
                constant @ Source::Constant(_) => constant,
                _ => return Err(format!("operand {operand} of {name}")),
            },
        };
        let layout = matrix.layout(modifiers, lanes);
        Ok(Action::Matrix(Box::new(MatrixMultiply { matrix, scales, modifiers, layout, a, b, c, d, index })))
    }
}

/// A conversion of 32 elements: the source or both of them, a random number where there is one, and the scale.
fn conversion(raw: &Raw<'_>, blocks: scaled::Blocks) -> Decoded {
    let [from_count, to_count] = blocks.registers();
    let register = |at: usize, count: usize| match raw.operand(at)?.at {
        At::Vgpr(first, found) if usize::from(found) == count => Ok(first),
        other => Err(format!("operand {other} of {}", raw.encoded.name)),
    };
    let (to, first) = (register(0, to_count)?, register(1, from_count)?);
    let second = if blocks.two { register(2, from_count)? } else { first };
    let random = if blocks.stochastic { source(raw.operand(2)?, Kind::U32)?.0 } else { Source::Constant(0) };
    let scale = source(raw.operand(if blocks.two || blocks.stochastic { 3 } else { 2 })?, Kind::F32)?.0;
    Ok(Action::Convert(Box::new(Conversion { blocks, to, from: [first, second], random, scale })))
}

/// V_MQSAD_U32_U8, whose sums saturate with `clamp`.
fn sums(raw: &Raw<'_>) -> Decoded {
    let several = |at: usize, first: u8| match source(raw.operand(at)?, Kind::U32)?.0 {
        Source::Vgpr(register) => Ok(Source::Vgpr(register + u16::from(first))),
        Source::Sgpr(register) => Ok(Source::Sgpr(register + first)),
        _ => Err(format!("operand {} of {}", raw.operand(at)?, raw.encoded.name)),
    };
    let sum = |at: u8| several(3, at);
    Ok(Action::Sums(Box::new(Sums {
        to: vgpr(raw.operand(0)?)?,
        bytes: [several(1, 0)?, several(1, 1)?],
        reference: source(raw.operand(2)?, Kind::U32)?.0,
        sums: [sum(0)?, sum(1)?, sum(2)?, sum(3)?],
        saturate: raw.encoded.modifiers.clamp,
    })))
}

/// Instructions that move data between lanes.
fn cross(raw: &Raw<'_>) -> Decoded<Option<Cross>> {
    let name = raw.encoded.name;
    let name = name.strip_suffix("_e32").or_else(|| name.strip_suffix("_e64")).unwrap_or(name);
    let [fetch_inactive, bound_zero, _] = three(raw.encoded.modifiers.op_sel);
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
        "v_permlane16_b32" | "v_permlanex16_b32" => Cross::PermuteRow {
            to: vgpr(raw.operand(0)?)?,
            from: vgpr(raw.operand(1)?)?,
            selects: [dword(raw.operand(2)?)?, dword(raw.operand(3)?)?],
            crossed: name == "v_permlanex16_b32",
            fetch_inactive,
            bound_zero,
        },
        "v_permlane16_var_b32" | "v_permlanex16_var_b32" => Cross::PermuteByLane {
            to: vgpr(raw.operand(0)?)?,
            from: vgpr(raw.operand(1)?)?,
            select: vgpr(raw.operand(2)?)?,
            crossed: name == "v_permlanex16_var_b32",
            fetch_inactive,
            bound_zero,
        },
        "v_permlane64_b32" => Cross::ExchangeHalves { to: vgpr(raw.operand(0)?)?, from: vgpr(raw.operand(1)?)? },
        "v_permlane16_swap_b32" | "v_permlane32_swap_b32" => Cross::SwapRows {
            first: vgpr(raw.operand(0)?)?,
            second: vgpr(raw.operand(1)?)?,
            rows: if name.contains("16") { 16 } else { 32 },
        },
        "v_swap_b32" => Cross::Swap(vgpr(raw.operand(0)?)?, vgpr(raw.operand(1)?)?),
        "v_swaprel_b32" => Cross::SwapRelative(vgpr(raw.operand(0)?)?, vgpr(raw.operand(1)?)?),
        "v_swap_b16" => {
            let half = |at: usize| {
                let operand = raw.operand(at)?;
                Ok::<_, String>((vgpr(operand)?, operand.half == Some(true)))
            };
            Cross::SwapHalves([half(0)?, half(1)?])
        }
        _ => return Ok(None),
    }))
}
