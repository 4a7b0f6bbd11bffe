use super::super::table::MATRICES;
use super::super::{Element, Matrix, Operand};
use super::{Example, named, signed, waves};
use crate::number::tests::Random;

#[test]
fn every_instruction_multiplies() {
    let mut random = Random(0xa3d);
    for matrix in &MATRICES {
        for &lanes in waves(matrix) {
            let example = Example::of_integers(matrix, lanes, &mut random);
            example.check(signed(matrix), |i, j, k, block| example.a(i, k, block) * example.b(j, k, block));
        }
    }
}

#[test]
fn names_are_llvms_and_unique() {
    for (index, matrix) in MATRICES.iter().enumerate() {
        assert_eq!(MATRICES.iter().position(|other| other.name == matrix.name), Some(index));
        // The size, and the number of blocks where the new names say it, are in the name.
        let size = format!("_{}x{}x{}", matrix.rows, matrix.columns, matrix.depth);
        assert!(matrix.name.contains(&size), "{}", matrix.name);
        let blocks = matrix.name.split('_').find_map(|part| part.strip_suffix('b')?.parse().ok());
        assert!(blocks.is_none_or(|blocks: usize| blocks == matrix.blocks), "{}", matrix.name);
    }
    assert!(named("v_mfma_f32_32x32x8f16") != named("v_mfma_f32_32x32x8_f16"));
    assert_eq!(Matrix::named("v_smfmac_f32_16x16x32_f16"), None);
    assert_eq!(Matrix::named("v_mfma_f32_16x16x32_f16"), None, "of gfx950");
}

#[test]
fn elements_fill_their_registers() {
    for matrix in &MATRICES {
        for &lanes in waves(matrix) {
            let copies = if matrix.is_wmma() { lanes / 16 } else { 1 };
            for (operand, element) in [(Operand::A, matrix.a), (Operand::B, matrix.b)] {
                let bits = matrix.rows * matrix.depth * matrix.blocks * copies * element.bits();
                assert_eq!(matrix.registers(operand, lanes) * lanes * 32, bits, "{} {operand:?}", matrix.name);
            }
            let word = matrix.result.bits().max(32);
            let bits = matrix.rows * matrix.columns * matrix.blocks * word;
            assert_eq!(matrix.registers(Operand::C, lanes) * lanes * 32, bits, "{} C", matrix.name);
        }
    }
}

/// What the project's notes have of layouts, measured.
#[test]
fn measured_facts_hold() {
    let example = |name: &str| Example::empty(named(name), 64);
    // Lane 37 of 32x32x8: row 5 and k 4 to 7.
    let mut large = example("v_mfma_f32_32x32x8_f16");
    large.a[1][37] = 0x3c00_0000;
    large.b[1][37] = 0x4000_0000;
    let d = large.run(signed(large.matrix));
    // Row 5, column 5: register 8 * (r / 4) + 4 * (l / 32) + r % 4 = 5, r = 1, lane 37.
    for (register, values) in d.iter().enumerate() {
        for (lane, &value) in values.iter().enumerate() {
            let expected = if (register, lane) == (1, 37) { 2f32.to_bits() } else { 0 };
            assert_eq!(value, expected, "register {register}, lane {lane}");
        }
    }
    // 16x16x16: lane 18 is row 2 and k 4 to 7; row 4 * (l / 16) + r.
    let mut small = example("v_mfma_f32_16x16x16_f16");
    small.a[0][18] = 0x3c00;
    small.b[0][25] = 0x4000;
    let d = small.run(signed(small.matrix));
    assert_eq!(d[2][9], 2f32.to_bits());
    assert_eq!(d.iter().flatten().filter(|&&value| value != 0).count(), 1);
}

#[test]
fn xf32_cuts_its_inputs_off() {
    let matrix = named("v_mfma_f32_32x32x4_xf32");
    assert_eq!(matrix.a, Element::Xf32);
    let mut example = Example::empty(matrix, 64);
    example.set_a_bits(0, 0, 0, u64::from((1.0f32 + 1.9 * 2f32.powi(-11)).to_bits()));
    example.set_b_bits(0, 0, 0, u64::from((-1.0f32 - 1.9 * 2f32.powi(-10)).to_bits()));
    let d = example.run(signed(matrix));
    assert_eq!(f32::from_bits(d[0][0]), -1.0 - 2f32.powi(-10));
}
