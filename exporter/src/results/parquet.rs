//! Parquet, packed with zstd. Params and what failed before are JSON texts, samples and artifacts lists, times of day UTC timestamps.

use std::fs::File;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::{Row, Write};

/// Rows that are written at a time: some 40 MB of them are held until then.
const GROUP: usize = 32_768;

/// Must have the columns of [`ParquetRows::flush`], in that order.
const SCHEMA: &str = "message results {
    required binary session (STRING);
    required binary target (STRING);
    required binary problem (STRING);
    required binary label (STRING);
    required binary spec (STRING);
    optional binary spec_digest (STRING);
    required binary solver (STRING);
    optional binary algorithm (STRING);
    required binary params (STRING);
    optional boolean is_default;
    required binary stage (STRING);
    required binary result (STRING);
    optional double median_ms;
    optional double spread_ms;
    required int32 samples (INTEGER(32, false));
    required group samples_ms (LIST) { repeated group list { required float element; } }
    optional double gflops;
    optional double gbytes_per_s;
    optional int32 clock_mhz (INTEGER(32, false));
    required int32 throttled (INTEGER(32, false));
    optional binary noise (STRING);
    required boolean pruned;
    required boolean tied;
    required boolean winner;
    optional binary failure (STRING);
    optional binary detail (STRING);
    required group artifacts (LIST) { repeated group list { required binary element (STRING); } }
    optional int64 workspace (INTEGER(64, false));
    required binary job (STRING);
    optional binary compiled_by (STRING);
    optional int64 compile_ms (INTEGER(64, false));
    optional binary evaluated_by (STRING);
    optional binary device (STRING);
    optional binary device_uuid (STRING);
    optional binary driver (STRING);
    optional int64 enqueued (TIMESTAMP(MILLIS, true));
    required int64 finished (TIMESTAMP(MILLIS, true));
    required int32 recompiles (INTEGER(32, false));
    required int32 attempts (INTEGER(32, false));
    required binary before (STRING);
    required int64 busy_ms (INTEGER(64, false));
    required int32 job_candidates (INTEGER(32, false));
    optional binary search_ended (STRING);
    optional double tried_percent;
    optional double expected_gain_percent;
    optional int32 registers (INTEGER(32, false));
    optional int32 spilled_bytes (INTEGER(32, false));
    optional int32 shared_bytes (INTEGER(32, false));
    optional int32 resident_blocks (INTEGER(32, false));
}";

/// Writes one file.
pub struct ParquetRows {
    /// `None` once it has ended.
    out: Option<SerializedFileWriter<File>>,
    rows: Vec<Row>,
}

impl ParquetRows {
    /// Begins one in an empty file.
    ///
    /// # Errors
    /// If it can not be written to.
    pub fn new(file: File) -> io::Result<Self> {
        let begin = || {
            let schema = Arc::new(parse_message_type(SCHEMA)?);
            let packed = Compression::ZSTD(ZstdLevel::try_new(3)?);
            let properties = WriterProperties::builder().set_compression(packed).set_created_by("bluefin".to_string());
            SerializedFileWriter::new(file, schema, Arc::new(properties.build()))
        };
        Ok(Self { out: Some(begin().map_err(of_parquet)?), rows: Vec::new() })
    }

    /// Writes what was gathered.
    fn flush(&mut self) -> Result<(), ParquetError> {
        let Some(out) = self.out.as_mut().filter(|_| !self.rows.is_empty()) else { return Ok(()) };
        // Gone with what it is written from, however this ends.
        let rows = std::mem::take(&mut self.rows);
        let mut columns = Columns { group: out.next_row_group()?, rows: &rows };
        columns.text(|row| text(&row.session))?;
        columns.text(|row| text(&row.target))?;
        columns.text(|row| text(&row.problem))?;
        columns.text(|row| text(&row.label))?;
        columns.text(|row| text(&row.spec))?;
        columns.texts(|row| row.spec_digest.as_deref().map(text))?;
        columns.text(|row| text(&row.solver))?;
        columns.texts(|row| row.algorithm.as_deref().map(text))?;
        columns.text(|row| ByteArray::from(row.params_json().into_bytes()))?;
        columns.optional::<BoolType>(|row| row.is_default)?;
        columns.text(|row| text(row.stage.name()))?;
        columns.text(|row| text(row.result.name()))?;
        columns.optional::<DoubleType>(|row| row.median_ms)?;
        columns.optional::<DoubleType>(|row| row.spread_ms)?;
        columns.required::<Int32Type>(|row| narrow(row.samples))?;
        columns.list::<FloatType>(|row| row.samples_ms.clone())?;
        columns.optional::<DoubleType>(|row| row.gflops)?;
        columns.optional::<DoubleType>(|row| row.gbytes_per_s)?;
        columns.optional::<Int32Type>(|row| row.clock_mhz.map(narrow))?;
        columns.required::<Int32Type>(|row| narrow(row.throttled))?;
        columns.texts(|row| row.noise.as_deref().map(text))?;
        columns.required::<BoolType>(|row| row.pruned)?;
        columns.required::<BoolType>(|row| row.tied)?;
        columns.required::<BoolType>(|row| row.winner)?;
        columns.texts(|row| row.failure.map(|kind| text(kind.name())))?;
        columns.texts(|row| row.detail.as_deref().map(text))?;
        columns.list::<ByteArrayType>(|row| row.artifacts.iter().map(|digest| text(digest)).collect())?;
        columns.optional::<Int64Type>(|row| row.workspace.map(wide))?;
        columns.text(|row| text(&row.job))?;
        columns.texts(|row| row.compiled_by.as_deref().map(text))?;
        columns.optional::<Int64Type>(|row| row.compile_ms.map(wide))?;
        columns.texts(|row| row.evaluated_by.as_deref().map(text))?;
        columns.texts(|row| row.device.as_deref().map(text))?;
        columns.texts(|row| row.device_uuid.as_deref().map(text))?;
        columns.texts(|row| row.driver.as_deref().map(text))?;
        columns.optional::<Int64Type>(|row| row.enqueued_ms.map(wide))?;
        columns.required::<Int64Type>(|row| wide(row.finished_ms))?;
        columns.required::<Int32Type>(|row| narrow(row.recompiles))?;
        columns.required::<Int32Type>(|row| narrow(row.attempts))?;
        columns.text(|row| text(&row.before_json()))?;
        columns.required::<Int64Type>(|row| wide(row.busy_ms))?;
        columns.required::<Int32Type>(|row| narrow(row.job_candidates))?;
        columns.texts(|row| row.search_ended.as_deref().map(text))?;
        columns.optional::<DoubleType>(|row| row.tried_percent)?;
        columns.optional::<DoubleType>(|row| row.expected_gain_percent)?;
        columns.optional::<Int32Type>(|row| row.registers.map(narrow))?;
        columns.optional::<Int32Type>(|row| row.spilled_bytes.map(narrow))?;
        columns.optional::<Int32Type>(|row| row.shared_bytes.map(narrow))?;
        columns.optional::<Int32Type>(|row| row.resident_blocks.map(narrow))?;
        columns.group.close()?;
        Ok(())
    }
}

impl Write for ParquetRows {
    fn rows(&mut self, rows: &[Row]) -> io::Result<()> {
        self.rows.extend_from_slice(rows);
        if self.rows.len() >= GROUP { self.flush().map_err(of_parquet) } else { Ok(()) }
    }

    fn end(&mut self) -> io::Result<()> {
        self.flush().map_err(of_parquet)?;
        match self.out.take() {
            Some(out) => out.close().map(|_| ()).map_err(of_parquet),
            None => Ok(()),
        }
    }
}

/// The columns of a row group, one after the other.
struct Columns<'a> {
    group: SerializedRowGroupWriter<'a, File>,
    rows: &'a [Row],
}

impl Columns<'_> {
    fn write<T: DataType>(
        &mut self,
        values: &[T::T],
        definitions: Option<&[i16]>,
        repetitions: Option<&[i16]>,
    ) -> Result<(), ParquetError> {
        let column = self.group.next_column()?;
        let mut column = column.ok_or_else(|| ParquetError::General("more columns than the schema has".to_string()))?;
        column.typed::<T>().write_batch(values, definitions, repetitions)?;
        column.close()
    }

    fn required<T: DataType>(&mut self, value: impl Fn(&Row) -> T::T) -> Result<(), ParquetError> {
        let values: Vec<T::T> = self.rows.iter().map(value).collect();
        self.write::<T>(&values, None, None)
    }

    fn optional<T: DataType>(&mut self, value: impl Fn(&Row) -> Option<T::T>) -> Result<(), ParquetError> {
        let found: Vec<Option<T::T>> = self.rows.iter().map(value).collect();
        let there: Vec<i16> = found.iter().map(|value| i16::from(value.is_some())).collect();
        let values: Vec<T::T> = found.into_iter().flatten().collect();
        self.write::<T>(&values, Some(&there), None)
    }

    /// Lists that are there, of elements that are there: one level for an element, and another for whether it is the first.
    fn list<T: DataType>(&mut self, items: impl Fn(&Row) -> Vec<T::T>) -> Result<(), ParquetError> {
        let (mut values, mut there, mut again) = (Vec::new(), Vec::new(), Vec::new());
        for row in self.rows {
            let items = items(row);
            if items.is_empty() {
                there.push(0);
                again.push(0);
            }
            for (index, item) in items.into_iter().enumerate() {
                there.push(1);
                again.push(i16::from(index > 0));
                values.push(item);
            }
        }
        self.write::<T>(&values, Some(&there), Some(&again))
    }

    fn text(&mut self, value: impl Fn(&Row) -> ByteArray) -> Result<(), ParquetError> {
        self.required::<ByteArrayType>(value)
    }

    fn texts(&mut self, value: impl Fn(&Row) -> Option<ByteArray>) -> Result<(), ParquetError> {
        self.optional::<ByteArrayType>(value)
    }
}

fn text(text: &str) -> ByteArray {
    ByteArray::from(Bytes::copy_from_slice(text.as_bytes()))
}

/// The bits of an unsigned number, as Parquet keeps it.
fn narrow(number: u32) -> i32 {
    number.cast_signed()
}

fn wide(number: u64) -> i64 {
    number.cast_signed()
}

fn of_parquet(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}

#[cfg(test)]
mod tests {
    use bluefin_common::failure::FailureKind;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::{Field, RowAccessor as _};

    use super::super::row::tests::{failed, row};
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let file = tempfile::tempfile().unwrap();
        let mut out = ParquetRows::new(file.try_clone().unwrap()).unwrap();
        out.rows(&[row(3), failed(4, FailureKind::CompileError, "error: \"a\"\n b")]).unwrap();
        out.end().unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        let field = |row: usize, name: &str| {
            let found = rows[row].get_column_iter().find(|(column, _)| *column == name);
            found.unwrap_or_else(|| panic!("{name}")).1.clone()
        };
        let text = |text: &str| Field::Str(text.to_string());
        assert_eq!(rows.len(), 2);
        assert_eq!(field(0, "params"), text(r#"{"tile":3,"order":"x\"y"}"#));
        assert_eq!(field(0, "median_ms"), Field::Double(97.0));
        assert_eq!(field(0, "samples"), Field::UInt(2));
        assert_eq!(field(0, "finished"), Field::TimestampMillis(1_700_000_000_123));
        assert_eq!(field(0, "enqueued"), Field::Null);
        assert_eq!(field(0, "winner"), Field::Bool(true));
        assert_eq!(field(1, "median_ms"), Field::Null);
        assert_eq!(field(1, "detail"), text("error: \"a\"\n b"));
        assert_eq!(field(1, "result"), text("compile_error"));
        let samples = |row: usize| {
            let column = rows[row].get_column_iter().position(|(column, _)| column == "samples_ms").unwrap();
            rows[row].get_list(column).unwrap().elements().to_vec()
        };
        assert_eq!(samples(0), [Field::Float(1.5), Field::Float(2.5)]);
        assert_eq!(samples(1), []);
    }

    #[test]
    fn nothing_is_a_file_too() {
        let file = tempfile::tempfile().unwrap();
        ParquetRows::new(file.try_clone().unwrap()).unwrap().end().unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
    }
}
