//! Sessions of MIOpen's solvers through fin, which compiles and evaluates one solver at a time.

use async_trait::async_trait;
use bluefin_common::job::Job;
use bluefin_common::method::Method;
use bluefin_common::problem::Problem;
use bluefin_common::session::{Session, Stage};
use bluefin_common::store::Store;
use bluefin_miopen::driver::FIND_ENFORCE;

use super::miopen::{NOT_OURS, OfMiopen, TUNES, check_target, is_of_miopen};
use super::{Asked, PlannedGroup, Planner, Planning, ProblemPlan, Selects, is_perf_alone};
use crate::PlanError;
use crate::applicability::{self, Applicable};

/// Plans sessions of fin.
pub struct FinPlanner;

#[async_trait]
impl Planner for FinPlanner {
    fn method(&self) -> Method {
        Method::FIN
    }

    fn tunes(&self) -> &'static str {
        TUNES
    }

    fn check(&self, session: &Session) -> Result<(), PlanError> {
        check_target(&session.target)?;
        if session.environment.contains_key(FIND_ENFORCE) {
            return Err(PlanError::Usage(format!("--exhaustive is for --tuner {}", Method::MIOPENDRIVER)));
        }
        Ok(())
    }

    async fn begin<'a>(
        &'a self,
        store: &'a dyn Store,
        session: &Session,
        asked: &'a Asked,
    ) -> Result<Box<dyn Planning + 'a>, PlanError> {
        Ok(Box::new(OfFin(OfMiopen::begin(store, session, asked, true).await?)))
    }
}

/// A session of fin that is being planned.
struct OfFin<'a>(OfMiopen<'a>);

#[async_trait]
impl Planning for OfFin<'_> {
    fn selects(&self) -> Selects {
        Selects::Solvers
    }

    fn is_perf_alone(&self) -> bool {
        is_perf_alone(&self.0.session, &self.0.stages)
    }

    async fn plan(&self, problems: &[Problem]) -> Result<Vec<ProblemPlan>, PlanError> {
        let known = applicability::of(self.0.store, &self.0.session.name, problems).await?;
        Ok(problems.iter().zip(&known).map(|(problem, known)| self.plan_one(problem, known.as_ref())).collect())
    }
}

impl OfFin<'_> {
    fn plan_one(&self, problem: &Problem, known: Option<&Applicable>) -> ProblemPlan {
        if !is_of_miopen(problem) {
            return ProblemPlan::Unsolved(NOT_OURS.to_string());
        }
        let Some(applicable) = known else {
            let (name, hint) = (&self.0.session.name, self.0.hint);
            return ProblemPlan::Unknown(format!(
                "session {name}: it is not known which solvers apply; run bluefin applicability update --session {name}{hint}"
            ));
        };
        if applicable.solvers.is_empty() {
            return ProblemPlan::Unsolved("fin named no solver that applies".to_string());
        }
        let jobs = self.jobs(problem, applicable);
        if jobs.is_empty() {
            let names: Vec<&str> = applicable.solvers.iter().map(String::as_str).collect();
            return ProblemPlan::PassedOver(self.0.why_passed_over(&names));
        }
        ProblemPlan::Jobs(vec![PlannedGroup::of(jobs)])
    }

    /// What can be planned now: of tunable solvers jobs of the perf stage, whose find jobs follow when they are done, and of
    /// the others those of the find stage. Tunable ones are found with MIOpen's own params where no perf is planned. Solvers
    /// that are not in the snapshot are left out.
    fn jobs(&self, problem: &Problem, applicable: &Applicable) -> Vec<Job> {
        let OfMiopen { stages, choice, solvers, .. } = &self.0;
        let chosen = applicable.solvers.iter().filter_map(|name| solvers.get(name)).filter(|one| choice.takes(one));
        let jobs = chosen.filter_map(|solver| {
            let stage = if solver.tunable && stages.contains(&Stage::Perf) { Stage::Perf } else { Stage::Find };
            stages.contains(&stage).then(|| self.0.job(stage, problem, [solver.name.as_str()]))
        });
        jobs.collect()
    }
}

#[cfg(test)]
mod tests {
    use bluefin_adapters::sqlite::SqliteStore;

    use super::super::miopen::tests::{problem, session, solvers};
    use super::*;
    use crate::solvers::Choice;

    fn planned(choice: &Choice, stages: &[Stage]) -> Vec<(Stage, String)> {
        let applicable = Applicable { solvers: ["ConvAsm1x1U", "GemmFwdRest", "Gone"].map(String::from).to_vec() };
        let store = SqliteStore::in_memory().unwrap();
        let (session, stages, solvers) = (session(Method::FIN), stages.to_vec(), solvers());
        let of_fin = OfFin(OfMiopen { store: &store, session, stages, choice, solvers, hint: "" });
        let jobs = of_fin.jobs(&problem(), &applicable);
        assert!(jobs.iter().all(|job| (job.method, job.toolchain.as_str()) == (Method::FIN, "fin")));
        jobs.into_iter().map(|job| (job.stage, job.candidates[0].to_string())).collect()
    }

    #[test]
    fn what_is_tunable_is_tuned_first() {
        let job = |stage, name: &str| (stage, format!("{name}:"));
        let all = Choice::default();
        let (perf, find) = (Stage::Perf, Stage::Find);
        assert_eq!(planned(&all, &Stage::ALL), [job(perf, "ConvAsm1x1U"), job(find, "GemmFwdRest")]);
        assert_eq!(planned(&all, &[perf]), [job(perf, "ConvAsm1x1U")]);
        assert_eq!(planned(&all, &[find]), [job(find, "ConvAsm1x1U"), job(find, "GemmFwdRest")]);
        let tunable = Choice { tunable: true, ..Choice::default() };
        assert_eq!(planned(&tunable, &Stage::ALL), [job(perf, "ConvAsm1x1U")]);
    }
}
