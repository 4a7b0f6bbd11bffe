//! The exporter from the outside, as one program.
#![allow(clippy::unwrap_used)]

mod support;

mod export;
mod format;
mod miopen;
mod play_off;
mod previous;
mod release;
mod speed;
