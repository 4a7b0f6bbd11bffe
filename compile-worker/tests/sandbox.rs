//! Limits of the sandbox, with this program as the launcher that sets them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::broker::Broker as _;
use bluefin_common::campaign;
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::job::Job;
use bluefin_common::lane::Lane;
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::session::{Session, Stage};
use bluefin_common::store::{Blobs as _, Sessions as _};
use bluefin_common::target::Target;
use bluefin_compile_worker::toolchain::triton::Triton;
use bluefin_compile_worker::toolchain::{Programs, probe};
use bluefin_compile_worker::{Compiler as _, Config, Limits, Metrics, Unit, Workshop, run, sandbox};
use bluefin_kernel_spec::{Bundle, KernelSpec};
use bluefin_test_support::patience;
use libtest_mimic::{Arguments, Trial};
use tokio_util::sync::CancellationToken;

const TESTS: [(&str, fn()); 14] = [
    (
        "what_a_source_puts_in_the_place_of_a_code_object_is_not_read",
        what_a_source_puts_in_the_place_of_a_code_object_is_not_read,
    ),
    ("an_answer_that_makes_no_sense_is_its_jobs_failure", an_answer_that_makes_no_sense_is_its_jobs_failure),
    (
        "what_a_compiler_says_is_read_from_no_file_and_has_no_secret",
        what_a_compiler_says_is_read_from_no_file_and_has_no_secret,
    ),
    ("a_source_reaches_no_network_and_no_other_process", a_source_reaches_no_network_and_no_other_process),
    ("cpu_time_is_limited_and_says_so", cpu_time_is_limited_and_says_so),
    ("a_compiler_reads_its_own_files_and_those_of_the_system", a_compiler_reads_its_own_files_and_those_of_the_system),
    ("a_compiler_writes_where_it_works_and_has_no_network", a_compiler_writes_where_it_works_and_has_no_network),
    ("a_compiler_that_needs_other_files_is_not_confined", a_compiler_that_needs_other_files_is_not_confined),
    ("what_a_killed_worker_left_is_swept_and_nothing_else", what_a_killed_worker_left_is_swept_and_nothing_else),
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
    match args.first().and_then(|arg| arg.to_str()) {
        Some("a-worker") => return a_worker(),
        Some("a-compile") => {
            let _ = compile(Some(&endless()), Limits::default(), launcher());
            return ExitCode::SUCCESS;
        }
        _ => {}
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
        let compiler = probe("cc", &Programs::default()).await.unwrap().compilers().remove(0);
        let unit = Unit::new(&*compiler, "host", Arc::new(bundle), &spec, build);
        let registry = prometheus::Registry::new();
        let metrics = Metrics::register(&registry, PipelineMetrics::register(&registry).unwrap()).unwrap();
        let store = Arc::new(SqliteStore::in_memory().unwrap());
        let workshop = Workshop::new(store, 1, limits, Some(launcher), metrics);
        let built = workshop.compile(&*compiler, &unit).await.map_err(|error| {
            assert!(error.is_of_machine(), "{error}");
            error.to_string()
        })?;
        Ok(built.map(|built| built.artifact().unwrap().size))
    })
}

/// 10^8 numbers, of which the compiler keeps each.
fn endless() -> String {
    let mut source = String::from("#define A0 1,\n");
    for level in 1..=8 {
        source.push_str(&format!("#define A{level} {}\n", format!("A{} ", level - 1).repeat(10)));
    }
    source.push_str("int x[] = { A8 };\n");
    source
}

fn a_compile_within_limits_succeeds() {
    let limits = Limits { cpus: vec![0], ..Limits::default() };
    let size = compile(None, limits, launcher()).unwrap().unwrap();
    assert!((1000..100_000).contains(&size), "{size}");
}

fn memory_is_limited() {
    let limits = Limits { memory_bytes: 200 << 20, ..Limits::default() };
    let failure = compile(Some(&endless()), limits, launcher()).unwrap().expect_err("more than 200 MiB");
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
        let [(cpu, last), memory, file] = found;
        // Below the hard limit, at which the kernel kills without a word.
        assert!(cpu < last && memory.0 == memory.1 && file.0 == file.1, "{said}");
        [cpu, memory.0, file.0].map(Option::unwrap)
    };
    assert_eq!(limits(&[]), [60, 4 << 30, 64 << 20]);
    assert_eq!(limits(&["--cpu=50", "--as=2000000000", "--fsize=1000000"]), [49, 2_000_000_000, 1_000_000]);
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
    assert!(
        !pid.trim().is_empty() && started.elapsed() < patience(Duration::from_secs(30)),
        "{pid:?} {:?}",
        started.elapsed()
    );
}

/// At the limit the kernel sends the signal that says so, and not the one that everybody may have sent.
fn cpu_time_is_limited_and_says_so() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["sandbox-exec", "--cpu-seconds", "1", "--", "sh", "-c", "while :; do :; done"]);
    let status = command.status().unwrap();
    assert_eq!(status.signal(), Some(rustix::process::Signal::XCPU.as_raw()), "{status}");
}

/// Runs `script` in `folder`, confined.
fn confined(folder: &Path, script: &str) -> std::process::Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["sandbox-exec", "--readable", "/nowhere", "--", "bash", "-c", script]).current_dir(folder);
    command.output().unwrap()
}

/// In the place of a Python with Triton: runs a kernel's file in its own process, as Triton does, but has bash for it.
const TRITON: &str = r#"#!/bin/bash
[ "$1" = -c ] && exit 0
answer() { echo "{\"kernels\":[{\"file\":\"${1:-kernel0}\",\"entry\":\"f\",\"threads\":64,\"shared\":0,\"arguments\":[],\"scratch\":[${2:-0,0}]}]}"; }
echo '{"triton":"3","python":"3.12","folders":[]}'
while read -r request; do
  case "$request" in
    *trial.py*) echo code > kernel0; answer ;;
    *) . src/softmax.py ;;
  esac
done
"#;

/// What comes of a kernel whose file has the `attack` in it; the same compiler has to compile what it always does behind it.
fn attacked(attack: &str, limits: Limits) -> Failure {
    let bin = tempfile::tempdir().unwrap();
    let python = bin.path().join("python");
    std::fs::write(&python, TRITON).unwrap();
    std::fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut bundle = Bundle::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/softmax.toml")).unwrap();
        bundle.files.insert("softmax.py".to_string(), attack.to_string());
        let spec = KernelSpec::load(&bundle).unwrap();
        let target = "gfx90a-104".parse().unwrap();
        let scope = spec.scope(&spec.problem(&spec.sizes).unwrap(), &target).unwrap().unwrap();
        let build = spec.build(&spec.reference(), &scope).unwrap();
        // A child of another test may have the file open for writing until it is another program.
        let again = |_| Triton::at(&python).inspect_err(|_| std::thread::sleep(Duration::from_millis(50))).ok();
        let triton = (0..40).find_map(again).unwrap();
        let unit = Unit::new(&triton, target.arch(), Arc::new(bundle), &spec, build);
        let registry = prometheus::Registry::new();
        let metrics = Metrics::register(&registry, PipelineMetrics::register(&registry).unwrap()).unwrap();
        let store = Arc::new(SqliteStore::in_memory().unwrap());
        let workshop = Workshop::new(store.clone(), 1, Limits { confine: true, ..limits }, Some(launcher()), metrics);
        triton.try_out(&workshop).await.unwrap();
        let failure =
            workshop.compile(&triton, &unit).await.unwrap_or_else(|error| panic!("{attack}: the machine's: {error}"));
        let failure = failure.err().unwrap_or_else(|| panic!("{attack}: compiled"));
        triton.try_out(&workshop).await.unwrap();
        failure
    })
}

fn what_a_source_puts_in_the_place_of_a_code_object_is_not_read() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "the word is swordfish").unwrap();
    let link = format!("ln -s {} kernel0; answer", secret.path().display());
    for (attack, found) in [
        ("rm -f kernel0; ln -s /proc/self/environ kernel0; answer", "kernel0: found a link"),
        (link.as_str(), "kernel0: found a link"),
        ("ln -s /dev/zero kernel0; answer", "kernel0: found a link"),
        ("mkfifo kernel0; answer", "kernel0: found a FIFO"),
        ("mkdir kernel0; answer", "kernel0: found a folder"),
        ("answer", "kernel0: not there"),
        ("answer ../../etc/passwd", "makes no sense"),
        ("ln -s /proc/self here; answer here/environ", "makes no sense"),
        ("echo x > a_name_that_no_archive_takes; answer a_name_that_no_archive_takes", "makes no sense"),
    ] {
        let failure = attacked(attack, Limits::default());
        assert!(failure.detail.contains(found), "{attack}: {}", failure.detail);
        assert_eq!(failure.kind, FailureKind::CompileCrash, "{attack}: {}", failure.detail);
    }
}

fn an_answer_that_makes_no_sense_is_its_jobs_failure() {
    for attack in [
        "echo garbage",
        "printf '\\377\\376\\n'",
        "head -c 2000000 /dev/zero",
        // So much scratch memory for a block, and so many pointers.
        "echo x > kernel0; answer kernel0 4294967295",
        "echo x > kernel0; answer kernel0 0$(printf ',0%.0s' {1..40})",
    ] {
        let failure = attacked(attack, Limits::default());
        assert_eq!(failure.kind, FailureKind::CompileCrash, "{attack}: {}", failure.detail);
        assert!(failure.detail.contains("makes no sense"), "{attack}: {}", failure.detail);
    }
    let slow = attacked("while :; do :; done", Limits { time: Duration::from_secs(3), ..Limits::default() });
    assert_eq!(slow.kind, FailureKind::CompileTimeout);
}

fn what_a_compiler_says_is_read_from_no_file_and_has_no_secret() {
    let says = "for name in said.txt stderr; do rm -f $name; ln -s /proc/self/environ $name; done; \
                echo 'lost amqp://me:hunter2@host/ of /path' >&2; exit 1";
    let failure = attacked(says, Limits::default());
    assert_eq!(failure.detail, "lost amqp://me:***@host/ of /path\n");
    // And what it answers.
    let refused = attacked("echo '{\"error\":\"lost redis://:hunter2@host\"}'", Limits::default());
    assert_eq!(refused.detail, "lost redis://:***@host");
}

fn a_source_reaches_no_network_and_no_other_process() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let port = socket.local_addr().unwrap().port();
    let own = std::process::id();
    let attack = format!(
        "(echo secret > /dev/udp/127.0.0.1/{port}) 2>/dev/null && echo sent >&2
         (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo connected >&2
         kill -0 {own} 2>/dev/null && echo signalled >&2
         cat /proc/{own}/environ /proc/{own}/cmdline 2>/dev/null && echo read >&2
         setsid true 2>/dev/null && echo left >&2
         unshare -U true 2>/dev/null && echo became root >&2
         echo over >&2; exit 1"
    );
    assert_eq!(attacked(&attack, Limits::default()).detail, "over\n");
    let received = socket.recv(&mut [0; 16]).unwrap_err();
    assert_eq!(received.kind(), std::io::ErrorKind::WouldBlock);
    // What is to be prevented.
    let sent = Command::new("bash").args(["-c", &format!("echo x > /dev/udp/127.0.0.1/{port}")]).status().unwrap();
    assert!(sent.success() && socket.recv(&mut [0; 16]).is_ok());
}

/// Whether this kernel has Landlock, as far as the sandbox knows: without it nothing is confined.
fn has_landlock(folder: &Path) -> bool {
    let has = !confined(folder, "cat /etc/passwd").status.success();
    if !has {
        bluefin_test_support::left_out_for_hardware("a kernel with Landlock");
    }
    has
}

fn a_compiler_reads_its_own_files_and_those_of_the_system() {
    let private = tempfile::tempdir().unwrap();
    let secret = private.path().join("secret.h");
    std::fs::write(&secret, "the word is swordfish\n").unwrap();
    let included = |path: &Path, confine| {
        let source = format!("#include <stdio.h>\n#include \"{}\"\n", path.display());
        let limits = Limits { confine, ..Limits::default() };
        compile(Some(&source), limits, launcher()).unwrap().expect_err("no C")
    };
    assert!(included(&secret, false).detail.contains("swordfish"), "what is to be prevented");
    if !has_landlock(private.path()) {
        return;
    }
    for path in [&secret, Path::new("/etc/passwd"), Path::new("/proc/self/environ"), Path::new("/proc/1/cmdline")] {
        let failure = included(path, true);
        assert_eq!(failure.kind, FailureKind::CompileError, "{}", failure.detail);
        assert!(failure.detail.contains("Permission denied"), "{}: {}", path.display(), failure.detail);
        assert!(!failure.detail.contains("swordfish") && !failure.detail.contains("root:"), "{}", failure.detail);
    }
    let limits = Limits { confine: true, ..Limits::default() };
    compile(None, limits, launcher()).unwrap().expect("its headers, its assembler and its linker are there");
}

fn a_compiler_writes_where_it_works_and_has_no_network() {
    let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    if !has_landlock(own.path()) {
        return;
    }
    let wrote = confined(own.path(), "mkdir a && echo x > a/b && mv a/b c && rm c && echo y > /dev/null && echo z > d");
    assert!(wrote.status.success(), "{}", String::from_utf8_lossy(&wrote.stderr));
    assert!(own.path().join("d").exists());
    let file = other.path().join("file");
    assert!(!confined(own.path(), &format!("echo x > {}", file.display())).status.success() && !file.exists());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{}", listener.local_addr().unwrap().port());
    assert!(Command::new("bash").args(["-c", &connect]).status().unwrap().success());
    assert!(!confined(own.path(), &connect).status.success());
}

/// A worker that sweeps, compiles a job with what BLUEFIN_CC names, and ends.
fn a_worker() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let bundle = Bundle::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/stencil.toml")).unwrap();
        let spec = KernelSpec::load(&bundle).unwrap();
        let session = Session::of_kernels("one".parse().unwrap(), Target::Host, "", &[Stage::Perf], 1);
        let job = Job {
            session: session.name.clone(),
            stage: Stage::Perf,
            target: Target::Host,
            problem: spec.problem(&spec.sizes).unwrap(),
            method: session.method,
            spec: bundle.digest().unwrap(),
            toolchain: "cc".to_string(),
            candidates: vec![spec.reference()],
            round: 0,
            lane: Lane::First,
        };
        let (broker, store) = (Arc::new(EmbeddedBroker::new()), Arc::new(SqliteStore::in_memory().unwrap()));
        store.create_session(&session).await.unwrap();
        store.put_blob(&bundle.encode().unwrap()).await.unwrap();
        campaign::publish(&*store, &*broker, &job, &[], 1).await.unwrap();
        let mut config = Config::new("one", vec![probe("cc", &Programs::default()).await.unwrap()], 1);
        config.launcher = Some(launcher());
        config.leave.after_jobs = Some(1);
        let registry = prometheus::Registry::new();
        let metrics = Metrics::register(&registry, PipelineMetrics::register(&registry).unwrap()).unwrap();
        run(config, broker.clone(), store, metrics, CancellationToken::new()).await.unwrap();
        let compiled = broker.depth(&job.eval_queue()).await.unwrap() == 1;
        if compiled { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    })
}

/// This program, as something else than a test.
fn myself(what: &str, temporary: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(what).env("TMPDIR", temporary).env("RUST_LOG", "info");
    command
}

fn a_compiler_that_needs_other_files_is_not_confined() {
    let (folder, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    if !has_landlock(folder.path()) {
        return;
    }
    let (compiler, settings) = (folder.path().join("bin/wrapped"), folder.path().join("elsewhere"));
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    std::fs::write(&settings, "").unwrap();
    let script = |reads: &str| {
        std::fs::write(&compiler, format!("#!/bin/sh\n{reads}\nexec cc \"$@\"\n")).unwrap();
        std::fs::set_permissions(&compiler, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let worked = myself("a-worker", temporary.path()).env("BLUEFIN_CC", &compiler).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&worked.stdout), String::from_utf8_lossy(&worked.stderr));
        assert!(worked.status.success(), "{said}");
        said.contains("not confined")
    };
    // What it is installed with is its own.
    assert!(!script(&format!(". {}", settings.display())));
    assert!(script("cat /etc/passwd > /dev/null || exit 1"));
}

fn what_a_killed_worker_left_is_swept_and_nothing_else() {
    let temporary = tempfile::tempdir().unwrap();
    let folders = || {
        let entries = std::fs::read_dir(temporary.path()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.to_string_lossy().contains("bluefin-compile-")).collect::<Vec<_>>()
    };
    let mut other = myself("a-compile", temporary.path()).spawn().unwrap();
    let started = Instant::now();
    let works = || folders().iter().any(|own| std::fs::read_dir(own).unwrap().count() > 1);
    while !works() {
        assert!(started.elapsed() < patience(Duration::from_secs(60)) && other.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(5));
    }
    let work = || assert!(myself("a-worker", temporary.path()).output().unwrap().status.success());
    work();
    assert_eq!(folders().len(), 1, "of one that runs");
    assert!(works());
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(folders().len(), 1, "what is to be swept");
    work();
    assert_eq!(folders().len(), 0);
}
