//! Where the jobs of sessions are: planned, in somebody's hands, or done.

mod found;
mod look;
mod open;

pub use found::{Found, JobPlace};
pub use look::Jobs;
pub use open::{OpenJob, OpenJobs};
