//! Matrix instructions. They use all lanes, whatever EXEC says; what lanes hold that do not exist decides nothing that is stored.

use crate::instruction::{MatrixMultiply, Source};
use crate::matrix::{Element, Factors, Halves, Operand, Refused};
use crate::registers::{CLEAN, LANES, Poison, Registers, VGPRS, Vgpr, any, vgpr_name};
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
    let layout = multiply.layout.as_ref().map_err(|of| refused(*of))?;
    let all = &wave.registers;
    let [of_a, of_b, count] = layout.registers();
    let ((a, a_poison), (b, b_poison)) = (registers(all, multiply.a, of_a), registers(all, multiply.b, of_b));
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
    let c_poison = match multiply.c {
        Source::Vgpr(at) => registers(all, at, count).1,
        _ => &[],
    };
    // Lanes that the wave has not are never written.
    let lanes_of_wave = all.all();
    let clean = |poison: &[Poison]| poison.iter().all(|bytes| any(bytes) & lanes_of_wave == 0);
    let known = index.is_none_or(|(_, _, unwritten)| unwritten == [0, 0]);
    let is_clean = clean(a_poison) && clean(b_poison) && clean(c_poison) && known;
    let chosen = index.map(|(_, values, _)| layout.chosen(values));
    let poison: Option<Vec<Poison>> = if is_clean && matrix.is_in_place() {
        None
    } else {
        let [a, b, mut c, mut d] = [a_poison, b_poison, c_poison, &all.poison[to..to + count]].map(halves);
        c.resize(count, [0, 0]);
        let indices = chosen.as_ref().zip(index).map(|(chosen, (_, _, unwritten))| (chosen, unwritten));
        layout.poison([&a, &b, &c], indices, &mut d);
        Some(d.into_iter().map(|[low, high]| [low, low, high, high]).collect())
    };
    let factors = room.factors.get_or_insert_with(Factors::new);
    let scales = multiply.scales.as_ref().map(|(scales, at)| {
        let word = |source: &Source| match source {
            Source::Vgpr(at) => all.v[usize::from(*at)],
            Source::Sgpr(at) => [all.s[usize::from(*at)]; LANES],
            Source::Constant(value) => [*value as u32; LANES],
            _ => [0; LANES],
        };
        (scales.each_ref().map(word), *at)
    });
    let scales = scales.as_ref().map(|(words, at)| (words.each_ref(), *at));
    matrix.read(layout, *modifiers, [a, b], scales, factors);
    // D is computed where C is; otherwise from a copy of C, as D keeps halves of its own.
    let at = if matrix.is_in_place() { to } else { VGPRS };
    let v = &mut wave.registers.v;
    match multiply.c {
        Source::Vgpr(c) if usize::from(c) == at => {}
        Source::Vgpr(c) => v.copy_within(usize::from(c)..usize::from(c) + count, at),
        Source::Constant(value) => {
            let words = if matrix.result == Element::F64 { 2 } else { 1 };
            for (number, register) in v[at..at + count].iter_mut().enumerate() {
                register.fill((value >> (32 * (number % words))) as u32);
            }
        }
        _ => return Err(Raised::wave(Fault::Unimplemented { what: format!("{} of a scalar", matrix.name) })),
    }
    let (named, copies) = v.split_at_mut(VGPRS);
    matrix.multiply(layout, *modifiers, factors, chosen.as_ref(), (copies, &mut named[to..to + count]));
    let of_d = &mut wave.registers.poison[to..to + count];
    match poison {
        None => of_d.fill(CLEAN),
        Some(poison) => of_d.copy_from_slice(&poison),
    }
    Ok(())
}
