//! A broker and a store in memory, and workers on them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bluefin_common::broker::embedded::EmbeddedBroker;
use bluefin_common::broker::{Broker, Consumer, DEAD_QUEUE};
use bluefin_common::campaign::{now_ms, publish};
use bluefin_common::job::{Job, Stage, compile_queue, eval_queue};
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::outcome::{FailureKind, Outcome};
use bluefin_common::session::Session;
use bluefin_common::spec::{Bundle, KernelSpec};
use bluefin_common::store::sqlite::SqliteStore;
use bluefin_common::store::{Planned, Store};
use bluefin_common::target::Target;
use bluefin_common::wire;
use bluefin_compile_worker::{Config, Error, Metrics, Toolchain, run};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Fleet {
    pub broker: Arc<EmbeddedBroker>,
    pub store: Arc<SqliteStore>,
    pub session: Session,
    pub spec: KernelSpec,
    pub bundle: Bundle,
}

pub struct Worker {
    pub registry: prometheus::Registry,
    pub metrics: Metrics,
    pub stop: CancellationToken,
    pub task: JoinHandle<Result<(), Error>>,
}

impl Worker {
    /// Deliveries that were settled with `result`.
    pub fn settled(&self, result: &str) -> f64 {
        settled(&self.registry, result)
    }

    pub async fn stop(self) -> Metrics {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.expect("drains").unwrap().unwrap();
        self.metrics
    }
}

/// Deliveries that a worker settled with `result`.
pub fn settled(registry: &prometheus::Registry, result: &str) -> f64 {
    let families = registry.gather();
    let jobs = families.iter().find(|family| family.name() == "bluefin_jobs_total").unwrap();
    let of_result = |labels: &[prometheus::proto::LabelPair]| labels.iter().any(|label| label.value() == result);
    let found = jobs.get_metric().iter().filter(|metric| of_result(metric.get_label()));
    found.map(|metric| metric.get_counter().get_value()).sum()
}

pub async fn fleet(change: impl FnOnce(&mut Bundle)) -> Fleet {
    fleet_on(EmbeddedBroker::new(), change).await
}

pub async fn fleet_on(broker: EmbeddedBroker, change: impl FnOnce(&mut Bundle)) -> Fleet {
    let mut bundle = Bundle::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/stencil.toml")).unwrap();
    change(&mut bundle);
    let session = Session::of_kernels("test".parse().unwrap(), Target::Host, "", &[Stage::Perf], 1);
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    store.create_session(&session).await.unwrap();
    store.put_blob(&bundle.encode().unwrap()).await.unwrap();
    let broker = Arc::new(broker);
    for queue in [compile_queue("cc"), compile_queue("noop"), eval_queue(&Target::Host, None), DEAD_QUEUE.to_string()] {
        broker.declare(&queue).await.unwrap();
    }
    let spec = KernelSpec::load(&bundle).unwrap();
    Fleet { broker, store, session, spec, bundle }
}

impl Fleet {
    pub fn worker(&self, change: impl FnOnce(&mut Config)) -> Worker {
        let toolchain = Toolchain::probe(&self.spec.toolchain).unwrap();
        let mut config = Config::new("test", vec![toolchain], 2);
        change(&mut config);
        let registry = prometheus::Registry::new();
        let metrics = Metrics::register(&registry, PipelineMetrics::register(&registry).unwrap()).unwrap();
        let stop = CancellationToken::new();
        let work = run(config, self.broker.clone(), self.store.clone(), metrics.clone(), stop.clone());
        let task = TaskTracker::new().spawn(work);
        Worker { registry, metrics, stop, task }
    }

    /// A job of the tiled solver; `height` tells jobs apart.
    pub fn job(&self, height: i64, candidates: usize) -> Job {
        let problem = self.spec.problem(&[("height".to_string(), height)].into()).unwrap();
        let scope = self.spec.scope(&problem, &Target::Host).unwrap().unwrap();
        let solver = self.spec.solver("StencilTiled").unwrap();
        Job {
            session: self.session.name.clone(),
            stage: Stage::Perf,
            target: Target::Host,
            problem,
            spec: self.bundle.digest().unwrap(),
            toolchain: self.spec.toolchain.clone(),
            candidates: self.spec.candidates(solver, &scope, candidates).unwrap().points,
        }
    }

    pub async fn enqueue(&self, job: &Job) {
        self.store.plan(&self.session.name, &[Planned::of(job)]).await.unwrap();
        publish(&*self.store, &*self.broker, job, now_ms()).await.unwrap();
    }

    pub async fn consume(&self, queue: &str) -> Box<dyn Consumer> {
        self.broker.consume(queue, 100).await.unwrap()
    }

    pub async fn outcome(&self, job: &Job) -> Outcome {
        let started = Instant::now();
        loop {
            let found = self.store.outcomes(&self.session.name, &[job.group()]).await.unwrap();
            if let Some(outcome) = found.into_iter().find(|outcome| outcome.job_id() == job.id()) {
                return outcome;
            }
            assert!(started.elapsed() < PATIENCE, "no outcome");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

pub async fn next<T: wire::Message>(consumer: &mut Box<dyn Consumer>) -> T {
    let delivery = tokio::time::timeout(PATIENCE, consumer.next()).await.expect("a message").unwrap();
    let message = wire::decode(&delivery.body).unwrap();
    delivery.ack().await.unwrap();
    message
}

pub fn kinds(outcome: &Outcome) -> Vec<FailureKind> {
    outcome.candidates.iter().map(|candidate| candidate.result.as_ref().unwrap_err().kind).collect()
}
