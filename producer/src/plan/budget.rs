//! How many candidates are tried.

use std::fmt;
use std::str::FromStr;

use bluefin_kernel_spec::KernelSpec;
use serde::{Deserialize, Serialize};

/// A list of so many points is tried whole by the usual budget.
const WHOLE_LIST: usize = 64;

/// How many candidates of each tunable solver are tried for each problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CandidateBudget {
    /// At most this many, the solver's default among them.
    Candidates(usize),
    /// The whole space.
    All,
}

impl Default for CandidateBudget {
    fn default() -> Self {
        Self::NORMAL
    }
}

impl CandidateBudget {
    pub const QUICK: Self = Self::Candidates(8);
    pub const NORMAL: Self = Self::Candidates(16);
    pub const THOROUGH: Self = Self::Candidates(64);

    /// Candidates of each solver, as a search counts them.
    #[must_use]
    pub fn candidates(self) -> u64 {
        match self {
            Self::Candidates(candidates) => candidates as u64,
            Self::All => u64::MAX,
        }
    }

    /// The same for `spec`: of a space that is a short list the usual budget leaves nothing out.
    #[must_use]
    pub fn of(self, spec: &KernelSpec) -> Self {
        let lists = spec.solvers.iter().filter(|solver| solver.is_candidate).map(|solver| match solver.listed() {
            Some(points) => (points <= WHOLE_LIST).then_some(points),
            None => (!solver.is_tunable()).then_some(0),
        });
        match lists.collect::<Option<Vec<usize>>>() {
            Some(lists) if self == Self::NORMAL => {
                Self::Candidates(lists.into_iter().fold(Self::NORMAL.limit(), usize::max))
            }
            _ => self,
        }
    }

    pub(super) fn limit(self) -> usize {
        match self {
            Self::Candidates(limit) => limit,
            Self::All => usize::MAX,
        }
    }
}

impl fmt::Display for CandidateBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::QUICK => f.write_str("quick"),
            Self::NORMAL => f.write_str("normal"),
            Self::THOROUGH => f.write_str("thorough"),
            Self::Candidates(limit) => write!(f, "{limit}"),
            Self::All => f.write_str("all"),
        }
    }
}

/// A text that is no budget.
#[derive(Debug, thiserror::Error)]
#[error(
    "budget: found {found:?}, expected quick (8), normal (16), thorough (64), all, or a number of candidates per solver"
)]
pub struct InvalidBudget {
    found: String,
}

impl FromStr for CandidateBudget {
    type Err = InvalidBudget;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "quick" => Ok(Self::QUICK),
            "normal" => Ok(Self::NORMAL),
            "thorough" => Ok(Self::THOROUGH),
            "all" => Ok(Self::All),
            number => match number.parse() {
                Ok(limit) if limit > 0 => Ok(Self::Candidates(limit)),
                _ => Err(InvalidBudget { found: text.chars().take(80).collect() }),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_parse_and_print() {
        for text in ["quick", "normal", "thorough", "all", "5"] {
            assert_eq!(text.parse::<CandidateBudget>().unwrap().to_string(), text);
        }
        for text in ["", "0", "-1", "some"] {
            assert!(text.parse::<CandidateBudget>().is_err());
        }
    }
}
