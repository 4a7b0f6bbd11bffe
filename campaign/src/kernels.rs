//! Kernel specs: those that are shipped, and a user's own.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context as _;
use bluefin_common::problem::Problem;
use bluefin_common::target::Target;
use bluefin_common::value::Value;
use bluefin_kernel_spec::Bundle;
use bluefin_producer::specs::{LoadedSpec, Specs};

use crate::usage;

/// The specs for `target`, with a user's own of the files `own`, and the problems of these, of each of `sizes`. Those of an operator
/// are asked for by commands, so that none is added where `has_commands`.
///
/// # Errors
/// If a spec can not be loaded, its name is taken, or it has no such size.
pub fn with_own(
    own: &[PathBuf],
    sizes: &[BTreeMap<String, Value>],
    has_commands: bool,
    target: &Target,
) -> anyhow::Result<(Specs, Vec<Problem>)> {
    let mut specs = LoadedSpec::shipped()?;
    let mut problems = Vec::new();
    for path in own {
        let own = Bundle::read(path).map_err(Into::into).and_then(LoadedSpec::load);
        let own = own.with_context(|| format!("--kernel {}", path.display()))?;
        if own.spec.kernel().is_some() && (own.spec.problem == "kernel" || !has_commands) {
            for sizes in sizes {
                let problem = own.spec.problem(sizes)?;
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
