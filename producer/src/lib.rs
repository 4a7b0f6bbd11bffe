//! The producer: reads problems, captures them from a running application, plans a session's jobs and enqueues what is missing.
#![forbid(unsafe_code)]

pub mod applicability;
pub mod capture;
pub mod enqueue;
pub mod import;
pub mod input;
pub mod jobs;
pub mod keys;
pub mod library;
pub mod plan;
pub mod recall;
pub mod request;
pub mod session;
pub mod solvers;
pub mod specs;

mod error;
mod metrics;

pub use error::PlanError;
pub use metrics::Metrics;
