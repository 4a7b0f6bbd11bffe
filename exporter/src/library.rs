//! Where the solvers of a group come from: a kernel spec, or MIOpen. All that the fold needs to know of either.

use bluefin_common::artifact::Built;
use bluefin_common::campaign::Timed;
use bluefin_common::db::find_db::algorithm_name;
use bluefin_common::db::kernel_db::KernelName;
use bluefin_common::miopen::Tool;
use bluefin_common::outcome::Candidate;
use bluefin_common::problem::{Direction, Problem};
use bluefin_common::session::Session;
use bluefin_common::spec::KernelSpec;
use bluefin_common::target::Target;

use crate::fold::{Code, KernelRef};

/// The solvers of a group.
#[derive(Clone, Copy, Debug)]
pub enum Library<'a> {
    Spec(&'a KernelSpec),
    /// Reached through this tool.
    Miopen(Tool),
}

impl Library<'_> {
    /// Name of the spec, or of MIOpen's tool.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Spec(spec) => &spec.name,
            Self::Miopen(tool) => tool.name(),
        }
    }

    /// MIOpen's name of the algorithm of `timed`; `None` where MIOpen has no such algorithm for `direction`.
    pub(crate) fn algorithm(&self, direction: Direction, timed: &Timed<'_>) -> Option<String> {
        match self {
            Self::Spec(spec) => algorithm_name(direction, spec.solver(&timed.outcome.candidate.solver)?.algorithm),
            Self::Miopen(_) => Some(timed.outcome.built.as_ref()?.miopen()?.algorithm.clone()),
        }
    }

    /// Whether the perf db has a row for the params of `timed`.
    pub(crate) fn is_tunable(&self, timed: &Timed<'_>) -> bool {
        let candidate = &timed.outcome.candidate;
        match self {
            Self::Spec(spec) => spec.solver(&candidate.solver).is_some_and(|solver| solver.is_tunable()),
            Self::Miopen(_) => {
                let solution = timed.outcome.built.as_ref().and_then(Built::miopen);
                solution.is_some_and(|solution| solution.tunable) && !candidate.params.is_empty()
            }
        }
    }

    /// Name of the param at `index` of `solver`.
    pub(crate) fn param_name(&self, solver: &str, index: usize) -> String {
        let name = match self {
            Self::Spec(spec) => spec.solver(solver).and_then(|solver| solver.params.get(index)),
            Self::Miopen(_) => None,
        };
        name.map_or_else(|| index.to_string(), |param| param.name.clone())
    }

    /// `solver` with its default params, where they are known.
    pub(crate) fn default_candidate(&self, solver: &str) -> Option<Candidate> {
        match self {
            Self::Spec(spec) => Some(spec.solver(solver)?.default_candidate()),
            Self::Miopen(_) => None,
        }
    }

    /// Whether it is a solver with its default params, as far as those are known.
    pub(crate) fn is_default(&self, candidate: &Candidate) -> bool {
        self.default_candidate(&candidate.solver).as_ref() == Some(candidate)
    }

    /// The solver that all are checked against, where there is one.
    pub(crate) fn reference(&self) -> Option<Candidate> {
        match self {
            Self::Spec(spec) => Some(spec.reference()),
            Self::Miopen(_) => None,
        }
    }

    /// The code objects of `winner`, and the names that MIOpen would look them up by.
    pub(crate) fn kernels(
        &self,
        session: &Session,
        problem: &Problem,
        winner: &Timed<'_>,
    ) -> Result<Vec<(KernelName, KernelRef)>, String> {
        let built = winner.outcome.built.as_ref().ok_or("its outcome names no code object")?;
        let of = |code| KernelRef { code, problem: problem.canonical() };
        match (self, built) {
            (Self::Spec(spec), Built::Kernel(prepared)) => {
                let scope = spec.scope(problem, &session.target).map_err(|error| error.to_string())?;
                let scope = scope.ok_or_else(|| {
                    format!("kernel spec {} is not for this problem on {}", spec.name, session.target)
                })?;
                let build = spec.build(&winner.outcome.candidate, &scope).map_err(|error| error.to_string())?;
                let name = KernelName::new(&spec.source, &build.defines, &session.target);
                Ok(vec![(name, of(Code::Plain(prepared.artifact)))])
            }
            (Self::Miopen(_), Built::Miopen(solution)) => Ok(solution
                .kernels
                .iter()
                .map(|kernel| {
                    (miopen_name(&kernel.file, &kernel.options, &session.target), of(Code::Packed(kernel.clone())))
                })
                .collect()),
            (Self::Spec(_), Built::Miopen(_)) | (Self::Miopen(_), Built::Kernel(_)) => {
                Err("its code is not of its library".to_string())
            }
        }
    }
}

/// The name of a kernel that a tool of MIOpen's compiled: the tools leave out `.o` and the processor, and MIOpen looks up
/// both, but for MLIR, which names its processor itself (MIOpen, `src/hip/handlehip.cpp`).
fn miopen_name(file: &str, options: &str, target: &Target) -> KernelName {
    let name = if file.ends_with(".o") { file.to_string() } else { format!("{file}.o") };
    let args = if options.contains("-mcpu=") || name.ends_with(".mlir.o") {
        options.to_string()
    } else {
        format!("{options} -mcpu={}", target.arch())
    };
    KernelName { name, args }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_named_as_miopen_looks_them_up() {
        let target: Target = "gfx90a-104".parse().unwrap();
        for (file, options, name, args) in [
            ("conv1x1u.s", " -Wa,-a", "conv1x1u.s.o", " -Wa,-a -mcpu=gfx90a"),
            ("conv.cpp.o", "", "conv.cpp.o", " -mcpu=gfx90a"),
            ("conv.cpp", " -mcpu=gfx90a", "conv.cpp.o", " -mcpu=gfx90a"),
            ("mlir_gen.mlir", " -x", "mlir_gen.mlir.o", " -x"),
        ] {
            let found = miopen_name(file, options, &target);
            assert_eq!((found.name.as_str(), found.args.as_str()), (name, args));
        }
    }
}
