//! Good and bad kernels in a real child process.

use std::time::{Duration, Instant};

use bluefin_common::artifact::Argument;
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::outcome::Timing;
use bluefin_common::session::Stage;
use bluefin_eval_worker::timing::{Cache, Limits};
use bluefin_eval_worker::{DeviceWorker, Runnable, Work};
use bluefin_test_support::patience;

use crate::support::{
    RIGHT, Results, Test, block_on, child, compile, evaluate, evaluate_within, kernel, kernel_with, limits, metrics,
    patient, runnable, task,
};

pub const TESTS: &[Test] = &[
    ("right_kernels_are_timed", right_kernels_are_timed),
    ("all_kinds_of_arguments", all_kinds_of_arguments),
    ("several_launches_share_a_workspace", several_launches_share_a_workspace),
    ("wrong_results", wrong_results),
    ("writes_outside_of_the_outputs", writes_outside_of_the_outputs),
    ("crashes", crashes),
    ("hangs", hangs),
    ("a_kernel_just_within_its_deadline_is_no_hang", a_kernel_just_within_its_deadline_is_no_hang),
    ("a_reference_of_many_launches_is_no_checker", a_reference_of_many_launches_is_no_checker),
    ("after_a_hang_the_next_candidate_comes_soon", after_a_hang_the_next_candidate_comes_soon),
    ("no_finalist_finds_the_buffers_of_another_in_the_cache", no_finalist_finds_the_buffers_of_another_in_the_cache),
    ("noise_on_standard_output", noise_on_standard_output),
    ("artifacts_that_do_not_load", artifacts_that_do_not_load),
    ("too_much_memory", too_much_memory),
    ("one_bad_candidate_costs_only_itself", one_bad_candidate_costs_only_itself),
    ("slow_candidates_are_pruned", slow_candidates_are_pruned),
    ("a_play_off_survives_its_crashes", a_play_off_survives_its_crashes),
    ("the_same_kernel_twice_ties", the_same_kernel_twice_ties),
    ("a_library_that_stays_loaded_is_not_taken_for_another", a_library_that_stays_loaded_is_not_taken_for_another),
];

/// Results of `candidates` against the right reference.
fn results(stage: Stage, candidates: &[Runnable]) -> Results {
    block_on(async {
        let mut worker = DeviceWorker::start(child(), metrics().1).await.unwrap();
        let reference = kernel(RIGHT);
        evaluate_within(patient(), &mut worker, stage, &task(&reference), &reference, candidates).await
    })
}

fn result(candidate: Runnable) -> Result<Timing, Failure> {
    results(Stage::Perf, &[candidate]).remove(0)
}

/// Each body fails with the kind, and a detail that has the text.
fn assert_failures(kind: FailureKind, cases: &[(&str, &str)]) {
    let candidates: Vec<Runnable> = cases.iter().map(|(body, _)| kernel(body)).collect();
    for (result, (body, text)) in results(Stage::Perf, &candidates).into_iter().zip(cases) {
        let failure = result.expect_err(body);
        assert_eq!(failure.kind, kind, "{body}: {}", failure.detail);
        assert!(failure.detail.contains(text), "{body}: {}", failure.detail);
    }
}

fn right_kernels_are_timed() {
    let slow =
        "for (int64_t j = 0; j < 20; ++j) for (int64_t i = 0; i < n; ++i) ((volatile float *)y)[i] = 2 * x[i] + 1;";
    let results = results(Stage::Perf, &[kernel(RIGHT), kernel(slow)]);
    let [fast, slow] = [0, 1].map(|index| results[index].as_ref().unwrap());
    assert!(fast.samples_ms.len() >= 3 && !fast.pruned);
    assert!(fast.median_ms > 1e-5 && fast.median_ms < 1.0, "{fast:?}");
    assert!(slow.median_ms > 3.0 * fast.median_ms, "{slow:?} {fast:?}");
    assert!(slow.pruned, "20 times the work against the first as incumbent");
}

fn all_kinds_of_arguments() {
    let source = "#include <stdint.h>\n\
        void bluefin_launch_0(void **a) {\n\
        int32_t i32 = *(int32_t *)a[2]; int64_t i64 = *(int64_t *)a[3];\n\
        float f32 = *(float *)a[4]; double f64 = *(double *)a[5];\n\
        if (*(void **)a[6] != 0) return;\n\
        for (int64_t i = 0; i < i64; ++i) (*(float **)a[1])[i] = f32 * (*(float **)a[0])[i] + (float)f64 + i32; }";
    let arguments = vec![
        Argument::Buffer(0),
        Argument::Buffer(1),
        Argument::I32(-2),
        Argument::I64(1000),
        Argument::F32(2.0),
        Argument::F64(3.0),
        Argument::Workspace,
    ];
    result(runnable(compile(source), vec![arguments], 0)).unwrap();
    let unknown = runnable(compile(source), vec![vec![Argument::Buffer(2)]], 0);
    let failure = result(unknown).unwrap_err();
    assert_eq!(failure.kind, FailureKind::LaunchFailure);
    assert_eq!(failure.detail, "argument: found buffer 2, expected less than 2");
    assert_eq!(result(runnable(compile(source), vec![], 0)).unwrap_err().kind, FailureKind::InvalidLaunch);
}

fn several_launches_share_a_workspace() {
    let source = "#include <stdint.h>\n\
        void bluefin_launch_0(void **a) { float *x = *(float **)a[0], *w = *(float **)a[1];\n\
        for (int64_t i = 0; i < 1000; ++i) w[i] = 2 * x[i]; }\n\
        void bluefin_launch_1(void **a) { float *w = *(float **)a[0], *y = *(float **)a[1];\n\
        for (int64_t i = 0; i < 1000; ++i) y[i] = w[i] + 1; }";
    let first = vec![Argument::Buffer(0), Argument::Workspace];
    let second = vec![Argument::Workspace, Argument::Buffer(1)];
    result(runnable(compile(source), vec![first, second], 4000)).unwrap();
}

fn wrong_results() {
    assert_failures(
        FailureKind::WrongResult,
        &[
            (
                "for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i] + (i == 417 ? 1.5f : 1);",
                "output y: element 417: found ",
            ),
            ("for (int64_t i = 0; i < n; ++i) y[i] = 0;", " of 1000 elements wrong"),
        ],
    );
    assert_failures(
        FailureKind::OutputNotWritten,
        &[
            ("", "1000 of 1000 elements wrong, 1000 of them not written"),
            ("for (int64_t i = 0; i < n - 7; ++i) y[i] = 2 * x[i] + 1;", "output y: element 993: found NaN"),
        ],
    );
    assert_failures(
        FailureKind::NotANumber,
        &[("for (int64_t i = 0; i < n; ++i) y[i] = i == 5 ? 0.0f / zero : 2 * x[i] + 1;", "element 5: found NaN")],
    );
}

fn writes_outside_of_the_outputs() {
    let over = format!("{RIGHT} y[n + 2] = 0;");
    let under = format!("{RIGHT} x[-1] = 0;");
    let far = format!("{RIGHT} for (int64_t i = 0; i < 1000000; ++i) y[n + i * 4] = 0;");
    let input = format!("{RIGHT} x[17] = 3;");
    assert_failures(
        FailureKind::WrongResult,
        &[
            (&over, "buffer y: written 9 bytes beyond its end"),
            (&under, "written 4 bytes before the first buffer"),
            (&input, "input x: element 17 was modified"),
        ],
    );
    let failure = result(kernel(&far)).unwrap_err();
    assert!(matches!(failure.kind, FailureKind::WrongResult | FailureKind::Fault), "{failure:?}");
}

fn crashes() {
    assert_failures(
        FailureKind::Fault,
        &[
            ("*(volatile int *)8 = 1;", "killed by SIGSEGV (invalid address) in its first run"),
            (
                "fprintf(stderr, \"assertion x > 0 failed\\n\"); abort();",
                "SIGABRT in its first run; it printed: assertion x > 0 failed",
            ),
            ("y[0] = n / zero;", "killed by SIGFPE"),
            ("__builtin_trap();", "killed by SIGILL"),
            ("_exit(0);", "ended its process with exit code 0 in its first run"),
            ("exit(3);", "exit code 3"),
            (
                "static int launches; if (++launches > 3) abort(); for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i] + 1;",
                "SIGABRT while it was timed",
            ),
        ],
    );
    let constructor = "#include <stdlib.h>\n__attribute__((constructor)) static void c(void) { abort(); }\n\
                       void bluefin_launch_0(void **a) {}";
    let failure = result(runnable(compile(constructor), vec![vec![]], 0)).unwrap_err();
    assert_eq!(failure.detail, "killed by SIGABRT while it was loaded");
    // Signals that others send to it end it no more than its parent.
    let polite = kernel(&format!(
        "extern int kill(int, int); int s[] = {{1, 2, 3, 15}}; for (int i = 0; i < 4; ++i) kill(getpid(), s[i]); {RIGHT}"
    ));
    assert!(result(polite).is_ok());
    // Closing every descriptor cuts off the child; it is lost, nothing else.
    let failure = result(kernel("for (int i = 0; i < 1024; ++i) close(i);")).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Fault, "{failure:?}");
}

fn hangs() {
    let start = Instant::now();
    let candidates =
        [kernel("for (;;) zero = 1;"), kernel(RIGHT), kernel("if (fork() == 0) for (;;) zero = 1; for (;;) sleep(1);")];
    let results = results(Stage::Perf, &candidates);
    for index in [0, 2] {
        let failure = results[index].as_ref().unwrap_err();
        assert_eq!(failure.kind, FailureKind::Hang);
        // Half a second, and more where the machine was busy when the reference first ran.
        let detail = failure.detail.strip_prefix("killed after ").unwrap_or_else(|| panic!("{failure:?}"));
        let (seconds, when) = detail.split_once(' ').unwrap();
        assert_eq!(when, "s without a sign in its first run");
        assert!((0.5..=1.5).contains(&seconds.parse::<f64>().unwrap()), "{seconds}");
    }
    assert!(results[1].is_ok());
    assert!(start.elapsed() < patience(Duration::from_secs(60)));
}

/// Each launch is a sign of life, also of those that are timed at once.
fn a_kernel_just_within_its_deadline_is_no_hang() {
    let slow = kernel(&format!("usleep({}); {RIGHT}", child().deadlines.step.as_micros() * 6 / 10));
    assert!(result(slow).is_ok());
}

/// On the host entries are found by their number: those that check on a GPU must not be looked for.
fn a_reference_of_many_launches_is_no_checker() {
    let launch = |index| {
        format!(
            "void bluefin_launch_{index}(void **a) {{ float *x = *(float **)a[0], *y = *(float **)a[1];\n\
             for (int64_t i = 0; i < 1000; ++i) y[i] = 2 * x[i] + 1; }}\n"
        )
    };
    let source = format!("#include <stdint.h>\n{}", (0..12).map(launch).collect::<String>());
    let reference = runnable(compile(&source), vec![vec![Argument::Buffer(0), Argument::Buffer(1)]; 12], 0);
    let results = block_on(async {
        let mut worker = DeviceWorker::start(child(), metrics().1).await.unwrap();
        evaluate(&mut worker, Stage::Perf, &task(&reference), &reference, &[kernel(RIGHT), kernel("y[0] = 1;")]).await
    });
    assert!(results[0].is_ok(), "{results:?}");
    assert!(results[1].is_err());
}

/// From the first moment of an endless kernel to the first of the next one: its deadline and at most two seconds more, or a few times as
/// long as a new child takes for a kernel that is right, where this machine is busy.
fn after_a_hang_the_next_candidate_comes_soon() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let stamp = |name: &str| format!("fclose(fopen(\"{}\", \"w\"));", file(name).display());
    let candidates =
        [kernel(&format!("{} for (;;) zero = 1;", stamp("hang"))), kernel(&format!("{} {RIGHT}", stamp("next")))];
    let results = results(Stage::Perf, &candidates);
    assert_eq!(results[0].as_ref().unwrap_err().kind, FailureKind::Hang);
    assert!(results[1].is_ok());
    // The endless kernel ran once; the other one's stamp is of its last run, after its samples.
    let made = |name: &str| file(name).metadata().unwrap().modified().unwrap();
    let took = made("next").duration_since(made("hang")).unwrap();
    let right = kernel(RIGHT);
    let start = Instant::now();
    assert!(result(right).is_ok());
    let more = Duration::from_secs(2).max(4 * start.elapsed());
    assert!(took < child().deadlines.step + more, "{took:?}, {more:?}");
}

/// Finalists use one copy of the buffers after the other, whoever's turn it is.
fn no_finalist_finds_the_buffers_of_another_in_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("places");
    let noting = format!(
        "static FILE *log; if (!log) log = fopen(\"{}\", \"a\"); fprintf(log, \"%p\\n\", (void *)y); fflush(log); {RIGHT}",
        file.display()
    );
    let results = block_on(async {
        let mut worker = DeviceWorker::start(child(), metrics().1).await.unwrap();
        let (reference, noting) = (kernel(RIGHT), kernel(&noting));
        let (task, candidates) = (task(&reference), vec![noting; 3]);
        let limits = Limits { cache: Cache::Cold, ..limits() };
        let reference = &reference.code;
        let work = Work {
            stage: Stage::Find,
            task: &task,
            reference,
            data: &[],
            candidates: &candidates,
            seed: 1,
            incumbent_ms: None,
            limits,
        };
        worker.evaluate(&work).await.unwrap()
    });
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let text = std::fs::read_to_string(file).unwrap();
    let places: Vec<&str> = text.lines().collect();
    let (checks, samples) = places.split_at(3);
    assert!(checks.iter().all(|place| *place == checks[0]), "all are checked on the first copy");
    assert!(samples.len() > 30);
    let same = samples.windows(2).position(|pair| pair[0] == pair[1]);
    assert_eq!(same, None, "of {}: {:?}", samples.len(), samples.get(..20));
}

fn noise_on_standard_output() {
    let noisy = format!("{RIGHT} printf(\"BF!\\377 noise\\n\"); fflush(stdout); write(1, \"\\1\\0\\0\\0x\", 5);");
    result(kernel(&noisy)).unwrap();
    // Standard input is empty, not the pipe of requests.
    let reader = format!("char c; if (read(0, &c, 1) == 0) {RIGHT}");
    result(kernel(&reader)).unwrap();
}

fn artifacts_that_do_not_load() {
    let good = kernel(RIGHT);
    let arguments = || good.built.launches.iter().map(|launch| launch.arguments.clone()).collect::<Vec<_>>();
    let missing = runnable(compile("void other(void **a) {}"), arguments(), 0);
    let undefined =
        runnable(compile("void nowhere(void); void bluefin_launch_0(void **a) { nowhere(); }"), arguments(), 0);
    let no_elf = runnable("#!/bin/sh\nexit 0\n".repeat(100).into(), arguments(), 0);
    let cut = runnable(good.code.slice(..good.code.len() / 2), arguments(), 0);
    let empty = runnable(bytes::Bytes::new(), arguments(), 0);
    let results = results(Stage::Perf, &[missing, undefined, no_elf, empty, cut, good]);
    let texts = ["symbol bluefin_launch_0: ", "nowhere", "invalid ELF header", "file too short"];
    for (result, text) in results.iter().zip(texts) {
        let failure = result.as_ref().unwrap_err();
        assert_eq!(failure.kind, FailureKind::LoadError, "{failure:?}");
        assert!(failure.detail.contains(text), "{failure:?}");
    }
    assert!(results[4].is_err(), "a file that was cut may be refused or may fault");
    assert!(results[5].is_ok());
}

fn too_much_memory() {
    let uses = format!("workspace[0] = 1; {RIGHT}");
    let results =
        results(Stage::Perf, &[kernel_with(&uses, 1 << 45), kernel_with(&uses, u64::MAX), kernel_with(&uses, 1 << 20)]);
    for failure in [0, 1].map(|index| results[index].as_ref().unwrap_err()) {
        assert_eq!(failure.kind, FailureKind::OutOfMemory);
        assert!(failure.detail.starts_with("workspace: "), "{failure:?}");
    }
    assert!(results[2].is_ok());

    let reference = kernel(RIGHT);
    let mut huge = task(&reference);
    huge.buffers[0].length = 1 << 44;
    block_on(async {
        let mut worker = DeviceWorker::start(child(), metrics().1).await.unwrap();
        let results = evaluate(&mut worker, Stage::Perf, &huge, &reference, std::slice::from_ref(&reference)).await;
        assert_eq!(results[0].as_ref().unwrap_err().kind, FailureKind::OutOfMemory, "{results:?}");
    });
}

fn one_bad_candidate_costs_only_itself() {
    let bad = ["abort();", "x[0] = 1;", "for (;;) zero = 1;", "y[n] = 0;"];
    let candidates: Vec<_> = bad.iter().flat_map(|body| [kernel(RIGHT), kernel(body)]).chain([kernel(RIGHT)]).collect();
    for (index, result) in results(Stage::Perf, &candidates).iter().enumerate() {
        assert_eq!(result.is_ok(), index % 2 == 0, "{index}: {result:?}");
    }
}

fn slow_candidates_are_pruned() {
    let results = results(
        Stage::Perf,
        &[
            kernel(&format!("usleep(2000); {RIGHT}")),
            kernel(&format!("usleep(8000); {RIGHT}")),
            kernel(&format!("usleep(100000); {RIGHT}")),
        ],
    );
    let timings: Vec<_> = results.iter().map(|result| result.as_ref().unwrap()).collect();
    assert_eq!(timings.iter().map(|timing| timing.pruned).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(timings[1].samples_ms.len(), 3);
    // Of a kernel that waits the first sample could be one in which it was stopped.
    assert_eq!(timings[2].samples_ms.len(), 2);
}

fn a_play_off_survives_its_crashes() {
    let late = format!("static int launches; if (++launches > 3) abort(); usleep(1000); {RIGHT}");
    let candidates = [
        kernel(&format!("usleep(12000); {RIGHT}")),
        kernel("abort();"),
        kernel(&format!("usleep(4000); {RIGHT}")),
        kernel(&late),
        kernel(&format!("{RIGHT} y[n] = 1;")),
        kernel("y[0] = 1;"),
        kernel_with(RIGHT, 1 << 45),
    ];
    let results = results(Stage::Find, &candidates);
    let kinds: Vec<_> = results.iter().map(|result| result.as_ref().err().map(|failure| failure.kind)).collect();
    let expected = [
        None,
        Some(FailureKind::Fault),
        None,
        Some(FailureKind::Fault),
        Some(FailureKind::WrongResult),
        Some(FailureKind::OutputNotWritten),
        Some(FailureKind::OutOfMemory),
    ];
    assert_eq!(kinds, expected, "{results:?}");
    let (slow, fast) = (results[0].as_ref().unwrap(), results[2].as_ref().unwrap());
    assert!(slow.median_ms > fast.median_ms);
    // One that is beaten has enough with those for its median.
    assert!(slow.samples_ms.len() == 10 && fast.samples_ms.len() >= 10, "{results:?}");
}

fn the_same_kernel_twice_ties() {
    // Who sleeps is not slower beside others that work, only late, and by less than this.
    let body = format!("usleep(8000); {RIGHT}");
    let results = results(Stage::Find, &[kernel(&body), kernel(&body)]);
    let [a, b] = [0, 1].map(|index| results[index].as_ref().unwrap());
    assert!((a.median_ms / b.median_ms - 1.0).abs() < 0.25, "{a:?} {b:?}");
}

fn a_library_that_stays_loaded_is_not_taken_for_another() {
    let pinned = |value: i32| {
        let source = format!(
            "#include <stdint.h>\n#include <dlfcn.h>\n#define _GNU_SOURCE\n\
             void bluefin_launch_0(void **a) {{ static void *self; Dl_info info;\n\
             if (!self && dladdr((void *)bluefin_launch_0, &info)) self = dlopen(info.dli_fname, RTLD_NOW);\n\
             for (int64_t i = 0; i < 1000; ++i) (*(float **)a[1])[i] = 2 * (*(float **)a[0])[i] + {value}; }}"
        );
        let source = source.replacen("#include <stdint.h>", "#define _GNU_SOURCE\n#include <stdint.h>", 1);
        runnable(compile(&source), vec![vec![Argument::Buffer(0), Argument::Buffer(1)]], 0)
    };
    let results = results(Stage::Perf, &[pinned(1), pinned(2), pinned(1), pinned(3)]);
    assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true, false], "{results:?}");
}
