//! Evaluation by MIOpenDriver: it finds, tunes and compiles, and what it wrote is the outcome.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use bluefin_common::artifact::Built;
use bluefin_common::job::Job;
use bluefin_common::miopen::driver::{Found, Harvest, arguments, harvest, instruct};
use bluefin_common::miopen::fin::Trouble;
use bluefin_common::miopen::place::Place;
use bluefin_common::miopen::process::{self, Run};
use bluefin_common::miopen::{ANY_SOLVER, solver};
use bluefin_common::outcome::{CandidateOutcome, Failure, FailureKind, Timing};
use bluefin_common::session::{Session, Tuner};

use super::{Evaluation, all_failed, candidate, watch};
use crate::miopen::MiopenDevice;
use crate::worker::Worker;
use crate::worker::settle::{Stop, Verdict};

impl Worker {
    /// Runs MIOpenDriver for the problem of `job`; an outcome for each solver that it found, and for each that was asked for
    /// and not found.
    pub(super) async fn evaluate_by_driver(
        &self,
        device: &MiopenDevice,
        program: &Path,
        launcher: &[OsString],
        session: &Session,
        job: &Job,
    ) -> Result<Evaluation, Stop> {
        let retry = |reason: String| Stop::from(Verdict::Retry(reason));
        let arguments = match arguments(&job.problem) {
            Ok(arguments) => arguments,
            Err(error) => {
                let failure = Failure::new(FailureKind::NotApplicable, error.to_string());
                return Ok(Evaluation { candidates: all_failed(job, &failure), busy: Duration::ZERO });
            }
        };
        let mut place = Place::new(Some(session)).map_err(|error| retry(error.to_string()))?;
        if let Some(gpu) = &device.gpu {
            place.show_gpu(gpu);
        }
        let named: Vec<&str> =
            job.candidates.iter().map(|asked| asked.solver.as_str()).filter(|name| *name != ANY_SOLVER).collect();
        let exhaustive = matches!(session.tuner, Tuner::MiopenDriver { exhaustive: true });
        instruct(&mut place, exhaustive, &named);
        let run = Run {
            command: launcher.iter().cloned().chain([program.into()]).chain(arguments).collect(),
            environment: place.environment(),
            folder: place.path().to_path_buf(),
            output: None,
        };
        let watch = watch(device, session);
        let (ran, busy) = self.alone(process::run(&run, &watch)).await?;
        self.metrics.busy(job.stage, busy);
        let trouble = match &ran {
            Ok(ran) => Trouble::of_end(ran, &watch),
            Err(error) => Some(Trouble::not_started(&program.display().to_string(), error)),
        };
        if let Some(trouble) = trouble {
            let failure = self.trouble(device, session, &watch, trouble).await?;
            return Ok(Evaluation { candidates: all_failed(job, &failure), busy });
        }
        let (problem, arch) = (job.problem.clone(), job.target.arch().to_string());
        let harvested = tokio::task::spawn_blocking(move || harvest(&place, &problem, &arch)).await;
        let Harvest { found, kernels } = match harvested.map_err(|error| retry(error.to_string()))? {
            Ok(harvest) => harvest,
            Err(failure) => return Ok(Evaluation { candidates: all_failed(job, &failure), busy }),
        };
        for (_, stream) in &kernels {
            self.patiently("keep kernel", || self.store.put_blob(stream)).await?;
        }
        let mut candidates: Vec<CandidateOutcome> = found.into_iter().map(outcome).collect();
        // The kernel cache does not say whose its kernels are: they go with the winner, whom they are kept for.
        let winner = candidates.iter_mut().find(|candidate| candidate.result.is_ok());
        if let Some(Built::Miopen(solution)) = winner.and_then(|winner| winner.built.as_mut()) {
            solution.kernels = kernels.into_iter().map(|(kernel, _)| kernel).collect();
        }
        for asked in job.candidates.iter().filter(|asked| asked.solver != ANY_SOLVER) {
            let wanted = solver::spelling(&asked.solver);
            if !candidates.iter().any(|found| solver::spelling(&found.candidate.solver) == wanted) {
                let failure = Failure::new(FailureKind::NoResult, "MIOpen's find db has no entry for it");
                candidates.push(CandidateOutcome { candidate: asked.clone(), built: None, result: Err(failure) });
            }
        }
        Ok(Evaluation { candidates, busy })
    }
}

fn outcome(found: Found) -> CandidateOutcome {
    let time = found.time_ms;
    let result = if time.is_finite() && time > 0.0 {
        Ok(Timing::single(time))
    } else {
        Err(Failure::new(FailureKind::InvalidTime, format!("time: found {time} ms, expected more than 0")))
    };
    let candidate = candidate(&found.solver, &found.params);
    CandidateOutcome { candidate, built: Some(Built::Miopen(found.solution)), result }
}
