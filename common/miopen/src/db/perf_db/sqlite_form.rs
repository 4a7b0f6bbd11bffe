//! Tables `config` and `perf_db` (MIOpen 3.3, src/include/miopen/sqlite_db.hpp and src/sqlite_db.cpp).

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use bluefin_common::value::Value;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, TransactionBehavior, params_from_iter};

use crate::db::error::{ReadError, WriteError};
use crate::db::find_db::intern;
use crate::db::findings::{FindingKind, Findings};
use crate::db::perf_db::{PerfDb, PerfRow};
use crate::db::sqlite;
use crate::key::PerfDbKey;

/// Columns of `config` behind `id`.
const CONFIG: [&str; 24] = PerfDbKey::COLUMNS;

/// A column's value, bound without a copy.
struct Column<'a>(&'a Value);

impl ToSql for Column<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            Value::Int(int) => (*int).into(),
            Value::Bool(bool) => i64::from(*bool).into(),
            Value::Text(text) => text.as_str().into(),
        })
    }
}

impl<P: AsRef<str>> PerfDb<P> {
    /// Fills the empty file at `path`. Rows go in in the order of keys and solvers, so the same records give the same
    /// bytes. Returns the number of rows of `perf_db`.
    ///
    /// # Errors
    /// A text that one of the two forms can not hold, or that SQLite fails.
    pub fn write_sqlite(&self, path: &Path) -> Result<u64, WriteError> {
        for (solver, params) in self.filled().flat_map(|(_, solvers)| solvers) {
            PerfDb::check(solver, params.as_ref())?;
        }
        Ok(self.fill(path)?)
    }

    fn fill(&self, path: &Path) -> rusqlite::Result<u64> {
        let mut connection = sqlite::create(path)?;
        let transaction = connection.transaction()?;
        transaction.execute_batch(&schema())?;
        let mut rows = 0_i64;
        {
            let places: Vec<String> = (1..=CONFIG.len() + 1).map(|place| format!("?{place}")).collect();
            let mut config = transaction.prepare(&format!(
                "INSERT INTO config(id,{}) VALUES({})",
                CONFIG.join(","),
                places.join(",")
            ))?;
            let mut perf = transaction.prepare("INSERT INTO perf_db(id,solver,config,params) VALUES(?1,?2,?3,?4)")?;
            for ((key, solvers), id) in self.filled().zip(1_i64..) {
                let columns = key.columns();
                let id_column = Value::Int(id);
                let values = [&id_column].into_iter().chain(columns.iter().map(|(_, value)| value));
                config.execute(params_from_iter(values.map(Column)))?;
                for (solver, params) in solvers {
                    rows += 1;
                    perf.execute((rows, &**solver, id, params.as_ref()))?;
                }
            }
        }
        // An index is smaller and faster made at once than row by row.
        transaction.execute_batch(&format!(
            "CREATE UNIQUE INDEX `idx_config` ON config( {} );\
             CREATE UNIQUE INDEX `idx_perf_db` ON perf_db(solver, config);",
            CONFIG.join(",")
        ))?;
        transaction.commit()?;
        connection.close().map_err(|(_, error)| error)?;
        Ok(rows.unsigned_abs())
    }
}

impl PerfDb {
    /// Reads the SQLite form from the bytes of its file; `name` is for errors.
    ///
    /// # Errors
    /// If it is too large, no SQLite database, or not one with these tables.
    pub fn parse_sqlite(name: &str, bytes: &[u8]) -> Result<Self, ReadError> {
        Self::from_connection(name, &sqlite::open_bytes(name, bytes)?, &mut |_| {})
    }

    /// Reads the SQLite form from its file.
    ///
    /// # Errors
    /// As for [`Self::parse_sqlite`].
    pub fn read_sqlite(path: &Path) -> Result<Self, ReadError> {
        Self::read_sqlite_with(path, |_| {})
    }

    /// As [`Self::read_sqlite`], and shows every row that MIOpen would use to `visit`.
    ///
    /// # Errors
    /// As there.
    pub fn read_sqlite_with(path: &Path, mut visit: impl FnMut(PerfRow<'_>)) -> Result<Self, ReadError> {
        Self::from_connection(&path.display().to_string(), &sqlite::open_file(path)?, &mut visit)
    }

    /// Takes rows out of the SQLite form and leaves all else as it is, all of them or none. `false`: they are not there as they were read, and nothing
    /// was changed.
    ///
    /// # Errors
    /// As for [`Self::parse_sqlite`], and if the file can not be written or another process has it for too long.
    pub fn remove_sqlite(path: &Path, gone: &[PerfRow<'_>]) -> Result<bool, ReadError> {
        let name = path.display().to_string();
        let mut connection = sqlite::open_to_change(path)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = transaction.map_err(ReadError::sqlite(&name))?;
        let wanted: HashMap<u64, &PerfRow<'_>> = gone.iter().map(|row| (row.line, row)).collect();
        let mut found = 0;
        Self::from_connection(&name, &transaction, &mut |row| {
            found += usize::from(wanted.get(&row.line).is_some_and(|wanted| **wanted == row));
        })?;
        let remove = || {
            let mut changed = 0;
            for id in wanted.keys() {
                changed += transaction.execute("DELETE FROM perf_db WHERE id = ?1", [id.cast_signed()])?;
            }
            Ok(changed)
        };
        if found != gone.len() || remove().map_err(ReadError::sqlite(&name))? != gone.len() {
            return Ok(false);
        }
        transaction.commit().map_err(ReadError::sqlite(&name))?;
        connection.close().map_err(|(_, error)| ReadError::sqlite(&name)(error))?;
        Ok(true)
    }

    fn from_connection(
        name: &str,
        connection: &Connection,
        visit: &mut dyn FnMut(PerfRow<'_>),
    ) -> Result<Self, ReadError> {
        sqlite::check_table(connection, name, "config", &[["id"].as_slice(), &CONFIG].concat())?;
        sqlite::check_table(connection, name, "perf_db", &["id", "solver", "config", "params"])?;
        let mut db = Self::default();
        let mut findings = Findings::default();
        db.read_rows(connection, &mut findings, visit).map_err(ReadError::sqlite(name))?;
        db.findings = findings;
        Ok(db)
    }

    fn read_rows(
        &mut self,
        connection: &Connection,
        findings: &mut Findings,
        visit: &mut dyn FnMut(PerfRow<'_>),
    ) -> rusqlite::Result<()> {
        let mut configs: HashMap<i64, PerfDbKey> = HashMap::new();
        let mut statement = connection.prepare(&format!("SELECT id,{} FROM config ORDER BY id", CONFIG.join(",")))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let ValueRef::Integer(id) = row.get_ref(0)? else { continue };
            let mut columns = Vec::with_capacity(CONFIG.len());
            for column in 0..CONFIG.len() {
                columns.push(text(row.get_ref(column + 1)?));
            }
            match key(&columns) {
                Ok(key) => {
                    configs.insert(id, key);
                }
                Err(reason) => findings.add(id.unsigned_abs(), FindingKind::Key, || format!("config {id}: {reason}")),
            }
        }
        drop(rows);
        // Joined here: in a hostile file ids need not be unique, and a join could take for ever.
        let mut names: HashSet<Arc<str>> = HashSet::new();
        let mut used: HashSet<i64> = HashSet::new();
        let mut statement = connection.prepare("SELECT id,solver,config,params FROM perf_db ORDER BY id")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let line = row.get_ref(0)?.as_i64().unwrap_or_default();
            let found = (text(row.get_ref(1)?), row.get_ref(2)?.as_i64().ok(), text(row.get_ref(3)?));
            let (Some(solver), Some(config), Some(params)) = found else {
                findings.add(line.unsigned_abs(), FindingKind::Column, || {
                    format!("perf_db {line}: found {found:?}, expected a solver, a config id and params")
                });
                continue;
            };
            let Some(key) = configs.get(&config) else {
                findings.add(line.unsigned_abs(), FindingKind::Reference, || {
                    format!("perf_db {line}: found config {config}, which is not there or no key; skipped")
                });
                continue;
            };
            used.insert(config);
            let solvers = self.records.entry(key.clone()).or_default();
            if solvers.contains_key(solver.as_str()) {
                findings.add(line.unsigned_abs(), FindingKind::DuplicateSolver, || {
                    format!("perf_db {line}: solver {solver} came before for its config; the first one stands")
                });
                continue;
            }
            visit(PerfRow { line: line.unsigned_abs(), key, solver: &solver, params: &params });
            solvers.insert(intern(&mut names, &solver), params.into());
        }
        let unused = configs.len() - used.len();
        if unused > 0 {
            findings.add(0, FindingKind::Reference, || format!("{unused} configs without params; left out"));
        }
        Ok(())
    }
}

/// The schema as MIOpen makes it: it compares none of this text, but other tools do.
fn schema() -> String {
    let columns = CONFIG.iter().enumerate().map(|(index, column)| {
        let kind = if index < PerfDbKey::TEXTS { "TEXT" } else { "INT" };
        format!("`{column}` {kind} NOT NULL")
    });
    let columns: Vec<String> = columns.collect();
    format!(
        "CREATE TABLE `config` (`id` INTEGER PRIMARY KEY ASC,{});\
         CREATE TABLE `perf_db` (`id` INTEGER PRIMARY KEY ASC,`solver` TEXT NOT NULL,`config` INTEGER NOT NULL, \
         `params` TEXT NOT NULL);",
        columns.join(",")
    )
}

/// A value that compares like the texts that MIOpen binds.
fn text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Integer(int) => Some(int.to_string()),
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok().map(str::to_string),
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => None,
    }
}

/// The key of a row of `config`, through its text form: there is one parser of keys.
fn key(columns: &[Option<String>]) -> Result<PerfDbKey, String> {
    let missing = columns.iter().zip(CONFIG).find(|(value, _)| value.is_none());
    if let Some((_, column)) = missing {
        return Err(format!("column {column}: expected an integer or a text"));
    }
    let columns: Vec<&str> = columns.iter().flatten().map(String::as_str).collect();
    let (texts, integers) = columns.split_at(PerfDbKey::TEXTS.min(columns.len()));
    let text = [integers, texts].concat().join("x");
    text.parse().map_err(|error: crate::key::PerfKeyError| error.to_string())
}
