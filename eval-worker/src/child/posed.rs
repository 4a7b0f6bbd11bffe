//! A task on the device: inputs filled, the reference's answer known.

use bluefin_common::artifact::{Role, Task};
use bluefin_common::digest::Digest;
use bluefin_common::outcome::{Failure, FailureKind};

use crate::check::Difference;
use crate::device::{Buffers, Device};
use crate::elements::is_poison;
use crate::layout::{Layout, broken_guard};
use crate::timing::{Cooling, Limits};

/// Bytes read back from the device at a time.
const CHUNK: usize = 1 << 20;

/// A task and its answer. The device memory comes and goes; the rest stays while the task is cached.
pub(super) struct Posed<D: Device> {
    /// Of the request that posed it.
    pub(super) key: Digest,
    pub(super) task: Task,
    layout: Layout,
    /// What a copy holds before a launch.
    before: Vec<u8>,
    /// What the reference left in each output; empty for inputs.
    answer: Vec<Vec<u8>>,
    memory: Option<(D::Memory, Cooling)>,
}

/// Something is not as it was or should be.
pub(super) struct Finding {
    pub(super) failure: Failure,
    /// Memory outside of the buffers was written.
    pub(super) tainted: bool,
}

impl<D: Device> Posed<D> {
    /// Makes the inputs of `task`; the reference has not run yet.
    pub(super) fn new(key: Digest, task: Task, seed: u64) -> Result<Self, Failure> {
        let layout = Layout::of(&task.buffers)?;
        let out_of_memory =
            || Failure::new(FailureKind::OutOfMemory, format!("{} bytes for the problem's buffers", layout.bytes));
        let bytes = usize::try_from(layout.bytes).map_err(|_| out_of_memory())?;
        let mut before = Vec::new();
        before.try_reserve_exact(bytes).map_err(|_| out_of_memory())?;
        before.resize(bytes, 0);
        layout.fill(&task.buffers, seed, &mut before);
        Ok(Self { key, task, layout, before, answer: Vec::new(), memory: None })
    }

    /// Bytes that it takes on the host.
    pub(super) fn bytes(&self) -> usize {
        self.before.len() + self.answer.iter().map(Vec::len).sum::<usize>()
    }

    /// Allocates and fills as many copies as keep the cache cold, unless they are there.
    pub(super) fn occupy(&mut self, device: &D, limits: &Limits) -> Result<(), Failure> {
        if self.memory.is_some() {
            return Ok(());
        }
        let stride = self.layout.bytes;
        let cooling = Cooling::choose(limits.cache, stride, device.description().cache_bytes, limits.rotation_bytes);
        let (memory, cooling) = match device.allocate(stride.saturating_mul(cooling.copies() as u64)) {
            Ok(memory) => (memory, cooling),
            // Memory is short, so one copy must do.
            Err(_) => (device.allocate(stride)?, Cooling::Flush),
        };
        for copy in 0..cooling.copies() as u64 {
            device.write(&memory, copy * stride, &self.before)?;
        }
        self.memory = Some((memory, cooling));
        Ok(())
    }

    /// How the cache is kept cold.
    pub(super) fn cooling(&self) -> Cooling {
        self.memory.as_ref().map_or(Cooling::Flush, |(_, cooling)| *cooling)
    }

    /// Frees the device memory.
    pub(super) fn vacate(&mut self) {
        self.memory = None;
    }

    /// The device memory as kernels see it.
    pub(super) fn buffers(&self) -> Result<Buffers<'_, D::Memory>, Failure> {
        let (memory, cooling) = self.memory.as_ref().ok_or_else(not_there)?;
        Ok(Buffers { memory, offsets: &self.layout.offsets, stride: self.layout.bytes, copies: cooling.copies() })
    }

    /// Puts the first copy into the state before a launch.
    pub(super) fn reset(&self, device: &D) -> Result<(), Failure> {
        let (memory, _) = self.memory.as_ref().ok_or_else(not_there)?;
        Ok(device.write(memory, 0, &self.before)?)
    }

    /// Keeps what the reference left in the first copy as the answer.
    pub(super) fn keep_answer(&mut self, device: &D) -> Result<(), Failure> {
        let (memory, _) = self.memory.as_ref().ok_or_else(not_there)?;
        let mut answer = Vec::new();
        for (buffer, (start, end)) in self.task.buffers.iter().zip(self.layout.ranges()) {
            let mut bytes = Vec::new();
            if buffer.role == Role::Output {
                bytes.resize((end - start) as usize, 0);
                device.read(memory, start, &mut bytes)?;
                let mut elements = bytes.chunks_exact(buffer.data_type.size());
                // Some elements may be none of the kernel's business (padding); all of them can not be.
                if !bytes.is_empty() && elements.all(|element| is_poison(buffer.data_type, element)) {
                    let detail = format!("output {}: none of {} elements written", buffer.name, buffer.length);
                    return Err(Failure::new(FailureKind::OutputNotWritten, detail));
                }
            }
            answer.push(bytes);
        }
        self.answer = answer;
        Ok(())
    }

    /// Looks for writes outside of the outputs in the first copy.
    pub(super) fn check_intact(&self, device: &D) -> Result<(), Finding> {
        let finding = |detail| Finding { failure: Failure::new(FailureKind::WrongResult, detail), tainted: true };
        for (index, (start, end)) in self.layout.guards().enumerate() {
            let broken =
                self.scan(device, start, end, |at, bytes, _| broken_guard(bytes).map(|byte| at + byte as u64))?;
            if let Some(byte) = broken {
                let buffer = index.checked_sub(1).and_then(|index| self.task.buffers.get(index));
                return Err(finding(match buffer {
                    Some(buffer) => {
                        format!("buffer {}: written {} bytes beyond its end", buffer.name, byte - start + 1)
                    }
                    None => format!("written {} bytes before the first buffer", end - byte),
                }));
            }
        }
        for (buffer, (start, end)) in self.task.buffers.iter().zip(self.layout.ranges()) {
            if buffer.role == Role::Output {
                continue;
            }
            let changed = self.scan(device, start, end, |at, bytes, before| {
                let same = bytes.iter().zip(before).take_while(|(now, before)| now == before).count();
                (same < bytes.len()).then(|| at + same as u64)
            })?;
            if let Some(byte) = changed {
                let element = (byte - start) / buffer.data_type.size() as u64;
                return Err(finding(format!("input {}: element {element} was modified", buffer.name)));
            }
        }
        Ok(())
    }

    /// Compares the outputs in the first copy with the answer.
    pub(super) fn check_outputs(&self, device: &D) -> Result<(), Finding> {
        let outputs = self.task.buffers.iter().zip(self.layout.ranges()).zip(&self.answer);
        for ((buffer, (start, end)), answer) in outputs {
            if buffer.role == Role::Input {
                continue;
            }
            let mut difference = Difference::default();
            self.scan(device, start, end, |at, bytes, _| {
                let from = (at - start) as usize;
                if let Some(want) = answer.get(from..from + bytes.len()) {
                    difference.compare(buffer.data_type, bytes, want, &self.task.tolerance);
                }
                None::<()>
            })?;
            if let Some(failure) = difference.failure(&buffer.name) {
                return Err(Finding { failure, tainted: false });
            }
        }
        Ok(())
    }

    /// Reads the first copy from `start` to `end` in chunks of whole elements, until `visit(offset, now, before)` finds
    /// something.
    fn scan<T>(
        &self,
        device: &D,
        start: u64,
        end: u64,
        mut visit: impl FnMut(u64, &[u8], &[u8]) -> Option<T>,
    ) -> Result<Option<T>, Finding> {
        let (memory, _) = self.memory.as_ref().ok_or_else(not_there)?;
        let mut chunk = vec![0; CHUNK.min((end - start) as usize)];
        let mut at = start;
        while at < end {
            let length = chunk.len().min((end - at) as usize);
            let now = chunk.get_mut(..length).unwrap_or_default();
            device.read(memory, at, now).map_err(Failure::from)?;
            let before = self.before.get(at as usize..at as usize + length).unwrap_or_default();
            if let Some(found) = visit(at, now, before) {
                return Ok(Some(found));
            }
            at += length as u64;
        }
        Ok(None)
    }
}

impl From<Failure> for Finding {
    fn from(failure: Failure) -> Self {
        Self { failure, tainted: false }
    }
}

fn not_there() -> Failure {
    Failure::new(FailureKind::LaunchFailure, "no problem was prepared")
}
