//! The exporter from the outside, as one program.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

mod bias;
mod export;
mod format;
mod miopen;
mod play_off;
mod release;
