//! Metrics of the exporter.

use prometheus::{IntCounter, IntGauge, Registry};

use crate::export::ExportReport;

/// Metrics of an exporter. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    outcomes: IntCounter,
    files: IntCounter,
    groups: IntGauge,
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// If `registry` has metrics of these names.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            outcomes: IntCounter::new("bluefin_export_outcomes_total", "Outcomes folded.")?,
            files: IntCounter::new("bluefin_export_files_total", "Files put in place.")?,
            groups: IntGauge::new("bluefin_export_groups", "Groups (problem and kernel spec) of the session.")?,
        };
        registry.register(Box::new(metrics.outcomes.clone()))?;
        registry.register(Box::new(metrics.files.clone()))?;
        registry.register(Box::new(metrics.groups.clone()))?;
        Ok(metrics)
    }

    /// An export ended.
    pub fn exported(&self, report: &ExportReport) {
        self.outcomes.inc_by(report.outcomes);
        self.files.inc_by(report.files.len() as u64);
        self.groups.set(i64::try_from(report.groups).unwrap_or(i64::MAX));
    }
}
