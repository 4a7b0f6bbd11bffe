//! What can be wrong with a spec, with a problem for it, or with a candidate of it.

use std::path::PathBuf;

use crate::place::FieldPlace;
use bluefin_common::problem::{DataType, ProblemError};

/// Why a spec cannot be used. None of these is transient: the same spec fails in the same way.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error(
        "file name: found {found:?}, expected 1 to 128 of A-Z a-z 0-9 . _ - + \",\" and blanks, without a leading dot, beside the spec or in folders there (pkg/file.py); includes of \
         clang's specs that end as sources do also up to eight folders above (../common/file.h)"
    )]
    FileName { found: String },
    #[error("{what}: found {found} bytes, expected at most {limit}")]
    Size { what: String, found: u64, limit: u64 },
    #[error("{what}, line {line}: {reason}")]
    Toml { what: String, line: usize, reason: String },
    #[error("{place}: found {found}, expected {expected}")]
    Invalid { place: FieldPlace, found: String, expected: String },
    #[error("{place}: `{expression}`: {reason}")]
    Expression { place: FieldPlace, expression: String, reason: String },
    #[error("candidate {candidate} of kernel spec {spec}: {reason}")]
    Candidate { spec: String, candidate: String, reason: String },
    #[error("{place}: {file}: found {found} bytes, expected {expected}, which is {elements} elements of {data_type}")]
    Data { place: FieldPlace, file: String, found: u64, expected: u64, elements: u64, data_type: DataType },
    #[error("kernel spec {spec}: size {name}: found {found}, expected {expected}")]
    Sizes { spec: String, name: String, found: String, expected: String },
    #[error("kernel spec {spec}: {source}")]
    Problem { spec: String, source: ProblemError },
}

impl SpecError {
    pub(super) fn invalid(place: FieldPlace, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::Invalid { place, found: found.into(), expected: expected.into() }
    }
}
