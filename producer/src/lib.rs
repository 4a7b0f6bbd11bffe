#![forbid(unsafe_code)]
pub mod driver;
pub mod input;
