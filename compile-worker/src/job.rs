//! One job: from its delivery to an eval job, or to an outcome where nothing is left to evaluate.

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use bluefin_common::artifact::{Prepared, Task};
use bluefin_common::broker::{Broker, BrokerError};
use bluefin_common::campaign::{self, now_ms};
use bluefin_common::job::{CompileJob, Compiled, EvalJob, Job};
use bluefin_common::metrics::Step;
use bluefin_common::miopen::{Tool, pin_library};
use bluefin_common::outcome::{Candidate, CandidateOutcome, Failure, FailureKind, Outcome};
use bluefin_common::session::SessionName;
use bluefin_common::spec::{KernelSpec, Scope};
use bluefin_common::store::{Store, StoreError};
use bluefin_common::target::Target;
use bluefin_common::wire;
use futures_util::stream::{self, StreamExt as _};
use lru::LruCache;

use crate::backlog::Backlog;
use crate::compile::{Compiler, Unit};
use crate::error::Error;
use crate::fin::FinCompiler;
use crate::gate::Gate;
use crate::metrics::Metrics;
use crate::shortage::Shortage;
use crate::specs::{Loaded, Specs};

/// Candidates of one job that are looked up at a time; the slots bound how many compile.
const LOOKED_UP: usize = 32;
/// Sessions whose pin is remembered.
pub(crate) const SESSIONS: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// How a job was done with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// Passed on, or its outcome is stored.
    Passed,
    /// It had an outcome.
    Skipped,
    /// The session is pinned to another compiler than this worker has.
    NotMine,
}

/// What compiles the jobs of one queue.
pub(crate) enum Server {
    /// Kernels of specs.
    Kernels(Compiler),
    /// Solvers of MIOpen's.
    Fin(FinCompiler),
}

impl Server {
    /// Name of the toolchain.
    pub(crate) fn toolchain(&self) -> &'static str {
        match self {
            Self::Kernels(compiler) => compiler.toolchain().name(),
            Self::Fin(_) => Tool::Fin.name(),
        }
    }

    /// What a session pins of it.
    pub(crate) fn identity(&self) -> &str {
        match self {
            Self::Kernels(compiler) => compiler.toolchain().identity(),
            Self::Fin(fin) => fin.toolchain().identity(),
        }
    }

    /// Whether it compiles for `target`.
    async fn serves(&self, target: &Target) -> Result<bool, Error> {
        match self {
            Self::Kernels(compiler) => Ok(compiler.toolchain().serves(target.arch())),
            Self::Fin(fin) => fin.serves(target).await,
        }
    }

    /// Pins `session` to it unless it is pinned to another one; returns what it is pinned to.
    async fn pin(&self, store: &dyn Store, session: &SessionName, own: &str) -> Result<String, StoreError> {
        match self {
            Self::Kernels(compiler) => {
                store.pin(session, &format!("toolchain.{}", compiler.toolchain().name()), own).await
            }
            // Those who evaluate pin the same library.
            Self::Fin(_) => pin_library(store, session, own).await,
        }
    }

    /// Waits for room on the disk that it writes to, where that is much.
    pub(crate) async fn roomy(&self) {
        match self {
            Self::Kernels(_) => {}
            Self::Fin(fin) => fin.toolchain().disk.roomy().await,
        }
    }
}

/// What all jobs of a worker share.
pub(crate) struct Jobs {
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) metrics: Metrics,
    pub(crate) specs: Specs,
    pub(crate) gate: Gate,
    pub(crate) backlog: Backlog,
    pub(crate) shortage: Shortage,
    /// Whether this worker's compiler is the one that a session is pinned to, by session and toolchain.
    pub(crate) pinned: Mutex<LruCache<(SessionName, &'static str), bool>>,
    /// Evaluation queues that are known to exist.
    pub(crate) declared: Mutex<HashSet<String>>,
}

impl Jobs {
    pub(crate) async fn process(&self, server: &Server, compile_job: &CompileJob) -> Result<Done, Error> {
        let job = &compile_job.job;
        self.metrics.pipeline.started(Step::Compile, compile_job.enqueued_ms, now_ms());
        let name = server.toolchain();
        if job.toolchain != name {
            let found = job.toolchain.chars().take(64).collect::<String>();
            return Err(Error::Job { reason: format!("toolchain {found:?} in the queue of {name}") });
        }
        if self.store.has_outcome(&job.session, job.group(), job.id()).await? {
            // Whoever stored it may have died before the group took its next step.
            let open = self.store.open_jobs(&job.session, job.group()).await?;
            campaign::advance(&*self.store, &*self.broker, job, open).await?;
            return Ok(Done::Skipped);
        }
        if compile_job.recompiles > 0 {
            self.gate.came_back(&job.eval_queue());
        }
        // Asked first: a session is not pinned to a compiler that cannot serve it.
        if !server.serves(&job.target).await? || !self.is_mine(server, &job.session).await? {
            return Ok(Done::NotMine);
        }
        match server {
            Server::Kernels(compiler) => self.compile_kernels(compiler, compile_job).await,
            Server::Fin(fin) => self.compile_solvers(fin, compile_job).await,
        }
    }

    /// Compiles the candidates of a job by fin.
    async fn compile_solvers(&self, fin: &FinCompiler, compile_job: &CompileJob) -> Result<Done, Error> {
        let job = &compile_job.job;
        let session = self.store.session(&job.session).await?;
        let session =
            session.ok_or_else(|| Error::Job { reason: format!("session {}: not in the store", job.session) })?;
        let _waiting = self.metrics.waiting(job.candidates.len());
        let mut solutions = Vec::with_capacity(job.candidates.len());
        for candidate in &job.candidates {
            let waiting = self.backlog.add();
            solutions.push(fin.compile(job, &session, candidate).await?);
            drop(waiting);
        }
        if solutions.iter().any(Result::is_ok) {
            let CompileJob { enqueued_ms, recompiles, .. } = *compile_job;
            let compiled = Compiled::Fin { solutions };
            self.pass_on(EvalJob { job: job.clone(), enqueued_ms, recompiles, compiled }).await?;
        } else {
            self.fail(job, solutions.into_iter().filter_map(Result::err)).await?;
        }
        Ok(Done::Passed)
    }

    /// Compiles the candidates of a job of a kernel spec.
    async fn compile_kernels(&self, compiler: &Compiler, compile_job: &CompileJob) -> Result<Done, Error> {
        let job = &compile_job.job;
        let loaded = self.specs.get(job.spec).await?;
        let prepared = self.prepare(compiler, job, &loaded).await?;
        match prepared {
            Ok((task, prepared)) if prepared.iter().any(Result::is_ok) => {
                let CompileJob { enqueued_ms, recompiles, .. } = *compile_job;
                self.pass_on(EvalJob {
                    job: job.clone(),
                    enqueued_ms,
                    recompiles,
                    compiled: Compiled::Kernels { task, prepared },
                })
                .await?;
            }
            Ok((_, prepared)) => self.fail(job, prepared.into_iter().filter_map(Result::err)).await?,
            Err(failure) => self.fail(job, job.candidates.iter().map(|_| failure.clone())).await?,
        }
        Ok(Done::Passed)
    }

    /// Stores the outcome of a job that is given up.
    pub(crate) async fn give_up(&self, job: &Job, reason: &str) -> Result<(), Error> {
        self.store_outcome(&Outcome::dead(job, reason, now_ms())).await
    }

    /// Pins the session to this worker's compiler unless it is pinned to another one.
    async fn is_mine(&self, server: &Server, session: &SessionName) -> Result<bool, Error> {
        let key = (session.clone(), server.toolchain());
        let known = self.pinned.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        if let Some(known) = known {
            return Ok(known);
        }
        let own = server.identity();
        let pinned = server.pin(&*self.store, session, own).await?;
        let mine = pinned == own;
        let first = self.pinned.lock().unwrap_or_else(PoisonError::into_inner).put(key, mine).is_none();
        if !mine && first {
            tracing::error!(
                %session, toolchain = server.toolchain(), pinned, own,
                "refusing the session's jobs: its results are of another compiler; run workers with that one, or start a new session"
            );
        }
        Ok(mine)
    }

    /// Compiles the reference and all candidates. The outer error is one that all candidates share.
    async fn prepare(&self, compiler: &Compiler, job: &Job, loaded: &Loaded) -> Result<Preparation, Error> {
        let spec = &loaded.spec;
        let invalid = |detail: String| Failure::new(FailureKind::InvalidLaunch, detail);
        let scope = match spec.scope(&job.problem, &job.target) {
            Ok(Some(scope)) => scope,
            Ok(None) => {
                let reason = format!("kernel spec {} is not for this problem on {}", spec.name, job.target);
                return Ok(Err(invalid(reason)));
            }
            Err(error) => return Ok(Err(invalid(error.to_string()))),
        };
        let (buffers, tolerance) = match spec.task_parts(&scope) {
            Ok(parts) => parts,
            Err(error) => return Ok(Err(invalid(error.to_string()))),
        };
        let one = |candidate: Candidate| self.prepare_one(compiler, loaded, spec, &scope, candidate, false);
        // A source may not go together with the entries that check on the device; then the host checks.
        let reference = match self.prepare_one(compiler, loaded, spec, &scope, spec.reference(), true).await? {
            Err(failure) if failure.kind == FailureKind::CompileError => one(spec.reference()).await?,
            made => made,
        };
        let reference = match reference {
            Ok(reference) => reference,
            Err(failure) => {
                let detail = format!("the reference {} failed: {}", spec.reference().solver, failure.detail);
                return Ok(Err(Failure::new(failure.kind, detail)));
            }
        };
        let _waiting = self.metrics.waiting(job.candidates.len());
        let all = stream::iter(job.candidates.iter().cloned()).map(|candidate| {
            let waiting = self.backlog.add();
            let made = one(candidate);
            async move {
                let made = made.await;
                drop(waiting);
                made
            }
        });
        let all: Vec<_> = all.buffered(LOOKED_UP).collect().await;
        let prepared = all.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Ok((Task { buffers, reference, tolerance }, prepared)))
    }

    async fn prepare_one(
        &self,
        compiler: &Compiler,
        loaded: &Loaded,
        spec: &KernelSpec,
        scope: &Scope,
        candidate: Candidate,
        with_checks: bool,
    ) -> Result<Result<Prepared, Failure>, Error> {
        let build = match spec.build(&candidate, scope) {
            Ok(build) => build,
            Err(error) => return Ok(Err(Failure::new(FailureKind::InvalidLaunch, error.to_string()))),
        };
        let bundle = Arc::clone(&loaded.bundle);
        let arch = scope.target().arch();
        let toolchain = compiler.toolchain();
        let unit = Unit::new(toolchain, arch, bundle, spec, build.defines, &build.launches);
        let unit = if with_checks { unit.with_checks(toolchain) } else { unit };
        let made = compiler.compile(&unit).await?;
        Ok(made.map(|artifact| Prepared { artifact, launches: build.launches, workspace: build.workspace }))
    }

    async fn pass_on(&self, job: EvalJob) -> Result<(), Error> {
        let queue = job.job.eval_queue();
        let body = wire::encode(&job).map_err(|error| Error::Job { reason: error.to_string() })?;
        let declared = self.declared().contains(&queue);
        if !declared {
            self.broker.declare(&queue).await?;
            self.declared().insert(queue.clone());
        }
        self.gate.watch(&queue);
        let published = self.broker.publish(&queue, &job.job.id().to_string(), body.into()).await;
        if matches!(published, Err(BrokerError::Unroutable { .. })) {
            // Deleted meanwhile: declared again at the next attempt.
            self.declared().remove(&queue);
        }
        Ok(published?)
    }

    /// Stores the outcome of a job of which no candidate is left to evaluate.
    async fn fail(&self, job: &Job, failures: impl Iterator<Item = Failure>) -> Result<(), Error> {
        let outcomes = job.candidates.iter().zip(failures).map(|(candidate, failure)| CandidateOutcome {
            candidate: candidate.clone(),
            built: None,
            result: Err(failure),
        });
        let candidates = outcomes.collect();
        let outcome = Outcome::undone(job, candidates, now_ms());
        let kinds: BTreeMap<_, usize> = outcome.candidates.iter().filter_map(|c| c.result.as_ref().err()).fold(
            BTreeMap::new(),
            |mut kinds, failure| {
                *kinds.entry(failure.kind.name()).or_default() += 1;
                kinds
            },
        );
        tracing::warn!(job = %job.id().short(), session = %job.session, ?kinds, "no candidate of the job compiled");
        self.store_outcome(&outcome).await
    }

    async fn store_outcome(&self, outcome: &Outcome) -> Result<(), Error> {
        let stored = self.store.put_outcome(outcome).await?;
        if stored.first {
            self.metrics.pipeline.outcome(Step::Compile, outcome);
        }
        campaign::advance(&*self.store, &*self.broker, &outcome.job, stored.open).await?;
        Ok(())
    }

    fn declared(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.declared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What all candidates share and what each is, or why none is worth a compile.
type Preparation = Result<(Task, Vec<Result<Prepared, Failure>>), Failure>;
