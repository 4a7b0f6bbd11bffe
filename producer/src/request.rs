//! What was asked of a session, kept with it: a command that finds jobs that are in no queue any more plans them again without being told
//! what the input was.

use std::collections::BTreeSet;

use bluefin_common::digest::Digest;
use bluefin_common::problem::Problem;
use bluefin_common::session::{Session, SessionName, Stage};
use bluefin_common::shelf;
use bluefin_common::store::{Blobs, Store};
use bluefin_common::wire::{self, Message};
use bluefin_kernel_spec::Bundle;
use serde::{Deserialize, Serialize};

use crate::PlanError;
use crate::enqueue::{Enqueuer, Ways, enqueue_by};
use crate::plan::{Asked, CandidateBudget, Plan, Planners};
use crate::solvers::Choice;
use crate::specs::{LoadedSpec, Specs};

/// Problems of one request: what its bytes are well below the largest value for.
const PROBLEMS: usize = 50_000;

/// Problems, and what was asked of a plan of them. A blob of the Store, whose digest is on the shelf of its session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    pub stages: Vec<Stage>,
    /// Digests of kernel specs, which are blobs too.
    pub specs: Vec<Digest>,
    pub budget: CandidateBudget,
    pub choice: Choice,
    pub problems: Vec<Problem>,
}

impl Message for Request {
    const KIND: u8 = 12;
    const VERSION: u8 = 1;
    const NAME: &'static str = "request";
}

impl Request {
    /// What to plan again in `session`, and the problems.
    ///
    /// # Errors
    /// If the store fails, or a kernel spec is not in it any more.
    pub(crate) async fn load(self, store: &dyn Blobs, session: &Session) -> Result<(Asked, Vec<Problem>), PlanError> {
        let Self { stages, specs, budget, choice, problems } = self;
        let specs = Specs::for_target(load(store, specs).await?, &session.target);
        Ok((Asked { stages, specs, budget, choice, ..Asked::default() }, problems))
    }
}

/// Keeps what is `asked` of `session`, before it is planned. The same request is kept once.
///
/// # Errors
/// If the store fails.
pub async fn keep(store: &dyn Store, session: &Session, asked: &Asked, problems: &[Problem]) -> Result<(), PlanError> {
    let specs: Vec<Digest> = asked.specs.of(session.method).map(|loaded| loaded.digest).collect();
    let mut records = Vec::new();
    for problems in problems.chunks(PROBLEMS) {
        let request = Request {
            stages: asked.stages.clone(),
            specs: specs.clone(),
            budget: asked.budget,
            choice: asked.choice.clone(),
            problems: problems.to_vec(),
        };
        let digest = store.put_blob(&wire::encode(&request)?).await?;
        records.push((digest.to_string(), Vec::new()));
    }
    Ok(store.put_records(&shelf::requests(&session.name), &records).await?)
}

/// What was asked of `session`.
///
/// # Errors
/// If the store fails, or a request is not in it any more.
pub async fn requests(store: &dyn Store, session: &SessionName) -> Result<Vec<Request>, PlanError> {
    let mut requests = Vec::new();
    for (digest, _) in store.records(&shelf::requests(session)).await? {
        let unusable = |reason: String| PlanError::Unready(format!("session {session}: request {digest}: {reason}"));
        let blob = store.blob(digest.parse().map_err(|_| unusable("no digest".to_string()))?).await?;
        let bytes = blob.ok_or_else(|| unusable("not in the store".to_string()))?;
        requests.push(wire::decode(&bytes)?);
    }
    Ok(requests)
}

/// Publishes the jobs of `session` that have no outcome, all that was ever asked of it, and takes up the groups that nobody
/// advanced: after a store has forgotten outcomes, or a broker messages. A job that is in a queue nevertheless is done once.
///
/// # Errors
/// If it is not known what was asked, or the store or the broker fails; the same call continues where this one ended.
pub async fn reconcile(ways: &Ways<'_>, planners: &Planners, session: &Session) -> Result<Vec<Plan>, PlanError> {
    let requests = requests(ways.store, &session.name).await?;
    if requests.is_empty() {
        return Err(PlanError::Unready(format!(
            "session {}: it is not known what was asked of it: enqueue its problems again with --again",
            session.name
        )));
    }
    // What two requests have in common is published once.
    let mut enqueuer = Enqueuer::open(ways.store, ways.broker, session, ways.publish).await?;
    let mut plans = Vec::new();
    for request in requests {
        let (asked, problems) = request.load(ways.store, session).await?;
        let planning = planners.begin(ways.store, session, &asked).await?;
        plans.push(enqueue_by(&mut enqueuer, ways.metrics, &*planning, problems).await?);
    }
    Ok(plans)
}

async fn load(store: &dyn Blobs, specs: Vec<Digest>) -> Result<Vec<LoadedSpec>, PlanError> {
    let mut loaded = Vec::new();
    for digest in BTreeSet::from_iter(specs) {
        let bytes = store.blob(digest).await?;
        let bytes = bytes.ok_or_else(|| PlanError::Unready(format!("kernel spec {digest}: not in the store")))?;
        loaded.push(LoadedSpec { stored: true, ..LoadedSpec::load(wire::decode::<Bundle>(&bytes)?)? });
    }
    Ok(loaded)
}
