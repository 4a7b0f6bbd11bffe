//! Which of two entries stands when databases are merged.

use std::fmt;
use std::str::FromStr;

use bluefin_miopen::db::find_db::FindEntry;

/// Which of two entries for the same thing stands. Databases are taken in the order in which they are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Of each key and solver (of each kernel, in a kernel db) the one of the later file.
    Newest,
    /// Of each key and solver the one with less time; of equals the earlier.
    Fastest,
    /// Of each key all that the later file has, and nothing that an earlier one had.
    Replace,
    /// The keys of the first file alone, with the solvers of all files; of each solver the one of the later file.
    KeepKeys,
}

impl Policy {
    pub const ALL: [Self; 4] = [Self::Newest, Self::Fastest, Self::Replace, Self::KeepKeys];

    /// As it is written on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::Fastest => "fastest",
            Self::Replace => "replace",
            Self::KeepKeys => "keep-keys",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == text);
        found.ok_or_else(|| "expected newest, fastest, replace or keep-keys".to_string())
    }
}

/// Merges what a `newer` database has for a key into what is there; `entry` tells the entry of an item. Returns whether entries
/// came in among others, so that they may be out of order.
pub(crate) fn merge_entries<T>(
    policy: Policy,
    have: &mut Vec<T>,
    newer: Vec<T>,
    entry: impl Fn(&T) -> &FindEntry,
) -> bool {
    // What reads as a miss replaces nothing.
    if newer.is_empty() {
        return false;
    }
    if policy == Policy::Replace {
        *have = newer;
        return false;
    }
    let mut changed = false;
    for new in newer {
        match have.iter_mut().find(|old| entry(old).solver == entry(&new).solver) {
            None => {
                have.push(new);
                changed = true;
            }
            Some(old) => {
                let stands = policy == Policy::Fastest && !is_faster(entry(&new).time_ms, entry(old).time_ms);
                if !stands && entry(old) != entry(&new) {
                    *old = new;
                    changed = true;
                }
            }
        }
    }
    changed
}

/// Whether the first of two times is the better one. What is not positive is no measurement.
pub(crate) fn is_faster(new_ms: f32, old_ms: f32) -> bool {
    new_ms > 0.0 && (old_ms <= 0.0 || old_ms.is_nan() || new_ms < old_ms)
}
