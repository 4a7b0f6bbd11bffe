//! What there is: all sessions with their progress, who works, what waits.

use std::collections::{BTreeMap, HashMap};

use bluefin_common::clock::now_ms;
use bluefin_common::roster::{self, Entry};
use bluefin_common::session::{Pins, Session, SessionName};
use bluefin_common::standing::{self, Standing};
use bluefin_common::store::{Progress, Store, StoreError};

use super::Around;

/// Sessions that are looked at, the youngest first.
const SESSIONS: usize = 200;

/// All that one look finds.
pub struct Found {
    pub sessions: Vec<(Session, Progress)>,
    pub left_out: usize,
    pub standings: HashMap<SessionName, Standing>,
    pub workers: Vec<Entry>,
    pub now_ms: u64,
    /// Messages that wait, by queue; `None` where there is no broker, an error in words where it does not answer.
    pub queues: Option<Result<BTreeMap<String, u64>, String>>,
}

impl Found {
    /// How far a session is, or what keeps it.
    pub fn state(&self, session: &Session, progress: &Progress) -> &'static str {
        match self.standings.get(&session.name) {
            Some(standing) if !progress.is_settled() => standing.name(),
            _ => progress.state(),
        }
    }

    /// Whether somebody who is here has a job of the session in hand.
    pub fn has_worker(&self, session: &SessionName) -> bool {
        let here = self.workers.iter().filter(|worker| worker.whereabouts(self.now_ms).is_here());
        here.flat_map(|worker| &worker.doing).any(|doing| doing.session == *session)
    }

    /// Whether work of the session is left that is not kept for later.
    pub fn is_open(&self, session: &SessionName, progress: &Progress) -> bool {
        !progress.is_settled() && self.standings.get(session).is_none_or(|standing| standing.runs())
    }
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

/// Candidates that came to an end, however.
pub fn candidates(progress: &Progress) -> u64 {
    progress.candidates.values().sum()
}

/// Those that failed, by kind.
pub fn failed(progress: &Progress) -> impl Iterator<Item = (&str, u64)> {
    let failed = progress.candidates.iter().filter(|(kind, _)| !matches!(kind.as_str(), "timed" | "pruned"));
    failed.map(|(kind, amount)| (kind.as_str(), *amount))
}

/// Jobs that are done, and those that are planned so far.
pub fn jobs(progress: &Progress) -> (u64, u64) {
    (progress.done.values().sum(), progress.planned.values().sum())
}

#[cfg(test)]
pub mod tests {
    use bluefin_common::session::Stage;

    use super::*;

    /// Nothing but `sessions`.
    pub fn found(sessions: Vec<(Session, Progress)>) -> Found {
        let (standings, workers) = (HashMap::new(), Vec::new());
        Found { sessions, left_out: 0, standings, workers, now_ms: 0, queues: None }
    }

    pub fn session(name: &str) -> Session {
        Session::of_kernels(name.parse().unwrap(), "host".parse().unwrap(), "", &[Stage::Perf], 0)
    }

    /// `done` jobs of `planned`, with a timed candidate each.
    pub fn progress(done: u64, planned: u64) -> Progress {
        let of = |name: &str, amount| BTreeMap::from([(name.to_string(), amount)]);
        let unsettled_groups = u64::from(done < planned);
        let (planned, done_jobs) = (of("perf", planned), of("perf", done));
        Progress {
            planned,
            done: done_jobs,
            unsettled_groups,
            groups: 1,
            candidates: of("timed", done),
            ..Progress::default()
        }
    }
}
