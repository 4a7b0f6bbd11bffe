//! Find dbs: for each key the fastest solver before and after.

use std::collections::BTreeMap;
use std::sync::Arc;

use bluefin_miopen::db::find_db::{FindDb, FindEntry};
use serde::Serialize;

/// What became of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Slower,
    Faster,
    /// Within the noise.
    Tied,
    New,
    Gone,
    /// No solver has a positive time, before or after.
    Untimed,
}

impl Change {
    pub const ALL: [Self; 6] = [Self::Faster, Self::Slower, Self::Tied, Self::New, Self::Gone, Self::Untimed];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::Tied => "tied",
            Self::New => "new",
            Self::Gone => "gone",
            Self::Untimed => "untimed",
        }
    }
}

/// The fastest solver of a key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Best {
    pub solver: Arc<str>,
    pub time_ms: f32,
}

/// A key that is not what it was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyChange {
    pub key: String,
    pub change: Change,
    pub before: Option<Best>,
    pub after: Option<Best>,
    /// Time after by time before: 2 is half as fast.
    pub ratio: Option<f64>,
    /// Whether another solver is the fastest.
    pub switched: bool,
}

/// How two find dbs differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FindDiff {
    /// Keys of each change.
    pub counts: BTreeMap<Change, u64>,
    /// Keys whose fastest solver is another, whatever its time.
    pub switched: u64,
    /// Keys that became slower by more than the threshold.
    pub regressions: u64,
    /// Geometric mean over the keys with times in both of how many times faster they are; above 1 is better.
    pub mean_speedup: Option<f64>,
    /// All keys but the ties that kept their solver: the slowest ratio first, then those without one.
    pub keys: Vec<KeyChange>,
}

/// The fastest entry with a time; of equals the first.
fn best(entries: &[FindEntry]) -> Option<Best> {
    let timed = entries.iter().filter(|entry| entry.time_ms > 0.0);
    let fastest = timed.min_by(|a, b| a.time_ms.total_cmp(&b.time_ms))?;
    Some(Best { solver: fastest.solver.clone(), time_ms: fastest.time_ms })
}

/// The entries of a key. One without any is a miss, as if it were not there.
fn entries<'a>(db: &'a FindDb, key: &str) -> &'a [FindEntry] {
    db.records.get(key).map_or(&[], Vec::as_slice)
}

/// Compares two find dbs. Times whose ratio is at most `1 + noise`, either way, are tied.
pub(super) fn diff(before: &FindDb, after: &FindDb, noise: f64, threshold: f64) -> FindDiff {
    let mut diff = FindDiff::default();
    let (mut logs, mut common) = (0.0, 0_u64);
    let mut keys: Vec<&String> = before.records.keys().chain(after.records.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let (old, new) = (entries(before, key), entries(after, key));
        if old.is_empty() && new.is_empty() {
            continue;
        }
        let (a, b) = (best(old), best(new));
        let mut ratio = None;
        let change = match (&a, &b) {
            _ if old.is_empty() => Change::New,
            _ if new.is_empty() => Change::Gone,
            (Some(a), Some(b)) => {
                let times = f64::from(b.time_ms) / f64::from(a.time_ms);
                ratio = Some(times);
                common += 1;
                logs += times.ln();
                diff.regressions += u64::from(times > 1.0 + threshold.max(noise));
                if times > 1.0 + noise {
                    Change::Slower
                } else if times < 1.0 / (1.0 + noise) {
                    Change::Faster
                } else {
                    Change::Tied
                }
            }
            _ => Change::Untimed,
        };
        let switched = a.as_ref().zip(b.as_ref()).is_some_and(|(a, b)| a.solver != b.solver);
        *diff.counts.entry(change).or_default() += 1;
        diff.switched += u64::from(switched);
        if change != Change::Tied || switched {
            diff.keys.push(KeyChange { key: key.clone(), change, before: a, after: b, ratio, switched });
        }
    }
    diff.mean_speedup = (common > 0).then(|| (-logs / common as f64).exp());
    let order = |key: &KeyChange| key.ratio.unwrap_or(f64::NEG_INFINITY);
    diff.keys.sort_by(|a, b| order(b).total_cmp(&order(a)).then_with(|| a.key.cmp(&b.key)));
    diff
}
