//! Plans of candidates that are given: each problem with its own, instead of a tuning space.

use std::collections::HashMap;

use async_trait::async_trait;
use bluefin_common::candidate::Candidate;
use bluefin_common::job::Job;
use bluefin_common::lane::Lane;
use bluefin_common::problem::Problem;
use bluefin_common::session::{Session, Stage};
use bluefin_producer::PlanError;
use bluefin_producer::plan::{PlannedGroup, Planning, ProblemPlan, Selects};
use bluefin_producer::specs::LoadedSpec;

/// Candidates that are given.
pub(crate) struct Given<'a> {
    /// Whose jobs they are.
    pub session: &'a Session,
    /// In the find stage those of a problem are timed in turns.
    pub stage: Stage,
    /// Of each problem, with the spec that has their solvers. It is in the store.
    pub candidates: HashMap<Problem, (&'a LoadedSpec, Vec<Candidate>)>,
}

#[async_trait]
impl Planning for Given<'_> {
    fn selects(&self) -> Selects {
        Selects::Candidates { within: "as given".to_string() }
    }

    async fn plan(&self, problems: &[Problem]) -> Result<Vec<ProblemPlan>, PlanError> {
        let plan = |problem: &Problem| match self.candidates.get(problem) {
            Some((loaded, candidates)) if !candidates.is_empty() => {
                let job = Job {
                    session: self.session.name.clone(),
                    stage: self.stage,
                    target: self.session.target.clone(),
                    problem: problem.clone(),
                    method: self.session.method,
                    spec: loaded.digest,
                    toolchain: loaded.spec.toolchain.clone(),
                    candidates: candidates.clone(),
                    round: 0,
                    lane: Lane::First,
                };
                ProblemPlan::Jobs(vec![PlannedGroup::of(vec![job])])
            }
            _ => ProblemPlan::Unsolved("no config was given for it".to_string()),
        };
        Ok(problems.iter().map(plan).collect())
    }
}
