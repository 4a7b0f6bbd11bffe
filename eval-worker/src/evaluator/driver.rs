//! Evaluation by MIOpenDriver: it finds, tunes and compiles, and what it wrote is the outcome.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use bluefin_common::artifact::{Built, CodeObject};
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::method::Method;
use bluefin_common::outcome::{CandidateOutcome, Timing};
use bluefin_common::target::Target;
use bluefin_miopen::db::sources::may_use;
use bluefin_miopen::driver::{Found, Harvest, Kernel, Params, arguments, harvest, instruct, instruct_alone, kernels};
use bluefin_miopen::fin::Trouble;
use bluefin_miopen::place::Place;
use bluefin_miopen::process;
use bluefin_miopen::process::{Run, Watch};
use bluefin_miopen::{ANY_SOLVER, solver};

use super::Evaluated;
use super::miopen::{MiopenTool, ToolJob, candidate};
use super::stop::Stop;

/// Runs of a problem that may be killed in a row before the job is put aside.
const TRIES: u32 = 2;

/// A MIOpenDriver that was found.
pub(super) struct Driver {
    pub(super) program: PathBuf,
    /// Stands in front of the program; may be empty.
    pub(super) launcher: Vec<OsString>,
}

#[async_trait]
impl MiopenTool for Driver {
    fn method(&self) -> Method {
        Method::MIOPENDRIVER
    }

    /// Runs MIOpenDriver for the problem of a job; an outcome for each solver that it found, and for each that was asked for
    /// and not found.
    async fn evaluate(&self, tool_job: &ToolJob<'_>) -> Result<Evaluated, Stop> {
        let job = tool_job.job();
        let mut evaluated = Evaluated::default();
        let arguments = match arguments(&job.problem, Params::Search) {
            Ok(arguments) => arguments,
            Err(error) => {
                let failure = Failure::new(FailureKind::NotApplicable, error.to_string());
                evaluated.candidates = CandidateOutcome::all_failed(job, &failure);
                return Ok(evaluated);
            }
        };
        let mut place = tool_job.place()?;
        let named: Vec<&str> =
            job.candidates.iter().map(|asked| asked.solver.as_str()).filter(|name| *name != ANY_SOLVER).collect();
        instruct(&mut place, &tool_job.session.environment, &named);
        let run = self.command(&place, arguments);
        let (ran, busy) = tool_job.alone(self.run(&run, &tool_job.watch)).await?;
        evaluated.busy = busy;
        if let Err(trouble) = ran {
            let failure = tool_job.failure(trouble).await?;
            evaluated.candidates = CandidateOutcome::all_failed(job, &failure);
            return Ok(evaluated);
        }
        let (problem, arch) = (job.problem.clone(), job.target.arch().to_string());
        let harvested = tokio::task::spawn_blocking(move || (harvest(&place, &problem, &arch), place)).await;
        let (harvested, place) = harvested?;
        let Harvest { found, kernels } = match harvested {
            Ok(harvest) => harvest,
            Err(failure) => {
                let failure = tool_job.refusal(failure).await?;
                evaluated.candidates = CandidateOutcome::all_failed(job, &failure);
                return Ok(evaluated);
            }
        };
        evaluated.solvers = found.iter().map(|found| found.info.clone()).collect();
        let mut candidates: Vec<CandidateOutcome> = found.into_iter().map(outcome).collect();
        let winner = candidates.iter_mut().find(|candidate| candidate.result.is_ok());
        if let Some(CandidateOutcome { candidate, built: Some(built), .. }) = winner {
            let (kernels, busy) = self.kernels_of(tool_job, place, &candidate.solver, kernels).await?;
            evaluated.busy += busy;
            for (object, stream) in kernels {
                tool_job.assignment.keep(&stream).await?;
                built.objects.push(object);
            }
        }
        for asked in job.candidates.iter().filter(|asked| asked.solver != ANY_SOLVER) {
            let wanted = solver::spelling(&asked.solver);
            if !candidates.iter().any(|found| solver::spelling(&found.candidate.solver) == wanted) {
                let failure = Failure::new(FailureKind::NoResult, "MIOpen's find db has no entry for it");
                candidates.push(CandidateOutcome::of(asked.clone(), None, Err(failure)));
            }
        }
        evaluated.candidates = candidates;
        Ok(evaluated)
    }

    /// It has no call that only looks at a GPU.
    async fn try_gpu(&self, _target: &Target, _gpu: Option<&str>) -> Result<(), Trouble> {
        let program = self.program.display().to_string();
        let found = tokio::fs::metadata(&self.program).await.map_err(|error| Trouble::not_started(&program, &error))?;
        if found.permissions().mode() & 0o111 == 0 {
            return Err(Trouble::Machine(format!("{program}: not executable")));
        }
        Ok(())
    }
}

impl Driver {
    fn command(&self, place: &Place, arguments: Vec<OsString>) -> Run {
        Run {
            command: self.launcher.iter().cloned().chain([self.program.clone().into()]).chain(arguments).collect(),
            environment: place.environment(),
            folder: place.path().to_path_buf(),
            output: None,
        }
    }

    /// Those of `compiled` that `solver` uses with the params that were found, and how long it took to find out: what it compiles when
    /// it runs alone. Where that fails it is those of its source files, as far as they are known.
    async fn kernels_of(
        &self,
        tool_job: &ToolJob<'_>,
        mut place: Place,
        solver: &str,
        mut compiled: Vec<Kernel>,
    ) -> Result<(Vec<Kernel>, Duration), Stop> {
        let job = tool_job.job();
        compiled.retain(|(object, _)| may_use(solver, &object.file));
        let arguments = match arguments(&job.problem, Params::Take) {
            Ok(arguments) if !compiled.is_empty() => arguments,
            _ => return Ok((compiled, Duration::ZERO)),
        };
        let cache = instruct_alone(&mut place, solver)
            .map_err(|error| Stop::Machine(format!("folder of temporary files: {error}")))?;
        let run = self.command(&place, arguments);
        let (ran, busy) = tool_job.alone(self.run(&run, &tool_job.watch)).await?;
        let known = match ran {
            Ok(()) => {
                let arch = job.target.arch().to_string();
                tokio::task::spawn_blocking(move || kernels(&cache, &arch)).await?
            }
            Err(trouble) => Err(tool_job.failure(trouble).await?),
        };
        match known {
            Ok(known) => {
                let is_its = |object: &CodeObject| {
                    known.iter().any(|(known, _)| (&known.file, &known.options) == (&object.file, &object.options))
                };
                compiled.retain(|(object, _)| is_its(object));
            }
            Err(failure) => {
                tracing::warn!(
                    solver,
                    reason = failure.detail,
                    "which kernels it uses is known by their source files alone"
                );
            }
        }
        Ok((compiled, busy))
    }

    /// Runs it; again if it was killed, and nobody knows by whom.
    async fn run(&self, run: &Run, watch: &Watch) -> Result<(), Trouble> {
        let mut tries = 1;
        loop {
            let ran = process::run(run, watch).await;
            let trouble = match &ran {
                Ok(ran) => Trouble::of_end(ran, watch),
                Err(error) => Some(Trouble::not_started(&self.program.display().to_string(), error)),
            };
            match trouble {
                None => return Ok(()),
                Some(Trouble::Killed(reason)) if tries < TRIES => {
                    tracing::warn!(tries, reason, "MIOpenDriver is run again")
                }
                Some(trouble) => return Err(trouble),
            }
            tries += 1;
        }
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
    let built = Built { workspace: found.workspace, ..Built::default() };
    CandidateOutcome::of(candidate, Some(built), result)
}
