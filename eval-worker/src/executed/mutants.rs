//! A candidate without what keeps it right, one thing at a time: is it found, and if not, could it ever be?

use bluefin_amd::{Guard, Guarded, Options};
use bluefin_common::artifact::Built;
use bluefin_common::failure::{Attempt, Failure};
use bluefin_common::problem::DataType;
use bluefin_common::task::{Content, Role};

use super::{Executed, Executor, Loaded, Posed};
use crate::check::Runs;
use crate::contents::source_of;
use crate::elements::{Random, encode};

/// What came of leaving out one of what keeps a kernel right.
#[derive(Clone, Debug)]
pub struct Mutant {
    pub kernel: String,
    pub guarded: Guarded,
    pub outcome: MutantOutcome,
}

#[derive(Clone, Debug)]
pub enum MutantOutcome {
    /// How it is wrong.
    Found(Failure),
    /// Nothing is wrong, though it had done something, and may be with other inputs or in another order.
    Missed,
    /// It had done nothing in this launch.
    Idle,
    /// What it had waited for is waited for once more, before anybody touches it.
    Covered,
    /// No result depends on it in this launch: in no order of waves, or with whatever the lanes find that a bound leaves out.
    Spare,
}

impl MutantOutcome {
    /// As JSON names it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Found(_) => "found",
            Self::Missed => "missed",
            Self::Idle => "idle",
            Self::Covered => "covered",
            Self::Spare => "spare",
        }
    }
}

/// Orders of blocks and waves in which a kernel is tried without what keeps it right.
const ORDERS: u64 = 3;
/// How much longer than the kernel itself it may run so, and what that is at least.
const TIMES: u64 = 8;
const LEAST: u64 = 100_000;
/// Inputs with which a kernel is compared with itself without a bound.
const ROUNDS: u64 = 16;
/// One of so many elements of an input is strange: few enough for results that none of them reaches, and many enough for some to be
/// where a bound ends.
const OFTEN: u64 = 32;
const SELDOM: u64 = 128;

impl Executor {
    /// Takes out what keeps a candidate right, one after the other: which of that is found.
    #[must_use]
    pub fn mutate(&self, posed: &Posed, built: &Built, loaded: &Loaded, executed: &Executed) -> Vec<Mutant> {
        let most = executed.instructions.saturating_mul(TIMES).max(LEAST).min(self.options.max_instructions);
        let in_order = |order: u64| {
            let seed = self.options.seed.wrapping_add(order);
            let options = Options { seed, max_instructions: most, ..self.options.clone() };
            Self { options, ..self.clone() }
        };
        let mut strange = Strange::new(in_order(0), posed, built, loaded);
        let tried = |(kernel, guarded): &(String, Guarded)| {
            let without = Some((kernel.as_str(), guarded.site.address));
            let runs = (0..ORDERS).filter(|_| guarded.acts);
            let runs: Attempt<Vec<Executed>> =
                runs.map(|order| in_order(order).check_without(posed, built, loaded, without)).collect();
            let outcome = match (runs, guarded.guard) {
                (Err(failure), _) => MutantOutcome::Found(failure),
                (Ok(_), _) if !guarded.acts => MutantOutcome::Idle,
                (Ok(_), Guard::Wait) => MutantOutcome::Covered,
                (Ok(runs), Guard::Barrier) if runs.iter().all(|run| !run.disordered) => MutantOutcome::Spare,
                (Ok(_), Guard::Bound) if !strange.differs(without) => MutantOutcome::Spare,
                (Ok(_), Guard::Barrier | Guard::Bound) => MutantOutcome::Missed,
            };
            Mutant { kernel: kernel.clone(), guarded: guarded.clone(), outcome }
        };
        executed.guards.iter().map(tried).collect()
    }
}

/// Inputs some of which are strange, and what a candidate makes of them: floats that are infinite, since 0 times any finite one hides that it was
/// read, and integers of any size.
struct Strange<'a> {
    executor: Executor,
    posed: &'a Posed,
    built: &'a Built,
    loaded: &'a Loaded,
    /// Inputs, and what all buffers hold afterwards, once they were asked for; without those that the candidate can not be executed with.
    rounds: Option<Vec<Round>>,
}

/// Inputs, and what all buffers hold after the candidate's launches.
type Round = (Posed, Vec<Vec<u8>>);

impl<'a> Strange<'a> {
    fn new(executor: Executor, posed: &'a Posed, built: &'a Built, loaded: &'a Loaded) -> Self {
        Self { executor, posed, built, loaded, rounds: None }
    }

    /// Whether the candidate comes to other bits without that instruction, or with no strange inputs can be executed at all.
    fn differs(&mut self, without: Option<(&str, u64)>) -> bool {
        let Self { executor, posed, built, loaded, rounds } = self;
        let made = || Self::rounds(executor, posed, built, loaded);
        let rounds = rounds.get_or_insert_with(made);
        let differs = |(posed, expected): &Round| {
            let Ok((found, _)) = executor.execute(posed, built, loaded, without) else { return true };
            let mut runs = Runs::default();
            for (buffer, (found, expected)) in posed.task.buffers.iter().zip(found.iter().zip(expected)) {
                runs.compare(buffer.data_type, found, expected);
            }
            runs.differ()
        };
        // The first are the inputs as they were.
        !posed.nondeterministic.is_empty() || rounds.len() < 2 || rounds.iter().any(differs)
    }

    fn rounds(executor: &Executor, posed: &Posed, built: &Built, loaded: &Loaded) -> Vec<Round> {
        let inputs = inputs(posed);
        let count = if inputs.is_empty() { 1 } else { ROUNDS };
        let round = |number: u64| {
            let posed = strange(posed, &inputs, number);
            // Integers may be places, which strange ones are not.
            let (after, _) = executor.execute(&posed, built, loaded, None).ok()?;
            Some((posed, after))
        };
        (0..count).filter_map(round).collect()
    }
}

/// The buffers whose elements may be strange: inputs that are not the problem's own.
fn inputs(posed: &Posed) -> Vec<usize> {
    let buffers = posed.task.buffers.iter().enumerate();
    let sources: Vec<usize> = posed.task.buffers.iter().filter_map(source_of).collect();
    let may = buffers.filter(|(at, buffer)| {
        let is_own = matches!(buffer.content, Content::Data(_) | Content::Drawn { .. } | Content::Rows { .. });
        buffer.role != Role::Output && !is_own && !sources.contains(at)
    });
    may.map(|(at, _)| at).collect()
}

/// Writes an element that shows where it was read.
fn write_strange(data_type: DataType, random: &mut Random, element: &mut [u8]) {
    let bits = random.next();
    match data_type {
        // They have no infinity that any number comes to.
        DataType::Fp8Fnuz | DataType::Bf8Fnuz => element.fill(0x80),
        DataType::Fp8 | DataType::Bf8 => element.fill(0x7F),
        _ => encode(data_type, strange_number(data_type, bits), element),
    }
}

fn strange_number(data_type: DataType, bits: u64) -> f64 {
    match data_type.integers() {
        Some((low, high)) => (low + i128::from(bits) % (high - low + 1)) as f64,
        // No NaN: those of the kernel's own are all the same, so that lanes which add in another order come to the same bits.
        None if bits.is_multiple_of(2) => f64::INFINITY,
        None => f64::NEG_INFINITY,
    }
}

/// The inputs of a round. In the first they are as they were; in the others one of the buffers at `inputs` has strange elements.
fn strange(posed: &Posed, inputs: &[usize], round: u64) -> Posed {
    let mut before = posed.before.clone();
    let turn = round / (inputs.len() as u64).max(1);
    let share = if turn.is_multiple_of(2) { OFTEN } else { SELDOM };
    let chosen = inputs.get(round as usize % inputs.len().max(1)).filter(|_| round > 0);
    if let Some((buffer, bytes)) = chosen.and_then(|at| Some((posed.task.buffers.get(*at)?, before.get_mut(*at)?))) {
        let mut random = Random::new(round);
        for element in bytes.chunks_exact_mut(buffer.data_type.size()) {
            if random.next().is_multiple_of(share) {
                write_strange(buffer.data_type, &mut random, element);
            }
        }
    }
    Posed {
        task: posed.task.clone(),
        before,
        after: Vec::new(),
        tolerances: Vec::new(),
        nondeterministic: Vec::new(),
        unchanged: Vec::new(),
    }
}
