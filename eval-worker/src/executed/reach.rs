//! How far kernels go in buffers whose lengths nobody knows.

use bluefin_common::artifact::Built;
use bluefin_common::failure::Attempt;
use bluefin_common::task::{Buffer, Task};

use super::{Ended, Executor, Loaded, Placed, contents, fits};

/// Elements of buffers before it is known how far kernels go in them.
const SHORT: u64 = 16;

impl Executor {
    /// How many elements of each buffer of `task` the launches of `built`, which are in `loaded`, go as far as. They are executed with short
    /// buffers first: one that they touch behind its end grows, and they are executed again.
    ///
    /// # Errors
    /// If that can not be done, or does not end well for another reason.
    pub fn reach(&self, task: &Task, built: &Built, loaded: &Loaded) -> Attempt<Vec<u64>> {
        let mut buffers = task.buffers.clone();
        buffers.iter_mut().for_each(|buffer| buffer.length = SHORT);
        // What they are known to need, each.
        let mut needed = vec![0; buffers.len()];
        let touched = loop {
            match self.touched(&buffers, task, built, loaded)? {
                Ok(touched) => break touched,
                Err(beyond) => grow(&mut buffers, &mut needed, &beyond)?,
            }
        };
        // What a wave loads as a whole leaves no trace: such a buffer is made shorter until it is too short.
        for at in 0..buffers.len() {
            let (Some(touched), Some(needed)) = (touched.get(at), needed.get_mut(at)) else { continue };
            *needed = (*needed).max(*touched);
            let is_traced = *needed == *touched;
            let length_of = |buffers: &[Buffer]| buffers.get(at).map_or(0, |buffer| buffer.length);
            while !is_traced && *needed < length_of(&buffers) {
                let length = length_of(&buffers);
                let middle = needed.midpoint(length);
                let mut shorter = buffers.clone();
                shorter.iter_mut().skip(at).take(1).for_each(|buffer| buffer.length = middle);
                match self.touched(&shorter, task, built, loaded)? {
                    Ok(_) => buffers = shorter,
                    Err(Beyond { element, .. }) => *needed = element.saturating_add(1).clamp(middle + 1, length),
                }
            }
        }
        Ok(needed)
    }

    /// How many elements of each buffer leave a trace of a touch, or else which element was touched that is not there.
    fn touched(
        &self,
        buffers: &[Buffer],
        task: &Task,
        built: &Built,
        loaded: &Loaded,
    ) -> Attempt<Result<Vec<u64>, Beyond>> {
        let before = contents::<&[u8]>(buffers, &[], self.options.seed)?;
        let mut placed = Placed::new(buffers, &before, built.workspace)?;
        match self.run(&mut placed, task.last_draw(built), loaded, None) {
            Ok(_) => {
                let touched = placed.addresses.iter().map(|address| placed.memory.touched(*address).unwrap_or(0));
                let sizes = buffers.iter().map(|buffer| buffer.data_type.size() as u64);
                Ok(Ok(touched.zip(sizes).map(|(bytes, size)| bytes.div_ceil(size)).collect()))
            }
            Err(Ended { failure, beyond }) => match beyond {
                Some((name, element)) => {
                    let at = buffers.iter().position(|buffer| buffer.name == name && element >= buffer.length);
                    at.map(|buffer| Err(Beyond { buffer, element })).ok_or(failure)
                }
                None => Err(failure),
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

/// Makes the buffer that is too short longer than what it needs at least.
fn grow(buffers: &mut [Buffer], needed: &mut [u64], &Beyond { buffer: at, element }: &Beyond) -> Attempt<()> {
    if let (Some(buffer), Some(needed)) = (buffers.get_mut(at), needed.get_mut(at)) {
        *needed = element.saturating_add(1);
        buffer.length = buffer.length.saturating_mul(2).max(*needed);
    }
    fits(buffers.iter().map(Buffer::bytes).fold(0, u64::saturating_add))
}
