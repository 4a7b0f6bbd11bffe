//! The exporter: folds outcomes into the databases that MIOpen reads, and into `winners.json`; reads such files back.
//!
//! [`export`](export()) is the whole of it: stream the outcomes, fold them into [`Records`](fold::Records) (pure), write
//! every file beside its place, then put all in place. The formats are those of [`bluefin_common::db`].
#![forbid(unsafe_code)]

pub mod coverage;
pub mod db;
pub mod doctor;
mod error;
mod export;
pub mod fold;
pub mod install;
mod kernels;
mod library;
mod metrics;
pub mod release;
mod specs;
mod stream;
pub mod summary;
mod winners;

pub use error::ExportError;
pub use export::{ExportReport, ExportRequest, ExportedFile, export};
pub use library::Library;
pub use metrics::Metrics;
