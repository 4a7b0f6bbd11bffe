//! What must hold of a fleet's sessions, whatever has befallen it: what an undisturbed one comes to.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use bluefin_adapters::redis::RedisStore;
use bluefin_common::failure::FailureKind;
use bluefin_common::job::JobId;
use bluefin_common::outcome::Outcome;
use bluefin_common::session::SessionName;
use bluefin_common::store::{Progress, StoreError, Work as _};

use crate::fleet::{Fleet, words};
use crate::servers::{ARTIFACT_TTL, Urls};
use crate::sessions::Campaign;

/// Between two looks at what is left to do.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const EXPORTED: Duration = Duration::from_secs(120);

/// What came of one session.
pub struct Found {
    pub progress: Progress,
    /// Of each job, its candidates and what came of them.
    pub outcomes: BTreeMap<JobId, Vec<String>>,
    /// Outcomes that only a fault of bluefin's makes of a fault of its surroundings.
    pub buried: Vec<String>,
    /// By name.
    pub exported: BTreeMap<String, Vec<u8>>,
}

/// Opens the store at `urls`, which is there.
pub async fn store(urls: &Urls) -> RedisStore {
    RedisStore::connect(&urls.redis, Some(&urls.cache), ARTIFACT_TTL).await.expect("the store is there")
}

/// Waits until all of `campaigns` are complete; those that are not, with how far they are, once nothing was done for `patience`: a busy
/// machine is slow, and slow is not stuck.
pub async fn completed(store: &RedisStore, campaigns: &[Campaign], patience: Duration) -> Result<(), Vec<String>> {
    let mut deadline = Instant::now() + patience;
    let mut done = 0;
    loop {
        let mut open = Vec::new();
        let mut done_now = 0;
        for campaign in campaigns {
            let progress = store.progress(&name(campaign)).await.expect("the store is there");
            done_now += progress.done.values().sum::<u64>();
            if !progress.is_complete() {
                open.push(format!("{}: {progress:?}", campaign.name));
            }
        }
        if open.is_empty() {
            return Ok(());
        }
        if done_now > done {
            (deadline, done) = (Instant::now() + patience, done_now);
        }
        if Instant::now() >= deadline {
            return Err(open);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Any outcome, once there is one.
pub async fn first_outcome(store: &RedisStore, campaign: &Campaign, patience: Duration) -> Option<Outcome> {
    let deadline = Instant::now() + patience;
    while Instant::now() < deadline {
        // The session may not exist yet.
        if let Ok(outcomes) = outcomes(store, campaign).await
            && let Some(outcome) = outcomes.into_iter().next()
        {
            return Some(outcome);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    None
}

async fn outcomes(store: &RedisStore, campaign: &Campaign) -> Result<Vec<Outcome>, StoreError> {
    let name = name(campaign);
    let groups = store.groups(&name).await?;
    store.outcomes(&name, &groups).await
}

/// What came of `campaign`, which is also exported.
pub async fn found(fleet: &Fleet, store: &RedisStore, campaign: &Campaign) -> Found {
    let progress = store.progress(&name(campaign)).await.expect("the store is there");
    let outcomes = outcomes(store, campaign).await.expect("the store is there");
    let mut found = Found { progress, outcomes: BTreeMap::new(), buried: Vec::new(), exported: BTreeMap::new() };
    for outcome in outcomes {
        found.buried.extend(buried(&outcome).map(|why| format!("{}: {why}", campaign.name)));
        found.outcomes.insert(outcome.job_id(), results(&outcome));
    }
    let out = fleet.path(&format!("out/{}", campaign.name));
    let command = ["export", "--session", &campaign.name, "--out", &out.display().to_string()];
    if let Err(error) = fleet.ask("export", &words(&command), EXPORTED) {
        // As if it were a file, so that it differs.
        found.exported.insert("error".to_string(), format!("{}: {error}", fleet.folder.display()).into_bytes());
    }
    found.exported.extend(files(&out));
    found
}

/// What an outcome says that was given up though its job did nothing wrong.
fn buried(outcome: &Outcome) -> impl Iterator<Item = String> {
    let failures = outcome.candidates.iter().filter_map(|candidate| candidate.result.as_ref().err());
    let never = [FailureKind::Dead, FailureKind::CompileCrash, FailureKind::CompileTimeout, FailureKind::ToolCrash];
    let job = outcome.job_id();
    let why = failures.filter(move |failure| never.contains(&failure.kind)).map(|failure| failure.kind.name()).next();
    let detail = outcome.candidates.iter().find_map(|candidate| candidate.result.as_ref().err());
    let detail = detail.map(|failure| failure.detail.clone()).unwrap_or_default();
    why.into_iter().map(move |kind| format!("job {} {kind}: {detail}", job.short()))
}

fn results(outcome: &Outcome) -> Vec<String> {
    let result = outcome.candidates.iter().map(|candidate| match &candidate.result {
        Ok(timing) => format!("{} {}", candidate.candidate, timing.median_ms),
        Err(failure) => format!("{} {}", candidate.candidate, failure.kind.name()),
    });
    result.collect()
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(folder) else { return BTreeMap::new() };
    let files = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        Some((entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).ok()?))
    });
    files.collect()
}

fn name(campaign: &Campaign) -> SessionName {
    campaign.name.parse().expect("it is a name")
}

/// How what was found differs from what is expected.
#[derive(Default)]
pub struct Verdict {
    pub planned: u64,
    pub outcomes: u64,
    /// Jobs without an outcome.
    pub lost: u64,
    /// Jobs that were counted more than once, or that nobody planned.
    pub doubled: u64,
    pub buried: Vec<String>,
    /// Sessions whose exported bytes differ, or anything else of them.
    pub different: Vec<String>,
}

impl Verdict {
    pub fn add(&mut self, session: &str, found: &Found, expected: &Found) {
        let total = |counts: &BTreeMap<String, u64>| counts.values().sum::<u64>();
        let distinct = found.outcomes.len() as u64;
        self.planned += total(&expected.progress.planned);
        self.outcomes += distinct;
        let missing =
            |of: &Found, from: &Found| of.outcomes.keys().filter(|id| !from.outcomes.contains_key(id)).count();
        self.lost += missing(expected, found) as u64;
        self.doubled += missing(found, expected) as u64 + total(&found.progress.done).saturating_sub(distinct);
        self.buried.extend(found.buried.iter().cloned());
        if found.outcomes != expected.outcomes {
            self.different.push(format!("{session}: the outcomes"));
        }
        let counts = |found: &Found| Progress { busy_ms: BTreeMap::new(), ..found.progress.clone() };
        if counts(found) != counts(expected) {
            let (found, expected) = (counts(found), counts(expected));
            self.different.push(format!("{session}: the counts: found {found:?}, expected {expected:?}"));
        }
        if found.exported != expected.exported || found.exported.len() < 2 {
            let names: Vec<_> = found.exported.keys().chain(expected.exported.keys()).collect();
            self.different.push(format!("{session}: the exported bytes, of {names:?}"));
        }
    }
}
