//! Conversions with a scale, decoded from words, against formats that are written down here a second time.

use super::*;
use crate::number::tests::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    F32,
    F16,
    Bf16,
    Fp8,
    Bf8,
    Fp6,
    Bf6,
    Fp4,
}
use Format::{Bf6, Bf8, Bf16, F16, F32, Fp4, Fp6, Fp8};

impl Format {
    /// Bits of exponent and of mantissa, the bias, and the largest number's code.
    fn parts(self) -> (i32, i32, i32, u32) {
        match self {
            F32 => (8, 23, 127, 0x7f7f_ffff),
            F16 => (5, 10, 15, 0x7bff),
            Bf16 => (8, 7, 127, 0x7f7f),
            Fp8 => (4, 3, 7, 0x7e),
            Bf8 => (5, 2, 15, 0x7b),
            Fp6 => (2, 3, 1, 0x1f),
            Bf6 => (3, 2, 3, 0x1f),
            Fp4 => (2, 1, 1, 7),
        }
    }

    fn bits(self) -> usize {
        let (exponent, mantissa, ..) = self.parts();
        (1 + exponent + mantissa) as usize
    }

    /// What a magnitude's code would be worth, were the format not limited.
    fn unlimited(self, code: u32) -> f64 {
        let (_, mantissa, bias, _) = self.parts();
        let (field, rest) = ((code >> mantissa) as i32, f64::from(code & ((1 << mantissa) - 1)));
        let rest = rest / 2f64.powi(mantissa);
        if field == 0 { rest * 2f64.powi(1 - bias) } else { (1.0 + rest) * 2f64.powi(field - bias) }
    }

    fn value(self, code: u32) -> f64 {
        let sign = code >> (self.bits() - 1) & 1;
        let magnitude = code & ((1_u64 << (self.bits() - 1)) - 1) as u32;
        let (.., largest) = self.parts();
        let value = match self {
            _ if magnitude <= largest => self.unlimited(magnitude),
            Fp8 => f64::NAN,
            _ if magnitude == largest + 1 => f64::INFINITY,
            _ => f64::NAN,
        };
        if sign == 1 { -value } else { value }
    }

    /// The code of what is beyond the largest number, and of what is none.
    fn beyond(self, number: bool) -> u32 {
        match self {
            Fp8 => 0x7f,
            Bf8 if number => 0x7c,
            Bf8 => 0x7f,
            _ => self.parts().3,
        }
    }

    /// A value in one of the narrow formats, to the nearest, or by a random number with the digits that it is of.
    fn narrowed(self, value: f64, random: Option<(u32, i32)>) -> u32 {
        let (exponent, mantissa, _, largest) = self.parts();
        let sign = u32::from(value.is_sign_negative()) << (exponent + mantissa);
        let magnitude = value.abs();
        if magnitude.is_nan() || magnitude >= self.unlimited(largest + 1) {
            return sign | self.beyond(!magnitude.is_nan());
        }
        let low = (0..=largest).rev().find(|&code| self.unlimited(code) <= magnitude).expect("zero at least");
        let part = (magnitude - self.unlimited(low)) / (self.unlimited(low + 1) - self.unlimited(low));
        let up = match random {
            None => part > 0.5 || part == 0.5 && low % 2 == 1,
            Some((random, digits)) => {
                let lost = (digits - mantissa) as u32;
                (part * f64::from(1 << lost)) as u32 + (random >> (32 - lost)) >= 1 << lost
            }
        };
        let code = low + u32::from(up);
        sign | if code > largest { self.beyond(true) } else { code }
    }

    fn widened(self, value: f64) -> u32 {
        match self {
            F32 => (value as f32).to_bits(),
            F16 => u32::from(<crate::number::F16 as crate::number::Format>::from_f64_nearest(value)),
            _ => u32::from(crate::number::bf16_from_f32((value as f32).to_bits())),
        }
    }
}

/// 2^(E8M0 - 127), of an FP32 of that exponent.
fn scale(word: u32) -> f64 {
    match word >> 23 & 0xff {
        255 => f64::NAN,
        field => 2f64.powi(field as i32 - 127),
    }
}

/// A word of elements of which most are within reach of narrow formats.
fn word(random: &mut Random, from: Format) -> u32 {
    let mut one = || {
        let bits = random.next() as u32;
        match from {
            F32 => bits & 0x807f_ffff | ((bits >> 8 & 31) + 110) << 23,
            Bf16 => bits & 0x807f | (110 + (bits >> 8) % 34) << 7,
            _ => bits & (u32::MAX >> (32 - from.bits())),
        }
    };
    match random_edge(from, one()) {
        word if from == F32 => word,
        first => (0..32 / from.bits().max(4)).fold(first, |word, at| word | one() << (at * from.bits())),
    }
}

/// Specials among the others.
fn random_edge(from: Format, word: u32) -> u32 {
    let (.., largest) = from.parts();
    match word % 37 {
        0 => 0,
        1 => largest,
        2 => largest + 1,
        3 if from == F32 => 0x7fc0_0001,
        4 => 1,
        5 => 1 << (from.bits() - 1),
        _ => word,
    }
}

const SCALES: [u32; 8] = [0x3f80_0000, 0x4000_0000, 0x3f12_3456, 0xc080_0000, 0x4200_0000, 0, 0x7f80_0000, 0x3e00_0000];

fn random(value: u32) -> u32 {
    (value << 1) ^ ((value >> 31) * 197)
}

/// The instruction of a VOP3 word: operation, `op_sel`, and sources, which are vector registers; the result is v0.
fn instruction(operation: u32, op_sel: u32, sources: &[u32]) -> (Line, Instruction) {
    let target = Target::named("gfx950").expect("a target");
    let first = 0xd000_0000 | operation << 16 | op_sel << 11;
    let second = sources.iter().enumerate().fold(0, |word, (at, register)| word | (256 + register) << (9 * at));
    let of = lines(&[(0, vec![first, second])], &Default::default(), target, target.lanes);
    decode_lines(of, target, target.lanes).remove(0)
}

/// A wave of which the registers from 8 on hold words of a format, v4 random numbers, and v5 scales.
fn filled(numbers: &mut Random, from: Format) -> Wave {
    let mut wave = wave(Target::named("gfx950").expect("a target"));
    for register in 0..48 {
        wave.registers.v[register] = std::array::from_fn(|_| word(numbers, from));
        wave.registers.poison[register] = [0; 4];
    }
    wave.registers.v[4] = std::array::from_fn(|_| numbers.next() as u32);
    wave.registers.v[5] = std::array::from_fn(|lane| SCALES[lane % SCALES.len()]);
    wave
}

fn check(found: u32, expected: u32, to: Format, what: &str) {
    let (found_value, expected_value) = (to.value(found), to.value(expected));
    let same = found == expected || matches!(to, F32 | F16 | Bf16) && found_value.is_nan() && expected_value.is_nan();
    assert!(same, "{what}: {found:x} ({found_value}), expected {expected:x} ({expected_value})");
}

/// Operation, from, to, and how many elements of how many registers there are: `1` of one register, `2` of one, `22` of two.
const NARROWING: [(u32, Format, Format, u32); 9] = [
    (0x235, F32, Fp8, 22),
    (0x236, F32, Bf8, 22),
    (0x23d, F32, Fp4, 22),
    (0x240, F16, Fp8, 2),
    (0x241, F16, Bf8, 2),
    (0x244, Bf16, Fp8, 2),
    (0x245, Bf16, Bf8, 2),
    (0x24c, F16, Fp4, 2),
    (0x24d, Bf16, Fp4, 2),
];
const STOCHASTIC: [(u32, Format, Format, u32); 9] = [
    (0x237, F32, Fp8, 1),
    (0x238, F32, Bf8, 1),
    (0x23e, F32, Fp4, 22),
    (0x242, F16, Fp8, 1),
    (0x243, F16, Bf8, 1),
    (0x246, Bf16, Fp8, 1),
    (0x247, Bf16, Bf8, 1),
    (0x24e, F16, Fp4, 2),
    (0x24f, Bf16, Fp4, 2),
];

#[test]
fn elements_become_narrower() {
    let mut numbers = Random(0x5ca1e);
    let all = NARROWING.iter().map(|row| (false, row)).chain(STOCHASTIC.iter().map(|row| (true, row)));
    for (by_chance, &(operation, from, to, count)) in all {
        let sources: &[u32] = match (by_chance, count) {
            (true, _) => &[8, 4, 5],
            (false, 22) => &[8, 9, 5],
            (false, _) => &[8, 5],
        };
        let bits = to.bits() * if count == 1 { 1 } else { 2 };
        // A half of the result by the last bit of `op_sel`, or a byte of it by the last two.
        let places = if bits == 16 { 2 } else { 4 };
        for place in 0..places {
            let op_sel = if bits == 16 { place << 3 } else { place << 2 };
            let (line, instruction) = instruction(operation, op_sel, sources);
            let mut wave = filled(&mut numbers, from);
            wave.registers.v[0] = [0xa5c3_96e1; LANES];
            let old = wave.registers.v.clone();
            let before = |register: usize, lane: usize| old[register][lane];
            execute(&mut wave, &instruction.action).expect("it executes");
            for lane in 0..LANES {
                let by = scale(before(5, lane));
                let mut chance = before(4, lane);
                let mut expected = 0;
                for at in 0..if count == 1 { 1 } else { 2 } {
                    let code = if count == 22 { before(8 + at, lane) } else { before(8, lane) >> (16 * at) };
                    let code = code & (u32::MAX >> (32 - from.bits()));
                    let value = from.value(code) / by;
                    let value = if value.is_nan() { f64::NAN.copysign(from.value(code)) } else { value };
                    let digits = from.parts().1;
                    let element = to.narrowed(value, by_chance.then_some((chance, digits)));
                    expected |= element << (at * to.bits());
                    chance = random(chance);
                }
                let shift = place * bits as u32;
                let field = (u32::MAX >> (32 - bits)) << shift;
                let expected = 0xa5c3_96e1 & !field | expected << shift;
                let what = format!("`{}` of {:x} in lane {lane}", line.text(), before(8, lane));
                assert_eq!(wave.registers.v[0][lane], expected, "{what}: {:x}", wave.registers.v[0][lane]);
            }
        }
    }
}

#[test]
fn elements_become_wider() {
    let mut numbers = Random(0x5ca1f);
    // Operation, from, to, whether two.
    for (operation, from, to, two) in [
        (0x239, Fp8, F32, true),
        (0x23a, Bf8, F32, true),
        (0x23b, Fp8, F32, false),
        (0x23c, Bf8, F32, false),
        (0x23f, Fp4, F32, true),
        (0x248, Fp8, F16, true),
        (0x249, Bf8, F16, true),
        (0x24a, Fp8, F16, false),
        (0x24b, Bf8, F16, false),
        (0x250, Fp4, F16, true),
        (0x251, Fp4, Bf16, true),
        (0x269, Fp8, Bf16, true),
        (0x26a, Bf8, Bf16, true),
    ] {
        let bits = from.bits() * if two { 2 } else { 1 };
        for place in 0..32 / bits {
            let (line, instruction) = instruction(operation, place as u32, &[8, 5]);
            let mut wave = filled(&mut numbers, from);
            let old = wave.registers.v.clone();
            let before = |register: usize, lane: usize| old[register][lane];
            execute(&mut wave, &instruction.action).expect("it executes");
            for lane in 0..LANES {
                let source = before(8, lane) >> (place * bits);
                for at in 0..if two { 2 } else { 1 } {
                    let code = source >> (at * from.bits()) & (u32::MAX >> (32 - from.bits()));
                    let expected = to.widened(from.value(code) * scale(before(5, lane)));
                    let found = match to {
                        F32 => wave.registers.v[at][lane],
                        _ => wave.registers.v[0][lane] >> (16 * at) & 0xffff,
                    };
                    check(found, expected, to, &format!("`{}` of {code:x} in lane {lane}", line.text()));
                }
                if to == F16 && !two {
                    assert_eq!(wave.registers.v[0][lane] >> 16, before(0, lane) >> 16, "the other half stays");
                }
            }
        }
    }
}

/// Operation, from, to, whether by chance, whether of two sources in turns.
const BLOCKS: [(u32, Format, Format, bool, bool); 18] = [
    (0x252, F32, Fp6, false, true),
    (0x253, F32, Bf6, false, true),
    (0x254, F32, Fp6, true, false),
    (0x255, F32, Bf6, true, false),
    (0x256, Fp6, F32, false, false),
    (0x257, Bf6, F32, false, false),
    (0x258, F16, Fp6, false, false),
    (0x259, Bf16, Fp6, false, false),
    (0x25a, F16, Bf6, false, false),
    (0x25b, Bf16, Bf6, false, false),
    (0x25c, F16, Fp6, true, false),
    (0x25d, Bf16, Fp6, true, false),
    (0x25e, F16, Bf6, true, false),
    (0x25f, Bf16, Bf6, true, false),
    (0x260, Fp6, F16, false, false),
    (0x261, Fp6, Bf16, false, false),
    (0x262, Bf6, F16, false, false),
    (0x263, Bf6, Bf16, false, false),
];

/// The element of a lane that begins at a register.
fn element(registers: &[[u32; LANES]], first: usize, at: usize, bits: usize, lane: usize) -> u32 {
    let (register, bit) = (first + at * bits / 32, at * bits % 32);
    let both = u64::from(registers[register][lane]) | u64::from(registers[register + 1][lane]) << 32;
    (both >> bit) as u32 & (u32::MAX >> (32 - bits))
}

#[test]
fn blocks_of_32_elements_are_converted() {
    let mut numbers = Random(0x5ca20);
    for (operation, from, to, by_chance, two) in BLOCKS {
        let sources: &[u32] = match (by_chance, two) {
            (true, _) => &[8, 4, 5],
            (_, true) => &[8, 24, 5],
            _ => &[8, 5],
        };
        let (line, instruction) = instruction(operation, 0, sources);
        let mut wave = filled(&mut numbers, from);
        // Lane 1 is left out, and nobody wrote the third byte of the second register in lane 2.
        wave.registers.set_mask(EXEC, !2, 0).expect("no poison");
        wave.registers.poison[9] = [0, 0, 4, 0];
        let before = wave.registers.v.clone();
        let (mut action, mut result) = (instruction.action, 0);
        if let Action::Convert(conversion) = &mut action {
            // What is read lies beneath.
            (conversion.to, result) = (8, 8);
        }
        execute(&mut wave, &action).expect("it executes");
        for lane in (0..LANES).filter(|lane| *lane != 1) {
            let mut chance = before[4][lane];
            for at in 0..32 {
                let (first, place) = if two { ([8, 24][at % 2], at / 2) } else { (8, at) };
                let code = element(&before, first, place, from.bits(), lane);
                let (value, by) = (from.value(code), scale(before[5][lane]));
                let what = format!("`{}`, element {at} of {code:x} in lane {lane}", line.text());
                let found = element(&wave.registers.v, result, at, to.bits(), lane);
                if from.bits() < to.bits() {
                    check(found, to.widened(value * by), to, &what);
                } else {
                    let divided = value / by;
                    let divided = if divided.is_nan() { f64::NAN.copysign(value) } else { divided };
                    let digits = from.parts().1;
                    check(found, to.narrowed(divided, by_chance.then_some((chance, digits))), to, &what);
                }
                chance = random(chance);
            }
        }
        assert_eq!(wave.registers.v[8][1], before[8][1], "`{}`", line.text());
        // Bits 48 to 55 of a source that is read.
        let unwritten = |at: usize| {
            let place = if two && at % 2 == 1 {
                return false;
            } else if two {
                at / 2
            } else {
                at
            };
            place * from.bits() < 56 && (place + 1) * from.bits() > 48
        };
        for at in 0..32 {
            let byte = at * to.bits() / 8;
            let bad = wave.registers.poison[result + byte / 4][byte % 4] >> 2 & 1 == 1;
            let neighbour = at > 0 && unwritten(at - 1) && at * to.bits() % 8 != 0;
            assert_eq!(bad, unwritten(at) || neighbour || shares(at, to, &unwritten), "`{}`: {at}", line.text());
        }
    }
}

/// Whether the first byte of an element's bits has bits of one that nobody wrote.
fn shares(at: usize, to: Format, unwritten: &dyn Fn(usize) -> bool) -> bool {
    let byte = at * to.bits() / 8;
    (0..32).any(|other| unwritten(other) && (other * to.bits() / 8..=((other + 1) * to.bits() - 1) / 8).contains(&byte))
}

#[test]
fn mode_decides_about_denormals_and_overflows() {
    let (_, instruction) = instruction(0x235, 0, &[8, 9, 5]);
    let mut found = Vec::new();
    // MODE with denormals or without, and FP16_OVFL.
    for mode in [0x3f0, 0x3c0, 0x80_03f0] {
        let mut wave = wave(Target::named("gfx950").expect("a target"));
        wave.set_mode(mode);
        // 2^-127 by 2^-127, and 2^10.
        for (at, value) in [(0, 0), (8, 1 << 22), (9, 0x4480_0000), (5, 0)] {
            (wave.registers.v[at], wave.registers.poison[at]) = ([value; LANES], [0; 4]);
        }
        execute(&mut wave, &instruction.action).expect("it executes");
        found.push(wave.registers.v[0][0]);
    }
    assert_eq!(found, [0x7f38, 0x7f00, 0x7e38]);
}

#[test]
fn bits_of_op_sel_that_choose_nothing_are_refused() {
    let refused = |operation, op_sel, sources: &[u32]| {
        matches!(instruction(operation, op_sel, sources).1.action, Action::Unimplemented(_))
    };
    for op_sel in [1, 2, 4] {
        assert!(refused(0x235, op_sel, &[8, 9, 5]), "sources of V_CVT_SCALEF32_PK_FP8_F32");
    }
    assert!(refused(0x237, 1, &[8, 4, 5]) && !refused(0x237, 12, &[8, 4, 5]), "V_CVT_SCALEF32_SR_FP8_F32");
    assert!(refused(0x239, 2, &[8, 5]) && !refused(0x239, 1, &[8, 5]), "V_CVT_SCALEF32_PK_F32_FP8");
    assert!(refused(0x23b, 8, &[8, 5]) && !refused(0x23b, 3, &[8, 5]), "V_CVT_SCALEF32_F32_FP8");
    assert!(!refused(0x24a, 11, &[8, 5]), "V_CVT_SCALEF32_F16_FP8 has halves of its result");
}

/// V_CVT_SR_F16_F32 and V_CVT_SR_BF16_F32 of v8 and v9, with `op_sel` for the upper half or without.
#[test]
fn sixteen_bits_are_rounded_by_a_random_number() {
    let target = Target::named("gfx950").expect("a target");
    let (half, brain) = (0xd2a6_0000_u32, 0xd2a7_0000);
    // MODE with denormals or without, and FP16_OVFL.
    let (plain, flushing, limited) = (0x3f0, 0x3c0, 0x80_03f0);
    let rows = [
        // 1 + 2^-11 is a tie of FP16: 13 bits are lost, of which the upper bits of the number carry.
        (half, 0x3f80_1000_u32, 0, plain, 0x1234_3c00),
        (half, 0x3f80_1000, 0x7fff_ffff, plain, 0x1234_3c00),
        (half, 0x3f80_1000, 0x8000_0000, plain, 0x1234_3c01),
        (half | 1 << 14, 0xbf80_1000, 0x8000_0000, plain, 0xbc01_5678),
        // Denormals of FP16, 2^-24 and half of it.
        (half, 0x3380_0000, 0, plain, 0x1234_0001),
        (half, 0x3300_0000, 0x7fff_ffff, plain, 0x1234_0000),
        (half, 0x3300_0000, 0x8000_0000, plain, 0x1234_0001),
        // What carries beyond the largest number, infinities, and what is no number.
        (half, 0x477f_ffff, 0xffff_ffff, plain, 0x1234_7c00),
        (half, 0x477f_ffff, 0xffff_ffff, limited, 0x1234_7bff),
        (half, 0xff80_0000, 0xffff_ffff, plain, 0x1234_fc00),
        (half, 0x7f80_0001, 0, plain, 0x1234_7e00),
        (half, 0xffc0_0000, 0, plain, 0x1234_fe00),
        (brain, 0x3f80_8000, 0x7fff_ffff, plain, 0x1234_3f80),
        (brain, 0x3f80_8000, 0x8000_0000, plain, 0x1234_3f81),
        (brain, 0x3f80_ffff, 0, plain, 0x1234_3f80),
        (brain | 1 << 14, 0x7f7f_ffff, 0xffff_ffff, plain, 0x7f80_5678),
        (brain, 0x7f80_0001, 0, plain, 0x1234_7fc0),
        (brain, 0x0001_0000, 0, plain, 0x1234_0001),
        (brain, 0x0001_0000, 0, flushing, 0x1234_0000),
    ];
    for (word, value, random, mode, expected) in rows {
        let of = lines(&[(0, vec![word, 0x0002_1308])], &Default::default(), target, target.lanes);
        let (line, instruction) = decode_lines(of, target, target.lanes).remove(0);
        let mut wave = wave(target);
        wave.set_mode(mode);
        for (at, value) in [(0, 0x1234_5678), (8, value), (9, random)] {
            (wave.registers.v[at], wave.registers.poison[at]) = ([value; LANES], [0; 4]);
        }
        execute(&mut wave, &instruction.action).expect("it executes");
        let found = wave.registers.v[0][0];
        assert_eq!(found, expected, "`{}` of {value:x} and {random:x}: {found:x}", line.text());
    }
}

#[test]
fn numbers_at_random_and_brain_floats() {
    let target = Target::named("gfx950").expect("a target");
    // v_prng_b32_e32 v0, v8; v_cvt_f32_bf16_e32 v0, v8
    for (word, value, expected) in [
        (0x7e00_b108_u32, 0x8001_2300, 0x0002_46c5),
        (0x7e00_b108, 0x1234, 0x2468),
        (0x7e00_b708, 0xffff_0123, 0x0123_0000),
    ] {
        let of = lines(&[(0, vec![word])], &Default::default(), target, target.lanes);
        let (line, instruction) = decode_lines(of, target, target.lanes).remove(0);
        let mut wave = wave(target);
        (wave.registers.v[8], wave.registers.poison[8]) = ([value; LANES], [0; 4]);
        execute(&mut wave, &instruction.action).expect("it executes");
        assert_eq!(wave.registers.v[0][0], expected, "`{}`: {:x}", line.text(), wave.registers.v[0][0]);
    }
}
