//! The keys that MIOpen's databases have for problems.
//!
//! Problems are kept in the forward sense whatever their direction; keys swap the two sides for the backward directions. That swap
//! happens in [`FindDbKey`] and nowhere else.

pub mod batch_norm;
mod find_db;
mod label;
mod perf_db;
mod strides;
mod types;

pub use find_db::{FindDbKey, KeyError};
pub use label::LayoutLabel;
pub use perf_db::{PerfDbKey, PerfKeyError};
