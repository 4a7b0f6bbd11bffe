//! Releases: the best databases known at a time, kept for good under a name.
//!
//! A release never changes. Its manifest names its files by their digests, says what it was made of, and has a digest of its
//! own, which the releases made from it name in turn. Files are blobs of the store; the manifest is one record, which is put
//! there last and at once: a command that dies before leaves no release, only blobs that nothing names.

mod catalog;
mod create;
mod databases;
mod error;
mod merge;

pub use catalog::{Catalog, Verified};
pub use create::{CreateRequest, Created, create};
pub use databases::Databases;
pub use error::ReleaseError;
pub use merge::{Contribution, Merged, Policy, merge};

use bluefin_common::digest::{self, Digest};
use bluefin_common::session::SessionName;
use bluefin_common::target::Target;
use bluefin_common::wire::Message;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Name of a release or a channel. The rule is that of session names.
pub type ReleaseName = SessionName;

/// What a release is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub name: ReleaseName,
    pub target: Target,
    pub policy: Policy,
    /// What it was made from, first the base; releases, folders or none.
    pub base: Option<Base>,
    /// In the order in which they were merged.
    pub sessions: Vec<SessionName>,
    /// Why it was made, in its maker's words.
    pub note: String,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// By name.
    pub files: Vec<ReleaseFile>,
}

/// What a release was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Base {
    /// Another one, with the digest of its manifest.
    Release { name: ReleaseName, digest: Digest },
    /// Files that were not made here, by name and digest.
    Files(Vec<(String, Digest)>),
}

/// One database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseFile {
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Of the whole file.
    pub digest: Digest,
    /// Keys of a find db, rows of the others.
    pub records: u64,
    /// The blobs that it is made of, in their order.
    pub parts: Vec<Digest>,
}

impl Manifest {
    /// Digest of everything that the manifest says.
    #[must_use]
    pub fn digest(&self) -> Digest {
        // It serializes without maps and floats: there is one way to write it, and none to fail.
        let mut written = serde_json::to_value(self).unwrap_or_default();
        // As targets were written when the first releases were made.
        let target = match &self.target {
            Target::Host => json!("Host"),
            Target::Gpu { arch, cus } => json!({ "Gpu": { "arch": arch, "cus": cus } }),
        };
        if let Some(fields) = written.as_object_mut() {
            fields.insert("target".to_string(), target);
        }
        let bytes = serde_json::to_vec(&written).unwrap_or_default();
        Digest::of_parts(digest::RELEASE, [bytes.as_slice()])
    }

    /// Whether both say the same, though at another time.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        Self { created_ms: other.created_ms, ..self.clone() } == *other
    }
}

/// What the store holds of releases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    Release {
        manifest: Manifest,
        /// [`Manifest::digest`], so that a changed record is noticed.
        digest: Digest,
    },
    Move(Move),
}

impl Message for Record {
    const KIND: u8 = 10;
    const VERSION: u8 = 1;
    const NAME: &'static str = "release";
}

/// A channel's step to another release. The last one says where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    pub channel: ReleaseName,
    pub target: Target,
    /// Counted from 1.
    pub step: u64,
    pub release: ReleaseName,
    pub reason: Reason,
    /// Milliseconds since the Unix epoch.
    pub moved_ms: u64,
}

/// Why a channel moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    Created,
    RolledBack,
}
