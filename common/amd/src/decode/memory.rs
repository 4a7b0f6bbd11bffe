//! Vector memory, LDS, and exchanges between lanes.

use super::operand::{sgpr, source, vgpr};
use super::{Decoded, Decoder, Raw};
use crate::instruction::{Action, Address, Exchange, Memory};
use crate::isa::At;
use crate::operations::memory::{Atomic, Form, Kind, Space, Transposed, find, is_by_lane, transposed};
use crate::operations::vector;
use crate::target::Generation;

/// SCOPE_CU, which is that of plain accesses.
const SCOPE_UNIT: u8 = 0;
/// SCOPE_DEV.
pub(super) const SCOPE_DEVICE: u8 = 2;

impl Decoder<'_> {
    pub(super) fn memory(&self, raw: &Raw<'_>) -> Decoded {
        let name = raw.encoded.name;
        let (space, mut kind) = find(name).ok_or_else(|| raw.text())?;
        let modifiers = &raw.encoded.modifiers;
        if let (true, Space::Buffer, Kind::Load { bytes, form }) = (modifiers.lds, space, kind)
            && let Form::Dwords | Form::Unsigned | Form::Signed = form
        {
            kind = Kind::LoadToLds { bytes, form };
        }
        let other = modifiers.lds && !matches!(kind, Kind::LoadToLds { .. });
        for (set, modifier) in [(other, "lds"), (modifiers.gds, "gds"), (modifiers.tfe, "tfe")] {
            if set {
                return Err(format!("modifier {modifier} of {name}"));
            }
        }
        // Where the elements are in waves of 64 lanes, of which 32 have addresses, is not said.
        if let (Some(Transposed::Tiles(_)), 64) = (transposed(name), self.lanes) {
            return Err(format!("{name} in waves of 64 lanes"));
        }
        let returns = modifiers.glc || modifiers.th & 1 == 1;
        let mut operands = raw.encoded.operands.iter();
        let missing = || format!("`{}` with other operands", raw.text());
        let mut next = || operands.next().ok_or_else(missing);
        let mut memory = Memory {
            space,
            kind,
            address: Address::Lds(0),
            offset: modifiers.offset,
            second: 0,
            to: 0,
            data: 0,
            data2: 0,
            compare: 0,
            sync: space != Space::Lds && self.is_atomic(raw),
            waits: false,
            device: matches!(kind, Kind::Store { bytes: ..=8, .. }) && space != Space::Lds && self.is_of_device(raw),
            transposed: transposed(name),
        };
        if let (Kind::LoadTyped(typed) | Kind::StoreTyped(typed), true) = (&mut kind, name.starts_with("tbuffer_")) {
            typed.format = Some(modifiers.format);
        }
        if let (Kind::Atomic { returns: flag, .. }, true) = (&mut kind, space != Space::Lds) {
            *flag = returns;
        }
        memory.kind = kind;
        let loads = matches!(kind, Kind::Load { .. } | Kind::LoadTwo { .. });
        let by_lane = is_by_lane(name);
        match space {
            Space::Lds => {
                if loads || matches!(kind, Kind::Atomic { returns: true, .. } | Kind::ExchangeTwo { .. }) {
                    memory.to = vgpr(next()?)?;
                }
                let counts = matches!(kind, Kind::Atomic { kind, .. } if kind.counts_lanes());
                memory.address = match (counts, by_lane) {
                    (true, _) => Address::M0,
                    (_, true) => Address::ByLane(None),
                    _ => Address::Lds(vgpr(next()?)?),
                };
                if !loads && !counts {
                    memory.data = vgpr(next()?)?;
                }
                match kind {
                    Kind::StoreTwo { .. } | Kind::ExchangeTwo { .. } => memory.data2 = vgpr(next()?)?,
                    Kind::Atomic { kind, .. } if kind.has_two_operands() => {
                        // gfx9 names the comparand first.
                        memory.compare = vgpr(next()?)?;
                        if name.contains("cmpst_") {
                            std::mem::swap(&mut memory.compare, &mut memory.data);
                        }
                    }
                    _ => {}
                }
                if let Kind::LoadTwo { stride, .. } | Kind::StoreTwo { stride, .. } | Kind::ExchangeTwo { stride, .. } =
                    kind
                {
                    memory.offset = modifiers.offset * i64::from(stride);
                    memory.second = i64::from(modifiers.offset1.unwrap_or_default()) * i64::from(stride);
                }
            }
            Space::Buffer => {
                if !matches!(kind, Kind::LoadToLds { .. }) {
                    let data = vgpr(next()?)?;
                    (memory.to, memory.data) = (data, data);
                }
                let address = next()?;
                let descriptor = sgpr(next()?)?;
                let (scalar, _) = source(next()?, vector::Kind::U32)?;
                let (index, offset) = (modifiers.idxen, modifiers.offen);
                let first = if index || offset { vgpr(address)? } else { 0 };
                memory.address = Address::Descriptor {
                    descriptor,
                    index: index.then_some(first),
                    offset: offset.then_some(if index { first + 1 } else { first }),
                    scalar,
                };
            }
            Space::Global if by_lane => {
                let data = vgpr(next()?)?;
                (memory.to, memory.data) = (data, data);
                let base = next()?;
                memory.address = Address::ByLane(if base.at == At::Off { None } else { Some(sgpr(base)?) });
            }
            // They have a decoder of their own.
            Space::Image => return Err(raw.text()),
            Space::Flat | Space::Global | Space::Scratch => {
                if loads || matches!(kind, Kind::Atomic { returns: true, .. }) {
                    memory.to = vgpr(next()?)?;
                }
                let address = next()?;
                if !loads && !matches!(kind, Kind::LoadToLds { .. }) {
                    memory.data = vgpr(next()?)?;
                }
                let base = if space == Space::Flat { None } else { Some(next()?).filter(|base| base.at != At::Off) };
                let register = if address.at == At::Off { None } else { Some(vgpr(address)?) };
                memory.address = match (space, base) {
                    (Space::Scratch, base) => {
                        let scalar =
                            base.map(|base| Ok::<_, String>(source(base, vector::Kind::U32)?.0)).transpose()?;
                        Address::Offset(register, scalar)
                    }
                    (_, None) => Address::Pair(vgpr(address)?),
                    (_, Some(base)) => Address::Base(sgpr(base)?, register),
                };
            }
        }
        if let (Kind::Atomic { kind: Atomic::CompareSwap | Atomic::CompareSwapFloat, bytes, .. }, true) =
            (kind, space != Space::Lds)
        {
            memory.compare = memory.data + u16::from(bytes / 4);
        }
        Ok(Action::Memory(Box::new(memory)))
    }

    /// Loads and stores that reach past the caches of their unit are atomic ones, or volatile ("Memory Model", the tables of code
    /// sequences); with the modifiers of streams they are plain.
    fn is_atomic(&self, raw: &Raw<'_>) -> bool {
        let modifiers = &raw.encoded.modifiers;
        match self.target.generation {
            Generation::Cdna3 | Generation::Cdna4 => (modifiers.glc || modifiers.sc1) && !modifiers.slc,
            Generation::Cdna1 | Generation::Cdna2 | Generation::Rdna2 | Generation::Rdna3 => {
                modifiers.glc && !modifiers.slc
            }
            // "TH": 0 is the plain policy. A plain access has the scope of its unit.
            Generation::Rdna4 => modifiers.scope != SCOPE_UNIT && modifiers.th == 0,
        }
    }

    /// The same of stores for the whole device, and not beyond, as volatile ones are. Elsewhere they are plain.
    fn is_of_device(&self, raw: &Raw<'_>) -> bool {
        let modifiers = &raw.encoded.modifiers;
        match self.target.generation {
            Generation::Cdna3 | Generation::Cdna4 => modifiers.sc1 && !modifiers.glc && !modifiers.slc,
            Generation::Rdna4 => modifiers.scope == SCOPE_DEVICE && modifiers.th == 0,
            _ => false,
        }
    }

    pub(super) fn exchange(&self, raw: &Raw<'_>) -> Decoded {
        let modifiers = &raw.encoded.modifiers;
        let three = || Ok::<_, String>((vgpr(raw.operand(0)?)?, vgpr(raw.operand(1)?)?, vgpr(raw.operand(2)?)?));
        if modifiers.gds {
            return Err(format!("modifier gds of {}", raw.encoded.name));
        }
        let offset = modifiers.offset as u32;
        Ok(Action::Exchange(match raw.encoded.name {
            "ds_permute_b32" => {
                let (to, address, data) = three()?;
                Exchange::Permute { to, address, data, offset }
            }
            name @ ("ds_bpermute_b32" | "ds_bpermute_fi_b32") => {
                let (to, address, data) = three()?;
                Exchange::BackwardPermute { to, address, data, offset, fetch_inactive: name == "ds_bpermute_fi_b32" }
            }
            // The last patterns are those of a Fourier transform.
            "ds_swizzle_b32" if raw.encoded.simm16 < 0xe000 => {
                Exchange::Swizzle { to: vgpr(raw.operand(0)?)?, data: vgpr(raw.operand(1)?)?, how: raw.encoded.simm16 }
            }
            _ => return Err(raw.text()),
        }))
    }
}
