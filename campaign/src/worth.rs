//! What another round of a problem is worth: by how much its best time is expected to fall.

use std::collections::{BTreeMap, HashMap, HashSet};

use bluefin_common::job::GroupId;
use bluefin_common::outcome::{CandidateOutcome, Outcome};
use bluefin_common::search_end::{SearchEnd, SolverEnd, Why};
use bluefin_common::session::Stage;

/// What is expected where too little is known to say: what as many candidates again gained after 8 to 16 on recorded spaces, in the mean.
const UNKNOWN: f64 = 0.08;

/// What another round is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Worth {
    /// Its last round is not over, or nobody has said yet how it ended.
    Unknown,
    /// Nothing: there is nothing more to try, or nothing ran.
    Nothing,
    /// By so many milliseconds the best time is expected to fall.
    Gain(f64),
}

impl Worth {
    /// That of a problem with these outcomes, the searches of whose groups ended like this.
    pub(crate) fn of(outcomes: &[Outcome], ends: &HashMap<GroupId, SearchEnd>) -> Self {
        let perf = || outcomes.iter().filter(|outcome| outcome.job.stage == Stage::Perf);
        let groups: HashSet<GroupId> = perf().map(|outcome| outcome.job.group()).collect();
        let tried =
            |group: GroupId| perf().filter(move |outcome| outcome.job.group() == group).flat_map(|of| &of.candidates);
        let mut gain_ms = None;
        let best_ms = best(perf().flat_map(|outcome| &outcome.candidates));
        for group in groups {
            let Some(SearchEnd(solvers)) = ends.get(&group) else { return Self::Unknown };
            if solvers.iter().map(|end| end.tried).sum::<u64>() != tried(group).count() as u64 {
                return Self::Unknown;
            }
            let mut own: BTreeMap<&str, Vec<&CandidateOutcome>> = BTreeMap::new();
            tried(group).for_each(|one| own.entry(&one.candidate.solver).or_default().push(one));
            for end in solvers.iter().filter(|end| end.why == Why::Budget) {
                let own_ms = best(own.get(end.solver.as_str()).into_iter().flatten().copied());
                let gain = gain(best_ms, own_ms, end);
                gain_ms = Some(gain_ms.map_or(gain, |most: f64| most.max(gain)));
            }
        }
        gain_ms.map_or(Self::Nothing, Self::Gain)
    }

    pub(crate) fn gain_ms(self) -> Option<f64> {
        match self {
            Self::Gain(gain_ms) => Some(gain_ms),
            Self::Unknown | Self::Nothing => None,
        }
    }
}

/// By how much the best time of a problem is expected to fall by a solver whose own best is `own_ms`.
fn gain(best_ms: Option<f64>, own_ms: Option<f64>, end: &SolverEnd) -> f64 {
    let Some(best_ms) = best_ms else { return 0.0 };
    let share = end.left.map_or(UNKNOWN, |hundredths| f64::from(hundredths) / 10_000.0);
    // Of a solver of which nothing ran nothing better is known than the best of all.
    (best_ms - own_ms.unwrap_or(best_ms) * (1.0 - share)).max(0.0)
}

/// The best time of those that were measured to the end.
fn best<'a>(candidates: impl Iterator<Item = &'a CandidateOutcome>) -> Option<f64> {
    let timings = candidates.filter_map(|one| one.result.as_ref().ok()).filter(|timing| !timing.pruned);
    timings.map(|timing| timing.median_ms).min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use bluefin_common::candidate::Candidate;
    use bluefin_common::description::Description;
    use bluefin_common::digest::Digest;
    use bluefin_common::job::Job;
    use bluefin_common::lane::Lane;
    use bluefin_common::method::Method;
    use bluefin_common::outcome::Timing;
    use bluefin_common::problem::{KernelProblem, Problem};
    use bluefin_common::target::Target;

    use super::*;

    /// What came of candidates that took so long, of these solvers.
    fn outcome(stage: Stage, times: &[(&str, f64)]) -> Outcome {
        let sizes = [("n".to_string(), 1_i64.into())].into();
        let candidate = |solver: &str| Candidate { solver: solver.to_string(), params: Vec::new() };
        let job = Job {
            session: "it".parse().unwrap(),
            stage,
            target: Target::Host,
            problem: Problem::Kernel(KernelProblem::new("k".to_string(), sizes).unwrap()),
            method: Method::KERNELS,
            spec: Digest::of(b"spec"),
            toolchain: "cc".to_string(),
            candidates: times.iter().map(|(solver, _)| candidate(solver)).collect(),
            round: 0,
            lane: Lane::First,
        };
        let timed = |(solver, ms): &(&str, f64)| CandidateOutcome {
            candidate: candidate(solver),
            built: None,
            result: Ok(Timing::single(*ms)),
            resources: None,
        };
        Outcome::undone(&job, Description::default(), times.iter().map(timed).collect(), 1)
    }

    fn end(solver: &str, tried: u64, left: Option<u32>, why: Why) -> SolverEnd {
        SolverEnd { solver: solver.to_string(), tried, valid: 1000, exact: true, left, why }
    }

    #[test]
    fn the_solver_that_may_gain_most_says_what_a_round_is_worth() {
        let perf = outcome(Stage::Perf, &[("A", 10.0), ("A", 12.0), ("B", 11.0), ("C", 30.0)]);
        let outcomes = [perf, outcome(Stage::Find, &[("A", 1.0)])];
        let worth = |ends: Vec<SolverEnd>| Worth::of(&outcomes, &[(outcomes[0].job.group(), SearchEnd(ends))].into());
        let c = end("C", 1, Some(9_000), Why::Behind);
        let [few, more] = [500, 2_000].map(|left| end("B", 1, Some(left), Why::Budget));
        let a = |left, why| end("A", 2, left, why);
        let is = |worth: Worth, expected: f64| assert!((worth.gain_ms().unwrap() - expected).abs() < 1e-9, "{worth:?}");
        is(worth(vec![a(Some(300), Why::Budget), few.clone(), c.clone()]), 0.3);
        is(worth(vec![a(Some(300), Why::Budget), more, c.clone()]), 10.0 - 0.8 * 11.0);
        is(worth(vec![a(None, Why::Budget), few.clone(), c.clone()]), 0.8);
        is(worth(vec![a(Some(300), Why::Patience), few, c.clone()]), 0.0);
        let b = end("B", 1, Some(0), Why::All);
        assert_eq!(worth(vec![a(Some(50), Why::Patience), b.clone(), c.clone()]), Worth::Nothing);
        assert_eq!(worth(vec![a(Some(300), Why::Budget), b]), Worth::Unknown, "of another round");
        assert_eq!(Worth::of(&outcomes, &HashMap::new()), Worth::Unknown);
        assert_eq!(Worth::of(&[], &HashMap::new()), Worth::Nothing);
    }
}
