//! Candidates for AMD's GPUs, executed on the CPU instruction by instruction and compared with their reference. Nothing is timed:
//! what executing takes says nothing of a GPU.

mod mutants;
mod reach;

pub use bluefin_amd::Guarded;
use bluefin_amd::{self as amd, Fault, Launch, LoadError, Memory, Options, Place, Program};
use bluefin_common::archive;
use bluefin_common::artifact::{Argument, Built};
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::structure::Pointed;
use bluefin_common::task::{Buffer, Role, Task, Tolerance};

pub use self::mutants::{Mutant, MutantOutcome};
pub use self::reach::Unreached;
use crate::check::{Difference, Runs, failure};
use crate::contents::{Contents, source_of};
use crate::elements::{Random, is_poison};
use crate::layout::seed_of;
use crate::parameters;

/// Bytes of the buffers and the workspace of a task, of which several are executed at a time, each with a note for every byte.
const MAX_BYTES: u64 = 1 << 28;

/// Where candidates are executed.
#[derive(Clone, Debug)]
pub struct Executor {
    target: &'static amd::Target,
    options: Options,
}

/// Why nothing can be executed.
#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    #[error("found {found}, which can not be executed, expected one of {expected}")]
    Target { found: String, expected: String },
}

/// The architecture `arch` as it is executed.
fn executed(arch: &str) -> Result<&'static amd::Target, ExecutorError> {
    amd::Target::named(arch).ok_or_else(|| ExecutorError::Target {
        found: arch.to_string(),
        expected: amd::TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", "),
    })
}

/// A loaded artifact: its code objects.
pub struct Loaded(Vec<Program>);

impl Loaded {
    /// The code object that has the kernel `entry`.
    fn with(&self, entry: &str) -> Option<&Program> {
        self.0.iter().find(|program| program.kernel(entry).is_some())
    }
}

/// A task whose answer is known.
#[derive(Debug)]
pub struct Posed {
    task: Task,
    /// What each buffer holds before a launch, in the order of the task's buffers; outputs hold poison.
    before: Vec<Vec<u8>>,
    /// What it is to hold after one.
    after: Vec<Vec<u8>>,
    /// How far each buffer may be from that: wider where two runs of the reference differ.
    tolerances: Vec<Tolerance>,
    nondeterministic: Vec<String>,
    unchanged: Vec<String>,
}

impl Posed {
    /// Outputs in which two runs of the reference, in another order of blocks and waves, differed.
    #[must_use]
    pub fn nondeterministic(&self) -> &[String] {
        &self.nondeterministic
    }

    /// Outputs that the reference left as they were: whatever a candidate computes of them was not tried.
    #[must_use]
    pub fn unchanged(&self) -> &[String] {
        &self.unchanged
    }
}

/// What executing a candidate took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// Instructions of waves, of all launches.
    pub instructions: u64,
    /// What keeps its kernels right: the kernel, and which of its instructions does.
    pub guards: Vec<(String, Guarded)>,
    /// Whether some launch depends on more than barriers for what its waves do one after the other.
    pub disordered: bool,
}

impl Executor {
    /// Whether code for the architecture `arch` can be executed.
    ///
    /// # Errors
    /// If it can not.
    pub fn takes(arch: &str) -> Result<(), ExecutorError> {
        executed(arch).map(|_| ())
    }

    /// One for the architecture `arch`, such as `gfx942`. `seed` decides the order of blocks and waves, and what inputs hold;
    /// a launch that executes more than `max_instructions` instructions hangs.
    ///
    /// # Errors
    /// An architecture that can not be executed.
    pub fn new(arch: &str, seed: u64, max_instructions: u64) -> Result<Self, ExecutorError> {
        let target = executed(arch)?;
        Ok(Self { target, options: Options { seed, max_instructions, ..Options::default() } })
    }

    /// The same for kernels whose compiler spreads values over lanes, as Triton's does, or not.
    #[must_use]
    pub fn spreading(self, spreads: bool) -> Self {
        Self { options: Options { spreads, ..self.options }, ..self }
    }

    /// Loads artifacts.
    pub fn load(&self, artifacts: &[impl AsRef<[u8]>]) -> Vec<Attempt<Loaded>> {
        let unpacked = artifacts.iter().map(|artifact| archive::unpack(artifact.as_ref()));
        let load = |code: Vec<u8>| Program::load(&code, self.target).map_err(|error| load_failure(&error));
        let one = |objects: std::io::Result<Vec<Vec<u8>>>| {
            let objects = objects.map_err(|error| Failure::new(FailureKind::LoadError, format!("archive: {error}")))?;
            Ok(Loaded(objects.into_iter().map(load).collect::<Attempt<_>>()?))
        };
        unpacked.map(one).collect()
    }

    /// Executes the reference of `task`, which is in `loaded`, twice on the same inputs; `data` is what the task's buffers hold of their
    /// own, in their order.
    ///
    /// # Errors
    /// If that can not be done, or does not end well.
    pub fn pose(&self, task: Task, data: &[impl AsRef<[u8]>], loaded: &Loaded) -> Attempt<Posed> {
        let before = contents(&task.buffers, data, self.options.seed)?;
        let tolerances = vec![task.tolerance; task.buffers.len()];
        let mut posed =
            Posed { task, before, after: Vec::new(), tolerances, nondeterministic: Vec::new(), unchanged: Vec::new() };
        let (after, _) = self.execute(&posed, &posed.task.reference, loaded, None)?;
        for (index, (buffer, after)) in posed.task.buffers.iter().zip(&after).enumerate() {
            let mut elements = after.chunks_exact(buffer.data_type.size());
            let is_untouched = elements.all(|element| is_poison(buffer.data_type, element));
            if buffer.role == Role::Output && is_untouched && !after.is_empty() {
                let mut detail = format!("output {}: none of {} elements written", buffer.name, buffer.length);
                if !takes(&posed.task.reference, index) {
                    detail += ": no launch of it takes that buffer; leave it out, with the solvers that write it, or name another reference";
                }
                return Err(Failure::new(FailureKind::OutputNotWritten, detail));
            }
        }
        let written = posed.task.buffers.iter().zip(posed.before.iter().zip(&after));
        let written: Vec<_> =
            written.filter(|(buffer, (before, _))| buffer.role.is_written() && !before.is_empty()).collect();
        let unchanged = written.iter().filter(|(_, (before, after))| before == after);
        posed.unchanged = unchanged.map(|(buffer, _)| buffer.name.clone()).collect();
        if !written.is_empty() && posed.unchanged.len() == written.len() {
            let detail = format!(
                "no element of {} was changed: these inputs try nothing; buffers hold others by low and high, fill or data",
                posed.unchanged.join(", "),
            );
            return Err(Failure::new(FailureKind::OutputNotWritten, detail));
        }
        let options = Options { seed: self.options.seed.wrapping_add(1), ..self.options.clone() };
        let other = Self { options, ..self.clone() };
        let (again, _) = other.execute(&posed, &posed.task.reference, loaded, None)?;
        let both = posed.task.buffers.iter().zip(again.iter().zip(&after)).zip(&mut posed.tolerances);
        for ((buffer, (again, after)), tolerance) in both.filter(|((buffer, _), _)| buffer.role.is_written()) {
            let mut runs = Runs::default();
            runs.compare(buffer.data_type, again, after);
            if runs.differ() {
                posed.nondeterministic.push(buffer.name.clone());
                *tolerance = runs.widen(tolerance);
            }
        }
        posed.after = after;
        Ok(posed)
    }

    /// Executes a candidate, which is in `loaded`, and compares what it did with what the reference did.
    ///
    /// # Errors
    /// How it is wrong.
    pub fn check(&self, posed: &Posed, built: &Built, loaded: &Loaded) -> Attempt<Executed> {
        self.check_without(posed, built, loaded, None)
    }

    /// `without` is a kernel, and the address of an instruction of it.
    fn check_without(
        &self,
        posed: &Posed,
        built: &Built,
        loaded: &Loaded,
        without: Option<(&str, u64)>,
    ) -> Attempt<Executed> {
        let (found, executed) = self.execute(posed, built, loaded, without)?;
        let all = posed.task.buffers.iter().zip(found.iter().zip(&posed.after)).zip(&posed.tolerances);
        let outputs = all.map(|((buffer, (found, expected)), tolerance)| {
            let mut difference = Difference::default();
            difference.compare(buffer.data_type, found, expected, tolerance);
            (buffer.name.as_str(), difference)
        });
        failure(outputs).map_or(Ok(executed), Err)
    }

    /// What all buffers hold after the launches of `built`.
    fn execute(
        &self,
        posed: &Posed,
        built: &Built,
        loaded: &Loaded,
        without: Option<(&str, u64)>,
    ) -> Attempt<(Vec<Vec<u8>>, Executed)> {
        let mut placed = Placed::new(&posed.task.buffers, &posed.before, built.workspace)?;
        let run = self.run(&mut placed, posed.task.last_draw(built), loaded, without);
        let executed = run.map_err(|ended| ended.failure)?;
        let mut after = posed.before.clone();
        for ((buffer, after), address) in posed.task.buffers.iter().zip(&mut after).zip(placed.addresses) {
            let before = (buffer.role == Role::Input).then(|| after.clone());
            placed.memory.read(address, after).map_err(outside)?;
            let changed = before.and_then(|before| before.iter().zip(after.iter()).position(|(was, is)| was != is));
            if let Some(byte) = changed {
                let element = byte / buffer.data_type.size();
                let detail = format!("input {}: element {element} was modified", buffer.name);
                return Err(Failure::new(FailureKind::WrongResult, detail));
            }
        }
        Ok((after, executed))
    }

    /// Executes launches one after the other.
    fn run(
        &self,
        placed: &mut Placed,
        launches: &[bluefin_common::artifact::Launch],
        loaded: &Loaded,
        without: Option<(&str, u64)>,
    ) -> Result<Executed, Ended> {
        if launches.is_empty() {
            let none = Failure::new(FailureKind::InvalidLaunch, "found no launch, expected at least one");
            return Err(none.into());
        }
        let mut executed = Executed::default();
        for launch in launches {
            let missing =
                || Failure::new(FailureKind::LoadError, format!("kernel {}: not in the code object", launch.entry));
            let program = loaded.with(&launch.entry).ok_or_else(missing)?;
            let kernel = program.kernel(&launch.entry).ok_or_else(missing)?;
            let values = values(&launch.arguments, &placed.addresses, placed.workspace)?;
            let visible = kernel.arguments.iter().filter(|argument| !argument.is_hidden());
            parameters::fit(launch, visible.map(|argument| argument.size))
                .map_err(|detail| Failure::new(FailureKind::LaunchFailure, detail))?;
            let values = narrowed(values, &kernel.arguments);
            let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            let arguments = kernel.pack(&values).map_err(|error| failed(&error.into()))?;
            let launch = Launch {
                kernel: &launch.entry,
                grid: launch.grid,
                block: launch.block,
                dynamic_lds: launch.shared,
                arguments: &arguments,
            };
            let without = without.filter(|(kernel, _)| *kernel == launch.kernel).map(|(_, address)| address);
            let options = Options { without, ..self.options.clone() };
            let report = program.run(&mut placed.memory, &launch, &options)?;
            executed.instructions += report.executed;
            executed.disordered |= !report.ordered;
            note(&mut executed.guards, launch.kernel, report.guards);
        }
        Ok(executed)
    }
}

/// A device's memory that the buffers of a task are in.
struct Placed {
    memory: Memory,
    /// In the order of the buffers.
    addresses: Vec<u64>,
    workspace: u64,
}

impl Placed {
    /// With what the buffers hold before a launch, and so many bytes of workspace.
    fn new(buffers: &[Buffer], before: &[Vec<u8>], workspace: u64) -> Attempt<Self> {
        fits(before.iter().map(|before| before.len() as u64).fold(workspace, u64::saturating_add))?;
        let mut memory = Memory::new();
        let mut addresses = Vec::with_capacity(before.len());
        for (buffer, before) in buffers.iter().zip(before) {
            let element = u32::try_from(buffer.data_type.size()).unwrap_or(1);
            let address = memory.allocate(&buffer.name, before.len(), element);
            memory.write(address, before).map_err(outside)?;
            if buffer.role == Role::Output {
                memory.forget(address, before.len()).map_err(outside)?;
            }
            addresses.push(address);
        }
        let workspace = match workspace {
            0 => 0,
            bytes => memory.allocate("the workspace", usize::try_from(bytes).unwrap_or(usize::MAX), 4),
        };
        Ok(Self { memory, addresses, workspace })
    }
}

/// Why launches did not end well.
struct Ended {
    failure: Failure,
    /// The buffer that was touched behind its end, and the element.
    beyond: Option<(String, u64)>,
    /// Whether they may end well with other blocks.
    of_launch: bool,
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self { failure, beyond: None, of_launch: false }
    }
}

impl From<amd::Failure> for Ended {
    fn from(failure: amd::Failure) -> Self {
        let beyond = match &failure {
            amd::Failure::Verdict(verdict) => match &verdict.fault {
                Fault::OutOfBounds { place: Place::Buffer { name, element, .. }, .. } => {
                    u64::try_from(*element).ok().map(|element| (name.clone(), element))
                }
                _ => None,
            },
            amd::Failure::Launch(_) => None,
        };
        let of_launch = match &failure {
            amd::Failure::Verdict(verdict) => verdict.fault.may_be_of_launch(),
            amd::Failure::Launch(_) => true,
        };
        Self { failure: failed(&failure), beyond, of_launch }
    }
}

/// Whether a launch is given the buffer with this index.
fn takes(built: &Built, index: usize) -> bool {
    let mut arguments = built.launches.iter().flat_map(|launch| &launch.arguments);
    arguments.any(|argument| match argument {
        Argument::Buffer(buffer) | Argument::BufferAt { buffer, .. } => usize::from(*buffer) == index,
        Argument::Tensor(tensor) => usize::from(tensor.buffer) == index,
        Argument::Structure(structure) => {
            let is_it = |to: &Pointed| matches!(to, Pointed::Buffer { buffer, .. } if usize::from(*buffer) == index);
            structure.pointers.iter().any(|pointer| is_it(&pointer.to))
        }
        _ => false,
    })
}

/// Adds what a launch had of them; a kernel may be launched more than once.
fn note(all: &mut Vec<(String, Guarded)>, kernel: &str, guards: Vec<Guarded>) {
    for guarded in guards {
        match all.iter_mut().find(|(of, known)| of == kernel && known.site.address == guarded.site.address) {
            Some((_, known)) => known.acts |= guarded.acts,
            None => all.push((kernel.to_string(), guarded)),
        }
    }
}

/// Whether a task of so many bytes is executed.
fn fits(bytes: u64) -> Attempt<()> {
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    let detail =
        format!("buffers and workspace of {bytes} bytes, expected at most {MAX_BYTES}: take a smaller problem");
    Err(Failure::new(FailureKind::OutOfMemory, detail))
}

/// What buffers hold before a launch.
fn contents<B: AsRef<[u8]>>(buffers: &[Buffer], data: &[B], seed: u64) -> Attempt<Vec<Vec<u8>>> {
    fits(buffers.iter().map(Buffer::bytes).fold(0, u64::saturating_add))?;
    let contents = Contents::of(buffers, data)?;
    let mut made: Vec<Vec<u8>> = Vec::with_capacity(buffers.len());
    for (index, buffer) in buffers.iter().enumerate() {
        let mut bytes = vec![0; usize::try_from(buffer.bytes()).unwrap_or(usize::MAX)];
        let source = source_of(buffer).and_then(|source| made.get(source)).map_or(&[][..], Vec::as_slice);
        let mut random = Random::new(seed_of(seed, index as u64));
        contents.make((index, buffer), (&mut random, source), 0, &mut bytes);
        made.push(bytes);
    }
    Ok(made)
}

/// The bytes of each argument of a launch.
fn values(arguments: &[Argument], buffers: &[u64], workspace: u64) -> Attempt<Vec<Vec<u8>>> {
    let address = |index: u16, bytes: u64| match buffers.get(usize::from(index)) {
        Some(address) => Ok(address.wrapping_add(bytes)),
        None => {
            let detail = format!("argument: found buffer {index}, expected less than {}", buffers.len());
            Err(Failure::new(FailureKind::InvalidLaunch, detail))
        }
    };
    let buffer = |index, bytes| address(index, bytes).map(|address| address.to_le_bytes().to_vec());
    let value = |argument: &Argument| {
        Ok(match *argument {
            Argument::Buffer(index) => buffer(index, 0)?,
            Argument::BufferAt { buffer: index, bytes } => buffer(index, bytes)?,
            Argument::Workspace => workspace.to_le_bytes().to_vec(),
            Argument::WorkspaceAt(bytes) => workspace.wrapping_add(bytes).to_le_bytes().to_vec(),
            Argument::Tensor(_) => {
                let detail = "argument: found a tensor map, which is CUDA's".to_string();
                return Err(Failure::new(FailureKind::InvalidLaunch, detail));
            }
            Argument::Structure(ref structure) => structure.placed(|pointed| match pointed {
                Pointed::Buffer { buffer: index, bytes } => address(index, bytes),
                Pointed::Workspace => Ok(workspace),
            })?,
            Argument::I32(value) => value.to_le_bytes().to_vec(),
            Argument::F32(value) => value.to_le_bytes().to_vec(),
            Argument::I64(value) => value.to_le_bytes().to_vec(),
            Argument::F64(value) => value.to_le_bytes().to_vec(),
        })
    };
    arguments.iter().map(value).collect()
}

/// The values as a kernel takes them: of a truth value the first byte.
fn narrowed(mut values: Vec<Vec<u8>>, arguments: &[amd::Argument]) -> Vec<Vec<u8>> {
    let visible = arguments.iter().filter(|argument| !argument.is_hidden());
    for (value, _) in values.iter_mut().zip(visible).filter(|(_, argument)| argument.size == 1) {
        value.truncate(1);
    }
    values
}

fn load_failure(error: &LoadError) -> Failure {
    let kind = match error {
        LoadError::OtherTarget { .. } | LoadError::NotInBundle { .. } => FailureKind::WrongTarget,
        _ => FailureKind::LoadError,
    };
    Failure::new(kind, error.to_string())
}

fn failed(failure: &amd::Failure) -> Failure {
    let kind = match failure {
        amd::Failure::Launch(_) => FailureKind::LaunchFailure,
        amd::Failure::Verdict(verdict) if matches!(verdict.fault, Fault::Hang { .. }) => FailureKind::Hang,
        amd::Failure::Verdict(_) => FailureKind::Fault,
    };
    Failure::new(kind, failure.to_string())
}

/// A buffer that was allocated a moment ago is there.
fn outside(error: amd::Outside) -> Failure {
    Failure::new(FailureKind::OutOfMemory, error.to_string())
}

#[cfg(test)]
mod tests {
    use bluefin_common::problem::DataType;
    use bluefin_common::structure::{Pointer, Structure};
    use bluefin_common::task::Content;

    use super::*;

    #[test]
    fn an_argument_is_one_of_the_buffers() {
        let arguments = [Argument::I32(1), Argument::Buffer(1), Argument::Workspace];
        let bytes = values(&arguments, &[7, 0x1234], 9).unwrap();
        assert_eq!(bytes, [vec![1, 0, 0, 0], vec![0x34, 0x12, 0, 0, 0, 0, 0, 0], vec![9, 0, 0, 0, 0, 0, 0, 0]]);
        assert!(values(&[Argument::Buffer(2)], &[7, 8], 0).is_err());
    }

    #[test]
    fn a_structure_has_addresses() {
        let pointers = vec![Pointer { at: 8, to: Pointed::Buffer { buffer: 1, bytes: 4 } }];
        let structure = Argument::Structure(Structure { bytes: vec![1; 20], pointers });
        let bytes = values(std::slice::from_ref(&structure), &[7, 0x1234], 9).unwrap();
        assert_eq!(bytes, [[&[1; 8][..], &0x1238_u64.to_le_bytes(), &[1; 4]].concat()]);
    }

    #[test]
    fn what_no_machine_has_memory_for_is_refused() {
        let buffer = Buffer {
            name: "x".to_string(),
            data_type: DataType::Fp32,
            length: u64::MAX / 8,
            role: Role::Input,
            content: Content::Random,
        };
        let failure = contents::<&[u8]>(&[buffer.clone(), buffer], &[], 1).unwrap_err();
        assert_eq!(failure.kind, FailureKind::OutOfMemory);
        assert!(failure.detail.contains("expected at most 268435456"), "{}", failure.detail);
    }

    #[test]
    fn other_architectures_are_named() {
        let error = Executor::new("gfx906", 0, 1).unwrap_err().to_string();
        assert!(error.starts_with("found gfx906, which can not be executed, expected one of gfx90a"), "{error}");
    }
}
