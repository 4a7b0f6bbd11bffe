//! Triton's autotuners. [`Hook`] goes into a program by its environment alone, and writes down each function and tuning key that it
//! tunes; [`Captured`] reads that, and makes a kernel spec of it; [`Tuned`] is what was found, in the form in which a hook gives it
//! back to the program, or Triton reads it from its cache on disk; [`Choice`] is a file of such a cache.
#![forbid(unsafe_code)]

mod captured;
mod choice;
mod descriptor;
mod error;
mod gain;
mod grid;
mod hook;
mod spec;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
mod text;
mod times;
mod tuned;
mod words;

pub use captured::{Captured, Counts, Left, Process};
pub use choice::Choice;
pub use error::Error;
pub use gain::{Gained, Run, Runs, Spread};
pub use hook::{Contents, Hook, Mode};
pub use spec::{LISTED, WIDENED};
pub use tuned::{Applied, CacheOf, Cached, Given, Tuned, TunedKernel, Winner, Winners};
