//! How many calls a fault matched: in a file beside the faults, since processes come and go.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::Fault;

/// Adds one, and returns the count before.
pub(super) fn add(faults: &Path, fault: &Fault) -> io::Result<u64> {
    let mut file = File::options().read(true).write(true).create(true).truncate(false).open(path(faults, fault))?;
    file.lock()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let count = parse(&text)?;
    file.rewind()?;
    // It only grows, so nothing of the old number is left behind the new one.
    write!(file, "{}", count + 1)?;
    Ok(count)
}

pub(super) fn read(faults: &Path, fault: &Fault) -> io::Result<u64> {
    match fs::read_to_string(path(faults, fault)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        text => parse(&text?),
    }
}

fn parse(text: &str) -> io::Result<u64> {
    if text.is_empty() { Ok(0) } else { text.parse().map_err(io::Error::other) }
}

fn path(faults: &Path, fault: &Fault) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    fault.to_string().hash(&mut hasher);
    faults.with_extension(format!("{:016x}", hasher.finish()))
}
