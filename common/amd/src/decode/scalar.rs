//! SOP1, SOP2, SOPC, SOPK, SOPP and SMEM.

use super::operand::{Wanted, sgpr, sgprs, source};
use super::{Decoded, Decoder, Raw, encoding};
use crate::instruction::{Action, Condition, Hardware, SaveExec, Scalar, ScalarLoad, Source, Wait};
use crate::operations::scalar;
use crate::operations::vector::Kind;
use crate::registers::NULL;
use crate::text::integer;

/// SOPK: the source is the constant of the encoding.
const WITH_CONSTANT: &[&str] = &["s_movk_i32", "s_cmovk_i32", "s_addk_i32", "s_mulk_i32"];

fn kind(dwords: u8) -> Kind {
    if dwords == 2 { Kind::U64 } else { Kind::U32 }
}

fn plain_source(text: &str, dwords: u8) -> Decoded<Source> {
    wanted_source(text, kind(dwords).into())
}

fn wanted_source(text: &str, wanted: Wanted) -> Decoded<Source> {
    let (at, change) = source(text, wanted)?;
    match at {
        Source::Vgpr(_) => Err(format!("operand {text}, expected a scalar")),
        at if change == crate::instruction::Change::default() => Ok(at),
        _ => Err(format!("operand {text}")),
    }
}

/// The first operand, which is a register that is written.
fn result(raw: &Raw<'_>) -> Decoded<u8> {
    let at = sgpr(raw.operand(0)?)?;
    encoding::register(raw, at, encoding::scalar_fields(raw).0)?;
    Ok(at)
}

/// An operand that is a register and the first source.
fn first_source(raw: &Raw<'_>, operand: usize) -> Decoded<u8> {
    let at = sgpr(raw.operand(operand)?)?;
    encoding::register(raw, at, encoding::scalar_fields(raw).1[0])?;
    Ok(at)
}

fn condition(name: &str) -> Option<Condition> {
    Some(match name {
        "s_branch" => Condition::Always,
        "s_cbranch_scc0" => Condition::Scc(false),
        "s_cbranch_scc1" => Condition::Scc(true),
        "s_cbranch_vccz" => Condition::VccZero(true),
        "s_cbranch_vccnz" => Condition::VccZero(false),
        "s_cbranch_execz" => Condition::ExecZero(true),
        "s_cbranch_execnz" => Condition::ExecZero(false),
        _ => return None,
    })
}

fn save_exec(name: &str) -> Option<SaveExec> {
    let stem =
        name.strip_prefix("s_")?.strip_suffix("_b64").or_else(|| name.strip_prefix("s_")?.strip_suffix("_b32"))?;
    Some(match stem.strip_suffix("_saveexec")? {
        "and" => SaveExec::And,
        "or" => SaveExec::Or,
        "xor" => SaveExec::Xor,
        "nand" => SaveExec::Nand,
        "nor" => SaveExec::Nor,
        "xnor" => SaveExec::Xnor,
        // What is negated: gfx9's "n2" and gfx11's "not1" are EXEC, as are the sources' places swapped in "n1" and "not0".
        "andn2" | "and_not1" => SaveExec::AndNotExec,
        "orn2" | "or_not1" => SaveExec::OrNotExec,
        "andn1" | "and_not0" => SaveExec::AndNotSource,
        "orn1" | "or_not0" => SaveExec::OrNotSource,
        _ => return None,
    })
}

/// `hwreg(HW_REG_MODE, 4, 4)`: register, first bit, bits.
fn hardware(text: &str) -> Decoded<(Hardware, u8, u8)> {
    let refused = || format!("hardware register {text}");
    let inner = text.strip_prefix("hwreg(").and_then(|inner| inner.strip_suffix(')')).ok_or_else(refused)?;
    let mut parts = inner.split(',').map(str::trim);
    let register = match parts.next() {
        Some("HW_REG_MODE") => Hardware::Mode,
        Some("HW_REG_HW_ID" | "HW_REG_HW_ID1" | "HW_REG_HW_ID2" | "HW_REG_XCC_ID") => Hardware::Unit,
        Some("HW_REG_SH_MEM_BASES") => Hardware::Apertures,
        _ => return Err(refused()),
    };
    let mut number = |or: i64| parts.next().map_or(Some(or), integer).and_then(|number| u8::try_from(number).ok());
    let (offset, width) = (number(0).ok_or_else(refused)?, number(32).ok_or_else(refused)?);
    if offset > 31 || width == 0 || width > 32 {
        return Err(refused());
    }
    Ok((register, offset, width))
}

/// Whether a scalar instruction of that name is executed.
#[cfg(test)]
pub(super) fn knows(name: &str) -> bool {
    let others = ["s_endpgm", "s_barrier", "s_waitcnt", "s_waitcnt_vscnt", "s_sendmsg"];
    scalar::find(name).is_some()
        || condition(name).is_some()
        || save_exec(name).is_some()
        || others.contains(&name)
        || name.starts_with("s_load_")
}

impl Decoder<'_> {
    pub(super) fn scalar_action(&self, raw: &Raw<'_>) -> Decoded {
        let name = raw.text.mnemonic;
        if let Some(definition) = scalar::find(name) {
            return scalar_alu(raw, definition);
        }
        if let Some(condition) = condition(name) {
            return Ok(Action::Branch { condition, target: self.branch_target(raw)? });
        }
        if let Some(how) = save_exec(name) {
            let (to, source) = self.exec_operands(raw)?;
            return Ok(Action::SaveExec { how, to, source });
        }
        Ok(match name {
            "s_andn1_wrexec_b64" | "s_and_not0_wrexec_b64" | "s_and_not0_wrexec_b32" => {
                let (to, source) = self.exec_operands(raw)?;
                Action::WriteExec { negate_source: true, to, source }
            }
            "s_andn2_wrexec_b64" | "s_and_not1_wrexec_b64" | "s_and_not1_wrexec_b32" => {
                let (to, source) = self.exec_operands(raw)?;
                Action::WriteExec { negate_source: false, to, source }
            }
            "s_endpgm" | "s_endpgm_saved" => Action::End,
            "s_barrier" => Action::Barrier,
            "s_waitcnt" => Action::Wait(self.wait(raw.simm16())),
            "s_waitcnt_vscnt" | "s_waitcnt_vmcnt" | "s_waitcnt_lgkmcnt" => {
                if raw.operand(0)? != "null" {
                    return Err(format!("`{}` with a register", raw.line.text));
                }
                let count = Some(raw.simm16().min(255) as u8);
                let none = Wait { vector: None, scalar: None, stores: None };
                Action::Wait(match name {
                    "s_waitcnt_vscnt" => Wait { stores: count, ..none },
                    "s_waitcnt_vmcnt" => Wait { vector: count, ..none },
                    _ => Wait { scalar: count, ..none },
                })
            }
            "s_waitcnt_expcnt" => Action::Nothing,
            "s_trap" => Action::Trap(u32::from(raw.simm16())),
            // MSG_DEALLOC_VGPRS and MSG_INTERRUPT change nothing that a kernel sees.
            "s_sendmsg" if matches!(raw.simm16() & 0xff, 1 | 3) => Action::Nothing,
            "s_getpc_b64" => Action::GetPc { to: result(raw)? },
            "s_setpc_b64" => Action::SetPc { from: first_source(raw, 0)? },
            "s_swappc_b64" => Action::SwapPc { to: result(raw)?, from: first_source(raw, 1)? },
            "s_call_b64" => Action::Call { to: result(raw)?, target: self.branch_target(raw)? },
            "s_getreg_b32" => {
                let (register, offset, width) = hardware(raw.operand(1)?)?;
                Action::GetRegister { to: sgpr(raw.operand(0)?)?, register, offset, width }
            }
            "s_setreg_b32" | "s_setreg_imm32_b32" => {
                let (register, offset, width) = hardware(raw.operand(0)?)?;
                if register != Hardware::Mode {
                    return Err(format!("`{}`", raw.line.text));
                }
                Action::SetRegister { offset, width, value: plain_source(raw.operand(1)?, 1)? }
            }
            "s_round_mode" => Action::SetMode { shift: 0, value: raw.simm16() as u8 & 15 },
            "s_denorm_mode" => Action::SetMode { shift: 4, value: raw.simm16() as u8 & 15 },
            "s_memtime" | "s_memrealtime" => Action::Clock { to: sgpr(raw.operand(0)?)?, dwords: 2 },
            "s_code_end" => return Err("s_code_end, which is behind the code".into()),
            _ => return self.scalar_load(raw),
        })
    }

    /// Where the old EXEC goes, and what changes it.
    fn exec_operands(&self, raw: &Raw<'_>) -> Decoded<(u8, Source)> {
        let source = plain_source(raw.operand(1)?, self.mask_dwords())?;
        encoding::source(raw, source, encoding::scalar_fields(raw).1[0])?;
        Ok((result(raw)?, source))
    }

    pub(super) fn mask_dwords(&self) -> u8 {
        if self.lanes == 64 { 2 } else { 1 }
    }

    /// The constant counts dwords from the next instruction.
    fn branch_target(&self, raw: &Raw<'_>) -> Decoded<usize> {
        let offset = i64::from(raw.simm16() as i16) * 4 + 4;
        let address = raw.line.address.wrapping_add_signed(offset);
        self.indices.get(&address).copied().ok_or_else(|| format!("a branch to {address:#x}, where no instruction is"))
    }

    fn scalar_load(&self, raw: &Raw<'_>) -> Decoded {
        let name = raw.text.mnemonic;
        let refused = || format!("`{}`", raw.line.text);
        let buffer = name.starts_with("s_buffer_load_");
        let what = name.strip_prefix("s_load_").or_else(|| name.strip_prefix("s_buffer_load_")).ok_or_else(refused)?;
        let dwords = match what {
            "dword" | "b32" => 1,
            "dwordx2" | "b64" => 2,
            "dwordx3" | "b96" => 3,
            "dwordx4" | "b128" => 4,
            "dwordx8" | "b256" => 8,
            "dwordx16" | "b512" => 16,
            _ => return Err(refused()),
        };
        raw.only(&["offset", "glc", "dlc"])?;
        let (to, count) = sgprs(raw.operand(0)?).ok_or_else(refused)?;
        if count != dwords {
            return Err(refused());
        }
        let text = raw.operand(2)?;
        let offset = if text == "null" { Source::Constant(0) } else { plain_source(text, 1)? };
        let (offset, immediate) = match offset {
            // 21 bits with a sign.
            Source::Constant(value) => (Source::Constant(0), i64::from(value as u32 as i32)),
            Source::Sgpr(NULL) => (Source::Constant(0), 0),
            offset => (offset, 0),
        };
        let immediate = immediate + raw.number("offset")?;
        let base = sgpr(raw.operand(1)?)?;
        encoding::memory(raw, self.target)?;
        encoding::scalar_load(raw, to, base)?;
        Ok(Action::ScalarLoad(Box::new(ScalarLoad { to, dwords, base, buffer, offset, immediate })))
    }
}

fn scalar_alu(raw: &Raw<'_>, definition: scalar::Definition) -> Decoded {
    let name = raw.text.mnemonic;
    raw.only(&[])?;
    let with_constant = WITH_CONSTANT.contains(&name);
    let compares_constant = name.starts_with("s_cmpk_");
    let mut at = 0;
    let mut to = NULL;
    let (first, fields) = encoding::scalar_fields(raw);
    if definition.result > 0 {
        to = result(raw)?;
        at = 1;
    }
    let mut sources = [Source::Constant(0); 2];
    for (index, (into, dwords)) in sources.iter_mut().zip(definition.sources).enumerate() {
        *into = if with_constant || compares_constant && index == 1 {
            let constant = raw.simm16();
            let zero_extended = compares_constant && name.ends_with("u32");
            Source::Constant(if zero_extended {
                u64::from(constant)
            } else {
                i64::from(constant as i16) as u64 & 0xffff_ffff
            })
        } else {
            // "s_ashr_i64", "s_cls_i32_i64": the source has a sign.
            let wanted = Wanted { signed: name.contains("_i64"), ..kind(*dwords).into() };
            let source = wanted_source(raw.operand(at + index)?, wanted)?;
            encoding::source(raw, source, if compares_constant { first } else { fields[index] })?;
            source
        };
    }
    Ok(Action::Scalar(Box::new(Scalar { definition, to, sources })))
}
