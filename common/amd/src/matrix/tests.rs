//! Each instruction against a product over matrices whose places in the registers are written down here a second time.

mod layout;
mod modifiers;
mod poison;
mod sparse;
mod sums;

use super::{Element, Matrix, Modifiers, Operand, Sum, Unit};
use crate::number::tests::Random;
use crate::number::{Eight, F16, Format, Mode, eight_from_f32, eight_to_f32, half_to_single, small_to_f32};

type Vgprs = Vec<[u32; 64]>;

/// A place of an element: its first register, its lowest bit there, and its lane.
type Place = (usize, usize, usize);

fn named(name: &str) -> &'static Matrix {
    Matrix::named(name).expect("an instruction")
}

/// The wave sizes that an instruction runs on.
fn waves(matrix: &Matrix) -> &'static [usize] {
    if matrix.is_wmma() { &[32, 64] } else { &[64] }
}

/// The place of A's element of row i and column k in a block, and of B's of column i and row k: as AMD's calculator prints it for
/// each instruction ("Matrix element to register mapping with no modifiers").
fn factor_place(matrix: &Matrix, element: Element, lanes: usize, i: usize, k: usize, block: usize) -> Place {
    let bits = element.bits();
    let packed = |item: usize| (item * bits / 32, item * bits % 32);
    if matrix.unit == Unit::Pairs {
        let (register, lane) = match (bits, matrix.depth, lanes) {
            (16, 16, 32) => (2 * (k / 8) + k / 2 % 2, 16 * (k / 4 % 2)),
            (16, 16, 64) => (k / 2 % 2, 16 * (k / 4)),
            (8, 16, 32) => (k / 4 % 2, 16 * (k / 8)),
            (8, 16, 64) => (0, 32 * (k / 4 % 2) + 16 * (k / 8)),
            (4, 16, _) => (0, 16 * (k / 8)),
            (4, 32, 32) => (k / 8 % 2, 16 * (k / 16)),
            (4, 32, 64) => (0, 32 * (k / 8 % 2) + 16 * (k / 16)),
            other => panic!("no layout of {other:?}"),
        };
        return (register, k * bits % 32, lane + i);
    }
    if matrix.is_wmma() {
        let (register, bit) = packed(k);
        return (register, bit, i);
    }
    // GPR and lane by the size, with the k that are in one lane.
    let (item, lane) = match (matrix.rows, matrix.blocks, matrix.depth) {
        (32, 2, _) => (k, 32 * block + i),
        (16, 4, _) => (k, 16 * block + i),
        (4, 16, _) => (k, 4 * block + i),
        (4, 4, 4) => (0, 16 * k + 4 * block + i),
        (32, 1, 2) => (0, 32 * k + i),
        (16, 1, 4) => (0, 16 * k + i),
        (32, 1, 4) => (k % 2, 32 * (k / 2) + i),
        (16, 1, 8) => (k % 2, 16 * (k / 2) + i),
        (32, 1, 8) => (k % 4, 32 * (k / 4) + i),
        (16, 1, 16) => (k % 4, 16 * (k / 4) + i),
        (32, 1, 16) => (k % 8, 32 * (k / 8) + i),
        (16, 1, 32) => (k % 8, 16 * (k / 8) + i),
        (32, 1, 32) => (k % 16, 32 * (k / 16) + i),
        (16, 1, 64) => (k % 16, 16 * (k / 16) + i),
        // Of 8 bits a lane has 16 k, and 16 further ones behind those of all lanes.
        (32, 1, 64) if bits == 8 => (k / 32 * 16 + k % 16, 32 * (k / 16 % 2) + i),
        (16, 1, 128) if bits == 8 => (k / 64 * 16 + k % 16, 16 * (k / 16 % 4) + i),
        (32, 1, 64) => (k % 32, 32 * (k / 32) + i),
        (16, 1, 128) => (k % 32, 16 * (k / 32) + i),
        other => panic!("no layout of {other:?}"),
    };
    let (register, bit) = packed(item);
    (register, bit, lane)
}

/// The place of an element of C and D; the high half of 16-bit ones is the caller's matter.
fn result_place(matrix: &Matrix, lanes: usize, i: usize, j: usize, block: usize) -> Place {
    if matrix.unit == Unit::Pairs {
        let (row, lane) =
            if lanes == 32 { (i % 8, 16 * (i / 8) + j) } else { (i % 4, 32 * (i / 4 % 2) + 16 * (i / 8) + j) };
        return if matrix.result.bits() == 16 { (row / 2, row % 2 * 16, lane) } else { (row, 0, lane) };
    }
    let (register, lane) = match (matrix.rows, matrix.blocks, matrix.result) {
        _ if matrix.is_wmma() && lanes == 32 => (i / 2, 16 * (i % 2) + j),
        _ if matrix.is_wmma() => (i / 4, 16 * (i % 4) + j),
        (16, 1, Element::F64) => (2 * (i / 4), 16 * (i % 4) + j),
        (4, 4, Element::F64) => (0, 16 * i + 4 * block + j),
        (32, _, _) => (16 * block + 4 * (i / 8) + i % 4, 32 * (i / 4 % 2) + j),
        (16, _, _) => (4 * block + i % 4, 16 * (i / 4) + j),
        (4, 16, _) => (i, 4 * block + j),
        other => panic!("no layout of {other:?}"),
    };
    (register, 0, lane)
}

/// The bits of an integer as an element.
fn encode(element: Element, value: i64) -> u64 {
    let eight = |format| u64::from(eight_from_f32(&Mode::default(), format, (value as f32).to_bits()));
    match element {
        Element::F64 => (value as f64).to_bits(),
        Element::F32 | Element::Xf32 => u64::from((value as f32).to_bits()),
        Element::F16 => u64::from(F16::from_f64_nearest(value as f64)),
        Element::Bf16 => u64::from((value as f32).to_bits() >> 16),
        Element::Fp8 => eight(Eight::E4M3),
        Element::Bf8 => eight(Eight::E5M2),
        Element::OcpFp8 => eight(Eight::OcpE4M3),
        Element::OcpBf8 => eight(Eight::OcpE5M2),
        Element::Fp6 | Element::Bf6 | Element::Fp4 => {
            let code = (0..1 << element.bits()).find(|code| decode(element, *code) == value as f64);
            code.expect("a value of the format")
        }
        Element::I32 => value as u64 & 0xffff_ffff,
        Element::I8 | Element::Iu8 => value as u64 & 0xff,
        Element::Iu4 => value as u64 & 0xf,
    }
}

fn decode(element: Element, bits: u64) -> f64 {
    match element {
        Element::F64 => f64::from_bits(bits),
        Element::F32 => f64::from(f32::from_bits(bits as u32)),
        Element::Xf32 => f64::from(f32::from_bits(bits as u32 & !0x1fff)),
        Element::F16 => f64::from(half_to_single(bits as u16)),
        Element::Bf16 => f64::from(f32::from_bits((bits as u32) << 16)),
        Element::Fp8 => f64::from(f32::from_bits(eight_to_f32(Eight::E4M3, bits as u8))),
        Element::Bf8 => f64::from(f32::from_bits(eight_to_f32(Eight::E5M2, bits as u8))),
        Element::OcpFp8 => f64::from(f32::from_bits(eight_to_f32(Eight::OcpE4M3, bits as u8))),
        Element::OcpBf8 => f64::from(f32::from_bits(eight_to_f32(Eight::OcpE5M2, bits as u8))),
        Element::Fp6 => f64::from(small_to_f32(bits as u32, 2, 3)),
        Element::Bf6 => f64::from(small_to_f32(bits as u32, 3, 2)),
        Element::Fp4 => f64::from(small_to_f32(bits as u32, 2, 1)),
        Element::I32 => f64::from(bits as u32 as i32),
        Element::I8 | Element::Iu8 => f64::from(bits as u8 as i8),
        Element::Iu4 => f64::from((bits as i8) << 4 >> 4),
    }
}

fn put(registers: &mut Vgprs, (register, bit, lane): Place, bits: usize, value: u64) {
    if bits == 64 {
        registers[register][lane] = value as u32;
        registers[register + 1][lane] = (value >> 32) as u32;
    } else {
        let mask = (u64::from(u32::MAX) >> (32 - bits)) << bit;
        let placed = value << bit & mask;
        registers[register][lane] = registers[register][lane] & !(mask as u32) | placed as u32;
        // An element of 6 bits may be in two registers.
        if mask >> 32 != 0 {
            let upper = &mut registers[register + 1][lane];
            *upper = *upper & !((mask >> 32) as u32) | (placed >> 32) as u32;
        }
    }
}

fn get(registers: &Vgprs, (register, bit, lane): Place, bits: usize) -> u64 {
    if bits == 64 {
        u64::from(registers[register + 1][lane]) << 32 | u64::from(registers[register][lane])
    } else {
        let upper = registers.get(register + 1).map_or(0, |register| register[lane]);
        let both = u64::from(registers[register][lane]) | u64::from(upper) << 32;
        both >> bit & u64::from(u32::MAX >> (32 - bits))
    }
}

/// Registers of matrices, and what is in them.
struct Example {
    matrix: &'static Matrix,
    lanes: usize,
    a: Vgprs,
    b: Vgprs,
    c: Vgprs,
}

impl Example {
    fn empty(matrix: &'static Matrix, lanes: usize) -> Example {
        let registers = |operand| vec![[0; 64]; matrix.registers(operand, lanes)];
        Example { matrix, lanes, a: registers(Operand::A), b: registers(Operand::B), c: registers(Operand::C) }
    }

    /// Integers so small that every sum is exact in every arithmetic.
    fn of_integers(matrix: &'static Matrix, lanes: usize, random: &mut Random) -> Example {
        // BF16 has 8 digits, so results stay below 256 there.
        let most = if matrix.result == Element::Bf16 { 3 } else { 100 };
        Example::filled(matrix, lanes, |operand| match operand {
            Operand::A => encode(matrix.a, random.integer(7)),
            Operand::B => encode(matrix.b, random.integer(7)),
            _ => encode(matrix.result, random.integer(most)),
        })
    }

    /// Each element of the bits that `bits` gives.
    fn filled(matrix: &'static Matrix, lanes: usize, mut bits: impl FnMut(Operand) -> u64) -> Example {
        let mut example = Example::empty(matrix, lanes);
        for block in 0..matrix.blocks {
            for i in 0..matrix.rows {
                for k in 0..matrix.depth {
                    example.set_a_bits(i, k, block, bits(Operand::A));
                    example.set_b_bits(i, k, block, bits(Operand::B));
                }
                for j in 0..matrix.columns {
                    example.set_c_bits(i, j, block, bits(Operand::C));
                }
            }
        }
        example
    }

    fn set_a(&mut self, i: usize, k: usize, block: usize, value: i64) {
        self.set_a_bits(i, k, block, encode(self.matrix.a, value));
    }

    fn set_b(&mut self, j: usize, k: usize, block: usize, value: i64) {
        self.set_b_bits(j, k, block, encode(self.matrix.b, value));
    }

    fn set_c(&mut self, i: usize, j: usize, block: usize, value: i64) {
        self.set_c_bits(i, j, block, encode(self.matrix.result, value));
    }

    fn set_a_bits(&mut self, i: usize, k: usize, block: usize, bits: u64) {
        let (register, bit, lane) = factor_place(self.matrix, self.matrix.a, self.lanes, i, k, block);
        for lane in (lane..self.copies(lane)).step_by(16) {
            put(&mut self.a, (register, bit, lane), self.matrix.a.bits(), bits);
        }
    }

    fn set_b_bits(&mut self, j: usize, k: usize, block: usize, bits: u64) {
        let (register, bit, lane) = factor_place(self.matrix, self.matrix.b, self.lanes, j, k, block);
        for lane in (lane..self.copies(lane)).step_by(16) {
            put(&mut self.b, (register, bit, lane), self.matrix.b.bits(), bits);
        }
    }

    fn set_c_bits(&mut self, i: usize, j: usize, block: usize, bits: u64) {
        let place = result_place(self.matrix, self.lanes, i, j, block);
        put(&mut self.c, place, self.matrix.result.bits(), bits);
    }

    /// Where the copies of a lane end.
    fn copies(&self, lane: usize) -> usize {
        if self.matrix.unit == Unit::Copies { self.lanes } else { lane + 1 }
    }

    fn a(&self, i: usize, k: usize, block: usize) -> f64 {
        decode(
            self.matrix.a,
            get(&self.a, factor_place(self.matrix, self.matrix.a, self.lanes, i, k, block), self.matrix.a.bits()),
        )
    }

    fn b(&self, j: usize, k: usize, block: usize) -> f64 {
        decode(
            self.matrix.b,
            get(&self.b, factor_place(self.matrix, self.matrix.b, self.lanes, j, k, block), self.matrix.b.bits()),
        )
    }

    fn c(&self, i: usize, j: usize, block: usize) -> f64 {
        self.of_result(&self.c, i, j, block)
    }

    fn of_result(&self, registers: &Vgprs, i: usize, j: usize, block: usize) -> f64 {
        let place = result_place(self.matrix, self.lanes, i, j, block);
        decode(self.matrix.result, get(registers, place, self.matrix.result.bits()))
    }

    fn run(&self, modifiers: Modifiers) -> Vgprs {
        let mut d = self.c.clone();
        self.matrix.run(modifiers, self.lanes, &self.a, &self.b, &self.c, &mut d).expect("an instruction that runs");
        d
    }

    /// Row, column and block of each element of the result.
    fn elements(&self) -> impl Iterator<Item = (usize, usize, usize)> + use<> {
        let &Matrix { rows, columns, blocks, .. } = self.matrix;
        (0..rows * columns * blocks)
            .map(move |index| (index / columns % rows, index % columns, index / (rows * columns)))
    }

    /// Checks the result against the sum that `product` gives for row, column, k and block, plus C.
    fn check(&self, modifiers: Modifiers, product: impl Fn(usize, usize, usize, usize) -> f64) {
        let d = self.run(modifiers);
        for (i, j, block) in self.elements() {
            let sum: f64 = (0..self.matrix.depth).map(|k| product(i, j, k, block)).sum();
            let (found, expected) = (self.of_result(&d, i, j, block), self.c(i, j, block) + sum);
            assert_eq!(found, expected, "{} {modifiers:?} [{i}][{j}] of block {block}", self.matrix.name);
        }
    }
}

/// Modifiers with which elements are signed integers, as [`Example`] has them.
fn signed(matrix: &Matrix) -> Modifiers {
    let integers = matrix.is_wmma() && matrix.sum == Sum::Exact;
    Modifiers { neg_lo: if integers { 3 } else { 0 }, ..Modifiers::default() }
}
