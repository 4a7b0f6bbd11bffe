//! What comes before what: barriers, and what atomics hand from one wave to another ("Memory Model" of LLVM's user guide for AMDGPU).
//!
//! A wave that has waited for its own accesses releases them with an atomic; whoever reads that atomic's place with another one acquires
//! them: at once within a block, and after it has invalidated its caches between blocks.

use std::collections::HashMap;
use std::rc::Rc;

use crate::readers::Suspect;
use crate::verdict::Place;

/// How many releases of a place are kept apart.
const MOST_PARTS: usize = 64;
/// What the counter of stores counts up to.
const MOST_STORES: usize = 63;
/// Of a release of several places.
pub(crate) const SEVERAL_PLACES: u64 = u64::MAX;
/// How many places a wave is remembered to have taken.
const MOST_HELD: usize = 64;

/// What of a block is known: all numbers before `end`, and each wave's numbers up to a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub start: u32,
    pub end: u32,
    pub waves: u32,
    pub heads: Vec<(u32, u32)>,
}

impl Entry {
    /// Whether it knows a number of its block and all smaller ones.
    fn contains_all_to(&self, number: u32) -> bool {
        number < self.end
    }

    fn contains(&self, number: u32) -> bool {
        let wave = (number - self.start) % self.waves.max(1);
        number < self.end || self.heads.iter().any(|(of, head)| *of == wave && number <= *head)
    }

    /// Whether it knows all that `other` does of the same block.
    fn covers(&self, other: &Self) -> bool {
        let has = |(wave, head): &(u32, u32)| self.heads.iter().any(|(of, known)| of == wave && known >= head);
        self.end >= other.end && other.heads.iter().all(has)
    }

    fn joined(&self, other: &Self) -> Self {
        let mut heads = self.heads.clone();
        for (wave, head) in &other.heads {
            match heads.iter_mut().find(|(of, _)| of == wave) {
                Some((_, known)) => *known = (*known).max(*head),
                None => heads.push((*wave, *head)),
            }
        }
        Self { end: self.end.max(other.end), heads, ..*self }
    }
}

/// The numbers that come before what a wave does, by block.
#[derive(Debug, Default)]
pub(crate) struct Clock(Vec<Rc<Entry>>);

pub(crate) type Known = Rc<Clock>;

impl Clock {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn entry_of(&self, number: u32) -> Option<&Entry> {
        let at = self.0.partition_point(|entry| entry.start <= number).checked_sub(1)?;
        self.0.get(at).map(Rc::as_ref)
    }

    pub fn contains(&self, number: u32) -> bool {
        self.entry_of(number).is_some_and(|entry| entry.contains(number))
    }

    /// Whether all waves of a block come before up to a number of it.
    pub fn contains_all_to(&self, number: u32) -> bool {
        self.entry_of(number).is_some_and(|entry| entry.contains_all_to(number))
    }

    fn covers(&self, other: &Self) -> bool {
        let known = |entry: &Rc<Entry>| {
            let at = self.0.partition_point(|own| own.start < entry.start);
            let own = self.0.get(at).filter(|own| own.start == entry.start);
            own.is_some_and(|own| Rc::ptr_eq(own, entry) || own.covers(entry))
        };
        self.0.len() >= other.0.len() && other.0.iter().all(known)
    }

    pub fn of(entry: Entry) -> Known {
        Rc::new(Self(vec![Rc::new(entry)]))
    }

    /// What either knows.
    pub fn merged(a: &Known, b: &Known) -> Known {
        if Rc::ptr_eq(a, b) || b.is_empty() {
            return Rc::clone(a);
        }
        if a.is_empty() {
            return Rc::clone(b);
        }
        // Waves that wait for each other learn the same again and again.
        if a.covers(b) {
            return Rc::clone(a);
        }
        let (mut first, mut second) = (a.0.iter().peekable(), b.0.iter().peekable());
        let mut all = Vec::with_capacity(a.0.len().max(b.0.len()) + 1);
        loop {
            let next = match (first.peek(), second.peek()) {
                (Some(of), Some(other)) if of.start == other.start => {
                    let one = if Rc::ptr_eq(of, other) { Rc::clone(of) } else { Rc::new(of.joined(other)) };
                    first.next();
                    second.next();
                    one
                }
                (Some(of), Some(other)) => {
                    let from = if of.start < other.start { &mut first } else { &mut second };
                    let Some(entry) = from.next() else { break };
                    Rc::clone(entry)
                }
                (Some(_), None) => match first.next() {
                    Some(entry) => Rc::clone(entry),
                    None => break,
                },
                (None, _) => match second.next() {
                    Some(entry) => Rc::clone(entry),
                    None => break,
                },
            };
            all.push(next);
        }
        Rc::new(Self(all))
    }
}

/// One release of a place.
struct Part {
    clock: Known,
    block: u32,
    /// Other blocks may acquire it.
    device: bool,
}

/// What places hand on, by address.
#[derive(Default)]
pub(crate) struct Places(HashMap<u64, Vec<Part>>);

impl Places {
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether anything was released there.
    pub fn has(&self, key: u64) -> bool {
        self.0.contains_key(&key)
    }

    pub fn release(&mut self, key: u64, clock: &Known, block: u32, device: bool) {
        let parts = self.0.entry(key).or_default();
        if parts.last().is_some_and(|last| Rc::ptr_eq(&last.clock, clock) && (last.device || !device)) {
            return;
        }
        // What an earlier release of the block handed on is in this one, as of a wave that waits in a loop.
        parts.retain(|part| part.block != block || part.device && !device || !clock.covers(&part.clock));
        if parts.len() >= MOST_PARTS {
            let (mut mine, mut others) = (Known::default(), Known::default());
            for part in parts.drain(..) {
                let into = if part.block == block && !part.device { &mut mine } else { &mut others };
                if part.block == block || part.device {
                    *into = Clock::merged(into, &part.clock);
                }
            }
            parts.push(Part { clock: mine, block, device: false });
            parts.push(Part { clock: others, block, device: true });
        }
        parts.push(Part { clock: Rc::clone(clock), block, device });
    }

    /// What a wave of `block` acquires there.
    fn acquire(&self, key: u64, block: u32, mut known: impl FnMut(&Known, bool)) {
        for part in self.0.get(&key).into_iter().flatten() {
            if part.block == block || part.device {
                known(&part.clock, part.block == block);
            }
        }
    }
}

/// What will come before a wave, once its caches hold nothing old any more.
#[derive(Clone)]
struct Acquired {
    clock: Known,
    /// Which caches are invalidated: those of the unit, and those behind them.
    near: bool,
    far: bool,
}

/// What an access does to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    Read,
    Write,
    Atomic,
}

/// A place that a wave touches, how many bytes of it, and how, with the wave's number as it did.
pub(crate) type Reach = (u64, usize, Touch, u32);

/// What a wave knows, and what it owes to others.
#[derive(Default)]
pub(crate) struct Order {
    /// What comes before it.
    pub clock: Known,
    acquired: Vec<Acquired>,
    /// Round in which the caches of its unit were invalidated.
    pub fresh: u32,
    /// What came before the cache of scalars was: it holds nothing older of that.
    pub scalars: Known,
    /// There are stores that other blocks may not see.
    pub unseen: bool,
    /// The last scalar store that was not written back: its instruction, and where it went.
    pub scalar_store: Option<(usize, Place)>,
    /// What it has touched since it signaled a barrier, where it does not wait at once, or has not waited for by then: each place, how many bytes, and
    /// how. The barrier does not order that.
    pub signaled: bool,
    pub early: Vec<Reach>,
    /// A write-back of the caches was begun.
    pub writing_back: bool,
    /// Of the wave's number.
    pub round: u32,
    /// The place that it has released by an atomic and touched nothing since but that, if it is one. What it touches next is in another round: a wave that
    /// asks for a lock again and again needs none for each time.
    pub released: Option<u64>,
    /// Whether it has stored anything since the last barrier.
    pub stored: bool,
    /// Stores that were not waited for: their places and how wide each is.
    stores: Vec<(Vec<u64>, usize)>,
    /// Places that it took with an atomic, the last ones.
    held: Vec<u64>,
    pub suspects: Vec<Suspect>,
}

impl Order {
    pub fn acquire(&mut self, places: &Places, key: u64, block: u32) {
        places.acquire(key, block, |clock, at_once| {
            if at_once {
                self.clock = Clock::merged(&self.clock, clock);
                return;
            }
            match self.acquired.iter_mut().find(|known| Rc::ptr_eq(&known.clock, clock)) {
                Some(known) => (known.near, known.far) = (false, false),
                None => self.acquired.push(Acquired { clock: Rc::clone(clock), near: false, far: false }),
            }
        });
        if self.acquired.len() > MOST_PARTS {
            let all = self.acquired.drain(..).fold(Known::default(), |all, one| Clock::merged(&all, &one.clock));
            self.acquired.push(Acquired { clock: all, near: false, far: false });
        }
    }

    /// A store is under way. More than the counter counts are not.
    pub fn store(&mut self, places: Vec<u64>, bytes: usize) {
        self.keep_stores(MOST_STORES - 1);
        self.stores.push((places, bytes));
    }

    /// At most so many stores are under way, the last ones.
    pub fn keep_stores(&mut self, most: usize) {
        self.stores.drain(..self.stores.len().saturating_sub(most));
    }

    pub fn stores(&self) -> &[(Vec<u64>, usize)] {
        &self.stores
    }

    /// The wave has changed a place with an atomic whose old value it was given.
    pub fn hold(&mut self, key: u64) {
        if !self.held.contains(&key) {
            if self.held.len() == MOST_HELD {
                self.held.remove(0);
            }
            self.held.push(key);
        }
    }

    pub fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    pub fn holds(&self, key: u64) -> bool {
        self.held.contains(&key)
    }

    /// The cache of scalars holds nothing old any more of what is done, and of what others have released to the wave.
    pub fn invalidate_scalars(&mut self, done: &Known) {
        let released = self.acquired.iter().fold(Rc::clone(done), |all, one| Clock::merged(&all, &one.clock));
        self.scalars = Clock::merged(&self.scalars, &released);
    }

    /// Caches hold nothing old any more: those of the unit, or those behind them, or all.
    pub fn invalidate(&mut self, near: bool, far: bool) {
        self.acquired.retain_mut(|known| {
            (known.near, known.far) = (known.near || near, known.far || far);
            let done = known.near && known.far;
            if done {
                self.clock = Clock::merged(&self.clock, &known.clock);
            }
            !done
        });
    }

    /// All waves of a block know what any of them knows.
    pub fn meet(waves: &mut [&mut Self]) {
        let unseen = waves.iter().any(|order| order.unseen);
        let clock = waves.iter().fold(Known::default(), |all, order| Clock::merged(&all, &order.clock));
        let scalars = waves.iter().fold(Known::default(), |all, order| Clock::merged(&all, &order.scalars));
        let mut acquired: Vec<Acquired> = Vec::new();
        for known in waves.iter_mut().flat_map(|order| order.acquired.drain(..)) {
            if !acquired.iter().any(|of| Rc::ptr_eq(&of.clock, &known.clock)) {
                acquired.push(known);
            }
        }
        for order in waves {
            (order.unseen, order.clock, order.acquired) = (unseen, Rc::clone(&clock), acquired.clone());
            // They share the cache of scalars.
            order.scalars = Rc::clone(&scalars);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(start: u32, end: u32, heads: &[(u32, u32)]) -> Known {
        Clock::of(Entry { start, end, waves: 4, heads: heads.to_vec() })
    }

    #[test]
    fn clocks_know_spans_and_heads_of_waves() {
        let both = Clock::merged(&clock(100, 108, &[(1, 113)]), &clock(200, 200, &[(0, 204)]));
        let known = |number| both.contains(number);
        assert!(known(107) && known(109) && known(113) && !known(117) && !known(108) && !known(99));
        assert!(known(200) && known(204) && !known(201) && !known(208));
        let more = Clock::merged(&both, &clock(100, 112, &[(1, 109), (2, 114)]));
        assert!(more.contains(111) && more.contains(113) && more.contains(114) && more.contains(204));
    }

    #[test]
    fn other_blocks_acquire_what_was_released_to_them_once_caches_are_invalidated() {
        let mut places = Places::default();
        places.release(8, &clock(100, 108, &[]), 100, true);
        places.release(8, &clock(200, 208, &[]), 200, false);
        let mut order = Order::default();
        order.acquire(&places, 8, 300);
        assert!(!order.clock.contains(101));
        order.invalidate(false, true);
        assert!(!order.clock.contains(101));
        order.invalidate(true, false);
        assert!(order.clock.contains(101) && !order.clock.contains(201));
        let mut own = Order::default();
        own.acquire(&places, 8, 200);
        assert!(own.clock.contains(201) && !own.clock.contains(101));
    }
}
