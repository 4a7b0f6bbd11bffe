//! What a session takes up, and how it goes as a whole.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, params};

use crate::sqlite::engine::Answer;
use bluefin_common::digest::Digest;
use bluefin_common::session::SessionName;
use bluefin_common::shelf;
use bluefin_common::store::SessionSize;

pub(super) fn of(connection: &Connection, session: &SessionName) -> Answer<SessionSize> {
    let sum = |sql: &str| -> Answer<u64> {
        let bytes: i64 = connection.prepare_cached(sql)?.query_row([session.as_str()], |row| row.get(0))?;
        Ok(u64::try_from(bytes).unwrap_or(0))
    };
    let outcomes = sum("SELECT coalesce(sum(length(outcome) + 64), 0) FROM outcomes WHERE session = ?1")?;
    let plan = sum("SELECT 64 * count(*) FROM jobs WHERE session = ?1")?
        + sum("SELECT 48 * count(*) FROM groups WHERE session = ?1")?
        + sum("SELECT 48 * count(*) FROM best WHERE session = ?1")?;
    let mut records = 0;
    let mut of_shelf = connection
        .prepare_cached("SELECT coalesce(sum(length(key) + length(value)), 0) FROM records WHERE shelf = ?1")?;
    for shelf in shelf::of_session(session) {
        let bytes: i64 = of_shelf.query_row([shelf], |row| row.get(0))?;
        records += u64::try_from(bytes).unwrap_or(0);
    }
    Ok(SessionSize { outcomes, plan, records })
}

pub(super) fn remove(connection: &Connection, session: &SessionName) -> Answer<()> {
    for statement in [
        "DELETE FROM outcomes WHERE session = ?1",
        "DELETE FROM jobs WHERE session = ?1",
        "DELETE FROM groups WHERE session = ?1",
        "DELETE FROM best WHERE session = ?1",
        "DELETE FROM stats WHERE session = ?1",
        "DELETE FROM pins WHERE session = ?1",
        "DELETE FROM sessions WHERE name = ?1",
    ] {
        connection.prepare_cached(statement)?.execute([session.as_str()])?;
    }
    let mut clear = connection.prepare_cached("DELETE FROM records WHERE shelf = ?1")?;
    for shelf in shelf::of_session(session) {
        clear.execute([shelf])?;
    }
    Ok(())
}

pub(super) fn blobs(connection: &Connection, digests: &[Digest]) -> Answer<Vec<u64>> {
    let mut length = connection.prepare_cached("SELECT length(packed) FROM blobs WHERE digest = ?1")?;
    let mut sizes = Vec::with_capacity(digests.len());
    for digest in digests {
        let bytes: Option<i64> = length.query_row([digest.0], |row| row.get(0)).optional()?;
        sizes.push(bytes.map_or(0, |bytes| u64::try_from(bytes).unwrap_or(0)));
    }
    Ok(sizes)
}

pub(super) fn all_blobs(connection: &Connection) -> Answer<Vec<Digest>> {
    let mut all = connection.prepare_cached("SELECT digest FROM blobs ORDER BY digest")?;
    let digests = all.query_map([], |row| row.get(0).map(Digest))?;
    Ok(digests.collect::<Result<_, _>>()?)
}

/// Sessions that are not there and of which something is.
pub(super) fn orphans(connection: &Connection) -> Answer<Vec<SessionName>> {
    let mut names = BTreeSet::new();
    for table in ["outcomes", "jobs", "groups", "best", "stats", "pins"] {
        let mut distinct = connection.prepare_cached(&format!("SELECT DISTINCT session FROM {table}"))?;
        let found: Vec<String> = distinct.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        names.extend(found.iter().filter_map(|name| name.parse::<SessionName>().ok()));
    }
    let mut shelves = connection.prepare_cached("SELECT DISTINCT shelf FROM records")?;
    let found: Vec<String> = shelves.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    names.extend(found.iter().filter_map(|name| shelf::session_of(name)));
    let mut known = connection.prepare_cached("SELECT 1 FROM sessions WHERE name = ?1")?;
    let mut orphans = Vec::new();
    for name in names {
        if !known.exists([name.as_str()])? {
            orphans.push(name);
        }
    }
    Ok(orphans)
}

pub(super) fn remove_blobs(connection: &Connection, digests: &[Digest]) -> Answer<()> {
    let mut remove = connection.prepare_cached("DELETE FROM blobs WHERE digest = ?1")?;
    for digest in digests {
        remove.execute(params![digest.0])?;
    }
    Ok(())
}
