//! Metrics of the producer.

use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

use crate::plan::Enqueued;

/// Metrics of a producer. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    jobs: IntCounterVec,
    problems: IntCounter,
    rejects: IntCounter,
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// If `registry` has metrics of these names.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            jobs: IntCounterVec::new(
                Opts::new(
                    "bluefin_jobs_planned_total",
                    "Jobs of the plan, by what was found of them: published now, waiting in a queue, or done.",
                ),
                &["state"],
            )?,
            problems: IntCounter::new("bluefin_problems_planned_total", "Problems planned.")?,
            rejects: IntCounter::new("bluefin_input_rejects_total", "Lines of input that were not taken.")?,
        };
        registry.register(Box::new(metrics.jobs.clone()))?;
        registry.register(Box::new(metrics.problems.clone()))?;
        registry.register(Box::new(metrics.rejects.clone()))?;
        for state in ["published", "waiting", "done"] {
            metrics.jobs.with_label_values(&[state]);
        }
        Ok(metrics)
    }

    /// Lines of input were refused.
    pub fn rejected(&self, lines: u64) {
        self.rejects.inc_by(lines);
    }

    /// `problems` more were planned, and `total` is what has come of all jobs so far.
    pub fn planned(&self, problems: u64, total: Enqueued) {
        self.problems.inc_by(problems);
        for (state, count) in [("published", total.published), ("waiting", total.waiting), ("done", total.done)] {
            let counter = self.jobs.with_label_values(&[state]);
            counter.inc_by(count.saturating_sub(counter.get()));
        }
    }
}
