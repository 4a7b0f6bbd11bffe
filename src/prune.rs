//! `bluefin prune`: makes room in a store.

use std::process::ExitCode;
use std::time::Duration;

use bluefin_campaign::fleet::belongings::{Belongings, Samples, Unnamed, announce, drop_samples, over, remove, sweep};
use bluefin_campaign::ports::{ARTIFACT_TTL, StoreArgs};
use bluefin_common::session::SessionName;
use bluefin_common::spelled::{bytes, counted};
use bluefin_common::standing::{self, Standing};
use bluefin_common::store::{Right, Store, Touched};
use bluefin_terminal::out;
use humantime::parse_duration;
use serde_json::json;

use crate::consent::Consent;
use crate::session::delete::print;
use bluefin_campaign::fleet::steer::find;

/// Remove sessions that are done, or the samples of their timings; and what nobody names any more
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  bluefin prune --older-than 30d --dry-run\n  bluefin prune --older-than 30d --yes\n  \
    bluefin prune --session nightly --samples --yes\n  bluefin prune --unnamed-for 1h --yes\n\n\
    With a session go its plan, outcomes, solvers, applicability and blobs that nothing else names; what a release names \
    stays. Samples are replaced by their median, as many as there were, so that a \
    session is exported as before. By age only sessions go that are \
    complete or cancelled. What a session leaves that is deleted amid its work goes with the next prune \
    once nobody has used it for a week."
)]
pub struct PruneArgs {
    /// Sessions that were made longer ago than this and have no work left
    #[arg(long, value_name = "TIME", value_parser = parse_duration, required_unless_present_any = ["session", "unnamed_for"])]
    older_than: Option<Duration>,
    /// These sessions, whatever their age
    #[arg(long, value_name = "NAME", conflicts_with = "older_than")]
    session: Vec<SessionName>,
    /// What no session and no release names, and nobody has used for this long [default: 7d]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "samples")]
    unnamed_for: Option<Duration>,
    /// Only the samples of timings, which most of a session's bytes are
    #[arg(long)]
    samples: bool,
    #[command(flatten)]
    consent: Consent,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl PruneArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        self.consent.is_said("prune")?;
        let opened = if self.consent.dry_run { self.store.open_to_read().await? } else { self.store.open().await? };
        let pruned = self.prune(&*opened.store).await;
        opened.close().await;
        pruned?;
        Ok(ExitCode::SUCCESS)
    }

    async fn prune(&self, store: &dyn Store) -> anyhow::Result<()> {
        if !self.consent.dry_run {
            store.may(Right::Remove).await?;
        }
        let sessions = self.sessions(store).await?;
        if self.samples {
            let names: Vec<SessionName> = sessions.into_iter().map(|(name, _)| name).collect();
            return self.drop_samples(store, &names).await;
        }
        self.remove(store, sessions).await
    }

    /// The sessions that are meant; of those that were chosen for having no work left, what they were chosen by.
    async fn sessions(&self, store: &dyn Store) -> anyhow::Result<Vec<(SessionName, Option<Touched>)>> {
        let mut names = Vec::new();
        for name in &self.session {
            names.push((find(store, name).await?.name, None));
        }
        if let Some(age) = self.older_than {
            names.extend(over(store, age).await?.into_iter().map(|(name, seen)| (name, Some(seen))));
        }
        Ok(names)
    }

    async fn remove(&self, store: &dyn Store, chosen: Vec<(SessionName, Option<Touched>)>) -> anyhow::Result<()> {
        let sessions = if self.consent.dry_run {
            chosen.into_iter().map(|(session, _)| session).collect()
        } else {
            let (go, stay) = announce(store, chosen).await?;
            stay.iter().for_each(|session| say!("session {session}: kept, as it was given work meanwhile"));
            go
        };
        let mut all = Vec::new();
        for (at, session) in sessions.iter().enumerate() {
            // Those before it are gone, or would be.
            let before = sessions.get(..at).unwrap_or_default();
            let belongings = Belongings::of(store, session, if self.consent.dry_run { before } else { &[] }).await?;
            if !self.consent.dry_run {
                remove(store, &belongings).await?;
                if self.store.in_file() {
                    standing::set(store, session, Standing::Running).await?;
                }
            }
            all.push(belongings);
        }
        let unnamed = sweep(store, self.unnamed_for.unwrap_or(ARTIFACT_TTL), self.consent.dry_run).await?;
        if self.json {
            return out::json(&json!({ "removed": !self.consent.dry_run, "sessions": all, "unnamed": unnamed }));
        }
        print_unnamed(&unnamed, self.consent.dry_run)?;
        all.iter().try_for_each(|belongings| print(belongings, self.consent.dry_run))?;
        let verb = if self.consent.dry_run { "would go" } else { "removed" };
        let total = all.iter().map(Belongings::bytes).sum();
        Ok(out::line(format_args!("{}, {} {verb}", counted(all.len(), "session"), bytes(total)))?)
    }

    async fn drop_samples(&self, store: &dyn Store, sessions: &[SessionName]) -> anyhow::Result<()> {
        let mut all = Vec::new();
        for session in sessions {
            all.push((session, drop_samples(store, session, self.consent.dry_run).await?));
        }
        if self.json {
            let json = |(session, Samples { count, bytes: [before, after] }): &(&SessionName, Samples)| json!({ "session": session, "samples": count, "bytes_before": before, "bytes_after": after });
            return out::json(
                &json!({ "removed": !self.consent.dry_run, "sessions": all.iter().map(json).collect::<Vec<_>>() }),
            );
        }
        for (session, Samples { count, bytes: [before, after] }) in all {
            let (before, after) = (bytes(before), bytes(after));
            let what = if self.consent.dry_run {
                format!("would go, of {before}")
            } else {
                format!("removed: {before} to {after}")
            };
            out::line(format_args!("session {session}: {count} samples {what}"))?;
        }
        Ok(())
    }
}

fn print_unnamed(unnamed: &Unnamed, dry_run: bool) -> std::io::Result<()> {
    let verb = if dry_run { "would go" } else { "removed" };
    let Unnamed { blobs, blob_bytes, sessions } = unnamed;
    if *blobs == 0 && sessions.is_empty() {
        return Ok(());
    }
    let left = sessions.len();
    out::line(format_args!(
        "{blobs} blobs that nobody names, {}, and what was left of {left} sessions {verb}",
        bytes(*blob_bytes)
    ))
}
