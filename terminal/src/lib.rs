//! How verbs meet a terminal: spellings of their flags and of other programs' command lines, lines and JSON on standard output, tables
//! as wide as the terminal, colour where it is wanted, bars, and what came of a verb as people read it. The program and its benchmarks
//! both do so by it.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod bar;
pub mod budget;
pub mod closing;
pub mod colour;
pub mod coverage;
pub mod db;
pub mod estimate;
pub mod failed;
pub mod job;
pub mod jobs;
pub mod listing;
pub mod mituna;
pub mod moment;
pub mod out;
pub mod progress;
pub mod release;
pub mod results;
pub mod session;
pub mod sheet;
pub mod spelling;
pub mod status;
pub mod verbs;
pub mod width;
pub mod winners;
pub mod workers;
