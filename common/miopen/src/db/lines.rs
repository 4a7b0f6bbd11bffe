//! The text form that MIOpen's find and perf databases share: `key=name:values;name:values…` (MIOpen 3.3,
//! src/readonlyramdb.cpp and src/db_record.cpp). There is no quoting, no comment and no header.

use std::collections::HashSet;

use crate::db::error::{ReadError, Refused};
use crate::db::findings::{FindingKind, Findings, short};

/// Largest text that is read: several times what MIOpen ships.
const MAX_TEXT: usize = 1 << 30;

/// A line whose key is the first of its kind.
pub(crate) struct Line<'a> {
    /// From 1.
    pub number: u64,
    pub key: &'a str,
    contents: &'a str,
}

/// Calls `take` for every line that MIOpen would use.
pub(crate) fn read<'a>(
    name: &str,
    bytes: &'a [u8],
    findings: &mut Findings,
    mut take: impl FnMut(Line<'a>, &mut Findings),
) -> Result<(), ReadError> {
    if bytes.len() > MAX_TEXT {
        let (found, limit) = (bytes.len() as u64, MAX_TEXT as u64);
        return Err(ReadError::Size { name: name.to_string(), found, limit });
    }
    let mut seen = HashSet::new();
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        if line.is_empty() {
            continue;
        }
        let Ok(line) = std::str::from_utf8(line) else {
            findings.add(number, FindingKind::NotText, || "not UTF-8; skipped".to_string());
            continue;
        };
        let Some((key, contents)) = line.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            findings
                .add(number, FindingKind::NoKey, || format!("found {:?}, expected key=entries; skipped", short(line)));
            continue;
        };
        if seen.insert(key) {
            take(Line { number, key, contents }, findings);
        } else {
            findings.add(number, FindingKind::DuplicateKey, || {
                format!("key {} came before; the first line stands", short(key))
            });
        }
    }
    Ok(())
}

impl<'a> Line<'a> {
    /// (name, values) of each entry. One `;` at the end is no entry.
    pub(crate) fn entries(&self, findings: &mut Findings) -> Vec<(&'a str, &'a str)> {
        let contents = self.contents.strip_suffix(';').unwrap_or(self.contents);
        let mut entries = Vec::new();
        for entry in contents.split(';') {
            match entry.split_once(':') {
                Some(entry) => entries.push(entry),
                // Reported below, once.
                None if contents.is_empty() => {}
                None => findings.add(self.number, FindingKind::NoName, || {
                    format!("found {:?}, expected name:values; skipped", short(entry))
                }),
            }
        }
        if entries.is_empty() {
            let key = self.key;
            findings.add(self.number, FindingKind::NoEntry, || {
                format!("key {}: no entry; a look-up is a miss", short(key))
            });
        }
        entries
    }
}

/// Refuses a text that would be read back as something else: one with line breaks, `;` or what else is `reserved`.
pub(crate) fn check(
    format: &'static str,
    field: &'static str,
    text: &str,
    reserved: &'static [u8],
    expected: &'static str,
) -> Result<(), Refused> {
    let is_reserved = |byte: u8| matches!(byte, b'\n' | b'\r' | b';') || reserved.contains(&byte);
    if text.is_empty() || text.bytes().any(is_reserved) {
        return Err(Refused::new(format, field, text, expected));
    }
    Ok(())
}
