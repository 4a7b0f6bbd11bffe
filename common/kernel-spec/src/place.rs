//! Where something is in a spec: the path of a field, and the line it is on.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A field of a spec, as errors name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPlace {
    /// Name of the spec.
    pub spec: Arc<str>,
    /// Path of the field, such as `solver[2].launch[0].grid[1]`; empty for the whole spec.
    pub field: String,
    /// Line of the TOML file, from 1; 0 where it is not known.
    pub line: usize,
}

impl fmt::Display for FieldPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel spec {}", self.spec)?;
        if self.line > 0 {
            write!(f, ", line {}", self.line)?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        Ok(())
    }
}

/// Finds places in the text of one spec.
pub(super) struct Places<'a> {
    spec: Arc<str>,
    text: &'a str,
    table: Option<Spanned<DeTable<'a>>>,
}

impl<'a> Places<'a> {
    pub(super) fn new(spec: &str, text: &'a str) -> Self {
        // The text was parsed before; without the table only the lines are missing from messages.
        Self { spec: spec.into(), text, table: DeTable::parse(text).ok() }
    }

    /// The place of `field`, a path as [`FieldFieldPlace::field`] has it.
    pub(super) fn at(&self, field: &str) -> FieldPlace {
        let line = self.span(field).map_or(0, |span| line_of(self.text, span.start));
        FieldPlace { spec: self.spec.clone(), field: field.to_string(), line }
    }

    /// The keys of the table at `field`, in the order in which they are written.
    pub(super) fn keys(&self, field: &str) -> Vec<String> {
        let Some(DeValue::Table(table)) = self.value(field) else { return Vec::new() };
        let mut keys: Vec<_> = table.iter().map(|(key, _)| (key.span().start, key.get_ref().to_string())).collect();
        keys.sort_unstable();
        keys.into_iter().map(|(_, key)| key).collect()
    }

    /// What stands at a path, all of which is there.
    fn value(&self, field: &str) -> Option<&DeValue<'a>> {
        let mut table = self.table.as_ref()?.get_ref();
        let mut segments = field.split('.').peekable();
        while let Some(segment) = segments.next() {
            let (key, indices) = segment.split_once('[').unwrap_or((segment, ""));
            let (_, value) = table.iter().find(|(name, _)| *name.get_ref() == key)?;
            let mut value = value.get_ref();
            for index in indices.split('[').filter(|index| !index.is_empty()) {
                let index: usize = index.trim_end_matches(']').parse().ok()?;
                value = value.as_array()?.get(index)?.get_ref();
            }
            if segments.peek().is_none() {
                return Some(value);
            }
            let DeValue::Table(inner) = value else { return None };
            table = inner;
        }
        None
    }

    /// The innermost part of the path that exists, so that a missing field is reported at what should hold it.
    fn span(&self, field: &str) -> Option<Range<usize>> {
        let mut table = Some(self.table.as_ref()?.get_ref());
        let mut found = None;
        for segment in field.split('.') {
            let (key, indices) = segment.split_once('[').unwrap_or((segment, ""));
            let Some((name, mut value)) = table.and_then(|table| table.iter().find(|(name, _)| *name.get_ref() == key))
            else {
                break;
            };
            found = Some(name.span());
            for index in indices.split('[').filter_map(|index| index.trim_end_matches(']').parse::<usize>().ok()) {
                let Some(element) = value.get_ref().as_array().and_then(|array| array.get(index)) else { break };
                value = element;
                found = Some(value.span());
            }
            table = match value.get_ref() {
                DeValue::Table(table) => Some(table),
                _ => None,
            };
        }
        found
    }
}

/// The line of a byte offset, from 1.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_lines() {
        let text = "name = \"a\"\nlet = [\n  \"b = 1\",\n  \"c = 2\",\n]\n[[solver]]\nname = \"S\"\n[[solver.param]]\nname = \"P\"\n";
        let places = Places::new("a", text);
        for (field, line) in [("name", 1), ("let[1]", 4), ("solver[0]", 6), ("solver[0].param[0].name", 9)] {
            assert_eq!(places.at(field).line, line, "{field}");
        }
        assert_eq!(places.at("solver[0].param[0].default").line, 8, "missing: the table that lacks it");
        assert_eq!(places.at("nothing").line, 0);
        assert_eq!(places.at("let[1]").to_string(), "kernel spec a, line 4: let[1]");
    }
}
