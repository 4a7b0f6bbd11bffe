//! Failures by kind, each with the words of compilers and tools, told once however often they were said.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::fold::Group;

/// Different words that are kept of a kind.
const WORDS: usize = 8;
/// Bytes kept of what was said.
const LONGEST: usize = 1200;

/// Failed candidates, by the name of the kind.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Failures(pub BTreeMap<String, KindFailures>);

/// Failures of one kind.
#[derive(Clone, Debug, Default, Serialize)]
pub struct KindFailures {
    pub candidates: u64,
    /// Problems that have any.
    pub problems: u64,
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
    pub params: String,
}

impl Failures {
    /// Those of one group.
    #[must_use]
    pub fn of(group: &Group<'_>) -> Self {
        let mut failures = Self::default();
        failures.add(group);
        failures
    }

    pub(super) fn add(&mut self, group: &Group<'_>) {
        let mut seen = Vec::new();
        for outcome in group.outcomes.iter().flat_map(|outcome| &outcome.candidates) {
            let Err(failure) = &outcome.result else { continue };
            let name = failure.kind.name();
            let kind = self.0.entry(name.to_string()).or_default();
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
                solver: outcome.candidate.solver.clone(),
                params: outcome.candidate.params_text(),
            });
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        for (name, from) in other.0 {
            let kind = self.0.entry(name).or_default();
            kind.candidates += from.candidates;
            kind.problems += from.problems;
            kind.others += from.others;
            for words in from.words {
                let (text, candidates) = (words.text.clone(), words.candidates);
                kind.take(&text, candidates, || Words { candidates: 0, ..words });
            }
        }
    }

    /// Candidates that failed, whatever the kind.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().map(|kind| kind.candidates).sum()
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
