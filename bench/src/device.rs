//! A device and what is asked of it.

use std::sync::Arc;

use anyhow::Context;
use bluefin_campaign::machine::devices::child_of;
use bluefin_common::candidate::Candidate;
use bluefin_common::clock::now_ms;
use bluefin_common::decision::{decide, follow_ups};
use bluefin_common::description::Description;
use bluefin_common::failure::Failure;
use bluefin_common::job::Job;
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::noise::Noise;
use bluefin_common::outcome::{CandidateOutcome, Outcome, Timing};
use bluefin_common::session::{Session, Stage};
use bluefin_eval_worker as eval_worker;
use bluefin_eval_worker::timing::{Limits, PROTOCOL_VERSION};
use bluefin_eval_worker::{DeviceWorker, Runnable, Spent, Translators, Work};
use prometheus::Registry;

use super::subjects::Subject;

/// Of inputs and of the order in a play-off.
const SEED: u64 = 1;

pub struct Bench {
    worker: DeviceWorker,
    translators: Option<Arc<Translators>>,
}

/// What came of tuning a subject.
pub struct Tuned {
    /// Index of the winner among the subject's candidates.
    pub winner: usize,
    /// Those that were played off.
    pub finalists: Vec<usize>,
    /// The winner's time is in doubt.
    pub is_noisy: bool,
    /// Samples of each candidate that was measured to the end, in milliseconds.
    pub samples: Vec<Vec<f64>>,
}

type Results = Vec<Result<Timing, Failure>>;

impl Bench {
    pub async fn start(device: &str) -> anyhow::Result<Self> {
        let registry = Registry::new();
        let metrics = eval_worker::Metrics::register(&registry, PipelineMetrics::register(&registry)?)?;
        let child = child_of(device).await?;
        let translators = Translators::new(child.clone()).map(Arc::new);
        Ok(Self { worker: DeviceWorker::start(child, metrics).await?, translators })
    }

    /// What compiles ahead, if the device has use for it.
    pub fn translators(&self) -> Option<Arc<Translators>> {
        self.translators.clone()
    }

    /// Where the child's time went so far.
    pub fn spent(&self) -> Spent {
        self.worker.spent()
    }

    /// All candidates, then the play-off that follows from them.
    pub async fn tune(&mut self, subject: &Subject) -> anyhow::Result<Option<Tuned>> {
        let candidates = subject.candidates.clone();
        let outcomes = self.two_stages(subject, &candidates).await?;
        let session = session_of(&subject.job);
        let Some(decision) = decide(&session, &outcomes) else { return Ok(None) };
        let won = &decision.winner().context("a decision without a winner")?.outcome.candidate;
        let place = |wanted: &Candidate| candidates.iter().position(|(candidate, _)| candidate == wanted);
        let Some(winner) = place(won) else { return Ok(None) };
        let finals = outcomes.iter().filter(|outcome| outcome.job.stage == Stage::Find);
        let finalists = finals.flat_map(|outcome| &outcome.job.candidates).filter_map(place).collect();
        let is_noisy = Noise::of_winner(&session, &outcomes).is_some();
        let perf = outcomes.iter().filter(|outcome| outcome.job.stage == Stage::Perf);
        let timings = perf.flat_map(|outcome| &outcome.candidates).filter_map(|outcome| outcome.result.as_ref().ok());
        let samples = timings.filter(|timing| !timing.pruned);
        let samples = samples.map(|timing| timing.samples_ms.iter().copied().map(f64::from).collect()).collect();
        Ok(Some(Tuned { winner, finalists, is_noisy, samples }))
    }

    /// Whether the candidate at `index` under two names comes out as a tie.
    pub async fn ties_with_itself(&mut self, subject: &Subject, index: usize) -> anyhow::Result<bool> {
        let (candidate, runnable) = subject.candidates.get(index).context("no such candidate")?;
        let named = |name: &str| (Candidate { solver: name.to_string(), ..candidate.clone() }, runnable.clone());
        let outcomes = self.two_stages(subject, &[named("BluefinBenchA"), named("BluefinBenchB")]).await?;
        Ok(decide(&session_of(&subject.job), &outcomes).is_some_and(|decision| decision.ties == 1))
    }

    /// The time of each candidate in milliseconds, nothing known of the others.
    pub async fn all(&mut self, subject: &Subject, limits: &Limits) -> anyhow::Result<Vec<Option<f64>>> {
        let runnables: Vec<Runnable> = subject.candidates.iter().map(|(_, runnable)| runnable.clone()).collect();
        let results = self.evaluate(subject, Stage::Perf, &runnables, limits).await?;
        Ok(results.into_iter().map(|result| result.ok().map(|timing| timing.median_ms)).collect())
    }

    /// The time of the candidate at `index` in milliseconds.
    pub async fn one(&mut self, subject: &Subject, index: usize, limits: &Limits) -> anyhow::Result<Option<f64>> {
        let (_, runnable) = subject.candidates.get(index).context("no such candidate")?;
        let results = self.evaluate(subject, Stage::Perf, std::slice::from_ref(runnable), limits).await?;
        Ok(results.into_iter().next().and_then(Result::ok).map(|timing| timing.median_ms))
    }

    /// Times of the candidates at `places` against each other, in milliseconds.
    pub async fn play_off(
        &mut self,
        subject: &Subject,
        places: &[usize],
        limits: &Limits,
    ) -> anyhow::Result<Vec<Option<f64>>> {
        let known = places.iter().filter_map(|place| subject.candidates.get(*place));
        let runnables: Vec<Runnable> = known.map(|(_, runnable)| runnable.clone()).collect();
        let results = self.evaluate(subject, Stage::Find, &runnables, limits).await?;
        Ok(results.into_iter().map(|result| result.ok().map(|timing| timing.median_ms)).collect())
    }

    async fn two_stages(
        &mut self,
        subject: &Subject,
        candidates: &[(Candidate, Runnable)],
    ) -> anyhow::Result<Vec<Outcome>> {
        let names = candidates.iter().map(|(candidate, _)| candidate.clone()).collect();
        let perf = Job { stage: Stage::Perf, candidates: names, ..subject.job.clone() };
        let mut outcomes = vec![self.run_job(subject, perf, candidates).await?];
        if let Some(find) = follow_ups(&session_of(&subject.job), &outcomes).into_iter().next() {
            outcomes.push(self.run_job(subject, find, candidates).await?);
        }
        Ok(outcomes)
    }

    async fn run_job(
        &mut self,
        subject: &Subject,
        job: Job,
        known: &[(Candidate, Runnable)],
    ) -> anyhow::Result<Outcome> {
        let runnable_of = |wanted: &Candidate| {
            let found = known.iter().find(|(candidate, _)| candidate == wanted);
            found.map(|(_, runnable)| runnable.clone()).context("a candidate that nobody compiled")
        };
        let runnables = job.candidates.iter().map(runnable_of).collect::<anyhow::Result<Vec<_>>>()?;
        let results = self.evaluate(subject, job.stage, &runnables, &Limits::default()).await?;
        let parts = job.candidates.iter().zip(runnables).zip(results);
        let candidates = parts.map(|((candidate, runnable), result)| CandidateOutcome {
            candidate: candidate.clone(),
            built: Some(runnable.built),
            result,
            resources: None,
        });
        let candidates = candidates.collect();
        Ok(Outcome {
            device: self.worker.device().to_string(),
            device_state: self.worker.state().clone(),
            protocol: PROTOCOL_VERSION,
            ..Outcome::undone(&job, Description::default(), candidates, now_ms())
        })
    }

    async fn evaluate(
        &mut self,
        subject: &Subject,
        stage: Stage,
        candidates: &[Runnable],
        limits: &Limits,
    ) -> anyhow::Result<Results> {
        let work = Work {
            stage,
            task: &subject.task,
            reference: &subject.reference,
            data: &[],
            candidates,
            seed: SEED,
            incumbent_ms: None,
            limits: *limits,
        };
        Ok(self.worker.evaluate(&work).await?)
    }
}

/// A session that the subject's job may be of.
fn session_of(job: &Job) -> Session {
    Session::of_kernels(job.session.clone(), job.target.clone(), "bluefin bench", &Stage::ALL, 0)
}
