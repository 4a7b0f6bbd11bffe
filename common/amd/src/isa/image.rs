//! Instructions on images: how many registers their data and their addresses have, the other fields say.

use super::decode::Decoder;
use super::operand::Refused;
use super::table::{Field, Row};
use super::{At, Family, ImageModifiers, Modifiers, Operand};
use crate::target::Generation;

/// "DIM".
pub(super) const DIMENSIONS: [&str; 8] = ["1D", "2D", "3D", "CUBE", "1D_ARRAY", "2D_ARRAY", "2D_MSAA", "2D_MSAA_ARRAY"];

/// Addresses in the word behind an instruction of gfx10 and gfx11 ("NSA").
const BEHIND: usize = 4;

impl Decoder<'_> {
    /// Modifiers of images, if it is one.
    pub fn image(&self, row: &Row) -> Option<ImageModifiers> {
        let is_image = matches!(self.encoding.family, Family::Mimg | Family::Vimage | Family::Vsample);
        is_image.then(|| ImageModifiers {
            dmask: self.value(Field::Dmask) as u8,
            dim: self.encoding.place(Field::Dim).filter(|_| !row.rays).map(|place| place.of(self.whole) as u8),
            unorm: self.flag(Field::Unorm),
            r128: self.flag(Field::R128),
            a16: self.flag(Field::A16),
            d16: self.flag(Field::D16),
            lwe: self.flag(Field::Lwe),
            da: self.flag(Field::Da),
            addresses: 0,
        })
    }

    /// Of the operands, all but the data and the descriptors are addresses.
    pub fn count_addresses(&self, modifiers: &mut Modifiers, operands: &[Operand]) {
        if let Some(image) = &mut modifiers.image {
            let vectors = operands.iter().filter(|operand| matches!(operand.at, At::Vgpr(..))).count();
            image.addresses = (vectors - 1) as u8;
        }
    }

    /// # Errors
    /// An atomic with other components than its data has: one or two dwords, twice as many with a comparand.
    pub fn image_data(&self, count: Option<u8>) -> Refused {
        let name = self.encoding.row(self.whole).map_or("", |row| row.name);
        let dmask = self.value(Field::Dmask);
        let atomic = name.contains("_atomic_");
        let fits = if name.contains("cmpswap") { [3, 15] } else { [1, 3] };
        if atomic && !fits.contains(&dmask) {
            return Err(format!("{name} with dmask {dmask:#x}"));
        }
        let components = count.unwrap_or((dmask.count_ones() as u8).max(1));
        let registers = if self.flag(Field::D16) { components.div_ceil(2) } else { components };
        let accumulation = self.has_accumulation_images() && self.flag(Field::Tfe);
        self.isa.vector(self.value(Field::Vdata), registers + u8::from(self.says_faults()), accumulation)
    }

    /// Addresses one behind the other, or each in a register of its own.
    pub fn image_addresses(&mut self, operands: &mut Vec<Operand>) -> Refused<()> {
        let Some(row) = self.encoding.row(self.whole) else { return Err("no instruction".into()) };
        let dimension = if row.rays { 0 } else { self.value(Field::Dim) as usize };
        let counts = row.addresses[usize::from(self.flag(Field::A16))];
        let (count, rays) = (usize::from(counts[dimension]), row.rays);
        if count == 0 {
            return Err(format!("{} of dimension {}", row.name, DIMENSIONS[dimension]));
        }
        let separate = self.separate_addresses(count, rays)?;
        if separate.is_empty() {
            operands.push(self.isa.vector(self.value(Field::Vaddr), count as u8, false)?.into());
            return Ok(());
        }
        let last = separate.len() - 1;
        let mut left = count;
        for (at, number) in separate.iter().enumerate() {
            // The last field says where all that are left begin.
            let registers = if at == last { left } else { self.registers_of(at, count, rays) };
            operands.push(self.isa.vector(*number, registers as u8, false)?.into());
            left -= registers;
        }
        Ok(())
    }

    /// Registers of an address: of ray tracing, a vector has three, but on gfx10, and a number of 64 bits two.
    fn registers_of(&self, at: usize, count: usize, rays: bool) -> usize {
        let row = self.encoding.row(self.whole).map_or("", |row| row.name);
        let wide = row.contains("_bvh8_") || row.contains("_dual_");
        match at {
            _ if !rays || self.isa.target.generation == Generation::Rdna2 => 1,
            0 if wide || matches!(count, 9 | 12) => 2,
            1 if wide => 2,
            0 | 1 => 1,
            _ => 3,
        }
    }

    /// Fields that addresses of so many registers have.
    fn fields_of(&self, count: usize, rays: bool) -> usize {
        let (mut fields, mut left) = (0, count);
        while left > 0 {
            left = left.saturating_sub(self.registers_of(fields, count, rays));
            fields += 1;
        }
        fields
    }

    /// Fields of addresses that are apart; none where all are behind the first one.
    fn separate_addresses(&mut self, count: usize, rays: bool) -> Refused<Vec<u32>> {
        let row = self.encoding.row(self.whole).map_or("", |row| row.name);
        let unused = || format!("{row} with more addresses than it has");
        if self.encoding.family == Family::Mimg {
            let words = self.value(Field::Nsa) as usize;
            if words == 0 {
                return Ok(Vec::new());
            }
            let mut all = vec![self.value(Field::Vaddr)];
            for _ in 0..words {
                let word = self.behind()?;
                all.extend(word.to_le_bytes().map(u32::from));
            }
            let most = all.len();
            let fields = self.fields_of(count, rays).min(most);
            // Of gfx10, every address has a field; one that needs no word has none.
            let short = self.isa.target.generation == Generation::Rdna2 && count > most;
            if short || count <= most - BEHIND || all.iter().skip(fields).any(|number| *number != 0) {
                return Err(unused());
            }
            all.truncate(fields);
            return Ok(all);
        }
        let own = [Field::Vaddr0, Field::Vaddr1, Field::Vaddr2, Field::Vaddr3, Field::Vaddr4];
        let own = own.into_iter().filter(|field| self.encoding.place(*field).is_some());
        let mut all: Vec<u32> = own.map(|field| self.value(field)).collect();
        let fields = self.fields_of(count, rays).min(all.len());
        if all.iter().skip(fields).any(|number| *number != 0) {
            return Err(unused());
        }
        all.truncate(fields);
        Ok(all)
    }
}
