//! The eval worker: consumes eval jobs, checks and times their candidates in one child process per device, and stores the
//! outcome.
#![deny(unsafe_code)]

mod check;
pub mod child;
mod config;
mod device;
mod elements;
pub mod inventory;
mod layout;
mod metrics;
mod miopen;
mod protocol;
mod supervisor;
pub mod timing;
mod worker;

pub use config::{Config, DeviceSpec};
pub use metrics::Metrics;
pub use miopen::{MiopenDevice, ProbeError};
pub use protocol::Identity;
pub use protocol::Spent;
pub use supervisor::{ChildConfig, Deadlines, DeviceError, DeviceWorker, Runnable, Translators, Work};
pub use worker::{Error, run, run_all};
