//! Which solvers of a problem may still win, so that more of their candidates are tried.

use std::collections::BTreeMap;

use bluefin_common::job::GroupId;
use bluefin_common::outcome::Outcome;
use bluefin_common::session::Stage;

/// How many times slower than the best of all solvers the best of one may be and be tried on, until it has so many candidates: what few of them
/// come to is up to some times its best, and what more come to says more. `docs/search.md`
const BEHIND: [(usize, f64); 3] = [(8, 2.5), (16, 1.6), (usize::MAX, 1.3)];
/// The same of one whose first candidates a model of the architecture chose: they are nearer to its best.
const BEHIND_BY_MODEL: [(usize, f64); 6] = [(2, 2.0), (4, 1.45), (6, 1.25), (8, 1.1), (16, 1.05), (usize::MAX, 1.03)];
/// The same of one that was further behind than [`NEAR`] in all like problems, of which there are [`LIKE`] or more.
const BEHIND_IN_LIKE_ONES: [(usize, f64); 2] = [(4, 1.4), (usize::MAX, 1.08)];
/// How many times slower than the best of all solvers the best of one may be and come close to winning.
const NEAR: f64 = 1.05;
/// Candidates of a solver up to which one that is so many times slower than the best is tried with so few of them at a time: most never come
/// near, and the few that do show it by the next one.
const CAREFUL: [(usize, f64, usize); 2] = [(4, 1.5, 2), (usize::MAX, 1.15, 1)];
/// Like problems that tell where a solver stands.
const LIKE: usize = 3;
/// Candidates of a solver there that tell it.
const TOLD: usize = 3;
/// Candidates of a solver before what a model makes of their times counts no more than the times do.
pub(super) const FEW: usize = 4;

/// Candidates of a solver of which nothing ran, after which it is given up.
const FAILING: usize = 16;

/// How far each solver got in the rounds before one.
#[derive(Debug, Default)]
pub(super) struct Contest<'a> {
    of: Standings<'a>,
    /// Of problems like this one.
    like: Vec<Standings<'a>>,
}

/// How far each solver got for a problem.
#[derive(Debug, Default)]
struct Standings<'a> {
    solvers: BTreeMap<&'a str, Solver>,
    best_ms: Option<f64>,
}

#[derive(Debug, Default)]
struct Solver {
    candidates: usize,
    /// Of one that was cut short, what it was cut short at: it is at least as slow.
    best_ms: Option<f64>,
}

impl<'a> Contest<'a> {
    /// `others` are outcomes of like problems, as far as the round is told of them.
    pub(super) fn before(round: u32, outcomes: &'a [Outcome], others: &'a [Outcome]) -> Self {
        let mut contest = Self::default();
        for outcome in outcomes.iter().filter(|outcome| outcome.job.round < round) {
            contest.of.take(outcome);
        }
        let mut like: BTreeMap<GroupId, Standings<'_>> = BTreeMap::new();
        for outcome in others {
            like.entry(outcome.job.group()).or_default().take(outcome);
        }
        contest.like = like.into_values().collect();
        contest
    }

    /// How many candidates of `solver` may be tried at a time; none, if it can not win any more.
    pub(super) fn at_a_time(&self, solver: &str) -> usize {
        if self.is_within(&BEHIND, solver, None) { usize::MAX } else { 0 }
    }

    /// The same of one whose first candidates a model of the architecture chose, where `expected_ms` is how fast it may be by what few of them
    /// came to.
    pub(super) fn at_a_time_by_model(&self, solver: &str, expected_ms: Option<f64>) -> usize {
        let bounds: &[_] = if self.never_came_near(solver) { &BEHIND_IN_LIKE_ONES } else { &BEHIND_BY_MODEL };
        if !self.is_within(bounds, solver, expected_ms) {
            return 0;
        }
        let (behind, candidates) = (self.of.behind(solver, 1), self.of.candidates(solver));
        let careful = CAREFUL.iter().find(|(until, ..)| candidates < *until);
        careful.filter(|(_, far, _)| behind.is_some_and(|behind| behind > *far)).map_or(usize::MAX, |(.., few)| *few)
    }

    /// Whether `solver` was far behind in all like problems where a few of its candidates were tried.
    fn never_came_near(&self, solver: &str) -> bool {
        let tried = self.like.iter().filter_map(|of| of.behind(solver, TOLD));
        let (mut told, mut near) = (0, false);
        for behind in tried {
            told += 1;
            near |= behind <= NEAR;
        }
        told >= LIKE && !near
    }

    fn is_within(&self, bounds: &[(usize, f64)], solver: &str, expected_ms: Option<f64>) -> bool {
        let (Some(of), Some(best_ms)) = (self.of.solvers.get(solver), self.of.best_ms) else { return true };
        let Some(own_ms) = of.best_ms else { return of.candidates < FAILING };
        let behind = bounds.iter().find(|(until, _)| of.candidates < *until).map_or(1.0, |(_, behind)| *behind);
        expected_ms.map_or(own_ms, |expected| expected.min(own_ms)) <= behind * best_ms
    }
}

impl<'a> Standings<'a> {
    fn take(&mut self, outcome: &'a Outcome) {
        if outcome.job.stage != Stage::Perf {
            return;
        }
        for one in &outcome.candidates {
            let solver = self.solvers.entry(&one.candidate.solver).or_default();
            solver.candidates += 1;
            let Ok(timing) = &one.result else { continue };
            let less = |best: Option<f64>| Some(best.map_or(timing.median_ms, |best| best.min(timing.median_ms)));
            solver.best_ms = less(solver.best_ms);
            self.best_ms = less(self.best_ms);
        }
    }

    /// How many candidates of `solver` were tried.
    fn candidates(&self, solver: &str) -> usize {
        self.solvers.get(solver).map_or(0, |of| of.candidates)
    }

    /// How many times slower than the best of all the best of `solver` is, of which so many candidates were tried.
    fn behind(&self, solver: &str, candidates: usize) -> Option<f64> {
        let of = self.solvers.get(solver).filter(|of| of.candidates >= candidates)?;
        Some(of.best_ms? / self.best_ms?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standings(candidates: usize, own_ms: Option<f64>) -> Standings<'static> {
        let fast = Solver { candidates, best_ms: Some(1.0) };
        Standings {
            solvers: [("slow", Solver { candidates, best_ms: own_ms }), ("fast", fast)].into(),
            best_ms: Some(1.0),
        }
    }

    #[test]
    fn who_never_came_near_in_like_problems_is_given_up_sooner() {
        for (like, candidates, own_ms, goes_on) in [
            (&[(4, 1.2), (8, 1.1), (16, 1.06)][..], 4, 1.2, false),
            (&[(4, 1.2), (8, 1.1), (16, 1.06)], 4, 1.08, true),
            (&[(4, 1.2), (8, 1.1), (16, 1.06)], 1, 1.4, true),
            (&[(4, 1.2), (8, 1.1), (16, 1.06)], 1, 1.5, false),
            // One in which it came near, one too few, and one where it was hardly tried.
            (&[(4, 1.2), (8, 1.1), (16, 1.04)], 4, 1.2, true),
            (&[(4, 1.2), (8, 1.1)], 4, 1.2, true),
            (&[(4, 1.2), (8, 1.1), (2, 9.0)], 4, 1.2, true),
        ] {
            let of = standings(candidates, Some(own_ms));
            let like_ones = like.iter().map(|(candidates, own_ms)| standings(*candidates, Some(*own_ms))).collect();
            let contest = Contest { of, like: like_ones };
            let at_a_time = contest.at_a_time_by_model("slow", None);
            assert_eq!(at_a_time > 0, goes_on, "{own_ms} after {candidates}, {like:?}");
            assert_eq!(["fast", "new"].map(|solver| contest.at_a_time_by_model(solver, None)), [usize::MAX; 2]);
        }
    }

    #[test]
    fn who_is_far_behind_is_given_up_the_sooner_the_more_is_known() {
        let contest = |candidates, own_ms| Contest { of: standings(candidates, own_ms), like: Vec::new() };
        for (candidates, own_ms, goes_on) in [
            (1, Some(2.4), true),
            (4, Some(2.4), true),
            (4, Some(2.6), false),
            (8, Some(1.7), false),
            (8, Some(1.5), true),
            (16, Some(1.4), false),
            (99, Some(1.2), true),
            (8, None, true),
            (16, None, false),
        ] {
            let contest = contest(candidates, own_ms);
            let at_a_time = if goes_on { usize::MAX } else { 0 };
            assert_eq!(contest.at_a_time("slow"), at_a_time, "{own_ms:?} after {candidates}");
            assert_eq!(["fast", "new"].map(|solver| contest.at_a_time(solver)), [usize::MAX; 2]);
        }
        let none_ran = Standings { best_ms: None, ..standings(5, None) };
        assert_eq!(Contest { of: none_ran, like: Vec::new() }.at_a_time("slow"), usize::MAX, "nothing has run");
        // What a model expects of few counts as if it had been measured.
        for (candidates, own_ms, expected_ms, at_a_time) in [
            (1, 90.0, Some(1.9), 2),
            (1, 90.0, Some(2.1), 0),
            (1, 1.9, Some(90.0), 2),
            (1, 1.4, Some(90.0), usize::MAX),
            (3, 90.0, Some(1.0), 2),
            (3, 1.7, None, 0),
            (3, 1.4, None, usize::MAX),
            (4, 1.3, None, 0),
            (4, 1.2, None, 1),
            (4, 1.1, None, usize::MAX),
            (6, 1.12, None, 0),
            (6, 1.08, None, usize::MAX),
            (8, 1.06, None, 0),
            (8, 1.04, None, usize::MAX),
            (16, 1.04, None, 0),
            (99, 1.0, None, usize::MAX),
        ] {
            let contest = contest(candidates, Some(own_ms));
            let found = contest.at_a_time_by_model("slow", expected_ms);
            assert_eq!(found, at_a_time, "{own_ms} after {candidates}");
        }
    }
}
