//! Kernels compiled by clang, executed.

mod basics;
mod faults;
mod flow;
mod memory;
mod support;
