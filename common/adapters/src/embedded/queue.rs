//! A queue of the embedded broker: messages in order, but for those that are deeper in what was begun, and for consumers that go on with what they
//! have at hand.
//!
//! What was begun is finished before more is begun: what follows from a problem early teaches those that come later.
//!
//! Where several devices share a queue, each that takes a job of a problem makes its inputs and its answer first. So a consumer is given what
//! is akin to what it had last, then what is akin to nothing that another had last, and only then what comes first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bluefin_common::broker::GivenUp;
use bluefin_common::digest::Digest;
use bytes::Bytes;
use tokio::sync::Notify;

/// Tells from its body what a message is akin to.
pub type Kin = fn(&[u8]) -> Option<Digest>;
/// Tells from its body how deep a message is in what was begun: the deepest are taken first.
pub type Depth = fn(&[u8]) -> u32;

/// What the order of messages goes by, beside that of their arrival.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rank {
    pub kin: Option<Kin>,
    pub depth: Option<Depth>,
}

/// Kinds that a consumer has at hand: as many as a device keeps the answers of.
const AT_HAND: usize = 4;
/// Messages, from the first on, that a consumer chooses from.
const WINDOW: usize = 256;

pub(super) struct Queue {
    pub(super) name: String,
    rank: Rank,
    line: Mutex<Line>,
    arrived: Notify,
}

#[derive(Default)]
struct Line {
    messages: Messages,
    /// What each consumer had last, the latest first.
    at_hand: HashMap<u64, VecDeque<Digest>>,
    consumers: u64,
}

/// Messages in the order in which they are taken: the deepest first.
#[derive(Default)]
struct Messages(BTreeMap<Reverse<u32>, VecDeque<Message>>);

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
    pub(super) fn new(name: &str, rank: Rank) -> Self {
        Self { name: name.to_owned(), rank, line: Mutex::default(), arrived: Notify::new() }
    }

    pub(super) fn push(&self, message: Message) {
        let depth = self.depth_of(&message);
        self.line().messages.of(depth).push_back(message);
        self.arrived.notify_one();
    }

    /// Back to where it was, or nearly so.
    pub(super) fn put_back(&self, message: Message) {
        let depth = self.depth_of(&message);
        self.line().messages.of(depth).push_front(message);
        self.arrived.notify_one();
    }

    fn depth_of(&self, message: &Message) -> u32 {
        self.rank.depth.map_or(0, |depth| depth(&message.body))
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
            if let Some(message) = self.line().take(consumer, self.rank.kin) {
                return message;
            }
            arrived.await;
        }
    }

    pub(super) fn depth(&self) -> usize {
        self.line().messages.len()
    }

    pub(super) fn clear(&self) {
        self.line().messages = Messages::default();
    }

    pub(super) fn drop_first(&self) {
        self.line().messages.remove(0);
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn take(&mut self, consumer: u64, kin: Option<Kin>) -> Option<Message> {
        let Some(kin) = kin.filter(|_| self.at_hand.len() > 1) else { return self.messages.remove(0) };
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

impl Messages {
    /// Those of this depth.
    fn of(&mut self, depth: u32) -> &mut VecDeque<Message> {
        self.0.entry(Reverse(depth)).or_default()
    }

    fn len(&self) -> usize {
        self.0.values().map(VecDeque::len).sum()
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Message> {
        self.0.values_mut().flatten()
    }

    /// Takes out the one that stands there.
    fn remove(&mut self, mut at: usize) -> Option<Message> {
        for messages in self.0.values_mut() {
            if at < messages.len() {
                return messages.remove(at);
            }
            at -= messages.len();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(kinds: &str) -> Queue {
        let queue = Queue::new("q", Rank { kin: Some(|body| Some(Digest::of(body))), depth: None });
        for (at, kind) in kinds.char_indices() {
            queue.push(Message::new(&at.to_string(), Bytes::from(kind.to_string())));
        }
        queue
    }

    /// What the consumers take in this order, in words of one letter.
    fn taken(queue: &Queue, order: &[u64]) -> String {
        let take = |consumer: &u64| queue.line().take(*consumer, queue.rank.kin).map(|message| message.body);
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
        let queue = Queue::new("q", Rank { kin: Some(|_| None), depth: None });
        let (one, two) = (queue.join(), queue.join());
        for id in ["1", "2"] {
            queue.push(Message::new(id, Bytes::from(id)));
        }
        assert_eq!(taken(&queue, &[two, one, two]), "12");
    }

    #[test]
    fn what_was_begun_is_finished_before_more_is_begun() {
        let depth: Depth = |body| u32::from(body[0].is_ascii_uppercase());
        let queue = Queue::new("q", Rank { kin: None, depth: Some(depth) });
        let one = queue.join();
        let push = |letters: &str| letters.chars().for_each(|one| queue.push(Message::new("", one.to_string().into())));
        push("abAcB");
        assert_eq!((queue.depth(), taken(&queue, &[one; 3]).as_str()), (5, "ABa"));
        push("C");
        let first = queue.line().take(one, None).unwrap();
        queue.put_back(first);
        assert_eq!(taken(&queue, &[one; 4]), "Cbc");
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
