//! A job, wherever it is: planned, in somebody's hands, or done.

use std::collections::BTreeMap;

use bluefin_common::candidate::Candidate;
use bluefin_common::failure::FailureKind;
use bluefin_common::history::Tried;
use bluefin_common::job::{Job, JobId};
use bluefin_common::outcome::Outcome;
use bluefin_common::roster::{Doing, Entry};
use bluefin_common::session::{Session, SessionName};
use serde::Serialize;

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JobPlace {
    /// Planned, and not known to be in a queue.
    Planned,
    /// Kept for later: its session is paused.
    Paused,
    /// In a queue, or on its way to one.
    Waiting,
    /// Handed back by a worker, and in its queue again at a time that is known.
    Delayed,
    /// In the hands of a compile worker.
    Compiling,
    /// In the hands of an eval worker.
    Evaluating,
    /// It has an outcome, in which a candidate has a time.
    Done,
    /// It has an outcome, in which none has.
    Failed,
    /// It was given up.
    Dead,
}

impl JobPlace {
    /// In the order in which a job passes them.
    pub const ALL: [Self; 9] = [
        Self::Planned,
        Self::Paused,
        Self::Waiting,
        Self::Delayed,
        Self::Compiling,
        Self::Evaluating,
        Self::Done,
        Self::Failed,
        Self::Dead,
    ];

    /// In tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Paused => "paused",
            Self::Waiting => "waiting",
            Self::Delayed => "delayed",
            Self::Compiling => "compiling",
            Self::Evaluating => "evaluating",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Dead => "dead",
        }
    }

    /// For a help text.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::Planned => "Planned, and not known to be in a queue",
            Self::Paused => "Kept for later: its session is paused",
            Self::Waiting => "In a queue, or on its way to one",
            Self::Delayed => "Handed back by a worker, and in its queue again at a time that is known",
            Self::Compiling => "In the hands of a compile worker",
            Self::Evaluating => "In the hands of an eval worker",
            Self::Done => "It has an outcome, in which a candidate has a time",
            Self::Failed => "It has an outcome, in which none has",
            Self::Dead => "It was given up",
        }
    }
}

/// A job, as far as it is known where it is and what it is.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    pub job: String,
    pub session: SessionName,
    pub place: JobPlace,
    pub stage: Option<&'static str>,
    /// In short.
    pub problem: Option<String>,
    pub solvers: Vec<String>,
    /// Candidates by result: `open`, `timed`, `pruned`, or the kind of their failure.
    pub candidates: BTreeMap<&'static str, u64>,
    /// Which time it is that it is tried: it was tried again, or compiled again since its artifacts were gone.
    pub attempts: u64,
    /// Who has it, or had it last.
    pub worker: Option<String>,
    /// When it is in its queue again, in milliseconds since the Unix epoch.
    pub until_ms: Option<u64>,
    /// Since when, in milliseconds since the Unix epoch.
    pub since_ms: Option<u64>,
    /// From its enqueueing to its outcome, in milliseconds.
    pub took_ms: Option<u64>,
    /// What went wrong first; of one that is open, last time.
    pub error: Option<String>,
}

impl Found {
    /// One that is open.
    pub fn open(session: &Session, id: &JobId, place: JobPlace) -> Self {
        Self {
            job: id.to_string(),
            session: session.name.clone(),
            place,
            stage: None,
            problem: None,
            solvers: Vec::new(),
            candidates: BTreeMap::new(),
            attempts: 1,
            worker: None,
            until_ms: None,
            since_ms: None,
            took_ms: None,
            error: None,
        }
    }

    /// The same where it is known what it is.
    pub fn known(self, job: Option<&Job>) -> Self {
        let Some(job) = job else { return self };
        Self {
            stage: Some(job.stage.name()),
            problem: Some(job.problem.label()),
            solvers: solvers(&job.candidates),
            candidates: BTreeMap::from([("open", job.candidates.len() as u64)]),
            ..self
        }
    }

    /// The same where it was tried `before`. What went wrong then is of interest as long as nothing has come of it since.
    pub fn after(self, before: &[Tried]) -> Self {
        let last = before.last().and_then(|tried| tried.failed.first()).filter(|_| self.place < JobPlace::Done);
        let error = last.map(|failed| format!("{}: {}", failed.kind.name(), failed.words.trim()));
        Self { attempts: self.attempts + before.len() as u64, error: self.error.or(error), ..self }
    }

    /// One that is done.
    pub fn done(outcome: &Outcome) -> Self {
        let mut candidates: BTreeMap<&'static str, u64> = BTreeMap::new();
        for candidate in &outcome.candidates {
            let name = match &candidate.result {
                Ok(timing) if timing.pruned => "pruned",
                Ok(_) => "timed",
                Err(failure) => failure.kind.name(),
            };
            *candidates.entry(name).or_default() += 1;
        }
        let failure = outcome.candidates.iter().find_map(|candidate| candidate.result.as_ref().err());
        let place = match failure {
            Some(failure) if failure.kind == FailureKind::Dead => JobPlace::Dead,
            Some(_) if outcome.candidates.iter().all(|candidate| candidate.result.is_err()) => JobPlace::Failed,
            _ => JobPlace::Done,
        };
        let course = &outcome.course;
        let last = course.evaluated.as_ref().or(course.compiled.as_ref());
        let enqueued_ms = Some(course.enqueued_ms).filter(|ms| *ms > 0);
        Self {
            job: outcome.job_id().to_string(),
            session: outcome.job.session.clone(),
            place,
            stage: Some(outcome.job.stage.name()),
            problem: Some(outcome.job.problem.label()),
            solvers: solvers(&outcome.job.candidates),
            candidates,
            attempts: u64::from(course.recompiles) + 1,
            worker: last.map(|worked| worked.worker.clone()),
            until_ms: None,
            since_ms: Some(outcome.finished_ms),
            took_ms: enqueued_ms.map(|enqueued_ms| outcome.finished_ms.saturating_sub(enqueued_ms)),
            error: failure.map(|failure| format!("{}: {}", failure.kind.name(), failure.detail.trim())),
        }
    }

    /// The same in the hands of a worker.
    pub fn in_hand(self, entry: &Entry, doing: &Doing) -> Self {
        let remark = entry.remarks.iter().rev().find(|remark| remark.job == doing.job);
        Self {
            problem: Some(doing.problem.clone()),
            worker: Some(entry.worker.clone()),
            since_ms: Some(doing.since_ms),
            error: remark.map(|remark| remark.words.clone()).or(self.error),
            ..self
        }
    }
}

/// Each solver of `candidates` once.
fn solvers(candidates: &[Candidate]) -> Vec<String> {
    let mut solvers: Vec<String> = Vec::new();
    for candidate in candidates {
        if !solvers.contains(&candidate.solver) {
            solvers.push(candidate.solver.clone());
        }
    }
    solvers
}
