//! An export of many outcomes.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_campaign::ports::FleetArgs;
use bluefin_common::store::Store;
use bluefin_exporter::{ExportRequest, export};

use super::filled::Tuned;
use super::{Figure, peak_rss_mib};

/// Fills a store (Redis if one is named, else a temporary state file) and exports it.
pub async fn run(outcomes: u64, fleet: &FleetArgs) -> anyhow::Result<Vec<Figure>> {
    let folder = std::env::temp_dir().join(format!("bluefin-bench-export-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let result = run_in(&folder, outcomes, fleet).await;
    std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    result
}

async fn run_in(folder: &Path, outcomes: u64, fleet: &FleetArgs) -> anyhow::Result<Vec<Figure>> {
    let (store, tuned): (Arc<dyn Store>, Tuned) = if fleet.names_a_store() {
        let store = fleet.store().await?;
        let tuned = fill(&*store, outcomes).await?;
        (store, tuned)
    } else {
        let path = folder.join("state.db");
        let store = SqliteStore::open(&path).await?;
        let tuned = fill(&store, outcomes).await?;
        store.close().await;
        // As `export` opens it.
        (Arc::new(SqliteStore::open_read_only(&path).await?), tuned)
    };
    let session = tuned.session;
    let filled = peak_rss_mib();
    let mut request = ExportRequest::all(folder.join("out"));
    request.formats.retain(|format| format.name() != "winners");
    let started = Instant::now();
    let report = export(&*store, &session.name, &request).await?;
    let took = started.elapsed();
    anyhow::ensure!(report.warnings.is_empty(), "{:?}", report.warnings);
    let records: u64 = report.files.iter().map(|file| file.records).sum();
    Ok(vec![
        Figure::new("to all three databases", took.as_secs_f64(), "s"),
        Figure::rate("outcomes folded", report.outcomes, took, "/s"),
        Figure::new("records written", records as f64, "records"),
        Figure::new("peak memory before the export", filled, "MiB"),
        Figure::new("peak memory", peak_rss_mib(), "MiB"),
    ])
}

async fn fill(store: &dyn Store, outcomes: u64) -> anyhow::Result<Tuned> {
    let tuned = Tuned::new(store, outcomes).await?;
    tuned.plan(store).await?;
    tuned.finish(store).await?;
    Ok(tuned)
}
