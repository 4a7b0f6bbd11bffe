//! What can go wrong with releases.

use std::path::PathBuf;

use bluefin_common::digest::Digest;
use bluefin_common::files::FileError;
use bluefin_common::session::SessionName;
use bluefin_common::store::StoreError;
use bluefin_common::target::Target;
use bluefin_common::wire::WireError;
use bluefin_miopen::db::{ReadError, WriteError};

use super::ReleaseName;
use crate::db::DbError;
use crate::error::ExportError;

/// Why nothing was done with a release.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Export(#[from] ExportError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Database(#[from] DbError),
    #[error("{name}: {source}")]
    Write { name: String, source: WriteError },
    #[error("release {name}: {source}")]
    Record { name: String, source: WireError },
    #[error("release {name}: its record was changed: found {found}, expected {expected} as its digest")]
    Changed { name: String, found: Digest, expected: Digest },
    #[error("release {name}: not in the store, {known}")]
    NoRelease {
        name: ReleaseName,
        /// The releases that are there, for people.
        known: String,
    },
    #[error("{name}: neither a release of the store nor a folder")]
    NoBase { name: String },
    #[error(
        "release {name}: there is one of that name, with other content; a release never changes, take another name"
    )]
    Taken { name: ReleaseName },
    #[error("release {name}: {part}: not in the store")]
    Lost { name: ReleaseName, part: String },
    #[error("{what}: found target {found}, expected {expected}")]
    Target { what: String, found: Target, expected: Target },
    #[error(
        "session {name}: {unfinished} of {groups} problems are not finished; wait for them, or release what is there with --partial"
    )]
    Unfinished { name: SessionName, unfinished: u64, groups: u64 },
    #[error("nothing to release: {reason}")]
    Nothing { reason: String },
    #[error("channel {channel}: {reason}")]
    Channel { channel: ReleaseName, reason: String },
    #[error("{}: holds no database for {target}, expected one such as {expected}", folder.display())]
    NoDatabase { folder: PathBuf, target: Target, expected: String },
}
