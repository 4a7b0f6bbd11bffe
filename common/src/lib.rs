//! The vocabulary that all roles of bluefin share: problems, targets, jobs, outcomes, kernel specs, the wire format, and
//! the two ports, [`broker`] and [`store`].
#![forbid(unsafe_code)]

pub mod admin;
pub mod artifact;
pub mod broker;
pub mod campaign;
pub mod control_group;
pub mod db;
pub mod delivery;
pub mod digest;
pub mod file_system;
pub mod files;
pub mod job;
pub mod kfd;
pub mod limits;
pub mod metrics;
pub mod miopen;
pub mod outcome;
pub mod problem;
pub mod session;
pub mod shelf;
pub mod shutdown;
pub mod spec;
pub mod store;
pub mod target;
pub mod value;
pub mod wire;
