//! Real input files; `tests/data/README.md` says what they are and where they come from.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use bzip2::read::MultiBzDecoder;

/// A file of `tests/data`, packed as it may be there: `miopen/gfx906_60.db.bz2`.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn data_path(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data").join(name);
    path.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The content of a file of `tests/data`, which may be there only as `NAME.bz2`.
///
/// # Panics
/// If it is not there or does not unpack.
#[must_use]
pub fn data(name: &str) -> Vec<u8> {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data").join(format!("{name}.bz2"));
    let read = |path: &Path| std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if !packed.is_file() {
        return read(&data_path(name));
    }
    let mut bytes = Vec::new();
    let unpacked = MultiBzDecoder::new(read(&packed).as_slice()).read_to_end(&mut bytes);
    unpacked.unwrap_or_else(|error| panic!("{}: {error}", packed.display()));
    bytes
}

/// The same as text.
///
/// # Panics
/// If it is not there, does not unpack, or is no text.
#[must_use]
pub fn data_text(name: &str) -> String {
    String::from_utf8(data(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}
