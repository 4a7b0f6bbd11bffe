//! SOP1, SOP2, SOPC, SOPK and SOPP.

use super::operand::{Wanted, kind, plain_source, sgpr, wanted_source};
#[cfg(test)]
use super::scalar_memory::Access;
use super::{Decoded, Decoder, Raw};
use crate::instruction::{Action, Condition, Hardware, Index, SaveExec, Scalar, Source, Wait};
use crate::isa::At;
use crate::operations::{scalar, scalar_named};
use crate::registers::NULL;
use crate::target::Generation;

/// SOPK: the source is the constant of the encoding.
const WITH_CONSTANT: &[&str] = &["s_movk_i32", "s_cmovk_i32", "s_addk_i32", "s_addk_co_i32", "s_mulk_i32"];

/// Moves whose registers are numbered from M0 on: what they move, and which registers are so, as [`Action::Relative`] has it.
fn relative(name: &str) -> Option<(&'static str, u8)> {
    Some(match name {
        "s_movrels_b32" => ("s_mov_b32", 1),
        "s_movrels_b64" => ("s_mov_b64", 1),
        "s_movreld_b32" => ("s_mov_b32", 8),
        "s_movreld_b64" => ("s_mov_b64", 8),
        "s_movrelsd_2_b32" => ("s_mov_b32", 0x19),
        _ => return None,
    })
}

/// MSG_RTN_GET_REALTIME.
const REALTIME: u8 = 131;

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

/// "Hardware Registers" in the constant of SOPK: register, first bit, bits.
fn hardware(simm16: u16, generation: Generation) -> Decoded<(Hardware, u8, u8)> {
    use Generation::{Rdna2, Rdna3, Rdna4};
    let register = match simm16 & 63 {
        29 if matches!(generation, Rdna2 | Rdna3) => Hardware::Cycles,
        29 if generation == Rdna4 => Hardware::CyclesLow,
        30 if generation == Rdna4 => Hardware::CyclesHigh,
        20 | 21 if matches!(generation, Rdna2 | Rdna3) => return Err("FLAT_SCRATCH as a hardware register".into()),
        1 => Hardware::Mode,
        // HW_ID, HW_ID1, HW_ID2, XCC_ID.
        4 | 20 | 23 | 24 => Hardware::Unit,
        15 => Hardware::Apertures,
        other => return Err(format!("hardware register {other}")),
    };
    Ok((register, (simm16 >> 6 & 31) as u8, (simm16 >> 11) as u8 + 1))
}

/// Whether a scalar instruction of that name is executed.
#[cfg(test)]
pub(super) fn knows(name: &str) -> bool {
    let others = [
        "s_endpgm",
        "s_endpgm_saved",
        "s_barrier",
        "s_barrier_signal",
        "s_barrier_signal_isfirst",
        "s_barrier_wait",
        "s_get_barrier_state",
        "s_waitcnt",
        "s_waitcnt_vscnt",
        "s_waitcnt_vmcnt",
        "s_waitcnt_lgkmcnt",
        "s_waitcnt_expcnt",
        "s_sendmsg",
        "s_sendmsg_rtn_b32",
        "s_sendmsg_rtn_b64",
        "s_trap",
        "s_getpc_b64",
        "s_setpc_b64",
        "s_swappc_b64",
        "s_call_b64",
        "s_getreg_b32",
        "s_setreg_b32",
        "s_setreg_imm32_b32",
        "s_round_mode",
        "s_denorm_mode",
        "s_memtime",
        "s_memrealtime",
    ];
    scalar_named(renamed(name).as_deref().unwrap_or(name)).is_some()
        || condition(name).is_some()
        || relative(name).is_some()
        || save_exec(name).is_some()
        || split_wait(name, 0).is_some()
        || name.contains("_wrexec_b")
        || name.starts_with("s_set_gpr_idx_")
        || others.contains(&name)
        || name.starts_with("s_cbranch_cdbg")
        || Access::named(name).is_some()
}

/// What gfx12 calls otherwise.
fn renamed(name: &str) -> Option<String> {
    let rest = name.strip_prefix("s_")?;
    Some(match rest {
        "add_co_ci_u32" => "s_addc_u32".into(),
        "sub_co_ci_u32" => "s_subb_u32".into(),
        "addk_co_i32" => "s_addk_i32".into(),
        _ if rest.contains("_co_") => format!("s_{}", rest.replace("_co_", "_")),
        _ => return None,
    })
}

/// The waits of gfx12, one a counter, or two: the first in bits 8 to 13.
fn split_wait(name: &str, simm16: u16) -> Option<Wait> {
    let (first, second) = (Some((simm16 >> 8 & 63) as u8), Some((simm16 & 63) as u8));
    let none = Wait::default();
    Some(match name {
        "s_wait_loadcnt" => Wait { loads: second, ..none },
        "s_wait_storecnt" => Wait { stores: second, ..none },
        "s_wait_samplecnt" => Wait { samples: second, ..none },
        "s_wait_dscnt" => Wait { lds: second, ..none },
        "s_wait_kmcnt" => Wait { constants: Some((simm16 & 31) as u8), ..none },
        "s_wait_loadcnt_dscnt" => Wait { loads: first, lds: second, ..none },
        "s_wait_storecnt_dscnt" => Wait { stores: first, lds: second, ..none },
        _ => return None,
    })
}

impl Decoder<'_> {
    pub(super) fn scalar_action(&self, raw: &Raw<'_>) -> Decoded {
        let name = raw.encoded.name;
        let simm16 = raw.encoded.simm16;
        let renamed = renamed(name);
        if let Some(definition) = scalar_named(renamed.as_deref().unwrap_or(name)) {
            return Ok(Action::Scalar(Box::new(scalar_operation(raw, definition)?)));
        }
        if let Some((name, which)) = relative(name) {
            let definition = scalar_named(name).ok_or_else(|| raw.text())?;
            return Ok(Action::RelativeScalar(Box::new(scalar_operation(raw, definition)?), which));
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
            "s_waitcnt" => Action::Wait(self.wait(simm16)),
            "s_waitcnt_vscnt" | "s_waitcnt_vmcnt" | "s_waitcnt_lgkmcnt" => {
                if sgpr(raw.operand(0)?)? != NULL {
                    return Err(format!("`{}` with a register", raw.text()));
                }
                let count = Some(simm16.min(255) as u8);
                let none = Wait::default();
                Action::Wait(match name {
                    "s_waitcnt_vscnt" => Wait { stores: count, ..none },
                    "s_waitcnt_vmcnt" => Wait { vector: count, ..none },
                    _ => Wait { scalar: count, ..none },
                })
            }
            name if name.starts_with("s_wait_") => Action::Wait(split_wait(name, simm16).ok_or_else(|| raw.text())?),
            // A wave arrives where it signals, and may go on to where it waits; here it does both in one place.
            "s_barrier_wait" if simm16 == u16::MAX => Action::Barrier,
            "s_barrier_signal" if raw.operand(0)?.at == At::Integer(-1) => Action::Signal { asks: false },
            "s_barrier_signal_isfirst" if raw.operand(0)?.at == At::Integer(-1) => Action::Signal { asks: true },
            "s_get_barrier_state" if raw.operand(1)?.at == At::Integer(-1) => {
                Action::BarrierState { to: sgpr(raw.operand(0)?)? }
            }
            "s_barrier_signal" | "s_barrier_signal_isfirst" | "s_get_barrier_state" | "s_barrier_wait" => {
                return Err(format!("`{}`: named barriers, which the document of RDNA 4 does not have", raw.text()));
            }
            "s_waitcnt_expcnt" => Action::Nothing,
            "s_trap" => Action::Trap(u32::from(simm16)),
            // MSG_DEALLOC_VGPRS and MSG_INTERRUPT change nothing that a kernel sees.
            "s_sendmsg" if matches!(simm16 & 0xff, 1 | 3) => Action::Nothing,
            "s_getpc_b64" => Action::GetPc { to: sgpr(raw.operand(0)?)? },
            "s_setpc_b64" => Action::SetPc { from: sgpr(raw.operand(0)?)? },
            "s_swappc_b64" => Action::SwapPc { to: sgpr(raw.operand(0)?)?, from: sgpr(raw.operand(1)?)? },
            "s_call_b64" => Action::Call { to: sgpr(raw.operand(0)?)?, target: self.branch_target(raw)? },
            "s_getreg_b32" => {
                let (register, offset, width) = hardware(simm16, self.target.generation)?;
                Action::GetRegister { to: sgpr(raw.operand(0)?)?, register, offset, width }
            }
            // Where scratch is, which is known: FLAT_SCR_LO and FLAT_SCR_HI.
            "s_setreg_b32" if self.target.generation == Generation::Rdna2 && matches!(simm16 & 63, 20 | 21) => {
                Action::Nothing
            }
            "s_setreg_b32" | "s_setreg_imm32_b32" => {
                let (register, offset, width) = hardware(simm16, self.target.generation)?;
                if register != Hardware::Mode {
                    return Err(raw.text());
                }
                Action::SetRegister { offset, width, value: plain_source(raw.operand(1)?, 1)? }
            }
            "s_round_mode" => Action::SetMode { shift: 0, value: simm16 as u8 & 15 },
            "s_denorm_mode" => Action::SetMode { shift: 4, value: simm16 as u8 & 15 },
            "s_set_gpr_idx_on" => {
                let At::Immediate(enabled) = raw.operand(1)?.at else { return Err(raw.text()) };
                Action::Index(Index::On(plain_source(raw.operand(0)?, 1)?, enabled as u8))
            }
            "s_set_gpr_idx_off" => Action::Index(Index::Off),
            "s_set_gpr_idx_idx" => Action::Index(Index::Number(plain_source(raw.operand(0)?, 1)?)),
            "s_set_gpr_idx_mode" => Action::Index(Index::Enabled(simm16 as u8)),
            "s_sendmsg_rtn_b32" | "s_sendmsg_rtn_b64" => {
                let dwords = if name == "s_sendmsg_rtn_b64" { 2 } else { 1 };
                let to = sgpr(raw.operand(0)?)?;
                match raw.operand(1)?.at {
                    At::Message(REALTIME) => Action::Clock { to, dwords },
                    // Of the queue, and of the trap handler.
                    At::Message(128..=130 | 133) => Action::Message { to, dwords },
                    _ => return Err(raw.text()),
                }
            }
            "s_memtime" | "s_memrealtime" => Action::Clock { to: sgpr(raw.operand(0)?)?, dwords: 2 },
            "s_code_end" => return Err("s_code_end, which is behind the code".into()),
            // The bits of a debugger, which are 0.
            name if name.starts_with("s_cbranch_cdbg") => {
                self.branch_target(raw)?;
                Action::Nothing
            }
            _ => return self.scalar_memory(raw),
        })
    }

    /// Where the old EXEC goes, and what changes it.
    fn exec_operands(&self, raw: &Raw<'_>) -> Decoded<(u8, Source)> {
        Ok((sgpr(raw.operand(0)?)?, plain_source(raw.operand(1)?, self.mask_dwords())?))
    }

    pub(super) fn mask_dwords(&self) -> u8 {
        if self.lanes == 64 { 2 } else { 1 }
    }

    /// The constant counts dwords from the next instruction.
    fn branch_target(&self, raw: &Raw<'_>) -> Decoded<usize> {
        let offset = i64::from(raw.encoded.simm16 as i16) * 4 + 4;
        let address = raw.address.wrapping_add_signed(offset);
        self.indices.get(&address).copied().ok_or_else(|| format!("a branch to {address:#x}, where no instruction is"))
    }
}

fn scalar_operation(raw: &Raw<'_>, definition: scalar::Definition) -> Decoded<Scalar> {
    let name = raw.encoded.name;
    let with_constant = WITH_CONSTANT.contains(&name);
    let compares_constant = name.starts_with("s_cmpk_");
    let mut at = 0;
    let mut to = NULL;
    if definition.result > 0 {
        to = sgpr(raw.operand(0)?)?;
        at = 1;
    }
    let mut sources = [Source::Constant(0); 2];
    // The constant of "s_fmaak_f32" is behind the sources, that of "s_fmamk_f32" amid them.
    let third = match name {
        "s_fmaak_f32" => Some(plain_source(raw.operand(3)?, 1)?),
        "s_fmamk_f32" => {
            sources = [plain_source(raw.operand(1)?, 1)?, plain_source(raw.operand(2)?, 1)?];
            let third = Some(plain_source(raw.operand(3)?, 1)?);
            return Ok(Scalar { definition, to, sources, third });
        }
        _ => None,
    };
    for (index, (into, dwords)) in sources.iter_mut().zip(definition.sources).enumerate() {
        *into = if with_constant || compares_constant && index == 1 {
            let constant = raw.encoded.simm16;
            let zero_extended = compares_constant && name.ends_with("u32");
            Source::Constant(if zero_extended {
                u64::from(constant)
            } else {
                i64::from(constant as i16) as u64 & 0xffff_ffff
            })
        } else {
            // "s_ashr_i64", "s_cls_i32_i64": the source has a sign.
            let wanted = Wanted { signed: name.contains("_i64"), ..kind(*dwords).into() };
            wanted_source(raw.operand(at + index)?, wanted)?
        };
    }
    Ok(Scalar { definition, to, sources, third })
}
