//! Real input files, which are too large or not ours to be in the repository.

use std::path::{Path, PathBuf};

/// The folder of real data: `BLUEFIN_TEST_DATA`, or `shared/data` beside the repository.
///
/// Prints a line that says SKIP and returns `None` when there is none; a test then returns early.
pub fn data_dir() -> Option<PathBuf> {
    let dir = match std::env::var_os("BLUEFIN_TEST_DATA") {
        Some(dir) => PathBuf::from(dir),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
    };
    if dir.is_dir() {
        return Some(dir);
    }
    let test = std::thread::current().name().unwrap_or("this test").to_owned();
    eprintln!("SKIP SKIP SKIP {test}: no real data in {}; set BLUEFIN_TEST_DATA to its folder", dir.display());
    None
}
