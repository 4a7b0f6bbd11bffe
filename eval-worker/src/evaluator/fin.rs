//! Evaluation by fin: what another fin compiled, one solver a process.

use std::time::Duration;

use async_trait::async_trait;
use bluefin_common::artifact::Built;
use bluefin_common::candidate::Candidate;
use bluefin_common::description::SolverInfo;
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::method::Method;
use bluefin_common::outcome::{CandidateOutcome, Timing};
use bluefin_common::problem::Problem;
use bluefin_common::session::Stage;
use bluefin_common::target::Target;
use bluefin_miopen::db::WriteError;
use bluefin_miopen::fin::{CompiledItem, Done, Fin, Request, Step, Trouble, evaluated};
use bluefin_miopen::kernel::{WireKernel, check, to_wire};
use bluefin_miopen::key::PerfDbKey;
use bluefin_miopen::place::Place;
use bytes::Bytes;

use super::Evaluated;
use super::miopen::{MiopenTool, ToolJob, candidate};
use super::stop::Stop;

#[async_trait]
impl MiopenTool for Fin {
    fn method(&self) -> Method {
        Method::FIN
    }

    /// Evaluates each candidate that compiled.
    async fn evaluate(&self, job: &ToolJob<'_>) -> Result<Evaluated, Stop> {
        let mut all = Evaluated::default();
        for (asked, built) in job.job().candidates.iter().zip(&job.assignment.eval_job.built) {
            let built = match built {
                Ok(built) => built,
                Err(failure) => {
                    let result = Err(failure.clone());
                    all.candidates.push(CandidateOutcome::of(asked.clone(), None, result));
                    continue;
                }
            };
            let mut streams = Vec::with_capacity(built.objects.len());
            for object in &built.objects {
                streams.push(job.assignment.artifact(object.artifact, None).await?.code);
            }
            let one = Solver { fin: self, job, asked, built, streams: &streams, info: info(job, asked)? };
            let (outcome, info) = one.evaluate(&mut all.busy).await?;
            all.candidates.push(outcome);
            all.solvers.extend(info);
        }
        Ok(all)
    }

    async fn try_gpu(&self, target: &Target, gpu: Option<&str>) -> Result<(), Trouble> {
        Self::try_gpu(self, target, gpu).await
    }
}

/// What the job says of the solver of `asked`.
fn info<'a>(job: &'a ToolJob<'_>, asked: &Candidate) -> Result<&'a SolverInfo, Stop> {
    let missing = || Stop::Bury(format!("description: found nothing of {}, expected its algorithm", asked.solver));
    let info = job.assignment.eval_job.description.solver(&asked.solver);
    info.filter(|info| info.algorithm.is_some()).ok_or_else(missing)
}

/// A solver that compiled.
struct Solver<'a> {
    fin: &'a Fin,
    job: &'a ToolJob<'a>,
    asked: &'a Candidate,
    built: &'a Built,
    /// The bzip2 streams of its kernels.
    streams: &'a [Bytes],
    info: &'a SolverInfo,
}

impl Solver<'_> {
    /// What came of it, and what was found out about it. What it took is added to `busy`.
    async fn evaluate(&self, busy: &mut Duration) -> Result<(CandidateOutcome, Option<SolverInfo>), Stop> {
        let (job, stage) = (self.job.job(), self.job.job().stage);
        let failed = |failure: Failure| {
            // Its kernels are for the evaluation; what lasts are those of the find stage.
            let bare = Built { objects: Vec::new(), ..self.built.clone() };
            let (candidate, result) = (self.asked.clone(), Err(failure));
            Ok((CandidateOutcome::of(candidate, Some(bare), result), None))
        };
        let kernels = match self.kernels().await? {
            Ok(kernels) => kernels,
            Err(failure) => return failed(failure),
        };
        let step = match stage {
            Stage::Perf => Step::PerfEval,
            Stage::Find => Step::FindEval,
        };
        let request = match Request::evaluate(step, &job.target, &job.problem, self.item(kernels)) {
            Ok(request) => request,
            Err(error) => return failed(Failure::new(FailureKind::NotApplicable, error.to_string())),
        };
        let place = self.place()?;
        let (called, took) = self.job.alone(self.fin.call(&[request], &place, &self.job.watch)).await?;
        *busy += took;
        let answer = match called {
            Ok((answers, _)) => answers.into_iter().next().unwrap_or_default(),
            Err(trouble) => return failed(self.job.failure(trouble).await?),
        };
        let found = match evaluated(step, answer, &job.problem, &self.asked.solver) {
            Ok(found) => found,
            Err(failure) => return failed(self.job.refusal(failure).await?),
        };
        let (asked, ran) = (self.asked, candidate(&self.asked.solver, &found.params));
        if stage == Stage::Find && ran.params_text() != asked.params_text() && !asked.params.is_empty() {
            tracing::warn!(
                solver = asked.solver,
                asked = asked.params_text(),
                ran = found.params,
                "MIOpen took other params"
            );
        }
        let mut objects = Vec::new();
        if stage == Stage::Find {
            for stream in self.streams {
                self.job.assignment.keep(stream).await?;
            }
            objects.clone_from(&self.built.objects);
        }
        let info = SolverInfo {
            algorithm: found.algorithm.or_else(|| self.info.algorithm.clone()),
            tunable: found.tunable.unwrap_or(self.info.tunable),
            ..self.info.clone()
        };
        let built = Some(Built { objects, launches: Vec::new(), workspace: found.workspace });
        let result = Ok(Timing::single(found.time_ms));
        Ok((CandidateOutcome::of(ran, built, result), Some(info)))
    }

    /// Its kernels as fin takes them, checked.
    async fn kernels(&self) -> Result<Attempt<Vec<WireKernel>>, Stop> {
        let (objects, streams) = (self.built.objects.clone(), self.streams.to_vec());
        let checked = tokio::task::spawn_blocking(move || {
            let kernels = objects.iter().zip(&streams);
            kernels.map(|(object, stream)| check(object, stream).and_then(|()| to_wire(object, stream))).collect()
        });
        Ok(checked.await?)
    }

    fn item(&self, kernel_objects: Vec<WireKernel>) -> CompiledItem {
        CompiledItem {
            solver_name: self.asked.solver.clone(),
            algorithm: self.info.algorithm.clone().unwrap_or_default(),
            workspace: self.built.workspace,
            tunable: self.info.tunable,
            done: match self.job.job().stage {
                Stage::Perf => Done::Perf(true),
                Stage::Find => Done::Find(true),
            },
            kernel_objects,
        }
    }

    /// Where its process runs; in the find stage with the candidate's params in its perf db.
    fn place(&self) -> Result<Place, Stop> {
        let (job, asked) = (self.job.job(), self.asked);
        let mut place = self.job.place()?;
        if let (Stage::Find, Problem::Conv(conv), false) = (job.stage, &job.problem, asked.params.is_empty()) {
            let tuned = place.tuned(&job.target, PerfDbKey::from(conv), &asked.solver, &asked.params_text());
            tuned.map_err(|error| {
                let reason = format!("perf db of one row: {error}");
                // Params that no perf db can hold are the job's.
                if matches!(error, WriteError::Refused(_)) { Stop::Bury(reason) } else { Stop::Machine(reason) }
            })?;
        }
        Ok(place)
    }
}
