//! Registers whose numbers are relative to M0: `s_set_gpr_idx_*` of gfx9, `v_movrel*` of RDNA.

use super::{scalar, vector};
use crate::instruction::{Destination, Index, Source, Vector};
use crate::registers::{ACCUMULATION, M0};
use crate::verdict::{Fault, Raised, Step, Use};
use crate::wave::{Temporaries, Wave};

/// Of M0: the number that is added, and from which bit on those that say to what.
const NUMBER: u32 = 0xff;
const ENABLED: u32 = 12;

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

/// A vector instruction, some of whose registers (`which`, or what M0 says) are so many further.
pub(super) fn run(wave: &mut Wave, room: &mut Temporaries, vector: &Vector, which: Option<u8>) -> Step {
    let m0 = read(wave, Source::Sgpr(M0))?;
    let (number, which) = match which {
        Some(which) => (m0, which),
        None => (m0 & NUMBER, (m0 >> ENABLED) as u8 & 15),
    };
    let moved = |at: u16| {
        let end = if at < ACCUMULATION { ACCUMULATION } else { 2 * ACCUMULATION };
        let to = u16::try_from(number).ok().and_then(|number| at.checked_add(number)).filter(|to| *to < end);
        to.ok_or_else(|| Raised::wave(Fault::Unimplemented { what: format!("register v{at} with {number} in M0") }))
    };
    let mut vector = vector.clone();
    for (at, source) in vector.sources.iter_mut().enumerate().take(vector.count) {
        if let (Source::Vgpr(register), 1) = (source.at, which >> at & 1) {
            source.at = Source::Vgpr(moved(register)?);
        }
    }
    if which >> 3 & 1 == 1 {
        vector.to = match vector.to {
            Destination::Vgpr(at) => Destination::Vgpr(moved(at)?),
            Destination::Half(at, high) => Destination::Half(moved(at)?, high),
            Destination::Cleared(at) => Destination::Cleared(moved(at)?),
            Destination::Part(at, part, unused) => Destination::Part(moved(at)?, part, unused),
            mask @ (Destination::Mask(_) | Destination::Exec(_)) => mask,
        };
    }
    vector::run(wave, room, &vector)
}
