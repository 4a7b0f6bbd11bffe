//! How far the kernels of a draft go in their buffers: each is compiled and executed on the CPU, as `check` does.

use std::collections::BTreeMap;

use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::target::Target;
use bluefin_eval_worker::executed::Executor;
use bluefin_kernel_spec::Bundle;
use bluefin_kernel_spec::draft::Draft;
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
    let whole = &*draft;
    let all = stream::iter(0..whole.kernels.len());
    let all = all.map(|at| of_kernel(whole.alone(at), executor, target)).buffered(itself::cpus());
    let all: Vec<Reach> = all.try_collect().await?;
    let mut remarks = Vec::new();
    for (kernel, reach) in draft.kernels.iter().zip(&all) {
        if let Err(Failure { kind, detail }) = reach {
            let first = detail.lines().next().unwrap_or_default();
            let (name, kind) = (&kernel.name, kind.name());
            remarks.push(format!(
                "{name} can not be executed as it is drafted, how far it goes is a guess: {kind}: {first}"
            ));
        }
    }
    draft.set_reach(all.iter().map(|reach| reach.as_ref().ok()));
    Ok(remarks)
}

/// How far the kernel of `alone` goes, with its default params.
async fn of_kernel(alone: Draft, executor: &Executor, target: &Target) -> anyhow::Result<Reach> {
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
