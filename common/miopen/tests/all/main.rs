//! MIOpen's own files, as other people's programs left them.
#![forbid(unsafe_code)]

mod fin_samples;
mod miopen_keys;
