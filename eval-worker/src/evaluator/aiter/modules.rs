//! The kernels of a family, which aiter builds when the family's tuner runs for the first time. That takes minutes: one host does it,
//! and the others take what it built from the store.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bluefin_aiter::Family;
use bluefin_common::artifact::ArtifactRef;
use bluefin_common::child_file;
use bluefin_common::clock::now_ms;
use bluefin_common::delivery::Halt;
use bluefin_common::digest::{self, Digest};
use bluefin_common::shelf::MODULES;
use bluefin_common::store::StoreError;
use serde::{Deserialize, Serialize};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::evaluator::assignment::Assignment;
use crate::evaluator::stop::Stop;

/// The variable that says where aiter looks for its modules, and puts what it builds.
pub(super) const MODULE_FOLDER: &str = "AITER_JIT_DIR";
/// Between two looks at whether another host has come to its end, and what a job is kept for it at most before it is handed back.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const WAIT: Duration = Duration::from_secs(600);
/// Before it is offered again.
const AGAIN: Duration = Duration::from_secs(25);
/// Between two signs of whoever builds.
const SIGN_EVERY: Duration = Duration::from_secs(60);
/// Without one for this long somebody else builds. Clocks of two hosts may differ by less.
const STALE_MS: u64 = 5 * 60_000;
/// Bytes of a module that is shared; Redis takes values of twice that.
const LARGEST: u64 = 256 << 20;

/// What the store says of the modules of a family.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
enum Record {
    /// Somebody builds them.
    Building {
        /// Tells whoever it is from others.
        by: u64,
        /// When it was last seen, in milliseconds since the Unix epoch.
        seen_ms: u64,
    },
    /// They are in the cache, for as long as that keeps them.
    Built {
        /// The record's key: under another one it is no record.
        key: String,
        files: Vec<Module>,
    },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Module {
    file: String,
    artifact: ArtifactRef,
}

impl Record {
    /// `None`: of another release, of another key, or damaged.
    fn read(key: &str, bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes)
            .ok()
            .filter(|record| !matches!(record, Self::Built { key: own, .. } if own != key))
    }

    fn bytes(&self) -> Vec<u8> {
        // It has no map whose keys are not text, which is what could fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// The modules of one aiter on this host.
pub(super) struct Modules {
    /// Where aiter has them.
    folder: PathBuf,
    /// What they depend on but for the family. `None`: not known, and so of no use to others.
    basis: Option<String>,
    /// Families of which nothing is missing.
    ready: Mutex<BTreeSet<&'static str>>,
}

impl Modules {
    /// Of the aiter in `root`: in [`MODULE_FOLDER`], where that is set.
    pub(super) fn new(root: &Path, basis: Option<String>) -> Self {
        let folder = std::env::var_os(MODULE_FOLDER).map_or_else(|| root.join("aiter/jit"), PathBuf::from);
        Self { folder, basis, ready: Mutex::default() }
    }

    /// Where aiter has them.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Waits until the modules of `family` are here, as far as another host has built them, or until it is this one's turn to build
    /// them.
    ///
    /// # Errors
    /// Ends the way of a job that waits for too long, or whose worker drains.
    pub(super) async fn ready(
        &self,
        assignment: &Assignment<'_>,
        family: &'static Family,
    ) -> Result<Option<Building<'_>>, Stop> {
        let Some(basis) = &self.basis else { return Ok(None) };
        let key = Digest::of_parts(digest::AITER_MODULES, [basis.as_bytes(), family.name.as_bytes()]).to_string();
        let (by, began) = (rand::random(), Instant::now());
        while !self.is_ready(family) {
            let own = Record::Building { by, seen_ms: now_ms() }.bytes();
            let claim = || assignment.store.claim_record(MODULES, &key, &own);
            let building = Building { modules: self, family, key: key.clone(), by, before: self.listed() };
            match Record::read(&key, &assignment.patience.with("read what aiter has built", claim).await?) {
                Some(Record::Built { files, .. }) => {
                    if self.fetch(assignment, &files).await? {
                        self.lock().insert(family.name);
                    } else {
                        building.sign(assignment).await?;
                        return Ok(Some(building));
                    }
                }
                Some(Record::Building { by: other, seen_ms }) if other != by && now_ms() < seen_ms + STALE_MS => {
                    if began.elapsed() > WAIT {
                        let reason = format!("another host builds aiter's kernels of {}", family.name);
                        return Err(Halt::later(AGAIN, reason).into());
                    }
                    tokio::select! {
                        () = sleep(LOOK_EVERY) => {}
                        () = assignment.draining.cancelled() => return Err(Stop::drained()),
                    }
                }
                Some(Record::Building { .. }) | None => {
                    building.sign(assignment).await?;
                    return Ok(Some(building));
                }
            }
        }
        Ok(None)
    }

    fn is_ready(&self, family: &Family) -> bool {
        self.lock().contains(family.name)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<&'static str>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts those of `files` in their places that are not there; whether all could be had.
    async fn fetch(&self, assignment: &Assignment<'_>, files: &[Module]) -> Result<bool, Stop> {
        for Module { file, artifact } in files {
            let path = self.folder.join(file);
            if !is_module(file) || path.exists() {
                continue;
            }
            let get = || async {
                match assignment.store.artifact(*artifact).await {
                    Err(StoreError::Tampered { .. }) => Ok(None),
                    found => found,
                }
            };
            let Some(bytes) = assignment.patience.with("fetch what aiter has built", get).await? else {
                return Ok(false);
            };
            put(&path, &bytes).map_err(|error| Stop::Machine(format!("{}: {error}", path.display())))?;
            tracing::info!(module = file, bytes = bytes.len(), "another host has built it");
        }
        Ok(true)
    }

    /// The modules that are there, each with its size and time.
    fn listed(&self) -> BTreeMap<String, (u64, Option<SystemTime>)> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let described = entries.filter_map(|entry| {
            let (name, data) = (entry.file_name().into_string().ok()?, entry.metadata().ok()?);
            (is_module(&name) && data.is_file()).then(|| (name, (data.len(), data.modified().ok())))
        });
        described.collect()
    }
}

/// The right to build the modules of a family, until it is stale.
pub(super) struct Building<'a> {
    modules: &'a Modules,
    family: &'static Family,
    key: String,
    by: u64,
    before: BTreeMap<String, (u64, Option<SystemTime>)>,
}

impl Building<'_> {
    /// Does `work`, a run of the family's tuner, and shares what it has built if it `succeeded`.
    ///
    /// # Errors
    /// That of `work`, or if the store is away for too long.
    pub(super) async fn during<T>(
        self,
        assignment: &Assignment<'_>,
        work: impl Future<Output = Result<T, Stop>>,
        succeeded: impl Fn(&T) -> bool,
    ) -> Result<T, Stop> {
        let mut signs = interval(SIGN_EVERY);
        signs.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut work = std::pin::pin!(work);
        let result = loop {
            tokio::select! {
                result = &mut work => break result,
                _ = signs.tick() => self.sign(assignment).await?,
            }
        };
        if result.as_ref().is_ok_and(succeeded) {
            self.share(assignment).await?;
        } else if let Err(error) = assignment.store.remove_records(MODULES, std::slice::from_ref(&self.key)).await {
            tracing::debug!(%error, "others wait for aiter's kernels until this is forgotten");
        }
        result
    }

    async fn sign(&self, assignment: &Assignment<'_>) -> Result<(), Stop> {
        self.put(assignment, &Record::Building { by: self.by, seen_ms: now_ms() }).await
    }

    async fn put(&self, assignment: &Assignment<'_>, record: &Record) -> Result<(), Stop> {
        let records = [(self.key.clone(), record.bytes())];
        let put = || assignment.store.put_records(MODULES, &records);
        Ok(assignment.patience.with("say what aiter has built", put).await?)
    }

    async fn share(&self, assignment: &Assignment<'_>) -> Result<(), Stop> {
        let mut files = Vec::new();
        for (file, state) in self.modules.listed() {
            if self.before.get(&file) == Some(&state) {
                continue;
            }
            if state.0 > LARGEST {
                tracing::warn!(
                    module = file,
                    bytes = state.0,
                    largest = LARGEST,
                    "too large to be shared: each host builds it"
                );
                continue;
            }
            let machine = |error: String| Stop::Machine(format!("{}: {error}", self.modules.folder.display()));
            // Whoever runs the worker may have made a link of the folder; what is in it, its tuners made.
            let folder = self.modules.folder.canonicalize().map_err(|error| machine(error.to_string()))?;
            let bytes = child_file::read(&folder, &file, LARGEST).map_err(|error| machine(error.to_string()))?;
            let artifact = assignment.patience.with("share a module", || assignment.store.put_artifact(&bytes)).await?;
            tracing::info!(module = file, bytes = bytes.len(), "built, and shared with other hosts");
            files.push(Module { file, artifact });
        }
        self.put(assignment, &Record::Built { key: self.key.clone(), files }).await?;
        self.modules.lock().insert(self.family.name);
        Ok(())
    }
}

/// Whether a file of this name is a module of aiter's, and in no other folder.
pub(super) fn is_module(name: &str) -> bool {
    name.ends_with(".so") && !name.starts_with('.') && !name.contains('/')
}

/// Puts a file in its place whole: who imports it may be about to.
fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    io::Write::write_all(&mut file, bytes)?;
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o755))?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_modules_is_read_back() {
        let files = vec![Module { file: "module_gemm_a8w8.so".to_string(), artifact: ArtifactRef::of(b"code") }];
        let built = Record::Built { key: "k".to_string(), files };
        assert_eq!(Record::read("l", &built.bytes()), None);
        for record in [Record::Building { by: u64::MAX, seen_ms: 7 }, built] {
            assert_eq!(Record::read("k", &record.bytes()), Some(record));
        }
        assert_eq!(Record::read("k", br#"{"state": "moved"}"#), None);
    }

    #[test]
    fn nothing_is_put_into_other_folders() {
        assert!(is_module("module_gemm_a8w8.so"));
        for name in ["../module.so", "/module.so", ".tmp.so", "module.py", ""] {
            assert!(!is_module(name), "{name}");
        }
    }
}
