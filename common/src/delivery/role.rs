//! What a worker says of its jobs. Everything else that happens to a delivery is the same for all of them.

use async_trait::async_trait;

use super::{Context, Halt};
use crate::job::Order;
use crate::metrics::{Settled, Step};
use crate::outcome::Outcome;
use crate::session::Session;

/// How a worker does the jobs of one queue.
#[async_trait]
pub trait Role: Send + Sync + 'static {
    /// What a message of the queue decodes to.
    type Order: Order;
    /// Held for as long as a job is in hand, so that [`room`](Self::room) knows of it.
    type Load: Send + 'static;
    /// For metrics.
    const STEP: Step;

    /// What the deliveries of the worker share.
    fn context(&self) -> &Context;

    /// Why nobody will ever do the job, though it decodes.
    fn misfit(&self, order: &Self::Order) -> Option<String>;

    /// Pins the session to what this worker is; `false` if it is pinned to something else.
    ///
    /// # Errors
    /// Why that can not be said now.
    async fn pin(&self, given: Given<'_, Self::Order>) -> Result<bool, Halt>;

    /// Does the job. A process that is killed meanwhile may have been killed by it, which is counted here and nowhere else.
    ///
    /// # Errors
    /// Why it came to nothing.
    async fn work(&self, given: Given<'_, Self::Order>) -> Result<Product, Halt>;

    /// The outcome that says why the job is given up; `None` where no outcome belongs to it.
    ///
    /// # Errors
    /// Why it can not be given up; [`Halt::Hopeless`] if it is one that nobody can write an outcome of.
    async fn give_up(&self, given: Given<'_, Self::Order>, reason: &str) -> Result<Option<Outcome>, Halt>;

    /// A job is taken.
    fn load(&self) -> Self::Load;

    /// Waits for room for one more job. Cancel safe.
    async fn room(&self) {}

    /// Returns, with the reason, when nothing more is to be taken. Called before each delivery. Cancel safe.
    async fn held_up(&self) -> &'static str {
        std::future::pending().await
    }

    /// Returns when nothing of the worker's own stands in the way any more. Cancel safe.
    async fn goes_on(&self) {}
}

/// A job in hand.
pub struct Given<'a, O> {
    /// The message.
    pub order: &'a O,
    /// The session that the job is of, read once for all that is done with the job.
    pub session: &'a Session,
}

impl<O> Clone for Given<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for Given<'_, O> {}

/// What the work on a job came to.
#[derive(Debug)]
pub enum Product {
    /// Its outcome, which is to be stored.
    Outcome(Box<Outcome>),
    /// What follows from it is in a queue.
    Passed(Settled),
}

impl From<Outcome> for Product {
    fn from(outcome: Outcome) -> Self {
        Self::Outcome(Box::new(outcome))
    }
}
