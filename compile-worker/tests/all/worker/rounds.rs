//! A search in rounds, each planned by a worker from the outcomes of those before.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_common::broker::{Broker, BrokerError, Consumer, DEAD_QUEUE};
use bluefin_common::campaign::advance;
use bluefin_common::candidate::Candidate;
use bluefin_common::decision::decide;
use bluefin_common::delivery::MAX_BEGUN;
use bluefin_common::description::Description;
use bluefin_common::digest::Digest;
use bluefin_common::job::{CompileJob, CompileWork, EvalJob, Job, JobId, compile_queue};
use bluefin_common::outcome::{CandidateOutcome, Outcome, Timing};
use bluefin_common::search_end::{SearchEnd, SolverEnd, Why};
use bluefin_common::session::{SearchPlan, Session, Stage};
use bluefin_common::store::Work as _;
use bluefin_common::target::Target;
use bluefin_common::wire;
use bluefin_kernel_spec::search::{
    Ask, Bayes, FixedOrder, Neighbours, Others, Proposal, Search, Searching, Strategies,
};
use bluefin_kernel_spec::{Bundle, SpecError};
use bluefin_test_support::patience;
use bytes::Bytes;
use tokio::sync::Notify;

use super::fleet::{Fleet, PATIENCE, Worker, evals, fleet_of, next, noop};

/// The last of the fixed order first.
struct Backwards;

impl Search for Backwards {
    fn name(&self) -> &'static str {
        "backwards"
    }

    fn next(&self, ask: &Ask<'_>) -> Result<Vec<Candidate>, SpecError> {
        let mut all = ask.space.first(usize::MAX)?;
        all.retain(|candidate| ask.tried.iter().all(|tried| tried.candidate != candidate));
        all.retain(|candidate| !ask.under_way.contains(candidate));
        all.reverse();
        all.truncate(ask.n);
        Ok(all)
    }
}

/// The fixed order, which expects the less the more was tried.
struct Sated;

impl Search for Sated {
    fn name(&self) -> &'static str {
        "sated"
    }

    fn estimates(&self) -> bool {
        true
    }

    fn next(&self, ask: &Ask<'_>) -> Result<Vec<Candidate>, SpecError> {
        FixedOrder.next(ask)
    }

    fn propose(&self, ask: &Ask<'_>) -> Result<Proposal, SpecError> {
        Ok(Proposal { candidates: self.next(ask)?, left: Some(1.0 / (ask.tried.len() + 4) as f64), owes: false })
    }
}

/// Two solvers, one of them with 32 candidates.
fn small(bundle: &mut Bundle) {
    noop(bundle);
    for (from, to) in [
        ("[4, 8, 16, 32, 64, 128, 256]", "[4, 8, 16, 32]"),
        ("[64, 128, 256, 512, 1024, 2048, 4096]", "[64, 128, 256, 512]"),
        ("values = [1, 2, 4, 8]", "values = [1, 2]"),
    ] {
        assert!(bundle.toml.contains(from));
        bundle.toml = bundle.toml.replacen(from, to, 1);
    }
}

pub async fn searching(search: Option<SearchPlan>) -> Fleet {
    let plain = Session::of_kernels("test".parse().unwrap(), Target::Host, "", &Stage::ALL, 1);
    fleet_of(EmbeddedBroker::new(), Session { search, ..plain }, small).await
}

pub fn knowing(fleet: &Fleet, broker: Arc<dyn Broker>) -> Worker {
    fleet.worker_on(broker, |config| {
        config.strategies = Strategies::default().with(Arc::new(Backwards)).with(Arc::new(Sated));
        config.patience = Duration::from_secs(5);
    })
}

impl Fleet {
    /// The perf jobs of these candidates.
    fn jobs(&self, candidates: &[Vec<Candidate>]) -> Vec<Job> {
        let any = self.job(64, 0);
        let batches = candidates.iter().flat_map(|candidates| candidates.chunks(8));
        batches.map(|batch| Job { candidates: batch.to_vec(), ..any.clone() }).collect()
    }

    /// The first round, as a producer plans it.
    fn first_round(&self) -> Vec<Job> {
        self.first_rounds(1)
    }

    /// The first rounds where so many are under way at a time.
    pub fn first_rounds(&self, ahead: u32) -> Vec<Job> {
        let any = self.job(64, 0);
        let scope = self.spec.scope(&any.problem, &Target::Host).unwrap().unwrap();
        let Some(plan) = &self.session.search else {
            let all = |solver| self.spec.candidates(solver, &scope, usize::MAX).unwrap().points;
            return self.jobs(&self.spec.solvers_for(&scope).unwrap().into_iter().map(all).collect::<Vec<_>>());
        };
        let search: &dyn Search = match plan.strategy.as_str() {
            "fixed" => &FixedOrder,
            "bayes" => &Bayes,
            "sated" => &Sated,
            _ => &Backwards,
        };
        let (spec, scope) = (&self.spec, &scope);
        let searching = Searching { search, plan, problem: &any.problem, spec, scope, priors: None, ahead };
        searching.current(&[], &[]).unwrap().iter().flat_map(|round| round.jobs(&any)).collect()
    }

    /// Asks for the next round of the group, as whoever finds it finished does.
    async fn ask(&self) {
        self.ask_of(self.job(64, 0)).await;
    }

    async fn ask_of(&self, job: Job) {
        let (queue, id) = (job.compile_queue(), job.id().to_string());
        let asked = CompileJob { job, enqueued_ms: 1, recompiles: 0, work: CompileWork::NextRound };
        self.broker.publish(&queue, &id, wire::encode(&asked).unwrap().into()).await.unwrap();
    }

    /// Stores what a job comes to whose candidates take what follows from their params.
    pub async fn evaluate(&self, eval: &EvalJob) {
        let timed = |(candidate, built): (&Candidate, &Result<_, _>)| CandidateOutcome {
            candidate: candidate.clone(),
            built: built.as_ref().ok().cloned(),
            result: Ok(Timing::single(milliseconds(candidate))),
            resources: None,
        };
        let candidates = eval.job.candidates.iter().zip(&eval.built).map(timed).collect();
        let outcome = Outcome::undone(&eval.job, eval.description.clone(), candidates, 1);
        let stored = self.store.put_outcome(&Outcome { task: eval.task.digest(), ..outcome }).await.unwrap();
        advance(&*self.store, &*self.broker, &eval.job, stored.open).await.unwrap();
    }

    /// Evaluates until nothing is left to do; all outcomes.
    async fn finish(&self, evals: &mut Box<dyn Consumer>) -> Vec<Outcome> {
        let started = Instant::now();
        while !self.store.progress(&self.session.name).await.unwrap().is_complete() {
            assert!(started.elapsed() < patience(PATIENCE), "{:?}", self.store.progress(&self.session.name).await);
            match tokio::time::timeout(Duration::from_millis(20), evals.next()).await {
                Ok(delivery) => {
                    let delivery = delivery.unwrap();
                    let eval: EvalJob = wire::decode(&delivery.body).unwrap();
                    self.evaluate(&eval).await;
                    delivery.ack().await.unwrap();
                }
                // Somebody else is at work, or the end is not stored yet.
                Err(_) => continue,
            }
        }
        self.store.outcomes(&self.session.name, &[self.job(64, 0).group()]).await.unwrap()
    }

    async fn planned(&self) -> u64 {
        self.store.progress(&self.session.name).await.unwrap().planned.values().sum()
    }
}

/// Waits until `worker` has settled so many deliveries with `result`.
async fn settled(worker: &Worker, result: &str, count: u32) {
    let started = Instant::now();
    while worker.settled(result) < f64::from(count) {
        assert!(started.elapsed() < patience(PATIENCE), "{result}: {}", worker.settled(result));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Another time for each candidate.
fn milliseconds(candidate: &Candidate) -> f64 {
    let [first, second, ..] = Digest::of(candidate.to_string().as_bytes()).0;
    1.0 + f64::from(u16::from_le_bytes([first, second])) / 1000.0
}

pub fn perf(outcomes: &[Outcome]) -> impl Iterator<Item = &Outcome> {
    outcomes.iter().filter(|outcome| outcome.job.stage == Stage::Perf)
}

#[tokio::test]
async fn whatever_the_strategy_a_search_of_the_whole_space_finds_the_same_winner() {
    let mut ends = Vec::new();
    let searches = ["fixed", "bayes", "backwards"].map(|name| Some(SearchPlan::new(name, 100)));
    for search in [None].into_iter().chain(searches) {
        let fleet = searching(search).await;
        let worker = knowing(&fleet, fleet.broker.clone());
        for job in fleet.first_round() {
            fleet.enqueue(&job).await;
        }
        let mut evals = fleet.consume(&evals()).await;
        let outcomes = fleet.finish(&mut evals).await;
        worker.stop().await;
        let tried: Vec<&Candidate> = perf(&outcomes).flat_map(|outcome| &outcome.job.candidates).collect();
        assert_eq!(tried.len(), 33, "none is tried twice");
        let tried: BTreeSet<Candidate> = tried.into_iter().cloned().collect();
        let winner = decide(&fleet.session, &outcomes).unwrap().winner().unwrap().outcome.candidate.clone();
        ends.push((tried, winner));
    }
    assert!(ends.windows(2).all(|pair| pair[0] == pair[1]));
}

#[tokio::test]
async fn a_search_tries_as_many_as_it_may_and_what_comes_next_in_its_order() {
    let fleet = searching(Some(SearchPlan::new("backwards", 12))).await;
    let worker = knowing(&fleet, fleet.broker.clone());
    for job in fleet.first_round() {
        fleet.enqueue(&job).await;
    }
    let mut evals = fleet.consume(&evals()).await;
    let outcomes = fleet.finish(&mut evals).await;
    worker.stop().await;
    let tiled = fleet.spec.solver("StencilTiled").unwrap();
    let scope = fleet.spec.scope(&fleet.job(64, 0).problem, &Target::Host).unwrap().unwrap();
    let mut expected = fleet.spec.candidates(tiled, &scope, usize::MAX).unwrap().points;
    let last = expected.split_off(expected.len() - 12);
    let tried = perf(&outcomes).flat_map(|outcome| &outcome.job.candidates).filter(|tried| tried.solver == tiled.name);
    assert_eq!(tried.cloned().collect::<HashSet<_>>(), last.into_iter().collect());
    let rounds: BTreeSet<u32> = perf(&outcomes).map(|outcome| outcome.job.round).collect();
    assert_eq!(rounds, [0, 1].into());
    let sizes: BTreeSet<usize> = perf(&outcomes).map(|outcome| outcome.job.candidates.len()).collect();
    assert_eq!(sizes, [1, 4, 8].into(), "the reference, what was left, a full round");
}

#[tokio::test]
async fn a_search_stops_where_less_is_left_than_it_has_patience_for_and_says_so() {
    // After eight, 16 and 24 candidates 8.33 %, 5 % and 3.57 % are expected to be left.
    for (patience, tried, left, why) in [
        (600, 16, Some(500), Why::Patience),
        (501, 16, Some(500), Why::Patience),
        (500, 24, Some(357), Why::Patience),
        (0, 32, Some(0), Why::All),
    ] {
        let fleet = searching(Some(SearchPlan { patience, ..SearchPlan::new("sated", 100) })).await;
        let worker = knowing(&fleet, fleet.broker.clone());
        for job in fleet.first_round() {
            fleet.enqueue(&job).await;
        }
        let mut evals = fleet.consume(&evals()).await;
        let outcomes = fleet.finish(&mut evals).await;
        worker.stop().await;
        assert!(decide(&fleet.session, &outcomes).unwrap().winner().is_some(), "play-offs follow");
        let group = fleet.job(64, 0).group();
        let ends = SearchEnd::of(&*fleet.store, &fleet.session.name, &[group]).await.unwrap();
        let end = |solver: &str, tried, valid, left, why| SolverEnd {
            solver: solver.to_string(),
            tried,
            valid,
            exact: true,
            left,
            why,
        };
        let reference = end("StencilReference", 1, 1, Some(0), Why::All);
        assert_eq!(ends[&group].0, [reference, end("StencilTiled", tried, 32, left, why)], "{patience}");
        let of_tiled = perf(&outcomes).flat_map(|outcome| &outcome.candidates);
        let of_tiled = of_tiled.filter(|one| one.candidate.solver == "StencilTiled").count();
        assert_eq!(of_tiled as u64, tried, "{patience}");
    }
}

/// Lets some messages into a queue, then hangs, as a worker does that is about to die.
struct Dying {
    broker: Arc<EmbeddedBroker>,
    queue: String,
    /// Messages that it still lets pass.
    left: AtomicUsize,
    /// The last one gets there, and nobody learns of it.
    passes: bool,
    hangs: Notify,
}

#[async_trait]
impl Broker for Dying {
    async fn declare(&self, queue: &str) -> Result<(), BrokerError> {
        self.broker.declare(queue).await
    }

    async fn publish(&self, queue: &str, message_id: &str, body: Bytes) -> Result<(), BrokerError> {
        if queue != self.queue {
            return self.broker.publish(queue, message_id, body).await;
        }
        let left = self.left.fetch_sub(1, Ordering::SeqCst);
        if left > 0 && (left > 1 || !self.passes) {
            return self.broker.publish(queue, message_id, body).await;
        }
        if left > 0 {
            self.broker.publish(queue, message_id, body).await?;
        }
        self.hangs.notify_one();
        std::future::pending().await
    }

    async fn publish_after(
        &self,
        delay: Duration,
        queue: &str,
        message_id: &str,
        body: Bytes,
    ) -> Result<(), BrokerError> {
        self.broker.publish_after(delay, queue, message_id, body).await
    }

    async fn consume(&self, queue: &str, prefetch: u16) -> Result<Box<dyn Consumer>, BrokerError> {
        self.broker.consume(queue, prefetch).await
    }

    async fn depth(&self, queue: &str) -> Result<u64, BrokerError> {
        self.broker.depth(queue).await
    }

    async fn silent(&self, queues: &[String]) -> Result<Vec<String>, BrokerError> {
        self.broker.silent(queues).await
    }

    async fn renew(&self, queue: &str) -> Result<(), BrokerError> {
        self.broker.renew(queue).await
    }

    fn reconnects(&self) -> u64 {
        0
    }

    async fn close(&self) {}
}

/// Two jobs are a round here. A worker dies with both planned and as many published; what was published may be done by then.
#[tokio::test]
async fn a_worker_that_dies_amid_a_round_leaves_it_to_the_next() {
    for (published, passes) in [(0, false), (1, false), (2, true)] {
        let fleet = searching(Some(SearchPlan::new("backwards", 8))).await;
        let expected: BTreeSet<JobId> = fleet.first_round().iter().map(Job::id).collect();
        assert_eq!(expected.len(), 2);
        let dying = Arc::new(Dying {
            broker: fleet.broker.clone(),
            queue: compile_queue("noop", &Target::Host),
            left: AtomicUsize::new(published),
            passes,
            hangs: Notify::new(),
        });
        let mut evals = fleet.consume(&evals()).await;
        let first = knowing(&fleet, dying.clone());
        fleet.ask().await;
        tokio::time::timeout(patience(PATIENCE), dying.hangs.notified()).await.expect("it comes to publishing");
        assert_eq!(fleet.planned().await, 2, "planned before any is published");
        if published > 0 {
            // The group is not done with the first half of its round, which another worker takes: this one takes one job at
            // first, and falls over that.
            let other = knowing(&fleet, fleet.broker.clone());
            let eval = next::<EvalJob>(&mut evals).await;
            other.stop().await;
            fleet.evaluate(&eval).await;
            assert!(expected.contains(&eval.job.id()));
        }
        first.task.abort();
        assert!(first.task.await.unwrap_err().is_cancelled());

        let second = knowing(&fleet, fleet.broker.clone());
        let outcomes = fleet.finish(&mut evals).await;
        let done: BTreeSet<JobId> = perf(&outcomes).map(Outcome::job_id).collect();
        assert_eq!(done, expected, "{published} published");
        assert_eq!(outcomes.len(), 3, "and the play-off");
        // Whoever asks now learns that all is done.
        fleet.ask().await;
        let started = Instant::now();
        while fleet.broker.depth(&dying.queue).await.unwrap() > 0 {
            assert!(started.elapsed() < patience(PATIENCE));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        second.stop().await;
        assert_eq!(fleet.planned().await, 3);
        assert_eq!(fleet.broker.depth(DEAD_QUEUE).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_round_that_is_under_way_is_not_planned_again() {
    let fleet = searching(Some(SearchPlan::new("backwards", 100))).await;
    let worker = knowing(&fleet, fleet.broker.clone());
    let mut evals = fleet.consume(&evals()).await;
    fleet.ask().await;
    let (first, second): (EvalJob, EvalJob) = (next(&mut evals).await, next(&mut evals).await);
    settled(&worker, "done", 3).await;
    fleet.evaluate(&first).await;
    // Half of it has outcomes, from which another round would follow.
    for asked in 1..=2 {
        fleet.ask().await;
        settled(&worker, "skipped", asked).await;
    }
    assert_eq!(fleet.planned().await, 2);
    assert_eq!(fleet.broker.depth(&compile_queue("noop", &Target::Host)).await.unwrap(), 0);
    fleet.evaluate(&second).await;
    let outcomes = fleet.finish(&mut evals).await;
    assert_eq!(perf(&outcomes).flat_map(|outcome| &outcome.candidates).count(), 33);
    worker.stop().await;
}

#[tokio::test]
async fn a_strategy_that_is_not_known_is_for_a_newer_worker() {
    let fleet = searching(Some(SearchPlan::new("annealing", 8))).await;
    let worker = knowing(&fleet, fleet.broker.clone());
    fleet.ask().await;
    settled(&worker, "handed_back", 1).await;
    worker.stop().await;
    assert_eq!(fleet.planned().await, 0);
    assert_eq!(fleet.broker.depth(DEAD_QUEUE).await.unwrap(), 0);
}

#[tokio::test]
async fn a_search_that_can_not_go_on_ends_with_what_it_has() {
    let fleet = searching(Some(SearchPlan::new("fixed", 100))).await;
    let mut dead = fleet.consume(DEAD_QUEUE).await;
    let mut evals = fleet.consume(&evals()).await;
    // A spec that the store has lost: that is waited for.
    let lost = Job { spec: Digest::of(b"lost"), ..fleet.job(64, 0) };
    let first = knowing(&fleet, fleet.broker.clone());
    fleet.ask_of(lost).await;
    settled(&first, "handed_back", 1).await;
    for job in fleet.first_round() {
        fleet.enqueue(&job).await;
    }
    let (one, other): (EvalJob, EvalJob) = (next(&mut evals).await, next(&mut evals).await);
    first.stop().await;
    fleet.evaluate(&one).await;
    fleet.evaluate(&other).await;
    // So many workers died of the ask that follows.
    fleet.deliver_again(&compile_queue("noop", &Target::Host), MAX_BEGUN).await;
    let second = knowing(&fleet, fleet.broker.clone());
    assert_eq!(next::<CompileJob>(&mut dead).await.work, CompileWork::NextRound);
    let outcomes = fleet.finish(&mut evals).await;
    assert_eq!((perf(&outcomes).count(), outcomes.len()), (2, 3));
    assert!(decide(&fleet.session, &outcomes).is_some());
    second.stop().await;
}

#[tokio::test]
async fn a_round_is_told_of_other_problems_and_whoever_plans_it_again_of_the_same() {
    let fleet = searching(Some(SearchPlan::new("bayes", 32))).await;
    let stored = async |job: Job| {
        let outcome = Outcome::undone(&job, Description::default(), Vec::new(), 1);
        fleet.store.put_outcome(&outcome).await.unwrap();
        outcome
    };
    let of = |size, round: u32| Job { round, ..fleet.job(size, round as usize) };
    let told = async |neighbours: &Neighbours, search: &dyn Search, size| {
        let job = of(size, 0);
        let outcomes = fleet.store.outcomes(&fleet.session.name, &[job.group()]).await.unwrap();
        let others = neighbours.of(search, &*fleet.store, &job, &outcomes, 1).await.unwrap();
        let summary = |Others { round, outcomes }: &Others| {
            let ids = outcomes.iter().map(|outcome| outcome.job.id()).collect::<BTreeSet<JobId>>();
            (*round, ids)
        };
        others.iter().map(summary).collect::<Vec<_>>()
    };
    let first = stored(of(64, 0)).await;
    assert_eq!(told(&Neighbours::default(), &FixedOrder, 64).await, []);
    assert_eq!(told(&Neighbours::default(), &Bayes, 64).await, [(1, [].into())], "there is no other");
    stored(of(128, 0)).await;
    let expected = [(1, [first.job.id()].into())];
    assert_eq!(told(&Neighbours::default(), &Bayes, 128).await, expected);
    // The other one is further by now.
    let second = stored(of(64, 1)).await;
    assert_eq!(told(&Neighbours::default(), &Bayes, 64).await.last().unwrap().0, 2);
    assert_eq!(told(&Neighbours::default(), &Bayes, 128).await, expected, "as it was told first");
    stored(of(128, 1)).await;
    let both = [first.job.id(), second.job.id()].into();
    assert_eq!(told(&Neighbours::default(), &Bayes, 128).await, [expected[0].clone(), (2, both)]);
}
