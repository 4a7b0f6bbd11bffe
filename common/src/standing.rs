//! How a session stands: whether its jobs are to be done, kept, or dropped. One record for each session that does not simply run,
//! which workers read at most once in a while for all jobs that they have in hand.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::clock::now_ms;
use crate::session::SessionName;
use crate::shelf::STANDINGS;
use crate::store::{Records, Sessions, Store, StoreError, Touched};
use crate::wire::{self, Message};

/// For how long a worker goes by what it has read. A command that changes a standing waits for longer before relying on it.
pub const FRESH: Duration = Duration::from_secs(1);

/// How long it is remembered that a session was deleted: messages of it may still be in queues.
const REMEMBERED_MS: u64 = 30 * 24 * 3600 * 1000;

/// How a session stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// Its jobs are done.
    #[default]
    Running,
    /// Its jobs are kept for later, and nobody waits behind them.
    Paused,
    /// Its jobs are dropped from their queues.
    Cancelled,
    /// Its jobs are done again, and those that were dropped are being published.
    Resuming,
    /// It is gone, or about to go: its jobs are dropped, and nothing more is stored of it.
    Deleted,
}

impl Standing {
    /// Whether jobs of the session are to be done.
    #[must_use]
    pub fn runs(self) -> bool {
        matches!(self, Self::Running | Self::Resuming)
    }

    /// As in tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Cancelled => "cancelled",
            Self::Resuming => "resuming",
            Self::Deleted => "deleted",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    standing: Standing,
    since_ms: u64,
}

impl Message for Record {
    const KIND: u8 = 21;
    const VERSION: u8 = 1;
    const NAME: &'static str = "standing";
}

fn corrupt(session: &str) -> impl FnOnce(wire::WireError) -> StoreError {
    let key = format!("standing of session {session}");
    move |source| StoreError::Corrupt { key, source }
}

/// How `session` stands now.
///
/// # Errors
/// If the store fails, or holds what is of another version.
pub async fn of(store: &dyn Records, session: &SessionName) -> Result<Standing, StoreError> {
    let found = store.records_of(STANDINGS, &[session.to_string()]).await?;
    let Some(bytes) = found.into_iter().flatten().next() else { return Ok(Standing::Running) };
    Ok(wire::decode::<Record>(&bytes).map_err(corrupt(session.as_str()))?.standing)
}

/// How all sessions stand that do not simply run. One that a newer release wrote is left out, and said to be.
///
/// # Errors
/// If the store fails.
pub async fn all(store: &dyn Records) -> Result<HashMap<SessionName, Standing>, StoreError> {
    let mut all = HashMap::new();
    for (name, bytes) in store.records(STANDINGS).await? {
        let Ok(session) = name.parse::<SessionName>() else { continue };
        match wire::decode::<Record>(&bytes).map_err(corrupt(&name)) {
            Ok(record) => {
                all.insert(session, record.standing);
            }
            Err(error) => tracing::error!(%error, "the session is taken to be running"),
        }
    }
    Ok(all)
}

/// Records how `session` stands from now on.
///
/// # Errors
/// If the store fails.
pub async fn set(store: &dyn Records, session: &SessionName, standing: Standing) -> Result<(), StoreError> {
    let key = session.to_string();
    if standing == Standing::Running {
        return store.remove_records(STANDINGS, &[key]).await;
    }
    let record = Record { standing, since_ms: now_ms() };
    let bytes = wire::encode(&record).map_err(corrupt(session.as_str()))?;
    store.put_records(STANDINGS, &[(key, bytes)]).await
}

/// Records that `session` is deleted, unless somebody touched it since `seen`; whether it did.
///
/// # Errors
/// If the store fails.
pub async fn delete_untouched(store: &dyn Sessions, session: &SessionName, seen: &Touched) -> Result<bool, StoreError> {
    let record = Record { standing: Standing::Deleted, since_ms: now_ms() };
    let bytes = wire::encode(&record).map_err(corrupt(session.as_str()))?;
    store.stand_unless_touched(session, seen, &bytes).await
}

/// Makes room for a new session of the name: forgets that one of it was deleted. `false`: it is still being deleted.
///
/// # Errors
/// If the store fails.
pub async fn revive(store: &dyn Store, session: &SessionName) -> Result<bool, StoreError> {
    if of(store, session).await? != Standing::Deleted {
        return Ok(true);
    }
    if store.session(session).await?.is_some() {
        return Ok(false);
    }
    set(store, session, Standing::Running).await?;
    Ok(true)
}

/// Forgets sessions that were deleted long ago.
///
/// # Errors
/// If the store fails.
pub async fn forget_old(store: &dyn Records) -> Result<(), StoreError> {
    let now = now_ms();
    let old = |bytes: &[u8]| {
        wire::decode::<Record>(bytes).is_ok_and(|record| {
            record.standing == Standing::Deleted && record.since_ms.saturating_add(REMEMBERED_MS) < now
        })
    };
    let records = store.records(STANDINGS).await?;
    let keys: Vec<String> = records.into_iter().filter(|(_, bytes)| old(bytes)).map(|(key, _)| key).collect();
    store.remove_records(STANDINGS, &keys).await
}

/// The standings that a worker goes by: read once a second at most, by the first job that asks, and all at once.
#[derive(Default)]
pub struct Standings(Mutex<Known>);

#[derive(Default)]
struct Known {
    read: Option<Instant>,
    standings: HashMap<SessionName, Standing>,
}

impl Standings {
    /// How `session` stands, or stood a second ago.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn of(&self, store: &dyn Records, session: &SessionName) -> Result<Standing, StoreError> {
        let mut known = self.0.lock().await;
        if known.read.is_none_or(|read| read.elapsed() >= FRESH) {
            known.standings = all(store).await?;
            known.read = Some(Instant::now());
        }
        Ok(known.standings.get(session).copied().unwrap_or_default())
    }
}
