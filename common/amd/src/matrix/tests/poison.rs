use super::super::table::MATRICES;
use super::super::{Halves, Matrix, Modifiers, Operand};
use super::{Example, named, signed, waves};
use crate::number::tests::Random;

/// For one bit of a source that is changed, each lane of the result that changes has that source among its own.
#[test]
fn what_changes_a_result_is_among_its_sources() {
    let mut random = Random(0x50);
    for matrix in &MATRICES {
        for &lanes in waves(matrix) {
            let example = Example::of_integers(matrix, lanes, &mut random);
            let blocks = matrix.blocks.ilog2() as u8;
            for modifiers in variants(matrix, blocks) {
                let before = example.run(modifiers);
                for _ in 0..4 {
                    check_change(&example, modifiers, &before, &mut random);
                }
            }
        }
    }
}

fn variants(matrix: &Matrix, blocks: u8) -> Vec<Modifiers> {
    let plain = signed(matrix);
    if matrix.is_wmma() {
        vec![plain]
    } else if blocks > 0 && matrix.broadcasts_a {
        vec![plain, Modifiers { cbsz: blocks, abid: 1, ..plain }, Modifiers { blgp: 3, ..plain }]
    } else {
        vec![plain, Modifiers { blgp: 5, ..plain }]
            .into_iter()
            .filter(|variant| variant.blgp == 0 || matrix.a != super::Element::F64)
            .collect()
    }
}

fn check_change(example: &Example, modifiers: Modifiers, before: &[[u32; 64]], random: &mut Random) {
    let matrix = example.matrix;
    for operand in [Operand::A, Operand::B, Operand::C] {
        let registers = matrix.registers(operand, example.lanes);
        let (register, lane) = (random.next() as usize % registers, random.next() as usize % example.lanes);
        let mut changed = Example { a: example.a.clone(), b: example.b.clone(), c: example.c.clone(), ..*example };
        let words = match operand {
            Operand::A => &mut changed.a,
            Operand::B => &mut changed.b,
            _ => &mut changed.c,
        };
        words[register][lane] ^= 0x0101_0101;
        let after = changed.run(modifiers);
        for (to, (before, after)) in before.iter().zip(&after).enumerate() {
            for to_lane in (0..example.lanes).filter(|&to_lane| before[to_lane] != after[to_lane]) {
                let sources = matrix.sources(modifiers, example.lanes, to, to_lane).expect("modifiers that it has");
                assert!(
                    sources.contains(&(operand, register, lane)),
                    "{} {modifiers:?}: {operand:?} register {register} lane {lane} changed {to} lane {to_lane}",
                    matrix.name
                );
            }
        }
    }
}

/// Poisoning any one half poisons just those lanes of the result that have it among their sources.
#[test]
fn poison_goes_where_the_sources_say() {
    let mut random = Random(0x51);
    for matrix in &MATRICES {
        for &lanes in waves(matrix) {
            let modifiers = signed(matrix);
            let clean = |operand| vec![[0, 0]; matrix.registers(operand, lanes)];
            for operand in [Operand::A, Operand::B, Operand::C] {
                let (mut a, mut b, mut c) = (clean(Operand::A), clean(Operand::B), clean(Operand::C));
                let poisoned = match operand {
                    Operand::A => &mut a,
                    Operand::B => &mut b,
                    _ => &mut c,
                };
                let (register, lane) = (random.next() as usize % poisoned.len(), random.next() as usize % lanes);
                // The lower half: of 16-bit results it is the one that is read.
                poisoned[register][0] = 1 << lane;
                let mut d = vec![[0; 2]; c.len()];
                matrix.poison(modifiers, lanes, &a, &b, &c, &mut d).expect("modifiers that it has");
                let written = if matrix.result.bits() == 16 { 1 } else { 2 };
                for (to, halves) in d.iter().enumerate() {
                    for to_lane in 0..lanes {
                        let sources = matrix.sources(modifiers, lanes, to, to_lane).expect("modifiers that it has");
                        let expected = sources.contains(&(operand, register, lane));
                        for half in &halves[..written] {
                            assert_eq!(
                                half >> to_lane & 1 == 1,
                                expected,
                                "{} {operand:?} {register} {lane}: {to} {to_lane}",
                                matrix.name
                            );
                        }
                        assert!(halves[written..].iter().all(|half| *half == 0));
                    }
                }
            }
        }
    }
}

#[test]
fn each_result_has_a_row_a_column_and_its_own() {
    for matrix in &MATRICES {
        for &lanes in waves(matrix) {
            let registers = matrix.registers(Operand::C, lanes);
            for (register, lane) in [(0, 0), (registers - 1, lanes - 1), (registers / 2, 17)] {
                let sources = matrix.sources(signed(matrix), lanes, register, lane).expect("modifiers that it has");
                let copies = if matrix.is_wmma() { lanes / 16 } else { 1 };
                let words = |bits: usize| bits.div_ceil(32);
                let count = |operand| sources.iter().filter(|source| source.0 == operand).count();
                assert_eq!(count(Operand::A), matrix.depth * copies * words(matrix.a.bits()), "{}", matrix.name);
                assert_eq!(count(Operand::B), matrix.depth * copies * words(matrix.b.bits()), "{}", matrix.name);
                let own: Vec<_> = sources.iter().filter(|source| source.0 == Operand::C).collect();
                assert!(own.contains(&&(Operand::C, register, lane)) && own.len() == words(matrix.result.bits()));
            }
        }
    }
}

#[test]
fn clean_sources_clean_the_result_but_not_the_half_that_is_not_written() {
    let matrix = named("v_wmma_f16_16x16x16_f16");
    let all: Halves = [u64::MAX; 2];
    let (clean, mut d) = (vec![[0, 0]; 8], vec![all; 8]);
    matrix
        .poison(Modifiers { op_sel: 4, ..Modifiers::default() }, 32, &clean, &clean, &clean, &mut d)
        .expect("it has op_sel");
    assert!(
        d.iter().all(|halves| *halves == [u64::MAX, !0 << 32]),
        "the low halves stay, and lanes that are not there"
    );
    let mfma = named("v_mfma_f32_32x32x8_f16");
    let mut d = vec![all; 16];
    mfma.poison(Modifiers::default(), 64, &[[0, 0]; 2], &[[0, 0]; 2], &[[0, 0]; 16], &mut d)
        .expect("it has no modifiers");
    assert!(d.iter().all(|halves| *halves == [0, 0]));
}
