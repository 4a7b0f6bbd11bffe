//! Messages in order, but for consumers that go on with what they have at hand.
//!
//! Where several devices share a queue, each that takes a job of a problem makes its inputs and its answer first. So a consumer is given what
//! is akin to what it had last, then what is akin to nothing that another had last, and only then what comes first.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bluefin_common::digest::Digest;
use tokio::sync::Notify;

/// Tells from its body what a message is akin to.
pub type Kin = fn(&[u8]) -> Option<Digest>;

/// Kinds that a consumer has at hand: as many as a device keeps the answers of.
const AT_HAND: usize = 4;
/// Messages, from the first on, that a consumer chooses from.
const WINDOW: usize = 256;

/// What stands in a line.
pub(crate) trait Waits {
    fn body(&self) -> &[u8];
}

/// A line that any number of consumers take from.
pub(crate) struct Line<M> {
    kin: Option<Kin>,
    places: Mutex<Places<M>>,
    arrived: Notify,
}

struct Places<M> {
    messages: VecDeque<Place<M>>,
    /// What each consumer had last, the latest first.
    at_hand: HashMap<u64, VecDeque<Digest>>,
    consumers: u64,
}

struct Place<M> {
    message: M,
    /// Once somebody has asked.
    kin: Option<Option<Digest>>,
}

impl<M: Waits> Line<M> {
    /// In the order of arrival where no `kin` is told.
    pub(crate) fn new(kin: Option<Kin>) -> Self {
        let places = Places { messages: VecDeque::new(), at_hand: HashMap::new(), consumers: 0 };
        Self { kin, places: Mutex::new(places), arrived: Notify::new() }
    }

    pub(crate) fn push(&self, message: M) {
        self.places().messages.push_back(Place { message, kin: None });
        self.arrived.notify_one();
    }

    /// Back to where it was, or nearly so.
    pub(crate) fn put_back(&self, message: M) {
        self.places().messages.push_front(Place { message, kin: None });
        self.arrived.notify_one();
    }

    /// The number of a new consumer.
    pub(crate) fn join(&self) -> u64 {
        let mut places = self.places();
        places.consumers += 1;
        let consumer = places.consumers;
        places.at_hand.insert(consumer, VecDeque::new());
        consumer
    }

    pub(crate) fn leave(&self, consumer: u64) {
        self.places().at_hand.remove(&consumer);
    }

    /// The next message for `consumer`. Cancel safe.
    pub(crate) async fn pop(&self, consumer: u64) -> M {
        loop {
            // In line before looking: otherwise two who looked in vain could share one wake-up. Whoever is woken and then
            // cancelled passes it on.
            let mut arrived = pin!(self.arrived.notified());
            arrived.as_mut().enable();
            if let Some(message) = self.places().take(consumer, self.kin) {
                return message;
            }
            arrived.await;
        }
    }

    pub(crate) fn depth(&self) -> usize {
        self.places().messages.len()
    }

    /// Takes all of them out, in order.
    pub(crate) fn clear(&self) -> Vec<M> {
        self.places().messages.drain(..).map(|place| place.message).collect()
    }

    pub(crate) fn drop_first(&self) {
        self.places().messages.pop_front();
    }

    fn places(&self) -> MutexGuard<'_, Places<M>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: Waits> Places<M> {
    fn take(&mut self, consumer: u64, kin: Option<Kin>) -> Option<M> {
        let Some(kin) = kin.filter(|_| self.at_hand.len() > 1) else {
            return self.messages.pop_front().map(|place| place.message);
        };
        let at = self.choice(consumer, kin);
        let place = self.messages.remove(at)?;
        if let (Some(kin), Some(own)) = (place.kin.flatten(), self.at_hand.get_mut(&consumer)) {
            own.retain(|one| *one != kin);
            own.push_front(kin);
            own.truncate(AT_HAND);
        }
        Some(place.message)
    }

    /// Where the message stands that `consumer` takes.
    fn choice(&mut self, consumer: u64, kin: Kin) -> usize {
        let own = self.at_hand.get(&consumer);
        let others = || self.at_hand.iter().filter(|(other, _)| **other != consumer);
        let mut free = None;
        for (at, Place { message, kin: known }) in self.messages.iter_mut().take(WINDOW).enumerate() {
            let Some(kin) = *known.get_or_insert_with(|| kin(message.body())) else { continue };
            if own.is_some_and(|own| own.contains(&kin)) {
                return at;
            }
            if free.is_none() && !others().any(|(_, of)| of.contains(&kin)) {
                free = Some(at);
            }
        }
        free.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Waits for char {
        fn body(&self) -> &[u8] {
            match self {
                'a' => b"a",
                'b' => b"b",
                'c' => b"c",
                'd' => b"d",
                'e' => b"e",
                _ => b"f",
            }
        }
    }

    fn line(kinds: &str) -> Line<char> {
        let line = Line::new(Some(|body| Some(Digest::of(body))));
        kinds.chars().for_each(|kind| line.push(kind));
        line
    }

    /// What the consumers take in this order.
    fn taken(line: &Line<char>, order: &[u64]) -> String {
        order.iter().filter_map(|consumer| line.places().take(*consumer, line.kin)).collect()
    }

    #[test]
    fn each_goes_on_with_what_it_has_at_hand_and_nobody_is_idle() {
        let line = line("aaabbbc");
        let (one, two) = (line.join(), line.join());
        assert_eq!(taken(&line, &[one, two, one, two, two, two, two, one]), "ababbca");
    }

    #[test]
    fn one_alone_takes_them_in_order() {
        let line = line("abab");
        let (one, two) = (line.join(), line.join());
        line.leave(two);
        assert_eq!(taken(&line, &[one; 4]), "abab");
    }

    #[test]
    fn what_is_akin_to_nothing_keeps_its_place() {
        let line = Line::new(Some(|_| None));
        let (one, two) = (line.join(), line.join());
        "ab".chars().for_each(|message| line.push(message));
        assert_eq!(taken(&line, &[two, one, two]), "ab");
    }

    #[test]
    fn more_than_a_device_keeps_is_forgotten() {
        let line = line("abcdef");
        let (one, two) = (line.join(), line.join());
        assert_eq!(taken(&line, &[one; 5]), "abcde");
        "ae".chars().for_each(|message| line.push(message));
        // `f` is nobody's, `a` is no longer that of the first, `e` is.
        assert_eq!(taken(&line, &[two, two, two]), "fae");
    }
}
