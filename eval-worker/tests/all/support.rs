//! What the tests with a real child share: how it is started, and kernels in C.

pub mod blinking;
pub mod hip;
pub mod setting;

use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use bluefin_common::artifact::{Argument, ArtifactRef, Built, CodeObject, Launch};
use bluefin_common::failure::Attempt;
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::outcome::Timing;
use bluefin_common::problem::DataType;
use bluefin_common::session::Stage;
use bluefin_common::task::{Buffer, Content, Role, Task, Tolerance};
use bluefin_eval_worker::timing::{Cache, Limits};
use bluefin_eval_worker::{ChildConfig, Deadlines, DeviceWorker, Metrics, Runnable, Work};
use bytes::Bytes;
use prometheus::Registry;

/// A test and its name.
pub type Test = (&'static str, fn());

/// Starts this binary as a child, with deadlines that a test can wait for.
pub fn child() -> ChildConfig {
    let program = std::env::current_exe().unwrap().into_os_string();
    ChildConfig {
        command: vec![program, OsString::from("eval-child")],
        ..ChildConfig::new(
            Vec::new(),
            Deadlines { step: Duration::from_millis(1500), reference: Duration::from_secs(3), ..Deadlines::default() },
        )
    }
}

pub fn metrics() -> (Registry, Metrics) {
    let registry = Registry::new();
    let pipeline = PipelineMetrics::register(&registry).unwrap();
    let metrics = Metrics::register(&registry, pipeline).unwrap();
    (registry, metrics)
}

/// Small budgets: these tests are about what happens, not about how long it takes.
pub fn limits() -> Limits {
    Limits { sample_budget_ms: 20.0, cache: Cache::Warm, ..Limits::default() }
}

/// For tests that count samples: what is timed ends after ten of a few milliseconds, and one that the machine holds up is not the last.
pub fn patient() -> Limits {
    Limits { sample_budget_ms: 2000.0, ..limits() }
}

/// Elements of the test problem's two buffers.
pub const LENGTH: u64 = 1000;

/// `y = 2 x + 1` over [`LENGTH`] elements.
pub const RIGHT: &str = "for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i] + 1;";

/// A shared object whose launch 0 runs `body`, in which `x`, `y`, `n` and `workspace` are the arguments.
pub fn kernel(body: &str) -> Runnable {
    kernel_with(body, 0)
}

/// A shared object as [`kernel`] makes it, with a workspace.
pub fn kernel_with(body: &str, workspace: u64) -> Runnable {
    let source = format!(
        "#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
         static volatile int64_t zero;\n\
         void bluefin_launch_0(void **arguments) {{\n\
         float *x = *(float **)arguments[0], *y = *(float **)arguments[1];\n\
         int64_t n = *(int64_t *)arguments[2];\n\
         char *workspace = *(char **)arguments[3];\n\
         (void)x; (void)y; (void)n; (void)workspace; (void)zero;\n\
         {body}\n}}\n"
    );
    let arguments = vec![Argument::Buffer(0), Argument::Buffer(1), Argument::I64(LENGTH as i64), Argument::Workspace];
    runnable(compile(&source), vec![arguments], workspace)
}

/// Launches of `code` with these arguments.
pub fn runnable(code: Bytes, arguments: Vec<Vec<Argument>>, workspace: u64) -> Runnable {
    let launch = |arguments| Launch { entry: "test".to_string(), grid: [1; 3], block: [1; 3], shared: 0, arguments };
    let launches = arguments.into_iter().map(launch).collect();
    let objects = vec![CodeObject::plain(ArtifactRef::of(&code), "", "")];
    Runnable { built: Built { objects, launches, workspace }, code, image: None }
}

pub fn compile(source: &str) -> Bytes {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("kernel.so");
    let mut cc = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-w", "-x", "c", "-", "-o"])
        .arg(&object)
        .stdin(Stdio::piped())
        .spawn()
        .expect("the tests need a C compiler called cc");
    cc.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    assert!(cc.wait().unwrap().success(), "{source}");
    std::fs::read(object).unwrap().into()
}

/// The test problem, answered by `reference`.
pub fn task(reference: &Runnable) -> Task {
    let buffer = |name: &str, role| Buffer {
        name: name.to_string(),
        data_type: DataType::Fp32,
        length: LENGTH,
        role,
        content: Content::Random,
    };
    Task {
        buffers: vec![buffer("x", Role::Input), buffer("y", Role::Output)],
        reference: reference.built.clone(),
        tolerance: Tolerance { absolute: 1e-6, relative: 1e-6 },
    }
}

pub fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(future)
}

pub type Results = Vec<Attempt<Timing>>;

/// Evaluates `candidates` of `task` within [`limits`].
pub async fn evaluate(
    worker: &mut DeviceWorker,
    stage: Stage,
    task: &Task,
    reference: &Runnable,
    candidates: &[Runnable],
) -> Results {
    evaluate_within(limits(), worker, stage, task, reference, candidates).await
}

/// Evaluates `candidates` of `task`.
pub async fn evaluate_within(
    limits: Limits,
    worker: &mut DeviceWorker,
    stage: Stage,
    task: &Task,
    reference: &Runnable,
    candidates: &[Runnable],
) -> Results {
    let work =
        Work { stage, task, reference: &reference.code, data: &[], candidates, seed: 1, incumbent_ms: None, limits };
    worker.evaluate(&work).await.unwrap()
}
