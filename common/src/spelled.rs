//! Times, sizes and shares as people read and write them.

use std::time::Duration;

/// `1m 05s`
#[must_use]
pub fn human(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// `1 problem`, `2 problems`
#[must_use]
pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// `1.5 MiB`
#[must_use]
pub fn bytes(count: u64) -> String {
    let mut size = count as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if size < 1024.0 {
            return if unit == "B" { format!("{count} B") } else { format!("{size:.1} {unit}") };
        }
        size /= 1024.0;
    }
    format!("{size:.1} TiB")
}

/// `3%` or `3`, as a number of percent.
///
/// # Errors
/// If it is no number, or not from 0 to 100.
pub fn parse_percent(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number.filter(|percent| (0.0..=100.0).contains(percent)).ok_or_else(|| "expected 0% to 100%".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_well() {
        assert_eq!(human(Duration::from_secs(5)), "5s");
        assert_eq!(human(Duration::from_secs(65)), "1m 05s");
        assert_eq!(human(Duration::from_secs(3700)), "1h 01m");
    }

    #[test]
    fn shares_are_read() {
        assert_eq!((parse_percent("3%"), parse_percent("0.5")), (Ok(3.0), Ok(0.5)));
        assert!(["", "%", "101", "-1%", "NaN"].iter().all(|text| parse_percent(text).is_err()));
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!([0, 1023, 1536, 5 << 40].map(bytes), ["0 B", "1023 B", "1.5 KiB", "5.0 TiB"]);
    }
}
