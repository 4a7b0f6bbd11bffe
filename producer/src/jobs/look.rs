//! The jobs of a fleet's sessions, open and done.

use bluefin_common::clock::now_ms;
use bluefin_common::history;
use bluefin_common::job::JobId;
use bluefin_common::outcome::Outcome;
use bluefin_common::roster::{self, Entry};
use bluefin_common::session::Session;
use bluefin_common::store::{Store, StoreError};

use super::found::Found;
use super::open::OpenJobs;

/// Groups whose outcomes are read at a time.
const GROUPS: usize = 200;

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
    pub async fn look(store: &'a dyn Store) -> Result<Self, StoreError> {
        Ok(Self { store, roster: roster::read(store).await?, now_ms: now_ms() })
    }

    /// Those of `session` that have no outcome.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn open<'b>(&'b self, session: &'b Session) -> Result<OpenJobs<'b>, StoreError> {
        OpenJobs::of(self.store, session, &self.roster, self.now_ms).await
    }

    /// Tells `told` of the jobs of `session` that have an outcome, if they are `wanted`, until it wants no more.
    ///
    /// # Errors
    /// If the store fails, or as `told` says.
    pub async fn done<E: From<StoreError>>(
        &self,
        session: &Session,
        wanted: impl Fn(&JobId) -> bool,
        mut told: impl FnMut(Found, Outcome) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut groups = self.store.groups(&session.name).await?;
        groups.sort_unstable();
        for some in groups.chunks(GROUPS) {
            let outcomes = self.store.outcomes(&session.name, some).await?.into_iter();
            let known = outcomes.map(|outcome| (outcome.job_id(), outcome)).filter(|(id, _)| wanted(id));
            let (ids, outcomes): (Vec<JobId>, Vec<Outcome>) = known.unzip();
            let before = history::of_jobs(self.store, &session.name, &ids).await?;
            for (outcome, before) in outcomes.into_iter().zip(before) {
                if !told(Found::done(&outcome).after(&before), outcome)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
