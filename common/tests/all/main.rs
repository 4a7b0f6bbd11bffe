//! What crosses a socket, a process or a release.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
#![forbid(unsafe_code)]

mod wire;
