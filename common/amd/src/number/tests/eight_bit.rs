use super::super::{Eight, Mode, eight_from_f32, eight_from_f32_stochastic, eight_to_f32};
use super::{Random, single};

const FORMATS: [(Eight, i32, i32, f32); 2] = [(Eight::E4M3, 3, 8, 240.0), (Eight::E5M2, 2, 16, 57_344.0)];

/// By the format's definition: (1 + m / 2^bits) * 2^(e - bias), and m / 2^bits * 2^(1 - bias) for e = 0.
fn defined(mantissa_bits: i32, bias: i32, code: u8) -> f64 {
    if code == 0x80 {
        return f64::NAN;
    }
    let sign = if code & 0x80 != 0 { -1.0 } else { 1.0 };
    let field = i32::from(code & 0x7f) >> mantissa_bits;
    let fraction = f64::from(i32::from(code) & ((1 << mantissa_bits) - 1)) / 2f64.powi(mantissa_bits);
    if field == 0 { sign * fraction * 2f64.powi(1 - bias) } else { sign * (1.0 + fraction) * 2f64.powi(field - bias) }
}

#[test]
fn all_codes_have_the_defined_value_and_come_back() {
    let mode = Mode::default();
    for (format, bits, bias, largest) in FORMATS {
        for code in 0..=u8::MAX {
            let value = f32::from_bits(eight_to_f32(format, code));
            let expected = defined(bits, bias, code);
            assert!(
                f64::from(value) == expected || value.is_nan() && expected.is_nan(),
                "{format:?} {code:02x}: {value}"
            );
            assert_eq!(eight_from_f32(&mode, format, single(value)), code, "{format:?}");
            assert_eq!(eight_from_f32_stochastic(&mode, format, single(value), u32::MAX), code, "nothing is lost");
        }
        assert_eq!(f32::from_bits(eight_to_f32(format, 0x7f)), largest);
    }
}

/// Both neighbours of a value, and how far it is from the lower one to the upper one.
fn neighbours(bits: i32, bias: i32, value: f64) -> (u8, u8, f64) {
    let low = (0..=0x7f).rev().find(|&code| defined(bits, bias, code) <= value).expect("at least zero");
    let (from, to) = (defined(bits, bias, low), if low == 0x7f { f64::INFINITY } else { defined(bits, bias, low + 1) });
    (low, low + 1, (value - from) / (to - from))
}

#[test]
fn values_go_to_the_nearest_code_and_ties_to_the_even_one() {
    let mode = Mode::default();
    let mut random = Random(0xf8);
    for (format, bits, bias, largest) in FORMATS {
        let middles = (0..0x7f).map(|code| (defined(bits, bias, code) + defined(bits, bias, code + 1)) / 2.0);
        let near = middles.flat_map(|middle| {
            let bits = (middle as f32).to_bits();
            [bits - 1, bits, bits + 1]
        });
        let many = (0..4_000).map(|_| {
            // From 2^-20 to 2^16.
            (random.next() as u32 & 0x7f_ffff) | (107 + random.next() as u32 % 36) << 23
        });
        for pattern in near.chain(many).collect::<Vec<_>>() {
            let value = f32::from_bits(pattern);
            if value > largest {
                continue;
            }
            let (low, high, part) = neighbours(bits, bias, f64::from(value));
            let expected = if part < 0.5 || part == 0.5 && low & 1 == 0 { low } else { high };
            assert_eq!(eight_from_f32(&mode, format, pattern), expected, "{format:?} {value}");
            let negative = if expected == 0 { 0 } else { expected | 0x80 };
            assert_eq!(eight_from_f32(&mode, format, pattern | 1 << 31), negative, "{format:?} {value}");
        }
    }
}

#[test]
fn too_large_is_nan_or_the_largest() {
    let clamping = Mode { clamp_overflow: true, ..Mode::default() };
    for (format, bits, _, largest) in FORMATS {
        // Half a step beyond the largest rounds to what is not there.
        let step = largest / (2f32.powi(bits + 1) - 1.0);
        for (value, plain) in [(largest + step / 2.0, 0x80), (largest + step / 2.1, 0x7f), (f32::MAX, 0x80)] {
            assert_eq!(eight_from_f32(&Mode::default(), format, single(value)), plain, "{format:?} {value}");
            assert_eq!(eight_from_f32(&clamping, format, single(value)), 0x7f);
            assert_eq!(eight_from_f32(&clamping, format, single(-value)), 0xff);
        }
        for none in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            assert_eq!(eight_from_f32(&clamping, format, single(none)), 0x80);
        }
        for nothing in [0.0, -0.0, 1e-40, -1e-30] {
            assert_eq!(eight_from_f32(&Mode::default(), format, single(nothing)), 0, "no negative zero");
        }
    }
}

#[test]
fn random_bits_decide_in_proportion() {
    let mode = Mode::default();
    let mut random = Random(0x5a);
    for (format, bits, bias, largest) in FORMATS {
        for value in [1.3, 0.7, 100.1, 0.002, largest - 1.0, 3.0e-5] {
            let (low, high, part) = neighbours(bits, bias, f64::from(value));
            let ups = (0..20_000)
                .filter(|_| {
                    let code = eight_from_f32_stochastic(&mode, format, single(value), random.next() as u32);
                    assert!(code == low || code == high, "{format:?} {value}: {code:x}");
                    code == high
                })
                .count();
            assert!((ups as f64 / 20_000.0 - part).abs() < 0.02, "{format:?} {value}: {ups}, expected {part}");
            assert_eq!(eight_from_f32_stochastic(&mode, format, single(value), 0), low);
        }
        assert_eq!(eight_from_f32_stochastic(&mode, format, single(largest * 1.01), u32::MAX), 0x80);
    }
}
