//! How a session's results and a base become one. Pure.
//!
//! `keep-best`: for each (key, solver) the better time stands, the base's if they are equal; what has no positive time is
//! worse than what has one. `replace`: a key that the session has is the session's alone, in the find db and in the perf db.
//! Under both, params are those that the time was measured with: they come from the side that won in the find db. Where
//! that side has none, or no time tells the sides apart, they come from the side that has them, the base first.
//!
//! Kernels follow the winners: a kernel of the session is taken if one of the convolutions that it was built for is now won
//! by the session, and then goes before the base's of the same name. Kernels of the base stay: which convolutions they
//! serve is not known, and one too many does no harm.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bluefin_miopen::db::find_db::FindEntry;
use bluefin_miopen::db::kernel_db::KernelName;
use bluefin_miopen::key::{FindDbKey, PerfDbKey};
use serde::{Deserialize, Serialize};

use super::Databases;
use super::databases::by_time;
use crate::db;
use crate::db::policy::{is_faster, merge_entries};

/// Which of two results stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    KeepBest,
    Replace,
}

impl Policy {
    /// What it means for the entries of a find db, of which the session's are the newer ones.
    fn of_entries(self) -> db::Policy {
        match self {
            Self::KeepBest => db::Policy::Fastest,
            Self::Replace => db::Policy::Replace,
        }
    }
}

impl std::fmt::Display for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::KeepBest => "keep-best",
            Self::Replace => "replace",
        })
    }
}

/// What a session brings.
#[derive(Clone, Debug, Default)]
pub struct Contribution {
    pub databases: Databases,
    /// Find-db keys of the convolutions that each kernel was built for.
    pub kernel_keys: BTreeMap<KernelName, BTreeSet<String>>,
}

/// What came of a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merged {
    /// Find-db keys that the base had not.
    pub new_keys: u64,
    /// Find-db keys whose fastest solver is now the session's, where the base had another result.
    pub changed_keys: u64,
    /// Find-db keys of the session whose fastest solver is still the base's.
    pub kept_keys: u64,
    /// Kernels taken from the session.
    pub kernels: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Base,
    Session,
}

/// Who won a solver of a perf-db key, to which several find-db keys may belong, and in what time.
type PerfWinners = HashMap<(PerfDbKey, Arc<str>), (f32, Side)>;

/// Merges `session` into `base`.
pub fn merge(base: &mut Databases, session: Contribution, policy: Policy) -> Merged {
    let mut merged = Merged::default();
    let Contribution { databases: theirs, kernel_keys } = session;
    let mut won: BTreeSet<String> = BTreeSet::new();
    let mut winners = PerfWinners::new();
    for (key, entries) in theirs.find.records {
        let ours = base.find.records.remove(&key).unwrap_or_default();
        let is_new = ours.is_empty();
        let sides = sides(ours, entries, policy);
        let by_session = sides.first().is_some_and(|(_, side)| *side == Side::Session);
        match (is_new, by_session) {
            (true, _) => merged.new_keys += 1,
            (false, true) => merged.changed_keys += 1,
            (false, false) => merged.kept_keys += 1,
        }
        if let Ok(parsed) = FindDbKey::parse(&key) {
            note_winners(&mut winners, &PerfDbKey::from(&parsed), &sides);
        }
        if by_session {
            won.insert(key.clone());
        }
        base.find.records.insert(key, sides.into_iter().map(|(entry, _)| entry).collect());
    }
    for (key, params) in theirs.perf.records {
        let ours = base.perf.records.entry(key.clone()).or_default();
        if policy == Policy::Replace {
            *ours = params;
            continue;
        }
        for (solver, params) in params {
            let side = winners.get(&(key.clone(), solver.clone())).map_or(Side::Base, |(_, side)| *side);
            if side == Side::Session || !ours.contains_key(&solver) {
                ours.insert(solver, params);
            }
        }
    }
    for (name, row) in theirs.kernels {
        let keys = kernel_keys.get(&name);
        // A kernel of no convolution wins by being there.
        let wins = keys.is_none_or(|keys| keys.is_empty() || keys.iter().any(|key| won.contains(key)));
        if policy == Policy::Replace || wins {
            merged.kernels += 1;
            base.kernels.insert(name, row);
        }
    }
    merged
}

/// The entries of one key, fastest first, each with the side that it is from.
fn sides(ours: Vec<FindEntry>, theirs: Vec<FindEntry>, policy: Policy) -> Vec<(FindEntry, Side)> {
    let of = |entries: Vec<FindEntry>, side| entries.into_iter().map(|entry| (entry, side)).collect();
    let mut sides: Vec<_> = of(ours, Side::Base);
    merge_entries(policy.of_entries(), &mut sides, of(theirs, Side::Session), |(entry, _)| entry);
    sides.sort_by(|(a, _), (b, _)| by_time(a, b));
    sides
}

fn note_winners(winners: &mut PerfWinners, key: &PerfDbKey, sides: &[(FindEntry, Side)]) {
    for (entry, side) in sides {
        let winner = winners.entry((key.clone(), entry.solver.clone())).or_insert((entry.time_ms, *side));
        if is_faster(entry.time_ms, winner.0) {
            *winner = (entry.time_ms, *side);
        }
    }
}

#[cfg(test)]
mod tests;
