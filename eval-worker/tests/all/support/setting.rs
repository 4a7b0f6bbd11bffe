//! A worker with the embedded broker and a store in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::blinking::{Blinking, Calls};
use super::{RIGHT, child, kernel, limits, metrics, task};
use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::broker::{Broker, DEAD_QUEUE};
use bluefin_common::candidate::Candidate;
use bluefin_common::delivery::MAX_BEGUN;
use bluefin_common::description::Description;
use bluefin_common::digest::Digest;
use bluefin_common::failure::Attempt;
use bluefin_common::job::{EvalJob, Job};
use bluefin_common::lane::Lane;
use bluefin_common::method::Method;
use bluefin_common::outcome::Outcome;
use bluefin_common::problem::{KernelProblem, Problem};
use bluefin_common::session::Session;
use bluefin_common::session::Stage;
use bluefin_common::shelf;
use bluefin_common::store::{Artifacts as _, Blobs as _, Planned, Records as _, Sessions as _, Store, Work as _};
use bluefin_common::target::Target;
use bluefin_common::task::TaskRef;
use bluefin_common::value::Value;
use bluefin_common::wire;
use bluefin_eval_worker::{Config, DeviceChild, Error, Runnable, run};
use prometheus::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A broker, a store with a session, and the job of a test.
pub struct Setting {
    pub broker: Arc<EmbeddedBroker>,
    pub store: Arc<SqliteStore>,
    /// Whether the worker's store fails the first call of each method.
    pub blinks: bool,
    /// What workers asked of it.
    pub calls: Calls,
    /// Whether the worker's store is away now.
    pub away: Arc<AtomicBool>,
    pub registry: Registry,
    pub shutdown: CancellationToken,
    pub tasks: TaskTracker,
    pub session: Session,
}

impl Setting {
    /// How many of `jobs` have outcomes.
    pub async fn count_outcomes(&self, jobs: &[Job]) -> usize {
        let mut count = 0;
        for job in jobs {
            count += usize::from(self.store.has_outcome(&job.session, job.group(), job.id()).await.unwrap());
        }
        count
    }

    pub async fn new(stages: &[Stage]) -> Self {
        let session = Session::of_kernels("test".parse().unwrap(), Target::Host, "", stages, 1);
        let store = Arc::new(SqliteStore::in_memory().unwrap());
        store.create_session(&session).await.unwrap();
        let broker = Arc::new(EmbeddedBroker::new());
        broker.declare(DEAD_QUEUE).await.unwrap();
        Self {
            broker,
            store,
            blinks: false,
            calls: Calls::default(),
            away: Arc::default(),
            registry: Registry::new(),
            shutdown: CancellationToken::new(),
            tasks: TaskTracker::new(),
            session,
        }
    }

    /// Starts a worker.
    pub fn work(&mut self, change: impl FnOnce(&mut Config)) -> JoinHandle<Result<(), Error>> {
        let mut config = Config::new("test", Arc::new(DeviceChild::host(child())));
        config.limits = limits();
        config.look_again = Duration::from_millis(20);
        change(&mut config);
        let (registry, metrics) = metrics();
        self.registry = registry;
        let broker = Arc::clone(&self.broker) as Arc<dyn Broker>;
        let store = Arc::clone(&self.store);
        let store: Arc<dyn Store> =
            Arc::new(Blinking::new(store, Arc::clone(&self.calls), self.blinks, Arc::clone(&self.away)));
        self.tasks.spawn(run(config, broker, store, metrics, self.shutdown.clone()))
    }

    /// A job of candidates called `solver-<index>`, of the problem with the given size.
    pub fn job(&self, size: i64, stage: Stage, candidates: usize) -> Job {
        let sizes = BTreeMap::from([("n".to_string(), size.into())]);
        let candidate = |index| Candidate { solver: format!("solver-{index}"), params: vec![Value::Int(1)] };
        Job {
            session: self.session.name.clone(),
            stage,
            target: Target::Host,
            problem: Problem::Kernel(KernelProblem::new("test".to_string(), sizes).unwrap()),
            method: Method::KERNELS,
            spec: Digest::of(b"spec"),
            toolchain: "cc".to_string(),
            candidates: (0..candidates).map(candidate).collect(),
            round: 0,
            lane: Lane::First,
        }
    }

    /// The job, compiled: its artifacts and its task are in the store.
    pub async fn compiled(&self, job: Job, candidates: &[Attempt<Runnable>]) -> EvalJob {
        self.compiled_with(&kernel(RIGHT), job, candidates).await
    }

    /// The job, compiled, with another reference.
    pub async fn compiled_with(&self, reference: &Runnable, job: Job, candidates: &[Attempt<Runnable>]) -> EvalJob {
        self.store.put_artifact(&reference.code).await.unwrap();
        for runnable in candidates.iter().flatten() {
            self.store.put_artifact(&runnable.code).await.unwrap();
        }
        let (digest, bytes) = task(reference).encode().unwrap();
        self.store.put_blob(&bytes).await.unwrap();
        EvalJob {
            job,
            enqueued_ms: 77,
            recompiles: 0,
            compiled: None,
            task: TaskRef::Blob(digest),
            description: Description { library: "test".to_string(), ..Description::default() },
            built: candidates.iter().map(|candidate| candidate.clone().map(|runnable| runnable.built)).collect(),
        }
    }

    pub async fn publish(&self, eval_job: &EvalJob) {
        let job = &eval_job.job;
        self.store.plan(&job.session, &[Planned::of(job)]).await.unwrap();
        self.broker.declare(&job.eval_queue()).await.unwrap();
        self.broker.declare(&job.compile_queue()).await.unwrap();
        let body = wire::encode(eval_job).unwrap().into();
        self.broker.publish(&job.eval_queue(), &job.id().to_string(), body).await.unwrap();
    }

    pub async fn outcome(&self, job: &Job) -> Outcome {
        self.until("outcome", async || {
            self.store.has_outcome(&job.session, job.group(), job.id()).await.unwrap().then_some(())
        })
        .await;
        let outcomes = self.store.outcomes(&job.session, &[job.group()]).await.unwrap();
        outcomes.into_iter().find(|outcome| outcome.job_id() == job.id()).unwrap()
    }

    /// How many workers began the job and were not heard of again, as far as the store knows.
    pub async fn begun(&self, job: &Job) -> Option<String> {
        let found = self.store.records_of(&shelf::begun(&job.session), &[job.id().to_string()]).await.unwrap();
        found.into_iter().flatten().next().map(|count| String::from_utf8(count).unwrap())
    }

    pub async fn set_begun(&self, job: &Job, count: u32) {
        let record = (job.id().to_string(), count.to_string().into_bytes());
        self.store.put_records(&shelf::begun(&job.session), &[record]).await.unwrap();
    }

    /// Takes the job from its queue and is gone, as often as it takes to be given up.
    pub async fn die_with(&self, job: &Job) {
        let mut consumer = self.broker.consume(&job.eval_queue(), 1).await.unwrap();
        for _ in 0..MAX_BEGUN {
            drop(consumer.next().await.unwrap());
        }
    }

    pub async fn until<T>(&self, what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
        let wait = async {
            loop {
                if let Some(value) = condition().await {
                    return value;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("waited too long: {what}"))
    }

    /// The sum of the series of `name` whose labels include `labels`.
    pub fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let families = self.registry.gather();
        let series = families.iter().filter(|family| family.name() == name).flat_map(|family| family.get_metric());
        let wanted = series.filter(|metric| {
            labels.iter().all(|(name, value)| {
                metric.get_label().iter().any(|label| label.name() == *name && label.value() == *value)
            })
        });
        wanted.map(|metric| metric.get_counter().get_value() + metric.get_gauge().get_value()).sum()
    }

    pub async fn settled(&self, result: &str, count: f64) {
        let labels = [("step", "eval"), ("result", result)];
        self.until(result, async || (self.metric("bluefin_jobs_total", &labels) >= count).then_some(())).await;
        assert_eq!(self.metric("bluefin_jobs_total", &labels), count);
    }

    pub async fn stop(&self, worker: JoinHandle<Result<(), Error>>) {
        self.shutdown.cancel();
        worker.await.unwrap().unwrap();
        assert_eq!(self.metric("bluefin_jobs_in_flight", &[]), 0.0);
    }
}
