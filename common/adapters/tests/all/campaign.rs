//! Who goes to the find stage, who wins, and what a tie is.

use std::collections::{BTreeMap, BTreeSet};

use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::artifact::{ArtifactRef, Built, CodeObject};
use bluefin_common::broker::Broker;
use bluefin_common::campaign::{advance, publish_whole};
use bluefin_common::candidate::Candidate;
use bluefin_common::decision::{best_of_each_solver, decide, drop_void, follow_ups, ranked};
use bluefin_common::delivery::pin::Pin as _;
use bluefin_common::description::{Description, SolverInfo};
use bluefin_common::digest::Digest;
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::job::{CompileJob, CompileWork, EvalJob, Job};
use bluefin_common::lane::Lane;
use bluefin_common::method::Method;
use bluefin_common::outcome::{CandidateOutcome, Outcome, Timing};
use bluefin_common::problem::{KernelProblem, Problem};
use bluefin_common::retry::{self, Failures};
use bluefin_common::session::{SearchPlan, Session, Stage};
use bluefin_common::store::{Artifacts as _, Blobs as _, Sessions as _, Work as _};
use bluefin_common::target::Target;
use bluefin_common::task::{Task, TaskRef, Tolerance};
use bluefin_common::value::Value;
use bluefin_common::wire;
use bluefin_miopen::LibraryPin;
use proptest::prelude::*;

use crate::finalists::{finalists, tuned};

pub fn session(stages: &[Stage]) -> Session {
    Session::of_kernels("s".parse().unwrap(), Target::Host, "", stages, 0)
}

pub fn candidate(solver: &str, param: i64) -> Candidate {
    Candidate { solver: solver.to_string(), params: vec![Value::Int(param)] }
}

/// A candidate with 25 samples, median `ms`, spread `spread` and `workspace` bytes. Its samples are as far apart as those of one kernel
/// are at the least, 0.4 % to either side.
pub fn timed(candidate: Candidate, ms: f64, spread: f64, workspace: u64) -> CandidateOutcome {
    let width = (0.004 * ms).max(2.0 * spread) / 12.0;
    let samples_ms = (-12..=12).map(|step| (ms + width * f64::from(step)) as f32).collect();
    let timing = Timing { spread_ms: spread, samples_ms, ..Timing::single(ms) };
    CandidateOutcome::of(candidate.clone(), Some(built(&candidate, workspace)), Ok(timing))
}

/// What that candidate was built into.
pub fn built(candidate: &Candidate, workspace: u64) -> Built {
    let artifact = ArtifactRef::of(candidate.to_string().as_bytes());
    Built { objects: vec![CodeObject::plain(artifact, "k.c", "")], launches: Vec::new(), workspace }
}

pub fn pruned(candidate: Candidate, ms: f64) -> CandidateOutcome {
    let mut outcome = timed(candidate, ms, 0.0, 0);
    if let Ok(timing) = &mut outcome.result {
        timing.pruned = true;
    }
    outcome
}

fn failed(candidate: Candidate) -> CandidateOutcome {
    CandidateOutcome::of(candidate, None, Err(Failure::new(FailureKind::Hang, "")))
}

pub fn outcome(stage: Stage, candidates: Vec<CandidateOutcome>) -> Outcome {
    let job = Job {
        session: "s".parse().unwrap(),
        stage,
        target: Target::Host,
        problem: Problem::Kernel(
            KernelProblem::new("k".to_string(), BTreeMap::from([("n".to_string(), 1_i64.into())])).unwrap(),
        ),
        method: Method::KERNELS,
        spec: Digest::of(b"spec"),
        toolchain: "cc".to_string(),
        candidates: candidates.iter().map(|outcome| outcome.candidate.clone()).collect(),
        round: 0,
        lane: Lane::First,
    };
    Outcome::undone(&job, Description::default(), candidates, 0)
}

pub fn perf() -> Vec<Outcome> {
    vec![
        outcome(Stage::Perf, vec![timed(candidate("A", 1), 2.0, 0.0, 0), timed(candidate("A", 2), 1.0, 0.0, 0)]),
        outcome(Stage::Perf, vec![timed(candidate("A", 3), 3.0, 0.0, 0), failed(candidate("A", 4))]),
        outcome(Stage::Perf, vec![timed(candidate("B", 1), 5.0, 0.0, 0), pruned(candidate("B", 2), 0.5)]),
        outcome(Stage::Perf, vec![failed(candidate("C", 1))]),
        outcome(Stage::Perf, vec![pruned(candidate("D", 1), 9.0), pruned(candidate("D", 2), 8.0)]),
    ]
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

/// The outcomes of a perf stage that is a draw, and the find outcome that follows, with a time, a spread and a workspace
/// for each candidate.
fn played_off(times: &[(&str, i64, f64, f64, u64)]) -> Vec<Outcome> {
    let mut outcomes = tuned(&times.iter().map(|&(solver, param, ..)| (solver, param, 1.0)).collect::<Vec<_>>());
    let find = follow_ups(&session(&Stage::ALL), &outcomes).remove(0);
    let time = |candidate: &Candidate| {
        let same = |row: &&(&str, i64, f64, f64, u64)| *candidate == self::candidate(row.0, row.1);
        let &(.., ms, spread, workspace) = times.iter().find(same).unwrap();
        timed(candidate.clone(), ms, spread, workspace)
    };
    outcomes.push(outcome(Stage::Find, find.candidates.iter().map(time).collect()));
    outcomes
}

/// The winner's params, solvers with params and time, and ties.
fn decided(outcomes: &[Outcome]) -> (String, Vec<(String, f64)>, usize) {
    let decision = decide(&session(&Stage::ALL), outcomes).unwrap();
    let solvers = decision.solvers.iter().map(|best| (best.outcome.candidate.to_string(), best.timing.median_ms));
    (decision.winner().unwrap().outcome.candidate.to_string(), solvers.collect(), decision.ties)
}

fn rows<const N: usize>(rows: [(&str, f64); N]) -> Vec<(String, f64)> {
    rows.map(|(candidate, ms)| (candidate.to_string(), ms)).to_vec()
}

#[test]
fn params_that_were_second_in_the_perf_stage_win_the_play_off() {
    let mut outcomes = tuned(&[("A", 1, 1.0), ("A", 2, 1.05), ("B", 1, 1.2)]);
    let finals = [("A", 1, 1.1), ("A", 2, 1.0), ("B", 1, 1.3)];
    let finals = finals.map(|(solver, param, ms)| timed(candidate(solver, param), ms, 0.0, 0));
    outcomes.push(outcome(Stage::Find, finals.to_vec()));
    assert_eq!(decided(&outcomes), ("A:2".to_string(), rows([("A:2", 1.0), ("B:1", 1.3)]), 0));
}

#[test]
fn a_tie_of_params_goes_to_less_workspace_then_to_the_faster_then_to_the_name() {
    let of_one = played_off(&[("A", 1, 1.001, 0.0, 64), ("A", 2, 1.0, 0.0, 64), ("B", 1, 2.0, 0.0, 0)]);
    assert_eq!(decided(&of_one), ("A:1".to_string(), rows([("A:1", 1.001), ("B:1", 2.0)]), 1));
    let faster = played_off(&[("A", 1, 1.004, 0.0, 64), ("A", 2, 1.0, 0.0, 64), ("B", 1, 2.0, 0.0, 0)]);
    assert_eq!(decided(&faster), ("A:2".to_string(), rows([("A:2", 1.0), ("B:1", 2.0)]), 1));
    let workspace = played_off(&[("A", 1, 1.0, 0.0, 64), ("A", 2, 1.004, 0.0, 0), ("B", 1, 2.0, 0.0, 0)]);
    assert_eq!(decided(&workspace), ("A:2".to_string(), rows([("A:2", 1.004), ("B:1", 2.0)]), 1));
    // The winner stands for its solver, and is not moved before a solver that was faster.
    let of_two =
        played_off(&[("A", 1, 1.0, 0.0, 64), ("B", 1, 1.001, 0.0, 64), ("B", 2, 1.004, 0.0, 0), ("B", 3, 1.1, 0.0, 0)]);
    assert_eq!(decided(&of_two), ("B:2".to_string(), rows([("A:1", 1.0), ("B:2", 1.004)]), 2));
    // Params of a solver that does not win are its fastest, however much workspace they take.
    let loser = played_off(&[("A", 1, 1.0, 0.0, 0), ("B", 1, 1.204, 0.0, 0), ("B", 2, 1.2, 0.0, 64)]);
    assert_eq!(decided(&loser), ("A:1".to_string(), rows([("A:1", 1.0), ("B:2", 1.2)]), 0));
}

proptest! {
    #[test]
    fn the_winner_stands_for_its_solver_and_the_fastest_for_any_other(
        times in proptest::collection::btree_map((0..4_usize, 0..4_i64), (0..30_u32, 0..3_u32, 0..3_u64), 1..9),
    ) {
        let times: Vec<_> = times
            .into_iter()
            .map(|((solver, param), (ms, spread, workspace))| {
                let ms = 1.0 + f64::from(ms) / 1000.0;
                (["A", "B", "C", "D"][solver], param, ms, f64::from(spread) / 100.0, workspace)
            })
            .collect();
        let outcomes = played_off(&times);
        let decision = decide(&session(&Stage::ALL), &outcomes).unwrap();
        let winner = decision.winner().unwrap();
        let ranked = ranked(&outcomes, Stage::Find);
        let tied: Vec<_> = ranked.iter().filter(|timed| timed.ties_with(&ranked[0])).collect();
        prop_assert_eq!(decision.ties, tied.len() - 1);
        let least = tied.iter().map(|timed| timed.workspace()).min().unwrap();
        let of_least: Vec<_> = tied.iter().filter(|timed| timed.workspace() == least).collect();
        let fastest_ms = of_least.iter().map(|timed| timed.timing.median_ms).fold(f64::INFINITY, f64::min);
        let same = of_least.iter().filter(|timed| timed.timing.median_ms <= 1.002 * fastest_ms);
        let preferred = same.map(|timed| &timed.outcome.candidate).min().unwrap();
        prop_assert_eq!(preferred, &winner.outcome.candidate);

        prop_assert!(decision.solvers.is_sorted_by_key(|best| best.timing.median_ms));
        let names: BTreeSet<_> = decision.solvers.iter().map(|best| best.solver()).collect();
        prop_assert_eq!(names.len(), decision.solvers.len());
        prop_assert_eq!(names, times.iter().map(|row| row.0).collect::<BTreeSet<_>>());
        for best in decision.solvers.iter().filter(|best| best.solver() != winner.solver()) {
            let fastest = ranked.iter().find(|timed| timed.solver() == best.solver()).unwrap();
            prop_assert_eq!(&fastest.outcome.candidate, &best.outcome.candidate);
        }
    }
}

#[tokio::test]
async fn a_play_off_of_others_is_followed_by_the_right_one() {
    let (store, broker, session) = (SqliteStore::in_memory().unwrap(), EmbeddedBroker::new(), session(&Stage::ALL));
    store.create_session(&session).await.unwrap();
    let mut outcomes = tuned(&[("A", 1, 1.0), ("A", 2, 1.05), ("B", 1, 1.2)]);
    // As it was planned when only the best of each solver were played off.
    let older = [("A", 1, 1.0), ("B", 1, 1.2)].map(|(solver, param, ms)| timed(candidate(solver, param), ms, 0.0, 0));
    outcomes.push(outcome(Stage::Find, older.to_vec()));
    for outcome in &outcomes {
        store.put_outcome(outcome).await.unwrap();
    }
    advance(&store, &broker, &outcomes[0].job, 0).await.unwrap();
    assert!(!store.progress(&session.name).await.unwrap().is_complete());
    let mut compile = broker.consume("bluefin.compile.cc.host", 1).await.unwrap();
    let delivery = compile.next().await.unwrap();
    let find = wire::decode::<CompileJob>(&delivery.body).unwrap().job;
    delivery.ack().await.unwrap();
    assert_eq!(find.candidates, [("A", 1), ("A", 2), ("B", 1)].map(|(solver, param)| candidate(solver, param)));

    let finals = [("A", 1, 1.1), ("A", 2, 1.0), ("B", 1, 1.3)];
    let finals = finals.map(|(solver, param, ms)| timed(candidate(solver, param), ms, 0.0, 0));
    outcomes.push(outcome(Stage::Find, finals.to_vec()));
    let stored = store.put_outcome(&outcomes[outcomes.len() - 1]).await.unwrap();
    advance(&store, &broker, &find, stored.open).await.unwrap();
    assert!(store.progress(&session.name).await.unwrap().is_complete());
    assert_eq!(broker.depth("bluefin.compile.cc.host").await.unwrap(), 0);
    assert_eq!(decided(&outcomes).0, "A:2");
}

#[test]
fn a_play_off_of_an_incomplete_group_is_void() {
    let all = perf();
    let (session, only_find) = (session(&Stage::ALL), session(&[Stage::Find]));
    let play_off = |outcomes: &[Outcome]| {
        let candidates = finalists(outcomes).into_iter().map(|candidate| timed(candidate, 1.0, 0.0, 0)).collect();
        outcome(Stage::Find, candidates)
    };
    // A store that had lost the outcomes of B, and the play-off that came once they were there.
    let (early, right) = (play_off(&[&all[..2], &all[3..]].concat()), play_off(&all));
    assert_ne!(early.job_id(), right.job_id());
    let mut outcomes = [vec![early.clone()], all.clone(), vec![right.clone()]].concat();
    drop_void(&session, &mut outcomes);
    assert_eq!(outcomes, [all.clone(), vec![right]].concat());
    // Where play-offs are all that was asked for, they were given.
    let mut given = vec![early.clone()];
    drop_void(&only_find, &mut given);
    assert_eq!(given.len(), 1);
    let mut outcomes = [all.clone(), vec![early]].concat();
    assert!(decide(&session, &outcomes).is_none());
    drop_void(&session, &mut outcomes);
    assert_eq!(outcomes, all);
}

#[tokio::test]
async fn what_is_tried_again_takes_its_play_off_along() {
    let (store, session) = (SqliteStore::in_memory().unwrap(), session(&Stage::ALL));
    let mut outcomes = perf();
    let play_off = finalists(&outcomes).into_iter().map(|candidate| timed(candidate, 1.0, 0.0, 0)).collect();
    outcomes.push(outcome(Stage::Find, play_off));
    for outcome in &outcomes {
        store.put_outcome(outcome).await.unwrap();
    }
    let hangs = |outcome: &Outcome| Failures::Of(FailureKind::Hang).include(outcome);
    assert_eq!(retry::take_back(&store, &session.name, false, hangs).await.unwrap(), 2);
    let left = store.outcomes(&session.name, &[outcomes[0].group()]).await.unwrap();
    assert!(left.len() == 3 && left.iter().all(|outcome| outcome.job.stage == Stage::Perf), "{left:?}");
    let progress = store.progress(&session.name).await.unwrap();
    assert_eq!((progress.planned.get("find"), progress.done.get("find")), (None, None));
}

#[tokio::test]
async fn a_play_off_goes_to_the_device_as_its_candidates_ran_before() {
    let session = session(&Stage::ALL);
    let reference = candidate("B", 1);
    let task = Task {
        buffers: Vec::new(),
        reference: built(&reference, 0),
        tolerance: Tolerance { absolute: 0.0, relative: 0.0 },
    };
    let (digest, bytes) = task.encode().unwrap();
    for whole in [true, false] {
        let (store, broker) = (SqliteStore::in_memory().unwrap(), EmbeddedBroker::new());
        store.create_session(&session).await.unwrap();
        store.put_blob(&bytes).await.unwrap();
        let mut outcomes = tuned(&[("A", 1, 1.0), ("A", 2, 1.05), ("B", 1, 1.2)]);
        for outcome in &mut outcomes {
            outcome.task = Some(digest);
            outcome.description = Description {
                library: "spec".to_string(),
                reference: Some(reference.clone()),
                solvers: vec![SolverInfo {
                    name: outcome.candidates[0].candidate.solver.clone(),
                    ..SolverInfo::default()
                }],
                ..Description::default()
            };
            store.put_outcome(outcome).await.unwrap();
            for ran in outcome.candidates.iter().filter(|ran| whole || ran.candidate != candidate("A", 2)) {
                store.put_artifact(ran.candidate.to_string().as_bytes()).await.unwrap();
            }
        }
        broker.declare("bluefin.compile.cc.host").await.unwrap();
        if whole {
            advance(&store, &broker, &outcomes[0].job, 0).await.unwrap();
        } else {
            let find = follow_ups(&session, &outcomes).remove(0);
            publish_whole(&store, &broker, &find, &outcomes, 1).await.unwrap();
            assert_eq!(broker.depth("bluefin.eval.host").await.unwrap(), 0, "it would only come back");
            assert_eq!(broker.depth("bluefin.compile.cc.host").await.unwrap(), 1);
            continue;
        }
        assert_eq!(broker.depth("bluefin.compile.cc.host").await.unwrap(), 0);
        let mut eval = broker.consume("bluefin.eval.host", 1).await.unwrap();
        let delivery = eval.next().await.unwrap();
        let find = wire::decode::<EvalJob>(&delivery.body).unwrap();
        delivery.ack().await.unwrap();
        assert_eq!((find.job.stage, find.task), (Stage::Find, TaskRef::Blob(digest)));
        let expected: Vec<_> = find.job.candidates.iter().map(|candidate| Ok(built(candidate, 0))).collect();
        assert_eq!((find.built, expected.len()), (expected, 3));
        assert_eq!(find.description.library, "spec");
        let solvers: Vec<&str> = find.description.solvers.iter().map(|solver| solver.name.as_str()).collect();
        assert_eq!(solvers, ["A", "B"]);
    }
}

#[tokio::test]
async fn a_finished_round_asks_for_the_next_until_there_is_a_find_job() {
    let (store, broker) = (SqliteStore::in_memory().unwrap(), EmbeddedBroker::new());
    let search = Some(SearchPlan::new("reverse", 8));
    let session = Session { search, ..session(&Stage::ALL) };
    store.create_session(&session).await.unwrap();
    broker.declare("bluefin.compile.cc.host").await.unwrap();
    let outcomes = tuned(&[("A", 1, 1.0), ("A", 2, 1.05)]);
    store.put_outcome(&outcomes[0]).await.unwrap();
    let mut compile = broker.consume("bluefin.compile.cc.host", 1).await.unwrap();
    // Whoever meets it again asks again, and it is the same that is asked.
    for _ in 0..2 {
        advance(&store, &broker, &outcomes[0].job, 0).await.unwrap();
        let delivery = compile.next().await.unwrap();
        let asked = wire::decode::<CompileJob>(&delivery.body).unwrap();
        delivery.ack().await.unwrap();
        assert_eq!((asked.work, asked.job.candidates.len()), (CompileWork::NextRound, 0));
        assert_eq!(asked.job.group(), outcomes[0].group());
    }
    advance(&store, &broker, &outcomes[0].job, 1).await.unwrap();
    let finals =
        outcome(Stage::Find, vec![timed(candidate("A", 1), 1.0, 0.0, 0), timed(candidate("A", 2), 1.1, 0.0, 0)]);
    store.put_outcome(&finals).await.unwrap();
    advance(&store, &broker, &finals.job, 0).await.unwrap();
    assert_eq!(broker.depth("bluefin.compile.cc.host").await.unwrap(), 0);
    assert!(store.progress(&session.name).await.unwrap().is_complete());
}

#[test]
fn a_perf_only_session_is_decided_by_its_perf_stage() {
    let outcomes = perf();
    let decision = decide(&session(&[Stage::Perf]), &outcomes).unwrap();
    assert_eq!(decision.winner().unwrap().outcome.candidate, candidate("A", 2));
}

#[test]
fn a_tie_goes_to_less_workspace_then_to_the_faster_then_to_the_name() {
    let ties = |first: CandidateOutcome, second: CandidateOutcome| {
        let outcomes = [outcome(Stage::Perf, vec![first, second])];
        let decision = decide(&session(&[Stage::Perf]), &outcomes).unwrap();
        (decision.winner().unwrap().outcome.candidate.solver.clone(), decision.ties)
    };
    let (a, b) = (|| candidate("A", 1), || candidate("B", 1));
    assert_eq!(ties(timed(a(), 1.0, 0.02, 64), timed(b(), 1.01, 0.02, 0)), ("B".to_string(), 1));
    assert_eq!(
        ties(timed(a(), 1.01, 0.02, 0), timed(b(), 1.0, 0.02, 0)),
        ("B".to_string(), 1),
        "likelier the better one"
    );
    assert_eq!(ties(timed(a(), 1.001, 0.02, 0), timed(b(), 1.0, 0.02, 0)), ("A".to_string(), 1));
    assert_eq!(ties(timed(a(), 1.2, 0.02, 0), timed(b(), 1.0, 0.02, 64)), ("B".to_string(), 0));
    // No spread at all still leaves the little that two runs of one kernel are apart.
    assert_eq!(ties(timed(a(), 1.004, 0.0, 0), timed(b(), 1.0, 0.0, 0)).1, 1);
}

#[test]
fn what_ties_with_default_params_is_no_reason_to_leave_them() {
    let decided = |second_ms: f64| {
        let usual = timed(candidate("B", 7), second_ms, 0.0, 64);
        let mut outcomes = [outcome(Stage::Perf, vec![timed(candidate("A", 1), 1.0, 0.0, 0), usual])];
        let default = Some(vec![Value::Int(7)]);
        outcomes[0].description.solvers = vec![SolverInfo { name: "B".to_string(), default, ..SolverInfo::default() }];
        decide(&session(&[Stage::Perf]), &outcomes).unwrap().winner().unwrap().outcome.candidate.clone()
    };
    assert_eq!(decided(1.004), candidate("B", 7), "more workspace, a later name and no faster");
    assert_eq!(decided(1.02), candidate("A", 1), "slower is slower");
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
    let pin = |identity: &str| {
        let (store, name, library) = (&store, &name, LibraryPin(identity.to_string()));
        async move { library.pin(store, name).await }
    };
    let old = "MIOpen 3.2.0, ROCm 6.2.0, 18 solvers a";
    assert_eq!(pin(old).await.unwrap(), "ROCm 6.3");
    let right = "MIOpen 3.3.0, ROCm 6.3.0-39, 18 solvers a";
    assert_eq!(pin(right).await.unwrap(), right);
    let other = "MIOpen 3.3.0, ROCm 6.3.1, 18 solvers b";
    assert_eq!(pin(other).await.unwrap(), right);
}
