//! The last hour, at even steps: how much was done in each, what waited, who worked.

use std::collections::{HashMap, VecDeque};

use bluefin_common::metrics::Step;
use bluefin_common::roster::Whereabouts;
use bluefin_common::session::{Session, SessionName};
use serde::Serialize;

use super::found::{Found, candidates, failed, jobs};

/// Milliseconds between two points.
pub const STEP_MS: u64 = 15_000;
/// Points that are kept: an hour.
const POINTS: usize = 240;
/// Points that a rate, an estimate and a share are taken from: five minutes.
const RECENT: usize = 20;
/// Points of a session from which on it is known whether anything happens to it: a minute.
const KNOWN: usize = 5;
const MINUTE_MS: f64 = 60_000.0;

/// One step, as columns of a chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Point {
    /// Seconds since the Unix epoch.
    pub at: u64,
    /// Candidates a minute.
    pub candidates: f64,
    /// Those of them that failed.
    pub failed: f64,
    /// Messages that waited to be compiled, and to be evaluated; nothing where no broker is named, or none answered.
    pub to_compile: Option<u64>,
    pub to_evaluate: Option<u64>,
    /// Eval workers with a job in hand, of those that are here, in percent.
    pub busy: Option<f64>,
}

/// What a session had come to at a point.
#[derive(Clone, Copy, Default)]
struct Done {
    at_ms: u64,
    candidates: u64,
    failed: u64,
    jobs: u64,
}

impl Done {
    fn amounts(self) -> (u64, u64) {
        (self.candidates, self.jobs)
    }
}

/// What is remembered, none of it longer than an hour.
#[derive(Default)]
pub struct History {
    pub points: VecDeque<Point>,
    last_ms: u64,
    sessions: HashMap<SessionName, VecDeque<Done>>,
    /// By name and what it serves: at which points it worked.
    workers: HashMap<String, VecDeque<bool>>,
}

impl History {
    /// Takes what was found in, if a step is over since the last. Whether it did.
    pub fn take(&mut self, found: &Found) -> bool {
        let elapsed_ms = found.now_ms.saturating_sub(self.last_ms);
        if elapsed_ms < STEP_MS {
            return false;
        }
        let known = |name: &SessionName| found.sessions.iter().any(|(session, _)| session.name == *name);
        self.sessions.retain(|name, _| known(name));
        let (mut done, mut gone_wrong) = (0, 0);
        for (session, progress) in &found.sessions {
            let now = Done {
                at_ms: found.now_ms,
                candidates: candidates(progress),
                failed: failed(progress).map(|(_, amount)| amount).sum(),
                jobs: jobs(progress).0,
            };
            let steps = self.sessions.entry(session.name.clone()).or_default();
            // What was done before anybody looked was done at no time that is known.
            let before = steps.back().copied().unwrap_or(now);
            done += now.candidates.saturating_sub(before.candidates);
            gone_wrong += now.failed.saturating_sub(before.failed);
            push(steps, now, POINTS);
        }
        for worker in &found.workers {
            let works = worker.whereabouts(found.now_ms) == Whereabouts::Working;
            push(self.workers.entry(key(&worker.worker, &worker.serves)).or_default(), works, RECENT);
        }
        self.workers.retain(|name, _| found.workers.iter().any(|worker| key(&worker.worker, &worker.serves) == *name));
        if self.last_ms > 0 {
            let minutes = elapsed_ms as f64 / MINUTE_MS;
            let rate = |amount: u64| (amount as f64 / minutes * 10.0).round() / 10.0;
            let point = Point {
                at: found.now_ms / 1000,
                candidates: rate(done),
                failed: rate(gone_wrong),
                to_compile: waiting(found, "bluefin.compile."),
                to_evaluate: waiting(found, "bluefin.eval."),
                busy: busy(found),
            };
            push(&mut self.points, point, POINTS);
        }
        self.last_ms = found.now_ms;
        true
    }

    /// Candidates a minute, all sessions together, and over how many of the last milliseconds that is.
    pub fn rate(&self) -> Option<(f64, u64)> {
        let recent = self.points.len().min(RECENT);
        let sum: f64 = self.points.iter().rev().take(recent).map(|point| point.candidates).sum();
        (recent > 0).then(|| (sum / recent as f64, recent as u64 * STEP_MS))
    }

    /// Whether something happened to a session in the last five minutes: jobs of it were done, it was made, or it has not been looked
    /// at for long.
    pub fn is_active(&self, session: &Session, now_ms: u64) -> bool {
        let is_new = now_ms.saturating_sub(session.created_ms) < RECENT as u64 * STEP_MS;
        let Some(steps) = self.sessions.get(&session.name).filter(|steps| steps.len() >= KNOWN) else { return true };
        let first = steps.get(steps.len().saturating_sub(RECENT + 1));
        is_new || first.zip(steps.back()).is_some_and(|(first, last)| first.amounts() != last.amounts())
    }

    /// Candidates of a session at each step of the last hour.
    pub fn steps(&self, session: &SessionName) -> Vec<u64> {
        let done: Vec<u64> = self.sessions.get(session).into_iter().flatten().map(|done| done.candidates).collect();
        done.windows(2).map(|pair| pair.last().zip(pair.first()).map_or(0, |(b, a)| b.saturating_sub(*a))).collect()
    }

    /// Milliseconds until `left` jobs of a session are done at its pace of the last five minutes; `None` where nothing was done.
    pub fn left_ms(&self, session: &SessionName, left: u64) -> Option<u64> {
        let steps = self.sessions.get(session)?;
        let (first, last) = (steps.get(steps.len().saturating_sub(RECENT))?, steps.back()?);
        let (jobs, took) = (last.jobs.checked_sub(first.jobs)?, last.at_ms.checked_sub(first.at_ms)?);
        (jobs > 0).then(|| (left as f64 * took as f64 / jobs as f64) as u64)
    }

    /// How much of the last five minutes a worker had a job in hand, in percent.
    pub fn share(&self, worker: &str, serves: &[String]) -> Option<f64> {
        let points = self.workers.get(&key(worker, serves))?;
        let worked = points.iter().filter(|works| **works).count();
        (!points.is_empty()).then(|| worked as f64 / points.len() as f64 * 100.0)
    }
}

fn key(worker: &str, serves: &[String]) -> String {
    format!("{worker} {}", serves.join(" "))
}

fn push<T>(all: &mut VecDeque<T>, one: T, most: usize) {
    while all.len() >= most {
        all.pop_front();
    }
    all.push_back(one);
}

fn waiting(found: &Found, prefix: &str) -> Option<u64> {
    let queues = found.queues.as_ref()?.as_ref().ok()?;
    Some(queues.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, depth)| depth).sum())
}

fn busy(found: &Found) -> Option<f64> {
    let eval = found.workers.iter().filter(|worker| worker.step == Step::Eval.name());
    let at: Vec<_> = eval.map(|worker| worker.whereabouts(found.now_ms)).filter(|at| at.is_here()).collect();
    let working = at.iter().filter(|at| **at == Whereabouts::Working).count();
    (!at.is_empty()).then(|| working as f64 / at.len() as f64 * 100.0)
}

#[cfg(test)]
mod tests;
