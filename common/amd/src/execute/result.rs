//! Where results go.

use crate::instruction::{Destination, Output, Select, Unused, Vector};
use crate::number::{self, F16, F32, Mode};
use crate::operations::vector::Kind;
use crate::registers::{CLEAN, EXEC, Poison, Registers, Vgpr};
use crate::verdict::{Fault, Raised, Step, Use};
use crate::wave::{Temporaries, Wave};

pub(super) fn put_mask(registers: &mut Registers, to: Destination, mask: u64, poison: u64, exec: u64) -> Step {
    match to {
        Destination::Mask(at) => registers.set_mask(at, mask & exec, poison & exec),
        Destination::Exec(at) => {
            if poison & exec != 0 {
                let lane = (poison & exec).trailing_zeros() as usize;
                return Err(Raised::at(lane, Fault::Unwritten { used: Use::Exec, origin: None }));
            }
            if let Some(at) = at {
                registers.set_mask(at, mask & exec, 0)?;
            }
            registers.set_mask(EXEC, mask & exec, 0)
        }
        _ => Err(Raised::wave(Fault::Unimplemented { what: "a comparison into a vector register".into() })),
    }
}

/// What `omod` and `clamp` make of results.
pub(super) fn change(mode: &Mode, vector: &Vector, values: &mut [u32]) {
    if vector.output == Output::default() {
        return;
    }
    let Output { clamp, omod } = vector.output;
    for value in values {
        match vector.result {
            Kind::F32 => {
                *value = number::output_modifier::<F32>(mode, omod, *value);
                if clamp {
                    *value = number::clamp::<F32>(mode, *value);
                }
            }
            Kind::F16 => {
                let mut half = number::output_modifier::<F16>(mode, omod, *value as u16);
                if clamp {
                    half = number::clamp::<F16>(mode, half);
                }
                *value = u32::from(half);
            }
            _ => {}
        }
    }
}

/// Writes `room.out`, as the instruction changes it.
pub(super) fn put(wave: &mut Wave, room: &mut Temporaries, vector: &Vector, exec: u64, poison: Poison) {
    let values = &mut room.out;
    change(&wave.mode, vector, values);
    let registers = &mut wave.registers;
    match vector.to {
        Destination::Vgpr(to) => registers.write_bytes(to, values, exec, poison),
        Destination::Cleared(to) => {
            values.iter_mut().for_each(|value| *value &= 0xffff);
            registers.write_bytes(to, values, exec, [poison[0], poison[1], 0, 0]);
        }
        Destination::Half(to, high) => {
            let old = registers.poison[usize::from(to)];
            let (shift, keep) = if high { (16, 0xffff) } else { (0, 0xffff_0000) };
            for (value, old) in values.iter_mut().zip(&registers.v[usize::from(to)]) {
                *value = (*value & 0xffff) << shift | old & keep;
            }
            let poison =
                if high { [old[0], old[1], poison[0], poison[1]] } else { [poison[0], poison[1], old[2], old[3]] };
            registers.write_bytes(to, values, exec, poison);
        }
        Destination::Part(to, part, unused) => put_part(registers, values, exec, poison, (to, part, unused)),
        Destination::Mask(_) | Destination::Exec(_) | Destination::Sgpr(_) => {}
    }
}

fn put_part(
    registers: &mut Registers,
    values: &mut Vgpr,
    exec: u64,
    poison: Poison,
    (to, part, unused): (u16, Select, Unused),
) {
    let (shift, width) = match part {
        Select::Dword | Select::Halves { .. } => return registers.write_bytes(to, values, exec, poison),
        Select::Word(at) => (16 * u32::from(at), 16_usize),
        Select::Byte(at) => (8 * u32::from(at), 8),
    };
    let field = (u32::MAX >> (32 - width as u32)) << shift;
    let old = registers.poison[usize::from(to)];
    for (value, old) in values.iter_mut().zip(&registers.v[usize::from(to)]) {
        let placed = *value << shift & field;
        *value = match unused {
            Unused::Pad => placed,
            Unused::Preserve => placed | old & !field,
            // Bits above it are copies of its sign, those below it 0.
            Unused::Sext => ((placed << (32 - width as u32 - shift)) as i32 >> (32 - width as u32 - shift)) as u32,
        };
    }
    let (first, count) = ((shift / 8) as usize, width / 8);
    let mut result = match unused {
        Unused::Pad | Unused::Sext => CLEAN,
        Unused::Preserve => old,
    };
    let sign = poison[count - 1];
    for (at, byte) in result.iter_mut().enumerate().skip(first) {
        match (at - first, unused) {
            (part, _) if part < count => *byte = poison[part],
            (_, Unused::Sext) => *byte = sign,
            _ => {}
        }
    }
    registers.write_bytes(to, values, exec, result);
}
