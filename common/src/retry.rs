//! Tries jobs again that have an outcome. It is remembered in the [history](crate::history), the job's message is
//! [kept](crate::parked), the outcome is taken back, and then what is kept is published. A command that dies in between is repeated.

use std::collections::{BTreeMap, HashSet};

use crate::broker::Broker;
use crate::campaign::{AdvanceError, conclude, first_message};
use crate::clock::now_ms;
use crate::failure::FailureKind;
use crate::history;
use crate::job::GroupId;
use crate::noise::Noise;
use crate::outcome::Outcome;
use crate::parked;
use crate::problem::Problem;
use crate::session::{Session, SessionName, Stage};
use crate::standing;
use crate::store::{Store, Work};

/// Groups that are looked at in one go.
const GROUPS: usize = 64;

/// Which jobs are tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failures {
    /// Those with a candidate that failed, however.
    Any,
    /// Those with a candidate that failed in this way.
    Of(FailureKind),
}

impl Failures {
    /// Whether `outcome` is one of these.
    #[must_use]
    pub fn include(self, outcome: &Outcome) -> bool {
        let mut failures = outcome.candidates.iter().filter_map(|candidate| candidate.result.as_ref().err());
        failures.any(|failure| match self {
            Self::Any => true,
            Self::Of(kind) => failure.kind == kind,
        })
    }
}

/// Takes back what `wanted` says of the outcomes of `session`, and returns how many. Their jobs are planned then, and, if
/// `queues` are where they go, their messages are ready to be [published](publish).
///
/// # Errors
/// If the store fails; call again.
pub async fn take_back(
    store: &dyn Store,
    session: &SessionName,
    queues: bool,
    wanted: impl Fn(&Outcome) -> bool,
) -> Result<u64, AdvanceError> {
    let mut taken = 0;
    for groups in store.groups(session).await?.chunks(GROUPS) {
        let outcomes = store.outcomes(session, groups).await?;
        let again: HashSet<GroupId> = outcomes
            .iter()
            .filter(|outcome| outcome.job.stage == Stage::Perf && wanted(outcome))
            .map(Outcome::group)
            .collect();
        // A play-off of those goes along with them.
        let goes =
            |outcome: &&Outcome| wanted(outcome) && !(again.contains(&outcome.group()) && follows(&outcomes, outcome));
        for outcome in outcomes.iter().filter(goes) {
            taken += u64::from(take_back_one(store, &outcomes, outcome, queues).await?);
        }
    }
    Ok(taken)
}

/// Whose measurements are repeated. What is compiled is in the cache, and stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remeasure {
    /// Problems whose winner's time is in doubt.
    Noisy,
    /// All problems.
    All,
}

/// [Takes back](take_back) all outcomes of the problems that are `wanted` and among `which`, and returns how many problems and jobs
/// those are.
///
/// # Errors
/// If the store fails; call again.
pub async fn take_back_measured(
    store: &dyn Store,
    session: &Session,
    queues: bool,
    which: Remeasure,
    wanted: impl Fn(&Problem) -> bool,
) -> Result<(u64, u64), AdvanceError> {
    let (mut problems, mut jobs) = (0, 0);
    for groups in store.groups(&session.name).await?.chunks(GROUPS) {
        for outcomes in by_group(store, session, groups).await?.into_values() {
            let is_wanted = outcomes.iter().any(|outcome| wanted(&outcome.job.problem));
            if !is_wanted || which == Remeasure::Noisy && Noise::of_winner(session, &outcomes).is_none() {
                continue;
            }
            let mut taken = 0;
            // What follows from others goes along with them.
            for outcome in outcomes.iter().filter(|outcome| !follows(&outcomes, outcome)) {
                taken += u64::from(take_back_one(store, &outcomes, outcome, queues).await?);
            }
            problems += u64::from(taken > 0);
            jobs += taken;
        }
    }
    Ok((problems, jobs))
}

/// Plays off again where the winner's time is in doubt and the play-off ended since then: milliseconds since the Unix epoch. Returns how
/// many problems those are.
///
/// # Errors
/// If the store or the broker fails; what was taken back by then follows from the outcomes that are left.
pub async fn repeat_play_offs(
    store: &dyn Store,
    broker: &dyn Broker,
    session: &Session,
    since_ms: u64,
) -> Result<u64, AdvanceError> {
    let mut problems = 0;
    for groups in store.groups(&session.name).await?.chunks(GROUPS) {
        for (group, outcomes) in by_group(store, session, groups).await? {
            if Noise::of_winner(session, &outcomes).is_none() {
                continue;
            }
            let is_again = |outcome: &Outcome| outcome.job.stage == Stage::Find && outcome.finished_ms >= since_ms;
            let (again, rest): (Vec<Outcome>, Vec<Outcome>) = outcomes.into_iter().partition(is_again);
            for outcome in &again {
                take_back_one(store, &[], outcome, false).await?;
            }
            if !again.is_empty() {
                conclude(store, broker, session, group, &rest).await?;
                problems += 1;
            }
        }
    }
    Ok(problems)
}

async fn by_group(
    store: &dyn Work,
    session: &Session,
    groups: &[GroupId],
) -> Result<BTreeMap<GroupId, Vec<Outcome>>, AdvanceError> {
    let mut by_group: BTreeMap<GroupId, Vec<Outcome>> = BTreeMap::new();
    for outcome in store.outcomes(&session.name, groups).await? {
        by_group.entry(outcome.group()).or_default().push(outcome);
    }
    Ok(by_group)
}

/// The same for one outcome, given those of its group; whether it was there. The find outcomes of the group go, as they follow from
/// what it was: the worker that stores the last perf outcome publishes others, or the same again.
///
/// # Errors
/// If the store fails; call again.
pub async fn take_back_one(
    store: &dyn Store,
    outcomes: &[Outcome],
    outcome: &Outcome,
    queues: bool,
) -> Result<bool, AdvanceError> {
    history::remember(store, outcome).await?;
    let group = outcome.group();
    let goes =
        |other: &&Outcome| outcome.job.stage == Stage::Perf && other.group() == group && follows(outcomes, other);
    for void in outcomes.iter().filter(goes) {
        store.discard_outcome(void).await?;
    }
    if queues {
        let (_, body) = first_message(&outcome.job, now_ms())?;
        parked::park(store, &outcome.job.session, outcome.job_id(), &body).await?;
    }
    Ok(store.retract_outcome(outcome).await?)
}

/// Whether `outcome` follows from others of its group among `outcomes`: a find job of solvers that were tuned.
fn follows(outcomes: &[Outcome], outcome: &Outcome) -> bool {
    let is_tuned = |solver: &str| {
        let mut perf =
            outcomes.iter().filter(|other| other.job.stage == Stage::Perf && other.group() == outcome.group());
        perf.any(|other| other.job.candidates.iter().any(|candidate| candidate.solver == solver))
    };
    outcome.job.stage == Stage::Find && outcome.job.candidates.iter().any(|candidate| is_tuned(&candidate.solver))
}

/// Publishes what was taken back, unless the session is paused: then it is published when that is resumed. Returns how many.
///
/// # Errors
/// If the store or the broker fails; call again.
pub async fn publish(store: &dyn Store, broker: &dyn Broker, session: &SessionName) -> Result<u64, AdvanceError> {
    if !standing::of(store, session).await?.runs() {
        return Ok(0);
    }
    parked::publish(store, broker, session).await
}
