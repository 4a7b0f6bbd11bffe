//! Operands by the numbers that stand for them ("Scalar Operands", "Vector Operands" of the instruction set documents).

use super::{At, Isa};
use crate::registers::{ACCUMULATION, M0, NULL, TTMP, VCC};
use crate::target::Generation;

/// A number that says that the operand is in the word behind.
pub(super) const LITERAL: u32 = 255;
pub(super) const VGPRS: u32 = 256;

/// Why an operand is none.
pub(super) type Refused<T = At> = Result<T, String>;

/// A field that has a sign.
pub(super) fn signed(value: u32, width: u8) -> i64 {
    let shift = 64 - u32::from(width);
    (u64::from(value) << shift) as i64 >> shift
}

impl Isa {
    /// A scalar register, of those that can be written too; `dwords` of them.
    pub(super) fn scalar(&self, number: u32, dwords: u8) -> Refused {
        let at = u8::try_from(number).map_err(|_| format!("scalar register {number}"))?;
        // M0 and NULL are numbered as on gfx9 and gfx10 within.
        let at = match (self.target.generation, at) {
            (Generation::Rdna3 | Generation::Rdna4, 124) => NULL,
            (Generation::Rdna3 | Generation::Rdna4, 125) => M0,
            (_, 125) if self.target.is_gfx9() => return Err("scalar register 125".into()),
            (_, at) => at,
        };
        let aligned = match dwords {
            0 | 1 => true,
            2 => at % 2 == 0 || at == NULL,
            _ => (at - if (TTMP..M0).contains(&at) { TTMP } else { 0 }).is_multiple_of(4) || at == NULL,
        };
        if !aligned {
            return Err(format!("{dwords} registers that begin at scalar register {at}"));
        }
        let end = u32::from(at) + u32::from(dwords.max(1));
        let fits = match at {
            0..VCC => end <= u32::from(VCC),
            VCC..TTMP => end <= u32::from(TTMP),
            TTMP..M0 => end <= u32::from(M0),
            M0 => dwords <= 1,
            NULL => true,
            126..=127 => end <= 128,
            _ => false,
        };
        if fits {
            Ok(At::Sgpr(at, dwords.max(1)))
        } else {
            Err(format!("{dwords} registers from scalar register {at}"))
        }
    }

    /// Vector registers.
    pub(super) fn vector(&self, number: u32, dwords: u8, accumulation: bool) -> Refused {
        let at = number as u16;
        if u32::from(at) + u32::from(dwords) > VGPRS {
            return Err(format!("{dwords} registers from vector register {number}"));
        }
        if dwords > 1 && self.target.aligns_vgprs() && at % 2 == 1 {
            return Err(format!("{dwords} registers that begin at vector register {number}"));
        }
        Ok(At::Vgpr(at + if accumulation { ACCUMULATION } else { 0 }, dwords))
    }

    /// A source of 9 bits, or 8 if it is scalar. `None` if it is the word behind.
    pub(super) fn source(&self, number: u32, dwords: u8, accumulation: bool) -> Refused<Option<At>> {
        Ok(Some(match number {
            0..128 => self.scalar(number, dwords)?,
            128..=192 => At::Integer((number - 128) as i8),
            193..=208 => At::Integer(-((number - 192) as i8)),
            235 => At::SharedBase,
            236 => At::SharedLimit,
            237 => At::PrivateBase,
            238 => At::PrivateLimit,
            240..=248 => At::Float((number - 240) as u8),
            251 => At::VccZero,
            252 => At::ExecZero,
            253 => At::Scc,
            LITERAL => return Ok(None),
            VGPRS..512 => self.vector(number - VGPRS, dwords, accumulation)?,
            _ => return Err(format!("source {number}")),
        }))
    }
}
