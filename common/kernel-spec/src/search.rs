//! Searches: which candidates of a tuning space are tried next, given what came of those before.

mod analytic;
mod bayes;
mod contest;
mod limit;
mod others;
mod priors;
mod rounds;
mod space;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use bluefin_common::candidate::Candidate;
use bluefin_common::failure::FailureKind;
use bluefin_common::outcome::{CandidateOutcome, Outcome};
use bluefin_common::problem::Problem;
use bluefin_common::session::Stage;
use bluefin_common::value::Value;

pub use self::bayes::Bayes;
pub use self::limit::{limit, raise};
pub use self::others::{GROUPS, Neighbours, Others, Searched, Told, distance};
pub use self::priors::{Chosen, Fate, KnownPriors, MOST_PRIORS, Prior, PriorRows, Priors};
pub use self::rounds::{Round, Searching, in_contest};
pub use self::space::Space;
pub use crate::candidates::BATCH;
use crate::error::SpecError;

/// A strategy. Pure: the same [`Ask`] gives the same candidates to every worker, so that a round that is planned twice is planned
/// once.
pub trait Search: Send + Sync {
    /// As sessions name it.
    fn name(&self) -> &'static str;

    /// Up to [`Ask::n`] candidates of the space to be tried next. None: the search is over. What was tried is not tried again,
    /// whether it is returned or not.
    ///
    /// # Errors
    /// An expression of the spec that has no value.
    fn next(&self, ask: &Ask<'_>) -> Result<Vec<Candidate>, SpecError>;

    /// The same, with an estimate of what the search can still gain. Of a strategy that [estimates](Self::estimates) nothing there is none.
    ///
    /// # Errors
    /// An expression of the spec that has no value.
    fn propose(&self, ask: &Ask<'_>) -> Result<Proposal, SpecError> {
        Ok(Proposal { candidates: self.next(ask)?, ..Proposal::default() })
    }

    /// Whether its proposals say what the search can still gain, so that one can stop by itself.
    fn estimates(&self) -> bool {
        false
    }

    /// Candidates of each solver that a round is meant to have.
    fn round(&self) -> usize {
        BATCH
    }

    /// The same of the first rounds, where solvers compete: what few candidates come to tells which of them can not win.
    fn trial(&self) -> usize {
        self.round()
    }

    /// Whether it makes something of [`Ask::others`].
    fn asks_others(&self) -> bool {
        false
    }

    /// Whether it can make something of `options`.
    ///
    /// # Errors
    /// The option that it does not have, or what is wrong with its value, and what is expected.
    fn check(&self, options: &BTreeMap<String, String>) -> Result<(), String> {
        match options.keys().next() {
            Some(name) => Err(format!("found option {name:?}, expected none: {} has no options", self.name())),
            None => Ok(()),
        }
    }
}

/// What a strategy would try next, and what it expects of going on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Proposal {
    /// None: the search is over.
    pub candidates: Vec<Candidate>,
    /// The share of the best time so far by which the search is expected to get better if it tries as many candidates again.
    pub left: Option<f64>,
    /// It does not stop before these are tried, however little is left: similar problems are won by one of them.
    pub owes: bool,
}

/// What a strategy is asked with.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// All that could be tried.
    pub space: &'a Space<'a>,
    /// What was tried, in the order of the rounds, and by candidate within one.
    pub tried: &'a [Tried<'a>],
    /// What is being tried, and is not tried again: it is proposed beside this, before anything of it is known.
    pub under_way: &'a [Candidate],
    /// What the problem is, by name: the variables of its operator. None where nobody knows.
    pub variables: &'a Variables,
    /// What was tried of the same solver for other problems, in no particular order: something to begin from, never to be believed.
    pub others: &'a [Other<'a>],
    /// What of the space a compiler has made for one of them already: it can be tried at the cost of its time on the device.
    pub compiled: &'a BTreeSet<Candidate>,
    /// Another one for each seed of a session and solver.
    pub seed: u64,
    /// Those of the session, which [`Search::check`] has seen.
    pub options: &'a BTreeMap<String, String>,
    /// Candidates wanted.
    pub n: usize,
}

impl<'a> Ask<'a> {
    /// What was tried or is being tried.
    fn known(&self) -> HashSet<&'a Candidate> {
        self.tried.iter().map(|tried| tried.candidate).chain(self.under_way).collect()
    }
}

/// What a problem is: the variables of its operator ([`Problem::variables`](bluefin_common::problem::Problem::variables)).
pub type Variables = BTreeMap<String, Value>;

/// What was tried for another problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Other<'a> {
    pub variables: Variables,
    /// As in [`Ask::tried`].
    pub tried: Vec<Tried<'a>>,
}

/// A candidate that has an outcome.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried<'a> {
    pub candidate: &'a Candidate,
    /// The round that it was tried in, from zero.
    pub round: u32,
    pub result: Result<Time, FailureKind>,
    /// What an analytic model says of it, for the problem that it was tried for: [`Space::cost`].
    pub cost: Option<f64>,
}

/// The best time of those that were measured to the end. `None`: there is none.
fn best_ms(tried: &[Tried<'_>]) -> Option<f64> {
    let whole = tried.iter().filter_map(|tried| tried.result.ok()).filter(|time| !time.pruned);
    whole.map(|time| time.median_ms).min_by(f64::total_cmp)
}

/// How long a candidate took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time {
    pub median_ms: f64,
    pub spread_ms: f64,
    /// It was not measured to the end, as it could not win any more: the median of what was measured is but a bound.
    pub pruned: bool,
}

impl<'a> Other<'a> {
    /// What `outcomes` say of `solver`, problem by problem; `cost` is what an analytic model says of a candidate for a problem.
    fn all(
        outcomes: &'a [Outcome],
        solver: &str,
        cost: impl Fn(&Problem, &[Tried<'a>]) -> Vec<Option<f64>>,
    ) -> Vec<Self> {
        let mut problems: BTreeMap<&Problem, Vec<&'a Outcome>> = BTreeMap::new();
        for outcome in outcomes {
            problems.entry(&outcome.job.problem).or_default().push(outcome);
        }
        let others = problems.into_iter().map(|(problem, outcomes)| {
            let mut tried = Tried::before(u32::MAX, outcomes, solver);
            let costs = cost(problem, &tried);
            tried.iter_mut().zip(costs).for_each(|(tried, cost)| tried.cost = cost);
            Self { variables: problem.variables(), tried }
        });
        others.filter(|other| !other.tried.is_empty()).collect()
    }
}

impl<'a> Tried<'a> {
    /// What the perf stage of a group has tried of `solver` in rounds before `round`.
    fn before(round: u32, outcomes: impl IntoIterator<Item = &'a Outcome>, solver: &str) -> Vec<Self> {
        let outcomes = outcomes.into_iter();
        let perf = outcomes.filter(|outcome| outcome.job.stage == Stage::Perf && outcome.job.round < round);
        let mut tried: Vec<Self> = perf
            .flat_map(|outcome| outcome.candidates.iter().map(|one| Self::of(one, outcome.job.round)))
            .filter(|tried| tried.candidate.solver == solver)
            .collect();
        // Outcomes come in no particular order.
        tried.sort_by(|a, b| a.round.cmp(&b.round).then_with(|| a.candidate.cmp(b.candidate)));
        let mut seen = HashSet::new();
        tried.retain(|tried| seen.insert(tried.candidate));
        tried
    }

    fn of(outcome: &'a CandidateOutcome, round: u32) -> Self {
        let result = outcome.result.as_ref();
        let time = |timing: &bluefin_common::outcome::Timing| Time {
            median_ms: timing.median_ms,
            spread_ms: timing.spread_ms,
            pruned: timing.pruned,
        };
        let result = result.map(time).map_err(|failure| failure.kind);
        Self { candidate: &outcome.candidate, round, result, cost: None }
    }
}

/// The default, then the others in the order that [`KernelSpec::candidates`](crate::KernelSpec::candidates) has.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedOrder;

impl Search for FixedOrder {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn next(&self, ask: &Ask<'_>) -> Result<Vec<Candidate>, SpecError> {
        let known = ask.known();
        let mut next = ask.space.first(known.len().saturating_add(ask.n))?;
        next.retain(|candidate| !known.contains(candidate));
        next.truncate(ask.n);
        Ok(next)
    }
}

/// The strategies that a process knows.
#[derive(Clone)]
pub struct Strategies(Vec<Arc<dyn Search>>);

impl Default for Strategies {
    fn default() -> Self {
        Self(vec![Arc::new(FixedOrder), Arc::new(Bayes)])
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
