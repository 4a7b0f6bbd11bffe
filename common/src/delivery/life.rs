//! One delivery from hand to settlement: through the [states](State) in the order of their table.

use std::time::Duration;

use tokio::time::timeout;

use super::{
    Begun, Context, Event, Given, GivenUp, Halt, Hold, MAX_BEGUN, NOT_MINE, Product, Role, STILL_AT_WORK, STUCK, State,
    Turn, begin_again, begun, spare, steered, told,
};
use crate::broker::{Delivery, delay_after};
use crate::campaign::{self, AdvanceError};
use crate::clock::now_ms;
use crate::job::{Job, Order as _};
use crate::lane::Lane;
use crate::metrics::Settled;
use crate::outcome::Outcome;
use crate::roster::AtWorkOn;
use crate::session::Session;
use crate::standing::Standing;
use crate::store::StoreError;
use crate::wire::WireError;

/// What forgetting a count may take once the grace period of a drain is over.
const LAST_WORD: Duration = Duration::from_secs(1);

/// The states that a delivery was in, and what came of each.
pub type Trace = Vec<(State, Event)>;

/// Takes a delivery through its states and settles it, whatever comes of it. One that can not be settled comes again; what it
/// caused is found to be done then.
pub async fn live<R: Role>(role: &R, delivery: Delivery) -> Trace {
    let _in_flight = role.context().metrics.in_flight(R::STEP);
    let mut life = Life {
        role,
        delivery,
        order: None,
        session: None,
        held: None,
        turn: None,
        product: None,
        reason: String::new(),
        delay: Duration::ZERO,
        settled: Settled::Skipped,
    };
    let (mut state, mut trace) = (State::Decode, Trace::new());
    while !state.is_end() {
        let result = life.pass(state).await;
        let event = Event::of(&result);
        trace.push((state, event));
        if let Err(halt) = result {
            life.halted(halt);
        }
        state = state.after(event).unwrap_or_else(|| {
            tracing::error!(?state, ?event, "not in the table of states; the job is handed back");
            life.delay = STUCK;
            State::HandedBack
        });
    }
    life.settle(state).await;
    trace
}

struct Life<'a, R: Role> {
    role: &'a R,
    delivery: Delivery,
    /// From [`State::TakeUp`] on.
    order: Option<R::Order>,
    /// From [`State::Pin`] on.
    session: Option<Session>,
    held: Option<(Hold, AtWorkOn)>,
    /// Held to the end: what kills the worker while a suspect has it is that job.
    turn: Option<Turn>,
    product: Option<Product>,
    /// Why it is given up.
    reason: String,
    /// Before it is offered again.
    delay: Duration,
    settled: Settled,
}

impl<R: Role> Life<'_, R> {
    /// Does what is to be done in `state`.
    async fn pass(&mut self, state: State) -> Result<(), Halt> {
        match state {
            State::Decode => self.decode(),
            State::TakeUp => self.take_up(),
            State::Steer => self.steer().await,
            State::LookUp => self.look_up().await,
            State::Pin => self.pin().await,
            State::Turn => self.wait_for_turn().await,
            State::Work => self.work().await,
            State::Store => self.store().await,
            State::Suspect => self.suspect().await,
            State::GiveUp => self.give_up().await,
            State::Done | State::Skipped | State::HandedBack | State::Dead => Ok(()),
        }
    }

    fn halted(&mut self, halt: Halt) {
        match halt {
            Halt::NothingToDo => {}
            Halt::Later(delay) => self.delay = delay,
            Halt::Hopeless(reason) | Halt::Suspect(reason) if self.reason.is_empty() => self.reason = reason,
            // Of a job that is given up for another reason already.
            Halt::Hopeless(reason) | Halt::Suspect(reason) => self.reason = format!("{}; {reason}", self.reason),
        }
    }

    fn decode(&mut self) -> Result<(), Halt> {
        let mut order: R::Order = super::read(&self.delivery).inspect_err(|halt| {
            if let Halt::Hopeless(_) = halt {
                self.context().metrics.undecodable();
            }
        })?;
        order.job_mut().lane = Lane::split(&self.delivery.queue).1;
        self.order = Some(order);
        Ok(())
    }

    fn take_up(&mut self) -> Result<(), Halt> {
        let context = self.role.context();
        if context.stop.is_cancelled() {
            return Err(Halt::Later(Duration::ZERO));
        }
        let hold = context.at_work.take_up(&self.delivery).ok_or(Halt::Later(STILL_AT_WORK))?;
        let order = self.order()?;
        context.metrics.started(R::STEP, order.enqueued_ms(), now_ms());
        self.held = Some((hold, context.presence.works_on(order.job())));
        Ok(())
    }

    async fn steer(&mut self) -> Result<(), Halt> {
        let Context { patience, standings, store, .. } = self.context();
        let job = self.job()?;
        let is_wanted = || steered::is_wanted(standings, &**store, &self.delivery, job);
        let wanted = patience.with("look how the session stands", is_wanted).await?;
        wanted.then_some(()).ok_or(Halt::NothingToDo)
    }

    /// The session first: it is read once for a job, whatever is done with that.
    async fn look_up(&mut self) -> Result<(), Halt> {
        let Context { patience, store, broker, .. } = self.context();
        let order = self.order()?;
        let job = order.job();
        let session = patience.with("read session", || store.session(&job.session)).await?;
        // It was there when the job was planned: this is not the store, or it has lost something.
        let lost = || GivenUp::Failed(format!("session {}: not in the store", job.session));
        let session = session.ok_or_else(lost)?;
        if order.has_outcome() {
            let begin = || super::begin(&**store, &**broker, &session, job);
            if !patience.with("look for outcome", begin).await? {
                return Err(Halt::NothingToDo);
            }
        }
        self.session = Some(session);
        Ok(())
    }

    async fn pin(&mut self) -> Result<(), Halt> {
        let given = self.given()?;
        if let Some(reason) = self.role.misfit(given.order) {
            return Err(Halt::Hopeless(reason));
        }
        if !self.role.pin(given).await? {
            self.context().metrics.refused(R::STEP);
            return Err(Halt::Later(NOT_MINE));
        }
        Ok(())
    }

    async fn wait_for_turn(&mut self) -> Result<(), Halt> {
        let Context { stop, at_work, patience, store, .. } = self.role.context();
        let turn = stop.run_until_cancelled(at_work.turn(&self.delivery)).await;
        self.turn = Some(turn.ok_or(Halt::Later(Duration::ZERO))?);
        let job = self.job()?;
        match patience.with("count", || begin_again(&**store, &self.delivery, job)).await? {
            Begun::Now => Ok(()),
            Begun::TooOften(workers) => Err(Halt::Hopeless(format!("{workers} workers died while they worked on it"))),
            Begun::Worn => Err(Halt::Later(Duration::ZERO)),
        }
    }

    async fn work(&mut self) -> Result<(), Halt> {
        let result = self.role.work(self.given()?).await;
        // At once: a worker that is killed while the outcome waits for its store is not killed by the job.
        if !matches!(result, Err(Halt::Suspect(_))) {
            self.spare().await?;
        }
        self.product = Some(result?);
        Ok(())
    }

    async fn store(&mut self) -> Result<(), Halt> {
        self.settled = match self.product.take() {
            Some(Product::Outcome(outcome)) => {
                self.store_outcome(&outcome).await?;
                Settled::Done
            }
            Some(Product::Passed(settled)) => settled,
            None => return Err(Halt::Later(STUCK)),
        };
        Ok(())
    }

    async fn suspect(&mut self) -> Result<(), Halt> {
        let Context { patience, store, .. } = self.context();
        let job = self.job()?;
        let count = || begun::suspect(&**store, &self.delivery, job);
        let times = patience.with("count", count).await?;
        let last = std::mem::take(&mut self.reason);
        if times >= MAX_BEGUN {
            return Err(Halt::Hopeless(format!("killed {times} times by nobody knows whom; the last time: {last}")));
        }
        Err(Halt::later(delay_after(times), last))
    }

    async fn give_up(&mut self) -> Result<(), Halt> {
        let outcome = self.role.give_up(self.given()?, &self.reason).await?;
        if let Some(outcome) = outcome {
            self.store_outcome(&outcome).await?;
        }
        self.spare().await
    }

    /// This worker lives, so the job did not kill it. A count that stays costs a job nothing that is done or goes well the next
    /// time.
    async fn spare(&self) -> Result<(), Halt> {
        let Context { patience, store, .. } = self.context();
        let job = self.job()?;
        let spare = || spare(&**store, &self.delivery, job);
        let spared = match patience.with("forget count", spare).await {
            Err(GivenUp::Expired) => timeout(LAST_WORD, spare()).await.is_ok_and(|spared| spared.is_ok()),
            spared => spared.is_ok(),
        };
        if !spared {
            tracing::debug!(job = %job.id().short(), "its count stays");
        }
        Ok(())
    }

    /// Makes an outcome durable, and lets its group take the next step.
    async fn store_outcome(&self, outcome: &Outcome) -> Result<(), Halt> {
        let Context { patience, store, broker, standings, .. } = self.context();
        let session = self.given()?.session;
        let standing = || standings.of(&**store, &session.name);
        if patience.with("look how the session stands", standing).await? == Standing::Deleted {
            return Ok(());
        }
        let put = || campaign::put_outcome(&**store, session, outcome);
        let stored = patience.with_error("store outcome", put).await.map_err(|(given_up, error)| match error {
            Some(error @ StoreError::Corrupt { source: WireError::Size { .. }, .. }) => {
                Halt::Hopeless(error.to_string())
            }
            _ => given_up.into(),
        })?;
        if stored.first {
            self.context().metrics.outcome(R::STEP, outcome);
            told::ended(outcome, &self.context().presence);
        }
        if !stored.settled {
            let advance = || campaign::advance_in(&**store, &**broker, session, &outcome.job, stored.open);
            patience.with_error("advance group", advance).await.map_err(|(given_up, error)| match error {
                Some(AdvanceError::Wire(error)) => Halt::Hopeless(format!("what follows: {error}")),
                _ => given_up.into(),
            })?;
        }
        Ok(())
    }

    fn context(&self) -> &Context {
        self.role.context()
    }

    fn order(&self) -> Result<&R::Order, Halt> {
        self.order.as_ref().ok_or(Halt::Later(STUCK))
    }

    fn job(&self) -> Result<&Job, Halt> {
        Ok(self.order()?.job())
    }

    fn given(&self) -> Result<Given<'_, R::Order>, Halt> {
        let session = self.session.as_ref().ok_or(Halt::Later(STUCK))?;
        Ok(Given { order: self.order()?, session })
    }

    async fn settle(self, state: State) {
        let Context { metrics, presence, .. } = self.role.context();
        let (message, job) = (self.delivery.message_id.clone(), self.order.as_ref().map(|order| order.job()));
        let delivery = self.delivery;
        let (settled, result) = match state {
            State::HandedBack => {
                if job.is_some() {
                    presence.handed_back(&message, self.delay);
                }
                (Settled::HandedBack, delivery.hand_back(self.delay).await)
            }
            State::Dead => {
                if job.is_some() {
                    tracing::error!(message, reason = self.reason, "job given up");
                    presence.remark(&message, &format!("given up: {}", self.reason));
                }
                (Settled::Dead, delivery.dead(&self.reason).await)
            }
            _ => (self.settled, delivery.ack().await),
        };
        match (result, job) {
            (Ok(()), Some(job)) => {
                metrics.settled(R::STEP, job.stage, settled);
                presence.settled(settled);
            }
            (Ok(()), None) => {}
            (Err(error), _) => tracing::warn!(message, %error, "delivery not settled; it comes again"),
        }
    }
}
