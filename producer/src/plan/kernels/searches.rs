//! Sessions that search: what is known of each group, the rounds that follow from it, and how searches ended.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::thread;

use bluefin_common::ahead;
use bluefin_common::job::{GroupId, Job, group_id};
use bluefin_common::outcome::Outcome;
use bluefin_common::problem::Problem;
use bluefin_common::search_end::{SearchEnd, SolverEnd, Why};
use bluefin_common::session::{SearchPlan, Stage};
use bluefin_kernel_spec::SpecError;
use bluefin_kernel_spec::search::{BATCH, Others, Search, Searching, limit, raise};

use super::{LoadedSpec, OfSpecs, PlanError, PlannedGroup, job, of_problem, valid};

/// What is known of the search of a group before its rounds are planned.
pub(super) struct KnownGroup<'a> {
    loaded: &'a LoadedSpec,
    plan: SearchPlan,
    ahead: u32,
    outcomes: Vec<Outcome>,
    others: Vec<Others>,
}

/// What came of planning a group, and how its search ended, if it did.
pub(super) struct SearchedGroup {
    group: GroupId,
    candidates: u64,
    planned: PlannedGroup,
    end: Option<SearchEnd>,
}

impl OfSpecs<'_> {
    /// What is known of the searches of `problem`.
    pub(super) async fn known(
        &self,
        problem: &Problem,
        search: &dyn Search,
        plan: &SearchPlan,
    ) -> Result<Vec<KnownGroup<'_>>, PlanError> {
        let mut groups = Vec::new();
        let wrong = |source| of_problem(problem, source);
        let rounds_wanted = self.rounds_under_way(problem).map_err(wrong)?;
        for loaded in self.specs() {
            if loaded.spec.scope(problem, &self.session.target).map_err(wrong)?.is_none() {
                continue;
            }
            let (session, group) = (&self.session.name, group_id(problem, loaded.digest));
            let outcomes = self.store.outcomes(session, &[group]).await?;
            let candidates = if self.asked.only_look {
                limit(self.store, session, plan, group).await?
            } else {
                let budget = self.asked.budget.of(&loaded.spec);
                raise(self.store, session, plan, group, budget.candidates()).await?
            };
            let plan = SearchPlan { candidates, ..plan.clone() };
            let ahead = if self.asked.only_look {
                ahead::of(self.store, session, group).await?
            } else {
                // Of what is tried at most a quarter follows from nothing.
                let quarter = u32::try_from(candidates / (4 * BATCH as u64)).unwrap_or(u32::MAX).max(1);
                let most = if self.asked.is_raised { u32::MAX } else { quarter };
                ahead::claim(self.store, session, group, rounds_wanted.min(most)).await?
            };
            let any = job(&self.session, problem, loaded, Vec::new());
            let others = self.neighbours.of(search, self.store, &any, &outcomes, ahead).await?;
            groups.push(KnownGroup { loaded, plan, ahead, outcomes, others });
        }
        Ok(groups)
    }

    /// The rounds of each of `problems` that their outcomes call for. Workers plan all but the first; whoever plans the session again
    /// must know of them, as it may be to publish them once more. Worked out on every CPU: devices and compilers wait for it.
    pub(super) fn searched(
        &self,
        problems: &[Problem],
        known: &[Vec<KnownGroup<'_>>],
        search: &dyn Search,
    ) -> Result<Vec<Vec<SearchedGroup>>, PlanError> {
        let cpus = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let all: Vec<(&Problem, &Vec<KnownGroup<'_>>)> = problems.iter().zip(known).collect();
        let of_all = |some: &[(&Problem, &Vec<KnownGroup<'_>>)]| -> Result<Vec<Vec<SearchedGroup>>, PlanError> {
            let of_one = |(problem, groups): &(&Problem, &Vec<KnownGroup<'_>>)| {
                let searched = groups.iter().map(|known| self.searched_group(problem, known, search));
                let searched: Result<Vec<SearchedGroup>, SpecError> = searched.collect();
                searched.map_err(|source| of_problem(problem, source))
            };
            some.iter().map(of_one).collect()
        };
        let parts: Vec<_> = thread::scope(|scope| {
            let parts = all.chunks(all.len().div_ceil(cpus).max(1));
            let parts: Vec<_> = parts.map(|part| scope.spawn(|| of_all(part))).collect();
            // A panic goes on where it is met.
            parts.into_iter().map(|part| part.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        let parts: Vec<Vec<Vec<SearchedGroup>>> = parts.into_iter().collect::<Result<_, _>>()?;
        Ok(parts.into_iter().flatten().collect())
    }

    fn searched_group(
        &self,
        problem: &Problem,
        known: &KnownGroup<'_>,
        search: &dyn Search,
    ) -> Result<SearchedGroup, SpecError> {
        let KnownGroup { loaded, plan, ahead, outcomes, others } = known;
        let (group, candidates) = (group_id(problem, loaded.digest), plan.candidates);
        let mut searched = SearchedGroup {
            group,
            candidates,
            planned: PlannedGroup { jobs: Vec::new(), valid: BTreeMap::new() },
            end: None,
        };
        let (spec, priors, ahead) = (&loaded.spec, self.priors.as_ref(), *ahead);
        let Some(scope) = &spec.scope(problem, &self.session.target)? else { return Ok(searched) };
        let searching = Searching { search, plan, problem, spec, scope, priors, ahead };
        let any = job(&self.session, problem, loaded, Vec::new());
        let (is_over, planned) = rounds(searching, &any, outcomes, others)?;
        searched.planned = planned;
        if is_over && !self.asked.only_look {
            searched.end = Some(searching.end(outcomes, others)?);
        }
        Ok(searched)
    }

    /// Writes down how searches ended, unless that is known. Returns the groups that have jobs.
    pub(super) async fn put_ends(&self, searched: Vec<SearchedGroup>) -> Result<Vec<PlannedGroup>, PlanError> {
        let mut groups = Vec::new();
        for SearchedGroup { group, candidates, planned, end } in searched {
            if let Some(end) = end
                && !self.is_told(group, candidates).await?
            {
                end.put(self.store, &self.session.name, group).await?;
            }
            groups.push(planned);
        }
        groups.retain(|group| !group.jobs.is_empty());
        Ok(groups)
    }

    /// Rounds of the search of `problem` that are under way at a time, where as many candidates are to be as is asked.
    fn rounds_under_way(&self, problem: &Problem) -> Result<u32, SpecError> {
        if self.asked.under_way < 2 * BATCH {
            return Ok(1);
        }
        let mut solvers = 0;
        for loaded in self.specs() {
            if let Some(scope) = loaded.spec.scope(problem, &self.session.target)? {
                solvers += loaded.spec.solvers_for(&scope)?.len();
            }
        }
        let rounds = self.asked.under_way / (BATCH * solvers.max(1));
        Ok(u32::try_from(rounds).unwrap_or(ahead::MOST).clamp(1, ahead::MOST))
    }

    /// Whether it is written down how the search of `group` ended, of as many candidates as it may try now. Workers do that, unless they
    /// ended before.
    async fn is_told(&self, group: GroupId, candidates: u64) -> Result<bool, PlanError> {
        let ends = SearchEnd::of(self.store, &self.session.name, &[group]).await?;
        let is_spent = |end: &SolverEnd| end.why != Why::Budget || end.tried >= candidates;
        Ok(ends.get(&group).is_some_and(|SearchEnd(solvers)| solvers.iter().all(is_spent)))
    }
}

/// Whether a search is over, and the jobs of all of its rounds so far, those that are done as their outcomes have them.
fn rounds(
    searching: Searching<'_>,
    any: &Job,
    outcomes: &[Outcome],
    others: &[Others],
) -> Result<(bool, PlannedGroup), SpecError> {
    let Searching { spec, scope, .. } = searching;
    let mut group = PlannedGroup { jobs: Vec::new(), valid: BTreeMap::new() };
    for solver in spec.solvers_for(scope)? {
        group.valid.insert(solver.name.clone(), valid(&spec.candidates(solver, scope, 0)?));
    }
    let rounds = searching.current(outcomes, others)?;
    let perf = outcomes.iter().map(|outcome| &outcome.job).filter(|job| job.stage == Stage::Perf);
    group.jobs = perf.filter(|job| rounds.iter().all(|round| round.number != job.round)).cloned().collect();
    // Outcomes come in no particular order.
    group.jobs.sort_by(|a, b| a.round.cmp(&b.round).then_with(|| a.candidates.cmp(&b.candidates)));
    group.jobs.extend(rounds.iter().flat_map(|round| round.jobs(any)));
    Ok((rounds.is_empty() && !outcomes.is_empty(), group))
}
