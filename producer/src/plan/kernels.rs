//! Sessions of kernel specs: which specs apply, which candidates are tried, how they are batched.

mod searches;

use std::collections::BTreeMap;

use async_trait::async_trait;
use bluefin_common::arch;
use bluefin_common::candidate::Candidate;
use bluefin_common::digest::Digest;
use bluefin_common::job::Job;
use bluefin_common::lane::Lane;
use bluefin_common::method::Method;
use bluefin_common::problem::Problem;
use bluefin_common::session::{SearchPlan, Session, Stage};
use bluefin_common::store::Store;
use bluefin_common::target::Target;
use bluefin_kernel_spec::search::{BATCH, Neighbours, Priors, Search, Space, Strategies};
use bluefin_kernel_spec::{Candidates, Misfit, SCATTERED, SpecError};
use bluefin_miopen::driver::FIND_ENFORCE;

use super::limits::{PROBLEM, SESSION, refuse_others};
use super::slow::{SLOW, compile_cost, slow_ones_early};
use super::{Asked, CandidateBudget, PlannedGroup, Planner, Planning, ProblemPlan, Selects, Valid, is_perf_alone};
use crate::PlanError;
use crate::specs::LoadedSpec;

/// Most specs, and most characters, of the reason why a problem has no candidate.
const MAX_SPECS: usize = 3;
const MAX_REASON: usize = 600;

/// Plans sessions of kernel specs.
pub struct Kernels {
    method: Method,
    strategies: Strategies,
}

impl Kernels {
    /// A planner whose sessions may search by one of `strategies`.
    #[must_use]
    pub fn new(strategies: Strategies) -> Self {
        Self { method: Method::KERNELS, strategies }
    }

    /// The same for another method whose toolchains compile kernel specs.
    #[must_use]
    pub fn of(method: Method, strategies: Strategies) -> Self {
        Self { method, strategies }
    }

    fn strategy(&self, plan: &SearchPlan) -> Result<&dyn Search, PlanError> {
        self.strategies.get(&plan.strategy).ok_or_else(|| PlanError::NoStrategy {
            found: plan.strategy.chars().take(64).collect(),
            expected: self.strategies.names().join(", "),
        })
    }
}

#[async_trait]
impl Planner for Kernels {
    fn method(&self) -> Method {
        self.method
    }

    fn tunes(&self) -> &'static str {
        "kernel specs"
    }

    fn takes_specs(&self) -> bool {
        true
    }

    fn check(&self, session: &Session) -> Result<(), PlanError> {
        let (fin, driver) = (Method::FIN, Method::MIOPENDRIVER);
        if session.environment.contains_key(FIND_ENFORCE) {
            return Err(PlanError::Usage(format!("--exhaustive is for --tuner {driver}")));
        }
        if !session.environment.is_empty() {
            return Err(PlanError::Usage(format!(
                "--find-mode and --blacklist are for MIOpen's solvers: --tuner {fin} or {driver}"
            )));
        }
        refuse_others(session, &[PROBLEM, SESSION])?;
        if let Some(plan) = &session.search {
            self.strategy(plan)?;
        }
        needs_perf(&session.stages)
    }

    async fn begin<'a>(
        &'a self,
        store: &'a dyn Store,
        session: &Session,
        asked: &'a Asked,
    ) -> Result<Box<dyn Planning + 'a>, PlanError> {
        let Asked { specs, choice, .. } = asked;
        if !choice.is_empty() {
            return Err(PlanError::Usage(format!(
                "--solver, --algorithm, --tunable and --dynamic-only choose among MIOpen's solvers; session {} is none of \
                 those: make it with bluefin session new",
                session.name
            )));
        }
        if !asked.stages.is_empty() {
            needs_perf(&asked.stages)?;
        }
        if specs.of(self.method).next().is_none() {
            return Err(PlanError::NoSpec(session.target.clone()));
        }
        if let Some(target) = asked.target.as_ref().filter(|target| **target != session.target) {
            return Err(PlanError::differs(session, "target", &session.target, target));
        }
        arch::warn_of_unknown(session.target.arch());
        let is_part = asked.stages.iter().all(|stage| session.stages.contains(stage));
        if !is_part {
            let text = |stages: &[Stage]| format!("{stages:?}");
            return Err(PlanError::differs(session, "stages", text(&session.stages), text(&asked.stages)));
        }
        let search = match &session.search {
            Some(plan) => Some((self.strategy(plan)?, plan.clone())),
            None => None,
        };
        for loaded in specs.of(self.method).filter(|loaded| !loaded.stored) {
            loaded.bundle.put(store).await?;
        }
        let priors = match session.priors {
            Some(digest) => Some(read_priors(store, session, digest).await?),
            None => None,
        };
        Ok(Box::new(OfSpecs {
            store,
            priors,
            session: session.clone(),
            method: self.method,
            asked,
            search,
            neighbours: if asked.only_look { Neighbours::only_read() } else { Neighbours::default() },
        }))
    }
}

/// The winners of earlier work that first rounds of `session` begin with.
///
/// # Errors
/// If the store fails or does not have them.
pub async fn read_priors(store: &dyn Store, session: &Session, digest: Digest) -> Result<Priors, PlanError> {
    Priors::read(store, digest).await?.ok_or_else(|| {
        let name = &session.name;
        PlanError::Unready(format!("session {name}: the winners that it begins with, {digest}, are not in the store"))
    })
}

fn needs_perf(stages: &[Stage]) -> Result<(), PlanError> {
    if stages.contains(&Stage::Perf) {
        return Ok(());
    }
    Err(PlanError::Usage("--stage find needs perf: its candidates are the best of the perf stage".to_string()))
}

/// A session of kernel specs that is being planned.
struct OfSpecs<'a> {
    store: &'a dyn Store,
    session: Session,
    method: Method,
    asked: &'a Asked,
    /// In a session that searches.
    search: Option<(&'a dyn Search, SearchPlan)>,
    priors: Option<Priors>,
    neighbours: Neighbours,
}

#[async_trait]
impl Planning for OfSpecs<'_> {
    fn selects(&self) -> Selects {
        let within = match &self.search {
            None => format!("at budget {}", self.asked.budget),
            Some((search, plan)) => {
                let most = if plan.candidates > 0 { plan.candidates } else { self.asked.budget.candidates() };
                format!("so far, of at most {most} for each solver by the strategy {}", search.name())
            }
        };
        Selects::Candidates { within }
    }

    fn is_perf_alone(&self) -> bool {
        is_perf_alone(&self.session, &self.asked.stages)
    }

    async fn plan(&self, problems: &[Problem]) -> Result<Vec<ProblemPlan>, PlanError> {
        let mut planned = Vec::with_capacity(problems.len());
        match &self.search {
            None => {
                for problem in problems {
                    let (budget, priors) = (self.asked.budget, self.priors.as_ref());
                    planned.push(plan_problem(&self.session, problem, self.specs(), budget, priors)?);
                }
            }
            Some((search, plan)) => {
                let mut known = Vec::with_capacity(problems.len());
                for problem in problems {
                    known.push(self.known(problem, *search, plan).await?);
                }
                for searched in self.searched(problems, &known, *search)? {
                    planned.push(self.put_ends(searched).await?);
                }
            }
        }
        let plans = problems.iter().zip(planned).map(|(problem, groups)| {
            if !groups.is_empty() {
                return Ok(ProblemPlan::Jobs(groups));
            }
            let specs = self.specs().chain(&self.asked.specs.elsewhere);
            Ok(ProblemPlan::Unsolved(why_unsolved(problem, &self.session.target, specs)?))
        });
        plans.collect()
    }
}

impl OfSpecs<'_> {
    fn specs(&self) -> impl Iterator<Item = &LoadedSpec> {
        self.asked.specs.of(self.method)
    }
}

/// Plans the perf jobs of `problem` for every spec that applies to it, the first of each solver with what `priors` say. Empty: no solver
/// applies.
///
/// # Errors
/// If an expression of a spec fails for this problem.
pub fn plan_problem<'a>(
    session: &Session,
    problem: &Problem,
    specs: impl IntoIterator<Item = &'a LoadedSpec>,
    budget: CandidateBudget,
    priors: Option<&Priors>,
) -> Result<Vec<PlannedGroup>, PlanError> {
    let mut groups = Vec::new();
    for loaded in specs {
        let group =
            plan_group(session, problem, loaded, budget, priors).map_err(|source| of_problem(problem, source))?;
        groups.extend(group.filter(|group| !group.jobs.is_empty()));
    }
    Ok(groups)
}

fn of_problem(problem: &Problem, source: SpecError) -> PlanError {
    PlanError::Problem { problem: problem.to_string(), source: source.into() }
}

/// Why [`plan_problem`] plans nothing for `problem`, in one line: what is in the way of the specs that are for problems like
/// it, the nearest first. Specs that are for other architectures are told of where there is none for `target`.
///
/// # Errors
/// If an expression of a spec fails for this problem.
fn why_unsolved<'a>(
    problem: &Problem,
    target: &Target,
    specs: impl IntoIterator<Item = &'a LoadedSpec>,
) -> Result<String, PlanError> {
    let mut misfits = Vec::new();
    for LoadedSpec { spec, .. } in specs {
        let misfit = spec.misfit(problem, target).map_err(|source| of_problem(problem, source))?;
        misfits.extend(misfit.filter(|misfit| *misfit != Misfit::Problem).map(|misfit| (&spec.name, misfit)));
    }
    if misfits.iter().any(|(_, misfit)| !matches!(misfit, Misfit::Target { .. })) {
        misfits.retain(|(_, misfit)| !matches!(misfit, Misfit::Target { .. }));
    }
    misfits.sort_by_key(|(_, misfit)| misfit.distance());
    let told: Vec<String> = misfits.iter().take(MAX_SPECS).map(|(name, misfit)| format!("{name} {misfit}")).collect();
    let mut reason = match problem {
        _ if !told.is_empty() => told.join("; "),
        Problem::Kernel(kernel) => {
            let sizes: Vec<&str> = kernel.sizes.keys().map(String::as_str).collect();
            format!("no kernel spec is named {} and has the sizes {}", kernel.kernel, sizes.join(" "))
        }
        Problem::Aiter(_) => "aiter's own tuners are for it: --tuner aiter".to_string(),
        other => format!("no kernel spec is for {}", other.operation().operator().problems),
    };
    if let Some((end, _)) = reason.char_indices().nth(MAX_REASON) {
        reason.truncate(end);
        reason.push('…');
    }
    match misfits.len().saturating_sub(MAX_SPECS) {
        0 => {}
        more => reason.push_str(&format!("; and {more} more specs do not apply")),
    }
    Ok(reason)
}

fn plan_group(
    session: &Session,
    problem: &Problem,
    loaded: &LoadedSpec,
    budget: CandidateBudget,
    priors: Option<&Priors>,
) -> Result<Option<PlannedGroup>, SpecError> {
    let Some(scope) = loaded.spec.scope(problem, &session.target)? else { return Ok(None) };
    // Said here, where a problem is refused with a reason, and not where it is told of.
    loaded.spec.work(&scope)?;
    let budget = budget.of(&loaded.spec);
    let mut group = PlannedGroup { jobs: Vec::new(), valid: BTreeMap::new() };
    for solver in loaded.spec.solvers_for(&scope)? {
        let mut candidates = loaded.spec.candidates(solver, &scope, budget.limit())?;
        if let Some(priors) = priors {
            let space = Space::of(&loaded.spec, solver, &scope);
            let chosen = priors.choose(&loaded.spec.name, &space, problem).candidates;
            begin_with(&mut candidates.points, chosen, budget.limit());
        }
        group.valid.insert(solver.name.clone(), valid(&candidates));
        let jobs = candidates.points.chunks(BATCH).map(|batch| job(session, problem, loaded, batch.to_vec()));
        let mut jobs: Vec<Job> = jobs.collect();
        if solver.params.iter().any(|param| param.at_launch) && candidates.points.len() > SCATTERED {
            // What shares compiles goes first, so that devices have much to do after few of them; what is scattered finds its compiles then.
            jobs.rotate_left(SCATTERED / BATCH);
        }
        if solver.says_compile_cost() && jobs.len() >= SLOW {
            let costs = jobs.iter().map(|job| compile_cost(solver, job, &scope)).collect::<Result<Vec<f64>, _>>()?;
            jobs = slow_ones_early(jobs, &costs);
        }
        group.jobs.extend(jobs);
    }
    Ok(Some(group))
}

/// Puts `priors` behind the first of `points`, the default; no more than `limit` are left.
fn begin_with(points: &mut Vec<Candidate>, mut priors: Vec<Candidate>, limit: usize) {
    priors.retain(|prior| points.first() != Some(prior));
    points.retain(|point| !priors.contains(point));
    let default = points.len().min(1);
    points.splice(default..default, priors);
    points.truncate(limit);
}

fn valid(candidates: &Candidates) -> Valid {
    Valid { count: candidates.valid, exact: candidates.exact }
}

fn job(session: &Session, problem: &Problem, loaded: &LoadedSpec, candidates: Vec<Candidate>) -> Job {
    Job {
        session: session.name.clone(),
        stage: Stage::Perf,
        target: session.target.clone(),
        problem: problem.clone(),
        method: session.method,
        spec: loaded.digest,
        toolchain: loaded.spec.toolchain.to_string(),
        candidates,
        round: 0,
        lane: Lane::First,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn winners_of_earlier_work_come_behind_the_default_within_the_limit() {
        let points = |all: &[i64]| -> Vec<Candidate> {
            all.iter().map(|at| Candidate { solver: "S".to_string(), params: vec![(*at).into()] }).collect()
        };
        for (all, priors, limit, expected) in [
            (&[0, 1, 2, 3, 4][..], &[7, 3, 0][..], 5, &[0, 7, 3, 1, 2][..]),
            (&[0, 1], &[5, 6, 7], 2, &[0, 5]),
            (&[0, 1], &[], 2, &[0, 1]),
            (&[], &[5], 3, &[5]),
        ] {
            let mut candidates = points(all);
            begin_with(&mut candidates, points(priors), limit);
            assert_eq!(candidates, points(expected));
        }
    }
}
