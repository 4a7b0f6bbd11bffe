//! Compares an output with the reference's.

use std::fmt;

use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::problem::DataType;
use bluefin_common::task::Tolerance;

use crate::elements::{is_poison, to_f64};

/// How an output differs from the reference's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    /// Elements compared.
    pub elements: u64,
    /// Elements out of tolerance, those not written included.
    pub wrong: u64,
    /// Elements that still hold poison.
    pub unwritten: u64,
    /// Elements that were written and are not a number where the reference is one.
    pub not_numbers: u64,
    /// The first wrong element: its index, what it is, what it should be.
    pub first: Option<(u64, f64, f64)>,
    /// The wrong element that is furthest from what it should be, of those that are numbers, in the same way.
    pub worst: Option<(u64, f64, f64)>,
    /// Largest absolute error of a written element.
    pub max_error: f64,
}

/// Outputs of which a failure says all.
const IN_FULL: usize = 3;

impl Difference {
    /// Compares the next elements of an output. Both slices hold the same number of whole elements.
    pub fn compare(&mut self, data_type: DataType, got: &[u8], want: &[u8], tolerance: &Tolerance) {
        let size = data_type.size();
        let start = self.elements;
        self.elements += (got.len() / size) as u64;
        if got == want {
            return;
        }
        for (index, (got, want)) in (start..).zip(got.chunks_exact(size).zip(want.chunks_exact(size))) {
            if got == want {
                continue;
            }
            let (got_number, want_number) = (to_f64(data_type, got), to_f64(data_type, want));
            if is_right(got_number, want_number, tolerance) {
                self.max_error = self.max_error.max(finite_error(got_number, want_number));
                continue;
            }
            self.wrong += 1;
            if is_poison(data_type, got) {
                self.unwritten += 1;
            } else if got_number.is_nan() {
                self.not_numbers += 1;
            } else {
                let error = (got_number - want_number).abs();
                self.max_error = self.max_error.max(error);
                if self.worst.is_none_or(|(_, got, want)| error > (got - want).abs()) {
                    self.worst = Some((index, got_number, want_number));
                }
            }
            self.first.get_or_insert((index, got_number, want_number));
        }
    }

    /// Whether all elements are right.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.wrong == 0
    }

    fn kind(&self) -> FailureKind {
        match self {
            Self { unwritten: 1.., .. } => FailureKind::OutputNotWritten,
            Self { not_numbers: 1.., .. } => FailureKind::NotANumber,
            _ => FailureKind::WrongResult,
        }
    }
}

/// The failure that outputs are, by their names; `None` if all of them are right. Its kind is that of the first wrong one. It says all of
/// a few outputs, and names the others.
#[must_use]
pub fn failure<'a>(outputs: impl IntoIterator<Item = (&'a str, Difference)>) -> Option<Failure> {
    let wrong: Vec<(&str, Difference)> = outputs.into_iter().filter(|(_, difference)| !difference.is_right()).collect();
    let (_, first) = wrong.first()?;
    let (full, others) = wrong.split_at(IN_FULL.min(wrong.len()));
    let mut said: Vec<String> = full.iter().map(|(name, difference)| format!("output {name}: {difference}")).collect();
    if !others.is_empty() {
        let names: Vec<&str> = others.iter().map(|(name, _)| *name).collect();
        said.push(format!("{} more outputs wrong: {}", others.len(), names.join(", ")));
    }
    Some(Failure::new(first.kind(), said.join("; ")))
}

/// How far an output of one run of the reference is from that of another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Runs {
    differ: bool,
    largest: f64,
}

impl Runs {
    /// Times the difference of two runs that a candidate may be further from one of them: it is a run like both, and the largest of
    /// all differences is not among the first two.
    const WIDER: f64 = 4.0;

    /// Compares the next elements of both. Bits count: what is written alike is alike.
    pub fn compare(&mut self, data_type: DataType, one: &[u8], other: &[u8]) {
        if one == other {
            return;
        }
        let size = data_type.size();
        for (one, other) in one.chunks_exact(size).zip(other.chunks_exact(size)).filter(|(one, other)| one != other) {
            let (one, other) = (to_f64(data_type, one), to_f64(data_type, other));
            if one == other || one.is_nan() && other.is_nan() {
                continue;
            }
            self.differ = true;
            self.largest = self.largest.max(finite_error(one, other));
        }
    }

    #[must_use]
    pub fn differ(&self) -> bool {
        self.differ
    }

    /// How far a candidate may be from the first run that may be as far from it as `tolerance` says of a run that is always the same.
    #[must_use]
    pub fn widen(&self, tolerance: &Tolerance) -> Tolerance {
        let largest = if self.largest.is_finite() { self.largest } else { 0.0 };
        Tolerance { absolute: tolerance.absolute + Self::WIDER * largest, ..*tolerance }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { elements, wrong, unwritten, not_numbers, first, worst, max_error } = self;
        if let Some((index, got, want)) = first {
            write!(f, "element {index}: found {got}, expected {want}; ")?;
        }
        write!(f, "{wrong} of {elements} elements wrong, {unwritten} of them not written, ")?;
        if *not_numbers > 0 {
            write!(f, "{not_numbers} not a number, ")?;
        }
        write!(f, "max absolute error {max_error:e}")?;
        match worst.filter(|(index, ..)| first.is_none_or(|(first, ..)| first != *index)) {
            Some((index, got, want)) => write!(f, ", worst element {index}: found {got}, expected {want}"),
            None => Ok(()),
        }
    }
}

/// Equal infinities are right, and so is not-a-number where the reference is none either.
fn is_right(got: f64, want: f64, tolerance: &Tolerance) -> bool {
    got == want
        || got.is_nan() && want.is_nan()
        || want.is_finite() && (got - want).abs() <= tolerance.absolute + tolerance.relative * want.abs()
}

fn finite_error(got: f64, want: f64) -> f64 {
    let error = (got - want).abs();
    if error.is_nan() { 0.0 } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elements::fill_poison;

    const TOLERANCE: Tolerance = Tolerance { absolute: 1e-3, relative: 1e-2 };

    fn bytes(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    fn compare(got: &[f32], want: &[f32]) -> Difference {
        let mut difference = Difference::default();
        difference.compare(DataType::Fp32, &bytes(got), &bytes(want), &TOLERANCE);
        difference
    }

    #[test]
    fn within_tolerance() {
        let difference = compare(&[1.0, 100.9, 0.0005, -2.0], &[1.0, 100.0, 0.0, -2.01]);
        assert!(difference.is_right());
        assert!((difference.max_error - 0.9).abs() < 1e-5);
    }

    #[test]
    fn the_first_and_the_worst_wrong_element_are_named() {
        let difference = compare(&[1.0, 2.0, 3.5, 7.0], &[1.0, 2.0, 3.0, 4.0]);
        let found = failure([("y", difference)]).unwrap();
        assert_eq!(found.kind, FailureKind::WrongResult);
        assert_eq!(
            found.detail,
            "output y: element 2: found 3.5, expected 3; 2 of 4 elements wrong, 0 of them not written, \
             max absolute error 3e0, worst element 3: found 7, expected 4"
        );
        let one = failure([("y", compare(&[1.0, 2.0], &[1.0, 4.0]))]).unwrap();
        assert!(one.detail.ends_with("max absolute error 2e0"), "{}", one.detail);
    }

    #[test]
    fn every_wrong_output_is_named() {
        let wrong = |got: f32| compare(&[got], &[1.0]);
        let all = [("a", 2.0), ("b", 1.0), ("c", f32::NAN), ("d", 3.0), ("e", 4.0), ("f", 5.0)];
        let found = failure(all[..3].iter().map(|(name, got)| (*name, wrong(*got)))).unwrap();
        assert_eq!(found.kind, FailureKind::WrongResult);
        assert_eq!(
            found.detail,
            "output a: element 0: found 2, expected 1; 1 of 1 elements wrong, 0 of them not written, \
             max absolute error 1e0; output c: element 0: found NaN, expected 1; 1 of 1 elements wrong, \
             0 of them not written, 1 not a number, max absolute error 0e0"
        );
        let found = failure(all.iter().map(|(name, got)| (*name, wrong(*got)))).unwrap();
        assert!(found.detail.contains("; output d: "), "{}", found.detail);
        assert!(found.detail.ends_with("; 2 more outputs wrong: e, f"), "{}", found.detail);
    }

    #[test]
    fn chunks_count_on() {
        let mut difference = Difference::default();
        difference.compare(DataType::Fp32, &bytes(&[1.0, 2.0]), &bytes(&[1.0, 2.0]), &TOLERANCE);
        difference.compare(DataType::Fp32, &bytes(&[1.0, 2.0]), &bytes(&[1.0, 3.0]), &TOLERANCE);
        assert_eq!((difference.elements, difference.wrong), (4, 1));
        assert_eq!(difference.first, Some((3, 2.0, 3.0)));
    }

    #[test]
    fn poison_left_is_not_written() {
        let mut difference = Difference::default();
        let mut got = bytes(&[1.0, 0.0]);
        fill_poison(DataType::Fp32, &mut got[4..]);
        difference.compare(DataType::Fp32, &got, &bytes(&[1.0, 2.0]), &TOLERANCE);
        assert_eq!(failure([("y", difference)]).unwrap().kind, FailureKind::OutputNotWritten);
        let mut integers = Difference::default();
        let (got, want) =
            ([1_i32.to_ne_bytes(), [0xA5; 4]].concat(), [1_i32.to_ne_bytes(), 2_i32.to_ne_bytes()].concat());
        integers.compare(DataType::Int32, &got, &want, &TOLERANCE);
        assert_eq!(failure([("y", integers)]).unwrap().kind, FailureKind::OutputNotWritten);
    }

    #[test]
    fn not_a_number_is_a_kind_of_its_own() {
        let found = failure([("y", compare(&[1.0, f32::NAN, 5.0], &[1.0, 2.0, 3.0]))]).unwrap();
        assert_eq!(found.kind, FailureKind::NotANumber);
        assert!(
            found.detail.contains("2 of 3 elements wrong, 0 of them not written, 1 not a number"),
            "{}",
            found.detail
        );
    }

    #[test]
    fn what_the_reference_has_too_is_right() {
        assert_eq!(failure([("y", compare(&[f32::NAN, f32::INFINITY], &[f32::NAN, f32::INFINITY]))]), None);
        let quiet = [0x7FC0_0001_u32.to_ne_bytes()].concat();
        let mut difference = Difference::default();
        difference.compare(DataType::Fp32, &quiet, &bytes(&[f32::NAN]), &TOLERANCE);
        assert_eq!(failure([("y", difference)]), None);
    }

    #[test]
    fn two_runs_widen_the_tolerance_by_what_they_differ() {
        let mut runs = Runs::default();
        runs.compare(DataType::Fp32, &bytes(&[1.0, -0.0, f32::NAN]), &bytes(&[1.0, 0.0, f32::NAN]));
        assert!(!runs.differ());
        assert_eq!(runs.widen(&TOLERANCE), TOLERANCE);
        runs.compare(DataType::Fp32, &bytes(&[1.0, 2.5, 7.0]), &bytes(&[1.25, 2.0, 7.0]));
        assert!(runs.differ());
        assert_eq!(runs.widen(&TOLERANCE), Tolerance { absolute: 1e-3 + 2.0, relative: 1e-2 });
        // What is no number in one run is no distance.
        let mut lost = Runs::default();
        lost.compare(DataType::Fp32, &bytes(&[f32::NAN, f32::INFINITY]), &bytes(&[1.0, 1.0]));
        assert!(lost.differ());
        assert_eq!(lost.widen(&TOLERANCE), TOLERANCE);
    }

    #[test]
    fn infinities_are_not_close_to_anything() {
        assert!(failure([("y", compare(&[f32::INFINITY], &[1e30]))]).is_some());
        assert!(failure([("y", compare(&[1e30], &[f32::INFINITY]))]).is_some());
        assert!(failure([("y", compare(&[f32::NEG_INFINITY], &[f32::INFINITY]))]).is_some());
        assert!(failure([("y", compare(&[1.0], &[f32::NAN]))]).is_some());
    }
}
