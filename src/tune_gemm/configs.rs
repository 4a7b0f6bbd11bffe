//! Plans of a tuning space: what its solvers offer, less the reference, which is no config that a file could name.

use async_trait::async_trait;
use bluefin_common::problem::Problem;
use bluefin_producer::PlanError;
use bluefin_producer::plan::{PlannedGroup, Planning, ProblemPlan, Selects};

/// A plan without the candidates of the solver `reference`.
pub struct Configs<'a> {
    pub all: &'a dyn Planning,
    pub reference: &'a str,
}

impl Configs<'_> {
    fn only(&self, mut group: PlannedGroup) -> PlannedGroup {
        // The candidates of a job are of one solver.
        group.jobs.retain(|job| job.candidates.iter().all(|candidate| candidate.solver != self.reference));
        let chosen = group.jobs.iter().map(|job| job.candidates.len() as u64).sum();
        group.valid -= group.chosen - chosen;
        PlannedGroup { chosen, ..group }
    }
}

#[async_trait]
impl Planning for Configs<'_> {
    fn selects(&self) -> Selects {
        self.all.selects()
    }

    fn is_perf_alone(&self) -> bool {
        self.all.is_perf_alone()
    }

    async fn plan(&self, problems: &[Problem]) -> Result<Vec<ProblemPlan>, PlanError> {
        let plans = self.all.plan(problems).await?;
        let only = |plan| match plan {
            ProblemPlan::Jobs(groups) => ProblemPlan::Jobs(groups.into_iter().map(|group| self.only(group)).collect()),
            other => other,
        };
        Ok(plans.into_iter().map(only).collect())
    }
}
