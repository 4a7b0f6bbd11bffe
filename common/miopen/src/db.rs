//! MIOpen's databases, read as MIOpen reads them and written as it expects them. A reader never fails over a line or a
//! row: what MIOpen would skip, misread or trip over is a [`Finding`].

mod error;
pub mod find_db;
mod findings;
mod kernel_codec;
pub mod kernel_db;
mod lines;
pub mod number;
pub mod params;
pub mod perf_db;
pub mod solvers;
pub mod sources;
mod sqlite;

pub use error::{ReadError, Refused, WriteError};
pub use findings::{Finding, FindingKind, Findings, KEPT};
pub use kernel_codec::{compress, decompress, md5_hex};
pub use sqlite::{is_sqlite, tables};
