//! The stand-ins by themselves, and both workers with them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod protocol;
mod workers;
