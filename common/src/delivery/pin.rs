//! What a session's results depend on is the same for all of them: the first worker pins what it is, the others must be that.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lru::LruCache;
use tokio::time::Instant;

use crate::roster::{Presence, Refusal};
use crate::session::SessionName;
use crate::store::{Sessions, Store, StoreError};

/// Pins of sessions that are remembered.
const PINS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// What a worker pins sessions to.
#[async_trait]
pub trait Pin: Send + Sync {
    /// What is pinned: `toolchain.cc`, `device.host`.
    fn key(&self) -> String;

    /// What this worker is.
    fn value(&self) -> &str;

    /// Pins `session` to this worker unless it is pinned to another one; returns what it is pinned to.
    async fn pin(&self, store: &dyn Sessions, session: &SessionName) -> Result<String, StoreError> {
        store.pin(session, &self.key(), self.value()).await
    }
}

/// A key and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainPin {
    /// `toolchain.cc`, `device.host`.
    pub key: String,
    /// Version of the toolchain, model of the device.
    pub value: String,
}

impl Pin for PlainPin {
    fn key(&self) -> String {
        self.key.clone()
    }

    fn value(&self) -> &str {
        &self.value
    }
}

/// Before a session is asked again: somebody may have unpinned it, and then one kind of worker must pin it again, or two would go
/// on side by side.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// Whether a session takes a worker, and when it was asked.
#[derive(Clone, Copy)]
struct Known {
    allowed: bool,
    asked: Instant,
}

/// Which sessions take a worker, remembered.
pub struct Pinned {
    known: Mutex<LruCache<(SessionName, String), Known>>,
    presence: Presence,
}

impl Default for Pinned {
    fn default() -> Self {
        Self::of(Presence::default())
    }
}

impl Pinned {
    /// What is refused is told by the worker that is present.
    #[must_use]
    pub fn of(presence: Presence) -> Self {
        Self { known: Mutex::new(LruCache::new(PINS)), presence }
    }

    /// Whether a worker that is what all of `pins` say may work for `session`. They are looked at in their order, and none behind
    /// one that does not fit: whoever pins the last is what all of them say, so no two workers keep each other out.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn allows_all(
        &self,
        store: &dyn Store,
        session: &SessionName,
        pins: &[Arc<dyn Pin>],
    ) -> Result<bool, StoreError> {
        for pin in pins {
            if !self.allows(store, session, &**pin).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a worker that is what `pin` says may work for `session`. Says loudly if not, once for each session.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn allows(&self, store: &dyn Sessions, session: &SessionName, pin: &dyn Pin) -> Result<bool, StoreError> {
        let key = (session.clone(), pin.key());
        if let Some(known) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key)
            && known.asked.elapsed() < ASK_AGAIN
        {
            return Ok(known.allowed);
        }
        let pinned = pin.pin(store, session).await?;
        let allowed = pinned == pin.value();
        let known = Known { allowed, asked: Instant::now() };
        let before = self.known.lock().unwrap_or_else(PoisonError::into_inner).put(key, known);
        let was_allowed = before.map(|known| known.allowed);
        if allowed && was_allowed == Some(false) {
            self.presence.serves(session, &pin.key());
        }
        if !allowed && was_allowed != Some(false) {
            self.presence.refuses(Refusal {
                session: session.clone(),
                pin: pin.key(),
                pinned: pinned.clone(),
                offered: pin.value().to_string(),
            });
            tracing::error!(
                %session,
                pin = pin.key(),
                pinned,
                this_worker = pin.value(),
                "this worker is not what the session's results come from; its jobs are handed back. Run workers that are the \
                 same for a session, or start a new session for this one"
            );
        }
        Ok(allowed)
    }
}
