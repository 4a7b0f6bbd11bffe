//! Evaluation by fin: what another fin compiled, one solver a process.

use std::time::Duration;

use bluefin_common::artifact::Built;
use bluefin_common::job::{Job, Stage};
use bluefin_common::miopen::fin::{CompiledItem, Done, Fin, Request, Step, evaluated};
use bluefin_common::miopen::place::Place;
use bluefin_common::miopen::{KernelObject, Solution};
use bluefin_common::outcome::{Candidate, CandidateOutcome, Failure, FailureKind, Timing};
use bluefin_common::problem::{PerfDbKey, Problem};
use bluefin_common::session::Session;
use bytes::Bytes;

use super::{Evaluation, candidate, watch};
use crate::miopen::MiopenDevice;
use crate::worker::Worker;
use crate::worker::settle::{Stop, Verdict};

impl Worker {
    /// Evaluates each candidate that compiled; `None` if a kernel is gone from the store.
    pub(super) async fn evaluate_by_fin(
        &self,
        device: &MiopenDevice,
        fin: &Fin,
        session: &Session,
        job: &Job,
        solutions: &[Result<Solution, Failure>],
    ) -> Result<Option<Evaluation>, Stop> {
        let mut evaluation = Evaluation { candidates: Vec::new(), busy: Duration::ZERO };
        for (asked, solution) in job.candidates.iter().zip(solutions) {
            let outcome = match solution {
                Err(failure) => {
                    CandidateOutcome { candidate: asked.clone(), built: None, result: Err(failure.clone()) }
                }
                Ok(solution) => {
                    let Some(streams) = self.streams(&solution.kernels).await? else { return Ok(None) };
                    let (outcome, busy) = self.one_by_fin(device, fin, session, job, asked, solution, &streams).await?;
                    evaluation.busy += busy;
                    outcome
                }
            };
            evaluation.candidates.push(outcome);
        }
        Ok(Some(evaluation))
    }

    /// The bzip2 streams of `kernels`; `None` if one is gone.
    async fn streams(&self, kernels: &[KernelObject]) -> Result<Option<Vec<Bytes>>, Stop> {
        let mut streams = Vec::with_capacity(kernels.len());
        for kernel in kernels {
            let get = || self.artifacts.get(self.store(), kernel.blob);
            match self.patiently("fetch kernel", get).await? {
                Some(stream) => streams.push(stream.code),
                None => return Ok(None),
            }
        }
        Ok(Some(streams))
    }

    #[expect(clippy::too_many_arguments, reason = "a job in its parts")]
    async fn one_by_fin(
        &self,
        device: &MiopenDevice,
        fin: &Fin,
        session: &Session,
        job: &Job,
        asked: &Candidate,
        solution: &Solution,
        streams: &[Bytes],
    ) -> Result<(CandidateOutcome, Duration), Stop> {
        // Its kernels are for the evaluation; what lasts are those of the find stage.
        let bare = Solution { kernels: Vec::new(), ..solution.clone() };
        let failed = |failure: Failure, busy: Duration| {
            let built = Some(Built::Miopen(bare.clone()));
            (CandidateOutcome { candidate: asked.clone(), built, result: Err(failure) }, busy)
        };
        let (kernels, held) = (solution.kernels.clone(), streams.to_vec());
        let checked = tokio::task::spawn_blocking(move || {
            let wires =
                kernels.iter().zip(&held).map(|(kernel, stream)| kernel.check(stream).map(|()| kernel.to_wire(stream)));
            wires.collect::<Result<Vec<_>, Failure>>()
        });
        let kernel_objects = match checked.await.map_err(|error| Verdict::Retry(error.to_string()))? {
            Ok(kernels) => kernels,
            Err(failure) => return Ok(failed(failure, Duration::ZERO)),
        };
        let (step, done) = match job.stage {
            Stage::Perf => (Step::PerfEval, Done::Perf(true)),
            Stage::Find => (Step::FindEval, Done::Find(true)),
        };
        let item = CompiledItem {
            solver_name: asked.solver.clone(),
            algorithm: solution.algorithm.clone(),
            workspace: solution.workspace,
            tunable: solution.tunable,
            done,
            kernel_objects,
        };
        let request = match Request::evaluate(step, &job.target, &job.problem, item) {
            Ok(request) => request,
            Err(error) => {
                let failure = Failure::new(FailureKind::NotApplicable, error.to_string());
                return Ok(failed(failure, Duration::ZERO));
            }
        };
        let place = self.place(device, session, job, asked)?;
        let watch = watch(device, session);
        let (called, busy) = self.alone(fin.call(&[request], &place, &watch)).await?;
        self.metrics.busy(job.stage, busy);
        let answer = match called {
            Ok((answers, _)) => answers.into_iter().next().unwrap_or_default(),
            Err(trouble) => return Ok(failed(self.trouble(device, session, &watch, trouble).await?, busy)),
        };
        let result = match evaluated(step, answer, &job.problem, &asked.solver) {
            Ok(result) => result,
            Err(failure) => return Ok(failed(failure, busy)),
        };
        let ran = candidate(&asked.solver, &result.params);
        if job.stage == Stage::Find && ran.params_text() != asked.params_text() && !asked.params.is_empty() {
            tracing::warn!(
                solver = asked.solver,
                asked = asked.params_text(),
                ran = result.params,
                "MIOpen took other params"
            );
        }
        let built = Solution {
            algorithm: result.algorithm.unwrap_or(bare.algorithm),
            workspace: result.workspace,
            tunable: result.tunable.unwrap_or(bare.tunable),
            kernels: if job.stage == Stage::Find { solution.kernels.clone() } else { Vec::new() },
        };
        if job.stage == Stage::Find {
            for stream in streams {
                self.patiently("keep kernel", || self.store.put_blob(stream)).await?;
            }
        }
        let result = Ok(Timing::single(result.time_ms));
        Ok((CandidateOutcome { candidate: ran, built: Some(Built::Miopen(built)), result }, busy))
    }

    /// Where the process of one candidate runs; in the find stage with the candidate's params in its perf db.
    fn place(&self, device: &MiopenDevice, session: &Session, job: &Job, asked: &Candidate) -> Result<Place, Stop> {
        let retry = |reason: String| Stop::from(Verdict::Retry(reason));
        let mut place = Place::new(Some(session)).map_err(|error| retry(error.to_string()))?;
        if let Some(gpu) = &device.gpu {
            place.show_gpu(gpu);
        }
        if let (Stage::Find, Problem::Conv(conv), false) = (job.stage, &job.problem, asked.params.is_empty()) {
            let tuned = place.tuned(&job.target, PerfDbKey::from(conv), &asked.solver, &asked.params_text());
            tuned.map_err(|error| retry(format!("perf db of one row: {error}")))?;
        }
        Ok(place)
    }
}
