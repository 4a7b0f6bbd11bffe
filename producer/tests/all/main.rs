//! The producer from the outside, as one program.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod driver_properties;
mod library;
mod miopen_commands;
mod plan;
mod session;
