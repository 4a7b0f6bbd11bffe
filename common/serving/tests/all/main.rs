//! What the engines ship, and what their own functions say.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
#![forbid(unsafe_code)]

mod files;
mod originals;
mod shipped;
