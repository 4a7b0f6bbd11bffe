//! The producer: reads problems, plans a session's jobs and enqueues what is missing.
#![forbid(unsafe_code)]

pub mod driver;
pub mod enqueue;
pub mod input;
pub mod library;
pub mod plan;
pub mod session;

mod error;
mod metrics;

pub use error::PlanError;
pub use metrics::Metrics;
