//! The other side of a race. Marks say which wave it was, not by which instruction: the launch is executed again, in the same order, and
//! what touches the place is written down until the race is met.

use std::collections::HashMap;

use crate::verdict::{Fault, Other, Place};

/// A wave: its block, and its number there.
type Who = ([u32; 3], u32);

/// A place that is watched, and who meets the race there.
pub(crate) struct Watch {
    /// The place, as places are called among those of atomics.
    key: u64,
    who: Who,
    at: usize,
    fault: Fault,
    /// Who executes what.
    now: (Who, usize),
    /// By wave and whether it wrote: the last instruction that touched the place, and how many had before.
    touches: HashMap<(Who, bool), (usize, usize)>,
    count: usize,
    met: bool,
}

impl Watch {
    /// For the race that a wave has met by an instruction.
    pub fn new(key: u64, block: [u32; 3], wave: u32, at: usize, fault: Fault) -> Self {
        let who = (block, wave);
        Self { key, who, at, fault, now: (who, usize::MAX), touches: HashMap::new(), count: 0, met: false }
    }

    /// Whether the wave that meets the race is of this block.
    pub fn is_of(&self, block: [u32; 3]) -> bool {
        self.who.0 == block
    }

    /// A wave executes an access of these ranges: where each begins, and its bytes. `reads` and `writes` say of what kind it is.
    pub fn touch(
        &mut self,
        (block, wave, at): ([u32; 3], u32, usize),
        (reads, writes): (bool, bool),
        mut ranges: impl Iterator<Item = (u64, u64)>,
    ) {
        self.now = ((block, wave), at);
        if self.met || !ranges.any(|(from, bytes)| (from..from + bytes).contains(&self.key)) {
            return;
        }
        self.count += 1;
        for wrote in [false, true].into_iter().filter(|wrote| if *wrote { writes } else { reads }) {
            self.touches.insert(((block, wave), wrote), (at, self.count));
        }
    }

    /// An access has met a race: what touches the place from now on does not matter if it is the one that is looked for.
    pub fn meet(&mut self, found: &Fault) {
        let parts = |fault: &Fault| match fault {
            Fault::Race { access, place, other, wrote, .. } => Some((*access, place.clone(), other.clone(), *wrote)),
            _ => None,
        };
        self.met |= self.now == (self.who, self.at) && parts(found) == parts(&self.fault);
    }

    /// The last instruction by which the other side touched the place.
    pub fn other(&self) -> Option<usize> {
        let Fault::Race { other, wrote, .. } = &self.fault else { return None };
        let (own, wave) = self.who;
        let is_other = |of: &Who| match other {
            Other::Lane(_) => false,
            Other::Wave(number) => *of == (own, *number),
            Other::Waves => of.0 == own && of.1 != wave,
            Other::Block(id) => of.0 == *id,
            Other::Blocks => of.0 != own,
        };
        let all = self.touches.iter().filter(|((who, did), _)| did == wrote && is_other(who));
        all.map(|(_, (at, count))| (count, *at)).max().map(|(_, at)| at)
    }

    /// Whether a race is between two instructions, and of which place, if that can be watched.
    pub fn place(fault: &Fault) -> Option<&Place> {
        match fault {
            Fault::Race { other: Other::Lane(_), .. } => None,
            Fault::Race { place, .. } => Some(place),
            _ => None,
        }
    }
}
