//! What an exporter tells of candidates beside their times. It travels with the outcome, so that an exporter needs to
//! know neither kernel specs nor tools.

use serde::{Deserialize, Serialize};

use crate::candidate::Candidate;
use crate::method::Method;
use crate::value::Value;

/// Where the candidates of a job are from. Empty: nobody could say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Name of the kernel spec, or of the tool.
    pub library: String,
    /// The candidate that all are checked against, where there is one.
    pub reference: Option<Candidate>,
    /// The solvers of the job's candidates, each once.
    pub solvers: Vec<SolverInfo>,
    /// What a kernel spec says of its problem.
    pub work: UsefulWork,
}

/// What a problem comes to, where somebody says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsefulWork {
    /// Floating-point operations of useful work.
    pub flops: Option<f64>,
    /// Bytes that have to be read and written.
    pub bytes: Option<f64>,
}

/// A solver, for one problem.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SolverInfo {
    /// As its candidates name it.
    pub name: String,
    /// As MIOpen's find db names it, with the direction: `miopenConvolutionFwdAlgoDirect`. `None`: MIOpen has no such
    /// algorithm for the problem.
    pub algorithm: Option<String>,
    /// Whether a perf db has a row for its params.
    pub tunable: bool,
    /// Names of its params, in the order of the perf db, where they are known.
    pub params: Vec<String>,
    /// The params that it has when nobody tunes it, where they are known.
    pub default: Option<Vec<Value>>,
}

impl Description {
    /// That of candidates that a tool knows more of than bluefin.
    #[must_use]
    pub fn of_tool(method: &Method, solvers: Vec<SolverInfo>) -> Self {
        let mut description = Self { library: method.to_string(), ..Self::default() };
        solvers.iter().for_each(|solver| description.add(solver));
        description
    }

    /// What is known of the solver of that name.
    #[must_use]
    pub fn solver(&self, name: &str) -> Option<&SolverInfo> {
        self.solvers.iter().find(|solver| solver.name == name)
    }

    /// Whether nobody could say anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.library.is_empty()
    }

    /// Adds what `other`, of another job of the group, says and this one does not.
    pub fn merge(&mut self, other: &Self) {
        if self.library.is_empty() {
            self.library.clone_from(&other.library);
        }
        if self.reference.is_none() {
            self.reference.clone_from(&other.reference);
        }
        other.solvers.iter().for_each(|solver| self.add(solver));
        self.work.flops = self.work.flops.or(other.work.flops);
        self.work.bytes = self.work.bytes.or(other.work.bytes);
    }

    /// Adds what is known of a solver to what is known of it already.
    pub(crate) fn add(&mut self, solver: &SolverInfo) {
        let Some(known) = self.solvers.iter_mut().find(|known| known.name == solver.name) else {
            return self.solvers.push(solver.clone());
        };
        // What a tool found out once is so, whatever it did not find another time.
        known.tunable |= solver.tunable;
        if known.algorithm.is_none() {
            known.algorithm.clone_from(&solver.algorithm);
        }
    }
}
