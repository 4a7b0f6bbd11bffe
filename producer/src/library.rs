//! The problem library: problems by tag, kept in the Store, so that sessions can be planned from them. What is on which shelf
//! is in [`bluefin_common::shelf`].

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use bluefin_common::problem::Problem;
use bluefin_common::session::SessionName;
use bluefin_common::shelf;
use bluefin_common::store::{Store, StoreError};
use bluefin_common::suggest;
use bluefin_common::wire::{self, Message, WireError};
use serde::{Deserialize, Serialize};

use crate::input::ProblemList;

/// Records that travel in one call.
const CHUNK: usize = 2000;

/// Name of a list of problems; what a session may be called, a tag may be called.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TagName(SessionName);

impl TagName {
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for TagName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that can not be a tag.
#[derive(Debug, thiserror::Error)]
#[error("tag: found {found:?}, expected 1 to 64 of A-Z a-z 0-9 . _ -")]
pub struct InvalidTag {
    found: String,
}

impl FromStr for TagName {
    type Err = InvalidTag;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self).map_err(|_| InvalidTag { found: text.chars().take(80).collect() })
    }
}

/// A tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// Its problems are of a model that is tuned again with every release (MITuna's `--mark_recurrent`).
    pub recurrent: bool,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
}

/// A problem of a tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tagged {
    pub problem: Problem,
    /// How often the input that asks for it most asks for it.
    pub count: u64,
    /// Where it was met first: `resnet50.txt:3`.
    pub source: String,
}

/// What is on the shelves of the library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LibraryRecord {
    Tag(Tag),
    Problem(Tagged),
}

impl Message for LibraryRecord {
    const KIND: u8 = 7;
    const VERSION: u8 = 1;
    const NAME: &'static str = "library record";
}

/// Why the library can not give or take something.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{shelf}: {key}: {source}")]
    Corrupt { shelf: String, key: String, source: WireError },
    #[error("{shelf}: {key}: found another kind of record")]
    Kind { shelf: String, key: String },
    #[error(transparent)]
    Encode(#[from] WireError),
    #[error("tag {name}: there is none of that name; {instead}; bluefin problems import -t {name} -f FILE makes it")]
    NoTag {
        name: String,
        /// The tag that may have been meant, or those that are there, for people.
        instead: String,
    },
}

impl LibraryError {
    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) => error.is_transient(),
            Self::Corrupt { .. } | Self::Kind { .. } | Self::Encode(_) | Self::NoTag { .. } => false,
        }
    }
}

/// How problems are added to a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddOptions {
    /// Marks the tag.
    pub recurrent: bool,
    /// Only problems that another tag or this one has already.
    pub known_only: bool,
    /// Milliseconds since the Unix epoch.
    pub now_ms: u64,
}

/// What came of adding problems to a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Added {
    /// Problems that the tag did not have.
    pub new: u64,
    /// Problems that it had.
    pub present: u64,
    /// Problems left out because no tag has them.
    pub unknown: u64,
}

/// The problem library in a store.
#[derive(Clone, Copy)]
pub struct Library<'a> {
    store: &'a dyn Store,
}

impl<'a> Library<'a> {
    #[must_use]
    pub fn new(store: &'a dyn Store) -> Self {
        Self { store }
    }

    /// Adds the problems of `list` to `tag`. Adding the same list again changes nothing.
    ///
    /// # Errors
    /// If the store fails; the same call continues.
    pub async fn add(&self, tag: &TagName, list: &ProblemList, options: AddOptions) -> Result<Added, LibraryError> {
        let record =
            wire::encode(&LibraryRecord::Tag(Tag { recurrent: options.recurrent, created_ms: options.now_ms }))?;
        let stored = self.store.claim_record(shelf::TAGS, tag.as_str(), &record).await?;
        let stored = tag_of(tag.as_str(), &stored)?;
        if options.recurrent && !stored.recurrent {
            let record = wire::encode(&LibraryRecord::Tag(Tag { recurrent: true, ..stored }))?;
            self.store.put_records(shelf::TAGS, &[(tag.to_string(), record)]).await?;
        }
        let shelf = shelf::tagged(tag.as_str());
        let mut added = Added::default();
        for sourced in list.problems.chunks(CHUNK) {
            let keys: Vec<String> = sourced.iter().map(|one| one.problem.digest().to_string()).collect();
            let present = self.store.records_of(&shelf, &keys).await?;
            let known = if options.known_only { self.known(&keys).await? } else { HashSet::new() };
            let mut records = Vec::new();
            for ((one, key), present) in sourced.iter().zip(keys).zip(present) {
                let count = one.count as u64;
                let tagged = match present {
                    Some(bytes) => {
                        added.present += 1;
                        let tagged = problem_of(&shelf, &key, &bytes)?;
                        if tagged.count >= count {
                            continue;
                        }
                        Tagged { count, ..tagged }
                    }
                    None if options.known_only && !known.contains(&key) => {
                        added.unknown += 1;
                        continue;
                    }
                    None => {
                        added.new += 1;
                        let source = format!("{}:{}", list.name, one.line);
                        Tagged { problem: one.problem.clone(), count, source }
                    }
                };
                records.push((key, wire::encode(&LibraryRecord::Problem(tagged))?));
            }
            self.store.put_records(&shelf, &records).await?;
        }
        Ok(added)
    }

    /// All tags, by name.
    ///
    /// # Errors
    /// If the store fails or a record does not decode.
    pub async fn tags(&self) -> Result<Vec<(String, Tag)>, LibraryError> {
        let records = self.store.records(shelf::TAGS).await?;
        records.into_iter().map(|(name, bytes)| Ok((name.clone(), tag_of(&name, &bytes)?))).collect()
    }

    /// The problems of `tag`, by their digests.
    ///
    /// # Errors
    /// If there is no such tag, the store fails or a record does not decode.
    pub async fn problems(&self, tag: &TagName) -> Result<Vec<Tagged>, LibraryError> {
        self.tag(tag).await?;
        let shelf = shelf::tagged(tag.as_str());
        let records = self.store.records(&shelf).await?;
        records.iter().map(|(key, bytes)| problem_of(&shelf, key, bytes)).collect()
    }

    /// The tag of that name.
    ///
    /// # Errors
    /// If there is none, or the store fails.
    pub async fn tag(&self, tag: &TagName) -> Result<Tag, LibraryError> {
        let found = self.store.records_of(shelf::TAGS, &[tag.to_string()]).await?;
        let Some(bytes) = found.into_iter().flatten().next() else {
            let all = self.store.records(shelf::TAGS).await?;
            let instead = suggest::instead(tag.as_str(), all.iter().map(|(name, _)| name.as_str()));
            return Err(LibraryError::NoTag { name: tag.to_string(), instead });
        };
        tag_of(tag.as_str(), &bytes)
    }

    /// Removes `tag`; returns how many problems it had. Sessions that were planned from it keep their jobs.
    ///
    /// # Errors
    /// If there is no such tag, or the store fails.
    pub async fn remove(&self, tag: &TagName) -> Result<u64, LibraryError> {
        self.tag(tag).await?;
        let shelf = shelf::tagged(tag.as_str());
        let keys: Vec<String> = self.store.records(&shelf).await?.into_iter().map(|(key, _)| key).collect();
        for keys in keys.chunks(CHUNK) {
            self.store.remove_records(&shelf, keys).await?;
        }
        // Last, so that a crash in between leaves a tag that can be removed again.
        self.store.remove_records(shelf::TAGS, &[tag.to_string()]).await?;
        Ok(keys.len() as u64)
    }

    /// Which of `keys` any tag has.
    async fn known(&self, keys: &[String]) -> Result<HashSet<String>, LibraryError> {
        let mut known = HashSet::new();
        for (name, _) in self.tags().await? {
            let found = self.store.records_of(&shelf::tagged(&name), keys).await?;
            known.extend(keys.iter().zip(found).filter(|(_, found)| found.is_some()).map(|(key, _)| key.clone()));
        }
        Ok(known)
    }
}

fn tag_of(key: &str, bytes: &[u8]) -> Result<Tag, LibraryError> {
    match decode(shelf::TAGS, key, bytes)? {
        LibraryRecord::Tag(tag) => Ok(tag),
        LibraryRecord::Problem(_) => Err(LibraryError::Kind { shelf: shelf::TAGS.to_string(), key: key.to_string() }),
    }
}

fn problem_of(shelf: &str, key: &str, bytes: &[u8]) -> Result<Tagged, LibraryError> {
    match decode(shelf, key, bytes)? {
        LibraryRecord::Problem(tagged) => Ok(tagged),
        LibraryRecord::Tag(_) => Err(LibraryError::Kind { shelf: shelf.to_string(), key: key.to_string() }),
    }
}

fn decode(shelf: &str, key: &str, bytes: &[u8]) -> Result<LibraryRecord, LibraryError> {
    let corrupt = |source| LibraryError::Corrupt { shelf: shelf.to_string(), key: key.to_string(), source };
    wire::decode(bytes).map_err(corrupt)
}
