//! Kernel specs: those that are shipped, and a user's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bluefin_common::problem::Problem;
use bluefin_common::target::Target;
use bluefin_common::value::Value;
use bluefin_kernel_spec::{Bundle, SpecError};
use bluefin_producer::specs::{LoadedSpec, Specs};
use clap::ValueEnum;
use serde::Deserialize;

use crate::usage;

/// Kernels that are tried beside bluefin's own for the same problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum With {
    /// Triton's matrix product
    Triton,
}

/// The spec of a user's own kernel.
///
/// # Errors
/// It can not be loaded.
pub fn own_spec(path: &Path) -> anyhow::Result<LoadedSpec> {
    let own = Bundle::read(path).map_err(Into::into).and_then(LoadedSpec::load);
    own.with_context(|| format!("--kernel {}", path.display()))
}

/// The specs for `target`, those `with` more kernels, and a user's own of the files `own`, with the problems of these, of each of `sizes`.
/// Those of an operator are asked for by commands, so that none is added to `problems` where there are some.
///
/// # Errors
/// If a spec can not be loaded, its name is taken, or it has no such size; if there is no problem or no GPU for the kernels that are asked for.
pub fn with_own(
    own: &[PathBuf],
    sizes: &[BTreeMap<String, Value>],
    with: Option<With>,
    has_commands: bool,
    target: &Target,
    mut problems: Vec<Problem>,
) -> anyhow::Result<(Specs, Vec<Problem>)> {
    let mut specs = match with {
        None => LoadedSpec::shipped()?,
        Some(With::Triton) => beside_triton(target, &problems)?,
    };
    for path in own {
        let own = own_spec(path)?;
        if own.spec.kernel().is_some() && (own.spec.problem == "kernel" || !has_commands) {
            for sizes in sizes {
                let wrong = |error: SpecError| {
                    if sizes.is_empty() { error.into() } else { usage(format!("--size: {error}")) }
                };
                let problem = own.spec.problem(sizes).map_err(wrong)?;
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
        }
        if specs.iter().any(|spec| spec.spec.name == own.spec.name) {
            return Err(usage(format!("{}: the name {} is taken by another spec", path.display(), own.spec.name)));
        }
        specs.push(own);
    }
    Ok((Specs::for_target(specs, target), problems))
}

/// The shipped specs with Triton's kernels, which are for some of `problems`.
fn beside_triton(target: &Target, problems: &[Problem]) -> anyhow::Result<Vec<LoadedSpec>> {
    let specs = LoadedSpec::shipped_beside_triton()?;
    if *target == Target::Host {
        return Err(usage("--with triton: its kernels are for GPUs, and what is to be tuned for is the CPU"));
    }
    let are_for =
        |problem: &Problem| specs.iter().any(|spec| spec.spec.has_two_toolchains() && spec.spec.is_of(problem));
    if !problems.iter().any(are_for) {
        return Err(usage("--with triton: its kernels are for matrix products, and none is named"));
    }
    Ok(specs)
}
