//! The worker from delivery to outcome, with the embedded broker, a store in memory and a real child.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bluefin_common::artifact::Built;
use bluefin_common::broker::{Broker, DEAD_QUEUE};
use bluefin_common::campaign::MAX_RECOMPILES;
use bluefin_common::decision::follow_ups;
use bluefin_common::delivery::{Leave, MAX_BEGUN};
use bluefin_common::digest::Digest;
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::job::{CompileJob, CompileWork, EvalJob, Job};
use bluefin_common::method::Method;
use bluefin_common::session::Stage;
use bluefin_common::store::Store;
use bluefin_common::target::Target;
use bluefin_common::task::{Task, TaskRef};
use bluefin_common::waiting::Waiting;
use bluefin_common::wire;
use bluefin_eval_worker::timing::{Cache, PROTOCOL_VERSION};
use bluefin_eval_worker::{ChildConfig, Config, DeviceChild, DeviceError, Error, Noop, Runnable};
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::setting::Setting;
use crate::support::{self, RIGHT, Test, block_on, child, kernel};

pub const TESTS: &[Test] = &[
    ("a_job_becomes_an_outcome", a_job_becomes_an_outcome),
    ("the_find_stage_keeps_its_kernels", the_find_stage_keeps_its_kernels),
    ("a_task_may_come_with_its_job", a_task_may_come_with_its_job),
    ("a_job_that_is_done_is_skipped", a_job_that_is_done_is_skipped),
    ("missing_artifacts_are_compiled_again", missing_artifacts_are_compiled_again),
    ("a_missing_task_is_made_again", a_missing_task_is_made_again),
    ("a_cache_that_is_too_small_ends_with_an_outcome", a_cache_that_is_too_small_ends_with_an_outcome),
    ("messages_that_are_no_jobs_are_dead", messages_that_are_no_jobs_are_dead),
    ("a_job_that_can_not_be_run_ends_with_an_outcome", a_job_that_can_not_be_run_ends_with_an_outcome),
    ("a_job_that_kills_its_workers_ends_with_an_outcome", a_job_that_kills_its_workers_ends_with_an_outcome),
    ("a_worker_that_lives_spares_its_job", a_worker_that_lives_spares_its_job),
    ("another_device_burns_no_job", another_device_burns_no_job),
    ("times_that_are_taken_otherwise_are_not_mixed", times_that_are_taken_otherwise_are_not_mixed),
    ("a_worker_leaves_after_its_jobs", a_worker_leaves_after_its_jobs),
    ("a_worker_leaves_when_idle", a_worker_leaves_when_idle),
    ("while_the_store_is_away_nothing_is_taken", while_the_store_is_away_nothing_is_taken),
    ("a_service_manager_costs_no_candidate", a_service_manager_costs_no_candidate),
    ("a_child_that_somebody_kills_is_no_result", a_child_that_somebody_kills_is_no_result),
    (
        "a_job_whose_child_is_always_killed_is_given_up_in_the_end",
        a_job_whose_child_is_always_killed_is_given_up_in_the_end,
    ),
    ("who_kills_every_child_is_no_job", who_kills_every_child_is_no_job),
    ("a_drain_finishes_what_it_can", a_drain_finishes_what_it_can),
    ("a_drain_hands_back_what_it_can_not_finish", a_drain_hands_back_what_it_can_not_finish),
    ("a_device_that_is_gone_hands_its_jobs_back", a_device_that_is_gone_hands_its_jobs_back),
    ("a_kill_for_want_of_memory_is_no_result", a_kill_for_want_of_memory_is_no_result),
    ("a_job_that_never_has_the_memory_is_handed_back", a_job_that_never_has_the_memory_is_handed_back),
    ("a_store_that_blinks_costs_no_measurement", a_store_that_blinks_costs_no_measurement),
    ("the_device_that_does_nothing", the_device_that_does_nothing),
];

fn a_job_becomes_an_outcome() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let refused = Failure::new(FailureKind::CompileError, "line 1: no");
        let job = setting.job(1, Stage::Perf, 3);
        let candidates = [Ok(kernel(RIGHT)), Err(refused.clone()), Ok(kernel("abort();"))];
        let eval_job = setting.compiled(job.clone(), &candidates).await;
        setting.publish(&eval_job).await;
        let worker = setting.work(|_| {});
        let outcome = setting.outcome(&job).await;
        setting.settled("done", 1.0).await;

        assert_eq!((outcome.job.clone(), outcome.protocol), (job.clone(), PROTOCOL_VERSION));
        assert_eq!((outcome.task, &outcome.description), (eval_job.task.digest(), &eval_job.description));
        assert!(!outcome.device.is_empty());
        let [timed, uncompiled, crashed] = outcome.candidates.as_slice() else { panic!("{outcome:?}") };
        let median_ms = timed.result.as_ref().unwrap().median_ms;
        assert_eq!(timed.built.as_ref(), eval_job.built[0].as_ref().ok());
        assert_eq!((&uncompiled.result, &uncompiled.built), (&Err(refused), &None));
        assert_eq!(crashed.result.as_ref().unwrap_err().kind, FailureKind::Fault);

        let session = &setting.session.name;
        assert_eq!(setting.store.best_ms(session, job.group()).await.unwrap(), Some(median_ms));
        assert!(setting.store.progress(session).await.unwrap().is_complete());
        assert_eq!(setting.store.pins(session).await.unwrap()["device.host"], outcome.device);
        assert_eq!(setting.broker.depth(&job.eval_queue()).await.unwrap(), 0);
        assert_eq!(setting.metric("bluefin_candidates_total", &[("step", "eval")]), 3.0);
        // The second finds out, before the outcome is stored, whether the device still works.
        assert_eq!(setting.metric("bluefin_child_starts_total", &[]), 2.0);
        assert_eq!(setting.metric("bluefin_child_losses_total", &[("cause", "signal")]), 1.0);
        assert!(setting.metric("bluefin_device_busy_seconds_total", &[]) > 0.0);
        assert!(setting.metric("bluefin_device_candidate_seconds_total", &[]) > 0.0);
        assert!(setting.metric("bluefin_child_seconds_total", &[("part", "time")]) > 0.0);
        assert_eq!(setting.metric("bluefin_device_drift_ratio", &[("device", "host")]), 1.0);
        setting.stop(worker).await;
    });
}

/// The play-off of a job whose task is a blob, or in the message itself, as the release before sent it.
fn play_off(task: impl FnOnce(Task, EvalJob) -> EvalJob) {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf, Stage::Find]).await;
        let candidates = [Ok(kernel(RIGHT)), Ok(kernel("abort();")), Ok(kernel(&format!("usleep(500); {RIGHT}")))];
        let job = setting.job(1, Stage::Perf, 3);
        let eval_job = task(support::task(&kernel(RIGHT)), setting.compiled(job.clone(), &candidates).await);
        setting.publish(&eval_job).await;
        let worker = setting.work(|_| {});
        let perf = setting.outcome(&job).await;
        assert!(perf.candidates[0].result.is_ok());

        // The last perf outcome of the group publishes its find job: to be evaluated at once where it says what by.
        let find = follow_ups(&setting.session, &[perf]).remove(0);
        assert_eq!(find.stage, Stage::Find);
        if eval_job.task.digest().is_none() {
            let mut compile = setting.broker.consume(&job.compile_queue(), 1).await.unwrap();
            let delivery = compile.next().await.unwrap();
            assert_eq!(wire::decode::<CompileJob>(&delivery.body).unwrap().job, find);
            delivery.ack().await.unwrap();
            let finalists: Vec<_> = find
                .candidates
                .iter()
                .map(|finalist| candidates[job.candidates.iter().position(|c| c == finalist).unwrap()].clone())
                .collect();
            setting.publish(&setting.compiled(find.clone(), &finalists).await).await;
        }
        let outcome = setting.outcome(&find).await;
        for candidate in &outcome.candidates {
            let timing = candidate.result.as_ref().unwrap();
            assert!(!timing.pruned && timing.samples_ms.len() >= 3);
            let artifact = candidate.built.as_ref().and_then(Built::artifact).unwrap();
            assert!(setting.store.blob(artifact.digest).await.unwrap().is_some(), "the exporter needs it");
        }
        setting.settled("done", 2.0).await;
        assert_eq!(setting.broker.depth(&job.compile_queue()).await.unwrap(), 0);
        assert!(setting.store.progress(&setting.session.name).await.unwrap().is_complete());
        setting.stop(worker).await;
    });
}

fn the_find_stage_keeps_its_kernels() {
    play_off(|_, eval_job| eval_job);
}

fn a_task_may_come_with_its_job() {
    play_off(|task, eval_job| EvalJob { task: TaskRef::Inline(Box::new(task)), ..eval_job });
}

fn a_job_that_is_done_is_skipped() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let job = setting.job(1, Stage::Perf, 1);
        let eval_job = setting.compiled(job.clone(), &[Ok(kernel(RIGHT))]).await;
        setting.publish(&eval_job).await;
        let worker = setting.work(|_| {});
        let first = setting.outcome(&job).await;
        setting.settled("done", 1.0).await;
        setting.publish(&eval_job).await;
        setting.settled("skipped", 1.0).await;
        assert_eq!(setting.outcome(&job).await, first);
        assert_eq!(setting.broker.depth(&job.eval_queue()).await.unwrap(), 0);
        setting.stop(worker).await;
    });
}

fn missing_artifacts_are_compiled_again() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let job = setting.job(1, Stage::Perf, 2);
        let evicted = kernel(&format!("zero = 5; {RIGHT}"));
        let mut eval_job = setting.compiled(job.clone(), &[Ok(kernel(RIGHT)), Ok(kernel(RIGHT))]).await;
        eval_job.built[1] = Ok(evicted.built);
        setting.publish(&eval_job).await;
        let worker = setting.work(|_| {});
        setting.settled("recompile", 1.0).await;
        let mut compile = setting.broker.consume(&job.compile_queue(), 1).await.unwrap();
        let delivery = compile.next().await.unwrap();
        let again: CompileJob = wire::decode(&delivery.body).unwrap();
        assert_eq!(
            again,
            CompileJob { job: job.clone(), enqueued_ms: 77, recompiles: 1, work: CompileWork::Candidates }
        );
        assert!(!setting.store.has_outcome(&job.session, job.group(), job.id()).await.unwrap());
        // Compiled, it is evaluated.
        setting.store.put_artifact(&evicted.code).await.unwrap();
        setting.publish(&eval_job).await;
        assert!(setting.outcome(&job).await.candidates.iter().all(|candidate| candidate.result.is_ok()));
        setting.stop(worker).await;
    });
}

fn a_missing_task_is_made_again() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let job = setting.job(1, Stage::Perf, 1);
        let mut eval_job = setting.compiled(job.clone(), &[Ok(kernel(RIGHT))]).await;
        eval_job.task = TaskRef::Blob(Digest::of(b"gone"));
        setting.publish(&eval_job).await;
        let worker = setting.work(|_| {});
        setting.settled("recompile", 1.0).await;
        assert_eq!(setting.broker.depth(&job.compile_queue()).await.unwrap(), 1);
        assert!(!setting.store.has_outcome(&job.session, job.group(), job.id()).await.unwrap());
        setting.stop(worker).await;
    });
}

fn a_cache_that_is_too_small_ends_with_an_outcome() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let job = setting.job(1, Stage::Perf, 1);
        let mut eval_job = setting.compiled(job.clone(), &[Ok(kernel(RIGHT))]).await;
        eval_job.built[0] = Ok(kernel(&format!("zero = 6; {RIGHT}")).built);
        eval_job.recompiles = MAX_RECOMPILES - 1;
        setting.publish(&eval_job).await;
        let worker = setting.work(|_| {});
        setting.settled("recompile", 1.0).await;
        // After its delay, not at once.
        assert_eq!(setting.broker.depth(&job.compile_queue()).await.unwrap(), 0);
        eval_job.recompiles = MAX_RECOMPILES;
        setting.publish(&eval_job).await;
        let failure = setting.outcome(&job).await.candidates.remove(0).result.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Dead);
        assert!(failure.detail.contains("the artifact cache is too small"), "{}", failure.detail);
        setting.until("dead", async || (setting.broker.depth(DEAD_QUEUE).await.unwrap() == 1).then_some(())).await;
        assert!(setting.store.progress(&job.session).await.unwrap().is_complete());
        setting.stop(worker).await;
    });
}

fn messages_that_are_no_jobs_are_dead() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let job = setting.job(1, Stage::Perf, 2);
        // One candidate too few.
        let short = setting.compiled(job.clone(), &[Ok(kernel(RIGHT))]).await;
        setting.publish(&short).await;
        setting.broker.publish(&job.eval_queue(), "junk", b"junk".as_slice().into()).await.unwrap();
        // Another schema version is for a worker of that version: it comes again later.
        let mut newer = wire::encode(&short).unwrap();
        newer[3] += 1;
        setting.broker.publish(&job.eval_queue(), "newer", newer.into()).await.unwrap();
        let worker = setting.work(|_| {});
        setting.until("dead", async || (setting.broker.depth(DEAD_QUEUE).await.unwrap() == 2).then_some(())).await;
        let outcome = setting.outcome(&job).await;
        for candidate in outcome.candidates {
            let failure = candidate.result.unwrap_err();
            assert_eq!(failure.kind, FailureKind::Dead);
            assert_eq!(failure.detail, "built: found 1, expected one for each of 2 candidates");
        }
        setting.stop(worker).await;
        assert_eq!(setting.broker.depth(DEAD_QUEUE).await.unwrap(), 2, "the newer message is not dead");
    });
}

fn a_job_that_can_not_be_run_ends_with_an_outcome() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let job = |size| setting.job(size, Stage::Perf, 1);
        let (right, mut two, mut none) = (kernel(RIGHT), kernel(RIGHT), kernel(RIGHT));
        two.built.objects.push(two.built.objects[0].clone());
        none.built.objects.clear();
        let no_task = EvalJob { task: TaskRef::None, ..setting.compiled(job(4), &[Ok(right.clone())]).await };
        let cases = [
            (setting.compiled(job(1), &[Ok(two)]).await, "built: found 2 code objects of solver-0:1, expected 1"),
            (
                setting.compiled(job(2), &[Ok(none.clone())]).await,
                "built: found 0 code objects of solver-0:1, expected 1",
            ),
            (
                setting.compiled_with(&none, job(3), &[Ok(right.clone())]).await,
                "built: found 0 code objects of the reference, expected 1",
            ),
            (no_task, "task: found none, expected one to check candidates by"),
        ];
        let queue = job(0).eval_queue();
        let other = Job { method: Method::FIN, ..job(5) };
        let other = setting.compiled(other, &[Ok(right)]).await;
        for (eval_job, _) in &cases {
            setting.publish(eval_job).await;
        }
        setting.broker.publish(&queue, "other", wire::encode(&other).unwrap().into()).await.unwrap();
        let worker = setting.work(|_| {});
        let cases = cases.into_iter().chain([(other, "method: found fin, expected kernels, which its queue is for")]);
        for (eval_job, reason) in cases {
            let failure = setting.outcome(&eval_job.job).await.candidates.remove(0).result.unwrap_err();
            assert_eq!((failure.kind, failure.detail.as_str()), (FailureKind::Dead, reason));
        }
        setting.settled("dead", 5.0).await;
        setting.stop(worker).await;
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

fn another_device_burns_no_job() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        setting.store.pin(&setting.session.name, "device.host", "some other CPU").await.unwrap();
        let job = setting.job(1, Stage::Perf, 1);
        setting.publish(&setting.compiled(job.clone(), &[Ok(kernel(RIGHT))]).await).await;
        let worker = setting.work(|_| {});
        setting.settled("handed_back", 1.0).await;
        assert_eq!(setting.metric("bluefin_version_refusals_total", &[("step", "eval")]), 1.0);
        assert!(!setting.store.has_outcome(&job.session, job.group(), job.id()).await.unwrap());
        setting.stop(worker).await;
        let mut consumer = setting.broker.consume(&job.eval_queue(), 1).await.unwrap();
        let delivery = consumer.next().await.unwrap();
        assert_eq!(delivery.redeliveries, 0, "a copy that nobody has had");
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

fn times_that_are_taken_otherwise_are_not_mixed() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let first = setting.job(1, Stage::Perf, 1);
        setting.publish(&setting.compiled(first.clone(), &[Ok(kernel(RIGHT))]).await).await;
        let worker = setting.work(|_| {});
        setting.outcome(&first).await;
        setting.stop(worker).await;
        let pins = setting.store.pins(&first.session).await.unwrap();
        assert_eq!(pins["timing.host"], format!("protocol {PROTOCOL_VERSION}, warm, 20 ms"));
        assert!(!pins.contains_key("driver.host"), "a CPU has none");

        let second = setting.job(2, Stage::Perf, 1);
        setting.publish(&setting.compiled(second.clone(), &[Ok(kernel(RIGHT))]).await).await;
        let others: [fn(&mut Config); 2] =
            [|config| config.limits.cache = Cache::Cold, |config| config.limits.sample_budget_ms = 50.0];
        for change in others {
            setting.shutdown = CancellationToken::new();
            let worker = setting.work(change);
            let refusals = || setting.metric("bluefin_version_refusals_total", &[("step", "eval")]);
            setting.until("refusal", async || (refusals() == 1.0).then_some(())).await;
            setting.stop(worker).await;
            assert_eq!(count_outcomes(&setting, std::slice::from_ref(&second)).await, 0);
        }
        assert_eq!(setting.store.pins(&first.session).await.unwrap(), pins);
    });
}

fn a_worker_leaves_after_its_jobs() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let mut jobs = Vec::new();
        for size in 0..3 {
            let job = setting.job(size, Stage::Perf, 1);
            setting.publish(&setting.compiled(job.clone(), &[Ok(kernel(RIGHT))]).await).await;
            jobs.push(job);
        }
        let worker = setting.work(|config| config.leave = Leave { after_jobs: Some(2), when_idle: None });
        worker.await.unwrap().unwrap();
        assert_eq!(count_outcomes(&setting, &jobs).await, 2);
        assert_eq!(setting.broker.depth(&jobs[0].eval_queue()).await.unwrap(), 1);
    });
}

fn a_worker_leaves_when_idle() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        // Longer at work than it may be idle.
        let job = setting.job(1, Stage::Perf, 1);
        setting.publish(&setting.compiled(job.clone(), &[Ok(kernel(&format!("usleep(150000); {RIGHT}")))]).await).await;
        let idle = Duration::from_millis(200);
        let worker = setting.work(|config| config.leave = Leave { after_jobs: None, when_idle: Some(idle) });
        worker.await.unwrap().unwrap();
        assert_eq!(count_outcomes(&setting, std::slice::from_ref(&job)).await, 1);
    });
}

fn while_the_store_is_away_nothing_is_taken() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let first = setting.job(0, Stage::Perf, 1);
        setting.publish(&setting.compiled(first.clone(), &[Ok(kernel(RIGHT))]).await).await;
        let mut jobs = vec![first.clone()];
        let waiting = Waiting::default();
        let (shared, away) = (waiting.clone(), Arc::clone(&setting.away));
        let worker = setting.work(move |config| config.waiting = shared);
        setting.outcome(&first).await;
        setting.settled("done", 1.0).await;
        // It holds several now, and gives back what it has not begun.
        away.store(true, Ordering::Relaxed);
        for size in 1..5 {
            let job = setting.job(size, Stage::Perf, 1);
            setting.publish(&setting.compiled(job.clone(), &[Ok(kernel(RIGHT))]).await).await;
            jobs.push(job);
        }
        waiting.begins().await;
        assert!(waiting.reason().unwrap().starts_with("waiting for the store: "), "{waiting:?}");
        let queue = first.eval_queue();
        setting.until("paused", async || (setting.broker.depth(&queue).await.unwrap() >= 2).then_some(())).await;
        away.store(false, Ordering::Relaxed);
        setting.settled("done", 5.0).await;
        assert_eq!(count_outcomes(&setting, &jobs).await, 5);
        assert_eq!(setting.broker.depth(DEAD_QUEUE).await.unwrap(), 0);
        setting.stop(worker).await;
    });
}

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

const KILLS_ITSELF: &str = "extern int kill(int, int); kill(getpid(), 9);";

fn a_job_whose_child_is_always_killed_is_given_up_in_the_end() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let job = setting.job(1, Stage::Perf, 1);
        setting.publish(&setting.compiled(job.clone(), &[Ok(kernel(KILLS_ITSELF))]).await).await;
        let worker = setting.work(|_| {});
        setting.settled("handed_back", 1.0).await;
        assert_eq!(setting.begun(&job).await.as_deref(), Some("1"));
        assert_eq!(count_outcomes(&setting, std::slice::from_ref(&job)).await, 0);
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
        assert_eq!(count_outcomes(&setting, &jobs).await, 0);
        setting.stop(worker).await;
    });
}

/// Jobs that take half a second each, one of them on the device.
async fn busy(setting: &mut Setting, change: impl FnOnce(&mut Config)) -> (Vec<Job>, JoinHandle<Result<(), Error>>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("running");
    let mut jobs = Vec::new();
    for size in 0..3 {
        let job = setting.job(size, Stage::Perf, 1);
        let slow = kernel(&format!(
            "FILE *f = fopen(\"{}\", \"w\"); if (f) fclose(f); usleep(150000); {RIGHT}",
            file.display()
        ));
        setting.publish(&setting.compiled(job.clone(), &[Ok(slow)]).await).await;
        jobs.push(job);
    }
    let worker = setting.work(change);
    setting.until("a kernel runs", async || file.exists().then_some(())).await;
    (jobs, worker)
}

async fn count_outcomes(setting: &Setting, jobs: &[Job]) -> usize {
    let mut count = 0;
    for job in jobs {
        count += usize::from(setting.store.has_outcome(&job.session, job.group(), job.id()).await.unwrap());
    }
    count
}

fn a_drain_finishes_what_it_can() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let (jobs, worker) = busy(&mut setting, |_| {}).await;
        setting.stop(worker).await;
        assert_eq!(count_outcomes(&setting, &jobs).await, 1, "the one on the device");
        assert_eq!(setting.broker.depth(&jobs[0].eval_queue()).await.unwrap(), 2);
    });
}

fn a_drain_hands_back_what_it_can_not_finish() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let (jobs, worker) = busy(&mut setting, |config| config.grace = Duration::from_millis(10)).await;
        setting.stop(worker).await;
        assert_eq!(count_outcomes(&setting, &jobs).await, 0);
        assert_eq!(setting.broker.depth(&jobs[0].eval_queue()).await.unwrap(), 3);
        // Another worker does it all.
        setting.shutdown = CancellationToken::new();
        let worker = setting.work(|_| {});
        for job in &jobs {
            assert!(setting.outcome(job).await.candidates[0].result.is_ok());
        }
        setting.stop(worker).await;
    });
}

fn a_device_that_is_gone_hands_its_jobs_back() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("child");
        std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &program).unwrap();
        let job = setting.job(1, Stage::Perf, 2);
        let unlinks = kernel(&format!("unlink(\"{}\"); abort();", program.display()));
        setting.publish(&setting.compiled(job.clone(), &[Ok(unlinks), Ok(kernel(RIGHT))]).await).await;
        let worker = setting.work(|config| {
            let mut child = child();
            child.command[0] = program.clone().into();
            config.evaluator = Arc::new(DeviceChild::host(child));
        });
        let error = worker.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Device(_)), "{error}");
        assert_eq!(count_outcomes(&setting, std::slice::from_ref(&job)).await, 0);
        assert_eq!(setting.broker.depth(&job.eval_queue()).await.unwrap(), 1);
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
            assert_eq!(count_outcomes(&setting, std::slice::from_ref(&job)).await, 0);
            let mut consumer = setting.broker.consume(&job.eval_queue(), 1).await.unwrap();
            let delivery = consumer.next().await.unwrap();
            assert_eq!(delivery.redeliveries, 0, "a copy that nobody has had");
            delivery.ack().await.unwrap();
        }
    });
}

fn a_store_that_blinks_costs_no_measurement() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        setting.blinks = true;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("loads");
        let counts = format!(
            "static int counted; if (!counted++) {{ FILE *f = fopen(\"{}\", \"a\"); fputs(\"x\", f); fclose(f); }} {RIGHT}",
            file.display()
        );
        let job = setting.job(1, Stage::Perf, 1);
        setting.publish(&setting.compiled(job.clone(), &[Ok(kernel(&counts))]).await).await;
        let worker = setting.work(|_| {});
        assert!(setting.outcome(&job).await.candidates[0].result.is_ok());
        setting.settled("done", 1.0).await;
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "x", "evaluated once");
        assert!(setting.store.progress(&setting.session.name).await.unwrap().is_complete());
        setting.stop(worker).await;
    });
}

fn the_device_that_does_nothing() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let candidates = [Ok(kernel(RIGHT)), Err(Failure::new(FailureKind::CompileTimeout, "slow"))];
        let compiled = setting.compiled(setting.job(0, Stage::Perf, 2), &candidates).await;
        let mut jobs = Vec::new();
        for size in 0..300 {
            let eval_job = EvalJob { job: setting.job(size, Stage::Perf, 2), ..compiled.clone() };
            setting.publish(&eval_job).await;
            jobs.push(eval_job.job);
        }
        let worker = setting.work(|config| config.evaluator = Arc::new(Noop { target: Target::Host }));
        setting.settled("done", 300.0).await;
        assert_eq!(count_outcomes(&setting, &jobs).await, 300);
        let outcome = setting.outcome(&jobs[7]).await;
        assert!((1.0..2.0).contains(&outcome.candidates[0].result.as_ref().unwrap().median_ms));
        assert_eq!(outcome.candidates[1].result.as_ref().unwrap_err().kind, FailureKind::CompileTimeout);
        assert!(setting.store.progress(&setting.session.name).await.unwrap().is_complete());
        setting.stop(worker).await;
    });
}
