//! Lanes: a queue of jobs is several to the broker, which workers take from in turns, so that nobody waits behind all that was
//! enqueued before.
//!
//! What is enqueued at a time has its first [`AHEAD`] jobs in the [first](Lane::First) lane: a small session is never behind a
//! large one. The rest goes to the emptier one of two lanes: two large sessions share. [`Priority::High`] puts all into the first
//! lane, [`Priority::Low`] all into the [last](Lane::Last), which has the fewest turns, and some always. What follows from a job,
//! or is handed back, stays in the lane that it came by.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::broker::{Broker, BrokerError};
use crate::session::SessionName;
use crate::shelf;
use crate::store::{Store, StoreError};
use crate::wire::{self, Message};

/// Jobs of what is enqueued at a time that go ahead, in each queue.
pub const AHEAD: u64 = 256;

/// The only record of its shelf.
const KEY: &str = "priority";

/// Which of the queues that a queue is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Named like the queue itself.
    #[default]
    First,
    /// The one of two for what goes on for long.
    Long,
    /// The other one.
    OtherLong,
    /// For what may wait.
    Last,
}

impl Lane {
    /// The first is where a queue is met that has no others.
    pub const ALL: [Self; 4] = [Self::First, Self::Long, Self::OtherLong, Self::Last];

    fn suffix(self) -> &'static str {
        match self {
            Self::First => "",
            Self::Long => ".long1",
            Self::OtherLong => ".long2",
            Self::Last => ".last",
        }
    }

    /// Messages that are taken from it while those of the others are, as long as there are some in all.
    #[must_use]
    pub fn turns(self) -> i64 {
        match self {
            Self::First => 4,
            Self::Long | Self::OtherLong => 2,
            Self::Last => 1,
        }
    }

    /// The name that the lane of `queue` has at the broker.
    #[must_use]
    pub fn of(self, queue: &str) -> String {
        format!("{queue}{}", self.suffix())
    }

    /// The queue that `name` is a lane of, and which; a queue that has no lanes is its own first.
    #[must_use]
    pub fn split(name: &str) -> (&str, Self) {
        let others = Self::ALL.into_iter().filter(|lane| *lane != Self::First);
        let mut found = others.filter_map(|lane| Some((name.strip_suffix(lane.suffix())?, lane)));
        found.find(|(queue, _)| has_lanes(queue)).unwrap_or((name, Self::First))
    }

    /// The lanes of `queue` by their names; itself, if it is none that has lanes.
    #[must_use]
    pub fn names(queue: &str) -> Vec<String> {
        let lanes: &[Self] = if has_lanes(queue) { &Self::ALL } else { &[Self::First] };
        lanes.iter().map(|lane| lane.of(queue)).collect()
    }
}

/// Whether `queue` is one of [`compile_queue`](crate::job::compile_queue) or [`eval_queue`](crate::job::eval_queue), and no lane.
fn has_lanes(queue: &str) -> bool {
    let parts: Vec<&str> = queue.split('.').collect();
    let whole = match *parts {
        ["bluefin", "compile", _, target] => target,
        ["bluefin", "eval", .., last] => last,
        _ => return false,
    };
    !Lane::ALL.iter().any(|lane| lane.suffix().strip_prefix('.') == Some(whole))
}

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
pub async fn priority(store: &dyn Store, session: &SessionName) -> Result<Priority, StoreError> {
    let found = store.records_of(&shelf::priority(session), &[KEY.to_owned()]).await?;
    let Some(bytes) = found.into_iter().flatten().next() else { return Ok(Priority::Normal) };
    let corrupt = |source| StoreError::Corrupt { key: format!("priority of session {session}"), source };
    wire::decode(&bytes).map_err(corrupt)
}

/// Gives `session` a priority.
///
/// # Errors
/// If the store fails.
pub async fn prioritize(store: &dyn Store, session: &SessionName, priority: Priority) -> Result<(), StoreError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_lanes_are_read_back() {
        for queue in ["bluefin.eval.gfx942-304", "bluefin.eval.gfx942-304.fin", "bluefin.compile.cc.host"] {
            assert_eq!(Lane::names(queue).len(), 4);
            for lane in Lane::ALL {
                assert_eq!(Lane::split(&lane.of(queue)), (queue, lane));
                assert_eq!(Lane::names(&lane.of(queue)).len(), if lane == Lane::First { 4 } else { 1 });
            }
        }
        for queue in ["bluefin.dead", "bluefin.compile.cc", "bluefin.bench", "elsewhere.last", "bluefin.compile.last"] {
            assert_eq!((Lane::split(queue), Lane::names(queue)), ((queue, Lane::First), vec![queue.to_owned()]));
        }
    }
}
