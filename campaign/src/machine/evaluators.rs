//! Evaluators that `--device` names beside the devices of this machine: `NAME`, or `NAME:<target>`.

mod aiter;
mod miopen;

use std::sync::Arc;

use bluefin_common::target::Target;
use bluefin_eval_worker::{Evaluator, Noop};
use futures_util::future::{BoxFuture, FutureExt as _, ready};

use crate::usage;

pub use aiter::AiterArgs;
pub use miopen::{FinArgs, MiopenArgs, launcher};

/// What is found by a name. All that is found works on one device, by turns.
pub type Found<'a> = BoxFuture<'a, anyhow::Result<Vec<Arc<dyn Evaluator>>>>;

/// Evaluators of a name.
#[derive(Clone, Copy)]
pub struct NamedEvaluators {
    /// What `--device` calls them.
    pub name: &'static str,
    /// For the help text, in a few words; without it is not told of.
    pub about: Option<&'static str>,
    /// Those that there are, for a target if one is named.
    pub find: for<'a> fn(Option<Target>, &'a ToolArgs) -> Found<'a>,
}

/// Where tools that evaluate are.
#[derive(clap::Args)]
pub struct ToolArgs {
    #[command(flatten)]
    miopen: MiopenArgs,
    #[command(flatten)]
    aiter: AiterArgs,
}

/// Those that bluefin ships.
#[must_use]
pub fn shipped() -> Vec<NamedEvaluators> {
    vec![
        NamedEvaluators {
            name: "miopen",
            about: Some("for a GPU through MIOpen's own tools"),
            find: |target, args| args.miopen.evaluators(target).boxed(),
        },
        NamedEvaluators {
            name: "aiter",
            about: Some("for a GPU through aiter's own tuners"),
            find: |target, args| args.aiter.evaluators(target, args.miopen.gpu()).boxed(),
        },
        NamedEvaluators { name: "noop", about: None, find: |target, _| ready(noop(target)).boxed() },
    ]
}

fn noop(target: Option<Target>) -> anyhow::Result<Vec<Arc<dyn Evaluator>>> {
    let target = target.ok_or_else(|| usage("--device noop: expected noop:<target>, such as noop:gfx90a-104"))?;
    Ok(vec![Arc::new(Noop { target })])
}
