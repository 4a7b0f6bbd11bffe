//! Metrics of compile workers, beside those of the pipeline.

use std::time::Duration;

use bluefin_common::failure::FailureKind;
use bluefin_common::metrics::PipelineMetrics;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// What a look into the cache found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    Hit,
    Miss,
    /// Known, but the artifact is gone.
    Evicted,
    /// Compiled by this worker at this moment for another job.
    Shared,
}

impl Lookup {
    const ALL: [Self; 4] = [Self::Hit, Self::Miss, Self::Evicted, Self::Shared];

    fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Evicted => "evicted",
            Self::Shared => "shared",
        }
    }
}

/// Metrics of a compile worker. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    pub(crate) pipeline: PipelineMetrics,
    compile_seconds: HistogramVec,
    artifact_bytes: Histogram,
    lookups: IntCounterVec,
    slots: IntGauge,
    busy: IntGauge,
    waiting: IntGauge,
    paused: IntGaugeVec,
}

impl Metrics {
    /// Registers the metrics of a compile worker; `pipeline` is registered by the caller, as roles share it.
    ///
    /// # Errors
    /// If `registry` has metrics of these names.
    pub fn register(registry: &Registry, pipeline: PipelineMetrics) -> prometheus::Result<Self> {
        let times = vec![0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0];
        let sizes = (0..8).map(|step| f64::from(1 << (10 + 2 * step))).collect();
        let metrics = Self {
            pipeline,
            compile_seconds: HistogramVec::new(
                HistogramOpts::new("bluefin_compile_seconds", "What a compiler ran for, by what came of it.")
                    .buckets(times),
                &["result"],
            )?,
            artifact_bytes: Histogram::with_opts(
                HistogramOpts::new("bluefin_artifact_bytes", "Size of compiled artifacts.").buckets(sizes),
            )?,
            lookups: IntCounterVec::new(
                Opts::new("bluefin_compile_cache_lookups_total", "Look-ups in the compile cache, by what they found."),
                &["result"],
            )?,
            slots: IntGauge::new("bluefin_compile_slots", "Compilers that may run at a time.")?,
            busy: IntGauge::new("bluefin_compile_slots_busy", "Compilers that run now.")?,
            waiting: IntGauge::new("bluefin_compile_backlog", "Candidates taken that are not compiled yet.")?,
            paused: IntGaugeVec::new(
                Opts::new(
                    "bluefin_compile_paused",
                    "1 while nothing is compiled for an evaluation queue: it or the cache is too full.",
                ),
                &["queue"],
            )?,
        };
        registry.register(Box::new(metrics.compile_seconds.clone()))?;
        registry.register(Box::new(metrics.artifact_bytes.clone()))?;
        registry.register(Box::new(metrics.lookups.clone()))?;
        registry.register(Box::new(metrics.slots.clone()))?;
        registry.register(Box::new(metrics.busy.clone()))?;
        registry.register(Box::new(metrics.waiting.clone()))?;
        registry.register(Box::new(metrics.paused.clone()))?;
        for lookup in Lookup::ALL {
            metrics.lookups.with_label_values(&[lookup.name()]);
        }
        Ok(metrics)
    }

    /// Compilations that ran so far, and the time they took together.
    #[must_use]
    pub fn compiled(&self) -> (u64, Duration) {
        let kinds = FailureKind::ALL.iter().map(|kind| kind.name()).chain(["ok"]);
        let series: Vec<Histogram> = kinds.map(|kind| self.compile_seconds.with_label_values(&[kind])).collect();
        let count = series.iter().map(Histogram::get_sample_count).sum();
        (count, Duration::from_secs_f64(series.iter().map(Histogram::get_sample_sum).sum()))
    }

    pub(crate) fn observe_compile(&self, took: Duration, result: Result<u64, FailureKind>) {
        let name = result.map_or_else(FailureKind::name, |_| "ok");
        self.compile_seconds.with_label_values(&[name]).observe(took.as_secs_f64());
        if let Ok(bytes) = result {
            self.artifact_bytes.observe(bytes as f64);
        }
    }

    pub(crate) fn lookup(&self, lookup: Lookup) {
        self.lookups.with_label_values(&[lookup.name()]).inc();
    }

    pub(crate) fn set_slots(&self, slots: usize) {
        self.slots.set(i64::try_from(slots).unwrap_or(i64::MAX));
    }

    /// A slot is busy until the guard is dropped.
    pub(crate) fn busy(&self) -> Raised {
        Raised::by(&self.busy, 1)
    }

    /// `count` candidates wait until the guard is dropped.
    pub(crate) fn waiting(&self, count: usize) -> Raised {
        Raised::by(&self.waiting, i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Whether nothing is compiled for the evaluation queue of that name.
    pub(crate) fn set_paused(&self, queue: &str, paused: bool) {
        self.paused.with_label_values(&[queue]).set(i64::from(paused));
    }
}

/// A gauge that goes back when this is dropped, also if its task is cancelled.
pub(crate) struct Raised(IntGauge, i64);

impl Raised {
    fn by(gauge: &IntGauge, count: i64) -> Self {
        gauge.add(count);
        Self(gauge.clone(), count)
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        self.0.sub(self.1);
    }
}
