//! Matrix instructions. They use all lanes, whatever EXEC says; what lanes hold that do not exist decides nothing that is stored.

use crate::instruction::{MatrixMultiply, Source};
use crate::matrix::{Element, Halves, Operand, Refused};
use crate::registers::{CLEAN, LANES, Poison, Registers, Vgpr, any, vgpr_name};
use crate::verdict::{Fault, Raised, Step};
use crate::wave::{Temporaries, Wave};

fn registers(all: &Registers, at: u16, count: usize) -> (&[Vgpr], &[Poison]) {
    let at = usize::from(at);
    (&all.v[at..at + count], &all.poison[at..at + count])
}

/// Elements are followed by halves of registers.
fn halves(poison: &[Poison]) -> Vec<Halves> {
    poison.iter().map(halves_of).collect()
}

fn halves_of(bytes: &Poison) -> Halves {
    [bytes[0] | bytes[1], bytes[2] | bytes[3]]
}

fn refused(refused: Refused) -> Box<Raised> {
    Raised::wave(Fault::Unimplemented { what: refused.to_string() })
}

pub(super) fn run(wave: &mut Wave, room: &mut Temporaries, multiply: &MatrixMultiply) -> Step {
    let MatrixMultiply { matrix, modifiers, .. } = multiply;
    let lanes = wave.registers.lanes;
    let all = &wave.registers;
    let (a, a_poison) = registers(all, multiply.a, matrix.registers(Operand::A, lanes));
    let (b, b_poison) = registers(all, multiply.b, matrix.registers(Operand::B, lanes));
    let count = matrix.registers(Operand::C, lanes);
    let (mut splat, mut written) = (Vec::new(), Vec::new());
    let (c, c_poison) = match multiply.c {
        Source::Vgpr(at) => registers(all, at, count),
        Source::Constant(value) => {
            let words = if matrix.result == Element::F64 { 2 } else { 1 };
            splat.extend((0..count).map(|at| [(value >> (32 * (at % words))) as u32; LANES]));
            written.resize(count, CLEAN);
            (splat.as_slice(), written.as_slice())
        }
        _ => return Err(Raised::wave(Fault::Unimplemented { what: format!("{} of a scalar", matrix.name) })),
    };
    if let Some((operand, register, lane)) = matrix.unreplicated(lanes, a, b) {
        let first = if operand == Operand::A { multiply.a } else { multiply.b };
        let register = vgpr_name(first + register as u16);
        return Err(Raised::at(lane, Fault::NotReplicated { register }));
    }
    let index = multiply.index.map(|at| (at, &all.v[usize::from(at)], halves_of(&all.poison[usize::from(at)])));
    if let Some((at, values, unwritten)) = index
        && let Some(lane) = matrix.disordered(*modifiers, lanes, values, unwritten).map_err(refused)?
    {
        return Err(Raised::at(lane, Fault::Disordered { register: vgpr_name(at) }));
    }
    let to = usize::from(multiply.d);
    room.matrix.resize(room.matrix.len().max(count), [0; LANES]);
    let d = &mut room.matrix[..count];
    // Otherwise each lane of each register has an element.
    if matrix.result.bits() == 16 || lanes < LANES {
        d.copy_from_slice(&all.v[to..to + count]);
    }
    match (&multiply.scales, index) {
        (None, None) => matrix.run(*modifiers, lanes, a, b, c, d).map_err(refused)?,
        (None, Some((_, values, _))) => {
            matrix.run_sparse(*modifiers, lanes, [a, b, c], values, d).map_err(refused)?;
        }
        (Some((scales, at)), _) => {
            let word = |source: &Source| match source {
                Source::Vgpr(at) => all.v[usize::from(*at)],
                Source::Sgpr(at) => [all.s[usize::from(*at)]; LANES],
                Source::Constant(value) => [*value as u32; LANES],
                _ => [0; LANES],
            };
            let [of_a, of_b] = [word(&scales[0]), word(&scales[1])];
            matrix.run_scaled(*modifiers, [a, b, c], ([&of_a, &of_b], *at), d).map_err(refused)?;
        }
    }
    // Lanes that the wave has not are never written.
    let lanes_of_wave = all.all();
    let clean = |poison: &[Poison]| poison.iter().all(|bytes| any(bytes) & lanes_of_wave == 0);
    let known = index.is_none_or(|(_, _, unwritten)| unwritten == [0, 0]);
    let poison: Option<Vec<Poison>> =
        if clean(a_poison) && clean(b_poison) && clean(c_poison) && known && matrix.result.bits() != 16 {
            None
        } else {
            let [a, b, c, mut d] = [a_poison, b_poison, c_poison, &all.poison[to..to + count]].map(halves);
            match index {
                None => matrix.poison(*modifiers, lanes, &a, &b, &c, &mut d),
                Some((_, values, unwritten)) => {
                    matrix.poison_sparse(*modifiers, lanes, [&a, &b, &c], (values, unwritten), &mut d)
                }
            }
            .map_err(refused)?;
            Some(d.into_iter().map(|[low, high]| [low, low, high, high]).collect())
        };
    wave.registers.v[to..to + count].copy_from_slice(d);
    let of_d = &mut wave.registers.poison[to..to + count];
    match poison {
        None => of_d.fill(CLEAN),
        Some(poison) => of_d.copy_from_slice(&poison),
    }
    Ok(())
}
