use super::super::table::{self, MATRICES};
use super::super::{Element, Matrix, Modifiers, Operand};
use super::{Example, encode, named, signed, waves};
use crate::number::tests::Random;
use crate::target::Generation;

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

#[test]
fn what_gfx950_and_gfx12_added_multiplies() {
    let mut random = Random(5);
    for matrix in table::CDNA4.iter().chain(&table::RDNA4).filter(|matrix| !matrix.sparse) {
        for &lanes in waves(matrix) {
            let example = Example::of_integers(matrix, lanes, &mut random);
            example.check(signed(matrix), |i, j, k, block| example.a(i, k, block) * example.b(j, k, block));
        }
    }
}

/// Formats of 4, 6 and 8 bits, any of A with any of B, with scales: that of a row's first 32 k is 2, of all others 1.
#[test]
fn formats_are_chosen_and_scaled() {
    let mut random = Random(6);
    for name in ["v_mfma_f32_16x16x128_f8f6f4", "v_mfma_f32_32x32x64_f8f6f4"] {
        let open = Matrix::of(name, Generation::Cdna4).expect("an instruction");
        for formats in 0..25_u8 {
            let matrix: &'static Matrix =
                Box::leak(Box::new(open.with_formats(formats / 5, formats % 5).expect("formats")));
            let example = Example::filled(matrix, 64, |operand| match operand {
                Operand::A => encode(matrix.a, random.integer(2)),
                Operand::B => encode(matrix.b, random.integer(2)),
                _ => encode(matrix.result, random.integer(100)),
            });
            example.check(Modifiers::default(), |i, j, k, block| example.a(i, k, block) * example.b(j, k, block));
            // 2^(code - 127), in the second byte.
            let scales: [u32; 64] = std::array::from_fn(|lane| if lane < matrix.rows { 128 << 8 } else { 127 << 8 });
            let ones = [127 << 8; 64];
            let mut d = example.c.clone();
            let sources = [&example.a[..], &example.b[..], &example.c[..]];
            matrix.run_scaled(Modifiers::default(), sources, ([&scales, &ones], [1, 1]), &mut d).expect("it runs");
            for (i, j, block) in example.elements() {
                let weigh = |k: usize| if k < 32 { 2.0 } else { 1.0 };
                let sum: f64 =
                    (0..matrix.depth).map(|k| weigh(k) * example.a(i, k, block) * example.b(j, k, block)).sum();
                assert_eq!(example.of_result(&d, i, j, block), example.c(i, j, block) + sum, "{name} {formats}");
            }
        }
    }
}

#[test]
fn other_formats_are_refused() {
    let open = Matrix::of("v_mfma_f32_16x16x128_f8f6f4", Generation::Cdna4).expect("an instruction");
    assert_eq!(open.with_formats(5, 0), None);
}
