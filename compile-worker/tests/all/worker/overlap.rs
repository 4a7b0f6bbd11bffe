//! Rounds of a search that are under way together.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use bluefin_common::ahead;
use bluefin_common::broker::Consumer;
use bluefin_common::candidate::Candidate;
use bluefin_common::job::EvalJob;
use bluefin_common::outcome::Outcome;
use bluefin_common::session::{SearchPlan, Stage};
use bluefin_common::store::Work as _;
use bluefin_common::wire;
use bluefin_test_support::patience;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::fleet::{Fleet, PATIENCE, evals};
use super::rounds::{knowing, perf, searching};

impl Fleet {
    /// Evaluates until nothing is left to do, whatever `random` takes of what waits once nothing more comes. The most rounds that waited together,
    /// and all outcomes.
    async fn finish_in_any_order(&self, evals: &mut Box<dyn Consumer>, mut random: StdRng) -> (u32, Vec<Outcome>) {
        let (started, mut waiting, mut most) = (Instant::now(), Vec::new(), 0);
        while !self.store.progress(&self.session.name).await.unwrap().is_complete() {
            assert!(started.elapsed() < patience(PATIENCE), "{:?}", self.store.progress(&self.session.name).await);
            if let Ok(delivery) = tokio::time::timeout(Duration::from_millis(100), evals.next()).await {
                let delivery = delivery.unwrap();
                waiting.push((wire::decode::<EvalJob>(&delivery.body).unwrap(), delivery));
                continue;
            }
            let rounds =
                waiting.iter().filter(|(eval, _)| eval.job.stage == Stage::Perf).map(|(eval, _)| eval.job.round);
            most = most.max(rounds.collect::<BTreeSet<u32>>().len() as u32);
            if !waiting.is_empty() {
                let (eval, delivery) = waiting.swap_remove(random.random_range(..waiting.len()));
                self.evaluate(&eval).await;
                delivery.ack().await.unwrap();
            }
        }
        (most, self.store.outcomes(&self.session.name, &[self.job(64, 0).group()]).await.unwrap())
    }
}

#[tokio::test]
async fn rounds_that_overlap_are_the_same_in_whatever_order_they_are_done() {
    for (name, ahead) in [("bayes", 2), ("backwards", 3)] {
        let mut jobs = Vec::new();
        for seed in 0..3 {
            let fleet = searching(Some(SearchPlan::new(name, 100))).await;
            let group = fleet.job(64, 0).group();
            assert_eq!(ahead::claim(&*fleet.store, &fleet.session.name, group, ahead).await.unwrap(), ahead);
            let worker = knowing(&fleet, fleet.broker.clone());
            for job in fleet.first_rounds(ahead) {
                fleet.enqueue(&job).await;
            }
            let mut evals = fleet.consume(&evals()).await;
            let (most, outcomes) = fleet.finish_in_any_order(&mut evals, StdRng::seed_from_u64(seed)).await;
            worker.stop().await;
            assert_eq!(most, ahead, "rounds under way");
            let perf = perf(&outcomes).map(|outcome| (outcome.job.round, outcome.job.candidates.clone()));
            let perf: BTreeSet<(u32, Vec<Candidate>)> = perf.collect();
            let tried: HashSet<&Candidate> = perf.iter().flat_map(|(_, candidates)| candidates).collect();
            assert_eq!((tried.len(), perf.iter().map(|(_, one)| one.len()).sum()), (33, 33), "all, none twice");
            jobs.push(perf);
        }
        assert!(jobs.windows(2).all(|pair| pair[0] == pair[1]), "{name}: {jobs:?}");
    }
}
