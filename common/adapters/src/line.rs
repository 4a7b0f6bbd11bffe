//! Messages in order, but for those that are deeper in what was begun, and for consumers that go on with what they have at hand.
//!
//! What was begun is finished before more is begun: what follows from a problem early teaches those that come later.
//!
//! Where several devices share a queue, each that takes a job of a problem makes its inputs and its answer first. So a consumer is given what
//! is akin to what it had last, then what is akin to nothing that another had last, and only then what comes first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bluefin_common::digest::Digest;
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

/// What stands in a line.
pub(crate) trait Waits {
    fn body(&self) -> &[u8];
}

/// A line that any number of consumers take from.
pub(crate) struct Line<M> {
    rank: Rank,
    places: Mutex<Places<M>>,
    arrived: Notify,
}

struct Places<M> {
    messages: Messages<M>,
    /// What each consumer had last, the latest first.
    at_hand: HashMap<u64, VecDeque<Digest>>,
    consumers: u64,
}

/// Messages in the order in which they are taken: the deepest first.
struct Messages<M>(BTreeMap<Reverse<u32>, VecDeque<Place<M>>>);

struct Place<M> {
    message: M,
    /// Once somebody has asked.
    kin: Option<Option<Digest>>,
}

impl<M: Waits> Line<M> {
    pub(crate) fn new(rank: Rank) -> Self {
        let places = Places { messages: Messages(BTreeMap::new()), at_hand: HashMap::new(), consumers: 0 };
        Self { rank, places: Mutex::new(places), arrived: Notify::new() }
    }

    pub(crate) fn push(&self, message: M) {
        let depth = self.depth_of(&message);
        self.places().messages.of(depth).push_back(Place { message, kin: None });
        self.arrived.notify_one();
    }

    /// Back to where it was, or nearly so.
    pub(crate) fn put_back(&self, message: M) {
        let depth = self.depth_of(&message);
        self.places().messages.of(depth).push_front(Place { message, kin: None });
        self.arrived.notify_one();
    }

    fn depth_of(&self, message: &M) -> u32 {
        self.rank.depth.map_or(0, |depth| depth(message.body()))
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
            if let Some(message) = self.places().take(consumer, self.rank.kin) {
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
        self.places().messages.clear()
    }

    pub(crate) fn drop_first(&self) {
        self.places().messages.remove(0);
    }

    fn places(&self) -> MutexGuard<'_, Places<M>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: Waits> Places<M> {
    fn take(&mut self, consumer: u64, kin: Option<Kin>) -> Option<M> {
        let Some(kin) = kin.filter(|_| self.at_hand.len() > 1) else {
            return self.messages.remove(0).map(|place| place.message);
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

impl<M> Messages<M> {
    /// Those of this depth.
    fn of(&mut self, depth: u32) -> &mut VecDeque<Place<M>> {
        self.0.entry(Reverse(depth)).or_default()
    }

    fn len(&self) -> usize {
        self.0.values().map(VecDeque::len).sum()
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Place<M>> {
        self.0.values_mut().flatten()
    }

    /// Takes out the one that stands there.
    fn remove(&mut self, mut at: usize) -> Option<Place<M>> {
        for places in self.0.values_mut() {
            if at < places.len() {
                return places.remove(at);
            }
            at -= places.len();
        }
        None
    }

    fn clear(&mut self) -> Vec<M> {
        std::mem::take(&mut self.0).into_values().flatten().map(|place| place.message).collect()
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
                'A' => b"A",
                'B' => b"B",
                'C' => b"C",
                _ => b"f",
            }
        }
    }

    fn line(kinds: &str) -> Line<char> {
        let line = Line::new(Rank { kin: Some(|body| Some(Digest::of(body))), depth: None });
        kinds.chars().for_each(|kind| line.push(kind));
        line
    }

    /// What the consumers take in this order.
    fn taken(line: &Line<char>, order: &[u64]) -> String {
        order.iter().filter_map(|consumer| line.places().take(*consumer, line.rank.kin)).collect()
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
        let line = Line::new(Rank { kin: Some(|_| None), depth: None });
        let (one, two) = (line.join(), line.join());
        "ab".chars().for_each(|message| line.push(message));
        assert_eq!(taken(&line, &[two, one, two]), "ab");
    }

    #[test]
    fn what_was_begun_is_finished_before_more_is_begun() {
        let depth: Depth = |body| u32::from(body.first().is_some_and(u8::is_ascii_uppercase));
        let line = Line::new(Rank { kin: None, depth: Some(depth) });
        let one = line.join();
        "abAcB".chars().for_each(|message| line.push(message));
        assert_eq!((line.depth(), taken(&line, &[one; 3]).as_str()), (5, "ABa"));
        line.push('C');
        let first = line.places().take(one, None).unwrap();
        line.put_back(first);
        assert_eq!(taken(&line, &[one; 4]), "Cbc");
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
