//! What each stretch of a campaign's time bought.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use bluefin_common::outcome::Outcome;
use bluefin_common::problem::Problem;
use bluefin_common::session::Stage;
use bluefin_common::spelled::{counted, human};
use serde::Serialize;

/// Stretches of a campaign's time.
const STRETCHES: u64 = 10;

/// Where a campaign was at the end of a stretch of its time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stretch {
    /// Since its workers began. The last one is when the last candidate was timed.
    pub ended_ms: u64,
    /// Candidates that were tried by then, those of earlier calls included.
    pub candidates: u64,
    /// Problems that had a time by then.
    pub problems: u64,
    /// The sum of their best times, each as often as its problem counts.
    pub sum_ms: f64,
}

/// What each tenth of the `time_ms` since `begun_ms` bought, and what was under way then, by the times of the perf stage.
pub(crate) fn stretches(
    outcomes: &[Outcome],
    weights: &HashMap<Problem, f64>,
    begun_ms: u64,
    time_ms: u64,
) -> Vec<Stretch> {
    let mut perf: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.job.stage == Stage::Perf).collect();
    perf.sort_by_key(|outcome| outcome.finished_ms);
    let last = perf.last().map_or(0, |outcome| outcome.finished_ms.saturating_sub(begun_ms));
    let mut ends: Vec<u64> = (1..=STRETCHES).map(|tenth| time_ms.saturating_mul(tenth) / STRETCHES).collect();
    ends.retain(|end| *end < last);
    ends.push(last);
    ends.into_iter().map(|end| at(&perf, weights, begun_ms, end)).collect()
}

fn at(perf: &[&Outcome], weights: &HashMap<Problem, f64>, begun_ms: u64, ended_ms: u64) -> Stretch {
    let mut best: HashMap<&Problem, f64> = HashMap::new();
    let mut candidates = 0;
    for outcome in perf.iter().take_while(|outcome| outcome.finished_ms <= begun_ms.saturating_add(ended_ms)) {
        candidates += outcome.candidates.len() as u64;
        let timings = outcome.candidates.iter().filter_map(|one| one.result.as_ref().ok());
        for timing in timings.filter(|timing| !timing.pruned) {
            let best = best.entry(&outcome.job.problem).or_insert(f64::INFINITY);
            *best = best.min(timing.median_ms);
        }
    }
    let mut times: Vec<f64> =
        best.iter().map(|(problem, ms)| weights.get(*problem).copied().unwrap_or(1.0) * ms).collect();
    // So that the sum is the same whatever the order of problems.
    times.sort_by(f64::total_cmp);
    Stretch { ended_ms, candidates, problems: times.len() as u64, sum_ms: times.iter().sum() }
}

/// `after 6.0s: 552 candidates, 69 problems in 131.200 ms`
impl fmt::Display for Stretch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ended_ms, candidates, problems, sum_ms } = self;
        let ended = Duration::from_millis(*ended_ms);
        match *ended_ms {
            0..60_000 => write!(f, "after {:.1}s", ended.as_secs_f64())?,
            _ => write!(f, "after {}", human(ended))?,
        }
        let (candidates, problems) = (counted(*candidates, "candidate"), counted(*problems, "problem"));
        write!(f, ": {candidates}, {problems} in {sum_ms:.3} ms")
    }
}

#[cfg(test)]
mod tests {
    use bluefin_common::candidate::Candidate;
    use bluefin_common::description::Description;
    use bluefin_common::digest::Digest;
    use bluefin_common::job::Job;
    use bluefin_common::lane::Lane;
    use bluefin_common::method::Method;
    use bluefin_common::outcome::{CandidateOutcome, Timing};
    use bluefin_common::problem::KernelProblem;
    use bluefin_common::target::Target;

    use super::*;

    fn problem(name: &str) -> Problem {
        Problem::Kernel(KernelProblem::new(name.to_string(), [("n".to_string(), 1_i64.into())].into()).unwrap())
    }

    /// What came of candidates of a problem that took so long.
    fn outcome(of: &str, stage: Stage, finished_ms: u64, times: &[f64]) -> Outcome {
        let candidate = Candidate { solver: "S".to_string(), params: Vec::new() };
        let job = Job {
            session: "it".parse().unwrap(),
            stage,
            target: Target::Host,
            problem: problem(of),
            method: Method::KERNELS,
            spec: Digest::of(b"spec"),
            toolchain: "cc".to_string(),
            candidates: vec![candidate.clone(); times.len()],
            round: 0,
            lane: Lane::First,
        };
        let timed = |ms: &f64| CandidateOutcome {
            candidate: candidate.clone(),
            built: None,
            // What is negative was cut short.
            result: Ok(Timing { pruned: *ms < 0.0, ..Timing::single(ms.abs()) }),
            resources: None,
        };
        Outcome::undone(&job, Description::default(), times.iter().map(timed).collect(), finished_ms)
    }

    #[test]
    fn what_each_tenth_of_the_time_bought() {
        let outcomes = [
            outcome("a", Stage::Perf, 1_100, &[4.0, 3.0]),
            outcome("b", Stage::Perf, 1_250, &[10.0, -1.0]),
            outcome("a", Stage::Perf, 1_450, &[2.0]),
            outcome("a", Stage::Find, 1_500, &[1.0]),
        ];
        let weights = HashMap::from([(problem("b"), 3.0)]);
        let found = stretches(&outcomes, &weights, 1_000, 1_000);
        let at = |ended_ms, candidates, problems, sum_ms| Stretch { ended_ms, candidates, problems, sum_ms };
        let expected =
            [at(100, 2, 1, 3.0), at(200, 2, 1, 3.0), at(300, 4, 2, 33.0), at(400, 4, 2, 33.0), at(450, 5, 2, 32.0)];
        assert_eq!(found, expected, "to the last candidate, in whatever order outcomes come");
        assert_eq!(found[4].to_string(), "after 0.5s: 5 candidates, 2 problems in 32.000 ms");
        // What was under way at the end was finished then.
        let found = stretches(&outcomes, &weights, 1_000, 200);
        assert_eq!((found.len(), found.last()), (11, Some(&at(450, 5, 2, 32.0))));
        assert_eq!(stretches(&[], &weights, 1_000, 1_000), [at(0, 0, 0, 0.0)]);
        assert_eq!(at(125_000, 1, 1, 0.25).to_string(), "after 2m 05s: 1 candidate, 1 problem in 0.250 ms");
    }
}
