//! How verbs meet a terminal: spellings of their flags, lines and JSON on standard output, tables as wide as the terminal, colour where
//! it is wanted, and bars. The program and its benchmarks both do so by it.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod bar;
pub mod colour;
pub mod failed;
pub mod listing;
pub mod out;
pub mod progress;
pub mod spelling;
pub mod verbs;
pub mod width;
pub mod winners;
