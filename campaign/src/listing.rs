//! The candidates of an order without carrying it out: no process is started, no file is written, no server is connected to.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::arch;
use bluefin_common::candidate::Candidate;
use bluefin_common::job::Job;
use bluefin_common::kfd;
use bluefin_common::problem::Problem;
use bluefin_common::session::Session;
use bluefin_common::spelled::counted;
use bluefin_common::store::Store;
use bluefin_common::suggest;
use bluefin_common::target::{InvalidTarget, Target};
use bluefin_common::value::Value;
use bluefin_miopen::detect;
use bluefin_producer::plan::{Asked, LeftOut, Plan, ProblemPlan, Valid};
use serde::Serialize;
use serde_json::Value as Json;

use crate::known::known;
use crate::{config, usage};

/// Where NVIDIA's driver says that it is loaded.
const NVIDIA: &str = "/proc/driver/nvidia/version";

/// What would be tried for the problems of an order.
#[derive(Debug, Default, Serialize)]
pub struct Listing {
    /// What it would be compiled for.
    pub target: String,
    /// In the order of the problems; those that have candidates.
    pub problems: Vec<Listed>,
    /// Candidates of all problems.
    pub candidates: u64,
    /// Those that are valid, of which the candidates are a selection.
    pub valid_candidates: u64,
    /// Jobs that they would be.
    pub jobs: u64,
    /// Problems that no solver applies to.
    pub unsolved: Vec<LeftOut>,
    /// Input lines that were not taken.
    pub rejects: Vec<String>,
    /// How the candidates are selected, for people: `at budget normal`.
    #[serde(skip)]
    pub within: String,
    /// What was left out, for people.
    #[serde(skip)]
    pub left_out: Vec<String>,
}

/// A problem and its candidates.
#[derive(Debug, Serialize)]
pub struct Listed {
    /// As a driver command.
    pub problem: String,
    /// In short.
    #[serde(skip)]
    pub label: String,
    /// Those that apply, by name.
    pub solvers: Vec<OfSolver>,
}

/// The candidates of a solver.
#[derive(Debug, Serialize)]
pub struct OfSolver {
    /// As its kernel spec names it.
    pub solver: String,
    /// How many there are.
    pub candidates: u64,
    /// How many are valid.
    pub valid_candidates: u64,
    /// That was counted, and is not an estimate from a part of a large space: the whole budget counts all.
    pub exact: bool,
    /// Params by name, in the order in which they would be tried.
    pub configs: Vec<BTreeMap<String, Json>>,
}

impl Listing {
    /// The candidates of `problems`, each once, as a new session like `session` plans what is `asked`.
    ///
    /// # Errors
    /// If the problems can not be planned.
    pub async fn of(
        session: &Session,
        mut problems: Vec<Problem>,
        asked: &Asked,
        rejects: Vec<String>,
    ) -> anyhow::Result<Self> {
        // One that learns tries as many, but which they are follows from what the first of them come to: the fixed order shows the space.
        let limited = session.search.clone().filter(|plan| plan.candidates > 0);
        let session = &Session { search: limited, ..session.clone() };
        let mut seen = HashSet::new();
        problems.retain(|problem| seen.insert(problem.clone()));
        let (planned, plan) = planned(&SqliteStore::in_memory()?, session, &problems, asked).await?;
        let listed = problems.iter().zip(planned).map(|(problem, planned)| listed(problem, planned, asked));
        let space = plan.space.clone().unwrap_or_default();
        Ok(Self {
            target: session.target.to_string(),
            problems: listed.filter(|listed| !listed.solvers.is_empty()).collect(),
            candidates: space.candidates,
            valid_candidates: space.valid_candidates,
            jobs: plan.jobs,
            left_out: plan.left_out(),
            within: space.within,
            unsolved: plan.unsolved,
            rejects,
        })
    }

    /// One line for people.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { target, problems, candidates, valid_candidates, jobs, within, .. } = self;
        let mut solvers = problems.iter().flat_map(|problem| &problem.solvers);
        let about = if solvers.all(|solver| solver.exact) { "" } else { "about " };
        let (problems, jobs) = (counted(problems.len(), "problem"), counted(*jobs, "job"));
        format!(
            "{problems} for {target}: {candidates} of {about}{valid_candidates} candidates {within}, {jobs}; nothing was done"
        )
    }

    /// Whether each problem that was named has candidates.
    #[must_use]
    pub fn is_fine(&self) -> bool {
        self.candidates > 0 && self.unsolved.is_empty() && self.rejects.is_empty()
    }
}

/// The jobs of each of `problems`, and what the plan came to. Nothing is enqueued.
pub(crate) async fn planned(
    store: &dyn Store,
    session: &Session,
    problems: &[Problem],
    asked: &Asked,
) -> anyhow::Result<(Vec<(BTreeMap<String, Valid>, Vec<Job>)>, Plan)> {
    let planners = known().planners();
    let planning = planners.begin(store, session, asked).await?;
    let mut plan = Plan::new(&session.name, planning.selects());
    let mut planned = Vec::with_capacity(problems.len());
    for (problem, of_problem) in problems.iter().zip(planning.plan(problems).await?) {
        let mut valid = BTreeMap::new();
        if let ProblemPlan::Jobs(groups) = &of_problem {
            groups.iter().for_each(|group| valid.extend(group.valid.clone()));
        }
        planned.push((valid, plan.add(problem, of_problem)));
    }
    Ok((planned, plan))
}

/// The candidates of a problem, by their solvers.
fn listed(problem: &Problem, (valid, jobs): (BTreeMap<String, Valid>, Vec<Job>), asked: &Asked) -> Listed {
    let mut solvers: BTreeMap<String, OfSolver> = BTreeMap::new();
    for job in &jobs {
        for candidate in &job.candidates {
            let of_solver = solvers.entry(candidate.solver.clone()).or_insert_with(|| {
                let Valid { count, exact } =
                    valid.get(&candidate.solver).copied().unwrap_or(Valid { count: 0, exact: false });
                let solver = candidate.solver.clone();
                OfSolver { solver, candidates: 0, valid_candidates: count, exact, configs: Vec::new() }
            });
            of_solver.candidates += 1;
            of_solver.configs.push(config(job, candidate, asked));
        }
    }
    Listed { problem: problem.canonical(), label: problem.label(), solvers: solvers.into_values().collect() }
}

/// The params of `candidate` by name.
fn config(job: &Job, candidate: &Candidate, asked: &Asked) -> BTreeMap<String, Json> {
    let spec = asked.specs.here.iter().find(|loaded| loaded.digest == job.spec);
    let solver = spec.and_then(|loaded| loaded.spec.solver(&candidate.solver));
    let names = solver.iter().flat_map(|solver| solver.params.iter().map(|param| param.name.clone()));
    names.zip(candidate.params.iter().map(json)).collect()
}

fn json(value: &Value) -> Json {
    match value {
        Value::Int(value) => (*value).into(),
        Value::Text(text) => text.clone().into(),
        Value::Bool(value) => (*value).into(),
    }
}

/// What `device` names, as far as no driver has to be asked: a target, an architecture, or an AMD GPU of this machine as the
/// kernel describes it. Where nothing is named: the first AMD GPU, else the CPU.
///
/// # Errors
/// If only a driver knows what it is.
pub fn target(device: Option<&str>) -> anyhow::Result<Target> {
    let gpus = detect::gpus(&kfd::topology());
    let device = device.or(config::get().device.as_deref());
    let named = match device {
        None if gpus.is_empty() && !Path::new(NVIDIA).exists() => return Ok(Target::Host),
        None | Some("gpu") => gpus.first().map(|gpu| gpu.target.clone()),
        Some(text) => {
            let first = text.split(',').next().unwrap_or(text).trim();
            let of_gpu = gpus.iter().find(|gpu| gpu.index.to_string() == first || gpu.uuid == first);
            of_gpu.map(|gpu| gpu.target.clone()).or_else(|| arch_or_target(first).ok())
        }
    };
    named.ok_or_else(|| {
        let found = device.unwrap_or("a GPU that its driver knows");
        let known = arch::ROWS.iter().flat_map(|row| row.products.iter().map(|(name, _)| *name).chain([row.name]));
        let meant = suggest::alike(found, known).map(|meant| format!("; {meant}")).unwrap_or_default();
        let expected = "what it is, such as h100 or gfx942-304, since no driver is asked with --list";
        usage(format!("--device: found {found}, expected {expected}{meant}"))
    })
}

/// A target, of which the compute units may be left to what is usual.
///
/// # Errors
/// A text that names none.
pub fn arch_or_target(text: &str) -> Result<Target, InvalidTarget> {
    let usual = arch::of(text).and_then(|known| Some(format!("{}-{}", known.name, known.usual_units()?)));
    usual.as_deref().unwrap_or(text).parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_without_its_driver() {
        let named = |text: &str| target(Some(text)).map(|target| target.to_string()).map_err(|error| error.to_string());
        for (text, expected) in
            [("host", "host"), ("gfx942-80", "gfx942-80"), ("gfx942", "gfx942-304"), ("h100", "sm_90-132")]
        {
            assert_eq!(named(text), Ok(expected.to_string()), "{text}");
        }
        let refused = named("cuda:0").unwrap_err();
        assert!(refused.starts_with("--device: found cuda:0, expected what it is, such as h100"), "{refused}");
    }
}
