//! Vector ALU.

use super::packed::{mix, move_pair, packed, packed_move, packed_pair};
use super::result::{change, put, put_mask};
use super::sources::{dwords, narrow, poisoned, wide, wide_simple};
use crate::instruction::{Destination, Output, Source, Vector};
use crate::number::{self, Comparison, F16, F32, F64, Mode};
use crate::operations::vector::{Kind, Narrow, Run, compare_integers};
use crate::registers::{CLEAN, LANES, Poison, Registers, Vgpr, any, choose, mask_where, spread};
use crate::verdict::{Fault, Raised, Step};
use crate::wave::{Temporaries, Wave};

pub(super) fn run(wave: &mut Wave, room: &mut Temporaries, vector: &Vector) -> Step {
    let exec = wave.registers.exec();
    if vector.simple
        && let Some(done) = simple(wave, room, vector, exec)
    {
        return done;
    }
    general(wave, room, vector, exec)
}

/// The two halves of VOPD: both read before either writes.
pub(super) fn run_dual(wave: &mut Wave, room: &mut Temporaries, both: &[Vector; 2]) -> Step {
    let exec = wave.registers.exec();
    let [first, second] = both;
    let (Destination::Vgpr(first_to), Destination::Vgpr(second_to)) = (first.to, second.to) else {
        return Err(Raised::wave(Fault::Unimplemented { what: "VOPD with another result".into() }));
    };
    if let (Run::Narrow(one), Run::Narrow(other)) = (first.run, second.run)
        && (union(&wave.registers, first) | union(&wave.registers, second)) & exec == 0
    {
        narrow_simple(wave, &mut room.sources, &mut room.out, first, one);
        narrow_simple(wave, &mut room.sources, &mut room.second, second, other);
        wave.registers.write(first_to, &room.out, exec, 0);
        wave.registers.write(second_to, &room.second, exec, 0);
        return Ok(());
    }
    let first_poison = dual_half(wave, room, first, exec)?;
    std::mem::swap(&mut room.out, &mut room.second);
    let second_poison = dual_half(wave, room, second, exec)?;
    wave.registers.write_bytes(first_to, &room.second, exec, first_poison);
    wave.registers.write_bytes(second_to, &room.out, exec, second_poison);
    Ok(())
}

/// Computes into `room.out`.
fn dual_half(wave: &Wave, room: &mut Temporaries, vector: &Vector, exec: u64) -> Step<Poison> {
    let registers = &wave.registers;
    match vector.run {
        Run::Narrow(run) => {
            let poison = union(registers, vector) & exec;
            if poison == 0 || !(vector.bitwise || vector.upward) {
                narrow_simple(wave, &mut room.sources, &mut room.out, vector, run);
                return Ok([poison; 4]);
            }
            let (poison, exec) = prepare(wave, room, vector, exec);
            Ok(compute(wave, room, vector, run, &poison, exec))
        }
        Run::Select => Ok([select_simple(registers, room, vector) & exec; 4]),
        _ => Err(Raised::wave(Fault::Unimplemented { what: "VOPD of another operation".into() })),
    }
}

/// Computes prepared sources into `room.out`; which bytes of it nobody wrote.
fn compute(
    wave: &Wave,
    room: &mut Temporaries,
    vector: &Vector,
    run: Narrow,
    poison: &[Poison; 3],
    exec: u64,
) -> Poison {
    let lanes = wave.registers.lanes;
    let [a, b, c] = &room.sources;
    run(&wave.mode, &mut room.out[..lanes], [&a[..lanes], &b[..lanes], &c[..lanes]]);
    let all = joined(poison);
    let either = any(&all) & exec;
    if either == 0 {
        CLEAN
    } else if vector.bitwise {
        let mut out = [0; LANES];
        parts(&room.sources.map(|values| values.map(u64::from)), poison, |sources, results| {
            let [a, b, c] = sources.map(|values| values.map(|value| value as u32));
            run(&wave.mode, &mut out[..lanes], [&a[..lanes], &b[..lanes], &c[..lanes]]);
            results.iter_mut().zip(&out).for_each(|(result, out)| *result = u64::from(*out));
        })
    } else if vector.upward {
        upwards(all)
    } else {
        [either; 4]
    }
}

#[inline]
fn union(registers: &Registers, vector: &Vector) -> u64 {
    vector.sources[..vector.count].iter().fold(0, |lanes, source| lanes | poisoned(registers, source.at))
}

#[inline]
fn narrow_simple(wave: &Wave, room: &mut [Vgpr; 3], out: &mut Vgpr, vector: &Vector, run: Narrow) {
    let registers = &wave.registers;
    let [first, second, third] = room;
    let a = dwords(registers, vector.sources[0].at, first);
    let b = if vector.count > 1 { dwords(registers, vector.sources[1].at, second) } else { a };
    let c = if vector.count > 2 { dwords(registers, vector.sources[2].at, third) } else { a };
    let lanes = registers.lanes;
    run(&wave.mode, &mut out[..lanes], [&a[..lanes], &b[..lanes], &c[..lanes]]);
}

fn select_simple(registers: &Registers, room: &mut Temporaries, vector: &Vector) -> u64 {
    let at = vector.mask.unwrap_or_default();
    let (mask, unknown) = (registers.mask(at), registers.mask_poison(at));
    let [first, second, _] = &mut room.sources;
    let (a, b) = (dwords(registers, vector.sources[0].at, first), dwords(registers, vector.sources[1].at, second));
    room.out = *a;
    choose(&mut room.out, b, mask);
    let [a, b] = [0, 1].map(|at| poisoned(registers, vector.sources[at].at));
    unknown | !mask & a | mask & b
}

/// Sources and results of 32 bits without any change. `None` if nobody wrote something that has to be followed in parts.
#[inline]
fn simple(wave: &mut Wave, room: &mut Temporaries, vector: &Vector, exec: u64) -> Option<Step> {
    match vector.run {
        Run::Narrow(run) => {
            let poison = union(&wave.registers, vector) & exec;
            if poison != 0 && (vector.bitwise || vector.upward) {
                return None;
            }
            narrow_simple(wave, &mut room.sources, &mut room.out, vector, run);
            let Destination::Vgpr(to) = vector.to else { return None };
            wave.registers.write(to, &room.out, exec, poison);
            Some(Ok(()))
        }
        Run::Select => {
            let Destination::Vgpr(to) = vector.to else { return None };
            let registers = &wave.registers;
            let bytes = |at: usize| match vector.sources[at].at {
                Source::Vgpr(at) => registers.poison[usize::from(at)],
                other => spread(super::scalar::read(registers, other, 1).1 as u32),
            };
            let (a, b) = (bytes(0), bytes(1));
            let at = vector.mask.unwrap_or_default();
            let (mask, unknown) = (registers.mask(at), registers.mask_poison(at));
            let poison = [0, 1, 2, 3].map(|byte| unknown | !mask & a[byte] | mask & b[byte]);
            select_simple(registers, room, vector);
            wave.registers.write_bytes(to, &room.out, exec, poison);
            Some(Ok(()))
        }
        Run::Compare { relation, signed } => {
            let registers = &wave.registers;
            let [first, second, _] = &mut room.sources;
            let (a, b) =
                (dwords(registers, vector.sources[0].at, first), dwords(registers, vector.sources[1].at, second));
            let lanes = registers.lanes;
            let mask = if signed {
                // In the order of signed numbers.
                let (a, b) = (a.map(|value| value ^ 1 << 31), b.map(|value| value ^ 1 << 31));
                compare_integers(relation, &a[..lanes], &b[..lanes])
            } else {
                compare_integers(relation, &a[..lanes], &b[..lanes])
            };
            let poison = union(registers, vector);
            Some(put_mask(&mut wave.registers, vector.to, mask, poison, exec))
        }
        Run::Wide(run) => {
            let Destination::Vgpr(to) = vector.to else { return None };
            let mut unwritten = 0;
            for (source, values) in vector.sources.iter().zip(&mut room.wide).take(vector.count) {
                unwritten |= wide_simple(&wave.registers, source, values);
            }
            if unwritten & exec != 0 {
                return None;
            }
            let (lanes, [a, b, c]) = (wave.registers.lanes, &room.wide);
            run(&wave.mode, &mut room.wide_out[..lanes], [&a[..lanes], &b[..lanes], &c[..lanes]]);
            let halves = room.out.iter_mut().zip(&mut room.second);
            for ((low, high), value) in halves.zip(&room.wide_out[..lanes]) {
                (*low, *high) = (*value as u32, (*value >> 32) as u32);
            }
            wave.registers.write(to, &room.out, exec, 0);
            if vector.result.is_wide() {
                wave.registers.write(to + 1, &room.second, exec, 0);
            }
            Some(Ok(()))
        }
        Run::NarrowCarry(run) => {
            let Destination::Vgpr(to) = vector.to else { return None };
            let registers = &wave.registers;
            let (mask, unknown) = carry_in(registers, vector);
            let poison = unknown | union(registers, vector);
            let [first, second, third] = &mut room.sources;
            let (a, b) =
                (dwords(registers, vector.sources[0].at, first), dwords(registers, vector.sources[1].at, second));
            let c = if vector.count > 2 { dwords(registers, vector.sources[2].at, third) } else { a };
            let lanes = registers.lanes;
            let carries = run(&wave.mode, &mut room.out[..lanes], [&a[..lanes], &b[..lanes], &c[..lanes]], mask);
            if let Some(to) = vector.mask_to
                && let Err(raised) = wave.registers.set_mask(to, carries & exec, poison & exec)
            {
                return Some(Err(raised));
            }
            wave.registers.write(to, &room.out, exec, poison);
            Some(Ok(()))
        }
        _ => None,
    }
}

fn general(wave: &mut Wave, room: &mut Temporaries, vector: &Vector, exec: u64) -> Step {
    match vector.run {
        Run::Narrow(run) => general_narrow(wave, room, vector, run, exec),
        Run::Wide(_) | Run::WideCarry(_) => general_wide(wave, room, vector, exec),
        Run::NarrowCarry(run) => {
            let (poison, exec) = prepare(wave, room, vector, exec);
            let (mask, unknown) = carry_in(&wave.registers, vector);
            let lanes = wave.registers.lanes;
            let [a, b, c] = &room.sources;
            let out = &mut room.out[..lanes];
            let carries = run(&wave.mode, out, [&a[..lanes], &b[..lanes], &c[..lanes]], mask);
            let poison = unknown | any(&joined(&poison));
            if let Some(to) = vector.mask_to {
                wave.registers.set_mask(to, carries & exec, poison & exec)?;
            }
            put(wave, room, vector, exec, [poison; 4]);
            Ok(())
        }
        Run::Packed(run) => {
            packed(wave, room, vector, run, exec);
            Ok(())
        }
        Run::PackedPair(run) => {
            packed_pair(wave, room, vector, run, exec);
            Ok(())
        }
        Run::PackedMove => {
            packed_move(wave, room, vector, exec);
            Ok(())
        }
        Run::MovePair => {
            move_pair(wave, room, vector, exec);
            Ok(())
        }
        Run::Mix(result) => {
            mix(wave, room, vector, result, exec);
            Ok(())
        }
        Run::Select => {
            let (poison, exec) = prepare(wave, room, vector, exec);
            let (mask, unknown) = carry_in(&wave.registers, vector);
            let [a, b, _] = &room.sources;
            room.out = *a;
            choose(&mut room.out, b, mask);
            let poison = [0, 1, 2, 3].map(|byte| unknown | !mask & poison[0][byte] | mask & poison[1][byte]);
            put(wave, room, vector, exec, poison);
            Ok(())
        }
        Run::Compare { .. } | Run::CompareFloat(_) | Run::Class => compare(wave, room, vector, exec),
    }
}

fn carry_in(registers: &Registers, vector: &Vector) -> (u64, u64) {
    vector.mask.map_or((0, 0), |at| (registers.mask(at), registers.mask_poison(at)))
}

/// Reads all sources; their poison, and the lanes that are written.
fn prepare(wave: &Wave, room: &mut Temporaries, vector: &Vector, exec: u64) -> ([Poison; 3], u64) {
    let (mut poison, mut written) = ([CLEAN; 3], u64::MAX);
    let sources = vector.sources.iter().zip(&mut room.sources).zip(&mut poison).take(vector.count);
    for (at, ((source, room), poison)) in sources.enumerate() {
        let dpp = if at == 0 { vector.dpp.as_ref().map(|dpp| (dpp, exec, &mut written)) } else { None };
        *poison = narrow(&wave.registers, source, dpp, room);
    }
    (poison, exec & written)
}

fn general_narrow(wave: &mut Wave, room: &mut Temporaries, vector: &Vector, run: Narrow, exec: u64) -> Step {
    if let Destination::Sgpr(to) = vector.to {
        return lone(wave, room, vector, run, to);
    }
    let (poison, exec) = prepare(wave, room, vector, exec);
    let poison = compute(wave, room, vector, run, &poison, exec);
    put(wave, room, vector, exec, poison);
    Ok(())
}

/// Of scalars, into a scalar register, whatever EXEC says; the upper half of FP16 is 0.
fn lone(wave: &mut Wave, room: &mut Temporaries, vector: &Vector, run: Narrow, to: u8) -> Step {
    let (poison, _) = prepare(wave, room, vector, u64::MAX);
    let [a, b, c] = &room.sources;
    let mut out = [0];
    run(&wave.mode, &mut out, [&a[..1], &b[..1], &c[..1]]);
    change(&wave.mode, vector, &mut out);
    let unwritten = any(&joined(&poison)) & 1 == 1;
    wave.registers.set(to, out[0], if unwritten { u32::MAX } else { 0 })
}

/// What any of the sources has.
fn joined<const BYTES: usize>(poison: &[[u64; BYTES]; 3]) -> [u64; BYTES] {
    std::array::from_fn(|byte| poison.iter().fold(0, |lanes, of| lanes | of[byte]))
}

/// What depends on no higher byte: that of the byte itself and of all below.
fn upwards<const BYTES: usize>(mut poison: [u64; BYTES]) -> [u64; BYTES] {
    let mut below = 0;
    for lanes in &mut poison {
        below |= *lanes;
        *lanes = below;
    }
    poison
}

/// The bytes of a result that depend on bytes of sources that nobody wrote: those that differ when these are all 0, all 1, or mixed.
fn parts<const BYTES: usize>(
    sources: &[[u64; LANES]; 3],
    poison: &[[u64; BYTES]; 3],
    mut run: impl FnMut(&[[u64; LANES]; 3], &mut [u64; LANES]),
) -> [u64; BYTES] {
    let mut filled = |ones: usize| {
        let mut values = *sources;
        for (at, (values, poison)) in values.iter_mut().zip(poison).enumerate() {
            for (byte, lanes) in poison.iter().enumerate().filter(|(_, lanes)| **lanes != 0) {
                let bits = 0xff << (8 * byte);
                for lane in super::memory::lanes_of(*lanes) {
                    values[lane] = if ones >> at & 1 == 1 { values[lane] | bits } else { values[lane] & !bits };
                }
            }
        }
        let mut results = [0; LANES];
        run(&values, &mut results);
        results
    };
    let unwritten = (0..3).filter(|at| poison[*at].iter().any(|lanes| *lanes != 0)).fold(0, |all, at| all | 1 << at);
    let (zero, mut result) = (filled(0), [0; BYTES]);
    for ones in (1..8).filter(|ones| ones & !unwritten == 0) {
        for (lane, (zero, other)) in zero.iter().zip(&filled(ones)).enumerate() {
            for (byte, lanes) in result.iter_mut().enumerate() {
                *lanes |= u64::from((zero ^ other) >> (8 * byte) & 0xff != 0) << lane;
            }
        }
    }
    result
}

fn general_wide(wave: &mut Wave, room: &mut Temporaries, vector: &Vector, exec: u64) -> Step {
    let (mut sources_poison, mut written) = ([[0; 8]; 3], u64::MAX);
    let sources = vector.sources.iter().zip(&mut room.wide).zip(&mut sources_poison).take(vector.count);
    for (at, ((source, values), poison)) in sources.enumerate() {
        let dpp = if at == 0 { vector.dpp.as_ref().map(|dpp| (dpp, exec, &mut written)) } else { None };
        let both = wide(&wave.registers, source, dpp, values, &mut room.second);
        poison.copy_from_slice(both.as_flattened());
    }
    let mut poison = upwards(joined(&sources_poison));
    let exec = exec & written;
    let lanes = wave.registers.lanes;
    let [a, b, c] = &room.wide;
    let (out, sources) = (&mut room.wide_out[..lanes], [&a[..lanes], &b[..lanes], &c[..lanes]]);
    match vector.run {
        Run::Wide(run) => run(&wave.mode, out, sources),
        Run::WideCarry(run) => {
            let (mask, unknown) = carry_in(&wave.registers, vector);
            let carries = run(&wave.mode, out, sources, mask);
            poison = poison.map(|lanes| lanes | unknown);
            if let Some(to) = vector.mask_to {
                wave.registers.set_mask(to, carries & exec, poison[7] & exec)?;
            }
        }
        _ => {}
    }
    let mode = &wave.mode;
    match vector.run {
        Run::Wide(run) if vector.bitwise && poison[7] & exec != 0 => {
            poison = parts(&room.wide, &sources_poison, |sources, results| {
                let [a, b, c] = sources;
                run(mode, &mut results[..lanes], [&a[..lanes], &b[..lanes], &c[..lanes]]);
            });
        }
        _ if !vector.upward => poison = [poison[7]; 8],
        _ => {}
    }
    let [low, high] = [0, 4].map(|at| [poison[at], poison[at + 1], poison[at + 2], poison[at + 3]]);
    if vector.result == Kind::F64 && vector.output != Output::default() {
        for value in &mut room.wide_out[..lanes] {
            *value = number::output_modifier::<F64>(&wave.mode, vector.output.omod, *value);
            if vector.output.clamp {
                *value = number::clamp::<F64>(&wave.mode, *value);
            }
        }
    }
    for (lane, value) in room.wide_out.iter().enumerate() {
        (room.out[lane], room.second[lane]) = (*value as u32, (*value >> 32) as u32);
    }
    if vector.result.is_wide() {
        if let Destination::Vgpr(to) = vector.to {
            wave.registers.write_bytes(to, &room.out, exec, low);
            wave.registers.write_bytes(to + 1, &room.second, exec, high);
        }
    } else {
        put(wave, room, vector, exec, low);
    }
    Ok(())
}

fn compare(wave: &mut Wave, room: &mut Temporaries, vector: &Vector, exec: u64) -> Step {
    let lanes = wave.registers.lanes;
    let (mask, poison, exec) = if vector.sources[0].kind.is_wide() {
        let (mut poison, mut written) = (0, u64::MAX);
        for at in 0..vector.count {
            let dpp = if at == 0 { vector.dpp.as_ref().map(|dpp| (dpp, exec, &mut written)) } else { None };
            let [low, high] = wide(&wave.registers, &vector.sources[at], dpp, &mut room.wide[at], &mut room.second);
            poison |= any(&low) | any(&high);
        }
        let [a, b, _] = &room.wide;
        let (a, b) = (&a[..lanes], &b[..lanes]);
        let mask = match vector.run {
            Run::Compare { relation, signed: true } => {
                let (a, b): (Vec<i64>, Vec<i64>) = a.iter().zip(b).map(|(a, b)| (*a as i64, *b as i64)).unzip();
                compare_integers(relation, &a, &b)
            }
            Run::Compare { relation, .. } => compare_integers(relation, a, b),
            Run::CompareFloat(how) => mask_where(a, b, |a, b| number::compare::<F64>(&wave.mode, how, a, b)),
            _ => mask_where(a, b, |a, b| number::class::<F64>(a) as u64 & b != 0),
        };
        (mask, poison, exec & written)
    } else {
        let (poison, exec) = prepare(wave, room, vector, exec);
        let [a, b, _] = &room.sources;
        let (a, b) = (&a[..lanes], &b[..lanes]);
        let half = vector.sources[0].kind.is_half();
        let mask = match vector.run {
            Run::Compare { relation, signed: true } => {
                let sign = |value: &u32| if half { i32::from(*value as i16) } else { *value as i32 };
                let (a, b): (Vec<i32>, Vec<i32>) = a.iter().zip(b).map(|(a, b)| (sign(a), sign(b))).unzip();
                compare_integers(relation, &a, &b)
            }
            Run::Compare { relation, .. } => compare_integers(relation, a, b),
            Run::CompareFloat(how) => compare_floats(&wave.mode, how, half, a, b),
            _ if half => mask_where(a, b, |a, b| number::class::<F16>(a as u16) as u32 & b != 0),
            _ => mask_where(a, b, |a, b| number::class::<F32>(a) as u32 & b != 0),
        };
        (mask, any(&joined(&poison)), exec)
    };
    put_mask(&mut wave.registers, vector.to, mask, poison, exec)
}

fn compare_floats(mode: &Mode, how: Comparison, half: bool, a: &[u32], b: &[u32]) -> u64 {
    if half {
        mask_where(a, b, |a, b| number::compare::<F16>(mode, how, a as u16, b as u16))
    } else {
        mask_where(a, b, |a, b| number::compare::<F32>(mode, how, a, b))
    }
}
