//! What sessions of MIOpen's solvers have in common, whichever tool tunes them.

use bluefin_common::candidate::Candidate;
use bluefin_common::digest::Digest;
use bluefin_common::job::Job;
use bluefin_common::lane::Lane;
use bluefin_common::method::Method;
use bluefin_common::problem::Problem;
use bluefin_common::session::{Session, Stage};
use bluefin_common::store::Store;
use bluefin_common::target::Target;

use super::Asked;
use crate::PlanError;
use crate::solvers::{Choice, Snapshot, snapshot};

/// Solvers that are told one by one.
const MAX_SOLVERS: usize = 3;

/// What sessions tune.
pub(super) const TUNES: &str = "MIOpen's solvers";
/// Why others are no problems of theirs.
pub(super) const NOT_OURS: &str = "MIOpen's tools tune convolutions and batch norms";

/// Whether MIOpen has solvers for `target`.
pub(super) fn check_target(target: &Target) -> Result<(), PlanError> {
    match target.backend() {
        "HIP" => Ok(()),
        _ => Err(PlanError::Usage(format!("--tuner: MIOpen has no solvers for {target}, expected a gfx target"))),
    }
}

/// A session of MIOpen's solvers that is being planned.
pub(super) struct OfMiopen<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) session: Session,
    /// The stages that are planned.
    pub(super) stages: Vec<Stage>,
    pub(super) choice: &'a Choice,
    /// The solvers of its library; none if nobody asked it.
    pub(super) solvers: Snapshot,
    pub(super) hint: &'a str,
}

impl<'a> OfMiopen<'a> {
    /// Holds what is `asked` against the session. Whether the snapshot of the library `is_needed` whatever is chosen depends
    /// on the tool.
    pub(super) async fn begin(
        store: &'a dyn Store,
        session: &Session,
        asked: &'a Asked,
        is_needed: bool,
    ) -> Result<Self, PlanError> {
        let (name, choice) = (&session.name, &asked.choice);
        if let Some(target) = asked.target.as_ref().filter(|target| **target != session.target) {
            return Err(PlanError::Usage(format!("--target {target}: session {name} is for {}", session.target)));
        }
        let stages = if asked.stages.is_empty() { session.stages.clone() } else { asked.stages.clone() };
        if let Some(stage) = stages.iter().find(|stage| !session.stages.contains(stage)) {
            let own: Vec<&str> = session.stages.iter().map(|stage| stage.name()).collect();
            return Err(PlanError::Usage(format!(
                "--stage {}: session {name} has {}; make another session",
                stage.name(),
                own.join(",")
            )));
        }
        let solvers = snapshot(store, name).await?;
        if solvers.is_empty() && (is_needed || choice.needs_snapshot()) {
            return Err(PlanError::Unready(format!(
                "session {name}: its solvers are not known; run bluefin solvers update --session {name}"
            )));
        }
        if let Some(unknown) = choice.unknown(&solvers).filter(|_| !solvers.is_empty()) {
            return Err(PlanError::Usage(format!(
                "--solver: MIOpen has no {unknown}; see bluefin solvers list --session {name}"
            )));
        }
        Ok(Self { store, session: session.clone(), stages, choice, solvers, hint: &asked.hint })
    }

    /// A job of one problem: there is one for each stage, problem and solver, so that one that fails takes nothing with it.
    pub(super) fn job<'b>(&self, stage: Stage, problem: &Problem, solvers: impl IntoIterator<Item = &'b str>) -> Job {
        let Session { name, target, method, .. } = &self.session;
        let candidate = |solver: &str| Candidate { solver: solver.to_string(), params: Vec::new() };
        Job {
            session: name.clone(),
            stage,
            target: target.clone(),
            problem: problem.clone(),
            method: *method,
            // There is no kernel spec.
            spec: Digest::of(b""),
            toolchain: toolchain(*method).to_string(),
            candidates: solvers.into_iter().map(candidate).collect(),
            round: 0,
            lane: Lane::First,
        }
    }

    /// Why of `names`, the solvers that may apply to a problem, none is planned: what is known of each.
    pub(super) fn why_passed_over(&self, names: &[&str]) -> String {
        let reason = |name: &&str| match self.solvers.get(*name) {
            None => format!("{name} (not in the session's list of solvers)"),
            // Perf jobs are of those that are tunable.
            Some(solver) => {
                let refusal = self.choice.refusal(solver);
                format!("{name} ({})", refusal.unwrap_or_else(|| "not tunable, as --stage perf asks".to_string()))
            }
        };
        let mut told: Vec<String> = names.iter().take(MAX_SOLVERS).map(reason).collect();
        match names.len().saturating_sub(MAX_SOLVERS) {
            0 => {}
            more => told.push(format!("{more} more")),
        }
        format!("none is chosen of {}", told.join(", "))
    }
}

/// The toolchain of a method that has one; the name of a method that has none.
fn toolchain(method: Method) -> &'static str {
    method.toolchains.first().copied().unwrap_or(method.name)
}

/// Whether MIOpen has solvers for problems of this kind.
pub(super) fn is_of_miopen(problem: &Problem) -> bool {
    matches!(problem, Problem::Conv(_) | Problem::BatchNorm(_))
}

#[cfg(test)]
pub(super) mod tests {
    use bluefin_common::problem::{ConvProblem, ConvShape, DataType, Direction};
    use bluefin_miopen::solver::Solver;

    use super::*;

    pub(in super::super) fn session(method: Method) -> Session {
        let target = "gfx90a-104".parse().unwrap();
        let session = Session::of_kernels("s".parse().unwrap(), target, "", &Stage::ALL, 1);
        Session { method, ..session }
    }

    pub(in super::super) fn problem() -> Problem {
        Problem::Conv(ConvProblem::new(ConvShape::plain(Direction::Forward, DataType::Fp32)).unwrap())
    }

    /// One that is tunable, and one that is not.
    pub(in super::super) fn solvers() -> Snapshot {
        let solver = |(name, tunable): (&str, bool)| {
            let primitive = "convolution".to_string();
            (name.to_string(), Solver { id: 1, name: name.to_string(), primitive, tunable, dynamic: false })
        };
        [("ConvAsm1x1U", true), ("GemmFwdRest", false)].map(solver).into()
    }
}
