//! Which problems databases cover: what MIOpen will find in them for each, before a user notices that it finds nothing.

use std::collections::HashSet;
use std::path::Path;

use bluefin_common::problem::Problem;
use bluefin_miopen::db::find_db::FindDb;
use bluefin_miopen::db::kernel_db::KernelReader;
use bluefin_miopen::db::perf_db::{NormDb, PerfDb};
use bluefin_miopen::db::solvers::Solvers;
use bluefin_miopen::db::sources::sources;
use bluefin_miopen::key::{FindDbKey, PerfDbKey, batch_norm};
use serde::Serialize;

use crate::db::name::{DbKind, Keys};
use crate::db::winner::winner;
use crate::db::{DbError, Source};

/// Databases to look into. Of several of a kind the first one that has a key answers, as a user's hides the system's.
#[derive(Debug, Default)]
pub struct Databases {
    find: Vec<FindDb>,
    perf: Vec<PerfDb>,
    norms: Vec<NormDb>,
    /// Their source files.
    kernels: Option<HashSet<String>>,
    /// Those that MIOpen has; of 3.3 where nothing else is said.
    solvers: Option<Solvers>,
}

/// Whether something that a problem needs is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    Present,
    Missing,
    /// The problem needs none: its winner is not tunable.
    NotNeeded,
    /// No database of the kind was given, or it does not tell: which kernels a solver of MIOpen's uses only MIOpen knows.
    Unknown,
}

/// What the databases have of one problem.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Canonical form.
    pub problem: String,
    /// Short name for tables.
    pub label: String,
    /// How often it is asked for.
    pub count: u64,
    /// `None` for what has no key in a find db.
    pub key: Option<String>,
    pub find: Presence,
    /// The solver that MIOpen takes first of its find record.
    pub solver: Option<String>,
    /// One of those of the record, where MIOpen has none of them, so that it ignores the record: bluefin's own, for example.
    pub ignored: Option<String>,
    /// Milliseconds.
    pub time_ms: Option<f32>,
    pub params: Presence,
    pub kernel: Presence,
    /// Nothing that it needs is missing.
    pub covered: bool,
}

/// How many of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Share {
    pub covered: u64,
    pub of: u64,
    /// 100 if there are none.
    pub percent: f64,
}

impl Share {
    fn new(covered: u64, of: u64) -> Self {
        let percent = if of == 0 { 100.0 } else { 100.0 * covered as f64 / of as f64 };
        Self { covered, of, percent }
    }
}

/// What the databases have of a list of problems.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Coverage {
    /// Each problem once.
    pub problems: Share,
    /// Each problem as often as it is asked for.
    pub weighted: Share,
    pub without_find: u64,
    /// Of those, with records that MIOpen ignores.
    pub ignored: u64,
    pub without_params: u64,
    pub without_kernel: u64,
    /// Problems that none of the databases can hold, and that are left out: GEMMs, users' own kernels, and batch norms where no perf
    /// db of theirs is given.
    pub not_convolutions: u64,
    pub rows: Vec<Row>,
}

impl Databases {
    /// None yet, for the MIOpen that has these solvers.
    #[must_use]
    pub fn for_solvers(solvers: Solvers) -> Self {
        Self { solvers: Some(solvers), ..Self::default() }
    }

    /// Reads one more file.
    ///
    /// # Errors
    /// If it can not be read or is no database.
    pub fn add(&mut self, path: &Path) -> Result<(), DbError> {
        let source = Source::open(path, &|_| {})?;
        match source.content.kind {
            // No driver command asks for a plan.
            DbKind::Find if source.keys() == Keys::Fusions => {}
            DbKind::Find => self.find.push(source.find_db()?),
            DbKind::Perf if source.keys() == Keys::BatchNorms => self.norms.push(source.norm_db(|_, _, _, _| {})?),
            DbKind::Perf => self.perf.push(source.perf_db(|_| {})?),
            DbKind::Kernel => {
                let names = self.kernels.get_or_insert_default();
                let reader = KernelReader::open(source.local()).map_err(|error| source.named(error))?;
                let heads = reader.heads(|head| {
                    names.insert(head.kernel.name);
                });
                heads.map_err(|error| source.named(error))?;
            }
        }
        Ok(())
    }

    /// Whether one of them tells which problems there are.
    #[must_use]
    pub fn tell_problems(&self) -> bool {
        !self.find.is_empty() || !self.norms.is_empty()
    }

    /// Says what they have of `problems`, each with how often it is asked for. Records of solvers that MIOpen does not have do not
    /// count: it ignores them.
    #[must_use]
    pub fn coverage(&self, problems: &[(Problem, u64)]) -> Coverage {
        let mut rows = Vec::new();
        let mut not_convolutions = 0;
        for (problem, count) in problems {
            match self.row(problem, *count) {
                Some(row) => rows.push(row),
                None => not_convolutions += 1,
            }
        }
        let count = |wanted: fn(&Row) -> bool| rows.iter().filter(|row| wanted(row)).count() as u64;
        let weight = |wanted: fn(&Row) -> bool| rows.iter().filter(|row| wanted(row)).map(|row| row.count).sum::<u64>();
        Coverage {
            problems: Share::new(count(|row| row.covered), rows.len() as u64),
            weighted: Share::new(weight(|row| row.covered), weight(|_| true)),
            without_find: count(|row| row.find == Presence::Missing),
            ignored: count(|row| row.ignored.is_some()),
            without_params: count(|row| row.params == Presence::Missing),
            without_kernel: count(|row| row.kernel == Presence::Missing),
            not_convolutions,
            rows,
        }
    }

    fn row(&self, problem: &Problem, count: u64) -> Option<Row> {
        let conv = match problem {
            Problem::Conv(conv) => conv,
            Problem::BatchNorm(norm) if !self.norms.is_empty() => {
                return Some(self.norm_row(problem, &batch_norm::perf_db_key(norm), count));
            }
            _ => return None,
        };
        let key = FindDbKey::from(conv);
        let text = key.to_string();
        let solvers = self.solvers.as_ref().unwrap_or_else(|| Solvers::shipped());
        let entries = self.find.iter().find_map(|db| db.records.get(&text).filter(|entries| !entries.is_empty()));
        let winner = entries.and_then(|entries| winner(entries, solvers));
        let perf_key = PerfDbKey::from(&key);
        let has_params = winner.is_some_and(|winner| self.has_params(&perf_key, &winner.solver));
        let params_presence = match winner {
            None => Presence::Unknown,
            Some(_) if has_params => Presence::Present,
            Some(winner) if !solvers.is_tunable(&winner.solver) => Presence::NotNeeded,
            Some(_) if self.perf.is_empty() => Presence::Unknown,
            Some(_) => Presence::Missing,
        };
        let kernel = winner.map_or(Presence::Unknown, |winner| self.kernel(&winner.solver));
        let find = if winner.is_some() { Presence::Present } else { Presence::Missing };
        let missing = [find, params_presence, kernel].contains(&Presence::Missing);
        Some(Row {
            problem: problem.canonical(),
            label: problem.label(),
            count,
            key: Some(text),
            find,
            solver: winner.map(|winner| winner.solver.to_string()),
            ignored: entries.filter(|_| winner.is_none()).and_then(|entries| Some(entries.first()?.solver.to_string())),
            time_ms: winner.map(|winner| winner.time_ms),
            params: params_presence,
            kernel,
            covered: !missing,
        })
    }

    /// Of a batch norm there are params or nothing: it has no find record.
    fn norm_row(&self, problem: &Problem, key: &str, count: u64) -> Row {
        let has = self.norms.iter().any(|db| db.records.get(key).is_some_and(|solvers| !solvers.is_empty()));
        Row {
            problem: problem.canonical(),
            label: problem.label(),
            count,
            key: None,
            find: Presence::NotNeeded,
            solver: None,
            ignored: None,
            time_ms: None,
            params: if has { Presence::Present } else { Presence::Missing },
            kernel: Presence::Unknown,
            covered: has,
        }
    }

    fn has_params(&self, key: &PerfDbKey, solver: &str) -> bool {
        self.perf.iter().any(|db| db.records.get(key).is_some_and(|solvers| solvers.contains_key(solver)))
    }

    /// Whether a kernel of one of the solver's source files is there. Which options it needs only MIOpen knows.
    fn kernel(&self, solver: &str) -> Presence {
        match (&self.kernels, sources(solver)) {
            (Some(kernels), Some(prefixes)) => {
                let is_its = |name: &String| prefixes.iter().any(|prefix| name.starts_with(prefix));
                if kernels.iter().any(is_its) { Presence::Unknown } else { Presence::Missing }
            }
            _ => Presence::Unknown,
        }
    }
}
