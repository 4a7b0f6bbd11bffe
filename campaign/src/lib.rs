//! Carries out a campaign, on this machine or over a fleet: [`ports`] says where its parts meet, [`local`] and [`tools`] are the
//! workers of this process, and [`carry`] waits until all is done. Verbs parse what is asked and print what came of it.
#![forbid(unsafe_code)]

pub mod admin;
pub mod carry;
pub mod devices;
pub mod evaluators;
pub mod forgotten;
pub mod itself;
pub mod known;
pub mod local;
pub mod ports;
pub mod queues;
pub mod search;
pub mod tools;
mod usage;
pub mod why;

pub use usage::{Usage, usage};
