use super::super::table::MATRICES;
use super::super::{Element, Matrix, Modifiers, Operand, Pattern, Refused, Sum};
use super::{Example, decode, factor_place, get, named};
use crate::number::tests::Random;

#[test]
fn a_block_of_a_is_broadcast() {
    let mut random = Random(0xcb5);
    for matrix in MATRICES.iter().filter(|matrix| matrix.broadcasts_a) {
        let example = Example::of_integers(matrix, 64, &mut random);
        for cbsz in 1..=matrix.blocks.ilog2() as u8 {
            for abid in [0, (1 << cbsz) - 1] {
                let modifiers = Modifiers { cbsz, abid, ..Modifiers::default() };
                example.check(modifiers, |i, j, k, block| {
                    let group = block / (1 << cbsz) * (1 << cbsz);
                    example.a(i, k, group + usize::from(abid)) * example.b(j, k, block)
                });
            }
        }
    }
}

/// "MI300 ISA", BLGP: which lane is read instead of `lane`.
fn pattern(blgp: u8, lane: usize) -> usize {
    match blgp {
        1 => lane % 32,
        2 => lane % 32 + 32,
        3 => (lane + 16) % 64,
        4..=7 => lane % 16 + 16 * (usize::from(blgp) - 4),
        _ => lane,
    }
}

#[test]
fn lanes_of_b_are_exchanged() {
    let mut random = Random(0xb19);
    for matrix in MATRICES.iter().filter(|matrix| matrix.pattern == Pattern::Lanes) {
        let example = Example::of_integers(matrix, 64, &mut random);
        for blgp in 1..8 {
            example.check(Modifiers { blgp, ..Modifiers::default() }, |i, j, k, block| {
                let (register, bit, lane) = factor_place(matrix, matrix.b, 64, j, k, block);
                let bits = get(&example.b, (register, bit, pattern(blgp, lane)), matrix.b.bits());
                example.a(i, k, block) * decode(matrix.b, bits)
            });
        }
    }
}

#[test]
fn doubles_of_gfx942_are_negated() {
    let mut random = Random(0x64);
    for name in ["v_mfma_f64_16x16x4_f64", "v_mfma_f64_4x4x4_4b_f64"] {
        let example = Example::of_integers(named(name), 64, &mut random);
        for blgp in 0..8u8 {
            let sign = |bit: u8| if blgp >> bit & 1 == 1 { -1.0 } else { 1.0 };
            let d = example.run(Modifiers { blgp, ..Modifiers::default() });
            for (i, j, block) in example.elements() {
                let sum: f64 = (0..4).map(|k| example.a(i, k, block) * example.b(j, k, block)).sum();
                let expected = sign(2) * example.c(i, j, block) + sign(0) * sign(1) * sum;
                assert_eq!(example.of_result(&d, i, j, block), expected, "{name} {blgp}");
            }
        }
    }
}

fn wmma_floats() -> impl Iterator<Item = &'static Matrix> {
    MATRICES.iter().filter(|matrix| matrix.sum == Sum::Wide)
}

#[test]
fn floats_of_wmma_are_negated_by_halves() {
    let mut random = Random(0xe6);
    for matrix in wmma_floats() {
        let mut example = Example::of_integers(matrix, 32, &mut random);
        for (neg_lo, neg_hi) in [(1, 0), (2, 0), (0, 1), (0, 2), (3, 3), (1, 2)] {
            let sign = |field: u8, bit| if field >> bit & 1 == 1 { -1.0 } else { 1.0 };
            let of = |bit: u8, k: usize| sign([neg_lo, neg_hi][k % 2], bit);
            example.check(Modifiers { neg_lo, neg_hi, ..Modifiers::default() }, |i, j, k, _| {
                of(0, k) * example.a(i, k, 0) * of(1, k) * example.b(j, k, 0)
            });
        }
        example.a.iter_mut().for_each(|register| register.fill(0));
        let with = |neg_lo, neg_hi| example.run(Modifiers { neg_lo, neg_hi, ..Modifiers::default() });
        let (negated, absolute, both) = (with(4, 0), with(0, 4), with(4, 4));
        for i in 0..16 {
            let c = example.c(i, 3, 0);
            assert_eq!(example.of_result(&negated, i, 3, 0), -c);
            assert_eq!(example.of_result(&absolute, i, 3, 0), c.abs());
            assert_eq!(example.of_result(&both, i, 3, 0), -c.abs());
        }
    }
}

#[test]
fn sixteen_bit_results_leave_the_other_half() {
    let mut random = Random(0x16);
    for matrix in wmma_floats().filter(|matrix| matrix.result.bits() == 16) {
        for lanes in [32, 64] {
            let low = Example::of_integers(matrix, lanes, &mut random);
            let expected = low.run(Modifiers::default());
            for (shift, op_sel) in [(0, 0), (16, 4)] {
                let high = Modifiers { op_sel, ..Modifiers::default() };
                let c: Vec<_> = low.c.iter().map(|register| register.map(|word| word << shift)).collect();
                let mut d = vec![[0xdead_beef; 64]; c.len()];
                matrix.run(high, lanes, &low.a, &low.b, &c, &mut d).expect("an instruction that runs");
                for (found, expected) in d.iter().zip(&expected) {
                    for lane in 0..lanes {
                        let rest = if shift == 0 { 0xdead_0000 } else { 0x0000_beef };
                        assert_eq!(found[lane], (expected[lane] & 0xffff) << shift | rest, "{}", matrix.name);
                    }
                }
            }
        }
    }
}

#[test]
fn integers_of_wmma_are_signed_or_not_and_saturate() {
    for (name, bits) in [("v_wmma_i32_16x16x16_iu8", 8), ("v_wmma_i32_16x16x16_iu4", 4)] {
        let mut example = Example::empty(named(name), 32);
        let (ones, most) = ((1i64 << bits) - 1, i64::from(i32::MAX));
        for k in 0..16 {
            example.set_a(2, k, 0, ones);
            example.set_b(3, k, 0, ones);
        }
        for (neg_lo, product) in [(0, ones * ones), (1, -ones), (2, -ones), (3, 1)] {
            for (clamp, start) in
                [(false, 0), (true, 0), (true, most - 1), (false, most - 1), (true, i64::from(i32::MIN))]
            {
                example.set_c(2, 3, 0, start);
                let d = example.run(Modifiers { neg_lo, clamp, ..Modifiers::default() });
                let sum = start + 16 * product;
                let expected = if clamp { sum.clamp(i64::from(i32::MIN), most) } else { i64::from(sum as i32) };
                assert_eq!(example.of_result(&d, 2, 3, 0), expected as f64, "{name} {neg_lo} {clamp} {start}");
            }
        }
    }
}

#[test]
fn copies_that_differ_are_found() {
    let matrix = named("v_wmma_f32_16x16x16_f16");
    let mut random = Random(0xc0);
    for lanes in [32, 64] {
        let mut example = Example::of_integers(matrix, lanes, &mut random);
        assert_eq!(matrix.unreplicated(lanes, &example.a, &example.b), None);
        example.b[5][lanes - 1] ^= 0x10;
        assert_eq!(matrix.unreplicated(lanes, &example.a, &example.b), Some((Operand::B, 5, lanes - 1)));
    }
    let mfma = Example::of_integers(named("v_mfma_f32_32x32x8_f16"), 64, &mut random);
    assert_eq!(mfma.matrix.unreplicated(64, &mfma.a, &mfma.b), None);
}

#[test]
fn what_an_instruction_does_not_have_is_refused() {
    let default = Modifiers::default();
    let refused = |name: &str, modifiers: Modifiers| {
        let example = Example::empty(named(name), 64);
        let mut d = example.c.clone();
        match example.matrix.run(modifiers, 64, &example.a, &example.b, &example.c, &mut d) {
            Err(Refused::Modifier { modifier, .. }) => modifier,
            other => panic!("{name} {modifiers:?}: {other:?}"),
        }
    };
    assert_eq!(refused("v_mfma_f32_32x32x8_f16", Modifiers { cbsz: 1, ..default }), "cbsz");
    assert_eq!(refused("v_mfma_f32_32x32x4_2b_f16", Modifiers { cbsz: 2, ..default }), "cbsz");
    assert_eq!(refused("v_mfma_f32_16x16x4_4b_f16", Modifiers { cbsz: 1, abid: 2, ..default }), "abid");
    assert_eq!(refused("v_mfma_f64_16x16x4f64", Modifiers { blgp: 1, ..default }), "blgp");
    assert_eq!(refused("v_mfma_f32_32x32x8_f16", Modifiers { blgp: 8, ..default }), "blgp");
    assert_eq!(refused("v_mfma_f32_32x32x8_f16", Modifiers { neg_lo: 1, ..default }), "neg_lo");
    assert_eq!(refused("v_mfma_i32_16x16x32_i8", Modifiers { clamp: true, ..default }), "clamp");
    assert_eq!(refused("v_wmma_i32_16x16x16_iu8", Modifiers { neg_hi: 1, ..default }), "neg_hi");
    assert_eq!(refused("v_wmma_i32_16x16x16_iu8", Modifiers { neg_lo: 4, ..default }), "neg_lo");
    assert_eq!(refused("v_wmma_f32_16x16x16_f16", Modifiers { op_sel: 4, ..default }), "op_sel");
    assert_eq!(refused("v_wmma_f16_16x16x16_f16", Modifiers { op_sel: 1, ..default }), "op_sel");
    assert_eq!(refused("v_wmma_f16_16x16x16_f16", Modifiers { clamp: true, ..default }), "clamp");
    let example = Example::empty(named("v_mfma_f32_32x32x8_f16"), 64);
    let mut d = example.c.clone();
    let error = example.matrix.run(default, 32, &example.a, &example.b, &example.c, &mut d);
    assert_eq!(error, Err(Refused::Lanes { name: example.matrix.name, lanes: 32 }));
    let error = example.matrix.run(default, 64, &example.a, &example.b[..1], &example.c, &mut d);
    let message = error.expect_err("a register is missing").to_string();
    assert_eq!(message, "v_mfma_f32_32x32x8_f16: 1 registers of B, expected 2");
    assert_eq!(example.matrix.result, Element::F32);
}
