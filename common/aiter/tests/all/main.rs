//! aiter's own files, as its repository has them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
#![forbid(unsafe_code)]

mod files;
