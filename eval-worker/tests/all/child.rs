//! The child process: its start, its tasks, its end.

use std::time::{Duration, Instant};

use bluefin_common::failure::FailureKind;
use bluefin_common::session::Stage;
use bluefin_eval_worker::{ChildConfig, DeviceError, DeviceWorker, Runnable};
use bluefin_test_support::patience;

use crate::support::{RIGHT, Test, block_on, child, evaluate, kernel, metrics, task};

pub const TESTS: &[Test] = &[
    ("failures_of_the_reference", failures_of_the_reference),
    ("a_slow_reference_is_waited_for", a_slow_reference_is_waited_for),
    ("tasks_are_kept_apart", tasks_are_kept_apart),
    (
        "a_problem_that_can_not_be_posed_leaves_the_others_as_they_are",
        a_problem_that_can_not_be_posed_leaves_the_others_as_they_are,
    ),
    ("a_cancelled_evaluation_leaves_no_process", a_cancelled_evaluation_leaves_no_process),
    ("the_child_dies_with_its_parent", the_child_dies_with_its_parent),
    ("a_child_knows_no_secrets_and_tells_none", a_child_knows_no_secrets_and_tells_none),
    ("a_child_that_does_not_start", a_child_that_does_not_start),
    ("what_a_child_costs", what_a_child_costs),
];

fn failures_of_the_reference() {
    let cases = [
        ("abort();", FailureKind::Fault, "the reference failed: killed by SIGABRT"),
        ("for (;;) zero = 1;", FailureKind::Hang, "the reference failed: killed after 3.0 s"),
        ("", FailureKind::OutputNotWritten, "the reference failed: output y: none of 1000 elements written"),
    ];
    block_on(async {
        let mut worker = DeviceWorker::start(child(), metrics().1).await.unwrap();
        let candidates = [kernel(RIGHT), kernel(RIGHT)];
        for (body, kind, text) in cases {
            let reference = kernel(body);
            let results = evaluate(&mut worker, Stage::Perf, &task(&reference), &reference, &candidates).await;
            for result in results {
                let failure = result.unwrap_err();
                assert_eq!(failure.kind, kind);
                assert!(failure.detail.starts_with(text), "{failure:?}");
            }
        }
        let reference = kernel(RIGHT);
        let results = evaluate(&mut worker, Stage::Perf, &task(&reference), &reference, &candidates).await;
        assert!(results.iter().all(Result::is_ok), "the worker goes on");
    });
}

fn a_slow_reference_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    block_on(async {
        let mut worker = DeviceWorker::start(child(), metrics().1).await.unwrap();
        // Longer than a candidate may be silent, and run once for all that follow.
        let noting = format!("FILE *runs = fopen(\"{}\", \"a\"); fputc('x', runs); fclose(runs);", runs.display());
        let reference = kernel(&format!("{noting} usleep(2000000); {RIGHT}"));
        let task = task(&reference);
        let mut counts = Vec::new();
        for _ in 0..4 {
            let results = evaluate(&mut worker, Stage::Perf, &task, &reference, &[kernel(RIGHT)]).await;
            assert!(results[0].is_ok(), "{results:?}");
            counts.push(runs.metadata().unwrap().len());
        }
        assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    });
}

fn tasks_are_kept_apart() {
    block_on(async {
        let mut worker = DeviceWorker::start(child(), metrics().1).await.unwrap();
        let references: Vec<_> =
            (0..6).map(|add| kernel(&format!("for (int64_t i = 0; i < n; ++i) y[i] = x[i] + {add};"))).collect();
        // More tasks than are kept, in turns: each is answered by its own reference.
        for _ in 0..2 {
            for (index, reference) in references.iter().enumerate() {
                let candidates = [reference.clone(), references[(index + 1) % 6].clone()];
                let results = evaluate(&mut worker, Stage::Perf, &task(reference), reference, &candidates).await;
                assert!(results[0].is_ok(), "{results:?}");
                assert_eq!(results[1].as_ref().unwrap_err().kind, FailureKind::WrongResult);
            }
        }
    });
}

fn a_problem_that_can_not_be_posed_leaves_the_others_as_they_are() {
    block_on(async {
        let mut worker = DeviceWorker::start(child(), metrics().1).await.unwrap();
        let (right, lazy) = (kernel(RIGHT), kernel(""));
        let cheat = kernel(&format!("{RIGHT} y[417] = 0;"));
        for _ in 0..2 {
            let results =
                evaluate(&mut worker, Stage::Perf, &task(&right), &right, &[right.clone(), cheat.clone()]).await;
            assert!(results[0].is_ok(), "{results:?}");
            assert_eq!(results[1].as_ref().unwrap_err().kind, FailureKind::WrongResult);
            let results = evaluate(&mut worker, Stage::Perf, &task(&lazy), &lazy, &[kernel(RIGHT)]).await;
            assert_eq!(results[0].as_ref().unwrap_err().kind, FailureKind::OutputNotWritten);
        }
    });
}

fn is_alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < patience(Duration::from_secs(60)), "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A kernel that writes the id of its process to a file and never returns.
fn endless(file: &std::path::Path) -> Runnable {
    kernel(&format!(
        "FILE *f = fopen(\"{}\", \"w\"); fprintf(f, \"%d\\n\", getpid()); fclose(f); for (;;) zero = 1;",
        file.display()
    ))
}

fn read_pid(file: &std::path::Path) -> String {
    until("the kernel runs", || std::fs::read_to_string(file).is_ok_and(|pid| pid.ends_with('\n')));
    std::fs::read_to_string(file).unwrap().trim().to_string()
}

fn a_cancelled_evaluation_leaves_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    block_on(async {
        let patient = ChildConfig { deadlines: bluefin_eval_worker::Deadlines::default(), ..child() };
        let mut worker = DeviceWorker::start(patient, metrics().1).await.unwrap();
        let reference = kernel(RIGHT);
        let (task, candidates) = (task(&reference), [endless(&file)]);
        let evaluation = evaluate(&mut worker, Stage::Perf, &task, &reference, &candidates);
        let pid = tokio::select! {
            results = evaluation => panic!("{results:?}"),
            pid = tokio::task::spawn_blocking({ let file = file.clone(); move || read_pid(&file) }) => pid.unwrap(),
        };
        until("the child is gone", || !is_alive(&pid));
        let results = evaluate(&mut worker, Stage::Perf, &task, &reference, &[kernel(RIGHT)]).await;
        assert!(results[0].is_ok(), "the worker goes on");
    });
}

fn the_child_dies_with_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    // The parent is a copy of this process that waits for the endless kernel, and is then killed.
    if let Some(file) = std::env::var_os("BLUEFIN_TEST_ENDLESS") {
        block_on(async {
            let patient = ChildConfig { deadlines: bluefin_eval_worker::Deadlines::default(), ..child() };
            let mut worker = DeviceWorker::start(patient, metrics().1).await.unwrap();
            let reference = kernel(RIGHT);
            evaluate(&mut worker, Stage::Perf, &task(&reference), &reference, &[endless(file.as_ref())]).await;
        });
        return;
    }
    let mut parent = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["child::the_child_dies_with_its_parent", "--exact"])
        .env("BLUEFIN_TEST_ENDLESS", &file)
        .spawn()
        .unwrap();
    let pid = read_pid(&file);
    assert!(is_alive(&pid));
    parent.kill().unwrap();
    parent.wait().unwrap();
    until("the child is gone", || !is_alive(&pid));
}

fn a_child_knows_no_secrets_and_tells_none() {
    const TELLS: &str = "extern char **environ; for (char **v = environ; *v; ++v) fprintf(stderr, \"%s\\n\", *v);\n\
        fprintf(stderr, \"amqp://me:hunter3@host and the-whole-address\\n\"); abort();";
    // The parent is a copy of this process that has secrets.
    if std::env::var_os("BLUEFIN_TEST_INNER").is_some() {
        block_on(async {
            let mut worker = DeviceWorker::start(child(), metrics().1).await.unwrap();
            let reference = kernel(RIGHT);
            let results = evaluate(&mut worker, Stage::Perf, &task(&reference), &reference, &[kernel(TELLS)]).await;
            println!("{results:?}");
        });
        return;
    }
    let parent = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["child::a_child_knows_no_secrets_and_tells_none", "--exact"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("BLUEFIN_TEST_INNER", "1")
        .env("BLUEFIN_AMQP_URL", "amqp://me:hunter2@host")
        .env("BLUEFIN_REDIS_URL", "the-whole-address")
        .env("PGPASSWORD", "hunter2")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&parent.stdout).into_owned() + &String::from_utf8_lossy(&parent.stderr);
    assert!(told.contains("BLUEFIN_TEST_INNER=1") && told.contains("PATH=/"), "{told}");
    assert!(told.contains("amqp://me:***@host and ***"), "{told}");
    for secret in ["hunter", "the-whole-address", "PGPASSWORD", "BLUEFIN_AMQP_URL"] {
        assert!(!told.contains(secret), "{secret}: {told}");
    }
}

fn a_child_that_does_not_start() {
    block_on(async {
        for command in ["/nonexistent/bluefin", "/bin/false", "/bin/cat"] {
            let config = ChildConfig { command: vec![command.into()], ..child() };
            let Err(DeviceError::Start { reason, .. }) = DeviceWorker::start(config, metrics().1).await else {
                panic!("{command} is no child");
            };
            assert!(!reason.is_empty());
        }
        let config = ChildConfig { cpu: Some(1023), ..child() };
        let Err(error) = DeviceWorker::start(config, metrics().1).await else { panic!("there is no such CPU") };
        assert!(error.to_string().contains("cpu: found 1023"), "{error}");
    });
}

fn what_a_child_costs() {
    block_on(async {
        let start = Instant::now();
        let mut worker = DeviceWorker::start(child(), metrics().1).await.unwrap();
        let spawned = start.elapsed();
        let reference = kernel(RIGHT);
        let (task, candidates) = (task(&reference), vec![reference.clone(); 50]);
        let start = Instant::now();
        evaluate(&mut worker, Stage::Perf, &task, &reference, &candidates[..1]).await;
        let prepared = start.elapsed();
        let start = Instant::now();
        let results = evaluate(&mut worker, Stage::Perf, &task, &reference, &candidates).await;
        let each = start.elapsed() / 50;
        let timed: f64 = results.iter().flatten().map(|timing| timing.samples_ms.len() as f64).sum();
        println!(
            "start {spawned:?}, first candidate with its task {prepared:?}, each {each:?} with {:.1} samples",
            timed / 50.0
        );
        assert!(results.iter().all(Result::is_ok));
        assert!(spawned < patience(Duration::from_secs(30)));
    });
}
