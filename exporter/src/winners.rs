//! `winners.json`: every problem with its winner, one problem a line so that two files can be compared.

use std::collections::BTreeMap;
use std::io::{self, Write};

use bluefin_common::session::Session;

use crate::fold::SummaryKey;

/// Version of the document; changes when a field changes its meaning.
const FORMAT: u32 = 1;

/// Writes the document. Returns the number of problems.
pub(crate) fn write(
    out: &mut impl Write,
    session: &Session,
    summaries: &BTreeMap<SummaryKey, Box<str>>,
) -> io::Result<u64> {
    let (name, target) = (session.name.as_str(), session.target.to_string());
    // Both are plain: they need no escapes.
    write!(out, "{{\n\"format\": {FORMAT},\n\"session\": \"{name}\",\n\"target\": \"{target}\",\n\"problems\": [")?;
    for (index, summary) in summaries.values().enumerate() {
        out.write_all(if index == 0 { b"\n" } else { b",\n" })?;
        out.write_all(summary.as_bytes())?;
    }
    out.write_all(b"\n]\n}\n")?;
    Ok(summaries.len() as u64)
}
