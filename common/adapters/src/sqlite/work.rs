//! Planned jobs and their outcomes.

use std::collections::{BTreeMap, HashSet};

use rusqlite::{Connection, OptionalExtension, params};

use crate::sqlite::engine::Answer;
use crate::sqlite::records::{improve_best, records_of};
use bluefin_common::digest::Digest;
use bluefin_common::job::{GroupId, JobId};
use bluefin_common::session::SessionName;
use bluefin_common::shelf::STANDINGS;
use bluefin_common::store::{EncodedGroup, JobState, OpenJobs, Planned, Progress, Stored, Touched};

/// Kind of count, see `schema.sql`.
const TOUCHED: &str = "touched";

pub(super) fn plan(connection: &Connection, session: &SessionName, jobs: &[Planned]) -> Answer<Vec<JobState>> {
    touch(connection, session)?;
    jobs.iter().map(|job| plan_one(connection, session, *job)).collect()
}

/// Counts that the session was given work: whoever removes it looks whether that has changed.
fn touch(connection: &Connection, session: &SessionName) -> Answer<()> {
    count(connection, session, TOUCHED, "", 1)
}

pub(super) fn touched(connection: &Connection, session: &SessionName) -> Answer<Touched> {
    let times: Option<i64> = connection
        .prepare_cached("SELECT count FROM stats WHERE session = ?1 AND kind = ?2")?
        .query_row(params![session.as_str(), TOUCHED], |row| row.get(0))
        .optional()?;
    let standing = records_of(connection, STANDINGS, &[session.to_string()])?.into_iter().flatten().next();
    Ok(Touched { times: times.map_or(0, unsigned), standing })
}

fn plan_one(connection: &Connection, session: &SessionName, job: Planned) -> Answer<JobState> {
    if has_outcome(connection, session, job.group, job.id)? {
        return Ok(JobState::Done);
    }
    let known: Option<bool> = connection
        .prepare_cached("SELECT enqueued FROM jobs WHERE session = ?1 AND id = ?2")?
        .query_row(params![session.as_str(), job.id.0], |row| row.get(0))
        .optional()?;
    if let Some(enqueued) = known {
        return Ok(if enqueued { JobState::Enqueued } else { JobState::Planned });
    }
    connection
        .prepare_cached("INSERT INTO jobs (session, id, enqueued, group_id) VALUES (?1, ?2, 0, ?3)")?
        .execute(params![session.as_str(), job.id.0, job.group.0])?;
    unsettle(connection, session, job.group, 1)?;
    count(connection, session, "planned", job.stage.name(), 1)?;
    Ok(JobState::Planned)
}

pub(super) fn enqueued(connection: &Connection, session: &SessionName, jobs: &[JobId]) -> Answer<()> {
    let mut update = connection.prepare_cached("UPDATE jobs SET enqueued = 1 WHERE session = ?1 AND id = ?2")?;
    for job in jobs {
        update.execute(params![session.as_str(), job.0])?;
    }
    Ok(())
}

pub(super) fn put_outcome(
    connection: &Connection,
    session: &SessionName,
    job: Planned,
    outcome: &[u8],
    tally: &BTreeMap<(&'static str, &'static str), u64>,
    best_ms: Option<f64>,
) -> Answer<Stored> {
    let first = connection
        .prepare_cached(
            "INSERT INTO outcomes (session, group_id, id, outcome) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
        )?
        .execute(params![session.as_str(), job.group.0, job.id.0, outcome])?
        == 1;
    if first {
        let was_planned = connection
            .prepare_cached("DELETE FROM jobs WHERE session = ?1 AND id = ?2")?
            .execute(params![session.as_str(), job.id.0])?
            == 1;
        if was_planned {
            connection
                .prepare_cached("UPDATE groups SET open = open - 1 WHERE session = ?1 AND id = ?2")?
                .execute(params![session.as_str(), job.group.0])?;
        } else {
            // Never planned, or the plan was lost: planned and done at once.
            unsettle(connection, session, job.group, 0)?;
            count(connection, session, "planned", job.stage.name(), 1)?;
        }
        count(connection, session, "done", job.stage.name(), 1)?;
        for ((kind, name), by) in tally {
            count(connection, session, kind, name, *by)?;
        }
        if let Some(best_ms) = best_ms {
            improve_best(connection, session, job.group, best_ms)?;
        }
    }
    Ok(Stored { first, open: open_jobs(connection, session, job.group)?, settled: false })
}

/// `again`: its job is planned.
pub(super) fn retract_outcome(
    connection: &Connection,
    session: &SessionName,
    job: Planned,
    tally: &BTreeMap<(&'static str, &'static str), u64>,
    again: bool,
) -> Answer<bool> {
    let was_there = connection
        .prepare_cached("DELETE FROM outcomes WHERE session = ?1 AND group_id = ?2 AND id = ?3")?
        .execute(params![session.as_str(), job.group.0, job.id.0])?
        == 1;
    if was_there {
        touch(connection, session)?;
        if again {
            connection
                .prepare_cached("INSERT OR REPLACE INTO jobs (session, id, enqueued, group_id) VALUES (?1, ?2, 0, ?3)")?
                .execute(params![session.as_str(), job.id.0, job.group.0])?;
            unsettle(connection, session, job.group, 1)?;
        } else {
            discount(connection, session, "planned", job.stage.name(), 1)?;
        }
        discount(connection, session, "done", job.stage.name(), 1)?;
        for ((kind, name), by) in tally {
            discount(connection, session, kind, name, *by)?;
        }
    }
    Ok(was_there)
}

pub(super) fn rewrite_outcomes(connection: &Connection, outcomes: &[(SessionName, Planned, Vec<u8>)]) -> Answer<()> {
    let mut update = connection
        .prepare_cached("UPDATE outcomes SET outcome = ?4 WHERE session = ?1 AND group_id = ?2 AND id = ?3")?;
    for (session, job, bytes) in outcomes {
        update.execute(params![session.as_str(), job.group.0, job.id.0, bytes])?;
    }
    Ok(())
}

pub(super) fn has_outcome(
    connection: &Connection,
    session: &SessionName,
    group: GroupId,
    job: JobId,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM outcomes WHERE session = ?1 AND group_id = ?2 AND id = ?3")?
        .exists(params![session.as_str(), group.0, job.0])
}

pub(super) fn open_jobs(connection: &Connection, session: &SessionName, group: GroupId) -> Answer<u64> {
    let open: Option<i64> = connection
        .prepare_cached("SELECT open FROM groups WHERE session = ?1 AND id = ?2")?
        .query_row(params![session.as_str(), group.0], |row| row.get(0))
        .optional()?;
    Ok(open.map_or(0, unsigned))
}

pub(super) fn planned_jobs(connection: &Connection, session: &SessionName) -> Answer<Vec<(JobId, bool)>> {
    let mut statement = connection.prepare_cached("SELECT id, enqueued FROM jobs WHERE session = ?1")?;
    let jobs = statement.query_map([session.as_str()], |row| Ok((Digest(row.get(0)?), row.get(1)?)))?;
    Ok(jobs.collect::<Result<_, _>>()?)
}

pub(super) fn groups(connection: &Connection, session: &SessionName) -> Answer<Vec<GroupId>> {
    group_ids(connection, session, "SELECT id FROM groups WHERE session = ?1")
}

pub(super) fn open_groups(connection: &Connection, session: &SessionName) -> Answer<Vec<GroupId>> {
    group_ids(connection, session, "SELECT id FROM groups WHERE session = ?1 AND open > 0")
}

fn group_ids(connection: &Connection, session: &SessionName, query: &str) -> Answer<Vec<GroupId>> {
    let mut statement = connection.prepare_cached(query)?;
    let groups = statement.query_map([session.as_str()], |row| row.get(0).map(Digest))?;
    Ok(groups.collect::<Result<_, _>>()?)
}

/// The outcomes of `groups`, in their order.
pub(super) fn outcomes(
    connection: &Connection,
    session: &SessionName,
    groups: &[GroupId],
) -> Answer<Vec<EncodedGroup>> {
    let mut statement = connection
        .prepare_cached("SELECT id, outcome FROM outcomes WHERE session = ?1 AND group_id = ?2 ORDER BY id")?;
    let mut all = Vec::with_capacity(groups.len());
    for group in groups {
        let mut outcomes = Vec::new();
        let mut rows = statement.query(params![session.as_str(), group.0])?;
        while let Some(row) = rows.next()? {
            outcomes.push((Digest(row.get(0)?), row.get::<_, Vec<u8>>(1)?.into()));
        }
        all.push(EncodedGroup { group: *group, outcomes });
    }
    Ok(all)
}

pub(super) fn settle_group(connection: &Connection, session: &SessionName, group: GroupId) -> Answer<()> {
    connection
        .prepare_cached("UPDATE groups SET settled = 1 WHERE session = ?1 AND id = ?2 AND open = 0")?
        .execute(params![session.as_str(), group.0])?;
    Ok(())
}

pub(super) fn forget_unfinished(connection: &Connection, session: &SessionName) -> Answer<()> {
    for statement in [
        "DELETE FROM jobs WHERE session = ?1",
        "UPDATE groups SET open = 0, settled = 1 WHERE session = ?1",
        "DELETE FROM stats WHERE session = ?1 AND kind = 'planned'",
        "INSERT INTO stats SELECT session, 'planned', name, count FROM stats WHERE session = ?1 AND kind = 'done'",
    ] {
        connection.prepare_cached(statement)?.execute([session.as_str()])?;
    }
    Ok(())
}

pub(super) fn open_jobs_by_group(connection: &Connection, session: &SessionName) -> Answer<OpenJobs> {
    let mut statement = connection.prepare_cached("SELECT group_id, id FROM jobs WHERE session = ?1 ORDER BY id")?;
    let mut rows = statement.query([session.as_str()])?;
    let mut open = OpenJobs::new();
    while let Some(row) = rows.next()? {
        open.entry(Digest(row.get(0)?)).or_default().push(Digest(row.get(1)?));
    }
    Ok(open)
}

pub(super) fn unsettled_groups(connection: &Connection, session: &SessionName) -> Answer<HashSet<GroupId>> {
    let mut statement = connection.prepare_cached("SELECT id FROM groups WHERE session = ?1 AND settled = 0")?;
    let groups = statement.query_map([session.as_str()], |row| row.get(0).map(Digest))?;
    Ok(groups.collect::<Result<_, _>>()?)
}

pub(super) fn progress(connection: &Connection, session: &SessionName) -> Answer<Progress> {
    let (groups, unsettled): (i64, i64) = connection
        .prepare_cached("SELECT count(*), count(*) FILTER (WHERE settled = 0) FROM groups WHERE session = ?1")?
        .query_row([session.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut progress =
        Progress { groups: unsigned(groups), unsettled_groups: unsigned(unsettled), ..Progress::default() };
    let mut statement = connection.prepare_cached("SELECT kind, name, count FROM stats WHERE session = ?1")?;
    let mut rows = statement.query([session.as_str()])?;
    while let Some(row) = rows.next()? {
        let (kind, name, count): (String, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        match kind.as_str() {
            "planned" => progress.planned.insert(name, unsigned(count)),
            "done" => progress.done.insert(name, unsigned(count)),
            "candidates" => progress.candidates.insert(name, unsigned(count)),
            "busy" => progress.busy_ms.insert(name, unsigned(count)),
            _ => None,
        };
    }
    Ok(progress)
}

/// Marks the group as having work left, with `open` more open jobs.
fn unsettle(connection: &Connection, session: &SessionName, group: GroupId, open: i64) -> Answer<()> {
    connection
        .prepare_cached(
            "INSERT INTO groups (session, id, open, settled) VALUES (?1, ?2, ?3, 0)
             ON CONFLICT DO UPDATE SET open = open + excluded.open, settled = 0",
        )?
        .execute(params![session.as_str(), group.0, open])?;
    Ok(())
}

fn count(connection: &Connection, session: &SessionName, kind: &str, name: &str, by: u64) -> Answer<()> {
    connection
        .prepare_cached(
            "INSERT INTO stats (session, kind, name, count) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET count = count + excluded.count",
        )?
        .execute(params![session.as_str(), kind, name, i64::try_from(by).unwrap_or(i64::MAX)])?;
    Ok(())
}

/// What comes to nothing is not counted any more.
fn discount(connection: &Connection, session: &SessionName, kind: &str, name: &str, by: u64) -> Answer<()> {
    let by = i64::try_from(by).unwrap_or(i64::MAX);
    connection
        .prepare_cached("UPDATE stats SET count = count - ?4 WHERE session = ?1 AND kind = ?2 AND name = ?3")?
        .execute(params![session.as_str(), kind, name, by])?;
    connection
        .prepare_cached("DELETE FROM stats WHERE session = ?1 AND kind = ?2 AND name = ?3 AND count <= 0")?
        .execute(params![session.as_str(), kind, name])?;
    Ok(())
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
