//! What goes wrong while planning.

use bluefin_common::broker::BrokerError;
use bluefin_common::campaign::AdvanceError;
use bluefin_common::spec::SpecError;
use bluefin_common::store::StoreError;
use bluefin_common::wire::WireError;

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
            Self::Spec(_)
            | Self::Problem { .. }
            | Self::Wire(_)
            | Self::SessionDiffers { .. }
            | Self::PinDiffers { .. }
            | Self::NoNumber => false,
        }
    }
}
