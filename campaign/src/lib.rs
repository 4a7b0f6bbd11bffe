//! Carries out a campaign, on this machine or over a fleet, in one call: a [`site::Site`] is where, an [`order::Order`] is what, and
//! [`whole::Steps`] are all that a campaign may take, from problems to databases. Verbs parse what is asked and print what came of
//! it; how far a campaign is they hear as [`carry::Watch`].
#![forbid(unsafe_code)]

pub mod admin;
pub mod aiter;
pub mod belongings;
pub mod carry;
pub mod check;
pub mod dead;
pub mod devices;
pub mod doctor;
pub mod evaluators;
pub mod gemm;
pub mod itself;
pub mod kernels;
pub mod known;
pub mod local;
pub mod miopen;
pub mod monitor;
pub mod order;
pub mod parts;
pub mod ports;
pub mod queues;
pub mod search;
pub mod selftest;
pub mod site;
pub mod status;
pub mod steer;
pub mod tools;
pub mod whole;
pub mod why;

mod forgotten;
mod usage;

pub use usage::{Usage, message, usage};
