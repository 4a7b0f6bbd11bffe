//! `bluefin results`: what came of every candidate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use bluefin_campaign::fleet::steer::find;
use bluefin_campaign::ports::StoreArgs;
use bluefin_campaign::session::parse_stage;
use bluefin_common::failure::FailureKind;
use bluefin_common::problem::driver;
use bluefin_common::session::{Session, SessionName, Stage};
use bluefin_common::spelled::counted;
use bluefin_common::store::{Sessions, Store};
use bluefin_common::suggest;
use bluefin_exporter::results::{
    CsvRows, FileKind, Filter, JsonLines, Order, ProblemFilter, ResultsError, Row, SortKey, Sorted, TargetFile, Totals,
    Write, is_solver, results,
};
use bluefin_miopen::key::{FindDbKey, PerfDbKey};
use bluefin_terminal::results::{Shape, Table};
use bluefin_terminal::{colour, out, width};
use clap::ValueEnum;

/// Print what came of every candidate: times, ties, winners, and failures with the compiler's or the tool's words
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  bluefin results --winner\n  bluefin results --session 1 --failed\n  \
    bluefin results --failed compile_error --solver ConvTiled --limit 3\n  \
    bluefin results --problem \"conv -n 1 -c 16 -H 14 -W 14 -k 24 -y 3 -x 3 -p 1 -q 1 -F 1\" --sort time\n  \
    bluefin results --json | jq .median_ms\n  bluefin results --sqlite results.db && sqlite3 results.db 'SELECT * FROM winners'\n\n\
    The columns of all formats are in docs/results.md. Rows stream, in an order of their own. --sort keeps what it sorts by in \
    memory, and the rows in a temporary file; with --limit only as many rows.")]
pub struct ResultsArgs {
    /// The session; several, with commas between, one after the other [default: the only one that there is]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    session: Vec<SessionName>,
    /// Only what failed, or failed in this way, such as compile_error
    #[arg(long, value_name = "KIND", num_args = 0..=1, value_parser = parse_kind)]
    failed: Option<Option<FailureKind>>,
    /// Only what failed before and was tried again, with what came of it then
    #[arg(long)]
    retried: bool,
    /// Only this solver
    #[arg(long, value_name = "NAME")]
    solver: Option<String>,
    /// Only this problem: a driver command, a find-db or perf-db key, or a part of its label or command
    #[arg(long, value_name = "PROBLEM")]
    problem: Option<String>,
    /// Only winners
    #[arg(long)]
    winner: bool,
    /// Only this stage: perf or find
    #[arg(long, value_parser = parse_stage)]
    stage: Option<Stage>,
    /// Sort by this; what has none of it comes last
    #[arg(long, value_enum, value_name = "KEY")]
    sort: Option<Key>,
    /// Sort the other way round
    #[arg(long, requires = "sort")]
    reverse: bool,
    /// The first rows only
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    formats: FormatArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// What to write; a table if nothing is named.
#[derive(clap::Args)]
#[command(next_help_heading = "Formats")]
struct FormatArgs {
    /// All columns in the table, which is otherwise as wide as the terminal, or COLUMNS; in a pipe, 120
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    wide: bool,
    /// Print a JSON object a line
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print as CSV
    #[arg(long)]
    csv: bool,
    /// Write a Parquet file
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// Write an SQLite database, with views such as winners and failures_by_kind
    #[arg(long, value_name = "FILE")]
    sqlite: Option<PathBuf>,
    /// Write a T4 file, which analyses of autotuning read; name one --problem, --solver and --stage
    #[arg(long, value_name = "FILE")]
    t4: Option<PathBuf>,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
}

/// What to sort by.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Key {
    Time,
    Spread,
    Problem,
    Solver,
    Result,
    Finished,
    Busy,
}

impl From<Key> for SortKey {
    fn from(key: Key) -> Self {
        match key {
            Key::Time => Self::Time,
            Key::Spread => Self::Spread,
            Key::Problem => Self::Problem,
            Key::Solver => Self::Solver,
            Key::Result => Self::Result,
            Key::Finished => Self::Finished,
            Key::Busy => Self::Busy,
        }
    }
}

fn parse_kind(text: &str) -> Result<FailureKind, String> {
    let wanted = text.to_ascii_lowercase().replace('-', "_");
    let found = FailureKind::ALL.into_iter().find(|kind| kind.name() == wanted);
    found.ok_or_else(|| {
        let names: Vec<&str> = FailureKind::ALL.iter().map(|kind| kind.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

impl ResultsArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let filter = Arc::new(self.filter()?);
        let order = self.sort.map(|key| Order { key: key.into(), reverse: self.reverse });
        let opened = self.store.open_to_read().await?;
        let sessions = self.sessions(&*opened.store).await?;
        let files = self.files(&sessions)?;
        let (totals, files) = match order {
            None => self.write(&*opened.store, &sessions, filter, self.limit, self.writer(files, true)).await?,
            Some(order) => {
                let limit = self.limit.and_then(|limit| usize::try_from(limit).ok());
                let by_problem = matches!(order.key, SortKey::Problem);
                let sorted = Sorted::new(order, limit, self.writer(files, by_problem))?;
                let (totals, sorted) = self.write(&*opened.store, &sessions, filter, None, sorted).await?;
                (totals, sorted.inner)
            }
        };
        if totals.rows == 0 {
            self.check_names(&*opened.store, &sessions).await?;
        }
        self.close(&totals, &files)?;
        Ok(ExitCode::SUCCESS)
    }

    /// That nothing was found may be due to a name that there is none of.
    async fn check_names(&self, store: &dyn Store, sessions: &[Session]) -> anyhow::Result<()> {
        let (_, names) = self.write(store, sessions, Arc::default(), None, Names::default()).await?;
        let unknown = |flag: &str, found: &str, known: &BTreeSet<String>| {
            let instead = suggest::instead(found, known.iter().map(String::as_str));
            crate::usage(format!("{flag} {found}: the session has none of that name; {instead}"))
        };
        match (&self.solver, &self.problem) {
            (Some(solver), _) if !names.solvers.iter().any(|name| is_solver(solver, name)) => {
                let short = names.solvers.iter().map(|name| name.trim_start_matches("Bluefin").to_string()).collect();
                Err(unknown("--solver", solver, &short))
            }
            (_, Some(wanted)) if !names.has(&problem(wanted)) => {
                Err(unknown("--problem", wanted, &names.problems.into_values().collect()))
            }
            _ => Ok(()),
        }
    }

    async fn write<W: Write>(
        &self,
        store: &dyn Store,
        sessions: &[Session],
        filter: Arc<Filter>,
        limit: Option<u64>,
        writer: W,
    ) -> anyhow::Result<(Totals, W)> {
        results(store, sessions, filter, limit, writer).await.map_err(|error| match error {
            // As it is, so that a reader who had enough is told from a disk that is full.
            ResultsError::Write(error) => error.into(),
            error => error.into(),
        })
    }

    /// Where rows go.
    fn writer(&self, files: Vec<TargetFile>, by_problem: bool) -> Everywhere {
        let FormatArgs { wide, json, csv, .. } = self.formats;
        let stdout: Option<Box<dyn Write>> = match (json, csv) {
            (true, _) => Some(Box::new(JsonLines::new(std::io::stdout()))),
            (_, true) => Some(Box::new(CsvRows::new(std::io::stdout()))),
            _ if !files.is_empty() => None,
            _ => {
                let shape = if wide { Shape::Wide } else { Shape::Narrow { width: width::of_stdout(), by_problem } };
                Some(Box::new(Table::new(std::io::stdout(), shape, colour::on(&std::io::stdout()))))
            }
        };
        Everywhere { stdout, files }
    }

    fn files(&self, sessions: &[Session]) -> anyhow::Result<Vec<TargetFile>> {
        let FormatArgs { parquet, sqlite, t4, force, .. } = &self.formats;
        let named = [(parquet, FileKind::Parquet), (sqlite, FileKind::Sqlite), (t4, FileKind::T4)];
        let mut files = Vec::new();
        for (path, kind) in named {
            let Some(path) = path else { continue };
            let same = |state: &Path| Some(state.canonicalize().ok()? == path.canonicalize().ok()?);
            if self.store.file().and_then(same) == Some(true) {
                return Err(crate::usage(format!("{}: is the state file itself", path.display())));
            }
            files.push(TargetFile::new(path, kind, sessions, *force)?);
        }
        Ok(files)
    }

    /// Says how much it was: of files on standard output, of a table beside it.
    fn close(&self, totals: &Totals, written: &Everywhere) -> anyhow::Result<()> {
        for file in &written.files {
            let (rows, bytes) = (counted(totals.rows, "row"), counted(file.bytes(), "byte"));
            let line = format!("wrote {}: {rows}, {bytes}", file.path().display());
            if written.stdout.is_some() { say!("{line}") } else { out::prose(line)? }
        }
        if !self.formats.json && !self.formats.csv {
            let kinds: Vec<String> = totals.by_result.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
            let among = if kinds.is_empty() { String::new() } else { format!(": {}", kinds.join(", ")) };
            say!("{}{among}", counted(totals.rows, "candidate"));
            for (name, bias) in &totals.devices {
                say!("{name}: against the other devices {bias}");
            }
        }
        Ok(())
    }

    fn filter(&self) -> anyhow::Result<Filter> {
        Ok(Filter {
            failed: self.failed.is_some(),
            kind: self.failed.flatten(),
            solver: self.solver.clone(),
            problem: self.problem.as_deref().map(problem),
            winner: self.winner,
            retried: self.retried,
            stage: self.stage,
        })
    }

    /// The sessions that are named, or the only one.
    async fn sessions(&self, store: &dyn Sessions) -> anyhow::Result<Vec<Session>> {
        let all = store.sessions().await?;
        let names = || all.iter().map(|session| session.name.to_string()).collect::<Vec<_>>().join(", ");
        if !self.session.is_empty() {
            let mut named = Vec::with_capacity(self.session.len());
            for name in &self.session {
                named.push(find(store, name).await?);
            }
            return Ok(named);
        }
        match all.len() {
            0 => anyhow::bail!("the store holds no session"),
            1 => Ok(all),
            _ => Err(crate::usage(format!("there are several sessions; name one with --session: {}", names()))),
        }
    }
}

/// What filters may name.
#[derive(Default)]
struct Names {
    solvers: BTreeSet<String>,
    /// Labels of problems, by their canonical form.
    problems: BTreeMap<Arc<str>, String>,
}

impl Names {
    fn has(&self, filter: &ProblemFilter) -> bool {
        let known = self.problems.keys().filter_map(|command| driver::parse(command, None).ok());
        known.flatten().any(|problem| filter.takes(&problem))
    }
}

impl Write for Names {
    fn rows(&mut self, rows: &[Row]) -> std::io::Result<()> {
        for row in rows {
            if !self.solvers.contains(row.solver.as_str()) {
                self.solvers.insert(row.solver.clone());
            }
            if !self.problems.contains_key(&row.problem) {
                self.problems.insert(row.problem.clone(), row.label.to_string());
            }
        }
        Ok(())
    }

    fn end(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Standard output and files.
struct Everywhere {
    stdout: Option<Box<dyn Write>>,
    files: Vec<TargetFile>,
}

impl Write for Everywhere {
    fn rows(&mut self, rows: &[Row]) -> std::io::Result<()> {
        self.stdout.iter_mut().try_for_each(|out| out.rows(rows))?;
        self.files.iter_mut().try_for_each(|file| file.rows(rows))
    }

    fn end(&mut self) -> std::io::Result<()> {
        self.stdout.iter_mut().try_for_each(|out| out.end())?;
        self.files.iter_mut().try_for_each(Write::end)
    }
}

/// The problems that a text names.
fn problem(text: &str) -> ProblemFilter {
    let text = text.trim();
    if let Ok(key) = text.parse::<FindDbKey>() {
        return ProblemFilter::FindDb(key);
    }
    if let Ok(key) = text.parse::<PerfDbKey>() {
        return ProblemFilter::PerfDb(Box::new(key));
    }
    let command = match text.split_once("MIOpenDriver") {
        Some((_, rest)) => rest,
        None => text,
    };
    match driver::parse(command, None) {
        // A word alone is a command as well, of a driver's default sizes.
        Ok(problems) if command.contains(" -") => ProblemFilter::Problems(problems.into_iter().collect()),
        _ => ProblemFilter::Text(text.to_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_named_in_four_ways() {
        let command = "./bin/MIOpenDriver conv -n 1 -c 16 -H 14 -W 14 -k 24 -y 3 -x 3 -p 1 -q 1";
        assert!(matches!(problem(command), ProblemFilter::Problems(problems) if problems.len() == 3));
        let key = "16-14-14-3x3-24-14-14-1-1x1-1x1-1x1-0-NCHW-FP32-F";
        assert!(matches!(problem(key), ProblemFilter::FindDb(_)));
        let perf = "2x16x14x14x1x3x3x1x24x1x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF";
        assert!(matches!(problem(perf), ProblemFilter::PerfDb(_)));
        for text in ["conv", "3x3", "K24"] {
            assert!(matches!(problem(text), ProblemFilter::Text(found) if found == text.to_lowercase()), "{text}");
        }
    }

    #[test]
    fn kinds_are_known_in_both_spellings() {
        assert_eq!(parse_kind("Compile-Error"), Ok(FailureKind::CompileError));
        assert!(parse_kind("x").unwrap_err().contains("budget_spent"));
    }
}
