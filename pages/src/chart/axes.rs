//! Where axes have their ticks: at least two, none of which reads as another or stands in its way.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// Height of the ticks below a chart. The title of its axis is text of the page.
pub const UNTITLED: i32 = 24;
/// What is above and below the marks of a chart: its margins, and its ticks.
pub const FRAME: u32 = ABOVE + BELOW + UNTITLED as u32;
/// Margins of every chart, and that below it: a tick's descenders.
pub const ABOVE: u32 = 9;
pub const BELOW: u32 = 4;
/// Ticks at most of an axis with much room.
pub const TICKS: usize = 6;
/// Labels that such an axis has room for side by side.
pub const ROOM: f64 = 12.0;
/// Digits at which a decade is ticked, from few to many.
const OF_DECADES: [&[f64]; 3] = [&[1.0], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]];
/// Where the largest is less than this many times the smallest, ticks at even steps are far enough apart on a logarithmic axis.
const EVEN: f64 = 3.0;
/// Steps of time, in milliseconds: what people count in.
const OF_TIME: [u64; 17] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000,
    7_200_000, 21_600_000, 86_400_000,
];

/// An axis with its ticks.
pub struct Axis {
    range: Range<f64>,
    is_logarithmic: bool,
    ticks: Vec<f64>,
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let scaled = |value: f64| if self.is_logarithmic { value.ln() } else { value };
        let (low, high) = (scaled(self.range.start), scaled(self.range.end));
        from + (f64::from(to - from) * (scaled(*value) - low) / (high - low)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// A logarithmic axis with room for so many labels side by side.
pub fn logarithmic(low: f64, high: f64, room: f64) -> Axis {
    Axis { range: low..high, is_logarithmic: true, ticks: of_ratios(low, high, room) }
}

/// An axis of counts, which are short: two ticks more than `most`.
pub fn wholes(low: f64, high: f64, most: usize) -> Axis {
    let step = steps(high - low).find(|step| *step >= 1.0 && multiples(low..high, *step).len() <= most + 2);
    even(low..high, step.unwrap_or(1.0))
}

/// An axis of milliseconds since its beginning.
pub fn spans(end: f64, most: usize) -> Axis {
    let weeks = (1..).map(|weeks| 7.0 * 86_400_000.0 * f64::from(weeks));
    let mut steps = OF_TIME.into_iter().map(|step| step as f64).chain(weeks);
    let step = steps.find(|step| end / step < most as f64).unwrap_or(end);
    // One that is shorter than any has its end.
    let step = if step > end { end } else { step };
    even(0.0..end, step)
}

fn even(range: Range<f64>, step: f64) -> Axis {
    let ticks = multiples(range.clone(), step);
    Axis { range, is_logarithmic: false, ticks }
}

fn of_ratios(low: f64, high: f64, room: f64) -> Vec<f64> {
    let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    let of_digits = |digits: &[f64]| -> Vec<f64> {
        let of_decade = |decade| digits.iter().map(move |digit| digit * 10_f64.powi(decade));
        decades.clone().flat_map(of_decade).filter(|tick| (low..=high).contains(tick)).collect()
    };
    let even = steps(high - low).filter(|_| high / low < EVEN).map(|step| multiples(low..high, step));
    // The densest that is not too dense.
    let apart = (high / low).powf(1.0 / room);
    let fits = |ticks: &Vec<f64>| {
        ticks.len() <= TICKS && ticks.iter().zip(ticks.iter().skip(1)).all(|(tick, next)| next / tick >= apart)
    };
    let found = OF_DECADES.map(of_digits).into_iter().filter(fits).max_by_key(Vec::len);
    let even = even.filter(fits).max_by_key(Vec::len).unwrap_or_default();
    let found = found.filter(|found| found.len() >= even.len().max(2)).unwrap_or(even);
    // Of many decades there are only some.
    if found.len() >= 2 { found } else { vec![low, high] }
}

/// Even steps for a width, the smallest first: 1, 2 and 5 times powers of ten.
fn steps(width: f64) -> impl Iterator<Item = f64> {
    let least = width.log10().floor() as i32 - 2;
    (least..=least + 4).flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(decade)))
}

fn multiples(range: Range<f64>, step: f64) -> Vec<f64> {
    let (first, last) = ((range.start / step).ceil() as i64, (range.end / step).floor() as i64);
    (first..=last).map(|number| number as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::{long, ms, times};

    fn told(ticks: &[f64], say: impl Fn(f64) -> String) -> Vec<String> {
        let mut told: Vec<String> = ticks.iter().map(|tick| say(*tick)).collect();
        let count = told.len();
        assert!((2..=TICKS + 3).contains(&count), "{told:?}");
        told.dedup();
        assert_eq!(told.len(), count, "{ticks:?}");
        told
    }

    #[test]
    fn ratios_have_ticks_that_differ_whatever_their_range() {
        for (low, high) in [(0.95, 1.05), (0.95, 3.3), (0.9, 12.0), (1.0, 1e3), (0.012, 0.014), (3.1, 3.5), (1e-3, 1e9)]
        {
            told(&of_ratios(low, high, ROOM), times_or_ms(low));
            told(&of_ratios(low, high, 3.0), times_or_ms(low));
        }
        assert_eq!(told(&of_ratios(0.95, 1.9, ROOM), times), ["1.00 ×", "1.20 ×", "1.40 ×", "1.60 ×", "1.80 ×"]);
        assert_eq!(told(&of_ratios(0.9, 12.0, ROOM), ms), ["1.00 ms", "2.00 ms", "5.00 ms", "10.0 ms"]);
        let mut low = 1e-4;
        while low < 1e4 {
            for ratio in [1.1, 1.3, 2.0, 2.9, 3.1, 7.0, 40.0, 1e3, 1e6] {
                told(&of_ratios(low, low * ratio, ROOM), ms);
                told(&of_ratios(low, low * ratio, 3.0), ms);
            }
            low *= 1.37;
        }
    }

    fn times_or_ms(low: f64) -> fn(f64) -> String {
        if low < 0.1 { ms } else { times }
    }

    #[test]
    fn counts_and_spans_have_ticks_that_differ() {
        for end in 2..5_000 {
            told(&wholes(0.0, f64::from(end), TICKS).ticks, |value| format!("{value:.0}"));
        }
        for end in [3.0, 150.0, 999.0, 1e3, 7e3, 6e4, 4e6, 1e8, 3e9] {
            told(&spans(end, TICKS).ticks, |value| long(value as u64));
            told(&spans(end, TICKS - 2).ticks, |value| long(value as u64));
        }
    }
}
