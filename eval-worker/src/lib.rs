//! The eval worker: consumes eval jobs, checks and times their candidates in one child process per device, and stores the
//! outcome.
#![deny(unsafe_code)]

mod check;
pub mod child;
mod device;
mod elements;
mod layout;
mod protocol;
pub mod timing;
