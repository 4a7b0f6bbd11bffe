//! From problems to jobs. How that is done is a matter of the session's method: each has a [`Planner`], in a file of its own,
//! and all stand in one list, [`Planners`].

pub mod aiter;
mod budget;
pub mod fin;
pub mod kernels;
mod limits;
mod miopen;
pub mod miopendriver;
mod slow;
mod summary;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bluefin_common::job::Job;
use bluefin_common::method::Method;
use bluefin_common::problem::Problem;
use bluefin_common::session::{Session, Stage};
use bluefin_common::store::Store;
use bluefin_common::target::Target;

use bluefin_kernel_spec::search::Strategies;

use crate::PlanError;
use crate::error::BEGINNING;
use crate::solvers::Choice;
use crate::specs::Specs;

pub use budget::{CandidateBudget, InvalidBudget};
pub use summary::{ChosenSolvers, Enqueued, LeftOut, Plan, Space};

/// What is asked of a plan beside the problems.
#[derive(Clone, Default)]
pub struct Asked {
    /// What to tune for. `None`: whatever the session is for.
    pub target: Option<Target>,
    /// Stages to plan, in order; none: those of the session.
    pub stages: Vec<Stage>,
    /// For planners that take them, [`Planner::takes_specs`].
    pub specs: Specs,
    /// Candidates of tuning spaces. Sessions that search have a limit of their own.
    pub budget: CandidateBudget,
    /// Candidates of a problem that are to be under way at a time, where its search plans in rounds: with few, a round waits for the one
    /// before.
    pub under_way: usize,
    /// The budget is a first one: whoever asks raises it while the search goes on.
    pub is_raised: bool,
    /// Which of the solvers of a tool are tuned.
    pub choice: Choice,
    /// Nothing is planned but looked at again: the store may be for reading only.
    pub only_look: bool,
    /// The problems, as they are named in advice on what to run: ` -t resnet50`.
    pub hint: String,
}

/// How problems and a session of one method become jobs.
#[async_trait]
pub trait Planner: Send + Sync {
    /// The method of the sessions that it plans.
    fn method(&self) -> Method;

    /// What they tune, for people: `MIOpen's solvers`.
    fn tunes(&self) -> &'static str;

    /// Whether kernel specs are what it plans from.
    fn takes_specs(&self) -> bool {
        false
    }

    /// The stages of a session whose maker names none.
    fn stages(&self) -> &'static [Stage] {
        &Stage::ALL
    }

    /// Whether `session`, which is to be made, makes sense.
    ///
    /// # Errors
    /// [`PlanError::Usage`], in words of the command line.
    fn check(&self, session: &Session) -> Result<(), PlanError>;

    /// Gets ready to plan problems of `session`, which need not be in the store yet: holds what is asked against it, and
    /// looks at what is known. What its jobs name is in the store then.
    ///
    /// # Errors
    /// [`PlanError::Usage`] and [`PlanError::Unready`] where this can not be planned, or not yet; or the store fails.
    async fn begin<'a>(
        &'a self,
        store: &'a dyn Store,
        session: &Session,
        asked: &'a Asked,
    ) -> Result<Box<dyn Planning + 'a>, PlanError>;
}

/// A [`Planner`] at work for a session.
#[async_trait]
pub trait Planning: Send + Sync {
    /// What its plans are a selection of.
    fn selects(&self) -> Selects;

    /// Whether only the perf stage is asked of problems, though their session has both: no find job follows then, until both are
    /// asked.
    fn is_perf_alone(&self) -> bool {
        false
    }

    /// What comes of each of `problems`, in their order.
    ///
    /// # Errors
    /// If the store fails, or a problem can not be planned for a reason that is not its own.
    async fn plan(&self, problems: &[Problem]) -> Result<Vec<ProblemPlan>, PlanError>;
}

/// Whether of the stages of `session` only perf is `asked`; nothing asked is all of them.
fn is_perf_alone(session: &Session, asked: &[Stage]) -> bool {
    asked == [Stage::Perf] && session.stages.contains(&Stage::Find)
}

/// What a plan is a selection of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selects {
    /// Of candidates of tuning spaces. `within` says which for people: `at budget normal`.
    Candidates { within: String },
    /// Of solvers, see [`Choice`].
    Solvers,
}

/// What comes of a problem.
#[derive(Clone, Debug)]
pub enum ProblemPlan {
    /// Its jobs.
    Jobs(Vec<PlannedGroup>),
    /// There are none: no solver applies, and why, in one line.
    Unsolved(String),
    /// There are none: of the solvers that apply none was chosen, and why, in one line.
    PassedOver(String),
    /// It is not known whether there are any, and what to do about it.
    Unknown(String),
}

/// The jobs of a group that can be planned now.
#[derive(Clone, Debug)]
pub struct PlannedGroup {
    pub jobs: Vec<Job>,
    /// Valid candidates of each solver, by its name.
    pub valid: BTreeMap<String, Valid>,
}

/// How many candidates are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Valid {
    pub count: u64,
    /// Counted, and not an estimate from a part of a large space.
    pub exact: bool,
}

impl PlannedGroup {
    /// Jobs whose candidates are all that there are.
    #[must_use]
    pub fn of(jobs: Vec<Job>) -> Self {
        let exact = |(solver, count)| (solver, Valid { count, exact: true });
        let valid = count_by_solver(&jobs).into_iter().map(exact).collect();
        Self { jobs, valid }
    }

    /// Candidates in `jobs` of each solver, by its name.
    #[must_use]
    pub fn chosen(&self) -> BTreeMap<String, u64> {
        count_by_solver(&self.jobs)
    }
}

fn count_by_solver(jobs: &[Job]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for candidate in jobs.iter().flat_map(|job| &job.candidates) {
        *counts.entry(candidate.solver.clone()).or_default() += 1;
    }
    counts
}

/// The planners that a process knows.
#[derive(Clone)]
pub struct Planners(Vec<Arc<dyn Planner>>);

impl Planners {
    /// Those that bluefin ships. Sessions of kernel specs may search by one of `strategies`.
    #[must_use]
    pub fn shipped(strategies: Strategies) -> Self {
        Self(vec![
            Arc::new(kernels::Kernels::new(strategies)),
            Arc::new(fin::FinPlanner),
            Arc::new(miopendriver::MiopenDriverPlanner),
            Arc::new(aiter::AiterPlanner),
        ])
    }

    /// These and one more, which takes the place of another one for its method.
    #[must_use]
    pub fn with(mut self, planner: Arc<dyn Planner>) -> Self {
        self.0.retain(|known| known.method() != planner.method());
        self.0.push(planner);
        self
    }

    /// The planner of `method`.
    ///
    /// # Errors
    /// If there is none.
    pub fn get(&self, method: Method) -> Result<&dyn Planner, PlanError> {
        let found = self.0.iter().find(|planner| planner.method() == method);
        found.map(|planner| &**planner).ok_or(PlanError::NoPlanner(method))
    }

    /// Gets ready to plan problems of `session`, or of the one of its name that is in the store.
    ///
    /// # Errors
    /// See [`Planner::begin`].
    pub async fn begin<'a>(
        &'a self,
        store: &'a dyn Store,
        session: &Session,
        asked: &'a Asked,
    ) -> Result<Box<dyn Planning + 'a>, PlanError> {
        let stored = store.session(&session.name).await?;
        if let Some(stored) = stored.as_ref().filter(|stored| stored.method != session.method) {
            return Err(PlanError::differs(stored, "tuner", stored.method, session.method));
        }
        // Workers go by what is stored: of another search they would plan other rounds, or none.
        if let Some(stored) = stored.as_ref().filter(|stored| stored.search != session.search) {
            return Err(PlanError::differs(stored, "search", stored.search_text(), session.search_text()));
        }
        if let Some(stored) = stored.as_ref().filter(|stored| stored.priors != session.priors) {
            return Err(PlanError::differs(stored, BEGINNING, stored.priors_text(), session.priors_text()));
        }
        self.get(session.method)?.begin(store, stored.as_ref().unwrap_or(session), asked).await
    }
}
