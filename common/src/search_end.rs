//! How the search of a group ended: how much of each solver's tuning space was tried, why no more of it, and what is expected to be left.
//! The worker that plans rounds writes it down, since nobody else knows the space; exporters tell it.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::job::GroupId;
use crate::session::SessionName;
use crate::shelf;
use crate::store::{Records, StoreError};
use crate::wire::{self, Message};

/// How the search of a group ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchEnd(pub Vec<SolverEnd>);

/// How the search of one solver ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SolverEnd {
    /// Its name.
    pub solver: String,
    /// Its candidates that were tried.
    pub tried: u64,
    /// Points of its tuning space that satisfy the constraints.
    pub valid: u64,
    /// Whether `valid` was counted; else it is estimated from part of the space.
    pub exact: bool,
    /// By how much the best time is expected to fall if as many candidates are tried again, in hundredths of a percent. `None`: the
    /// strategy does not say.
    pub left: Option<u32>,
    /// Why no more of it is tried.
    pub why: Why,
}

/// Why no more candidates of a solver are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Why {
    /// All were tried.
    All,
    /// As many were tried as the budget has.
    Budget,
    /// Less is expected to be left than the session's patience asks for.
    Patience,
    /// Other solvers are much faster.
    Behind,
}

impl Why {
    /// As in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Budget => "budget",
            Self::Patience => "patience",
            Self::Behind => "behind",
        }
    }
}

impl Message for SearchEnd {
    const KIND: u8 = 15;
    const VERSION: u8 = 1;
    const NAME: &'static str = "search end";
}

impl SearchEnd {
    /// Writes down that the search of `group` ended like this.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn put(&self, store: &dyn Records, session: &SessionName, group: GroupId) -> Result<(), StoreError> {
        let record = wire::encode(self).map_err(|source| corrupt(session, group, source))?;
        store.put_records(&shelf::searched(session), &[(key(group), record)]).await
    }

    /// How the searches of `groups` ended. One that goes on for the first time is not among them.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn of(
        store: &dyn Records,
        session: &SessionName,
        groups: &[GroupId],
    ) -> Result<HashMap<GroupId, Self>, StoreError> {
        let keys: Vec<String> = groups.iter().copied().map(key).collect();
        let records = store.records_of(&shelf::searched(session), &keys).await?;
        let mut ends = HashMap::new();
        for (group, record) in groups.iter().zip(records) {
            if let Some(record) = record {
                ends.insert(*group, wire::decode(&record).map_err(|source| corrupt(session, *group, source))?);
            }
        }
        Ok(ends)
    }
}

fn corrupt(session: &SessionName, group: GroupId, source: wire::WireError) -> StoreError {
    StoreError::Corrupt { key: format!("{} of group {group} of session {session}", SearchEnd::NAME), source }
}

/// Beside the record of the group itself.
fn key(group: GroupId) -> String {
    format!("{group}#end")
}
