//! The shipped kernels on small problems, compiled here: each candidate is checked against its spec's reference.

use std::sync::Arc;

use bluefin_common::artifact::{Prepared, Task};
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::outcome::{Candidate, Failure, Timing};
use bluefin_common::spec::Scope;
use bluefin_common::store::Store;
use bluefin_common::store::sqlite::SqliteStore;
use bluefin_common::target::Target;
use bluefin_compile_worker::{Compiler, Limits, Metrics, Toolchain, Unit};
use bluefin_eval_worker::Runnable;
use bluefin_producer::driver::parse;
use bluefin_producer::plan::LoadedSpec;
use bytes::Bytes;
use prometheus::Registry;
use tokio::sync::Semaphore;

use crate::workers::{cpus, self_command};

/// Candidates of each solver.
const CANDIDATES: usize = 2;
/// Small, with edges that no tile divides, in both types and all directions.
const PROBLEMS: [&str; 8] = [
    "conv -n 2 -c 20 -H 14 -W 14 -k 24 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1",
    "conv -n 2 -c 20 -H 14 -W 14 -k 24 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 2",
    "conv -n 2 -c 20 -H 14 -W 14 -k 24 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 4",
    "convfp16 -n 2 -c 32 -H 14 -W 14 -k 32 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1",
    "convfp16 -n 2 -c 32 -H 14 -W 14 -k 32 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 2",
    "convfp16 -n 2 -c 32 -H 14 -W 14 -k 32 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 4",
    "gemm -m 130 -n 70 -k 96",
    "gemmfp16 -m 128 -n 64 -k 96",
];

/// The kernels of one spec for one problem.
pub(super) struct Kernels {
    pub(super) name: String,
    names: Vec<String>,
    /// The problem, its reference's code and the candidates; or what the compiler said.
    pub(super) posed: Result<(Task, Bytes, Vec<Runnable>), String>,
}

impl Kernels {
    /// Compiles for `target`; the inner error says why nothing can be compiled here.
    pub(super) async fn prepare(target: &Target) -> anyhow::Result<Result<Vec<Self>, String>> {
        let name = if *target == Target::Host { "cc" } else { "clang" };
        let toolchain = match Toolchain::probe(name) {
            Ok(toolchain) => toolchain,
            Err(error) => return Ok(Err(format!("nothing can be compiled here: {error}"))),
        };
        let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory()?);
        let registry = Registry::new();
        let metrics = Metrics::register(&registry, PipelineMetrics::register(&registry)?)?;
        let slots = Arc::new(Semaphore::new(cpus()));
        let launcher = Some(self_command("sandbox-exec")?);
        let compiler = Compiler::new(toolchain, Arc::clone(&store), slots, Limits::default(), launcher, metrics);
        let problems = PROBLEMS.iter().map(|line| parse(line, None)).collect::<Result<Vec<_>, _>>()?.concat();
        let mut all = Vec::new();
        for loaded in LoadedSpec::shipped()? {
            if loaded.spec.toolchain != name {
                continue;
            }
            for problem in &problems {
                let Some(scope) = loaded.spec.scope(problem, target)? else { continue };
                let kernels = Posing { compiler: &compiler, store: &*store, loaded: &loaded, scope: &scope };
                let name = format!("{}: {}", loaded.spec.name, problem.canonical().trim_start_matches(""));
                let (names, posed) = kernels.pose().await?;
                all.push(Self { name: name.chars().take(60).collect(), names, posed });
            }
        }
        Ok(Ok(all))
    }

    /// Whether all are right.
    pub(super) fn judge(&self, results: &[Result<Timing, Failure>]) -> Result<String, String> {
        let wrong = self.names.iter().zip(results).find_map(|(name, result)| Some((name, result.as_ref().err()?)));
        match wrong {
            Some((name, failure)) => Err(format!("{name}: {}: {}", failure.kind.name(), failure.detail)),
            None => {
                let best = results.iter().flatten().map(|timing| timing.median_ms).fold(f64::INFINITY, f64::min);
                Ok(format!("{} kernels are right, the best takes {best:.4} ms", results.len()))
            }
        }
    }
}

struct Posing<'a> {
    compiler: &'a Compiler,
    store: &'a dyn Store,
    loaded: &'a LoadedSpec,
    scope: &'a Scope,
}

type Posed = Result<(Task, Bytes, Vec<Runnable>), String>;

impl Posing<'_> {
    async fn pose(&self) -> anyhow::Result<(Vec<String>, Posed)> {
        let spec = &self.loaded.spec;
        let (buffers, tolerance) = spec.task_parts(self.scope)?;
        let reference = match self.compile(&spec.reference()).await? {
            Ok(reference) => reference,
            Err(failure) => return Ok((Vec::new(), Err(failure))),
        };
        let (mut names, mut candidates) = (Vec::new(), Vec::new());
        for solver in spec.solvers_for(self.scope)? {
            for candidate in spec.candidates(solver, self.scope, CANDIDATES)?.points {
                match self.compile(&candidate).await? {
                    Ok(runnable) => candidates.push(runnable),
                    Err(failure) => return Ok((names, Err(failure))),
                }
                names.push(candidate.to_string());
            }
        }
        let task = Task { buffers, reference: reference.prepared, tolerance };
        Ok((names, Ok((task, reference.code, candidates))))
    }

    async fn compile(&self, candidate: &Candidate) -> anyhow::Result<Result<Runnable, String>> {
        let spec = &self.loaded.spec;
        let build = spec.build(candidate, self.scope)?;
        let bundle = Arc::new(self.loaded.bundle.clone());
        let arch = self.scope.target().arch();
        let unit = Unit::new(self.compiler.toolchain(), arch, bundle, spec, build.defines, &build.launches);
        let artifact = match self.compiler.compile(&unit).await? {
            Ok(artifact) => artifact,
            Err(failure) => return Ok(Err(format!("{candidate}: {}: {}", failure.kind.name(), failure.detail))),
        };
        let Some(code) = self.store.artifact(artifact).await? else {
            anyhow::bail!("{candidate}: its artifact is gone");
        };
        let prepared = Prepared { artifact, launches: build.launches, workspace: build.workspace };
        Ok(Ok(Runnable { prepared, code, image: None }))
    }
}
