//! Tables for people: columns side by side as far as they fit, the rest below its row. No word and no number is ever broken.

use std::io;

use bluefin_common::printable::printable;

use crate::colour::{self, Tone};
use crate::width::{length, wrapped};
use crate::{out, width};

/// Blanks between two columns.
const GAP: usize = 2;
/// Blanks in front of what stands below a row.
const BELOW: usize = 4;

/// How a verb prints its table.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct TableArgs {
    /// Print all columns side by side, however wide the terminal is
    #[arg(long, conflicts_with_all = ["csv", "json"])]
    pub wide: bool,
    /// Print as CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

impl TableArgs {
    /// Prints `sheet` on standard output.
    ///
    /// # Errors
    /// If standard output can not be written to.
    pub fn print(self, sheet: &Sheet) -> io::Result<()> {
        if self.csv { out::line(sheet.csv().trim_end()) } else { out::line(sheet.fitting(self.columns())) }
    }

    /// Columns that a line may have.
    #[must_use]
    pub fn columns(self) -> usize {
        if self.wide || self.csv { usize::MAX } else { width::of_stdout() }
    }
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    name: &'static str,
    name_in_csv: &'static str,
    is_number: bool,
    /// Where there is little room the highest goes below its row first; 0 stays.
    rank: u8,
}

impl Column {
    /// Goes below its row where there is little room, before columns of a lower rank.
    #[must_use]
    pub const fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    /// Has this name in CSV, where the unit is part of it.
    #[must_use]
    pub const fn in_csv(self, name_in_csv: &'static str) -> Self {
        Self { name_in_csv, ..self }
    }
}

/// A column of words, which stays in its row.
#[must_use]
pub const fn text(name: &'static str) -> Column {
    Column { name, name_in_csv: name, is_number: false, rank: 0 }
}

/// A column of numbers, which stays in its row.
#[must_use]
pub const fn number(name: &'static str) -> Column {
    Column { name, name_in_csv: name, is_number: true, rank: 0 }
}

/// What stands in a column of a row; several lines where it has line ends.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    tone: Option<Tone>,
    /// Where programs are told something else than people.
    in_csv: Option<String>,
}

/// A cell without a colour.
#[must_use]
pub fn cell(text: impl ToString) -> Cell {
    toned(text, None)
}

/// A cell in the colour of `tone`.
#[must_use]
pub fn toned(text: impl ToString, tone: Option<Tone>) -> Cell {
    let text = text.to_string();
    let lines: Vec<_> = text.lines().map(printable).collect();
    Cell { text: lines.join("\n"), tone, in_csv: None }
}

impl Cell {
    /// The same, with a number in CSV; nothing where there is none.
    #[must_use]
    pub fn in_csv(self, number: Option<impl ToString>) -> Self {
        Self { in_csv: Some(number.map(|number| number.to_string()).unwrap_or_default()), ..self }
    }

    fn width(&self) -> usize {
        self.text.lines().map(length).max().unwrap_or(0)
    }
}

/// A row, and what stands above and below it.
#[derive(Clone, Debug)]
struct Row {
    heading: Option<String>,
    cells: Vec<Cell>,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Sheet {
    columns: Vec<Column>,
    /// What headings are of, in CSV.
    headed: Option<&'static str>,
    heading: Option<String>,
    rows: Vec<Row>,
}

impl Sheet {
    /// An empty table.
    #[must_use]
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), headed: None, heading: None, rows: Vec::new() }
    }

    /// The same, whose rows stand in groups below headings; in CSV those are a first column of this name.
    #[must_use]
    pub fn headed(self, name: &'static str) -> Self {
        Self { headed: Some(name), ..self }
    }

    /// Rows that follow belong to `heading`.
    pub fn heading(&mut self, heading: &str) {
        self.heading = Some(printable(heading).into_owned());
    }

    /// Adds a row, with a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(Row { heading: self.heading.clone(), cells: cells.into_iter().collect() });
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether all columns fit side by side into so many characters.
    #[must_use]
    pub fn fits(&self, columns: usize) -> bool {
        Layout::new(self, usize::MAX).width() <= columns
    }

    /// With a header and all columns.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let names = self.headed.into_iter().chain(self.columns.iter().map(|column| column.name_in_csv));
        // Writing to memory does not fail, and rows are as long as the header.
        let _ = writer.write_record(names);
        for Row { heading, cells } in &self.rows {
            let heading = self.headed.map(|_| heading.as_deref().unwrap_or_default());
            let _ = writer.write_record(
                heading.into_iter().chain(cells.iter().map(|cell| cell.in_csv.as_ref().unwrap_or(&cell.text).as_str())),
            );
        }
        String::from_utf8_lossy(&writer.into_inner().unwrap_or_default()).into_owned()
    }

    /// In lines of at most `most` characters, unless a word is longer.
    #[must_use]
    pub fn fitting(&self, most: usize) -> String {
        let layout = Layout::new(self, most);
        let painted = colour::on(&io::stdout());
        let mut lines = vec![layout.line(&layout.header(), false)];
        let mut heading: Option<&str> = None;
        for row in &self.rows {
            if self.headed.is_some() && row.heading.as_deref() != heading {
                heading = row.heading.as_deref();
                lines.extend(wrapped(heading.unwrap_or_default(), most, 0));
            }
            lines.extend(layout.row(row, painted));
        }
        lines.join("\n")
    }
}

/// Where columns are.
struct Layout<'a> {
    sheet: &'a Sheet,
    most: usize,
    /// Blanks in front of a row.
    indent: usize,
    /// Columns side by side, and their widths.
    beside: Vec<(usize, usize)>,
    /// Columns that stand below their row.
    below: Vec<usize>,
}

impl<'a> Layout<'a> {
    fn new(sheet: &'a Sheet, most: usize) -> Self {
        let cells = |index: usize| sheet.rows.iter().filter_map(move |row| row.cells.get(index));
        let width = |index: usize, name: &str| cells(index).map(Cell::width).max().unwrap_or(0).max(length(name));
        let is_used = |index: usize| sheet.rows.is_empty() || cells(index).any(|cell| !cell.text.is_empty());
        let used = sheet.columns.iter().enumerate().filter(|(index, _)| is_used(*index));
        let beside = used.map(|(index, column)| (index, width(index, column.name))).collect();
        let indent = if sheet.headed.is_some() { GAP } else { 0 };
        let mut layout = Self { sheet, most, indent, beside, below: Vec::new() };
        layout.move_below();
        layout.wrap(|index| cells(index).flat_map(|cell| cell.text.split_whitespace()).map(length).max().unwrap_or(0));
        layout
    }

    fn column(&self, index: usize) -> Column {
        self.sheet.columns.get(index).copied().unwrap_or(text(""))
    }

    fn width(&self) -> usize {
        let gaps = GAP * self.beside.len().saturating_sub(1);
        self.indent + gaps + self.beside.iter().map(|(_, width)| width).sum::<usize>()
    }

    /// Moves columns below their rows until the others fit.
    fn move_below(&mut self) {
        while self.width() > self.most {
            let rank = |(_, (index, _)): &(usize, &(usize, usize))| self.column(*index).rank;
            let Some((at, _)) = self.beside.iter().enumerate().max_by_key(rank).filter(|found| rank(found) > 0) else {
                return;
            };
            self.below.push(self.beside.remove(at).0);
        }
        self.below.sort_unstable();
    }

    /// Lets columns of words go on in further lines until all fit, but for their longest word.
    fn wrap(&mut self, longest: impl Fn(usize) -> usize) {
        self.below.sort_unstable();
        let least = |index: usize, column: Column| longest(index).max(length(column.name));
        while self.width() > self.most {
            let columns = &self.sheet.columns;
            let may = self.beside.iter_mut().filter_map(|(index, width)| {
                let column = columns.get(*index).filter(|column| !column.is_number)?;
                (*width > least(*index, *column)).then_some(width)
            });
            match may.max_by_key(|width| **width) {
                Some(width) => *width -= 1,
                None => return,
            }
        }
    }

    fn header(&self) -> Vec<(String, Option<Tone>)> {
        self.beside.iter().map(|(index, _)| (self.column(*index).name.to_string(), None)).collect()
    }

    /// The lines of a row, and what stands below it.
    fn row(&self, row: &Row, painted: bool) -> Vec<String> {
        let cell = |index: usize| row.cells.get(index).cloned().unwrap_or_default();
        let cells: Vec<(Vec<String>, Option<Tone>)> = self
            .beside
            .iter()
            .map(|(index, width)| {
                let Cell { text, tone, .. } = cell(*index);
                (text.lines().flat_map(|line| wrapped(line, *width, 0)).collect(), tone)
            })
            .collect();
        let height = cells.iter().map(|(lines, _)| lines.len()).max().unwrap_or(0).max(1);
        let mut lines: Vec<String> = (0..height)
            .map(|at| {
                let part =
                    |(lines, tone): &(Vec<String>, Option<Tone>)| (lines.get(at).cloned().unwrap_or_default(), *tone);
                self.line(&cells.iter().map(part).collect::<Vec<_>>(), painted)
            })
            .collect();
        let told = self.below.iter().filter_map(|index| {
            let text = cell(*index).text.replace('\n', " ");
            (!text.is_empty()).then(|| format!("{} {text}", self.column(*index).name))
        });
        lines.extend(in_lines(told, self.most, self.indent + BELOW));
        lines
    }

    fn line(&self, cells: &[(String, Option<Tone>)], painted: bool) -> String {
        let mut line = " ".repeat(self.indent);
        for (at, ((index, width), (text, tone))) in self.beside.iter().zip(cells).enumerate() {
            let blanks = " ".repeat(width.saturating_sub(length(text)));
            let text = match tone.filter(|_| painted && !text.is_empty()) {
                Some(tone) => colour::painted(text, tone),
                None => text.clone(),
            };
            let [first, second] = if self.column(*index).is_number { [&blanks, &text] } else { [&text, &blanks] };
            if at > 0 {
                line.push_str(&" ".repeat(GAP));
            }
            line.push_str(first);
            line.push_str(second);
        }
        line.trim_end().to_string()
    }
}

/// `parts` one after the other, in lines of at most `most` characters behind `indent` blanks.
fn in_lines(parts: impl Iterator<Item = String>, most: usize, indent: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut().filter(|line| length(line) + GAP + length(&part) <= most) {
            Some(line) => line.push_str(&format!("{}{part}", " ".repeat(GAP))),
            None => lines.extend(wrapped(&part, most, indent)),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let mut sheet =
            Sheet::new([text("job"), text("solver").rank(2), number("took").rank(1), text("error")]).headed("problem");
        sheet.heading("conv W 32x14x14 k32 1x1 s1 n1 FP32");
        sheet.row([cell("2f2258655e74"), cell("ConvBwdWeightsHostGemm"), cell("12s"), cell("")]);
        sheet.row([
            cell("34ca3eb77a93"),
            cell("ConvBwdWeightsHostDirect"),
            cell("2s"),
            cell("y[3]: found 1, expected 2"),
        ]);
        sheet
    }

    #[test]
    fn what_fits_is_side_by_side() {
        assert_eq!(
            sheet().fitting(120),
            "  job           solver                    took  error\n\
             conv W 32x14x14 k32 1x1 s1 n1 FP32\n\
             \x20 2f2258655e74  ConvBwdWeightsHostGemm     12s\n\
             \x20 34ca3eb77a93  ConvBwdWeightsHostDirect    2s  y[3]: found 1, expected 2"
        );
    }

    #[test]
    fn what_does_not_fit_stands_below_and_no_word_is_broken() {
        assert_eq!(
            sheet().fitting(40),
            "  job           error\n\
             conv W 32x14x14 k32 1x1 s1 n1 FP32\n\
             \x20 2f2258655e74\n\
             \x20     solver ConvBwdWeightsHostGemm\n\
             \x20     took 12s\n\
             \x20 34ca3eb77a93  y[3]: found 1, expected\n\
             \x20               2\n\
             \x20     solver ConvBwdWeightsHostDirect\n\
             \x20     took 2s"
        );
        let words: Vec<String> = sheet().fitting(usize::MAX).split_whitespace().map(str::to_string).collect();
        for most in 1..100 {
            let text = sheet().fitting(most);
            let mut left = words.clone();
            text.split_whitespace().for_each(|word| left.retain(|other| other != word));
            assert!(left.is_empty(), "{most}: {left:?} is not in\n{text}");
            let longest = words.iter().map(|word| word.chars().count()).max().unwrap_or(0) + "      solver ".len();
            assert!(text.lines().all(|line| line.chars().count() <= most.max(longest)), "{most}:\n{text}");
        }
    }

    #[test]
    fn csv_has_everything() {
        assert_eq!(
            sheet().csv(),
            "problem,job,solver,took,error\n\
             conv W 32x14x14 k32 1x1 s1 n1 FP32,2f2258655e74,ConvBwdWeightsHostGemm,12s,\n\
             conv W 32x14x14 k32 1x1 s1 n1 FP32,34ca3eb77a93,ConvBwdWeightsHostDirect,2s,\"y[3]: found 1, expected 2\"\n"
        );
    }
}
