//! Planning sessions of MIOpen's solvers.

use std::process::ExitCode;

use anyhow::bail;
use bluefin_common::broker::Broker;
use bluefin_common::job::Stage;
use bluefin_common::problem::Problem;
use bluefin_common::session::{Session, Tuner};
use bluefin_common::spec::Algorithm;
use bluefin_common::store::Store;
use bluefin_producer::Metrics;
use bluefin_producer::applicability::{self, Applicable};
use bluefin_producer::enqueue::{Enqueued, Enqueuer, Publish};
use bluefin_producer::plan::miopen::{is_of_miopen, of_driver, of_fin};
use bluefin_producer::solvers::{Choice, Snapshot, names, snapshot};
use serde::Serialize;

use super::unsolved::{self, Unsolved};

/// Problems planned at a time.
const PROBLEMS: usize = 256;
/// Solvers that are told one by one.
const MAX_SOLVERS: usize = 3;

/// Which of MIOpen's solvers are tuned.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "MIOpen's solvers")]
pub struct ChoiceArgs {
    /// Only these solvers, with or without blanks in their template arguments
    #[arg(short, long, alias = "solvers", value_name = "NAME,...", value_parser = parse_names)]
    pub solver: Vec<Names>,
    /// Only solvers of this algorithm: GEMM, Direct, FFT, Winograd, ImplicitGEMM
    #[arg(short = 'A', long, alias = "algo", value_parser = parse_algorithm)]
    pub algorithm: Option<Algorithm>,
    /// Only tunable solvers
    #[arg(long)]
    pub tunable: bool,
    /// Only solvers whose kernels are the same for all sizes
    #[arg(short, long, aliases = ["only_dynamic", "dynamic_solvers_only"])]
    pub dynamic_only: bool,
}

/// Names in one value of a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(Vec<String>);

fn parse_names(text: &str) -> Result<Names, String> {
    let names = names(text);
    if names.is_empty() { Err("expected names of solvers, separated by commas".to_string()) } else { Ok(Names(names)) }
}

fn parse_algorithm(text: &str) -> Result<Algorithm, String> {
    // MITuna's names are those of the API: miopenConvolutionFwdAlgoWinograd.
    let word = text.rsplit_once("Algo").map_or(text, |(_, word)| word);
    let found = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(word));
    found.ok_or_else(|| "expected GEMM, Direct, FFT, Winograd or ImplicitGEMM".to_string())
}

impl ChoiceArgs {
    /// Whether nothing is chosen.
    pub fn is_empty(&self) -> bool {
        self.choice() == Choice::default()
    }

    /// What is chosen.
    pub fn choice(&self) -> Choice {
        Choice {
            names: self.solver.iter().flat_map(|names| names.0.clone()).collect(),
            algorithm: self.algorithm,
            tunable: self.tunable,
            dynamic: self.dynamic_only,
        }
    }
}

/// What planning a session of MIOpen's solvers came to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MiopenPlan {
    pub session: String,
    pub problems: u64,
    /// Problems that MIOpen has no solvers for.
    pub unsolved: Vec<Unsolved>,
    /// Problems of whose solvers none was chosen.
    pub passed_over: u64,
    /// The same, with why; told where it leaves nothing to do.
    #[serde(skip)]
    pub left_out: Vec<Unsolved>,
    /// Problems whose solvers are not known.
    pub unknown: Vec<String>,
    pub jobs: u64,
    /// Published now.
    pub enqueued: u64,
    /// In a queue or at a worker already.
    pub waiting: u64,
    /// With an outcome already.
    pub done: u64,
    /// Input lines that were not taken.
    pub rejects: Vec<String>,
}

/// Where jobs come from and go to.
pub struct Ways<'a> {
    pub store: &'a dyn Store,
    pub broker: &'a dyn Broker,
    pub metrics: &'a Metrics,
    pub publish: Publish,
}

/// Plans `problems` and enqueues what is missing. `hint` names them in advice: ` -t resnet50`.
pub async fn enqueue(
    ways: &Ways<'_>,
    session: &Session,
    problems: &[Problem],
    choice: &Choice,
    stages: &[Stage],
    hint: &str,
) -> anyhow::Result<MiopenPlan> {
    let Ways { store, broker, metrics, publish } = *ways;
    let name = &session.name;
    if let Some(stage) = stages.iter().find(|stage| !session.stages.contains(stage)) {
        let own: Vec<&str> = session.stages.iter().map(|stage| stage.name()).collect();
        let stage = stage.name();
        return Err(crate::usage(format!(
            "--stage {stage}: session {name} has {}; make another session",
            own.join(",")
        )));
    }
    let solvers = snapshot(store, name).await?;
    let driver = session.tuner != Tuner::Fin;
    if solvers.is_empty() && (!driver || choice.needs_snapshot()) {
        bail!("session {name}: its solvers are not known; run bluefin solvers update --session {name}");
    }
    if let Some(unknown) = choice.unknown(&solvers).filter(|_| !solvers.is_empty()) {
        return Err(crate::usage(format!(
            "--solver: MIOpen has no {unknown}; see bluefin solvers list --session {name}"
        )));
    }
    let mut plan = MiopenPlan { session: name.to_string(), ..MiopenPlan::default() };
    let mut enqueuer = Enqueuer::open(store, broker, session, publish).await?;
    for problems in problems.chunks(PROBLEMS) {
        let mut jobs = Vec::new();
        let known = if driver { Vec::new() } else { applicability::of(store, name, problems).await? };
        for (index, problem) in problems.iter().enumerate() {
            plan.problems += 1;
            let known = known.get(index).and_then(Option::as_ref);
            let left_out = |reason: String| Unsolved { problem: problem.to_string(), reason };
            if !is_of_miopen(problem) {
                plan.unsolved.push(left_out("MIOpen's tools tune convolutions and batch norms".to_string()));
                continue;
            }
            if known.is_some_and(|known| known.solvers.is_empty()) {
                plan.unsolved.push(left_out("fin named no solver that applies".to_string()));
                continue;
            }
            let own = if driver {
                driver_jobs(session, problem, choice, &solvers)
            } else if let Some(applicable) = known {
                of_fin(session, problem, applicable, &solvers, choice, stages)
            } else {
                plan.unknown.push(problem.to_string());
                continue;
            };
            if own.is_empty() {
                plan.passed_over += 1;
                plan.left_out.push(left_out(why_passed_over(known, choice, &solvers)));
            }
            jobs.extend(own);
        }
        plan.jobs += jobs.len() as u64;
        enqueuer.enqueue(jobs).await?;
        metrics.planned(problems.len() as u64, enqueuer.total());
        tracing::info!(problems = plan.problems, jobs = plan.jobs, "enqueued");
    }
    if plan.problems > 0 && plan.unknown.len() as u64 == plan.problems {
        bail!(
            "session {name}: it is not known which solvers apply; run bluefin applicability update --session {name}{hint}"
        );
    }
    let Enqueued { published, waiting, done } = enqueuer.total();
    (plan.enqueued, plan.waiting, plan.done) = (published, waiting, done);
    Ok(plan)
}

fn driver_jobs(
    session: &Session,
    problem: &Problem,
    choice: &Choice,
    solvers: &Snapshot,
) -> Vec<bluefin_common::job::Job> {
    if !choice.needs_snapshot() {
        return vec![of_driver(session, problem, &choice.names)];
    }
    let chosen: Vec<String> =
        solvers.values().filter(|solver| choice.takes(solver)).map(|solver| solver.name.clone()).collect();
    if chosen.is_empty() { Vec::new() } else { vec![of_driver(session, problem, &chosen)] }
}

/// Why of the solvers that apply to a problem none is planned: what is known of each. Without `known` all may apply.
fn why_passed_over(known: Option<&Applicable>, choice: &Choice, solvers: &Snapshot) -> String {
    let names: Vec<&String> = known.map_or_else(|| solvers.keys().collect(), |known| known.solvers.iter().collect());
    let reason = |name: &&String| match solvers.get(*name) {
        None => format!("{name} (not in the session's list of solvers)"),
        // Perf jobs are of those that are tunable.
        Some(solver) => {
            format!(
                "{name} ({})",
                choice.refusal(solver).unwrap_or_else(|| "not tunable, as --stage perf asks".to_string())
            )
        }
    };
    let mut told: Vec<String> = names.iter().take(MAX_SOLVERS).map(reason).collect();
    match names.len().saturating_sub(MAX_SOLVERS) {
        0 => {}
        more => told.push(format!("{more} more")),
    }
    format!("none is chosen of {}", told.join(", "))
}

impl MiopenPlan {
    /// One line for people.
    pub fn sentence(&self) -> String {
        let passed_over = match self.passed_over {
            0 => String::new(),
            count => format!("; {count} problems have none of the chosen solvers"),
        };
        format!(
            "session {}: {} problems, {} jobs ({} enqueued now, {} waiting, {} done){passed_over}",
            self.session, self.problems, self.jobs, self.enqueued, self.waiting, self.done
        )
    }

    /// Says what was left out, on standard error, and whether that is a failure.
    pub fn complain(&self) -> ExitCode {
        for reject in &self.rejects {
            eprintln!("rejected: {reject}");
        }
        unsolved::tell("skipped, no solver applies", &self.unsolved);
        unsolved::tell("not known which solvers apply", &self.unknown);
        if self.jobs == 0 {
            unsolved::tell("skipped", &self.left_out);
            eprintln!("nothing to do: no solver was planned for any problem");
        }
        let fine = self.jobs > 0 && self.rejects.is_empty() && self.unsolved.is_empty() && self.unknown.is_empty();
        if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
