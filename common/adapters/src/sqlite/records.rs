//! Sessions, pins, records, blobs and best medians.

use rusqlite::{Connection, OptionalExtension, params};

use crate::sqlite::engine::Answer;
use bluefin_common::digest::Digest;
use bluefin_common::job::GroupId;
use bluefin_common::session::{Pins, Session, SessionName};
use bluefin_common::store::StoreError;
use bluefin_common::wire;

pub(super) fn create_session(connection: &Connection, session: &Session) -> Answer<Session> {
    let name = session.name.as_str();
    let bytes = wire::encode(session).map_err(|source| corrupt(name, source))?;
    connection
        .prepare_cached("INSERT INTO sessions (name, session) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
        .execute(params![name, bytes])?;
    let stored: Vec<u8> = connection
        .prepare_cached("SELECT session FROM sessions WHERE name = ?1")?
        .query_row([name], |row| row.get(0))?;
    decode(name, &stored)
}

pub(super) fn session(connection: &Connection, name: &SessionName) -> Answer<Option<Session>> {
    let stored: Option<Vec<u8>> = connection
        .prepare_cached("SELECT session FROM sessions WHERE name = ?1")?
        .query_row([name.as_str()], |row| row.get(0))
        .optional()?;
    stored.map(|bytes| decode(name.as_str(), &bytes)).transpose()
}

pub(super) fn sessions(connection: &Connection) -> Answer<Vec<Session>> {
    let mut statement = connection.prepare_cached("SELECT name, session FROM sessions ORDER BY name")?;
    let mut rows = statement.query([])?;
    let mut sessions = Vec::new();
    while let Some(row) = rows.next()? {
        let (name, bytes): (String, Vec<u8>) = (row.get(0)?, row.get(1)?);
        sessions.push(decode(&name, &bytes)?);
    }
    Ok(sessions)
}

pub(super) fn pin(connection: &Connection, session: &SessionName, key: &str, value: &str) -> Answer<String> {
    connection
        .prepare_cached("INSERT INTO pins (session, key, value) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?
        .execute(params![session.as_str(), key, value])?;
    let pinned = connection
        .prepare_cached("SELECT value FROM pins WHERE session = ?1 AND key = ?2")?
        .query_row(params![session.as_str(), key], |row| row.get(0))?;
    Ok(pinned)
}

pub(super) fn pins(connection: &Connection, session: &SessionName) -> Answer<Pins> {
    let mut statement = connection.prepare_cached("SELECT key, value FROM pins WHERE session = ?1")?;
    let pins = statement.query_map([session.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(pins.collect::<Result<_, _>>()?)
}

pub(super) fn unpin(connection: &Connection, session: &SessionName, keys: &[String]) -> Answer<()> {
    let mut remove = connection.prepare_cached("DELETE FROM pins WHERE session = ?1 AND key = ?2")?;
    for key in keys {
        remove.execute(params![session.as_str(), key])?;
    }
    Ok(())
}

pub(super) fn put_records(connection: &Connection, shelf: &str, records: &[(String, Vec<u8>)]) -> Answer<()> {
    let mut put =
        connection.prepare_cached("INSERT OR REPLACE INTO records (shelf, key, value) VALUES (?1, ?2, ?3)")?;
    for (key, value) in records {
        put.execute(params![shelf, key, value])?;
    }
    Ok(())
}

pub(super) fn claim_record(connection: &Connection, shelf: &str, key: &str, value: &[u8]) -> Answer<Vec<u8>> {
    connection
        .prepare_cached("INSERT INTO records (shelf, key, value) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?
        .execute(params![shelf, key, value])?;
    Ok(connection
        .prepare_cached("SELECT value FROM records WHERE shelf = ?1 AND key = ?2")?
        .query_row(params![shelf, key], |row| row.get(0))?)
}

pub(super) fn records_of(connection: &Connection, shelf: &str, keys: &[String]) -> Answer<Vec<Option<Vec<u8>>>> {
    let mut get = connection.prepare_cached("SELECT value FROM records WHERE shelf = ?1 AND key = ?2")?;
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        found.push(get.query_row(params![shelf, key], |row| row.get(0)).optional()?);
    }
    Ok(found)
}

pub(super) fn records(connection: &Connection, shelf: &str) -> Answer<Vec<(String, Vec<u8>)>> {
    let mut all = connection.prepare_cached("SELECT key, value FROM records WHERE shelf = ?1 ORDER BY key")?;
    let rows = all.query_map([shelf], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn remove_records(connection: &Connection, shelf: &str, keys: &[String]) -> Answer<()> {
    let mut remove = connection.prepare_cached("DELETE FROM records WHERE shelf = ?1 AND key = ?2")?;
    for key in keys {
        remove.execute(params![shelf, key])?;
    }
    Ok(())
}

pub(super) fn put_blob(connection: &Connection, digest: Digest, packed: &[u8]) -> Answer<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO blobs (digest, packed) VALUES (?1, ?2)")?
        .execute(params![digest.0, packed])?;
    Ok(())
}

pub(super) fn blob(connection: &Connection, digest: Digest) -> Answer<Option<Vec<u8>>> {
    let packed = connection
        .prepare_cached("SELECT packed FROM blobs WHERE digest = ?1")?
        .query_row([digest.0], |row| row.get(0))
        .optional()?;
    Ok(packed)
}

pub(super) fn best_ms(connection: &Connection, session: &SessionName, group: GroupId) -> Answer<Option<f64>> {
    let best = connection
        .prepare_cached("SELECT median_ms FROM best WHERE session = ?1 AND group_id = ?2")?
        .query_row(params![session.as_str(), group.0], |row| row.get(0))
        .optional()?;
    Ok(best)
}

pub(super) fn improve_best(
    connection: &Connection,
    session: &SessionName,
    group: GroupId,
    median_ms: f64,
) -> Answer<()> {
    connection
        .prepare_cached(
            "INSERT INTO best (session, group_id, median_ms) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET median_ms = excluded.median_ms WHERE excluded.median_ms < median_ms",
        )?
        .execute(params![session.as_str(), group.0, median_ms])?;
    Ok(())
}

fn decode(name: &str, bytes: &[u8]) -> Answer<Session> {
    Ok(wire::decode(bytes).map_err(|source| corrupt(name, source))?)
}

fn corrupt(name: &str, source: wire::WireError) -> StoreError {
    StoreError::Corrupt { key: format!("session {name}"), source }
}
