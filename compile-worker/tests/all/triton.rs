//! Triton kernels, compiled: with the Python that BLUEFIN_TEST_PYTHON names, as `tests/run` makes one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::archive;
use bluefin_common::artifact::{Argument, Built};
use bluefin_common::candidate::Candidate;
use bluefin_common::failure::{Attempt, FailureKind};
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::problem::DataType;
use bluefin_common::store::Artifacts as _;
use bluefin_common::target::Target;
use bluefin_compile_worker::toolchain::triton::Triton;
use bluefin_compile_worker::{Compiler as _, Error, Limits, Metrics, Unit, Workshop};
use bluefin_kernel_spec::{Bundle, KernelSpec};
use bluefin_test_support::{patience, triton_python};

const SPEC: &str = r#"
name = "scale"
problem = "kernel"
toolchain = "triton"
targets = ["gfx942", "sm_90"]
source = "scale.py"
reference = "Scale"

[sizes]
n = 1000
stride = 1

[[buffer]]
name = "x"
type = "FP32"
length = "n"
role = "input"

[[buffer]]
name = "y"
type = "FP32"
length = "n * stride"
role = "output"

[tolerance.FP32]
absolute = 0.0
relative = 0.0

[[solver]]
name = "Scale"
algorithm = "Direct"
  [[solver.param]]
  name = "BLOCK"
  values = [128, 256]
  default = 128
  [[solver.param]]
  name = "num_warps"
  values = [2, 4]
  default = 2
  [[solver.param]]
  name = "GROUP"
  values = [1, 16]
  default = 1
  bind = "argument"
  [[solver.launch]]
  entry = "scale"
  arguments = ["x", "y", { i32 = "n" }, { i32 = "stride" }, { i32 = "GROUP" }]
  grid = ["ceil_div(n, BLOCK)"]
"#;

const SOURCE: &str = "\
import triton
import triton.language as tl


@triton.jit
def scale(x, y, n, stride, group, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i * stride, tl.load(x + i, mask=i < n) * group, mask=i < n)
";

struct Bench {
    store: Arc<SqliteStore>,
    triton: Triton,
    workshop: Workshop,
}

/// Nothing on a machine without Triton.
fn bench(limits: Limits) -> Option<Bench> {
    let python = triton_python().map(PathBuf::from)?;
    let registry = prometheus::Registry::new();
    let metrics = Metrics::register(&registry, PipelineMetrics::register(&registry).unwrap()).unwrap();
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let workshop = Workshop::new(store.clone(), 2, limits, None, metrics);
    Some(Bench { store, triton: Triton::at(&python).unwrap(), workshop })
}

impl Bench {
    fn unit(&self, source: &str, target: &str, params: [i64; 3], stride: i64) -> Unit {
        self.unit_of(SPEC, source, target, params, stride)
    }

    fn unit_of(&self, spec: &str, source: &str, target: &str, params: [i64; 3], stride: i64) -> Unit {
        let bundle = Bundle {
            toml: spec.into(),
            files: BTreeMap::from([("scale.py".into(), source.into())]),
            ..Bundle::default()
        };
        let spec = KernelSpec::load(&bundle).unwrap();
        let target: Target = target.parse().unwrap();
        let sizes = BTreeMap::from([("stride".to_string(), stride.into())]);
        let scope = spec.scope(&spec.problem(&sizes).unwrap(), &target).unwrap().unwrap();
        let params = params.map(bluefin_common::value::Value::Int).to_vec();
        let build = spec.build(&Candidate { solver: "Scale".into(), params }, &scope).unwrap();
        Unit::new(&self.triton, target.arch(), Arc::new(bundle), &spec, build)
    }

    async fn build(&self, unit: &Unit) -> Attempt<Built> {
        self.workshop.compile(&self.triton, unit).await.unwrap()
    }

    async fn failure(&self, source: &str) -> (FailureKind, String) {
        let failure = self.build(&self.unit(source, "gfx942-304", [128, 2, 1], 1)).await.unwrap_err();
        (failure.kind, failure.detail)
    }
}

/// As a launch in a program gives it to both.
#[tokio::test]
async fn a_launch_option_that_the_kernel_asks_for_is_one_nevertheless() {
    let Some(bench) = bench(Limits::default()) else { return };
    let asks = SOURCE.replace("BLOCK: tl.constexpr", "BLOCK: tl.constexpr, num_warps: tl.constexpr");
    for warps in [2, 4] {
        let plain = bench.build(&bench.unit(SOURCE, "gfx942-304", [128, warps, 1], 1)).await.unwrap();
        let built = bench.build(&bench.unit(&asks, "gfx942-304", [128, warps, 1], 1)).await.unwrap();
        assert_eq!(built.launches[0].block, [64 * u32::try_from(warps).unwrap(), 1, 1]);
        assert_eq!(built.launches[0].block, plain.launches[0].block);
    }
}

#[tokio::test]
async fn launches_are_as_triton_made_the_kernel() {
    let Some(bench) = bench(Limits::default()) else { return };
    for (target, threads) in [("gfx942-304", 256), ("sm_90-132", 128)] {
        let built = bench.build(&bench.unit(SOURCE, target, [128, 4, 16], 1)).await.unwrap();
        let [launch] = built.launches.as_slice() else { panic!("{built:?}") };
        assert_eq!((launch.entry.as_str(), launch.block, launch.grid), ("scale", [threads, 1, 1], [8, 1, 1]));
        // The stride of 1 is a constant; behind the rest come Triton's two pointers to scratch memory.
        let null = Argument::I64(0);
        let expected =
            [Argument::Buffer(0), Argument::Buffer(1), Argument::I32(1000), Argument::I32(16), null.clone(), null];
        assert_eq!(launch.arguments, expected);
        let code = bench.store.artifact(built.artifact().unwrap()).await.unwrap().unwrap();
        assert!(code.starts_with(b"\x7fELF"));
    }
    // Another one is passed.
    let built = bench.build(&bench.unit(SOURCE, "gfx942-304", [128, 4, 16], 2)).await.unwrap();
    assert_eq!(built.launches[0].arguments.len(), 7);
}

/// A descriptor is what the hardware reads by itself where it can, with what Triton says of it, and a pointer with sizes elsewhere; what a
/// kernel makes of its own takes memory for each block.
#[tokio::test]
async fn descriptors_are_what_the_target_takes() {
    let Some(bench) = bench(Limits::default()) else { return };
    let spec = SPEC.replace("\"sm_90\"", "\"sm_80\", \"sm_90\"").replace(
        "arguments = [\"x\", \"y\",",
        "arguments = [{ descriptor = \"x\", shape = [\"n\"], strides = [1], block_shape = [\"BLOCK\"] }, \"y\",",
    );
    let source = SOURCE.replace("tl.load(x + i, mask=i < n)", "x.load([tl.program_id(0) * BLOCK])");
    let [null, n] = [Argument::I64(0), Argument::I32(1000)];
    // The stride of 1 is a constant, what is bound at launch is none.
    let rest = [n.clone(), Argument::I64(1), Argument::Buffer(1), n, Argument::I32(1), null.clone(), null.clone()];
    for (target, mapped) in [("gfx942-304", false), ("sm_80-108", false), ("sm_90-132", true)] {
        let built = bench.build(&bench.unit_of(&spec, &source, target, [128, 4, 1], 1)).await.unwrap();
        let arguments = &built.launches[0].arguments;
        let taken = if mapped {
            let Argument::Tensor(tensor) = arguments[0] else { panic!("{arguments:?}") };
            let map = tensor.map.unwrap();
            assert_eq!((map.element, map.size, map.block[0], map.padded), (7, 4, 128, false));
            assert_eq!((tensor.rank, tensor.shape[0], tensor.strides[0]), (1, 1000, 1));
            &arguments[1..]
        } else {
            assert_eq!(arguments[..3], [Argument::Buffer(0), Argument::I64(1000), Argument::I64(1)]);
            // What is outside is 0, and from Triton 3.7 on that nothing is rounded.
            let flags = arguments.len() - 3 - rest.len();
            assert!((1..=2).contains(&flags) && arguments[3..3 + flags].iter().all(|flag| *flag == Argument::I32(0)));
            &arguments[3 + flags..]
        };
        assert_eq!(taken, rest, "{target}");
        assert_eq!(built.workspace, 0);
    }
    let made = "tl.make_tensor_descriptor(x, [n], [1], [BLOCK]).load([tl.program_id(0) * BLOCK])";
    let source = SOURCE.replace("tl.load(x + i, mask=i < n)", made);
    let built = bench.build(&bench.unit(&source, "sm_90-132", [128, 4, 1], 1)).await.unwrap();
    let arguments = &built.launches[0].arguments;
    assert_eq!(arguments[arguments.len() - 2..], [Argument::WorkspaceAt(0), null]);
    assert!(built.workspace >= 8 * 128 && built.workspace % 8 == 0, "{}", built.workspace);
    let built = bench.build(&bench.unit(&source, "gfx942-304", [128, 4, 1], 1)).await.unwrap();
    assert_eq!(built.workspace, 0);
}

#[tokio::test]
async fn what_is_bound_at_launch_shares_what_is_compiled_and_bytes_repeat() {
    let Some(bench) = bench(Limits::default()) else { return };
    let units = [1, 16].map(|group| bench.unit(SOURCE, "gfx942-304", [256, 4, group], 1));
    assert_eq!(units[0].key(&bench.triton), units[1].key(&bench.triton));
    let built = [bench.build(&units[0]).await.unwrap(), bench.build(&units[1]).await.unwrap()];
    assert_eq!(built[0].objects[0].artifact, built[1].objects[0].artifact);
    assert_ne!(built[0].launches, built[1].launches);
    // In another process, in another folder.
    let other = self::bench(Limits::default()).unwrap();
    assert_eq!(other.build(&units[0]).await.unwrap(), built[0]);
}

#[tokio::test]
async fn a_reference_brings_the_entries_of_the_checks() {
    let Some(bench) = bench(Limits::default()) else { return };
    let unit = bench.unit(SOURCE, "gfx942-304", [128, 2, 1], 1).with_checks(&bench.triton, &[DataType::Fp32]);
    let built = bench.build(&unit).await.unwrap();
    let code = bench.store.artifact(built.artifact().unwrap()).await.unwrap().unwrap();
    let objects = archive::unpack(&code).unwrap();
    let checks = ["fill", "copy", "same", "close", "random", "range"].map(|name| format!("bluefin_{name}"));
    assert_eq!(objects.len(), 1 + checks.len());
    for entry in checks.iter().map(String::as_str).chain(["scale"]) {
        let has = |object: &&Vec<u8>| object.windows(entry.len()).any(|window| window == entry.as_bytes());
        assert_eq!(objects.iter().filter(has).count(), 1, "{entry}");
    }
    assert_eq!(built.launches.len(), 1);
}

#[tokio::test]
async fn what_is_wrong_with_a_kernel_is_said() {
    let Some(bench) = bench(Limits::default()) else { return };
    let error = FailureKind::CompileError;
    let constexpr = SOURCE.replace("BLOCK: tl.constexpr", "BLOCK: tl.constexpr, LANES: tl.constexpr");
    let fewer = SOURCE.replace("stride, group", "stride");
    let loaded = "tl.load(x + i, mask=i < n)";
    let bogus = "tl.inline_asm_elementwise('bogus $0, $1;', '=v,v', [LOADED], dtype=tl.float32, is_pure=True, pack=1)";
    let assembly = SOURCE.replace(loaded, &bogus.replace("LOADED", loaded));
    // A register of another vendor's, for which LLVM makes something: nobody knows what.
    let foreign = SOURCE.replace(loaded, &bogus.replace("=v,v", "=h,h").replace("LOADED", loaded));
    for (source, expected) in [
        ("raise ValueError(3)\n", "scale.py does not import:"),
        ("import nothing_of_that_name\n", "scale.py line 1 asks for nothing_of_that_name, which is not installed here"),
        ("from absent.kernels import scale\n", "found none\nscale.py line 1 asks for absent"),
        ("import sys\nsys.exit(0)\n", "SystemExit: 0"),
        ("def scale(x): pass\n", "scale.py: no function scale with @triton.jit, found none"),
        (&SOURCE.replace("def scale", "def other"), "no function scale with @triton.jit, found other"),
        (&SOURCE.replace("tl.load", "tl.lod"), "lod"),
        // What the assembler said of it, which no exception has.
        (&assembly, "error: invalid instruction\n        bogus "),
        (&foreign, "Triton went on without it:\nerror: could not allocate output register for constraint 'h'"),
        (&constexpr, "scale: the tl.constexpr LANES has no value: no param, no define, no default"),
        (&fewer, "scale: found 5 arguments, expected 4"),
        (&SOURCE.replace("BLOCK", "SIZE"), "BLOCK: neither a tl.constexpr of scale nor a launch option of Triton"),
    ] {
        let (kind, detail) = bench.failure(source).await;
        assert_eq!(kind, error, "{source}: {detail}");
        assert!(detail.contains(expected), "{source}: {detail}");
        assert!(!detail.contains("server.py"), "{detail}");
    }
    // A file that talks does not disturb the answers.
    let says = "    tl.static_print('error: ', BLOCK)\n    tl.store(y";
    let talks = format!("import sys\nprint('hello')\nsys.stdout = None\n{}", SOURCE.replace("    tl.store(y", says));
    bench.build(&bench.unit(&talks, "gfx942-304", [128, 2, 1], 1)).await.unwrap();
    // Whoever was refused did not harm the process.
    let (_, detail) = bench.failure(&SOURCE.replace("tl.load", "tl.lod")).await;
    assert!(detail.contains("lod"));
}

/// NumPy, which Triton imports where it is installed, starts 32 threads on a host of 32 CPUs, and there are no addresses for them.
#[tokio::test]
async fn libraries_of_numbers_start_one_thread() {
    let Some(bench) = bench(Limits::default()) else { return };
    let names = "OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS";
    let asked = format!("import os\nassert {{os.environ[name] for name in '{names}'.split()}} == {{'1'}}\n{SOURCE}");
    bench.build(&bench.unit(&asked, "gfx942-304", [128, 2, 1], 1)).await.unwrap();
}

#[tokio::test]
async fn more_shared_memory_than_there_is_fails_before_a_device() {
    let Some(bench) = bench(Limits::default()) else { return };
    let source = SOURCE.replace(
        "    tl.store(y",
        "    r = tl.arange(0, 256)[:, None]\n    u = tl.load(x + r * 128 + tl.arange(0, 128)[None, :])\n    \
         v = tl.dot(u, tl.trans(u), input_precision='ieee')\n    \
         tl.store(x + r * 256 + tl.arange(0, 256)[None, :], v)\n    tl.store(y",
    );
    let failure = bench.build(&bench.unit(&source, "gfx942-304", [128, 4, 1], 1)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::CompileError);
    assert!(failure.detail.contains("bytes of shared memory, gfx942 has 65536"), "{}", failure.detail);
}

#[tokio::test]
async fn a_process_that_ends_or_does_not_costs_its_unit_alone() {
    let Some(bench) = bench(Limits { time: Duration::from_secs(12), ..Limits::default() }) else { return };
    for (source, expected) in [
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", FailureKind::CompileCrash),
        ("import os\nos._exit(3)\n", FailureKind::CompileCrash),
        ("while True: pass\n", FailureKind::CompileTimeout),
    ] {
        let (kind, detail) = bench.failure(source).await;
        assert_eq!(kind, expected, "{source}: {detail}");
        if expected == FailureKind::CompileTimeout {
            // Another job of these minutes does not wait for it again.
            let started = Instant::now();
            assert_eq!(bench.failure(source).await, (kind, detail));
            assert!(started.elapsed() < patience(Duration::from_secs(11)));
        }
        bench.build(&bench.unit(SOURCE, "gfx942-304", [128, 2, 1], 1)).await.unwrap();
    }
    // One that somebody kills amid a compile is nobody's fault.
    let source = format!("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n{SOURCE}");
    let killed = bench.workshop.compile(&bench.triton, &bench.unit(&source, "gfx942-304", [128, 2, 1], 1)).await;
    assert!(matches!(killed, Err(Error::Unproven { .. })), "{killed:?}");
    bench.triton.try_out(&bench.workshop).await.unwrap();
}

#[test]
fn what_only_triton_has_is_checked_when_a_spec_is_loaded() {
    let load = |from: &str, to: &str| {
        assert!(SPEC.contains(from));
        let files = BTreeMap::from([("scale.py".to_string(), SOURCE.to_string())]);
        KernelSpec::load(&Bundle { toml: SPEC.replace(from, to), files, ..Bundle::default() }).unwrap_err().to_string()
    };
    for (from, to, expected) in [
        ("grid = [", "block = [64]\n  grid = [", "none of them, as Triton says how large they are"),
        ("source =", "flags = [\"-O3\"]\nsource =", "flags: found \"1 entries\", expected 0 to 0"),
        ("\"sm_90\"", "\"host\"", "only GPUs for clang and triton"),
        ("bind = \"argument\"", "bind = \"later\"", "unknown variant `later`"),
        ("source =", "specialize = [\"odd\"]\nsource =", "unknown variant `odd`"),
    ] {
        let error = load(from, to);
        assert!(error.contains(expected), "{error}");
    }
}
