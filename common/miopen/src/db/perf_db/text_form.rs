//! `key=solver:params;solver:params…`

use std::collections::HashSet;
use std::fmt::Display;
use std::io::Write;
use std::sync::Arc;

use crate::db::error::{ReadError, WriteError};
use crate::db::find_db::intern;
use crate::db::findings::{FindingKind, Findings, short};
use crate::db::lines;
use crate::db::params::is_one_text;
use crate::db::perf_db::{PerfDb, PerfRow, Records, Solvers};

impl PerfDb {
    /// Reads the text form from `bytes`; `name` is for errors.
    ///
    /// # Errors
    /// If it is too large. Whatever else is wrong is a finding.
    pub fn parse_text(name: &str, bytes: &[u8]) -> Result<Self, ReadError> {
        Self::parse_text_with(name, bytes, |_| {})
    }

    /// As [`Self::parse_text`], and shows every row that MIOpen would use to `visit`.
    ///
    /// # Errors
    /// As there.
    pub fn parse_text_with(name: &str, bytes: &[u8], mut visit: impl FnMut(PerfRow<'_>)) -> Result<Self, ReadError> {
        let row = |line, key: &_, solver: &str, params: &str| visit(PerfRow { line, key, solver, params });
        let (records, findings) = read(name, bytes, |key| key.parse(), row)?;
        Ok(Self { records, findings })
    }
}

impl<P: AsRef<str>> PerfDb<P> {
    /// Writes the text form, keys in byte order, solvers by name. Returns the number of (key, solver) written.
    ///
    /// # Errors
    /// A text that the format can not hold, or that `out` fails.
    pub fn write_text(&self, out: &mut impl Write) -> Result<u64, WriteError> {
        write(&self.records, out)
    }
}

/// Reads records by keys that `parse` makes of their texts, and shows line, key, solver and params of each row to `visit`.
pub(super) fn read<K: Ord, E: Display>(
    name: &str,
    bytes: &[u8],
    parse: impl Fn(&str) -> Result<K, E>,
    mut visit: impl FnMut(u64, &K, &str, &str),
) -> Result<(Records<K>, Findings), ReadError> {
    let mut records = Records::new();
    let mut findings = Findings::default();
    let mut names: HashSet<Arc<str>> = HashSet::new();
    lines::read(name, bytes, &mut findings, |line, findings| {
        let key = match parse(line.key) {
            Ok(key) => key,
            Err(error) => return findings.add(line.number, FindingKind::Key, || format!("{error}; skipped")),
        };
        let mut solvers = Solvers::new();
        for (solver, params) in line.entries(findings) {
            if solvers.contains_key(solver) {
                findings.add(line.number, FindingKind::DuplicateSolver, || {
                    format!("solver {} came before in its line; the first one stands", short(solver))
                });
                continue;
            }
            // An editor's line end, which all skip but the solvers that take their params as one text.
            let plain = params.trim_end_matches('\r');
            let read = if is_one_text(solver) { params } else { plain };
            if read.contains(|c: char| c.is_control()) {
                findings.add(line.number, FindingKind::Space, || {
                    format!("params of {}: control character, such as a carriage return", short(solver))
                });
            }
            visit(line.number, &key, solver, plain);
            solvers.insert(intern(&mut names, solver), intern(&mut names, plain));
        }
        records.insert(key, solvers);
    })?;
    Ok((records, findings))
}

/// Writes records, as [`PerfDb::write_text`] does.
pub(super) fn write<K: Display, P: AsRef<str>>(
    records: &Records<K, P>,
    out: &mut impl Write,
) -> Result<u64, WriteError> {
    let filled = records.iter().filter(|(_, solvers)| !solvers.is_empty());
    let mut lines: Vec<_> = filled.map(|(key, solvers)| (key.to_string().into_boxed_str(), solvers)).collect();
    lines.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let mut rows = 0;
    for (key, solvers) in lines {
        for (index, (solver, params)) in solvers.iter().enumerate() {
            let params = params.as_ref();
            PerfDb::check(solver, params)?;
            if index == 0 {
                write!(out, "{key}=")?
            } else {
                write!(out, ";")?
            }
            write!(out, "{solver}:{params}")?;
            rows += 1;
        }
        writeln!(out)?;
    }
    Ok(rows)
}
