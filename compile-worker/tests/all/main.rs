//! The compile worker from the outside, as one program; `sandbox` is another, since it has a `main` of its own.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod check_kernels;
mod compile;
mod emulation;
mod people;
mod triton;
mod worker;
