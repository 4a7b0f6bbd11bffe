//! Who is killed, by whom, and what that says of a job: nothing, unless its own kernels did it again and again.

use std::sync::Arc;
use std::time::Duration;

use bluefin_common::broker::{Broker, DEAD_QUEUE};
use bluefin_common::delivery::{AtWork, MAX_BEGUN};
use bluefin_common::failure::FailureKind;
use bluefin_common::session::Stage;
use bluefin_common::store::Work as _;
use bluefin_common::waiting::Waiting;
use bluefin_eval_worker::{ChildConfig, DeviceChild, DeviceError, Error, Runnable};
use rustix::process::{Pid, Signal, kill_process};
use tokio_util::sync::CancellationToken;

use crate::support::setting::Setting;
use crate::support::{RIGHT, Test, block_on, child, kernel};

const KILLS_ITSELF: &str = "extern int kill(int, int); kill(getpid(), 9);";

pub const TESTS: &[Test] = &[
    ("a_copy_of_what_is_worked_on_waits", a_copy_of_what_is_worked_on_waits),
    ("a_service_manager_costs_no_candidate", a_service_manager_costs_no_candidate),
    ("a_child_that_somebody_kills_is_no_result", a_child_that_somebody_kills_is_no_result),
    (
        "a_job_whose_child_is_always_killed_is_given_up_in_the_end",
        a_job_whose_child_is_always_killed_is_given_up_in_the_end,
    ),
    ("who_kills_every_child_is_no_job", who_kills_every_child_is_no_job),
    ("a_kill_for_want_of_memory_is_no_result", a_kill_for_want_of_memory_is_no_result),
    ("a_job_that_never_has_the_memory_is_handed_back", a_job_that_never_has_the_memory_is_handed_back),
    ("a_job_that_kills_its_workers_ends_with_an_outcome", a_job_that_kills_its_workers_ends_with_an_outcome),
    ("a_worker_that_lives_spares_its_job", a_worker_that_lives_spares_its_job),
];

/// A kernel that says which process it is in, in a file, for as long as the file is there runs slowly, and is right.
fn announced(file: &std::path::Path) -> Runnable {
    kernel(&format!(
        "static int announced; if (!announced++) {{ FILE *f = fopen(\"{0}.new\", \"w\"); fprintf(f, \"%d\", getpid());\n\
         fclose(f); rename(\"{0}.new\", \"{0}\"); }} usleep(200000); {RIGHT}",
        file.display()
    ))
}

/// The process that wrote `file`, which is removed.
async fn announced_by(setting: &Setting, file: &std::path::Path) -> Pid {
    let read = async || std::fs::read_to_string(file).ok()?.parse().ok().and_then(Pid::from_raw);
    let pid = setting.until("the kernel runs", read).await;
    std::fs::remove_file(file).unwrap();
    pid
}

fn a_service_manager_costs_no_candidate() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let job = setting.job(1, Stage::Perf, 1);
        setting.publish(&setting.compiled(job.clone(), &[Ok(announced(&file))]).await).await;
        let worker = setting.work(|_| {});
        let child = announced_by(&setting, &file).await;
        // As systemd does by default: all processes of a service are told at once.
        kill_process(child, Signal::TERM).unwrap();
        setting.stop(worker).await;
        let outcome = setting.outcome(&job).await;
        assert!(outcome.candidates[0].result.is_ok(), "{outcome:?}");
        assert_eq!(setting.metric("bluefin_child_losses_total", &[]), 0.0);
        assert_eq!(setting.broker.depth(DEAD_QUEUE).await.unwrap(), 0);
    });
}

fn a_child_that_somebody_kills_is_no_result() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let job = setting.job(1, Stage::Perf, 2);
        setting.publish(&setting.compiled(job.clone(), &[Ok(kernel(RIGHT)), Ok(announced(&file))]).await).await;
        let worker = setting.work(|_| {});
        kill_process(announced_by(&setting, &file).await, Signal::KILL).unwrap();
        let outcome = setting.outcome(&job).await;
        assert!(outcome.candidates.iter().all(|candidate| candidate.result.is_ok()), "{outcome:?}");
        assert_eq!(setting.metric("bluefin_child_losses_total", &[("cause", "outside")]), 1.0);
        assert_eq!((setting.begun(&job).await, setting.broker.depth(DEAD_QUEUE).await.unwrap()), (None, 0));
        setting.stop(worker).await;
    });
}

fn a_job_whose_child_is_always_killed_is_given_up_in_the_end() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let job = setting.job(1, Stage::Perf, 1);
        setting.publish(&setting.compiled(job.clone(), &[Ok(kernel(KILLS_ITSELF))]).await).await;
        let worker = setting.work(|_| {});
        setting.settled("handed_back", 1.0).await;
        assert_eq!(setting.begun(&job).await.as_deref(), Some("1"));
        assert_eq!(setting.count_outcomes(std::slice::from_ref(&job)).await, 0);
        // It comes again.
        setting.set_begun(&job, MAX_BEGUN - 1).await;
        let failure = setting.outcome(&job).await.candidates.remove(0).result.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Dead);
        assert!(failure.detail.starts_with(&format!("killed {MAX_BEGUN} times")), "{}", failure.detail);
        setting.stop(worker).await;
    });
}

fn who_kills_every_child_is_no_job() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let jobs = [1, 2].map(|size| setting.job(size, Stage::Perf, 1));
        for job in &jobs {
            setting.publish(&setting.compiled(job.clone(), &[Ok(kernel(KILLS_ITSELF))]).await).await;
        }
        let waiting = Waiting::default();
        let shared = waiting.clone();
        let worker = setting.work(|config| {
            config.waiting = shared;
            config.look_again = Duration::from_secs(3600);
        });
        waiting.begins().await;
        assert!(waiting.reason().unwrap().starts_with("waiting for the machine: somebody else ended"), "{waiting:?}");
        setting.settled("handed_back", 2.0).await;
        // The first might have been to blame.
        assert_eq!(
            [setting.begun(&jobs[0]).await.as_deref(), setting.begun(&jobs[1]).await.as_deref()],
            [Some("1"), None]
        );
        assert_eq!(setting.count_outcomes(&jobs).await, 0);
        setting.stop(worker).await;
    });
}

/// A control group of 1 MB that the kernel has killed nobody of, and a kernel that is killed the first `times` times that it
/// runs, and counted there.
fn tight(times: u32) -> (tempfile::TempDir, Runnable) {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    };
    write("proc/self/cgroup", "0::/job\n");
    write("proc/self/mountinfo", "30 23 0:26 / /groups rw - cgroup2 cgroup2 rw\n");
    write("groups/job/memory.max", "1000000\n");
    write("groups/job/memory.current", "900000\n");
    let events = write("groups/job/memory.events", "oom_kill 0\n");
    let kernel = kernel(&format!(
        "extern int kill(int, int); int kills = 0; FILE *f = fopen(\"{}\", \"r+\"); fscanf(f, \"oom_kill %d\", &kills);\n\
         if (kills < {times}) {{ rewind(f); fprintf(f, \"oom_kill %d\\n\", kills + 1); fflush(f); kill(getpid(), 9); }}\n\
         fclose(f); {RIGHT}",
        events.display()
    ));
    (root, kernel)
}

fn a_kill_for_want_of_memory_is_no_result() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let (root, killed) = tight(2);
        let job = setting.job(1, Stage::Perf, 3);
        let candidates = [Ok(kernel(RIGHT)), Ok(killed), Ok(kernel("abort();"))];
        setting.publish(&setting.compiled(job.clone(), &candidates).await).await;
        let child = ChildConfig { root: root.path().to_path_buf(), ..child() };
        let worker = setting.work(|config| config.evaluator = Arc::new(DeviceChild::host(child)));
        let outcome = setting.outcome(&job).await;
        let kinds =
            outcome.candidates.iter().map(|candidate| candidate.result.as_ref().err().map(|failure| failure.kind));
        assert_eq!(kinds.collect::<Vec<_>>(), [None, None, Some(FailureKind::Fault)], "{outcome:?}");
        assert_eq!(setting.metric("bluefin_child_losses_total", &[("cause", "memory")]), 2.0);
        assert_eq!(setting.metric("bluefin_child_losses_total", &[("cause", "signal")]), 1.0);
        setting.stop(worker).await;
    });
}

fn a_job_that_never_has_the_memory_is_handed_back() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let (root, killed) = tight(u32::MAX >> 1);
        let job = setting.job(1, Stage::Perf, 2);
        // As a candidate, then as the reference.
        for eval_job in [
            setting.compiled(job.clone(), &[Ok(kernel(RIGHT)), Ok(killed.clone())]).await,
            setting.compiled_with(&killed, job.clone(), &[Ok(kernel(RIGHT)), Ok(kernel(RIGHT))]).await,
        ] {
            setting.publish(&eval_job).await;
            let child = ChildConfig { root: root.path().to_path_buf(), ..child() };
            let worker = setting.work(|config| config.evaluator = Arc::new(DeviceChild::host(child)));
            let error = worker.await.unwrap().unwrap_err();
            assert!(matches!(error, Error::Device(DeviceError::Killed { .. })), "{error}");
            assert!(error.to_string().contains("may have 1000000 bytes"), "{error}");
            assert_eq!(setting.metric("bluefin_child_losses_total", &[("cause", "memory")]), 3.0);
            assert_eq!(setting.count_outcomes(std::slice::from_ref(&job)).await, 0);
            let mut consumer = setting.broker.consume(&job.eval_queue(), 1).await.unwrap();
            let delivery = consumer.next().await.unwrap();
            assert_eq!(delivery.redeliveries, 0, "a copy that nobody has had");
            delivery.ack().await.unwrap();
        }
    });
}

fn a_job_that_kills_its_workers_ends_with_an_outcome() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let job = setting.job(1, Stage::Perf, 1);
        setting.publish(&setting.compiled(job.clone(), &[Ok(kernel(RIGHT))]).await).await;
        setting.die_with(&job).await;
        setting.set_begun(&job, MAX_BEGUN).await;
        let worker = setting.work(|_| {});
        let outcome = setting.outcome(&job).await;
        let failure = outcome.candidates[0].result.as_ref().unwrap_err();
        let expected = format!("{MAX_BEGUN} workers died while they worked on it");
        assert_eq!((failure.kind, failure.detail.clone()), (FailureKind::Dead, expected));
        setting.settled("dead", 1.0).await;
        assert_eq!(setting.broker.depth(DEAD_QUEUE).await.unwrap(), 1);
        assert!(setting.store.progress(&setting.session.name).await.unwrap().is_complete());
        setting.stop(worker).await;
    });
}

/// The broker lost sight of a worker that lives.
fn a_copy_of_what_is_worked_on_waits() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let job = setting.job(1, Stage::Perf, 1);
        setting.publish(&setting.compiled(job.clone(), &[Ok(kernel(RIGHT))]).await).await;
        let at_work = AtWork::default();
        let mut consumer = setting.broker.consume(&job.eval_queue(), 1).await.unwrap();
        let delivery = consumer.next().await.unwrap();
        let hold = at_work.take_up(&delivery).unwrap();
        assert!(at_work.take_up(&delivery).is_none());
        consumer.stop().await;
        drop((delivery, consumer));
        let worker = setting.work(|config| config.at_work = at_work.clone());
        setting.settled("handed_back", 1.0).await;
        assert_eq!((setting.begun(&job).await, setting.count_outcomes(&[job]).await), (None, 0));
        drop(hold);
        setting.settled("done", 1.0).await;
        setting.stop(worker).await;
    });
}

fn a_worker_that_lives_spares_its_job() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let (fine, evicted) = (setting.job(1, Stage::Perf, 1), setting.job(2, Stage::Perf, 1));
        setting.publish(&setting.compiled(fine.clone(), &[Ok(kernel(RIGHT))]).await).await;
        setting.die_with(&fine).await;
        setting.set_begun(&fine, MAX_BEGUN - 1).await;
        let worker = setting.work(|_| {});
        assert!(setting.outcome(&fine).await.candidates[0].result.is_ok());
        assert_eq!(setting.begun(&fine).await, None);
        setting.stop(worker).await;

        // Whatever it came to, also where it goes back.
        setting.shutdown = CancellationToken::new();
        let mut eval_job = setting.compiled(evicted.clone(), &[Ok(kernel(RIGHT))]).await;
        eval_job.built[0] = Ok(kernel(&format!("zero = 8; {RIGHT}")).built);
        setting.publish(&eval_job).await;
        setting.die_with(&evicted).await;
        let worker = setting.work(|_| {});
        setting.settled("recompile", 1.0).await;
        assert_eq!(setting.begun(&evicted).await, None);
        setting.stop(worker).await;
    });
}
