//! The store port: what lasts, as five traits, each of one idea, and [`Store`], which is all of them. SQLite (one file) and Redis are in `bluefin-adapters`.
//!
//! What every implementation promises (the contract suite there tries both):
//! - What a call has returned `Ok` for survives a crash of this process and of the store.
//! - Artifacts are a cache: they may be gone at any time, and are never wrong. Everything else lasts.
//! - Outcomes are idempotent: the first one of a job stands.

mod artifacts;
mod blobs;
mod records;
mod sessions;
mod work;

use async_trait::async_trait;

pub use artifacts::{Artifacts, Fullness};
pub use blobs::Blobs;
pub use records::Records;
pub use sessions::{SessionSize, Sessions, Touched};
pub use work::{EncodedGroup, JobState, OpenJobs, Planned, Progress, Stored, Work};

use crate::digest::Digest;
use crate::wire::WireError;

/// What goes wrong between bluefin and its store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Not reachable, timed out, out of memory or disk: try again later.
    #[error("store {store}: {reason}")]
    Unavailable {
        /// Its address without credentials, or its file.
        store: String,
        /// As the client library or the system says it.
        reason: String,
    },
    /// It answers, and refuses what is asked of it: credentials, permissions. Somebody has to mend that, and nothing is lost until
    /// then.
    #[error("store {store} refuses: {reason}")]
    Refused {
        /// Its address without credentials, or its file.
        store: String,
        /// What it refuses, in its words.
        reason: String,
    },
    /// The URL, the path or the store's configuration is not usable.
    #[error("store: {reason}")]
    Misconfigured {
        /// What is not usable, and what was expected.
        reason: String,
    },
    /// Of no more use to this process, and every later call says the same: a limit of the process, or another process has
    /// taken it over. What was stored before is there.
    #[error("store {store}: {reason}")]
    Lost {
        /// Its address without credentials, or its file.
        store: String,
        /// The limit that was met, or who has taken it over.
        reason: String,
    },
    /// The bytes under a digest are not the ones that were stored.
    #[error("store: {what} {digest}: content does not match its digest; it was changed after it was stored")]
    Tampered {
        /// `blob` or `artifact`.
        what: &'static str,
        /// The one asked for, which the bytes do not have.
        digest: Digest,
    },
    /// A stored value does not decode.
    #[error("store: {key}: {source}")]
    Corrupt {
        /// Where it is stored, in the words of the implementation.
        key: String,
        /// What is wrong with its envelope or body.
        source: WireError,
    },
}

impl StoreError {
    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::Refused { .. } => true,
            Self::Misconfigured { .. } | Self::Lost { .. } | Self::Tampered { .. } | Self::Corrupt { .. } => false,
        }
    }

    /// Whether this process need not go on: the store is of no more use to it, though to others it is.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }
}

/// A right that only some users of a fleet's store have. What takes it is to ask for it before it writes anything: a
/// refusal halfway leaves what nobody with fewer rights can mend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// To remove sessions and blobs.
    Remove,
    /// To take outcomes back.
    Retract,
}

/// A store: everything that lasts. Cheap to share behind an `Arc`. What needs only a part of it asks for the trait of that part.
#[async_trait]
pub trait Store: Sessions + Records + Blobs + Artifacts + Work {
    /// Whether this user has `right`; nothing is changed. A store without users gives every right to a process that opened it to write.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if not.
    async fn may(&self, _right: Right) -> Result<(), StoreError> {
        Ok(())
    }

    /// Reconnections so far, for the metrics.
    fn reconnects(&self) -> u64;
}
