//! From problems to jobs: which specs apply, which candidates the budget allows, how they are batched.

pub mod miopen;

use std::fmt;
use std::str::FromStr;

use bluefin_common::digest::Digest;
use bluefin_common::job::{Job, Stage};
use bluefin_common::problem::Problem;
use bluefin_common::session::Session;
use bluefin_common::spec::{Bundle, KernelSpec, Misfit, SpecError};
use bluefin_common::target::Target;

use crate::PlanError;

/// Candidates of one job. Small enough that a job takes seconds and its progress shows; a larger budget adds jobs and
/// leaves the existing ones as they are.
pub const BATCH: usize = 8;

/// Most specs, and most characters, of the reason why a problem has no candidate.
const MAX_SPECS: usize = 3;
const MAX_REASON: usize = 600;

/// How many candidates of each tunable solver are tried for each problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// At most this many, the solver's default among them.
    Candidates(usize),
    /// The whole space.
    All,
}

impl Default for Budget {
    fn default() -> Self {
        Self::NORMAL
    }
}

impl Budget {
    pub const QUICK: Self = Self::Candidates(8);
    pub const NORMAL: Self = Self::Candidates(16);
    pub const THOROUGH: Self = Self::Candidates(64);

    fn limit(self) -> usize {
        match self {
            Self::Candidates(limit) => limit,
            Self::All => usize::MAX,
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::QUICK => f.write_str("quick"),
            Self::NORMAL => f.write_str("normal"),
            Self::THOROUGH => f.write_str("thorough"),
            Self::Candidates(limit) => write!(f, "{limit}"),
            Self::All => f.write_str("all"),
        }
    }
}

/// A text that is no budget.
#[derive(Debug, thiserror::Error)]
#[error(
    "budget: found {found:?}, expected quick (8), normal (16), thorough (64), all, or a number of candidates per solver"
)]
pub struct InvalidBudget {
    found: String,
}

impl FromStr for Budget {
    type Err = InvalidBudget;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "quick" => Ok(Self::QUICK),
            "normal" => Ok(Self::NORMAL),
            "thorough" => Ok(Self::THOROUGH),
            "all" => Ok(Self::All),
            number => match number.parse() {
                Ok(limit) if limit > 0 => Ok(Self::Candidates(limit)),
                _ => Err(InvalidBudget { found: text.chars().take(80).collect() }),
            },
        }
    }
}

/// A spec ready to plan with.
pub struct LoadedSpec {
    pub bundle: Bundle,
    pub digest: Digest,
    pub spec: KernelSpec,
}

impl LoadedSpec {
    /// Loads and checks `bundle`.
    ///
    /// # Errors
    /// What is wrong with the spec, and where.
    pub fn load(bundle: Bundle) -> Result<Self, PlanError> {
        let spec = KernelSpec::load(&bundle)?;
        Ok(Self { digest: bundle.digest()?, spec, bundle })
    }

    /// The specs that bluefin ships.
    ///
    /// # Errors
    /// Never for a released binary; a test loads them all.
    pub fn shipped() -> Result<Vec<Self>, PlanError> {
        Bundle::shipped().into_iter().map(Self::load).collect()
    }
}

/// The perf jobs of one problem with one spec.
pub struct PlannedGroup {
    pub jobs: Vec<Job>,
    /// Candidates in `jobs`.
    pub chosen: u64,
    /// Valid candidates in the space; an estimate where the space is huge.
    pub valid: u64,
}

/// Plans the perf jobs of `problem` for every spec that applies to it. Empty: no solver applies.
///
/// # Errors
/// If an expression of a spec fails for this problem.
pub fn plan_problem(
    session: &Session,
    problem: &Problem,
    specs: &[LoadedSpec],
    budget: Budget,
) -> Result<Vec<PlannedGroup>, PlanError> {
    let mut groups = Vec::new();
    for loaded in specs {
        let group = plan_group(session, problem, loaded, budget)
            .map_err(|source| PlanError::Problem { problem: problem.to_string(), source: source.into() })?;
        groups.extend(group.filter(|group| !group.jobs.is_empty()));
    }
    Ok(groups)
}

/// Why [`plan_problem`] plans nothing for `problem`, in one line: what is in the way of the specs that are for problems like
/// it, the nearest first. Specs that are for other architectures are told of where there is none for `target`.
///
/// # Errors
/// If an expression of a spec fails for this problem.
pub fn why_unsolved<'a>(
    problem: &Problem,
    target: &Target,
    specs: impl IntoIterator<Item = &'a LoadedSpec>,
) -> Result<String, PlanError> {
    let mut misfits = Vec::new();
    for LoadedSpec { spec, .. } in specs {
        let misfit = spec
            .misfit(problem, target)
            .map_err(|source| PlanError::Problem { problem: problem.to_string(), source: source.into() })?;
        misfits.extend(misfit.filter(|misfit| *misfit != Misfit::Problem).map(|misfit| (&spec.name, misfit)));
    }
    if misfits.iter().any(|(_, misfit)| !matches!(misfit, Misfit::Target { .. })) {
        misfits.retain(|(_, misfit)| !matches!(misfit, Misfit::Target { .. }));
    }
    misfits.sort_by_key(|(_, misfit)| misfit.distance());
    let told: Vec<String> = misfits.iter().take(MAX_SPECS).map(|(name, misfit)| format!("{name} {misfit}")).collect();
    let mut reason = match problem {
        _ if !told.is_empty() => told.join("; "),
        Problem::Kernel(kernel) => {
            let sizes: Vec<&str> = kernel.sizes.keys().map(String::as_str).collect();
            format!("no kernel spec is named {} and has the sizes {}", kernel.kernel, sizes.join(" "))
        }
        Problem::Conv(_) => "no kernel spec is for convolutions".to_string(),
        Problem::Gemm(_) => "no kernel spec is for matrix products".to_string(),
        Problem::BatchNorm(_) => "no kernel spec is for batch norms".to_string(),
    };
    if let Some((end, _)) = reason.char_indices().nth(MAX_REASON) {
        reason.truncate(end);
        reason.push('…');
    }
    match misfits.len().saturating_sub(MAX_SPECS) {
        0 => {}
        more => reason.push_str(&format!("; and {more} more specs do not apply")),
    }
    Ok(reason)
}

fn plan_group(
    session: &Session,
    problem: &Problem,
    loaded: &LoadedSpec,
    budget: Budget,
) -> Result<Option<PlannedGroup>, SpecError> {
    let Some(scope) = loaded.spec.scope(problem, &session.target)? else { return Ok(None) };
    let mut group = PlannedGroup { jobs: Vec::new(), chosen: 0, valid: 0 };
    for solver in loaded.spec.solvers_for(&scope)? {
        let candidates = loaded.spec.candidates(solver, &scope, budget.limit())?;
        group.valid += candidates.valid;
        group.chosen += candidates.points.len() as u64;
        group.jobs.extend(candidates.points.chunks(BATCH).map(|batch| Job {
            session: session.name.clone(),
            stage: Stage::Perf,
            target: session.target.clone(),
            problem: problem.clone(),
            spec: loaded.digest,
            toolchain: loaded.spec.toolchain.to_string(),
            candidates: batch.to_vec(),
        }));
    }
    Ok(Some(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_parse_and_print() {
        for text in ["quick", "normal", "thorough", "all", "5"] {
            assert_eq!(text.parse::<Budget>().unwrap().to_string(), text);
        }
        for text in ["", "0", "-1", "some"] {
            assert!(text.parse::<Budget>().is_err());
        }
    }
}
