//! Plans of configs that are given: each product with its own, instead of a tuning space.

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
pub struct Given<'a> {
    /// Whose jobs they are.
    pub session: &'a Session,
    /// The spec that has their solvers.
    pub loaded: &'a LoadedSpec,
    /// One for each problem.
    pub candidates: HashMap<Problem, Candidate>,
}

#[async_trait]
impl Planning for Given<'_> {
    fn selects(&self) -> Selects {
        Selects::Candidates { within: "as given".to_string() }
    }

    async fn plan(&self, problems: &[Problem]) -> Result<Vec<ProblemPlan>, PlanError> {
        let plan = |problem: &Problem| match self.candidates.get(problem) {
            Some(candidate) => {
                let job = Job {
                    session: self.session.name.clone(),
                    stage: Stage::Perf,
                    target: self.session.target.clone(),
                    problem: problem.clone(),
                    method: self.session.method,
                    spec: self.loaded.digest,
                    toolchain: self.loaded.spec.toolchain.clone(),
                    candidates: vec![candidate.clone()],
                    round: 0,
                    lane: Lane::First,
                };
                ProblemPlan::Jobs(vec![PlannedGroup::of(vec![job])])
            }
            None => ProblemPlan::Unsolved("no config was given for it".to_string()),
        };
        Ok(problems.iter().map(plan).collect())
    }
}
