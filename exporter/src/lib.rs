//! The exporter: folds outcomes into the databases that MIOpen reads, and into `winners.json`; reads such files back.
//!
//! [`export`](export()) is the whole of it: stream the outcomes, fold them into [`Records`](fold::Records) (pure), write
//! every file beside its place, then put all in place. The formats are [`find_db`], [`perf_db`] and [`kernel_db`], each
//! with its reader and writer.
#![forbid(unsafe_code)]

mod error;
mod export;
pub mod files;
pub mod find_db;
mod findings;
pub mod fold;
mod kernel_codec;
pub mod kernel_db;
mod kernels;
mod lines;
mod metrics;
mod number;
pub mod perf_db;
mod specs;
mod sqlite;
mod stream;
pub mod summary;
mod winners;

pub use error::{ExportError, ReadError, WriteError};
pub use export::{ExportReport, ExportRequest, ExportedFile, export};
pub use findings::{Finding, FindingKind, Findings};
pub use metrics::Metrics;
