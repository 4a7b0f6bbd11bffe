//! Keeps one connection standing: tasks that need it wait here, one task reconnects for all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::amqp::address::Address;
use crate::amqp::fresh::Fresh;
use crate::amqp::said::Said;
use crate::amqp::session::{OpenError, Session};
use bluefin_common::broker::BrokerError;

const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Waits between attempts, for ever, with jitter so that a fleet does not come back all at once.
pub(super) fn backoff() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(FIRST_WAIT)
        .with_max_delay(LONGEST_WAIT)
        .without_max_times()
        .with_jitter()
        .build()
}

/// A connection that is replaced when it ends.
pub(super) struct Link {
    name: &'static str,
    address: Arc<Address>,
    fresh: Arc<Fresh>,
    state: watch::Sender<State>,
    reconnects: AtomicU64,
}

#[derive(Clone)]
enum State {
    Down { reason: String },
    Refused { reason: String },
    Up(Arc<Session>),
    Closed,
}

impl Link {
    pub(super) fn new(name: &'static str, address: Arc<Address>, fresh: Arc<Fresh>) -> Self {
        let state = State::Down { reason: "not connected yet".to_owned() };
        Self { name, address, fresh, state: watch::Sender::new(state), reconnects: AtomicU64::new(0) }
    }

    pub(super) fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }

    /// Connects, and connects again whenever the connection ends, until `closed`.
    pub(super) async fn keep(self: Arc<Self>, closed: CancellationToken) {
        // Not even an attempt under way outlives the broker.
        closed.run_until_cancelled(self.reconnect()).await;
        let last = self.state.send_replace(State::Closed);
        if let State::Up(session) = last {
            session.close().await;
        }
    }

    async fn reconnect(&self) {
        loop {
            let session = self.connect().await;
            self.state.send_replace(State::Up(Arc::clone(&session)));
            session.ended().await;
            self.fresh.connection_lost();
            self.state.send_replace(State::Down { reason: "the connection broke".to_owned() });
            session.close().await;
            tracing::warn!(broker = self.address.shown(), purpose = self.name, "connection to the broker broke");
            self.reconnects.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn connect(&self) -> Arc<Session> {
        let mut waits = backoff();
        let mut said = Said::nothing();
        loop {
            let opened = Session::open(&self.address, &self.fresh, self.name).await;
            let (broker, purpose, seconds) = (self.address.shown(), self.name, said.seconds());
            let state = match opened {
                Ok(session) => {
                    if said.is_something() {
                        tracing::info!(broker, purpose, seconds, "connected to the broker");
                    }
                    return Arc::new(session);
                }
                Err(OpenError::Transient(reason)) => {
                    if said.is_due(false) {
                        tracing::warn!(broker, purpose, reason, seconds, "waiting for the broker");
                    }
                    State::Down { reason }
                }
                Err(OpenError::Refused(reason)) => {
                    if said.is_due(true) {
                        tracing::error!(
                            broker,
                            purpose,
                            reason,
                            seconds,
                            "the broker refuses; waiting until that is mended"
                        );
                    }
                    State::Refused { reason }
                }
            };
            self.state.send_replace(state);
            sleep(waits.next().unwrap_or(LONGEST_WAIT)).await;
        }
    }

    /// The connection, once it stands. A refusal ends the wait: at the start, it is a mistake most of the time.
    pub(super) async fn first_session(&self) -> Result<Arc<Session>, BrokerError> {
        self.wait(|state| !matches!(state, State::Down { .. })).await
    }

    /// The connection, waited for as long as it takes.
    pub(super) async fn session(&self) -> Result<Arc<Session>, BrokerError> {
        self.wait(|state| matches!(state, State::Up(_) | State::Closed)).await
    }

    /// The connection, if it stands within the patience of its address.
    pub(super) async fn standing_session(&self) -> Result<Arc<Session>, BrokerError> {
        if let Some(session) = self.standing() {
            return Ok(session);
        }
        match timeout(self.address.patience(), self.session()).await {
            Ok(session) => session,
            Err(_) => self.outcome(self.state.borrow().clone()),
        }
    }

    fn standing(&self) -> Option<Arc<Session>> {
        match &*self.state.borrow() {
            State::Up(session) if session.is_open() => Some(Arc::clone(session)),
            _ => None,
        }
    }

    async fn wait(&self, ready: impl Fn(&State) -> bool) -> Result<Arc<Session>, BrokerError> {
        let mut states = self.state.subscribe();
        // A session that has ended counts as standing until the task above has noticed.
        let ready = |state: &State| ready(state) && !matches!(state, State::Up(session) if !session.is_open());
        let state = states.wait_for(ready).await.map(|state| state.clone()).unwrap_or(State::Closed);
        self.outcome(state)
    }

    fn outcome(&self, state: State) -> Result<Arc<Session>, BrokerError> {
        match state {
            State::Up(session) => Ok(session),
            State::Down { reason } => Err(self.address.unavailable(reason)),
            State::Refused { reason } => Err(self.address.refused(reason)),
            State::Closed => Err(BrokerError::Closed),
        }
    }
}
