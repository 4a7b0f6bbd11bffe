//! What an operation whose problems are tuned is made of. [`super::driver`] has the list.

use std::collections::BTreeMap;

use super::command::{Command, DriverError, Flag};
use super::{DataType, Problem, ProblemError};
use crate::value::Value;

/// An operation whose problems are tuned: how its commands are read, and what kernel specs know of its problems.
///
/// One that is brought from outside gives its problems as [`KernelProblem`](super::KernelProblem)s of its word, for kernel
/// specs whose `problem` is that word.
pub struct Operator {
    /// First word of its commands, without the suffix of a type; `problem` of its kernel specs.
    pub word: &'static str,
    /// What its problems are, for messages: "convolutions".
    pub problems: &'static str,
    /// Whether MIOpenDriver has it.
    pub in_miopen: bool,
    /// What kernel specs know of each problem; nothing where each spec says it (`[sizes]`).
    pub variables: &'static [&'static str],
    /// Whether a command with this first word is one of its.
    pub is_base: fn(&str) -> bool,
    /// The flags of its commands; none if the words behind the first are no flags.
    pub flags: &'static [Flag],
    /// The problems that a command asks for.
    pub parse: fn(&Command<'_>) -> Result<Vec<Problem>, DriverError>,
}

/// What every problem answers.
pub trait Operation {
    /// Its operator.
    fn operator(&self) -> &'static Operator;

    /// The driver command with every flag that changes what is computed, in a fixed order.
    fn canonical(&self) -> String;

    /// What kernel specs know of it: the operator's variables.
    fn variables(&self) -> BTreeMap<String, Value>;

    /// Operation, direction and type, for tables that count them: `conv F FP16`.
    fn kind(&self) -> String;

    /// Floating-point operations of useful work, two for each multiply-add; zero where that is not known, or where the time
    /// goes to memory.
    fn flops(&self) -> f64 {
        0.0
    }

    /// A short name for tables. Not unique: pads, for one, are left out.
    fn label(&self) -> String {
        self.canonical()
    }

    /// The same on another type. `None` where it has none.
    ///
    /// # Errors
    /// A type that makes no problem.
    fn with_type(&self, data_type: DataType) -> Option<Result<Problem, ProblemError>> {
        let _ = data_type;
        None
    }

    /// The same with another batch size. `None` where there is none.
    ///
    /// # Errors
    /// A batch size that makes no problem.
    fn with_batch(&self, n: u32) -> Option<Result<Problem, ProblemError>> {
        let _ = n;
        None
    }
}
