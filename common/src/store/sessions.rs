//! What sessions are and which versions they are pinned to.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::StoreError;
use crate::session::{Pins, Session, SessionName};

/// What tells whether anybody gave a session work, or changed how it [stands](crate::standing), since this was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// How often jobs of it were planned, or outcomes taken back.
    pub times: u64,
    /// Its record on [`crate::shelf::STANDINGS`].
    pub standing: Option<Vec<u8>>,
}

/// What a session takes up in the store, in bytes; where asking exactly would take long, an estimate. Without its blobs, which others
/// may name as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSize {
    /// Outcomes, samples included.
    pub outcomes: u64,
    /// What is planned, and counts.
    pub plan: u64,
    /// On its shelves: solvers, applicability, compiled and parked jobs.
    pub records: u64,
}

impl SessionSize {
    /// All of it.
    #[must_use]
    pub fn total(self) -> u64 {
        self.outcomes + self.plan + self.records
    }
}

/// Sessions and their pins.
#[async_trait]
pub trait Sessions: Send + Sync + 'static {
    /// Stores `session` unless one of its name exists; returns the one that is stored now.
    async fn create_session(&self, session: &Session) -> Result<Session, StoreError>;
    /// `None` if none of that name was created.
    async fn session(&self, name: &SessionName) -> Result<Option<Session>, StoreError>;
    /// All sessions, by name.
    async fn sessions(&self) -> Result<Vec<Session>, StoreError>;
    /// Pins `key` of the session to `value` unless it is pinned; returns the value it is pinned to now.
    async fn pin(&self, session: &SessionName, key: &str, value: &str) -> Result<String, StoreError>;
    /// All pins of the session so far; empty if no worker has met it.
    async fn pins(&self, session: &SessionName) -> Result<Pins, StoreError>;
    /// Takes the pins of `keys` off the session; those that are not there do no harm.
    async fn unpin(&self, session: &SessionName, keys: &[String]) -> Result<(), StoreError>;
    /// How often the session was touched.
    async fn touched(&self, session: &SessionName) -> Result<Touched, StoreError>;
    /// Replaces the session's record on [`crate::shelf::STANDINGS`] by `standing`, unless somebody touched it since `seen`; whether
    /// it did. Both in one step: a producer that plans jobs of it before is seen, and one that does so after finds that record.
    async fn stand_unless_touched(
        &self,
        session: &SessionName,
        seen: &Touched,
        standing: &[u8],
    ) -> Result<bool, StoreError>;
    /// Removes the session with its pins, plan, outcomes and [shelves](crate::shelf::of_session), itself last, so that what was
    /// interrupted is repeated. Blobs stay.
    async fn remove_session(&self, session: &SessionName) -> Result<(), StoreError>;
    /// What the session takes up.
    async fn size(&self, session: &SessionName) -> Result<SessionSize, StoreError>;
    /// Sessions that are not there and of which something is, that nobody has read or written for `idle`: what a worker stored that
    /// did not hear in time that they were removed. [`remove_session`](Self::remove_session) takes that away.
    async fn orphans(&self, idle: Duration) -> Result<Vec<SessionName>, StoreError>;
}
