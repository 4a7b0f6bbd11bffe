//! How pages look: one style for light, dark, phones and paper.

/// In the page itself, so that a report is one file.
pub const STYLE: &str = include_str!("style.css");

#[cfg(test)]
mod tests {
    use super::STYLE;

    /// The color of that name in each scheme: light, dark, paper.
    fn colors(name: &str) -> Vec<[f64; 3]> {
        let name = format!("--{name}: #");
        let found = STYLE.split(name.as_str()).skip(1);
        found
            .map(|rest| [0, 2, 4].map(|at| f64::from(u8::from_str_radix(&rest[at..at + 2], 16).unwrap()) / 255.0))
            .collect()
    }

    /// WCAG 2.2, relative luminance.
    fn luminance(color: [f64; 3]) -> f64 {
        let [r, g, b] =
            color.map(|part| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) });
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }

    fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn text_and_marks_can_be_told_from_what_is_behind_them_in_every_scheme() {
        for ground in ["paper", "shade"] {
            // AA of text.
            for name in ["ink", "faint", "link", "bad", "first", "second", "third"] {
                let pairs: Vec<_> = colors(ground).into_iter().zip(colors(name)).collect();
                assert_eq!(pairs.len(), 3, "{name}");
                for (scheme, (a, b)) in pairs.into_iter().enumerate() {
                    assert!(contrast(a, b) >= 4.5, "{name} on {ground} in {scheme}: {}", contrast(a, b));
                }
            }
        }
    }
}
