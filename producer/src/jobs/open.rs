//! The jobs that have no outcome: where each is, and what it is.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use bluefin_common::history;
use bluefin_common::job::{Job, JobId};
use bluefin_common::roster::{Doing, Entry};
use bluefin_common::session::Session;
use bluefin_common::standing::{self, Standing};
use bluefin_common::store::{Store, StoreError};

use super::found::{Found, JobPlace};
use crate::PlanError;
use crate::plan::Planners;
use crate::recall::Recall;

/// Jobs whose history is read at a time.
const CHUNK: usize = 1_000;

/// A job without an outcome. `job`: what it is, unless it was planned from something else than what is in the store.
pub struct OpenJob {
    pub found: Found,
    pub job: Option<Job>,
}

/// The open jobs of a session, and who has them.
pub struct OpenJobs<'a> {
    store: &'a dyn Store,
    session: &'a Session,
    places: HashMap<JobId, JobPlace>,
    in_hand: HashMap<JobId, (&'a Entry, &'a Doing)>,
    /// When those that are delayed are in their queues again, in milliseconds since the Unix epoch.
    until_ms: HashMap<JobId, u64>,
}

impl<'a> OpenJobs<'a> {
    /// Those of `session`, as far as `roster` says who has them at `now_ms`.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn of(
        store: &'a dyn Store,
        session: &'a Session,
        roster: &'a [Entry],
        now_ms: u64,
    ) -> Result<Self, StoreError> {
        let paused = standing::of(store, &session.name).await? == Standing::Paused;
        let place = |enqueued| match (enqueued, paused) {
            (_, true) => JobPlace::Paused,
            (true, false) => JobPlace::Waiting,
            (false, false) => JobPlace::Planned,
        };
        let planned = store.planned_jobs(&session.name).await?;
        let mut places: HashMap<JobId, JobPlace> =
            planned.into_iter().map(|(id, enqueued)| (id, place(enqueued))).collect();
        let mut until_ms = HashMap::new();
        for delayed in roster.iter().flat_map(|entry| &entry.delayed).filter(|delayed| delayed.until_ms > now_ms) {
            let Ok(id) = delayed.job.parse::<JobId>() else { continue };
            if let Some(place) = places.get_mut(&id).filter(|place| **place == JobPlace::Waiting) {
                *place = JobPlace::Delayed;
                until_ms.insert(id, delayed.until_ms);
            }
        }
        let mut in_hand = HashMap::new();
        let here = roster.iter().filter(|entry| entry.whereabouts(now_ms).is_here());
        for (entry, doing) in here.flat_map(|entry| entry.doing.iter().map(move |doing| (entry, doing))) {
            let Ok(id) = doing.job.parse::<JobId>() else { continue };
            // One that is not planned any more has an outcome by now.
            if let Some(place) = places.get_mut(&id) {
                *place = if entry.step == "compile" { JobPlace::Compiling } else { JobPlace::Evaluating };
                in_hand.insert(id, (entry, doing));
            }
        }
        Ok(Self { store, session, places, in_hand, until_ms })
    }

    /// Tells `told` of those that are `wanted` until it wants no more: what workers have in hand, then what waits in the order in
    /// which it was asked for, then what is known by its id alone.
    ///
    /// # Errors
    /// If the store fails, or as `told` says.
    pub async fn tell<E: From<PlanError>>(
        &self,
        planners: &Planners,
        wanted: impl Fn(&JobId, JobPlace) -> bool,
        mut told: impl FnMut(OpenJob) -> Result<bool, E>,
    ) -> Result<(), E> {
        let wanted = self.places.iter().filter(|(id, place)| wanted(id, **place)).map(|(id, _)| *id);
        let (held, mut waiting): (HashSet<JobId>, HashSet<JobId>) =
            wanted.partition(|id| self.in_hand.contains_key(id));
        if held.is_empty() && waiting.is_empty() {
            return Ok(());
        }
        let recall = self.or_unknown(Recall::open(self.store, planners, self.session).await)?;
        if !self.tell_some(self.held(recall.as_ref(), held).await?, &mut told).await? {
            return Ok(());
        }
        let mut more = Ok(true);
        if let Some(recall) = &recall {
            let found = recall.find(
                &mut waiting,
                |_| true,
                async |jobs| {
                    let jobs = jobs.into_iter().map(|job| (job.id(), Some(job))).collect();
                    more = self.tell_some(jobs, &mut told).await;
                    if matches!(more, Ok(true)) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                },
            );
            self.or_unknown(found.await)?;
        }
        if more? {
            let mut unknown: Vec<JobId> = waiting.into_iter().collect();
            unknown.sort_unstable();
            self.tell_some(unknown.into_iter().map(|id| (id, None)).collect(), &mut told).await?;
        }
        Ok(())
    }

    /// What `ids`, which workers have in hand, are: their problems are known, so that no others are planned again.
    async fn held(
        &self,
        recall: Option<&Recall<'_>>,
        ids: HashSet<JobId>,
    ) -> Result<Vec<(JobId, Option<Job>)>, PlanError> {
        let doing = ids.iter().filter_map(|id| self.in_hand.get(id));
        let labels: HashSet<&str> = doing.map(|(_, doing)| doing.problem.as_str()).collect();
        let (mut left, mut known) = (ids.clone(), HashMap::new());
        if let Some(recall) = recall {
            let found = recall.find(
                &mut left,
                |problem| labels.contains(problem.label().as_str()),
                async |jobs| {
                    known.extend(jobs.into_iter().map(|job| (job.id(), job)));
                    ControlFlow::Continue(())
                },
            );
            self.or_unknown(found.await)?;
        }
        let mut held: Vec<JobId> = ids.into_iter().collect();
        held.sort_unstable_by_key(|id| (Reverse(self.places.get(id)), *id));
        Ok(held.into_iter().map(|id| (id, known.remove(&id))).collect())
    }

    /// Whether `told` wants more.
    async fn tell_some<E: From<PlanError>>(
        &self,
        jobs: Vec<(JobId, Option<Job>)>,
        told: &mut impl FnMut(OpenJob) -> Result<bool, E>,
    ) -> Result<bool, E> {
        for some in jobs.chunks(CHUNK) {
            let ids: Vec<JobId> = some.iter().map(|(id, _)| *id).collect();
            let before = history::of_jobs(self.store, &self.session.name, &ids).await.map_err(PlanError::from)?;
            for ((id, job), before) in some.iter().zip(before) {
                let place = self.places.get(id).copied().unwrap_or(JobPlace::Planned);
                let found = Found::open(self.session, id, place).known(job.as_ref()).after(&before);
                let until_ms = self.until_ms.get(id).copied().filter(|_| place == JobPlace::Delayed);
                let found = Found { until_ms, ..found };
                let found = match self.in_hand.get(id) {
                    Some((entry, doing)) => found.in_hand(entry, doing),
                    None => found,
                };
                if !told(OpenJob { found, job: job.clone() })? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// What can not be planned again is known by its id alone; that the store fails is another matter.
    fn or_unknown<T>(&self, planned: Result<T, PlanError>) -> Result<Option<T>, PlanError> {
        match planned {
            Ok(known) => Ok(Some(known)),
            Err(error @ PlanError::Store(_)) => Err(error),
            Err(error) => {
                tracing::warn!(session = %self.session.name, %error, "what its open jobs are can not be said");
                Ok(None)
            }
        }
    }
}
