//! `bluefin job ID`: all that is known of one job.

use std::process::ExitCode;

use bluefin_campaign::fleet::steer::named_or_all;
use bluefin_campaign::known::known;
use bluefin_campaign::ports::StoreArgs;
use bluefin_common::clock::now_ms;
use bluefin_common::history;
use bluefin_common::job::{Job, JobId};
use bluefin_common::outcome::Outcome;
use bluefin_common::session::SessionName;
use bluefin_producer::jobs::{Found, Jobs, OpenJob};
use bluefin_terminal::job::JobSheet;
use bluefin_terminal::out;

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
        let shown = JobSheet { found, planned, outcome, before };
        if self.json {
            out::json(&shown)?
        } else {
            shown.print(now_ms())?
        }
        Ok(ExitCode::SUCCESS)
    }
}
