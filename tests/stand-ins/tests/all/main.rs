//! The stand-ins by themselves, and both workers with them.
#![allow(clippy::unwrap_used)]

mod protocol;
mod workers;
