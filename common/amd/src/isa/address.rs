//! Operands that say where memory is.

use super::decode::Decoder;
use super::operand::{Refused, signed};
use super::table::Field;
use super::{At, Family, Operand};
use crate::registers::NULL;

impl Decoder<'_> {
    /// # Errors
    /// A field holds something though nothing reads it.
    pub fn unused(&self, field: Field, what: &str) -> Refused<()> {
        if self.value(field) == 0 { Ok(()) } else { Err(what.into()) }
    }

    /// "VADDR": an index, an offset, both in this order, or neither.
    pub fn buffer_address(&self) -> Refused {
        let dwords = self.value(Field::Offen) + self.value(Field::Idxen);
        match dwords {
            0 => self.unused(Field::Vaddr, "an address that is not used").map(|()| At::Off),
            dwords => self.isa.vector(self.value(Field::Vaddr), dwords as u8, false),
        }
    }

    /// The scalar base of an address; `off` is NULL or, on gfx9, 127.
    pub fn scalar_base(&self) -> Refused {
        let number = self.value(Field::Saddr);
        let off = match self.isa.target.is_gfx9() {
            true => number == 127,
            false => number == 127 || self.isa.scalar(number, 1) == Ok(At::Sgpr(NULL, 1)),
        };
        let dwords = if self.encoding.family == Family::Scratch { 1 } else { 2 };
        if off { Ok(At::Off) } else { self.isa.scalar(number, dwords) }
    }

    /// How many registers the vector address of a flat instruction has; none if there is no such address.
    pub fn flat_address(&self) -> Refused<Option<u8>> {
        let off = self.scalar_base()? == At::Off;
        Ok(match self.encoding.family {
            Family::Global if !off => Some(1),
            Family::Scratch => {
                let has = if self.isa.target.architected_scratch { self.flag(Field::Sve) } else { off };
                has.then_some(1)
            }
            _ => Some(2),
        })
    }

    /// Of scalar memory: `soffset offset:N`, either of both, or 0.
    pub fn scalar_offset(&self, operands: &mut Vec<Operand>) -> Refused<()> {
        let width = self.encoding.place(Field::Ioffset).map_or(1, |place| place.width);
        let constant = signed(self.value(Field::Ioffset), width);
        let register = |number| self.isa.scalar(number, 1);
        let (register, constant) = match (self.encoding.place(Field::Imm), self.flag(Field::Imm), self.flag(Field::Soe))
        {
            (None, ..) => (Some(register(self.value(Field::Soffset))?), constant),
            (_, true, true) => (Some(register(self.value(Field::Soffset))?), constant),
            (_, true, false) => (None, constant),
            (_, false, true) => (Some(register(self.value(Field::Soffset))?), 0),
            (_, false, false) => (Some(register(self.value(Field::Ioffset) & 0x7f)?), 0),
        };
        if let (Some(_), imm, soe) = (self.encoding.place(Field::Imm), self.flag(Field::Imm), self.flag(Field::Soe)) {
            let what = "an offset that is not used";
            if !soe {
                self.unused(Field::Soffset, what)?;
            }
            // A register in the place of a constant, or nothing.
            let rest = if soe { self.value(Field::Ioffset) } else { self.value(Field::Ioffset) & !0x7f };
            if !imm && rest != 0 {
                return Err(what.into());
            }
        }
        let register = register.filter(|register| *register != At::Sgpr(NULL, 1));
        operands.push(register.unwrap_or(At::Immediate(constant)).into());
        if register.is_some() && constant != 0 {
            operands.push(At::Immediate(constant).into());
        }
        Ok(())
    }
}
