//! What goes wrong while planning.

use std::fmt;

use bluefin_common::broker::BrokerError;
use bluefin_common::campaign::AdvanceError;
use bluefin_common::method::Method;
use bluefin_common::session::Session;
use bluefin_common::store::StoreError;
use bluefin_common::target::Target;
use bluefin_common::wire::WireError;
use bluefin_kernel_spec::SpecError;

use crate::library::LibraryError;

/// What differs where sessions begin with other winners of earlier work, or one does with none.
pub(crate) const BEGINNING: &str = "beginning (--from)";

/// What goes wrong while planning and enqueueing.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error("problem {problem}: {source}")]
    Problem { problem: String, source: Box<SpecError> },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Broker(#[from] BrokerError),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error(transparent)]
    Advance(#[from] AdvanceError),
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// What was asked for makes no sense, in words of the command line.
    #[error("{0}")]
    Usage(String),
    /// Something is to be done first.
    #[error("{0}")]
    Unready(String),
    #[error("no kernel spec is for target {0}")]
    NoSpec(Target),
    #[error("tuner {0}: nothing here plans its sessions")]
    NoPlanner(Method),
    #[error("search: found strategy {found:?}, expected one of {expected}")]
    NoStrategy { found: String, expected: String },
    #[error("session {session}: its {what} is {stored}, found {asked}; use another session name")]
    SessionDiffers { session: String, what: &'static str, stored: String, asked: String },
    #[error("session {session}: its {key} is pinned to {pinned}, found {asked}; use another session name")]
    PinDiffers { session: String, key: String, pinned: String, asked: String },
    #[error("session: no number is left for it; give it a name")]
    NoNumber,
}

impl PlanError {
    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) => error.is_transient(),
            Self::Broker(error) => error.is_transient(),
            Self::Advance(error) => error.is_transient(),
            Self::Library(error) => error.is_transient(),
            Self::Spec(_)
            | Self::Problem { .. }
            | Self::Wire(_)
            | Self::Usage(_)
            | Self::Unready(_)
            | Self::NoSpec(_)
            | Self::NoPlanner(_)
            | Self::NoStrategy { .. }
            | Self::SessionDiffers { .. }
            | Self::PinDiffers { .. }
            | Self::NoNumber => false,
        }
    }

    /// `stored` is another session than the one that was asked for.
    pub(crate) fn differs(
        stored: &Session,
        what: &'static str,
        is: impl fmt::Display,
        asked: impl fmt::Display,
    ) -> Self {
        let session = stored.name.to_string();
        Self::SessionDiffers { session, what, stored: is.to_string(), asked: asked.to_string() }
    }

    /// Whether it is the mistake of who asked.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }
}
