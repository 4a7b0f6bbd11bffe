use super::super::table::MATRICES;
use super::super::{Element, Matrix, Modifiers, Operand, Sum};
use super::{Example, decode, factor_place, get, named, result_place};
use crate::number::single_to_half;
use crate::number::tests::Random;

/// The published example (arXiv 2511.10909, equation 10 and table 8), of which the exact sum is -0.875.
#[test]
fn the_published_example_comes_out_as_on_hardware() {
    for (name, expected) in [
        ("v_mfma_f32_32x32x4bf16", -0.375),
        ("v_mfma_f32_32x32x8bf16_1k", 0.0),
        ("v_mfma_f32_32x32x8f16", 0.0),
        ("v_mfma_f32_32x32x8_f16", -0.5),
        ("v_mfma_f32_16x16x16_f16", -0.5),
        ("v_mfma_f32_32x32x8_bf16", -0.5),
        ("v_mfma_f32_16x16x32_bf8_bf8", -1.0),
        ("v_mfma_f64_16x16x4_f64", -0.875),
    ] {
        let matrix = named(name);
        let mut example = Example::empty(matrix, 64);
        for (k, (a, b)) in [(-8192.0, 1024.0), (-0.5, 1.0), (-0.25, 1.0), (-0.125, 1.0)].into_iter().enumerate() {
            example.set_a_bits(1, k, 0, bits_of(matrix.a, a));
            example.set_b_bits(2, k, 0, bits_of(matrix.b, b));
        }
        example.set_c(1, 2, 0, 8_388_608);
        let d = example.run(Modifiers::default());
        assert_eq!(example.of_result(&d, 1, 2, 0), expected, "{name}");
    }
}

/// The code of a value that the element has.
fn bits_of(element: Element, value: f64) -> u64 {
    match element {
        Element::F64 => value.to_bits(),
        Element::F32 | Element::Xf32 => u64::from((value as f32).to_bits()),
        Element::Bf16 => u64::from((value as f32).to_bits() >> 16),
        Element::F16 => u64::from(single_to_half(value as f32)),
        _ => (0..=0xff).find(|&bits| decode(element, bits) == value).expect("a value that it has"),
    }
}

/// Digits of the mantissa, and the exponents' bias.
fn format_of(element: Element) -> (u32, i32) {
    match element {
        Element::F32 | Element::Xf32 => (23, 127),
        Element::F16 => (10, 15),
        Element::Bf16 => (7, 127),
        Element::Fp8 => (3, 8),
        _ => (2, 16),
    }
}

/// Numbers with so many exponents around 1, denormals and zeros among them.
fn random_bits(element: Element, random: &mut Random, spread: i32) -> u64 {
    let (digits, bias) = format_of(element);
    let spread = spread.min(2 * bias - 2);
    let bits = random.next();
    let exponent = match random.next() % 16 {
        0 => 0,
        1 => return 0,
        _ => bias - spread / 2 + (random.next() % spread as u64) as i32,
    };
    let code = bits & 1 << (element.bits() - 1) | (exponent as u64) << digits | bits & ((1 << digits) - 1);
    // -0 is what FP8 and BF8 have for NaN.
    if code == 0x80 { 0 } else { code }
}

fn random_example(matrix: &'static Matrix, random: &mut Random, spread: i32) -> Example {
    Example::filled(matrix, 64, |operand| match operand {
        Operand::A => random_bits(matrix.a, random, spread),
        Operand::B => random_bits(matrix.b, random, spread),
        _ => random_bits(Element::F32, random, 2 * spread),
    })
}

/// A number in integers: `significand` * 2^`last`, and the exponent of its format's first digit.
#[derive(Clone, Copy)]
struct Integer {
    significand: i128,
    last: i32,
    top: i32,
}

impl Integer {
    fn of(element: Element, bits: u64) -> Integer {
        let bits = if element == Element::Xf32 { bits & !0x1fff } else { bits };
        let (digits, bias) = format_of(element);
        let field = (bits >> digits) as i32 & ((1 << (element.bits() as u32 - 1 - digits)) - 1);
        let fraction = i128::from(bits & ((1 << digits) - 1));
        let significand = if field == 0 { fraction } else { fraction | 1 << digits };
        let negative = bits >> (element.bits() - 1) & 1 == 1;
        let top = field.max(1) - bias;
        Integer { significand: if negative { -significand } else { significand }, last: top - digits as i32, top }
    }

    fn times(self, other: Integer) -> Integer {
        let significand = self.significand * other.significand;
        Integer { significand, last: self.last + other.last, top: self.top + other.top }
    }

    /// In units of 2^`unit`, cut off towards zero or downwards.
    fn cut(self, unit: i32, downwards: bool) -> i128 {
        let lost = (unit - self.last).clamp(-100, 126);
        match lost {
            ..=0 => self.significand << -lost,
            _ if downwards => self.significand >> lost,
            _ => self.significand / (1 << lost),
        }
    }
}

/// The published algorithms 10 (one part) and 11 (two) in integers.
fn truncated(products: &[Integer], before: u32, parts: usize) -> u32 {
    // A product that is zero has no exponent that would count.
    const NONE: i32 = -999;
    let part = |part: usize| products.iter().skip(part).step_by(parts).filter(|product| product.significand != 0);
    let sums: Vec<Integer> = (0..parts)
        .map(|index| {
            let top = part(index).map(|product| product.top).max().unwrap_or(NONE);
            Integer { significand: part(index).map(|product| product.cut(top - 24, false)).sum(), last: top - 24, top }
        })
        .collect();
    let dot_top = sums.iter().map(|sum| sum.top).max().unwrap_or(NONE);
    let significand = sums.iter().map(|sum| sum.cut(dot_top - 24, true)).sum();
    let dot = Integer { significand, last: dot_top - 24, top: dot_top };
    let c = Integer::of(Element::F32, u64::from(before));
    let top = dot_top.max(c.top);
    let far = parts > 1 && c.top < top - 25;
    let total = dot.cut(top - 32, true) + if far { 0 } else { c.cut(top - 24, true) << 8 };
    let first = 127 - total.unsigned_abs().leading_zeros() as i32 + top - 32;
    let unit = first.max(-126) - 31;
    // At most 33 digits are left, so that FP64 holds them, and the rounding to FP32 is the only one.
    let kept = Integer { significand: total, last: top - 32, top }.cut(unit, true);
    ((kept as f64 * 2f64.powi(unit / 2) * 2f64.powi(unit - unit / 2)) as f32).to_bits()
}

#[test]
fn truncated_sums_are_the_algorithms_in_integers() {
    let mut random = Random(0x7a);
    for matrix in &MATRICES {
        let (group, parts) = match matrix.sum {
            Sum::Truncated(group) => (group.min(matrix.depth), 1),
            Sum::TruncatedHalves => (16, 2),
            _ => continue,
        };
        for spread in [1, 4, 12, 24, 30, 80] {
            let example = random_example(matrix, &mut random, spread);
            let d = example.run(Modifiers::default());
            for (i, j, block) in example.elements() {
                let product = |k| {
                    let a = get(&example.a, factor_place(matrix, matrix.a, 64, i, k, block), matrix.a.bits());
                    let b = get(&example.b, factor_place(matrix, matrix.b, 64, j, k, block), matrix.b.bits());
                    Integer::of(matrix.a, a).times(Integer::of(matrix.b, b))
                };
                let products: Vec<_> = (0..matrix.depth).map(product).collect();
                let place = result_place(matrix, 64, i, j, block);
                let before = get(&example.c, place, 32) as u32;
                let expected = products.chunks(group).fold(before, |sum, group| truncated(group, sum, parts));
                let found = get(&d, place, 32) as u32;
                let same = found == expected || found << 1 == 0 && expected << 1 == 0;
                assert!(same, "{} {spread} [{i}][{j}] {block}: {found:08x}, expected {expected:08x}", matrix.name);
            }
        }
    }
}

#[test]
fn pairs_are_added_and_denormals_flushed() {
    let flushed = |value: f32| if value.abs() < f32::MIN_POSITIVE { 0.0f32.copysign(value) } else { value };
    let input = |value: f64, smallest: f32| if (value as f32).abs() < smallest { 0.0 } else { value as f32 };
    let mut random = Random(0x9a);
    for matrix in &MATRICES {
        let Sum::Pairs(group) = matrix.sum else { continue };
        let smallest = if matrix.a == Element::F16 { 2f32.powi(-14) } else { f32::MIN_POSITIVE };
        for spread in [4, 20, 200] {
            let example = random_example(matrix, &mut random, spread);
            let d = example.run(Modifiers::default());
            for (i, j, block) in example.elements() {
                let product =
                    |k| flushed(input(example.a(i, k, block), smallest) * input(example.b(j, k, block), smallest));
                let pair = |k| flushed(product(k) + product(k + 1));
                let four = |k| if group == 2 { pair(k) } else { flushed(pair(k) + pair(k + 2)) };
                let before = input(example.c(i, j, block), f32::MIN_POSITIVE);
                let expected = (0..matrix.depth).step_by(group).fold(before, |sum, k| flushed(sum + four(k)));
                let found = get(&d, result_place(matrix, 64, i, j, block), 32) as u32;
                let same = found == expected.to_bits() || expected.is_nan() && found == 0xffc0_0000;
                assert!(same, "{} {spread} [{i}][{j}] {block}: {found:08x}, expected {expected}", matrix.name);
            }
        }
    }
}

#[test]
fn singles_and_doubles_are_fused() {
    let mut random = Random(0xf32);
    for matrix in MATRICES.iter().filter(|matrix| matrix.sum == Sum::Fused) {
        let example = Example::filled(matrix, 64, |_| match matrix.a {
            Element::F64 => (random.integer(1 << 50) as f64 / 1e7).to_bits(),
            _ => u64::from((random.integer(1 << 40) as f32 / 1e7).to_bits()),
        });
        let d = example.run(Modifiers::default());
        for (i, j, block) in example.elements() {
            let expected = (0..matrix.depth).fold(example.c(i, j, block), |sum, k| {
                let (a, b) = (example.a(i, k, block), example.b(j, k, block));
                if matrix.a == Element::F64 {
                    a.mul_add(b, sum)
                } else {
                    f64::from((a as f32).mul_add(b as f32, sum as f32))
                }
            });
            assert_eq!(example.of_result(&d, i, j, block), expected, "{}", matrix.name);
        }
    }
    // Denormals are kept.
    let mut example = Example::empty(named("v_mfma_f32_32x32x2_f32"), 64);
    example.set_c_bits(0, 0, 0, 3);
    example.set_a_bits(0, 0, 0, 1);
    example.set_b_bits(0, 0, 0, u64::from(2f32.to_bits()));
    assert_eq!(example.run(Modifiers::default())[0][0], 5);
}

#[test]
fn wmma_adds_ascending_and_rounds_16_bit_results_once() {
    let mut example = Example::empty(named("v_wmma_f32_16x16x16_f16"), 32);
    // 2^24 + 1 - 2^24 + 1: the first 1 is lost, the last is not.
    for (k, (a, b)) in [(4096.0, 4096.0), (1.0, 1.0), (-4096.0, 4096.0), (1.0, 1.0)].into_iter().enumerate() {
        example.set_a_bits(0, k, 0, bits_of(Element::F16, a));
        example.set_b_bits(0, k, 0, bits_of(Element::F16, b));
    }
    assert_eq!(f32::from_bits(example.run(Modifiers::default())[0][0]), 1.0);
    let mut half = Example::empty(named("v_wmma_f16_16x16x16_f16"), 32);
    half.set_c(0, 0, 0, 2048);
    for k in 0..3 {
        half.set_a(0, k, 0, 1);
        half.set_b(0, k, 0, 1);
    }
    // 2048 + 1 + 1 + 1 in FP32, then to a step of 2.
    assert_eq!(half.of_result(&half.run(Modifiers::default()), 0, 0, 0), 2052.0);
}

#[test]
fn infinities_and_nans_come_through() {
    let cases = [
        (f32::INFINITY, 1.0, 5.0, f64::INFINITY),
        (f32::INFINITY, -1.0, 5.0, f64::NEG_INFINITY),
        (f32::INFINITY, 0.0, 5.0, f64::NAN),
        (f32::NAN, 1.0, 5.0, f64::NAN),
        (1.0, 1.0, f32::INFINITY, f64::INFINITY),
        (f32::INFINITY, -1.0, f32::INFINITY, f64::NAN),
    ];
    for matrix in MATRICES.iter().filter(|matrix| matrix.depth > 2 && matrix.result == Element::F32) {
        if matrix.a.bits() == 8 {
            continue;
        }
        let lanes = if matrix.is_wmma() { 32 } else { 64 };
        for (a, b, c, expected) in cases {
            let mut example = Example::empty(matrix, lanes);
            example.set_a_bits(3, 2, 0, bits_of(matrix.a, f64::from(a)));
            example.set_b_bits(1, 2, 0, bits_of(matrix.b, b));
            example.set_c_bits(3, 1, 0, u64::from(c.to_bits()));
            let d = example.run(Modifiers::default());
            let found = example.of_result(&d, 3, 1, 0);
            let same = found == expected || found.is_nan() && expected.is_nan();
            assert!(same, "{} {a} * {b} + {c}: {found}", matrix.name);
            assert_eq!(example.of_result(&d, 2, 0, 0), 0.0, "neither its row nor its column");
        }
    }
}

#[test]
fn a_nan_of_fp8_comes_through_and_a_lost_infinity_does_not() {
    let mut example = Example::empty(named("v_mfma_f32_16x16x32_bf8_bf8"), 64);
    example.set_a_bits(0, 3, 0, 0x80);
    // 2^15 * 2^15 has an exponent beyond 24, so that C takes no part if it is infinite; 2^3 * 2^3 has not.
    for (row, value) in [(1, 32_768.0), (2, 8.0)] {
        example.set_a_bits(row, 0, 0, bits_of(Element::Bf8, value));
        example.set_b_bits(row, 0, 0, bits_of(Element::Bf8, value));
        example.set_c_bits(row, row, 0, u64::from(f32::INFINITY.to_bits()));
    }
    let d = example.run(Modifiers::default());
    assert!(example.of_result(&d, 0, 5, 0).is_nan());
    assert_eq!(example.of_result(&d, 1, 1, 0), 2f64.powi(30));
    assert_eq!(example.of_result(&d, 2, 2, 0), f64::INFINITY);
}

#[test]
fn sums_beyond_fp32_are_infinite() {
    let mut example = Example::empty(named("v_mfma_f32_16x16x16_bf16"), 64);
    let bits = |value| bits_of(Element::Bf16, value);
    let [huge, less, small] = [100, 99, 28].map(|exponent| bits(2f64.powi(exponent)));
    // A product of 2^128 is infinite.
    example.set_a_bits(0, 0, 0, huge);
    example.set_b_bits(0, 0, 0, small);
    // Also if another one would take it away.
    example.set_a_bits(1, 0, 0, huge);
    example.set_a_bits(1, 1, 0, huge);
    example.set_b_bits(1, 0, 0, small);
    example.set_b_bits(1, 1, 0, bits(-(2f64.powi(28))));
    // A sum may be infinite where no product is.
    example.set_a_bits(2, 0, 0, less);
    example.set_c_bits(2, 0, 0, u64::from(f32::MAX.to_bits()));
    // And the next group of products is added to an infinity.
    example.set_a_bits(3, 0, 0, huge);
    example.set_a_bits(3, 8, 0, huge);
    example.set_b_bits(3, 0, 0, small);
    example.set_b_bits(3, 8, 0, bits(1.0));
    let d = example.run(Modifiers::default());
    assert_eq!(example.of_result(&d, 0, 0, 0), f64::INFINITY);
    assert!(example.of_result(&d, 1, 1, 0).is_nan());
    assert_eq!(example.of_result(&d, 2, 0, 0), f64::INFINITY);
    assert_eq!(example.of_result(&d, 3, 3, 0), f64::INFINITY);
    assert_eq!(example.of_result(&d, 5, 5, 0), 0.0);
}
