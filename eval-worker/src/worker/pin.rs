//! A session's times come from devices of one kind: the first worker pins what it is, the others must be the same.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use bluefin_common::miopen::{MIOPEN_PIN, pin_library};
use bluefin_common::session::SessionName;
use bluefin_common::store::{Store, StoreError};
use lru::LruCache;

use crate::config::DeviceSpec;

/// Sessions whose pin is remembered.
const SESSIONS: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// What this worker pins sessions to.
pub(super) struct Pinning {
    key: String,
    value: String,
    /// Whether the session takes this worker.
    known: Mutex<LruCache<SessionName, bool>>,
}

impl Pinning {
    pub(super) fn new(spec: &DeviceSpec, device: &str) -> Self {
        let known = Mutex::new(LruCache::new(SESSIONS));
        match spec {
            // Its target names its queue; what is left to tell apart is the library.
            DeviceSpec::Miopen(miopen) => {
                Self { key: MIOPEN_PIN.to_string(), value: miopen.identity().to_string(), known }
            }
            spec => Self { key: format!("device.{}", spec.target()), value: device.to_string(), known },
        }
    }

    /// Whether this worker may evaluate for `session`. Says loudly if not, once for each session.
    pub(super) async fn allows(&self, store: &dyn Store, session: &SessionName) -> Result<bool, StoreError> {
        if let Some(allowed) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(session) {
            return Ok(*allowed);
        }
        let pinned = if self.key == MIOPEN_PIN {
            pin_library(store, session, &self.value).await?
        } else {
            store.pin(session, &self.key, &self.value).await?
        };
        let allowed = pinned == self.value;
        let before = self.known.lock().unwrap_or_else(PoisonError::into_inner).put(session.clone(), allowed);
        if !allowed && before.is_none() {
            tracing::error!(
                %session,
                pin = self.key,
                pinned,
                this_worker = self.value,
                "this device is not the one that the session's times come from; its jobs are handed back. Run workers on \
                 devices of one model for a session, or start a new session for this one"
            );
        }
        Ok(allowed)
    }
}
