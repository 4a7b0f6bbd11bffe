//! SQLite: tables and views for questions in SQL. `schema.sql` has the columns.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bluefin_common::session::Session;
use rusqlite::{Connection, params};

use super::{Row, Write};

/// Made when all rows are there, which is faster.
const INDEXES: &str = "CREATE INDEX candidates_by_problem ON candidates (problem, solver);
    CREATE INDEX candidates_by_result ON candidates (result);";

/// Writes one database, into an empty file.
pub struct SqliteRows {
    connection: Connection,
    /// Row ids.
    problems: HashMap<Arc<str>, i64>,
    solvers: HashMap<(Arc<str>, String), i64>,
    candidates: i64,
}

impl SqliteRows {
    /// Begins one of `sessions`.
    ///
    /// # Errors
    /// If it can not be written to.
    pub fn new(path: &Path, sessions: &[Session]) -> io::Result<Self> {
        let begin = || {
            let connection = Connection::open(path)?;
            // Nobody sees the file before it is whole, so that there is nothing to go back to.
            connection.execute_batch(
                "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -65536;",
            )?;
            connection.execute_batch(include_str!("schema.sql"))?;
            for session in sessions {
                let stages: Vec<&str> = session.stages.iter().map(|stage| stage.name()).collect();
                let created = UNIX_EPOCH + Duration::from_millis(session.created_ms);
                connection.execute(
                    "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)",
                    params![
                        session.name.as_str(),
                        session.target.to_string(),
                        session.label,
                        session.method.to_string(),
                        list(&stages),
                        humantime::format_rfc3339_seconds(created).to_string(),
                    ],
                )?;
            }
            connection.execute_batch("BEGIN")?;
            Ok(Self { connection, problems: HashMap::new(), solvers: HashMap::new(), candidates: 0 })
        };
        begin().map_err(of_sqlite)
    }

    fn problem(&mut self, row: &Row) -> rusqlite::Result<i64> {
        if let Some(id) = self.problems.get(&row.problem) {
            return Ok(*id);
        }
        let id = self.problems.len() as i64 + 1;
        self.connection.prepare_cached("INSERT INTO problems VALUES (?, ?, ?)")?.execute(params![
            id,
            &*row.problem,
            &*row.label
        ])?;
        self.problems.insert(row.problem.clone(), id);
        Ok(id)
    }

    fn solver(&mut self, row: &Row) -> rusqlite::Result<i64> {
        let key = (row.spec.clone(), row.solver.clone());
        if let Some(id) = self.solvers.get(&key) {
            return Ok(*id);
        }
        let id = self.solvers.len() as i64 + 1;
        self.connection.prepare_cached("INSERT INTO solvers VALUES (?, ?, ?, ?)")?.execute(params![
            id,
            &*row.spec,
            row.solver,
            row.algorithm
        ])?;
        self.solvers.insert(key, id);
        Ok(id)
    }

    fn row(&mut self, row: &Row) -> rusqlite::Result<()> {
        let (problem, solver) = (self.problem(row)?, self.solver(row)?);
        self.candidates += 1;
        let id = self.candidates;
        let artifacts: Vec<&str> = row.artifacts.iter().map(String::as_str).collect();
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO candidates VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        insert.execute(params![
            id,
            &*row.session,
            problem,
            solver,
            row.spec_digest.as_deref(),
            row.params_json(),
            row.is_default,
            row.stage.name(),
            row.result.name(),
            row.median_ms,
            row.spread_ms,
            row.samples,
            row.gflops,
            row.gbytes_per_s,
            row.clock_mhz,
            row.throttled,
            row.noise.as_deref(),
            row.pruned,
            row.tied,
            row.winner,
            list(&artifacts),
            row.workspace.map(number),
            &*row.job,
            row.compiled_by.as_deref(),
            row.compile_ms.map(number),
            row.evaluated_by.as_deref(),
            row.device.as_deref(),
            row.device_uuid.as_deref(),
            row.driver.as_deref(),
            row.enqueued_ms.map(number),
            number(row.finished_ms),
            row.recompiles,
            row.attempts,
            number(row.busy_ms),
            row.search_ended.as_deref(),
            row.tried_percent,
            row.expected_gain_percent,
            row.registers,
            row.spilled_bytes,
            row.shared_bytes,
            row.resident_blocks,
        ])?;
        let mut insert = self.connection.prepare_cached("INSERT INTO samples VALUES (?, ?, ?)")?;
        for (index, ms) in (0_i64..).zip(&row.samples_ms) {
            insert.execute(params![id, index, ms])?;
        }
        if let Some(kind) = row.failure {
            let detail = row.detail.as_deref().unwrap_or_default();
            self.connection.prepare_cached("INSERT INTO failures VALUES (?, ?, ?)")?.execute(params![
                id,
                kind.name(),
                detail
            ])?;
        }
        for before in &row.before {
            self.connection.prepare_cached("INSERT INTO failures_before VALUES (?, ?, ?, ?, ?)")?.execute(params![
                id,
                before.failure.name(),
                before.detail,
                before.worker,
                number(before.finished_ms)
            ])?;
        }
        Ok(())
    }
}

impl Write for SqliteRows {
    fn rows(&mut self, rows: &[Row]) -> io::Result<()> {
        rows.iter().try_for_each(|row| self.row(row)).map_err(of_sqlite)
    }

    fn end(&mut self) -> io::Result<()> {
        self.connection.execute_batch(&format!("{INDEXES}\nCOMMIT;")).map_err(of_sqlite)?;
        // Closed by the drop: nothing is cached any more.
        self.connection.flush_prepared_statement_cache();
        Ok(())
    }
}

fn list(items: &[&str]) -> String {
    serde_json::to_string(items).unwrap_or_default()
}

fn of_sqlite(error: rusqlite::Error) -> io::Error {
    io::Error::other(error)
}

#[cfg(test)]
mod tests {
    use bluefin_common::failure::FailureKind;
    use bluefin_common::session::Stage;
    use bluefin_common::target::Target;

    use super::super::Before;
    use super::super::row::tests::{failed, row};
    use super::*;

    #[test]
    fn tables_and_views_answer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.db");
        let session = Session::of_kernels("s".parse().unwrap(), Target::Host, "label", &Stage::ALL, 0);
        let mut out = SqliteRows::new(&path, &[session]).unwrap();
        let once = |worker: &str| Before {
            finished_ms: 5,
            worker: Some(worker.to_string()),
            failure: FailureKind::Hang,
            detail: "too late".to_string(),
        };
        let won = Row { stage: Stage::Find, attempts: 3, before: vec![once("a"), once("b")], ..row(3) };
        let default = Row { is_default: Some(true), median_ms: Some(194.0), ..row(1) };
        out.rows(&[row(0), default, Row { winner: false, ..row(3) }]).unwrap();
        out.rows(&[won, failed(2, FailureKind::CompileError, "error: x")]).unwrap();
        out.end().unwrap();
        drop(out);
        let connection = Connection::open(&path).unwrap();
        let one = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
        assert_eq!(one("SELECT count(*) || ' ' || sum(samples) FROM candidates"), "5 8");
        assert_eq!(one("SELECT count(*) || ' ' || max(ms) FROM samples WHERE candidate = 1"), "2 2.5");
        assert_eq!(one("SELECT solver || ' ' || median_ms || ' ' || (params ->> 'tile') FROM winners"), "Tiled 97.0 3");
        assert_eq!(one("SELECT perf_ms || ' ' || default_ms FROM winners"), "97.0 194.0");
        assert_eq!(
            one("SELECT kind || ' ' || failures || ' ' || example FROM failures_by_kind"),
            "compile_error 1 error: x"
        );
        assert_eq!(one("SELECT count(*) || ' ' || sum(timed) FROM best_of_solver"), "2 4");
        assert_eq!(one("SELECT finished FROM results LIMIT 1"), "2023-11-14 22:13:20");
        assert_eq!(one("SELECT created FROM sessions"), "1970-01-01T00:00:00Z");
        assert_eq!(
            one(
                "SELECT attempts || group_concat(b.kind || b.worker) FROM results r JOIN failures_before b ON b.candidate = r.id"
            ),
            "3hanga,hangb"
        );
        assert_eq!(one("PRAGMA integrity_check"), "ok");
    }
}
