//! What a report tells of a session: a pure fold over its groups, bounded however large the session is. Whatever is left out is
//! counted.

pub mod compare;
mod failures;
mod gain;
mod problem;
mod rank;
mod time;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bluefin_common::digest::Digest;
use bluefin_common::job::{GroupId, group_id};
use bluefin_common::session::{Pins, Session, SessionName};
use bluefin_common::store::{Progress, Store};
use serde::Serialize;

use crate::error::ExportError;
use crate::export::{Gathered, gather};
use crate::fold::{Fold, Group, Warnings};
use crate::versions::Versions;

pub use crate::shared::Common;
pub use failures::{Failures, KindFailures, Words};
pub use gain::{Gain, Gains};
pub use problem::{Detail, Finalist, ParamEffect, Point, Row, Spread, Step, ValueEffect};
pub use rank::Top;
pub use time::{Bins, Device, Lane, Time};

use rank::Rank;

/// What a report is asked to tell.
#[derive(Clone, Debug)]
pub struct Scope {
    /// How often each problem is asked for, by its digest; once where nothing is said.
    pub counts: HashMap<Digest, u64>,
    /// Problems that are listed.
    pub rows: usize,
    /// Problems that are told of at length.
    pub details: usize,
    /// Only the problem of this digest is told of at length.
    pub only: Option<Digest>,
}

impl Default for Scope {
    fn default() -> Self {
        Self { counts: HashMap::new(), rows: 2000, details: 40, only: None }
    }
}

/// What is told of a session.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub session: Session,
    pub pins: Pins,
    pub progress: Progress,
    /// Groups (problem and kernel spec) that were looked at.
    pub groups: u64,
    /// Those of them that have work left.
    pub unfinished: u64,
    pub outcomes: u64,
    pub candidates: u64,
    /// Whether any problem is asked for more than once.
    pub weighted: bool,
    pub gains: Gains,
    /// Those without a winner first, then those that take most of the time.
    pub problems: Top<Row>,
    /// In the same order.
    pub details: Top<Detail>,
    pub failures: Failures,
    pub time: Time,
    pub warnings: Vec<String>,
}

/// What is kept while groups are read.
struct Gathering {
    scope: Arc<Scope>,
    /// Groups that have work left.
    open: Arc<HashSet<GroupId>>,
    candidates: u64,
    gains: Gains,
    problems: Top<Row>,
    details: Top<Detail>,
    failures: Failures,
    time: Time,
    versions: Versions,
}

impl Gathering {
    fn new(scope: &Arc<Scope>, open: &Arc<HashSet<GroupId>>) -> Self {
        Self {
            scope: Arc::clone(scope),
            open: Arc::clone(open),
            candidates: 0,
            gains: Gains::default(),
            problems: Top::new(scope.rows),
            details: Top::new(scope.details),
            failures: Failures::default(),
            time: Time::default(),
            versions: Versions::default(),
        }
    }
}

impl Fold for Gathering {
    fn add(&mut self, group: &Group<'_>, _: &mut Warnings) {
        let digest = group.problem.digest();
        let count = self.scope.counts.get(&digest).copied().unwrap_or(1);
        let is_open = self.open.contains(&group_id(group.problem, group.spec));
        let row = Row::of(group, digest, count, is_open);
        let rank = Rank::of(&row);
        self.candidates += group.outcomes.iter().map(|outcome| outcome.candidates.len() as u64).sum::<u64>();
        self.gains.add(&row);
        self.failures.add(group);
        self.time.add(group.outcomes);
        if let Some(digest) = &row.summary.spec_digest {
            self.versions.see(&row.summary.spec.as_str().into(), &digest.as_str().into(), row.summary.tuned_ms);
        }
        if self.scope.only.is_none_or(|only| only == digest) && self.details.takes(&rank) {
            self.details.add(rank.clone(), Detail::of(group, &row));
        }
        self.problems.add(rank, row);
    }

    fn merge(&mut self, other: Self, _: &mut Warnings) {
        self.candidates += other.candidates;
        self.gains.merge(&other.gains);
        self.problems.merge(other.problems);
        self.details.merge(other.details);
        self.failures.merge(other.failures);
        self.time.merge(other.time);
        self.versions.merge(&other.versions);
    }
}

/// What is to be told of the session `name`.
///
/// # Errors
/// If the session does not exist, or the store fails.
pub async fn report(store: &dyn Store, name: &SessionName, scope: Scope) -> Result<Report, ExportError> {
    let pins = store.pins(name).await?;
    let progress = store.progress(name).await?;
    let open = Arc::new(store.open_groups(name).await?.into_iter().collect());
    let scope = Arc::new(scope);
    let Gathered { session, records, groups, outcomes, unfinished, mut warnings } =
        gather(store, name, None, || Gathering::new(&scope, &open)).await?;
    let Gathering { scope, candidates, gains, problems, details, mut failures, mut time, versions, .. } = records;
    failures.settle();
    warnings.extend(time.settle());
    warnings.extend(versions.lines());
    let weighted = scope.counts.values().any(|count| *count > 1);
    Ok(Report {
        session,
        pins,
        progress,
        groups,
        unfinished,
        outcomes,
        candidates,
        weighted,
        gains,
        problems,
        details,
        failures,
        time,
        warnings,
    })
}
