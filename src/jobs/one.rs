//! `bluefin job ID`: all that is known of one job.

use std::process::ExitCode;
use std::time::Duration;

use bluefin_campaign::known::known;
use bluefin_campaign::ports::StoreArgs;
use bluefin_common::candidate::Candidate;
use bluefin_common::clock::now_ms;
use bluefin_common::course::Worked;
use bluefin_common::description::Description;
use bluefin_common::history::{self, Tried};
use bluefin_common::job::{Job, JobId};
use bluefin_common::outcome::{CandidateOutcome, Outcome};
use bluefin_common::session::SessionName;
use bluefin_common::spelled::human;
use bluefin_producer::jobs::{Found, Jobs, OpenJob};
use bluefin_terminal::out;
use serde::Serialize;

use bluefin_campaign::fleet::steer::named_or_all;

/// Fewest digits of an id that are enough.
const DIGITS: usize = 4;

/// Show all that is known of a job: where it is, who worked on it, what came of each candidate in the compiler's or tool's words, and
/// what came of it before
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:\n  bluefin job 3fa1c09e2b77\n\nThe first digits are enough, as logs print them.")]
pub struct JobArgs {
    /// The id, or its first digits
    #[arg(value_name = "ID", value_parser = digits)]
    id: String,
    /// Look in this session only
    #[arg(long, value_name = "NAME")]
    session: Option<SessionName>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

fn digits(text: &str) -> Result<String, String> {
    let text = text.to_ascii_lowercase();
    let fits = (DIGITS..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    fits.then_some(text).ok_or_else(|| format!("expected {DIGITS} to 64 hex digits"))
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    found: Found,
    /// What it is, while it is open.
    planned: Option<Job>,
    /// What came of it; absent while it is open.
    outcome: Option<Outcome>,
    /// What came of it before it was tried again, oldest first.
    before: Vec<Tried>,
}

impl JobArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let opened = self.store.open_to_read().await?;
        let store = &*opened.store;
        let sessions = named_or_all(store, self.session.as_ref()).await?;
        let (jobs, planners) = (Jobs::look(store).await?, known().planners());
        let is_it = |id: &JobId| id.to_string().starts_with(&self.id);
        let mut matches: Vec<(Found, Option<Job>, Option<Outcome>)> = Vec::new();
        for session in &sessions {
            let open = jobs.open(session).await?;
            let mut take = |OpenJob { found, job }| {
                matches.push((found, job, None));
                anyhow::Ok(true)
            };
            open.tell(&planners, |id, _| is_it(id), &mut take).await?;
            let mut take = |found, outcome| {
                matches.push((found, None, Some(outcome)));
                anyhow::Ok(true)
            };
            jobs.done(session, is_it, &mut take).await?;
        }
        let (found, planned, outcome) = match matches.len() {
            0 => anyhow::bail!("job {}: there is none whose id begins so", self.id),
            1 => matches.remove(0),
            count => {
                let names: Vec<&str> = matches.iter().take(8).map(|(found, ..)| found.job.as_str()).collect();
                anyhow::bail!("job {}: {count} ids begin so: {}", self.id, names.join(", "));
            }
        };
        let before = history::of(store, &found.session, found.job.parse()?).await?;
        let shown = Shown { found, planned, outcome, before };
        if self.json {
            out::json(&shown)?
        } else {
            shown.print()?
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Shown {
    fn print(&self) -> std::io::Result<()> {
        let Self { found, planned, outcome, before } = self;
        let now = now_ms();
        let age = |then_ms: u64| human(Duration::from_millis(now.saturating_sub(then_ms)));
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
                        human(Duration::from_millis(until_ms.saturating_sub(now)))
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
