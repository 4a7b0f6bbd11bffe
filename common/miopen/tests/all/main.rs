//! MIOpen's own files, as other people's programs left them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
#![forbid(unsafe_code)]

mod fin_samples;
mod miopen_keys;
