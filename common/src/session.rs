//! A tuning campaign.

mod previous;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

use crate::digest::Digest;
use crate::method::Method;
use crate::target::Target;
use crate::wire::{Body, Message, WireError};

/// A step of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Finds the best params of each solver.
    Perf,
    /// Times the best of every solver, and what may be faster, against each other, interleaved.
    Find,
}

impl Stage {
    /// All stages, in the order they run.
    pub const ALL: [Self; 2] = [Self::Perf, Self::Find];

    /// As in keys, JSON and the label `stage`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Perf => "perf",
            Self::Find => "find",
        }
    }
}

/// Name of a session: 1 to 64 of `A-Z a-z 0-9 . _ -`, because it becomes part of keys and file names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionName(String);

impl SessionName {
    /// 1 to 64 characters that are safe in keys and file names.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that can not name a session.
#[derive(Debug, thiserror::Error)]
#[error("session name: found {found:?}, expected 1 to 64 of A-Z a-z 0-9 . _ -")]
pub struct InvalidSessionName {
    found: String,
}

impl FromStr for SessionName {
    type Err = InvalidSessionName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.to_string().try_into()
    }
}

impl TryFrom<String> for SessionName {
    type Error = InvalidSessionName;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        if text.is_empty() || text.len() > 64 || !plain || text.starts_with('.') {
            return Err(InvalidSessionName { found: text.chars().take(80).collect() });
        }
        Ok(Self(text))
    }
}

impl From<SessionName> for String {
    fn from(name: SessionName) -> Self {
        name.0
    }
}

/// What a session is. What shapes its results beyond this (compiler versions, the device) is pinned in the Store by the
/// first worker that serves it: see [`crate::store::Store::pin`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Part of every job's id, so that no two sessions share a job.
    pub name: SessionName,
    /// The device class that all of its jobs are for.
    pub target: Target,
    /// Why it was made, in its maker's words.
    pub label: String,
    /// The stages that it runs, in order.
    pub stages: Vec<Stage>,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Whose solvers it tunes, and how.
    #[serde(rename = "tuner")]
    pub method: Method,
    /// The most that eval workers spend on it, and what bounds MIOpen's own searches.
    pub budget: Budget,
    /// Environment variables of MIOpen's tools, by name: find mode, algorithms that are switched off.
    pub environment: BTreeMap<String, String>,
    /// How the next candidates follow from the outcomes of those before. `None`: all are planned at once, in a fixed order,
    /// as many as the producer is told.
    pub search: Option<SearchPlan>,
    /// The blob of winners of earlier work that first rounds begin with. `None`: they begin with defaults alone.
    #[serde(serialize_with = "as_text")]
    pub priors: Option<Digest>,
}

/// A digest as people and scripts see it, where they do.
fn as_text<S: Serializer>(digest: &Option<Digest>, serializer: S) -> Result<S::Ok, S::Error> {
    if serializer.is_human_readable() {
        return digest.map(|digest| digest.to_string()).serialize(serializer);
    }
    digest.serialize(serializer)
}

/// A search in rounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchPlan {
    /// Name of the strategy.
    pub strategy: String,
    /// Candidates of each solver that it may try for a problem; 0: as many as the largest budget that was asked for it.
    pub candidates: u64,
    /// Another one gives another search.
    pub seed: u64,
    /// What the strategy has options for, by name.
    pub options: BTreeMap<String, String>,
    /// The search of a solver stops where it expects to gain less than this, in hundredths of a percent; 0: it does not stop by itself.
    pub patience: u32,
}

/// `bayes:16, seed 7, length=0.5, patience 1%`.
impl fmt::Display for SearchPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { strategy, candidates, seed, options, patience } = self;
        match candidates {
            0 => write!(f, "{strategy}, seed {seed}")?,
            _ => write!(f, "{strategy}:{candidates}, seed {seed}")?,
        }
        options.iter().try_for_each(|(name, value)| write!(f, ", {name}={value}"))?;
        if *patience == 0 { Ok(()) } else { write!(f, ", patience {}%", self.patience_percent()) }
    }
}

impl SearchPlan {
    /// A search by `strategy` of up to `candidates` of each solver.
    #[must_use]
    pub fn new(strategy: &str, candidates: u64) -> Self {
        Self { strategy: strategy.to_string(), candidates, seed: 0, options: BTreeMap::new(), patience: 0 }
    }

    /// Its patience in percent.
    #[must_use]
    pub fn patience_percent(&self) -> f64 {
        f64::from(self.patience) / 100.0
    }
}

impl Session {
    /// A session of kernel specs, with no limits.
    #[must_use]
    pub fn of_kernels(name: SessionName, target: Target, label: &str, stages: &[Stage], created_ms: u64) -> Self {
        Self {
            name,
            target,
            label: label.to_string(),
            stages: stages.to_vec(),
            created_ms,
            method: Method::KERNELS,
            budget: Budget::default(),
            environment: BTreeMap::new(),
            search: None,
            priors: None,
        }
    }

    /// Its search in words.
    #[must_use]
    pub fn search_text(&self) -> String {
        self.search.as_ref().map_or_else(|| "none".to_string(), ToString::to_string)
    }

    /// What its first rounds begin with, in words.
    #[must_use]
    pub fn priors_text(&self) -> String {
        self.priors.map_or_else(|| "defaults".to_string(), |blob| format!("winners {}", blob.short()))
    }

    /// Whether jobs may follow from the outcomes of a group: another round, a find job. Otherwise all are planned at once.
    #[must_use]
    pub fn has_follow_ups(&self) -> bool {
        self.search.is_some() || self.stages.contains(&Stage::Find)
    }
}

impl Message for Session {
    const KIND: u8 = 4;
    const VERSION: u8 = 2;
    const NAME: &'static str = "session";

    fn of_previous(version: u8, body: &mut Body<'_>) -> Option<Result<Self, WireError>> {
        (version == 1).then(|| body.read::<Self, previous::Session>().map(Self::from))
    }
}

/// What a session may spend. `None`: no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Time of an eval worker for one solver of one problem, in milliseconds. What runs longer is ended.
    pub solver_ms: Option<u64>,
    /// The same for all solvers of a problem. What is left when it is spent is not begun.
    pub problem_ms: Option<u64>,
    /// The same for the session.
    pub session_ms: Option<u64>,
    /// `MIOPEN_TUNING_TIME_MS_MAX`: one search of MIOpen's.
    pub tuning_time_ms: Option<u64>,
    /// `MIOPEN_TUNING_PATIENCE`: candidates in a row without improvement after which MIOpen's search ends.
    pub tuning_patience: Option<u64>,
    /// `MIOPEN_DEBUG_TUNING_ITERATIONS_MAX`: candidates that MIOpen's search tries.
    pub tuning_iterations: Option<u64>,
}

/// What a session's results depend on, as its first workers pinned it: `toolchain.cc` → version, `device.host` → model.
pub type Pins = BTreeMap<String, String>;
