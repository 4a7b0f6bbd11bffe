//! What the candidates that were tried teach a model: targets of those that ran, and which did not run.

use bluefin_common::candidate::Candidate;
use bluefin_common::failure::FailureKind;

use super::coordinates::Coordinates;
use crate::search::Tried;
use crate::search::analytic::{foreseen, least_cost_of};

/// Candidates that a model knows at most.
pub const KNOWN: usize = 200;
/// Best candidates whose neighbours are looked at.
const INCUMBENTS: usize = 5;
/// Above the median of targets, only this share of the difference counts: that a candidate is bad matters, by how much does not.
const SQUASHED: f64 = 0.1;
/// The least target above which that holds.
const LEAST_MEDIAN: f64 = 0.05;
/// How much worse than the worst that ran a candidate counts that is sure to fail.
const WORSE: f64 = 0.2;

/// A candidate that was tried, and where it lies.
#[derive(Clone, Debug)]
pub struct Lesson<'a> {
    pub candidate: &'a Candidate,
    pub place: Vec<f64>,
    /// The logarithm of its time over the best one, squashed where it is large; of one that was cut short, that of its bound.
    pub target: f64,
    /// What of the target an analytic model foresees.
    pub foreseen: f64,
    /// It was measured to the end.
    whole: bool,
}

/// What was learnt so far.
#[derive(Clone, Debug, Default)]
pub struct Lessons<'a> {
    /// Candidates that ran, the best first.
    pub ran: Vec<Lesson<'a>>,
    /// Candidates that failed by their own fault, in their order, with the target that one has which is sure to fail.
    pub failed: Vec<Lesson<'a>>,
}

impl<'a> Lessons<'a> {
    /// Those of `tried`, whose order does not matter, for a problem that is `there`.
    pub fn of(tried: &[Tried<'a>], coordinates: &Coordinates, there: &[f64]) -> Self {
        let mut lessons = Self::default();
        let times = tried.iter().filter_map(|tried| tried.result.ok());
        let best = times.filter(|time| !time.pruned).map(|time| time.median_ms).fold(f64::INFINITY, f64::min);
        let least = least_cost_of(tried);
        for Tried { candidate, result, cost, .. } in tried {
            let Some(place) = coordinates.place_of(&candidate.params, there) else { continue };
            // Of one that failed there is no time that costs could foresee.
            let foreseen = if result.is_ok() { foreseen(*cost, least) } else { 0.0 };
            let lesson = |target, whole| Lesson { candidate, place, target, foreseen, whole };
            match result {
                Ok(time) => lessons.ran.push(lesson(libm::log(time.median_ms / best).max(0.0), !time.pruned)),
                Err(kind) if is_own_fault(*kind) => lessons.failed.push(lesson(0.0, false)),
                Err(_) => {}
            }
        }
        lessons.ran.sort_by(|a, b| a.target.total_cmp(&b.target).then_with(|| a.candidate.cmp(b.candidate)));
        lessons.failed.sort_by_key(|lesson| lesson.candidate);
        lessons.squash();
        lessons
    }

    /// These and a share of those of each other problem, which leave room for those of the problem itself.
    pub fn with(mut self, others: &[Self]) -> Self {
        let room = KNOWN.saturating_sub(self.ran.len()).max(KNOWN / 2);
        let share = room / others.len().max(1);
        for other in others {
            self.ran.extend(pick(&other.ran, share).into_iter().cloned());
            self.failed.extend(pick(&other.failed, share).into_iter().cloned());
        }
        // Stable: of the same target, those of the problem itself are first.
        self.ran.sort_by(|a, b| a.target.total_cmp(&b.target));
        self
    }

    fn squash(&mut self) {
        let median = self.ran.get(self.ran.len() / 2).map_or(0.0, |lesson| lesson.target).max(LEAST_MEDIAN);
        for lesson in &mut self.ran {
            let beyond = (lesson.target - median).max(0.0);
            lesson.target -= (1.0 - SQUASHED) * beyond;
        }
        let worst = self.ran.last().map_or(0.0, |lesson| lesson.target);
        self.failed.iter_mut().for_each(|lesson| lesson.target = worst + WORSE);
    }

    /// The best candidates.
    pub fn incumbents(&self) -> Vec<&'a Candidate> {
        self.whole().map(|lesson| lesson.candidate).take(INCUMBENTS).collect()
    }

    /// How many were measured to the end.
    pub fn measured(&self) -> usize {
        self.whole().count()
    }

    fn whole(&self) -> impl Iterator<Item = &Lesson<'a>> {
        self.ran.iter().filter(|lesson| lesson.whole)
    }
}

/// Whether a failure says something of its candidate, rather than of a machine or a budget.
fn is_own_fault(kind: FailureKind) -> bool {
    !matches!(kind, FailureKind::BudgetSpent | FailureKind::Dead | FailureKind::DeviceLost)
}

/// Up to `most` of `ordered`: half of them from the front, the others spread over the rest.
pub fn pick<T>(ordered: &[T], most: usize) -> Vec<&T> {
    if ordered.len() <= most {
        return ordered.iter().collect();
    }
    let front = most / 2;
    let (rest, spread) = (ordered.len() - front, most - front);
    ordered.iter().take(front).chain((0..spread).filter_map(|at| ordered.get(front + at * rest / spread))).collect()
}
