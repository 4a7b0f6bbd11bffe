//! Sessions of aiter's shapes: a job for each, in which aiter's own tuner tries all kernels. Which shapes are tuned in one
//! process is up to the eval worker that has them.

use async_trait::async_trait;
use bluefin_common::candidate::Candidate;
use bluefin_common::digest::Digest;
use bluefin_common::job::Job;
use bluefin_common::lane::Lane;
use bluefin_common::method::Method;
use bluefin_common::problem::Problem;
use bluefin_common::session::{Session, Stage};
use bluefin_common::store::Store;

use super::limits::{SOLVER, refuse_others};
use super::{Asked, PlannedGroup, Planner, Planning, ProblemPlan, Selects};
use crate::PlanError;

/// Plans sessions of aiter's shapes.
pub struct AiterPlanner;

#[async_trait]
impl Planner for AiterPlanner {
    fn method(&self) -> Method {
        Method::AITER
    }

    fn tunes(&self) -> &'static str {
        "shapes of aiter's operators"
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::Find]
    }

    fn check(&self, session: &Session) -> Result<(), PlanError> {
        let target = &session.target;
        if target.backend() != "HIP" {
            return Err(PlanError::Usage(format!("--tuner: aiter is not for {target}, expected a gfx target")));
        }
        refuse_others(session, &[SOLVER])?;
        if session.stages != self.stages() {
            return Err(PlanError::Usage("--stage: aiter tunes and finds at once, expected find".to_string()));
        }
        Ok(())
    }

    async fn begin<'a>(
        &'a self,
        _: &'a dyn Store,
        session: &Session,
        asked: &'a Asked,
    ) -> Result<Box<dyn Planning + 'a>, PlanError> {
        let (name, own) = (&session.name, &session.target);
        if let Some(target) = asked.target.as_ref().filter(|target| *target != own) {
            return Err(PlanError::Usage(format!("--target {target}: session {name} is for {own}")));
        }
        if asked.stages.iter().any(|stage| !session.stages.contains(stage)) {
            return Err(PlanError::Usage("--stage: aiter tunes and finds at once, expected find".to_string()));
        }
        Ok(Box::new(OfAiter(session.clone())))
    }
}

/// A session of aiter's shapes that is being planned.
struct OfAiter(Session);

#[async_trait]
impl Planning for OfAiter {
    fn selects(&self) -> Selects {
        Selects::Solvers
    }

    async fn plan(&self, problems: &[Problem]) -> Result<Vec<ProblemPlan>, PlanError> {
        Ok(problems.iter().map(|problem| self.plan_one(problem)).collect())
    }
}

impl OfAiter {
    fn plan_one(&self, problem: &Problem) -> ProblemPlan {
        let Problem::Aiter(aiter) = problem else {
            return ProblemPlan::Unsolved("aiter's tuners are for shapes of its own operators".to_string());
        };
        let Session { name, target, method, .. } = &self.0;
        let job = Job {
            session: name.clone(),
            stage: Stage::Find,
            target: target.clone(),
            problem: problem.clone(),
            method: *method,
            // There is no kernel spec.
            spec: Digest::of(b""),
            toolchain: method.name.to_string(),
            // All that the tuner of the family knows.
            candidates: vec![Candidate { solver: aiter.family.clone(), params: Vec::new() }],
            round: 0,
            lane: Lane::First,
        };
        ProblemPlan::Jobs(vec![PlannedGroup::of(vec![job])])
    }
}

#[cfg(test)]
mod tests {
    use bluefin_adapters::sqlite::SqliteStore;
    use bluefin_common::problem::{AiterProblem, KernelProblem};

    use super::*;

    #[tokio::test]
    async fn each_shape_is_a_job_and_nothing_else_is() {
        let target = "gfx942-304".parse().unwrap();
        let plain = Session::of_kernels("s".parse().unwrap(), target, "", &[Stage::Find], 1);
        let session = Session { method: Method::AITER, ..plain };
        AiterPlanner.check(&session).unwrap();
        assert!(AiterPlanner.check(&Session { stages: Stage::ALL.to_vec(), ..session.clone() }).is_err());
        let (store, asked) = (SqliteStore::in_memory().unwrap(), Asked::default());
        let planning = AiterPlanner.begin(&store, &session, &asked).await.unwrap();
        let shape = vec![("M".to_string(), "1".to_string())];
        let ours = Problem::Aiter(AiterProblem::new("gemm_a16w16".to_string(), shape).unwrap());
        let other = Problem::Kernel(KernelProblem::new("saxpy".to_string(), [].into()).unwrap());
        let plans = planning.plan(&[ours.clone(), other]).await.unwrap();
        let ProblemPlan::Jobs(groups) = &plans[0] else { panic!("{plans:?}") };
        let job = &groups[0].jobs[0];
        assert_eq!((job.eval_queue().as_str(), &job.problem), ("bluefin.eval.gfx942-304.aiter", &ours));
        assert!(matches!(plans[1], ProblemPlan::Unsolved(_)));
    }
}
