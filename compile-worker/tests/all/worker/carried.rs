//! Compiled jobs in a state file: what is published from there, and what is known to be missing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_common::broker::Broker;
use bluefin_common::campaign::advance;
use bluefin_common::candidate::Candidate;
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::job::{EvalJob, Job, JobId, compile_queue};
use bluefin_common::outcome::{CandidateOutcome, Outcome, Timing};
use bluefin_common::session::{Session, Stage};
use bluefin_common::shelf;
use bluefin_common::store::{OpenJobs, Planned, Records as _, Work as _};
use bluefin_common::target::Target;
use bluefin_common::task::TaskRef;
use bluefin_common::wire;
use bluefin_compile_worker::carried::{Carried, Kept, Undone, keep};
use bluefin_test_support::patience;
use tokio_util::sync::CancellationToken;

use super::fleet::{Fleet, PATIENCE, evals, fleet_of, next, noop};

/// A state file in which two jobs of one group are kept, as they come from the compile stage.
async fn carried() -> (Fleet, Vec<Job>) {
    let session = Session::of_kernels("test".parse().unwrap(), Target::Host, "", &Stage::ALL, 1);
    let fleet = fleet_of(EmbeddedBroker::new(), session, noop).await;
    let all = fleet.job(64, 16);
    let jobs: Vec<Job> =
        all.candidates.chunks(8).map(|batch| Job { candidates: batch.to_vec(), ..all.clone() }).collect();
    let worker = fleet.worker(|_| {});
    for job in &jobs {
        fleet.enqueue(job).await;
    }
    let (kept, stop) = (AtomicU64::new(0), CancellationToken::new());
    let enough = async {
        let started = Instant::now();
        while kept.load(Ordering::Relaxed) < 2 {
            assert!(started.elapsed() < patience(PATIENCE));
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let queue = evals();
    let (keeping, ()) = tokio::join!(keep(&*fleet.broker, &*fleet.store, &queue, &kept, &stop), enough);
    keeping.unwrap();
    worker.stop().await;
    (fleet, jobs)
}

/// Another machine with the same state file: its queues are new.
struct Elsewhere {
    broker: EmbeddedBroker,
    undone: Undone,
}

impl Elsewhere {
    async fn new() -> Self {
        let broker = EmbeddedBroker::new();
        broker.declare(&compile_queue("noop", &Target::Host)).await.unwrap();
        broker.declare(&evals()).await.unwrap();
        Self { broker, undone: Undone::default() }
    }

    fn carried<'a>(&'a self, fleet: &'a Fleet) -> Carried<'a> {
        Carried { store: &*fleet.store, broker: &self.broker, session: &fleet.session, undone: &self.undone }
    }

    /// Publishes what is kept; `open` are the jobs that have no outcome.
    async fn publish(&self, fleet: &Fleet, open: &[JobId]) -> (u64, u64) {
        let kept = Kept::load(&*fleet.store, &fleet.session.name).await.unwrap();
        let open: OpenJobs = [(fleet.job(64, 0).group(), open.to_vec())].into();
        let published = self.carried(fleet).publish(&kept, &open).await.unwrap();
        (published, self.undone.groups())
    }

    /// Evaluates a job that waits.
    async fn evaluate(&self, fleet: &Fleet) -> EvalJob {
        let mut consumer = self.broker.consume(&evals(), 1).await.unwrap();
        let eval: EvalJob = next(&mut consumer).await;
        consumer.stop().await;
        let timed = |(index, candidate): (usize, &Candidate)| CandidateOutcome {
            candidate: candidate.clone(),
            built: eval.built[index].as_ref().ok().cloned(),
            result: Ok(Timing::single(1.0 + index as f64)),
            resources: None,
        };
        let candidates = eval.job.candidates.iter().enumerate().map(timed).collect();
        let outcome = Outcome::undone(&eval.job, eval.description.clone(), candidates, 1);
        let stored = fleet.store.put_outcome(&Outcome { task: eval.task.digest(), ..outcome }).await.unwrap();
        advance(&*fleet.store, &self.broker, &eval.job, stored.open).await.unwrap();
        eval
    }

    /// The job that waits, which stays where it is.
    async fn look(&self) -> EvalJob {
        let mut consumer = self.broker.consume(&evals(), 1).await.unwrap();
        let delivery = tokio::time::timeout(patience(PATIENCE), consumer.next()).await.unwrap().unwrap();
        wire::decode(&delivery.body).unwrap()
    }

    async fn depth(&self) -> u64 {
        self.broker.depth(&evals()).await.unwrap()
    }
}

async fn is_complete(fleet: &Fleet) -> bool {
    fleet.store.progress(&fleet.session.name).await.unwrap().is_complete()
}

#[tokio::test]
async fn a_play_off_whose_queue_is_gone_is_published_again() {
    let (fleet, jobs) = carried().await;
    let ids: Vec<JobId> = jobs.iter().map(Job::id).collect();
    let there = Elsewhere::new().await;
    assert_eq!(there.publish(&fleet, &ids).await, (2, 0));
    assert_eq!(there.evaluate(&fleet).await.job.stage, Stage::Perf);
    there.evaluate(&fleet).await;
    let find = there.look().await;
    assert_eq!(find.job.stage, Stage::Find);
    // The process ends with the play-off in its queue.
    let again = Elsewhere::new().await;
    assert_eq!(again.publish(&fleet, &[find.job.id()]).await, (1, 0));
    let found = again.evaluate(&fleet).await;
    assert_eq!(EvalJob { enqueued_ms: find.enqueued_ms, ..found }, find);
    assert!(is_complete(&fleet).await && again.depth().await == 0);
    // Nothing is left to publish.
    assert_eq!(Elsewhere::new().await.publish(&fleet, &[]).await, (0, 0));
}

#[tokio::test]
async fn a_job_that_was_never_kept_leaves_its_group_undone() {
    let (fleet, jobs) = carried().await;
    let lost = Job { candidates: fleet.job(64, 20).candidates.split_off(16), ..jobs[0].clone() };
    fleet.store.plan(&fleet.session.name, &[Planned::of(&lost)]).await.unwrap();
    let ids: Vec<JobId> = jobs.iter().chain([&lost]).map(Job::id).collect();
    let there = Elsewhere::new().await;
    assert_eq!(there.publish(&fleet, &ids).await, (2, 1));
    there.evaluate(&fleet).await;
    there.evaluate(&fleet).await;
    assert!(!is_complete(&fleet).await && there.depth().await == 0, "no play-off without it");
    // The same where all that was kept is done.
    assert_eq!(Elsewhere::new().await.publish(&fleet, &[lost.id()]).await, (0, 1));
}

#[tokio::test]
async fn a_group_of_which_nothing_was_kept_is_settled_or_undone() {
    let (fleet, jobs) = carried().await;
    let ids: Vec<JobId> = jobs.iter().map(Job::id).collect();
    let keys: Vec<String> = ids.iter().map(ToString::to_string).collect();
    fleet.store.remove_records(&shelf::compiled(&fleet.session.name), &keys).await.unwrap();
    assert_eq!(Elsewhere::new().await.publish(&fleet, &ids).await, (0, 1));
    // All of it failed, and whoever stored the last outcome died then.
    for job in &jobs {
        let failure = Failure::new(FailureKind::CompileError, "no");
        let failed = CandidateOutcome::all_failed(job, &failure);
        fleet.store.put_outcome(&Outcome::undone(job, Default::default(), failed, 1)).await.unwrap();
    }
    assert!(!is_complete(&fleet).await);
    assert_eq!(Elsewhere::new().await.publish(&fleet, &[]).await, (0, 0));
    assert!(is_complete(&fleet).await);
}

#[tokio::test]
async fn what_has_to_be_compiled_again_is_not_done_here() {
    let (fleet, jobs) = carried().await;
    let there = Elsewhere::new().await;
    let ids: Vec<JobId> = jobs.iter().map(Job::id).collect();
    there.publish(&fleet, &ids).await;
    // The one is done; the artifacts of the other are gone.
    fleet.store.put_outcome(&Outcome::dead(&jobs[0], "done elsewhere", 1)).await.unwrap();
    for job in &jobs {
        let eval = EvalJob {
            job: job.clone(),
            enqueued_ms: 1,
            recompiles: 0,
            compiled: None,
            task: TaskRef::None,
            description: Default::default(),
            built: Vec::new(),
        };
        bluefin_common::campaign::send_back(&there.broker, &eval).await.unwrap().unwrap();
    }
    let stop = CancellationToken::new();
    let (carried, refused) = (there.carried(&fleet), async {
        let started = Instant::now();
        while there.undone.groups() == 0 {
            assert!(started.elapsed() < patience(PATIENCE));
            tokio::task::yield_now().await;
        }
        stop.cancel();
    });
    let (served, ()) = tokio::join!(carried.serve("noop", &stop), refused);
    served.unwrap();
    assert_eq!(there.undone.groups(), 1);
    assert_eq!(there.broker.depth(&compile_queue("noop", &Target::Host)).await.unwrap(), 0);
}
