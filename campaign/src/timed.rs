//! A campaign whose searches end after a time. Every problem has its first round before any has more; from then on the next round is that of
//! the problem that is expected to gain most by it.
//!
//! A group is searched as far as its budget goes, so whoever raises budgets one by one says whose turn it is: nothing else knows of time. What was
//! begun is finished, and what is killed goes on as any campaign does.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use bluefin_common::ahead;
use bluefin_common::clock::now_ms;
use bluefin_common::job::{GroupId, group_id};
use bluefin_common::problem::Problem;
use bluefin_common::search_end::SearchEnd;
use bluefin_common::session::{Session, Stage};
use bluefin_common::store::Progress;
use bluefin_kernel_spec::search::{BATCH, limit};
use bluefin_producer::Metrics;
use bluefin_producer::enqueue::{Publish, Ways, enqueue};
use bluefin_producer::plan::{Asked, CandidateBudget};
use prometheus::Registry;
use tokio::sync::Mutex;

use crate::known::known;
use crate::machine::itself;
use crate::ports::Ports;
use crate::stretches::{Stretch, stretches};
use crate::worth::Worth;

/// Jobs of which so many are under way at least, however few CPUs there are: one is compiled, one evaluated.
const LEAST_OPEN: usize = 2;

/// How long a campaign searches, and what for.
#[derive(Clone, Debug, Default)]
pub struct TimeLimit {
    /// What is under way then is finished, and play-offs follow.
    pub time: Duration,
    /// How much each problem matters; one, where it is not among them.
    pub weights: HashMap<Problem, f64>,
}

/// A campaign that ends after a time.
pub(crate) struct Timed {
    ports: Ports,
    session: Session,
    asked: Asked,
    problems: Vec<Problem>,
    limit: TimeLimit,
    metrics: Metrics,
    state: Mutex<State>,
}

/// How far it is.
#[derive(Default)]
struct State {
    /// When its workers began, here and in milliseconds since the Unix epoch.
    begun: Option<(Instant, u64)>,
    /// Those whose round is under way.
    under_way: Vec<Problem>,
    /// What another round of those is worth whose round is done.
    waiting: BTreeMap<Problem, f64>,
    /// Its searches are over: play-offs are planned.
    over: bool,
}

impl Timed {
    /// That of `session`, which is `asked` for these problems.
    pub(crate) fn new(
        ports: &Ports,
        session: &Session,
        problems: &[Problem],
        asked: &Asked,
        limit: TimeLimit,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            ports: ports.clone(),
            session: session.clone(),
            asked: Asked { budget: CandidateBudget::Candidates(BATCH), is_raised: true, ..asked.clone() },
            problems: problems.to_vec(),
            limit,
            // What is planned while it runs is counted by its jobs alone.
            metrics: Metrics::register(&Registry::new())?,
            state: Mutex::new(State { under_way: problems.to_vec(), ..State::default() }),
        })
    }

    /// What is kept with the session: all of it, and the first round.
    pub(crate) fn asked(&self) -> &Asked {
        &self.asked
    }

    /// What is planned first: no play-off before its searches are over.
    pub(crate) fn first(&self) -> Asked {
        Asked { stages: vec![Stage::Perf], ..self.asked.clone() }
    }

    /// Does what is to be done next, given where the session is. Whether that was all.
    pub(crate) async fn step(&self, progress: &Progress) -> anyhow::Result<bool> {
        let state = &mut *self.state.lock().await;
        if state.over {
            return Ok(progress.is_settled());
        }
        let (begun, _) = *state.begun.get_or_insert_with(|| (Instant::now(), now_ms()));
        self.look(state).await?;
        let stage = Stage::Perf.name();
        let count = |counts: &BTreeMap<String, u64>| counts.get(stage).copied().unwrap_or(0);
        let mut open = count(&progress.planned).saturating_sub(count(&progress.done));
        let most = itself::cpus().max(LEAST_OPEN) as u64;
        while open < most && begun.elapsed() < self.limit.time {
            let Some(problem) = state.most_worth() else { break };
            open += self.go_on(&problem).await?;
            state.under_way.push(problem);
        }
        let is_up = begun.elapsed() >= self.limit.time || state.waiting.is_empty();
        if is_up && state.under_way.is_empty() {
            self.plan(&self.asked, self.problems.clone()).await?;
            state.over = true;
        }
        Ok(false)
    }

    /// Finds out what another round of those is worth whose round is done.
    async fn look(&self, state: &mut State) -> anyhow::Result<()> {
        let store = &*self.ports.store;
        let mut under_way = Vec::new();
        for problem in std::mem::take(&mut state.under_way) {
            let groups = self.groups(&problem);
            let mut open = 0;
            for group in &groups {
                open += store.open_jobs(&self.session.name, *group).await?;
            }
            if open > 0 {
                under_way.push(problem);
                continue;
            }
            let outcomes = store.outcomes(&self.session.name, &groups).await?;
            let ends = SearchEnd::of(store, &self.session.name, &groups).await?;
            let worth = Worth::of(&outcomes, &ends);
            if worth == Worth::Unknown {
                under_way.push(problem);
            } else if let Some(gain_ms) = worth.gain_ms() {
                let weight = self.limit.weights.get(&problem).copied().unwrap_or(1.0);
                state.waiting.insert(problem, weight * gain_ms);
            }
        }
        state.under_way = under_way;
        Ok(())
    }

    /// Plans another round of `problem`. Returns its jobs.
    async fn go_on(&self, problem: &Problem) -> anyhow::Result<u64> {
        let Some(search) = &self.session.search else { return Ok(0) };
        let (mut tried, mut rounds) = (0, 1);
        for group in self.groups(problem) {
            let (store, session) = (&*self.ports.store, &self.session.name);
            tried = tried.max(limit(store, session, search, group).await?);
            rounds = rounds.max(ahead::of(store, session, group).await?);
        }
        let budget = usize::try_from(tried).unwrap_or(usize::MAX).saturating_add(BATCH * rounds as usize);
        let asked = Asked { budget: CandidateBudget::Candidates(budget), ..self.first() };
        self.plan(&asked, vec![problem.clone()]).await
    }

    /// Plans and enqueues. Returns how many jobs were enqueued.
    async fn plan(&self, asked: &Asked, problems: Vec<Problem>) -> anyhow::Result<u64> {
        let (store, broker) = (&*self.ports.store, &*self.ports.broker);
        let ways = Ways { store, broker, metrics: &self.metrics, publish: Publish::Missing };
        let planners = known().planners();
        let planning = planners.begin(store, &self.session, asked).await?;
        Ok(enqueue(&ways, &self.session, &*planning, problems).await?.enqueued)
    }

    /// Those of `problem`, whether they have jobs or not.
    fn groups(&self, problem: &Problem) -> Vec<GroupId> {
        self.asked.specs.of(self.session.method).map(|spec| group_id(problem, spec.digest)).collect()
    }

    /// What each tenth of the time bought.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn bought(&self) -> anyhow::Result<Vec<Stretch>> {
        let Some((_, begun_ms)) = self.state.lock().await.begun else { return Ok(Vec::new()) };
        let groups: Vec<GroupId> = self.problems.iter().flat_map(|problem| self.groups(problem)).collect();
        let outcomes = self.ports.store.outcomes(&self.session.name, &groups).await?;
        let time_ms = u64::try_from(self.limit.time.as_millis()).unwrap_or(u64::MAX);
        Ok(stretches(&outcomes, &self.limit.weights, begun_ms, time_ms))
    }
}

impl State {
    /// Takes the problem of which another round is worth most.
    fn most_worth(&mut self) -> Option<Problem> {
        let most = self.waiting.iter().max_by(|a, b| a.1.total_cmp(b.1).then_with(|| b.0.cmp(a.0)));
        let problem = most.map(|(problem, _)| problem.clone())?;
        self.waiting.remove(&problem);
        Some(problem)
    }
}

/// Whether `session` searches so that time can say how far.
///
/// # Errors
/// What it does instead, and what is expected.
pub fn check(session: &Session) -> Result<(), String> {
    let found = match &session.search {
        Some(plan) if plan.candidates == 0 => return Ok(()),
        Some(plan) => format!("a search of at most {} candidates of each solver", plan.candidates),
        None => "all candidates planned at once".to_string(),
    };
    Err(format!(
        "--time: session {}: found {found}, expected a search in rounds that goes on, such as --search bayes",
        session.name
    ))
}

#[cfg(test)]
mod tests {
    use bluefin_common::problem::KernelProblem;

    use super::*;

    #[test]
    fn the_problem_of_which_a_round_is_worth_most_is_next() {
        let problem = |n: i64| {
            Problem::Kernel(KernelProblem::new("k".to_string(), [("n".to_string(), n.into())].into()).unwrap())
        };
        let waiting = [(1, 0.5), (2, 3.0), (3, 0.0), (4, 3.0)].map(|(n, worth)| (problem(n), worth));
        let mut state = State { waiting: waiting.into(), ..State::default() };
        let order: Vec<Problem> = std::iter::from_fn(|| state.most_worth()).collect();
        assert_eq!(order, [2, 4, 1, 3].map(problem), "of two that are worth as much, the first");
    }

    #[test]
    fn time_is_for_searches_that_go_on() {
        use bluefin_common::session::SearchPlan;
        use bluefin_common::target::Target;
        let session = |search: Option<SearchPlan>| Session {
            search,
            ..Session::of_kernels("it".parse().unwrap(), Target::Host, "", &Stage::ALL, 1)
        };
        assert_eq!(check(&session(Some(SearchPlan::new("bayes", 0)))), Ok(()));
        let refusals = [Some(SearchPlan::new("bayes", 16)), None].map(|search| check(&session(search)).unwrap_err());
        assert!(
            refusals[0].contains("at most 16 candidates") && refusals[1].contains("planned at once"),
            "{refusals:?}"
        );
    }
}
