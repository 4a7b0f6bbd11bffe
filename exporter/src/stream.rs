//! Outcomes streamed group by group, so that memory stays bounded however large a session is: the next slices are fetched
//! while those before them are folded on other threads. They are decoded there, a group at a time, and gone before the next.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use bluefin_common::decision::drop_void;
use bluefin_common::job::GroupId;
use bluefin_common::outcome::Outcome;
use bluefin_common::problem::Problem;
use bluefin_common::search_end::SearchEnd;
use bluefin_common::session::Session;
use bluefin_common::store::{EncodedGroup, Store, StoreError};
use futures_util::future::OptionFuture;
use futures_util::stream::{FuturesOrdered, StreamExt as _};
use tokio::task::JoinHandle;

use crate::error::ExportError;
use crate::fold::{Fold, Group, Warnings};

/// Most groups fetched at a time.
const MAX_GROUPS: usize = 500;
/// Groups of the first slice, whose size is not known yet.
const FIRST_GROUPS: usize = 16;
/// Bytes that a slice is meant to hold, as they are stored.
const BYTES: usize = 1 << 20;
/// Slices that are fetched at a time.
const FETCHES: usize = 2;
/// Slices in the hands of the fold at a time.
const IN_FLIGHT: usize = 3;

/// What came of folding.
#[derive(Debug)]
pub(crate) struct Folded<F> {
    pub records: F,
    pub warnings: Warnings,
    /// How many outcomes there are, of problems that were not asked for too.
    pub outcomes: u64,
}

/// Outcomes of some groups, and what was made of them.
struct Slice<F> {
    session: Arc<Session>,
    only: Option<Arc<HashSet<Problem>>>,
    /// Those that are not folded yet.
    groups: VecDeque<EncodedGroup>,
    /// How their searches ended.
    ends: HashMap<GroupId, SearchEnd>,
    records: F,
    warnings: Warnings,
}

impl<F: Fold> Slice<F> {
    /// Folds it on another thread.
    fn begin(self) -> JoinHandle<Result<Self, StoreError>> {
        tokio::task::spawn_blocking(move || self.fold())
    }

    fn fold(mut self) -> Result<Self, StoreError> {
        while let Some(group) = self.groups.pop_front() {
            let end = self.ends.get(&group.group);
            let mut outcomes = group.decode()?;
            if self.is_asked_for(&outcomes) {
                drop_void(&self.session, &mut outcomes);
                if let Some(group) = Group::new(&self.session, &outcomes) {
                    self.records.add(&group.searched(end), &mut self.warnings);
                }
            }
        }
        Ok(self)
    }

    fn is_asked_for(&self, outcomes: &[Outcome]) -> bool {
        match (&self.only, outcomes.first()) {
            (Some(only), Some(outcome)) => only.contains(&outcome.job.problem),
            (None, _) | (_, None) => true,
        }
    }
}

/// Who gets the records of slice after slice, in the order of the groups.
pub(crate) trait Take<F> {
    /// Takes what was made of a slice. `Break`: nothing more is wanted.
    fn take(
        &mut self,
        records: F,
        warnings: Warnings,
    ) -> impl Future<Output = Result<ControlFlow<()>, ExportError>> + Send;
}

/// Folds the outcomes of `groups`, all or `only` those of some problems, into records that begin as `empty` makes them: each
/// slice on another thread, then all in the order of the groups.
pub(crate) async fn fold<F: Fold>(
    store: &dyn Store,
    session: &Session,
    groups: &[GroupId],
    only: Option<Arc<HashSet<Problem>>>,
    empty: impl Fn() -> F,
) -> Result<Folded<F>, ExportError> {
    let mut folded = Folded { records: empty(), warnings: Warnings::new(), outcomes: 0 };
    folded.outcomes = slices(store, session, groups, only, empty, &mut folded).await?;
    Ok(folded)
}

/// The same, but what came of each slice goes to `take` and is not kept. Returns the number of outcomes.
pub(crate) async fn slices<F: Fold>(
    store: &dyn Store,
    session: &Session,
    groups: &[GroupId],
    only: Option<Arc<HashSet<Problem>>>,
    empty: impl Fn() -> F,
    take: &mut impl Take<F>,
) -> Result<u64, ExportError> {
    let session = Arc::new(session.clone());
    let mut all = 0;
    let (mut rest, mut size) = (groups, FIRST_GROUPS);
    let mut fetching = FuturesOrdered::new();
    let mut fetched = VecDeque::new();
    let mut folding = VecDeque::new();
    loop {
        while fetching.len() + fetched.len() < FETCHES && !rest.is_empty() {
            let (next, after) = rest.split_at(size.min(rest.len()));
            rest = after;
            fetching.push_back(fetch(store, &session, next));
        }
        // What is fetched goes on only while somebody asks for it, so that is asked for beside the folds.
        tokio::select! {
            Some(slice) = fetching.next() => fetched.push_back(slice),
            Some(slice) = OptionFuture::from(folding.front_mut()) => {
                folding.pop_front();
                let Slice { records, warnings, .. } = slice??;
                if take.take(records, warnings).await?.is_break() {
                    break;
                }
            }
            else => break,
        }
        while folding.len() < IN_FLIGHT
            && let Some(groups) = fetched.pop_front()
        {
            let (groups, ends) = groups?;
            all += groups.iter().map(|group| group.outcomes.len() as u64).sum::<u64>();
            let bytes: usize = groups.iter().map(EncodedGroup::size).sum();
            // Not at once to the largest size: small groups may be followed by large ones.
            size = (groups.len() * BYTES / bytes.max(1)).clamp(1, MAX_GROUPS.min(2 * size));
            let (session, only) = (Arc::clone(&session), only.clone());
            let slice = Slice { session, only, groups, ends, records: empty(), warnings: Warnings::new() };
            folding.push_back(slice.begin());
        }
    }
    Ok(all)
}

/// Outcomes of `groups`, and how their searches ended.
async fn fetch(
    store: &dyn Store,
    session: &Session,
    groups: &[GroupId],
) -> Result<(VecDeque<EncodedGroup>, HashMap<GroupId, SearchEnd>), StoreError> {
    let outcomes = store.encoded_outcomes(&session.name, groups).await?;
    let ends = match session.search {
        Some(_) => SearchEnd::of(store, &session.name, groups).await?,
        None => HashMap::new(),
    };
    Ok((outcomes.into(), ends))
}

impl<F: Fold> Take<F> for Folded<F> {
    async fn take(&mut self, records: F, warnings: Warnings) -> Result<ControlFlow<()>, ExportError> {
        self.warnings.extend(warnings);
        self.records.merge(records, &mut self.warnings);
        Ok(ControlFlow::Continue(()))
    }
}
