//! The vocabulary that all roles of bluefin share: problems, targets, methods, jobs, outcomes, the wire format, and
//! the two ports, [`broker`] and [`store`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod admin;
pub mod ahead;
pub mod algorithm;
pub mod arch;
pub mod archive;
pub mod artifact;
pub mod broker;
pub mod campaign;
pub mod candidate;
pub mod check_rules;
pub mod child_file;
pub mod clock;
pub mod control_group;
pub mod course;
pub mod decision;
pub mod delivery;
pub mod description;
pub mod digest;
pub mod failure;
pub mod file_system;
pub mod files;
pub mod history;
pub mod isolation;
pub mod job;
pub mod kfd;
pub mod lane;
pub mod limits;
pub mod method;
pub mod metrics;
pub mod noise;
pub mod outcome;
pub mod parked;
pub mod printable;
pub mod priority;
pub mod problem;
pub mod process_group;
pub mod retry;
pub mod roster;
pub mod scratch;
pub mod search_end;
pub mod secrets;
pub mod session;
pub mod shelf;
pub mod shutdown;
pub mod spelled;
pub mod standing;
pub mod store;
pub mod suggest;
pub mod target;
pub mod task;
pub mod value;
pub mod waiting;
pub mod wire;
