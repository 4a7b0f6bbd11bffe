//! Whether a Redis keeps what it is given.

use std::collections::HashMap;

use crate::redis::link::{Link, Request};
use bluefin_common::store::{Fullness, StoreError};

/// Checks the instance that holds what must last. `shared`: artifacts live in it, too.
///
/// # Errors
/// [`StoreError::Misconfigured`] if it would evict keys that have no TTL or is part of a cluster.
pub(super) async fn check_main(link: &Link, shared: bool) -> Result<(), StoreError> {
    let server = link.server();
    let info = info(link).await?;
    refuse_cluster(server, &info)?;
    let connected = info.get("connected_slaves").and_then(|count| count.parse().ok()).unwrap_or(0);
    if connected < link.replicas() {
        let expected = link.replicas();
        tracing::warn!(
            server,
            connected,
            expected,
            "too few replicas: nothing that must last can be stored until there are more"
        );
    }
    let policy = info.get("maxmemory_policy").map_or("", String::as_str);
    if policy.starts_with("allkeys-") {
        return Err(StoreError::Misconfigured {
            reason: format!(
                "{server}: found maxmemory-policy {policy}, which evicts outcomes; expected volatile-lru or noeviction"
            ),
        });
    }
    if shared && policy == "noeviction" && limit(&info) > 0 {
        tracing::warn!(
            server,
            policy,
            "a cache full of artifacts will refuse outcomes: set maxmemory-policy volatile-lru"
        );
    }
    if info.get("aof_enabled").is_some_and(|enabled| enabled == "0") {
        tracing::warn!(server, "appendonly is off: outcomes and sessions are lost when redis restarts");
    } else if let Some(fsync) = setting(link, "appendfsync").await
        && fsync != "always"
    {
        tracing::warn!(server, fsync, "appendfsync is not always: the last outcomes are lost when the machine crashes");
    }
    Ok(())
}

/// Checks the instance that holds artifacts alone.
pub(super) async fn check_cache(link: &Link) -> Result<(), StoreError> {
    let info = info(link).await?;
    refuse_cluster(link.server(), &info)?;
    let policy = info.get("maxmemory_policy").map_or("", String::as_str);
    if policy == "noeviction" && limit(&info) > 0 {
        tracing::warn!(
            server = link.server(),
            policy,
            "a full cache refuses artifacts: set maxmemory-policy volatile-lru"
        );
    }
    Ok(())
}

/// The keys of a script are on several nodes of one.
fn refuse_cluster(server: &str, info: &HashMap<String, String>) -> Result<(), StoreError> {
    match info.get("cluster_enabled").map(String::as_str) {
        Some("1") => Err(StoreError::Misconfigured {
            reason: format!("{server}: cluster mode is not supported; expected one server, or sentinels and replicas"),
        }),
        _ => Ok(()),
    }
}

pub(super) async fn fullness(link: &Link) -> Result<Fullness, StoreError> {
    let info = info(link).await?;
    let ratio = match limit(&info) {
        0 => 0.0,
        limit => used(&info) as f64 / limit as f64,
    };
    Ok(Fullness { ratio, evicts: info.get("maxmemory_policy").is_some_and(|policy| policy != "noeviction") })
}

/// Bytes in use.
pub(super) async fn used_memory(link: &Link) -> Result<u64, StoreError> {
    Ok(used(&info(link).await?))
}

fn used(info: &HashMap<String, String>) -> u64 {
    info.get("used_memory").and_then(|used| used.parse().ok()).unwrap_or(0)
}

fn limit(info: &HashMap<String, String>) -> u64 {
    info.get("maxmemory").and_then(|limit| limit.parse().ok()).unwrap_or(0)
}

/// The sections of `INFO` that say how much is kept, how, and by whom.
async fn info(link: &Link) -> Result<HashMap<String, String>, StoreError> {
    let mut sections = redis::pipe();
    for section in ["memory", "persistence", "replication", "cluster"] {
        sections.cmd("INFO").arg(section);
    }
    let texts: Vec<String> = link.call(Request::Pipeline(&sections)).await?;
    let lines = texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.split_once(':'));
    Ok(lines.map(|(name, value)| (name.to_string(), value.to_string())).collect())
}

/// A setting, unless the server keeps it to itself, as managed ones do.
async fn setting(link: &Link, name: &str) -> Option<String> {
    let mut command = redis::cmd("CONFIG");
    command.arg("GET").arg(name);
    match link.call::<Vec<String>>(Request::Command(&command)).await {
        Ok(pair) => pair.into_iter().nth(1),
        Err(error) => {
            tracing::debug!(%error, name, "setting not readable");
            None
        }
    }
}
