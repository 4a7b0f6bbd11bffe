//! What nobody in a store names any more: blobs of jobs that were under way when their session was deleted, and what was stored of
//! such a session after it was gone.

use std::collections::HashSet;
use std::time::Duration;

use bluefin_common::digest::Digest;
use bluefin_common::session::SessionName;
use bluefin_common::spelled::bytes;
use bluefin_common::store::Store;
use bluefin_terminal::out;
use serde::Serialize;

use crate::session::belongings::{named_by_releases, visit};

/// What nobody names, and nobody has used for a while.
#[derive(Debug, Serialize)]
pub struct Unnamed {
    blobs: u64,
    blob_bytes: u64,
    /// Sessions that are gone, and of which something was left.
    sessions: Vec<SessionName>,
}

/// Removes what nobody names and nobody has used for `idle`, or only finds it. A job in a queue names its task in its message alone:
/// one whose task is gone is compiled again, as one whose artifacts are.
pub async fn sweep(store: &dyn Store, idle: Duration, dry_run: bool) -> anyhow::Result<Unnamed> {
    let sessions = store.orphans(idle).await?;
    let mut blobs: HashSet<Digest> = store.idle_blobs(idle).await?.into_iter().collect();
    for session in store.sessions().await? {
        if blobs.is_empty() {
            break;
        }
        visit(store, &session.name, |named| blobs.retain(|digest| !named.contains(digest))).await?;
    }
    for digest in named_by_releases(store).await? {
        blobs.remove(&digest);
    }
    let blobs: Vec<Digest> = blobs.into_iter().collect();
    let blob_bytes = store.blob_sizes(&blobs).await?.into_iter().sum();
    if !dry_run {
        for session in &sessions {
            store.remove_session(session).await?;
        }
        store.remove_blobs(&blobs).await?;
    }
    Ok(Unnamed { blobs: blobs.len() as u64, blob_bytes, sessions })
}

impl Unnamed {
    pub fn print(&self, dry_run: bool) -> std::io::Result<()> {
        let verb = if dry_run { "would go" } else { "removed" };
        let Self { blobs, blob_bytes, sessions } = self;
        if *blobs == 0 && sessions.is_empty() {
            return Ok(());
        }
        let left = sessions.len();
        out::line(format_args!(
            "{blobs} blobs that nobody names, {}, and what was left of {left} sessions {verb}",
            bytes(*blob_bytes)
        ))
    }
}
