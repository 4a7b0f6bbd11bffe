//! The bytes of an input: a file or standard input, unpacked if bzip2 has packed it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use bluefin_kernel_spec::draft::Language;
use bluefin_miopen::db::ReadError;
use bzip2::read::MultiBzDecoder;

/// Largest input that is read, packed and unpacked: several times the largest find database that MIOpen ships.
pub const MAX_FILE: u64 = 256 * 1024 * 1024;
/// How a bzip2 stream begins.
const BZIP2: &[u8] = b"BZh";
/// How an SQLite database begins.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// Why an input could not be read at all.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The system would not give it, or it can not be unpacked.
    #[error("{name}: {source}")]
    Read {
        /// The path, or `-`.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// It is longer than any list of problems.
    #[error("{name}: found more than {limit} bytes, expected a list of problems")]
    TooLarge {
        /// The path, or `-`.
        name: String,
        /// The limit that it exceeds.
        limit: u64,
    },
    /// It is a program, or another file that nobody reads.
    #[error("{name}: found bytes that are no text, expected a list of problems")]
    NotText {
        /// The path, or `-`.
        name: String,
    },
    /// It is a user's own kernel, or a folder of them.
    #[error("{name}: found {found}, expected a list of problems; {how}")]
    Kernel {
        /// The path.
        name: String,
        /// What it is.
        found: &'static str,
        /// How it is named instead.
        how: String,
    },
    /// It is an SQLite database, but no perf database.
    #[error(transparent)]
    Database(#[from] ReadError),
}

/// The bytes of a file, or of standard input if the path is `-`, up to [`MAX_FILE`]; unpacked.
///
/// # Errors
/// What kept the file from being read.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, InputError> {
    let name = path.to_string_lossy();
    unpacked(&name, read_at_most(path, MAX_FILE)?, MAX_FILE)
}

/// [`read_bytes`] of what a command line names among its lists of problems: of a kernel it says how that is named.
///
/// # Errors
/// What kept the file from being read.
pub fn read_list(path: &Path) -> Result<Vec<u8>, InputError> {
    kernel(path).map_or_else(|| read_bytes(path), Err)
}

/// What is to be said of a path that is no list of problems, but a kernel of the user's own.
fn kernel(path: &Path) -> Option<InputError> {
    let name = path.to_string_lossy().into_owned();
    let (found, how) = if path.is_dir() {
        ("a folder", format!("captured kernels are named by --triton {name}"))
    } else if !path.exists() {
        return None;
    } else if path.extension().is_some_and(|extension| extension == "toml") {
        ("a kernel spec", format!("it is named by --kernel {name}"))
    } else {
        Language::of(path)?;
        ("the source of kernels", format!("`bluefin init {name}` writes the specs of its kernels, for --kernel"))
    };
    Some(InputError::Kernel { name, found, how })
}

/// Whether `bytes` are an SQLite database.
pub(super) fn is_sqlite(bytes: &[u8]) -> bool {
    bytes.starts_with(SQLITE)
}

/// Bytes in which a file that is no text shows itself.
const HEAD: usize = 8000;

/// Whether `bytes` begin as no text does, with a zero among them.
pub(super) fn is_no_text(bytes: &[u8]) -> bool {
    bytes.iter().take(HEAD).any(|byte| *byte == 0)
}

fn read_at_most(path: &Path, limit: u64) -> Result<Vec<u8>, InputError> {
    let name = path.to_string_lossy();
    if path == Path::new("-") {
        return all(&name, io::stdin().lock(), limit);
    }
    let failed = |source| InputError::Read { name: name.to_string(), source };
    all(&name, File::open(path).map_err(failed)?, limit)
}

fn unpacked(name: &str, bytes: Vec<u8>, limit: u64) -> Result<Vec<u8>, InputError> {
    if bytes.starts_with(BZIP2) { all(name, MultiBzDecoder::new(bytes.as_slice()), limit) } else { Ok(bytes) }
}

/// All that `from` has, which must be at most `limit` bytes.
fn all(name: &str, from: impl Read, limit: u64) -> Result<Vec<u8>, InputError> {
    let mut bytes = Vec::new();
    // One byte more than allowed tells that there is more.
    let read = from.take(limit + 1).read_to_end(&mut bytes);
    let read = read.map_err(|source| InputError::Read { name: name.to_string(), source })?;
    if read as u64 > limit {
        return Err(InputError::TooLarge { name: name.to_string(), limit });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list.txt");
        let error = read_bytes(&path).unwrap_err().to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
        std::fs::write(&path, "conv -F 1\n").unwrap();
        assert_eq!(read_at_most(&path, 10).unwrap().len(), 10);
        assert!(matches!(read_at_most(&path, 9), Err(InputError::TooLarge { limit: 9, .. })));
    }

    #[test]
    fn kernels_are_told_how_they_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let said = |name: &str, how: &str| {
            let path = folder.path().join(name);
            if !name.is_empty() {
                std::fs::write(&path, "__global__ void f() {}\n").unwrap();
            }
            let (error, path) = (read_list(&path).unwrap_err().to_string(), path.display());
            assert_eq!(error, format!("{path}: {}", how.replace("PATH", &path.to_string())));
        };
        said("", "found a folder, expected a list of problems; captured kernels are named by --triton PATH");
        said("a.toml", "found a kernel spec, expected a list of problems; it is named by --kernel PATH");
        for source in ["a.cu", "a.hip", "a.py"] {
            let how = "`bluefin init PATH` writes the specs of its kernels, for --kernel";
            said(source, &format!("found the source of kernels, expected a list of problems; {how}"));
        }
        assert!(matches!(read_list(&folder.path().join("none.cu")), Err(InputError::Read { .. })));
    }

    #[test]
    fn what_is_packed_is_unpacked_up_to_the_same_limit() {
        let packed = bluefin_miopen::db::compress(&[b'#'; 5000]).unwrap();
        assert_eq!(unpacked("a", packed.clone(), 5000).unwrap(), [b'#'; 5000]);
        assert!(matches!(unpacked("a", packed.clone(), 4999), Err(InputError::TooLarge { limit: 4999, .. })));
        let error = unpacked("a", packed[..packed.len() / 2].to_vec(), 5000).unwrap_err().to_string();
        assert!(error.starts_with("a: "), "{error}");
    }
}
