//! Registers to matrices, the product, and back.

use super::layout::{Factor, Layout, Results, split};
use super::sparse::{Chosen, by_rows};
use super::sums::{self, Exact, Fused, FusedDoubles, Pairs, Product, Shape};
use super::{Element, Matrix, Modifiers, Pattern, Sum, truncated};
use crate::number::{
    Eight, F32, F64, Format, bf16_from_f32, bf16_to_f32, eight_to_f32, half_to_single, single_to_half, small_to_f32,
};

/// The most elements of A or B: 16 x 32; and of gfx950, 16 x 128.
const FEW: usize = 512;
const MANY: usize = 2048;
/// Elements of C: 16 x 16, 32 x 32, and at most two blocks of that.
const SMALL: usize = 256;
const LARGE: usize = 1024;
const LARGEST: usize = 2048;

/// Elements that have a scale in common, and the most scales of a row.
const SCALED: usize = 32;
pub(super) const SCALES: usize = 4;

/// The scales of the rows of A, and of the columns of B, by k.
pub(super) struct Scales {
    pub a: [[f32; SCALES]; 64],
    pub b: [[f32; SCALES]; 64],
}

impl Scales {
    /// From a register each, of which a lane has the scale of its row and k: E8M0, the byte `at` of the lane's word.
    pub fn read(size: usize, [a, b]: [&[u32; 64]; 2], at: [u8; 2]) -> Self {
        let read = |register: &[u32; 64], at: u8| {
            let mut all = [[1.0; SCALES]; 64];
            for (lane, word) in register.iter().enumerate() {
                let byte = (word >> (8 * at)) as u8;
                let scale = if byte == u8::MAX { f32::NAN } else { 2_f32.powi(i32::from(byte) - 127) };
                if let Some(of) = all.get_mut(lane % size).and_then(|row| row.get_mut(lane / size)) {
                    *of = scale;
                }
            }
            all
        };
        Self { a: read(a, at[0]), b: read(b, at[1]) }
    }
}

/// What an instruction has beside A, B and C.
#[derive(Clone, Copy, Default)]
pub(super) struct Beside<'a> {
    pub scales: Option<&'a Scales>,
    /// Of a sparse A, which elements are there.
    pub chosen: Option<&'a Chosen>,
}

type Vgprs<'a> = &'a [[u32; 64]];

/// Of an instruction whose modifiers and registers are checked.
pub(super) fn run(
    matrix: &Matrix,
    layout: &Layout,
    modifiers: Modifiers,
    sources: [Vgprs<'_>; 3],
    beside: Beside<'_>,
    d: &mut [[u32; 64]],
) {
    let few = matrix.rows * matrix.depth * matrix.blocks <= FEW;
    let of_size = match (few, matrix.rows * matrix.columns * matrix.blocks) {
        (true, ..=SMALL) => sized::<FEW, SMALL>,
        (true, ..=LARGE) => sized::<FEW, LARGE>,
        (true, _) => sized::<FEW, LARGEST>,
        (false, ..=SMALL) => sized::<MANY, SMALL>,
        (false, _) => sized::<MANY, LARGEST>,
    };
    of_size(matrix, layout, modifiers, sources, beside, d);
}

fn sized<const FACTOR: usize, const RESULT: usize>(
    matrix: &Matrix,
    layout: &Layout,
    modifiers: Modifiers,
    [a, b, c]: [Vgprs<'_>; 3],
    beside: Beside<'_>,
    d: &mut [[u32; 64]],
) {
    let signs = Signs::of(matrix, modifiers);
    let shape = Shape { size: matrix.rows, depth: matrix.depth, blocks: matrix.blocks };
    let of_a = Shape { depth: layout.columns_of_a, ..shape };
    match matrix.sum {
        Sum::Exact => {
            let mut factors = [[0i32; FACTOR]; 2];
            let [a_matrix, b_matrix] = &mut factors;
            let signed = |bit: u8| modifiers.neg_lo >> bit & 1 == 1;
            read_factor(&layout.a, of_a, a, a_matrix, integer(matrix.a, signed(0)));
            read_factor(&layout.b, shape, b, b_matrix, integer(matrix.b, signed(1)));
            let mut sum = [0i32; RESULT];
            read_results(&layout.result, shape, c, &mut sum, |bits| bits as i32);
            let saturate = modifiers.clamp;
            by_rows(beside.chosen, of_a, [b_matrix], |rows, [b]| {
                Product { rule: Exact { saturate }, shape: of_a, rows, a: a_matrix, b, result: &mut sum }.compute();
            });
            write_results(&layout.result, shape, &sum, d, |value, _, _| value as u32);
        }
        Sum::Fused if matrix.result == Element::F64 => {
            let mut factors = [[0f64; FACTOR]; 2];
            let [a_matrix, b_matrix] = &mut factors;
            read_doubles_factor(&layout.a, shape, a, a_matrix, signs.a);
            read_doubles_factor(&layout.b, shape, b, b_matrix, signs.b);
            let mut sum = [0f64; RESULT];
            read_doubles(&layout.result, shape, c, &mut sum, signs.negate_c);
            let rows = 0..shape.size;
            Product { rule: FusedDoubles, shape, rows, a: a_matrix, b: b_matrix, result: &mut sum }.compute();
            write_doubles(&layout.result, shape, &sum, d);
        }
        _ => floats::<FACTOR, RESULT>(matrix, layout, [shape, of_a], &signs, [a, b, c], beside, d),
    }
}

fn floats<const FACTOR: usize, const RESULT: usize>(
    matrix: &Matrix,
    layout: &Layout,
    [shape, of_a]: [Shape; 2],
    signs: &Signs,
    [a, b, c]: [Vgprs<'_>; 3],
    Beside { scales, chosen }: Beside<'_>,
    d: &mut [[u32; 64]],
) {
    let mut factors = [[0f32; FACTOR]; 2];
    let mut result = [0f32; RESULT];
    pulp::Arch::new().dispatch(Read {
        matrix,
        layout,
        shapes: [of_a, shape],
        signs,
        registers: [a, b, c],
        factors: &mut factors,
        result: &mut result,
    });
    let [a_matrix, b_matrix] = &mut factors;
    if let Some(scales) = scales {
        scale(shape, &scales.a, a_matrix);
        scale(shape, &scales.b, b_matrix);
    }
    match matrix.sum {
        Sum::Pairs(group) => {
            let smallest = if matrix.a == Element::F16 { 2f32.powi(-14) } else { f32::MIN_POSITIVE };
            sums::drop_denormals(a_matrix, smallest);
            sums::drop_denormals(b_matrix, smallest);
            sums::drop_denormals(&mut result, f32::MIN_POSITIVE);
            let rows = 0..shape.size;
            Product { rule: Pairs { group }, shape, rows, a: a_matrix, b: b_matrix, result: &mut result }.compute();
        }
        Sum::Truncated(group) => {
            truncated::compute::<1, FACTOR>(matrix, of_a, group.min(of_a.depth), &factors, chosen, &mut result);
        }
        Sum::TruncatedHalves => truncated::compute::<2, FACTOR>(matrix, of_a, 16, &factors, chosen, &mut result),
        Sum::Fused | Sum::Wide | Sum::Exact => by_rows(chosen, of_a, [b_matrix], |rows, [b]| {
            Product { rule: Fused, shape: of_a, rows, a: a_matrix, b, result: &mut result }.compute();
        }),
    }
    pulp::Arch::new().dispatch(Write { element: matrix.result, results: &layout.result, shape, from: &result, to: d });
}

/// From registers to matrices, with the widest vectors that the host has.
struct Read<'a, const FACTOR: usize> {
    matrix: &'a Matrix,
    layout: &'a Layout,
    /// Of A and of B.
    shapes: [Shape; 2],
    signs: &'a Signs,
    registers: [Vgprs<'a>; 3],
    factors: &'a mut [[f32; FACTOR]; 2],
    result: &'a mut [f32],
}

impl<const FACTOR: usize> pulp::WithSimd for Read<'_, FACTOR> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Self { matrix, layout, shapes: [of_a, of_b], signs, registers: [a, b, c], factors, result } = self;
        let [a_matrix, b_matrix] = factors;
        read_floats(matrix.a, &layout.a, of_a, a, a_matrix, signs.a);
        read_floats(matrix.b, &layout.b, of_b, b, b_matrix, signs.b);
        read_sums(matrix.result, &layout.result, of_b, c, result, signs);
    }
}

/// The same back.
struct Write<'a> {
    element: Element,
    results: &'a Results,
    shape: Shape,
    from: &'a [f32],
    to: &'a mut [[u32; 64]],
}

impl pulp::WithSimd for Write<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        write_sums(self.element, self.results, self.shape, self.from, self.to);
    }
}

/// C as FP32, its signs changed.
#[inline(always)]
fn read_sums(element: Element, results: &Results, shape: Shape, from: Vgprs<'_>, to: &mut [f32], signs: &Signs) {
    match element {
        Element::F16 => read_results(results, shape, from, to, |bits| half_to_single(bits as u16)),
        Element::Bf16 => {
            read_results(results, shape, from, to, |bits| f32::from_bits(bf16_to_f32(bits as u16)));
        }
        _ => read_results(results, shape, from, to, f32::from_bits),
    }
    if signs.absolute_c {
        to.iter_mut().for_each(|value| *value = value.abs());
    }
    if signs.negate_c {
        to.iter_mut().for_each(|value| *value = -*value);
    }
}

#[inline(always)]
fn write_sums(element: Element, results: &Results, shape: Shape, from: &[f32], to: &mut [[u32; 64]]) {
    match element {
        Element::F16 => write_results(results, shape, from, to, |value, old, shift| {
            half(old, single_to_half(f32::from_bits(bits_of(value))), shift)
        }),
        Element::Bf16 => {
            write_results(results, shape, from, to, |value, old, shift| {
                half(old, bf16_from_f32(bits_of(value)), shift)
            });
        }
        _ => write_results(results, shape, from, to, |value, _, _| bits_of(value)),
    }
}

/// The bits of a result; a NaN is the default one, whatever the host makes.
#[inline(always)]
fn bits_of(value: f32) -> u32 {
    if value.is_nan() { F32::DEFAULT_NAN as u32 } else { value.to_bits() }
}

#[inline(always)]
fn half(old: u32, new: u16, shift: usize) -> u32 {
    if shift == 16 { old & 0xffff | u32::from(new) << 16 } else { old & 0xffff_0000 | u32::from(new) }
}

/// What the modifiers do to the signs of floats.
struct Signs {
    /// Negation of elements of even and of odd k.
    a: [bool; 2],
    b: [bool; 2],
    negate_c: bool,
    absolute_c: bool,
}

impl Signs {
    fn of(matrix: &Matrix, modifiers: Modifiers) -> Signs {
        let bit = |field: u8, bit: u8| field >> bit & 1 == 1;
        if matrix.pattern == Pattern::Negations {
            let negate = |index| bit(modifiers.blgp, index);
            Signs { a: [negate(0); 2], b: [negate(1); 2], negate_c: negate(2), absolute_c: false }
        } else {
            let Modifiers { neg_lo, neg_hi, .. } = modifiers;
            Signs {
                a: [bit(neg_lo, 0), bit(neg_hi, 0)],
                b: [bit(neg_lo, 1), bit(neg_hi, 1)],
                negate_c: bit(neg_lo, 2),
                absolute_c: bit(neg_hi, 2),
            }
        }
    }
}

/// The conversion of an integer element, at its place in a register, to 32 bits.
fn integer(element: Element, signed: bool) -> impl Fn(u32, usize) -> i32 {
    let bits = element.bits();
    let signed = signed || element == Element::I8;
    move |word, shift| {
        let top = word << (32 - bits - shift);
        if signed { top as i32 >> (32 - bits) } else { (top >> (32 - bits)) as i32 }
    }
}

#[inline(always)]
fn read_floats<const FACTOR: usize>(
    element: Element,
    factor: &Factor,
    shape: Shape,
    from: Vgprs<'_>,
    to: &mut [f32; FACTOR],
    negate: [bool; 2],
) {
    match element {
        Element::F16 => read_factor(factor, shape, from, to, |word, shift| half_to_single((word >> shift) as u16)),
        Element::Bf16 => read_factor(factor, shape, from, to, |word, shift| f32::from_bits(word >> shift << 16)),
        Element::Fp8 => read_factor(factor, shape, from, to, |word, shift| eight(Eight::E4M3, word, shift)),
        Element::Bf8 => read_factor(factor, shape, from, to, |word, shift| eight(Eight::E5M2, word, shift)),
        Element::OcpFp8 => read_factor(factor, shape, from, to, |word, shift| eight(Eight::OcpE4M3, word, shift)),
        Element::OcpBf8 => read_factor(factor, shape, from, to, |word, shift| eight(Eight::OcpE5M2, word, shift)),
        Element::Fp4 => read_factor(factor, shape, from, to, |word, shift| small_to_f32(word >> shift & 15, 2, 1)),
        Element::Fp6 => read_sixes(factor, shape, from, to, (2, 3)),
        Element::Bf6 => read_sixes(factor, shape, from, to, (3, 2)),
        // XF32 is cut off to 10 bits of mantissa: arXiv 2511.10909, section 4.
        Element::Xf32 => read_factor(factor, shape, from, to, |word, _| f32::from_bits(word & !0x1fff)),
        _ => read_factor(factor, shape, from, to, |word, _| f32::from_bits(word)),
    }
    if negate != [false; 2] {
        for (index, row) in to.chunks_exact_mut(shape.size).enumerate() {
            if negate[index % 2] {
                row.iter_mut().for_each(|value| *value = -*value);
            }
        }
    }
}

/// Elements of 6 bits, some of which are in two registers.
fn read_sixes<const FACTOR: usize>(
    factor: &Factor,
    shape: Shape,
    from: Vgprs<'_>,
    to: &mut [f32; FACTOR],
    (exponent, mantissa): (u32, u32),
) {
    for (index, row) in to.chunks_exact_mut(shape.size).take(shape.depth).enumerate() {
        let place = factor.place(0, index);
        for (value, lane) in row.iter_mut().zip(place.lane..) {
            let upper = from.get(place.register + 1).map_or(0, |register| register[lane]);
            let both = u64::from(from[place.register][lane]) | u64::from(upper) << 32;
            *value = small_to_f32((both >> place.shift) as u32 & 63, exponent, mantissa);
        }
    }
}

/// Multiplies each 32 elements of a row, k being adjacent, by their scale.
fn scale<const FACTOR: usize>(shape: Shape, scales: &[[f32; SCALES]; 64], to: &mut [f32; FACTOR]) {
    for (k, row) in to.chunks_exact_mut(shape.size).take(shape.depth).enumerate() {
        for (value, scales) in row.iter_mut().zip(scales) {
            *value *= scales[k / SCALED];
        }
    }
}

fn eight(format: Eight, word: u32, shift: usize) -> f32 {
    f32::from_bits(eight_to_f32(format, (word >> shift) as u8))
}

/// Into rows of k, a block after the other: `to[(block * depth + k) * size + row]`.
#[inline(always)]
fn read_factor<T, const FACTOR: usize>(
    factor: &Factor,
    shape: Shape,
    from: Vgprs<'_>,
    to: &mut [T; FACTOR],
    convert: impl Fn(u32, usize) -> T,
) {
    let rows = to.chunks_exact_mut(shape.size).take(shape.blocks * shape.depth);
    for (index, row) in rows.enumerate() {
        let (block, k) = split(index, shape.depth);
        let place = factor.place(block, k);
        let register = &from[place.register];
        if factor.is_straight() {
            let lanes = &register[place.lane..place.lane + shape.size];
            row.iter_mut().zip(lanes).for_each(|(value, &word)| *value = convert(word, place.shift));
        } else {
            let lanes = place.lane..;
            row.iter_mut()
                .zip(lanes)
                .for_each(|(value, lane)| *value = convert(register[factor.read(lane)], place.shift));
        }
    }
}

fn read_doubles_factor<const FACTOR: usize>(
    factor: &Factor,
    shape: Shape,
    from: Vgprs<'_>,
    to: &mut [f64; FACTOR],
    negate: [bool; 2],
) {
    let rows = to.chunks_exact_mut(shape.size).take(shape.blocks * shape.depth);
    for (index, row) in rows.enumerate() {
        let (block, k) = split(index, shape.depth);
        let place = factor.place(block, k);
        for (value, lane) in row.iter_mut().zip(place.lane..) {
            let pair = double(from[place.register][lane], from[place.register + 1][lane]);
            *value = if negate[0] { -pair } else { pair };
        }
    }
}

fn double(low: u32, high: u32) -> f64 {
    f64::from_bits(u64::from(high) << 32 | u64::from(low))
}

/// Into `to[(block * rows + row) * columns + column]`.
#[inline(always)]
fn read_results<T>(results: &Results, shape: Shape, from: Vgprs<'_>, to: &mut [T], convert: impl Fn(u32) -> T) {
    for (index, row) in to.chunks_exact_mut(shape.size).take(shape.blocks * shape.size).enumerate() {
        let (block, row_of_block) = split(index, shape.size);
        let place = results.place(block, row_of_block);
        let lanes = &from[place.register][place.lane..place.lane + shape.size];
        row.iter_mut().zip(lanes).for_each(|(value, &word)| *value = convert(word >> place.shift));
    }
}

#[inline(always)]
fn write_results<T: Copy>(
    results: &Results,
    shape: Shape,
    from: &[T],
    to: &mut [[u32; 64]],
    convert: impl Fn(T, u32, usize) -> u32,
) {
    for (index, row) in from.chunks_exact(shape.size).take(shape.blocks * shape.size).enumerate() {
        let (block, row_of_block) = split(index, shape.size);
        let place = results.place(block, row_of_block);
        let lanes = &mut to[place.register][place.lane..place.lane + shape.size];
        lanes.iter_mut().zip(row).for_each(|(word, &value)| *word = convert(value, *word, place.shift));
    }
}

fn read_doubles(results: &Results, shape: Shape, from: Vgprs<'_>, to: &mut [f64], negate: bool) {
    for (index, row) in to.chunks_exact_mut(shape.size).take(shape.blocks * shape.size).enumerate() {
        let (block, row_of_block) = split(index, shape.size);
        let place = results.place(block, row_of_block);
        for (value, lane) in row.iter_mut().zip(place.lane..) {
            let pair = double(from[place.register][lane], from[place.register + 1][lane]);
            *value = if negate { -pair } else { pair };
        }
    }
}

fn write_doubles(results: &Results, shape: Shape, from: &[f64], to: &mut [[u32; 64]]) {
    for (index, row) in from.chunks_exact(shape.size).take(shape.blocks * shape.size).enumerate() {
        let (block, row_of_block) = split(index, shape.size);
        let place = results.place(block, row_of_block);
        for (value, lane) in row.iter().zip(place.lane..) {
            let bits = if value.is_nan() { F64::DEFAULT_NAN } else { value.to_bits() };
            to[place.register][lane] = bits as u32;
            to[place.register + 1][lane] = (bits >> 32) as u32;
        }
    }
}
