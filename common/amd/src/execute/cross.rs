//! Data that moves between lanes, and between lanes and scalars.

use super::{index, scalar};
use crate::instruction::{Cross, Exchange, Source};
use crate::registers::{CLEAN, LANES, Registers, Vgpr, lane_bits};
use crate::verdict::{Fault, Raised, Step, Use};
use crate::wave::Wave;

fn unwritten(used: Use) -> Box<Raised> {
    Raised::wave(Fault::Unwritten { used, origin: None })
}

fn selector(registers: &Registers, source: Source) -> Step<usize> {
    let (value, poison) = scalar::read(registers, source, 1);
    if poison != 0 {
        return Err(unwritten(Use::Selector));
    }
    Ok(value as usize % registers.lanes)
}

fn lane_poison(registers: &Registers, at: u16, lane: usize) -> u32 {
    lane_bits(&registers.poison[usize::from(at)], lane)
}

pub(super) fn run(wave: &mut Wave, cross: &Cross) -> Step {
    let registers = &mut wave.registers;
    let exec = registers.exec();
    match *cross {
        Cross::ReadLane { to, from, lane } => {
            let lane = selector(registers, lane)?;
            let poison = lane_poison(registers, from, lane);
            registers.set(to, registers.v[usize::from(from)][lane], poison)
        }
        Cross::ReadFirstLane { to, from } => {
            // Lane 0 if no lane executes.
            let lane = if exec == 0 { 0 } else { exec.trailing_zeros() as usize };
            let poison = lane_poison(registers, from, lane);
            registers.set(to, registers.v[usize::from(from)][lane], poison)
        }
        Cross::WriteLane { to, value, lane } => {
            let lane = selector(registers, lane)?;
            let (value, poison) = scalar::read(registers, value, 1);
            let at = usize::from(to);
            registers.v[at][lane] = value as u32;
            for (byte, bits) in registers.poison[at].iter_mut().zip((poison as u32).to_le_bytes()) {
                *byte = *byte & !(1 << lane) | u64::from(bits != 0) << lane;
            }
            Ok(())
        }
        Cross::PermuteRow { to, from, selects, crossed, fetch_inactive, bound_zero } => {
            let (low, low_poison) = scalar::read(registers, selects[0], 1);
            let (high, high_poison) = scalar::read(registers, selects[1], 1);
            if low_poison | high_poison != 0 {
                return Err(unwritten(Use::Selector));
            }
            let select = low | high << 32;
            gather(registers, to, from, exec, |lane| {
                let row = lane & !15 ^ if crossed { 16 } else { 0 };
                let at = row + (select >> (lane % 16 * 4) & 15) as usize;
                // Lanes that EXEC leaves out give 0 or leave the destination alone ("V_PERMLANE16_B32").
                if exec >> at & 1 == 1 || fetch_inactive { Some(Some(at)) } else { bound_zero.then_some(None) }
            });
            Ok(())
        }
        Cross::PermuteByLane { to, from, select, crossed, fetch_inactive, bound_zero } => {
            check_addresses(registers, select, exec)?;
            let selects = registers.v[usize::from(select)];
            gather(registers, to, from, exec, |lane| {
                let row = lane & !15 ^ if crossed { 16 } else { 0 };
                let at = row + (selects[lane] & 15) as usize;
                if exec >> at & 1 == 1 || fetch_inactive { Some(Some(at)) } else { bound_zero.then_some(None) }
            });
            Ok(())
        }
        Cross::ExchangeHalves { to, from } => {
            if registers.lanes == LANES {
                let all = registers.all();
                gather(registers, to, from, all, |lane| Some(Some(lane ^ 32)));
            }
            Ok(())
        }
        Cross::SwapRows { first, second, rows } => {
            let (a, b) = (usize::from(first), usize::from(second));
            let (values, poison) = (registers.v[a], registers.poison[a]);
            let (others, other_poison) = (registers.v[b], registers.poison[b]);
            let (mut out, mut back) = (values, others);
            let (mut out_poison, mut back_poison) = (poison, other_poison);
            for upper in (0..registers.lanes).filter(|lane| lane / rows % 2 == 1) {
                let lower = upper - rows;
                (out[upper], back[lower]) = (others[lower], values[upper]);
                let bit = |of: u64, lane: usize| of >> lane & 1;
                for (byte, (out, back)) in out_poison.iter_mut().zip(&mut back_poison).enumerate() {
                    *out = *out & !(1 << upper) | bit(other_poison[byte], lower) << upper;
                    *back = *back & !(1 << lower) | bit(poison[byte], upper) << lower;
                }
            }
            registers.write_bytes(first, &out, exec, out_poison);
            registers.write_bytes(second, &back, exec, back_poison);
            Ok(())
        }
        Cross::Swap(first, second) => {
            swap(registers, first, second, exec);
            Ok(())
        }
        Cross::SwapRelative(first, second) => {
            let [first, second] = index::swapped(registers, first, second)?;
            swap(registers, first, second, exec);
            Ok(())
        }
        Cross::SwapHalves([first, second]) => {
            let [a, b] = [first, second].map(|(at, high)| half(registers, at, high));
            put_half(registers, first, &b, exec);
            put_half(registers, second, &a, exec);
            Ok(())
        }
    }
}

fn swap(registers: &mut Registers, first: u16, second: u16, exec: u64) {
    let (a, b) = (usize::from(first), usize::from(second));
    let (values, poison) = (registers.v[a], registers.poison[a]);
    let (others, other_poison) = (registers.v[b], registers.poison[b]);
    registers.write_bytes(first, &others, exec, other_poison);
    registers.write_bytes(second, &values, exec, poison);
}

/// Half a register of each lane, and what of it nobody wrote.
type Half = (Vgpr, [u64; 2]);

fn half(registers: &Registers, at: u16, high: bool) -> Half {
    let (values, poison) = (registers.v[usize::from(at)], registers.poison[usize::from(at)]);
    if high { (values.map(|value| value >> 16), [poison[2], poison[3]]) } else { (values, [poison[0], poison[1]]) }
}

fn put_half(registers: &mut Registers, (at, high): (u16, bool), (values, poison): &Half, exec: u64) {
    let (mut out, mut bytes) = (registers.v[usize::from(at)], registers.poison[usize::from(at)]);
    let (shift, keep) = if high { (16, 0xffff) } else { (0, 0xffff_0000) };
    for (out, value) in out.iter_mut().zip(values) {
        *out = *out & keep | (value & 0xffff) << shift;
    }
    bytes[shift / 8..][..2].copy_from_slice(poison);
    registers.write_bytes(at, &out, exec, bytes);
}

/// Writes each executing lane from the one that `source` says: `None` leaves it alone, `Some(None)` is 0.
fn gather(registers: &mut Registers, to: u16, from: u16, exec: u64, source: impl Fn(usize) -> Option<Option<usize>>) {
    let (values, old) = (registers.v[usize::from(from)], registers.poison[usize::from(from)]);
    let (mut out, mut poison, mut written): (Vgpr, _, _) = ([0; LANES], CLEAN, 0);
    for lane in (0..registers.lanes).filter(|lane| exec >> lane & 1 == 1) {
        let Some(at) = source(lane) else { continue };
        written |= 1 << lane;
        if let Some(at) = at.filter(|at| *at < registers.lanes) {
            out[lane] = values[at];
            for (new, old) in poison.iter_mut().zip(old) {
                *new |= (old >> at & 1) << lane;
            }
        }
    }
    registers.write_bytes(to, &out, written, poison);
}

impl Exchange {
    pub fn to(self) -> u16 {
        match self {
            Self::Permute { to, .. } | Self::BackwardPermute { to, .. } | Self::Swizzle { to, .. } => to,
        }
    }
}

/// DS_PERMUTE, DS_BPERMUTE, DS_SWIZZLE: through the paths of LDS, without touching it.
pub(super) fn exchange(wave: &mut Wave, exchange: Exchange) -> Step {
    let registers = &mut wave.registers;
    let exec = registers.exec();
    let lanes = registers.lanes;
    let lane_of = |registers: &Registers, address: u16, lane: usize, offset: u32| {
        let value = registers.v[usize::from(address)][lane].wrapping_add(offset);
        (value / 4) as usize % lanes
    };
    match exchange {
        Exchange::BackwardPermute { to, address, data, offset, fetch_inactive } => {
            check_addresses(registers, address, exec)?;
            let addresses: Vec<usize> = (0..lanes).map(|lane| lane_of(registers, address, lane, offset)).collect();
            // Lanes that EXEC leaves out give 0.
            gather(registers, to, data, exec, |lane| {
                let at = addresses.get(lane).copied()?;
                Some(Some(at).filter(|at| exec >> at & 1 == 1 || fetch_inactive))
            });
        }
        Exchange::Permute { to, address, data, offset } => {
            check_addresses(registers, address, exec)?;
            let (mut out, mut poison) = ([0; LANES], CLEAN);
            let from = usize::from(data);
            for lane in (0..lanes).filter(|lane| exec >> lane & 1 == 1) {
                let at = lane_of(registers, address, lane, offset);
                out[at] = registers.v[from][lane];
                for (new, old) in poison.iter_mut().zip(registers.poison[from]) {
                    *new = *new & !(1 << at) | (old >> lane & 1) << at;
                }
            }
            registers.write_bytes(to, &out, exec, poison);
        }
        Exchange::Swizzle { to, data, how } => {
            gather(registers, to, data, exec, |lane| {
                let at = swizzled(how, lane);
                Some(Some(at).filter(|at| exec >> at & 1 == 1))
            });
        }
    }
    Ok(())
}

fn check_addresses(registers: &Registers, address: u16, exec: u64) -> Step {
    let bad = registers.poisoned(address) & exec;
    if bad == 0 {
        return Ok(());
    }
    Err(Raised::at(bad.trailing_zeros() as usize, Fault::Unwritten { used: Use::Selector, origin: None }))
}

/// "DS_SWIZZLE_B32": groups of four lanes, rotations and masks within 32 lanes.
fn swizzled(how: u16, lane: usize) -> usize {
    let (group, within) = (lane & !31, lane & 31);
    if how & 0x8000 == 0 {
        let [and, or, xor] = [0, 5, 10].map(|shift| usize::from(how >> shift & 31));
        return group + ((within & and | or) ^ xor);
    }
    if how >= 0xc000 {
        // Rotation: bit 10 is the direction (0 left), bits 5 to 9 how far, bits 0 to 4 which bits of a lane's number stay.
        let (by, stay) = (usize::from(how >> 5 & 31), usize::from(how & 31));
        let by = if how >> 10 & 1 == 0 { by } else { 32 - by };
        return group + (within & stay | (within + by) & 31 & !stay);
    }
    (lane & !3) + usize::from(how >> (2 * (lane & 3)) & 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swizzles_have_patterns() {
        // Quad: each lane's source is two bits.
        assert_eq!([0, 1, 2, 3, 6].map(|lane| swizzled(0x8000 | 0b01_00_11_10, lane)), [2, 3, 0, 1, 4]);
        // SWAP,16 is xor 16 with all bits kept.
        assert_eq!([0, 17, 40].map(|lane| swizzled(0x1f | 16 << 10, lane)), [16, 1, 56]);
        // BROADCAST of the first of 8: and 0x18.
        assert_eq!([0, 7, 9, 33].map(|lane| swizzled(0x18, lane)), [0, 0, 8, 32]);
        assert_eq!([0, 31].map(|lane| swizzled(0xc000 | 1 << 5, lane)), [1, 0]);
    }
}
