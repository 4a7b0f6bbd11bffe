//! What the checks of files have in common: how bad a finding is, and rules that have names.

use std::fmt;

use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nothing is lost.
    Note,
    /// What stands there does not do what it is for.
    Warning,
    /// The program that reads the file refuses it, stops, or does what is wrong.
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

/// A name that is no rule's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rule: found {found:?}, expected one of {expected}")]
pub struct UnknownRule {
    /// Its beginning.
    pub found: String,
    /// All that are known.
    pub expected: String,
}

/// An enum `Rule` with a row for each rule: variant, name on the command line and in JSON, [`Severity`], and what comes of breaking it.
#[macro_export]
macro_rules! check_rules {
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
            pub const fn severity(self) -> $crate::check_rules::Severity {
                match self { $(Self::$rule => $crate::check_rules::Severity::$severity),* }
            }

            /// What comes of breaking it.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$rule => $about),* }
            }
        }

        impl ::std::fmt::Display for Rule {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl ::serde::Serialize for Rule {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl ::std::str::FromStr for Rule {
            type Err = $crate::check_rules::UnknownRule;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().find(|rule| rule.name() == name).copied().ok_or_else(|| {
                    $crate::check_rules::UnknownRule {
                        found: name.chars().take(64).collect(),
                        expected: Self::ALL.iter().map(|rule| rule.name()).collect::<Vec<_>>().join(", "),
                    }
                })
            }
        }
    };
}
