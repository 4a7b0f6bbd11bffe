//! Checks on the device: with entries that the compile worker puts into the artifact of a reference on a GPU
//! (`compile-worker/src/check.hip`), inputs are made, outputs compared and inputs restored where they are. Moving a problem's
//! buffers between host and device for every candidate takes longer than timing it.

#[cfg(test)]
mod emulated;

use bluefin_common::artifact::{Argument, Launch};
use bluefin_common::problem::DataType;
use bluefin_common::task::{Buffer, Content, Role, Task, Tolerance};

use crate::device::{Buffers, Device, DeviceError, Saved};
use crate::elements::{encode, fill_poison};
use crate::layout::{self, Layout};

/// Threads of a block, as the entries have it.
const BLOCK: u32 = 256;
/// Blocks of a launch at most: enough for the memory of any GPU.
const BLOCKS: u32 = 2048;
/// Bytes that a thread moves or compares at once in what is long, by the entries that take least.
const VECTOR: u64 = 8;
/// Bytes of shared memory that a compiler may add up counts in.
const SHARED: u32 = 64;
/// Null pointers that a compiler may add to the parameters of an entry, as Triton does; one that does not takes none of them.
const HIDDEN: [Argument; 2] = [const { Argument::I64(0) }; 2];
/// What ranges longer than this are cut at a multiple of, so that the entries move vectors.
const ALIGNMENT: u64 = 256;
/// Bytes of the two counts of a report.
const REPORT: usize = 16;

/// Makes what one set of buffers holds, compares it with another, the original, and makes it ready for the next candidate.
pub(super) struct Checker<D: Device> {
    pose: D::Bound,
    intact: Comparison<D>,
    same: Comparison<D>,
    turn: Comparison<D>,
}

/// Launches that end with a report, and what it must have counted if all of them ran.
struct Comparison<D: Device> {
    bound: D::Bound,
    report: u64,
    expected: u64,
}

/// What inputs are made of and outputs compared by.
pub(super) struct Pose<'a> {
    pub(super) task: &'a Task,
    pub(super) layout: &'a Layout,
    /// How far each buffer may be from the reference's.
    pub(super) tolerances: &'a [Tolerance],
    /// What buffers that are read and written are filled from, in the order of the buffers.
    pub(super) saved: &'a [Saved],
    /// Of the inputs.
    pub(super) seed: u64,
}

/// Where what is compared lies, in one piece of memory.
pub(super) struct Places {
    /// The set that candidates are checked in.
    pub(super) set: u64,
    /// One with the same inputs and guards, and the right outputs.
    pub(super) original: u64,
    /// [`Places::REPORT_BYTES`] of memory.
    pub(super) report: u64,
}

impl Places {
    pub(super) const REPORT_BYTES: u64 = ALIGNMENT;
}

impl<D: Device> Checker<D> {
    /// From the reference's artifact.
    ///
    /// # Errors
    /// If the artifact has no entries for it.
    pub(super) fn new(
        device: &D,
        module: &D::Module,
        Pose { task, layout, tolerances, saved, seed }: Pose<'_>,
        memory: &D::Memory,
        places: &Places,
    ) -> Result<Self, DeviceError> {
        let bind = |plan: &Plan| {
            let buffers = Buffers { memory, offsets: &plan.offsets, stride: 0, copies: 1 };
            device.bind(module, &plan.launches, &buffers, None)
        };
        let compare = |plan: &Plan| -> Result<_, DeviceError> {
            Ok(Comparison { bound: bind(plan)?, report: places.report, expected: plan.expected })
        };
        let mut pose = Plan::default();
        for (index, (buffer, (start, end))) in (0..).zip(task.buffers.iter().zip(layout.ranges())) {
            match (buffer.role, buffer.content) {
                (Role::Output, _) => pose.poison(places.set + start, end - start, buffer.data_type),
                (_, Content::Random) => pose.random(places.set + start, buffer, layout::seed_of(seed, index)),
                (_, Content::Fill(value)) => {
                    pose.fill(places.set + start, (end - start).div_ceil(4), pattern(buffer.data_type, value));
                }
                (_, Content::Uniform { low, high }) if is_on_device(buffer) => {
                    pose.range(places.set + start, buffer, layout::seed_of(seed, index), (low, high));
                }
                // The host has them.
                (
                    _,
                    Content::Uniform { .. }
                    | Content::Data(_)
                    | Content::Drawn { .. }
                    | Content::Rows { .. }
                    | Content::Steps { .. },
                ) => {}
            }
        }
        let mut intact = Plan::default();
        let report = intact.report(places.report);
        intact.same_as_original(task, layout, places, &report);
        let mut same = Plan::default();
        let report = same.report(places.report);
        for (buffer, (start, _)) in outputs(task, layout) {
            same.close(places, start, buffer, Tolerance { absolute: 0.0, relative: 0.0 }, &report);
        }
        let mut turn = Plan::default();
        let report = turn.report(places.report);
        turn.same_as_original(task, layout, places, &report);
        for ((buffer, (start, _)), tolerance) in task.buffers.iter().zip(layout.ranges()).zip(tolerances) {
            if buffer.role.is_written() {
                turn.close(places, start, buffer, *tolerance, &report);
            }
        }
        // Whole words of poison may reach into the guard behind, so guards are restored after it.
        for (buffer, (start, end)) in outputs(task, layout).filter(|(buffer, _)| buffer.role == Role::Output) {
            turn.poison(places.set + start, end - start, buffer.data_type);
        }
        for saved in saved {
            turn.copy(saved.to, saved.from, saved.bytes);
        }
        for (start, end) in kept(task, layout) {
            turn.copy(places.set + start, places.original + start, end - start);
        }
        let (pose, intact) = (bind(&pose)?, compare(&intact)?);
        Ok(Self { pose, intact, same: compare(&same)?, turn: compare(&turn)? })
    }

    /// Makes the inputs but those that the host has, and poisons the outputs; the guards are to be made after it.
    pub(super) fn pose(&self, device: &D) -> Result<(), DeviceError> {
        device.run(&self.pose, 0)
    }

    /// Whether nothing but outputs was written since the set was as the original.
    pub(super) fn is_intact(&self, device: &D, memory: &D::Memory) -> Result<bool, DeviceError> {
        self.intact.run(device, memory)
    }

    /// Whether the outputs are those of the original, element by element.
    pub(super) fn is_same(&self, device: &D, memory: &D::Memory) -> Result<bool, DeviceError> {
        self.same.run(device, memory)
    }

    /// Whether the set was as it should be after a launch. Its inputs and guards are restored then, its outputs poisoned.
    pub(super) fn turn(&self, device: &D, memory: &D::Memory) -> Result<bool, DeviceError> {
        self.turn.run(device, memory)
    }
}

impl<D: Device> Comparison<D> {
    /// Whether all was compared, and nothing was wrong.
    fn run(&self, device: &D, memory: &D::Memory) -> Result<bool, DeviceError> {
        device.run(&self.bound, 0)?;
        let mut report = [0; REPORT];
        device.read(memory, self.report, &mut report)?;
        let count = |half: &[u8]| half.try_into().map_or(u64::MAX, u64::from_ne_bytes);
        let (compared, wrong) = report.split_at(REPORT / 2);
        Ok(count(compared) == self.expected && count(wrong) == 0)
    }
}

/// Launches with their addresses.
#[derive(Default)]
struct Plan {
    offsets: Vec<u64>,
    launches: Vec<Launch>,
    /// What the comparisons count.
    expected: u64,
}

impl Plan {
    fn at(&mut self, offset: u64) -> Argument {
        self.offsets.push(offset);
        // A task's buffers are counted in 16 bits, with a few of these each: one too many fails where it is bound.
        Argument::Buffer(u16::try_from(self.offsets.len() - 1).unwrap_or(u16::MAX))
    }

    /// Of an entry for so many items, each of which is a turn of a thread.
    fn launch(&mut self, entry: &str, items: u64, arguments: impl IntoIterator<Item = Argument>) {
        // Most buffers are small: blocks that find nothing to do are most of what a check of them takes.
        let blocks = u32::try_from(items.div_ceil(BLOCK.into())).unwrap_or(BLOCKS).clamp(1, BLOCKS);
        let threads = Argument::I64(i64::from(blocks * BLOCK));
        self.launches.push(Launch {
            entry: entry.to_string(),
            grid: [blocks, 1, 1],
            block: [BLOCK, 1, 1],
            shared: SHARED,
            arguments: arguments.into_iter().chain([threads]).chain(HIDDEN).collect(),
        });
    }

    /// Clears the report at an offset, and names it.
    fn report(&mut self, at: u64) -> Argument {
        self.fill(at, REPORT as u64 / 4, [0, 0]);
        self.at(at)
    }

    fn fill(&mut self, start: u64, words: u64, [even, odd]: [u32; 2]) {
        let count = Argument::I64(words.cast_signed());
        let arguments = [self.at(start), count, Argument::I32(even.cast_signed()), Argument::I32(odd.cast_signed())];
        self.launch("bluefin_fill", words, arguments);
    }

    fn poison(&mut self, start: u64, bytes: u64, data_type: DataType) {
        self.fill(start, bytes.div_ceil(4), poison(data_type));
    }

    fn random(&mut self, start: u64, buffer: &Buffer, seed: u64) {
        let length = Argument::I64(buffer.length.cast_signed());
        let arguments = [self.at(start), length, type_of(buffer), Argument::I64(seed.cast_signed())];
        self.launch("bluefin_random", buffer.length, arguments);
    }

    fn range(&mut self, start: u64, buffer: &Buffer, seed: u64, (low, high): (f64, f64)) {
        let length = Argument::I64(buffer.length.cast_signed());
        let arguments = [self.at(start), length, type_of(buffer), Argument::I64(seed.cast_signed())];
        let arguments = arguments.into_iter().chain([Argument::F64(low), Argument::F64(high)]);
        self.launch("bluefin_range", buffer.length, arguments);
    }

    /// Compares what no candidate may change.
    fn same_as_original(&mut self, task: &Task, layout: &Layout, places: &Places, report: &Argument) {
        for (start, end) in kept(task, layout) {
            self.same(places.set + start, places.original + start, end - start, report);
        }
    }

    fn close(&mut self, places: &Places, start: u64, buffer: &Buffer, tolerance: Tolerance, report: &Argument) {
        let (got, want) = (self.at(places.set + start), self.at(places.original + start));
        self.expected += buffer.length;
        let arguments = [got, want, Argument::I64(buffer.length.cast_signed()), type_of(buffer)];
        let tolerance = [Argument::F64(tolerance.absolute), Argument::F64(tolerance.relative), report.clone()];
        self.launch("bluefin_close", buffer.length, arguments.into_iter().chain(tolerance));
    }

    fn same(&mut self, got: u64, want: u64, bytes: u64, report: &Argument) {
        self.expected += bytes;
        let arguments = [self.at(got), self.at(want), Argument::I64(bytes.cast_signed()), report.clone()];
        self.launch("bluefin_same", moved(bytes), arguments);
    }

    fn copy(&mut self, to: u64, from: u64, bytes: u64) {
        let arguments = [self.at(to), self.at(from), Argument::I64(bytes.cast_signed())];
        self.launch("bluefin_copy", moved(bytes), arguments);
    }
}

/// Turns of threads that so many bytes take to be copied or compared: what is short goes byte by byte.
fn moved(bytes: u64) -> u64 {
    if bytes < ALIGNMENT { bytes } else { bytes / VECTOR }
}

/// Whether the entries make what a buffer holds before a launch.
pub(super) fn is_on_device(buffer: &Buffer) -> bool {
    match buffer.content {
        Content::Random | Content::Fill(_) => true,
        Content::Uniform { .. } => buffer.data_type.integers().is_none(),
        Content::Data(_) | Content::Drawn { .. } | Content::Rows { .. } | Content::Steps { .. } => false,
    }
}

pub(super) fn outputs<'a>(task: &'a Task, layout: &'a Layout) -> impl Iterator<Item = (&'a Buffer, (u64, u64))> {
    task.buffers.iter().zip(layout.ranges()).filter(|(buffer, _)| buffer.role.is_written())
}

/// What no candidate may change: all of a set but its outputs, in ranges that are aligned or short.
pub(super) fn kept(task: &Task, layout: &Layout) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    let mut at = 0_u64;
    for (start, end) in outputs(task, layout).map(|(_, range)| range).chain([(layout.bytes, layout.bytes)]) {
        let aligned = at.next_multiple_of(ALIGNMENT).min(start);
        ranges.extend([(at, aligned), (aligned, start)]);
        at = end;
    }
    ranges.retain(|(start, end)| start < end);
    ranges
}

/// An element as two words, over and over.
fn pattern(data_type: DataType, value: f64) -> [u32; 2] {
    let mut bytes = [0; 8];
    bytes.chunks_exact_mut(data_type.size()).for_each(|element| encode(data_type, value, element));
    let [a, b, c, d, e, f, g, h] = bytes;
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

/// The poison of a type as two words.
fn poison(data_type: DataType) -> [u32; 2] {
    let mut bytes = [0; 8];
    fill_poison(data_type, &mut bytes);
    let [a, b, c, d, e, f, g, h] = bytes;
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

/// How the entries know the type of a buffer.
fn type_of(buffer: &Buffer) -> Argument {
    Argument::I32(i32::from(buffer.data_type.code()))
}

#[cfg(test)]
mod tests {
    use bluefin_common::artifact::Built;

    use super::*;
    use crate::elements::is_poison;

    #[test]
    fn ranges_cover_all_but_the_outputs_and_are_aligned_or_short() {
        let buffer = |role, data_type, length| Buffer {
            name: "b".to_string(),
            data_type,
            length,
            role,
            content: Content::Random,
        };
        let buffers = vec![
            buffer(Role::Input, DataType::Fp16, 1001),
            buffer(Role::Output, DataType::Fp16, 999),
            buffer(Role::Input, DataType::Fp32, 5000),
            buffer(Role::Output, DataType::Int8, 512),
        ];
        let layout = Layout::of(&buffers).unwrap();
        let task = Task { buffers, reference: Built::default(), tolerance: Tolerance { absolute: 0.0, relative: 0.0 } };
        let kept = kept(&task, &layout);
        let mut parts: Vec<_> = kept.iter().copied().chain(outputs(&task, &layout).map(|(_, range)| range)).collect();
        parts.sort_unstable();
        let mut at = 0;
        for (start, end) in parts {
            assert_eq!(start, at);
            at = end;
        }
        assert_eq!(at, layout.bytes);
        assert!(kept.iter().all(|(start, end)| start.is_multiple_of(ALIGNMENT) || end - start < ALIGNMENT));
    }

    #[test]
    fn poison_of_every_type_in_words() {
        let is_poison_in_words = |data_type: DataType| {
            let words: Vec<u8> = poison(data_type).into_iter().flat_map(u32::to_ne_bytes).collect();
            words.chunks(data_type.size()).all(|element| is_poison(data_type, element))
        };
        assert!([DataType::Fp64, DataType::Fp32, DataType::Fp16, DataType::Bf16].into_iter().all(is_poison_in_words));
        assert_eq!(poison(DataType::Int64), [0xA5A5_A5A5; 2]);
    }
}
