//! Standard output. `println!` panics when the reader is gone, as in `bluefin status | head -1`; here it is an error, which
//! `main` takes for the reader having enough.

use std::fmt::Display;
use std::io::{self, Write as _};

use serde::Serialize;
use serde_json::Value;

/// Prints a line.
pub fn line(text: impl Display) -> io::Result<()> {
    writeln!(io::stdout(), "{text}")
}

/// Prints `value` as indented JSON.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    Ok(line(serde_json::to_string_pretty(value)?)?)
}

/// `object` with the fields of `more`.
pub fn joined(mut object: Value, more: Value) -> Value {
    if let (Some(fields), Value::Object(more)) = (object.as_object_mut(), more) {
        fields.extend(more);
    }
    object
}

/// Whether `error` is that nobody reads standard output any more.
pub fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
