//! `bluefin jobs retry`: jobs whose candidates failed, or whose times are in doubt, are done once more.

use std::collections::BTreeMap;
use std::process::ExitCode;

use bluefin_campaign::ports::StoreArgs;
use bluefin_common::failure::FailureKind;
use bluefin_common::retry::{self, Failures};
use bluefin_common::session::SessionName;
use bluefin_common::spelled::counted;
use bluefin_common::store::Right;
use bluefin_common::{shutdown, standing};
use bluefin_terminal::out;
use clap::ArgGroup;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;

use crate::tune::Again;
use bluefin_campaign::fleet::steer::named_or_all;

/// Plan jobs again whose candidates failed or whose times are in doubt, and publish them; what they came to before is remembered
#[derive(Clone, Debug, clap::Args)]
#[command(group(ArgGroup::new("which").required(true)), after_help = "Examples:\n  bluefin jobs retry --failed --session nightly\n  \
    bluefin jobs retry --failed compile_timeout --session nightly\n  bluefin jobs retry --dead\n  \
    bluefin jobs retry --remeasure --session nightly       (problems that were timed while the machine was busy)\n\n\
    A job is done as a whole, candidates that did not fail included. What the same compiler refused is in its cache, and fails \
    again. Those of a paused session wait for its resume; those of a state file are done by the next bluefin tune of their \
    problems. If it is interrupted, the same command does the rest.")]
pub struct RetryArgs {
    /// Jobs with a candidate that failed, in whatever way or in this one
    #[arg(long, value_name = "KIND", num_args = 0..=1, default_missing_value = "any", value_parser = failures(), group = "which")]
    failed: Option<Failures>,
    /// Jobs that were given up: the same as --failed dead
    #[arg(long, group = "which")]
    dead: bool,
    /// All jobs of the problems whose winner's time is in doubt because the machine was busy (noisy), or of all
    #[arg(long, value_name = "NOISY|ALL", num_args = 0..=1, default_missing_value = "noisy", ignore_case = true, group = "which")]
    remeasure: Option<Again>,
    /// Only those of this session [default: of all sessions]
    #[arg(long, value_name = "NAME")]
    session: Option<SessionName>,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Any failure, or the name of a kind.
fn failures() -> impl TypedValueParser<Value = Failures> {
    let names = std::iter::once("any").chain(FailureKind::ALL.iter().map(|kind| kind.name()));
    PossibleValuesParser::new(names).map(|name| {
        let kind = FailureKind::ALL.into_iter().find(|kind| kind.name() == name);
        kind.map_or(Failures::Any, Failures::Of)
    })
}

impl RetryArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let shutdown = shutdown::on_signal()?;
        let retried = async {
            let opened = self.store.open_patiently(&shutdown).await?;
            let store = &*opened.store;
            store.may(Right::Retract).await?;
            let sessions = named_or_all(store, self.session.as_ref()).await?;
            let failures = self.failed.unwrap_or(Failures::Of(FailureKind::Dead));
            let broker =
                if self.store.in_file() { None } else { Some(self.store.fleet.patient_broker(&shutdown).await?) };
            let mut all = BTreeMap::new();
            for session in sessions {
                let name = &session.name;
                // Of a search the jobs of earlier rounds follow from nothing that a later run plans.
                let queues = broker.is_some() || session.search.is_some();
                let taken = match self.remeasure {
                    Some(again) => retry::take_back_measured(store, &session, queues, again.into(), |_| true).await?.1,
                    None => retry::take_back(store, name, queues, |outcome| failures.include(outcome)).await?,
                };
                let published = match &broker {
                    Some(broker) => retry::publish(store, &**broker, name).await?,
                    None => 0,
                };
                if taken + published > 0 || self.session.is_some() {
                    let standing = standing::of(store, name).await?;
                    all.insert(session.name, (taken, published, standing));
                }
            }
            if let Some(broker) = broker {
                broker.close().await;
            }
            opened.close().await;
            anyhow::Ok(all)
        };
        let Some(all) = shutdown.run_until_cancelled(retried).await else {
            return Ok(crate::interrupted());
        };
        let all = all?;
        if self.json {
            let json = |(session, (taken, published, standing)): (&SessionName, &(u64, u64, _))| json!({ "session": session, "planned_again": taken, "published": published, "standing": standing });
            out::json(&all.iter().map(json).collect::<Vec<_>>())?;
        } else {
            for (session, (taken, published, standing)) in &all {
                let of = if standing.runs() { String::new() } else { format!("; the session is {}", standing.name()) };
                out::line(format_args!(
                    "session {session}: {} planned again, {published} published{of}",
                    counted(*taken, "job")
                ))?;
            }
            if all.is_empty() {
                out::line(if self.remeasure.is_some() { "no time is in doubt" } else { "no job failed so" })?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
