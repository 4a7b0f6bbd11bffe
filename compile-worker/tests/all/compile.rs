//! Real compiles: what ships, what is cached, what is shared, what fails.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::artifact::{ArtifactRef, Built};
use bluefin_common::candidate::Candidate;
use bluefin_common::digest::Digest;
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::problem::{ConvProblem, ConvShape, DataType, Direction, GemmProblem, Problem};
use bluefin_common::store::Artifacts as _;
use bluefin_common::target::Target;
use bluefin_compile_worker::toolchain::{Programs, probe};
use bluefin_compile_worker::{Compiler, Error, Limits, Metrics, Unit, Workshop};
use bluefin_kernel_spec::{Bundle, KernelSpec};
use bluefin_test_support::{left_out, patience};

struct Bench {
    store: Arc<SqliteStore>,
    compiler: Arc<dyn Compiler>,
    workshop: Workshop,
    metrics: Metrics,
}

impl Bench {
    fn compiler(&self) -> &dyn Compiler {
        &*self.compiler
    }

    async fn build(&self, unit: &Unit) -> Attempt<Built> {
        self.workshop.compile(self.compiler(), unit).await.unwrap()
    }

    async fn compile(&self, unit: &Unit) -> Attempt<ArtifactRef> {
        self.build(unit).await.map(|built| built.artifact().unwrap())
    }
}

fn bench(compiler: Arc<dyn Compiler>, limits: Limits) -> Bench {
    bench_with(compiler, limits, Arc::new(SqliteStore::in_memory().unwrap()))
}

fn bench_with(compiler: Arc<dyn Compiler>, limits: Limits, store: Arc<SqliteStore>) -> Bench {
    let registry = prometheus::Registry::new();
    let metrics = Metrics::register(&registry, PipelineMetrics::register(&registry).unwrap()).unwrap();
    let workshop = Workshop::new(store.clone(), 2, limits, None, metrics.clone());
    Bench { store, compiler, workshop, metrics }
}

async fn found(name: &str) -> Result<Arc<dyn Compiler>, Error> {
    Ok(probe(name, &Programs::default()).await?.compilers().remove(0))
}

async fn cc() -> Arc<dyn Compiler> {
    found("cc").await.unwrap()
}

fn stencil() -> Bundle {
    Bundle::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/stencil.toml")).unwrap()
}

fn unit(
    compiler: &dyn Compiler,
    bundle: &Bundle,
    problem: &Problem,
    target: &Target,
    candidate: Option<&Candidate>,
) -> Option<Unit> {
    let spec = KernelSpec::load(bundle).unwrap();
    let scope = spec.scope(problem, target).unwrap()?;
    let reference = spec.reference();
    let build = spec.build(candidate.unwrap_or(&reference), &scope).unwrap();
    Some(Unit::new(compiler, target.arch(), Arc::new(bundle.clone()), &spec, build))
}

fn stencil_unit(compiler: &dyn Compiler, bundle: &Bundle) -> Unit {
    let spec = KernelSpec::load(bundle).unwrap();
    unit(compiler, bundle, &spec.problem(&BTreeMap::new()).unwrap(), &Target::Host, None).unwrap()
}

/// The stencil with another source.
fn source(text: &str) -> Bundle {
    let mut bundle = stencil();
    bundle.files.insert("stencil.c".to_string(), text.to_string());
    bundle
}

async fn compile_source(limits: Limits, text: &str) -> (Attempt<ArtifactRef>, Bench) {
    let bench = bench(cc().await, limits);
    let unit = stencil_unit(bench.compiler(), &source(text));
    (bench.compile(&unit).await, bench)
}

#[tokio::test]
async fn equal_units_give_equal_bytes_and_the_second_is_not_compiled() {
    let first = bench(cc().await, Limits::default());
    let unit = stencil_unit(first.compiler(), &stencil());
    let artifact = first.compile(&unit).await.unwrap();
    let bytes = first.store.artifact(artifact).await.unwrap().unwrap();
    assert!(bytes.starts_with(b"\x7fELF"));
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("bluefin_launch_0") && !text.contains("/tmp"), "exports the launch, holds no path");

    assert_eq!(first.compile(&unit).await.unwrap(), artifact);
    assert_eq!(first.metrics.compiled().0, 1, "the second was in the cache");
    let elsewhere = bench(cc().await, Limits::default());
    assert_eq!(elsewhere.compile(&unit).await.unwrap(), artifact, "the same bytes");
    assert_eq!(elsewhere.metrics.compiled().0, 1);
}

#[tokio::test]
async fn an_evicted_artifact_is_compiled_again() {
    // Room for the artifact or for what follows. What is stored is compressed, so what follows is noise.
    let store = Arc::new(SqliteStore::in_memory().unwrap().with_cache_limit(20 << 10));
    let bench = bench_with(cc().await, Limits::default(), store);
    let unit = stencil_unit(bench.compiler(), &stencil());
    let artifact = bench.compile(&unit).await.unwrap();
    let noise: Vec<u8> = (0..600_u32).flat_map(|index| Digest::of(&index.to_le_bytes()).0).collect();
    bench.store.put_artifact(&noise).await.unwrap();
    assert!(!bench.store.has_artifact(artifact).await.unwrap(), "evicted");
    // This worker saw it there a moment ago; others look.
    let bench = bench_with(cc().await, Limits::default(), bench.store);
    assert_eq!(bench.compile(&unit).await.unwrap(), artifact);
    assert_eq!(bench.metrics.compiled().0, 1);
    assert!(bench.store.has_artifact(artifact).await.unwrap());
}

#[tokio::test]
async fn equal_units_in_flight_are_compiled_once() {
    let bench = bench(cc().await, Limits::default());
    let unit = stencil_unit(bench.compiler(), &stencil());
    let all = futures_util::future::join_all((0..20).map(|_| bench.compile(&unit))).await;
    let artifacts: Vec<ArtifactRef> = all.into_iter().map(Result::unwrap).collect();
    assert!(artifacts.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(bench.metrics.compiled().0, 1);
}

#[tokio::test]
async fn everything_that_shapes_an_artifact_is_in_its_key() {
    let compiler = cc().await;
    let key = |bundle: &Bundle| stencil_unit(&*compiler, bundle).key(&*compiler);
    let plain = stencil();
    let mut keys = vec![key(&plain), key(&source("// another"))];
    for (from, to) in [
        ("\"-O3\"", "\"-O2\""),
        ("entry = \"stencil_reference\"", "entry = \"another\""),
        (
            "arguments = [\"now\", \"next\", { i64 = \"height\" }",
            "arguments = [\"now\", \"next\", { i32 = \"height\" }",
        ),
        ("algorithm = \"Direct\"", "algorithm = \"Direct\"\ndefines = { A = 1 }"),
        ("algorithm = \"Direct\"", "algorithm = \"Direct\"\ndefines = { A = 2 }"),
    ] {
        assert!(plain.toml.contains(from));
        keys.push(key(&Bundle { toml: plain.toml.replacen(from, to, 1), ..plain.clone() }));
    }
    let mut included = plain.clone();
    included.toml = included.toml.replacen("flags", "includes = [\"a.h\"]\nflags", 1);
    included.files.insert("a.h".to_string(), String::new());
    keys.push(key(&included));
    keys.push(stencil_unit(&*compiler, &plain).key(&*found("noop").await.unwrap()));
    let count = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), count);
    let renamed =
        Bundle { toml: plain.toml.replacen("[tolerance.FP32]", "[tolerance.FP32] # another", 1), ..plain.clone() };
    assert_eq!(key(&renamed), key(&plain), "what does not reach the compiler is not");
}

#[tokio::test]
async fn a_source_that_does_not_compile_is_remembered() {
    let (made, bench) = compile_source(Limits::default(), "int x = ;\n").await;
    let failure = made.expect_err("no C");
    assert_eq!(failure.kind, FailureKind::CompileError);
    assert!(failure.detail.contains("stencil.c:1:9: error") && !failure.detail.contains("/tmp"), "{}", failure.detail);
    let unit = stencil_unit(bench.compiler(), &source("int x = ;\n"));
    assert_eq!(bench.compile(&unit).await.expect_err("no C"), failure);
    assert_eq!(bench.metrics.compiled().0, 1);
}

#[tokio::test]
async fn launches_are_checked_against_the_source() {
    let (made, _) = compile_source(Limits::default(), "void stencil_reference(float *a) { }\n").await;
    assert!(made.expect_err("arguments").detail.contains("too many arguments to function"));
    let (made, _) = compile_source(Limits::default(), "void other(float *a) { }\n").await;
    assert!(made.expect_err("entry").detail.contains("stencil_reference"));
}

#[tokio::test]
async fn a_compile_that_does_not_end_is_killed() {
    let limits = Limits { time: Duration::from_secs(1), ..Limits::default() };
    let started = Instant::now();
    let (made, bench) = compile_source(limits, "#include \"/dev/tty\"\n#include \"/dev/zero\"\n").await;
    let endless = made.as_ref().is_err_and(|failure| failure.kind == FailureKind::CompileTimeout);
    if !endless {
        // Where the compiler refuses devices, macros keep it busy: 10^8 tokens.
        let mut text = String::from("#define A0 1,\n");
        for level in 1..=12 {
            text.push_str(&format!("#define A{level} {}\n", format!("A{} ", level - 1).repeat(10)));
        }
        text.push_str("int x[] = { A12 };\n");
        let unit = stencil_unit(bench.compiler(), &source(&text));
        let failure = bench.compile(&unit).await.expect_err("endless");
        assert_eq!(failure.kind, FailureKind::CompileTimeout, "{}", failure.detail);
        assert_eq!(bench.store.compiled(unit.key(bench.compiler())).await.unwrap(), None, "may go well elsewhere");
    }
    assert!(started.elapsed() < patience(Duration::from_secs(20)));
}

#[tokio::test]
async fn output_is_bounded() {
    let mut text = String::new();
    for line in 0..2000 {
        text.push_str(&format!("#error number {line} {}\n", "x".repeat(100)));
    }
    let (made, _) = compile_source(Limits::default(), &text).await;
    let failure = made.expect_err("errors");
    assert_eq!(failure.kind, FailureKind::CompileError);
    assert!(failure.detail.len() <= Failure::MAX_DETAIL && failure.detail.contains("number 0"));
}

fn sample(spec: &KernelSpec) -> Vec<Problem> {
    match spec.problem.as_str() {
        "conv" => Direction::ALL
            .into_iter()
            .flat_map(|direction| {
                [DataType::Fp32, DataType::Fp16, DataType::Bf16].map(|data_type| (data_type, direction))
            })
            .map(|(data_type, direction)| {
                let shape = ConvShape {
                    n: 2,
                    c: 16,
                    k: 32,
                    input: [1, 14, 14],
                    filter: [1, 3, 3],
                    pad: [0, 1, 1],
                    ..ConvShape::plain(direction, data_type)
                };
                Problem::Conv(ConvProblem::new(shape).unwrap())
            })
            .collect(),
        "gemm" => [DataType::Fp32, DataType::Fp16, DataType::Bf16]
            .map(|data_type| Problem::Gemm(GemmProblem::plain([256; 3], data_type)))
            .to_vec(),
        _ => vec![spec.problem(&BTreeMap::new()).unwrap()],
    }
}

/// What an AMD code object's metadata says of registers that are spilled to memory.
fn spills(code: &[u8]) -> Vec<String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(code).unwrap();
    let tool = |name: &&str| Command::new(name).arg("-n").arg(file.path()).output().ok();
    let Some(notes) = ["llvm-readelf-19", "llvm-readelf", "/opt/rocm/llvm/bin/llvm-readelf"].iter().find_map(tool)
    else {
        left_out("no llvm-readelf to look for spills with");
        return Vec::new();
    };
    let text = String::from_utf8(notes.stdout).unwrap();
    let counts: Vec<&str> = text.lines().filter(|line| line.contains("spill_count:")).collect();
    assert!(!counts.is_empty(), "no metadata of kernels");
    counts.into_iter().filter(|line| !line.ends_with(" 0")).map(str::to_string).collect()
}

/// Compiles the reference and the default of every solver of every shipped spec of `compiler`'s toolchain.
async fn compile_shipped(compiler: Arc<dyn Compiler>, target: &str) {
    let bench = bench(compiler, Limits::default());
    let target: Target = target.parse().unwrap();
    for bundle in Bundle::shipped().into_iter().chain([stencil()]) {
        let spec = KernelSpec::load(&bundle).unwrap();
        if spec.toolchain != bench.compiler().name() {
            continue;
        }
        for problem in sample(&spec) {
            let Some(scope) = spec.scope(&problem, &target).unwrap() else { continue };
            for solver in spec.solvers_for(&scope).unwrap() {
                let candidate = solver.default_candidate();
                let unit = unit(bench.compiler(), &bundle, &problem, &target, Some(&candidate)).unwrap();
                let made = bench.compile(&unit).await;
                let artifact =
                    made.unwrap_or_else(|failure| panic!("{candidate} {target} {problem}: {}", failure.detail));
                if target.arch().starts_with("gfx") {
                    let code = bench.store.artifact(artifact).await.unwrap().unwrap();
                    assert_eq!(spills(&code), [""; 0], "{candidate} {target} {problem}");
                }
            }
        }
    }
    let (count, took) = bench.metrics.compiled();
    println!("{count} compiles, {:.2} s each", took.as_secs_f64() / count.max(1) as f64);
    assert!(count >= 4);
}

/// The numbers on the first line of a PTX file that begins with `word`, and how many such lines there are.
fn numbers(ptx: &str, word: &str) -> (Vec<u32>, usize) {
    let mut lines = ptx.lines().filter_map(|line| line.trim().strip_prefix(word));
    let first = lines.next().unwrap_or_default();
    let found = first.split(|c: char| !c.is_ascii_digit()).filter_map(|text| text.parse().ok()).collect();
    (found, usize::from(!first.is_empty()) + lines.count())
}

/// What the warpgroups of a block ask for, with one of them giving registers away and the others taking them, is there:
/// a block begins with as many as 64 Ki divided among its threads, in eights, leave to each.
#[tokio::test]
async fn no_warpgroup_waits_for_registers_that_nobody_gives() {
    let clang = match found("clang").await {
        Ok(clang) if !clang.identity().starts_with("nvcc") => clang,
        _ => return left_out("no clang to make PTX with"),
    };
    let bench = bench(clang, Limits::default());
    let target: Target = "sm_90-132".parse().unwrap();
    let mut solvers = 0;
    for bundle in Bundle::shipped() {
        let spec = KernelSpec::load(&bundle).unwrap();
        let shape =
            |direction| ConvShape { c: 64, k: 64, input: [1, 16, 16], ..ConvShape::plain(direction, DataType::Fp16) };
        let pointwise = Direction::ALL.map(|direction| Problem::Conv(ConvProblem::new(shape(direction)).unwrap()));
        for problem in sample(&spec).into_iter().chain(pointwise) {
            let Some(scope) = spec.scope(&problem, &target).unwrap() else { continue };
            for solver in spec.solvers_for(&scope).unwrap().into_iter().filter(|s| s.name.ends_with("TensorCopy")) {
                solvers += 1;
                let mut sizes = BTreeMap::new();
                for point in spec.candidates(solver, &scope, usize::MAX).unwrap().points {
                    let threads = spec.build(&point, &scope).unwrap().launches[0].block[0];
                    sizes.entry(threads).or_insert(point);
                }
                assert_eq!(sizes.keys().collect::<Vec<_>>(), [&256, &384, &512, &640], "{}", solver.name);
                for (threads, point) in sizes {
                    let unit = unit(bench.compiler(), &bundle, &problem, &target, Some(&point)).unwrap();
                    let artifact = bench.compile(&unit).await.unwrap();
                    let ptx = bench.store.artifact(artifact).await.unwrap().unwrap();
                    let ptx = String::from_utf8_lossy(&ptx);
                    assert_eq!(numbers(&ptx, ".maxntid").0.first(), Some(&threads), "{point}");
                    // Without it the compiler leaves the numbers of registers as they are.
                    assert_eq!(numbers(&ptx, ".minnctapersm").0, [1], "{point}");
                    let (kept, givers) = numbers(&ptx, "setmaxnreg.dec.sync.aligned.u32");
                    let (taken, takers) = numbers(&ptx, "setmaxnreg.inc.sync.aligned.u32");
                    if threads == 256 {
                        assert_eq!((givers, takers), (0, 0), "{point}: every thread can have what there is");
                        continue;
                    }
                    assert_eq!((givers, takers), (1, 1), "{point}");
                    let (groups, first) = (threads / 128, 65536 / threads / 8 * 8);
                    let asked = kept[0] + (groups - 1) * taken[0];
                    assert!(kept[0] <= first && first <= taken[0] && taken[0] <= 256, "{point}: {kept:?} {taken:?}");
                    assert!(kept[0] % 8 == 0 && taken[0] % 8 == 0, "{point}: {kept:?} {taken:?}");
                    assert!(asked <= groups * first, "{point}: {asked} of {}", groups * first);
                }
            }
        }
    }
    // GEMM in FP16 and BF16, and a convolution in two directions.
    assert_eq!(solvers, 4);
}

#[tokio::test]
async fn shipped_host_kernels_compile() {
    compile_shipped(cc().await, "host").await;
}

/// One architecture a test, since each takes a while and they can be waited for together.
async fn compile_shipped_for(target: &str) {
    match found("clang").await {
        Ok(compiler) if compiler.refusal(target.parse::<Target>().unwrap().arch()).is_none() => {
            compile_shipped(compiler, target).await;
        }
        Ok(compiler) => left_out(&format!("{} does not serve {target}", compiler.identity())),
        Err(error) => left_out(&error.to_string()),
    }
}

#[tokio::test]
async fn shipped_kernels_compile_for_gfx906() {
    compile_shipped_for("gfx906-60").await;
}

#[tokio::test]
async fn shipped_kernels_compile_for_gfx90a() {
    compile_shipped_for("gfx90a-104").await;
}

#[tokio::test]
async fn shipped_kernels_compile_for_gfx942() {
    compile_shipped_for("gfx942-304").await;
}

#[tokio::test]
async fn shipped_kernels_compile_for_gfx1100() {
    compile_shipped_for("gfx1100-48").await;
}

#[tokio::test]
async fn shipped_kernels_compile_for_gfx1201() {
    compile_shipped_for("gfx1201-32").await;
}

#[tokio::test]
async fn shipped_kernels_compile_for_sm_75() {
    compile_shipped_for("sm_75-40").await;
}

#[tokio::test]
async fn shipped_kernels_compile_for_sm_80() {
    compile_shipped_for("sm_80-108").await;
}

#[tokio::test]
async fn shipped_kernels_compile_for_sm_90() {
    compile_shipped_for("sm_90-132").await;
}
