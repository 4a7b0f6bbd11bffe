//! Sessions of MIOpen's solvers through MIOpenDriver, which finds, tunes and compiles in one process.

use async_trait::async_trait;
use bluefin_common::job::Job;
use bluefin_common::method::Method;
use bluefin_common::problem::Problem;
use bluefin_common::session::{Session, Stage};
use bluefin_common::store::Store;
use bluefin_miopen::ANY_SOLVER;

use super::miopen::{NOT_OURS, OfMiopen, TUNES, check_target, is_of_miopen};
use super::{Asked, PlannedGroup, Planner, Planning, ProblemPlan, Selects};
use crate::PlanError;

/// Plans sessions of MIOpenDriver.
pub struct MiopenDriverPlanner;

#[async_trait]
impl Planner for MiopenDriverPlanner {
    fn method(&self) -> Method {
        Method::MIOPENDRIVER
    }

    fn tunes(&self) -> &'static str {
        TUNES
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::Find]
    }

    fn check(&self, session: &Session) -> Result<(), PlanError> {
        check_target(&session.target)?;
        if session.stages != self.stages() {
            return Err(PlanError::Usage("--stage: MIOpenDriver tunes and finds at once, expected find".to_string()));
        }
        Ok(())
    }

    async fn begin<'a>(
        &'a self,
        store: &'a dyn Store,
        session: &Session,
        asked: &'a Asked,
    ) -> Result<Box<dyn Planning + 'a>, PlanError> {
        Ok(Box::new(OfDriver(OfMiopen::begin(store, session, asked, false).await?)))
    }
}

/// A session of MIOpenDriver that is being planned.
struct OfDriver<'a>(OfMiopen<'a>);

#[async_trait]
impl Planning for OfDriver<'_> {
    fn selects(&self) -> Selects {
        Selects::Solvers
    }

    async fn plan(&self, problems: &[Problem]) -> Result<Vec<ProblemPlan>, PlanError> {
        Ok(problems.iter().map(|problem| self.plan_one(problem)).collect())
    }
}

impl OfDriver<'_> {
    fn plan_one(&self, problem: &Problem) -> ProblemPlan {
        if !is_of_miopen(problem) {
            return ProblemPlan::Unsolved(NOT_OURS.to_string());
        }
        match self.job(problem) {
            Some(job) => ProblemPlan::Jobs(vec![PlannedGroup::of(vec![job])]),
            None => {
                let names: Vec<&str> = self.0.solvers.keys().map(String::as_str).collect();
                ProblemPlan::PassedOver(self.0.why_passed_over(&names))
            }
        }
    }

    /// The one job of `problem`: all solvers, or those that are chosen. MIOpen itself finds out which of them apply.
    fn job(&self, problem: &Problem) -> Option<Job> {
        let OfMiopen { choice, solvers, .. } = &self.0;
        let chosen: Vec<&str> = if choice.needs_snapshot() {
            solvers.values().filter(|solver| choice.takes(solver)).map(|solver| solver.name.as_str()).collect()
        } else if choice.names.is_empty() {
            vec![ANY_SOLVER]
        } else {
            choice.names.iter().map(String::as_str).collect()
        };
        (!chosen.is_empty()).then(|| self.0.job(Stage::Find, problem, chosen))
    }
}

#[cfg(test)]
mod tests {
    use bluefin_adapters::sqlite::SqliteStore;

    use super::super::miopen::tests::{problem, session, solvers};
    use super::*;
    use crate::solvers::Choice;

    fn planned(choice: &Choice) -> Option<Job> {
        let store = SqliteStore::in_memory().unwrap();
        let (session, solvers) = (session(Method::MIOPENDRIVER), solvers());
        OfDriver(OfMiopen { store: &store, session, stages: vec![Stage::Find], choice, solvers, hint: "" })
            .job(&problem())
    }

    #[test]
    fn the_driver_is_asked_once_for_a_problem() {
        let any = planned(&Choice::default()).unwrap();
        assert_eq!((any.stage, any.toolchain.as_str(), any.candidates.len()), (Stage::Find, "miopendriver", 1));
        assert_eq!(any.candidates[0].solver, ANY_SOLVER);
        let names = ["a", "b"].map(String::from).to_vec();
        let named = planned(&Choice { names, ..Choice::default() }).unwrap();
        assert_eq!(named.candidates.len(), 2);
        assert_ne!(any.id(), named.id());
        let tunable = planned(&Choice { tunable: true, ..Choice::default() }).unwrap();
        assert_eq!(tunable.candidates[0].solver, "ConvAsm1x1U");
        assert!(planned(&Choice { dynamic: true, ..Choice::default() }).is_none());
    }
}
