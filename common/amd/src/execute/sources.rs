//! Sources of vector instructions: broadcasts, parts of registers, signs, and the lanes that DPP reads.

use crate::instruction::{Change, Dpp, Permutation, Select, Source, VectorSource};
use crate::operations::vector::Kind;
use crate::registers::{CLEAN, LANES, Poison, Registers, Vgpr, spread};

/// The value of a scalar source, and whether all bits of it were written.
#[inline]
pub(super) fn scalar(registers: &Registers, at: Source, wide: bool) -> (u64, bool) {
    let (value, poison) = super::scalar::read(registers, at, if wide { 2 } else { 1 });
    (value, poison != 0)
}

/// A dword of each lane, as it is in the registers.
#[inline]
pub(super) fn dwords<'a>(registers: &'a Registers, at: Source, room: &'a mut Vgpr) -> &'a Vgpr {
    match at {
        Source::Vgpr(at) => &registers.v[usize::from(at)],
        Source::Sgpr(at) => {
            *room = [registers.s[usize::from(at)]; LANES];
            room
        }
        Source::Constant(value) => {
            *room = [value as u32; LANES];
            room
        }
        other => {
            *room = [scalar(registers, other, false).0 as u32; LANES];
            room
        }
    }
}

/// Lanes of a dword that are not wholly written.
#[inline]
pub(super) fn poisoned(registers: &Registers, at: Source) -> u64 {
    match at {
        Source::Vgpr(at) => registers.poisoned(at),
        Source::Sgpr(at) if registers.s_poison[usize::from(at)] == 0 => 0,
        Source::Constant(_) => 0,
        other => {
            if scalar(registers, other, false).1 {
                u64::MAX
            } else {
                0
            }
        }
    }
}

/// Which lane a lane reads, `None` if there is none.
pub(super) fn source_lane(permutation: Permutation, lane: usize, lanes: usize) -> Option<usize> {
    let (row, within) = (lane & !15, lane & 15);
    let in_row = |at: Option<usize>| at.filter(|at| *at < 16).map(|at| row + at);
    match permutation {
        Permutation::Quad(select) => Some((lane & !3) + usize::from(select[lane & 3])),
        Permutation::Eight(select) => Some((lane & !7) + usize::from(select[lane & 7])),
        Permutation::RowShiftLeft(by) => in_row(Some(within + usize::from(by))),
        Permutation::RowShiftRight(by) => in_row(within.checked_sub(usize::from(by))),
        Permutation::RowRotateRight(by) => Some(row + (within + 16 - usize::from(by & 15)) % 16),
        Permutation::WaveShiftLeft => Some(lane + 1).filter(|at| *at < lanes),
        Permutation::WaveRotateLeft => Some((lane + 1) % lanes),
        Permutation::WaveShiftRight => lane.checked_sub(1),
        Permutation::WaveRotateRight => Some((lane + lanes - 1) % lanes),
        Permutation::RowMirror => Some(row + 15 - within),
        Permutation::RowHalfMirror => Some((lane & !7) + 7 - (lane & 7)),
        Permutation::Broadcast15 => row.checked_sub(1),
        Permutation::Broadcast31 => (lane >= 32).then_some(31),
        Permutation::RowShare(at) => Some(row + usize::from(at)),
        Permutation::RowXor(mask) => Some(row + (within ^ usize::from(mask))),
    }
}

/// What DPP makes of a source: its values and poison are permuted in place; the lanes that are written.
pub(super) fn permute<T: Copy + Default, const DWORDS: usize>(
    dpp: &Dpp,
    exec: u64,
    lanes: usize,
    values: &mut [T; LANES],
    poison: &mut [Poison; DWORDS],
) -> u64 {
    let (old, old_poison) = (*values, *poison);
    let (mut written, mut new_poison) = (0, [CLEAN; DWORDS]);
    for (lane, value) in values.iter_mut().enumerate().take(lanes) {
        let enabled = dpp.row_mask >> (lane / 16) & 1 == 1 && dpp.bank_mask >> (lane % 16 / 4) & 1 == 1;
        let from = source_lane(dpp.permutation, lane, lanes).filter(|at| exec >> at & 1 == 1 || dpp.fetch_inactive);
        match from {
            Some(at) => {
                *value = old[at];
                for (new, old) in new_poison.as_flattened_mut().iter_mut().zip(old_poison.as_flattened()) {
                    *new |= (old >> at & 1) << lane;
                }
            }
            None => *value = T::default(),
        }
        // A lane without a source is written with 0 in its place, or not at all ("DPP", BOUND_CTRL).
        written |= u64::from(enabled && (from.is_some() || dpp.bound_zero)) << lane;
    }
    *poison = new_poison;
    written
}

/// A source of at most 32 bits, changed as the instruction says, into `room`; its poison. A 16-bit one is in the lower half.
pub(super) fn narrow(
    registers: &Registers,
    source: &VectorSource,
    dpp: Option<(&Dpp, u64, &mut u64)>,
    room: &mut Vgpr,
) -> Poison {
    let mut poison = match source.at {
        Source::Vgpr(at) => {
            *room = registers.v[usize::from(at)];
            registers.poison[usize::from(at)]
        }
        other => {
            let (value, unwritten) = super::scalar::read(registers, other, 1);
            *room = [value as u32; LANES];
            spread(unwritten as u32)
        }
    };
    if let Some((dpp, exec, written)) = dpp {
        *written = permute(dpp, exec, registers.lanes, room, std::array::from_mut(&mut poison));
    }
    change(source.kind, source.change, room, &mut poison);
    poison
}

/// The bytes of a half.
fn half(poison: &Poison, at: usize) -> [u64; 2] {
    [poison[2 * at], poison[2 * at + 1]]
}

fn change(kind: Kind, change: Change, room: &mut Vgpr, poison: &mut Poison) {
    match change.select {
        Some(Select::Byte(at)) => {
            let shift = 8 * u32::from(at);
            for value in room.iter_mut() {
                let byte = *value >> shift & 0xff;
                *value = if change.extend { byte as i8 as u32 } else { byte };
            }
            let byte = poison[usize::from(at)];
            *poison = if change.extend { [byte; 4] } else { [byte, 0, 0, 0] };
        }
        Some(Select::Word(at)) => {
            let shift = 16 * u32::from(at);
            for value in room.iter_mut() {
                let word = *value >> shift & 0xffff;
                *value = if change.extend { word as i16 as u32 } else { word };
            }
            let [low, high] = half(poison, usize::from(at));
            *poison = if change.extend { [low, high, high, high] } else { [low, high, 0, 0] };
        }
        Some(Select::Halves { low, high, negate }) => {
            let [low, high] = [low, high].map(|upper| if upper { 16 } else { 0 });
            let flip = [(negate[0], 1 << 15), (negate[1], 1 << 31)];
            let flip = flip.iter().filter(|(negated, _)| *negated).fold(0, |bits, (_, bit)| bits | bit);
            room.iter_mut().for_each(|value| *value = (*value >> low & 0xffff | *value >> high << 16) ^ flip);
            let [low, high] = [half(poison, low / 16), half(poison, high / 16)];
            *poison = [low[0], low[1], high[0], high[1]];
        }
        Some(Select::Dword) | None => {}
    }
    if kind.is_half() {
        if change.high {
            room.iter_mut().for_each(|value| *value >>= 16);
            (poison[0], poison[1]) = (poison[2], poison[3]);
        }
        room.iter_mut().for_each(|value| *value &= 0xffff);
        (poison[2], poison[3]) = (0, 0);
    }
    let sign = kind.sign() as u32;
    if change.absolute {
        room.iter_mut().for_each(|value| *value &= !sign);
    }
    if change.negate {
        room.iter_mut().for_each(|value| *value ^= sign);
    }
}

/// A source as 64 bits, narrower ones zero-extended; the poison of each of its dwords.
pub(super) fn wide(
    registers: &Registers,
    source: &VectorSource,
    dpp: Option<(&Dpp, u64, &mut u64)>,
    room: &mut [u64; LANES],
    narrow_room: &mut Vgpr,
) -> [Poison; 2] {
    if !source.kind.is_wide() {
        let poison = narrow(registers, source, dpp, narrow_room);
        for (wide, value) in room.iter_mut().zip(narrow_room.iter()) {
            *wide = u64::from(*value);
        }
        return [poison, CLEAN];
    }
    let mut poison = match source.at {
        Source::Vgpr(at) => {
            let (low, high) = (&registers.v[usize::from(at)], &registers.v[usize::from(at) + 1]);
            for ((wide, low), high) in room.iter_mut().zip(low).zip(high) {
                *wide = u64::from(*low) | u64::from(*high) << 32;
            }
            [registers.poison[usize::from(at)], registers.poison[usize::from(at) + 1]]
        }
        other => {
            let (value, unwritten) = super::scalar::read(registers, other, 2);
            *room = [value; LANES];
            [unwritten as u32, (unwritten >> 32) as u32].map(spread)
        }
    };
    if let Some((dpp, exec, written)) = dpp {
        *written = permute(dpp, exec, registers.lanes, room, &mut poison);
    }
    let sign = source.kind.sign();
    if source.change.absolute {
        room.iter_mut().for_each(|value| *value &= !sign);
    }
    if source.change.negate {
        room.iter_mut().for_each(|value| *value ^= sign);
    }
    poison
}

/// A source as 64 bits, without any change; lanes of which something was not written.
#[inline]
pub(super) fn wide_simple(registers: &Registers, source: &VectorSource, room: &mut [u64; LANES]) -> u64 {
    let room = &mut room[..registers.lanes];
    match source.at {
        Source::Vgpr(at) if source.kind.is_wide() => {
            let (low, high) = (&registers.v[usize::from(at)], &registers.v[usize::from(at) + 1]);
            for ((wide, low), high) in room.iter_mut().zip(low).zip(high) {
                *wide = u64::from(*low) | u64::from(*high) << 32;
            }
            registers.poisoned(at) | registers.poisoned(at + 1)
        }
        Source::Vgpr(at) => {
            for (wide, value) in room.iter_mut().zip(&registers.v[usize::from(at)]) {
                *wide = u64::from(*value);
            }
            registers.poisoned(at)
        }
        other => {
            let (value, unwritten) = scalar(registers, other, source.kind.is_wide());
            room.fill(if source.kind.is_wide() { value } else { value & 0xffff_ffff });
            if unwritten { u64::MAX } else { 0 }
        }
    }
}

/// One half of a packed source.
pub(super) fn packed_half(
    registers: &Registers,
    source: &VectorSource,
    high: bool,
    negate: bool,
    room: &mut Vgpr,
) -> u64 {
    let poison = match source.at {
        Source::Vgpr(at) => {
            *room = registers.v[usize::from(at)];
            let bytes = half(&registers.poison[usize::from(at)], usize::from(high));
            bytes[0] | bytes[1]
        }
        other => {
            let (value, unwritten) = scalar(registers, other, false);
            *room = [value as u32; LANES];
            if unwritten { u64::MAX } else { 0 }
        }
    };
    let (shift, flip) = (if high { 16 } else { 0 }, if negate { 0x8000 } else { 0 });
    room.iter_mut().for_each(|value| *value = (*value >> shift & 0xffff) ^ flip);
    poison
}

/// One register of a packed pair, and its poison.
#[inline]
pub(super) fn packed_register<'a>(
    registers: &'a Registers,
    source: &VectorSource,
    high: bool,
    negate: bool,
    room: &'a mut Vgpr,
) -> (&'a Vgpr, u64) {
    let at = match source.at {
        Source::Vgpr(at) => Source::Vgpr(at + u16::from(high)),
        Source::Sgpr(at) => Source::Sgpr(at + u8::from(high)),
        other => other,
    };
    let poison = poisoned(registers, at);
    if !negate {
        return (dwords(registers, at, room), poison);
    }
    match at {
        Source::Vgpr(at) => *room = registers.v[usize::from(at)],
        other => *room = [scalar(registers, other, false).0 as u32; LANES],
    }
    room.iter_mut().for_each(|value| *value ^= 1 << 31);
    (room, poison)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_read_others_and_rows_have_ends() {
        let at = |permutation, lane| source_lane(permutation, lane, 64);
        assert_eq!(at(Permutation::Quad([1, 0, 3, 2]), 5), Some(4));
        assert_eq!(at(Permutation::RowShiftRight(1), 16), None);
        assert_eq!(at(Permutation::RowShiftRight(1), 17), Some(16));
        assert_eq!(at(Permutation::RowShiftLeft(8), 8), None);
        assert_eq!(at(Permutation::RowShiftLeft(8), 7), Some(15));
        assert_eq!(at(Permutation::RowRotateRight(1), 16), Some(31));
        assert_eq!(at(Permutation::RowMirror, 17), Some(30));
        assert_eq!(at(Permutation::RowHalfMirror, 17), Some(22));
        assert_eq!(at(Permutation::Broadcast15, 15), None);
        assert_eq!(at(Permutation::Broadcast15, 16), Some(15));
        assert_eq!(at(Permutation::Broadcast15, 63), Some(47));
        assert_eq!(at(Permutation::Broadcast31, 31), None);
        assert_eq!(at(Permutation::Broadcast31, 40), Some(31));
        assert_eq!(at(Permutation::WaveShiftRight, 0), None);
        assert_eq!(at(Permutation::WaveRotateRight, 0), Some(63));
        assert_eq!(at(Permutation::WaveShiftLeft, 63), None);
        assert_eq!(at(Permutation::RowXor(8), 17), Some(25));
        assert_eq!(at(Permutation::RowShare(3), 40), Some(35));
        assert_eq!(at(Permutation::Eight([7, 6, 5, 4, 3, 2, 1, 0]), 9), Some(14));
    }
}
