//! A campaign in one process: both workers over the embedded ports, with stand-ins for MIOpen's tools.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::broker::Broker;
use bluefin_common::campaign;
use bluefin_common::candidate::Candidate;
use bluefin_common::clock::now_ms;
use bluefin_common::digest::Digest;
use bluefin_common::job::Job;
use bluefin_common::lane::Lane;
use bluefin_common::method::Method;
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::outcome::Outcome;
use bluefin_common::problem::{ConvProblem, ConvShape, DataType, Direction, Problem};
use bluefin_common::session::{Session, Stage};
use bluefin_common::store::{Planned, Sessions as _, Work as _};
use bluefin_common::target::Target;
use bluefin_common::waiting::Waiting;
use bluefin_compile_worker as compile_worker;
use bluefin_compile_worker::toolchain::Fin;
use bluefin_eval_worker as eval_worker;
use bluefin_eval_worker::{MiopenDevice, Probe};
use bluefin_miopen::Tool;
use bluefin_miopen::disk::Disk;
use bluefin_stand_ins::wrap;
use prometheus::Registry;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// What no outcome, log or store may hold.
pub const SECRET: &str = "must-never-leave-the-worker";
const PATIENCE: Duration = Duration::from_secs(100);

pub fn target() -> Target {
    "gfx90a-104".parse().unwrap()
}

pub fn problem(n: u32, direction: Direction) -> Problem {
    let shape = ConvShape { n, c: 64, k: 64, input: [1, 8, 8], ..ConvShape::plain(direction, DataType::Fp32) };
    Problem::Conv(ConvProblem::new(shape).unwrap())
}

/// How full the disk of whoever runs the tests is, is not what they are about.
fn any_disk() -> Disk {
    Disk::new(std::env::temp_dir(), 1.0, 0)
}

/// How the stand-in at `program` is tried, where nobody describes the GPUs.
pub fn probe(tool: Tool, program: &Path) -> Probe<'_> {
    Probe { tool, program, launcher: Vec::new(), target: target(), gpu: Some("0"), topology: Path::new("/nowhere") }
}

pub struct Setting {
    pub folder: TempDir,
    pub broker: Arc<EmbeddedBroker>,
    pub store: Arc<SqliteStore>,
    pub session: Session,
    /// What the eval workers wait for.
    pub waiting: Waiting,
    /// How often they try a GPU again that does not work; without it, they end.
    pub reprobe: Option<Duration>,
    running: JoinSet<()>,
    stop: CancellationToken,
}

impl Setting {
    pub async fn new(method: Method, change: impl FnOnce(&mut Session)) -> Self {
        let mut session = Session::of_kernels("test".parse().unwrap(), target(), "", &Stage::ALL, 1);
        session.method = method;
        change(&mut session);
        let store = Arc::new(SqliteStore::in_memory().unwrap());
        store.create_session(&session).await.unwrap();
        Self {
            folder: tempfile::tempdir().unwrap(),
            broker: Arc::new(EmbeddedBroker::new()),
            store,
            session,
            waiting: Waiting::default(),
            reprobe: None,
            running: JoinSet::new(),
            stop: CancellationToken::new(),
        }
    }

    /// A stand-in that is part of an installation of its own, with these variables and a secret.
    pub fn tool(&self, name: &str, program: &str, variables: &[(&str, &str)]) -> PathBuf {
        let root = self.folder.path().join(name);
        std::fs::create_dir_all(root.join(".info")).unwrap();
        std::fs::write(root.join(".info/version"), "6.3.0\n").unwrap();
        let secret = [("EXAMPLE_PASSWORD", SECRET)];
        wrap(&root, Path::new(program), &[variables, &secret].concat())
    }

    pub async fn compile_worker(&mut self, variables: &[(&str, &str)]) {
        let program =
            self.tool("compile", env!("CARGO_BIN_EXE_fin"), &[variables, &[("STAND_IN_BACKEND", "HIPNOGPU")]].concat());
        let mut fin = Fin::probe(&program, Vec::new()).await.unwrap();
        fin.watch.silence = Duration::from_secs(2);
        fin.watch.processor_counts = false;
        fin.disk = any_disk();
        let config = compile_worker::Config::new("compile", vec![Arc::new(fin)], 2);
        let registry = Registry::new();
        let pipeline = PipelineMetrics::register(&registry).unwrap();
        let metrics = compile_worker::Metrics::register(&registry, pipeline).unwrap();
        let (broker, store, stop) = (self.broker.clone(), self.store.clone(), self.stop.clone());
        self.running.spawn(async move { compile_worker::run(config, broker, store, metrics, stop).await.unwrap() });
    }

    pub async fn device(&self, tool: Tool, variables: &[(&str, &str)]) -> MiopenDevice {
        let program = match tool {
            Tool::Fin => env!("CARGO_BIN_EXE_fin"),
            Tool::MiopenDriver => env!("CARGO_BIN_EXE_MIOpenDriver"),
        };
        let program = self.tool("eval", program, &[variables, &[("STAND_IN_BACKEND", "HIP")]].concat());
        let mut device = MiopenDevice::probe(probe(tool, &program)).await.unwrap();
        device.watch.silence = Duration::from_secs(2);
        device.disk = any_disk();
        device
    }

    pub async fn eval_worker(&mut self, tool: Tool, variables: &[(&str, &str)]) {
        let device = self.device(tool, variables).await;
        self.eval_worker_on(device);
    }

    /// Starts a worker; what it ends with is not looked at.
    pub fn eval_worker_on(&mut self, device: MiopenDevice) {
        let mut config = eval_worker::Config::new("eval", Arc::new(device));
        config.look_again = Duration::from_millis(50);
        config.reprobe = self.reprobe;
        config.waiting = self.waiting.clone();
        let registry = Registry::new();
        let pipeline = PipelineMetrics::register(&registry).unwrap();
        let metrics = eval_worker::Metrics::register(&registry, pipeline).unwrap();
        let (broker, store, stop) = (self.broker.clone(), self.store.clone(), self.stop.clone());
        self.running.spawn(async move {
            let _ = eval_worker::run(config, broker, store, metrics, stop).await;
        });
    }

    pub fn job(&self, problem: &Problem, stage: Stage, solver: &str) -> Job {
        Job {
            session: self.session.name.clone(),
            stage,
            target: target(),
            problem: problem.clone(),
            method: self.session.method,
            spec: Digest::of(b""),
            toolchain: self.session.method.to_string(),
            candidates: vec![Candidate { solver: solver.to_string(), params: Vec::new() }],
            round: 0,
            lane: Lane::First,
        }
    }

    /// Plans all of `jobs`, then publishes them.
    pub async fn enqueue(&self, jobs: &[Job]) {
        let planned: Vec<Planned> = jobs.iter().map(Planned::of).collect();
        self.store.plan(&self.session.name, &planned).await.unwrap();
        for job in jobs {
            let (queue, body) = campaign::first_message(job, now_ms()).unwrap();
            self.broker.declare(&queue).await.unwrap();
            self.broker.publish(&queue, &job.id().to_string(), body.into()).await.unwrap();
        }
    }

    /// Waits until nothing is left to do; all outcomes.
    pub async fn finish(&self) -> Vec<Outcome> {
        let done = async {
            while !self.store.progress(&self.session.name).await.unwrap().is_complete() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, done).await.is_err() {
            panic!("not complete: {:?}", self.store.progress(&self.session.name).await);
        }
        let groups = self.store.groups(&self.session.name).await.unwrap();
        let outcomes = self.store.outcomes(&self.session.name, &groups).await.unwrap();
        for outcome in &outcomes {
            assert!(!format!("{outcome:?}").contains(SECRET), "{outcome:?}");
        }
        outcomes
    }

    /// Drops the workers where they stand: nothing is finished and nothing handed back.
    pub async fn kill(&mut self) {
        self.running.abort_all();
        while self.running.join_next().await.is_some() {}
    }

    pub async fn stop(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.running.join_next().await {
            ended.unwrap();
        }
    }
}
