//! Limits of the sandbox, with this program as the launcher that sets them.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::failure::{Attempt, FailureKind};
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::target::Target;
use bluefin_compile_worker::toolchain::{Programs, probe};
use bluefin_compile_worker::{Limits, Metrics, Unit, Workshop, sandbox};
use bluefin_spec::{Bundle, KernelSpec};
use libtest_mimic::{Arguments, Trial};

const TESTS: [(&str, fn()); 5] = [
    ("a_compile_within_limits_succeeds", a_compile_within_limits_succeeds),
    ("memory_is_limited", memory_is_limited),
    ("artifacts_are_limited", artifacts_are_limited),
    ("the_lower_of_two_limits_stands", the_lower_of_two_limits_stands),
    (
        "a_launcher_that_cannot_start_is_not_the_candidates_fault",
        a_launcher_that_cannot_start_is_not_the_candidates_fault,
    ),
];

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "sandbox-exec") {
        let error = sandbox::exec_from_args(args.into_iter().skip(1)).expect_err("returns only with an error");
        eprintln!("{error}");
        return ExitCode::from(125);
    }
    let trial = |(name, test): (&str, fn())| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    libtest_mimic::run(&Arguments::from_args(), TESTS.into_iter().map(trial).collect()).exit_code()
}

fn launcher() -> Vec<OsString> {
    vec![std::env::current_exe().unwrap().into(), "sandbox-exec".into()]
}

/// Compiles `source`, in place of the stencil's.
fn compile(source: Option<&str>, limits: Limits, launcher: Vec<OsString>) -> Result<Attempt<u64>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut bundle = Bundle::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/stencil.toml")).unwrap();
        if let Some(source) = source {
            bundle.files.insert("stencil.c".to_string(), source.to_string());
        }
        let spec = KernelSpec::load(&bundle).unwrap();
        let problem = spec.problem(&spec.sizes).unwrap();
        let scope = spec.scope(&problem, &Target::Host).unwrap().unwrap();
        let build = spec.build(&spec.reference(), &scope).unwrap();
        let compiler = probe("cc", &Programs::default()).await.unwrap().compiler().unwrap();
        let unit = Unit::new(&*compiler, "host", Arc::new(bundle), &spec, build);
        let registry = prometheus::Registry::new();
        let metrics = Metrics::register(&registry, PipelineMetrics::register(&registry).unwrap()).unwrap();
        let store = Arc::new(SqliteStore::in_memory().unwrap());
        let workshop = Workshop::new(store, 1, limits, Some(launcher), metrics);
        let built = workshop.compile(&*compiler, &unit).await.map_err(|error| {
            assert!(error.is_transient(), "{error}");
            error.to_string()
        })?;
        Ok(built.map(|built| built.artifact().unwrap().size))
    })
}

fn a_compile_within_limits_succeeds() {
    let limits = Limits { cpus: vec![0], ..Limits::default() };
    let size = compile(None, limits, launcher()).unwrap().unwrap();
    assert!((1000..100_000).contains(&size), "{size}");
}

fn memory_is_limited() {
    let limits = Limits { memory_bytes: 200 << 20, ..Limits::default() };
    // 10^8 numbers, of which the compiler keeps each.
    let mut source = String::from("#define A0 1,\n");
    for level in 1..=8 {
        source.push_str(&format!("#define A{level} {}\n", format!("A{} ", level - 1).repeat(10)));
    }
    source.push_str("int x[] = { A8 };\n");
    let failure = compile(Some(&source), limits, launcher()).unwrap().expect_err("more than 200 MiB");
    assert_eq!(failure.kind, FailureKind::CompileCrash, "{}", failure.detail);
    assert!(failure.detail.contains("memory"), "{}", failure.detail);
}

fn artifacts_are_limited() {
    let limits = Limits { file_bytes: 4096, ..Limits::default() };
    let failure = compile(None, limits, launcher()).unwrap().expect_err("more than 4 KiB");
    assert_eq!(failure.kind, FailureKind::CompileCrash, "{}", failure.detail);
}

/// As batch systems set hard limits, which nobody else may raise.
fn the_lower_of_two_limits_stands() {
    let mut asked = sandbox::SandboxLimits::default();
    (asked.cpu_seconds, asked.memory_bytes, asked.file_bytes) = (Some(60), Some(4 << 30), Some(64 << 20));
    let limits = |set: &[&str]| {
        let mut limited = Command::new("prlimit");
        limited.args(set).args(launcher()).args(asked.to_args());
        // Of one user, also where root runs the tests: root may raise hard limits.
        let mut user = Command::new("setpriv");
        user.args(["--bounding-set=-sys_resource", "--inh-caps=-sys_resource", "--"]);
        user.arg(limited.get_program()).args(limited.get_args());
        let root = rustix::process::geteuid().is_root();
        let command = if root { &mut user } else { &mut limited };
        let output = command.args(["cat", "/proc/self/limits"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        let found = ["Max cpu time", "Max address space", "Max file size"].map(|name| {
            let line = said.lines().find(|line| line.starts_with(name)).unwrap();
            let mut words = line.trim_start_matches(name).split_whitespace().map(|word| word.parse::<u64>().ok());
            (words.next().unwrap(), words.next().unwrap())
        });
        assert!(found.iter().all(|(soft, hard)| soft == hard), "{said}");
        found.map(|(soft, _)| soft.unwrap())
    };
    assert_eq!(limits(&[]), [60, 4 << 30, 64 << 20]);
    assert_eq!(limits(&["--cpu=50", "--as=2000000000", "--fsize=1000000"]), [50, 2_000_000_000, 1_000_000]);
    // One that is higher changes nothing.
    assert_eq!(limits(&["--cpu=90", "--as=5000000000", "--fsize=99999999"]), [60, 4 << 30, 64 << 20]);
}

fn a_launcher_that_cannot_start_is_not_the_candidates_fault() {
    let missing = vec![OsString::from("/nonexistent/bluefin"), "sandbox-exec".into()];
    assert!(compile(None, Limits::default(), missing).unwrap_err().contains("/nonexistent/bluefin"));
    // A worker that is killed takes its compilers along: the launcher's child dies with it.
    let started = Instant::now();
    let mut child = Command::new("sh")
        .args(["-c", "\"$0\" sandbox-exec --cpu-seconds 60 -- sh -c 'echo $$; exec sleep 60' & sleep 0.3; kill -9 $$"])
        .arg(std::env::current_exe().unwrap())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Ends when the last one that holds it is gone.
    let mut pid = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut pid).unwrap();
    child.wait().unwrap();
    assert!(!pid.trim().is_empty() && started.elapsed() < Duration::from_secs(30), "{pid:?} {:?}", started.elapsed());
}
