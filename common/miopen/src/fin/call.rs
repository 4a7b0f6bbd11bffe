//! Calls of the fin executable.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fin::answer::{Answer, parse};
use crate::fin::request::{Request, Step};
use crate::fin::trouble::{Trouble, blames_machine, with_tail};
use crate::fin::{Inexpressible, compiled};
use crate::place::Place;
use crate::process::{Run, Watch};
use crate::solver::Solver;
use crate::{process, solver};
use bluefin_common::child_file::{self, ChildFileError};
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::problem::{ConvProblem, ConvShape, DataType, Direction, Problem};
use bluefin_common::target::Target;

/// What it is asked, and what it answers, in its folder.
const INPUT: &str = "input.json";
const OUTPUT: &str = "output.json";
/// Calls that are made where the machine stands in the way, before that is reported.
const TRIES: u32 = 3;
/// Between two of them.
const PAUSE: Duration = Duration::from_millis(300);
/// A solver that is in every build and applies to every convolution in forward direction.
const PROBE: &str = "ConvDirectNaiveConvFwd";

/// For each problem the solvers that apply to it, or why that is not known.
pub type Applicability = Vec<Result<Vec<String>, Failure>>;

/// An executable that was found. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Fin {
    program: PathBuf,
    launcher: Vec<OsString>,
}

impl Fin {
    /// `launcher` stands in front of the program, such as `bluefin sandbox-exec --`; it may be empty.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>, launcher: Vec<OsString>) -> Self {
        Self { program: program.into(), launcher }
    }

    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Asks in one process; an answer for each request, in their order, and what the process took.
    ///
    /// # Errors
    /// What stood in the way of an answer.
    pub async fn call(
        &self,
        requests: &[Request],
        place: &Place,
        watch: &Watch,
    ) -> Result<(Vec<Answer>, Duration), Trouble> {
        let mut tries = 1;
        loop {
            match self.call_once(requests, place, watch).await {
                Err(Trouble::Machine(reason) | Trouble::Killed(reason)) if tries < TRIES => {
                    tracing::warn!(tries, reason, "fin is called again");
                    tokio::time::sleep(PAUSE * tries).await;
                    tries += 1;
                }
                result => return result,
            }
        }
    }

    async fn call_once(
        &self,
        requests: &[Request],
        place: &Place,
        watch: &Watch,
    ) -> Result<(Vec<Answer>, Duration), Trouble> {
        let machine = |error: std::io::Error| Trouble::Machine(error.to_string());
        let (input, output) = (place.path().join(INPUT), place.path().join(OUTPUT));
        let document = serde_json::to_vec(requests).map_err(|error| Trouble::Machine(error.to_string()))?;
        child_file::write(place.path(), INPUT, &document).map_err(machine)?;
        // What an earlier call left must not be taken for an answer.
        match tokio::fs::remove_file(&output).await {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(machine(error)),
            _ => {}
        }
        let words = [self.program.as_os_str(), "-i".as_ref(), input.as_os_str(), "-o".as_ref(), output.as_os_str()];
        let run = Run {
            command: self.launcher.iter().cloned().chain(words.into_iter().map(OsString::from)).collect(),
            environment: place.environment(),
            folder: place.path().to_path_buf(),
            output: Some(output.clone()),
        };
        let program = self.program.display().to_string();
        let ran = process::run(&run, watch).await.map_err(|error| Trouble::not_started(&program, &error))?;
        if let Some(trouble) = Trouble::of_end(&ran, watch) {
            return Err(trouble);
        }
        let (folder, jobs, limit) = (place.path().to_path_buf(), requests.len(), watch.output_bytes);
        let read = tokio::task::spawn_blocking(move || read(&folder, jobs, limit)).await;
        let read = read.map_err(|error| Trouble::Machine(error.to_string()))?;
        let answers = read.map_err(|failure| {
            if blames_machine(&failure.detail) || blames_machine(&ran.tail) {
                return Trouble::Machine(with_tail(failure.detail, &ran.tail));
            }
            let detail = with_tail(failure.detail, &ran.tail);
            Trouble::Failed(Failure::new(failure.kind, detail))
        })?;
        Ok((answers, ran.took))
    }

    /// The solvers of the library.
    ///
    /// # Errors
    /// What stood in the way of an answer.
    pub async fn solvers(&self) -> Result<Vec<Solver>, Trouble> {
        let place = Place::new(None).map_err(|error| Trouble::Machine(error.to_string()))?;
        let watch = Watch { time: Duration::from_secs(120), ..Watch::default() };
        let (answers, _) = self.call(&[Request::get_solvers()], &place, &watch).await?;
        let listed = answers.into_iter().next().and_then(|answer| answer.all_solvers).unwrap_or_default();
        let solvers = super::solvers(listed);
        if solvers.is_empty() {
            return Err(Trouble::Failed(Failure::new(FailureKind::NoResult, "get_solvers: no solvers")));
        }
        Ok(solvers)
    }

    /// Which solvers apply to each of `problems`, in their order. All are asked about in one process, and where that does not
    /// survive in smaller ones, until the problem that is to blame is alone.
    ///
    /// # Errors
    /// What no problem is to blame for.
    pub async fn applicability(
        &self,
        target: &Target,
        problems: &[Problem],
        place: &Place,
        watch: &Watch,
    ) -> Result<Applicability, Trouble> {
        let mut found: Applicability = Vec::with_capacity(problems.len());
        let mut requests = Vec::new();
        for (index, problem) in problems.iter().enumerate() {
            match Request::applicability(target, problem, index as u64) {
                Ok(request) => {
                    requests.push((index, request));
                    found.push(Err(Failure::new(FailureKind::NoResult, "not asked about")));
                }
                Err(error) => found.push(Err(inexpressible(&error))),
            }
        }
        let mut open = vec![requests];
        while let Some(mut batch) = open.pop() {
            if batch.is_empty() {
                continue;
            }
            let asked: Vec<Request> = batch.iter().map(|(_, request)| request.clone()).collect();
            match self.call(&asked, place, watch).await {
                Ok((answers, _)) => {
                    for ((index, _), answer) in batch.iter().zip(answers) {
                        if let Some(slot) = found.get_mut(*index) {
                            *slot = applicable(answer, *index);
                        }
                    }
                }
                Err(Trouble::Failed(_)) if batch.len() > 1 => {
                    let rest = batch.split_off(batch.len() / 2);
                    open.extend([rest, batch]);
                }
                Err(Trouble::Failed(failure)) => {
                    if let Some(slot) = batch.first().and_then(|(index, _)| found.get_mut(*index)) {
                        *slot = Err(failure);
                    }
                }
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(found)
    }

    /// Tries whether this build compiles for `target`: it needs MIOpen without a GPU.
    ///
    /// # Errors
    /// Why not.
    pub async fn try_compile(&self, target: &Target) -> Result<(), Trouble> {
        let place = Place::new(None).map_err(|error| Trouble::Machine(error.to_string()))?;
        let problem = trial()?;
        let request = Request::compile(Step::FindCompile, target, &problem, PROBE).map_err(refused)?;
        let watch = Watch { time: Duration::from_secs(300), ..Watch::default() };
        let answer = self.call(&[request], &place, &watch).await?.0.into_iter().next().unwrap_or_default();
        compiled(Step::FindCompile, answer, &problem, PROBE).map(|_| ()).map_err(Trouble::Failed)
    }

    /// Tries whether this build reaches the GPU that `gpu` names, by taking memory of it.
    ///
    /// # Errors
    /// Why not.
    pub async fn try_gpu(&self, target: &Target, gpu: Option<&str>) -> Result<(), Trouble> {
        let mut place = Place::new(None).map_err(|error| Trouble::Machine(error.to_string()))?;
        if let Some(gpu) = gpu {
            place.show_gpu(gpu);
        }
        let request = Request::touch(target, &trial()?).map_err(refused)?;
        let watch = Watch { time: Duration::from_secs(120), ..Watch::default() };
        self.call(&[request], &place, &watch).await.map(|_| ())
    }
}

/// A problem that is small and plain.
fn trial() -> Result<Problem, Trouble> {
    let shape =
        ConvShape { n: 1, c: 16, k: 16, input: [1, 8, 8], ..ConvShape::plain(Direction::Forward, DataType::Fp32) };
    let conv = ConvProblem::new(shape).map_err(|error| Trouble::Machine(error.to_string()))?;
    Ok(Problem::Conv(conv))
}

fn refused(error: Inexpressible) -> Trouble {
    Trouble::Failed(inexpressible(&error))
}

fn inexpressible(error: &Inexpressible) -> Failure {
    Failure::new(FailureKind::NotApplicable, error.to_string())
}

fn applicable(answer: Answer, index: usize) -> Result<Vec<String>, Failure> {
    if answer.id.is_some_and(|id| id != index as u64) {
        let detail = format!("config_tuna_id: found {:?}, expected {index}", answer.id);
        return Err(Failure::new(FailureKind::KeyMismatch, detail));
    }
    let solvers = answer.applicable_solvers;
    let solvers = solvers.ok_or_else(|| Failure::new(FailureKind::NoResult, "no applicable_solvers"))?;
    Ok(solvers.iter().map(|name| solver::spelling(name)).collect())
}

/// The answers that fin left in `folder`.
fn read(folder: &Path, jobs: usize, limit: u64) -> Result<Vec<Answer>, Failure> {
    let no_result = |reason: String| Failure::new(FailureKind::NoResult, reason);
    let malformed = |reason: String| Failure::new(FailureKind::MalformedOutput, reason);
    let bytes = child_file::read(folder, OUTPUT, limit).map_err(|error| match error {
        ChildFileError::Missing { .. } => no_result(format!("exited with code 0, but left no answer: {error}")),
        error => malformed(format!("answer: {error}")),
    })?;
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(no_result("exited with code 0, but its answer is empty".to_string()));
    }
    parse(&bytes, jobs).map_err(|error| malformed(format!("answer: {error}")))
}
