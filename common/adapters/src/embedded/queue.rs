//! A queue of the embedded broker: messages in order, but for consumers that go on with what they have at hand.
//!
//! Where several devices share a queue, each that takes a job of a problem makes its inputs and its answer first. So a consumer is given what
//! is akin to what it had last, then what is akin to nothing that another had last, and only then what comes first.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bluefin_common::broker::GivenUp;
use bluefin_common::digest::Digest;
use bytes::Bytes;
use tokio::sync::Notify;

/// Tells from its body what a message is akin to.
pub type Kin = fn(&[u8]) -> Option<Digest>;

/// Kinds that a consumer has at hand: as many as a device keeps the answers of.
const AT_HAND: usize = 4;
/// Messages, from the first on, that a consumer chooses from.
const WINDOW: usize = 256;

pub(super) struct Queue {
    pub(super) name: String,
    kin: Option<Kin>,
    line: Mutex<Line>,
    arrived: Notify,
}

#[derive(Default)]
struct Line {
    messages: VecDeque<Message>,
    /// What each consumer had last, the latest first.
    at_hand: HashMap<u64, VecDeque<Digest>>,
    consumers: u64,
}

pub(super) struct Message {
    pub(super) id: String,
    pub(super) body: Bytes,
    pub(super) redeliveries: u32,
    pub(super) given_up: Option<GivenUp>,
    /// Once somebody has asked.
    kin: Option<Option<Digest>>,
}

impl Message {
    pub(super) fn new(id: &str, body: Bytes) -> Self {
        Self { id: id.to_owned(), body, redeliveries: 0, given_up: None, kin: None }
    }

    /// The same, as if it had never been delivered.
    pub(super) fn anew(self, given_up: Option<GivenUp>) -> Self {
        Self { redeliveries: 0, given_up: given_up.or(self.given_up), ..self }
    }
}

impl Queue {
    pub(super) fn new(name: &str, kin: Option<Kin>) -> Self {
        Self { name: name.to_owned(), kin, line: Mutex::default(), arrived: Notify::new() }
    }

    pub(super) fn push(&self, message: Message) {
        self.line().messages.push_back(message);
        self.arrived.notify_one();
    }

    /// Back to where it was, or nearly so.
    pub(super) fn put_back(&self, message: Message) {
        self.line().messages.push_front(message);
        self.arrived.notify_one();
    }

    /// The number of a new consumer.
    pub(super) fn join(&self) -> u64 {
        let mut line = self.line();
        line.consumers += 1;
        let consumer = line.consumers;
        line.at_hand.insert(consumer, VecDeque::new());
        consumer
    }

    pub(super) fn leave(&self, consumer: u64) {
        self.line().at_hand.remove(&consumer);
    }

    /// The next message for `consumer`.
    pub(super) async fn pop(&self, consumer: u64) -> Message {
        loop {
            // In line before looking: otherwise two who looked in vain could share one wake-up. Whoever is woken and then
            // cancelled passes it on.
            let mut arrived = pin!(self.arrived.notified());
            arrived.as_mut().enable();
            if let Some(message) = self.line().take(consumer, self.kin) {
                return message;
            }
            arrived.await;
        }
    }

    pub(super) fn depth(&self) -> usize {
        self.line().messages.len()
    }

    pub(super) fn clear(&self) {
        self.line().messages.clear();
    }

    pub(super) fn drop_first(&self) {
        self.line().messages.pop_front();
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn take(&mut self, consumer: u64, kin: Option<Kin>) -> Option<Message> {
        let Some(kin) = kin.filter(|_| self.at_hand.len() > 1) else { return self.messages.pop_front() };
        let at = self.choice(consumer, kin);
        let message = self.messages.remove(at)?;
        if let (Some(kin), Some(own)) = (message.kin.flatten(), self.at_hand.get_mut(&consumer)) {
            own.retain(|one| *one != kin);
            own.push_front(kin);
            own.truncate(AT_HAND);
        }
        Some(message)
    }

    /// Where the message stands that `consumer` takes.
    fn choice(&mut self, consumer: u64, kin: Kin) -> usize {
        let own = self.at_hand.get(&consumer);
        let others = || self.at_hand.iter().filter(|(other, _)| **other != consumer);
        let mut free = None;
        for (at, message) in self.messages.iter_mut().take(WINDOW).enumerate() {
            let Some(kin) = *message.kin.get_or_insert_with(|| kin(&message.body)) else { continue };
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

    fn queue(kinds: &str) -> Queue {
        let queue = Queue::new("q", Some(|body| Some(Digest::of(body))));
        for (at, kind) in kinds.char_indices() {
            queue.push(Message::new(&at.to_string(), Bytes::from(kind.to_string())));
        }
        queue
    }

    /// What the consumers take in this order, in words of one letter.
    fn taken(queue: &Queue, order: &[u64]) -> String {
        let take = |consumer: &u64| queue.line().take(*consumer, queue.kin).map(|message| message.body);
        order.iter().filter_map(take).map(|body| char::from(body[0])).collect()
    }

    #[test]
    fn each_goes_on_with_what_it_has_at_hand_and_nobody_is_idle() {
        let queue = queue("aaabbbc");
        let (one, two) = (queue.join(), queue.join());
        assert_eq!(taken(&queue, &[one, two, one, two, two, two, two, one]), "ababbca");
    }

    #[test]
    fn one_alone_takes_them_in_order() {
        let queue = queue("abab");
        let (one, two) = (queue.join(), queue.join());
        queue.leave(two);
        assert_eq!(taken(&queue, &[one; 4]), "abab");
    }

    #[test]
    fn what_is_akin_to_nothing_keeps_its_place() {
        let queue = Queue::new("q", Some(|_| None));
        let (one, two) = (queue.join(), queue.join());
        for id in ["1", "2"] {
            queue.push(Message::new(id, Bytes::from(id)));
        }
        assert_eq!(taken(&queue, &[two, one, two]), "12");
    }

    #[test]
    fn more_than_a_device_keeps_is_forgotten() {
        let queue = queue("abcdef");
        let (one, two) = (queue.join(), queue.join());
        assert_eq!(taken(&queue, &[one; 5]), "abcde");
        queue.push(Message::new("a", Bytes::from("a")));
        queue.push(Message::new("e", Bytes::from("e")));
        // `f` is nobody's, `a` is no longer that of the first, `e` is.
        assert_eq!(taken(&queue, &[two, two, two]), "fae");
    }
}
