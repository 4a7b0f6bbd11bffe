//! The formats that bluefin ships. A new one is a file in `format/` and a line here.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::format::Format;
use crate::format::aiter::AiterFormat;
use crate::format::find_db::FindFormat;
use crate::format::kernel_db::KernelFormat;
use crate::format::perf_db::PerfFormat;
use crate::format::triton::TritonFormat;
use crate::format::winners::WinnersFormat;

/// All formats, in the order in which files are told of; they are written side by side.
#[must_use]
pub fn formats() -> Vec<Arc<dyn Format>> {
    vec![
        Arc::new(FindFormat),
        Arc::new(PerfFormat),
        Arc::new(KernelFormat),
        Arc::new(WinnersFormat),
        Arc::new(TritonFormat),
        Arc::new(AiterFormat),
    ]
}

/// Those of these names, in the order of [`formats`]; all if there are none.
#[must_use]
pub fn chosen(names: &[FormatName]) -> Vec<Arc<dyn Format>> {
    let mut chosen = formats();
    chosen.retain(|format| names.is_empty() || names.contains(&FormatName(format.name())));
    chosen
}

/// Name of one of [`formats`].
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

impl FromStr for FormatName {
    type Err = UnknownFormat;

    /// `find-db`; plans write `find_db`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let names: Vec<&'static str> = formats().iter().map(|format| format.name()).collect();
        let wanted = text.to_ascii_lowercase().replace('_', "-");
        let found = names.iter().find(|name| **name == wanted);
        found
            .map(|name| Self(name))
            .ok_or_else(|| UnknownFormat { found: text.chars().take(64).collect(), expected: names.join(", ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_found_by_its_name_and_has_a_flag_of_its_own() {
        let mut flags = Vec::new();
        for format in formats() {
            let name: FormatName = format.name().parse().unwrap();
            assert_eq!(format.name().replace('-', "_").parse(), Ok(name));
            let [found] = chosen(&[name]).try_into().unwrap();
            assert_eq!(found.name(), name.to_string());
            flags.extend(format.flag());
        }
        flags.sort_unstable();
        flags.dedup();
        assert_eq!(flags, ['f', 'k', 'p', 'w']);
        assert_eq!(chosen(&[]).len(), formats().len());
    }

    #[test]
    fn an_unknown_name_is_told_with_those_that_there_are() {
        let error = "csv".parse::<FormatName>().unwrap_err().to_string();
        assert_eq!(error, "format: found \"csv\", expected one of find-db, perf-db, kernel-db, winners, triton, aiter");
    }
}
