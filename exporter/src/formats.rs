//! The formats that bluefin ships. A new one is a file in `format/` and a line here.

use std::fmt;
use std::sync::Arc;

use crate::format::Format;
use crate::format::aiter::AiterFormat;
use crate::format::find_db::FindFormat;
use crate::format::header::HeaderFormat;
use crate::format::kernel_db::KernelFormat;
use crate::format::perf_db::PerfFormat;
use crate::format::triton::TritonFormat;
use crate::format::winners::WinnersFormat;

/// The formats that a process knows, in the order in which files are told of; they are written side by side.
#[derive(Clone, Debug)]
pub struct Formats(Vec<Arc<dyn Format>>);

impl Formats {
    /// Those that bluefin ships.
    #[must_use]
    pub fn shipped() -> Self {
        Self(vec![
            Arc::new(FindFormat),
            Arc::new(PerfFormat),
            Arc::new(KernelFormat),
            Arc::new(WinnersFormat),
            Arc::new(HeaderFormat),
            Arc::new(TritonFormat),
            Arc::new(AiterFormat),
        ])
    }

    /// These and one more.
    #[must_use]
    pub fn with(mut self, format: Arc<dyn Format>) -> Self {
        self.0.push(format);
        self
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Arc<dyn Format>] {
        &self.0
    }

    /// Those of these names, in their order; all if there are none.
    #[must_use]
    pub fn chosen(&self, names: &[FormatName]) -> Vec<Arc<dyn Format>> {
        let wanted = |format: &&Arc<dyn Format>| names.is_empty() || names.contains(&FormatName(format.name()));
        self.0.iter().filter(wanted).cloned().collect()
    }

    /// The format that `text` names: `find-db`; plans write `find_db`.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn named(&self, text: &str) -> Result<FormatName, UnknownFormat> {
        let names: Vec<&'static str> = self.0.iter().map(|format| format.name()).collect();
        let wanted = text.to_ascii_lowercase().replace('_', "-");
        let found = names.iter().find(|name| **name == wanted);
        found
            .map(|name| FormatName(name))
            .ok_or_else(|| UnknownFormat { found: text.chars().take(64).collect(), expected: names.join(", ") })
    }
}

/// Name of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatName(&'static str);

impl FormatName {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for FormatName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A name that is no format's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("format: found {found:?}, expected one of {expected}")]
pub struct UnknownFormat {
    found: String,
    expected: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_found_by_its_name_and_has_a_flag_of_its_own() {
        let mut flags = Vec::new();
        let formats = Formats::shipped();
        for format in formats.all() {
            let name = formats.named(format.name()).unwrap();
            assert_eq!(formats.named(&format.name().replace('-', "_")), Ok(name));
            let [found] = formats.chosen(&[name]).try_into().unwrap();
            assert_eq!(found.name(), name.to_string());
            flags.extend(format.flag());
        }
        flags.sort_unstable();
        flags.dedup();
        assert_eq!(flags, ['f', 'k', 'p', 'w']);
        assert_eq!(formats.chosen(&[]).len(), formats.all().len());
    }

    #[test]
    fn an_unknown_name_is_told_with_those_that_there_are() {
        let error = Formats::shipped().named("csv").unwrap_err().to_string();
        assert_eq!(
            error,
            "format: found \"csv\", expected one of find-db, perf-db, kernel-db, winners, header, triton, aiter"
        );
    }
}
