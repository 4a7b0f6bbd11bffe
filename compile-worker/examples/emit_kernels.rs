//! Compiles candidates of the shipped GPU specs into a folder, with their launches as JSON, for tests/gpu/try_kernel.py
//! and check_kernels.py to run on a machine that has neither Rust nor a compiler:
//!
//! ```text
//! cargo run -p bluefin-compile-worker --example emit_kernels -- FOLDER sm_90-132 16 <<'END'
//! gemm 8192 8192 8192 FP16 Warpgroup
//! conv F 32 256 56 64 1 1 0 1 FP16 Matrix
//! END
//! ```
//!
//! A line names m, n, k, or direction, n, c, size, k, filter, stride, pad, groups; then the type, and texts of which one is
//! in the name of each solver that is wanted. The number is how many candidates of each solver; `shapes` instead of it
//! stands for the first one of each shape: of those whose launches have the same blocks, threads and shared memory.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::io::BufRead as _;
use std::path::PathBuf;
use std::sync::Arc;

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::artifact::Argument;
use bluefin_common::candidate::Candidate;
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::problem::{ConvProblem, ConvShape, Direction, GemmProblem, Problem};
use bluefin_common::store::Artifacts as _;
use bluefin_common::target::Target;
use bluefin_compile_worker::toolchain::probe;
use bluefin_compile_worker::{Compiler, Limits, Metrics, Programs, Unit, Workshop};
use bluefin_kernel_spec::{Bundle, KernelSpec, Scope, Solver};
use futures_util::future::try_join_all;
use serde_json::{Value as Json, json};

type Error = Box<dyn std::error::Error>;

fn problem(words: &[&str]) -> Result<Problem, Error> {
    let number = |at: usize| -> Result<u32, Error> { Ok(words.get(at).ok_or("too few words")?.parse()?) };
    let data_type = |at: usize| -> Result<_, Error> { Ok(words.get(at).ok_or("no data type")?.parse()?) };
    if words.first() == Some(&"gemm") {
        let (m, n, k) = (number(1)?, number(2)?, number(3)?);
        return Ok(Problem::Gemm(GemmProblem::plain([m, n, k], data_type(4)?)));
    }
    let direction: Direction = words.get(1).ok_or("no direction")?.parse()?;
    let shape = ConvShape {
        n: number(2)?,
        c: number(3)?,
        input: [1, number(4)?, number(4)?],
        k: number(5)?,
        filter: [1, number(6)?, number(6)?],
        stride: [1, number(7)?, number(7)?],
        pad: [0, number(8)?, number(8)?],
        group: number(9)?,
        ..ConvShape::plain(direction, data_type(10)?)
    };
    Ok(Problem::Conv(ConvProblem::new(shape)?))
}

/// Which candidates of a solver.
#[derive(Clone, Copy)]
enum Wanted {
    First(usize),
    Shapes,
}

impl Wanted {
    fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "shapes" => Ok(Self::Shapes),
            number => match number.parse() {
                Ok(count) => Ok(Self::First(count)),
                Err(_) => Err(format!("how many candidates: found \"{number}\", expected a number or shapes").into()),
            },
        }
    }

    fn of(self, spec: &KernelSpec, solver: &Solver, scope: &Scope) -> Result<Vec<Candidate>, Error> {
        if let Self::First(count) = self {
            return Ok(spec.candidates(solver, scope, count)?.points);
        }
        let (mut seen, mut points) = (BTreeSet::new(), Vec::new());
        for point in spec.candidates(solver, scope, usize::MAX)?.points {
            let launches = spec.build(&point, scope)?.launches;
            let shape: Vec<_> = launches.into_iter().map(|launch| (launch.grid, launch.block, launch.shared)).collect();
            if seen.insert(shape) {
                points.push(point);
            }
        }
        Ok(points)
    }
}

struct Emitter {
    compiler: Arc<dyn Compiler>,
    workshop: Workshop,
    store: Arc<SqliteStore>,
    folder: PathBuf,
}

impl Emitter {
    /// Compiles a candidate, writes its artifact and says how it is launched; the compiler's words if it refuses.
    async fn case(
        &self,
        bundle: &Arc<Bundle>,
        spec: &KernelSpec,
        scope: &Scope,
        point: &Candidate,
    ) -> Result<Result<Json, Json>, Error> {
        let build = spec.build(point, scope)?;
        let unit = Unit::new(&*self.compiler, scope.target().arch(), bundle.clone(), spec, build);
        let built = match self.workshop.compile(&*self.compiler, &unit).await? {
            Ok(built) => built,
            Err(failure) => {
                eprintln!("{point}: {}", failure.detail);
                return Ok(Err(json!({ "candidate": point.to_string(), "detail": failure.detail })));
            }
        };
        let file = format!("{}.bin", unit.key(&*self.compiler).short());
        let artifact = built.artifact().ok_or("not one artifact")?;
        let bytes = self.store.artifact(artifact).await?.ok_or("artifact gone")?;
        std::fs::write(self.folder.join(&file), bytes)?;
        let launches: Vec<Json> = built.launches.iter().map(launch).collect();
        Ok(Ok(
            json!({ "candidate": point.to_string(), "file": file, "workspace": built.workspace, "launches": launches }),
        ))
    }

    async fn problem(
        &self,
        problem: &Problem,
        target: &Target,
        wanted: Wanted,
        solvers: &[&str],
    ) -> Result<Json, Error> {
        for bundle in Bundle::shipped() {
            let spec = KernelSpec::load(&bundle)?;
            let Some(scope) = spec.scope(problem, target)? else { continue };
            let (buffers, tolerance) = spec.task_parts(&scope)?;
            let mut points = vec![spec.reference()];
            for solver in spec.solvers_for(&scope)? {
                if solver.is_tunable() && solvers.iter().any(|text| solver.name.contains(text)) {
                    points.extend(wanted.of(&spec, solver, &scope)?);
                }
            }
            let bundle = Arc::new(bundle);
            let made = try_join_all(points.iter().map(|point| self.case(&bundle, &spec, &scope, point))).await?;
            let (mut cases, mut refused) = (Vec::new(), Vec::new());
            for case in made {
                match case {
                    Ok(case) => cases.push(case),
                    Err(words) if cases.is_empty() => return Err(format!("the reference: {words}").into()),
                    Err(words) => refused.push(words),
                }
            }
            let buffer = |b: &bluefin_common::task::Buffer| json!({ "name": b.name, "type": b.data_type.to_string(), "length": b.length, "role": format!("{:?}", b.role).to_lowercase() });
            return Ok(json!({
                "problem": problem.label(),
                "flops": problem.flops(),
                "buffers": buffers.iter().map(buffer).collect::<Vec<_>>(),
                "tolerance": { "absolute": tolerance.absolute, "relative": tolerance.relative },
                "cases": cases,
                "refused": refused,
            }));
        }
        Err(format!("{problem}: no shipped spec for it on {target}").into())
    }
}

fn launch(launch: &bluefin_common::artifact::Launch) -> Json {
    let argument = |argument: &Argument| match argument {
        Argument::Buffer(index) => json!({ "buffer": index }),
        Argument::BufferAt { buffer, bytes } => json!({ "buffer": buffer, "bytes": bytes }),
        Argument::Workspace => json!({ "workspace": 0 }),
        Argument::WorkspaceAt(bytes) => json!({ "workspace": bytes }),
        Argument::Tensor(tensor) => json!({ "tensor": tensor }),
        Argument::Structure(structure) => json!({ "struct": structure }),
        Argument::I32(value) => json!({ "i32": value }),
        Argument::I64(value) => json!({ "i64": value }),
        Argument::F32(value) => json!({ "f32": value }),
        Argument::F64(value) => json!({ "f64": value }),
    };
    let arguments: Vec<Json> = launch.arguments.iter().map(argument).collect();
    json!({ "entry": launch.entry, "grid": launch.grid, "block": launch.block, "shared": launch.shared, "arguments": arguments })
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, target, limit] = arguments.as_slice() else {
        return Err("expected FOLDER TARGET COUNT|shapes".into());
    };
    let (folder, target, wanted) = (PathBuf::from(folder), target.parse::<Target>()?, Wanted::parse(limit)?);
    std::fs::create_dir_all(&folder)?;
    let registry = prometheus::Registry::new();
    let metrics = Metrics::register(&registry, PipelineMetrics::register(&registry)?)?;
    let store = Arc::new(SqliteStore::in_memory()?);
    let slots = std::thread::available_parallelism()?.get();
    let workshop = Workshop::new(store.clone(), slots, Limits::default(), None, metrics);
    let clang = probe("clang", &Programs::default()).await?;
    let compiler = clang.compilers().into_iter().next().ok_or("clang does not compile kernel specs")?;
    let emitter = Emitter { compiler, workshop, store, folder };
    let mut problems = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let sizes = if words.first() == Some(&"gemm") { 5 } else { 11 };
        let solvers = words.get(sizes..).unwrap_or_default();
        problems.push(emitter.problem(&problem(&words)?, &target, wanted, solvers).await?);
    }
    std::fs::write(emitter.folder.join("cases.json"), serde_json::to_string_pretty(&problems)?)?;
    Ok(())
}
