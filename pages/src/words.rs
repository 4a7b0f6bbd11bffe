//! Numbers and times as people read them.

use std::time::{Duration, UNIX_EPOCH};

use bluefin_common::spelled;

/// `0.0123 ms`, `4.56 ms`, `789 ms`.
pub fn ms(ms: f64) -> String {
    let digits = if ms > 0.0 { (2.0 - ms.log10().floor()).clamp(0.0, 6.0) as usize } else { 0 };
    format!("{ms:.digits$} ms")
}

/// `1.23 ×`
pub fn times(factor: f64) -> String {
    format!("{factor:.2} ×")
}

pub fn maybe_times(factor: Option<f64>) -> String {
    factor.map_or_else(|| "–".to_string(), times)
}

/// One that says its uncertainty, with the sign of pages; a line breaks before the uncertainty only.
pub fn ratio(text: Option<String>) -> String {
    let Some(text) = text else { return "–".to_string() };
    let (factor, doubt) = text.split_once(' ').unwrap_or((&text, ""));
    let whole = |text: &str| text.replace(' ', "\u{a0}");
    format!("{} {}", whole(&factor.replacen('x', " ×", 1)), whole(doubt)).trim_end().to_string()
}

/// Of a duration in milliseconds: `1h 2m 3s`.
pub fn long(ms: u64) -> String {
    let duration = if ms < 10_000 { Duration::from_millis(ms) } else { Duration::from_secs(ms / 1000) };
    humantime::format_duration(duration).to_string()
}

/// `2026-01-31 12:34:56 UTC`, given milliseconds since the Unix epoch.
pub fn when(ms: u64) -> String {
    // Far beyond it nothing is written.
    let ms = ms.min(250_000_000_000_000);
    let text = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(ms)).to_string();
    text.replace('T', " ").replace('Z', " UTC")
}

/// `1,234,567`
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 problem`, `1,234 problems`
pub fn counted(number: u64, noun: &str) -> String {
    spelled::counted(number, noun).replacen(&number.to_string(), &count(number), 1)
}

/// `1700 to 1750 MHz`, or one number where that is all.
pub fn range<T: PartialEq + ToString>(range: Option<(T, T)>, unit: &str) -> String {
    match range {
        None => "–".to_string(),
        Some((low, high)) if low == high => format!("{} {unit}", low.to_string()),
        Some((low, high)) => format!("{} to {} {unit}", low.to_string(), high.to_string()),
    }
}

/// `-3 % to +5 %`
pub fn drift((low, high): (i64, i64)) -> String {
    if low == high { format!("{low:+} %") } else { format!("{low:+} % to {high:+} %") }
}

/// `text`, cut to `most` characters.
pub fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((cut, _)) => format!("{}…", text.get(..cut).unwrap_or_default()),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0.01234, 4.5678, 78.9, 789.4, 0.0].map(ms), ["0.0123 ms", "4.57 ms", "78.9 ms", "789 ms", "0 ms"]);
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([1, 1000].map(|number| counted(number, "job")), ["1 job", "1,000 jobs"]);
        assert_eq!((long(1500), long(3_723_456)), ("1s 500ms".to_string(), "1h 2m 3s".to_string()));
        let told = ["3.20x", "3.20x ± 0.11", "3.20x (1.60 to 6.40)"].map(|text| ratio(Some(text.to_string())));
        assert_eq!(told, ["3.20\u{a0}×", "3.20\u{a0}× ±\u{a0}0.11", "3.20\u{a0}× (1.60\u{a0}to\u{a0}6.40)"]);
        assert_eq!(when(1_000), "1970-01-01 00:00:01 UTC");
        assert_eq!((short("äöü", 2), short("ab", 2)), ("äö…".to_string(), "ab".to_string()));
    }
}
