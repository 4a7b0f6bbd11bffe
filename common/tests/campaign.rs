//! Who goes to the find stage, who wins, and what a tie is.

use std::collections::BTreeMap;

use bluefin_common::artifact::{ArtifactRef, Built, Prepared};
use bluefin_common::campaign::{best_of_each_solver, decide, follow_ups, ranked};
use bluefin_common::digest::Digest;
use bluefin_common::job::{Job, Stage};
use bluefin_common::miopen::pin_library;
use bluefin_common::outcome::{Candidate, CandidateOutcome, Failure, FailureKind, Outcome, Timing};
use bluefin_common::problem::{KernelProblem, Problem};
use bluefin_common::session::Session;
use bluefin_common::store::Store;
use bluefin_common::store::sqlite::SqliteStore;
use bluefin_common::target::Target;
use bluefin_common::value::Value;

fn session(stages: &[Stage]) -> Session {
    Session::of_kernels("s".parse().unwrap(), Target::Host, "", stages, 0)
}

fn candidate(solver: &str, param: i64) -> Candidate {
    Candidate { solver: solver.to_string(), params: vec![Value::Int(param)] }
}

/// A candidate with 25 samples, median `ms`, spread `spread` and `workspace` bytes.
fn timed(candidate: Candidate, ms: f64, spread: f64, workspace: u64) -> CandidateOutcome {
    let timing = Timing { spread_ms: spread, samples_ms: vec![ms as f32; 25], ..Timing::single(ms) };
    let prepared = Prepared { artifact: ArtifactRef::of(b"a"), launches: Vec::new(), workspace };
    CandidateOutcome { candidate, built: Some(Built::Kernel(prepared)), result: Ok(timing) }
}

fn pruned(candidate: Candidate, ms: f64) -> CandidateOutcome {
    let mut outcome = timed(candidate, ms, 0.0, 0);
    if let Ok(timing) = &mut outcome.result {
        timing.pruned = true;
    }
    outcome
}

fn failed(candidate: Candidate) -> CandidateOutcome {
    CandidateOutcome { candidate, built: None, result: Err(Failure::new(FailureKind::Hang, "")) }
}

fn outcome(stage: Stage, candidates: Vec<CandidateOutcome>) -> Outcome {
    let job = Job {
        session: "s".parse().unwrap(),
        stage,
        target: Target::Host,
        problem: Problem::Kernel(KernelProblem::new("k".to_string(), BTreeMap::from([("n".to_string(), 1)])).unwrap()),
        spec: Digest::of(b"spec"),
        toolchain: "cc".to_string(),
        candidates: candidates.iter().map(|outcome| outcome.candidate.clone()).collect(),
    };
    Outcome::undone(&job, candidates, 0)
}

fn perf() -> Vec<Outcome> {
    vec![
        outcome(Stage::Perf, vec![timed(candidate("A", 1), 2.0, 0.0, 0), timed(candidate("A", 2), 1.0, 0.0, 0)]),
        outcome(Stage::Perf, vec![timed(candidate("A", 3), 3.0, 0.0, 0), failed(candidate("A", 4))]),
        outcome(Stage::Perf, vec![timed(candidate("B", 1), 5.0, 0.0, 0), pruned(candidate("B", 2), 0.5)]),
        outcome(Stage::Perf, vec![failed(candidate("C", 1))]),
        outcome(Stage::Perf, vec![pruned(candidate("D", 1), 9.0), pruned(candidate("D", 2), 8.0)]),
    ]
}

#[test]
fn finalists_are_the_best_of_each_solver_whatever_the_order() {
    let find = follow_ups(&session(&Stage::ALL), &perf()).remove(0);
    assert_eq!(find.candidates, [candidate("A", 2), candidate("B", 1), candidate("D", 2)]);
    assert_eq!(find.stage, Stage::Find);
    let mut reversed = perf();
    reversed.reverse();
    assert_eq!(follow_ups(&session(&Stage::ALL), &reversed)[0].id(), find.id());
}

#[test]
fn no_find_job_without_the_stage_or_without_times() {
    assert!(follow_ups(&session(&[Stage::Perf]), &perf()).is_empty());
    assert!(follow_ups(&session(&Stage::ALL), &perf()[3..4]).is_empty());
    assert!(follow_ups(&session(&Stage::ALL), &[]).is_empty());
}

#[test]
fn the_winner_is_decided_by_the_find_job_of_these_finalists() {
    let mut outcomes = perf();
    assert!(decide(&session(&Stage::ALL), &outcomes).is_none(), "the find stage has not ended");
    // A find job of other finalists, as a smaller budget left it behind, does not count.
    outcomes.push(outcome(Stage::Find, vec![timed(candidate("A", 1), 0.1, 0.0, 0)]));
    assert!(decide(&session(&Stage::ALL), &outcomes).is_none());
    let finals = [("A", 2, 1.1), ("B", 1, 0.9), ("D", 2, 7.0)];
    let finals = finals.map(|(solver, param, ms)| timed(candidate(solver, param), ms, 0.0, 0)).to_vec();
    outcomes.push(outcome(Stage::Find, finals));
    let decision = decide(&session(&Stage::ALL), &outcomes).unwrap();
    assert_eq!(decision.winner().unwrap().outcome.candidate, candidate("B", 1));
    assert_eq!((decision.solvers.len(), decision.ties), (3, 0));
}

#[test]
fn a_perf_only_session_is_decided_by_its_perf_stage() {
    let outcomes = perf();
    let decision = decide(&session(&[Stage::Perf]), &outcomes).unwrap();
    assert_eq!(decision.winner().unwrap().outcome.candidate, candidate("A", 2));
}

#[test]
fn a_tie_goes_to_less_workspace_then_to_the_name() {
    let ties = |first: CandidateOutcome, second: CandidateOutcome| {
        let outcomes = [outcome(Stage::Perf, vec![first, second])];
        let decision = decide(&session(&[Stage::Perf]), &outcomes).unwrap();
        (decision.winner().unwrap().outcome.candidate.solver.clone(), decision.ties)
    };
    let (a, b) = (|| candidate("A", 1), || candidate("B", 1));
    assert_eq!(ties(timed(a(), 1.0, 0.02, 64), timed(b(), 1.01, 0.02, 0)), ("B".to_string(), 1));
    assert_eq!(ties(timed(a(), 1.01, 0.02, 0), timed(b(), 1.0, 0.02, 0)), ("A".to_string(), 1));
    assert_eq!(ties(timed(a(), 1.2, 0.02, 0), timed(b(), 1.0, 0.02, 64)), ("B".to_string(), 0));
    // No spread at all still leaves the half percent below which no two runs agree.
    assert_eq!(ties(timed(a(), 1.004, 0.0, 0), timed(b(), 1.0, 0.0, 0)), ("A".to_string(), 1));
}

#[test]
fn pruned_candidates_do_not_rank_and_stand_for_a_solver_that_has_nothing_better() {
    let outcomes = perf();
    let order: Vec<_> = ranked(&outcomes, Stage::Perf).iter().map(|timed| timed.timing.median_ms).collect();
    assert_eq!(order, [1.0, 2.0, 3.0, 5.0]);
    let best: Vec<_> = best_of_each_solver(&outcomes).values().map(|timed| timed.timing.median_ms).collect();
    assert_eq!(best, [1.0, 5.0, 8.0]);
}

#[tokio::test]
async fn a_library_of_other_versions_is_refused() {
    let store = SqliteStore::in_memory().unwrap();
    let name = "s".parse().unwrap();
    store.pin(&name, "rocm", "6.3").await.unwrap();
    let old = "MIOpen 3.2.0, ROCm 6.2.0, 18 solvers a";
    assert_eq!(pin_library(&store, &name, old).await.unwrap(), "ROCm 6.3");
    let right = "MIOpen 3.3.0, ROCm 6.3.0-39, 18 solvers a";
    assert_eq!(pin_library(&store, &name, right).await.unwrap(), right);
    let other = "MIOpen 3.3.0, ROCm 6.3.1, 18 solvers b";
    assert_eq!(pin_library(&store, &name, other).await.unwrap(), right);
}
