//! Adapters: the two ports of `bluefin-common` for RabbitMQ and one process, and for Redis and an SQLite file.
#![forbid(unsafe_code)]

pub mod amqp;
pub mod embedded;
mod line;
mod packed;
pub mod patient;
pub mod pooled;
pub mod redis;
pub mod sqlite;
mod tally;

use bluefin_common::artifact::CompileRecord;
use bluefin_common::digest::Digest;
use bluefin_common::wire;

pub use line::{Depth, Kin, Rank};
pub use packed::MAX_BLOB;

/// The compile record in the cache under `key`. One that does not decode, as another version may have written it, or that is of
/// other inputs, is a miss: it is compiled again and replaced.
fn cached_record(key: Digest, stored: Option<&[u8]>) -> Option<CompileRecord> {
    let read = wire::decode::<CompileRecord>(stored?);
    let record = read.inspect_err(|error| tracing::warn!(%key, %error, "compile record ignored")).ok()?;
    if record.key != key {
        tracing::error!(%key, found = %record.key, "compile record ignored: it is of other inputs; somebody moved it");
        return None;
    }
    Some(record)
}
