//! Why a config file, a model or a request can not be worked with.

use std::path::{Path, PathBuf};

/// Why there is no spec for a layer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found {found}, expected {expected}")]
pub struct Unmade {
    /// What was asked for.
    pub found: String,
    /// What there are kernels for.
    pub expected: String,
}

/// What is wrong with a file, or with what was asked of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It can not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Of the file.
        path: PathBuf,
        /// What the system says of it.
        source: std::io::Error,
    },
    /// It is no JSON.
    #[error("{}:{line}:{column}: found {found}, expected JSON: the file is torn", path.display())]
    Torn {
        /// Of the file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What the parser says.
        found: String,
    },
    /// A part of it is other than its reader takes it.
    #[error("{}: {place}: found {found}, expected {expected}", path.display())]
    Content {
        /// Of the file.
        path: PathBuf,
        /// Of the part: the key of a row, a field.
        place: String,
        /// What it says.
        found: String,
        /// What it could have said.
        expected: String,
    },
    /// Its name is none of a config file.
    #[error("{}: name: {source}", path.display())]
    Name {
        /// Of the file.
        path: PathBuf,
        /// The part that is wrong.
        source: crate::name::NameError,
    },
    /// A folder of other things.
    #[error("{}: found no config file, expected names such as E=8,N=7168,device_name=NVIDIA_H200.json", path.display())]
    NoFile {
        /// The folder.
        path: PathBuf,
    },
}

impl Error {
    /// Names the file of an error of the system.
    pub fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        |source| Self::File { path, source }
    }

    /// What the parser says of a text that is no JSON.
    pub(crate) fn torn(path: &Path, text: &str, error: &serde_json::Error) -> Self {
        let said = error.to_string();
        let said = said.split(" at line ").next().unwrap_or_default();
        let found = match said {
            _ if text.trim().is_empty() => "nothing".to_string(),
            _ if text.starts_with('\u{feff}') => "a byte order mark, at which Python's reader stops".to_string(),
            "key must be a string" => "a key that is no string".to_string(),
            _ if said.starts_with("control character") => "a control character in a string".to_string(),
            _ => said.strip_prefix("expected ").map_or_else(|| said.to_string(), |expected| format!("no {expected}")),
        };
        Self::Torn { path: path.to_path_buf(), line: error.line(), column: error.column().max(1), found }
    }

    /// Whether it is of what a file holds, so that other files may be read nevertheless.
    #[must_use]
    pub const fn is_of_content(&self) -> bool {
        matches!(self, Self::Torn { .. } | Self::Content { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_json_is_told_in_words() {
        let told = |text: &str| {
            let error = serde_json::from_str::<serde_json::Value>(text).unwrap_err();
            Error::torn(Path::new("x"), text, &error).to_string()
        };
        for (text, found) in [
            (" \n", "x:2:1: found nothing"),
            ("\u{feff}{}", "x:1:1: found a byte order mark, at which Python's reader stops"),
            ("?", "x:1:1: found no value"),
            ("{\"a\": 1 2}", "x:1:9: found no `,` or `}`"),
            ("{a: 1}", "x:1:2: found a key that is no string"),
            ("{\"a\": \"b\n", "x:2:1: found a control character in a string"),
            ("{\"a\": 1,}", "x:1:9: found trailing comma"),
        ] {
            assert_eq!(told(text), format!("{found}, expected JSON: the file is torn"), "{text:?}");
        }
    }
}
