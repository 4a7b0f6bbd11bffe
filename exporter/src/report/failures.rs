//! Failures by kind, each with the words of compilers and tools, told once however often they were said.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::fold::Group;
use crate::shared::{Common, SharedParams, named, params};

/// Different words that are kept of a kind.
const WORDS: usize = 8;
/// Solvers of a kind whose failures are told what they share.
const SHARED: usize = 8;
/// Bytes kept of what was said.
const LONGEST: usize = 1200;

/// Failed candidates.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Failures {
    /// By the name of the kind.
    pub kinds: BTreeMap<String, KindFailures>,
    #[serde(skip)]
    shared: SharedParams,
}

/// Failures of one kind.
#[derive(Clone, Debug, Default, Serialize)]
pub struct KindFailures {
    pub candidates: u64,
    /// Problems that have any.
    pub problems: u64,
    /// What those of a solver share that others of it do not have.
    pub shared: Vec<Common>,
    /// The first ones, as they were met.
    pub words: Vec<Words>,
    /// Candidates whose words are none of those.
    pub others: u64,
}

/// What was said, and of what first.
#[derive(Clone, Debug, Serialize)]
pub struct Words {
    pub text: String,
    pub candidates: u64,
    pub problem: String,
    pub solver: String,
    /// As `NAME=value ...`.
    pub params: String,
}

impl Failures {
    /// Those of one group.
    #[must_use]
    pub fn of(group: &Group<'_>) -> Self {
        let mut failures = Self::default();
        failures.add(group);
        failures.settle();
        failures
    }

    pub(super) fn add(&mut self, group: &Group<'_>) {
        let mut seen = Vec::new();
        for outcome in group.outcomes.iter().flat_map(|outcome| &outcome.candidates) {
            let candidate = &outcome.candidate;
            let failed = outcome.result.as_ref().err().map(|failure| failure.kind);
            self.shared.note(&candidate.solver, &params(&group.description, candidate), failed);
            let Err(failure) = &outcome.result else { continue };
            let name = failure.kind.name();
            let kind = self.kinds.entry(name.to_string()).or_default();
            if !seen.contains(&name) {
                seen.push(name);
                kind.problems += 1;
            }
            kind.candidates += 1;
            let text = cut(&failure.detail);
            kind.take(text, 1, || Words {
                text: text.to_string(),
                candidates: 0,
                problem: group.problem.label(),
                solver: candidate.solver.clone(),
                params: named(group, candidate),
            });
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.shared.merge(other.shared);
        for (name, from) in other.kinds {
            let kind = self.kinds.entry(name).or_default();
            kind.candidates += from.candidates;
            kind.problems += from.problems;
            kind.others += from.others;
            for words in from.words {
                let (text, candidates) = (words.text.clone(), words.candidates);
                kind.take(&text, candidates, || Words { candidates: 0, ..words });
            }
        }
    }

    /// Adds what only all candidates together tell.
    pub(super) fn settle(&mut self) {
        for common in self.shared.told() {
            if let Some(kind) = self.kinds.get_mut(common.kind).filter(|kind| kind.shared.len() < SHARED) {
                kind.shared.push(common);
            }
        }
    }

    /// Candidates that failed, whatever the kind.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.kinds.values().map(|kind| kind.candidates).sum()
    }
}

impl KindFailures {
    fn take(&mut self, text: &str, candidates: u64, new: impl FnOnce() -> Words) {
        if let Some(known) = self.words.iter_mut().find(|known| known.text == text) {
            known.candidates += candidates;
        } else if self.words.len() < WORDS {
            self.words.push(Words { candidates, ..new() });
        } else {
            self.others += candidates;
        }
    }
}

fn cut(detail: &str) -> &str {
    detail.get(..detail.floor_char_boundary(LONGEST.min(detail.len()))).unwrap_or(detail).trim_end()
}
