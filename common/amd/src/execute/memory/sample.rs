//! Samples of images: the texel at a point, the mean of those around it, or one component of those four ("Image Sample" and "Gather4" of the
//! instruction set documents).
//!
//! The mean is rounded once. How the hardware rounds on the way is not documented, so that its last bits may differ where weights are not short;
//! texels that have no part in the mean are not read.

use std::rc::Rc;

use super::lanes_of;
use super::typed::{Element, refused, write};
use crate::execute::Block;
use crate::execute::address::{Addresses, unwritten};
use crate::execute::image::{Image, coordinate};
use crate::execute::sampler::{Sampler, corners, single};
use crate::instruction::{Address, ImageAddress, Memory, Sampling};
use crate::number;
use crate::registers::{LANES, Registers};
use crate::typed::Typed;
use crate::verdict::{Access, Fault, Raised, Step, Use};
use crate::wave::Wave;

/// A texel's bytes, and which of them nobody wrote.
type Texel = (u128, u16);

/// Texels around a point, and their parts.
type Around = Vec<(Option<[u64; 3]>, f64)>;

/// The coordinates of all lanes, and what is added to the texels that they are.
struct Coordinates {
    of: [[f32; LANES]; 3],
    offsets: [[i64; LANES]; 3],
}

impl Coordinates {
    fn read(registers: &Registers, address: &ImageAddress, sampling: &Sampling) -> Self {
        let of = [0, 1, 2].map(|at| {
            coordinate(registers, address, at).map(|bits| match address.halves {
                true => number::half_to_single(bits as u16),
                false => f32::from_bits(bits as u32),
            })
        });
        let mut offsets = [[0; LANES]; 3];
        if let (true, Some(Some(register))) = (sampling.moves, sampling.ahead.first()) {
            // "Six-bit signed integers at bits 0, 8 and 16."
            for (offsets, low) in offsets.iter_mut().zip([0, 8, 16]) {
                *offsets = registers.v[usize::from(*register)].map(|word| i64::from((word >> low << 26) as i32 >> 26));
            }
        }
        Self { of, offsets }
    }

    /// The texels around a lane's point.
    fn around(&self, lane: usize, sampler: &Sampler, image: &Image, address: &ImageAddress) -> Step<Around> {
        let (sizes, extent) = (image.size(), address.extent);
        let raised = |what| Raised::at(lane, Fault::Unimplemented { what: String::from(what) });
        let at = |axis: usize| {
            sampler.taps(axis, self.of[axis][lane], sizes[axis], self.offsets[axis][lane]).map_err(raised)
        };
        let across = at(0)?;
        let down = if extent.has_rows() { at(1)? } else { single(0) };
        let inward = match extent.has_slices() {
            false => single(0),
            true if extent.is_array() => {
                let element = self.of[extent.coordinates() - 1][lane];
                single(sampler.element(element, sizes[2]).map_err(raised)?)
            }
            true => at(2)?,
        };
        Ok(corners([across, down, inward]).collect())
    }
}

impl Block<'_> {
    pub(super) fn sample(
        &mut self,
        wave: &mut Wave,
        memory: &Memory,
        addresses: &Addresses,
        exec: u64,
        typed: Typed,
    ) -> Step {
        let (Some(image), Address::Image(address)) = (addresses.image, memory.address) else {
            return Err(refused("a sample of no image"));
        };
        let Some(sampling) = address.sampling else { return Err(refused("a sample without a sampler")) };
        let element = Element::of(typed, addresses, self.target.generation, false)?;
        let sampler = self.sampler(wave, &image, &address, &sampling, exec)?;
        if sampler.is_linear() && !sampling.gathers && element.format.is_integer() {
            return Err(refused("a linear filter of integers"));
        }
        let border = (element.border(sampler.border), 0);
        let coordinates = Coordinates::read(&wave.registers, &address, &sampling);
        let mut at = addresses.moved(0, 0);
        let clock = Rc::clone(&wave.order.clock);
        let by = self.touchers(wave, &clock, memory, exec);
        for lane in lanes_of(exec) {
            let around = coordinates.around(lane, &sampler, &image, &address)?;
            let mut texels = Vec::with_capacity(around.len());
            for (place, part) in around {
                if part == 0.0 && !sampling.gathers {
                    continue;
                }
                let Some(place) = place else {
                    texels.push((border, part));
                    continue;
                };
                at.of[lane] = image.address(place);
                let bytes = element.format.bytes();
                let to = self.resolve(memory, &at, lane, bytes as u64);
                self.check_element(to, &element.format, Access::Read, lane)?;
                let loaded = self.lane_load(wave, to, bytes, lane, &by).map_err(|fault| Raised::at(lane, fault))?;
                if loaded.unwritten != 0 {
                    self.remember(wave, memory, &at, lane, bytes, 0);
                }
                texels.push(((Element::joined(&loaded.dwords), loaded.unwritten), part));
            }
            self.settle(wave, lane, &by, &clock);
            for (component, (value, poison)) in components(&element, &texels, typed, &sampling).into_iter().enumerate()
            {
                write(wave, typed, memory.to, component, lane, value, poison);
            }
        }
        Ok(())
    }

    fn sampler(
        &self,
        wave: &Wave,
        image: &Image,
        address: &ImageAddress,
        sampling: &Sampling,
        exec: u64,
    ) -> Step<Sampler> {
        let first = usize::from(sampling.sampler);
        let own = [first, first + 1, first + 2, first + 3];
        if own.iter().any(|at| wave.registers.s_poison[*at] != 0) {
            return Err(unwritten(exec.trailing_zeros() as usize % LANES, Use::Address, wave));
        }
        let words = own.map(|at| wave.registers.s[at]);
        Sampler::read(words, image, address.extent, sampling, self.target.generation).map_err(refused)
    }
}

/// What each component in registers is of texels, and which of its bytes were not written.
fn components(element: &Element, texels: &[(Texel, f64)], typed: Typed, sampling: &Sampling) -> Vec<(u32, u16)> {
    if sampling.gathers {
        // Below to the left, below to the right, above to the right, above to the left.
        let order = [2, 3, 1, 0].into_iter().filter_map(|at| texels.get(at));
        let chosen = typed.each().next().unwrap_or_default();
        return order.map(|((bytes, unwritten), _)| element.component(*bytes, *unwritten, chosen, typed)).collect();
    }
    let mean = |chosen| match texels {
        [((bytes, unwritten), _)] => element.component(*bytes, *unwritten, chosen, typed),
        _ => element.mean(texels, chosen, typed),
    };
    typed.each().map(mean).collect()
}
