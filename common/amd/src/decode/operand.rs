//! Operands as the executor wants them.

use super::Decoded;
use crate::instruction::{Change, Source};
use crate::isa::{At, Operand};
use crate::operations::vector::Kind;

/// Constants of single precision: 0.5, 1, 2, 4 and their negatives, 1 / (2 pi) ("Inline Constants").
const SINGLE: [u32; 9] = [
    0x3f00_0000,
    0xbf00_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x4000_0000,
    0xc000_0000,
    0x4080_0000,
    0xc080_0000,
    0x3e22_f983,
];
/// The same of half precision.
const HALF: [u16; 9] = [0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118];
/// 1 / (2 pi) of double precision; it is not that of single precision.
const DOUBLE_TURN: u64 = 0x3fc4_5f30_6dc9_c882;

/// How wide a constant's operand is, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub kind: Kind,
    /// 64 bits with a sign, which literals are extended by.
    pub signed: bool,
    /// Halves that are BF16.
    pub brain: bool,
}

impl From<Kind> for Wanted {
    fn from(kind: Kind) -> Self {
        Self { kind, signed: false, brain: false }
    }
}

/// A constant as bits of an operand.
///
/// An operand of halves, one or two, has 32 bits, of which each half is taken: an integer has its sign in the upper one; a float of an
/// operand of FP16 is in the lower one, the upper one being 0; a float of an operand of integers is the one of single precision.
pub(crate) fn constant(at: At, wanted: Wanted) -> Option<u64> {
    Some(match (at, wanted.kind) {
        (At::Integer(value), Kind::U16 | Kind::F16 | Kind::U32 | Kind::F32) => u64::from(i32::from(value) as u32),
        (At::Integer(value), _) => i64::from(value) as u64,
        // A literal is the upper half of FP64.
        (At::Literal(value), Kind::F64) => u64::from(value) << 32,
        (At::Literal(value), Kind::U64) if wanted.signed => i64::from(value as i32) as u64,
        (At::Literal(value), _) => u64::from(value),
        (At::Float(which), kind) => {
            let which = usize::from(which);
            let single = *SINGLE.get(which)?;
            match kind {
                Kind::F16 if wanted.brain => u64::from(single >> 16),
                Kind::F16 => u64::from(*HALF.get(which)?),
                Kind::U16 | Kind::U32 | Kind::F32 => u64::from(single),
                Kind::U64 | Kind::F64 | Kind::Mask if which == 8 => DOUBLE_TURN,
                Kind::U64 | Kind::F64 | Kind::Mask => f64::from(f32::from_bits(single)).to_bits(),
            }
        }
        _ => return None,
    })
}

/// A source and what is done to it.
pub(crate) fn source(operand: &Operand, wanted: impl Into<Wanted>) -> Decoded<(Source, Change)> {
    let change = Change {
        high: operand.half == Some(true),
        select: None,
        extend: operand.extend,
        absolute: operand.absolute,
        negate: operand.negate,
    };
    let at = match operand.at {
        At::Scc => Source::Scc,
        At::ExecZero => Source::ExecZero,
        At::VccZero => Source::VccZero,
        At::SharedBase => Source::SharedBase,
        At::PrivateBase => Source::PrivateBase,
        At::Vgpr(at, _) => Source::Vgpr(at),
        At::Sgpr(at, _) => Source::Sgpr(at),
        other => Source::Constant(constant(other, wanted.into()).ok_or_else(|| format!("operand {operand}"))?),
    };
    Ok((at, change))
}

/// A vector register by itself.
pub(crate) fn vgpr(operand: &Operand) -> Decoded<u16> {
    match operand.at {
        At::Vgpr(at, _) => Ok(at),
        _ => Err(format!("operand {operand}, expected a vector register")),
    }
}

/// A scalar register by itself.
pub(crate) fn sgpr(operand: &Operand) -> Decoded<u8> {
    match operand.at {
        At::Sgpr(at, _) => Ok(at),
        _ => Err(format!("operand {operand}, expected a scalar register")),
    }
}

/// A source that is a register or constant of 32 bits.
pub(super) fn dword(operand: &Operand) -> Decoded<Source> {
    match operand.at {
        At::Float(_) => Err(format!("operand {operand}")),
        _ => Ok(source(operand, Kind::U32)?.0),
    }
}

/// Of a scalar of so many registers, where nothing else is said.
pub(super) fn kind(dwords: u8) -> Kind {
    if dwords == 2 { Kind::U64 } else { Kind::U32 }
}

/// A scalar operand of so many registers.
pub(super) fn plain_source(operand: &Operand, dwords: u8) -> Decoded<Source> {
    wanted_source(operand, kind(dwords).into())
}

/// A scalar operand.
pub(super) fn wanted_source(operand: &Operand, wanted: Wanted) -> Decoded<Source> {
    match source(operand, wanted)?.0 {
        Source::Vgpr(_) => Err(format!("operand {operand}, expected a scalar")),
        at => Ok(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_of_their_kind() {
        let constant = |at, kind: Kind| constant(at, kind.into());
        assert_eq!(constant(At::Integer(-1), Kind::U32), Some(0xffff_ffff));
        assert_eq!(constant(At::Integer(-1), Kind::U64), Some(u64::MAX));
        assert_eq!(constant(At::Integer(-1), Kind::U16), Some(0xffff_ffff));
        assert_eq!(constant(At::Float(2), Kind::F16), Some(0x3c00));
        assert_eq!(constant(At::Float(2), Kind::U16), Some(0x3f80_0000));
        assert_eq!(constant(At::Float(8), Kind::U16), Some(0x3e22_f983));
        assert_eq!(constant(At::Float(7), Kind::F32), Some(0xc080_0000));
        assert_eq!(constant(At::Float(0), Kind::F64), Some(0x3fe0_0000_0000_0000));
        assert_eq!(constant(At::Literal(0x4028_0000), Kind::F64), Some(0x4028_0000_0000_0000));
        assert_eq!(constant(At::Float(8), Kind::F32), Some(0x3e22_f983));
        assert_eq!(constant(At::Float(8), Kind::F64), Some(0x3fc4_5f30_6dc9_c882));
        assert_eq!(constant(At::Float(8), Kind::F16), Some(0x3118));
        assert_eq!(constant(At::Off, Kind::U32), None);
    }

    #[test]
    fn literals_are_extended_by_a_sign_where_there_is_one() {
        let wanted = |signed| Wanted { signed, ..Kind::U64.into() };
        assert_eq!(constant(At::Literal(0x8000_0000), wanted(false)), Some(0x8000_0000));
        assert_eq!(constant(At::Literal(0x8000_0000), wanted(true)), Some(0xffff_ffff_8000_0000));
        assert_eq!(constant(At::Literal(0x7fff_ffff), wanted(true)), Some(0x7fff_ffff));
        let brain = Wanted { brain: true, ..Kind::F16.into() };
        assert_eq!(constant(At::Float(5), brain), Some(0xc000));
    }

    #[test]
    fn a_literal_is_written_as_32_bits() {
        assert_eq!(constant(At::Literal(0xff80_0000), Kind::F32.into()), Some(0xff80_0000));
    }
}
