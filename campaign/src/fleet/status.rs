//! How far sessions are, what waits, and why nothing moves, of a fleet of which something may be away.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bluefin_common::broker::Broker;
use bluefin_common::clock::now_ms;
use bluefin_common::roster;
use bluefin_common::session::{Pins, Session, SessionName};
use bluefin_common::standing::{self, Standing};
use bluefin_common::store::{Progress, Store};
use serde::Serialize;
use tokio::time::timeout;

use crate::fleet::queues::{possible_queues, queue_names};
use crate::fleet::steer::unknown;
use crate::fleet::why::{self, Fleet};
use crate::ports::StoreArgs;
use crate::usage::Usage;

/// For broker or store to answer one question. Of a fleet at work there are many, each with an answer sooner or later.
const REACH: Duration = Duration::from_secs(3);

/// How far sessions are, and what waits.
#[derive(Serialize)]
pub struct Status {
    /// Those that were asked for.
    pub sessions: Vec<SessionStatus>,
    /// Messages that wait, by queue; absent without a broker.
    pub queues: Option<BTreeMap<String, u64>>,
    /// What of broker and store does not answer, which says nothing of what they hold.
    pub away: Vec<String>,
}

/// How far a session is.
#[derive(Serialize)]
pub struct SessionStatus {
    /// What it is.
    #[serde(flatten)]
    pub session: Session,
    /// Of its workers.
    pub pins: Pins,
    /// In jobs and candidates.
    #[serde(flatten)]
    pub progress: Progress,
    /// Whether nothing is left.
    pub complete: bool,
    /// What keeps it from moving.
    pub why: Vec<String>,
    /// Whether it runs.
    pub standing: Standing,
    /// Seconds that what is left takes its devices at least, where that can be said.
    pub left_s: Option<u64>,
    /// What its workers are at.
    pub running: Vec<Running>,
}

/// A job of a session that a worker has in hand.
#[derive(Serialize)]
pub struct Running {
    /// Who has it.
    pub worker: String,
    /// `compile` or `evaluate`.
    pub step: String,
    /// In short.
    pub problem: String,
    /// Job id.
    pub job: String,
    /// For so long.
    pub seconds: u64,
}

/// Who looks, again and again, and the ports that have answered.
pub struct Looker<'a> {
    place: &'a StoreArgs,
    session: Option<&'a SessionName>,
    store: Option<Arc<dyn Store>>,
    broker: Option<Arc<dyn Broker>>,
}

impl<'a> Looker<'a> {
    /// At `session`, or at all.
    ///
    /// # Errors
    /// If a state file can not be opened.
    pub async fn new(place: &'a StoreArgs, session: Option<&'a SessionName>) -> anyhow::Result<Self> {
        // A file is there or not. Of a fleet each is asked for when it is needed, so that the other is shown though one is away.
        let store = if place.in_file() { Some(place.open_to_read().await?.store) } else { None };
        Ok(Self { place, session, store, broker: None })
    }

    /// Ends in order.
    pub async fn close(self) {
        if let Some(broker) = self.broker {
            broker.close().await;
        }
    }

    /// What can be had of those that answer within a few seconds.
    ///
    /// # Errors
    /// If the session is not there, or nothing says where broker and store are.
    pub async fn look(&mut self) -> anyhow::Result<Status> {
        let mut away = Vec::new();
        let sessions = answer(self.sessions(), &mut away).await?;
        if let (Some(name), Some([]), Some(store)) = (self.session, sessions.as_deref(), &self.store) {
            return Err(unknown(&**store, name).await?);
        }
        let sessions = sessions.unwrap_or_default();
        let mut queues = None;
        let mut fleet = Fleet { now_ms: now_ms(), ..Fleet::default() };
        if self.place.fleet.names_a_broker() {
            let usual = queue_names(sessions.iter().map(|status| (&status.session, &status.pins)));
            let open = sessions.iter().filter(|status| !status.progress.is_settled());
            let possible: BTreeSet<String> = open.flat_map(|status| possible_queues(&status.session)).collect();
            let all = usual.union(&possible).cloned().collect();
            fleet.depths = answer(self.queues(all), &mut away).await?;
            if let Some(store) = &self.store {
                fleet.roster = answer(within("store", roster::read(&**store)), &mut away).await?;
            }
            if let Some(broker) = &self.broker {
                let missing = sessions.iter().filter(|status| fleet.misses_jobs(&status.session, &status.progress));
                let names = missing.flat_map(|status| possible_queues(&status.session)).collect();
                // Worth a look, and no more: a broker that takes its time is not away for that.
                if let Ok(found) = timeout(REACH, why::delayed(&**broker, names)).await {
                    fleet.delayed = found.unwrap_or_default();
                }
            }
            queues = fleet.depths.clone();
            queues.iter_mut().for_each(|depths| depths.retain(|name, depth| usual.contains(name) || *depth > 0));
        }
        let sessions = sessions.into_iter().map(|status| status.explained(&fleet)).collect();
        Ok(Status { sessions, queues, away })
    }

    async fn sessions(&mut self) -> anyhow::Result<Vec<SessionStatus>> {
        let store = match &mut self.store {
            Some(store) => store,
            store => store.insert(within("store", self.place.open_to_read()).await?.store),
        };
        let standings = within("store", standing::all(&**store)).await?;
        let mut sessions = Vec::new();
        for session in within("store", store.sessions()).await? {
            if self.session.is_some_and(|only| *only != session.name) {
                continue;
            }
            let progress = within("store", store.progress(&session.name)).await?;
            let pins = within("store", store.pins(&session.name)).await?;
            let standing = standings.get(&session.name).copied().unwrap_or_default();
            let (why, left_s, running) = (Vec::new(), None, Vec::new());
            sessions.push(SessionStatus {
                complete: progress.is_complete(),
                session,
                pins,
                progress,
                why,
                standing,
                left_s,
                running,
            });
        }
        Ok(sessions)
    }

    async fn queues(&mut self, names: BTreeSet<String>) -> anyhow::Result<BTreeMap<String, u64>> {
        let broker = match &mut self.broker {
            Some(broker) => broker,
            broker => broker.insert(within("broker", self.place.fleet.broker()).await?),
        };
        let mut depths = BTreeMap::new();
        for name in names {
            let depth = within("broker", broker.depth(&name)).await?;
            depths.insert(name, depth);
        }
        Ok(depths)
    }
}

/// What is asked for, or why there is no answer, among what is `away`.
async fn answer<T>(
    asked: impl Future<Output = anyhow::Result<T>>,
    away: &mut Vec<String>,
) -> anyhow::Result<Option<T>> {
    match asked.await {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is::<Usage>() => Err(error),
        Err(error) => {
            away.push(error.to_string());
            Ok(None)
        }
    }
}

/// One answer of `port`, which has [`REACH`] for it.
async fn within<T, E: Into<anyhow::Error>>(port: &str, asked: impl Future<Output = Result<T, E>>) -> anyhow::Result<T> {
    match timeout(REACH, asked).await {
        Ok(answer) => answer.map_err(Into::into),
        Err(_) => anyhow::bail!("{port}: no answer within {} s", REACH.as_secs()),
    }
}

impl SessionStatus {
    /// With what the fleet says of it.
    fn explained(self, fleet: &Fleet) -> Self {
        let Self { session, progress, .. } = &self;
        let why = match (self.standing, progress.is_settled()) {
            (Standing::Running, _) | (_, true) => fleet.why(session, progress),
            (standing, false) => vec![format!("it is {}: bluefin session resume {}", standing.name(), session.name)],
        };
        let left_s = fleet.left(session, progress).map(|left| left.as_secs());
        let running = fleet.doing(session).map(|(entry, doing)| Running {
            worker: entry.worker.clone(),
            step: entry.step.clone(),
            problem: doing.problem.clone(),
            job: doing.job.clone(),
            seconds: fleet.now_ms.saturating_sub(doing.since_ms) / 1000,
        });
        let running = running.collect();
        Self { why, left_s, running, ..self }
    }

    /// How far it is, or what keeps it.
    #[must_use]
    pub fn state(&self) -> &'static str {
        let settled = self.progress.is_settled();
        if self.standing == Standing::Running || settled { self.progress.state() } else { self.standing.name() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_is_slow_is_not_away() {
        tokio::time::pause();
        let asked = async |seconds| {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            anyhow::Ok(1)
        };
        let ten = async {
            for _ in 0..10 {
                within("store", asked(2)).await?;
            }
            Ok(10)
        };
        let mut away = Vec::new();
        assert_eq!(answer(ten, &mut away).await.unwrap(), Some(10));
        assert_eq!(answer(within("broker", asked(4)), &mut away).await.unwrap(), None);
        assert_eq!(away, ["broker: no answer within 3 s"]);
    }
}
