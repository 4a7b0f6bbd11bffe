//! The stand-ins by themselves, and both workers with them.

mod protocol;
mod workers;
