//! Flags and their values, as MIOpenDriver takes them: always a pair, the last one counts.

use std::str::FromStr;

use super::super::DataType;
use super::{DriverError, cut};

/// What values a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
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
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its name behind two dashes.
    pub long: &'static str,
    /// Behind one dash; a NUL for bluefin's own flags, which have no short name.
    pub short: char,
    /// Its value where it is not given.
    pub default: &'static str,
    /// Whether it is a size that every log gives.
    pub is_size: bool,
    /// What values it takes.
    pub form: Form,
}

/// Long names of flags that say how a command is run and shown, whatever its problem is: what stands behind them is not looked at.
const OF_THE_RUN: [&str; 10] = [
    "iter",
    "verify",
    "time",
    "wall",
    "search",
    "solution",
    "printconv",
    "dump_output",
    "gpubuffer_check",
    "tuning_policy",
];

/// An integer flag.
#[must_use]
pub const fn int(long: &'static str, short: char, default: &'static str) -> Flag {
    Flag { long, short, default, is_size: false, form: Form::Int }
}

/// An integer flag that is a size of the problem, which every log gives.
#[must_use]
pub const fn size(long: &'static str, short: char, default: &'static str) -> Flag {
    Flag { is_size: true, ..int(long, short, default) }
}

/// A flag of any word.
#[must_use]
pub const fn word(long: &'static str, short: char, default: &'static str) -> Flag {
    Flag { long, short, default, is_size: false, form: Form::Word }
}

/// A flag of bluefin's own, of any word, which is not there unless it is given.
#[must_use]
pub const fn own_word(long: &'static str) -> Flag {
    word(long, '\0', "")
}

/// The values of a command's flags. Built from a table, asked by the names in it.
#[derive(Clone, Debug)]
pub struct Flags {
    table: &'static [Flag],
    given: Vec<Option<String>>,
    /// Those that are not in the table.
    unknown: Vec<String>,
    /// Flags of the run whose value is missing, as at the end of a line that was cut.
    without_value: Vec<String>,
}

impl Flags {
    /// Reads pairs of flag and value and checks each value against its flag's form. A flag that the table does not have is left
    /// aside, with its value: newer drivers have more of them, none of which is a size. Where a size is missing it may have been
    /// meant, though.
    pub(in crate::problem) fn read(table: &'static [Flag], base: &str, words: &[&str]) -> Result<Self, DriverError> {
        let mut flags = Self { table, given: vec![None; table.len()], unknown: Vec::new(), without_value: Vec::new() };
        let mut words = words.iter().copied().peekable();
        while let Some(written) = words.next() {
            let Some((index, is_long)) = find(table, written)? else {
                words.next_if(|next| !is_flag(next));
                flags.unknown.push(cut(written));
                continue;
            };
            if table.get(index).is_some_and(|flag| OF_THE_RUN.contains(&flag.long)) {
                if words.next_if(|next| !is_flag(next)).is_none() {
                    flags.without_value.push(cut(written));
                }
                continue;
            }
            let value = words.next().ok_or_else(|| DriverError::MissingValue { flag: cut(written) })?;
            flags.take(index, is_long, value)?;
        }
        let missing = table.iter().zip(&flags.given).find(|(flag, given)| flag.is_size && given.is_none());
        match (flags.unknown.first(), missing) {
            (Some(flag), Some((missing, _))) => {
                Err(DriverError::UnknownFlag { base: base.to_string(), flag: flag.clone(), missing: missing.long })
            }
            _ => Ok(flags),
        }
    }

    /// What was left aside and why: `the flag "-J" is not known`.
    pub(in crate::problem) fn left_aside(&self) -> Vec<String> {
        let unknown = self.unknown.iter().map(|flag| format!("the flag {flag:?} is not known"));
        let without = self.without_value.iter().map(|flag| format!("the flag {flag:?} has no value"));
        unknown.chain(without).collect()
    }

    /// Sizes that the command does not give, and what the driver takes instead: `-W 32, -k 32`. `None`: it gives all of them.
    pub(in crate::problem) fn filled_up(&self) -> Option<String> {
        let missing = self.table.iter().zip(&self.given).filter(|(flag, given)| flag.is_size && given.is_none());
        let told: Vec<String> = missing.map(|(flag, _)| format!("-{} {}", flag.short, flag.default)).collect();
        (!told.is_empty()).then(|| told.join(" "))
    }

    #[expect(clippy::indexing_slicing, reason = "an index is where a flag was found in the table")]
    fn take(&mut self, index: usize, is_long: bool, value: &str) -> Result<(), DriverError> {
        let flag = &self.table[index];
        let is_int = matches!(flag.form, Form::Int | Form::OptionalInt);
        let value = if is_int { whole(value) } else { value };
        if is_int && value.parse::<i32>().is_err() {
            return Err(DriverError::value(flag.long, value, "a whole number of 32 bits"));
        }
        let raise = flag.form == Form::Layout && is_long;
        self.given[index] = Some(if raise { value.to_ascii_uppercase() } else { value.to_string() });
        Ok(())
    }

    /// Whether the command gives this flag.
    #[must_use]
    pub fn is_given(&self, long: &str) -> bool {
        self.entry(long).is_some_and(|(_, given)| given.is_some())
    }

    /// The value of a flag, or its default.
    #[must_use]
    pub fn text(&self, long: &str) -> &str {
        self.entry(long).map_or("", |(flag, given)| given.unwrap_or(flag.default))
    }

    /// The value of an integer flag, which must be in `range`.
    ///
    /// # Errors
    /// A value outside.
    pub fn number(&self, long: &'static str, range: std::ops::RangeInclusive<u32>) -> Result<u32, DriverError> {
        let text = self.text(long);
        let value = text.parse().ok().filter(|value| range.contains(value));
        value.ok_or_else(|| DriverError::value(long, text, format!("{} to {}", range.start(), range.end())))
    }

    /// The value of a flag as one of a type's names.
    ///
    /// # Errors
    /// A value that is none.
    pub fn named<T: FromStr>(&self, long: &'static str, expected: &str) -> Result<T, DriverError> {
        let text = self.text(long);
        text.parse().map_err(|_| DriverError::value(long, text, expected))
    }

    /// The value of a flag as a type of elements, or `implied` where it is not given.
    ///
    /// # Errors
    /// A word that names none.
    pub fn data_type(&self, long: &'static str, implied: DataType) -> Result<DataType, DriverError> {
        if self.is_given(long) { self.named(long, "a type name such as FP16") } else { Ok(implied) }
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

/// Whether a word is a flag, and no number.
fn is_flag(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| !c.is_ascii_digit() && c != '.'))
}

/// The index of a flag, and whether it was written by its long name; `None` for one that is not in the table.
fn find(table: &[Flag], written: &str) -> Result<Option<(usize, bool)>, DriverError> {
    if !is_flag(written) {
        return Err(DriverError::NotAFlag { found: cut(written) });
    }
    let (is_long, name) = match written.strip_prefix("--") {
        Some(long) => (true, long),
        None => (false, written.trim_start_matches('-')),
    };
    let mut letters = name.chars();
    let letter = letters.next().filter(|letter| letters.next().is_none() && *letter != '\0');
    let is_it = |flag: &Flag| if is_long { flag.long == name } else { letter == Some(flag.short) };
    Ok(table.iter().position(is_it).map(|index| (index, is_long)))
}
