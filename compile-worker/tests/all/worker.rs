//! The worker loop, with a broker in memory and a store in memory.

mod carried;
mod fleet;
mod rounds;
mod toy;

use std::time::{Duration, Instant};

use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_common::broker::{Broker, DEAD_QUEUE, MAX_ATTEMPTS};
use bluefin_common::candidate::Candidate;
use bluefin_common::failure::FailureKind;
use bluefin_common::job::{CompileJob, EvalJob, Job, compile_queue};
use bluefin_common::outcome::Outcome;
use bluefin_common::session::Stage;
use bluefin_common::store::{Planned, Store};
use bluefin_common::wire;
use bluefin_compile_worker::Error;

use self::fleet::{PATIENCE, compile_job, evals, fleet, fleet_on, kinds, next, noop, settled};

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
    assert_eq!(fleet.broker.depth(&compile_queue("cc")).await.unwrap(), 0);
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
    let queue = compile_queue("cc");
    // A job of another version of bluefin is for a worker of that version: it comes again later.
    let mut newer = wire::encode(&compile_job(fleet.job(64, 3))).unwrap();
    newer[3] += 1;
    fleet.broker.publish(&queue, "newer", newer.into()).await.unwrap();
    fleet.broker.publish(&queue, "poison", vec![1, 2, 3].into()).await.unwrap();
    let letter = tokio::time::timeout(PATIENCE, dead.next()).await.unwrap().unwrap();
    assert_eq!(letter.body.as_ref(), [1, 2, 3]);
    letter.ack().await.unwrap();
    // A spec that nobody stored, and a job of another toolchain: no attempt will mend them.
    let lost = Job { spec: bluefin_common::digest::Digest::of(b"lost"), ..fleet.job(64, 2) };
    let foreign = Job { toolchain: "clang".to_string(), ..fleet.job(64, 2) };
    for job in [&lost, &foreign] {
        fleet.store.plan(&fleet.session.name, &[Planned::of(job)]).await.unwrap();
        let body = wire::encode(&compile_job(job.clone())).unwrap();
        fleet.broker.publish(&queue, &job.id().to_string(), body.into()).await.unwrap();
        assert_eq!(kinds(&fleet.outcome(job).await), [FailureKind::Dead; 2]);
        assert_eq!(next::<CompileJob>(&mut dead).await.job, *job);
    }
    // A job of a session that is gone.
    let orphan = Job { session: "gone".parse().unwrap(), spec: lost.spec, ..fleet.job(64, 2) };
    let body = wire::encode(&compile_job(orphan.clone())).unwrap();
    fleet.broker.publish(&queue, "orphan", body.into()).await.unwrap();
    assert_eq!(next::<CompileJob>(&mut dead).await.job, orphan);
    // The worker still works.
    let job = fleet.job(64, 1);
    fleet.enqueue(&job).await;
    assert_eq!(next::<EvalJob>(&mut evals).await.job, job);
    assert_eq!(fleet.broker.depth(DEAD_QUEUE).await.unwrap(), 0, "the newer message is not dead");
    worker.stop().await;
}

#[tokio::test]
async fn a_job_that_was_tried_too_often_is_given_up_with_an_outcome() {
    let fleet = fleet(|_| {}).await;
    let mut dead = fleet.consume(DEAD_QUEUE).await;
    let job = fleet.job(64, 2);
    fleet.enqueue(&job).await;
    // Raise its attempt as a failing worker would, without waiting for the delays.
    let mut consumer = fleet.consume(&compile_queue("cc")).await;
    let delivery = consumer.next().await.unwrap();
    delivery.settle.republish(MAX_ATTEMPTS + 1, Duration::ZERO).await.unwrap();
    consumer.stop().await;
    let worker = fleet.worker(|_| {});
    assert_eq!(kinds(&fleet.outcome(&job).await), [FailureKind::Dead; 2]);
    assert_eq!(next::<CompileJob>(&mut dead).await.job, job);
    worker.stop().await;
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
        assert!(started.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // For several attempts to publish.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(worker.settled("done") + worker.settled("retried"), 0.0);
    let mut consumer = fleet.consume(&queue).await;
    consumer.next().await.unwrap().ack().await.unwrap();
    assert_eq!(next::<EvalJob>(&mut consumer).await.job, job);
    while worker.settled("done") < 1.0 {
        assert!(started.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(worker.settled("retried"), 0.0);
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
            config.launcher = Some(["/bin/sh", "-c", &counts, "sh"].map(Into::into).to_vec());
            config.limits.root = root.path().to_path_buf();
        });
        let (registry, task) = (worker.registry.clone(), worker.task);
        let error = tokio::time::timeout(PATIENCE, task).await.unwrap().unwrap().expect_err("it gets nothing done");
        assert!(matches!(error, Error::TooLittleMemory { times: 4, .. }), "{error}");
        assert_eq!(settled(&registry, "handed_back"), 4.0);
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
        assert!(started.elapsed() < PATIENCE);
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
    // Handed back: neither waiting nor in hand until its delay is over.
    let started = Instant::now();
    let mut consumer = fleet.consume(&compile_queue("cc")).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let metrics = worker.stop().await;
    let delivery = tokio::time::timeout(PATIENCE, consumer.next()).await.unwrap().unwrap();
    assert!(delivery.attempt == 1 && started.elapsed() < PATIENCE);
    assert_eq!(metrics.compiled().0, 0);
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
    while fleet.broker.depth(&compile_queue("cc")).await.unwrap() > 0 {
        assert!(started.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    worker.stop().await;
    let mut consumer = fleet.consume(&compile_queue("cc")).await;
    let delivery = tokio::time::timeout(PATIENCE, consumer.next()).await.unwrap().unwrap();
    assert_eq!(delivery.attempt, 1);
    assert_eq!(wire::decode::<CompileJob>(&delivery.body).unwrap().job, job);
}

#[tokio::test]
async fn compiling_pauses_while_evaluation_is_behind() {
    let fleet = fleet(noop).await;
    let worker = fleet.worker(|config| config.high_water = 10);
    let enqueue = |from: i64, count: i64| {
        let jobs: Vec<Job> = (from..from + count).map(|height| fleet.job(height, 1)).collect();
        async {
            for job in jobs {
                fleet.enqueue(&job).await
            }
        }
    };
    let queue = evals();
    let settled = || async {
        (fleet.broker.depth(&compile_queue("noop")).await.unwrap(), fleet.broker.depth(&queue).await.unwrap())
    };
    enqueue(100, 20).await;
    let started = Instant::now();
    while settled().await.1 < 20 {
        assert!(started.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // It looks every second.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    enqueue(200, 20).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (waiting, evaluating) = settled().await;
    assert!(waiting >= 19 && evaluating <= 21, "paused: {waiting} {evaluating}");
    let mut consumer = fleet.broker.consume(&queue, 100).await.unwrap();
    for _ in 0..40 {
        let _: EvalJob = next(&mut consumer).await;
    }
    worker.stop().await;
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
async fn the_pipeline_itself_is_fast() {
    let fleet = fleet(noop).await;
    const JOBS: i64 = 300;
    for height in 0..JOBS {
        fleet.enqueue(&fleet.job(64 + height, 8)).await;
    }
    let mut evals = fleet.consume(&evals()).await;
    let worker = fleet.worker(|_| {});
    let started = Instant::now();
    for _ in 0..JOBS {
        let _: EvalJob = next(&mut evals).await;
    }
    println!("{:.0} jobs of 8 candidates a second", JOBS as f64 / started.elapsed().as_secs_f64());
    assert!(started.elapsed() < PATIENCE);
    worker.stop().await;
}

#[tokio::test]
async fn a_configuration_without_slots_is_refused() {
    let fleet = fleet(|_| {}).await;
    let worker = fleet.worker(|config| config.slots = 0);
    let error = worker.task.await.unwrap().expect_err("slots").to_string();
    assert!(error.contains("slots: found 0"), "{error}");
}
