//! What crosses a socket, a process or a release.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod wire;
