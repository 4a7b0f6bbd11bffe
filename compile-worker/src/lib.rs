//! The compile worker: takes compile jobs, looks each candidate up in the cache, compiles what is missing in a sandbox,
//! and passes the job on as an eval job. What compiles is a [`toolchain`]. As it knows the tuning spaces, it also plans the
//! rounds of a search.
//!
//! # What a host artifact exports
//!
//! A shared object of the toolchain `cc` exports, beside the kernel's own symbols, one function for each launch, in the
//! order of the launches: `void bluefin_launch_<i>(void **arguments)`. `arguments[k]` points to the value of the k-th
//! argument of the launch: to a pointer for a buffer or the workspace, to a 32- or 64-bit integer, a float or a double
//! for a number. It is how CUDA and HIP pass arguments, so one caller serves all kernels. See [`shim`].
#![forbid(unsafe_code)]

mod backlog;
pub mod carried;
mod descriptor;
mod diagnose;
mod end;
mod entries;
mod error;
mod folder;
mod gate;
mod job;
mod lasting;
mod machine;
mod metrics;
mod process;
mod queue;
mod round;
pub mod sandbox;
pub mod shim;
mod specs;
pub mod toolchain;
mod unit;
mod worker;
mod workshop;

pub use error::{Error, Suspect};
pub use metrics::Metrics;
pub use process::Limits;
pub use toolchain::{Compiler, Programs, Toolchain};
pub use unit::{Input, Unit};
pub use worker::{Config, run};
pub use workshop::{Made, Slot, Workshop};
