//! Numbers as C++ streams print and read them.

/// `value` as a C++ stream prints a float by default: `%g`, six significant digits.
pub fn print(value: f32) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "nan".to_string() } else { format!("{value}") };
    }
    // Six digits, rounded once; everything after this only moves the point.
    let scientific = format!("{value:.5e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = match digits.trim_end_matches('0') {
        "" => "0",
        digits => digits,
    };
    match exponent {
        ..-4 | 6.. => {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            let exponent_sign = if exponent < 0 { '-' } else { '+' };
            format!("{sign}{first}{point}{rest}e{exponent_sign}{:02}", exponent.unsigned_abs())
        }
        ..0 => format!("{sign}0.{}{digits}", "0".repeat((-exponent - 1).unsigned_abs() as usize)),
        _ => {
            let whole = exponent.unsigned_abs() as usize + 1;
            if digits.len() <= whole {
                format!("{sign}{digits}{}", "0".repeat(whole - digits.len()))
            } else {
                let (whole, fraction) = digits.split_at(whole);
                format!("{sign}{whole}.{fraction}")
            }
        }
    }
}

/// Reads a float as a C++ stream does: leading white space is skipped, what follows the number is ignored, and what is no
/// number is 0. The second value says whether `text` is a number and nothing else.
pub fn read_float(text: &str) -> (f32, bool) {
    let trimmed = text.trim_start();
    let bytes = trimmed.as_bytes();
    let digits = |from: usize| bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
    let sign = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let mut end = sign + digits(sign);
    let mut count = end - sign;
    if bytes.get(end) == Some(&b'.') {
        let fraction = digits(end + 1);
        count += fraction;
        end += 1 + fraction;
    }
    if count > 0 && matches!(bytes.get(end), Some(b'e' | b'E')) {
        let exponent_sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + exponent_sign);
        // A stream has taken the `e` by the time it sees that no digits follow, and then fails.
        if exponent == 0 {
            return (0.0, false);
        }
        end += 1 + exponent_sign + exponent;
    }
    let value: Option<f32> = trimmed.get(..end).and_then(|number| number.parse().ok());
    let Some(value) = value else { return (0.0, false) };
    let plain = end == text.len() && value.is_finite();
    (value.clamp(f32::MIN, f32::MAX), plain)
}

/// Reads a `size_t` as a C++ stream does: negative numbers wrap, what is too large is the largest, what is no number is 0.
pub fn read_size(text: &str) -> (u64, bool) {
    let trimmed = text.trim_start();
    let (negative, digits) = match trimmed.as_bytes().first() {
        Some(b'-') => (true, trimmed.get(1..).unwrap_or_default()),
        Some(b'+') => (false, trimmed.get(1..).unwrap_or_default()),
        _ => (false, trimmed),
    };
    let end = digits.bytes().take_while(u8::is_ascii_digit).count();
    let number = digits.get(..end).unwrap_or_default();
    if number.is_empty() {
        return (0, false);
    }
    match number.parse::<u64>() {
        Ok(value) if negative => (value.wrapping_neg(), false),
        Ok(value) => (value, number.len() == text.len()),
        Err(_) => (u64::MAX, false),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prints_as_a_stream_does() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.051639, "0.051639"),
            (691_123.0, "691123"),
            (999_999.5, "1e+06"),
            (1_234_567.0, "1.23457e+06"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.000_012_345_67, "1.23457e-05"),
            (100.0, "100"),
            (12.5, "12.5"),
            (1000.125, "1000.12"),
            (1000.375, "1000.38"),
            (-1.0, "-1"),
            (1.17549e-38, "1.17549e-38"),
            (f32::MAX, "3.40282e+38"),
        ] {
            assert_eq!(print(value), text);
        }
    }

    #[test]
    fn reads_as_a_stream_does() {
        for (text, expected) in [
            ("0.5", (0.5, true)),
            (" 0.5", (0.5, false)),
            ("1e-05", (1e-5, true)),
            ("1.5abc", (1.5, false)),
            ("1e", (0.0, false)),
            (".", (0.0, false)),
            ("", (0.0, false)),
            ("abc", (0.0, false)),
            ("inf", (0.0, false)),
            ("1e99", (f32::MAX, false)),
        ] {
            assert_eq!(read_float(text), expected, "{text:?}");
        }
        for (text, expected) in [
            ("45685145600", (45_685_145_600, true)),
            ("-1", (u64::MAX, false)),
            ("99999999999999999999", (u64::MAX, false)),
            ("12 ", (12, false)),
            ("x", (0, false)),
        ] {
            assert_eq!(read_size(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back_and_prints_alike(bits in any::<u32>()) {
            let value = f32::from_bits(bits);
            prop_assume!(value.is_finite());
            let text = print(value);
            let (read, plain) = read_float(&text);
            // Six digits of the largest numbers may round to more than the largest.
            if read < f32::MAX && read > f32::MIN {
                prop_assert!(plain, "{text}");
                prop_assert_eq!(print(read), text);
                prop_assert!((read - value).abs() <= value.abs() * 6e-6 + f32::from_bits(1));
            }
        }

        #[test]
        fn nothing_panics(text in ".{0,40}") {
            let _ = (read_float(&text), read_size(&text));
        }
    }
}
