//! Typed buffers and images: elements that are converted on their way ("Buffer Data" of the instruction set documents).
//!
//! All of an element is read or written, or nothing where it is out of range. A component of which any byte was not written counts as not
//! written, unless it comes as it is.

use std::rc::Rc;

use super::lanes_of;
use crate::execute::Block;
use crate::execute::address::{Addresses, To};
use crate::instruction::Memory;
use crate::target::Generation;
use crate::typed::{Format, IDENTITY, MOST, Select, Typed, format, number};
use crate::verdict::{Access, Fault, Raised, Step};
use crate::wave::Wave;

/// Bits of a component in registers.
const WHOLE: u32 = 32;
const HALF: u32 = 16;

/// What an instruction's elements are in memory, and where their components go.
pub(super) struct Element {
    pub format: Format,
    select: [Select; MOST],
}

pub(super) fn refused(what: impl Into<String>) -> Box<Raised> {
    Raised::wave(Fault::Unimplemented { what: what.into() })
}

/// Where a component is in registers: the register, and the shift of its lowest bit.
fn register(typed: Typed, first: u16, component: usize) -> (usize, u32) {
    let first = usize::from(first);
    match typed.halves {
        false => (first + component, 0),
        true if typed.high => (first, HALF),
        true => (first + component / 2, HALF * (component as u32 % 2)),
    }
}

/// The bytes of a register that a component has: the first one, and how many.
fn bytes_of(typed: Typed, shift: u32) -> std::ops::Range<usize> {
    let first = (shift / 8) as usize;
    first..first + if typed.halves { 2 } else { 4 }
}

/// Writes a component of a lane, of which some bytes were not written.
pub(super) fn write(wave: &mut Wave, typed: Typed, to: u16, component: usize, lane: usize, value: u32, unwritten: u16) {
    let (at, shift) = register(typed, to, component);
    let kept = if typed.halves { !(0xffff << shift) } else { 0 };
    let old = wave.registers.v[at][lane];
    wave.registers.v[at][lane] = old & kept | value << shift;
    for (byte, of) in bytes_of(typed, shift).enumerate() {
        let poison = &mut wave.registers.poison[at][of];
        *poison = *poison & !(1 << lane) | u64::from(unwritten >> byte & 1) << lane;
    }
}

impl Element {
    /// # Errors
    /// The format is none, or is not executed.
    pub fn of(typed: Typed, addresses: &Addresses, generation: Generation, stores: bool) -> Step<Self> {
        let (number, last) = match (&addresses.descriptor, &addresses.image) {
            (Some((descriptor, ..)), _) if descriptor.swizzle => {
                return Err(refused("a typed access to a swizzled buffer"));
            }
            (Some((descriptor, ..)), _) => {
                (typed.format.unwrap_or_else(|| number(descriptor.last, generation)), descriptor.last)
            }
            (None, Some(image)) => (image.format, image.select),
            (None, None) => return Err(refused("a typed access without a descriptor")),
        };
        let found = format(number, generation);
        let format = found.ok_or_else(|| refused(format!("format {number} of a typed buffer or an image")))?;
        if let Some(what) = format.refusal(typed.halves, stores) {
            return Err(refused(what));
        }
        let select = match typed.format {
            Some(_) => IDENTITY,
            None => Select::of(last).ok_or_else(|| refused("a reserved DST_SEL of a typed buffer or an image"))?,
        };
        Ok(Self { format, select })
    }

    /// The bytes of dwords.
    pub fn joined(dwords: &[u32]) -> u128 {
        dwords.iter().rev().fold(0, |all, dword| all << WHOLE | u128::from(*dword))
    }

    /// The bits of a component in memory, how many they are, and which of its bytes were not written; `None` of one that is not there.
    fn raw(&self, bytes: u128, unwritten: u16, of: u8) -> Option<(u32, u32, u16)> {
        let (low, bits) = self.format.place(usize::from(of))?;
        let raw = (bytes >> low) as u32 & (u32::MAX >> (WHOLE - bits));
        let (first, last) = (low / 8, (low + bits - 1) / 8);
        Some((raw, bits, unwritten >> first & ((1 << (last - first + 1)) - 1)))
    }

    /// What a component of an element is in registers, and which of its bytes were not written.
    pub fn component(&self, bytes: u128, unwritten: u16, chosen: usize, typed: Typed) -> (u32, u16) {
        match self.select.get(chosen) {
            None | Some(Select::Zero) => (0, 0),
            Some(Select::One) => (self.one(typed), 0),
            Some(Select::Component(of)) => match self.raw(bytes, unwritten, *of) {
                Some((raw, bits, unwritten)) => {
                    let as_it_is = bits == WHOLE && !typed.halves;
                    let all = if unwritten == 0 { 0 } else { 15 };
                    (self.format.load(raw, bits, typed.halves), if as_it_is { unwritten } else { all })
                }
                None => (0, 0),
            },
        }
    }

    /// The same of a mean of elements, each with its part.
    pub fn mean(&self, elements: &[((u128, u16), f64)], chosen: usize, typed: Typed) -> (u32, u16) {
        let (mut sum, mut poison) = (0.0, 0);
        let Some(Select::Component(of)) = self.select.get(chosen) else { return self.component(0, 0, chosen, typed) };
        let Some((_, bits)) = self.format.place(usize::from(*of)) else { return (0, 0) };
        for ((bytes, unwritten), part) in elements {
            let Some((raw, bits, unwritten)) = self.raw(*bytes, *unwritten, *of) else { continue };
            sum += part * self.format.value(raw, bits);
            poison |= if unwritten == 0 { 0 } else { 15 };
        }
        (self.format.mean(sum, bits, typed.halves), poison)
    }

    /// The bytes of an element with components that are 1, and 0 otherwise.
    pub fn border(&self, is_one: [bool; MOST]) -> u128 {
        let places = is_one.into_iter().enumerate().filter(|(_, is_one)| *is_one);
        let places = places.filter_map(|(component, _)| self.format.place(component));
        places.fold(0, |all, (low, bits)| all | u128::from(self.format.one(bits)) << low)
    }

    /// 1 in registers.
    fn one(&self, typed: Typed) -> u32 {
        match (self.format.is_integer(), typed.halves) {
            (true, _) => 1,
            (false, true) => 0x3c00,
            (false, false) => 1f32.to_bits(),
        }
    }

    /// Where each component in memory comes from: its number in registers.
    ///
    /// # Errors
    /// Nothing says what is stored there.
    fn sources(&self, typed: Typed, generation: Generation) -> Step<Vec<usize>> {
        let from = |component: usize| {
            let wanted = Select::Component(component as u8);
            let number = self.select.iter().position(|select| *select == wanted)?;
            // "The first component is replicated to fill in the missing ones" (RDNA 4).
            let first = (generation == Generation::Rdna4).then_some(0);
            typed.each().position(|chosen| chosen == number).or(first)
        };
        let all: Option<Vec<usize>> = (0..self.format.count()).map(from).collect();
        all.ok_or_else(|| refused("a store of fewer components than the format has"))
    }
}

impl Block<'_> {
    /// # Errors
    /// The address is no multiple of what the element's is.
    pub(super) fn check_element(&self, to: To, format: &Format, access: Access, lane: usize) -> Step {
        match to {
            To::Memory(address) if !address.is_multiple_of(format.alignment()) => {
                let (bytes, place) = (format.bytes() as u32, self.memory.place(address));
                Err(Raised::at(lane, Fault::Misaligned { access, bytes, place }))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn load_typed(
        &mut self,
        wave: &mut Wave,
        memory: &Memory,
        addresses: &Addresses,
        exec: u64,
        typed: Typed,
    ) -> Step {
        let element = Element::of(typed, addresses, self.target.generation, false)?;
        let bytes = element.format.bytes();
        let clock = Rc::clone(&wave.order.clock);
        let by = self.touchers(wave, &clock, memory, exec);
        for lane in lanes_of(exec) {
            let to = self.resolve(memory, addresses, lane, bytes as u64);
            self.check_element(to, &element.format, Access::Read, lane)?;
            let acquiring = memory.sync.then(|| self.acquiring(wave, memory, &to, by));
            let by = acquiring.as_ref().unwrap_or(&by);
            let loaded = self.lane_load(wave, to, bytes, lane, by).map_err(|fault| Raised::at(lane, fault))?;
            if loaded.unwritten != 0 {
                self.remember(wave, memory, addresses, lane, bytes, 0);
            }
            let bytes = Element::joined(&loaded.dwords);
            for (component, chosen) in typed.each().enumerate() {
                let (value, poison) = element.component(bytes, loaded.unwritten, chosen, typed);
                write(wave, typed, memory.to, component, lane, value, poison);
            }
            self.settle(wave, lane, by, &clock);
        }
        Ok(())
    }

    pub(super) fn store_typed(
        &mut self,
        wave: &mut Wave,
        memory: &Memory,
        addresses: &Addresses,
        exec: u64,
        typed: Typed,
    ) -> Step {
        let generation = self.target.generation;
        let element = Element::of(typed, addresses, generation, true)?;
        let (format, sources) = (element.format, element.sources(typed, generation)?);
        let bytes = format.bytes();
        // Each lane's element, and which of its bytes nobody wrote.
        let mut elements = [(0_u128, 0_u16); crate::registers::LANES];
        for lane in lanes_of(exec) {
            let (all, poison) = &mut elements[lane];
            for (component, source) in sources.iter().enumerate() {
                let Some((low, bits)) = format.place(component) else { continue };
                let (at, shift) = register(typed, memory.data, *source);
                let value = wave.registers.v[at][lane] >> shift;
                let value = if typed.halves { value & 0xffff } else { value };
                let unwritten = bytes_of(typed, shift).any(|byte| wave.registers.poison[at][byte] >> lane & 1 == 1);
                if unwritten {
                    (low / 8..(low + bits).div_ceil(8)).for_each(|byte| *poison |= 1 << byte);
                    continue;
                }
                let raw = format
                    .store(value, bits, typed.halves)
                    .map_err(|what| Raised::at(lane, Fault::Unimplemented { what: what.into() }))?;
                *all |= u128::from(raw) << low;
            }
        }
        let byte = |_: &Wave, lane: usize, byte: usize| elements[lane].0.to_le_bytes()[byte];
        self.same_values(wave, memory, addresses, exec, (bytes as u64, bytes, 0), &byte)?;
        let clock = Rc::clone(&wave.order.clock);
        let by = self.touchers(wave, &clock, memory, exec);
        for lane in lanes_of(exec) {
            let (element, poison) = elements[lane];
            let to = self.resolve(memory, addresses, lane, bytes as u64);
            self.check_element(to, &format, Access::Write, lane)?;
            let stored = self.lane_store(wave, to, &element.to_le_bytes()[..bytes], poison, lane, &by);
            stored.map_err(|fault| Raised::at(lane, fault))?;
            self.settle(wave, lane, &by, &clock);
        }
        Ok(())
    }
}
