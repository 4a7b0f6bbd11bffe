//! Where the lanes of a memory instruction go ("Buffer addressing" and "Flat memory" of the instruction set documents).

use super::image::{self, Image};
pub(super) use super::unwritten::{check_address, unwritten};
use super::{Block, PRIVATE_BASE, SCRATCH_BASE, SHARED_BASE, scalar};
use crate::instruction::{Address, Memory, Source};
use crate::operations::memory::Space;
use crate::registers::{LANES, M0};
use crate::verdict::{Step, Use};
use crate::wave::Wave;

/// Where a lane's access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    Memory(u64),
    Lds(u64),
    /// A byte of the lane's own scratch.
    Scratch(u64),
    /// A byte of all scratch, wherever the lanes' are.
    Swizzled(u64),
    /// Behind the end of a buffer descriptor: loads give 0, stores do nothing.
    Nowhere,
}

/// A buffer descriptor ("Buffer resource descriptor").
#[derive(Clone, Copy)]
pub(super) struct Descriptor {
    base: u64,
    stride: u64,
    pub swizzle: bool,
    records: u64,
    pub element: u64,
    index_stride: u64,
    adds_lane: bool,
    /// Of typed buffers: the last word has the format, and where components come from.
    pub last: u32,
}

impl Descriptor {
    /// `one_bit`: up to gfx10 a bit says whether lanes are side by side, in elements of a dword; from gfx11 on two say of which elements.
    fn read(words: [u32; 4], one_bit: bool) -> Self {
        let word = |at: usize| u64::from(words[at]);
        let base = word(0) | (word(1) & 0xffff) << 32;
        let index_stride = 8 << (word(3) >> 21 & 3);
        Self {
            base,
            stride: word(1) >> 16 & 0x3fff,
            swizzle: if one_bit { word(1) >> 31 & 1 == 1 } else { word(1) >> 30 & 3 != 0 },
            records: word(2),
            element: if one_bit { 4 } else { [4, 4, 8, 16][(word(1) >> 30 & 3) as usize] },
            index_stride,
            adds_lane: word(3) >> 23 & 1 == 1,
            last: words[3],
        }
    }

    /// The address of a byte, `None` if it is out of range ("Buffer addressing", "Range checking").
    #[inline]
    pub(super) fn address(&self, index: u64, offset: u64, scalar: u64, lane: usize, bytes: u64) -> Option<u64> {
        let index = index + if self.adds_lane { lane as u64 } else { 0 };
        let structured = self.stride != 0 || self.swizzle;
        let inside = if structured && self.stride != 0 {
            index < self.records && (!self.swizzle || offset + bytes <= self.stride)
        } else if self.swizzle {
            offset < self.records
        } else {
            offset.checked_add(bytes).is_some_and(|end| end <= self.records)
        };
        if !inside {
            return None;
        }
        let within = if self.swizzle {
            let (high, low) = (index / self.index_stride, index % self.index_stride);
            let (element, byte) = (offset / self.element, offset % self.element);
            (high * self.stride + element * self.element) * self.index_stride + low * self.element + byte
        } else {
            index * self.stride + offset
        };
        Some(self.base.wrapping_add(scalar).wrapping_add(within))
    }
}

/// The index of each lane, where there is one.
pub(super) type Indices = Option<Box<[u64; LANES]>>;

/// Where each lane's access begins, offset included.
pub(super) struct Addresses {
    pub of: [u64; LANES],
    /// With the scalar offset.
    pub descriptor: Option<(Descriptor, Indices, u64)>,
    pub image: Option<Image>,
}

impl Block<'_> {
    pub(super) fn addresses(&self, wave: &Wave, memory: &Memory, exec: u64) -> Step<Addresses> {
        let registers = &wave.registers;
        let mut of = [0; LANES];
        let low = |at: u16| &registers.v[usize::from(at)];
        match memory.address {
            Address::Pair(at) => {
                check_address(wave, registers.poisoned(at) | registers.poisoned(at + 1), exec)?;
                for ((of, low), high) in of.iter_mut().zip(low(at)).zip(low(at + 1)) {
                    *of = (u64::from(*low) | u64::from(*high) << 32).wrapping_add_signed(memory.offset);
                }
            }
            Address::Base(base, register) => {
                if registers.pair_poison(base) != 0 {
                    return Err(unwritten(exec.trailing_zeros() as usize % LANES, Use::Address, wave));
                }
                let base = registers.pair(base).wrapping_add_signed(memory.offset);
                of = [base; LANES];
                if let Some(at) = register {
                    check_address(wave, registers.poisoned(at), exec)?;
                    for (of, offset) in of.iter_mut().zip(low(at)) {
                        *of = base.wrapping_add(u64::from(*offset));
                    }
                }
            }
            Address::Offset(register, source) => {
                let mut base = memory.offset as u64;
                if let Some(source) = source {
                    let (value, poison) = scalar::read(registers, source, 1);
                    if poison != 0 {
                        return Err(unwritten(exec.trailing_zeros() as usize % LANES, Use::Address, wave));
                    }
                    base = base.wrapping_add(value);
                }
                of = [base & 0xffff_ffff; LANES];
                if let Some(at) = register {
                    check_address(wave, registers.poisoned(at), exec)?;
                    for (of, offset) in of.iter_mut().zip(low(at)) {
                        *of = base.wrapping_add(u64::from(*offset)) & 0xffff_ffff;
                    }
                }
            }
            Address::Lds(at) => {
                check_address(wave, registers.poisoned(at), exec)?;
                for (of, address) in of.iter_mut().zip(low(at)) {
                    *of = u64::from(*address);
                }
            }
            // "LDS_ADDR = M0 + offset" of what LLVM puts there ("SelectDSAppendConsume"): an address of bytes.
            Address::M0 => {
                let (value, poison) = scalar::read(registers, Source::Sgpr(M0), 1);
                if poison != 0 {
                    return Err(unwritten(exec.trailing_zeros() as usize % LANES, Use::Address, wave));
                }
                of = [value; LANES];
            }
            Address::Image(image) => {
                let (of, image) = image::addresses(wave, &image, self.target.generation, exec)?;
                return Ok(Addresses { of, descriptor: None, image: Some(image) });
            }
            Address::ByLane(base) => {
                // "LDS_ADDR = 16-bit M0 + offset + TID * 4".
                let (base, poison) = match base {
                    Some(base) => {
                        (registers.pair(base).wrapping_add_signed(memory.offset), registers.pair_poison(base))
                    }
                    None if memory.space == Space::Lds => {
                        let (value, poison) = scalar::read(registers, Source::Sgpr(M0), 1);
                        (value & 0xffff, poison & 0xffff)
                    }
                    None => (memory.offset as u64, 0),
                };
                if poison != 0 {
                    return Err(unwritten(exec.trailing_zeros() as usize % LANES, Use::Address, wave));
                }
                of = std::array::from_fn(|lane| base.wrapping_add(4 * lane as u64));
            }
            Address::Descriptor { descriptor, index, offset, scalar: source } => {
                let words = [0, 1, 2, 3].map(|at| registers.s[usize::from(descriptor) + at]);
                let poison = (0..4).any(|at| registers.s_poison[usize::from(descriptor) + at] != 0);
                let (value, scalar_poison) = scalar::read(registers, source, 1);
                if poison || scalar_poison != 0 {
                    return Err(unwritten(exec.trailing_zeros() as usize % LANES, Use::Address, wave));
                }
                let mut indices = None;
                if let Some(at) = index {
                    check_address(wave, registers.poisoned(at), exec)?;
                    indices = Some(Box::new(low(at).map(u64::from)));
                }
                of = [memory.offset as u64; LANES];
                if let Some(at) = offset {
                    check_address(wave, registers.poisoned(at), exec)?;
                    // Modulo 2^32, from gfx9 on: LLVM adds what a loop counts down to an offset that brings it back (llvm-project, pull request 68302).
                    for (of, value) in of.iter_mut().zip(low(at)) {
                        *of = value.wrapping_add(memory.offset as u32).into();
                    }
                }
                let descriptor = Descriptor::read(words, self.target.swizzles_by_a_bit());
                return Ok(Addresses { of, descriptor: Some((descriptor, indices, value)), image: None });
            }
        }
        Ok(Addresses { of, descriptor: None, image: None })
    }

    pub(super) fn resolve(&self, memory: &Memory, addresses: &Addresses, lane: usize, bytes: u64) -> To {
        let address = addresses.of[lane];
        match memory.space {
            Space::Lds => To::Lds(address),
            Space::Scratch => To::Scratch(address),
            Space::Image if address == image::NOWHERE => To::Nowhere,
            Space::Global | Space::Image => To::Memory(address),
            Space::Flat => match address & !0xffff_ffff {
                // The offset is added again where LDS is reached.
                SHARED_BASE => To::Lds((address as u32).wrapping_sub(memory.offset as u32).into()),
                PRIVATE_BASE => To::Scratch(address & 0xffff_ffff),
                _ => To::Memory(address),
            },
            Space::Buffer => {
                let Some((descriptor, indices, scalar)) = &addresses.descriptor else { return To::Nowhere };
                let index = indices.as_ref().map_or(0, |indices| indices[lane]);
                match descriptor.address(index, address, *scalar, lane, bytes) {
                    None => To::Nowhere,
                    Some(at) => match at.checked_sub(SCRATCH_BASE) {
                        Some(byte) if descriptor.swizzle => To::Swizzled(byte),
                        _ => To::Memory(at),
                    },
                }
            }
        }
    }
}

impl Addresses {
    /// The same for a lane, so many bytes further.
    pub(super) fn moved(&self, lane: usize, by: u64) -> Self {
        let mut of = self.of;
        of[lane] += by;
        Self { of, descriptor: self.descriptor.clone(), image: self.image }
    }
}

/// LDS addresses have their offset added here, where it wraps at 32 bits.
#[inline]
pub(super) fn place(to: To, offset: i64) -> To {
    match to {
        To::Lds(address) => To::Lds((address as u32).wrapping_add(offset as u32).into()),
        to => to,
    }
}
