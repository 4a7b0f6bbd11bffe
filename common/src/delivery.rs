//! The life of a delivery, the same in every worker: [`serve`] takes what comes into a queue, as far as there is room for it, and
//! [`live`] takes each through its [states](State). What a worker adds is a [`Role`].

mod begun;
mod context;
mod halt;
mod intake;
mod life;
mod patience;
pub mod pin;
mod role;
mod serve;
mod state;
mod steered;
pub mod told;

use std::time::Duration;

use crate::broker::{Broker, BrokerError, Delivery};
use crate::campaign::{self, AdvanceError};
use crate::job::Job;
use crate::session::Session;
use crate::store::Store;
use crate::wire::{self, Message};

pub use begun::{AtWork, Begun, Hold, MAX_BEGUN, Turn, begin_again, spare};
pub use context::Context;
pub use halt::Halt;
pub use intake::{InHand, Intake, Leave, Leaving};
pub use life::{Trace, live};
pub use patience::{GivenUp, Passing, Patience};
pub use role::{Given, Product, Role};
pub use serve::serve;
pub use state::{Event, State};

/// Before a message of another version of bluefin is offered again: until the fleet is upgraded.
pub const OTHER_VERSION: Duration = Duration::from_secs(25);
/// Before a job that is not this worker's is offered again.
pub const NOT_MINE: Duration = Duration::from_secs(5);
/// Before a copy of what a worker still works on is offered again.
pub const STILL_AT_WORK: Duration = Duration::from_secs(5);
/// Before a job is offered again whose worker has lost its store: longer than that takes to end.
const LOST: Duration = Duration::from_secs(5);
/// Before a job is offered again that stood still for as long as a worker waits.
const STOOD_STILL: Duration = Duration::from_secs(25);
/// Before a job is offered again that something in the store stands in the way of, which somebody has to mend.
const STUCK: Duration = Duration::from_secs(125);

/// The message in `delivery`. One of another version of bluefin is for a worker of that version; what no version wrote is poison.
fn read<M: Message>(delivery: &Delivery) -> Result<M, Halt> {
    wire::decode(&delivery.body).map_err(|error| {
        let Delivery { message_id: message, queue, .. } = delivery;
        if error.is_of_another_version() {
            tracing::error!(message, queue, %error, "handed back to workers of that version");
            return Halt::Later(OTHER_VERSION);
        }
        tracing::error!(message, queue, %error, "no job; to the dead letters");
        Halt::Hopeless(error.to_string())
    })
}

/// The message in `delivery`, for programs that take it and are no workers. One that can not be read is settled as a worker does, and
/// comes to `None`.
///
/// # Errors
/// If the broker fails.
pub async fn open<M: Message>(delivery: Delivery) -> Result<Option<(M, Delivery)>, BrokerError> {
    match read(&delivery) {
        Ok(message) => return Ok(Some((message, delivery))),
        Err(Halt::Later(delay)) => delivery.hand_back(delay).await?,
        Err(Halt::Hopeless(reason)) => delivery.dead(&reason).await?,
        Err(Halt::NothingToDo | Halt::Suspect(_)) => {}
    }
    Ok(None)
}

/// Whether there is anything to do for `job` of `session`. If it has an outcome, its group takes its next step: whoever stored
/// that may have died before.
///
/// # Errors
/// If the store or the broker fails.
pub async fn begin(store: &dyn Store, broker: &dyn Broker, session: &Session, job: &Job) -> Result<bool, AdvanceError> {
    if !store.has_outcome(&session.name, job.group(), job.id()).await? {
        return Ok(true);
    }
    let open = store.open_jobs(&session.name, job.group()).await?;
    campaign::advance_in(store, broker, session, job, open).await?;
    Ok(false)
}
