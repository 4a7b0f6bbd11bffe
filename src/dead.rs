//! `bluefin dead`: messages that were given up.

use std::collections::HashSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use bluefin_campaign::ports::FleetArgs;
use bluefin_common::broker::{Broker, DEAD_QUEUE, Delivery, GivenUp};
use bluefin_common::digest::Digest;
use bluefin_common::failure::FailureKind;
use bluefin_common::job::{CompileJob, EvalJob, Job};
use bluefin_common::outcome::Outcome;
use bluefin_common::retry;
use bluefin_common::store::{Right, Store};
use bluefin_common::wire;
use bluefin_terminal::out;
use clap::Subcommand;
use serde::Serialize;
use serde_json::json;

/// In hand at a time.
const PREFETCH: u16 = 100;
/// For the first message to come, and for the next one.
const SOON: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(1)];
/// Hex digits of an id that are shown.
const SHORT: usize = 12;

/// See what was given up, try it again, or drop it
#[derive(Subcommand)]
#[command(after_help = "Examples:\n  bluefin dead list\n  bluefin dead retry --all\n  bluefin dead drop 5d41402abc4b")]
pub enum DeadVerb {
    /// Print every dead message: id, queue, problem, when, and why
    #[command(after_help = "Example:\n  bluefin dead list --json")]
    List {
        /// Print as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        fleet: FleetArgs,
    },
    /// Put messages back into the queues that they were given up in; an outcome that says they were given up is taken back
    #[command(after_help = "Examples:\n  bluefin dead retry --all\n  bluefin dead retry 5d41402abc4b")]
    Retry(SomeArgs),
    /// Remove messages for good; the outcomes of their jobs stay
    #[command(after_help = "Examples:\n  bluefin dead drop --all\n  bluefin dead drop 5d41402abc4b")]
    Drop(SomeArgs),
}

/// Which of them.
#[derive(Clone, Debug, clap::Args)]
pub struct SomeArgs {
    /// Their ids, or how those begin
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<String>,
    /// All that are there now
    #[arg(long)]
    all: bool,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    fleet: FleetArgs,
}

/// A message that was given up.
#[derive(Clone, Debug, Serialize)]
struct Dead {
    id: String,
    queue: String,
    reason: String,
    at_ms: Option<u64>,
    session: Option<String>,
    problem: Option<String>,
    bytes: usize,
}

impl Dead {
    fn of(delivery: &Delivery) -> Self {
        let given_up = delivery.given_up.clone();
        let job = job_of(&delivery.body);
        Self {
            id: delivery.message_id.clone(),
            queue: given_up.as_ref().map_or_else(String::new, |given_up| given_up.queue.clone()),
            reason: given_up.as_ref().map_or_else(|| "not said".to_string(), |given_up| given_up.reason.clone()),
            at_ms: given_up.and_then(|given_up| given_up.at_ms),
            session: job.as_ref().map(|job| job.session.to_string()),
            problem: job.as_ref().map(|job| job.problem.to_string()),
            bytes: delivery.body.len(),
        }
    }

    fn print(&self) -> std::io::Result<()> {
        let id: String = self.id.chars().take(SHORT).collect();
        let when = self.at_ms.map_or_else(|| "-".to_string(), time);
        let what = match (&self.session, &self.problem) {
            (Some(session), Some(problem)) => format!("{session}: {problem}"),
            _ => format!("{} bytes, no job", self.bytes),
        };
        out::line(format_args!("{}  {when}  {}  {what}", id.escape_debug(), self.queue.escape_debug()))?;
        out::line(format_args!("    {}", self.reason.escape_debug()))
    }
}

/// A point in time, for people.
fn time(ms: u64) -> String {
    humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + Duration::from_millis(ms)).to_string()
}

/// The job that a message is about, where it is one of this release or the one before.
fn job_of(body: &[u8]) -> Option<Job> {
    let compile = wire::decode::<CompileJob>(body).map(|compile_job| compile_job.job);
    compile.or_else(|_| wire::decode::<EvalJob>(body).map(|eval_job| eval_job.job)).ok()
}

impl DeadVerb {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::List { json, fleet } => list(json, &fleet).await,
            Self::Retry(args) => args.run(true).await,
            Self::Drop(args) => args.run(false).await,
        }
    }
}

async fn list(as_json: bool, fleet: &FleetArgs) -> anyhow::Result<ExitCode> {
    let broker = fleet.broker().await?;
    let mut all = Vec::new();
    each(&*broker, async |delivery| {
        all.push(Dead::of(&delivery));
        // A copy, as delivering it again would count.
        delivery.hand_back(Duration::ZERO).await?;
        Ok(Now::Back)
    })
    .await?;
    broker.close().await;
    if as_json {
        out::json(&all)?;
    } else {
        all.iter().try_for_each(Dead::print)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What became of a message.
enum Now {
    /// Behind the others in its queue.
    Back,
    Gone,
}

/// Does `work` with every message that is dead now. What that hands back comes behind the others, so that the end is where all
/// come again; how many there are a queue says only roughly.
async fn each(broker: &dyn Broker, mut work: impl AsyncFnMut(Delivery) -> anyhow::Result<Now>) -> anyhow::Result<()> {
    let mut consumer = broker.consume(DEAD_QUEUE, PREFETCH).await?;
    let (mut back, mut again, [mut soon, next]) = (HashSet::new(), 0, SOON);
    while let Ok(Some(delivery)) = tokio::time::timeout(soon, consumer.next()).await {
        soon = next;
        let is = identity(&delivery);
        if back.contains(&is) {
            delivery.hand_back(Duration::ZERO).await?;
            again += 1;
            // A reader that has just gone may have left some out of their order.
            if again >= back.len().min(2 * usize::from(PREFETCH)) {
                break;
            }
        } else if let Now::Back = work(delivery).await? {
            again = 0;
            back.insert(is);
        }
    }
    consumer.stop().await;
    Ok(())
}

/// What tells a message from others: the broker may deliver one twice.
fn identity(delivery: &Delivery) -> Digest {
    let (at, reason) = match &delivery.given_up {
        Some(GivenUp { reason, at_ms, .. }) => (at_ms.unwrap_or_default(), reason.as_str()),
        None => (0, ""),
    };
    let head = [delivery.message_id.as_bytes(), reason.as_bytes()].concat();
    Digest::of(&[head.as_slice(), &at.to_le_bytes(), &delivery.body].concat())
}

impl SomeArgs {
    async fn run(self, again: bool) -> anyhow::Result<ExitCode> {
        let broker = self.fleet.broker().await?;
        let store: Option<Arc<dyn Store>> = if again { Some(self.fleet.store().await?) } else { None };
        if let Some(store) = &store {
            store.may(Right::Retract).await?;
        }
        let mut done = Vec::new();
        let mut missing: Vec<&String> = self.ids.iter().collect();
        each(&*broker, async |delivery| {
            if !self.all && !self.ids.iter().any(|id| delivery.message_id.starts_with(id.as_str())) {
                delivery.hand_back(Duration::ZERO).await?;
                return Ok(Now::Back);
            }
            missing.retain(|id| !delivery.message_id.starts_with(id.as_str()));
            let dead = Dead::of(&delivery);
            if let Some(store) = &store {
                revive(&**store, &*broker, &delivery, &dead).await?;
            }
            done.push(dead);
            delivery.ack().await?;
            Ok(Now::Gone)
        })
        .await?;
        broker.close().await;
        if self.json {
            out::json(&json!({ "messages": done, "missing": missing }))?;
        } else {
            let verb = if again { "back in their queues" } else { "dropped" };
            out::line(format_args!("{} messages {verb}", done.len()))?;
        }
        if let Some(id) = missing.first() {
            bail!("{id}: no dead message has an id that begins so");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Puts a message back where it was given up. Its job is done already as far as the store knows, and that it was given up is
/// taken back first. Whoever dies amid this leaves the message among the dead, and does the same again.
async fn revive(store: &dyn Store, broker: &dyn Broker, delivery: &Delivery, dead: &Dead) -> anyhow::Result<()> {
    anyhow::ensure!(!dead.queue.is_empty(), "message {}: nothing says which queue it is of", dead.id);
    if let Some(job) = job_of(&delivery.body) {
        let outcomes = store.outcomes(&job.session, &[job.group()]).await?;
        if let Some(outcome) = outcomes.iter().find(|outcome| outcome.job_id() == job.id() && was_given_up(outcome)) {
            retry::take_back_one(store, &outcomes, outcome, false).await?;
        }
        broker.publish(&dead.queue, &dead.id, delivery.body.clone()).await?;
        return Ok(store.enqueued(&job.session, &[job.id()]).await?);
    }
    Ok(broker.publish(&dead.queue, &dead.id, delivery.body.clone()).await?)
}

fn was_given_up(outcome: &Outcome) -> bool {
    let dead = |result: &Result<_, bluefin_common::failure::Failure>| {
        result.as_ref().err().is_some_and(|failure| failure.kind == FailureKind::Dead)
    };
    outcome.candidates.iter().all(|candidate| dead(&candidate.result))
}
