//! What bluefin's tests need around them: real servers that belong to one test, ports that nobody else takes, connections
//! that can be cut, and waiting for an event instead of for a time.
//!
//! It is test code: whatever goes wrong here panics with what was tried and what the server wrote.
//!
//! Nothing outlives the process that started it, not even after SIGKILL: see [`launch`].
#![allow(clippy::indexing_slicing, reason = "part of tests: what is amiss here is to be seen at once")]
#![forbid(unsafe_code)]

mod control;
mod data;
pub mod examples;
pub mod hip;
pub mod launch;
mod left_out;
mod port;
mod proxy;
mod rabbit;
mod redis;
mod vhost;
mod wait;

pub use data::{data, data_path, data_text};
pub use left_out::{left_out, left_out_for_hardware, triton_python};
pub use port::free_port;
pub use proxy::Proxy;
pub use rabbit::{Rabbit, RabbitOptions};
pub use redis::{Redis, RedisOptions};
pub use vhost::Vhost;
pub use wait::{eventually, patience, wait_until};
