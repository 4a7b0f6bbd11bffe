//! Rows of the result: read from C and written to D where they lie in registers, or in memory.

use super::Element;
use super::layout::Results;
use super::signs::{Signs, drop_denormals};
use crate::number::{F32, Format, bf16_from_f32, bf16_to_f32, half_to_single, single_to_half};

/// Where the rows of a result are.
pub(super) trait Rows {
    type Value: Copy + Default;

    fn load<const SIZE: usize>(&self, block: usize, row: usize) -> [Self::Value; SIZE];

    fn store<const SIZE: usize>(&mut self, block: usize, row: usize, values: &[Self::Value; SIZE]);
}

/// In registers: FP32, FP16 and BF16.
pub(super) struct Singles<'a> {
    pub results: &'a Results,
    pub signs: &'a Signs,
    /// Where C is, unless D has it.
    pub c: Option<&'a [[u32; 64]]>,
    pub d: &'a mut [[u32; 64]],
}

impl Rows for Singles<'_> {
    type Value = f32;

    #[inline(always)]
    fn load<const SIZE: usize>(&self, block: usize, row: usize) -> [f32; SIZE] {
        let place = self.results.place(block, row);
        let mut words = [0; SIZE];
        let from = self.c.map_or(&self.d[place.register], |c| &c[place.register]);
        words.copy_from_slice(&from[place.lane..place.lane + SIZE]);
        let mut values = match self.results.element {
            Element::F16 => words.map(|word| half_to_single((word >> place.shift) as u16)),
            Element::Bf16 => words.map(|word| f32::from_bits(bf16_to_f32((word >> place.shift) as u16))),
            _ => words.map(f32::from_bits),
        };
        if self.signs.absolute_c {
            values = values.map(f32::abs);
        }
        if self.signs.negate_c {
            values = values.map(|value| -value);
        }
        values
    }

    #[inline(always)]
    fn store<const SIZE: usize>(&mut self, block: usize, row: usize, values: &[f32; SIZE]) {
        let place = self.results.place(block, row);
        let words = &mut self.d[place.register][place.lane..place.lane + SIZE];
        let half = |old: u32, new: u16| {
            if place.shift == 16 { old & 0xffff | u32::from(new) << 16 } else { old & 0xffff_0000 | u32::from(new) }
        };
        let pairs = words.iter_mut().zip(values);
        match self.results.element {
            Element::F16 => pairs.for_each(|(word, value)| {
                *word = half(*word, single_to_half(f32::from_bits(bits_of(*value))));
            }),
            Element::Bf16 => pairs.for_each(|(word, value)| *word = half(*word, bf16_from_f32(bits_of(*value)))),
            _ => pairs.for_each(|(word, value)| *word = bits_of(*value)),
        }
    }
}

/// The bits of a result; a NaN is the default one, whatever the host makes.
#[inline(always)]
fn bits_of(value: f32) -> u32 {
    let nan = if value.is_nan() { u32::MAX } else { 0 };
    value.to_bits() & !nan | F32::DEFAULT_NAN as u32 & nan
}

/// FP32 in registers, D having C, whose signs stay. Apart from the others, which keep loops over it from becoming vector instructions.
pub(super) struct Plain<'a> {
    pub results: &'a Results,
    pub d: &'a mut [[u32; 64]],
}

impl Rows for Plain<'_> {
    type Value = f32;

    #[inline(always)]
    fn load<const SIZE: usize>(&self, block: usize, row: usize) -> [f32; SIZE] {
        let place = self.results.place(block, row);
        let words = &self.d[place.register][place.lane..place.lane + SIZE];
        let mut values = [0.0; SIZE];
        values.iter_mut().zip(words).for_each(|(value, word)| *value = f32::from_bits(*word));
        values
    }

    #[inline(always)]
    fn store<const SIZE: usize>(&mut self, block: usize, row: usize, values: &[f32; SIZE]) {
        let place = self.results.place(block, row);
        let mut words = [0; SIZE];
        for (word, value) in words.iter_mut().zip(values) {
            *word = bits_of(*value);
        }
        self.d[place.register][place.lane..place.lane + SIZE].copy_from_slice(&words);
    }
}

/// The same, denormals of C being +0.
pub(super) struct Flushed<'a>(pub Plain<'a>);

impl Rows for Flushed<'_> {
    type Value = f32;

    #[inline(always)]
    fn load<const SIZE: usize>(&self, block: usize, row: usize) -> [f32; SIZE] {
        let mut values = self.0.load(block, row);
        drop_denormals(&mut values, f32::MIN_POSITIVE);
        values
    }

    #[inline(always)]
    fn store<const SIZE: usize>(&mut self, block: usize, row: usize, values: &[f32; SIZE]) {
        self.0.store(block, row, values);
    }
}

/// In registers, D having C.
pub(super) struct Integers<'a> {
    pub results: &'a Results,
    pub d: &'a mut [[u32; 64]],
}

impl Rows for Integers<'_> {
    type Value = i32;

    #[inline(always)]
    fn load<const SIZE: usize>(&self, block: usize, row: usize) -> [i32; SIZE] {
        let place = self.results.place(block, row);
        let mut words = [0; SIZE];
        words.copy_from_slice(&self.d[place.register][place.lane..place.lane + SIZE]);
        words.map(|word| word as i32)
    }

    #[inline(always)]
    fn store<const SIZE: usize>(&mut self, block: usize, row: usize, values: &[i32; SIZE]) {
        let place = self.results.place(block, row);
        let words = &mut self.d[place.register][place.lane..place.lane + SIZE];
        words.iter_mut().zip(values).for_each(|(word, value)| *word = *value as u32);
    }
}

/// One block after the other in memory.
pub(super) struct Doubles<'a>(pub &'a mut [f64]);

impl Rows for Doubles<'_> {
    type Value = f64;

    #[inline(always)]
    fn load<const SIZE: usize>(&self, block: usize, row: usize) -> [f64; SIZE] {
        let mut values = [0.0; SIZE];
        values.copy_from_slice(&self.0[(block * SIZE + row) * SIZE..][..SIZE]);
        values
    }

    #[inline(always)]
    fn store<const SIZE: usize>(&mut self, block: usize, row: usize, values: &[f64; SIZE]) {
        self.0[(block * SIZE + row) * SIZE..][..SIZE].copy_from_slice(values);
    }
}

impl<R: Rows> Rows for &mut R {
    type Value = R::Value;

    #[inline(always)]
    fn load<const SIZE: usize>(&self, block: usize, row: usize) -> [R::Value; SIZE] {
        (**self).load(block, row)
    }

    #[inline(always)]
    fn store<const SIZE: usize>(&mut self, block: usize, row: usize, values: &[R::Value; SIZE]) {
        (**self).store(block, row, values);
    }
}
