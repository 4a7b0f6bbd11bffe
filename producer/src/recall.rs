//! What the open jobs of a session are. The store keeps little more than the id of a job that waits, since a session may have
//! millions. What is behind an id follows from what was asked of the session, which is planned once more and published nowhere,
//! and from the outcomes that jobs of the find stage follow from.

use std::collections::HashSet;
use std::ops::ControlFlow;

use bluefin_common::decision::follow_ups;
use bluefin_common::digest::Digest;
use bluefin_common::job::{GroupId, Job, JobId, group_id};
use bluefin_common::problem::Problem;
use bluefin_common::session::Session;
use bluefin_common::store::Store;

use crate::PlanError;
use crate::plan::{Asked, Planners, ProblemPlan};
use crate::request::{Request, requests};

/// Problems planned at a time, and groups whose outcomes are read.
const CHUNK: usize = 64;

/// Jobs that are looked for, by their ids.
pub struct Recall<'a> {
    store: &'a dyn Store,
    planners: &'a Planners,
    session: &'a Session,
    requests: Vec<Request>,
    /// Groups that have open jobs: of no other is anything planned.
    groups: HashSet<GroupId>,
}

impl<'a> Recall<'a> {
    /// Gets ready to say what open jobs of `session` are.
    ///
    /// # Errors
    /// If the store fails, or what was asked of the session is not in it any more.
    pub async fn open(store: &'a dyn Store, planners: &'a Planners, session: &'a Session) -> Result<Self, PlanError> {
        let groups = HashSet::from_iter(store.open_groups(&session.name).await?);
        let requests = requests(store, &session.name).await?;
        Ok(Self { store, planners, session, requests, groups })
    }

    /// Takes out of `wanted` what is found, and tells `told` of it, some jobs at a time in the order in which they were asked for,
    /// then those of the find stage, until it wants no more. Only problems that are `among` those that matter are looked at. What
    /// is left in `wanted` then was planned from something else than what is in the store: by another release, or a benchmark.
    ///
    /// # Errors
    /// If the store fails, or what was asked can not be planned any more.
    pub async fn find(
        &self,
        wanted: &mut HashSet<JobId>,
        among: impl Fn(&Problem) -> bool,
        mut told: impl AsyncFnMut(Vec<Job>) -> ControlFlow<()>,
    ) -> Result<(), PlanError> {
        let mut groups = Vec::new();
        for request in &self.requests {
            if wanted.is_empty() {
                return Ok(());
            }
            let (asked, mut problems) = request.clone().load(self.store, self.session).await?;
            let asked = Asked { only_look: true, ..asked };
            problems.retain(|problem| among(problem) && self.add_open(problem, &asked, &mut groups));
            if problems.is_empty() {
                continue;
            }
            let planning = self.planners.begin(self.store, self.session, &asked).await?;
            for some in problems.chunks(CHUNK) {
                if wanted.is_empty() {
                    return Ok(());
                }
                let jobs = planning.plan(some).await?.into_iter().flat_map(jobs_of);
                let found: Vec<Job> = jobs.filter(|job| wanted.remove(&job.id())).collect();
                if !found.is_empty() && told(found).await.is_break() {
                    return Ok(());
                }
            }
        }
        for some in groups.chunks(CHUNK) {
            if wanted.is_empty() {
                return Ok(());
            }
            let outcomes = self.store.outcomes(&self.session.name, some).await?;
            let of_a_group = outcomes.chunk_by(|a, b| a.group() == b.group());
            let jobs = of_a_group.flat_map(|outcomes| follow_ups(self.session, outcomes));
            let found: Vec<Job> = jobs.filter(|job| wanted.remove(&job.id())).collect();
            if !found.is_empty() && told(found).await.is_break() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Adds the groups of `problem` that have open jobs; whether there are any.
    fn add_open(&self, problem: &Problem, asked: &Asked, groups: &mut Vec<GroupId>) -> bool {
        let mut specs: Vec<Digest> = asked.specs.of(self.session.method).map(|loaded| loaded.digest).collect();
        if specs.is_empty() {
            specs.push(Digest::of(b""));
        }
        let before = groups.len();
        groups.extend(specs.into_iter().map(|spec| group_id(problem, spec)).filter(|id| self.groups.contains(id)));
        groups.len() > before
    }
}

fn jobs_of(plan: ProblemPlan) -> Vec<Job> {
    match plan {
        ProblemPlan::Jobs(groups) => groups.into_iter().flat_map(|group| group.jobs).collect(),
        ProblemPlan::Unsolved(_) | ProblemPlan::PassedOver(_) | ProblemPlan::Unknown(_) => Vec::new(),
    }
}
