//! The producer from the outside, as one program.
#![allow(clippy::unwrap_used)]

mod driver_properties;
mod library;
mod miopen_commands;
mod plan;
mod session;
