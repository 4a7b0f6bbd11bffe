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
}

impl Row {
    /// A row of these cells.
    #[must_use]
    pub fn of<'a>(cells: impl IntoIterator<Item = &'a str>) -> Self {
        let cells: Vec<Cow<'_, str>> = cells.into_iter().map(quoted).collect();
        Self { line: 0, raw: cells.join(",") + "\n" }
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

    /// Whether there is nothing in it, as in the lines between sections of some files.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.cells().iter().all(|cell| cell.is_empty())
    }
}

/// A CSV file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    path: PathBuf,
    header: Row,
    columns: Vec<String>,
    /// All lines but the header, blank ones too.
    pub rows: Vec<Row>,
}

impl Table {
    /// A file of these columns and no row, to be written to `path`.
    #[must_use]
    pub fn new<'a>(path: &Path, columns: impl IntoIterator<Item = &'a str>) -> Self {
        let header = Row::of(columns);
        let columns = header.cells().into_iter().map(Cow::into_owned).collect();
        Self { path: path.to_path_buf(), header, columns, rows: Vec::new() }
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
            if raw.bytes().filter(|byte| *byte == b'"').count() % 2 != 0 {
                return Err(at(line, "a quote that is not closed", "one record a line"));
            }
            if raw.bytes().filter(|byte| *byte == b',').count() >= MAX_CELLS {
                return Err(at(line, &format!("more than {MAX_CELLS} cells"), "a row of aiter's"));
            }
            rows.push(Row { line, raw: raw.to_string() });
        }
        let header = if rows.is_empty() { Row { line: 1, raw: String::new() } } else { rows.remove(0) };
        if header.is_blank() && rows.iter().all(Row::is_blank) {
            return Err(Error::Empty { path: path.to_path_buf() });
        }
        if header.is_blank() {
            let shown: String = header.text().chars().take(SHOWN).collect();
            return Err(at(1, &format!("{shown:?}"), "the names of columns"));
        }
        let name = |cell: Cow<'_, str>| cell.trim_start_matches(BYTE_ORDER_MARK).trim().to_string();
        let columns = header.cells().into_iter().map(name).collect();
        Ok(Self { path: path.to_path_buf(), header, columns, rows })
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
        for row in std::iter::once(&self.header).chain(&self.rows) {
            if !bytes.is_empty() && !bytes.ends_with(b"\n") {
                bytes.push(b'\n');
            }
            bytes.extend_from_slice(row.raw.as_bytes());
        }
        bytes
    }
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
