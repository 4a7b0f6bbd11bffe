//! How far the kernels of a draft go in their buffers: each is compiled and executed on the CPU, as `check` does.

use std::collections::BTreeMap;

use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::target::Target;
use bluefin_eval_worker::executed::Executor;
use bluefin_kernel_spec::Bundle;
use bluefin_kernel_spec::draft::{Draft, Launch};
use bluefin_producer::PlanError;
use bluefin_producer::plan::{Asked, CandidateBudget};
use bluefin_producer::specs::{LoadedSpec, Specs};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use super::check::Checking;
use super::itself;

/// What a draft says that it is tried with first.
const TARGET: &str = "gfx942-304";
/// Instructions of waves after which a kernel is given up: some seconds.
const MOST_INSTRUCTIONS: u64 = 20_000_000;

/// Failures after which kernels may end well with smaller sizes.
const OF_SIZES: [FailureKind; 2] = [FailureKind::OutOfMemory, FailureKind::Hang];
/// Failures after which a kernel may end well by another launch.
const OF_LAUNCHES: [FailureKind; 2] = [FailureKind::Fault, FailureKind::InvalidLaunch];

/// What came of a kernel: elements by the name of the buffer.
type Reach = Attempt<BTreeMap<String, u64>>;

/// Makes the buffers of `draft` as long as its kernels go in them. What is to be told is returned: which of them can not be executed as they are.
///
/// # Errors
/// No compiler.
pub async fn set_lengths(draft: &mut Draft) -> anyhow::Result<Vec<String>> {
    let target: Target = TARGET.parse()?;
    let executor = Executor::new(target.arch(), 1, MOST_INSTRUCTIONS)?;
    let (executor, target) = (&executor, &target);
    let all = loop {
        let whole = &*draft;
        let all = stream::iter(0..whole.kernels.len());
        let all = all.map(|at| of_kernel(whole, at, executor, target)).buffered(itself::cpus());
        let all: Vec<(Reach, Option<Tried>)> = all.try_collect().await?;
        let is_too_large = |reach: &Reach| matches!(reach, Err(failure) if OF_SIZES.contains(&failure.kind));
        match draft.smaller().filter(|_| all.iter().any(|(reach, _)| is_too_large(reach))) {
            Some(smaller) => *draft = smaller,
            None => break all,
        }
    };
    let mut remarks = Vec::new();
    let mut reaches = Vec::with_capacity(all.len());
    for (at, (reach, tried)) in all.into_iter().enumerate() {
        let name = draft.kernels.get(at).map_or("", |kernel| &kernel.name).to_string();
        let told = |Failure { kind, detail }: &Failure| {
            let first = detail.lines().next().unwrap_or_default();
            format!("{}: {first}", kind.name())
        };
        if let Some(Tried { launch, before }) = tried {
            let blocks = if launch.is_one { "one block" } else { "blocks" };
            let block: Vec<String> = launch.block.iter().map(ToString::to_string).collect();
            let (block, before) = (block.join(" x "), told(&before));
            remarks.push(format!(
                "{name} is launched by {blocks} of {block} threads, by the usual ones it ends like this: {before}"
            ));
            draft.set_launch(at, launch);
        }
        if let Err(failure) = &reach {
            let failure = told(failure);
            remarks.push(format!("{name} can not be executed as it is drafted, how far it goes is a guess: {failure}"));
        }
        reaches.push(reach.ok());
    }
    draft.set_reach(reaches.iter().map(Option::as_ref));
    Ok(remarks)
}

/// A launch by which a kernel ends well, and what came of it before.
struct Tried {
    launch: Launch,
    before: Failure,
}

/// How far a kernel of `whole` goes: launched as it is drafted or, if it does not end well so, by the first of others that it ends well by.
async fn of_kernel(
    whole: &Draft,
    kernel: usize,
    executor: &Executor,
    target: &Target,
) -> anyhow::Result<(Reach, Option<Tried>)> {
    let before = match of_draft(whole.alone(kernel), executor, target).await? {
        Err(failure) if OF_LAUNCHES.contains(&failure.kind) => failure,
        reach => return Ok((reach, None)),
    };
    for launch in whole.launches(kernel) {
        let mut alone = whole.alone(kernel);
        alone.set_launch(0, launch.clone());
        if let Ok(reach) = of_draft(alone, executor, target).await? {
            return Ok((Ok(reach), Some(Tried { launch, before })));
        }
    }
    Ok((Err(before), None))
}

/// How far the kernel of `alone` goes, with its default params.
async fn of_draft(alone: Draft, executor: &Executor, target: &Target) -> anyhow::Result<Reach> {
    let bundle = Bundle { toml: alone.spec(), ..alone.bundle() };
    // A kernel with a structure of which nothing is known has no spec yet.
    let invalid =
        |error: PlanError| Failure::new(FailureKind::InvalidLaunch, format!("{:#}", anyhow::Error::from(error)));
    let spec = match LoadedSpec::load(bundle) {
        Ok(spec) => spec,
        Err(error) => return Ok(Err(invalid(error))),
    };
    let problem = match spec.spec.problem(&BTreeMap::new()) {
        Ok(problem) => problem,
        Err(error) => return Ok(Err(invalid(error.into()))),
    };
    let specs = Specs::for_target(vec![spec], target);
    let asked = Asked { specs, budget: CandidateBudget::Candidates(1), ..Asked::default() };
    let checking = Checking::begin(executor.clone(), target, &[problem], &asked, 1).await?;
    let none = || Err(Failure::new(FailureKind::InvalidLaunch, "found no candidate, expected one"));
    Ok(checking.reach().await?.into_iter().next().unwrap_or_else(none))
}
