//! Which round a search is at. Jobs say the round that they were planned in, so that the rounds before need not be played again:
//! two questions tell the round, however many there were.

use std::collections::{BTreeSet, HashSet};

use bluefin_common::candidate::Candidate;
use bluefin_common::digest::{self, Digest};
use bluefin_common::failure::FailureKind;
use bluefin_common::job::Job;
use bluefin_common::outcome::{CandidateOutcome, Outcome};
use bluefin_common::problem::Problem;
use bluefin_common::search_end::{SearchEnd, SolverEnd, Why};
use bluefin_common::session::{SearchPlan, Stage};

use super::contest::{Contest, FEW};
use super::others::{Others, next_round};
use super::{Ask, BATCH, Other, Priors, Proposal, Search, Space, Tried, analytic};
use crate::error::SpecError;
use crate::{KernelSpec, Scope, Solver};

/// Trials of a solver before its rounds are as large as those of one that does not compete.
const SMALL: usize = 4;
/// One, in the unit of patience.
const HUNDREDTHS_OF_PERCENT: f64 = 10_000.0;

/// A search of one problem with one spec.
#[derive(Clone, Copy)]
pub struct Searching<'a> {
    pub search: &'a dyn Search,
    pub plan: &'a SearchPlan,
    pub problem: &'a Problem,
    pub spec: &'a KernelSpec,
    pub scope: &'a Scope,
    /// What first rounds begin with, where the session has any.
    pub priors: Option<&'a Priors>,
    /// Rounds that are under way at a time: with one, a round waits for all of those before it.
    pub ahead: u32,
}

/// What is tried at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// From zero.
    pub number: u32,
    /// Of each solver that has something left to try. None at all: the search is over.
    pub candidates: Vec<Vec<Candidate>>,
}

impl Round {
    /// Whether nothing is left to try.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    /// That of which all is done.
    fn done(number: u32, outcomes: &[Outcome]) -> Self {
        let jobs = outcomes.iter().map(|outcome| &outcome.job);
        let of_it = jobs.filter(|job| job.stage == Stage::Perf && job.round == number);
        Self { number, candidates: of_it.map(|job| job.candidates.clone()).collect() }
    }

    /// Its perf jobs, like `any` of the group.
    #[must_use]
    pub fn jobs(&self, any: &Job) -> Vec<Job> {
        let batches = self.candidates.iter().flat_map(|candidates| candidates.chunks(BATCH));
        let job = |batch: &[Candidate]| Job {
            stage: Stage::Perf,
            candidates: batch.to_vec(),
            round: self.number,
            ..any.clone()
        };
        batches.map(job).collect()
    }
}

impl Searching<'_> {
    /// The rounds that are under way, given the outcomes of the group so far: the first of which a candidate has none, and up to
    /// [`ahead`](Self::ahead) in all. None: the search is over.
    ///
    /// A strategy is told the rounds before those that are under way beside its own and no more, and of other problems what that round was told
    /// first (`others`). So every worker gets the same rounds until all of one is done, whatever part of it is done, planned or published by
    /// then.
    ///
    /// # Errors
    /// An expression of the spec that has no value.
    pub fn current(&self, outcomes: &[Outcome], others: &[Others]) -> Result<Vec<Round>, SpecError> {
        let perf = || outcomes.iter().filter(|outcome| outcome.job.stage == Stage::Perf);
        let done: HashSet<&Candidate> =
            perf().flat_map(|outcome| &outcome.candidates).map(|outcome| &outcome.candidate).collect();
        let is_open = |round: &Round| round.candidates.iter().flatten().any(|candidate| !done.contains(candidate));
        // Of each round that was planned all but those that were under way beside it are done.
        let next = next_round(outcomes);
        let first = next.saturating_sub(self.ahead());
        let mut known: Vec<Round> =
            (first.saturating_sub(self.ahead())..first).map(|at| Round::done(at, outcomes)).collect();
        let mut under_way: Vec<Round> = Vec::new();
        for number in first..next.saturating_add(self.ahead()) {
            if under_way.first().is_some_and(|open| number >= open.number.saturating_add(self.ahead())) {
                break;
            }
            let round = self.round(number, outcomes, told(others, number), &known)?;
            known.push(round.clone());
            // Those that are done behind one that is not are planned, and planned again at no cost.
            if !under_way.is_empty() || is_open(&round) {
                under_way.push(round);
            }
        }
        under_way.retain(|round| !round.is_empty());
        Ok(under_way)
    }

    /// What is tried in round `number`, of every solver that applies and may still win, given what the rounds came to that it waits for and
    /// those before it (`known`, the last ones) that it does not. A solver has nothing more to try when the plan's candidates are
    /// spent. Without a limit all of them are tried, which is one round.
    fn round(
        &self,
        number: u32,
        outcomes: &[Outcome],
        others: &[Outcome],
        known: &[Round],
    ) -> Result<Round, SpecError> {
        let Self { search, spec, scope, .. } = *self;
        let mut candidates = Vec::new();
        let is_limited = self.is_limited();
        let waits_for = number.saturating_add(1).saturating_sub(self.ahead());
        let contest = Contest::before(waits_for, outcomes, others);
        let solvers = spec.solvers_for(scope)?;
        // Where rounds overlap, those that a contest decided would be under way before it did.
        let compete = self.ahead() == 1 && solvers.iter().filter(|solver| solver.is_tunable()).count() > 1;
        for solver in solvers {
            // Of one job it has what it was planned with, when fewer candidates may have been asked for.
            if is_limited && search.round() <= BATCH {
                let done = outcomes.iter().map(|outcome| &outcome.job).find(|job| is_round(job, number, &solver.name));
                if let Some(job) = done {
                    candidates.push(job.candidates.clone());
                    continue;
                }
            }
            let tried = Tried::before(waits_for, outcomes, &solver.name);
            let beside = known.iter().filter(|round| (waits_for..number).contains(&round.number));
            let under_way: Vec<Candidate> = beside
                .flat_map(|round| round.candidates.iter().flatten())
                .filter(|one| one.solver == solver.name)
                .cloned()
                .collect();
            let is_first = is_limited && tried.is_empty() && under_way.is_empty();
            let mut next = if is_first { self.beginning(solver)? } else { Vec::new() };
            let begins_with_one = solver.has_cost() && next.is_empty();
            let mut n = self.wanted(tried.len() + under_way.len(), compete, begins_with_one);
            if is_limited && n > 0 {
                let at_a_time = self.at_a_time(&contest, solver, &tried)?;
                n = if compete || at_a_time == 0 { n.min(at_a_time) } else { n };
            }
            if n == 0 {
                continue;
            }
            if is_limited {
                let proposal = self.propose(solver, &tried, &under_way, others, n)?;
                if self.is_enough(&proposal) {
                    continue;
                }
                next.extend(proposal.candidates);
            } else {
                next = Space::of(spec, solver, scope).first(usize::MAX)?;
            }
            // What was tried or is, and what is among the first ones already.
            let tried = tried.iter().map(|tried| tried.candidate.clone());
            let mut known: HashSet<Candidate> = tried.chain(under_way).collect();
            next.retain(|one| one.solver == solver.name && known.insert(one.clone()));
            next.truncate(n);
            if !next.is_empty() {
                candidates.push(next);
            }
        }
        Ok(Round { number, candidates })
    }

    /// What the first round of `solver` begins with, whatever the strategy: its default, then winners of earlier work. Nothing where
    /// there are none.
    fn beginning(&self, solver: &Solver) -> Result<Vec<Candidate>, SpecError> {
        let space = Space::of(self.spec, solver, self.scope);
        let chosen = self.priors.map(|priors| priors.choose(&self.spec.name, &space, self.problem).candidates);
        let Some(chosen) = chosen.filter(|chosen| !chosen.is_empty()) else { return Ok(Vec::new()) };
        let mut beginning = space.first(1)?;
        beginning.extend(chosen);
        Ok(beginning)
    }

    /// How it ended, when nothing is [under way](Self::current) any more.
    ///
    /// # Errors
    /// An expression of the spec that has no value.
    pub fn end(&self, outcomes: &[Outcome], others: &[Others]) -> Result<SearchEnd, SpecError> {
        let Self { search, spec, scope, .. } = *self;
        let number = next_round(outcomes).saturating_add(self.ahead() - 1);
        let contest = Contest::before(number, outcomes, told(others, number));
        let mut ends = Vec::new();
        for solver in spec.solvers_for(scope)? {
            let tried = Tried::before(number, outcomes, &solver.name);
            let points = spec.candidates(solver, scope, 0)?;
            let (valid, exact, count) = (points.valid.max(tried.len() as u64), points.exact, tried.len() as u64);
            let (left, why) = if exact && count >= valid {
                (search.estimates().then_some(0.0), Why::All)
            } else if self.is_limited() && self.at_a_time(&contest, solver, &tried)? == 0 {
                (None, Why::Behind)
            } else {
                let proposal = self.propose(solver, &tried, &[], told(others, number), search.round())?;
                let why = match self.wanted(tried.len(), false, false) {
                    0 => Why::Budget,
                    _ if self.is_enough(&proposal) => Why::Patience,
                    _ => Why::All,
                };
                (proposal.left, why)
            };
            let left = left.map(|left| (left * HUNDREDTHS_OF_PERCENT).round() as u32);
            ends.push(SolverEnd { solver: solver.name.clone(), tried: count, valid, exact, left, why });
        }
        Ok(SearchEnd(ends))
    }

    fn propose(
        &self,
        solver: &Solver,
        tried: &[Tried<'_>],
        under_way: &[Candidate],
        others: &[Outcome],
        n: usize,
    ) -> Result<Proposal, SpecError> {
        let Self { search, plan, spec, scope, problem, .. } = *self;
        let compiled = &self.compiled(solver, others);
        let (space, seed) = (&Space::of(spec, solver, scope), self.seed(&solver.name));
        let mut tried = tried.to_vec();
        for one in &mut tried {
            one.cost = space.cost(one.candidate).ok().flatten();
        }
        let (tried, others) =
            (&tried, &Other::all(others, &solver.name, |problem, tried| self.costs(solver, problem, tried)));
        let variables = &problem.variables();
        search.propose(&Ask { space, tried, under_way, variables, others, compiled, seed, options: &plan.options, n })
    }

    /// What the model of `solver` says of each of `tried` for another problem. Nothing of what has no value there.
    fn costs(&self, solver: &Solver, problem: &Problem, tried: &[Tried<'_>]) -> Vec<Option<f64>> {
        let Ok(Some(there)) = self.spec.scope(problem, self.scope.target()) else { return Vec::new() };
        tried.iter().map(|one| solver.cost(&one.candidate.params, &there).ok().flatten()).collect()
    }

    /// What `others` tried of `solver` that is compiled to the same code objects here.
    pub(crate) fn compiled(&self, solver: &Solver, others: &[Outcome]) -> BTreeSet<Candidate> {
        let Self { spec, scope, .. } = *self;
        let mut compiled = BTreeSet::new();
        for outcome in others {
            let tried =
                outcome.candidates.iter().filter(|tried| tried.candidate.solver == solver.name && was_compiled(tried));
            let mut tried = tried.map(|tried| &tried.candidate).filter(|one| !compiled.contains(*one)).peekable();
            if tried.peek().is_none() {
                continue;
            }
            let Ok(Some(there)) = spec.scope(&outcome.job.problem, scope.target()) else { continue };
            // What has no value or no launch here is no point here.
            let is_same = |one: &&Candidate| {
                spec.build(one, scope)
                    .is_ok_and(|here| spec.build(one, &there).is_ok_and(|there| here.compiles_as(&there)))
            };
            let same: Vec<Candidate> = tried.filter(is_same).cloned().collect();
            compiled.extend(same);
        }
        compiled
    }

    fn ahead(&self) -> u32 {
        self.ahead.max(1)
    }

    /// Whether less is expected to be left than the plan has patience for.
    fn is_enough(&self, proposal: &Proposal) -> bool {
        let patience = f64::from(self.plan.patience) / HUNDREDTHS_OF_PERCENT;
        !proposal.owes && proposal.left.is_some_and(|left| left < patience)
    }

    /// Without a limit all candidates are tried, which is one round.
    fn is_limited(&self) -> bool {
        self.plan.candidates < u64::MAX
    }

    /// Candidates that a solver may still try in a round, after so many.
    fn wanted(&self, tried: usize, compete: bool, begins_with_one: bool) -> usize {
        let left = usize::try_from(self.plan.candidates).unwrap_or(usize::MAX).saturating_sub(tried);
        let round = if compete { in_contest(self.search, tried, begins_with_one) } else { self.search.round() };
        if self.is_limited() { left.min(round) } else { left }
    }

    /// How many candidates of `solver`, of which these were tried, may be tried at a time; none, if it can not win any more.
    fn at_a_time(&self, contest: &Contest<'_>, solver: &Solver, tried: &[Tried<'_>]) -> Result<usize, SpecError> {
        if tried.is_empty() || !solver.has_cost() {
            return Ok(contest.at_a_time(&solver.name));
        }
        let (space, seed) = (Space::of(self.spec, solver, self.scope), self.seed(&solver.name));
        let expected_ms = if tried.len() < FEW { analytic::expected_ms(&space, tried, seed)? } else { None };
        Ok(contest.at_a_time_by_model(&solver.name, expected_ms))
    }

    /// The same for all problems: what is tried at random in one then is in others, too, and is compiled once for all of them.
    fn seed(&self, solver: &str) -> u64 {
        let Digest(bytes) = Digest::of_parts(digest::SEARCH, [&self.plan.seed.to_le_bytes(), solver.as_bytes()]);
        bytes.first_chunk::<8>().map_or(0, |first| u64::from_le_bytes(*first))
    }
}

/// Candidates of a round of a solver that competes with others, after so many. One of whose points a model says something
/// `begins_with_one`: what that comes to says how fast the others may be.
#[must_use]
pub fn in_contest(search: &dyn Search, tried: usize, begins_with_one: bool) -> usize {
    let (round, trial) = (search.round(), search.trial());
    match tried {
        0 if begins_with_one && trial < round => 1,
        few if few < trial => trial - few,
        more if more < SMALL * trial => trial - more % trial,
        _ => round,
    }
}

/// Whether a code object came of it, or would have.
fn was_compiled(tried: &CandidateOutcome) -> bool {
    let failed = tried.result.as_ref().err().map(|failure| failure.kind);
    failed.is_none_or(|kind| !matches!(kind, FailureKind::CompileError | FailureKind::CompileTimeout))
}

/// What the round `number` is told of other problems.
fn told(others: &[Others], number: u32) -> &[Outcome] {
    others.iter().find(|others| others.round == number).map_or(&[][..], |of| &of.outcomes)
}

/// Whether `job` is of that round of `solver`.
fn is_round(job: &Job, number: u32, solver: &str) -> bool {
    let of = job.candidates.first().map(|candidate| candidate.solver.as_str());
    job.stage == Stage::Perf && job.round == number && of == Some(solver)
}

#[cfg(test)]
mod tests;
