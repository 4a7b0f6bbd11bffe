//! `bluefin dead`: messages that were given up.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use bluefin_campaign::fleet::dead::{Dead, Now, each, revive};
use bluefin_campaign::ports::FleetArgs;
use bluefin_common::store::{Right, Store};
use bluefin_terminal::{moment, out};
use clap::Subcommand;
use serde_json::json;

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

fn print(dead: &Dead) -> std::io::Result<()> {
    let id: String = dead.id.chars().take(SHORT).collect();
    let when = dead.at_ms.map_or_else(|| "-".to_string(), moment::at);
    let what = match (&dead.session, &dead.problem) {
        (Some(session), Some(problem)) => format!("{session}: {problem}"),
        _ => format!("{} bytes, no job", dead.bytes),
    };
    out::line(format_args!("{}  {when}  {}  {what}", id.escape_debug(), dead.queue.escape_debug()))?;
    out::line(format_args!("    {}", dead.reason.escape_debug()))
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
        all.iter().try_for_each(print)?;
        if all.is_empty() {
            say!("nothing was given up");
        }
    }
    Ok(ExitCode::SUCCESS)
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
