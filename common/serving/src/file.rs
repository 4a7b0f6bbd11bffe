//! Config files: rows by batch size, read as the engines read them and written byte for byte as their tuners write them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use indexmap::IndexMap;
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::Value as Json;

use crate::engine::{CHANNELWISE, Engine};
use crate::error::Error;
use crate::python;
use crate::row::Row;
use crate::version::Version;

/// The key of a file that says the version of Triton that it was made with.
pub const VERSION_KEY: &str = "triton_version";

/// More bytes than any config file has.
const MAX_BYTES: u64 = 64 << 20;

/// A file whose rows the engine's loader can read.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigFile {
    /// The version of Triton that it was made with, where it says one.
    pub version: Option<Version>,
    rows: IndexMap<i64, Row>,
    /// Batch sizes whose row is null: it has no fields here.
    nulls: BTreeSet<i64>,
    layout: Layout,
}

/// The fields of a file, before anything is asked of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// In the order of the file, with those that are there twice.
    pub fields: Vec<(String, Json)>,
    layout: Layout,
}

/// How a file is written down.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Layout {
    /// As Python writes it, with so many blanks a level and with or without a line feed at the end.
    Python { indent: usize, line_feed: bool },
    /// By hand: its text, which is kept as long as nothing is changed.
    Other(String),
}

/// As the tuners write it.
const TUNERS: Layout = Layout::Python { indent: 4, line_feed: true };

impl Document {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// If it is no JSON, or no object.
    pub fn parse(path: &Path, text: &str) -> Result<Self, Error> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let torn = |error| Error::torn(path, text, &error);
        let fields = deserializer.deserialize_any(Fields).map_err(torn)?;
        deserializer.end().map_err(torn)?;
        let Some(fields) = fields else {
            return Err(content(path, "the file", "no object", "an object of rows by batch size"));
        };
        let layout = Layout::of(text, &fields);
        Ok(Self { fields, layout })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As [`Self::parse`], and if the system does not let it be read.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let size = path.metadata().map_err(Error::at(path))?.len();
        if size > MAX_BYTES {
            return Err(content(path, "the file", format!("{size} bytes"), format!("at most {MAX_BYTES}")));
        }
        let bytes = std::fs::read(path).map_err(Error::at(path))?;
        let text = String::from_utf8(bytes)
            .map_err(|error| content(path, "the file", "a byte that is no UTF-8", format!("JSON ({error})")))?;
        Self::parse(path, &text)
    }
}

fn content(path: &Path, place: &str, found: impl Into<String>, expected: impl Into<String>) -> Error {
    Error::Content {
        path: path.to_path_buf(),
        place: place.to_string(),
        found: found.into(),
        expected: expected.into(),
    }
}

/// The batch size of a key, read as Python's `int` reads it.
#[must_use]
pub fn batch_size(key: &str) -> Option<i64> {
    let digits = key.trim();
    let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(digits);
    let is_joined = |pair: &[u8]| pair.first() == Some(&b'_') && pair.last() == Some(&b'_');
    let is_number = unsigned.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
        && !unsigned.starts_with('_')
        && !unsigned.ends_with('_')
        && !unsigned.as_bytes().windows(2).any(is_joined);
    is_number.then(|| digits.replace('_', "").parse().ok()).flatten()
}

impl ConfigFile {
    /// A file of the engine's, as its tuner writes one. The version is left out where the engine's loader does not take it.
    #[must_use]
    pub fn of(engine: Engine, version: Option<Version>, rows: impl IntoIterator<Item = (i64, Row)>) -> Self {
        let mut rows: IndexMap<i64, Row> = rows.into_iter().map(|(size, row)| (size, row.ordered(engine))).collect();
        rows.sort_unstable_keys();
        let version = version.filter(|_| engine.info().has_version_key);
        Self { version, rows, nulls: BTreeSet::new(), layout: TUNERS }
    }

    /// Takes the fields of a file for rows. SGLang's products with a scale for each channel may have null for a row, by which another kernel is
    /// taken: it is one without fields.
    ///
    /// # Errors
    /// If a key is no batch size, a row is no object, or the version is none or none that the engine's loader takes.
    pub fn of_document(path: &Path, document: Document, engine: Engine) -> Result<Self, Error> {
        let mut version = None;
        let (mut rows, mut nulls) = (IndexMap::new(), BTreeSet::new());
        let may_be_null = path.file_name().is_some_and(|name| name.to_string_lossy().contains(CHANNELWISE));
        for (key, value) in document.fields {
            if key == VERSION_KEY && engine.info().has_version_key {
                version = Some(
                    version_of(&value)
                        .map_err(|found| content(path, VERSION_KEY, found, "a version of Triton such as \"3.6.0\""))?,
                );
                continue;
            }
            let Some(size) = batch_size(&key) else {
                let expected = match (key.as_str(), engine.info().has_version_key) {
                    (VERSION_KEY, false) => "no such key: SGLang's loader takes batch sizes alone".to_string(),
                    _ => "a batch size".to_string(),
                };
                return Err(content(path, &format!("key {key:?}"), format!("{key:?}"), expected));
            };
            if value.is_null() && may_be_null {
                rows.insert(size, Row::default());
                nulls.insert(size);
                continue;
            }
            let Json::Object(fields) = value else {
                return Err(content(path, &format!("row {key:?}"), value.to_string(), "an object of block sizes"));
            };
            rows.insert(size, Row(fields));
            nulls.remove(&size);
        }
        Ok(Self { version, rows, nulls, layout: document.layout })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As [`Document::read`] and [`Self::of_document`].
    pub fn read(path: &Path, engine: Engine) -> Result<Self, Error> {
        Self::of_document(path, Document::read(path)?, engine)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// As [`Document::parse`] and [`Self::of_document`].
    pub fn parse(path: &Path, text: &str, engine: Engine) -> Result<Self, Error> {
        Self::of_document(path, Document::parse(path, text)?, engine)
    }

    /// The text of the file: as it was read, if nothing was changed.
    #[must_use]
    pub fn text(&self) -> String {
        let (indent, line_feed) = match &self.layout {
            Layout::Other(text) => return text.clone(),
            Layout::Python { indent, line_feed } => (*indent, *line_feed),
        };
        let version = self.version.as_ref().map(|version| (VERSION_KEY.to_string(), Json::from(version.to_string())));
        let said = |(size, row): (&i64, &Row)| match self.nulls.contains(size) {
            true => (size.to_string(), Json::Null),
            false => (size.to_string(), Json::Object(row.0.clone())),
        };
        let rows = self.rows.iter().map(said);
        let fields: Vec<(String, Json)> = version.into_iter().chain(rows).collect();
        let mut text = python::object(fields.iter().map(|(key, value)| (key.as_str(), value)), indent);
        text.push_str(if line_feed { "\n" } else { "" });
        text
    }

    /// Rows in the order of the file.
    pub fn rows(&self) -> impl Iterator<Item = (i64, &Row)> {
        self.rows.iter().map(|(size, row)| (*size, row))
    }

    /// The row of this batch size and no other.
    #[must_use]
    pub fn row(&self, size: i64) -> Option<&Row> {
        self.rows.get(&size)
    }

    /// The row that the loader takes for `tokens`: the nearest key's, the first one in the file of two that are as near. There is
    /// no limit to how far it may be.
    #[must_use]
    pub fn row_for(&self, tokens: i64) -> Option<(i64, &Row)> {
        self.rows().min_by_key(|(size, _)| size.abs_diff(tokens))
    }

    /// Puts a row in the place of what the size had. A new one goes where it belongs if the rows are sorted, otherwise to the end.
    pub fn set(&mut self, size: i64, row: Row) {
        if self.rows.get(&size) == Some(&row) {
            return;
        }
        let is_sorted = self.rows.keys().is_sorted();
        self.nulls.remove(&size);
        self.rows.insert(size, row);
        if is_sorted {
            self.rows.sort_unstable_keys();
        }
        self.is_changed();
    }

    /// Says another version of Triton.
    pub fn set_version(&mut self, version: Option<Version>) {
        if self.version != version {
            self.version = version;
            self.is_changed();
        }
    }

    /// What was laid out by hand is written as the tuner writes it from now on.
    fn is_changed(&mut self) {
        if matches!(self.layout, Layout::Other(_)) {
            self.layout = TUNERS;
        }
    }
}

/// The version that a file says, or what it says instead.
pub(crate) fn version_of(value: &Json) -> Result<Version, String> {
    value.as_str().and_then(|text| text.parse().ok()).ok_or_else(|| value.to_string())
}

impl Layout {
    fn of(text: &str, fields: &[(String, Json)]) -> Self {
        let (body, line_feed) = text.strip_suffix('\n').map_or((text, false), |body| (body, true));
        let is_written =
            |indent: &usize| python::object(fields.iter().map(|(key, value)| (key.as_str(), value)), *indent) == body;
        let is_decimal = |key: &str| batch_size(key).is_some_and(|size| size.to_string() == key);
        let versions = fields.iter().filter(|(key, _)| key == VERSION_KEY).count();
        // What is printed from rows is what was read: keys are plain numbers, none twice, and the version comes first.
        let is_plain = versions <= 1
            && fields.iter().enumerate().all(|(at, (key, value))| {
                (key == VERSION_KEY
                    && at == 0
                    && version_of(value).is_ok_and(|version| Some(version.to_string().as_str()) == value.as_str()))
                    || is_decimal(key)
            })
            && fields.iter().map(|(key, _)| key).collect::<BTreeSet<_>>().len() == fields.len();
        match [4, 2, 1, 3, 8].iter().find(|indent| is_plain && is_written(indent)) {
            Some(indent) => Self::Python { indent: *indent, line_feed },
            None => Self::Other(text.to_string()),
        }
    }
}

/// Fields in their order, also those that are there twice; `None` for what is no object.
struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Option<Vec<(String, Json)>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of rows by batch size")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Some(fields))
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<serde::de::IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
