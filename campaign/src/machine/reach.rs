//! How far the kernels of a draft go in their buffers: each is compiled and executed on the CPU, as `check` does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::target::Target;
use bluefin_eval_worker::executed::{Executor, Unreached};
use bluefin_kernel_spec::Bundle;
use bluefin_kernel_spec::draft::{Draft, Launch};
use bluefin_producer::PlanError;
use bluefin_producer::plan::{Asked, CandidateBudget};
use bluefin_producer::specs::{LoadedSpec, Specs};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use super::check::{Checking, Tools};
use super::itself;

/// What a draft says that it is tried with first.
const TARGET: &str = "gfx942-304";
/// What compiles it.
const TOOLCHAIN: &str = "clang";
/// Instructions of waves after which a kernel is given up: some seconds.
const MOST_INSTRUCTIONS: u64 = 20_000_000;

/// How often a kernel is tried by other launches, and how often the kernels of a draft are by these, by other sizes, and by who computes the same.
const MOST_OF_KERNEL: u32 = 40;
const MOST_OF_DRAFT: u32 = 120;
/// What one counts that executed, or took of memory, as much as it may.
const OF_LARGE: u32 = 12;
/// Nothing further is tried after so long, which is told: what a draft is does not depend on its machine otherwise.
const MOST_TIME: Duration = Duration::from_secs(180);

/// What numbers of templates are tried for that nothing says, where kernels do not end well with the draft's.
const NUMBERS: [i64; 8] = [16, 32, 8, 64, 128, 4, 2, 1];
/// Launches that are tried with each of them.
const LAUNCHES_OF_NUMBER: usize = 3;

/// Failures after which kernels may end well with smaller sizes.
const OF_SIZES: [FailureKind; 2] = [FailureKind::OutOfMemory, FailureKind::Hang];

/// What comes of a kernel beside one that computes something else.
const OF_OTHERS: [FailureKind; 3] = [FailureKind::WrongResult, FailureKind::OutputNotWritten, FailureKind::NotANumber];

/// Failures after which a kernel may end well with other blocks than those that its file launches.
const OF_BLOCKS: [FailureKind; 3] = [FailureKind::InvalidLaunch, FailureKind::OutOfMemory, FailureKind::Hang];
/// A block that is not what the kernel's bounds take: another one may be.
const OF_BOUNDS: FailureKind = FailureKind::LaunchFailure;

/// What came of a launch by which a kernel writes nothing.
const NOTHING: &str = "nothing is written";

/// Elements by the name of the buffer.
type Elements = BTreeMap<String, u64>;
/// What came of a kernel.
type Reach = Result<Elements, Unreached>;
/// How far a kernel went, and whether it ended well.
type Went = (Elements, bool);

/// What came of a kernel, and the launch by which that is, where it is not the draft's.
struct Reached {
    reach: Reach,
    tried: Option<(Launch, String)>,
    /// What comes of it as the file launches it, where it goes as far by another launch.
    fault: Option<String>,
    /// What numbers of its template are, where they are not the draft's.
    number: Option<i64>,
    /// The instance that it is, where it is another launch's.
    instance: Option<usize>,
    /// How often it was tried.
    times: u32,
}

impl Reached {
    fn plain(reach: Reach, times: u32) -> Self {
        Self { reach, tried: None, fault: None, number: None, instance: None, times }
    }
}

/// How often all of them were tried.
fn times(all: &[Reached]) -> u32 {
    all.iter().map(|one| one.times).sum()
}

/// What kernels are tried with.
struct Trials {
    tools: Arc<Tools>,
    executor: Executor,
    target: Target,
    begun: Instant,
}

impl Trials {
    /// Whether something is tried further that was tried so often; `most` are enough.
    fn go_on(&self, times: u32, most: u32) -> bool {
        times < most && self.begun.elapsed() < MOST_TIME
    }
}

/// `drafts` with buffers as long as their kernels go, and what is to be told. Those that `divides` allows become several where their kernels compute other
/// things.
///
/// # Errors
/// No compiler.
pub async fn executed(drafts: Vec<Draft>, divides: bool) -> anyhow::Result<(Vec<Draft>, Vec<String>)> {
    let target: Target = TARGET.parse()?;
    let executor = Executor::new(target.arch(), 1, MOST_INSTRUCTIONS)?;
    let tools = Arc::new(Tools::of(&[TOOLCHAIN], &target, itself::cpus()).await?);
    let trials = &Trials { tools, executor, target, begun: Instant::now() };
    let all = stream::iter(drafts).map(|draft| divided(draft, divides, trials)).buffered(itself::cpus());
    let all: Vec<(Vec<Draft>, Vec<String>)> = all.try_collect().await?;
    let (drafts, remarks): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let mut remarks: Vec<String> = remarks.into_iter().flatten().collect();
    if trials.begun.elapsed() >= MOST_TIME {
        remarks
            .push(format!("kernels were executed for {}s, and not all was tried that there is", MOST_TIME.as_secs()));
    }
    Ok((drafts.into_iter().flatten().collect(), remarks))
}

async fn divided(mut draft: Draft, divides: bool, trials: &Trials) -> anyhow::Result<(Vec<Draft>, Vec<String>)> {
    let (reach, remarks, mut times) = set_lengths(&mut draft, trials).await?;
    let mut done = Vec::new();
    let mut waiting = vec![(draft, reach)];
    while let Some((draft, reach)) = waiting.pop() {
        times += u32::try_from(draft.kernels.len()).unwrap_or(u32::MAX);
        let others = if divides { differing(&draft, trials).await? } else { Vec::new() };
        if others.is_empty() || others.len() == draft.kernels.len() {
            done.push(draft);
            continue;
        }
        let rest: Vec<usize> = (0..draft.kernels.len()).filter(|at| !others.contains(at)).collect();
        // Who computes the same as one of the others is found by executing them once more.
        let parts: Vec<Vec<usize>> = match trials.go_on(times, MOST_OF_DRAFT) {
            true => vec![others],
            false => others.into_iter().rev().map(|at| vec![at]).collect(),
        };
        let part = |kernels: &[usize]| {
            let reach: Vec<Went> = kernels.iter().filter_map(|at| reach.get(*at).cloned()).collect();
            let mut part = draft.part(kernels);
            part.set_reach(reach.iter().map(|(elements, well)| (elements, *well)));
            (part, reach)
        };
        waiting.extend(parts.iter().map(|kernels| part(kernels)));
        done.push(part(&rest).0);
    }
    Ok((done, remarks))
}

/// The kernels of `draft` that compute something else than its reference.
async fn differing(draft: &Draft, trials: &Trials) -> anyhow::Result<Vec<usize>> {
    if draft.kernels.len() < 2 {
        return Ok(Vec::new());
    }
    let bundle = Bundle { toml: draft.spec(), ..draft.bundle() };
    let Ok(spec) = LoadedSpec::load(bundle) else { return Ok(Vec::new()) };
    let Ok(problem) = spec.spec.problem(&BTreeMap::new()) else { return Ok(Vec::new()) };
    let Trials { tools, executor, target, .. } = trials;
    let specs = Specs::for_target(vec![spec], target);
    let asked = Asked { specs, budget: CandidateBudget::Candidates(1), ..Asked::default() };
    let checking = Checking::with(tools, executor.clone(), &[problem], &asked, itself::cpus()).await?;
    let (checked, _) = checking.check(|_| {}).await?;
    let differs = |solver: &String| {
        let of_it = checked.iter().filter(|one| one.solver == *solver);
        of_it.map(|one| one.result).any(|result| OF_OTHERS.iter().any(|kind| kind.name() == result))
    };
    let mut differing: Vec<usize> =
        (0..).zip(&draft.solvers()).filter(|(_, solver)| differs(solver)).map(|(at, _)| at).collect();
    // A reference that writes nothing has nobody to be compared with.
    if differing.len() == draft.kernels.len() {
        differing.remove(0);
    }
    Ok(differing)
}

/// Makes the buffers of `draft` as long as its kernels go in them. How far each goes is returned, and what is to be told: which of them can not be executed as they are.
///
/// # Errors
/// No compiler.
async fn set_lengths(draft: &mut Draft, trials: &Trials) -> anyhow::Result<(Vec<Went>, Vec<String>, u32)> {
    let mut all = of_kernels(draft, trials).await?;
    let mut often = times(&all);
    let mut remarks = Vec::new();
    let mut smaller: Vec<Draft> = draft.smaller().into_iter().chain(draft.of_given(true)).collect();
    while let (Some(failure), Some(other)) = (too_large(draft, &all).cloned(), smaller.pop()) {
        if !trials.go_on(often, MOST_OF_DRAFT) {
            break;
        }
        let of_other = of_kernels(&other, trials).await?;
        often += times(&of_other);
        if smaller.is_empty() {
            smaller.extend(other.smaller());
        }
        let well = |all: &[Reached]| all.iter().filter(|one| one.reach.is_ok()).count();
        // A kernel that hangs with any sizes makes those of others no smaller.
        if well(&of_other) > well(&all) {
            remarks =
                vec![format!("sizes are smaller than usual, by which an execution ends like this: {}", told(&failure))];
            (all, *draft) = (of_other, other);
        }
    }
    if let Some(other) = of_other_sizes(draft, &all, trials, &mut often).await? {
        let mut named = draft.kernels.iter().map(|kernel| &kernel.name).zip(&all);
        remarks.push(match named.find_map(|(name, one)| Some((name, one.reach.as_ref().err()?))) {
            Some((name, Unreached { failure, .. })) => {
                format!("with the usual sizes {name} ends like this: {}; others are taken", told(failure))
            }
            None => "sizes are others than usual, by which kernels do not end well".to_string(),
        });
        (all, *draft) = other;
    }
    for (at, one) in all.iter_mut().enumerate() {
        let may_be_other = one.reach.is_err() && draft.says_launch(at) && draft.says_blocks(at);
        if may_be_other && trials.go_on(often, MOST_OF_DRAFT) {
            *one = of_kernel(draft, at, trials, true).await?;
            often += one.times;
        }
        if trials.go_on(often, MOST_OF_DRAFT) {
            write_something(draft, at, one, trials).await?;
        }
    }
    for (at, Reached { reach, tried, fault, number, instance, .. }) in all.iter().enumerate() {
        let name = draft.kernels.get(at).map_or("", |kernel| &kernel.name).to_string();
        if let Some(instance) = instance {
            draft.set_instance(at, *instance);
        }
        if let Some(number) = number {
            draft.set_numbers(at, *number);
            remarks.push(format!("{name} is a template of numbers that nothing here says: they are {number}, a guess"));
        }
        if let Some((launch, before)) = tried {
            let blocks = if launch.is_one { "one block" } else { "blocks" };
            let block: Vec<String> = launch.block.iter().map(ToString::to_string).collect();
            let block = block.join(" x ");
            let usual = if draft.says_launch(at) { "its own launch" } else { "the usual ones" };
            remarks.push(format!(
                "{name} is launched by {blocks} of {block} threads, by {usual} it ends like this: {before}"
            ));
            draft.set_launch(at, launch.clone(), before);
        }
        if let Some(fault) = fault {
            remarks.push(format!("{name}, launched as its file launches it, ends like this: {fault}"));
        }
        if let Err(Unreached { failure, of_launch, .. }) = reach {
            let is_fault = failure.kind == FailureKind::Fault;
            let guess = if *of_launch && draft.guesses_block(at) {
                "; its blocks are a guess as well, as no launch here says how many threads they have: look at these first"
            } else {
                ""
            };
            let failure = told(failure) + guess;
            if draft.guesses_numbers(at) {
                remarks.push(format!(
                    "{name} is a template of numbers that nothing here says, and ends well with none that was tried: name them in its params"
                ));
            }
            for (buffer, spelled) in draft.of_pointers(at).into_iter().filter(|_| is_fault) {
                remarks.push(format!(
                    "{buffer} of {name} is {spelled}: pointers within a buffer lead nowhere, as a spec fills one with numbers"
                ));
            }
            let indexing = draft.indexing(at).join(", ");
            if is_fault && !indexing.is_empty() {
                remarks.push(format!(
                    "{name} finds elements by {indexing}, drawn at random here: what is wrong may be these and not the kernel"
                ));
            }
            remarks.push(format!("{name} can not be executed as it is drafted, how far it goes is a guess: {failure}"));
        }
    }
    let went = |one: Reached| match one.reach {
        Ok(elements) => (elements, true),
        Err(unreached) => (unreached.needed, false),
    };
    let reach: Vec<Went> = all.into_iter().map(went).collect();
    draft.set_reach(reach.iter().map(|(elements, well)| (elements, *well)));
    Ok((reach, remarks, often))
}

/// The draft with sizes by which more of its kernels end well, and what comes of these, if some do not as `all` has it.
async fn of_other_sizes(
    draft: &Draft,
    all: &[Reached],
    trials: &Trials,
    often: &mut u32,
) -> anyhow::Result<Option<(Vec<Reached>, Draft)>> {
    // One that writes nothing shows nothing.
    let is_well = |(at, one): &(usize, &Reached)| {
        one.fault.is_none() && one.reach.as_ref().is_ok_and(|elements| draft.writes(*at, elements))
    };
    let well = |all: &[Reached]| all.iter().enumerate().filter(is_well).count();
    let may_be_few = |(at, one): (usize, &Reached)| match &one.reach {
        Ok(elements) => !draft.writes(at, elements),
        // Blocks as the host code has them are none of sizes that are smaller than its tiles.
        Err(unreached) => {
            unreached.of_launch || unreached.failure.kind == FailureKind::InvalidLaunch && draft.says_blocks(at)
        }
    };
    // A fault by the file's own launch is not to be hidden by sizes that have next to no elements.
    let is_race =
        |one: &Reached| one.reach.as_ref().is_err_and(|unreached| unreached.failure.detail.contains(" race: "));
    let races = all.iter().enumerate().any(|(at, one)| is_race(one) && draft.says_launch(at));
    let others = match all.iter().enumerate().any(may_be_few) {
        true if races => draft.of_tiles().into_iter().chain(draft.of_blocks()).collect(),
        true => {
            let tiled = draft.of_tiles().into_iter().chain(draft.of_blocks());
            let given = draft.of_given(false).into_iter().chain(draft.of_given_tiles());
            tiled.chain(given).chain(draft.of_few()).collect()
        }
        false if all.iter().any(|one| one.fault.is_some()) => Vec::from_iter(draft.of_tiles()),
        false if too_large(draft, all).is_some() && !races => draft.of_few(),
        false => Vec::new(),
    };
    for other in others {
        if !trials.go_on(*often, MOST_OF_DRAFT) {
            break;
        }
        let once = all.iter().enumerate().map(|(at, one)| {
            let mut alone = other.alone(at);
            if let Some((launch, before)) = &one.tried {
                alone.set_launch(0, launch.clone(), before);
            }
            async move { anyhow::Ok(Reached { tried: one.tried.clone(), ..of_instances(&alone, trials).await? }) }
        });
        let of_other: Vec<Reached> = stream::iter(once).buffered(itself::cpus()).try_collect().await?;
        *often += times(&of_other);
        if well(&of_other) > well(all) {
            return Ok(Some((of_other, other)));
        }
    }
    // Along lines that are longer than what it computes a kernel may be right by one block.
    let of_lines = draft.of_lines().filter(|_| all.iter().enumerate().any(may_be_few));
    if let Some(other) = of_lines.filter(|_| trials.go_on(*often, MOST_OF_DRAFT)) {
        let of_other = of_kernels(&other, trials).await?;
        *often += times(&of_other);
        if well(&of_other) > well(all) {
            return Ok(Some((of_other, other)));
        }
    }
    Ok(None)
}

async fn of_kernels(draft: &Draft, trials: &Trials) -> anyhow::Result<Vec<Reached>> {
    let all = stream::iter(0..draft.kernels.len());
    all.map(|at| of_kernel(draft, at, trials, false)).buffered(itself::cpus()).try_collect().await
}

/// What came of the first kernel whose sizes may be too large.
fn too_large<'a>(draft: &Draft, all: &'a [Reached]) -> Option<&'a Failure> {
    let mut failures = all.iter().enumerate().filter_map(|(at, one)| Some((at, &one.reach.as_ref().err()?.failure)));
    let is_large = |(at, failure): &(usize, &Failure)| OF_SIZES.contains(&failure.kind) || draft.is_many(*at);
    failures.find(is_large).map(|(_, failure)| failure)
}

/// A failure in a line: of a compiler its first error, and what its unit lacks.
fn told(Failure { kind, detail }: &Failure) -> String {
    let line = detail.lines().find(|line| line.contains("error: ")).or_else(|| detail.lines().next());
    let note = detail.lines().find(|line| line.starts_with("note: nothing"));
    let note = note.map(|note| format!("; {note}")).unwrap_or_default();
    format!("{}: {}{note}", kind.name(), line.unwrap_or_default().trim())
}

/// How far a kernel of `whole` goes: launched as it is drafted or, if it does not end well so, by the first of others that it ends well by.
///
/// Where its file says the whole launch, others are tried `after` other sizes alone.
async fn of_kernel(whole: &Draft, kernel: usize, trials: &Trials, after: bool) -> anyhow::Result<Reached> {
    let (unreached, mut times) = match of_instances(&whole.alone(kernel), trials).await? {
        Reached { reach: Err(unreached), times, .. } => (unreached, times),
        reached => return Ok(reached),
    };
    let kind = unreached.failure.kind;
    // By smaller sizes it is launched as it is meant to be.
    let mut smaller = whole.alone(kernel).smaller().filter(|_| OF_SIZES.contains(&kind) || whole.is_many(kernel));
    while let Some(other) = smaller.filter(|_| trials.go_on(times, MOST_OF_KERNEL)) {
        if of_draft(other.clone(), trials, &mut times).await?.is_ok() {
            return Ok(Reached::plain(Err(unreached), times));
        }
        smaller = other.smaller();
    }
    // Blocks as the host code has them may be none, or too many to be executed.
    let is_of_blocks = whole.says_blocks(kernel) && OF_BLOCKS.contains(&kind) || kind == OF_BOUNDS;
    let launches = if unreached.of_launch || is_of_blocks { whole.launches(kernel) } else { Vec::new() };
    let before = told(&unreached.failure);
    // One block where the file says how many there are would hide what its author wants to know.
    let is_said = unreached.of_launch && whole.says_launch(kernel) && whole.says_blocks(kernel);
    if is_said && !after && !whole.guesses_numbers(kernel) {
        return Ok(Reached::plain(Err(unreached), times));
    }
    for launch in launches.into_iter().filter(|launch| !(is_said && launch.is_one)) {
        if !trials.go_on(times, MOST_OF_KERNEL) {
            break;
        }
        let mut alone = whole.alone(kernel);
        alone.set_launch(0, launch.clone(), &before);
        if let Ok(reach) = of_draft(alone, trials, &mut times).await? {
            // What comes of a kernel by the blocks that its file says is what its author wants to know.
            let is_own = unreached.of_launch && whole.says_launch(kernel) && whole.block(kernel) != launch.block;
            if is_own {
                let mut reach = reach;
                // Buffers are as long as that launch needs them, as far as it went.
                for (name, elements) in &mut reach {
                    let needed = unreached.needed.get(name).copied().unwrap_or_default();
                    *elements = needed.max(*elements).max(whole.main_size());
                }
                return Ok(Reached { fault: Some(before), ..Reached::plain(Ok(reach), times) });
            }
            return Ok(Reached { tried: Some((launch, before)), ..Reached::plain(Ok(reach), times) });
        }
    }
    for number in NUMBERS.into_iter().filter(|_| whole.guesses_numbers(kernel)) {
        let mut alone = whole.alone(kernel);
        alone.set_numbers(0, number);
        let launches = alone.launches(0).into_iter().take(LAUNCHES_OF_NUMBER).map(Some);
        for launch in std::iter::once(None).chain(launches) {
            if !trials.go_on(times, MOST_OF_KERNEL) {
                break;
            }
            let mut alone = alone.clone();
            if let Some(launch) = &launch {
                alone.set_launch(0, launch.clone(), &before);
            }
            match of_draft(alone, trials, &mut times).await? {
                Ok(reach) => {
                    let tried = launch.map(|launch| (launch, before));
                    return Ok(Reached { tried, number: Some(number), ..Reached::plain(Ok(reach), times) });
                }
                Err(unreached) if unreached.of_launch => {}
                Err(_) => break,
            }
        }
    }
    Ok(Reached::plain(Err(unreached), times))
}

/// Launches a kernel that ended well and wrote nothing, as one does that wants other blocks than were guessed, by the first others by which it writes.
async fn write_something(whole: &Draft, kernel: usize, one: &mut Reached, trials: &Trials) -> anyhow::Result<()> {
    let writes = |reach: &Reach| reach.as_ref().is_ok_and(|elements| whole.writes(kernel, elements));
    if one.reach.is_err() || writes(&one.reach) || !whole.guesses_block(kernel) {
        return Ok(());
    }
    for launch in whole.launches(kernel).into_iter().filter(|launch| !launch.is_one) {
        let mut alone = whole.alone(kernel);
        alone.set_launch(0, launch.clone(), NOTHING);
        let reach = of_draft(alone, trials, &mut one.times).await?;
        if writes(&reach) {
            (one.reach, one.tried) = (reach, Some((launch, NOTHING.to_string())));
            break;
        }
    }
    Ok(())
}

/// How far the kernel of `alone` goes: as the instance that it is or, of several launches, as the first that is right for the blocks.
async fn of_instances(alone: &Draft, trials: &Trials) -> anyhow::Result<Reached> {
    let mut times = 0;
    let first = of_draft(alone.clone(), trials, &mut times).await?;
    let may_be_other = first.as_ref().is_err_and(|unreached| unreached.of_launch);
    for instance in 1.. {
        if !may_be_other || !trials.go_on(times, MOST_OF_KERNEL) {
            break;
        }
        let mut alone = alone.clone();
        if !alone.set_instance(0, instance) {
            break;
        }
        if let Ok(reach) = of_draft(alone, trials, &mut times).await? {
            return Ok(Reached { instance: Some(instance), ..Reached::plain(Ok(reach), times) });
        }
    }
    Ok(Reached::plain(first, times))
}

/// How far the kernel of `alone` goes, with its default params; `times` counts that.
async fn of_draft(alone: Draft, trials: &Trials, times: &mut u32) -> anyhow::Result<Reach> {
    let reach = once(alone, trials).await?;
    let is_large = reach.as_ref().is_err_and(|unreached| OF_SIZES.contains(&unreached.failure.kind));
    *times += if is_large { OF_LARGE } else { 1 };
    Ok(reach)
}

async fn once(alone: Draft, Trials { tools, executor, target, .. }: &Trials) -> anyhow::Result<Reach> {
    let bundle = Bundle { toml: alone.spec(), ..alone.bundle() };
    // A kernel with a structure of which nothing is known has no spec yet.
    let invalid =
        |error: PlanError| Failure::new(FailureKind::InvalidLaunch, format!("{:#}", anyhow::Error::from(error)));
    let spec = match LoadedSpec::load(bundle) {
        Ok(spec) => spec,
        Err(error) => return Ok(Err(invalid(error).into())),
    };
    let problem = match spec.spec.problem(&BTreeMap::new()) {
        Ok(problem) => problem,
        Err(error) => return Ok(Err(invalid(error.into()).into())),
    };
    let specs = Specs::for_target(vec![spec], target);
    let asked = Asked { specs, budget: CandidateBudget::Candidates(1), ..Asked::default() };
    let checking = Checking::with(tools, executor.clone(), &[problem], &asked, 1).await?;
    let none = || Err(Failure::new(FailureKind::InvalidLaunch, "found no candidate, expected one").into());
    Ok(checking.reach().await?.into_iter().next().unwrap_or_else(none))
}
