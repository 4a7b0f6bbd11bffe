//! Metrics that every worker has. What only one role has is in the `metrics.rs` of its crate.

mod sessions;

use prometheus::{
    Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

use crate::failure::FailureKind;
use crate::outcome::{CandidateOutcome, Outcome};
use crate::session::Stage;
use crate::waiting::{On, Waiting};

/// Half of a pipeline: which worker a metric is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// From a compile queue to an artifact and an eval job.
    Compile,
    /// From an eval queue to an outcome.
    Eval,
}

impl Step {
    /// Value of the label `step`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Compile => "compile",
            Self::Eval => "eval",
        }
    }
}

/// How a worker was done with a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Passed on or finished.
    Done,
    /// Its outcome existed already.
    Skipped,
    /// Not this worker's to do; back in its queue at no cost.
    HandedBack,
    /// Sent back to be compiled again: its artifact was evicted or refused.
    Recompile,
    /// Given up; in the dead letter queue.
    Dead,
}

impl Settled {
    const ALL: [Self; 5] = [Self::Done, Self::Skipped, Self::HandedBack, Self::Recompile, Self::Dead];

    /// Value of the label `result`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Skipped => "skipped",
            Self::HandedBack => "handed_back",
            Self::Recompile => "recompile",
            Self::Dead => "dead",
        }
    }
}

/// Metrics of the pipeline. Cheap to clone.
#[derive(Clone)]
pub struct PipelineMetrics {
    jobs: IntCounterVec,
    candidates: IntCounterVec,
    job_age: HistogramVec,
    in_flight: IntGaugeVec,
    queue_depth: IntGaugeVec,
    dead_letters: IntCounter,
    version_refusals: IntCounterVec,
    broker_reconnects: IntCounter,
    store_reconnects: IntCounter,
    cache_fullness: Gauge,
    waiting: GaugeVec,
    sessions: sessions::SessionMetrics,
}

impl PipelineMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// If `registry` has metrics of these names.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let counters = |name: &str, help: &str, labels: &[&str]| IntCounterVec::new(Opts::new(name, help), labels);
        let gauges = |name: &str, help: &str, labels: &[&str]| IntGaugeVec::new(Opts::new(name, help), labels);
        // From a tenth of a second (an idle fleet) to a day (a long queue).
        let ages = vec![0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0];
        let metrics = Self {
            jobs: counters(
                "bluefin_jobs_total",
                "Deliveries settled, by step of the pipeline, stage of the session and result.",
                &["step", "stage", "result"],
            )?,
            candidates: counters(
                "bluefin_candidates_total",
                "Candidates with an outcome: timed, pruned, or the kind of their failure.",
                &["step", "result"],
            )?,
            job_age: HistogramVec::new(
                HistogramOpts::new("bluefin_job_age_seconds", "From enqueue to the start of a step.").buckets(ages),
                &["step"],
            )?,
            in_flight: gauges("bluefin_jobs_in_flight", "Deliveries taken and not settled.", &["step"])?,
            queue_depth: gauges("bluefin_queue_depth", "Messages that wait in a queue.", &["queue"])?,
            dead_letters: IntCounter::new("bluefin_dead_letters_total", "Messages given up, with their reason.")?,
            version_refusals: counters(
                "bluefin_version_refusals_total",
                "Jobs handed back because this worker is not what their session is pinned to.",
                &["step"],
            )?,
            broker_reconnects: IntCounter::new("bluefin_broker_reconnects_total", "Reconnections to the broker.")?,
            store_reconnects: IntCounter::new("bluefin_store_reconnects_total", "Reconnections to the store.")?,
            cache_fullness: Gauge::new(
                "bluefin_cache_fullness_ratio",
                "Used memory of the artifact cache over its limit.",
            )?,
            waiting: GaugeVec::new(
                Opts::new(
                    "bluefin_waiting_seconds",
                    "For how long the process has been waiting for broker, store or its own machine; 0 while it is not.",
                ),
                &["on"],
            )?,
            sessions: sessions::SessionMetrics::register(registry)?,
        };
        registry.register(Box::new(metrics.waiting.clone()))?;
        registry.register(Box::new(metrics.jobs.clone()))?;
        registry.register(Box::new(metrics.candidates.clone()))?;
        registry.register(Box::new(metrics.job_age.clone()))?;
        registry.register(Box::new(metrics.in_flight.clone()))?;
        registry.register(Box::new(metrics.queue_depth.clone()))?;
        registry.register(Box::new(metrics.dead_letters.clone()))?;
        registry.register(Box::new(metrics.version_refusals.clone()))?;
        registry.register(Box::new(metrics.broker_reconnects.clone()))?;
        registry.register(Box::new(metrics.store_reconnects.clone()))?;
        registry.register(Box::new(metrics.cache_fullness.clone()))?;
        metrics.start_at_zero();
        Ok(metrics)
    }

    /// Series that exist from the start can be alerted on: a counter that first appears as 1 has no rate.
    fn start_at_zero(&self) {
        for step in [Step::Compile, Step::Eval] {
            for stage in Stage::ALL {
                for settled in Settled::ALL {
                    self.jobs.with_label_values(&[step.name(), stage.name(), settled.name()]);
                }
            }
            for kind in FailureKind::ALL {
                self.candidates.with_label_values(&[step.name(), kind.name()]);
            }
            self.version_refusals.with_label_values(&[step.name()]);
            self.in_flight.with_label_values(&[step.name()]);
        }
        self.set_waiting(&Waiting::default());
    }

    /// A delivery of `stage` was settled.
    pub fn settled(&self, step: Step, stage: Stage, settled: Settled) {
        self.jobs.with_label_values(&[step.name(), stage.name(), settled.name()]).inc();
        if settled == Settled::Dead {
            self.dead_letters.inc();
        }
    }

    /// A message that does not even decode went to the dead letter queue.
    pub fn undecodable(&self) {
        self.dead_letters.inc();
    }

    /// `outcome` was stored by `step`, as the first one of its job.
    pub fn outcome(&self, step: Step, outcome: &Outcome) {
        for candidate in &outcome.candidates {
            self.candidates.with_label_values(&[step.name(), result_name(candidate)]).inc();
        }
        self.sessions.outcome(outcome);
    }

    /// A job enqueued at `enqueued_ms` starts its `step` at `now_ms`. Both in milliseconds since the Unix epoch.
    pub fn started(&self, step: Step, enqueued_ms: u64, now_ms: u64) {
        let age = now_ms.saturating_sub(enqueued_ms) as f64 / 1000.0;
        self.job_age.with_label_values(&[step.name()]).observe(age);
    }

    /// Counts a delivery as in flight until the guard is dropped, also if its task is cancelled.
    #[must_use]
    pub fn in_flight(&self, step: Step) -> InFlight {
        let gauge = self.in_flight.with_label_values(&[step.name()]);
        gauge.inc();
        InFlight(gauge)
    }

    /// This worker is not what the session is pinned to.
    pub fn refused(&self, step: Step) {
        self.version_refusals.with_label_values(&[step.name()]).inc();
    }

    /// How often a job was refused so.
    #[must_use]
    pub fn refusals(&self, step: Step) -> u64 {
        self.version_refusals.with_label_values(&[step.name()]).get()
    }

    /// `depth` messages wait in `queue`, as the broker says.
    pub fn set_queue_depth(&self, queue: &str, depth: u64) {
        self.queue_depth.with_label_values(&[queue]).set(i64::try_from(depth).unwrap_or(i64::MAX));
    }

    /// As [`Fullness::ratio`](crate::store::Fullness::ratio) says: used memory over its limit.
    pub fn set_cache_fullness(&self, ratio: f64) {
        self.cache_fullness.set(ratio);
    }

    /// Takes over what is waited for.
    pub fn set_waiting(&self, waiting: &Waiting) {
        for on in On::ALL {
            self.waiting.with_label_values(&[on.name()]).set(waiting.lasts(on).as_secs_f64());
        }
    }

    /// Takes over the counts that the two ports keep.
    pub fn set_reconnects(&self, broker: u64, store: u64) {
        self.broker_reconnects.inc_by(broker.saturating_sub(self.broker_reconnects.get()));
        self.store_reconnects.inc_by(store.saturating_sub(self.store_reconnects.get()));
    }
}

/// `timed`, `pruned`, or the name of the failure's kind.
#[must_use]
pub fn result_name(outcome: &CandidateOutcome) -> &'static str {
    match &outcome.result {
        Ok(timing) if timing.pruned => "pruned",
        Ok(_) => "timed",
        Err(failure) => failure.kind.name(),
    }
}

/// See [`PipelineMetrics::in_flight`].
pub struct InFlight(IntGauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}
