//! All lanes of a wave at once, where they go to one buffer or to LDS and nothing about that needs a thought.

use crate::bank::Bank;
use crate::bank::lanes::Lanes;
use crate::execute::address::Addresses;
use crate::execute::{Block, PRIVATE_BASE, SHARED_BASE};
use crate::instruction::Memory;
use crate::operations::memory::Space;
use crate::registers::LANES;
use crate::shadow::Toucher;
use crate::wave::Wave;

/// Upper halves of flat addresses that are in no buffer.
const APERTURES: [u64; 2] = [SHARED_BASE >> 32, PRIVATE_BASE >> 32];

impl Block<'_> {
    /// Where lanes go; those of a buffer's instruction that are out of range go nowhere. `None` where each has to be looked at.
    fn lanes(
        &self,
        wave: &Wave,
        memory: &Memory,
        addresses: &Addresses,
        exec: u64,
        dwords: usize,
        offset: i64,
    ) -> Option<Lanes> {
        let count = wave.registers.lanes;
        let mut lanes = Lanes { of: [0; LANES], exec, count, dwords };
        match (memory.space, &addresses.descriptor) {
            (Space::Global, _) => lanes.of = addresses.of,
            (Space::Flat, _) => {
                let shared = |address: &u64| APERTURES.contains(&(address >> 32));
                if addresses.of[..count].iter().fold(false, |any, address| any | shared(address)) {
                    return None;
                }
                lanes.of = addresses.of;
            }
            (Space::Lds, _) => {
                for (of, address) in lanes.of.iter_mut().zip(&addresses.of) {
                    *of = u64::from((*address as u32).wrapping_add(offset as u32));
                }
            }
            (Space::Buffer, Some((descriptor, indices, scalar))) if !descriptor.swizzle => {
                lanes.exec = 0;
                for (lane, (address, index)) in addresses.of[..count].iter().zip(indices).enumerate() {
                    if let Some(at) = descriptor.address(*index, *address, *scalar, lane, 4 * dwords as u64) {
                        lanes.of[lane] = at;
                        lanes.exec |= 1 << lane;
                    }
                }
                lanes.exec &= exec;
            }
            _ => return None,
        }
        Some(lanes)
    }

    /// The bytes that all lanes go to.
    fn bank(&mut self, memory: &Memory, lanes: &mut Lanes) -> Option<Bank<'_>> {
        let bank = if memory.space == Space::Lds {
            self.own.lds.bank()
        } else {
            let first = lanes.of.get(lanes.exec.trailing_zeros() as usize)?;
            let (bank, base) = self.memory.bank_at(*first, &mut self.hint)?;
            lanes.of.iter_mut().for_each(|at| *at = at.wrapping_sub(base));
            bank
        };
        lanes.is_within(bank.bytes.len()).then_some(bank)
    }

    /// Whether all is loaded.
    pub(super) fn load_lanes(
        &mut self,
        wave: &mut Wave,
        memory: &Memory,
        addresses: &Addresses,
        exec: u64,
        (to, dwords, offset): (u16, usize, i64),
        by: &[Toucher<'_>; 2],
    ) -> bool {
        if self.races.has_planned() {
            return false;
        }
        let Some(mut lanes) = self.lanes(wave, memory, addresses, exec, dwords, offset) else { return false };
        let to = usize::from(to)..usize::from(to) + dwords;
        let by = &by[usize::from(memory.space == Space::Lds)];
        if lanes.exec != 0 {
            let Some(mut bank) = self.bank(memory, &mut lanes) else { return false };
            if !bank.load_lanes(&lanes, &mut wave.registers.v[to.clone()], by) {
                return false;
            }
        }
        let nowhere = exec & !lanes.exec;
        let registers = &mut wave.registers;
        for (values, poison) in registers.v[to.clone()].iter_mut().zip(&mut registers.poison[to]) {
            *poison = poison.map(|byte| byte & !exec);
            if nowhere != 0 {
                super::lanes_of(nowhere).for_each(|lane| values[lane] = 0);
            }
        }
        true
    }

    /// Whether all is stored; nobody wrote none of it.
    pub(super) fn store_lanes(
        &mut self,
        wave: &mut Wave,
        memory: &Memory,
        addresses: &Addresses,
        exec: u64,
        (data, dwords, offset): (usize, usize, i64),
        by: &[Toucher<'_>; 2],
    ) -> bool {
        let Some(mut lanes) = self.lanes(wave, memory, addresses, exec, dwords, offset) else { return false };
        let lds = memory.space == Space::Lds;
        let by = &by[usize::from(lds)];
        let keys = (self.two_units && !lds).then(|| lanes.each().map(|(_, at)| at as u64).collect());
        if lanes.exec != 0 {
            if self.bank(memory, &mut lanes).is_none() || !lds && !self.memory.prepare_store(self.hint, &lanes) {
                return false;
            }
            let bank = if lds { Some(self.own.lds.bank()) } else { self.memory.bank_of(self.hint) };
            let data = &wave.registers.v[data..data + dwords];
            if !bank.is_some_and(|mut bank| bank.store_lanes(&lanes, data, by)) {
                return false;
            }
        }
        if let Some(keys) = keys {
            wave.order.store(keys, 4 * dwords);
        }
        true
    }
}
