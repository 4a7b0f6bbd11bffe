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
    /// The file, or a row, does not do what it is for.
    Warning,
    /// The engine does not load the file, stops when it launches, or computes what is wrong.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
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
    Torn "torn" Error "The file is no JSON, or no object: the engine stops when it loads it"
    Name "name" Error "No loader of the engine builds this name, so the file is never read"
    Key "key" Error "A key is no batch size, or is there twice"
    Version "version" Error "triton_version is no version, or the engine's loader takes none"
    OtherTriton "other-triton" Warning "The file was made with another Triton than the one at hand"
    Row "row" Error "A row is no object, or lacks a block size"
    UnknownKey "unknown-key" Error "A row has a key that no launcher of the engine takes"
    Value "value" Error "A value is no whole number from 1 on, or a tile is no power of two"
    Block "block" Error "BLOCK_SIZE_K does not divide the block of the scales: the engine computes what is wrong"
    Lowered "lowered" Note "BLOCK_SIZE_K is above the block, to which the engine lowers it"
    Memory "memory" Error "The config needs more shared memory than a block may have: it can not be launched"
    Compiler "compiler" Warning "Triton of that version is known to fail for such a config"
    Gap "gap" Warning "Batch sizes of the tuners' ladder have no row: the nearest one rules them, however far it is"
    Down "down" Warning "The file of the second GEMM has another BLOCK_SIZE_M than that of the first, which the engine replaces, or there is none of the first"
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
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
