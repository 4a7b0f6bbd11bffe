//! What a session of many jobs takes in Redis, and how long it takes to look at it.

use std::time::Instant;

use bluefin_campaign::ports::FleetArgs;
use bluefin_common::store::Store;
use bluefin_exporter::summary::summaries;

use crate::filled::Tuned;
use crate::{Figure, peak_rss_mib};

/// Plans about `jobs` jobs, stores what came of them, and looks at that.
pub(super) async fn measure(jobs: u64, fleet: &FleetArgs) -> anyhow::Result<Vec<Figure>> {
    let redis = fleet.redis_store().await?;
    let store: &dyn Store = &redis;
    let tuned = Tuned::new(store, jobs).await?;
    let (session, jobs) = (&tuned.session, tuned.outcomes());
    let bytes_each = |bytes: u64| bytes as f64 / jobs.max(1) as f64;

    let empty = redis.used_memory().await?;
    let started = Instant::now();
    tuned.plan(store).await?;
    let planned = Figure::rate("jobs planned and recorded as enqueued", jobs, started.elapsed(), "jobs/s");
    let full = redis.used_memory().await?;
    let mut figures = vec![
        Figure::new("jobs", jobs as f64, "jobs"),
        Figure::new("groups", tuned.groups as f64, "groups"),
        planned,
        Figure::new("memory in Redis for each planned job", bytes_each(full.saturating_sub(empty)), "B"),
    ];

    let started = Instant::now();
    tuned.finish(store).await?;
    figures.push(Figure::rate("outcomes stored", jobs, started.elapsed(), "/s"));
    let done = redis.used_memory().await?;
    figures.push(Figure::new(
        "memory in Redis for each outcome, all that a session has",
        bytes_each(done.saturating_sub(empty)),
        "B",
    ));

    let mut time =
        |what, started: Instant| figures.push(Figure::new(what, started.elapsed().as_secs_f64() * 1e3, "ms"));
    let started = Instant::now();
    for session in store.sessions().await? {
        store.progress(&session.name).await?;
        store.pins(&session.name).await?;
    }
    time("status: all sessions, their progress and pins", started);
    let started = Instant::now();
    let progress = store.progress(&session.name).await?;
    time("progress of the session", started);
    anyhow::ensure!(progress.is_complete(), "{progress:?}");
    let started = Instant::now();
    let groups = store.groups(&session.name).await?;
    time("groups of the session", started);
    let started = Instant::now();
    let results = summaries(store, session, &groups).await?;
    time("results: all outcomes, to a winner for each group", started);
    let won = results.iter().filter(|summary| summary.winner.is_some()).count() as u64;
    anyhow::ensure!(won == tuned.groups, "{won} of {} groups have a winner", tuned.groups);
    drop(results);
    figures.push(Figure::new("peak memory of this process", peak_rss_mib(), "MiB"));
    Ok(figures)
}
