//! The exporter from the outside, as one program.

mod support;

mod export;
mod miopen;
mod play_off;
mod release;
mod speed;
