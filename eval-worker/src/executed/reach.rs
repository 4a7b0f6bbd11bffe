//! How far kernels go in buffers whose lengths nobody knows.

use std::collections::BTreeMap;

use bluefin_common::artifact::Built;
use bluefin_common::failure::Failure;
use bluefin_common::task::{Buffer, Task};

use super::{Ended, Executor, Loaded, Placed, contents, fits};

/// Elements of buffers before it is known how far kernels go in them.
const SHORT: u64 = 16;
/// How much longer one grows that was too short, up to so many elements, and behind that.
const GROWTH: [u64; 2] = [4, 2];
const LONG: u64 = 1 << 20;
/// How often lengths between what is needed and what is enough are tried; then they are what is enough.
const MOST_TRIES: u64 = 64;
/// The same of launches that execute much: all together as much as so many of them may.
const MOST_WHOLE: u64 = 2;
/// Tries of those that execute the most.
const LEAST_TRIES: u64 = 4;

/// Why it is not known how far launches go.
#[derive(Clone, Debug)]
pub struct Unreached {
    /// What came of them.
    pub failure: Failure,
    /// Whether other blocks, or other numbers of them, may end well.
    pub of_launch: bool,
    /// Elements of the buffers in which they went farther than at first, by name, up to there.
    pub needed: BTreeMap<String, u64>,
}

impl From<Failure> for Unreached {
    fn from(failure: Failure) -> Self {
        Self { failure, of_launch: false, needed: BTreeMap::new() }
    }
}

impl Executor {
    /// How many elements of each buffer of `task` the launches of `built`, which are in `loaded`, go as far as. They are executed with short
    /// buffers first: one that they touch behind its end grows, and they are executed again.
    ///
    /// # Errors
    /// If that can not be done, or does not end well for another reason.
    pub fn reach(&self, task: &Task, built: &Built, loaded: &Loaded) -> Result<Vec<u64>, Unreached> {
        let mut most = vec![SHORT; task.buffers.len()];
        self.farthest(&mut most, task, built, loaded).map_err(|unreached| {
            let lengths = task.buffers.iter().map(|buffer| buffer.name.clone()).zip(most);
            Unreached { needed: lengths.filter(|(_, length)| *length > SHORT).collect(), ..unreached }
        })
    }

    /// The same, with the lengths that are tried last in `most`.
    fn farthest(&self, most: &mut [u64], task: &Task, built: &Built, loaded: &Loaded) -> Result<Vec<u64>, Unreached> {
        let run = |lengths: &[u64]| self.touched(&with_lengths(task, lengths), task, built, loaded);
        // What they need at least.
        let mut least = vec![0; task.buffers.len()];
        let (touched, executed) = loop {
            match run(&*most)? {
                Ok(touched) => break touched,
                Err(Beyond { buffer, element }) => {
                    let needed = element.saturating_add(1);
                    set(&mut least, buffer, needed);
                    let length = most.get(buffer).copied().unwrap_or(SHORT);
                    let growth = if length < LONG { GROWTH[0] } else { GROWTH[1] };
                    set(most, buffer, length.saturating_mul(growth).max(needed));
                    fits(with_lengths(task, most).iter().map(Buffer::bytes).fold(0, u64::saturating_add))?;
                }
            }
        };
        least.iter_mut().zip(touched).for_each(|(least, touched)| *least = touched.max(*least));
        // What a wave loads as a whole leaves no trace: they are executed with what is known to be needed, and where that is too short, what it
        // takes is between that and what was enough.
        let tries = (self.options.max_instructions * MOST_WHOLE).checked_div(executed).unwrap_or(MOST_TRIES);
        for _ in 0..tries.clamp(LEAST_TRIES, MOST_TRIES) {
            let Err(Beyond { buffer, element }) = run(&least)? else { return Ok(least) };
            let enough = most.get(buffer).copied().unwrap_or(SHORT);
            let needed = element.saturating_add(1).min(enough);
            set(&mut least, buffer, needed);
            let middle = needed.midpoint(enough);
            let mut lengths = most.to_vec();
            set(&mut lengths, buffer, middle);
            match run(&lengths)? {
                Ok(_) => set(most, buffer, middle),
                Err(beyond) if beyond.buffer == buffer => {
                    set(&mut least, buffer, beyond.element.saturating_add(1).clamp(needed, enough));
                }
                Err(_) => {}
            }
        }
        Ok(most.to_vec())
    }

    /// How many elements of each buffer leave a trace of a touch, and how much was executed, or else which element was touched that is not there.
    fn touched(
        &self,
        buffers: &[Buffer],
        task: &Task,
        built: &Built,
        loaded: &Loaded,
    ) -> Result<Result<(Vec<u64>, u64), Beyond>, Unreached> {
        let before = contents::<&[u8]>(buffers, &[], self.options.seed)?;
        let mut placed = Placed::new(buffers, &before, built.workspace)?;
        match self.run(&mut placed, task.last_draw(built), loaded, None) {
            Ok(executed) => {
                let touched = placed.addresses.iter().map(|address| placed.memory.touched(*address).unwrap_or(0));
                let sizes = buffers.iter().map(|buffer| buffer.data_type.size() as u64);
                let elements = touched.zip(sizes).map(|(bytes, size)| bytes.div_ceil(size));
                Ok(Ok((elements.collect(), executed.instructions)))
            }
            Err(Ended { failure, beyond, of_launch }) => match beyond {
                Some((name, element)) => {
                    let at = buffers.iter().position(|buffer| buffer.name == name && element >= buffer.length);
                    at.map(|buffer| Err(Beyond { buffer, element }))
                        .ok_or(Unreached { of_launch, ..Unreached::from(failure) })
                }
                None => Err(Unreached { of_launch, ..Unreached::from(failure) }),
            },
        }
    }
}

/// An element behind the end of a buffer.
struct Beyond {
    /// Where the task has it.
    buffer: usize,
    element: u64,
}

fn set(lengths: &mut [u64], at: usize, length: u64) {
    if let Some(place) = lengths.get_mut(at) {
        *place = length;
    }
}

/// The buffers of a task with other lengths.
fn with_lengths(task: &Task, lengths: &[u64]) -> Vec<Buffer> {
    let buffers = task.buffers.iter().zip(lengths);
    buffers.map(|(buffer, length)| Buffer { length: (*length).max(1), ..buffer.clone() }).collect()
}
