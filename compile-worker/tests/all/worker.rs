//! The worker loop, with a broker in memory and a store in memory.

mod carried;
mod fleet;
mod machine;
mod overlap;
mod rounds;
mod toy;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_common::broker::{Broker, DEAD_QUEUE};
use bluefin_common::candidate::Candidate;
use bluefin_common::delivery::MAX_BEGUN;
use bluefin_common::failure::FailureKind;
use bluefin_common::job::{CompileJob, EvalJob, Job, compile_queue};
use bluefin_common::outcome::Outcome;
use bluefin_common::session::Stage;
use bluefin_common::shelf;
use bluefin_common::store::{Artifacts as _, Planned, Records as _, Sessions as _, Work as _};
use bluefin_common::target::Target;
use bluefin_common::wire;
use bluefin_compile_worker::Error;
use bluefin_test_support::patience;

use self::fleet::{PATIENCE, compile_job, evals, fleet, fleet_on, kinds, metric, next, noop, settled, two_classes};

#[tokio::test]
async fn a_job_becomes_an_eval_job_with_its_artifacts() {
    let fleet = fleet(|_| {}).await;
    let mut evals = fleet.consume(&evals()).await;
    let worker = fleet.worker(|_| {});
    let job = fleet.job(64, 4);
    fleet.enqueue(&job).await;
    let eval: EvalJob = next(&mut evals).await;
    let task = fleet.task(&eval).await;
    assert_eq!((&eval.job, eval.built.len()), (&job, 4));
    assert_eq!(task.buffers.len(), 2);
    for built in eval.built.iter().map(|built| built.as_ref().unwrap()).chain([&task.reference]) {
        assert!(fleet.store.artifact(built.artifact().unwrap()).await.unwrap().is_some());
        assert_eq!(built.launches.len(), 1);
        assert_eq!(built.objects[0].file, "stencil.c");
    }
    // As kernel dbs and perf dbs name it.
    let options = &eval.built[0].as_ref().unwrap().objects[0].options;
    assert_eq!(options, " -DROWS=1 -DTILE_H=32 -DTILE_W=512", "those of the default");
    let [solver] = eval.description.solvers.as_slice() else { panic!("{:?}", eval.description) };
    assert_eq!((eval.description.library.as_str(), solver.name.as_str()), ("stencil", "StencilTiled"));
    assert_eq!((solver.tunable, solver.params.concat()), (true, "TILE_HTILE_WROWS".to_string()));
    assert_eq!((&solver.algorithm, solver.default.as_ref()), (&None, Some(&job.candidates[0].params)));
    assert_eq!(eval.description.reference, Some(fleet.spec.reference()));
    // The same again, as after a crash before the acknowledgement: nothing is compiled.
    fleet.enqueue(&job).await;
    let again: EvalJob = next(&mut evals).await;
    assert_eq!((again.task, again.description, again.built), (eval.task, eval.description, eval.built));
    assert_eq!(worker.stop().await.compiled().0, 5);
    assert_eq!(fleet.broker.depth(&compile_queue("cc", &Target::Host)).await.unwrap(), 0);
}

#[tokio::test]
async fn a_candidate_that_fails_does_not_fail_its_batch() {
    let fleet = fleet(|bundle| {
        let source = bundle.files.get_mut("stencil.c").unwrap();
        *source = format!("#if defined(ROWS) && ROWS == 4\n#error four\n#endif\n{source}");
    })
    .await;
    let mut evals = fleet.consume(&evals()).await;
    let worker = fleet.worker(|_| {});
    let mut job = fleet.job(64, 30);
    job.candidates.push(Candidate { solver: "StencilTiled".to_string(), params: vec![] });
    fleet.enqueue(&job).await;
    let eval: EvalJob = next(&mut evals).await;
    for (candidate, built) in job.candidates.iter().zip(&eval.built) {
        let failure = built.as_ref().err().map(|failure| (failure.kind, failure.detail.contains("four")));
        let expected = match candidate.params.as_slice() {
            [] => Some((FailureKind::InvalidLaunch, false)),
            [.., rows] if rows.to_string() == "4" => Some((FailureKind::CompileError, true)),
            _ => None,
        };
        assert_eq!(failure, expected, "{candidate}");
    }
    worker.stop().await;
}

#[tokio::test]
async fn nothing_to_evaluate_is_an_outcome() {
    // All candidates fail, then the reference.
    for (broken, detail) in [
        ("#ifdef ROWS\n#error no\n#endif\n", "error"),
        ("#ifndef ROWS\n#error no\n#endif\n", "the reference StencilReference failed"),
    ] {
        let fleet = fleet(|bundle| {
            let source = bundle.files.get_mut("stencil.c").unwrap();
            *source = format!("{broken}{source}");
        })
        .await;
        let worker = fleet.worker(|_| {});
        let job = fleet.job(64, 3);
        fleet.enqueue(&job).await;
        let outcome = fleet.outcome(&job).await;
        assert_eq!(kinds(&outcome), [FailureKind::CompileError; 3]);
        assert!(outcome.candidates[2].result.as_ref().unwrap_err().detail.contains(detail));
        assert_eq!((outcome.description.library.as_str(), outcome.description.solvers.len()), ("stencil", 1));
        // Its group has nothing left to do.
        worker.stop().await;
        assert!(fleet.store.progress(&fleet.session.name).await.unwrap().is_complete());
        assert_eq!(fleet.broker.depth(&evals()).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn poison_goes_to_the_dead_letters() {
    let fleet = fleet(|_| {}).await;
    let mut dead = fleet.consume(DEAD_QUEUE).await;
    let mut evals = fleet.consume(&evals()).await;
    let worker = fleet.worker(|_| {});
    let queue = compile_queue("cc", &Target::Host);
    // A job of another version of bluefin is for a worker of that version: it comes again later.
    let mut newer = wire::encode(&compile_job(fleet.job(64, 3))).unwrap();
    newer[3] += 1;
    fleet.broker.publish(&queue, "newer", newer.into()).await.unwrap();
    fleet.broker.publish(&queue, "poison", vec![1, 2, 3].into()).await.unwrap();
    let letter = tokio::time::timeout(patience(PATIENCE), dead.next()).await.unwrap().unwrap();
    assert_eq!(letter.body.as_ref(), [1, 2, 3]);
    letter.ack().await.unwrap();
    // A job of another toolchain makes no sense, ever.
    let lost = Job { spec: bluefin_common::digest::Digest::of(b"lost"), ..fleet.job(64, 2) };
    let foreign = Job { toolchain: "clang".to_string(), ..fleet.job(64, 2) };
    let publish = async |job: &Job| {
        let body = wire::encode(&compile_job(job.clone())).unwrap();
        fleet.broker.publish(&queue, &job.id().to_string(), body.into()).await.unwrap();
    };
    fleet.store.plan(&fleet.session.name, &[Planned::of(&foreign)]).await.unwrap();
    publish(&foreign).await;
    assert_eq!(kinds(&fleet.outcome(&foreign).await), [FailureKind::Dead; 2]);
    assert_eq!(next::<CompileJob>(&mut dead).await.job, foreign);
    // What a store has lost is no job's fault: a spec, a session.
    let orphan = Job { session: "gone".parse().unwrap(), ..lost.clone() };
    for (before, job) in [(1.0, &lost), (2.0, &orphan)] {
        publish(job).await;
        until("it to be handed back", async || worker.settled("handed_back") >= before).await;
    }
    // The worker still works.
    let job = fleet.job(64, 1);
    fleet.enqueue(&job).await;
    assert_eq!(next::<EvalJob>(&mut evals).await.job, job);
    assert_eq!(fleet.broker.depth(DEAD_QUEUE).await.unwrap(), 0, "the newer message is not dead");
    worker.stop().await;
}

#[tokio::test]
async fn only_a_job_that_many_workers_died_of_is_given_up() {
    let fleet = fleet(|_| {}).await;
    let (mut dead, mut evals) = (fleet.consume(DEAD_QUEUE).await, fleet.consume(&evals()).await);
    let queue = compile_queue("cc", &Target::Host);
    let begun = async |job: &Job| {
        let shelf = shelf::begun(&job.session);
        fleet.store.records_of(&shelf, &[job.id().to_string()]).await.unwrap().remove(0)
    };
    let spared = fleet.job(64, 2);
    fleet.enqueue(&spared).await;
    fleet.deliver_again(&queue, MAX_BEGUN - 1).await;
    let worker = fleet.worker(|_| {});
    assert_eq!(next::<EvalJob>(&mut evals).await.job, spared);
    worker.stop().await;
    assert_eq!(begun(&spared).await, None, "this worker lives");

    let job = fleet.job(65, 2);
    fleet.enqueue(&job).await;
    fleet.deliver_again(&queue, MAX_BEGUN).await;
    let worker = fleet.worker(|_| {});
    let outcome = fleet.outcome(&job).await;
    assert_eq!(kinds(&outcome), [FailureKind::Dead; 2]);
    let detail = &outcome.candidates[0].result.as_ref().unwrap_err().detail;
    assert!(detail.contains("20 workers died while they worked on it"), "{detail}");
    assert_eq!(next::<CompileJob>(&mut dead).await.job, job);
    worker.stop().await;
    assert_eq!(begun(&job).await, None);
}

#[tokio::test]
async fn an_outage_uses_up_no_attempts() {
    // A queue that is full is one that takes nothing now.
    let fleet = fleet_on(EmbeddedBroker::with_max_depth(1), |_| {}).await;
    let queue = evals();
    fleet.broker.publish(&queue, "in the way", vec![0].into()).await.unwrap();
    let worker = fleet.worker(|_| {});
    let job = fleet.job(64, 1);
    fleet.enqueue(&job).await;
    let started = Instant::now();
    while worker.metrics.compiled().0 < 2 {
        assert!(started.elapsed() < patience(PATIENCE));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // For several attempts to publish.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(worker.settled("done") + worker.settled("handed_back"), 0.0);
    let mut consumer = fleet.consume(&queue).await;
    consumer.next().await.unwrap().ack().await.unwrap();
    assert_eq!(next::<EvalJob>(&mut consumer).await.job, job);
    while worker.settled("done") < 1.0 {
        assert!(started.elapsed() < patience(PATIENCE));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(worker.settled("handed_back"), 0.0);
    worker.stop().await;
}

#[tokio::test]
async fn compilers_that_the_kernel_kills_are_nobodys_failure() {
    let root = tempfile::tempdir().unwrap();
    let counter = root.path().join("proc/vmstat");
    std::fs::create_dir(root.path().join("proc")).unwrap();
    std::fs::write(&counter, "oom_kill 0\n").unwrap();
    let fleet = fleet(|_| {}).await;
    let job = fleet.job(64, 2);
    fleet.enqueue(&job).await;
    // Killed alone, and as the part of a compiler.
    for end in ["kill -KILL $$", "echo 'fatal error: Killed signal terminated program cc1' >&2; exit 1"] {
        let counts = format!("read name kills < {0}; echo $name $((kills + 1)) > {0}; {end}", counter.display());
        let worker = fleet.worker(|config| {
            config.slots = 1;
            config.alone = true;
            config.pauses = (Duration::from_millis(1), Duration::from_millis(1));
            config.launcher = Some(["/bin/sh", "-c", &counts, "sh"].map(Into::into).to_vec());
            config.limits.root = root.path().to_path_buf();
        });
        let (registry, task) = (worker.registry.clone(), worker.task);
        let error =
            tokio::time::timeout(patience(PATIENCE), task).await.unwrap().unwrap().expect_err("it gets nothing done");
        assert!(matches!(error, Error::Unfit { .. }) && error.to_string().contains("allow more memory"), "{error}");
        assert!(settled(&registry, "handed_back") >= 1.0);
        assert!(!fleet.store.has_outcome(&fleet.session.name, job.group(), job.id()).await.unwrap());
    }
    // Where there is memory, the job is what it was.
    let mut evals = fleet.consume(&evals()).await;
    let worker = fleet.worker(|_| {});
    let eval: EvalJob = next(&mut evals).await;
    assert!(eval.built.iter().all(Result::is_ok));
    worker.stop().await;
}

#[tokio::test]
async fn a_job_with_an_outcome_is_skipped() {
    let fleet = fleet(|_| {}).await;
    let job = fleet.job(64, 2);
    fleet.enqueue(&job).await;
    fleet.store.put_outcome(&Outcome::dead(&job, "done elsewhere", 1)).await.unwrap();
    let worker = fleet.worker(|_| {});
    let started = Instant::now();
    // Whoever stored it died before the group was settled.
    while !fleet.store.progress(&fleet.session.name).await.unwrap().is_complete() {
        assert!(started.elapsed() < patience(PATIENCE));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(worker.stop().await.compiled().0, 0);
    assert_eq!(fleet.broker.depth(&evals()).await.unwrap(), 0);
}

#[tokio::test]
async fn a_session_of_another_compiler_is_refused_at_no_cost() {
    let fleet = fleet(|_| {}).await;
    fleet.store.pin(&fleet.session.name, "toolchain.cc", "cc 1.0; pdp11; native CPU none").await.unwrap();
    let job = fleet.job(64, 2);
    fleet.enqueue(&job).await;
    let worker = fleet.worker(|_| {});
    until("it to be handed back", async || worker.settled("handed_back") == 1.0).await;
    assert_eq!(worker.stop().await.compiled().0, 0);
    let mut consumer = fleet.consume(&compile_queue("cc", &Target::Host)).await;
    let delivery = tokio::time::timeout(patience(PATIENCE), consumer.next()).await.unwrap().unwrap();
    assert_eq!(delivery.redeliveries, 0);
    assert!(!fleet.store.has_outcome(&fleet.session.name, job.group(), job.id()).await.unwrap());
}

#[tokio::test]
async fn a_drain_hands_back_what_does_not_end_in_time() {
    let fleet = fleet(|bundle| {
        // Seconds of compiling: a table of 10^8 numbers.
        let mut source = String::from("#define A0 1,\n");
        for level in 1..=8 {
            source.push_str(&format!("#define A{level} {}\n", format!("A{} ", level - 1).repeat(10)));
        }
        source.push_str("int x[] = { A8 };\n");
        bundle.files.insert("stencil.c".to_string(), source);
    })
    .await;
    let job = fleet.job(64, 2);
    fleet.enqueue(&job).await;
    let worker = fleet.worker(|config| config.grace = Duration::from_millis(100));
    let started = Instant::now();
    while fleet.broker.depth(&compile_queue("cc", &Target::Host)).await.unwrap() > 0 {
        assert!(started.elapsed() < patience(PATIENCE));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    worker.stop().await;
    let mut consumer = fleet.consume(&compile_queue("cc", &Target::Host)).await;
    let delivery = tokio::time::timeout(patience(PATIENCE), consumer.next()).await.unwrap().unwrap();
    assert_eq!(delivery.redeliveries, 0);
    assert_eq!(wire::decode::<CompileJob>(&delivery.body).unwrap().job, job);
}

/// Waits until `done`.
async fn until(what: &str, done: impl AsyncFn() -> bool) {
    let started = Instant::now();
    while !done().await {
        assert!(started.elapsed() < patience(PATIENCE), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_device_class_that_nobody_serves_stops_compiling_for_no_other() {
    const HIGH_WATER: u64 = 100;
    const JOBS: i64 = 300;
    let [idle, busy] = two_classes().await;
    busy.store.create_session(&busy.session).await.unwrap();
    let worker = busy.worker(|config| {
        config.high_water = HIGH_WATER;
        config.backlog = 4;
    });
    for height in 0..JOBS {
        idle.enqueue(&idle.job(64 + height, 1)).await;
        busy.enqueue(&busy.job(64 + height, 1)).await;
    }
    // Nobody evaluates the ones.
    let mut evals = busy.consume(&busy.evals()).await;
    for _ in 0..JOBS {
        let _: EvalJob = next(&mut evals).await;
    }
    let depth = async |queue: &str| busy.broker.depth(queue).await.unwrap();
    until("the others to fill their queue", async || depth(&idle.evals()).await > HIGH_WATER).await;
    until("what was in hand", async || depth(&idle.evals()).await + depth(&idle.compiles()).await == JOBS as u64).await;
    assert!(depth(&idle.evals()).await <= HIGH_WATER + 1 + 4, "what was in hand when it closed");
    let paused = |queue: &str| metric(&worker.registry, "bluefin_compile_paused", queue);
    assert_eq!((paused(&idle.evals()), paused(&busy.evals())), (1.0, 0.0));
    // Once somebody does they go on.
    let mut evals = idle.consume(&idle.evals()).await;
    for _ in 0..2 * HIGH_WATER {
        let _: EvalJob = next(&mut evals).await;
    }
    worker.stop().await;
}

#[tokio::test]
async fn a_queue_is_served_once_its_session_is_known() {
    let [one, other] = two_classes().await;
    let mut evals = other.consume(&other.evals()).await;
    let everything = one.worker(|config| config.look_every = Duration::from_millis(10));
    other.store.create_session(&other.session).await.unwrap();
    other.enqueue(&other.job(64, 1)).await;
    let _: EvalJob = next(&mut evals).await;
    everything.stop().await;
    // Those of another target than it was told are nothing to a worker.
    let limited = one.worker(|config| config.targets = Some(vec![one.session.target.clone()]));
    other.enqueue(&other.job(65, 1)).await;
    one.enqueue(&one.job(64, 1)).await;
    until("its own job", async || limited.settled("done") == 1.0).await;
    limited.stop().await;
    assert_eq!(one.broker.depth(&other.compiles()).await.unwrap(), 1);
}

#[tokio::test]
async fn a_worker_leaves_when_it_is_time() {
    let fleet = fleet(noop).await;
    for height in 0..7 {
        fleet.enqueue(&fleet.job(64 + height, 1)).await;
    }
    let after = fleet.worker(|config| config.leave.after_jobs = Some(3));
    assert_eq!(
        tokio::time::timeout(patience(PATIENCE), after.task).await.unwrap().unwrap().map_err(|error| error.to_string()),
        Ok(())
    );
    assert_eq!(settled(&after.registry, "done"), 3.0);
    assert_eq!(fleet.broker.depth(&compile_queue("noop", &Target::Host)).await.unwrap(), 4);
    let idle = fleet.worker(|config| config.leave.when_idle = Some(Duration::from_millis(200)));
    tokio::time::timeout(patience(PATIENCE), idle.task).await.unwrap().unwrap().unwrap();
    assert_eq!(settled(&idle.registry, "done"), 4.0);
    // As many as there are.
    fleet.enqueue(&fleet.job(90, 1)).await;
    let after = fleet.worker(|config| config.leave.after_jobs = Some(1));
    tokio::time::timeout(patience(PATIENCE), after.task).await.unwrap().unwrap().unwrap();
}

/// Slots that are busy while work waits are what a compile worker is for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_are_kept_busy() {
    let fleet = fleet(|_| {}).await;
    let jobs: Vec<Job> = (0..6).map(|index| Job { stage: Stage::Perf, ..fleet.job(64 + index, 30) }).collect();
    for job in &jobs {
        fleet.enqueue(job).await;
    }
    let mut evals = fleet.consume(&evals()).await;
    let worker = fleet.worker(|_| {});
    let started = Instant::now();
    for _ in &jobs {
        let _: EvalJob = next(&mut evals).await;
    }
    let elapsed = started.elapsed();
    let (count, busy) = worker.stop().await.compiled();
    let share = busy.as_secs_f64() / (2.0 * elapsed.as_secs_f64());
    println!("{count} compiles in {elapsed:?}, 2 slots busy {:.1} % of the time", 100.0 * share);
    assert_eq!(count, 31, "no size is baked in, so all jobs share the reference and 30 candidates");
    // Start, end and a machine that others use are in it.
    assert!(share > 0.85, "{share}");
}

/// What is left when nothing is compiled: look-ups, the queue, the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_many_jobs_goes_on_once() {
    let fleet = fleet(noop).await;
    const JOBS: i64 = 300;
    let jobs: Vec<_> = (0..JOBS).map(|height| fleet.job(64 + height, 8)).collect();
    for job in &jobs {
        fleet.enqueue(job).await;
    }
    let mut evals = fleet.consume(&evals()).await;
    let worker = fleet.worker(|_| {});
    let mut passed = HashSet::new();
    for _ in 0..JOBS {
        passed.insert(next::<EvalJob>(&mut evals).await.job.id());
    }
    assert_eq!(passed, jobs.iter().map(Job::id).collect());
    until("all to be settled", async || worker.settled("done") == JOBS as f64).await;
    worker.stop().await;
    assert_eq!(fleet.broker.depth(&self::evals()).await.unwrap(), 0, "none went on twice");
}

#[tokio::test]
async fn a_configuration_without_slots_is_refused() {
    let fleet = fleet(|_| {}).await;
    let worker = fleet.worker(|config| config.slots = 0);
    let error = worker.task.await.unwrap().expect_err("slots").to_string();
    assert!(error.contains("slots: found 0"), "{error}");
}
