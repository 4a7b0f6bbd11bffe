//! The worker from delivery to outcome, with the embedded broker, a store in memory and a real child.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bluefin_common::artifact::Built;
use bluefin_common::broker::{Broker, DEAD_QUEUE};
use bluefin_common::campaign::MAX_RECOMPILES;
use bluefin_common::decision::follow_ups;
use bluefin_common::description::Description;
use bluefin_common::digest::Digest;
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::job::{CompileJob, CompileWork, EvalJob, Job};
use bluefin_common::method::Method;
use bluefin_common::outcome::{CandidateOutcome, Outcome, Timing};
use bluefin_common::session::Stage;
use bluefin_common::store::{Artifacts as _, Blobs as _, Sessions as _, Work as _};
use bluefin_common::target::Target;
use bluefin_common::task::{Task, TaskRef};
use bluefin_common::waiting::Waiting;
use bluefin_common::wire;
use bluefin_eval_worker::timing::{Cache, PROTOCOL_VERSION};
use bluefin_eval_worker::{Config, Noop};
use bluefin_test_support::eventually;
use tokio_util::sync::CancellationToken;

use crate::support::setting::Setting;
use crate::support::{self, RIGHT, Test, block_on, kernel};

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
    ("another_device_burns_no_job", another_device_burns_no_job),
    ("times_that_are_taken_otherwise_are_not_mixed", times_that_are_taken_otherwise_are_not_mixed),
    ("while_the_store_is_away_nothing_is_taken", while_the_store_is_away_nothing_is_taken),
    ("a_store_that_blinks_costs_no_measurement", a_store_that_blinks_costs_no_measurement),
    ("a_job_that_waited_knows_what_others_found_meanwhile", a_job_that_waited_knows_what_others_found_meanwhile),
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

        assert_eq!(setting.calls.lock().unwrap()["session"], 1, "read once a job");
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
        let worker = setting.work(|config| config.limits = support::patient());
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

fn a_job_that_waited_knows_what_others_found_meanwhile() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let (job, others) = (setting.job(1, Stage::Perf, 1), setting.job(1, Stage::Perf, 2));
        assert_eq!(job.group(), others.group());
        let eval_job = setting.compiled(job.clone(), &[Ok(kernel(&format!("usleep(500); {RIGHT}")))]).await;
        setting.publish(&eval_job).await;
        let turn = Arc::new(tokio::sync::Mutex::new(()));
        let held = turn.lock().await;
        let worker = setting.work(|config| config.turn = Arc::clone(&turn));
        eventually(Duration::from_secs(60), "the job to wait for its turn", async || {
            setting.calls.lock().unwrap().contains_key("best_ms")
        })
        .await;
        let found = others.candidates.iter().map(|candidate| CandidateOutcome {
            candidate: candidate.clone(),
            built: None,
            result: Ok(Timing::single(1e-4)),
            resources: None,
        });
        let found = Outcome::undone(&others, Description::default(), found.collect(), 1);
        setting.store.put_outcome(&found).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        drop(held);
        let outcome = setting.outcome(&job).await;
        let timing = outcome.candidates[0].result.as_ref().unwrap();
        assert!(timing.pruned, "{timing:?}");
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
            assert_eq!(setting.count_outcomes(std::slice::from_ref(&second)).await, 0);
        }
        assert_eq!(setting.store.pins(&first.session).await.unwrap(), pins);
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
        assert_eq!(setting.count_outcomes(&jobs).await, 5);
        assert_eq!(setting.broker.depth(DEAD_QUEUE).await.unwrap(), 0);
        setting.stop(worker).await;
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
        assert_eq!(setting.count_outcomes(&jobs).await, 300);
        let outcome = setting.outcome(&jobs[7]).await;
        assert!((1.0..2.0).contains(&outcome.candidates[0].result.as_ref().unwrap().median_ms));
        assert_eq!(outcome.candidates[1].result.as_ref().unwrap_err().kind, FailureKind::CompileTimeout);
        assert!(setting.store.progress(&setting.session.name).await.unwrap().is_complete());
        setting.stop(worker).await;
    });
}
