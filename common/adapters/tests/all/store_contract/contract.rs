//! The promises of [`Store`], one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bluefin_common::artifact::{ArtifactRef, Built, CodeObject, CompileRecord};
use bluefin_common::digest::Digest;
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::job::Job;
use bluefin_common::outcome::Outcome;
use bluefin_common::store::{
    Artifacts as _, Blobs as _, JobState, Planned, Records as _, Sessions as _, StoreError, Stored, Work as _,
};
use bluefin_common::wire;
use tokio::task::JoinSet;

use crate::store_contract::Backend;
use crate::store_contract::fixture::{group, job, name, noise, outcome, planned, session};

fn refused<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Tampered { .. }))
}

fn counts(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
    pairs.iter().map(|(name, count)| ((*name).to_string(), *count)).collect()
}

pub async fn sessions_are_created_once(backend: &impl Backend) {
    let store = backend.store();
    assert_eq!(store.session(&name("a")).await.unwrap(), None);
    let first = session("b", "first");
    assert_eq!(store.create_session(&first).await.unwrap(), first);
    assert_eq!(store.create_session(&session("b", "second")).await.unwrap(), first);
    // A name that is also a word of the keys.
    for other in ["session", "pins", "a"] {
        store.create_session(&session(other, "x")).await.unwrap();
        store.pin(&name(other), "k", other).await.unwrap();
    }
    assert_eq!(store.session(&name("b")).await.unwrap(), Some(first));
    let names: Vec<String> = store.sessions().await.unwrap().into_iter().map(|s| s.name.to_string()).collect();
    assert_eq!(names, ["a", "b", "pins", "session"]);
    assert_eq!(store.pins(&name("pins")).await.unwrap(), BTreeMap::from([("k".into(), "pins".into())]));
}

pub async fn the_first_pin_stands(backend: &impl Backend) {
    let (store, s) = (backend.store(), name("s"));
    assert!(store.pins(&s).await.unwrap().is_empty());
    assert_eq!(store.pin(&s, "toolchain.cc", "gcc 12").await.unwrap(), "gcc 12");
    assert_eq!(store.pin(&s, "toolchain.cc", "gcc 13").await.unwrap(), "gcc 12");
    let mut racers = JoinSet::new();
    for racer in 0..8 {
        let (store, s) = (Arc::clone(store), s.clone());
        racers.spawn(async move { store.pin(&s, "device.host", &racer.to_string()).await.unwrap() });
    }
    let seen: BTreeSet<String> = racers.join_all().await.into_iter().collect();
    assert_eq!(seen.len(), 1, "all are told the same: {seen:?}");
    let pins = store.pins(&s).await.unwrap();
    assert_eq!(pins.get("toolchain.cc").map(String::as_str), Some("gcc 12"));
    assert_eq!(pins.get("device.host"), seen.first());
}

pub async fn records_stay_on_their_shelves(backend: &impl Backend) {
    let store = backend.store();
    assert!(store.records("tags").await.unwrap().is_empty());
    let record = |key: &str, value: &[u8]| (key.to_string(), value.to_vec());
    let all: Vec<_> = (0..2500).map(|n| record(&format!("{n:04}"), &[0, 255, n as u8])).collect();
    store.put_records("tag:a", &all).await.unwrap();
    store.put_records("tag:a", &[]).await.unwrap();
    assert_eq!(store.records("tag:a").await.unwrap(), all);
    store.put_records("tag:a", &[record("0007", b"new")]).await.unwrap();
    store.put_records("tag:b", &[record("0007", b"b")]).await.unwrap();
    let keys = ["0007", "none", "0000"].map(str::to_string);
    let found = store.records_of("tag:a", &keys).await.unwrap();
    assert_eq!(found, [Some(b"new".to_vec()), None, Some(vec![0, 255, 0])]);
    assert_eq!(store.claim_record("tag:a", "0007", b"later").await.unwrap(), b"new");
    assert_eq!(store.claim_record("tag:a", "claimed", b"first").await.unwrap(), b"first");
    store.remove_records("tag:a", &keys).await.unwrap();
    assert_eq!(store.records("tag:a").await.unwrap().len(), 2499);
    assert_eq!(store.records("tag:b").await.unwrap(), [record("0007", b"b")]);
}

pub async fn blobs_last_and_are_verified(backend: &impl Backend) {
    let store = backend.store();
    for bytes in [Vec::new(), b"kernel".to_vec(), noise(1, 300_000)] {
        let digest = store.put_blob(&bytes).await.unwrap();
        assert_eq!(digest, Digest::of(&bytes));
        assert_eq!(store.put_blob(&bytes).await.unwrap(), digest);
        assert!(store.blob(digest).await.unwrap() == Some(bytes));
    }
    assert_eq!(store.blob(Digest::of(b"nobody")).await.unwrap(), None);
    let digest = store.put_blob(b"kernel").await.unwrap();
    let other = zstd::bulk::compress(b"another kernel", 1).unwrap();
    for spoilt in [b"garbage".as_slice(), b"", &other] {
        backend.spoil_blob(digest, spoilt).await;
        for _ in 0..2 {
            assert!(refused(store.blob(digest).await), "a blob is not deleted");
        }
    }
    store.put_blob(b"kernel").await.unwrap();
    assert_eq!(store.blob(digest).await.unwrap().as_deref(), Some(b"kernel".as_slice()));
}

pub async fn artifacts_come_back(backend: &impl Backend) {
    let store = backend.store();
    for bytes in [Vec::new(), b"code".to_vec(), noise(2, 200_000)] {
        let artifact = store.put_artifact(&bytes).await.unwrap();
        assert_eq!(artifact, ArtifactRef::of(&bytes));
        assert_eq!(store.put_artifact(&bytes).await.unwrap(), artifact);
        assert!(store.has_artifact(artifact).await.unwrap());
        assert!(store.artifact(artifact).await.unwrap().as_deref() == Some(&bytes));
    }
    let fullness = store.fullness().await.unwrap().ratio;
    assert!((0.0..=1.0).contains(&fullness), "{fullness}");
}

pub async fn an_evicted_artifact_is_none(backend: &impl Backend) {
    let store = backend.store();
    let artifact = store.put_artifact(b"code").await.unwrap();
    backend.spoil_artifact(artifact.digest, None).await;
    assert!(!store.has_artifact(artifact).await.unwrap());
    assert_eq!(store.artifact(artifact).await.unwrap(), None);
}

pub async fn a_tampered_artifact_is_refused_and_removed(backend: &impl Backend) {
    let store = backend.store();
    let other = zstd::bulk::compress(b"evil", 1).unwrap();
    let bomb = zstd::bulk::compress(&vec![0; 32 << 20], 1).unwrap();
    let good = zstd::bulk::compress(b"code", 1).unwrap();
    let longer = [good.as_slice(), &other].concat();
    for spoilt in [b"garbage".as_slice(), b"", &other, &bomb, &longer, &good[..good.len() - 1]] {
        let artifact = store.put_artifact(b"code").await.unwrap();
        backend.spoil_artifact(artifact.digest, Some(spoilt)).await;
        let error = store.artifact(artifact).await.unwrap_err();
        assert!(matches!(&error, StoreError::Tampered { digest, .. } if *digest == artifact.digest), "{error}");
        assert!(!error.is_transient());
        assert_eq!(store.artifact(artifact).await.unwrap(), None);
        assert!(!store.has_artifact(artifact).await.unwrap());
    }
    let artifact = store.put_artifact(b"code").await.unwrap();
    assert_eq!(store.artifact(artifact).await.unwrap().as_deref(), Some(b"code".as_slice()));
}

pub async fn a_wrong_size_is_refused(backend: &impl Backend) {
    let store = backend.store();
    for size in [0, 3, 5, u64::MAX] {
        let artifact = store.put_artifact(b"code").await.unwrap();
        assert!(refused(store.artifact(ArtifactRef { size, ..artifact }).await), "{size}");
    }
}

pub async fn a_large_artifact_comes_back(backend: &impl Backend) {
    let store = backend.store();
    let bytes = noise(3, 20 << 20);
    let artifact = store.put_artifact(&bytes).await.unwrap();
    assert!(store.artifact(artifact).await.unwrap().as_deref() == Some(&bytes));
}

pub async fn compile_records_come_back(backend: &impl Backend) {
    let (store, key) = (backend.store(), Digest::of(b"inputs"));
    assert_eq!(store.compiled(key).await.unwrap(), None);
    let failed = CompileRecord { key, result: Err(Failure::new(FailureKind::CompileError, "line 3")), compile_ms: 120 };
    let object = CodeObject::plain(ArtifactRef::of(b"code"), "saxpy.c", " -DN=1");
    let compiled =
        CompileRecord { key, result: Ok(Built { objects: vec![object], ..Built::default() }), compile_ms: 130 };
    for record in [failed, compiled] {
        store.put_compiled(&record).await.unwrap();
        assert_eq!(store.compiled(key).await.unwrap(), Some(record.clone()));
        // As if somebody had swapped two: a record is of the inputs that it names.
        let other = CompileRecord { key: Digest::of(b"other inputs"), ..record };
        backend.spoil_compiled(key, &wire::encode(&other).unwrap()).await;
        assert_eq!(store.compiled(key).await.unwrap(), None);
    }
    backend.spoil_compiled(key, b"written by another version").await;
    assert_eq!(store.compiled(key).await.unwrap(), None, "it is compiled again");
}

pub async fn jobs_move_from_planned_to_done(backend: &impl Backend) {
    let (store, s) = (backend.store(), name("s"));
    let jobs = [job(&s, 1, 1), job(&s, 1, 2), job(&s, 2, 1)];
    let plan = planned(&jobs);
    assert!(store.plan(&s, &[]).await.unwrap().is_empty());
    for _ in 0..2 {
        assert_eq!(store.plan(&s, &plan).await.unwrap(), [JobState::Planned; 3]);
    }
    assert_eq!(store.open_jobs(&s, plan[0].group).await.unwrap(), 2);
    store.enqueued(&s, &[plan[0].id, plan[2].id]).await.unwrap();
    store.enqueued(&s, &[]).await.unwrap();
    let states = [JobState::Enqueued, JobState::Planned, JobState::Enqueued];
    assert_eq!(store.plan(&s, &plan).await.unwrap(), states);
    let listed = BTreeMap::from_iter(store.planned_jobs(&s).await.unwrap());
    assert_eq!(listed, BTreeMap::from([(plan[0].id, true), (plan[1].id, false), (plan[2].id, true)]));
    assert!(!store.has_outcome(&s, plan[0].group, plan[0].id).await.unwrap());
    assert_eq!(store.put_outcome(&outcome(&jobs[0])).await.unwrap(), Stored { first: true, open: 1, settled: false });
    assert!(store.has_outcome(&s, plan[0].group, plan[0].id).await.unwrap());
    // What comes late changes nothing.
    store.enqueued(&s, &[plan[0].id]).await.unwrap();
    assert_eq!(store.put_outcome(&outcome(&jobs[0])).await.unwrap(), Stored { first: false, open: 1, settled: false });
    let states = [JobState::Done, JobState::Planned, JobState::Enqueued];
    assert_eq!(store.plan(&s, &plan).await.unwrap(), states);

    let progress = store.progress(&s).await.unwrap();
    assert_eq!(progress.planned, counts(&[("perf", 3)]));
    assert_eq!(progress.done, counts(&[("perf", 1)]));
    assert_eq!(progress.candidates, counts(&[("timed", 2), ("pruned", 1), ("wrong_result", 1)]));
    assert_eq!((progress.groups, progress.unsettled_groups), (2, 2));
    assert_eq!(progress.busy_ms, counts(&[("perf", 30)]));
}

pub async fn large_plans_keep_their_order(backend: &impl Backend) {
    let (store, s) = (backend.store(), name("s"));
    let jobs: Vec<_> = (0..1700).map(|number| job(&s, number % 7, number)).collect();
    let done: Vec<usize> = (0..jobs.len()).step_by(97).collect();
    for index in &done {
        store.put_outcome(&outcome(&jobs[*index])).await.unwrap();
    }
    let mut plan = planned(&jobs);
    plan.push(plan[1]);
    let states = store.plan(&s, &plan).await.unwrap();
    let expected: Vec<JobState> =
        (0..plan.len()).map(|index| if done.contains(&index) { JobState::Done } else { JobState::Planned }).collect();
    assert_eq!(states, expected);
    let progress = store.progress(&s).await.unwrap();
    assert_eq!((progress.planned["perf"], progress.done["perf"]), (1700, done.len() as u64));
    let ids: Vec<_> = plan.iter().map(|job| job.id).collect();
    store.enqueued(&s, &ids).await.unwrap();
    let enqueued = store.plan(&s, &plan).await.unwrap().iter().filter(|s| **s == JobState::Enqueued).count();
    assert_eq!(enqueued, plan.len() - done.len());
}

pub async fn the_first_outcome_stands(backend: &impl Backend) {
    let (store, s) = (backend.store(), name("s"));
    let job = job(&s, 1, 1);
    let first = outcome(&job);
    assert!(store.put_outcome(&first).await.unwrap().first);
    assert!(!store.put_outcome(&Outcome::dead(&job, "too late", 9)).await.unwrap().first);
    assert_eq!(store.outcomes(&s, &[job.group()]).await.unwrap(), [first]);
    assert!(!store.progress(&s).await.unwrap().candidates.contains_key("dead"));
}

pub async fn concurrent_outcomes_of_one_job_count_once(backend: &impl Backend) {
    let (store, s) = (backend.store(), name("s"));
    let jobs: Vec<_> = (0..20).map(|number| job(&s, number % 2, number)).collect();
    store.plan(&s, &planned(&jobs)).await.unwrap();
    let mut racers = JoinSet::new();
    for racer in 0..8 {
        let (store, mut jobs) = (Arc::clone(store), jobs.clone());
        racers.spawn(async move {
            jobs.rotate_left(racer % 3);
            let mut first = 0;
            for job in &jobs {
                first += u64::from(store.put_outcome(&outcome(job)).await.unwrap().first);
            }
            first
        });
    }
    assert_eq!(racers.join_all().await.iter().sum::<u64>(), 20);
    let progress = store.progress(&s).await.unwrap();
    assert_eq!((progress.planned["perf"], progress.done["perf"]), (20, 20));
    assert_eq!(progress.candidates, counts(&[("timed", 40), ("pruned", 20), ("wrong_result", 20)]));
    for number in 0..2 {
        assert_eq!(store.open_jobs(&s, group(&s, number)).await.unwrap(), 0);
    }
}

pub async fn an_outcome_without_a_plan_counts(backend: &impl Backend) {
    let (store, s) = (backend.store(), name("s"));
    let job = job(&s, 1, 1);
    assert_eq!(store.put_outcome(&outcome(&job)).await.unwrap(), Stored { first: true, open: 0, settled: false });
    assert_eq!(store.plan(&s, &[Planned::of(&job)]).await.unwrap(), [JobState::Done]);
    let progress = store.progress(&s).await.unwrap();
    assert_eq!((progress.planned["perf"], progress.done["perf"]), (1, 1));
    assert_eq!((progress.groups, progress.unsettled_groups), (1, 1));
    assert_eq!(store.groups(&s).await.unwrap(), [job.group()]);
}

pub async fn outcomes_are_in_order(backend: &impl Backend) {
    let (store, s) = (backend.store(), name("s"));
    let jobs: Vec<_> = (0..300).map(|number| job(&s, number % 150, number)).collect();
    for job in &jobs {
        store.put_outcome(&outcome(job)).await.unwrap();
    }
    let mut groups = store.groups(&s).await.unwrap();
    assert_eq!(groups.iter().collect::<BTreeSet<_>>().len(), 150);
    assert_eq!(groups.len(), 150);
    groups.sort();
    groups.reverse();
    groups.push(group(&s, 9999));
    let outcomes = store.outcomes(&s, &groups).await.unwrap();
    let mut expected: Vec<Outcome> = jobs.iter().map(outcome).collect();
    expected.sort_by_key(|outcome| (std::cmp::Reverse(outcome.group()), outcome.job_id()));
    assert!(outcomes == expected);
    assert!(store.outcomes(&s, &[]).await.unwrap().is_empty());
}

pub async fn groups_settle(backend: &impl Backend) {
    let (store, s) = (backend.store(), name("s"));
    let (first, second) = (job(&s, 1, 1), job(&s, 1, 2));
    let empty = store.progress(&s).await.unwrap();
    assert!(empty.is_settled() && !empty.is_complete() && empty.state() == "empty");
    store.plan(&s, &[Planned::of(&first)]).await.unwrap();
    assert!(!store.progress(&s).await.unwrap().is_settled());
    assert_eq!(store.progress(&s).await.unwrap().state(), "open");
    store.settle_group(&s, first.group()).await.unwrap();
    assert!(!store.progress(&s).await.unwrap().is_complete(), "a job is open");
    store.put_outcome(&outcome(&first)).await.unwrap();
    assert!(!store.progress(&s).await.unwrap().is_complete(), "nobody has looked at it yet");
    for _ in 0..2 {
        store.settle_group(&s, first.group()).await.unwrap();
        assert!(store.progress(&s).await.unwrap().is_complete());
        assert_eq!(store.progress(&s).await.unwrap().state(), "complete");
    }
    // A job that is planned again, done as it is, is no work.
    store.plan(&s, &[Planned::of(&first)]).await.unwrap();
    assert!(store.progress(&s).await.unwrap().is_complete());
    store.plan(&s, &[Planned::of(&second)]).await.unwrap();
    assert!(!store.progress(&s).await.unwrap().is_complete());
    store.settle_group(&s, Digest::of(b"no such group")).await.unwrap();
    assert_eq!(store.groups(&s).await.unwrap().len(), 1);
}

pub async fn a_last_outcome_settles_its_group(backend: &impl Backend) {
    let (store, s) = (backend.store(), name("s"));
    let jobs = [job(&s, 1, 1), job(&s, 1, 2)];
    store.plan(&s, &planned(&jobs)).await.unwrap();
    let unsettled = async || store.progress(&s).await.unwrap().unsettled_groups;
    let first = store.put_last_outcome(&outcome(&jobs[0])).await.unwrap();
    assert_eq!((first, unsettled().await), (Stored { first: true, open: 1, settled: false }, 1));
    let last = store.put_last_outcome(&outcome(&jobs[1])).await.unwrap();
    assert_eq!((last, unsettled().await), (Stored { first: true, open: 0, settled: true }, 0));
    // Repeated, as after a connection that broke before the reply.
    let again = store.put_last_outcome(&outcome(&jobs[1])).await.unwrap();
    assert_eq!((again, unsettled().await), (Stored { first: false, open: 0, settled: true }, 0));
}

pub async fn the_best_only_improves(backend: &impl Backend) {
    let (store, s) = (backend.store(), name("s"));
    let g = group(&s, 1);
    assert_eq!(store.best_ms(&s, g).await.unwrap(), None);
    let exact = 0.1 + 0.2;
    let steps = [
        (f64::NAN, None),
        (f64::NEG_INFINITY, None),
        (3.0, Some(3.0)),
        (5.0, Some(3.0)),
        (exact, Some(exact)),
        (1e-300, Some(1e-300)),
        (0.5, Some(1e-300)),
    ];
    for (number, (median_ms, best)) in (0..).zip(steps) {
        store.put_outcome(&timed(&job(&s, 1, number), median_ms)).await.unwrap();
        assert_eq!(store.best_ms(&s, g).await.unwrap(), best);
    }
    let mut racers = JoinSet::new();
    for racer in 1..=8 {
        let (store, s) = (Arc::clone(store), s.clone());
        racers.spawn(async move {
            store.put_outcome(&timed(&job(&s, 2, i64::from(racer)), f64::from(racer))).await.unwrap();
        });
    }
    racers.join_all().await;
    assert_eq!(store.best_ms(&s, group(&s, 2)).await.unwrap(), Some(1.0));
}

/// The outcome of `job` whose measured candidates took `median_ms`; the pruned one, which counts for nothing, took less.
fn timed(job: &Job, median_ms: f64) -> Outcome {
    let mut outcome = outcome(job);
    for timing in outcome.candidates.iter_mut().filter_map(|candidate| candidate.result.as_mut().ok()) {
        timing.median_ms = if timing.pruned { 1e-305 } else { median_ms };
    }
    outcome
}

pub async fn sessions_do_not_mix(backend: &impl Backend) {
    let (store, a, b) = (backend.store(), name("a"), name("b"));
    let job = job(&a, 1, 1);
    store.plan(&a, &[Planned::of(&job)]).await.unwrap();
    store.put_outcome(&outcome(&job)).await.unwrap();
    assert_eq!(store.best_ms(&a, job.group()).await.unwrap(), Some(1.5));
    assert_eq!(store.progress(&b).await.unwrap(), bluefin_common::store::Progress::default());
    assert!(!store.progress(&b).await.unwrap().is_complete());
    assert!(store.groups(&b).await.unwrap().is_empty());
    assert!(store.outcomes(&b, &[job.group()]).await.unwrap().is_empty());
    assert_eq!(store.best_ms(&b, job.group()).await.unwrap(), None);
    assert_eq!(store.open_jobs(&b, job.group()).await.unwrap(), 0);
}
