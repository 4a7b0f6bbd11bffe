//! All that is known of one job: where it is, who worked on it, what came of each candidate, and what came of it before.

use std::time::Duration;

use bluefin_common::candidate::Candidate;
use bluefin_common::course::Worked;
use bluefin_common::description::Description;
use bluefin_common::history::Tried;
use bluefin_common::job::Job;
use bluefin_common::outcome::{CandidateOutcome, Outcome};
use bluefin_common::spelled::human;
use bluefin_producer::jobs::Found;
use serde::Serialize;

use crate::out;

/// A job for people and for programs.
#[derive(Serialize)]
pub struct JobSheet {
    /// Where it is.
    #[serde(flatten)]
    pub found: Found,
    /// What it is, while it is open.
    pub planned: Option<Job>,
    /// What came of it; absent while it is open.
    pub outcome: Option<Outcome>,
    /// What came of it before it was tried again, oldest first.
    pub before: Vec<Tried>,
}

impl JobSheet {
    /// Prints it for people, as of `now_ms`.
    ///
    /// # Errors
    /// If standard output can not be written to.
    pub fn print(&self, now_ms: u64) -> std::io::Result<()> {
        let Self { found, planned, outcome, before } = self;
        let age = |then_ms: u64| human(Duration::from_millis(now_ms.saturating_sub(then_ms)));
        out::line(format_args!("job {}: {}", found.job, found.place.name()))?;
        out::line(format_args!("  session   {}", found.session))?;
        match outcome {
            Some(outcome) => of_outcome(outcome, found.attempts)?,
            None => {
                match (planned, &found.problem) {
                    (Some(job), _) => {
                        out::line(format_args!("  problem   {}", job.problem))?;
                        out::line(format_args!("  stage     {}", job.stage.name()))?;
                    }
                    (None, Some(problem)) => out::line(format_args!("  problem   {problem}"))?,
                    (None, None) => {}
                }
                if let Some(until_ms) = found.until_ms {
                    out::line(format_args!(
                        "  back in   {}",
                        human(Duration::from_millis(until_ms.saturating_sub(now_ms)))
                    ))?;
                }
                if found.attempts > 1 {
                    out::line(format_args!("  attempts  {}", found.attempts))?;
                }
                if let (Some(worker), Some(since_ms)) = (&found.worker, found.since_ms) {
                    out::line(format_args!("  worker    {worker}, for {}", age(since_ms)))?;
                }
                if let Some(error) = &found.error {
                    out::line(format_args!("  last      {error}"))?;
                }
                for candidate in planned.iter().flat_map(|job| &job.candidates) {
                    out::line(format_args!("    {}: open", named(candidate, &Description::default())))?;
                }
            }
        }
        for tried in before {
            let who = tried.worker.as_deref().unwrap_or("nobody known");
            out::line(format_args!("  before    {} ago, {who}:", age(tried.finished_ms)))?;
            for failed in &tried.failed {
                let candidate = failed.candidate.trim_end_matches(':');
                out::line(format_args!("    {candidate}: {}", failed.kind.name()))?;
                indented(&failed.words)?;
            }
        }
        Ok(())
    }
}

fn of_outcome(outcome: &Outcome, attempts: u64) -> std::io::Result<()> {
    let Outcome { job, course, device, busy_ms, .. } = outcome;
    out::line(format_args!("  problem   {}", job.problem))?;
    out::line(format_args!("  stage     {}, of {}", job.stage.name(), outcome.description.library))?;
    let part = |what: &str, worked: &Option<Worked>| match worked {
        Some(Worked { worker, begun_ms, ended_ms }) => {
            let took = ended_ms.saturating_sub(*begun_ms);
            let after = begun_ms.saturating_sub(course.enqueued_ms);
            out::line(format_args!("  {what:<9} by {worker}, {took} ms, begun {after} ms after it was enqueued"))
        }
        None => Ok(()),
    };
    part("compiled", &course.compiled)?;
    part("evaluated", &course.evaluated)?;
    if attempts > 1 {
        out::line(format_args!("  attempts  {attempts}"))?;
    }
    if !device.is_empty() {
        out::line(format_args!("  device    {device}, {busy_ms} ms"))?;
    }
    outcome.candidates.iter().try_for_each(|one| of_candidate(one, &outcome.description))
}

fn of_candidate(one: &CandidateOutcome, description: &Description) -> std::io::Result<()> {
    let candidate = named(&one.candidate, description);
    match &one.result {
        Ok(timing) => {
            let pruned = if timing.pruned { ", pruned" } else { "" };
            let (median, spread, samples) = (timing.median_ms, timing.spread_ms, timing.samples_ms.len());
            out::line(format_args!("    {candidate}: {median:.4} ms ± {spread:.4}, {samples} samples{pruned}"))
        }
        Err(failure) => {
            out::line(format_args!("    {candidate}: {}", failure.kind.name()))?;
            indented(&failure.detail)
        }
    }
}

/// The solver, and its params where it has some: by name, where `description` knows them.
fn named(candidate: &Candidate, description: &Description) -> String {
    let names = description.solver(&candidate.solver).map(|solver| solver.params.as_slice()).unwrap_or_default();
    if candidate.params.is_empty() || names.len() != candidate.params.len() {
        return candidate.to_string().trim_end_matches(':').to_string();
    }
    let params = names.iter().zip(&candidate.params).map(|(name, value)| format!(" {name}={value}"));
    format!("{}{}", candidate.solver, params.collect::<String>())
}

fn indented(words: &str) -> std::io::Result<()> {
    words.lines().try_for_each(|line| out::line(format_args!("      {line}")))
}
