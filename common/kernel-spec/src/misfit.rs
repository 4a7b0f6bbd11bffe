//! Why a spec has no candidate for a problem, for people.

use std::fmt;

use crate::condition::Unmet;
use crate::error::SpecError;
use crate::expression::push;
use crate::scope::Unfit;
use crate::{KernelSpec, Scope, Solver};
use bluefin_common::problem::Problem;
use bluefin_common::target::Target;

/// Most solvers that are told one by one.
const MAX_SOLVERS: usize = 3;

/// Why a spec has no candidate for a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// It is for problems of another kind, another kernel, or one of other sizes.
    Problem,
    /// It is for these architectures, not for the target's.
    Target { architectures: Vec<String> },
    /// It is not `applicable`.
    Inapplicable {
        first: Unmet,
        /// Conditions that are not met, the first among them.
        unmet: usize,
    },
    /// It is, but none of its solvers has a candidate.
    Solvers(Vec<SolverMisfit>),
}

/// Why a solver has no candidate for a problem that its spec is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SolverMisfit {
    pub solver: String,
    /// The first condition that is not met: of `applicable`, or of the constraints, for the default params.
    pub unmet: Unmet,
    /// The solver applies, but no point of its tuning space, which has so many, meets its constraints.
    pub space: Option<u64>,
}

impl KernelSpec {
    /// Why there is no candidate for `problem` on `target`. `None` if a solver applies and its default params are valid.
    ///
    /// # Errors
    /// An expression that has no value, or not one of the right type.
    pub fn misfit(&self, problem: &Problem, target: &Target) -> Result<Option<Misfit>, SpecError> {
        let scope = match self.fit(problem, target)? {
            Ok(scope) => scope,
            Err(Unfit::Problem) => return Ok(Some(Misfit::Problem)),
            Err(Unfit::Target) => return Ok(Some(Misfit::Target { architectures: self.targets.clone() })),
            Err(Unfit::Inapplicable(mut values)) => {
                let failure = self.applicable.failure(&mut values);
                return Ok(failure.map(|(first, unmet)| Misfit::Inapplicable { first, unmet }));
            }
        };
        let tried = self.solvers.iter().filter(|solver| solver.is_candidate);
        let misfits: Option<Vec<_>> = tried.map(|solver| solver.misfit(&scope)).collect();
        Ok(misfits.map(Misfit::Solvers))
    }
}

impl Solver {
    fn misfit(&self, scope: &Scope) -> Option<SolverMisfit> {
        let misfit = |unmet, space| SolverMisfit { solver: self.name.clone(), unmet, space };
        let mut values = scope.values.clone();
        if let Some((unmet, _)) = self.applicable.failure(&mut values) {
            return Some(misfit(unmet, None));
        }
        for param in &self.params {
            push(&mut values, &param.name, &param.default);
        }
        let (unmet, _) = self.constraints.iter().find_map(|constraint| constraint.failure(&mut values))?;
        Some(misfit(unmet, Some(self.space())))
    }
}

impl Misfit {
    /// How far the spec is from a candidate, to be compared with other specs: how many conditions are in the way.
    #[must_use]
    pub fn distance(&self) -> usize {
        match self {
            Self::Solvers(_) => 0,
            Self::Inapplicable { unmet, .. } => *unmet,
            Self::Target { .. } => usize::MAX - 1,
            Self::Problem => usize::MAX,
        }
    }
}

/// Follows the name of the spec: `needs in_type == "FP32" (in_type is BFP16)`.
impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Problem => f.write_str("is for other problems"),
            Self::Target { architectures } => write!(f, "is for {}", architectures.join(" ")),
            Self::Inapplicable { first, .. } => write!(f, "needs {first}"),
            Self::Solvers(solvers) => {
                let told: Vec<String> = solvers.iter().take(MAX_SOLVERS).map(ToString::to_string).collect();
                write!(f, "has no solver: {}", told.join(", "))?;
                match solvers.len().saturating_sub(MAX_SOLVERS) {
                    0 => Ok(()),
                    more => write!(f, ", and {more} more"),
                }
            }
        }
    }
}

impl fmt::Display for SolverMisfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { solver, unmet, space } = self;
        match space {
            None | Some(1) => write!(f, "{solver} needs {unmet}"),
            Some(space) => write!(f, "none of the {space} params of {solver} is valid: the default needs {unmet}"),
        }
    }
}
