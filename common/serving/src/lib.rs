//! Config files of serving engines for their Triton kernels: which block sizes a fused mixture of experts, or a block-quantised product,
//! is launched by for which number of tokens.
//!
//! What differs between vLLM and SGLang is data ([`Engine`]). Names are built and parsed as loaders build them ([`FileName`]), rows are read
//! and written byte for byte ([`ConfigFile`]) and looked up as the engines look them up; defaults, tuning spaces and their pruning are
//! the engines' own.
#![forbid(unsafe_code)]

pub mod asked;
pub mod check;
pub mod coverage;
pub mod default;
pub mod dense;
pub mod device;
pub mod diff;
mod engine;
mod error;
mod excluded;
pub mod families;
mod file;
pub mod files;
pub mod fit;
mod fused;
pub mod installed;
pub mod kernel;
pub mod merge;
mod model;
pub mod models;
pub mod name;
mod python;
pub mod quantised;
mod quark;
mod redundant;
pub mod row;
pub mod shapes;
pub mod space;
pub mod spread;
mod storage;
mod unread;
mod version;

pub use engine::{Engine, EngineInfo, Precision, UnknownEngine};
pub use error::{Error, Unmade};
pub use file::{ConfigFile, Document, VERSION_KEY, batch_size};
pub use name::{FileName, Layer};
pub use row::Row;
pub use version::{NoVersion, Version};
