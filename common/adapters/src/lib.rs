//! Adapters: the two ports of `bluefin-common` for RabbitMQ and one process, and for Redis and an SQLite file.
#![forbid(unsafe_code)]

pub mod amqp;
pub mod embedded;
mod packed;
pub mod redis;
pub mod sqlite;
mod tally;

use bluefin_common::artifact::CompileRecord;
use bluefin_common::wire;

pub use packed::MAX_BLOB;

/// The compile record in the cache under `key`. One that does not decode, as another version may have written it, is a
/// miss: it is compiled again and replaced.
fn cached_record(key: &str, stored: Option<&[u8]>) -> Option<CompileRecord> {
    wire::decode(stored?).inspect_err(|error| tracing::warn!(key, %error, "compile record ignored")).ok()
}
