//! Which solvers of a problem may still win, so that more of their candidates are tried.

use std::collections::BTreeMap;

use bluefin_common::job::GroupId;
use bluefin_common::outcome::Outcome;
use bluefin_common::session::Stage;

/// How many times slower than the best of all solvers the best of one may be and be tried on, until it has so many candidates: what few of them
/// come to is up to some times its best, and what more come to says more. `docs/search.md`
const BEHIND: [(usize, f64); 3] = [(8, 2.5), (16, 1.6), (usize::MAX, 1.3)];
/// The same of one whose first candidates a model of the architecture chose: they are nearer to its best.
const BEHIND_BY_MODEL: [(usize, f64); 4] = [(4, 2.0), (8, 1.5), (16, 1.15), (usize::MAX, 1.05)];
/// The same of one that was further behind than [`NEAR`] in all like problems, of which there are [`LIKE`] or more.
const BEHIND_IN_LIKE_ONES: [(usize, f64); 2] = [(4, 1.4), (usize::MAX, 1.08)];
/// How many times slower than the best of all solvers the best of one may be and come close to winning.
const NEAR: f64 = 1.05;
/// Like problems that tell where a solver stands.
const LIKE: usize = 3;
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

    /// Whether `solver` may still win, so that more of its candidates are tried.
    pub(super) fn goes_on(&self, solver: &str) -> bool {
        self.is_within(&BEHIND, solver, None)
    }

    /// The same of one whose first candidates a model of the architecture chose, where `expected_ms` is how fast it may be by what few of them
    /// came to.
    pub(super) fn goes_on_by_model(&self, solver: &str, expected_ms: Option<f64>) -> bool {
        let bounds: &[_] = if self.never_came_near(solver) { &BEHIND_IN_LIKE_ONES } else { &BEHIND_BY_MODEL };
        self.is_within(bounds, solver, expected_ms)
    }

    /// Whether `solver` was far behind in all like problems where a few of its candidates were tried.
    fn never_came_near(&self, solver: &str) -> bool {
        let tried = self.like.iter().filter_map(|of| of.behind(solver, FEW));
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
            (&[(4, 1.2), (8, 1.1), (3, 9.0)], 4, 1.2, true),
        ] {
            let of = standings(candidates, Some(own_ms));
            let like_ones = like.iter().map(|(candidates, own_ms)| standings(*candidates, Some(*own_ms))).collect();
            let contest = Contest { of, like: like_ones };
            assert_eq!(contest.goes_on_by_model("slow", None), goes_on, "{own_ms} after {candidates}, {like:?}");
            assert!(contest.goes_on_by_model("fast", None) && contest.goes_on_by_model("new", None));
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
            assert_eq!(contest.goes_on("slow"), goes_on, "{own_ms:?} after {candidates}");
            assert!(contest.goes_on("fast") && contest.goes_on("new"));
        }
        let none_ran = Standings { best_ms: None, ..standings(5, None) };
        assert!(Contest { of: none_ran, like: Vec::new() }.goes_on("slow"), "nothing has run");
        // What a model expects of few counts as if it had been measured.
        for (candidates, own_ms, expected_ms, goes_on) in [
            (1, 90.0, Some(1.9), true),
            (1, 90.0, Some(2.1), false),
            (1, 1.9, Some(90.0), true),
            (3, 90.0, Some(1.0), true),
            (3, 2.1, None, false),
            (4, 1.6, None, false),
            (4, 1.4, None, true),
            (8, 1.2, None, false),
            (8, 1.1, None, true),
            (16, 1.1, None, false),
            (99, 1.0, None, true),
        ] {
            let contest = contest(candidates, Some(own_ms));
            assert_eq!(contest.goes_on_by_model("slow", expected_ms), goes_on, "{own_ms} after {candidates}");
        }
    }
}
