//! What belongs to a session in a store, and how all of it goes.

use std::collections::HashSet;
use std::time::Duration;

use bluefin_common::clock::now_ms;
use bluefin_common::digest::Digest;
use bluefin_common::job::{EvalJob, GroupId};
use bluefin_common::outcome::Outcome;
use bluefin_common::session::{Session, SessionName};
use bluefin_common::standing::{self, FRESH, Standing};
use bluefin_common::store::{Blobs, SessionSize, Store, StoreError, Touched};
use bluefin_common::{shelf, wire};
use bluefin_exporter::release::Catalog;
use bluefin_kernel_spec::Bundle;
use bluefin_producer::PlanError;
use bluefin_producer::request::requests;
use serde::Serialize;

/// Groups whose outcomes are read in one go.
const GROUPS: usize = 64;

/// What is removed with a session.
#[derive(Debug, Serialize)]
pub struct Belongings {
    /// Whose they are.
    pub session: SessionName,
    /// Of its outcomes, plan and records.
    pub size: SessionSize,
    /// Blobs that nothing else names: kernel specs, tasks, kernels, requests.
    pub blobs: u64,
    /// What those take.
    pub blob_bytes: u64,
    /// Blobs that stay, since other sessions or releases name them.
    pub shared_blobs: u64,
    #[serde(skip)]
    own: Vec<Digest>,
}

impl Belongings {
    /// Of `session`, which others that go at the same time do not keep blobs from.
    pub async fn of(store: &dyn Store, session: &SessionName, leaving: &[SessionName]) -> anyhow::Result<Self> {
        let mut stays: HashSet<GroupId> = HashSet::new();
        let others: Vec<SessionName> = store
            .sessions()
            .await?
            .into_iter()
            .map(|other| other.name)
            .filter(|other| other != session && !leaving.contains(other))
            .collect();
        for other in &others {
            stays.extend(store.groups(other).await?);
        }
        let mut own: HashSet<Digest> = HashSet::new();
        visit(store, session, |named| own.extend(named)).await?;
        let named = own.len();
        // Of groups that others have as well, jobs in queues may name tasks that no outcome names yet.
        let shared: Vec<GroupId> =
            store.groups(session).await?.into_iter().filter(|group| stays.contains(group)).collect();
        for chunk in shared.chunks(GROUPS) {
            for outcome in store.outcomes(session, chunk).await? {
                for digest in named_by(&outcome) {
                    own.remove(&digest);
                }
            }
        }
        for other in &others {
            if own.is_empty() {
                break;
            }
            visit(store, other, |named| own.retain(|digest| !named.contains(digest))).await?;
        }
        for digest in named_by_releases(store).await? {
            own.remove(&digest);
        }
        let mut own: Vec<Digest> = own.into_iter().collect();
        own.sort_unstable();
        // Most kernels are in the cache alone.
        let sizes = store.blob_sizes(&own).await?;
        let kept = named - own.len();
        let (own, sizes): (Vec<Digest>, Vec<u64>) = own.into_iter().zip(sizes).filter(|(_, size)| *size > 0).unzip();
        Ok(Self {
            session: session.clone(),
            size: store.size(session).await?,
            blobs: own.len() as u64,
            blob_bytes: sizes.iter().sum(),
            shared_blobs: kept as u64,
            own,
        })
    }

    /// Bytes of all that goes.
    pub fn bytes(&self) -> u64 {
        self.size.total() + self.blob_bytes
    }
}

/// Says that `sessions` are going, and waits until every worker has read that: none stores anything of them any more. One that was
/// touched since it was looked at stays. Returns those that go, and those that stay.
pub async fn announce(
    store: &dyn Store,
    sessions: Vec<(SessionName, Option<Touched>)>,
) -> anyhow::Result<(Vec<SessionName>, Vec<SessionName>)> {
    let (mut go, mut stay) = (Vec::new(), Vec::new());
    for (session, seen) in sessions {
        let goes = match seen {
            Some(seen) => standing::delete_untouched(store, &session, &seen).await?,
            None => {
                standing::set(store, &session, Standing::Deleted).await?;
                true
            }
        };
        if goes { go.push(session) } else { stay.push(session) }
    }
    if !go.is_empty() {
        tokio::time::sleep(2 * FRESH).await;
    }
    Ok((go, stay))
}

/// Removes what belongs to a session. Blobs first, as only the session knows which they are.
pub async fn remove(store: &dyn Store, belongings: &Belongings) -> anyhow::Result<()> {
    store.remove_blobs(&belongings.own).await?;
    store.remove_session(&belongings.session).await?;
    Ok(standing::forget_old(store).await?)
}

/// Every blob that a release names.
async fn named_by_releases(store: &dyn Store) -> anyhow::Result<Vec<Digest>> {
    let manifests = Catalog::new(store).list().await?;
    let files = manifests.iter().flat_map(|manifest| &manifest.files);
    Ok(files.flat_map(|file| file.parts.iter().chain([&file.digest])).copied().collect())
}

/// Calls `seen` with every blob that `session` names, some at a time.
async fn visit(store: &dyn Store, session: &SessionName, mut seen: impl FnMut(HashSet<Digest>)) -> anyhow::Result<()> {
    let mut specs = HashSet::new();
    let asked = store.records(&shelf::requests(session)).await?;
    seen(asked.iter().filter_map(|(digest, _)| digest.parse().ok()).collect());
    match requests(store, session).await {
        Ok(requests) => specs.extend(requests.into_iter().flat_map(|request| request.specs)),
        // One that is gone names nothing.
        Err(PlanError::Unready(_)) => {}
        Err(error) => return Err(error.into()),
    }
    seen(store.session(session).await?.and_then(|session| session.priors).into_iter().collect());
    for (_, bytes) in store.records(&shelf::compiled(session)).await? {
        if let Ok(kept) = wire::decode::<EvalJob>(&bytes) {
            seen(kept.task.digest().into_iter().collect());
            specs.insert(kept.job.spec);
        }
    }
    for chunk in store.groups(session).await?.chunks(GROUPS) {
        let outcomes = store.outcomes(session, chunk).await?;
        seen(outcomes.iter().flat_map(named_by).collect());
        specs.extend(outcomes.iter().map(|outcome| outcome.job.spec));
    }
    for spec in &specs {
        seen(data_of(store, *spec).await?);
    }
    seen(specs);
    Ok(())
}

/// The data that the buffers of a kernel spec hold: blobs of their own.
async fn data_of(store: &dyn Blobs, spec: Digest) -> anyhow::Result<HashSet<Digest>> {
    // MIOpen's solvers have none, and one that is damaged names nothing.
    let bundle = match store.blob(spec).await {
        Ok(Some(bytes)) => wire::decode::<Bundle>(&bytes).unwrap_or_default(),
        Ok(None) | Err(StoreError::Tampered { .. }) => return Ok(HashSet::new()),
        Err(error) => return Err(error.into()),
    };
    Ok(bundle.data.values().map(|data| data.digest).collect())
}

fn named_by(outcome: &Outcome) -> impl Iterator<Item = Digest> + '_ {
    let built = outcome.candidates.iter().filter_map(|candidate| candidate.built.as_ref());
    let objects = built.flat_map(|built| &built.objects).map(|object| object.artifact.digest);
    outcome.task.into_iter().chain([outcome.job.spec]).chain(objects)
}

/// What nobody names, and nobody has used for a while.
#[derive(Debug, Serialize)]
pub struct Unnamed {
    /// How many there are.
    pub blobs: u64,
    /// What they take.
    pub blob_bytes: u64,
    /// Sessions that are gone, and of which something was left.
    pub sessions: Vec<SessionName>,
}

/// Removes what nobody names and nobody has used for `idle`, or only finds it. A job in a queue names its task in its message alone:
/// one whose task is gone is compiled again, as one whose artifacts are.
pub async fn sweep(store: &dyn Store, idle: Duration, dry_run: bool) -> anyhow::Result<Unnamed> {
    let sessions = store.orphans(idle).await?;
    let mut blobs: HashSet<Digest> = store.idle_blobs(idle).await?.into_iter().collect();
    for session in store.sessions().await? {
        if blobs.is_empty() {
            break;
        }
        visit(store, &session.name, |named| blobs.retain(|digest| !named.contains(digest))).await?;
    }
    for digest in named_by_releases(store).await? {
        blobs.remove(&digest);
    }
    let blobs: Vec<Digest> = blobs.into_iter().collect();
    let blob_bytes = store.blob_sizes(&blobs).await?.into_iter().sum();
    if !dry_run {
        for session in &sessions {
            store.remove_session(session).await?;
        }
        store.remove_blobs(&blobs).await?;
    }
    Ok(Unnamed { blobs: blobs.len() as u64, blob_bytes, sessions })
}

/// What samples of a session are gone, or would go.
#[derive(Debug)]
pub struct Samples {
    /// How many.
    pub count: u64,
    /// What outcomes took, and what they take.
    pub bytes: [u64; 2],
}

/// Puts the median of each timing of `session` in place of its samples, as many as there were, or only counts them.
pub async fn drop_samples(store: &dyn Store, session: &SessionName, dry_run: bool) -> anyhow::Result<Samples> {
    let before = store.size(session).await?.outcomes;
    let mut count = 0;
    for chunk in store.groups(session).await?.chunks(GROUPS) {
        let mut outcomes = store.outcomes(session, chunk).await?;
        for outcome in &mut outcomes {
            for timing in outcome.candidates.iter_mut().filter_map(|candidate| candidate.result.as_mut().ok()) {
                // How many there were is what says how sure the median is.
                count += timing.samples_ms.len() as u64;
                timing.samples_ms = timing.summary_ms();
            }
        }
        if !dry_run {
            store.rewrite_outcomes(&outcomes).await?;
        }
    }
    let after = if dry_run { before } else { store.size(session).await?.outcomes };
    Ok(Samples { count, bytes: [before, after] })
}

/// Sessions that were made longer ago than `age` and have no work left, and what they were chosen by.
pub async fn over(store: &dyn Store, age: Duration) -> anyhow::Result<Vec<(SessionName, Touched)>> {
    let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    let old = |session: &Session| session.created_ms < now_ms().saturating_sub(age_ms);
    let mut over = Vec::new();
    for session in store.sessions().await?.into_iter().filter(old) {
        // First: what happens while it is looked at counts as well.
        let seen = store.touched(&session.name).await?;
        let is_over = match standing::of(store, &session.name).await? {
            Standing::Cancelled | Standing::Deleted => true,
            Standing::Running | Standing::Paused | Standing::Resuming => {
                store.progress(&session.name).await?.is_settled()
            }
        };
        if is_over {
            over.push((session.name, seen));
        }
    }
    Ok(over)
}
