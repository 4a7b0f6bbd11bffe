//! Programs that behave like MIOpen's `fin` and `MIOpenDriver` as far as bluefin can tell, for machines without ROCm.
//!
//! What they answer follows from what they are asked, so that a campaign comes to the same bytes however it gets there:
//! times, params and kernels are derived from digests of (problem, solver, params). They fail on demand, and then too by what
//! they are asked: see [`Faults`]. Variables that tell them what to be:
//!
//! | variable | what it says |
//! | --- | --- |
//! | `STAND_IN_BACKEND` | `HIP` (default) or `HIPNOGPU`: which steps of fin work |
//! | `STAND_IN_GENERATION` | `2024` (default) or `2022`: shape of fin's answers |
//! | `STAND_IN_GPU` | `none`: there is no GPU |
//! | `STAND_IN_ARCH` | the architecture of the GPU, and the only one that kernels load on |
//! | `STAND_IN_LACKS` | a solver that this library does not have |
//! | `STAND_IN_FAULTS` | what goes wrong, see [`Faults`] |
//! | `STAND_IN_SEED` | which calls that happens to |
//! | `STAND_IN_STATE` | a folder for what is remembered from call to call: faults that pass |
//! | `STAND_IN_CALLS` | a file to which each call adds a line: step, solver, key |
#![allow(clippy::indexing_slicing, reason = "part of tests: what is amiss here is to be seen at once")]
#![forbid(unsafe_code)]

mod database;
pub mod driver;
mod fault;
pub mod fin;
mod library;
mod problem;
mod wrapper;

pub use fault::{Fault, Faults};
pub use library::{Registered, solvers};
pub use wrapper::{program, wrap};

/// A variable of this process's environment.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Notes a call, where somebody counts them.
fn note_call(step: &str, solver: &str, key: &str) {
    use std::io::Write as _;
    let Some(path) = variable("STAND_IN_CALLS") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    if let Ok(mut file) = file {
        let _ = file.write_all(format!("{step}\t{solver}\t{key}\n").as_bytes());
    }
}
