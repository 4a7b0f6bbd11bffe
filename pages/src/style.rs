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

    /// As somebody sees `color` who has none of one kind of cones: Viénot, Brettel and Mollon 1999 for the long and the middle ones,
    /// in linear light.
    fn without(cones: [[f64; 3]; 3], color: [f64; 3]) -> [f64; 3] {
        let linear = color.map(|part| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) });
        cones.map(|row| row.iter().zip(linear).map(|(a, b)| a * b).sum::<f64>().clamp(0.0, 1.0))
    }

    /// CIE 1976, from linear light.
    fn lab([r, g, b]: [f64; 3]) -> [f64; 3] {
        let [x, y, z] = [
            (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
            0.2126 * r + 0.7152 * g + 0.0722 * b,
            (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
        ]
        .map(|part| if part > 0.008856 { part.cbrt() } else { 7.787 * part + 16.0 / 116.0 });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    #[test]
    fn marks_can_be_told_apart_by_who_sees_fewer_colors() {
        const PROTANOPIA: [[f64; 3]; 3] = [[0.112, 0.888, 0.0], [0.112, 0.888, 0.0], [0.004, -0.004, 1.0]];
        const DEUTERANOPIA: [[f64; 3]; 3] = [[0.293, 0.707, 0.0], [0.293, 0.707, 0.0], [-0.021, 0.021, 1.0]];
        for (eyes, cones) in [("protanopia", PROTANOPIA), ("deuteranopia", DEUTERANOPIA)] {
            // The first two meet in most charts; the third has a shape of its own.
            for (scheme, (a, b)) in colors("first").into_iter().zip(colors("second")).enumerate() {
                let (a, b) = (lab(without(cones, a)), lab(without(cones, b)));
                let apart = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                assert!(apart > 30.0, "{eyes}, scheme {scheme}: {apart}");
            }
        }
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
