//! The artifact cache: what has not been used for longest goes when it grows beyond its limit.

use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, params};

use crate::sqlite::engine::Answer;
use bluefin_common::digest::Digest;

/// A use is written down only if the last one noted is older than this, so that most reads write nothing. In seconds.
const NOTED: i64 = 60;

/// Share of the limit that is left after pruning, so that not every artifact has to prune.
const LEFT: f64 = 0.9;

#[derive(Clone, Copy)]
pub(super) enum CachedKind {
    Artifact = 0,
    Compiled = 1,
}

pub(super) fn put(connection: &Connection, kind: CachedKind, key: Digest, value: &[u8], limit: u64) -> Answer<()> {
    // Not REPLACE, which would not run the trigger that keeps the total.
    remove(connection, kind, key)?;
    connection
        .prepare_cached("INSERT INTO cache (kind, key, used, size, value) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![kind as i64, key.0, now(), value.len() as i64, value])?;
    prune(connection, limit)
}

fn prune(connection: &Connection, limit: u64) -> Answer<()> {
    let total: i64 = connection.prepare_cached("SELECT size FROM cache_total")?.query_row([], |row| row.get(0))?;
    let mut total = u64::try_from(total).unwrap_or(0);
    if total <= limit {
        return Ok(());
    }
    let enough = (limit as f64 * LEFT) as u64;
    // The rowid settles ties: of what was used in the same second, the older goes first.
    let mut oldest = connection.prepare_cached("SELECT rowid, size FROM cache ORDER BY used, rowid LIMIT 1")?;
    let mut delete = connection.prepare_cached("DELETE FROM cache WHERE rowid = ?1")?;
    while total > enough {
        let found: Option<(i64, i64)> = oldest.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let Some((row, size)) = found else { break };
        delete.execute([row])?;
        total = total.saturating_sub(u64::try_from(size).unwrap_or(0));
    }
    Ok(())
}

pub(super) fn get(connection: &Connection, kind: CachedKind, key: Digest) -> Answer<Option<Vec<u8>>> {
    let found: Option<(i64, i64, Vec<u8>)> = connection
        .prepare_cached("SELECT rowid, used, value FROM cache WHERE kind = ?1 AND key = ?2")?
        .query_row(params![kind as i64, key.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((row, used, value)) = found else { return Ok(None) };
    note_use(connection, row, used)?;
    Ok(Some(value))
}

pub(super) fn has(connection: &Connection, kind: CachedKind, key: Digest) -> Answer<bool> {
    let found: Option<(i64, i64)> = connection
        .prepare_cached("SELECT rowid, used FROM cache WHERE kind = ?1 AND key = ?2")?
        .query_row(params![kind as i64, key.0], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let Some((row, used)) = found {
        note_use(connection, row, used)?;
    }
    Ok(found.is_some())
}

pub(super) fn remove(connection: &Connection, kind: CachedKind, key: Digest) -> Answer<()> {
    connection
        .prepare_cached("DELETE FROM cache WHERE kind = ?1 AND key = ?2")?
        .execute(params![kind as i64, key.0])?;
    Ok(())
}

fn note_use(connection: &Connection, row: i64, used: i64) -> Answer<()> {
    let now = now();
    if now.saturating_sub(used) >= NOTED && !connection.is_readonly("main")? {
        connection.prepare_cached("UPDATE cache SET used = ?1 WHERE rowid = ?2")?.execute([now, row])?;
    }
    Ok(())
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}
