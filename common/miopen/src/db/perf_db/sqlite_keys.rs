//! The keys of a perf database in SQLite, whatever it is of: convolutions or batch norms.

use rusqlite::types::ValueRef;

use crate::db::error::ReadError;
use crate::db::sqlite;
use crate::key::PerfDbKey;

/// Columns of `config` of batch norms, in the order of the text form (MIOpen 3.3,
/// src/include/miopen/batchnorm/problem_description.hpp).
const BATCH_NORM: [&str; 13] = [
    "spatial_dim",
    "batchsize",
    "in_channels",
    "in_h",
    "in_w",
    "in_d",
    "resultsave",
    "resultrunning",
    "useSaved",
    "layout",
    "direction",
    "data_type",
    "mode",
];

/// The keys of table `config` in the text form, in the order of their ids. They are as the file has them: no key of a
/// problem need be among them.
///
/// # Errors
/// If the bytes are no SQLite database with such a table.
pub fn keys(name: &str, bytes: &[u8]) -> Result<Vec<String>, ReadError> {
    let connection = sqlite::open_bytes(name, bytes)?;
    let (texts, integers) = PerfDbKey::COLUMNS.split_at(PerfDbKey::TEXTS);
    let conv = [integers, texts].concat();
    let columns = match sqlite::check_table(&connection, name, "config", &conv) {
        Ok(()) => conv,
        Err(error) => {
            sqlite::check_table(&connection, name, "config", &BATCH_NORM).map_err(|_| error)?;
            BATCH_NORM.to_vec()
        }
    };
    let read = || {
        let mut statement = connection.prepare(&format!("SELECT {} FROM config ORDER BY id", columns.join(",")))?;
        let mut rows = statement.query([])?;
        let mut keys = Vec::new();
        while let Some(row) = rows.next()? {
            let values = (0..columns.len()).map(|column| Ok(shown(row.get_ref(column)?)));
            keys.push(values.collect::<rusqlite::Result<Vec<String>>>()?.join("x"));
        }
        Ok(keys)
    };
    read().map_err(ReadError::sqlite(name))
}

/// As MIOpen compares it; what is no text and no integer becomes no field of a key.
fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Integer(int) => int.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => "?".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(schema: &str) -> Vec<u8> {
        let mut connection = rusqlite::Connection::open_in_memory().unwrap();
        connection.execute_batch(schema).unwrap();
        connection.serialize(rusqlite::MAIN_DB).unwrap().to_vec()
    }

    #[test]
    fn batch_norms_have_columns_of_their_own() {
        let columns = BATCH_NORM.join(",");
        let bytes = file(&format!(
            "CREATE TABLE config (id INTEGER PRIMARY KEY ASC, {columns});
             INSERT INTO config ({columns}) VALUES (2, 256, 64, 56, 28, 1, 1, 1, 0, 'NCHW', 'Trn', 'FP16', 1), \
             (2, 256, NULL, 56, 28, 1, 1, 1, 0, 'NCHW', 'Trn', 'FP16', 1);"
        ));
        let expected = ["2x256x64x56x28x1x1x1x0xNCHWxTrnxFP16x1", "2x256x?x56x28x1x1x1x0xNCHWxTrnxFP16x1"];
        assert_eq!(keys("a", &bytes).unwrap(), expected);
    }

    #[test]
    fn other_databases_are_refused() {
        let error = keys("a.db", &file("CREATE TABLE config (id INTEGER, layout TEXT);")).unwrap_err().to_string();
        assert!(error.starts_with("a.db: table config: column "), "{error}");
        assert!(keys("a", b"SQLite format 3\0").is_err());
    }
}
