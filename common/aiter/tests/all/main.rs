//! aiter's own files, as its repository has them.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod files;
