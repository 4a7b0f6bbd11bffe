//! Flags and their values, as MIOpenDriver takes them: always a pair, the last one counts.

use std::str::FromStr;

use super::{DriverError, cut};

/// What values a flag takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A decimal integer that fits a C int.
    Int,
    /// A C int, or nothing at all as the default.
    OptionalInt,
    /// Any word.
    Word,
    /// A layout: the driver turns it into upper case after the long name, and only then.
    Layout,
}

/// One flag of an operation.
pub(super) struct Flag {
    pub long: &'static str,
    /// A NUL for bluefin's own flags, which have no short name.
    pub short: char,
    pub default: &'static str,
    pub kind: Kind,
}

/// An integer flag.
pub(super) const fn int(long: &'static str, short: char, default: &'static str) -> Flag {
    Flag { long, short, default, kind: Kind::Int }
}

/// A flag of any word.
pub(super) const fn word(long: &'static str, short: char, default: &'static str) -> Flag {
    Flag { long, short, default, kind: Kind::Word }
}

/// The values of a command's flags. Built from a table, asked by the names in it.
pub(super) struct Flags {
    table: &'static [Flag],
    given: Vec<Option<String>>,
}

impl Flags {
    /// Reads pairs of flag and value and checks each value against its flag's kind.
    #[expect(clippy::indexing_slicing, reason = "an index is where a flag was found in the table")]
    pub fn read<'a>(
        table: &'static [Flag],
        base: &str,
        mut words: impl Iterator<Item = &'a str>,
    ) -> Result<Self, DriverError> {
        let mut given = vec![None; table.len()];
        while let Some(written) = words.next() {
            let (index, is_long) = find(table, base, written)?;
            let flag = &table[index];
            let mut value = words.next().ok_or_else(|| DriverError::MissingValue { flag: cut(written) })?;
            let is_int = matches!(flag.kind, Kind::Int | Kind::OptionalInt);
            if is_int {
                value = whole(value);
            }
            if is_int && value.parse::<i32>().is_err() {
                return Err(DriverError::value(flag.long, value, "a whole number of 32 bits"));
            }
            let raise = flag.kind == Kind::Layout && is_long;
            given[index] = Some(if raise { value.to_ascii_uppercase() } else { value.to_string() });
        }
        Ok(Self { table, given })
    }

    /// Whether the command gives this flag.
    pub fn is_given(&self, long: &str) -> bool {
        self.entry(long).is_some_and(|(_, given)| given.is_some())
    }

    /// The value of a flag, or its default.
    pub fn text(&self, long: &str) -> &str {
        self.entry(long).map_or("", |(flag, given)| given.unwrap_or(flag.default))
    }

    /// The value of an integer flag, which must be in `range`.
    pub fn number(&self, long: &'static str, range: std::ops::RangeInclusive<u32>) -> Result<u32, DriverError> {
        let text = self.text(long);
        let value = text.parse().ok().filter(|value| range.contains(value));
        value.ok_or_else(|| DriverError::value(long, text, format!("{} to {}", range.start(), range.end())))
    }

    /// The value of a flag as one of a type's names.
    pub fn named<T: FromStr>(&self, long: &'static str, expected: &str) -> Result<T, DriverError> {
        let text = self.text(long);
        text.parse().map_err(|_| DriverError::value(long, text, expected))
    }

    fn entry(&self, long: &str) -> Option<(&'static Flag, Option<&str>)> {
        let entries = self.table.iter().zip(&self.given);
        entries.map(|(flag, given)| (flag, given.as_deref())).find(|(flag, _)| flag.long == long)
    }
}

/// A number without what stands behind its point, where the driver stops reading it.
fn whole(value: &str) -> &str {
    match value.split_once('.') {
        Some((whole, rest)) if rest.bytes().all(|byte| byte.is_ascii_digit()) => whole,
        _ => value,
    }
}

/// The index of a flag, and whether it was written by its long name.
fn find(table: &[Flag], base: &str, written: &str) -> Result<(usize, bool), DriverError> {
    let unknown = || DriverError::UnknownFlag { base: base.to_string(), flag: cut(written) };
    if let Some(long) = written.strip_prefix("--") {
        let index = table.iter().position(|flag| flag.long == long).ok_or_else(unknown)?;
        return Ok((index, true));
    }
    let short = written.strip_prefix('-').ok_or_else(|| DriverError::NotAFlag { found: cut(written) })?;
    let mut letters = short.chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) if letter != '\0' => {
            let index = table.iter().position(|flag| flag.short == letter).ok_or_else(unknown)?;
            Ok((index, false))
        }
        _ => Err(unknown()),
    }
}
