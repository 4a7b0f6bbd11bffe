//! Operations whose results are in several registers of a lane: conversions of 32 elements, and sums of differences.

use super::sources::{dwords, poisoned};
use crate::instruction::{Conversion, Sums};
use crate::operations::media::masked_sums;
use crate::operations::scaled::BLOCK;
use crate::registers::{CLEAN, LANES};
use crate::verdict::Step;
use crate::wave::Wave;

pub(super) fn run(wave: &mut Wave, conversion: &Conversion) -> Step {
    let Conversion { blocks, to, from, random, scale } = conversion;
    let registers = &wave.registers;
    let exec = registers.exec();
    let mut room = [[0; LANES]; 2];
    let [random_room, scale_room] = &mut room;
    let (random_values, scales) = (dwords(registers, *random, random_room), dwords(registers, *scale, scale_room));
    let unknown = poisoned(registers, *scale) | if blocks.stochastic { poisoned(registers, *random) } else { 0 };
    let [_, count] = blocks.registers();
    let (mut values, mut poison) = (vec![[0_u32; LANES]; count], vec![CLEAN; count]);
    for lane in (0..registers.lanes).filter(|lane| exec >> lane & 1 == 1) {
        let bits = blocks.from.bits();
        // Where an element is: its first register, and its lowest bit there.
        let place = |at: usize| {
            let (source, at) = if blocks.two { (from[at % 2], at / 2) } else { (from[0], at) };
            (usize::from(source) + at * bits / 32, at * bits % 32)
        };
        let elements = std::array::from_fn::<u32, BLOCK, _>(|at| {
            let (register, bit) = place(at);
            let upper = if bit + bits > 32 { registers.v[register + 1][lane] } else { 0 };
            let both = u64::from(registers.v[register][lane]) | u64::from(upper) << 32;
            (both >> bit) as u32 & (u32::MAX >> (32 - bits))
        });
        let results = blocks.convert(&wave.mode, &elements, scales[lane], random_values[lane]);
        for (at, result) in results.into_iter().enumerate() {
            let (register, bit) = place(at);
            let mut bytes = bit / 8..(bit + bits).div_ceil(8);
            let bad = bytes.any(|byte| registers.poison[register + byte / 4][byte % 4] >> lane & 1 == 1);
            let (to_bits, bit) = (blocks.to.bits(), at * blocks.to.bits());
            let placed = u64::from(result) << (bit % 32);
            values[bit / 32][lane] |= placed as u32;
            if bit % 32 + to_bits > 32 {
                values[bit / 32 + 1][lane] |= (placed >> 32) as u32;
            }
            if bad || unknown >> lane & 1 == 1 {
                (bit / 8..(bit + to_bits).div_ceil(8)).for_each(|byte| poison[byte / 4][byte % 4] |= 1 << lane);
            }
        }
    }
    for (at, (values, poison)) in values.iter().zip(poison).enumerate() {
        wave.registers.write_bytes(to + at as u16, values, exec, poison);
    }
    Ok(())
}

/// V_MQSAD_U32_U8. A sum of which any source was not written counts as not written.
pub(super) fn sums(wave: &mut Wave, sums: &Sums) -> Step {
    let Sums { to, bytes: [low, high], reference, sums, saturate } = sums;
    let registers = &wave.registers;
    let exec = registers.exec();
    let sources = [*low, *high, *reference, sums[0], sums[1], sums[2], sums[3]];
    let mut room = [[0; LANES]; 7];
    for (source, room) in sources.iter().zip(&mut room) {
        let mut own = [0; LANES];
        *room = *dwords(registers, *source, &mut own);
    }
    let unwritten = sources.map(|source| poisoned(registers, source));
    let shared = unwritten[..3].iter().fold(0, |all, lanes| all | lanes);
    let [low, high, reference, sums @ ..] = &room;
    let mut results = [[0; LANES]; 4];
    for lane in 0..registers.lanes {
        let bytes = u64::from(low[lane]) | u64::from(high[lane]) << 32;
        let found = masked_sums(bytes, reference[lane], sums.map(|sum| sum[lane]), *saturate);
        results.iter_mut().zip(found).for_each(|(result, found)| result[lane] = found);
    }
    for (at, (values, own)) in results.iter().zip(&unwritten[3..]).enumerate() {
        wave.registers.write_bytes(to + at as u16, values, exec, [shared | own; 4]);
    }
    Ok(())
}
