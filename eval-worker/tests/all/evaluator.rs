//! An evaluator that is not bluefin's.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bluefin_common::artifact::Built;
use bluefin_common::broker::{Broker, DEAD_QUEUE};
use bluefin_common::candidate::Candidate;
use bluefin_common::delivery::pin::{Pin, PlainPin};
use bluefin_common::description::SolverInfo;
use bluefin_common::job::EvalJob;
use bluefin_common::method::{EvaluatedBy, FindJobs, Method, MethodInfo};
use bluefin_common::outcome::{CandidateOutcome, Timing};
use bluefin_common::session::Stage;
use bluefin_common::store::{Sessions as _, Work as _};
use bluefin_common::target::Target;
use bluefin_eval_worker::timing::Limits;
use bluefin_eval_worker::{Assignment, DeviceError, Evaluated, Evaluator, Metrics, Running, Stop};

use crate::support::setting::Setting;
use crate::support::{Test, block_on};

pub const TESTS: &[Test] = &[("one_of_somebody_else", one_of_somebody_else)];

static METHOD: MethodInfo = MethodInfo {
    name: "abacus",
    about: "a tool that counts letters",
    toolchains: &[],
    evaluated_by: EvaluatedBy::Tool,
    find: FindJobs::Planned,
};

/// A solver takes as many milliseconds as its name has letters.
struct Abacus {
    target: Target,
    pin: PlainPin,
}

impl Abacus {
    fn new() -> Self {
        Self { target: Target::Host, pin: PlainPin { key: "abacus".to_string(), value: "ten beads".to_string() } }
    }
}

#[async_trait]
impl Evaluator for Abacus {
    fn name(&self) -> &str {
        "abacus"
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn method(&self) -> Method {
        Method::of(&METHOD)
    }

    async fn start(&self, _metrics: &Metrics) -> Result<Box<dyn Running>, DeviceError> {
        Ok(Box::new(Self::new()))
    }
}

#[async_trait]
impl Running for Abacus {
    fn identity(&self) -> &str {
        "an abacus"
    }

    fn pins(&self, _limits: &Limits) -> Vec<Arc<dyn Pin>> {
        vec![Arc::new(self.pin.clone())]
    }

    async fn evaluate(&self, assignment: &Assignment<'_>) -> Result<Evaluated, Stop> {
        let asked = &assignment.job().candidates;
        if asked.is_empty() {
            return Err(Stop::Bury("candidates: found none".to_string()));
        }
        let counted = assignment.alone(async {
            let count = |candidate: &Candidate| CandidateOutcome {
                candidate: candidate.clone(),
                built: Some(Built::default()),
                result: Ok(Timing::single(candidate.solver.len() as f64)),
                resources: None,
            };
            asked.iter().map(count).collect()
        });
        let candidates = counted.await?.0;
        let info = |candidate: &Candidate| SolverInfo { name: candidate.solver.clone(), ..SolverInfo::default() };
        let solvers = asked.iter().map(info).collect();
        Ok(Evaluated { candidates, solvers, ran: true, busy: Duration::from_millis(3), ..Evaluated::default() })
    }
}

fn one_of_somebody_else() {
    // Stored sessions and jobs name it.
    Method::bring(vec![&METHOD]);
    block_on(async {
        let mut setting = Setting::new(&[Stage::Find]).await;
        let abacus = Arc::new(Abacus::new());
        let mut job = setting.job(1, Stage::Find, 2);
        job.method = abacus.method();
        job.toolchain = job.method.to_string();
        let mut empty = job.clone();
        empty.candidates.clear();
        for job in [&job, &empty] {
            setting.publish(&EvalJob::uncompiled(job.clone(), 1)).await;
        }
        let worker = setting.work(|config| config.evaluator = abacus);
        let outcome = setting.outcome(&job).await;
        let times = outcome.candidates.iter().map(|candidate| candidate.result.as_ref().unwrap().median_ms);
        assert_eq!(times.collect::<Vec<_>>(), [8.0, 8.0]);
        assert_eq!((outcome.device.as_str(), outcome.busy_ms, outcome.protocol), ("an abacus", 3, 0));
        let solvers: Vec<&str> = outcome.description.solvers.iter().map(|solver| solver.name.as_str()).collect();
        assert_eq!((outcome.description.library.as_str(), solvers), ("abacus", vec!["solver-0", "solver-1"]));
        assert_eq!(setting.store.pins(&job.session).await.unwrap()["abacus"], "ten beads");
        setting.settled("done", 1.0).await;
        setting.settled("dead", 1.0).await;
        assert_eq!(setting.broker.depth(DEAD_QUEUE).await.unwrap(), 1);
        assert!(setting.store.progress(&job.session).await.unwrap().is_complete());
        setting.stop(worker).await;
    });
}
