//! The table of what came of every candidate: as wide as the terminal, with the columns that people look at first, or with all of
//! them. Widths follow from the first rows, so that the rest streams.

use std::io::{self, BufWriter, Write as _};
use std::sync::Arc;

use bluefin_common::printable::printable;
use bluefin_exporter::results::{Came, Row, Write};
use bluefin_exporter::versions::Versions;

use crate::colour::{self, Tone};
use crate::moment;

/// Rows that widths follow from.
const FIRST: usize = 1_000;
/// Columns of a terminal from which on there is room for what params have to be cut for.
const ROOMY: usize = 100;
/// A column that has to shrink stays at least as wide.
const LEAST: usize = 8;

/// Which columns there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Those that fit, with a line for each problem above its rows, or the problem in each row.
    Narrow {
        /// Columns of the terminal.
        width: usize,
        /// Rows are in the order of problems.
        by_problem: bool,
    },
    /// All.
    Wide,
}

/// A column: its name, whether it is of numbers, whether it may be cut, and what is in it.
struct Column {
    name: &'static str,
    number: bool,
    cut: bool,
    cell: fn(&Row) -> String,
}

/// Writes the table.
pub struct Table<O: io::Write> {
    out: BufWriter<O>,
    columns: Vec<Column>,
    widths: Vec<usize>,
    shape: Shape,
    colour: bool,
    /// Of the line above: the problem, and the digest of its spec.
    above: Option<(Arc<str>, Option<Arc<str>>)>,
    versions: Versions,
    /// Words that were shown last.
    words: String,
}

impl<O: io::Write + Send + 'static> Table<O> {
    /// A table on `out`.
    #[must_use]
    pub fn new(out: O, shape: Shape, colour: bool) -> Self {
        let columns = match shape {
            Shape::Narrow { width, by_problem } => narrow(by_problem, width >= ROOMY),
            Shape::Wide => wide(),
        };
        let (above, versions, words) = (None, Versions::default(), String::new());
        Self { out: BufWriter::new(out), columns, widths: Vec::new(), shape, colour, above, versions, words }
    }

    /// Widths for `rows`, and the header.
    fn begin(&mut self, rows: &[Row]) -> io::Result<()> {
        let rows = rows.get(..FIRST).unwrap_or(rows);
        let longest = |column: &Column| rows.iter().map(|row| length(&(column.cell)(row))).max().unwrap_or(0);
        self.widths = self.columns.iter().map(|column| longest(column).max(column.name.len())).collect();
        if let Shape::Narrow { width, .. } = self.shape {
            fit(&mut self.widths, &self.columns, width);
        }
        let header: Vec<String> = self.columns.iter().map(|column| column.name.to_string()).collect();
        self.line(&header, None)
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        if let Some(digest) = &row.spec_digest {
            self.versions.see(&row.spec, digest, row.finished_ms);
        }
        let is_below =
            self.above.as_ref().is_some_and(|above| (&above.0, &above.1) == (&row.problem, &row.spec_digest));
        if let Shape::Narrow { width, by_problem: true } = self.shape
            && !is_below
        {
            self.above = Some((Arc::clone(&row.problem), row.spec_digest.clone()));
            self.words.clear();
            let line = cut(
                &printable(&format!("{} ({})", row.label, self.versions.named(&row.spec, row.spec_digest.as_deref()))),
                width,
            );
            writeln!(self.out, "{line}")?;
        }
        let cells: Vec<String> = self.columns.iter().map(|column| (column.cell)(row)).collect();
        let tone = match row.result {
            Came::Failed(_) => Some(Tone::Bad),
            Came::Timed if row.winner => Some(Tone::Good),
            Came::Timed | Came::Pruned => None,
        };
        self.line(&cells, tone.filter(|_| self.colour))?;
        if self.shape == Shape::Wide {
            return Ok(());
        }
        if let Some(detail) = &row.detail {
            self.say(detail)?;
        }
        row.before.iter().try_for_each(|before| {
            self.say(&format!(
                "before, {}: {}: {}",
                moment::at(before.finished_ms),
                before.failure.name(),
                before.detail
            ))
        })
    }

    /// The words of a failure below its row, whole; the same words are not said twice in a row.
    fn say(&mut self, detail: &str) -> io::Result<()> {
        if self.words == detail {
            return Ok(());
        }
        self.words = detail.to_string();
        detail.lines().try_for_each(|line| writeln!(self.out, "    | {}", printable(line)))
    }

    fn line(&mut self, cells: &[String], tone: Option<Tone>) -> io::Result<()> {
        let mut line = String::new();
        for ((cell, column), width) in cells.iter().zip(&self.columns).zip(&self.widths) {
            let cell = printable(cell);
            let cell = if self.shape == Shape::Wide { cell.into_owned() } else { cut(&cell, *width) };
            let blanks = " ".repeat(width.saturating_sub(length(&cell)));
            let [first, second] = if column.number { [&blanks, &cell] } else { [&cell, &blanks] };
            if !line.is_empty() {
                line.push_str("  ");
            }
            line.push_str(first);
            line.push_str(second);
        }
        let line = line.trim_end();
        match tone {
            Some(tone) => writeln!(self.out, "{}", colour::painted(line, tone)),
            None => writeln!(self.out, "{line}"),
        }
    }
}

impl<O: io::Write + Send + 'static> Write for Table<O> {
    fn rows(&mut self, rows: &[Row]) -> io::Result<()> {
        if self.widths.is_empty() {
            self.begin(rows)?;
        }
        rows.iter().try_for_each(|row| self.row(row))
    }

    fn end(&mut self) -> io::Result<()> {
        if self.shape != Shape::Wide {
            self.versions.lines().try_for_each(|line| writeln!(self.out, "note: {}", printable(&line)))?;
        }
        self.out.flush()
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// At most `width` characters of `text`.
fn cut(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_string();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Narrows what may be cut, the widest first, until all is in `width`, as far as that goes.
fn fit(widths: &mut [usize], columns: &[Column], width: usize) {
    loop {
        let all: usize = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        let may = widths.iter_mut().zip(columns).filter(|(own, column)| column.cut && **own > LEAST);
        match may.max_by_key(|(own, _)| **own) {
            Some((own, _)) if all > width => *own -= 1,
            _ => return,
        }
    }
}

fn narrow(by_problem: bool, roomy: bool) -> Vec<Column> {
    let mut columns = vec![
        text("solver", true, |row| row.solver.trim_start_matches("Bluefin").to_string()),
        text("params", true, Row::params_text),
        text("stage", false, |row| row.stage.name().to_string()),
        number("ms", |row| fixed(row.median_ms, 4)),
        number("± %", |row| fixed(share(row), 1)),
        number("GFLOP/s", |row| fixed(row.gflops, 1)),
        text("", false, note),
    ];
    // Where there is little room params say more.
    columns.retain(|column| roomy || column.name != "GFLOP/s");
    if by_problem {
        // Below the line of their problem.
        if let Some(solver) = columns.first_mut() {
            solver.cell = |row| format!("  {}", row.solver.trim_start_matches("Bluefin"));
        }
    } else {
        columns.insert(0, text("problem", true, |row| row.label.to_string()));
    }
    columns
}

/// All columns, the longest last.
fn wide() -> Vec<Column> {
    vec![
        text("session", false, |row| row.session.to_string()),
        text("target", false, |row| row.target.to_string()),
        text("problem", false, |row| row.label.to_string()),
        text("spec", false, |row| row.spec.to_string()),
        text("solver", false, |row| row.solver.clone()),
        text("params", false, Row::params_text),
        text("default", false, |row| row.is_default.map_or("-", yes).to_string()),
        text("stage", false, |row| row.stage.name().to_string()),
        text("result", false, |row| row.result.name().to_string()),
        number("median_ms", |row| fixed(row.median_ms, 6)),
        number("spread_ms", |row| fixed(row.spread_ms, 6)),
        number("samples", |row| row.samples.to_string()),
        number("GFLOP/s", |row| fixed(row.gflops, 1)),
        number("GB/s", |row| fixed(row.gbytes_per_s, 1)),
        number("MHz", |row| whole(row.clock_mhz)),
        number("throttled", |row| row.throttled.to_string()),
        text("noise", false, |row| row.noise.clone().unwrap_or_else(|| "-".to_string())),
        text("tied", false, |row| yes(row.tied).to_string()),
        text("winner", false, |row| yes(row.winner).to_string()),
        number("workspace", |row| whole(row.workspace)),
        text("job", false, |row| row.job.get(..12).unwrap_or(&row.job).to_string()),
        text("compiled by", false, |row| row.compiled_by.as_deref().unwrap_or("-").to_string()),
        text("evaluated by", false, |row| row.evaluated_by.as_deref().unwrap_or("-").to_string()),
        text("device", false, |row| row.device.as_deref().unwrap_or("-").to_string()),
        text("finished", false, |row| moment::at(row.finished_ms)),
        number("recompiles", |row| row.recompiles.to_string()),
        number("attempts", |row| row.attempts.to_string()),
        number("busy_ms", |row| row.busy_ms.to_string()),
        text("search ended", false, |row| row.search_ended.clone().unwrap_or_else(|| "-".to_string())),
        number("tried %", |row| fixed(row.tried_percent, 1)),
        number("expected gain %", |row| fixed(row.expected_gain_percent, 2)),
        number("registers", |row| whole(row.registers)),
        number("spilled", |row| whole(row.spilled_bytes)),
        number("shared", |row| whole(row.shared_bytes)),
        number("resident", |row| whole(row.resident_blocks)),
        text("artifacts", false, |row| {
            row.artifacts.iter().map(|id| id.get(..12).unwrap_or(id)).collect::<Vec<_>>().join(" ")
        }),
        text("command", false, |row| row.problem.to_string()),
        text("detail", false, |row| row.detail.clone().unwrap_or_default()),
        text("before", false, |row| {
            let before = row.before.iter().map(|before| format!("{}: {}", before.failure.name(), before.detail));
            before.collect::<Vec<_>>().join("; ")
        }),
    ]
}

fn text(name: &'static str, cut: bool, cell: fn(&Row) -> String) -> Column {
    Column { name, number: false, cut, cell }
}

fn number(name: &'static str, cell: fn(&Row) -> String) -> Column {
    Column { name, number: true, cut: false, cell }
}

fn fixed(number: Option<f64>, digits: usize) -> String {
    number.map_or_else(|| "-".to_string(), |number| format!("{number:.digits$}"))
}

fn whole(number: Option<impl ToString>) -> String {
    number.map_or_else(|| "-".to_string(), |number| number.to_string())
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

/// Spread in percent of the median.
fn share(row: &Row) -> Option<f64> {
    Some(100.0 * row.spread_ms? / row.median_ms.filter(|median| *median > 0.0)?)
}

/// What else is to be seen of a row.
fn note(row: &Row) -> String {
    match row.result {
        Came::Timed if row.winner => "winner".to_string(),
        Came::Timed if row.tied => "ties".to_string(),
        Came::Timed if row.is_default == Some(true) && !row.params.is_empty() => "default".to_string(),
        Came::Timed => String::new(),
        other => other.name().to_string(),
    }
}
