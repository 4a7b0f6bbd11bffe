//! What failures share that others of their solver do not have.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bluefin_common::candidate::Candidate;
use bluefin_common::description::Description;
use bluefin_common::failure::FailureKind;
use bluefin_common::value::Value;
use serde::Serialize;

use crate::fold::Group;

/// Params by name, in the order of the spec.
pub(crate) type Params = Vec<(String, Value)>;

/// Those params of `candidate` whose names are known.
pub(crate) fn params(description: &Description, candidate: &Candidate) -> Params {
    let info = description.solver(&candidate.solver);
    let names = info.map_or(&[][..], |solver| &solver.params).iter().cloned();
    names.zip(candidate.params.iter().cloned()).collect()
}

/// `T=64 U=1`
pub(crate) fn words(params: &[(String, Value)]) -> String {
    params.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

/// `T=64 U=1` of `candidate`; of params without a name the value.
pub(crate) fn named(group: &Group<'_>, candidate: &Candidate) -> String {
    let solver = group.description.solver(&candidate.solver);
    let name = |index: usize| solver.and_then(|solver| solver.params.get(index));
    let params = candidate.params.iter().enumerate().map(|(index, value)| match name(index) {
        Some(name) => format!("{name}={value}"),
        None => value.to_string(),
    });
    params.collect::<Vec<_>>().join(" ")
}

/// What all failures of one kind and solver have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Common {
    /// Name of the kind.
    #[serde(skip)]
    pub kind: &'static str,
    pub candidates: u64,
    pub solver: String,
    /// As `NAME=value ...`.
    pub params: String,
}

/// Params of candidates that failed, and of all that were tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedParams {
    /// Of each kind and solver.
    failed: BTreeMap<(&'static str, String), Shared>,
    /// Values of each solver's params, by name; `None`: it was tried with several.
    tried: BTreeMap<String, BTreeMap<String, Option<Value>>>,
}

/// Failures of one kind of one solver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Shared {
    count: u64,
    /// Params that all of them have in common.
    params: Params,
}

impl SharedParams {
    /// Takes note of a candidate's params, and of how it failed, if it did.
    pub(crate) fn note(&mut self, solver: &str, params: &[(String, Value)], failed: Option<FailureKind>) {
        let tried = self.tried.entry(solver.to_string()).or_default();
        for (name, value) in params {
            let known = tried.entry(name.clone()).or_insert_with(|| Some(value.clone()));
            if known.as_ref() != Some(value) {
                *known = None;
            }
        }
        if let Some(kind) = failed {
            let shared = Shared { count: 1, params: params.to_vec() };
            self.share((kind.name(), solver.to_string()), shared);
        }
    }

    fn share(&mut self, key: (&'static str, String), other: Shared) {
        match self.failed.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(other);
            }
            Entry::Occupied(mut entry) => {
                let own = entry.get_mut();
                own.count += other.count;
                own.params.retain(|param| other.params.contains(param));
            }
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (key, shared) in other.failed {
            self.share(key, shared);
        }
        for (solver, params) in other.tried {
            let own = self.tried.entry(solver).or_default();
            for (name, value) in params {
                let known = own.entry(name).or_insert_with(|| value.clone());
                if *known != value {
                    *known = None;
                }
            }
        }
    }

    /// What failures share that others of their solver do not have; what most failures share first.
    pub(crate) fn told(&self) -> Vec<Common> {
        let told = self.failed.iter().filter_map(|((kind, solver), Shared { count, params })| {
            let of_solver = self.tried.get(solver)?;
            let varied = |(name, _): &&(String, Value)| of_solver.get(name).is_some_and(Option::is_none);
            let shared: Params = params.iter().filter(varied).cloned().collect();
            let told = *count > 1 && !shared.is_empty();
            told.then(|| Common { kind, candidates: *count, solver: solver.clone(), params: words(&shared) })
        });
        let mut told: Vec<Common> = told.collect();
        told.sort_by_key(|common| std::cmp::Reverse(common.candidates));
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failures_share_is_said_and_what_all_have_is_not() {
        let params =
            |tile: i64, rows: i64| vec![("TILE_C".to_string(), tile.into()), ("ROWS".to_string(), rows.into())];
        let (mut one, mut other) = (SharedParams::default(), SharedParams::default());
        one.note("A", &params(128, 1), Some(FailureKind::Fault));
        one.note("A", &params(64, 1), None);
        other.note("A", &params(128, 1), Some(FailureKind::Fault));
        other.note("A", &params(32, 1), Some(FailureKind::Hang));
        one.merge(other);
        let (solver, shared) = ("A".to_string(), "TILE_C=128".to_string());
        let expected = Common { kind: "fault", candidates: 2, solver, params: shared };
        assert_eq!(one.told(), [expected], "ROWS is 1 everywhere, and one hang shares nothing");
    }
}
