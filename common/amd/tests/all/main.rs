//! Kernels compiled by clang, executed.
#![allow(clippy::indexing_slicing)]

mod barriers;
mod basics;
mod bodies;
mod faults;
mod flow;
mod guards;
mod images;
mod memory;
mod open;
mod order;
mod protocols;
mod rarer;
mod readers;
mod samples;
mod scalars;
mod sides;
mod sparse;
mod support;
mod triton;
mod typed;
