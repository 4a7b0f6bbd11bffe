//! A candidate: what is compiled, checked and timed.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::value::Value;

/// (solver, params) of a job's problem.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Candidate {
    /// As the kernel spec names it, or MIOpen: `ConvAsm3x3U`.
    pub solver: String,
    /// In the order in which the spec declares them; empty for a solver that is not tunable.
    pub params: Vec<Value>,
}

impl Candidate {
    /// Params as MIOpen's perf db holds them: values in declaration order, separated by commas.
    #[must_use]
    pub fn params_text(&self) -> String {
        self.params.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }
}

/// `solver:params`
impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.solver, self.params_text())
    }
}
