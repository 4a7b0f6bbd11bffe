//! What is to become of a session's jobs, wherever they are: they wait, are dropped, or go on.

use anyhow::{anyhow, bail};
use bluefin_common::broker::Broker;
use bluefin_common::parked;
use bluefin_common::priority::{self, Priority};
use bluefin_common::session::{Session, SessionName};
use bluefin_common::standing::{self, Standing};
use bluefin_common::store::{Records, Sessions, Store};
use bluefin_common::suggest;
use bluefin_producer::Metrics;
use bluefin_producer::enqueue::{Publish, Ways};
use bluefin_producer::request::{reconcile, requests};
use prometheus::Registry;

use crate::known::known;

/// What a session's maker notes with it.
pub const NOTES: [&str; 4] = ["rocm", "miopen", "docker", "ticket"];

/// The session of that name.
pub async fn find(store: &dyn Sessions, name: &SessionName) -> anyhow::Result<Session> {
    match store.session(name).await? {
        Some(session) => Ok(session),
        None => Err(unknown(store, name).await?),
    }
}

/// That there is no session of that name, and which one may have been meant.
///
/// # Errors
/// If the store fails.
pub async fn unknown(store: &dyn Sessions, name: &SessionName) -> anyhow::Result<anyhow::Error> {
    let all = store.sessions().await?;
    let instead = suggest::instead(name.as_str(), all.iter().map(|session| session.name.as_str()));
    Ok(anyhow!("session {name}: there is none of that name; {instead}"))
}

/// The session of that name, or all where none is named.
pub async fn named_or_all(store: &dyn Sessions, name: Option<&SessionName>) -> anyhow::Result<Vec<Session>> {
    match name {
        Some(name) => Ok(vec![find(store, name).await?]),
        None => Ok(store.sessions().await?),
    }
}

/// Keeps its jobs for later.
///
/// # Errors
/// If it does not run, or the store fails.
pub async fn pause(store: &dyn Records, name: &SessionName) -> anyhow::Result<()> {
    match standing::of(store, name).await? {
        Standing::Cancelled | Standing::Deleted => bail!("session {name}: it is cancelled"),
        Standing::Resuming => {
            bail!("session {name}: not all of what was dropped is published again: bluefin session resume {name}")
        }
        Standing::Running | Standing::Paused => {}
    }
    Ok(standing::set(store, name, Standing::Paused).await?)
}

/// Drops its jobs.
///
/// # Errors
/// If the store fails.
pub async fn cancel(store: &dyn Records, name: &SessionName) -> anyhow::Result<()> {
    standing::set(store, name, Standing::Cancelled).await?;
    Ok(parked::drop_all(store, name).await?)
}

/// Publishes what was kept or dropped, and how many messages that is. `None` without a broker: queues of a state file end with the
/// process that works on it, and the next one plans what is left.
///
/// # Errors
/// If store or broker fail; the same call does the rest.
pub async fn resume(
    store: &dyn Store,
    broker: Option<&dyn Broker>,
    name: &SessionName,
    priority: Option<Priority>,
) -> anyhow::Result<Option<u64>> {
    if let Some(priority) = priority {
        priority::prioritize(store, name, priority).await?;
    }
    let was = standing::of(store, name).await?;
    let Some(broker) = broker else {
        standing::set(store, name, Standing::Running).await?;
        return Ok(None);
    };
    let published = match was {
        Standing::Cancelled | Standing::Resuming => {
            let session = find(store, name).await?;
            let metrics = Metrics::register(&Registry::new())?;
            let ways = Ways { store, broker, metrics: &metrics, publish: Publish::Unfinished };
            // Until all is published again, so that a command that dies amid it is repeated.
            standing::set(store, name, Standing::Resuming).await?;
            let asked = !requests(store, name).await?.is_empty();
            let nothing = store.groups(name).await?.is_empty();
            let plans =
                if asked || !nothing { reconcile(&ways, &known().planners(), &session).await? } else { Vec::new() };
            standing::set(store, name, Standing::Running).await?;
            plans.iter().map(|plan| plan.enqueued).sum()
        }
        Standing::Running | Standing::Paused | Standing::Deleted => {
            // First, so that nobody parks what nobody would look for.
            standing::set(store, name, Standing::Running).await?;
            parked::publish(store, broker, name).await?
        }
    };
    Ok(Some(published))
}

/// Takes one pin off, or all that workers pinned: toolchains, devices, protocol. Returns those.
///
/// # Errors
/// If there is no such session or pin, or the store fails.
pub async fn unpin(
    store: &dyn Sessions,
    name: &SessionName,
    pin: Option<&str>,
) -> anyhow::Result<Vec<(String, String)>> {
    let session = find(store, name).await?;
    let mut pins = store.pins(&session.name).await?;
    match pin {
        Some(pin) if !pins.contains_key(pin) => {
            let known = pins.into_keys().collect::<Vec<_>>().join(", ");
            bail!("session {name}: pin: found {pin:?}, expected one of: {known}");
        }
        Some(pin) => pins.retain(|key, _| key == pin),
        None => pins.retain(|key, _| !NOTES.contains(&key.as_str())),
    }
    let keys: Vec<String> = pins.keys().cloned().collect();
    store.unpin(&session.name, &keys).await?;
    Ok(pins.into_iter().collect())
}
