//! From instructions as their words say to instructions as they are executed.

mod halves;
mod image;
mod memory;
mod operand;
pub(crate) mod poll;
mod scalar;
mod scalar_memory;
mod vector;

use std::collections::HashMap;

use crate::instruction::{Action, Counter, Instruction, Touches, Wait};
use crate::isa::{At, Encoded, Line, Operand};
use crate::operations;
use crate::operations::memory::{Form, Kind as MemoryKind, Space};
use crate::target::{Generation, Target};

/// Why an instruction is not executed; it is said when it is reached.
pub(crate) type Refusal = String;
pub(crate) type Decoded<T = Action> = Result<T, Refusal>;

pub(crate) struct Decoder<'a> {
    pub target: &'static Target,
    /// Lanes of a wave.
    pub lanes: u32,
    /// Index of the instruction at an address.
    pub indices: &'a HashMap<u64, usize>,
}

/// One instruction.
pub(crate) struct Raw<'a> {
    pub address: u64,
    pub encoded: &'a Encoded,
}

impl Raw<'_> {
    pub fn operand(&self, at: usize) -> Decoded<&Operand> {
        self.encoded.operands.get(at).ok_or_else(|| format!("operand {at} of {}", self.text()))
    }

    pub fn text(&self) -> String {
        format!("`{}`", self.encoded)
    }
}

/// Instructions that change no value: caches, hints, and what the hardware's pipeline needs.
const WITHOUT_EFFECT: &[&str] = &[
    "s_nop",
    "s_sleep",
    "s_sleep_var",
    "s_wakeup",
    "s_setprio",
    "s_clause",
    "s_delay_alu",
    "s_inst_prefetch",
    "s_set_inst_prefetch_distance",
    "s_waitcnt_depctr",
    "s_wait_alu",
    "s_wait_event",
    "s_wait_expcnt",
    "s_wait_bvhcnt",
    "s_prefetch_inst",
    "s_prefetch_inst_pc_rel",
    "s_prefetch_data",
    "s_prefetch_data_pc_rel",
    "s_buffer_prefetch_data",
    "s_singleuse_vdst",
    "s_wait_idle",
    "s_icache_inv",
    // Lines that are volatile, of which there are none.
    "s_dcache_wb_vol",
    "s_dcache_inv_vol",
    "s_atc_probe",
    "s_atc_probe_buffer",
    "s_gl1_inv",
    "s_sethalt",
    "s_ttracedata",
    "s_ttracedata_imm",
    "s_incperflevel",
    "s_decperflevel",
    "s_version",
    "v_nop",
    "v_pipeflush",
    "v_clrexcp",
    "buffer_invl2",
    "ds_nop",
];

/// Instructions on caches, which decide what of other blocks a wave may rely on.
const CACHES: &[&str] = &[
    "s_dcache_inv",
    "s_dcache_wb",
    "buffer_gl0_inv",
    "buffer_gl1_inv",
    "buffer_wbinvl1",
    "buffer_wbinvl1_vol",
    "buffer_inv",
    "buffer_wbl2",
    "global_inv",
    "global_wb",
    "global_wbinv",
];

/// Whether an instruction of that name is executed, whatever its operands.
#[cfg(test)]
pub(crate) fn knows(mnemonic: &str, target: &Target) -> bool {
    is_without_effect(mnemonic)
        || operations::memory::find(mnemonic).is_some()
        || scalar::knows(mnemonic)
        || vector::knows(mnemonic, target)
        || image::knows(mnemonic, target)
        || ["ds_permute_b32", "ds_bpermute_b32", "ds_bpermute_fi_b32", "ds_swizzle_b32"].contains(&mnemonic)
}

#[cfg(test)]
pub(crate) fn is_without_effect(mnemonic: &str) -> bool {
    WITHOUT_EFFECT.contains(&mnemonic) || CACHES.contains(&mnemonic)
}

impl Decoder<'_> {
    pub fn decode(&self, line: &Line) -> Instruction {
        let action = line.encoded.as_ref().map_err(Clone::clone).and_then(|encoded| self.action(line.address, encoded));
        let action = action.unwrap_or_else(|what| Action::Unimplemented(what.into_boxed_str()));
        let next_address = line.address + 4 * line.words.len() as u64;
        let mut touches = line.encoded.as_ref().map(touches).unwrap_or_default();
        if let Action::Memory(memory) = &action {
            let counter = match memory.space {
                Space::Lds => Some(Counter::Scalar),
                Space::Flat => None,
                Space::Image if matches!(memory.kind, MemoryKind::Sample(_)) => Some(Counter::Sampler),
                Space::Global | Space::Scratch | Space::Buffer | Space::Image => Some(Counter::Vector),
            };
            let loads = matches!(
                memory.kind,
                MemoryKind::Load { .. }
                    | MemoryKind::LoadTwo { .. }
                    | MemoryKind::LoadTyped(_)
                    | MemoryKind::Sample(_)
                    | MemoryKind::ImageSize(_)
            );
            let half = match memory.kind {
                MemoryKind::Store { bytes: 1 | 2, form: Form::High { .. } } => Some(true),
                MemoryKind::Store { bytes: 1 | 2, .. } => Some(false),
                MemoryKind::StoreTyped(typed) => typed.half(),
                _ => None,
            };
            // What is stored is a half; an address never is.
            if half.is_some()
                && let Some(data) = touches.vgprs.iter_mut().find(|(at, count, _)| (*at, *count) == (memory.data, 1))
                && !memory.address.vgprs().contains(&memory.data)
            {
                data.2 = half;
            }
            if let (Some(counter), true, false) = (counter, loads, touches.vgprs.is_empty()) {
                touches.loaded = Some((touches.vgprs.remove(0), counter));
            }
        }
        let words = words(&touches);
        Instruction { action, touches, words, next_address }
    }

    fn action(&self, address: u64, encoded: &Encoded) -> Decoded {
        let raw = Raw { address, encoded };
        if let Some(second) = &encoded.other {
            return Ok(Action::Dual(Box::new([self.dual(&raw)?, self.dual(&Raw { address, encoded: second })?])));
        }
        let name = encoded.name;
        if WITHOUT_EFFECT.contains(&name) {
            return Ok(Action::Nothing);
        }
        if CACHES.contains(&name) {
            // Of gfx942, those without sc1 are for the waves of a block.
            let (near, far) = match (self.target.generation, name) {
                (Generation::Cdna3 | Generation::Cdna4, _) => (encoded.modifiers.sc1, encoded.modifiers.sc1),
                (Generation::Rdna4, _) => {
                    (encoded.modifiers.scope > 0, encoded.modifiers.scope >= memory::SCOPE_DEVICE)
                }
                (_, "buffer_gl0_inv") => (true, false),
                (_, "buffer_gl1_inv") => (false, true),
                _ => (true, true),
            };
            return Ok(match name {
                "s_dcache_inv" => Action::InvalidateScalars,
                "s_dcache_wb" => Action::WriteBackScalars,
                "buffer_wbl2" | "global_wb" if far => Action::WriteBack,
                "buffer_wbl2" | "global_wb" => Action::Nothing,
                _ if near || far => Action::Invalidate { near, far },
                _ => Action::Nothing,
            });
        }
        if name.starts_with("image_") {
            return image::image(&raw);
        }
        if name.starts_with("s_") {
            return self.scalar_action(&raw);
        }
        if name.starts_with("v_") {
            return self.vector_action(&raw);
        }
        if operations::memory::find(name).is_some() {
            return self.memory(&raw);
        }
        if name.starts_with("ds_") {
            return self.exchange(&raw);
        }
        Err(raw.text())
    }

    /// "S_WAITCNT": up to gfx10 vmcnt is bits 0-3 and 14-15, lgkmcnt 8-11, of gfx10 to 13; on gfx11 vmcnt is bits 10-15, lgkmcnt 4-9.
    fn wait(&self, simm16: u16) -> Wait {
        let limit = |value: u16, most: u16| (value < most).then_some(value as u8);
        let upper = limit(simm16 & 15 | simm16 >> 14 << 4, 63);
        let (vector, scalar) = match self.target.generation {
            Generation::Rdna3 | Generation::Rdna4 => (limit(simm16 >> 10, 63), limit(simm16 >> 4 & 63, 63)),
            Generation::Rdna2 => (upper, limit(simm16 >> 8 & 63, 63)),
            _ => (upper, limit(simm16 >> 8 & 15, 15)),
        };
        Wait { vector, scalar, ..Wait::default() }
    }
}

/// All registers that an instruction names.
fn touches(encoded: &Encoded) -> Touches {
    let mut touches = Touches::default();
    let other = encoded.other.iter().flat_map(|other| &other.operands);
    for operand in encoded.operands.iter().chain(other) {
        match operand.at {
            At::Vgpr(at, count) => touches.vgprs.push((at, u16::from(count), operand.half)),
            At::Sgpr(at, count) => {
                (at..at.saturating_add(count).min(128)).for_each(|at| touches.sgprs |= 1 << at);
            }
            _ => {}
        }
    }
    touches
}

/// All vector registers that are touched, by words of 64.
fn words(touches: &Touches) -> Vec<(usize, u64)> {
    let mut words: Vec<(usize, u64)> = Vec::new();
    for (first, count, _) in touches.vgprs.iter().copied().chain(touches.loaded.map(|(span, _)| span)) {
        for at in first..first + count {
            let (word, bit) = (usize::from(at / 64), 1 << (at % 64));
            match words.iter_mut().find(|(of, _)| *of == word) {
                Some((_, bits)) => *bits |= bit,
                None => words.push((word, bit)),
            }
        }
    }
    words
}
