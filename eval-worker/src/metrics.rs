//! Metrics of the eval worker. Those that all workers have are in [`bluefin_common::metrics`].

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bluefin_common::course::Course;
use bluefin_common::idle::{Courses, Idle};
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::session::Stage;
use prometheus::{
    Counter, CounterVec, GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry,
};

use crate::protocol::Spent;

/// Why a child process was replaced.
const CAUSES: [&str; 8] = ["signal", "exit", "hang", "overrun", "garbled", "tainted", "memory", "outside"];

/// Metrics of an eval worker. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    pub(crate) pipeline: PipelineMetrics,
    busy: Counter,
    eval_seconds: HistogramVec,
    child_starts: IntCounter,
    child_losses: IntCounterVec,
    artifacts: IntCounterVec,
    artifact_bytes: IntGauge,
    child_seconds: CounterVec,
    device_seconds: Counter,
    drift: GaugeVec,
    quarantined: IntGaugeVec,
    /// When the first job came onto a device, and when the last one left it.
    span: Arc<Mutex<Option<(Instant, Instant)>>>,
    /// Where somebody asks for them at the end.
    courses: Option<Arc<Mutex<Courses>>>,
}

impl Metrics {
    /// Registers the metrics; `pipeline` has been.
    ///
    /// # Errors
    /// If `registry` has metrics of these names.
    pub fn register(registry: &Registry, pipeline: PipelineMetrics) -> prometheus::Result<Self> {
        let metrics = Self {
            pipeline,
            busy: Counter::new(
                "bluefin_device_busy_seconds_total",
                "Time in which the device had candidates to check and time.",
            )?,
            eval_seconds: HistogramVec::new(
                // A job is a batch of candidates: from a few short kernels to a play-off of slow ones.
                HistogramOpts::new("bluefin_eval_seconds", "Time of a job on the device, by stage of the session.")
                    .buckets(vec![0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0]),
                &["stage"],
            )?,
            child_starts: IntCounter::new("bluefin_child_starts_total", "Child processes started.")?,
            child_losses: IntCounterVec::new(
                Opts::new(
                    "bluefin_child_losses_total",
                    "Child processes that were lost; but for memory and outside, a candidate or a reference took them down.",
                ),
                &["cause"],
            )?,
            artifacts: IntCounterVec::new(
                Opts::new(
                    "bluefin_eval_artifact_reads_total",
                    "Artifacts needed, by where they were: in memory, in the store, or missing.",
                ),
                &["from"],
            )?,
            artifact_bytes: IntGauge::new("bluefin_eval_artifact_cache_bytes", "Artifacts kept in memory.")?,
            child_seconds: CounterVec::new(
                Opts::new("bluefin_child_seconds_total", "Where the time of child processes went."),
                &["part"],
            )?,
            device_seconds: Counter::new(
                "bluefin_device_candidate_seconds_total",
                "Time in which the device ran, checked or timed a candidate.",
            )?,
            drift: GaugeVec::new(
                Opts::new(
                    "bluefin_device_drift_ratio",
                    "Time of a fixed piece of work over what it took when the worker began: above 1 the device is slower now.",
                ),
                &["device"],
            )?,
            quarantined: IntGaugeVec::new(
                Opts::new("bluefin_device_quarantined", "Whether the device does not work and gets no jobs: 1 or 0."),
                &["device"],
            )?,
            span: Arc::default(),
            courses: None,
        };
        registry.register(Box::new(metrics.busy.clone()))?;
        registry.register(Box::new(metrics.eval_seconds.clone()))?;
        registry.register(Box::new(metrics.child_starts.clone()))?;
        registry.register(Box::new(metrics.child_losses.clone()))?;
        registry.register(Box::new(metrics.artifacts.clone()))?;
        registry.register(Box::new(metrics.artifact_bytes.clone()))?;
        registry.register(Box::new(metrics.child_seconds.clone()))?;
        registry.register(Box::new(metrics.device_seconds.clone()))?;
        registry.register(Box::new(metrics.drift.clone()))?;
        registry.register(Box::new(metrics.quarantined.clone()))?;
        for cause in CAUSES {
            metrics.child_losses.with_label_values(&[cause]);
        }
        for from in [ReadFrom::Memory, ReadFrom::Store, ReadFrom::Missing] {
            metrics.artifacts.with_label_values(&[from.name()]);
        }
        Ok(metrics)
    }

    /// The same, which keeps what devices waited for: of a worker that does not live for weeks.
    #[must_use]
    pub fn keeping_courses(self) -> Self {
        Self { courses: Some(Arc::default()), ..self }
    }

    /// A job of `stage` had the device for `time`.
    pub(crate) fn busy(&self, stage: Stage, time: Duration) {
        let now = Instant::now();
        let mut span = self.span.lock().unwrap_or_else(PoisonError::into_inner);
        *span = Some((span.map_or(now - time, |(first, _)| first), now));
        drop(span);
        self.busy.inc_by(time.as_secs_f64());
        self.eval_seconds.with_label_values(&[stage.name()]).observe(time.as_secs_f64());
    }

    /// `device` had a job of this course.
    pub(crate) fn course(&self, device: &str, course: &Course) {
        if let Some(courses) = &self.courses {
            courses.lock().unwrap_or_else(PoisonError::into_inner).add(Some(device), course);
        }
    }

    /// What devices did so far; `None` before the first job.
    #[must_use]
    pub fn utilisation(&self) -> Option<Utilisation> {
        let (first, last) = (*self.span.lock().unwrap_or_else(PoisonError::into_inner))?;
        Some(Utilisation {
            span: last - first,
            candidates: Duration::from_secs_f64(self.device_seconds.get()),
            idle: self.courses.as_ref().map(|courses| courses.lock().unwrap_or_else(PoisonError::into_inner).all()),
        })
    }

    /// Whether the device of this name is in quarantine.
    pub(crate) fn set_quarantined(&self, device: &str, quarantined: bool) {
        self.quarantined.with_label_values(&[device]).set(i64::from(quarantined));
    }

    pub(crate) fn child_started(&self) {
        self.child_starts.inc();
    }

    pub(crate) fn child_lost(&self, cause: &'static str) {
        self.child_losses.with_label_values(&[cause]).inc();
    }

    pub(crate) fn spent(&self, spent: &Spent) {
        let Spent { prepare, load, check, warm_up, time, device, samples: _ } = spent;
        let parts = [("prepare", prepare), ("load", load), ("check", check), ("warm_up", warm_up), ("time", time)];
        for (part, time) in parts {
            self.child_seconds.with_label_values(&[part]).inc_by(time.as_secs_f64());
        }
        self.device_seconds.inc_by(device.as_secs_f64());
    }

    pub(crate) fn drift(&self, device: &str, ratio: f64) {
        self.drift.with_label_values(&[device]).set(ratio);
    }

    pub(crate) fn artifact_read(&self, from: ReadFrom) {
        self.artifacts.with_label_values(&[from.name()]).inc();
    }

    pub(crate) fn set_artifact_bytes(&self, bytes: u64) {
        self.artifact_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}

/// What the devices of a process did; times of all of them together, but for the span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utilisation {
    /// From the first job on a device to the end of the last one.
    pub span: Duration,
    /// A candidate ran, was checked or was timed.
    pub candidates: Duration,
    /// What they waited for without a job, where that is kept.
    pub idle: Option<Idle>,
}

/// Where an artifact was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadFrom {
    Memory,
    Store,
    Missing,
}

impl ReadFrom {
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Store => "store",
            Self::Missing => "missing",
        }
    }
}
