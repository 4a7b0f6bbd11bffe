//! A CSV file as it is: every row keeps its bytes, so that what was not changed is written back as it was read.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::Error;

/// Cells of a row that are taken; the widest file of aiter's has 41.
const MAX_CELLS: usize = 256;
/// Characters of a line that messages show.
const SHOWN: usize = 80;
/// What spreadsheets put in front of a file.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A row as it stands in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// In its file, from 1; 0 where it was made.
    pub line: u64,
    /// With its line ending, if it has one.
    raw: String,
    /// Whether it is a comment, which the files of few families have.
    comment: bool,
}

impl Row {
    /// A row of these cells.
    #[must_use]
    pub fn of<'a>(cells: impl IntoIterator<Item = &'a str>) -> Self {
        let cells: Vec<Cow<'_, str>> = cells.into_iter().map(quoted).collect();
        Self { line: 0, raw: cells.join(",") + "\n", comment: false }
    }

    /// Its cells, without the white space around them.
    #[must_use]
    pub fn cells(&self) -> Vec<Cow<'_, str>> {
        split(self.text()).into_iter().map(trimmed).collect()
    }

    /// Its cells as they are.
    #[must_use]
    pub fn bare_cells(&self) -> Vec<Cow<'_, str>> {
        split(self.text())
    }

    /// Without its line ending.
    #[must_use]
    pub fn text(&self) -> &str {
        self.raw.trim_end_matches(['\n', '\r'])
    }

    /// Whether there is nothing in it, as in the lines between sections of some files, or it is a comment.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.comment || self.cells().iter().all(|cell| cell.is_empty())
    }

    fn begins_with_hash(&self) -> bool {
        begins_with_hash(&self.raw)
    }
}

/// A CSV file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    path: PathBuf,
    /// Comments in front of the header.
    before: Vec<Row>,
    header: Row,
    /// Without the white space around them.
    columns: Vec<String>,
    /// As they are.
    bare_columns: Vec<String>,
    /// All lines but the header, blank ones too.
    pub rows: Vec<Row>,
}

impl Table {
    /// A file of these columns and no row, to be written to `path`.
    #[must_use]
    pub fn new<'a>(path: &Path, columns: impl IntoIterator<Item = &'a str>) -> Self {
        Self::begin(path, Row::of(columns), Vec::new())
    }

    fn begin(path: &Path, header: Row, rows: Vec<Row>) -> Self {
        let bare_columns =
            header.bare_cells().into_iter().map(|cell| cell.trim_start_matches(BYTE_ORDER_MARK).to_string());
        let bare_columns: Vec<String> = bare_columns.collect();
        let columns = bare_columns.iter().map(|column| column.trim().to_string()).collect();
        Self { path: path.to_path_buf(), before: Vec::new(), header, columns, bare_columns, rows }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it can not be read, or is no CSV file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Self::parse(path, std::fs::read(path).map_err(Error::at(path))?)
    }

    /// Takes the bytes of a file apart.
    ///
    /// # Errors
    /// If they are not UTF-8, there is no header, or a quote is not closed on its line.
    pub fn parse(path: &Path, bytes: Vec<u8>) -> Result<Self, Error> {
        let at = |line, found: &str, expected: &str| Error::Line {
            path: path.to_path_buf(),
            line,
            found: found.to_string(),
            expected: expected.to_string(),
        };
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
            at(1 + valid.filter(|byte| **byte == b'\n').count() as u64, "bytes that are no text", "UTF-8")
        })?;
        let mut rows = Vec::new();
        for (line, raw) in (1..).zip(text.split_inclusive('\n')) {
            if begins_with_hash(raw) {
                // A comment, if the family has any; otherwise a row with too few cells.
                rows.push(Row { line, raw: raw.to_string(), comment: false });
                continue;
            }
            if raw.bytes().filter(|byte| *byte == b'"').count() % 2 != 0 {
                return Err(at(line, "a quote that is not closed", "one record a line"));
            }
            if raw.bytes().filter(|byte| *byte == b',').count() >= MAX_CELLS {
                return Err(at(line, &format!("more than {MAX_CELLS} cells"), "a row of aiter's"));
            }
            rows.push(Row { line, raw: raw.to_string(), comment: false });
        }
        let nothing = || Row { line: 1, raw: String::new(), comment: false };
        let header = if rows.is_empty() { nothing() } else { rows.remove(0) };
        if header.is_blank() && rows.iter().all(Row::is_blank) {
            return Err(Error::Empty { path: path.to_path_buf() });
        }
        if header.is_blank() {
            let shown: String = header.text().chars().take(SHOWN).collect();
            return Err(at(1, &format!("{shown:?}"), "the names of columns"));
        }
        Ok(Self::begin(path, header, rows))
    }

    /// Takes lines that begin with `#` for comments, in front of the header too. `None` if there is nothing else.
    #[must_use]
    pub fn with_comments(mut self) -> Option<Self> {
        for row in &mut self.rows {
            row.comment = row.begins_with_hash();
        }
        if !self.header.begins_with_hash() {
            return Some(self);
        }
        let place = self.rows.iter().position(|row| !row.is_blank())?;
        let rows = self.rows.split_off(place + 1);
        let header = self.rows.pop()?;
        let before = std::iter::once(self.header).chain(self.rows).collect();
        Some(Self { before, ..Self::begin(&self.path, header, rows) })
    }

    /// The lines that are comments, from 1.
    pub fn comments(&self) -> impl Iterator<Item = u64> {
        let between = self.rows.iter().filter(|row| row.comment);
        self.before.iter().filter(|row| row.begins_with_hash()).chain(between).map(|row| row.line)
    }

    /// The line of the names of columns, from 1.
    #[must_use]
    pub fn header_line(&self) -> u64 {
        self.header.line.max(1)
    }

    /// Where it is from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of its columns. Some files have columns without one, which hold nothing.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Their names with the white space around them, which look-ups take for a part of the name.
    #[must_use]
    pub fn bare_columns(&self) -> &[String] {
        &self.bare_columns
    }

    /// Where a column is.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// Puts a column in front of the one that stands at `place`; all other bytes stay. `cell` says what a row has in it.
    pub fn insert_column(&mut self, place: usize, name: &str, cell: impl Fn(&Row) -> String) {
        let place = place.min(self.columns.len());
        self.header.raw = inserted(&self.header.raw, place, name);
        self.columns.insert(place, name.to_string());
        self.bare_columns.insert(place, name.to_string());
        for row in self.rows.iter_mut().filter(|row| !row.is_blank()) {
            row.raw = inserted(&row.raw, place, &cell(row));
        }
    }

    /// Rows that hold something.
    pub fn records(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| !row.is_blank())
    }

    /// The file. A row behind one without a line ending gets a line of its own.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for row in self.before.iter().chain(std::iter::once(&self.header)).chain(&self.rows) {
            if !bytes.is_empty() && !bytes.ends_with(b"\n") {
                bytes.push(b'\n');
            }
            bytes.extend_from_slice(row.raw.as_bytes());
        }
        bytes
    }
}

fn begins_with_hash(raw: &str) -> bool {
    raw.trim_start().starts_with('#')
}

/// A line with one cell more, in front of the one that stands at `place`.
fn inserted(raw: &str, place: usize, cell: &str) -> String {
    let (mark, raw) = raw.strip_prefix(BYTE_ORDER_MARK).map_or(("", raw), |raw| ("\u{feff}", raw));
    let line = raw.trim_end_matches(['\n', '\r']);
    let end = raw.get(line.len()..).unwrap_or_default();
    let mut quoted_text = false;
    let commas = line.char_indices().filter(|(_, sign)| {
        quoted_text ^= *sign == '"';
        *sign == ',' && !quoted_text
    });
    let starts: Vec<usize> = std::iter::once(0).chain(commas.map(|(at, _)| at + 1)).collect();
    let cell = quoted(cell);
    match starts.get(place).and_then(|start| line.split_at_checked(*start)) {
        Some((before, behind)) => format!("{mark}{before}{cell},{behind}{end}"),
        // One that ends before it.
        None => format!("{mark}{line}{}{cell}{end}", ",".repeat((place + 1).saturating_sub(starts.len()))),
    }
}

/// The cells of a line. Those that are quoted, which aiter has none of so far, as the csv crate reads them.
fn split(line: &str) -> Vec<Cow<'_, str>> {
    if !line.contains('"') {
        return line.split(',').map(Cow::Borrowed).collect();
    }
    let reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(line.as_bytes());
    let records = reader.into_records().filter_map(Result::ok);
    records.flat_map(|record| record.iter().map(|cell| Cow::Owned(cell.to_string())).collect::<Vec<_>>()).collect()
}

fn trimmed(cell: Cow<'_, str>) -> Cow<'_, str> {
    match cell {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim()),
        Cow::Owned(text) => Cow::Owned(text.trim().to_string()),
    }
}

/// As it stands in a line.
fn quoted(cell: &str) -> Cow<'_, str> {
    if cell.contains([',', '"', '\n', '\r']) {
        // A record is one line.
        Cow::Owned(format!("\"{}\"", cell.replace(['\n', '\r'], " ").replace('"', "\"\"")))
    } else {
        Cow::Borrowed(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Table, Error> {
        Table::parse(Path::new("f.csv"), text.as_bytes().to_vec())
    }

    #[test]
    fn what_is_odd_stays() {
        for text in [
            "M,N",
            "M,N\n",
            "M,N\r\n1, 2\r\n\r\n",
            "M ,N,\n1,2,\n\n\n3,4\t,",
            "\u{feff}M,N\n\"a,b\",2\n",
            "M,N\n1\n1,2,3",
        ] {
            assert_eq!(parse(text).unwrap().to_bytes(), text.as_bytes(), "{text:?}");
        }
        let table = parse("\u{feff}M, N \n\"a,b\" , 2\t\n\n1").unwrap();
        assert_eq!(table.columns(), ["M", "N"]);
        let rows: Vec<_> = table.records().map(|row| (row.line, row.cells())).collect();
        assert_eq!(rows, [(2, vec!["a,b".into(), "2".into()]), (4, vec!["1".into()])]);
    }

    #[test]
    fn what_is_no_csv_is_told_with_its_line() {
        let told = |bytes: &[u8]| Table::parse(Path::new("f.csv"), bytes.to_vec()).unwrap_err().to_string();
        assert_eq!(told(b""), "f.csv: found an empty file, expected the names of columns");
        assert_eq!(told(b" ,\n1,2"), "f.csv:1: found \" ,\", expected the names of columns");
        assert_eq!(told(b"M\n1\n\xff"), "f.csv:3: found bytes that are no text, expected UTF-8");
        assert_eq!(told(b"M\n\"1\n"), "f.csv:2: found a quote that is not closed, expected one record a line");
        assert!(told(&[b"M\n".as_slice(), &[b','; 300]].concat()).starts_with("f.csv:2: found more than 256 cells"));
    }

    #[test]
    fn comments_are_no_rows_and_stay() {
        let text = "# by \"hand\nM,N\n# \"\n1,2\n  # 3,4\n";
        let table = parse(text).unwrap().with_comments().unwrap();
        assert_eq!((table.columns(), table.header_line()), (["M".to_string(), "N".to_string()].as_slice(), 2));
        assert_eq!(table.records().map(|row| row.line).collect::<Vec<_>>(), [4]);
        assert_eq!(table.comments().collect::<Vec<_>>(), [1, 3, 5]);
        assert_eq!(table.to_bytes(), text.as_bytes());
        assert!(parse("# nothing\n\n# else\n").unwrap().with_comments().is_none());
    }

    #[test]
    fn a_row_behind_an_open_line_gets_its_own() {
        let mut table = parse("M,N\n1,2").unwrap();
        table.rows.push(Row::of(["3", "a,\"b\""]));
        assert_eq!(table.to_bytes(), b"M,N\n1,2\n3,\"a,\"\"b\"\"\"\n");
        let again = Table::parse(Path::new("f.csv"), table.to_bytes()).unwrap();
        assert_eq!(again.rows[1].cells(), ["3", "a,\"b\""]);
    }

    #[test]
    fn a_column_is_put_in_and_all_other_bytes_stay() {
        let mut table = parse("\u{feff}M, N,us\r\n1, 2,\"a,b\"\r\n\n3\n4,5,6").unwrap();
        table.insert_column(2, "K", |row| format!("k{}", row.line));
        table.insert_column(0, "gfx", |_| "g".to_string());
        let expected = "\u{feff}gfx,M, N,K,us\r\ng,1, 2,k2,\"a,b\"\r\n\ng,3,,k4\ng,4,5,k5,6";
        assert_eq!(table.to_bytes(), expected.as_bytes());
        assert_eq!(table.columns(), ["gfx", "M", "N", "K", "us"]);
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_kept(text in "[a-c,\" \t\r\n0-9]{0,60}") {
            if let Ok(table) = parse(&text) {
                prop_assert_eq!(table.to_bytes(), text.as_bytes());
            }
        }

        #[test]
        fn cells_are_read_as_they_were_written(cells in proptest::collection::vec("[a-c,\"0-9]{1,6}", 1..6)) {
            let row = Row::of(cells.iter().map(String::as_str));
            prop_assert_eq!(row.cells(), cells);
        }
    }
}
