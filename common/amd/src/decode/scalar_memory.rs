//! SMEM: scalar loads, and the scalar stores and atomics that gfx9 has.

use super::operand::{plain_source, sgpr};
use super::{Decoded, Decoder, Raw};
use crate::instruction::{Action, ScalarAtomic, ScalarLoad, ScalarPlace, ScalarStore, Source};
use crate::isa::At;
use crate::operations::memory::{Atomic, Kind, find};

/// What an instruction of scalar memory does, by its name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Access {
    /// So many dwords, or a part of one: its bytes, and whether it is extended with its sign.
    Load(u8, Option<(u8, bool)>),
    /// So many dwords.
    Store(u8),
    Atomic(Atomic, u8),
}

impl Access {
    pub fn named(name: &str) -> Option<Self> {
        let plain = name.strip_prefix("s_buffer_").or_else(|| name.strip_prefix("s_"))?;
        if plain.starts_with("atomic_") {
            return match find(&format!("global_{plain}"))? {
                (_, Kind::Atomic { kind, bytes, .. }) => Some(Self::Atomic(kind, bytes)),
                _ => None,
            };
        }
        if let Some(what) = plain.strip_prefix("store_") {
            return dwords(what).map(Self::Store);
        }
        let what = plain.strip_prefix("load_")?;
        let part = match what {
            "u8" => Some((1, false)),
            "i8" => Some((1, true)),
            "u16" => Some((2, false)),
            "i16" => Some((2, true)),
            _ => None,
        };
        Some(Self::Load(if part.is_some() { 1 } else { dwords(what)? }, part))
    }

    /// Registers that its data has.
    fn registers(self) -> u8 {
        match self {
            Self::Load(dwords, _) | Self::Store(dwords) => dwords,
            Self::Atomic(kind, bytes) if kind.has_two_operands() => bytes / 2,
            Self::Atomic(_, bytes) => bytes / 4,
        }
    }
}

fn dwords(what: &str) -> Option<u8> {
    Some(match what {
        "dword" | "b32" => 1,
        "dwordx2" | "b64" => 2,
        "dwordx3" | "b96" => 3,
        "dwordx4" | "b128" => 4,
        "dwordx8" | "b256" => 8,
        "dwordx16" | "b512" => 16,
        _ => return None,
    })
}

impl Decoder<'_> {
    pub(super) fn scalar_memory(&self, raw: &Raw<'_>) -> Decoded {
        let name = raw.encoded.name;
        let refused = || raw.text();
        let access = Access::named(name).ok_or_else(refused)?;
        let At::Sgpr(data, count) = raw.operand(0)?.at else { return Err(refused()) };
        if count != access.registers() {
            return Err(refused());
        }
        let base = sgpr(raw.operand(1)?)?;
        let (mut offset, mut immediate) = (Source::Constant(0), 0);
        for operand in raw.encoded.operands.iter().skip(2) {
            match operand.at {
                At::Immediate(value) => immediate += value,
                _ => offset = plain_source(operand, 1)?,
            }
        }
        let place = ScalarPlace { base, buffer: name.starts_with("s_buffer_"), offset, immediate };
        Ok(match access {
            Access::Load(dwords, part) => Action::ScalarLoad(Box::new(ScalarLoad { to: data, dwords, part, place })),
            Access::Store(dwords) => Action::ScalarStore(Box::new(ScalarStore { data, dwords, place })),
            Access::Atomic(kind, bytes) => {
                let returns = raw.encoded.modifiers.glc;
                Action::ScalarAtomic(Box::new(ScalarAtomic { kind, bytes, data, returns, place }))
            }
        })
    }
}
