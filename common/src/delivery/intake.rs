//! How a worker takes deliveries: one at first, and as many as it may hold once that one is done, so that a worker which falls
//! over what it takes first holds nothing else meanwhile; none while it waits; and no more when it is to leave.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::{GivenUp, Patience};
use crate::broker::{Broker, BrokerError, Consumer, Delivery};

/// When a worker ends by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leave {
    /// When no job came for this long.
    pub when_idle: Option<Duration>,
    /// After so many jobs.
    pub after_jobs: Option<u64>,
}

/// The deliveries of one queue.
pub struct Intake {
    broker: Arc<dyn Broker>,
    queue: String,
    prefetch: u16,
    patience: Patience,
    consumer: Option<Box<dyn Consumer>>,
    /// That of one at a time, until another one takes its place.
    narrow: Option<Box<dyn Consumer>>,
    /// One was settled.
    proven: bool,
}

impl Intake {
    /// Of `queue`, at most `prefetch` at a time, once it is [resumed](Self::resume). `patience` is for a broker that lets nobody
    /// consume.
    #[must_use]
    pub fn new(broker: &Arc<dyn Broker>, queue: impl Into<String>, prefetch: u16, patience: Patience) -> Self {
        let (broker, queue, prefetch) = (Arc::clone(broker), queue.into(), prefetch.max(1));
        Self { broker, queue, prefetch, patience, consumer: None, narrow: None, proven: prefetch == 1 }
    }

    /// How many may be in hand now.
    #[must_use]
    pub fn room(&self) -> usize {
        self.at_a_time().into()
    }

    fn at_a_time(&self) -> u16 {
        if self.proven { self.prefetch } else { 1 }
    }

    /// The next delivery; `None` once the broker is closed. Waits for ever while it is [paused](Self::pause). Cancel safe.
    pub async fn next(&mut self) -> Option<Delivery> {
        match &mut self.consumer {
            Some(consumer) => consumer.next().await,
            None => std::future::pending().await,
        }
    }

    /// A job that was taken is done with: once it is [resumed](Self::resume) as many are taken as there is room for.
    pub fn proven(&mut self) {
        if !self.proven {
            self.proven = true;
            self.narrow = self.consumer.take();
        }
    }

    /// Takes nothing more and hands back what is not taken yet, so that others get it.
    pub async fn pause(&mut self) {
        for mut consumer in self.narrow.take().into_iter().chain(self.consumer.take()) {
            consumer.stop().await;
        }
    }

    /// Takes again, if it does not; `false` if patience ended before the broker let it.
    ///
    /// # Errors
    /// If the queue can not be consumed.
    pub async fn resume(&mut self) -> Result<bool, BrokerError> {
        if self.consumer.is_some() {
            return Ok(true);
        }
        let (broker, queue, prefetch) = (&self.broker, &self.queue, self.at_a_time());
        let consume = || broker.consume(queue, prefetch);
        match self.patience.with_error("consume", consume).await {
            Ok(consumer) => {
                self.consumer = Some(consumer);
                // Nobody waits for the end of the one before: what it holds goes back to a queue that may be too new to be trusted.
                self.narrow = None;
            }
            Err((GivenUp::Failed(_), Some(error))) => return Err(error),
            Err(_) => return Ok(false),
        }
        Ok(true)
    }
}

/// Counts what a worker does, to tell when it is to [leave](Leave). Clones share the count.
#[derive(Clone, Debug)]
pub struct Leaving {
    leave: Leave,
    counts: Arc<std::sync::Mutex<Counts>>,
    /// One was taken, or is done with.
    changed: Arc<Notify>,
}

#[derive(Debug)]
struct Counts {
    taken: u64,
    in_hand: u64,
    /// Since when nothing is in hand.
    idle_since: Instant,
}

impl Leaving {
    /// Nothing is taken yet, and nothing in hand since now.
    #[must_use]
    pub fn new(leave: Leave) -> Self {
        let counts = Counts { taken: 0, in_hand: 0, idle_since: Instant::now() };
        Self { leave, counts: Arc::new(std::sync::Mutex::new(counts)), changed: Arc::default() }
    }

    /// It can take jobs from now on: what it needed to come so far is not idleness.
    pub fn ready(&self) {
        self.counts().idle_since = Instant::now();
        self.changed.notify_waiters();
    }

    /// A job is taken, and in hand until the guard is dropped; `None` if there were enough.
    #[must_use]
    pub fn take(&self) -> Option<InHand> {
        let mut counts = self.counts();
        if self.are_enough(&counts) {
            return None;
        }
        counts.taken += 1;
        counts.in_hand += 1;
        self.changed.notify_waiters();
        Some(InHand(self.clone()))
    }

    /// Whether no further job is to be taken.
    #[must_use]
    pub fn has_enough(&self) -> bool {
        self.are_enough(&self.counts())
    }

    fn are_enough(&self, counts: &Counts) -> bool {
        self.leave.after_jobs.is_some_and(|limit| counts.taken >= limit)
    }

    /// Returns when it is time to leave: after enough jobs, or when none came for long enough.
    pub async fn time(&self) {
        loop {
            let mut took = std::pin::pin!(self.changed.notified());
            // In line before looking, so that none is missed.
            took.as_mut().enable();
            if self.has_enough() {
                return;
            }
            let Some(patience) = self.leave.when_idle else {
                took.await;
                continue;
            };
            let until = {
                let counts = self.counts();
                // Somebody who works is looked at again when it could be idle for long enough at the earliest.
                if counts.in_hand > 0 { Instant::now() + patience } else { counts.idle_since + patience }
            };
            if until <= Instant::now() {
                return;
            }
            tokio::select! {
                () = sleep_until(until) => {}
                () = took => {}
            }
        }
    }

    /// Returns when no job is in hand.
    pub async fn nothing_in_hand(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.counts().in_hand == 0 {
                return;
            }
            changed.await;
        }
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A job in hand.
#[derive(Debug)]
pub struct InHand(Leaving);

impl Drop for InHand {
    fn drop(&mut self) {
        let mut counts = self.0.counts();
        counts.in_hand = counts.in_hand.saturating_sub(1);
        counts.idle_since = Instant::now();
        self.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const MOMENT: Duration = Duration::from_millis(20);

    async fn leaves(leaving: &Leaving) -> bool {
        timeout(10 * MOMENT, leaving.time()).await.is_ok()
    }

    #[tokio::test]
    async fn who_has_done_enough_leaves_though_no_more_comes() {
        let leaving = Leaving::new(Leave { after_jobs: Some(2), when_idle: None });
        let _first = leaving.take().unwrap();
        assert!(!leaves(&leaving).await && !leaving.has_enough());
        let (time, second) = tokio::join!(leaves(&leaving), async { leaving.take().unwrap() });
        assert!(time && leaving.has_enough() && leaving.take().is_none());
        drop(second);
    }

    #[tokio::test]
    async fn who_has_something_in_hand_is_not_idle() {
        let leaving = Leaving::new(Leave { when_idle: Some(MOMENT), after_jobs: None });
        let job = leaving.take().unwrap();
        assert!(!leaves(&leaving).await);
        drop(job);
        assert!(leaves(&leaving).await);
        assert!(!leaves(&Leaving::new(Leave::default())).await);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_not_ready_yet_was_not_idle() {
        let leaving = Leaving::new(Leave { when_idle: Some(MOMENT), after_jobs: None });
        tokio::time::advance(MOMENT).await;
        leaving.ready();
        assert!(timeout(MOMENT / 2, leaving.time()).await.is_err());
        assert!(leaves(&leaving).await);
    }
}
