//! Looking after the sessions of a fleet: how far they are and why they do not move, steering, mending, and what goes with them.

pub mod belongings;
pub mod dead;
pub mod monitor;
pub mod overview;
pub mod queues;
pub mod status;
pub mod steer;
pub mod why;
