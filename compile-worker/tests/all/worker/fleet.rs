//! A broker and a store in memory, and workers on them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::broker::{Broker, Consumer, DEAD_QUEUE};
use bluefin_common::campaign::publish;
use bluefin_common::clock::now_ms;
use bluefin_common::delivery::MAX_BEGUN;
use bluefin_common::failure::FailureKind;
use bluefin_common::job::{CompileJob, CompileWork, EvalJob, Job, compile_queue, eval_queue};
use bluefin_common::lane::Lane;
use bluefin_common::method::Method;
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::outcome::Outcome;
use bluefin_common::session::{Session, Stage};
use bluefin_common::shelf;
use bluefin_common::store::{Blobs as _, Planned, Records as _, Sessions as _, Work as _};
use bluefin_common::target::Target;
use bluefin_common::task::{Task, TaskRef};
use bluefin_common::wire;
use bluefin_compile_worker::toolchain::{Programs, probe};
use bluefin_compile_worker::{Config, Error, Metrics, Toolchain, run};
use bluefin_kernel_spec::{Bundle, KernelSpec};
use bluefin_test_support::patience;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub struct Fleet {
    pub broker: Arc<EmbeddedBroker>,
    pub store: Arc<SqliteStore>,
    pub session: Session,
    pub spec: KernelSpec,
    pub bundle: Bundle,
    pub toolchain: Arc<dyn Toolchain>,
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
        tokio::time::timeout(patience(PATIENCE), self.task).await.expect("drains").unwrap().unwrap();
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

/// The value of a gauge that has `label` among its labels.
pub fn metric(registry: &prometheus::Registry, name: &str, label: &str) -> f64 {
    let families = registry.gather();
    let family = families.iter().find(|family| family.name() == name).unwrap();
    let found = family.get_metric().iter().find(|metric| metric.get_label().iter().any(|pair| pair.value() == label));
    found.unwrap_or_else(|| panic!("{name} of {label}")).get_gauge().get_value()
}

pub async fn fleet(change: impl FnOnce(&mut Bundle)) -> Fleet {
    fleet_on(EmbeddedBroker::new(), change).await
}

pub async fn fleet_on(broker: EmbeddedBroker, change: impl FnOnce(&mut Bundle)) -> Fleet {
    let session = Session::of_kernels("test".parse().unwrap(), Target::Host, "", &[Stage::Perf], 1);
    fleet_of(broker, session, change).await
}

pub async fn fleet_of(broker: EmbeddedBroker, session: Session, change: impl FnOnce(&mut Bundle)) -> Fleet {
    let mut bundle = Bundle::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/stencil.toml")).unwrap();
    change(&mut bundle);
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    store.create_session(&session).await.unwrap();
    store.put_blob(&bundle.encode().unwrap()).await.unwrap();
    let broker = Arc::new(broker);
    for queue in
        [compile_queue("cc", &Target::Host), compile_queue("noop", &Target::Host), evals(), DEAD_QUEUE.to_string()]
    {
        broker.declare(&queue).await.unwrap();
    }
    let spec = KernelSpec::load(&bundle).unwrap();
    let toolchain = probe(&spec.toolchain, &Programs::default()).await.unwrap();
    Fleet { broker, store, session, spec, bundle, toolchain }
}

/// Compiles nothing.
pub fn noop(bundle: &mut Bundle) {
    bundle.toml = bundle.toml.replacen("\"cc\"", "\"noop\"", 1);
}

/// The same with two sessions, each for a device class of its own.
pub async fn two_classes() -> [Fleet; 2] {
    let [one, other] = ["gfx90a-104", "gfx942-304"].map(|target| target.parse::<Target>().unwrap());
    let session = Session::of_kernels("one".parse().unwrap(), one, "", &[Stage::Perf], 1);
    let gpus = |bundle: &mut Bundle| {
        noop(bundle);
        bundle.toml = bundle.toml.replacen("targets = [\"host\"]", "targets = [\"gfx90a\", \"gfx942\"]", 1);
        bundle.toml =
            bundle.toml.replace("[[solver.launch]]", "[[solver.launch]]\n  grid = [\"height\"]\n  block = [64]");
    };
    let fleet = fleet_of(EmbeddedBroker::new(), session, gpus).await;
    let session = Session { name: "other".parse().unwrap(), target: other, ..fleet.session.clone() };
    let other = Fleet { session, ..fleet.clone() };
    [fleet, other]
}

/// The queue of the evaluations of all jobs here.
pub fn evals() -> String {
    eval_queue(&Target::Host, Method::KERNELS)
}

/// A job to be compiled for the first time.
pub fn compile_job(job: Job) -> CompileJob {
    CompileJob { job, enqueued_ms: 1, recompiles: 0, work: CompileWork::Candidates }
}

impl Fleet {
    pub fn worker(&self, change: impl FnOnce(&mut Config)) -> Worker {
        self.worker_on(self.broker.clone(), change)
    }

    /// The same with another broker.
    pub fn worker_on(&self, broker: Arc<dyn Broker>, change: impl FnOnce(&mut Config)) -> Worker {
        let mut config = Config::new("test", vec![self.toolchain.clone()], 2);
        change(&mut config);
        let registry = prometheus::Registry::new();
        let metrics = Metrics::register(&registry, PipelineMetrics::register(&registry).unwrap()).unwrap();
        let stop = CancellationToken::new();
        let work = run(config, broker, self.store.clone(), metrics.clone(), stop.clone());
        let task = TaskTracker::new().spawn(work);
        Worker { registry, metrics, stop, task }
    }

    /// Where the jobs of its session are evaluated.
    pub fn evals(&self) -> String {
        eval_queue(&self.session.target, Method::KERNELS)
    }

    /// Where they are compiled.
    pub fn compiles(&self) -> String {
        compile_queue(&self.spec.toolchain, &self.session.target)
    }

    /// A job of the tiled solver; `height` tells jobs apart.
    pub fn job(&self, height: i64, candidates: usize) -> Job {
        let problem = self.spec.problem(&[("height".to_string(), height.into())].into()).unwrap();
        let scope = self.spec.scope(&problem, &self.session.target).unwrap().unwrap();
        let solver = self.spec.solver("StencilTiled").unwrap();
        Job {
            session: self.session.name.clone(),
            stage: Stage::Perf,
            target: self.session.target.clone(),
            problem,
            method: Method::KERNELS,
            spec: self.bundle.digest().unwrap(),
            toolchain: self.spec.toolchain.clone(),
            candidates: self.spec.candidates(solver, &scope, candidates).unwrap().points,
            round: 0,
            lane: Lane::First,
        }
    }

    pub async fn enqueue(&self, job: &Job) {
        self.store.plan(&self.session.name, &[Planned::of(job)]).await.unwrap();
        publish(&*self.store, &*self.broker, job, &[], now_ms()).await.unwrap();
    }

    /// What the candidates of a compiled job are checked by.
    pub async fn task(&self, eval: &EvalJob) -> Task {
        if let TaskRef::Inline(task) = &eval.task {
            return Task::clone(task);
        }
        let blob = self.store.blob(eval.task.digest().unwrap()).await.unwrap();
        wire::decode(&blob.expect("it is stored before the job is passed on")).unwrap()
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
            assert!(started.elapsed() < patience(PATIENCE), "no outcome");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The compile job at the head of `queue` comes again and again, after as many workers that `begun` it are gone.
    pub async fn deliver_again(&self, queue: &str, begun: u32) {
        let mut consumer = self.consume(queue).await;
        let delivery = tokio::time::timeout(patience(PATIENCE), consumer.next()).await.unwrap().unwrap();
        let CompileJob { job, .. } = wire::decode(&delivery.body).unwrap();
        let record = (job.id().to_string(), begun.to_string().into_bytes());
        self.store.put_records(&shelf::begun(&job.session), &[record]).await.unwrap();
        drop(delivery);
        for _ in 1..MAX_BEGUN {
            drop(tokio::time::timeout(patience(PATIENCE), consumer.next()).await.unwrap().unwrap());
        }
        consumer.stop().await;
    }
}

pub async fn next<T: wire::Message>(consumer: &mut Box<dyn Consumer>) -> T {
    let delivery = tokio::time::timeout(patience(PATIENCE), consumer.next()).await.expect("a message").unwrap();
    let message = wire::decode(&delivery.body).unwrap();
    delivery.ack().await.unwrap();
    message
}

pub fn kinds(outcome: &Outcome) -> Vec<FailureKind> {
    outcome.candidates.iter().map(|candidate| candidate.result.as_ref().unwrap_err().kind).collect()
}
