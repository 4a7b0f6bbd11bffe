//! The eval worker: consumes eval jobs, has their candidates checked and timed by an [`Evaluator`], and stores the outcome. On
//! a device that is one child process per device.
#![deny(unsafe_code)]

mod check;
pub mod child;
mod config;
mod contents;
mod device;
mod elements;
mod evaluator;
pub mod executed;
pub mod inventory;
mod layout;
mod metrics;
pub mod nvrtc;
mod parameters;
mod protocol;
mod supervisor;
pub mod timing;
mod worker;

pub use config::Config;
pub use evaluator::aiter::AiterDevice;
pub use evaluator::artifacts::Artifact;
pub use evaluator::assignment::Assignment;
pub use evaluator::device::DeviceChild;
pub use evaluator::gpu_lock::{GpuLock, Held};
pub use evaluator::miopen::MiopenDevice;
pub use evaluator::noop::Noop;
pub use evaluator::probe::{Probe, ProbeError};
pub use evaluator::stop::Stop;
pub use evaluator::{Evaluated, Evaluator, Running};
pub use metrics::{Metrics, Utilisation};
pub use protocol::Identity;
pub use protocol::Spent;
pub use supervisor::{ChildConfig, Deadlines, DeviceError, DeviceWorker, Proven, Runnable, Translators, Work};
pub use worker::Error;
pub use worker::quarantine::{run, run_all};
