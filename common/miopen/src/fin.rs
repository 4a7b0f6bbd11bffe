//! The fin executable: one JSON document in, one out, and nothing to be believed without a look.
//!
//! The present generation of its protocol (since 2024-08-21) is written; that of 2022 is read too. An exit code says
//! little: a call went well if fin exited with 0, its document parses and has one element for each job behind the first
//! one, each has the key that was asked for, and that has an entry for the solver.

mod answer;
mod call;
mod config;
mod listed;
mod request;
mod trouble;
mod verdict;

pub use answer::{Answer, Item, Listed, ParseError, parse};
pub use call::{Applicability, Fin};
pub use config::{ConvConfig, Inexpressible};
pub use listed::solvers;
pub use request::{CompiledItem, Done, Request, Step, target_id};
pub use trouble::{Trouble, blames_machine};
pub use verdict::{CompiledSolver, Evaluated, compiled, evaluated};
