//! Packed instructions, pairs of registers, and those of mixed widths.

use super::result::put;
use super::sources::{narrow, packed_half, packed_register};
use crate::instruction::{Change, Destination, Source, Vector, VectorSource};
use crate::number::{self, F16, F32, Part};
use crate::operations::vector::{Kind, Narrow};
use crate::registers::{CLEAN, any};
use crate::wave::{Temporaries, Wave};

/// Which half of each source a half of the result is made of, and which of them are negated.
fn halves(vector: &Vector, half: usize) -> ([bool; 3], [bool; 3]) {
    match half {
        0 => (vector.halves.low, vector.halves.negate_low),
        _ => (vector.halves.high, vector.halves.negate_high),
    }
}

pub(super) fn packed(wave: &mut Wave, room: &mut Temporaries, vector: &Vector, run: Narrow, exec: u64) {
    let lanes = wave.registers.lanes;
    let mut poison = [0; 2];
    for (half, (out, poison)) in [&mut room.out, &mut room.second].into_iter().zip(&mut poison).enumerate() {
        let (highs, negations) = halves(vector, half);
        for at in 0..vector.count {
            let source = &vector.sources[at];
            *poison |= packed_half(&wave.registers, source, highs[at], negations[at], &mut room.sources[at]);
        }
        let [a, b, c] = &room.sources;
        run(&wave.mode, &mut out[..lanes], [&a[..lanes], &b[..lanes], &c[..lanes]]);
        if vector.output.clamp {
            for value in &mut out[..lanes] {
                *value = u32::from(number::clamp::<F16>(&wave.mode, *value as u16));
            }
        }
    }
    for (low, high) in room.out.iter_mut().zip(&room.second) {
        *low = *low & 0xffff | high << 16;
    }
    if let Destination::Vgpr(to) = vector.to {
        let [low, high] = poison;
        wave.registers.write_bytes(to, &room.out, exec, [low, low, high, high]);
    }
}

pub(super) fn packed_pair(wave: &mut Wave, room: &mut Temporaries, vector: &Vector, run: Narrow, exec: u64) {
    let lanes = wave.registers.lanes;
    let mut poison = [0; 2];
    for (half, (out, poison)) in [&mut room.out, &mut room.second].into_iter().zip(&mut poison).enumerate() {
        let (highs, negations) = halves(vector, half);
        let [first, second, third] = &mut room.sources;
        let part = |at: usize, room| {
            let source = &vector.sources[at];
            let (values, poison) = packed_register(&wave.registers, source, highs[at], negations[at], room);
            // Nothing public says what is above a constant, and compilers have it read where nobody uses the result.
            let above = highs[at] && matches!(source.at, Source::Constant(_));
            (values, if above { u64::MAX } else { poison })
        };
        let (a, a_poison) = part(0, first);
        let (b, b_poison) = part(1, second);
        let (c, c_poison) = if vector.count > 2 { part(2, third) } else { (a, 0) };
        *poison = (a_poison | b_poison | c_poison) & exec;
        run(&wave.mode, &mut out[..lanes], [&a[..lanes], &b[..lanes], &c[..lanes]]);
        if vector.output.clamp {
            for value in &mut out[..lanes] {
                *value = number::clamp::<F32>(&wave.mode, *value);
            }
        }
    }
    if let Destination::Vgpr(to) = vector.to {
        wave.registers.write(to, &room.out, exec, poison[0]);
        wave.registers.write(to + 1, &room.second, exec, poison[1]);
    }
}

/// V_MOV_B64: each register by itself, so that one that nobody wrote does not taint the other.
pub(super) fn move_pair(wave: &mut Wave, room: &mut Temporaries, vector: &Vector, exec: u64) {
    let source = &vector.sources[0];
    let parts = match source.at {
        Source::Vgpr(at) => [Source::Vgpr(at), Source::Vgpr(at + 1)],
        Source::Sgpr(at) => [Source::Sgpr(at), Source::Sgpr(at + 1)],
        Source::Constant(value) => [Source::Constant(value), Source::Constant(value >> 32)],
        other => [other, Source::Constant(0)],
    };
    let mut poison = [CLEAN; 2];
    let mut written = u64::MAX;
    for (half, at) in parts.into_iter().enumerate() {
        let part = VectorSource { at, kind: Kind::U32, ..*source };
        let dpp = vector.dpp.as_ref().map(|dpp| (dpp, exec, &mut written));
        let into = if half == 0 { &mut room.out } else { &mut room.second };
        poison[half] = narrow(&wave.registers, &part, dpp, into);
    }
    if let Destination::Vgpr(to) = vector.to {
        wave.registers.write_bytes(to, &room.out, exec & written, poison[0]);
        wave.registers.write_bytes(to + 1, &room.second, exec & written, poison[1]);
    }
}

/// V_FMA_MIX: `op_sel_hi` says that a source is FP16, `op_sel` which half of the register.
pub(super) fn mix(wave: &mut Wave, room: &mut Temporaries, vector: &Vector, result: Kind, exec: u64) {
    let lanes = wave.registers.lanes;
    let mut poison = 0;
    for at in 0..vector.count {
        let part = match (vector.halves.high[at], vector.halves.low[at]) {
            (false, _) => Part::Whole,
            (true, false) => Part::Low,
            (true, true) => Part::High,
        };
        let source = &vector.sources[at];
        let values = &mut room.sources[at];
        let plain = VectorSource { change: Change::default(), ..*source };
        let bytes = narrow(&wave.registers, &plain, None, values);
        poison |= match part {
            Part::Whole => any(&bytes),
            Part::Low => bytes[0] | bytes[1],
            Part::High => bytes[2] | bytes[3],
        };
        for value in values.iter_mut() {
            *value = number::mix_source(&wave.mode, part, *value);
            if source.change.absolute {
                *value &= !(1 << 31);
            }
            if source.change.negate {
                *value ^= 1 << 31;
            }
        }
    }
    let [a, b, c] = &room.sources;
    for lane in 0..lanes {
        let (a, b, c) = (a[lane], b[lane], c[lane]);
        room.out[lane] = match result {
            Kind::F16 => u32::from(number::fma_mix_f16(&wave.mode, a, b, c)),
            _ => number::fma_mix(&wave.mode, a, b, c),
        };
    }
    put(wave, room, vector, exec, [poison; 4]);
}

/// V_PK_MOV_B32: `op_sel` says which register of the first source is the lower result, which of the second the upper one.
pub(super) fn packed_move(wave: &mut Wave, room: &mut Temporaries, vector: &Vector, exec: u64) {
    let Destination::Vgpr(to) = vector.to else { return };
    let ([first, second, _], high) = (&mut room.sources, vector.halves.low);
    let (low, low_poison) = packed_register(&wave.registers, &vector.sources[0], high[0], false, first);
    room.out = *low;
    let (high, high_poison) = packed_register(&wave.registers, &vector.sources[1], high[1], false, second);
    room.second = *high;
    wave.registers.write(to, &room.out, exec, low_poison);
    wave.registers.write(to + 1, &room.second, exec, high_poison);
}
