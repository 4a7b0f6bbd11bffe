//! Keys: what a row is looked up by.

use std::fmt;

use serde::{Serialize, Serializer};

/// A value as a look-up compares it: aiter compares Python's numbers and strings.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value {
    /// A whole number. `True` and `False` are 1 and 0, as they are to Python.
    Integer(i64),
    /// Anything else, as it stands there; an empty cell too.
    Text(Box<str>),
}

impl Value {
    /// Of a cell, as aiter's tuners read it: without the white space around it, truth values in any case, and whole numbers however
    /// they are written. What a look-up makes of it, `LookUp` knows.
    #[must_use]
    pub fn of(cell: &str) -> Self {
        let cell = cell.trim();
        match flag(cell) {
            Some(flag) => Self::Integer(i64::from(flag)),
            None => whole(cell).map_or_else(|| Self::Text(cell.into()), Self::Integer),
        }
    }
}

/// A truth value, as pandas takes it: in any case, which spreadsheets change, and with nothing around it.
#[must_use]
pub fn flag(cell: &str) -> Option<bool> {
    match cell {
        _ if cell.eq_ignore_ascii_case("true") => Some(true),
        _ if cell.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// A whole number, also as a float writes it: what stood in a column with an empty cell was a float once.
#[must_use]
pub fn whole(cell: &str) -> Option<i64> {
    /// Beyond these not every whole number is a float.
    const EXACT: f64 = (1_u64 << 53) as f64;
    let is_decimal = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'+' | b'-' | b'e' | b'E');
    let float = || {
        let float: f64 = cell.bytes().all(is_decimal).then(|| cell.parse().ok())??;
        (float.fract() == 0.0 && float.abs() <= EXACT).then_some(float as i64)
    };
    cell.parse().ok().or_else(float)
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// What a row is looked up by: the names of some columns and a value for each.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub Vec<(&'static str, Value)>);

impl Key {
    /// The value of a column; `None` if it is no part of the key.
    #[must_use]
    pub fn get(&self, column: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| *name == column).map(|(_, value)| value)
    }

    /// The same with another value of a column.
    #[must_use]
    pub fn with(mut self, column: &str, value: Value) -> Self {
        if let Some(entry) = self.0.iter_mut().find(|(name, _)| *name == column) {
            entry.1 = value;
        }
        self
    }

    /// Only these of its columns.
    #[must_use]
    pub fn only(&self, columns: &[&str]) -> Self {
        Self(self.0.iter().filter(|(name, _)| columns.contains(name)).cloned().collect())
    }

    /// All but these of its columns.
    #[must_use]
    pub fn without(&self, columns: &[&str]) -> Self {
        Self(self.0.iter().filter(|(name, _)| !columns.contains(name)).cloned().collect())
    }
}

/// `gfx950 cu_num=256 M=1 N=2112`; what is empty is left out.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (name, value) in &self.0 {
            match (*name, value) {
                (_, Value::Text(text)) if text.is_empty() => continue,
                ("gfx", gfx) => write!(f, "{separator}{gfx}")?,
                (name, value) => write!(f, "{separator}{name}={value}")?,
            }
            separator = " ";
        }
        Ok(())
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(number) => serializer.serialize_i64(*number),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_equal_where_python_says_so() {
        for (one, other) in [
            ("1", "True"),
            ("0", "False"),
            ("64", " 64"),
            ("304", "304.0"),
            ("TRUE", "true"),
            ("FALSE", "False"),
            ("fALSE", "False"),
            ("TRue", "True"),
            ("64", "6.4e1"),
            ("64", "64.00"),
            ("5120", "+5120"),
        ] {
            assert_eq!(Value::of(one), Value::of(other));
        }
        for (one, other) in [("torch.int8", "int8"), ("", "0"), ("1.5", "1"), ("inf", "nan"), ("1e400", "inf")] {
            assert_ne!(Value::of(one), Value::of(other));
        }
    }

    #[test]
    fn a_key_reads_as_people_write_it() {
        let key = Key(vec![("gfx", Value::of("gfx942")), ("cu_num", Value::of("304")), ("_tag", Value::of(""))]);
        assert_eq!(key.to_string(), "gfx942 cu_num=304");
        assert_eq!(key.clone().with("cu_num", Value::Integer(80)).to_string(), "gfx942 cu_num=80");
        assert_eq!(key.only(&["gfx"]).to_string(), "gfx942");
        assert_eq!(key.without(&["gfx", "_tag"]).to_string(), "cu_num=304");
    }
}
