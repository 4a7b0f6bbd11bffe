//! What verbs print: lines and JSON on standard output, tables as wide as the terminal, colour where it is wanted, and bars. The
//! program and its benchmarks both print by it.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod bar;
pub mod colour;
pub mod out;
pub mod width;
