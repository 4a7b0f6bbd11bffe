//! Sparse A: against dense products, the places of elements and of indices being written down here a second time, as AMD's calculator
//! prints them (gfx942, gfx12), and as the CDNA 4 document's tables "F16/BF16 Layout for Matrix B" to "IU8/F*8 Index Layout" have them.

use super::super::table::{CDNA4, RDNA4, SPARSE};
use super::super::{Halves, Matrix, Modifiers, Operand, Refused};
use super::{Place, Vgprs, decode, encode, get, put, result_place, signed, waves};
use crate::number::tests::Random;
use crate::target::Generation;

fn all() -> impl Iterator<Item = &'static Matrix> {
    SPARSE.iter().chain(&CDNA4).chain(&RDNA4).filter(|matrix| matrix.sparse)
}

/// Of the four k from `k / 4 * 4` on in row `i`, where the first or second (`at`) element that is there is, and its index's lowest bit;
/// and where B's element of `k` and column `i` is.
fn places(matrix: &Matrix, lanes: usize, i: usize, k: usize, at: usize) -> (Place, usize, Place) {
    let bits = matrix.a.bits();
    // Registers of A, of B, lane, and bit of the first index.
    let (a, b, lane, index) = match (matrix.is_wmma(), matrix.rows, matrix.depth, bits, lanes) {
        (false, 16, 32, 16, _) => (k / 4 % 2, k / 2 % 4, 16 * (k / 8), 4 * (k / 4 % 2)),
        (false, 32, 16, 16, _) => (k / 4 % 2, k / 2 % 4, 32 * (k / 8), 4 * (k / 4 % 2)),
        (false, 16, 64, 8, _) => (k / 8 % 2, k / 4 % 4, 16 * (k / 16), 4 * (k / 4 % 4)),
        (false, 32, 32, 8, _) => (k / 8 % 2, k / 4 % 4, 32 * (k / 16), 4 * (k / 4 % 4)),
        (false, 16, 64, 16, _) => {
            (2 * (k / 32) + k / 4 % 2, 4 * (k / 32) + k / 2 % 4, 16 * (k / 8 % 4), 8 * (k / 32) + 4 * (k / 4 % 2))
        }
        (false, 32, 32, 16, _) => {
            (2 * (k / 16) + k / 4 % 2, 4 * (k / 16) + k / 2 % 4, 32 * (k / 8 % 2), 8 * (k / 16) + 4 * (k / 4 % 2))
        }
        (false, 16, 128, 8, _) => {
            (2 * (k / 64) + k / 8 % 2, 4 * (k / 64) + k / 4 % 4, 16 * (k / 16 % 4), 16 * (k / 64) + 4 * (k / 4 % 4))
        }
        (false, 32, 64, 8, _) => {
            (2 * (k / 32) + k / 8 % 2, 4 * (k / 32) + k / 4 % 4, 32 * (k / 16 % 2), 16 * (k / 32) + 4 * (k / 4 % 4))
        }
        (true, 16, 32, 16, 32) => {
            (2 * (k / 16) + k / 4 % 2, 4 * (k / 16) + k / 2 % 4, 16 * (k / 8 % 2), 8 * (k / 16) + 4 * (k / 4 % 2))
        }
        (true, 16, 32, 16, 64) => (k / 4 % 2, k / 2 % 4, 16 * (k / 8), 4 * (k / 4 % 2)),
        (true, 16, 32, 8, 32) => (k / 8 % 2, k / 4 % 4, 16 * (k / 16), 4 * (k / 4 % 4)),
        (true, 16, 32, 8, 64) => (0, k / 4 % 2, 32 * (k / 8 % 2) + 16 * (k / 16), 4 * (k / 4 % 2)),
        (true, 16, 32, 4, 32) => (0, k / 8 % 2, 16 * (k / 16), 4 * (k / 4 % 4)),
        // Only lanes 0 to 31 have elements of A.
        (true, 16, 32, 4, 64) => {
            let b = (0, 4 * (k % 8), 32 * (k / 8 % 2) + 16 * (k / 16) + i);
            return ((0, 8 * (k / 4 % 4) + 4 * at, 16 * (k / 16) + i), 4 * (k / 4 % 4) + 2 * at, b);
        }
        (true, 16, 64, 4, 32) => (k / 16 % 2, k / 8 % 4, 16 * (k / 32), 4 * (k / 4 % 8)),
        (true, 16, 64, 4, 64) => (0, k / 8 % 2, 32 * (k / 16 % 2) + 16 * (k / 32), 4 * (k / 4 % 4)),
        other => panic!("no layout of {other:?}"),
    };
    // Two elements for each four k.
    let pairs = 16 / bits;
    let bit = 2 * bits * (k / 4 % pairs) + bits * at;
    ((a, bit, lane + i), index + 2 * at, (b, k * bits % 32, lane + i))
}

/// "Sparse Index Select" and the calculator's `get_num_compression_sets`.
fn sets(matrix: &Matrix, lanes: usize) -> usize {
    let larger = !matrix.is_wmma() && matrix.rows * matrix.depth * matrix.a.bits() == 16_384;
    match (matrix.is_wmma(), matrix.a.bits(), lanes) {
        (false, 16, _) => 4 >> u32::from(larger),
        (false, _, _) => 2 >> u32::from(larger),
        (true, 4, 32) if matrix.depth == 64 => 1,
        (true, 8 | 16, 64) => 4,
        _ => 2,
    }
}

struct Example {
    matrix: &'static Matrix,
    lanes: usize,
    /// By row and k, zeros where nothing is.
    dense: Vec<Vec<f64>>,
    /// Which two of four.
    pairs: Vec<Vec<[usize; 2]>>,
    a: Vgprs,
    b: Vgprs,
    c: Vgprs,
    index: [u32; 64],
}

impl Example {
    /// Small integers, with indices in one set and anything in the others.
    fn new(matrix: &'static Matrix, lanes: usize, set: usize, random: &mut Random) -> Self {
        let registers = |operand| vec![[0; 64]; matrix.registers(operand, lanes)];
        let (a, b, c) = (registers(Operand::A), registers(Operand::B), registers(Operand::C));
        let index = std::array::from_fn(|_| random.next() as u32);
        let (dense, pairs) =
            (vec![vec![0.0; matrix.depth]; matrix.rows], vec![vec![[0; 2]; matrix.depth / 4]; matrix.rows]);
        let mut example = Self { matrix, lanes, dense, pairs, a, b, c, index };
        let width = 32 / sets(matrix, lanes);
        for i in 0..matrix.rows {
            for k in 0..matrix.depth {
                let value = encode(matrix.b, random.integer(5));
                put(&mut example.b, places(matrix, lanes, i, k, 0).2, matrix.b.bits(), value);
            }
            for group in 0..matrix.depth / 4 {
                let pair = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]][random.next() as usize % 6];
                example.pairs[i][group] = pair;
                for (at, of) in pair.into_iter().enumerate() {
                    let value = random.integer(5);
                    let (place, bit, _) = places(matrix, lanes, i, 4 * group, at);
                    put(&mut example.a, place, matrix.a.bits(), encode(matrix.a, value));
                    example.dense[i][4 * group + of] = value as f64;
                    let bit = bit + set * width;
                    let word = &mut example.index[place.2];
                    *word = *word & !(3 << bit) | (of as u32) << bit;
                }
            }
            for j in 0..matrix.columns {
                let value = encode(matrix.result, random.integer(3));
                put(&mut example.c, result_place(matrix, lanes, i, j, 0), matrix.result.bits(), value);
            }
        }
        example
    }

    fn of_result(&self, registers: &Vgprs, i: usize, j: usize) -> f64 {
        let place = result_place(self.matrix, self.lanes, i, j, 0);
        decode(self.matrix.result, get(registers, place, self.matrix.result.bits()))
    }

    fn b(&self, j: usize, k: usize) -> f64 {
        decode(self.matrix.b, get(&self.b, places(self.matrix, self.lanes, j, k, 0).2, self.matrix.b.bits()))
    }

    fn run(&self, modifiers: Modifiers) -> Vgprs {
        let mut d = self.c.clone();
        let sources = [&self.a[..], &self.b[..], &self.c[..]];
        self.matrix.run_sparse(modifiers, self.lanes, sources, &self.index, &mut d).expect("it runs");
        d
    }

    fn check(&self, modifiers: Modifiers, sign: impl Fn(usize, usize, usize) -> f64) {
        let d = self.run(modifiers);
        for i in 0..self.matrix.rows {
            for j in 0..self.matrix.columns {
                let product = |k: usize| self.dense[i][k] * self.b(j, k) * sign(i, j, k);
                let expected = self.of_result(&self.c, i, j) + (0..self.matrix.depth).map(product).sum::<f64>();
                let found = self.of_result(&d, i, j);
                assert_eq!(found, expected, "{} {modifiers:?} {} [{i}][{j}]", self.matrix.name, self.lanes);
            }
        }
    }
}

/// The modifiers that choose a set.
fn choosing(matrix: &Matrix, set: usize) -> Modifiers {
    let plain = signed(matrix);
    match matrix.is_wmma() {
        true => Modifiers { op_sel: set as u8, ..plain },
        false => Modifiers { abid: set as u8, ..plain },
    }
}

#[test]
fn a_sparse_matrix_is_multiplied_as_the_dense_one() {
    let mut random = Random(0x24);
    assert_eq!(all().count(), 14 + 22 + 11);
    for matrix in all() {
        for &lanes in waves(matrix) {
            for set in 0..sets(matrix, lanes) {
                let example = Example::new(matrix, lanes, set, &mut random);
                example.check(choosing(matrix, set), |_, _, _| 1.0);
                let found = matrix.disordered(choosing(matrix, set), lanes, &example.index, [0, 0]);
                assert_eq!(found, Ok(None), "{}", matrix.name);
            }
        }
    }
}

/// "If CBSZ[1:0] != 0; the very first is selected"; where there is one set, both fields are ignored.
#[test]
fn the_first_set_is_used_whatever_abid_says() {
    let mut random = Random(0x25);
    for matrix in all().filter(|matrix| !matrix.is_wmma()) {
        let example = Example::new(matrix, 64, 0, &mut random);
        example.check(Modifiers { cbsz: 3, abid: 1, ..Modifiers::default() }, |_, _, _| 1.0);
        if sets(matrix, 64) == 1 {
            example.check(Modifiers { abid: 3, ..Modifiers::default() }, |_, _, _| 1.0);
        }
    }
}

/// `neg_lo` is of the lower halves of registers, which of A are the first one of each two that are there.
#[test]
fn signs_are_of_halves_of_registers() {
    let mut random = Random(0x26);
    for matrix in RDNA4.iter().filter(|matrix| matrix.sparse && matrix.a.bits() == 16) {
        for lanes in [32, 64] {
            let example = Example::new(matrix, lanes, 0, &mut random);
            let sign = |negative: bool| if negative { -1.0 } else { 1.0 };
            let second = |i: usize, k: usize| example.pairs[i][k / 4][1] == k % 4;
            example.check(Modifiers { neg_lo: 1, ..Modifiers::default() }, |i, _, k| sign(!second(i, k)));
            example.check(Modifiers { neg_hi: 1, ..Modifiers::default() }, |i, _, k| sign(second(i, k)));
            example.check(Modifiers { neg_lo: 2, ..Modifiers::default() }, |_, _, k| sign(k % 2 == 0));
            example
                .check(Modifiers { neg_hi: 3, ..Modifiers::default() }, |i, _, k| sign(second(i, k) != (k % 2 == 1)));
        }
    }
}

/// What is not chosen takes no part, be it no number.
#[test]
fn elements_of_b_that_are_not_chosen_take_no_part() {
    let mut random = Random(0x27);
    for name in ["v_smfmac_f32_16x16x32_f16", "v_swmmac_f32_16x16x32_bf16"] {
        let matrix = all().find(|matrix| matrix.name == name).expect("an instruction");
        let lanes = waves(matrix)[0];
        let mut example = Example::new(matrix, lanes, 0, &mut random);
        for i in 0..matrix.rows {
            for group in 0..matrix.depth / 4 {
                for at in 0..2 {
                    let (place, bit, _) = places(matrix, lanes, i, 4 * group, at);
                    let word = &mut example.index[place.2];
                    *word = *word & !(3 << bit) | (at as u32) << bit;
                }
            }
        }
        let before = example.run(Modifiers::default());
        for k in (2..matrix.depth).step_by(4) {
            put(&mut example.b, places(matrix, lanes, 3, k, 0).2, 16, 0x7fff);
        }
        assert_eq!(example.run(Modifiers::default()), before, "{name}");
        // Nor is it missed that nobody wrote it.
        let halves = |registers: &Vgprs| vec![[0, 0]; registers.len()];
        let (a, mut b, c, mut d): (Vec<Halves>, _, _, _) =
            (halves(&example.a), halves(&example.b), halves(&example.c), halves(&example.c));
        let (register, bit, lane) = places(matrix, lanes, 3, 2, 0).2;
        b[register][bit / 16] = 1 << lane;
        let known = (&example.index, [0, 0]);
        matrix.poison_sparse(Modifiers::default(), lanes, [&a, &b, &c], known, &mut d).expect("it runs");
        assert!(d.iter().all(|halves| *halves == [0, 0]), "{name}");
        let (register, bit, lane) = places(matrix, lanes, 3, 1, 0).2;
        b[register][bit / 16] |= 1 << lane;
        matrix.poison_sparse(Modifiers::default(), lanes, [&a, &b, &c], known, &mut d).expect("it runs");
        for i in 0..16 {
            let (register, _, lane) = result_place(matrix, lanes, i, 3, 0);
            assert!(d[register][0] >> lane & 1 == 1, "{name} {i}");
        }
        let bad: u32 = d.iter().map(|halves| halves[0].count_ones()).sum();
        assert_eq!(bad, 16, "{name}: column 3 alone");
    }
}

/// An element, or an index, that nobody wrote taints its row.
#[test]
fn rows_of_what_nobody_wrote_are_tainted() {
    let mut random = Random(0x28);
    for matrix in all() {
        for &lanes in waves(matrix) {
            let example = Example::new(matrix, lanes, 0, &mut random);
            let halves = |registers: &Vgprs| vec![[0, 0]; registers.len()];
            let (place, bit, _) = places(matrix, lanes, 5, matrix.depth - 4, 1);
            for of_index in [false, true] {
                let (mut a, mut unwritten) = (halves(&example.a), [0, 0]);
                match of_index {
                    true => unwritten[bit / 16] = 1 << place.2,
                    false => a[place.0][place.1 / 16] = 1 << place.2,
                }
                let (b, c, mut d) = (halves(&example.b), halves(&example.c), halves(&example.c));
                let index = (&example.index, unwritten);
                matrix.poison_sparse(choosing(matrix, 0), lanes, [&a, &b, &c], index, &mut d).expect("it runs");
                let bad: u32 = d.iter().flatten().map(|lanes| lanes.count_ones()).sum();
                let halves = if matrix.result.bits() == 16 { 1 } else { 2 };
                assert_eq!(bad as usize, matrix.columns * halves, "{}", matrix.name);
                for j in 0..matrix.columns {
                    let (register, shift, lane) = result_place(matrix, lanes, 5, j, 0);
                    assert!(d[register][shift / 16] >> lane & 1 == 1, "{} {j}", matrix.name);
                }
            }
            let sources = matrix.sources(choosing(matrix, 0), lanes, 0, 1).expect("modifiers that it has");
            // Of 16-bit results a register has two.
            let rows = 32 / matrix.result.bits();
            let count = |operand| sources.iter().filter(|source| source.0 == operand).count() / rows;
            assert_eq!(count(Operand::A), matrix.depth / 2, "{}", matrix.name);
            assert_eq!(count(Operand::Index), matrix.depth / 2, "{}", matrix.name);
            assert_eq!(count(Operand::B), matrix.depth, "{}", matrix.name);
            assert_eq!(count(Operand::C), 1, "{}", matrix.name);
        }
    }
}

#[test]
fn pairs_that_do_not_ascend_are_found() {
    let mut random = Random(0x29);
    for matrix in all() {
        for &lanes in waves(matrix) {
            let mut example = Example::new(matrix, lanes, 0, &mut random);
            let (place, bit, _) = places(matrix, lanes, 9, matrix.depth - 8, 0);
            // The second index becomes the first.
            let word = &mut example.index[place.2];
            *word = *word & !(12 << bit) | (*word >> bit & 3) << (bit + 2);
            let found = |unwritten| matrix.disordered(choosing(matrix, 0), lanes, &example.index, unwritten);
            assert_eq!(found([0, 0]), Ok(Some(place.2)), "{}", matrix.name);
            assert_eq!(found([u64::MAX; 2]), Ok(None), "{}", matrix.name);
        }
    }
}

#[test]
fn what_a_sparse_instruction_does_not_have_is_refused() {
    let mut random = Random(0x2a);
    let mut refused = |name: &str, generation, lanes, modifiers: Modifiers| {
        let matrix = Matrix::of(name, generation).expect("an instruction");
        let example = Example::new(matrix, lanes, 0, &mut random);
        let sources = [&example.a[..], &example.b[..], &example.c[..]];
        let mut d = example.c.clone();
        match matrix.run_sparse(modifiers, lanes, sources, &example.index, &mut d) {
            Err(Refused::Modifier { modifier, .. }) => modifier,
            other => panic!("{name} {modifiers:?}: {other:?}"),
        }
    };
    let default = Modifiers::default();
    let (older, newer, wave) = (Generation::Cdna3, Generation::Cdna4, Generation::Rdna4);
    assert_eq!(refused("v_smfmac_f32_16x16x32_f16", older, 64, Modifiers { cbsz: 4, ..default }), "cbsz");
    assert_eq!(refused("v_smfmac_f32_16x16x32_f16", older, 64, Modifiers { abid: 4, ..default }), "abid");
    assert_eq!(refused("v_smfmac_i32_16x16x64_i8", older, 64, Modifiers { abid: 2, ..default }), "abid");
    assert_eq!(refused("v_smfmac_f32_16x16x64_f16", newer, 64, Modifiers { abid: 2, ..default }), "abid");
    assert_eq!(refused("v_smfmac_f32_16x16x64_f16", newer, 64, Modifiers { blgp: 1, ..default }), "blgp");
    assert_eq!(refused("v_swmmac_f32_16x16x32_f16", wave, 32, Modifiers { op_sel: 2, ..default }), "op_sel");
    assert_eq!(refused("v_swmmac_i32_16x16x64_iu4", wave, 32, Modifiers { op_sel: 1, ..default }), "op_sel");
    assert_eq!(refused("v_swmmac_f32_16x16x32_f16", wave, 32, Modifiers { neg_lo: 4, ..default }), "neg_lo");
    assert_eq!(refused("v_swmmac_f32_16x16x32_f16", wave, 32, Modifiers { neg_hi: 4, ..default }), "neg_hi");
    assert_eq!(refused("v_swmmac_f32_16x16x32_f16", wave, 32, Modifiers { clamp: true, ..default }), "clamp");
    let matrix = Matrix::named("v_smfmac_f32_16x16x32_f16").expect("an instruction");
    let mut d = [[0; 64]; 4];
    let error = matrix.run(default, 64, &[[0; 64]; 2], &[[0; 64]; 4], &[[0; 64]; 4], &mut d);
    let message = error.expect_err("it has no indices").to_string();
    assert_eq!(message, "v_smfmac_f32_16x16x32_f16: 0 registers of Index, expected 1");
}
