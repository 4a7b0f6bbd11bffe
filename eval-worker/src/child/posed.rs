//! A task on the device: inputs filled, the reference's answer known.

use std::cell::Cell;

use bluefin_common::artifact::{Role, Task};
use bluefin_common::digest::Digest;
use bluefin_common::outcome::{Failure, FailureKind};
use bluefin_common::target::Target;

use super::checker::{Checker, Places};
use crate::check::Difference;
use crate::device::{Buffers, Description, Device};
use crate::elements::is_poison;
use crate::layout::{Layout, broken_guard};
use crate::timing::{Cache, Cooling, Limits};

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
    occupied: Option<Occupied<D>>,
    /// The copy of the buffers that the next timed launch uses.
    pub(super) next: Cell<usize>,
}

/// A task's device memory: copies of its buffers to rotate through and, where the device checks, the original behind them.
struct Occupied<D: Device> {
    memory: D::Memory,
    cooling: Cooling,
    has_original: bool,
    checker: Option<Checker<D>>,
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
        Ok(Self { key, task, layout, before, answer: Vec::new(), occupied: None, next: Cell::new(0) })
    }

    /// Bytes that it takes on the host.
    pub(super) fn bytes(&self) -> usize {
        self.before.len() + self.answer.iter().map(Vec::len).sum::<usize>()
    }

    /// Allocates and fills as many copies as keep the cache cold, unless they are there. `code` is the reference's.
    pub(super) fn occupy(&mut self, device: &D, code: &[u8], limits: &Limits) -> Result<(), Failure> {
        if self.occupied.is_some() {
            return Ok(());
        }
        let stride = self.layout.bytes;
        let Description { cache_bytes, target, .. } = device.description();
        // On the host, what is in its memory is there to be read.
        let has_original = *target != Target::Host;
        let cooling = Cooling::choose(limits.cache, stride, *cache_bytes, limits.rotation_bytes);
        let extra = if has_original { stride.saturating_add(Places::REPORT_BYTES) } else { 0 };
        let wanted = stride.saturating_mul(cooling.copies() as u64).saturating_add(extra);
        let occupied = match device.allocate(wanted) {
            Ok(memory) => Occupied { memory, cooling, has_original, checker: None },
            // Memory is short, so one copy must do.
            Err(_) => {
                let cooling = if limits.cache == Cache::Warm { Cooling::Rotate(1) } else { Cooling::Flush };
                Occupied { memory: device.allocate(stride)?, cooling, has_original: false, checker: None }
            }
        };
        let sets = occupied.cooling.copies() + usize::from(occupied.has_original);
        for set in 0..sets as u64 {
            device.write(&occupied.memory, set * stride, &self.before)?;
        }
        self.occupied = Some(occupied);
        self.equip(device, code)
    }

    /// Lets the device check, once the answer is known and if `code` has what it takes.
    fn equip(&mut self, device: &D, code: &[u8]) -> Result<(), Failure> {
        let Some(occupied) = self.occupied.as_mut().filter(|occupied| occupied.has_original) else { return Ok(()) };
        if self.answer.is_empty() {
            return Ok(());
        }
        let original = occupied.cooling.copies() as u64 * self.layout.bytes;
        for (answer, (start, _)) in
            self.answer.iter().zip(self.layout.ranges()).filter(|(answer, _)| !answer.is_empty())
        {
            device.write(&occupied.memory, original + start, answer)?;
        }
        let places = Places { set: 0, original, report: original + self.layout.bytes };
        // Without, the host checks.
        occupied.checker = Checker::new(device, code, &self.task, &self.layout, &occupied.memory, &places).ok();
        Ok(())
    }

    /// How the cache is kept cold.
    pub(super) fn cooling(&self) -> Cooling {
        self.occupied.as_ref().map_or(Cooling::Flush, |occupied| occupied.cooling)
    }

    /// Frees the device memory.
    pub(super) fn vacate(&mut self) {
        self.occupied = None;
    }

    fn memory(&self) -> Result<&D::Memory, Failure> {
        let not_there = || Failure::new(FailureKind::LaunchFailure, "no problem was prepared");
        self.occupied.as_ref().map(|occupied| &occupied.memory).ok_or_else(not_there)
    }

    fn checker(&self) -> Option<&Checker<D>> {
        self.occupied.as_ref()?.checker.as_ref()
    }

    /// Whether the device compares and resets, so that the host only waits for it.
    pub(super) fn is_checked_on_device(&self) -> bool {
        self.checker().is_some()
    }

    /// The device memory as kernels see it.
    pub(super) fn buffers(&self) -> Result<Buffers<'_, D::Memory>, Failure> {
        let (memory, copies) = (self.memory()?, self.cooling().copies());
        Ok(Buffers { memory, offsets: &self.layout.offsets, stride: self.layout.bytes, copies })
    }

    /// Puts the first copy into the state before a launch.
    pub(super) fn reset(&self, device: &D) -> Result<(), Failure> {
        if let Some(checker) = self.checker() {
            // What was there before is of no interest.
            checker.turn(device, self.memory()?)?;
            return Ok(());
        }
        Ok(device.write(self.memory()?, 0, &self.before)?)
    }

    /// Judges what a launch left in the first copy. `again` repeats the launch.
    pub(super) fn judge(&self, device: &D, again: impl FnOnce() -> Result<(), Failure>) -> Result<(), Finding> {
        let Some(checker) = self.checker() else { return self.judge_on_host(device) };
        if checker.turn(device, self.memory()?).map_err(Failure::from)? {
            return Ok(());
        }
        // The device knows that something is wrong, the host says what.
        again()?;
        self.judge_on_host(device)?;
        let detail = "differs from the reference's in one of two runs with the same inputs";
        Err(Failure::new(FailureKind::WrongResult, detail).into())
    }

    fn judge_on_host(&self, device: &D) -> Result<(), Finding> {
        self.check_intact(device)?;
        self.check_outputs(device)
    }

    /// Keeps what the reference left in the first copy as the answer.
    pub(super) fn keep_answer(&mut self, device: &D, code: &[u8]) -> Result<(), Failure> {
        let memory = self.memory()?;
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
        self.equip(device, code)
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
    fn check_outputs(&self, device: &D) -> Result<(), Finding> {
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
        let memory = self.memory()?;
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
