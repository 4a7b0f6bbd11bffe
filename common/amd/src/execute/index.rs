//! Registers whose numbers are relative to M0: `s_set_gpr_idx_*` of gfx9, `v_movrel*` of RDNA.

use super::{scalar, vector};
use crate::instruction::{Destination, Index, Scalar, Source, Vector};
use crate::registers::{ACCUMULATION, M0, Registers, VCC};
use crate::verdict::{Fault, Raised, Step, Use};
use crate::wave::{Temporaries, Wave};

/// Of M0: the number that is added, and from which bit on those that say to what.
const NUMBER: u32 = 0xff;
const ENABLED: u32 = 12;
/// Of an instruction with a number for the source and one for the result: bits 0 to 9 and 16 to 25 of M0.
const TWO_NUMBERS: u8 = 1 << 4;

fn read(wave: &Wave, source: Source) -> Step<u32> {
    match scalar::read(&wave.registers, source, 1) {
        (value, 0) => Ok(value as u32),
        _ => Err(Raised::wave(Fault::Unwritten { used: Use::Selector, origin: wave.origin.clone() })),
    }
}

/// "S_SET_GPR_IDX_ON", "_OFF", "_IDX" and "_MODE".
pub(super) fn set(wave: &mut Wave, index: Index) -> Step {
    let now = || scalar::read(&wave.registers, Source::Sgpr(M0), 1).0 as u32;
    let m0 = match index {
        Index::Off => {
            wave.indexed = false;
            return Ok(());
        }
        Index::On(number, enabled) => {
            now() & !(NUMBER | 15 << ENABLED) | read(wave, number)? & NUMBER | u32::from(enabled & 15) << ENABLED
        }
        Index::Number(number) => now() & !NUMBER | read(wave, number)? & NUMBER,
        Index::Enabled(enabled) => now() & !(15 << ENABLED) | u32::from(enabled & 15) << ENABLED,
    };
    wave.indexed |= matches!(index, Index::On(..));
    wave.registers.set(M0, m0, 0)
}

/// What is added to the number of a source and to that of the result.
fn numbers(m0: u32, which: u8) -> [u32; 2] {
    if which & TWO_NUMBERS == 0 { [m0; 2] } else { [m0 & 0x3ff, m0 >> 16 & 0x3ff] }
}

fn beyond(register: String, number: u32) -> Box<Raised> {
    Raised::wave(Fault::Unimplemented { what: format!("register {register} with {number} in M0") })
}

/// A vector register so many further.
fn moved(at: u16, number: u32) -> Step<u16> {
    let end = if at < ACCUMULATION { ACCUMULATION } else { 2 * ACCUMULATION };
    let to = u16::try_from(number).ok().and_then(|number| at.checked_add(number)).filter(|to| *to < end);
    to.ok_or_else(|| beyond(format!("v{at}"), number))
}

/// The registers of V_SWAPREL_B32.
pub(super) fn swapped(registers: &Registers, first: u16, second: u16) -> Step<[u16; 2]> {
    let (m0, poison) = scalar::read(registers, Source::Sgpr(M0), 1);
    if poison != 0 {
        return Err(Raised::wave(Fault::Unwritten { used: Use::Selector, origin: None }));
    }
    let [second_number, first_number] = numbers(m0 as u32, TWO_NUMBERS);
    Ok([moved(first, first_number)?, moved(second, second_number)?])
}

/// A scalar move with the registers that M0 makes of its own; those of two dwords are even.
pub(super) fn scalar_move(wave: &Wave, scalar: &Scalar, which: u8) -> Step<Scalar> {
    let [from_number, to_number] = numbers(read(wave, Source::Sgpr(M0))?, which);
    let dwords = u32::from(scalar.definition.result);
    let moved = |at: u8, number: u32| {
        let to = number.checked_add(u32::from(at)).filter(|to| to + dwords <= u32::from(VCC) && to % dwords == 0);
        to.map(|to| to as u8).ok_or_else(|| beyond(format!("s{at}"), number))
    };
    let mut scalar = scalar.clone();
    if let (Source::Sgpr(at), 1) = (scalar.sources[0], which & 1) {
        scalar.sources[0] = Source::Sgpr(moved(at, from_number)?);
    }
    if which >> 3 & 1 == 1 {
        scalar.to = moved(scalar.to, to_number)?;
    }
    Ok(scalar)
}

/// A vector instruction, some of whose registers (`which`, or what M0 says) are so many further.
pub(super) fn run(wave: &mut Wave, room: &mut Temporaries, vector: &Vector, which: Option<u8>) -> Step {
    let m0 = read(wave, Source::Sgpr(M0))?;
    let (number, which) = match which {
        Some(which) => (m0, which),
        None => (m0 & NUMBER, (m0 >> ENABLED) as u8 & 15),
    };
    let [from_number, to_number] = numbers(number, which);
    let mut vector = vector.clone();
    for (at, source) in vector.sources.iter_mut().enumerate().take(vector.count) {
        if let (Source::Vgpr(register), 1) = (source.at, which >> at & 1) {
            source.at = Source::Vgpr(moved(register, from_number)?);
        }
    }
    if which >> 3 & 1 == 1 {
        vector.to = match vector.to {
            Destination::Vgpr(at) => Destination::Vgpr(moved(at, to_number)?),
            Destination::Half(at, high) => Destination::Half(moved(at, to_number)?, high),
            Destination::Cleared(at) => Destination::Cleared(moved(at, to_number)?),
            Destination::Part(at, part, unused) => Destination::Part(moved(at, to_number)?, part, unused),
            mask @ (Destination::Mask(_) | Destination::Exec(_) | Destination::Sgpr(_)) => mask,
        };
    }
    vector::run(wave, room, &vector)
}
