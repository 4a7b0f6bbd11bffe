//! What crosses a socket, a process or a release.
#![forbid(unsafe_code)]

mod wire;
