//! The exporter: folds outcomes into the databases that MIOpen reads, and into `winners.json`; reads such files back.
//!
//! [`export`](export()) is the whole of it: stream the outcomes, fold them into the records of every [`Format`](format::Format)
//! that is asked for (pure), write every file beside its place, then put all in place. The formats of MIOpen's databases are
//! those of [`bluefin_miopen::db`].
#![forbid(unsafe_code)]

mod bias;
pub mod coverage;
pub mod db;
pub mod doctor;
mod error;
mod export;
pub mod fold;
pub mod format;
mod formats;
pub mod install;
mod metrics;
mod output;
pub mod release;
pub mod report;
pub mod results;
pub mod searched;
mod shared;
mod stream;
pub mod summary;
pub mod troubles;
pub mod versions;

pub use bias::Bias;
pub use error::ExportError;
pub use export::{ExportReport, ExportRequest, export};
pub use formats::{FormatName, Formats, UnknownFormat};
pub use metrics::Metrics;
pub use output::{ExportedFile, Output, WhichSpecs};
