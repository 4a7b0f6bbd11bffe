//! The rules of a check, and how bad it is to break them.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nothing is lost.
    Note,
    /// A row does not do what it is for, or says what is not so.
    Warning,
    /// aiter refuses the file, or runs what is wrong.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

macro_rules! rules {
    ($($rule:ident $name:literal $severity:ident $about:literal)*) => {
        /// What a file should keep to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Rule {
            $(#[doc = $about] $rule,)*
        }

        impl Rule {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$rule),*];

            /// As it is written on the command line.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$rule => $name),* }
            }

            /// How bad it is to break it.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self { $(Self::$rule => Severity::$severity),* }
            }

            /// What comes of breaking it.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$rule => $about),* }
            }
        }
    };
}

rules! {
    Torn "torn" Error "The file is no CSV file from this line on: nothing of it is read"
    Column "column" Error "A column is missing or there twice"
    UnknownColumn "unknown-column" Note "A column that is not known: it is kept as it is"
    NoGfx "no-gfx" Note "A file from before there was a column gfx: aiter infers it from the number of compute units"
    Cells "cells" Error "A row has more cells than there are columns, or lacks some that it needs"
    Short "short" Note "A row ends before columns that may be empty"
    Value "value" Error "A cell is not of its column's type"
    Duplicate "duplicate" Error "A key is there twice in files that aiter puts together: it raises an error when it starts"
    Repeated "repeated" Note "A shape is there twice in an untuned file: it is tuned once"
    Unreachable "unreachable" Warning "No look-up has this key, so the row is never used"
    Dead "dead" Note "No look-up takes the row: they ask for rounded numbers of tokens, leave some tags out, and take the faster of two rows"
    Cus "cus" Warning "The row is for another number of compute units than the GPU has"
    Time "time" Error "The time is not positive and finite: the row was never measured, and would win every comparison"
    ErrorRatio "error-ratio" Warning "More of the output is wrong than the tuner takes"
    Tflops "tflops" Warning "tflops do not follow from the shape and us"
    Bandwidth "bw" Warning "bw does not follow from the shape and us"
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A name that is no rule's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rule: found {found:?}, expected one of {expected}")]
pub struct UnknownRule {
    found: String,
    expected: String,
}

impl FromStr for Rule {
    type Err = UnknownRule;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.iter().find(|rule| rule.name() == name).copied().ok_or_else(|| UnknownRule {
            found: name.chars().take(64).collect(),
            expected: Self::ALL.iter().map(|rule| rule.name()).collect::<Vec<_>>().join(", "),
        })
    }
}
