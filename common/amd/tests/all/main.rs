//! Kernels compiled by clang, executed.
#![allow(clippy::indexing_slicing)]

mod basics;
mod faults;
mod flow;
mod memory;
mod order;
mod support;
mod triton;
