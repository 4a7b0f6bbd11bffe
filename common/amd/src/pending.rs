//! What is under way in memory: registers that must not be touched before an `s_waitcnt`.
//!
//! Vector memory returns in the order of issue, LDS too; scalar loads return in any order, and flat accesses may be either
//! ("S_WAITCNT" and "Data dependency resolution" of the instruction set documents). A count that was waited for says that the youngest so
//! many of what is ordered may be missing, and all that is not ordered unless the count is 0.
//!
//! Samples of images are vector memory. LLVM's `SIInsertWaitcnts` has them in no order with other loads where both write a register, though one
//! counter counts both up to gfx11; gfx12 has a counter for each.

use crate::instruction::{Counter, Span, Touches, Wait};
use crate::registers::{LANES, sgpr_name, vgpr_name};

/// The words of LDS that an access touches.
pub(crate) struct LdsTouch {
    pub offsets: [u32; LANES],
    pub exec: u64,
    pub bytes: u32,
    pub write: bool,
    pub atomic: bool,
    /// The wave's number as it was issued.
    pub number: u32,
}

impl LdsTouch {
    /// The bytes that it touches, from the first to behind the last.
    fn range(&self) -> (u32, u32) {
        let of_lanes = || (0..LANES).filter(|lane| self.exec >> lane & 1 == 1).map(|lane| self.offsets[lane]);
        let (first, last) = (of_lanes().min().unwrap_or(u32::MAX), of_lanes().max().unwrap_or(0));
        (first, last.saturating_add(self.bytes))
    }

    /// The first byte that both touch, lane by lane.
    fn first_shared(&self, other: &Self) -> Option<u32> {
        let ((begin, end), (from, to)) = (self.range(), other.range());
        if begin >= to || from >= end {
            return None;
        }
        let lanes = |of: &Self| (0..LANES).filter(move |lane| of.exec >> lane & 1 == 1).collect::<Vec<_>>();
        let (own, others) = (lanes(self), lanes(other));
        let shared = own.iter().flat_map(|lane| {
            let at = self.offsets[*lane];
            let meets = move |of: &&usize| {
                let of = other.offsets[**of];
                at < of.saturating_add(other.bytes) && of < at.saturating_add(self.bytes)
            };
            others.iter().filter(meets).map(move |of| at.max(other.offsets[*of]))
        });
        shared.min()
    }
}

/// Those of an instruction, which may access LDS twice.
pub(crate) type LdsTouches = [Option<Box<LdsTouch>>; 2];

struct Entry {
    /// Index of the instruction.
    instruction: usize,
    vgprs: Span,
    sgprs: u128,
    ordered: bool,
    /// A sample of an image.
    sampled: bool,
    /// A load of what nothing changes, as a kernel's arguments are.
    fixed: bool,
    lds: LdsTouches,
}

#[derive(Default)]
struct Queue {
    entries: Vec<Entry>,
    /// A bit for each register.
    vgprs: [u64; WORDS],
    sgprs: u128,
    /// What entries had that have returned, for others.
    #[expect(clippy::vec_box, reason = "entries have them so")]
    spare: Vec<Box<LdsTouch>>,
}

/// All that a wave has not waited for.
pub(crate) struct Pending {
    vector: Queue,
    scalar: Queue,
    /// What the counter of the scalar ones, and of LDS, counts up to.
    most_scalar: usize,
}

/// Words of a bit for each vector register.
const WORDS: usize = 9;

/// What the counter of vector memory counts up to.
const MOST_VECTOR: usize = 63;

/// A register that is touched too early, and the instruction that is under way.
pub(crate) struct TooEarly {
    pub register: String,
    pub counter: &'static str,
    pub instruction: usize,
}

fn mark(vgprs: &mut [u64; WORDS], sgprs: &mut u128, entry: &Entry) {
    for at in entry.vgprs.0..entry.vgprs.0 + entry.vgprs.1 {
        vgprs[usize::from(at / 64)] |= 1 << (at % 64);
    }
    *sgprs |= entry.sgprs;
}

impl Queue {
    /// Adds what was issued. A counter that is at its most holds back what would be one more, until the oldest has returned.
    fn push(&mut self, entry: Entry, most: usize) {
        if self.entries.len() >= most && self.entries.iter().all(|entry| entry.ordered) {
            self.wait(most - 1);
        }
        mark(&mut self.vgprs, &mut self.sgprs, &entry);
        self.entries.push(entry);
    }

    fn wait(&mut self, limit: usize) {
        self.wait_among(limit, |_| true);
    }

    /// The same of some entries, which have a counter of their own.
    fn wait_among(&mut self, limit: usize, counted: impl Fn(&Entry) -> bool) {
        let before = self.entries.len();
        let mut younger = self.entries.iter().filter(|entry| entry.ordered && counted(entry)).count();
        let spare = &mut self.spare;
        self.entries.retain_mut(|entry| {
            let stays = if !counted(entry) {
                true
            } else if entry.ordered {
                younger -= 1;
                younger < limit
            } else {
                limit > 0
            };
            if !stays {
                spare.extend(entry.lds.iter_mut().filter_map(Option::take));
            }
            stays
        });
        if self.entries.len() == before {
            return;
        }
        (self.vgprs, self.sgprs) = ([0; WORDS], 0);
        let Self { entries, vgprs, sgprs, .. } = self;
        entries.iter().for_each(|entry| mark(vgprs, sgprs, entry));
    }

    fn has(&self, at: u16) -> bool {
        self.vgprs[usize::from(at / 64)] >> (at % 64) & 1 == 1
    }

    fn vgpr(&self, span: Span, counter: &'static str) -> Option<TooEarly> {
        self.vgpr_among(span, counter, |_| true)
    }

    /// Of some entries. Halves of a register may be under way apart.
    fn vgpr_among(
        &self,
        (first, count, half): Span,
        counter: &'static str,
        among: impl Fn(&Entry) -> bool,
    ) -> Option<TooEarly> {
        (first..first + count).find(|at| self.has(*at))?;
        let covering = |at: u16| {
            self.entries.iter().rev().find(|entry| {
                let (begin, count, of) = entry.vgprs;
                let other = half.is_some() && of.is_some() && half != of;
                (begin..begin + count).contains(&at) && !other && among(entry)
            })
        };
        let (at, entry) = (first..first + count).find_map(|at| Some((at, covering(at)?)))?;
        Some(TooEarly { register: vgpr_name(at), counter, instruction: entry.instruction })
    }
}

impl Pending {
    /// Whether nothing of LDS or of scalar memory is under way, but loads of arguments: a compiler does not wait for those where it releases
    /// something.
    pub fn has_no_lds(&self) -> bool {
        self.scalar.entries.iter().all(|entry| entry.fixed)
    }

    pub fn has_no_vector(&self) -> bool {
        self.vector.entries.is_empty()
    }

    /// Whether nothing of either is.
    pub fn has_only_arguments(&self) -> bool {
        self.has_no_vector() && self.has_no_lds()
    }

    pub fn is_empty(&self) -> bool {
        self.vector.entries.is_empty() && self.scalar.entries.is_empty()
    }

    /// Nothing is under way. `most_scalar`: what `lgkmcnt` counts up to.
    pub fn new(most_scalar: usize) -> Self {
        Self { vector: Queue::default(), scalar: Queue::default(), most_scalar }
    }

    pub fn clear(&mut self) {
        self.vector.wait(0);
        self.scalar.wait(0);
    }

    /// A touch of LDS to be remembered, whose offsets are still to be said.
    pub fn touch(&mut self, exec: u64, bytes: u32, write: bool) -> Box<LdsTouch> {
        let spare = self.scalar.spare.pop().or_else(|| self.vector.spare.pop());
        let new =
            || Box::new(LdsTouch { offsets: [0; LANES], exec: 0, bytes: 0, write: false, atomic: false, number: 0 });
        let mut touch = spare.unwrap_or_else(new);
        (touch.exec, touch.bytes, touch.write, touch.atomic) = (exec, bytes, write, false);
        touch
    }

    /// A vector memory access other than a flat one; stores have no registers.
    pub fn vector(&mut self, instruction: usize, vgprs: Span) {
        self.vector.push(
            Entry { instruction, vgprs, sgprs: 0, ordered: true, sampled: false, fixed: false, lds: [None, None] },
            MOST_VECTOR,
        );
    }

    /// A sample of an image.
    pub fn sample(&mut self, instruction: usize, vgprs: Span) {
        self.vector.push(
            Entry { instruction, vgprs, sgprs: 0, ordered: true, sampled: true, fixed: false, lds: [None, None] },
            MOST_VECTOR,
        );
    }

    /// A load to LDS, which a barrier does not order before it was waited for.
    pub fn vector_to_lds(&mut self, instruction: usize, touch: Box<LdsTouch>) {
        let entry = Entry {
            instruction,
            vgprs: (0, 0, None),
            sgprs: 0,
            ordered: true,
            sampled: false,
            fixed: false,
            lds: [Some(touch), None],
        };
        self.vector.push(entry, MOST_VECTOR);
    }

    pub fn flat(&mut self, instruction: usize, vgprs: Span) {
        self.vector.push(
            Entry { instruction, vgprs, sgprs: 0, ordered: false, sampled: false, fixed: false, lds: [None, None] },
            MOST_VECTOR,
        );
        self.scalar.push(
            Entry { instruction, vgprs, sgprs: 0, ordered: false, sampled: false, fixed: false, lds: [None, None] },
            self.most_scalar,
        );
    }

    pub fn lds(&mut self, instruction: usize, vgprs: Span, lds: LdsTouches) {
        self.scalar.push(
            Entry { instruction, vgprs, sgprs: 0, ordered: true, sampled: false, fixed: false, lds },
            self.most_scalar,
        );
    }

    pub fn scalar_load(&mut self, instruction: usize, (first, count): (u8, u8), fixed: bool) {
        self.scalar(instruction, first, count);
        if let Some(entry) = self.scalar.entries.last_mut() {
            entry.fixed = fixed;
        }
    }

    pub fn scalar(&mut self, instruction: usize, first: u8, count: u8) {
        let sgprs = (first..first + count).fold(0, |all, at| all | 1 << at);
        self.scalar.push(
            Entry {
                instruction,
                vgprs: (0, 0, None),
                sgprs,
                ordered: false,
                sampled: false,
                fixed: false,
                lds: [None, None],
            },
            self.most_scalar,
        );
    }

    /// Whether anything was waited for.
    pub fn wait(&mut self, wait: Wait) -> bool {
        let count = |pending: &Self| pending.vector.entries.len() + pending.scalar.entries.len();
        let before = count(self);
        if let Some(limit) = wait.vector {
            self.vector.wait(usize::from(limit));
        }
        if let Some(limit) = wait.scalar {
            self.scalar.wait(usize::from(limit));
        }
        if let Some(limit) = wait.lds {
            self.scalar.wait_among(usize::from(limit), |entry| entry.sgprs == 0);
        }
        if let Some(limit) = wait.constants {
            self.scalar.wait_among(usize::from(limit), |entry| entry.sgprs != 0);
        }
        if let Some(limit) = wait.loads {
            self.vector.wait_among(usize::from(limit), |entry| !entry.sampled);
        }
        if let Some(limit) = wait.samples {
            self.vector.wait_among(usize::from(limit), |entry| entry.sampled);
        }
        count(self) < before
    }

    /// LDS accesses that a barrier does not order, since they were not waited for.
    pub fn lds_touches(&self) -> impl Iterator<Item = &LdsTouch> {
        self.scalar
            .entries
            .iter()
            .chain(&self.vector.entries)
            .flat_map(|entry| &entry.lds)
            .filter_map(|touch| touch.as_deref())
    }

    /// A place of LDS among `touches` that a load to LDS of the wave itself has yet to write.
    pub fn unlanded(&self, touches: &LdsTouches) -> Option<TooEarly> {
        for touch in touches.iter().flatten() {
            for entry in self.vector.entries.iter().rev() {
                let Some(landing) = entry.lds[0].as_deref() else { continue };
                if let Some(at) = touch.first_shared(landing) {
                    let register = format!("byte {at} of LDS");
                    return Some(TooEarly { register, counter: "vmcnt", instruction: entry.instruction });
                }
            }
        }
        None
    }

    /// Whether anything of these may be under way: vector registers by words, and scalar ones.
    #[inline]
    pub fn may_have(&self, vgprs: &[(usize, u64)], sgprs: u128) -> bool {
        let under_way = |at: usize| self.vector.vgprs[at] | self.scalar.vgprs[at];
        !self.is_empty()
            && (sgprs & self.scalar.sgprs != 0 || vgprs.iter().any(|(at, bits)| under_way(*at) & bits != 0))
    }

    /// The first register among `touches` that is still under way.
    pub fn too_early(&self, touches: &Touches) -> Option<TooEarly> {
        let loaded = touches.loaded.and_then(|(vgprs, counter)| match counter {
            // What returns in order may be loaded over.
            Counter::Vector | Counter::Sampler => {
                let other = |entry: &Entry| entry.sampled != (counter == Counter::Sampler);
                self.scalar.vgpr(vgprs, "lgkmcnt").or_else(|| self.vector.vgpr_among(vgprs, "vmcnt", other))
            }
            Counter::Scalar => self.vector.vgpr(vgprs, "vmcnt"),
        });
        if loaded.is_some() {
            return loaded;
        }
        for vgprs in &touches.vgprs {
            let found = self.vector.vgpr(*vgprs, "vmcnt").or_else(|| self.scalar.vgpr(*vgprs, "lgkmcnt"));
            if found.is_some() {
                return found;
            }
        }
        let sgprs = touches.sgprs & self.scalar.sgprs;
        if sgprs == 0 {
            return None;
        }
        let at = sgprs.trailing_zeros();
        let entry = self.scalar.entries.iter().rev().find(|entry| entry.sgprs >> at & 1 == 1)?;
        Some(TooEarly { register: sgpr_name(at as u8), counter: "lgkmcnt", instruction: entry.instruction })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn early(pending: &Pending, vgpr: u16) -> bool {
        pending.too_early(&Touches { vgprs: vec![(vgpr, 1, None)], ..Touches::default() }).is_some()
    }

    fn wait(pending: &mut Pending, vector: Option<u8>, scalar: Option<u8>) {
        pending.wait(Wait { vector, scalar, ..Wait::default() });
    }

    #[test]
    fn vector_loads_return_in_order() {
        let mut pending = Pending::new(15);
        pending.vector(0, (0, 2, None));
        pending.vector(1, (2, 1, None));
        pending.vector(2, (0, 0, None));
        assert!(early(&pending, 1) && early(&pending, 2) && !early(&pending, 3));
        wait(&mut pending, Some(2), None);
        assert!(!early(&pending, 1) && early(&pending, 2));
        wait(&mut pending, Some(1), None);
        assert!(!early(&pending, 2));
        assert!(!pending.is_empty());
    }

    #[test]
    fn what_a_counter_can_not_count_has_returned() {
        let mut pending = Pending::new(15);
        for at in 0..64 {
            pending.vector(usize::from(at), (at, 1, None));
        }
        assert!(!early(&pending, 0) && early(&pending, 1));
        for at in 0..16 {
            pending.lds(usize::from(at), (100 + at, 1, None), [None, None]);
        }
        assert!(!early(&pending, 100) && early(&pending, 101));
        // A scalar load may return before or after what came before.
        pending.scalar(99, 0, 1);
        pending.lds(100, (120, 1, None), [None, None]);
        assert!(early(&pending, 102));
    }

    #[test]
    fn scalar_loads_return_in_any_order() {
        let mut pending = Pending::new(15);
        pending.scalar(0, 4, 2);
        pending.lds(1, (7, 1, None), [None, None]);
        pending.lds(2, (8, 1, None), [None, None]);
        wait(&mut pending, None, Some(1));
        let sgprs = Touches { sgprs: 1 << 5, ..Touches::default() };
        assert!(!early(&pending, 7) && early(&pending, 8));
        assert_eq!(pending.too_early(&sgprs).unwrap().register, "s5");
        wait(&mut pending, None, Some(0));
        assert!(pending.is_empty());
    }

    #[test]
    fn a_flat_load_needs_both_counters() {
        let mut pending = Pending::new(15);
        pending.flat(0, (3, 1, None));
        wait(&mut pending, Some(0), None);
        assert!(early(&pending, 3));
        wait(&mut pending, None, Some(0));
        assert!(!early(&pending, 3));
    }

    #[test]
    fn what_returns_in_order_may_be_loaded_over() {
        let mut pending = Pending::new(15);
        pending.vector(0, (3, 1, None));
        let over = |counter| Touches { loaded: Some(((3, 1, None), counter)), ..Touches::default() };
        assert!(pending.too_early(&over(Counter::Vector)).is_none());
        assert!(pending.too_early(&over(Counter::Scalar)).is_some());
    }

    #[test]
    fn samples_return_in_an_order_of_their_own() {
        let over = |counter| Touches { loaded: Some(((3, 1, None), counter)), ..Touches::default() };
        let mut pending = Pending::new(15);
        pending.sample(0, (3, 1, None));
        pending.vector(1, (4, 1, None));
        assert!(pending.too_early(&over(Counter::Sampler)).is_none());
        assert!(pending.too_early(&over(Counter::Vector)).is_some());
        // Of gfx12, each has a count.
        pending.wait(Wait { loads: Some(0), ..Wait::default() });
        assert!(early(&pending, 3) && !early(&pending, 4));
        pending.wait(Wait { samples: Some(0), ..Wait::default() });
        assert!(pending.is_empty());
        // Up to gfx11, both have one.
        pending.sample(0, (3, 1, None));
        pending.vector(1, (4, 1, None));
        wait(&mut pending, Some(1), None);
        assert!(!early(&pending, 3) && early(&pending, 4));
    }

    #[test]
    fn halves_are_waited_for_apart() {
        let early = |pending: &Pending, half| {
            pending.too_early(&Touches { vgprs: vec![(7, 1, half)], ..Touches::default() }).is_some()
        };
        let mut pending = Pending::new(63);
        pending.vector(0, (7, 1, Some(true)));
        assert!(!early(&pending, Some(false)), "the lower half is there");
        assert!(early(&pending, Some(true)) && early(&pending, None));
        pending.vector(1, (7, 1, Some(false)));
        wait(&mut pending, Some(1), None);
        assert!(!early(&pending, Some(true)) && early(&pending, Some(false)) && early(&pending, None));
    }

    #[test]
    fn a_release_waits_for_all_but_arguments() {
        let mut pending = Pending::new(15);
        pending.scalar_load(0, (4, 2), true);
        assert!(pending.has_only_arguments());
        pending.vector(1, (3, 1, None));
        assert!(pending.has_no_lds() && !pending.has_only_arguments());
        pending.lds(2, (7, 1, None), [None, None]);
        assert!(!pending.has_no_lds());
        pending.clear();
        pending.scalar_load(3, (4, 2), false);
        assert!(!pending.has_no_lds());
    }
}
