//! Vector memory, LDS, and exchanges between lanes.

use super::operand::{sgpr, source, vgpr};
use super::{Decoded, Decoder, Raw, encoding};
use crate::instruction::{Action, Address, Exchange, Memory, Source};
use crate::operations::memory::{Atomic, Kind, Space, find};
use crate::operations::vector;
use crate::target::Generation;
use crate::text::integer;

/// They choose caches, and do not change values.
const CACHES: &[&str] = &["glc", "slc", "dlc", "nt", "sc0", "sc1", "nv", "scc"];

impl Decoder<'_> {
    pub(super) fn memory(&self, raw: &Raw<'_>) -> Decoded {
        let (space, mut kind) = find(raw.text.mnemonic).ok_or_else(|| format!("`{}`", raw.line.text))?;
        let allowed: Vec<&str> = match space {
            Space::Lds => vec!["offset", "offset0", "offset1"],
            Space::Buffer => [CACHES, &["offset", "offen", "idxen"]].concat(),
            _ => [CACHES, &["offset"]].concat(),
        };
        raw.only(&allowed)?;
        encoding::memory(raw, self.target)?;
        let returns = ["glc", "sc0"].iter().any(|name| raw.text.modifier(name).is_some());
        let mut operands = raw.text.operands.iter().copied();
        let missing = || format!("`{}` with other operands", raw.line.text);
        let mut next = || operands.next().ok_or_else(missing);
        let mut memory = Memory {
            space,
            kind,
            address: Address::Lds(0),
            offset: raw.number("offset")?,
            second: 0,
            to: 0,
            data: 0,
            data2: 0,
            compare: 0,
            sync: space != Space::Lds && self.is_atomic(raw),
        };
        if let (Kind::Atomic { returns: flag, .. }, true) = (&mut kind, space != Space::Lds) {
            *flag = returns;
        }
        memory.kind = kind;
        let loads = matches!(kind, Kind::Load { .. } | Kind::LoadTwo { .. });
        match space {
            Space::Lds => {
                if loads || matches!(kind, Kind::Atomic { returns: true, .. }) {
                    memory.to = vgpr(next()?)?;
                }
                memory.address = Address::Lds(vgpr(next()?)?);
                if !loads {
                    memory.data = vgpr(next()?)?;
                }
                match kind {
                    Kind::StoreTwo { .. } => memory.data2 = vgpr(next()?)?,
                    Kind::Atomic { kind: Atomic::CompareSwap, .. } => {
                        // gfx9 names the comparand first.
                        memory.compare = vgpr(next()?)?;
                        if raw.text.mnemonic.contains("cmpst_") {
                            std::mem::swap(&mut memory.compare, &mut memory.data);
                        }
                    }
                    _ => {}
                }
                if let Kind::LoadTwo { stride, .. } | Kind::StoreTwo { stride, .. } = kind {
                    memory.offset = raw.number("offset0")? * i64::from(stride);
                    memory.second = raw.number("offset1")? * i64::from(stride);
                }
            }
            Space::Buffer => {
                let data = vgpr(next()?)?;
                (memory.to, memory.data) = (data, data);
                let address = next()?;
                let descriptor = sgpr(next()?)?;
                let (scalar, _) = source(next()?, vector::Kind::U32)?;
                let [index, offset] = ["idxen", "offen"].map(|name| raw.text.modifier(name).is_some());
                let first = if index || offset { vgpr(address)? } else { 0 };
                memory.address = Address::Descriptor {
                    descriptor,
                    index: index.then_some(first),
                    offset: offset.then_some(if index { first + 1 } else { first }),
                    scalar,
                };
            }
            Space::Flat | Space::Global | Space::Scratch => {
                if loads || matches!(kind, Kind::Atomic { returns: true, .. }) {
                    memory.to = vgpr(next()?)?;
                }
                let address = next()?;
                if !loads {
                    memory.data = vgpr(next()?)?;
                }
                let base = if space == Space::Flat { "off" } else { next()? };
                memory.address = match (space, base) {
                    (Space::Scratch, base) => {
                        let register = if address == "off" { None } else { Some(vgpr(address)?) };
                        let scalar = match base {
                            "off" => None,
                            base => Some(source(base, vector::Kind::U32)?.0),
                        };
                        Address::Offset(register, scalar)
                    }
                    (_, "off") => Address::Pair(vgpr(address)?),
                    (_, base) => Address::Base(sgpr(base)?, if address == "off" { None } else { Some(vgpr(address)?) }),
                };
            }
        }
        if let (Kind::Atomic { kind: Atomic::CompareSwap, bytes, .. }, true) = (kind, space != Space::Lds) {
            memory.compare = memory.data + u16::from(bytes / 4);
        }
        Ok(Action::Memory(Box::new(memory)))
    }

    /// Loads and stores that reach past the caches of their unit are atomic ones, or volatile ("Memory Model", the tables of code
    /// sequences); with the modifiers of streams they are plain.
    fn is_atomic(&self, raw: &Raw<'_>) -> bool {
        let has = |name: &str| raw.text.modifier(name).is_some();
        match self.target.generation {
            Generation::Cdna3 => (has("sc0") || has("sc1")) && !has("nt"),
            Generation::Cdna2 | Generation::Rdna3 => has("glc") && !has("slc"),
        }
    }

    pub(super) fn exchange(&self, raw: &Raw<'_>) -> Decoded {
        let offset = || raw.number("offset").map(|offset| offset as u32);
        let three = || Ok::<_, String>((vgpr(raw.operand(0)?)?, vgpr(raw.operand(1)?)?, vgpr(raw.operand(2)?)?));
        raw.only(&["offset"])?;
        encoding::memory(raw, self.target)?;
        Ok(Action::Exchange(match raw.text.mnemonic {
            "ds_permute_b32" => {
                let (to, address, data) = three()?;
                Exchange::Permute { to, address, data, offset: offset()? }
            }
            "ds_bpermute_b32" => {
                let (to, address, data) = three()?;
                Exchange::BackwardPermute { to, address, data, offset: offset()? }
            }
            // The last patterns are those of a Fourier transform.
            "ds_swizzle_b32" if raw.simm16() < 0xe000 => Exchange::Swizzle {
                to: vgpr(raw.operand(0)?)?,
                data: vgpr(raw.operand(1)?)?,
                // The text names patterns; the encoding's offset is the first half word.
                how: raw.simm16(),
            },
            _ => return Err(format!("`{}`", raw.line.text)),
        }))
    }
}

/// A source that is a register or constant of 32 bits.
pub(super) fn dword(text: &str) -> Decoded<Source> {
    match text {
        text if integer(text).is_none() && text.contains('.') => Err(format!("operand {text}")),
        text => Ok(source(text, vector::Kind::U32)?.0),
    }
}
