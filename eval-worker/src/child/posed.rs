//! A task on the device: inputs filled, the reference's answer known.

use std::cell::Cell;
use std::time::Duration;

use bluefin_common::digest::Digest;
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::target::Target;
use bluefin_common::task::{Buffer, Role, Task, Tolerance};

use super::checker::{Checker, Places, Pose, is_on_device, kept, outputs};
use crate::check::{Difference, Runs, failure};
use crate::contents::{Contents, source_of};
use crate::device::{Buffers, Device, DeviceError, Refill, Saved};
use crate::elements::{fill_poison, is_poison};
use crate::layout::{CANARY, Layout, broken_guard};
use crate::protocol::Ready;
use crate::timing::{Cache, Cooling, Limits};

/// Offset of the original in a task's memory.
const ORIGINAL: u64 = 0;
/// Bytes read back from the device at a time.
const CHUNK: usize = 1 << 20;
/// What is saved lies at multiples of this, as buffers do.
const SAVED: u64 = 256;
/// A reference that took longer is not run twice.
const MAX_REPEATED: Duration = Duration::from_secs(30);

/// A task and its answer. While it is the current one it has copies of its buffers to rotate through; else only what they
/// are made from again.
pub(super) struct Posed<D: Device> {
    /// Of the request that posed it.
    pub(super) key: Digest,
    pub(super) task: Task,
    layout: Layout,
    /// Offset of each buffer of the first copy.
    offsets: Vec<u64>,
    /// Bytes of the original, with what is saved.
    origin: u64,
    sets: Sets<D>,
    /// What buffers that are read and written are filled from before each launch: behind the original.
    saved: Vec<Saved>,
    /// How far each buffer may be from the reference's: wider where two runs of the reference differ.
    tolerances: Vec<Tolerance>,
    /// How its reference ran.
    pub(super) ready: Ready,
    /// The copy of the buffers that the next timed launch uses.
    pub(super) next: Cell<usize>,
}

/// A task's device memory: the original, which has the right outputs, and what buffers that are read and written hold before a launch;
/// behind them copies of the buffers, then room for a report.
/// What a kernel writes beyond the end of a copy does not reach the original.
struct Sets<D: Device> {
    memory: D::Memory,
    cooling: Cooling,
    /// Copies; none if the task is not the current one.
    copies: u64,
    checker: Option<Checker<D>>,
}

/// Something is not as it was or should be.
pub(super) struct Finding {
    pub(super) failure: Failure,
    /// Memory outside of the buffers was written.
    pub(super) tainted: bool,
}

impl<D: Device> Posed<D> {
    /// Makes inputs from `seed` and `data`, as many copies of the buffers as keep the cache cold, and the answer with `ask`, which runs
    /// the reference on the first copy and says how long that took. `module` is the reference's.
    pub(super) fn new(
        device: &D,
        module: &D::Module,
        (key, task, seed): (Digest, Task, u64),
        data: &[Vec<u8>],
        limits: &Limits,
        ask: impl Fn(&Self) -> Result<Duration, Failure>,
    ) -> Result<Self, Failure> {
        let layout = Layout::of(&task.buffers)?;
        let contents = Contents::of(&task.buffers, data)?;
        let saved = saved(&task, &layout);
        let origin =
            saved.iter().map(|saved| saved.bytes.next_multiple_of(SAVED)).fold(layout.bytes, u64::saturating_add);
        let sets = Sets::allocate(device, (layout.bytes, origin), !saved.is_empty(), limits)?;
        let offsets = layout.offsets.iter().map(|offset| origin + offset).collect();
        let saved = saved.into_iter().map(|saved| Saved { to: origin + saved.to, ..saved }).collect();
        let tolerances = vec![task.tolerance; task.buffers.len()];
        let (ready, next) = (Ready::default(), Cell::new(0));
        let mut posed = Self { key, task, layout, offsets, origin, sets, saved, tolerances, ready, next };
        posed.equip(device, module, seed);
        posed.make_buffers(device, &contents, seed)?;
        posed.copy(device, posed.first(), ORIGINAL, (0, posed.layout.bytes))?;
        for Saved { from, to, bytes } in &posed.saved {
            let memory = &posed.sets.memory;
            device.copy((memory, *to), (memory, *from), *bytes)?;
        }
        posed.copy_first(device)?;
        posed.ready.first_run = ask(&posed)?;
        posed.keep_answer(device)?;
        if posed.ready.first_run <= MAX_REPEATED {
            posed.reset(device)?;
            ask(&posed)?;
            if posed.compare_runs(device)? {
                posed.equip(device, module, seed);
            }
        }
        Ok(posed)
    }

    /// Makes what the first copy holds before a launch.
    fn make_buffers(&self, device: &D, contents: &Contents<'_>, seed: u64) -> Result<(), DeviceError> {
        if let Some(checker) = &self.sets.checker {
            checker.pose(device)?;
        }
        let write = |at, bytes: &[u8]| device.write(&self.sets.memory, self.first() + at, bytes);
        for one in self.task.buffers.iter().enumerate() {
            if self.sets.checker.is_none() || !is_on_device(one.1) {
                let source = self.source(device, one.1)?;
                self.layout.fill_one(one, (contents, &source), seed, write)?;
            }
        }
        self.fill_guards(device)
    }

    /// What is in the buffer that `buffer` has rows of, which was made before it; nothing where it has none.
    fn source(&self, device: &D, buffer: &Buffer) -> Result<Vec<u8>, DeviceError> {
        let source = source_of(buffer).and_then(|index| self.layout.ranges().nth(index));
        let Some((start, end)) = source else { return Ok(Vec::new()) };
        let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(usize::MAX)];
        device.read(&self.sets.memory, self.first() + start, &mut bytes)?;
        Ok(bytes)
    }

    /// Compares what a second run of the reference left in the first copy with the answer. Where both differ, elements may be as much
    /// further from the answer; whether any do.
    fn compare_runs(&mut self, device: &D) -> Result<bool, Failure> {
        if let Some(checker) = &self.sets.checker
            && checker.is_same(device, &self.sets.memory)?
        {
            return Ok(false);
        }
        for (index, range) in self.layout.ranges().enumerate() {
            let Some(buffer) = self.task.buffers.get(index).filter(|buffer| buffer.role.is_written()) else { continue };
            let mut runs = Runs::default();
            self.compare(device, range, |_, again, answer| {
                runs.compare(buffer.data_type, again, answer);
                None::<()>
            })?;
            if runs.differ() {
                self.ready.nondeterministic.push(buffer.name.clone());
                self.tolerances.get_mut(index).into_iter().for_each(|tolerance| *tolerance = runs.widen(tolerance));
            }
        }
        Ok(!self.ready.nondeterministic.is_empty())
    }

    /// Lets the device check, if the reference's module has what it takes; the host does otherwise.
    fn equip(&mut self, device: &D, module: &D::Module, seed: u64) {
        // On the host what is in memory is there to be read, and a shared object has no entries of this kind.
        if device.description().target == Target::Host {
            return;
        }
        let report = self.first() + self.sets.copies * self.layout.bytes;
        let places = Places { set: self.first(), original: ORIGINAL, report };
        let (tolerances, saved) = (&self.tolerances, &self.saved);
        let pose = Pose { task: &self.task, layout: &self.layout, tolerances, saved, seed };
        let Sets { memory, .. } = &self.sets;
        self.sets.checker = Checker::new(device, module, pose, memory, &places).ok();
    }

    fn fill_guards(&self, device: &D) -> Result<(), DeviceError> {
        let mut guards = self.layout.guards();
        guards.try_for_each(|(start, end)| device.fill(&self.sets.memory, self.first() + start, CANARY, end - start))
    }

    /// Offset of the first copy.
    fn first(&self) -> u64 {
        self.origin
    }

    /// Makes all copies what the first one is.
    fn copy_first(&self, device: &D) -> Result<(), DeviceError> {
        for copy in 1..self.sets.copies {
            self.copy(device, self.first(), self.first() + copy * self.layout.bytes, (0, self.layout.bytes))?;
        }
        Ok(())
    }

    /// Whether it has copies to run in.
    pub(super) fn is_ready(&self) -> bool {
        self.sets.copies > 0
    }

    /// Copies what lies between two offsets of a set from the set at `from` to that at `to`.
    fn copy(&self, device: &D, from: u64, to: u64, (start, end): (u64, u64)) -> Result<(), DeviceError> {
        let Sets { memory, .. } = &self.sets;
        device.copy((memory, from + start), (memory, to + start), end - start)
    }

    /// Keeps what the reference left in the first copy as the answer.
    fn keep_answer(&self, device: &D) -> Result<(), Failure> {
        self.check_intact(device).map_err(|finding| finding.failure)?;
        for (buffer, range) in outputs(&self.task, &self.layout) {
            if buffer.role == Role::InOut {
                // One that changes nothing may be right.
                self.copy(device, self.first(), ORIGINAL, range)?;
                continue;
            }
            // Some elements may be none of the kernel's business (padding); all of them can not be.
            let written = self.scan(device, range, |_, bytes| {
                bytes.chunks(buffer.data_type.size()).any(|element| !is_poison(buffer.data_type, element)).then_some(())
            })?;
            if written.is_none() && range.0 < range.1 {
                let detail = format!("output {}: none of {} elements written", buffer.name, buffer.length);
                return Err(Failure::new(FailureKind::OutputNotWritten, detail));
            }
            self.copy(device, self.first(), ORIGINAL, range)?;
        }
        Ok(())
    }

    /// Gives up all memory but that of the original.
    pub(super) fn pack(&mut self, device: &D) -> Result<(), DeviceError> {
        if !self.is_ready() {
            return Ok(());
        }
        let bytes = self.origin;
        let memory = device.allocate(bytes)?;
        device.copy((&self.sets.memory, ORIGINAL), (&memory, ORIGINAL), bytes)?;
        self.sets = Sets { memory, cooling: Cooling::Evict(1), copies: 0, checker: None };
        Ok(())
    }

    /// Makes the copies of a packed task again. `module` is the reference's.
    pub(super) fn unpack(&mut self, device: &D, module: &D::Module, seed: u64, limits: &Limits) -> Result<(), Failure> {
        let sets = Sets::allocate(device, (self.layout.bytes, self.origin), !self.saved.is_empty(), limits)?;
        let packed = std::mem::replace(&mut self.sets, sets);
        device.copy((&packed.memory, ORIGINAL), (&self.sets.memory, ORIGINAL), self.origin)?;
        self.equip(device, module, seed);
        self.reset(device)?;
        self.copy_first(device)?;
        self.next.set(0);
        Ok(())
    }

    /// Bytes that it takes while it is not the current one.
    pub(super) fn bytes(&self) -> u64 {
        self.origin
    }

    /// What has to be filled before each launch, if there is such.
    pub(super) fn refill(&self) -> Option<Refill<'_, D::Memory>> {
        let refill = Refill { memory: &self.sets.memory, saved: &self.saved, stride: self.layout.bytes };
        (!self.saved.is_empty()).then_some(refill)
    }

    /// How the cache is kept cold.
    pub(super) fn cooling(&self) -> Cooling {
        self.sets.cooling
    }

    /// Whether the device compares and resets, so that the host only waits for it.
    pub(super) fn is_checked_on_device(&self) -> bool {
        self.sets.checker.is_some()
    }

    /// The copies as kernels see them.
    pub(super) fn buffers(&self) -> Buffers<'_, D::Memory> {
        let Sets { memory, copies, .. } = &self.sets;
        let copies = usize::try_from(*copies).unwrap_or(1).max(1);
        Buffers { memory, offsets: &self.offsets, stride: self.layout.bytes, copies }
    }

    /// Puts the first copy into the state before a launch.
    pub(super) fn reset(&self, device: &D) -> Result<(), Failure> {
        match &self.sets.checker {
            // What was there before is of no interest.
            Some(checker) => checker.turn(device, &self.sets.memory).map(drop)?,
            None => self.restore(device)?,
        }
        Ok(())
    }

    /// Does so from the host, where the device has no entries for it.
    fn restore(&self, device: &D) -> Result<(), DeviceError> {
        for range in kept(&self.task, &self.layout) {
            self.copy(device, ORIGINAL, self.first(), range)?;
        }
        let mut poison = Vec::new();
        for Saved { from, to, bytes } in &self.saved {
            device.copy((&self.sets.memory, *from), (&self.sets.memory, *to), *bytes)?;
        }
        let poisoned = outputs(&self.task, &self.layout).filter(|(buffer, _)| buffer.role == Role::Output);
        for (buffer, (start, end)) in poisoned {
            poison.resize(CHUNK.min((end - start) as usize), 0);
            fill_poison(buffer.data_type, &mut poison);
            for at in (start..end).step_by(CHUNK) {
                let bytes = poison.get(..CHUNK.min((end - at) as usize)).unwrap_or_default();
                device.write(&self.sets.memory, self.first() + at, bytes)?;
            }
        }
        Ok(())
    }

    /// Judges what a launch left in the first copy. `again` repeats the launch.
    pub(super) fn judge(&self, device: &D, again: impl FnOnce() -> Result<(), Failure>) -> Result<(), Finding> {
        let Some(checker) = &self.sets.checker else { return self.judge_on_host(device) };
        if checker.turn(device, &self.sets.memory).map_err(Failure::from)? {
            return Ok(());
        }
        // The device knows that something is wrong, the host says what.
        again()?;
        self.judge_on_host(device)?;
        let detail = "differs from the reference's in one of two runs with the same inputs";
        Err(Failure::new(FailureKind::WrongResult, detail).into())
    }

    fn judge_on_host(&self, device: &D) -> Result<(), Finding> {
        self.check_guards(device)?;
        self.check_inputs(device)?;
        self.check_outputs(device)
    }

    /// Looks for writes outside of the outputs in the first copy.
    fn check_intact(&self, device: &D) -> Result<(), Finding> {
        if let Some(checker) = &self.sets.checker
            && checker.is_intact(device, &self.sets.memory).map_err(Failure::from)?
        {
            return Ok(());
        }
        self.check_guards(device)?;
        self.check_inputs(device)
    }

    fn check_guards(&self, device: &D) -> Result<(), Finding> {
        for (index, (start, end)) in self.layout.guards().enumerate() {
            let broken =
                self.scan(device, (start, end), |at, bytes| broken_guard(bytes).map(|byte| at + byte as u64))?;
            if let Some(byte) = broken {
                let buffer = index.checked_sub(1).and_then(|index| self.task.buffers.get(index));
                return Err(tainted(match buffer {
                    Some(buffer) => {
                        format!("buffer {}: written {} bytes beyond its end", buffer.name, byte - start + 1)
                    }
                    None => format!("written {} bytes before the first buffer", end - byte),
                }));
            }
        }
        Ok(())
    }

    fn check_inputs(&self, device: &D) -> Result<(), Finding> {
        for (buffer, range) in self.task.buffers.iter().zip(self.layout.ranges()) {
            if buffer.role.is_written() {
                continue;
            }
            let changed = self.compare(device, range, |at, now, original| {
                let same = now.iter().zip(original).take_while(|(now, original)| now == original).count();
                (same < now.len()).then(|| at + same as u64)
            })?;
            if let Some(byte) = changed {
                let element = (byte - range.0) / buffer.data_type.size() as u64;
                return Err(tainted(format!("input {}: element {element} was modified", buffer.name)));
            }
        }
        Ok(())
    }

    /// Compares the outputs in the first copy with the answer.
    fn check_outputs(&self, device: &D) -> Result<(), Finding> {
        let all = self.task.buffers.iter().zip(self.layout.ranges()).zip(&self.tolerances);
        let mut outputs = Vec::new();
        for ((buffer, range), tolerance) in all.filter(|((buffer, _), _)| buffer.role.is_written()) {
            let mut difference = Difference::default();
            self.compare(device, range, |_, now, answer| {
                difference.compare(buffer.data_type, now, answer, tolerance);
                None::<()>
            })?;
            outputs.push((buffer.name.as_str(), difference));
        }
        failure(outputs).map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// Reads what lies between two offsets of the first copy beside the same of the original, in chunks of whole elements,
    /// until `visit(offset, copy, original)` finds something.
    fn compare<T>(
        &self,
        device: &D,
        range: (u64, u64),
        mut visit: impl FnMut(u64, &[u8], &[u8]) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let mut original = vec![0; CHUNK.min((range.1 - range.0) as usize)];
        let mut error = None;
        let found = self.scan(device, range, |at, bytes| {
            let original = original.get_mut(..bytes.len()).unwrap_or_default();
            match device.read(&self.sets.memory, ORIGINAL + at, original) {
                Ok(()) => visit(at, bytes, original).map(Some),
                Err(failed) => {
                    error = Some(failed);
                    Some(None)
                }
            }
        })?;
        error.map_or_else(|| Ok(found.flatten()), |error| Err(error.into()))
    }

    /// Reads what lies between two offsets of the first copy in chunks of whole elements, until `visit(offset, bytes)` finds
    /// something.
    fn scan<T>(
        &self,
        device: &D,
        (start, end): (u64, u64),
        mut visit: impl FnMut(u64, &[u8]) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let mut chunk = vec![0; CHUNK.min((end - start) as usize)];
        for at in (start..end).step_by(CHUNK) {
            let bytes = chunk.get_mut(..CHUNK.min((end - at) as usize)).unwrap_or_default();
            device.read(&self.sets.memory, self.first() + at, bytes)?;
            if let Some(found) = visit(at, bytes) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

impl<D: Device> Sets<D> {
    /// Memory for an original of `origin` bytes and as many copies of `set_bytes` as keep the cache cold, or for one where memory is
    /// short. `refilled`: buffers are filled before each launch.
    fn allocate(
        device: &D,
        (set_bytes, origin): (u64, u64),
        refilled: bool,
        limits: &Limits,
    ) -> Result<Self, DeviceError> {
        let allocate = |cooling: Cooling| {
            let copies = cooling.copies() as u64;
            let bytes = set_bytes.saturating_mul(copies).saturating_add(origin).saturating_add(Places::REPORT_BYTES);
            Ok(Self { memory: device.allocate(bytes)?, cooling, copies, checker: None })
        };
        let caches = device.description().caches;
        let cooling = Cooling::choose(limits.cache, set_bytes, caches, limits.rotation_bytes, refilled);
        allocate(cooling).or_else(|_: DeviceError| {
            allocate(if limits.cache == Cache::Warm { Cooling::Rotate(1) } else { Cooling::Evict(1) })
        })
    }
}

/// What is to be saved of the buffers that are read and written: where to, behind the original, and from where in a set.
fn saved(task: &Task, layout: &Layout) -> Vec<Saved> {
    let mut at = layout.bytes;
    let read_and_written = task.buffers.iter().zip(layout.ranges()).filter(|(buffer, _)| buffer.role == Role::InOut);
    let saved = read_and_written.map(|(_, (start, end))| {
        let saved = Saved { from: at, to: start, bytes: end - start };
        at = at.saturating_add(saved.bytes.next_multiple_of(SAVED));
        saved
    });
    saved.collect()
}

fn tainted(detail: String) -> Finding {
    Finding { failure: Failure::new(FailureKind::WrongResult, detail), tainted: true }
}

impl From<Failure> for Finding {
    fn from(failure: Failure) -> Self {
        Self { failure, tainted: false }
    }
}
