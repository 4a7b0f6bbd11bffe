//! Tries jobs again that have an outcome. It is remembered in the [history](crate::history), the job's message is
//! [kept](crate::parked), the outcome is taken back, and then what is kept is published: whoever dies in between repeats it.

use crate::broker::Broker;
use crate::campaign::{AdvanceError, first_message, now_ms};
use crate::failure::FailureKind;
use crate::history;
use crate::outcome::Outcome;
use crate::parked;
use crate::session::SessionName;
use crate::standing;
use crate::store::Store;

/// Groups that are looked at in one go.
const GROUPS: usize = 64;

/// Which jobs are tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failures {
    /// Those with a candidate that failed, however.
    Any,
    /// Those with a candidate that failed in this way.
    Of(FailureKind),
}

impl Failures {
    /// Whether `outcome` is one of these.
    #[must_use]
    pub fn include(self, outcome: &Outcome) -> bool {
        let mut failures = outcome.candidates.iter().filter_map(|candidate| candidate.result.as_ref().err());
        failures.any(|failure| match self {
            Self::Any => true,
            Self::Of(kind) => failure.kind == kind,
        })
    }
}

/// Takes back what `wanted` says of the outcomes of `session`, and returns how many. Their jobs are planned then, and, if
/// `queues` are where they go, their messages are ready to be [published](publish).
///
/// # Errors
/// If the store fails; call again.
pub async fn take_back(
    store: &dyn Store,
    session: &SessionName,
    queues: bool,
    wanted: impl Fn(&Outcome) -> bool,
) -> Result<u64, AdvanceError> {
    let mut taken = 0;
    for groups in store.groups(session).await?.chunks(GROUPS) {
        for outcome in store.outcomes(session, groups).await?.iter().filter(|outcome| wanted(outcome)) {
            taken += u64::from(take_back_one(store, outcome, queues).await?);
        }
    }
    Ok(taken)
}

/// The same for one outcome; whether it was there.
///
/// # Errors
/// If the store fails; call again.
pub async fn take_back_one(store: &dyn Store, outcome: &Outcome, queues: bool) -> Result<bool, AdvanceError> {
    history::remember(store, outcome).await?;
    if queues {
        let (_, body) = first_message(&outcome.job, now_ms())?;
        parked::park(store, &outcome.job.session, outcome.job_id(), &body).await?;
    }
    Ok(store.retract_outcome(outcome).await?)
}

/// Publishes what was taken back, unless the session is paused: then it is published when that is resumed. Returns how many.
///
/// # Errors
/// If the store or the broker fails; call again.
pub async fn publish(store: &dyn Store, broker: &dyn Broker, session: &SessionName) -> Result<u64, AdvanceError> {
    if !standing::of(store, session).await?.runs() {
        return Ok(0);
    }
    parked::publish(store, broker, session).await
}
