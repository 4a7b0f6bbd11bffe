//! The shipped kernels on small problems, compiled here: each candidate is checked against its spec's reference.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context as _;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::candidate::Candidate;
use bluefin_common::failure::Failure;
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::outcome::Timing;
use bluefin_common::problem::driver::parse;
use bluefin_common::store::Store;
use bluefin_common::target::Target;
use bluefin_common::task::Task;
use bluefin_compile_worker::{Compiler, Limits, Metrics, Unit, Workshop};
use bluefin_eval_worker::Runnable;
use bluefin_kernel_spec::Scope;
use bluefin_producer::specs::{LoadedSpec, Specs};
use bytes::Bytes;
use prometheus::Registry;

use crate::known::known;
use crate::machine::itself;

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
        let specs = Specs::for_target(LoadedSpec::shipped()?, target);
        let mut compilers: HashMap<&str, Arc<dyn Compiler>> = HashMap::new();
        for name in specs.toolchains() {
            match known().toolchains.probe(name, &itself::programs()?).await {
                Ok(toolchain) => compilers.extend(toolchain.compilers().into_iter().map(|compiler| (name, compiler))),
                Err(error) => return Ok(Err(format!("nothing can be compiled here: {error}"))),
            }
        }
        let registry = Registry::new();
        let metrics = Metrics::register(&registry, PipelineMetrics::register(&registry)?)?;
        let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory()?);
        let launcher = Some(itself::command("sandbox-exec")?);
        let workshop = Workshop::new(store, itself::cpus(), Limits::default(), launcher, metrics);
        let problems = PROBLEMS.iter().map(|line| parse(line, None)).collect::<Result<Vec<_>, _>>()?.concat();
        let mut all = Vec::new();
        for loaded in &specs.here {
            let Some(compiler) = compilers.get(loaded.spec.toolchain.as_str()) else { continue };
            for problem in &problems {
                let Some(scope) = loaded.spec.scope(problem, target)? else { continue };
                let kernels = Posing { compiler: &**compiler, workshop: &workshop, loaded, scope: &scope };
                let name = format!("{}: {}", loaded.spec.name, problem.canonical());
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
    compiler: &'a dyn Compiler,
    workshop: &'a Workshop,
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
        let task = Task { buffers, reference: reference.built, tolerance };
        Ok((names, Ok((task, reference.code, candidates))))
    }

    async fn compile(&self, candidate: &Candidate) -> anyhow::Result<Result<Runnable, String>> {
        let spec = &self.loaded.spec;
        let build = spec.build(candidate, self.scope)?;
        let bundle = Arc::new(self.loaded.bundle.clone());
        let unit = Unit::new(self.compiler, self.scope.target().arch(), bundle, spec, build);
        let built = match self.workshop.compile(self.compiler, &unit).await? {
            Ok(built) => built,
            Err(failure) => return Ok(Err(format!("{candidate}: {}: {}", failure.kind.name(), failure.detail))),
        };
        let artifact = built.artifact().with_context(|| format!("{candidate}: not one code object"))?;
        let code = self.workshop.store().artifact(artifact).await?;
        let code = code.with_context(|| format!("{candidate}: its artifact is gone"))?;
        Ok(Ok(Runnable { built, code, image: None }))
    }
}
