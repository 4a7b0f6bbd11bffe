//! From the disassembler's text to instructions as they are executed.

mod encoding;
mod halves;
mod memory;
mod operand;
pub(crate) mod poll;
mod scalar;
mod vector;

use std::collections::HashMap;

use crate::disassembly::Line;
use crate::instruction::{Action, Counter, Instruction, Touches, Wait};
use crate::operations;
use crate::operations::memory::{Kind as MemoryKind, Space};
use crate::target::{Generation, Target};
use crate::text::Text;

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

/// One instruction, with its raw words.
pub(crate) struct Raw<'a> {
    pub line: &'a Line,
    pub text: Text<'a>,
}

impl Raw<'_> {
    /// The lower half of the first word: the constant of SOPP and SOPK.
    pub fn simm16(&self) -> u16 {
        self.line.words.first().map_or(0, |word| *word as u16)
    }

    pub fn operand(&self, at: usize) -> Decoded<&str> {
        self.text.operands.get(at).copied().ok_or_else(|| format!("operand {at} of `{}`", self.line.text))
    }

    pub fn number(&self, modifier: &str) -> Decoded<i64> {
        self.text.number(modifier).ok_or_else(|| format!("{modifier} of `{}`", self.line.text))
    }

    /// # Errors
    /// A modifier that is not among `known`.
    pub fn only(&self, known: &[&str]) -> Decoded<()> {
        match self.text.modifiers.iter().find(|(name, _)| !known.contains(name)) {
            Some((name, _)) => Err(format!("modifier {name} of {}", self.text.mnemonic)),
            None => Ok(()),
        }
    }
}

/// Instructions that change no value: caches, hints, and what the hardware's pipeline needs.
const WITHOUT_EFFECT: &[&str] = &[
    "s_nop",
    "s_sleep",
    "s_setprio",
    "s_clause",
    "s_delay_alu",
    "s_inst_prefetch",
    "s_set_inst_prefetch_distance",
    "s_waitcnt_depctr",
    "s_wait_idle",
    "s_icache_inv",
    "s_dcache_inv",
    "s_dcache_wb",
    "s_gl1_inv",
    "s_sethalt",
    "s_ttracedata",
    "s_ttracedata_imm",
    "s_incperflevel",
    "s_decperflevel",
    "s_version",
    "v_nop",
    "buffer_gl0_inv",
    "buffer_invl2",
    "ds_nop",
];

/// Instructions on caches, which decide what of other blocks a wave may rely on.
const CACHES: &[&str] = &["buffer_gl1_inv", "buffer_wbinvl1", "buffer_wbinvl1_vol", "buffer_inv", "buffer_wbl2"];

/// Whether an instruction of that name is executed, whatever its operands.
#[cfg(test)]
pub(crate) fn knows(mnemonic: &str) -> bool {
    is_without_effect(mnemonic)
        || operations::memory::find(mnemonic).is_some()
        || scalar::knows(mnemonic)
        || vector::knows(mnemonic)
        || ["ds_permute_b32", "ds_bpermute_b32", "ds_swizzle_b32"].contains(&mnemonic)
}

#[cfg(test)]
pub(crate) fn is_without_effect(mnemonic: &str) -> bool {
    WITHOUT_EFFECT.contains(&mnemonic) || CACHES.contains(&mnemonic)
}

impl Decoder<'_> {
    pub fn decode(&self, line: &Line) -> Instruction {
        let action = self.action(line).unwrap_or_else(|what| Action::Unimplemented(what.into_boxed_str()));
        let next_address = line.address + 4 * line.words.len() as u64;
        let mut touches = touches(&line.text);
        if let Action::Memory(memory) = &action {
            let counter = match memory.space {
                Space::Lds => Some(Counter::Scalar),
                Space::Flat => None,
                Space::Global | Space::Scratch | Space::Buffer => Some(Counter::Vector),
            };
            let loads = matches!(memory.kind, MemoryKind::Load { .. } | MemoryKind::LoadTwo { .. });
            if let (Some(counter), true, false) = (counter, loads, touches.vgprs.is_empty()) {
                touches.loaded = Some((touches.vgprs.remove(0), counter));
            }
        }
        Instruction { action, touches, next_address }
    }

    fn action(&self, line: &Line) -> Decoded {
        if let Some((first, second)) = line.text.split_once(" :: ") {
            let half = |text| self.dual(&Raw { line, text: Text::parse(text) });
            return Ok(Action::Dual(Box::new([half(first)?, half(second)?])));
        }
        let raw = Raw { line, text: Text::parse(&line.text) };
        let name = raw.text.mnemonic;
        if WITHOUT_EFFECT.contains(&name) {
            return Ok(Action::Nothing);
        }
        if CACHES.contains(&name) {
            // Of gfx942, those without sc1 are for the waves of a block.
            let device = self.target.generation != Generation::Cdna3 || line.text.contains(" sc1");
            return Ok(match (device, name) {
                (false, _) => Action::Nothing,
                (true, "buffer_wbl2") => Action::WriteBack,
                (true, _) => Action::Invalidate,
            });
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
        Err(format!("`{}`", line.text))
    }

    /// "S_WAITCNT": on gfx9 vmcnt is bits 0-3 and 14-15, lgkmcnt 8-11; on gfx11 vmcnt is bits 10-15, lgkmcnt 4-9.
    fn wait(&self, simm16: u16) -> Wait {
        let limit = |value: u16, most: u16| (value < most).then_some(value as u8);
        if self.target.is_gfx9() {
            let vector = simm16 & 15 | simm16 >> 14 << 4;
            Wait { vector: limit(vector, 63), scalar: limit(simm16 >> 8 & 15, 15), stores: None }
        } else {
            Wait { vector: limit(simm16 >> 10, 63), scalar: limit(simm16 >> 4 & 63, 63), stores: None }
        }
    }
}

/// All registers that a text names.
fn touches(text: &str) -> Touches {
    let mut touches = Touches::default();
    for half in text.split(" :: ") {
        for operand in Text::parse(half).operands {
            if let Some((at, count)) = operand::vgprs(operand) {
                touches.vgprs.push((at, count));
            } else if let Some((at, count)) = operand::sgprs(operand) {
                (at..at.saturating_add(count).min(128)).for_each(|at| touches.sgprs |= 1 << at);
            }
        }
    }
    touches
}
