//! Compiled problems to measure with.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_campaign::machine::itself;
use bluefin_common::artifact::Built;
use bluefin_common::broker::Broker;
use bluefin_common::candidate::Candidate;
use bluefin_common::clock::now_ms;
use bluefin_common::job::{EvalJob, GroupId, Job, eval_queue};
use bluefin_common::method::Method;
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::problem::driver;
use bluefin_common::session::{Session, SessionName, Stage};
use bluefin_common::store::Store;
use bluefin_common::target::Target;
use bluefin_common::task::{Task, TaskRef};
use bluefin_common::wire;
use bluefin_compile_worker as compile_worker;
use bluefin_compile_worker::carried::Kept;
use bluefin_compile_worker::{Programs, toolchain};
use bluefin_eval_worker::{Runnable, Translators};
use bluefin_producer::enqueue::{Enqueuer, Publish};
use bluefin_producer::plan::CandidateBudget;
use bluefin_producer::plan::kernels::plan_problem;
use bluefin_producer::specs::LoadedSpec;
use bytes::Bytes;
use futures_util::future::join_all;
use prometheus::Registry;
use tokio_util::sync::CancellationToken;

use super::session_in;

/// What is compiled where no state file is named: short kernels and longer ones.
const PROBLEMS: [&str; 3] = [
    "gemm --a_h 64 --a_w 64 --b_w 64",
    "gemm --a_h 256 --a_w 256 --b_w 256",
    "conv -n 1 -c 32 -H 28 -W 28 -k 32 -y 3 -x 3 -p 1 -q 1 -F 1",
];
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A problem with one kernel spec, and all that it was compiled into.
pub struct Subject {
    /// One of its jobs.
    pub job: Job,
    pub task: Task,
    pub reference: Bytes,
    pub candidates: Vec<(Candidate, Runnable)>,
}

impl Subject {
    /// Translates what is not, as an eval worker does while other jobs are on the device.
    pub async fn translate(&mut self, translators: Option<&Translators>) {
        let Some(translators) = translators else { return };
        let candidates = self.candidates.iter_mut().map(|(_, runnable)| async {
            if runnable.image.is_none() {
                runnable.image = translators.translate(&runnable.code).await;
            }
        });
        let reference = translators.translate(&self.reference);
        let (image, _) = futures_util::join!(reference, join_all(candidates));
        self.reference = image.unwrap_or_else(|| self.reference.clone());
    }
}

/// How much is measured at most; `None`: all that there is.
#[derive(Clone, Copy)]
pub struct Most {
    pub problems: Option<usize>,
    /// Of each problem.
    pub candidates: Option<usize>,
}

/// Those of a session in a state file, or some for the host that are compiled now. At least one, with at least one candidate.
pub async fn chosen(state: Option<&Path>, session: Option<&SessionName>, most: Most) -> anyhow::Result<Vec<Subject>> {
    let mut subjects = match state {
        Some(path) => of_state(path, session).await?,
        None => compiled_here(most.candidates.unwrap_or(16)).await?,
    };
    subjects.truncate(most.problems.unwrap_or(usize::MAX));
    for subject in &mut subjects {
        subject.candidates.truncate(most.candidates.unwrap_or(usize::MAX));
    }
    subjects.retain(|subject| !subject.candidates.is_empty());
    ensure!(!subjects.is_empty(), "no compiled candidate to measure");
    Ok(subjects)
}

/// Those of a session in a state file.
async fn of_state(path: &Path, session: Option<&SessionName>) -> anyhow::Result<Vec<Subject>> {
    let (store, name) = session_in(path, session).await?;
    let mut jobs: Vec<EvalJob> = Kept::load(&store, &name).await?.jobs().cloned().collect();
    jobs.sort_by_key(|job| job.job.id());
    if jobs.is_empty() {
        bail!("{}: session {name} has no compiled jobs; make them with bluefin tune --stage compile", path.display());
    }
    let subjects = subjects(&store, jobs).await;
    store.close().await;
    subjects
}

/// Some small ones for the host, compiled now.
async fn compiled_here(candidates: usize) -> anyhow::Result<Vec<Subject>> {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory()?);
    let broker: Arc<dyn Broker> = Arc::new(EmbeddedBroker::new());
    let session = Session::of_kernels("bench".parse()?, Target::Host, "bluefin bench", &[Stage::Perf], now_ms());
    let specs: Vec<LoadedSpec> =
        LoadedSpec::shipped()?.into_iter().filter(|spec| spec.spec.toolchain == "cc").collect();
    for spec in &specs {
        store.put_blob(&spec.bundle.encode()?).await?;
    }
    let mut jobs = Vec::new();
    for problem in PROBLEMS {
        for problem in driver::parse(problem, None)? {
            let budget = CandidateBudget::Candidates(candidates.div_ceil(2).max(1));
            jobs.extend(
                plan_problem(&session, &problem, &specs, budget, None)?.into_iter().flat_map(|group| group.jobs),
            );
        }
    }
    let count = jobs.len();
    Enqueuer::open(&*store, &*broker, &session, Publish::Missing).await?.enqueue(jobs).await?;

    let registry = Registry::new();
    let metrics = compile_worker::Metrics::register(&registry, PipelineMetrics::register(&registry)?)?;
    let toolchain = toolchain::probe("cc", &Programs::default()).await?;
    let mut config = compile_worker::Config::new("bench", vec![toolchain], itself::cpus());
    config.launcher = Some(itself::command("sandbox-exec")?);
    let stop = CancellationToken::new();
    let mut workers = tokio::task::JoinSet::new();
    workers.spawn(compile_worker::run(config, broker.clone(), store.clone(), metrics, stop.clone()));
    let queue = eval_queue(&Target::Host, Method::KERNELS);
    while broker.depth(&queue).await? < count as u64 {
        ensure!(workers.try_join_next().is_none(), "the compile worker ended");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let mut consumer = broker.consume(&queue, u16::try_from(count)?).await?;
    let mut compiled = Vec::new();
    while compiled.len() < count {
        let delivery = consumer.next().await.context("the queue was closed")?;
        compiled.push(wire::decode(&delivery.body)?);
        delivery.ack().await?;
    }
    consumer.stop().await;
    stop.cancel();
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    broker.close().await;
    subjects(&*store, compiled).await
}

/// The perf jobs of each group, with their artifacts.
async fn subjects(store: &dyn Store, jobs: Vec<EvalJob>) -> anyhow::Result<Vec<Subject>> {
    let mut subjects: BTreeMap<GroupId, Subject> = BTreeMap::new();
    for EvalJob { job, task, built, .. } in jobs.into_iter().filter(|job| job.job.stage == Stage::Perf) {
        let Some(task) = task_of(store, task).await? else { continue };
        let mut candidates = Vec::new();
        for (candidate, built) in job.candidates.iter().zip(built) {
            let Ok(built) = built else { continue };
            let code = code(store, &built).await?;
            candidates.push((candidate.clone(), Runnable { built, code, image: None }));
        }
        match subjects.get_mut(&job.group()) {
            Some(subject) => subject.candidates.extend(candidates),
            None => {
                let reference = code(store, &task.reference).await?;
                subjects.insert(job.group(), Subject { task, reference, candidates, job });
            }
        }
    }
    Ok(subjects.into_values().collect())
}

/// The task of a job, if bluefin checks its candidates.
async fn task_of(store: &dyn Store, task: TaskRef) -> anyhow::Result<Option<Task>> {
    match task {
        TaskRef::None => Ok(None),
        TaskRef::Inline(task) => Ok(Some(*task)),
        TaskRef::Blob(digest) => {
            let found = store.blob(digest).await?;
            let bytes = found.with_context(|| format!("task {}: not in the store", digest.short()))?;
            Ok(Some(wire::decode(&bytes)?))
        }
    }
}

/// The one code object of what was built.
async fn code(store: &dyn Store, built: &Built) -> anyhow::Result<Bytes> {
    let artifact = built.artifact().context("not one code object")?;
    let found = store.artifact(artifact).await?;
    found.with_context(|| format!("artifact {}: not in the store any more; compile again", artifact.digest.short()))
}
