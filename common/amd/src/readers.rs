//! Plain reads of places that atomics change.
//!
//! A loop of comparing atomics may begin with a plain read: what was read is compared with what is there. So such a read is a race only if the lane that
//! read does not go on to a comparing atomic there, before its wave comes to a barrier or ends, that compares with what its last read found. The mark of a
//! place knows one reader or that there are several: where an atomic comes behind reads that nothing orders before it, the launch is executed once
//! more, in the same order, and each read of such a place is remembered by itself.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::verdict::{Fault, LDS, Met};

/// Places of which each reader is remembered; what is met at the next one is a fault at once.
const MOST_PLACES: usize = 1 << 20;

/// What a plain read found of a word, or of a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The key of the word's place.
    pub word: u64,
    /// The bits that were read, and what they were.
    mask: u32,
    value: u32,
}

impl Seen {
    /// Of a read of some bytes of one word.
    pub fn of(key: u64, bytes: &[u8]) -> Self {
        let mut seen = Self { word: key & !3, mask: 0, value: 0 };
        for (byte, shift) in bytes.iter().zip((8 * (key as u32 & 3)..32).step_by(8)) {
            seen.mask |= 0xff << shift;
            seen.value |= u32::from(*byte) << shift;
        }
        seen
    }

    /// The reads of all words of a range.
    pub fn all(key: u64, bytes: &[u8]) -> impl Iterator<Item = Self> {
        let first = (4 - (key as usize & 3)).min(bytes.len());
        let (head, rest) = bytes.split_at(first);
        let rest = rest.chunks(4).zip((key + first as u64..).step_by(4)).map(|(part, key)| Self::of(key, part));
        std::iter::once(Self::of(key, head)).chain(rest)
    }
}

/// The lane that read, `None` where it was a scalar load.
pub(crate) type Lane = Option<u8>;

/// A comparing atomic of a lane.
#[derive(Clone, Copy)]
pub(crate) struct Compared {
    pub key: u64,
    pub bytes: usize,
    pub lane: usize,
    pub value: u64,
}

impl Compared {
    /// The words that it compares.
    fn words(self) -> impl Iterator<Item = u64> {
        (self.key & !3..self.key + self.bytes as u64).step_by(4)
    }

    /// Those whose reads it may explain.
    fn readers(self) -> [Lane; 2] {
        [None, Some(self.lane as u8)]
    }

    /// Whether it compares with what a read of one of its words found.
    fn finds(self, seen: &Seen) -> bool {
        let value = (self.value >> (8 * (seen.word - (self.key & !3)))) as u32;
        (value ^ seen.value) & seen.mask == 0
    }
}

/// A plain read behind atomics that nothing orders before it.
pub(crate) struct Suspect {
    pub seen: Seen,
    pub lane: Lane,
    /// Index of the instruction.
    pub at: usize,
    pub fault: Fault,
}

/// Notes a read; of one instruction in a loop the last one is enough.
pub(crate) fn suspect(suspects: &mut Vec<Suspect>, new: Suspect) {
    suspects.retain(|of| (of.seen.word, of.lane, of.at) != (new.seen.word, new.lane, new.at));
    suspects.push(new);
}

/// Leaves out what a comparing atomic explains: all reads of the lane, or of its wave's scalar loads, if the last one is what it compares with.
pub(crate) fn explain(suspects: &mut Vec<Suspect>, compared: Compared) {
    for word in compared.words() {
        for lane in compared.readers() {
            let is_of = |of: &Suspect| of.seen.word == word && of.lane == lane;
            if suspects.iter().rev().find(|of| is_of(of)).is_some_and(|of| compared.finds(&of.seen)) {
                suspects.retain(|of| !is_of(of));
            }
        }
    }
}

/// A block's first number, and a wave of it.
type Who = (u32, u32);

/// A read that its wave may still explain.
struct Open {
    seen: Seen,
    number: u32,
    at: usize,
    /// What it comes to otherwise, as an atomic that nothing orders behind it has changed the place.
    met: Option<Met>,
}

#[derive(Default)]
struct Place {
    open: BTreeMap<(Who, Lane), Open>,
    /// The last read of each wave that can not explain any more what it read: its number and the index of its instruction.
    closed: BTreeMap<Who, (u32, usize)>,
}

/// Of one execution of a launch: who has read the places that are watched.
#[derive(Default)]
pub(crate) struct Readers {
    words: HashSet<u64>,
    /// By the first number of the block, if in LDS, and the key of the word.
    places: HashMap<(u32, u64), Place>,
    /// The words that a wave has read since it came to a barrier.
    of_wave: HashMap<Who, Vec<(u32, u64)>>,
    /// What the last access read.
    noted: Vec<Seen>,
}

fn scope(start: u32, word: u64) -> (u32, u64) {
    (if word & LDS == 0 { 0 } else { start }, word)
}

/// Adds a place to those of which the next execution knows all readers; whether there is room for it.
pub(crate) fn watch(words: &mut HashSet<u64>, key: u64) -> bool {
    let has_room = words.len() < MOST_PLACES || words.contains(&(key & !3));
    if has_room {
        words.insert(key & !3);
    }
    has_room
}

impl Readers {
    pub fn of(words: HashSet<u64>) -> Self {
        Self { words, ..Self::default() }
    }

    pub fn has_noted(&self) -> bool {
        !self.noted.is_empty()
    }

    /// Notes what is read of a range.
    #[inline]
    pub fn note(&mut self, key: u64, bytes: &[u8]) {
        self.noted.extend(Seen::all(key, bytes).filter(|seen| self.words.contains(&seen.word)));
    }

    /// Remembers who has read what was noted.
    pub fn remember(&mut self, who: Who, lane: Lane, number: u32, at: usize) {
        for seen in self.noted.drain(..) {
            let key = scope(who.0, seen.word);
            let reads = &mut self.places.entry(key).or_default().open;
            let earlier = reads.remove(&(who, lane));
            if earlier.is_none() {
                self.of_wave.entry(who).or_default().push(key);
            }
            // What an earlier read of the lane met is explained with this one, or is not.
            reads.insert((who, lane), Open { seen, number, at, met: earlier.and_then(|read| read.met) });
        }
    }

    /// A lane goes on to a comparing atomic where it has read.
    pub fn explain(&mut self, who: Who, compared: Compared) {
        for word in compared.words() {
            let Some(place) = self.places.get_mut(&scope(who.0, word)) else { continue };
            for lane in compared.readers() {
                if place.open.get(&(who, lane)).is_some_and(|read| compared.finds(&read.seen)) {
                    place.open.remove(&(who, lane));
                }
            }
        }
    }

    /// A wave changes bytes with an atomic. `meets` says what a read of a number by an instruction comes to if nothing orders it before. The first that its
    /// wave can not explain any more.
    pub fn change(
        &mut self,
        who: Who,
        (key, bytes): (u64, usize),
        meets: impl Fn(u32, usize) -> Option<Met>,
    ) -> Option<Met> {
        let words = (key & !3..key + bytes as u64).step_by(4);
        for word in words {
            let Some(place) = self.places.get_mut(&scope(who.0, word)) else { continue };
            for ((_, _), read) in place.open.iter_mut().filter(|((of, _), read)| *of != who && read.met.is_none()) {
                read.met = meets(read.number, read.at);
            }
            let mut closed = place.closed.iter().filter(|(of, _)| **of != who);
            if let Some(met) = closed.find_map(|(_, (number, at))| meets(*number, *at)) {
                return Some(met);
            }
        }
        None
    }

    /// The words of a range that another wave has read with something that `meets` its number.
    pub fn met<C>(&self, who: Who, (key, bytes): (u64, usize), meets: impl Fn(u32) -> Option<C>) -> Vec<(u64, C)> {
        let of_word = |word: u64| {
            let place = self.places.get(&scope(who.0, word))?;
            let open = place.open.iter().map(|((of, _), read)| (of, read.number));
            let mut all = open.chain(place.closed.iter().map(|(of, (number, _))| (of, *number)));
            Some((word, all.find_map(|(of, number)| if *of == who { None } else { meets(number) })?))
        };
        (key & !3..key + bytes as u64).step_by(4).filter_map(of_word).collect()
    }

    /// A read of a wave reaches past a barrier: it is as if it were of that number.
    pub fn carry(&mut self, who: Who, (key, bytes): (u64, usize), number: u32) {
        for word in (key & !3..key + bytes as u64).step_by(4) {
            let Some(place) = self.places.get_mut(&scope(who.0, word)) else { continue };
            place.open.range_mut((who, None)..=(who, Some(u8::MAX))).for_each(|(_, read)| read.number = number);
            if let Some((last, _)) = place.closed.get_mut(&who) {
                *last = number.max(*last);
            }
        }
    }

    /// A wave comes to a barrier, or ends: the first of its reads that an atomic has met and that it has not explained.
    pub fn close(&mut self, who: Who) -> Option<Met> {
        for key in self.of_wave.remove(&who).into_iter().flatten() {
            let Some(place) = self.places.get_mut(&key) else { continue };
            let lanes: Vec<Lane> =
                place.open.range((who, None)..=(who, Some(u8::MAX))).map(|((_, lane), _)| *lane).collect();
            for read in lanes.into_iter().filter_map(|lane| place.open.remove(&(who, lane))) {
                if read.met.is_some() {
                    return read.met;
                }
                let last = place.closed.entry(who).or_default();
                *last = (*last).max((read.number, read.at));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(key: u64, value: u32) -> Seen {
        Seen::of(key, &value.to_le_bytes())
    }

    #[test]
    fn there_is_room_for_so_many_places() {
        let mut words: HashSet<u64> = (0..MOST_PLACES as u64).map(|word| 4 * word).collect();
        assert!(watch(&mut words, 6));
        assert!(!watch(&mut words, 4 * MOST_PLACES as u64));
    }

    #[test]
    fn reads_are_split_into_words() {
        let all: Vec<Seen> = Seen::all(10, &[1, 2, 3, 4, 5, 6, 7]).collect();
        let expected = [
            Seen { word: 8, mask: 0xffff_0000, value: 0x0201_0000 },
            Seen { word: 12, mask: u32::MAX, value: 0x0605_0403 },
            Seen { word: 16, mask: 0xff, value: 7 },
        ];
        assert_eq!(all, expected);
        assert_eq!(Seen::all(8, &[1, 0, 0, 0]).collect::<Vec<_>>(), [seen(8, 1)]);
    }

    #[test]
    fn a_lane_explains_what_it_read_last_and_compares_with() {
        let all = || -> Vec<Suspect> {
            let fault = Fault::Hang { limit: 0 };
            let of = |at, lane, key, value| Suspect { seen: seen(key, value), lane, at, fault: fault.clone() };
            vec![
                of(1, Some(3), 8, 5),
                of(2, Some(3), 8, 7),
                of(3, None, 8, 7),
                of(4, Some(4), 8, 7),
                of(5, Some(3), 12, 9),
            ]
        };
        let left = |compared: Compared| {
            let mut suspects = all();
            explain(&mut suspects, compared);
            suspects.iter().map(|of| of.at).collect::<Vec<_>>()
        };
        assert_eq!(left(Compared { key: 8, bytes: 4, lane: 3, value: 7 }), [4, 5]);
        assert_eq!(left(Compared { key: 8, bytes: 4, lane: 3, value: 5 }), [1, 2, 3, 4, 5]);
        assert_eq!(left(Compared { key: 8, bytes: 8, lane: 3, value: 9 << 32 }), [1, 2, 3, 4]);
    }

    #[test]
    fn each_reader_has_to_explain_itself() {
        let met = |number: u32, at: usize| {
            let fault = Fault::Hang { limit: number.into() };
            (number < 30).then_some(Met { fault, block: [0; 3], wave: 0, at, lane: 0 })
        };
        let readers = || {
            let mut readers = Readers::of(HashSet::from([8]));
            for (wave, number) in [(0, 20), (1, 21), (2, 40)] {
                readers.note(4, &[0, 0, 0, 0, 5, 0, 0, 0]);
                readers.remember((10, wave), Some(0), number, 1);
            }
            readers
        };
        let compared = Compared { key: 8, bytes: 4, lane: 0, value: 5 };
        let mut all = readers();
        all.explain((10, 0), compared);
        assert!(all.change((10, 0), (8, 4), met).is_none() && all.close((10, 0)).is_none());
        assert!(all.close((10, 2)).is_none(), "behind it");
        assert!(all.close((10, 1)).is_some());
        let mut all = readers();
        assert!(all.close((10, 1)).is_none());
        assert!(all.change((10, 0), (8, 4), met).is_some(), "who has come to a barrier explains nothing any more");
        assert!(readers().change((10, 0), (4, 4), met).is_none());
    }
}
