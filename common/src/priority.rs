//! The priority of a session, and how what it enqueues is spread over the [lanes](crate::lane) of a queue.
//!
//! What is enqueued at a time has its first [`AHEAD`] jobs in the [first](Lane::First) lane: a small session is never behind a
//! large one. The rest goes to the emptier one of two lanes: two large sessions share. [`Priority::High`] puts all into the first
//! lane, [`Priority::Low`] all into the [last](Lane::Last), which has the fewest turns, and some always.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::broker::{Broker, BrokerError};
use crate::lane::{Lane, has_lanes};
use crate::session::SessionName;
use crate::shelf;
use crate::store::{Records, StoreError};
use crate::wire::{self, Message};

/// Jobs of what is enqueued at a time that go ahead, in each queue.
pub const AHEAD: u64 = 256;

/// The only record of its shelf.
const KEY: &str = "priority";

/// How much a session matters beside others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Ahead of all that was enqueued before as usual.
    High,
    /// Its first jobs ahead, the rest in turns with what else is there.
    #[default]
    Normal,
    /// With the fewest turns.
    Low,
}

impl Priority {
    /// As on the command line and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Priority {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [Self::High, Self::Normal, Self::Low];
        all.into_iter().find(|priority| priority.name() == text).ok_or("expected high, normal or low")
    }
}

impl Message for Priority {
    const KIND: u8 = 23;
    const VERSION: u8 = 1;
    const NAME: &'static str = "priority";
}

/// The priority that `session` was given, for all that is enqueued from then on.
///
/// # Errors
/// If the store fails, or holds what is of another version.
pub async fn of(store: &dyn Records, session: &SessionName) -> Result<Priority, StoreError> {
    let found = store.records_of(&shelf::priority(session), &[KEY.to_owned()]).await?;
    let Some(bytes) = found.into_iter().flatten().next() else { return Ok(Priority::Normal) };
    let corrupt = |source| StoreError::Corrupt { key: format!("priority of session {session}"), source };
    wire::decode(&bytes).map_err(corrupt)
}

/// Gives `session` a priority.
///
/// # Errors
/// If the store fails.
pub async fn prioritize(store: &dyn Records, session: &SessionName, priority: Priority) -> Result<(), StoreError> {
    let (shelf, key) = (shelf::priority(session), KEY.to_owned());
    if priority == Priority::Normal {
        return store.remove_records(&shelf, &[key]).await;
    }
    let corrupt = |source| StoreError::Corrupt { key: format!("priority of session {session}"), source };
    let record = wire::encode(&priority).map_err(corrupt)?;
    store.put_records(&shelf, &[(key, record)]).await
}

/// Spreads what is enqueued at a time over the lanes of its queues.
#[derive(Debug)]
pub struct Spread {
    priority: Priority,
    queues: HashMap<String, Put>,
}

#[derive(Debug, Default)]
struct Put {
    ahead: u64,
    /// Where the rest goes.
    long: Option<Lane>,
}

impl Spread {
    /// For jobs of a session of this priority.
    #[must_use]
    pub fn new(priority: Priority) -> Self {
        Self { priority, queues: HashMap::new() }
    }

    /// The name of the lane of `queue` that the next job goes to, which exists.
    ///
    /// # Errors
    /// If the broker fails.
    pub async fn next(&mut self, broker: &dyn Broker, queue: &str) -> Result<String, BrokerError> {
        let put = match self.queues.get_mut(queue) {
            Some(put) => put,
            None => self.queues.entry(queue.to_owned()).or_default(),
        };
        let lane = match (self.priority, put.long) {
            _ if !has_lanes(queue) => Lane::First,
            (Priority::High, _) => Lane::First,
            (Priority::Low, _) => Lane::Last,
            (Priority::Normal, _) if put.ahead < AHEAD => Lane::First,
            (Priority::Normal, Some(lane)) => lane,
            (Priority::Normal, None) => {
                let (one, other) = (Lane::Long.of(queue), Lane::OtherLong.of(queue));
                let one_is_longer = broker.depth(&one).await? > broker.depth(&other).await?;
                *put.long.insert(if one_is_longer { Lane::OtherLong } else { Lane::Long })
            }
        };
        put.ahead += u64::from(lane == Lane::First);
        Ok(lane.of(queue))
    }
}
