//! Outcomes streamed group by group, so that memory stays bounded however large a session is: the next slice is fetched
//! while those before it are folded on other threads.

use std::collections::VecDeque;
use std::sync::Arc;

use bluefin_common::job::GroupId;
use bluefin_common::miopen::Tool;
use bluefin_common::outcome::Outcome;
use bluefin_common::session::Session;
use bluefin_common::store::Store;
use tokio::task::JoinHandle;

use crate::error::ExportError;
use crate::library::Library;
use crate::specs::Specs;

/// Most groups fetched at a time.
const MAX_GROUPS: usize = 500;
/// Groups of the first slice, whose size is not known yet.
const FIRST_GROUPS: usize = 16;
/// Candidates that a slice is meant to hold. At 1 to 2 kB each, a slice is some 30 MB.
const CANDIDATES: usize = 20_000;
/// Slices in the hands of the fold at a time.
const IN_FLIGHT: usize = 3;

/// Outcomes of some groups, with what it takes to fold them.
pub(crate) struct Slice {
    session: Arc<Session>,
    specs: Specs,
    outcomes: Vec<Outcome>,
}

/// One group.
#[derive(Clone, Copy)]
pub(crate) struct Group<'a> {
    pub library: Library<'a>,
    /// At least one.
    pub outcomes: &'a [Outcome],
}

impl Slice {
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        // Cheaper than the group's digest, and the same.
        let groups = self.outcomes.chunk_by(|a, b| a.job.spec == b.job.spec && a.job.problem == b.job.problem);
        groups.filter_map(|outcomes| {
            let job = &outcomes.first()?.job;
            let library = match Tool::of_toolchain(&job.toolchain) {
                Some(tool) => Library::Miopen(tool),
                None => Library::Spec(self.specs.get(job.spec)?),
            };
            Some(Group { library, outcomes })
        })
    }
}

/// Folds all outcomes of `groups`: `fold` runs on other threads, once for each slice; `take` gets what it returns, in the
/// order of the groups. Returns the number of outcomes.
pub(crate) async fn fold<T: Send + 'static>(
    store: &dyn Store,
    session: &Session,
    groups: &[GroupId],
    fold: impl Fn(Slice) -> T + Clone + Send + 'static,
    mut take: impl FnMut(T),
) -> Result<u64, ExportError> {
    let session = Arc::new(session.clone());
    let mut specs = Specs::default();
    let mut folding: VecDeque<JoinHandle<T>> = VecDeque::new();
    let (mut rest, mut size, mut total) = (groups, FIRST_GROUPS, 0);
    while !rest.is_empty() {
        let (next, after) = rest.split_at(size.min(rest.len()));
        rest = after;
        let outcomes = store.outcomes(&session.name, next).await?;
        specs.load(store, &outcomes).await?;
        total += outcomes.len() as u64;
        let candidates: usize = outcomes.iter().map(|outcome| outcome.candidates.len().max(1)).sum();
        // Not at once to the largest size: small groups may be followed by large ones.
        size = (next.len() * CANDIDATES / candidates.max(1)).clamp(1, MAX_GROUPS.min(2 * size));
        let slice = Slice { session: session.clone(), specs: specs.clone(), outcomes };
        let fold = fold.clone();
        folding.push_back(tokio::task::spawn_blocking(move || fold(slice)));
        if folding.len() >= IN_FLIGHT
            && let Some(oldest) = folding.pop_front()
        {
            take(oldest.await?);
        }
    }
    for slice in folding {
        take(slice.await?);
    }
    Ok(total)
}
