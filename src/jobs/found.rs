//! Jobs, wherever they are: planned, in somebody's hands, or done.

use std::collections::{BTreeMap, HashMap};

use bluefin_common::campaign::now_ms;
use bluefin_common::failure::FailureKind;
use bluefin_common::job::JobId;
use bluefin_common::outcome::Outcome;
use bluefin_common::roster::{self, Doing, Entry};
use bluefin_common::session::{Session, SessionName};
use bluefin_common::standing::{self, Standing};
use bluefin_common::store::Store;
use clap::ValueEnum;
use serde::Serialize;

/// Groups whose outcomes are read at a time.
const GROUPS: usize = 200;

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Planned, and not known to be in a queue.
    Planned,
    /// Kept for later: its session is paused.
    Paused,
    /// In a queue, or on its way back to one.
    Waiting,
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

impl Place {
    /// In tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Paused => "paused",
            Self::Waiting => "waiting",
            Self::Compiling => "compiling",
            Self::Evaluating => "evaluating",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Dead => "dead",
        }
    }

    fn is_open(self) -> bool {
        self < Self::Done
    }
}

/// A job, as far as it is known where it is. What waits in a queue is known by its id alone.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    pub job: String,
    pub session: SessionName,
    pub place: Place,
    pub stage: Option<&'static str>,
    /// In short.
    pub problem: Option<String>,
    pub solvers: Vec<String>,
    /// Candidates by result: `timed`, `pruned`, or the kind of their failure.
    pub candidates: BTreeMap<&'static str, u64>,
    /// How often it was compiled.
    pub attempts: Option<u32>,
    /// Who has it, or had it last.
    pub worker: Option<String>,
    /// Since when, in milliseconds since the Unix epoch.
    pub since_ms: Option<u64>,
    /// From its enqueueing to its outcome, in milliseconds.
    pub took_ms: Option<u64>,
    /// What went wrong first.
    pub error: Option<String>,
}

impl Found {
    fn open(session: &Session, id: &JobId, place: Place) -> Self {
        Self {
            job: id.to_string(),
            session: session.name.clone(),
            place,
            stage: None,
            problem: None,
            solvers: Vec::new(),
            candidates: BTreeMap::new(),
            attempts: None,
            worker: None,
            since_ms: None,
            took_ms: None,
            error: None,
        }
    }

    /// One that is done.
    pub fn done(outcome: &Outcome) -> Self {
        let mut candidates: BTreeMap<&'static str, u64> = BTreeMap::new();
        let mut solvers: Vec<String> = Vec::new();
        for candidate in &outcome.candidates {
            let name = match &candidate.result {
                Ok(timing) if timing.pruned => "pruned",
                Ok(_) => "timed",
                Err(failure) => failure.kind.name(),
            };
            *candidates.entry(name).or_default() += 1;
            if !solvers.contains(&candidate.candidate.solver) {
                solvers.push(candidate.candidate.solver.clone());
            }
        }
        let failure = outcome.candidates.iter().find_map(|candidate| candidate.result.as_ref().err());
        let place = match failure {
            Some(failure) if failure.kind == FailureKind::Dead => Place::Dead,
            Some(_) if outcome.candidates.iter().all(|candidate| candidate.result.is_err()) => Place::Failed,
            _ => Place::Done,
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
            solvers,
            candidates,
            attempts: Some(course.recompiles + 1),
            worker: last.map(|worked| worked.worker.clone()),
            since_ms: Some(outcome.finished_ms),
            took_ms: enqueued_ms.map(|enqueued_ms| outcome.finished_ms.saturating_sub(enqueued_ms)),
            error: failure.map(|failure| format!("{}: {}", failure.kind.name(), failure.detail.trim())),
        }
    }

    fn in_hand(self, entry: &Entry, doing: &Doing) -> Self {
        let place = if entry.step == "compile" { Place::Compiling } else { Place::Evaluating };
        let remark = entry.remarks.iter().rev().find(|remark| remark.job == doing.job);
        Self {
            place,
            problem: Some(doing.problem.clone()),
            worker: Some(entry.worker.clone()),
            since_ms: Some(doing.since_ms),
            error: remark.map(|remark| remark.words.clone()),
            ..self
        }
    }
}

/// Where the jobs of a fleet's sessions are.
pub struct Jobs<'a> {
    store: &'a dyn Store,
    roster: Vec<Entry>,
    now_ms: u64,
}

impl<'a> Jobs<'a> {
    /// As the roster says now.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn look(store: &'a dyn Store) -> anyhow::Result<Self> {
        Ok(Self { store, roster: roster::read(store).await?, now_ms: now_ms() })
    }

    /// Those of `session` that have no outcome, in the order of their places, then ids.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn open(&self, session: &Session) -> anyhow::Result<Vec<Found>> {
        let here = self.roster.iter().filter(|entry| entry.whereabouts(self.now_ms).is_here());
        let doing = here.flat_map(|entry| entry.doing.iter().map(move |doing| (doing.job.as_str(), (entry, doing))));
        let in_hand: HashMap<&str, (&Entry, &Doing)> = doing.collect();
        let paused = standing::of(self.store, &session.name).await? == Standing::Paused;
        let planned = self.store.planned_jobs(&session.name).await?;
        let mut found: Vec<Found> = planned
            .iter()
            .map(|(id, enqueued)| {
                let place = match (enqueued, paused) {
                    (true, false) => Place::Waiting,
                    (_, true) => Place::Paused,
                    (false, false) => Place::Planned,
                };
                let found = Found::open(session, id, place);
                match in_hand.get(found.job.as_str()) {
                    Some((entry, doing)) => found.in_hand(entry, doing),
                    None => found,
                }
            })
            .collect();
        found.sort_by(|a, b| b.place.cmp(&a.place).then_with(|| a.job.cmp(&b.job)));
        debug_assert!(found.iter().all(|one| one.place.is_open()));
        Ok(found)
    }

    /// Tells `told` of each outcome of `session` until it wants no more.
    ///
    /// # Errors
    /// If the store fails, or as `told` says.
    pub async fn done(
        &self,
        session: &Session,
        mut told: impl FnMut(&Outcome) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let mut groups = self.store.groups(&session.name).await?;
        groups.sort_unstable();
        for some in groups.chunks(GROUPS) {
            for outcome in self.store.outcomes(&session.name, some).await? {
                if !told(&outcome)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
