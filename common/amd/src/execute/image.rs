//! Images whose texels lie one behind the other ("Image Resource Definition" of the documents of RDNA 2 to RDNA 4).
//!
//! Loads outside of an image give 0, stores there do nothing. Images that are tiled, compressed, or have several levels are refused.
//!
//! Slices, and elements of an array, lie one behind the other, and their rows are filled up to 256 bytes: their descriptor does not say how long
//! rows are, so that the layout is the one of AMD's address library (`Gfx10Lib`, surfaces that are linear).

use super::unwritten::{check_address, unwritten};
use crate::instruction::{Address, Extent, ImageAddress, Memory};
use crate::registers::{LANES, Registers};
use crate::target::Generation;
use crate::typed::{MOST, format};
use crate::verdict::{Fault, Raised, Step, Use};
use crate::wave::Wave;

/// The address of a texel outside of its image.
pub(super) const NOWHERE: u64 = u64::MAX;

/// What the bytes of a row are a multiple of, where a descriptor does not say how long rows are, and rows of an image with slices.
const ROW: u64 = 256;

/// An image.
#[derive(Clone, Copy)]
pub(super) struct Image {
    base: u64,
    extent: Extent,
    width: u64,
    height: u64,
    /// The first slice or element of an array, and how many there are.
    first: u64,
    slices: u64,
    /// Texels from a row to the next one, 0 if that is not said.
    pitch: u64,
    /// Bytes of a texel, and from a row to the next one.
    texel: u64,
    row: u64,
    /// Its number, as typed buffers have it.
    pub format: u8,
    /// The word with "DST_SEL".
    pub select: u32,
}

impl Image {
    fn read(words: [u32; 8], generation: Generation, extent: Extent) -> Result<Self, &'static str> {
        let word = |at: usize| u64::from(words.get(at).copied().unwrap_or_default());
        let bits = |low: usize, width: usize| {
            let (at, shift) = (low / 32, low % 32);
            (word(at) | word(at + 1) << 32) >> shift & ((1 << width) - 1)
        };
        let newest = generation == Generation::Rdna4;
        let (number, width, height) = match generation {
            Generation::Rdna4 => (bits(49, 8), bits(62, 16), bits(78, 16)),
            Generation::Rdna3 => (bits(52, 8), bits(62, 14), bits(78, 14)),
            _ => (bits(52, 9), bits(62, 14), bits(78, 14)),
        };
        let (first, last) = if newest { (bits(57, 5), bits(111, 5)) } else { (bits(108, 4), bits(112, 4)) };
        let (pitch, deepest, base) = if newest {
            (bits(128, 16), bits(128, 14), bits(144, 14))
        } else {
            (bits(128, 15), bits(128, 13), bits(144, 13))
        };
        if bits(124, 4) != extent.number() {
            return Err("an image of other dimensions than its instruction has");
        }
        if bits(116, 5) != 0 {
            return Err("a tiled image");
        }
        if first != 0 || last != 0 {
            return Err("an image of several levels");
        }
        if words[5..].iter().any(|word| *word != 0) {
            return Err("an image with metadata");
        }
        // The depth of a volume; of an array, its last element, counted from the start of memory as its first one is.
        let (first, slices) = match extent {
            Extent::Line | Extent::Plane => (0, 1),
            Extent::Volume => (0, deepest + 1),
            Extent::Lines | Extent::Planes => (base, (deepest + 1).saturating_sub(base)),
        };
        let number = u8::try_from(number).unwrap_or(0);
        let image = Self {
            base: bits(0, 40) << 8,
            extent,
            width: width + 1,
            height: if extent.has_rows() { height + 1 } else { 1 },
            first,
            slices,
            pitch: if pitch == 0 { 0 } else { pitch + 1 },
            texel: format(number, generation).map_or(1, |format| format.bytes() as u64),
            row: 0,
            format: number,
            select: words[3],
        };
        Ok(Self { row: image.row()?, ..image })
    }

    /// How many texels, rows, and slices of a volume or elements of an array there are.
    pub fn size(&self) -> [u64; 3] {
        [self.width, self.height, self.slices]
    }

    /// The address of a texel of the image.
    pub fn address(&self, [x, y, z]: [u64; 3]) -> u64 {
        self.base + ((self.first + z) * self.height + y) * self.row + x * self.texel
    }

    /// # Errors
    /// An atomic of so many bytes on texels that have others.
    pub fn check_atomic(&self, bytes: usize, generation: Generation) -> Step {
        let fits = format(self.format, generation).is_some_and(|format| format.bytes() == bytes);
        if fits { Ok(()) } else { Err(refused("an atomic on texels of another width")) }
    }

    /// Bytes from a row to the next one.
    fn row(&self) -> Result<u64, &'static str> {
        if self.extent.has_slices() {
            return Ok((self.width * self.texel).next_multiple_of(ROW));
        }
        match (self.pitch, self.width * self.texel) {
            (0, row) if self.height == 1 || row.is_multiple_of(ROW) => Ok(row),
            (0, _) => Err("an image whose rows have a length that is not said"),
            (pitch, _) => Ok(pitch * self.texel),
        }
    }
}

fn refused(what: &str) -> Box<Raised> {
    Raised::wave(Fault::Unimplemented { what: what.into() })
}

/// A coordinate of each lane, or a level; 0 where there is none.
pub(super) fn coordinate(registers: &Registers, address: &ImageAddress, at: usize) -> [u64; LANES] {
    let (register, shift, bits) = if address.halves { (at / 2, 16 * (at % 2), 16) } else { (at, 0, 32) };
    let register = address.registers.get(register).copied().flatten();
    register.map_or([0; LANES], |register| {
        registers.v[usize::from(register)].map(|value| u64::from(value >> shift) & ((1 << bits) - 1))
    })
}

/// # Errors
/// A lane asks for another level than the first one.
fn check_levels(levels: &[u64; LANES], exec: u64) -> Step {
    let is_other = |lane: usize| exec >> lane & 1 == 1 && levels[lane] != 0;
    if (0..LANES).any(is_other) { Err(refused("a level that an image does not have")) } else { Ok(()) }
}

/// Where the texels of lanes are.
pub(super) fn addresses(
    wave: &Wave,
    address: &ImageAddress,
    generation: Generation,
    exec: u64,
) -> Step<([u64; LANES], Image)> {
    let registers = &wave.registers;
    let first = usize::from(address.descriptor);
    let own = first..first + usize::from(address.words);
    if registers.s_poison[own.clone()].iter().any(|bits| *bits != 0) {
        return Err(unwritten(exec.trailing_zeros() as usize % LANES, Use::Address, wave));
    }
    let mut words = [0; 8];
    for (word, register) in words.iter_mut().zip(&registers.s[own]) {
        *word = *register;
    }
    for register in address.vgprs() {
        check_address(wave, registers.poisoned(register), exec)?;
    }
    let image = Image::read(words, generation, address.extent).map_err(refused)?;
    // A sample has several texels, each found when it is read.
    if address.sampling.is_some() {
        return Ok(([NOWHERE; LANES], image));
    }
    let across = coordinate(registers, address, 0);
    let (extent, count) = (address.extent, address.extent.coordinates());
    let down = if extent.has_rows() { coordinate(registers, address, 1) } else { [0; LANES] };
    let inward = if extent.has_slices() { coordinate(registers, address, count - 1) } else { [0; LANES] };
    if address.leveled {
        check_levels(&coordinate(registers, address, count), exec)?;
    }
    let mut of = [NOWHERE; LANES];
    for (((of, x), y), z) in of.iter_mut().zip(across).zip(down).zip(inward) {
        if x < image.width && y < image.height && z < image.slices {
            *of = image.address([x, y, z]);
        }
    }
    Ok((of, image))
}

/// IMAGE_GET_RESINFO: width, height, depth and levels, of the level that an address is.
pub(super) fn size(wave: &mut Wave, memory: &Memory, image: Option<&Image>, exec: u64, which: u8) -> Step {
    let (Some(image), Address::Image(address)) = (image, &memory.address) else { return Ok(()) };
    check_levels(&coordinate(&wave.registers, address, 0), exec)?;
    let all = [image.width, image.height, image.slices, 1];
    let chosen = (0..MOST).filter(|at| which >> at & 1 == 1).map(|at| all[at] as u32);
    for (to, value) in (memory.to..).zip(chosen) {
        wave.registers.write(to, &[value; LANES], exec, 0);
    }
    Ok(())
}
