//! Searches: which candidates of a tuning space are tried next, given what came of those before.

use std::collections::HashSet;
use std::sync::Arc;

use bluefin_common::candidate::Candidate;
use bluefin_common::outcome::Outcome;
use bluefin_common::session::{SearchPlan, Stage};
use bluefin_common::value::Value;

use crate::error::SpecError;
use crate::{Candidates, KernelSpec, Scope, Solver};

/// Candidates of one job. Small enough that a job takes seconds and its progress shows; a larger budget adds jobs and leaves the
/// existing ones as they are.
pub const BATCH: usize = 8;

/// A strategy. Pure: the same space and the same outcomes give the same candidates, whoever asks, so that a round that is
/// planned twice is planned once.
pub trait Search: Send + Sync {
    /// As sessions name it.
    fn name(&self) -> &'static str;

    /// Up to `n` candidates of `space` to be tried next. None: the search is over. What is among `tried` is not tried again,
    /// whether it is returned or not.
    ///
    /// # Errors
    /// An expression of the spec that has no value.
    fn next(&self, space: &Space<'_>, tried: &[Tried<'_>], n: usize) -> Result<Vec<Candidate>, SpecError>;

    /// Candidates of each solver that a round is meant to have.
    fn round(&self) -> usize {
        BATCH
    }
}

/// The tuning space of one solver for one problem.
#[derive(Clone, Copy, Debug)]
pub struct Space<'a> {
    pub spec: &'a KernelSpec,
    pub solver: &'a Solver,
    pub scope: &'a Scope,
}

impl Space<'_> {
    /// The first `limit` candidates in the fixed order, see [`KernelSpec::candidates`].
    ///
    /// # Errors
    /// A constraint that has no value for a point.
    pub fn first(&self, limit: usize) -> Result<Candidates, SpecError> {
        self.spec.candidates(self.solver, self.scope, limit)
    }

    /// Whether `params` are a point of the space that satisfies its constraints.
    #[must_use]
    pub fn holds(&self, params: &[Value]) -> bool {
        let candidate = Candidate { solver: self.solver.name.clone(), params: params.to_vec() };
        self.spec.build(&candidate, self.scope).is_ok()
    }
}

/// A candidate that has an outcome.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried<'a> {
    pub candidate: &'a Candidate,
    /// Its median; `None` if it failed.
    pub median_ms: Option<f64>,
}

impl<'a> Tried<'a> {
    /// What the perf stage of a group has tried of `solver`, by candidate.
    #[must_use]
    pub fn of(outcomes: &'a [Outcome], solver: &str) -> Vec<Self> {
        let perf = outcomes.iter().filter(|outcome| outcome.job.stage == Stage::Perf);
        let mut tried: Vec<Self> = perf
            .flat_map(|outcome| &outcome.candidates)
            .filter(|outcome| outcome.candidate.solver == solver)
            .map(|outcome| {
                let timing = outcome.result.as_ref().ok();
                Self { candidate: &outcome.candidate, median_ms: timing.map(|timing| timing.median_ms) }
            })
            .collect();
        // Outcomes come in no particular order.
        tried.sort_by(|a, b| a.candidate.cmp(b.candidate));
        tried.dedup_by(|a, b| a.candidate == b.candidate);
        tried
    }
}

/// The default, then the others in the order that [`KernelSpec::candidates`] has.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedOrder;

impl Search for FixedOrder {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn next(&self, space: &Space<'_>, tried: &[Tried<'_>], n: usize) -> Result<Vec<Candidate>, SpecError> {
        let mut next = space.first(tried.len().saturating_add(n))?.points;
        next.retain(|candidate| tried.iter().all(|tried| tried.candidate != candidate));
        next.truncate(n);
        Ok(next)
    }
}

/// The strategies that a process knows.
#[derive(Clone)]
pub struct Strategies(Vec<Arc<dyn Search>>);

impl Default for Strategies {
    fn default() -> Self {
        Self(vec![Arc::new(FixedOrder)])
    }
}

impl Strategies {
    /// These and one more.
    #[must_use]
    pub fn with(mut self, search: Arc<dyn Search>) -> Self {
        self.0.push(search);
        self
    }

    /// The one of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&dyn Search> {
        self.0.iter().find(|search| search.name() == name).map(|search| &**search)
    }

    /// Names of all.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|search| search.name()).collect()
    }
}

/// What `search` tries next of every solver of `spec` that applies, given the outcomes of the group so far. A solver has
/// nothing more to try when the plan's candidates are spent.
///
/// # Errors
/// An expression of the spec that has no value.
pub fn next_round(
    search: &dyn Search,
    plan: &SearchPlan,
    (spec, scope): (&KernelSpec, &Scope),
    outcomes: &[Outcome],
) -> Result<Vec<Vec<Candidate>>, SpecError> {
    let mut round = Vec::new();
    for solver in spec.solvers_for(scope)? {
        let tried = Tried::of(outcomes, &solver.name);
        let left = usize::try_from(plan.candidates).unwrap_or(usize::MAX).saturating_sub(tried.len());
        let n = left.min(search.round());
        if n == 0 {
            continue;
        }
        let space = Space { spec, solver, scope };
        let mut next = search.next(&space, &tried, n)?;
        next.retain(|candidate| {
            candidate.solver == solver.name && tried.iter().all(|tried| tried.candidate != candidate)
        });
        next.truncate(n);
        if !next.is_empty() {
            round.push(next);
        }
    }
    Ok(round)
}

/// The round that a group is at, given its outcomes so far: the first one, counted from the beginning, of which a candidate has
/// none. Empty: the search is over.
///
/// A strategy is told the rounds before and no more, so that whoever asks gets the same round until all of it is done, whatever
/// part of it is done, planned or published by then.
///
/// # Errors
/// An expression of the spec that has no value.
pub fn current_round(
    search: &dyn Search,
    plan: &SearchPlan,
    (spec, scope): (&KernelSpec, &Scope),
    outcomes: &[Outcome],
) -> Result<Vec<Vec<Candidate>>, SpecError> {
    let perf = || outcomes.iter().filter(|outcome| outcome.job.stage == Stage::Perf);
    let done: HashSet<_> = perf().flat_map(|outcome| &outcome.candidates).map(|outcome| &outcome.candidate).collect();
    let mut before = HashSet::new();
    loop {
        let told: Vec<Outcome> = perf().map(|outcome| only(outcome, &before)).collect();
        let round = next_round(search, plan, (spec, scope), &told)?;
        if round.is_empty() || round.iter().flatten().any(|candidate| !done.contains(candidate)) {
            return Ok(round);
        }
        // Never one of those before, so that this ends.
        before.extend(round.into_iter().flatten());
    }
}

/// What `outcome` says of `candidates`.
fn only(outcome: &Outcome, candidates: &HashSet<Candidate>) -> Outcome {
    let kept = outcome.candidates.iter().filter(|outcome| candidates.contains(&outcome.candidate));
    Outcome { candidates: kept.cloned().collect(), ..outcome.clone() }
}
