//! The end of a job, as it is told: one line in the log on each worker that had it, and one for each kind of failure, with words.

use std::collections::BTreeMap;

use tracing::Level;

use crate::candidate::Candidate;
use crate::failure::{Failure, FailureKind, telling_line};
use crate::job::Job;
use crate::outcome::Outcome;
use crate::roster::Presence;

/// Bytes of a failure's words in the log.
const WORDS: usize = 300;

/// `job` is compiled and goes on to be evaluated, all but those of its `candidates` that failed; it took `ms`.
pub fn compiled<'a>(
    job: &'a Job,
    failed: impl Iterator<Item = (&'a Candidate, &'a Failure)>,
    ms: u64,
    presence: &Presence,
) {
    let failures = Failures::of(failed);
    if failures.0.is_empty() && !tracing::enabled!(Level::INFO) {
        return;
    }
    let (failed, candidates) = (failures.count(), job.candidates.len());
    let id = job.id();
    let (session, problem) = (&job.session, job.problem.label());
    tracing::info!(job = %id.short(), %session, problem, stage = job.stage.name(), candidates, failed, ms, "compiled");
    failures.tell(job, presence);
}

/// A job has this outcome, the first one.
pub fn ended(outcome: &Outcome, presence: &Presence) {
    let Outcome { job, candidates, busy_ms, .. } = outcome;
    let failed = candidates.iter().filter_map(|one| Some((&one.candidate, one.result.as_ref().err()?)));
    let failures = Failures::of(failed);
    if failures.0.is_empty() && !tracing::enabled!(Level::INFO) {
        return;
    }
    let timings = candidates.iter().filter_map(|one| one.result.as_ref().ok());
    let pruned = timings.clone().filter(|timing| timing.pruned).count();
    let best_ms = timings.clone().map(|timing| timing.median_ms).min_by(f64::total_cmp);
    let (timed, failed) = (timings.count() - pruned, failures.count());
    let (id, session, problem) = (job.id(), &job.session, job.problem.label());
    tracing::info!(job = %id.short(), %session, problem, stage = job.stage.name(), timed, pruned, failed, best_ms, busy_ms, "done");
    failures.tell(job, presence);
}

/// By kind, how many there are and the first of them.
struct Failures<'a>(BTreeMap<FailureKind, (u64, &'a Candidate, &'a Failure)>);

impl<'a> Failures<'a> {
    fn of(failed: impl Iterator<Item = (&'a Candidate, &'a Failure)>) -> Self {
        let mut kinds = BTreeMap::new();
        for (candidate, failure) in failed {
            kinds.entry(failure.kind).or_insert((0, candidate, failure)).0 += 1;
        }
        Self(kinds)
    }

    fn count(&self) -> u64 {
        self.0.values().map(|(count, ..)| count).sum()
    }

    fn tell(&self, job: &Job, presence: &Presence) {
        for (kind, (count, candidate, failure)) in &self.0 {
            let (id, words) = (job.id(), words(&failure.detail));
            tracing::info!(job = %id.short(), kind = kind.name(), count, %candidate, words, "failed");
            presence.remark(&id.to_string(), &format!("{count} {}: {candidate}: {words}", kind.name()));
        }
    }
}

/// The line that tells most, cut.
fn words(detail: &str) -> String {
    let line = telling_line(detail);
    let line = line.trim();
    line.get(..line.floor_char_boundary(WORDS)).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_with_the_error_is_told() {
        assert_eq!(
            words("In file x.hip:\n\n  x.hip:3: error: no member `y`\nnote: z"),
            "x.hip:3: error: no member `y`"
        );
        assert_eq!(words("\n killed by signal 9\nmore"), "killed by signal 9");
        assert_eq!(words(""), "");
        assert_eq!(words(&"ö".repeat(200)).len(), 300);
    }

    #[test]
    fn each_kind_is_told_once() {
        let candidate = Candidate { solver: "A".into(), params: Vec::new() };
        let failure = |kind| Failure::new(kind, "x");
        let all = [FailureKind::Hang, FailureKind::CompileError, FailureKind::Hang].map(failure);
        let failures = Failures::of(all.iter().map(|failure| (&candidate, failure)));
        assert_eq!(failures.count(), 3);
        assert_eq!(failures.0[&FailureKind::Hang].0, 2);
    }
}
