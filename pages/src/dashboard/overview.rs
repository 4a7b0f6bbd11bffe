//! The first page: all sessions with their progress, who works, what waits, what failed.

use std::collections::{BTreeMap, HashMap};

use bluefin_common::clock::now_ms;
use bluefin_common::roster::{self, Entry};
use bluefin_common::session::{Pins, Session, SessionName, Stage};
use bluefin_common::standing::{self, Standing};
use bluefin_common::store::{Progress, Store, StoreError};
use maud::{Markup, html};

use super::Around;
use crate::words::{count, long, when};

/// Sessions that are shown, the youngest first.
const SESSIONS: usize = 200;

/// What there is.
pub struct Found {
    sessions: Vec<(Session, Progress)>,
    left_out: usize,
    standings: HashMap<SessionName, Standing>,
    workers: Vec<Entry>,
    now_ms: u64,
    queues: Option<Result<BTreeMap<String, u64>, String>>,
}

pub async fn gather(store: &dyn Store, around: &dyn Around) -> Result<Found, StoreError> {
    let mut all = store.sessions().await?;
    all.sort_by(|a, b| (b.created_ms, &b.name).cmp(&(a.created_ms, &a.name)));
    let left_out = all.len().saturating_sub(SESSIONS);
    let mut sessions = Vec::new();
    let mut open: Vec<(Session, Pins)> = Vec::new();
    for session in all.into_iter().take(SESSIONS) {
        let progress = store.progress(&session.name).await?;
        if !progress.is_settled() {
            open.push((session.clone(), store.pins(&session.name).await?));
        }
        sessions.push((session, progress));
    }
    let queues = around.queues(&open).await;
    let (standings, workers) = (standing::all(store).await?, roster::read(store).await?);
    Ok(Found { sessions, left_out, standings, workers, now_ms: now_ms(), queues })
}

pub fn page(found: &Found) -> Markup {
    html! {
        h1 { "Sessions" }
        @if found.sessions.is_empty() { p { "There is none yet." } } @else { (sessions(&found.sessions, &found.standings)) }
        @if found.left_out > 0 { p { (found.left_out) " older sessions are left out." } }
        h2 { "Failures" }
        (failures(&found.sessions))
        h2 { "Workers" }
        @if found.workers.is_empty() { p { "None has said that it is here." } } @else { (workers(&found.workers, found.now_ms)) }
        h2 { "Queues" }
        @match &found.queues {
            None => p { "No broker is named." },
            Some(Err(reason)) => p.bad role="alert" { "away: " (reason) },
            Some(Ok(queues)) => div.scroll tabindex="0" role="group" aria-label="queues" { table {
                thead { tr { th scope="col" { "queue" } th.n scope="col" { "waiting" } } }
                tbody { @for (name, depth) in queues { tr { th scope="row" { (name) } td.n { (count(*depth)) } } } }
            } },
        }
    }
}

/// Who works, and who is gone.
fn workers(workers: &[Entry], now_ms: u64) -> Markup {
    let settled = |worker: &Entry, name: &str| worker.settled.get(name).copied().unwrap_or(0);
    html! {
        div.scroll tabindex="0" role="group" aria-label="workers" { table {
            thead { tr { th scope="col" { "worker" } th scope="col" { "step" } th scope="col" { "serves" } th scope="col" { "state" } th scope="col" { "on" }
                th.n scope="col" { "done" } th.n scope="col" { "given up" } th scope="col" { "seen" } } }
            tbody { @for worker in workers { tr {
                th scope="row" { (worker.worker) } td { (worker.step) } td { (worker.serves.join(" ")) }
                td { (worker.whereabouts(now_ms).name()) @if let Some(reason) = &worker.waits { ": " (reason) } }
                td { @if worker.whereabouts(now_ms).is_here() { (worker.doing.first().map_or("", |doing| doing.problem.as_str())) } }
                td.n { (count(settled(worker, "done"))) } td.n { (count(settled(worker, "dead"))) } td { (when(worker.seen_ms)) }
            } } }
        } }
    }
}

fn sessions(sessions: &[(Session, Progress)], standings: &HashMap<SessionName, Standing>) -> Markup {
    // How far it is, or what keeps it.
    let state = |session: &Session, progress: &Progress| match standings.get(&session.name) {
        Some(standing) if !progress.is_settled() => standing.name(),
        _ => progress.state(),
    };
    let jobs = |progress: &Progress, stage: Stage| {
        let count_of = |counts: &BTreeMap<String, u64>| counts.get(stage.name()).copied().unwrap_or(0);
        format!("{} / {}", count(count_of(&progress.done)), count(count_of(&progress.planned)))
    };
    let candidates = |progress: &Progress, name: &str| progress.candidates.get(name).copied().unwrap_or(0);
    html! {
        div.scroll tabindex="0" role="group" aria-label="sessions" { table {
            thead { tr { th scope="col" { "session" } th scope="col" { "label" } th scope="col" { "target" } th scope="col" { "tuner" } th scope="col" { "state" }
                th.n scope="col" { "perf jobs" } th.n scope="col" { "find jobs" } th.n scope="col" { "problems" } th.n scope="col" { "timed" } th.n scope="col" { "pruned" } th.n scope="col" { "failed" }
                th.n scope="col" { "on devices" } th scope="col" { "made" } } }
            tbody { @for (session, progress) in sessions { tr {
                th scope="row" { a href=(format!("/session/{}", session.name)) { (session.name) } }
                td { (session.label) } td { (session.target) } td { (session.method) } td { (state(session, progress)) }
                td.n { (jobs(progress, Stage::Perf)) } td.n { (jobs(progress, Stage::Find)) }
                td.n { (count(progress.groups.saturating_sub(progress.unsettled_groups))) " / " (count(progress.groups)) }
                td.n { (count(candidates(progress, "timed"))) } td.n { (count(candidates(progress, "pruned"))) }
                td.n { (count(failed(progress).map(|(_, amount)| amount).sum())) }
                td.n { (long(progress.busy_ms.values().sum())) } td { (when(session.created_ms)) }
            } } }
        } }
    }
}

/// Candidates that failed, by kind.
fn failed(progress: &Progress) -> impl Iterator<Item = (&str, u64)> {
    let failed = progress.candidates.iter().filter(|(kind, _)| !matches!(kind.as_str(), "timed" | "pruned"));
    failed.map(|(kind, amount)| (kind.as_str(), *amount))
}

fn failures(sessions: &[(Session, Progress)]) -> Markup {
    if sessions.iter().all(|(_, progress)| failed(progress).next().is_none()) {
        return html! { p { "No candidate failed." } };
    }
    html! {
        ul { @for (session, progress) in sessions { @for (kind, amount) in failed(progress) { li {
            a href=(format!("/session/{}#failures", session.name)) { (session.name) } ": " (count(amount)) " " (kind)
        } } } }
    }
}
