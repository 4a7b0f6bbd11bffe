//! Carries out campaigns, on this machine or over a fleet, and looks after them. A campaign is one call: a [`site::Site`] is where, an
//! [`order::Order`] is what, and [`whole::Steps`] are all that one may take, from problems to databases. Verbs parse what is asked
//! and print what came of it; how far a campaign is they hear as [`carry::Watch`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod admin;
pub mod aiter;
pub mod captured;
pub mod carry;
pub mod config;
pub mod fleet;
pub mod formats;
pub mod gain;
pub mod gemm;
pub mod given_back;
pub mod kernels;
pub mod known;
pub mod listing;
pub mod machine;
pub mod miopen;
pub mod order;
pub mod parts;
pub mod plan_file;
pub mod ports;
pub mod priors;
pub mod problems;
pub mod search;
pub mod serving;
pub mod session;
pub mod site;
pub mod stretches;
pub mod timed;
pub mod verify;
pub mod whole;

mod forgotten;
mod given;
mod usage;
mod worth;

pub use usage::{Usage, message, usage};
