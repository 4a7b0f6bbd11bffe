//! `bluefin session delete`: everything of a session goes.

use std::process::ExitCode;

use bluefin_campaign::fleet::belongings::{Belongings, announce, remove};
use bluefin_campaign::fleet::steer::unknown;
use bluefin_campaign::ports::StoreArgs;
use bluefin_common::session::SessionName;
use bluefin_common::spelled::bytes;
use bluefin_common::standing::{self, Standing};
use bluefin_common::store::{Right, Store};
use bluefin_terminal::out;
use serde_json::json;

use crate::consent::Consent;

/// Remove a session and everything of it: plan, outcomes, solvers, pins, and blobs that no other session and no release names
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  bluefin session delete nightly --dry-run\n  bluefin session delete nightly --yes\n\n\
    Jobs of it that are in queues are dropped by the workers that meet them, for 30 days. If it is interrupted, the same \
    command does the rest. Not while problems are enqueued that share kernels with it."
)]
pub struct DeleteArgs {
    #[arg(value_name = "NAME")]
    name: SessionName,
    #[command(flatten)]
    consent: Consent,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl DeleteArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        self.consent.is_said(&format!("session delete {}", self.name))?;
        let opened = if self.consent.dry_run { self.store.open_to_read().await? } else { self.store.open().await? };
        let deleted = self.delete(&*opened.store).await;
        opened.close().await;
        let belongings = deleted?;
        if self.json {
            out::json(&json!({ "deleted": !self.consent.dry_run, "belongings": belongings }))?;
        } else {
            print(&belongings, self.consent.dry_run)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn delete(&self, store: &dyn Store) -> anyhow::Result<Belongings> {
        let is_there = store.session(&self.name).await?.is_some();
        if !is_there && standing::of(store, &self.name).await? != Standing::Deleted {
            return Err(unknown(store, &self.name).await?);
        }
        if !self.consent.dry_run {
            store.may(Right::Remove).await?;
        }
        // What can not be read stops it here, where the session is still whole.
        let belongings = Belongings::of(store, &self.name, &[]).await?;
        if self.consent.dry_run {
            return Ok(belongings);
        }
        if self.store.in_file() {
            // Nobody else works with the file.
            standing::set(store, &self.name, Standing::Deleted).await?;
        } else {
            announce(store, vec![(self.name.clone(), None)]).await?;
        }
        // Once more: a worker may have stored an outcome meanwhile.
        let belongings = Belongings::of(store, &self.name, &[]).await?;
        remove(store, &belongings).await?;
        if self.store.in_file() {
            standing::set(store, &self.name, Standing::Running).await?;
        }
        Ok(belongings)
    }
}

/// Says what goes, or would go.
pub fn print(belongings: &Belongings, dry_run: bool) -> std::io::Result<()> {
    let Belongings { session, size, blobs, blob_bytes, shared_blobs, .. } = belongings;
    let verb = if dry_run { "would go" } else { "removed" };
    out::line(format_args!("session {session}: {} {verb}", bytes(belongings.bytes())))?;
    out::line(format_args!("  outcomes  {}", bytes(size.outcomes)))?;
    out::line(format_args!("  plan      {}", bytes(size.plan)))?;
    out::line(format_args!("  records   {}", bytes(size.records)))?;
    out::line(format_args!(
        "  blobs     {} in {blobs}; {shared_blobs} more may be named elsewhere, and stay",
        bytes(*blob_bytes)
    ))
}
