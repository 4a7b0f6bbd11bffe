//! Which points will not compile or not fit: a Gaussian process whose targets are whether the points tried ran.

use super::coordinates::Coordinates;
use super::fit::{MOST_NOISE_OF_RISK, fit};
use super::lessons::{Lesson, Lessons, pick};
use super::model::{Columns, Model};

/// Candidates of either kind that lengths are fitted to, and that are known.
const FITTED: usize = 40;
const KNOWN: usize = 80;
/// Where the others say that a candidate which failed had at most this chance, it lies in a region of failures.
const REGION: f64 = 0.25;
/// The least chance, so that a wrong model does not exclude a point for good.
const LEAST: f64 = 0.01;

/// What is known of failures.
#[derive(Debug)]
pub struct Risk {
    model: Model,
    /// Share of the candidates that ran, and its deviation.
    share: f64,
    deviation: f64,
}

impl Risk {
    /// That of some candidates which ran and some which did not, with those of the latter that lie in a region of failures. `None`
    /// where there are none of either kind.
    pub fn of<'a>(lessons: &Lessons<'a>, coordinates: &Coordinates) -> Option<(Self, Vec<Lesson<'a>>)> {
        let (ran, failed) = (lessons.ran.len() as f64, lessons.failed.len() as f64);
        let share = ran / (ran + failed);
        let deviation = (share * (1.0 - share)).sqrt();
        if deviation.is_nan() || deviation <= 0.0 {
            return None;
        }
        let known = |most: usize| -> (Columns, Vec<f64>) {
            let (ran, failed) = (pick(&lessons.ran, most), pick(&lessons.failed, most));
            let targets = failed.iter().map(|_| -share).chain(ran.iter().map(|_| 1.0 - share));
            let targets = targets.map(|target| target / deviation).collect();
            let places: Vec<&Vec<f64>> = failed.iter().chain(&ran).map(|lesson| &lesson.place).collect();
            (Columns::of(&places, coordinates.count()), targets)
        };
        let (points, targets) = known(FITTED);
        let scales = fit(&points, &targets, coordinates, MOST_NOISE_OF_RISK);
        let (points, targets) = known(KNOWN);
        let model = Model::of(&points, &targets, coordinates, &scales)?;
        let left_out = model.left_out(&targets);
        let risk = Self { model, share, deviation };
        let failed = pick(&lessons.failed, KNOWN).into_iter().zip(left_out);
        let in_region = failed.filter(|(_, target)| risk.chance(*target) <= REGION).map(|(lesson, _)| lesson.clone());
        let in_region = in_region.collect();
        Some((risk, in_region))
    }

    /// The chance of each point to run.
    pub fn chances(&self, points: &Columns) -> Vec<f64> {
        self.model.means(points).into_iter().map(|target| self.chance(target)).collect()
    }

    fn chance(&self, target: f64) -> f64 {
        (self.share + self.deviation * target).clamp(LEAST, 1.0)
    }
}
