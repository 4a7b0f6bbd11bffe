//! One session as it stands in the store: what it is, how far it is, and how large.

use bluefin_common::priority::{self, Priority};
use bluefin_common::session::{Pins, Session};
use bluefin_common::standing::{self, Standing};
use bluefin_common::store::{Progress, SessionSize, Store, StoreError};
use serde::Serialize;

/// A session and how far it is.
#[derive(Serialize)]
pub struct Overview {
    /// What it is.
    #[serde(flatten)]
    pub session: Session,
    /// Of its workers.
    pub pins: Pins,
    /// In jobs and candidates.
    pub progress: Progress,
    /// Whether nothing is left.
    pub complete: bool,
    /// Whether it runs.
    pub standing: Standing,
    /// How much it matters beside others.
    pub priority: Priority,
    /// Bytes in the store; absent where it does not say.
    pub size: Option<SessionSize>,
}

impl Overview {
    /// Of a session, as `store` has it.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn of(store: &dyn Store, session: Session) -> anyhow::Result<Self> {
        let progress = store.progress(&session.name).await?;
        let pins = store.pins(&session.name).await?;
        let standing = standing::of(store, &session.name).await?;
        let priority = priority::of(store, &session.name).await?;
        // A server may be told not to say how large things are.
        let size = match store.size(&session.name).await {
            Err(StoreError::Refused { .. } | StoreError::Misconfigured { .. }) => None,
            size => Some(size?),
        };
        Ok(Self { complete: progress.is_complete(), session, pins, progress, standing, priority, size })
    }

    /// How far it is, or what keeps it.
    #[must_use]
    pub fn state(&self) -> &'static str {
        if self.standing == Standing::Running || self.complete { self.progress.state() } else { self.standing.name() }
    }
}
