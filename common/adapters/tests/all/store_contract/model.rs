//! Any order and any interleaving of calls, compared with a model that fits on a page.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bluefin_common::session::SessionName;
use bluefin_common::store::{JobState, Planned, Progress, Store, Work as _};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::task::JoinSet;

use crate::store_contract::Backend;
use crate::store_contract::fixture::{group, job, name, outcome};

const GROUPS: i64 = 3;

/// A job: its group and its number.
type Key = (i64, i64);

#[derive(Clone, Debug)]
enum Call {
    Plan(Vec<Key>),
    Enqueued(Vec<Key>),
    PutOutcome(Key),
    Settle(i64),
}

fn call() -> impl Strategy<Value = Call> {
    let key = (0..GROUPS, 0..4i64);
    prop_oneof![
        prop::collection::vec(key.clone(), 1..6).prop_map(Call::Plan),
        prop::collection::vec(key.clone(), 1..4).prop_map(Call::Enqueued),
        key.prop_map(Call::PutOutcome),
        (0..GROUPS).prop_map(Call::Settle),
    ]
}

/// What a store does, without a store.
#[derive(Default)]
struct Model {
    jobs: BTreeMap<Key, JobState>,
    unsettled: BTreeSet<i64>,
}

impl Model {
    fn plan(&mut self, key: Key) -> JobState {
        *self.jobs.entry(key).or_insert_with(|| {
            self.unsettled.insert(key.0);
            JobState::Planned
        })
    }

    fn enqueued(&mut self, key: Key) {
        if let Some(state @ JobState::Planned) = self.jobs.get_mut(&key) {
            *state = JobState::Enqueued;
        }
    }

    fn put_outcome(&mut self, key: Key) -> (bool, u64) {
        self.plan(key);
        let before = self.jobs.insert(key, JobState::Done);
        (before != Some(JobState::Done), self.open(key.0))
    }

    fn settle(&mut self, group: i64) {
        if self.open(group) == 0 {
            self.unsettled.remove(&group);
        }
    }

    fn open(&self, group: i64) -> u64 {
        self.jobs.iter().filter(|(key, state)| key.0 == group && **state != JobState::Done).count() as u64
    }

    fn progress(&self) -> Progress {
        let done = self.jobs.values().filter(|state| **state == JobState::Done).count() as u64;
        let counted = |name: &str, count: u64| (count > 0).then(|| (name.to_string(), count));
        Progress {
            planned: counted("perf", self.jobs.len() as u64).into_iter().collect(),
            done: counted("perf", done).into_iter().collect(),
            unsettled_groups: self.unsettled.len() as u64,
            groups: self.jobs.keys().map(|key| key.0).collect::<BTreeSet<_>>().len() as u64,
            candidates: [("timed", 2), ("pruned", 1), ("wrong_result", 1)]
                .into_iter()
                .filter_map(|(name, each)| counted(name, each * done))
                .collect(),
            busy_ms: counted("perf", 30 * done).into_iter().collect(),
        }
    }
}

fn plan(session: &SessionName, keys: &[Key]) -> Vec<Planned> {
    keys.iter().map(|(group, number)| Planned::of(&job(session, *group, *number))).collect()
}

/// Does the call on the store and, where there is one, on the model, and compares what they say.
async fn perform(store: &impl Store, session: &SessionName, call: &Call, model: Option<&mut Model>) {
    match call {
        Call::Plan(keys) => {
            let states = store.plan(session, &plan(session, keys)).await.unwrap();
            if let Some(model) = model {
                let expected: Vec<_> = keys.iter().map(|key| model.plan(*key)).collect();
                assert_eq!(states, expected);
            }
        }
        Call::Enqueued(keys) => {
            let ids: Vec<_> = plan(session, keys).iter().map(|job| job.id).collect();
            store.enqueued(session, &ids).await.unwrap();
            if let Some(model) = model {
                keys.iter().for_each(|key| model.enqueued(*key));
            }
        }
        Call::PutOutcome(key) => {
            let stored = store.put_outcome(&outcome(&job(session, key.0, key.1))).await.unwrap();
            if let Some(model) = model {
                assert_eq!((stored.first, stored.open), model.put_outcome(*key));
            }
        }
        Call::Settle(number) => {
            store.settle_group(session, group(session, *number)).await.unwrap();
            if let Some(model) = model {
                model.settle(*number);
            }
        }
    }
}

fn run<B: Backend>(cases: u32, length: usize, test: impl AsyncFn(Arc<B::Store>, SessionName, Vec<Call>)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let backend = runtime.block_on(B::start());
    let case = AtomicU64::new(0);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    runner
        .run(&prop::collection::vec(call(), 1..length), |calls| {
            let session = name(&format!("case-{}", case.fetch_add(1, Ordering::Relaxed)));
            runtime.block_on(test(Arc::clone(backend.store()), session, calls));
            Ok(())
        })
        .unwrap();
}

pub fn any_order_of_calls_counts_right<B: Backend>() {
    run::<B>(60, 40, async |store, session, calls| {
        let mut model = Model::default();
        for call in &calls {
            perform(&*store, &session, call, Some(&mut model)).await;
        }
        assert_eq!(store.progress(&session).await.unwrap(), model.progress());
        for number in 0..GROUPS {
            assert_eq!(store.open_jobs(&session, group(&session, number)).await.unwrap(), model.open(number));
        }
    });
}

/// Whatever the interleaving, it ends with the same jobs and outcomes; which groups are settled depends on it, but one
/// with open jobs never is.
pub fn any_interleaving_counts_right<B: Backend>() {
    run::<B>(40, 60, async |store, session, calls| {
        let mut tasks = JoinSet::new();
        for part in calls.chunks(calls.len().div_ceil(4)) {
            let (store, session, part) = (Arc::clone(&store), session.clone(), part.to_vec());
            tasks.spawn(async move {
                for call in &part {
                    perform(&*store, &session, call, None).await;
                }
            });
        }
        tasks.join_all().await;
        let mut model = Model::default();
        for call in &calls {
            match call {
                Call::Plan(keys) => keys.iter().for_each(|key| _ = model.plan(*key)),
                Call::PutOutcome(key) => _ = model.put_outcome(*key),
                Call::Enqueued(_) | Call::Settle(_) => {}
            }
        }
        let (progress, expected) = (store.progress(&session).await.unwrap(), model.progress());
        assert_eq!((progress.planned, progress.done), (expected.planned, expected.done));
        assert_eq!((progress.candidates, progress.groups), (expected.candidates, expected.groups));
        let mut with_open_jobs = BTreeSet::new();
        for number in 0..GROUPS {
            let open = store.open_jobs(&session, group(&session, number)).await.unwrap();
            assert_eq!(open, model.open(number));
            with_open_jobs.extend((open > 0).then(|| group(&session, number)));
        }
        assert_eq!(BTreeSet::from_iter(store.open_groups(&session).await.unwrap()), with_open_jobs);
        assert!(progress.unsettled_groups >= with_open_jobs.len() as u64);
    });
}
