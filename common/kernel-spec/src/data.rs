//! Files with the elements of buffers, which lie beside a spec.

use std::io::{self, Read as _};
use std::path::Path;

use bluefin_common::child_file;
use bytes::Bytes;

use crate::error::SpecError;

/// Most bytes of a data file, unpacked.
pub(super) const MAX_DATA: u64 = 128 << 20;
/// Most bytes of all data files of a spec.
pub(super) const MAX_ALL_DATA: u64 = 512 << 20;
/// How the name of a file ends that is one zstd frame or several.
const PACKED: &str = ".zst";

/// What the file `name` in `folder` holds, unpacked.
pub(super) fn read(folder: &Path, name: &str) -> Result<Bytes, SpecError> {
    let fail = |source: io::Error| SpecError::Read { path: folder.join(name), source };
    let bytes = child_file::read(folder, name, MAX_DATA).map_err(|error| fail(error.into()))?;
    if !name.ends_with(PACKED) {
        return Ok(bytes.into());
    }
    let mut unpacked = Vec::new();
    let unpack =
        zstd::Decoder::new(bytes.as_slice()).and_then(|packed| packed.take(MAX_DATA + 1).read_to_end(&mut unpacked));
    unpack.map_err(|error| fail(io::Error::new(io::ErrorKind::InvalidData, format!("no zstd frame: {error}"))))?;
    if unpacked.len() as u64 > MAX_DATA {
        return Err(fail(io::Error::other(format!("found more unpacked, expected at most {MAX_DATA} bytes"))));
    }
    Ok(unpacked.into())
}
