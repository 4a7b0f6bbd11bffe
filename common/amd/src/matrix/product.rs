//! Registers to matrices, the product, and back.

use super::layout::{Factor, Layout, Results, split};
use super::rows::{Doubles, Flushed, Integers, Plain, Singles};
use super::shape::{MANY, Shape};
use super::signs::{Signs, drop_denormals};
use super::sparse::{Chosen, by_rows};
use super::sums::{Exact, Fused, FusedDoubles, Product};
use super::truncated::{self, Wide};
use super::{Element, Matrix, Modifiers, Sum, pairs};
use crate::number::{Eight, F64, Format, eight_to_f32, half_to_single, small_to_f32};

/// The most elements of A or B of FP64.
const FEW: usize = 512;
/// Elements of C of FP64.
const SMALL: usize = 256;

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

type Vgprs<'a> = &'a [[u32; 64]];

/// A and B as numbers, of one instruction after the other.
pub(crate) struct Factors {
    singles: [[f32; MANY]; 2],
    integers: [[i32; MANY]; 2],
    doubles: [[f64; FEW]; 2],
    /// What sums that are cut off have beside `singles`.
    wide: [Wide; 2],
}

impl Factors {
    pub fn new() -> Box<Self> {
        Box::new(Self {
            singles: [[0.0; MANY]; 2],
            integers: [[0; MANY]; 2],
            doubles: [[0.0; FEW]; 2],
            wide: [([0.0; MANY], [0; MANY]); 2],
        })
    }
}

/// Of B and the result, and of A, of which fewer columns may be there.
fn shapes(matrix: &Matrix, layout: &Layout) -> [Shape; 2] {
    let shape = Shape { size: matrix.rows, depth: matrix.depth, blocks: matrix.blocks };
    [shape, Shape { depth: layout.columns_of_a, ..shape }]
}

/// Reads A and B of an instruction whose modifiers and registers are checked.
pub(super) fn read(
    matrix: &Matrix,
    layout: &Layout,
    modifiers: Modifiers,
    [a, b]: [Vgprs<'_>; 2],
    scales: Option<&Scales>,
    factors: &mut Factors,
) {
    let signs = Signs::of(matrix, modifiers);
    let [shape, of_a] = shapes(matrix, layout);
    match matrix.sum {
        Sum::Exact => {
            let [a_matrix, b_matrix] = &mut factors.integers;
            let signed = |bit: u8| modifiers.neg_lo >> bit & 1 == 1;
            read_factor(&layout.a, of_a, a, a_matrix, integer(matrix.a, signed(0)));
            read_factor(&layout.b, shape, b, b_matrix, integer(matrix.b, signed(1)));
        }
        Sum::Fused if matrix.result == Element::F64 => {
            let [a_matrix, b_matrix] = &mut factors.doubles;
            read_doubles_factor(&layout.a, shape, a, a_matrix, signs.a);
            read_doubles_factor(&layout.b, shape, b, b_matrix, signs.b);
        }
        _ => {
            let singles = &mut factors.singles;
            let (shapes, signs, registers) = ([of_a, shape], &signs, [a, b]);
            pulp::Arch::new().dispatch(Read { matrix, layout, shapes, signs, registers, factors: singles });
            let [a_matrix, b_matrix] = singles;
            if let Some(scales) = scales {
                scale(shape, &scales.a, a_matrix);
                scale(shape, &scales.b, b_matrix);
            }
        }
    }
}

/// Computes D of what was read. C is there already unless it is said.
pub(super) fn multiply(
    matrix: &Matrix,
    layout: &Layout,
    modifiers: Modifiers,
    factors: &mut Factors,
    chosen: Option<&Chosen>,
    (c, d): (Option<Vgprs<'_>>, &mut [[u32; 64]]),
) {
    let signs = Signs::of(matrix, modifiers);
    let [shape, of_a] = shapes(matrix, layout);
    let results = &layout.result;
    match matrix.sum {
        Sum::Exact => {
            let ([a, b], saturate) = (&factors.integers, modifiers.clamp);
            by_rows(chosen, of_a, [b], |rows, [b]| {
                let result = Integers { results, d: &mut *d };
                Product { rule: Exact { saturate }, shape: of_a, rows, a, b, result }.compute();
            });
        }
        Sum::Fused if matrix.result == Element::F64 => {
            let [a, b] = &factors.doubles;
            let mut sum = [0f64; SMALL];
            read_doubles(results, shape, d, &mut sum, signs.negate_c);
            let rows = 0..shape.size;
            Product { rule: FusedDoubles, shape, rows, a, b, result: Doubles(&mut sum) }.compute();
            write_doubles(results, shape, &sum, d);
        }
        _ => floats(matrix, of_a, &signs, factors, chosen, (results, c, d)),
    }
}

fn floats(
    matrix: &Matrix,
    shape: Shape,
    signs: &Signs,
    Factors { singles, wide, .. }: &mut Factors,
    chosen: Option<&Chosen>,
    (results, c, d): (&Results, Option<Vgprs<'_>>, &mut [[u32; 64]]),
) {
    let [a, b] = &*singles;
    let as_it_is = results.element.bits() == 32 && !signs.negate_c && !signs.absolute_c;
    let mut plain = Plain { results, d: &mut *d };
    match matrix.sum {
        // Of these C has no signs.
        Sum::Pairs(2) => pairs::compute::<2>(matrix.a, shape, [a, b], Flushed(plain)),
        Sum::Pairs(_) => pairs::compute::<4>(matrix.a, shape, [a, b], Flushed(plain)),
        Sum::Truncated(group) => {
            truncated::compute::<1>(matrix, shape, group.min(shape.depth), (singles, wide), chosen, plain);
        }
        Sum::TruncatedHalves => truncated::compute::<2>(matrix, shape, 16, (singles, wide), chosen, plain),
        Sum::Fused | Sum::Wide | Sum::Exact if as_it_is => by_rows(chosen, shape, [b], |rows, [b]| {
            Product { rule: Fused, shape, rows, a, b, result: &mut plain }.compute();
        }),
        Sum::Fused | Sum::Wide | Sum::Exact => by_rows(chosen, shape, [b], |rows, [b]| {
            let result = Singles { results, signs, c, d: &mut *d };
            Product { rule: Fused, shape, rows, a, b, result }.compute();
        }),
    }
}

/// From registers to matrices, with the widest vectors that the host has.
struct Read<'a> {
    matrix: &'a Matrix,
    layout: &'a Layout,
    /// Of A and of B.
    shapes: [Shape; 2],
    signs: &'a Signs,
    registers: [Vgprs<'a>; 2],
    factors: &'a mut [[f32; MANY]; 2],
}

impl pulp::WithSimd for Read<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Self { matrix, layout, shapes: [of_a, of_b], signs, registers: [a, b], factors } = self;
        let [a_matrix, b_matrix] = factors;
        read_floats(matrix.a, &layout.a, of_a, a, a_matrix, signs.a);
        read_floats(matrix.b, &layout.b, of_b, b, b_matrix, signs.b);
        if let Sum::Pairs(_) = matrix.sum {
            let smallest = if matrix.a == Element::F16 { 2f32.powi(-14) } else { f32::MIN_POSITIVE };
            let used = of_b.size * of_b.depth * of_b.blocks;
            drop_denormals(&mut a_matrix[..used], smallest);
            drop_denormals(&mut b_matrix[..used], smallest);
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
fn read_floats(element: Element, factor: &Factor, shape: Shape, from: Vgprs<'_>, to: &mut [f32], negate: [bool; 2]) {
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
fn read_sixes(factor: &Factor, shape: Shape, from: Vgprs<'_>, to: &mut [f32], (exponent, mantissa): (u32, u32)) {
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
fn scale(shape: Shape, scales: &[[f32; SCALES]; 64], to: &mut [f32]) {
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
fn read_factor<T>(factor: &Factor, shape: Shape, from: Vgprs<'_>, to: &mut [T], convert: impl Fn(u32, usize) -> T) {
    match (shape.size, factor.is_straight()) {
        (16, true) => return read_straight::<16, T>(factor, shape, from, to, convert),
        (32, true) => return read_straight::<32, T>(factor, shape, from, to, convert),
        _ => {}
    }
    let rows = to.chunks_exact_mut(shape.size).take(shape.blocks * shape.depth);
    for (index, row) in rows.enumerate() {
        let (block, k) = split(index, shape.depth);
        let place = factor.place(block, k);
        let register = &from[place.register];
        let lanes = place.lane..;
        row.iter_mut().zip(lanes).for_each(|(value, lane)| *value = convert(register[factor.read(lane)], place.shift));
    }
}

/// The same of lanes that are read as they lie. Conversions of some rows are one loop, long enough to be one of vectors.
#[inline(always)]
fn read_straight<const SIZE: usize, T>(
    factor: &Factor,
    shape: Shape,
    from: Vgprs<'_>,
    to: &mut [T],
    convert: impl Fn(u32, usize) -> T,
) {
    const TOGETHER: usize = 8;
    let count = shape.blocks * shape.depth;
    debug_assert!(to.len() >= count * SIZE, "a place for each element");
    let Some(rows) = to.as_chunks_mut::<SIZE>().0.get_mut(..count) else { return };
    for (first, rows) in (0..).step_by(TOGETHER).zip(rows.chunks_mut(TOGETHER)) {
        let mut words = [[0; SIZE]; TOGETHER];
        for (words, index) in words.iter_mut().zip(first..first + rows.len()) {
            let (block, k) = split(index, shape.depth);
            let place = factor.place(block, k);
            let Some(lanes) = from[place.register][place.lane..].first_chunk::<SIZE>() else { return };
            *words = lanes.map(|word| word >> place.shift);
        }
        for (value, word) in rows.as_flattened_mut().iter_mut().zip(words.as_flattened()) {
            *value = convert(*word, 0);
        }
    }
}

fn read_doubles_factor(factor: &Factor, shape: Shape, from: Vgprs<'_>, to: &mut [f64], negate: [bool; 2]) {
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
