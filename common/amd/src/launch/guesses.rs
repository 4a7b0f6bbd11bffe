//! Branches that a race decides and of which nothing comes: a launch is executed with other values there, and has to come to the same.
//!
//! Lanes beyond what a block has elements for compute what others do, and store nothing, as Triton's do. Where the others work in place, such lanes load
//! what is overwritten meanwhile. Nothing is stored of that, but functions have branches (`tanh` of small numbers).

use std::rc::Rc;

use super::turns::{Run, Stopped};
use super::{Options, Prepared, Report};
use crate::memory::Memory;
use crate::races::{Guess, Overwrite, Races};
use crate::verdict::{Fault, Use};

/// Bytes of all buffers, beyond which a race is one.
const MOST_BYTES: usize = 64 << 20;
/// Instructions that an execution with other values may have in place of one, and besides.
const TIMES: u64 = 4;
const BESIDES: u64 = 1 << 16;

impl Prepared<'_> {
    /// What the launch did, if nothing comes of any value that a race has left open.
    pub(super) fn comes_to_the_same(
        &self,
        memory: &mut Memory,
        options: &Options,
        stopped: &Stopped,
    ) -> Option<Report> {
        let decides = |used: &Use| matches!(used, Use::Branch | Use::Exec);
        if !matches!(&stopped.raised.fault, Fault::Unwritten { used, .. } if decides(used)) {
            return None;
        }
        memory.undo();
        let mut plain = Run::new(self, memory, options, Races::recording());
        plain.run(memory).ok()?;
        let found = std::mem::take(&mut plain.races.found);
        if plain.races.beside || plain.races.renumbered {
            return None;
        }
        let before = Rc::new(plain.races.take_replaced());
        let (behind, written) = (Rc::new(memory.contents(MOST_BYTES)?), memory.count_written());
        let most = options.max_instructions.min(plain.executed.saturating_mul(TIMES).saturating_add(BESIDES));
        let bounded = Options { max_instructions: most, ..options.clone() };
        let mut is_same = |guess: Guess, planned: Vec<Overwrite>| {
            memory.undo();
            let mut run = Run::new(self, memory, &bounded, Races::guessing(guess, planned, plain.launch_start));
            run.run(memory).is_ok() && !run.races.beside && memory.has(&behind, written)
        };
        let guesses = [
            Guess::Other { before, behind: Rc::clone(&behind) },
            Guess::Any(1),
            Guess::Any(2),
            Guess::Byte(0),
            Guess::Byte(u8::MAX),
        ];
        guesses.into_iter().all(|guess| is_same(guess, found.clone())).then(|| plain.report())
    }
}
