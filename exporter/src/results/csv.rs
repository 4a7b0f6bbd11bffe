//! CSV with a header. Params are a JSON object, and what failed before an array of such; samples and artifacts have blanks between
//! them.

use std::io;

use super::{Row, Write};

/// The columns, which are the fields of a row.
const COLUMNS: [&str; 49] = [
    "session",
    "target",
    "problem",
    "label",
    "spec",
    "spec_digest",
    "solver",
    "algorithm",
    "params",
    "is_default",
    "stage",
    "result",
    "median_ms",
    "spread_ms",
    "samples",
    "samples_ms",
    "gflops",
    "gbytes_per_s",
    "clock_mhz",
    "throttled",
    "noise",
    "pruned",
    "tied",
    "winner",
    "failure",
    "detail",
    "artifacts",
    "workspace",
    "job",
    "compiled_by",
    "compile_ms",
    "evaluated_by",
    "device",
    "device_uuid",
    "driver",
    "enqueued_ms",
    "finished_ms",
    "recompiles",
    "attempts",
    "before",
    "busy_ms",
    "job_candidates",
    "search_ended",
    "tried_percent",
    "expected_gain_percent",
    "registers",
    "spilled_bytes",
    "shared_bytes",
    "resident_blocks",
];

/// Writes a line for each row.
pub struct CsvRows<O: io::Write> {
    out: csv::Writer<O>,
    begun: bool,
}

impl<O: io::Write + Send + 'static> CsvRows<O> {
    pub fn new(out: O) -> Self {
        Self { out: csv::Writer::from_writer(out), begun: false }
    }

    fn begin(&mut self) -> io::Result<()> {
        if !self.begun {
            self.begun = true;
            self.out.write_record(COLUMNS).map_err(of_csv)?;
        }
        Ok(())
    }
}

impl<O: io::Write + Send + 'static> Write for CsvRows<O> {
    fn rows(&mut self, rows: &[Row]) -> io::Result<()> {
        self.begin()?;
        rows.iter().try_for_each(|row| self.out.write_record(cells(row)?).map_err(of_csv))
    }

    fn end(&mut self) -> io::Result<()> {
        self.begin()?;
        self.out.flush()
    }
}

/// Those of a row. They follow from its JSON, so that both say the same.
fn cells(row: &Row) -> io::Result<Vec<String>> {
    let json = serde_json::to_value(row)?;
    let list = |items: &[serde_json::Value]| {
        let texts: Vec<String> = items.iter().map(plain).collect();
        texts.join(" ")
    };
    Ok(COLUMNS
        .iter()
        .map(|name| match json.get(*name) {
            Some(before) if *name == "before" => before.to_string(),
            Some(serde_json::Value::Array(items)) => list(items),
            Some(value) => plain(value),
            None => String::new(),
        })
        .collect())
}

/// What the reader or the disk said, as it is: a reader who had enough is told from a disk that is full.
fn of_csv(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use bluefin_common::failure::FailureKind;

    use super::super::row::tests::{failed, row};
    use super::*;

    #[test]
    fn every_field_of_a_row_is_a_column() {
        let json = serde_json::to_value(row(0)).unwrap();
        let fields: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields, COLUMNS);
    }

    #[test]
    fn words_with_quotes_and_lines_come_back() {
        let mut out = CsvRows::new(Vec::new());
        out.rows(&[row(3), failed(4, FailureKind::CompileError, "error: \"a\",\n b")]).unwrap();
        out.end().unwrap();
        let bytes = out.out.into_inner().unwrap();
        let mut reader = csv::Reader::from_reader(bytes.as_slice());
        let records: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let cell = |row: usize, name: &str| {
            let column = COLUMNS.iter().position(|column| *column == name).unwrap();
            records[row][column].to_string()
        };
        assert_eq!(cell(0, "samples_ms"), "1.5 2.5");
        assert_eq!(cell(0, "params"), r#"{"tile":3,"order":"x\"y"}"#);
        assert_eq!((cell(1, "median_ms"), cell(1, "failure")), (String::new(), "compile_error".to_string()));
        assert_eq!(cell(1, "detail"), "error: \"a\",\n b");
    }

    #[test]
    fn a_reader_who_had_enough_is_told_as_such() {
        struct Gone;
        impl io::Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut out = CsvRows::new(Gone);
        let error = out.rows(&vec![row(3); 1000]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "{error}");
    }
}
