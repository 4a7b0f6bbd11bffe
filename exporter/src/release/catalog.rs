//! The releases of a store: found, claimed, exported, verified; and the channels that point to them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use bluefin_common::clock::now_ms;
use bluefin_common::digest::Digest;
use bluefin_common::files::{FileError, FileSet};
use bluefin_common::shelf;
use bluefin_common::store::{Store, StoreError};
use bluefin_common::target::Target;
use bluefin_common::wire;
use serde::Serialize;

use super::databases::{Loaded, find_files};
use super::{Base, Manifest, Move, Reason, Record, ReleaseError, ReleaseName};

/// Digits of a step, so that keys sort as numbers do.
const STEP_DIGITS: usize = 9;

/// Releases and channels of a store.
#[derive(Clone, Copy)]
pub struct Catalog<'a> {
    store: &'a dyn Store,
}

/// What verifying a release found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verified {
    pub name: ReleaseName,
    pub files: usize,
    /// Bytes read.
    pub size: u64,
    pub findings: Vec<String>,
}

impl<'a> Catalog<'a> {
    #[must_use]
    pub fn new(store: &'a dyn Store) -> Self {
        Self { store }
    }

    /// All releases, oldest first.
    ///
    /// # Errors
    /// If the store fails or holds a record that was changed.
    pub async fn list(&self) -> Result<Vec<Manifest>, ReleaseError> {
        let mut manifests = Vec::new();
        for (name, bytes) in self.store.records(shelf::RELEASES).await? {
            manifests.push(decode(&name, &bytes)?);
        }
        manifests.sort_by(|a, b| (a.created_ms, &a.name).cmp(&(b.created_ms, &b.name)));
        Ok(manifests)
    }

    /// The release of this name.
    ///
    /// # Errors
    /// As for [`Self::list`].
    pub async fn find(&self, name: &ReleaseName) -> Result<Option<Manifest>, ReleaseError> {
        let mut found = self.store.records_of(shelf::RELEASES, &[name.to_string()]).await?;
        let Some(bytes) = found.pop().flatten() else { return Ok(None) };
        Ok(Some(decode(name.as_str(), &bytes)?))
    }

    /// The release of this name, which must be there.
    ///
    /// # Errors
    /// As for [`Self::list`], or if there is none.
    pub async fn get(&self, name: &ReleaseName) -> Result<Manifest, ReleaseError> {
        if let Some(manifest) = self.find(name).await? {
            return Ok(manifest);
        }
        let names: Vec<String> = self.store.records(shelf::RELEASES).await?.into_iter().map(|(name, _)| name).collect();
        let known = match names.as_slice() {
            [] => "which holds no release".to_string(),
            names => format!("which holds {}", names.join(", ")),
        };
        Err(ReleaseError::NoRelease { name: name.clone(), known })
    }

    /// Puts the release into the store, at once. Returns the one that is there now, and whether it is this one.
    pub(super) async fn claim(&self, manifest: Manifest) -> Result<(Manifest, bool), ReleaseError> {
        let name = manifest.name.clone();
        let record = Record::Release { digest: manifest.digest(), manifest: manifest.clone() };
        let bytes = encode(name.as_str(), &record)?;
        let stored = self.store.claim_record(shelf::RELEASES, name.as_str(), &bytes).await?;
        if stored == bytes {
            return Ok((manifest, true));
        }
        let known = decode(name.as_str(), &stored)?;
        if known.is_like(&manifest) { Ok((known, false)) } else { Err(ReleaseError::Taken { name }) }
    }

    /// Writes the files of a release to `folder`. The same release gives the same bytes.
    ///
    /// # Errors
    /// If the store fails or has lost a part, or a file can not be written; no file is half-written then.
    pub async fn export(&self, manifest: &Manifest, folder: &Path) -> Result<Vec<(PathBuf, u64)>, ReleaseError> {
        let mut files = FileSet::new(folder)?;
        for file in &manifest.files {
            let path = files.add(&file.name)?;
            let mut out = std::fs::OpenOptions::new().write(true).open(&path).map_err(FileError::at(&path))?;
            for part in &file.parts {
                let bytes = self.part(manifest, &file.name, *part).await?;
                out.write_all(&bytes).map_err(FileError::at(&path))?;
            }
            let found = super::databases::digest(&path)?;
            if found != file.digest {
                let name = format!("{}: {}", manifest.name, file.name);
                return Err(ReleaseError::Changed { name, found, expected: file.digest });
            }
        }
        Ok(files.commit()?)
    }

    async fn part(&self, manifest: &Manifest, file: &str, part: Digest) -> Result<Vec<u8>, ReleaseError> {
        self.store
            .blob(part)
            .await?
            .ok_or_else(|| ReleaseError::Lost { name: manifest.name.clone(), part: format!("{file}: part {part}") })
    }

    /// Reads a release back whole: its record, its files, what is in them, and what it was made from.
    ///
    /// # Errors
    /// If the store can not be reached. What is wrong with the release is a finding.
    pub async fn verify(&self, manifest: &Manifest) -> Result<Verified, ReleaseError> {
        let mut findings = Vec::new();
        if let Some(Base::Release { name, digest }) = &manifest.base {
            match self.find(name).await {
                Ok(Some(base)) if base.digest() == *digest => {}
                Ok(Some(base)) => {
                    findings.push(format!("base {name}: found digest {}, expected {digest}", base.digest()))
                }
                Ok(None) => findings.push(format!("base {name}: not in the store")),
                Err(error) => findings.push(transient(error)?),
            }
        }
        let folder = tempfile::tempdir().map_err(FileError::at(&std::env::temp_dir()))?;
        match self.export(manifest, folder.path()).await {
            Ok(_) => {
                let of = manifest.target.clone();
                let read = move || Loaded::read(&find_files(folder.path(), &of)?);
                let loaded = tokio::task::spawn_blocking(read).await.map_err(crate::ExportError::from)?;
                findings.extend(loaded.map_or_else(|error| vec![error.to_string()], |loaded| loaded.warnings));
            }
            Err(error) => findings.push(transient(error)?),
        }
        let size = manifest.files.iter().map(|file| file.size).sum();
        Ok(Verified { name: manifest.name.clone(), files: manifest.files.len(), size, findings })
    }

    /// Every step of every channel, by channel and target, oldest first.
    ///
    /// # Errors
    /// If the store fails or holds a record that does not decode.
    pub async fn channels(&self) -> Result<BTreeMap<(ReleaseName, Target), Vec<Move>>, ReleaseError> {
        let mut channels: BTreeMap<_, Vec<Move>> = BTreeMap::new();
        for (key, bytes) in self.store.records(shelf::CHANNELS).await? {
            let step = decode_move(&key, &bytes)?;
            channels.entry((step.channel.clone(), step.target.clone())).or_default().push(step);
        }
        for steps in channels.values_mut() {
            steps.sort_by_key(|step| step.step);
        }
        Ok(channels)
    }

    /// Where a channel is. Without a target it must be the channel of one target alone.
    ///
    /// # Errors
    /// As for [`Self::channels`], or if there is no such channel.
    pub async fn steps(&self, channel: &ReleaseName, target: Option<&Target>) -> Result<Vec<Move>, ReleaseError> {
        let all = self.channels().await?;
        let failed = |reason| ReleaseError::Channel { channel: channel.clone(), reason };
        let mut fitting: Vec<Vec<Move>> = all
            .into_iter()
            .filter(|((name, of), _)| name == channel && target.is_none_or(|target| target == of))
            .map(|(_, steps)| steps)
            .collect();
        match (fitting.pop(), fitting.len()) {
            (Some(steps), 0) => Ok(steps),
            (None, _) => Err(failed("points to no release".to_string())),
            (Some(_), others) => Err(failed(format!("points to releases of {} targets, name one", others + 1))),
        }
    }

    /// Lets `channel` point to a release, unless it does.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn move_channel(
        &self,
        channel: &ReleaseName,
        release: &Manifest,
        reason: Reason,
    ) -> Result<Move, ReleaseError> {
        let mut step = 1;
        if let Some(last) =
            self.channels().await?.get(&(channel.clone(), release.target.clone())).and_then(|all| all.last())
        {
            if last.release == release.name {
                return Ok(last.clone());
            }
            step = last.step + 1;
        }
        loop {
            let wanted = Move {
                channel: channel.clone(),
                target: release.target.clone(),
                step,
                release: release.name.clone(),
                reason,
                moved_ms: now_ms(),
            };
            let key = format!("{channel}@{}#{step:0STEP_DIGITS$}", release.target);
            let bytes = encode(&key, &Record::Move(wanted.clone()))?;
            let stored = self.store.claim_record(shelf::CHANNELS, &key, &bytes).await?;
            if stored == bytes {
                return Ok(wanted);
            }
            // Somebody else moved it at the same time: this one comes after.
            step += 1;
        }
    }

    /// Points a channel back to a release that it pointed to before: to `to`, or to the one before the present one.
    ///
    /// # Errors
    /// If the store fails, or the channel never pointed there.
    pub async fn roll_back(
        &self,
        channel: &ReleaseName,
        target: Option<&Target>,
        to: Option<&ReleaseName>,
    ) -> Result<Move, ReleaseError> {
        let steps = self.steps(channel, target).await?;
        let failed = |reason| ReleaseError::Channel { channel: channel.clone(), reason };
        let to = match to {
            Some(to) if steps.iter().any(|step| step.release == *to) => to.clone(),
            Some(to) => return Err(failed(format!("never pointed to {to}"))),
            None => previous(&steps).ok_or_else(|| failed("pointed to no other release before".to_string()))?,
        };
        let manifest = self.get(&to).await?;
        self.move_channel(channel, &manifest, Reason::RolledBack).await
    }
}

/// The release that was left for the present one, and not by a rollback from the other side: two rollbacks in a row go two
/// releases back.
fn previous(steps: &[Move]) -> Option<ReleaseName> {
    let mut line: Vec<&ReleaseName> = Vec::new();
    for step in steps {
        match step.reason {
            Reason::Created => line.push(&step.release),
            Reason::RolledBack => {
                let at = line.iter().rposition(|release| **release == step.release).unwrap_or(0);
                line.truncate(at + 1);
            }
        }
    }
    line.pop()?;
    line.pop().cloned()
}

/// The text of an error that says something about the release; one that says something about the store alone is returned.
fn transient(error: ReleaseError) -> Result<String, ReleaseError> {
    match error {
        ReleaseError::Store(StoreError::Tampered { .. }) => Ok(error.to_string()),
        ReleaseError::Store(_) | ReleaseError::File(_) => Err(error),
        other => Ok(other.to_string()),
    }
}

fn encode(name: &str, record: &Record) -> Result<Vec<u8>, ReleaseError> {
    wire::encode(record).map_err(|source| ReleaseError::Record { name: name.to_string(), source })
}

fn record(name: &str, bytes: &[u8]) -> Result<Record, ReleaseError> {
    wire::decode(bytes).map_err(|source| ReleaseError::Record { name: name.to_string(), source })
}

fn decode(name: &str, bytes: &[u8]) -> Result<Manifest, ReleaseError> {
    match record(name, bytes)? {
        Record::Release { manifest, digest } if manifest.digest() == digest && manifest.name.as_str() == name => {
            Ok(manifest)
        }
        Record::Release { manifest, digest } => {
            Err(ReleaseError::Changed { name: name.to_string(), found: manifest.digest(), expected: digest })
        }
        Record::Move(_) => Err(misplaced(name)),
    }
}

fn decode_move(key: &str, bytes: &[u8]) -> Result<Move, ReleaseError> {
    match record(key, bytes)? {
        Record::Move(step) => Ok(step),
        Record::Release { .. } => Err(misplaced(key)),
    }
}

fn misplaced(name: &str) -> ReleaseError {
    let source = wire::WireError::Body { expected: "release", position: 0, reason: "a record of another shelf".into() };
    ReleaseError::Record { name: name.to_string(), source }
}
