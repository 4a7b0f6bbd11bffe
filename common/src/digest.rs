//! BLAKE3 digests: the identity of problems, specs, jobs and artifacts.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

// What keeps digests of different things apart. The year is a salt, no date: it never changes. Whatever follows it changes
// when the things that are digested do, and with it every identity that is made of them.

/// Of a [`Job`](crate::job::Job).
pub const JOB: &str = "bluefin 2026 job";
/// Of a group of jobs.
pub const GROUP: &str = "bluefin 2026 group";
/// Of the canonical form of a [`Problem`](crate::problem::Problem).
pub const PROBLEM: &str = "bluefin 2026 problem canonical form 1";
/// Of all inputs of a compiler. Raised whenever equal inputs would give another artifact: a flag of a toolchain's command
/// line, the shim.
pub const COMPILE: &str = "bluefin 2026 compile 2";
/// Of a list of MIOpen's solvers.
pub const MIOPEN_SOLVERS: &str = "bluefin 2026 miopen solvers";
/// Of the name of a solver: the order in which its candidates are tried.
pub const CANDIDATE_ORDER: &str = "bluefin 2026 candidate order";
/// Of the seed of a session, a problem and the name of a solver: the seed of a search.
pub const SEARCH: &str = "bluefin 2026 search";
/// Of a candidate: the time that the device has for it which does nothing.
pub const NOOP: &str = "bluefin 2026 noop";
/// Of the manifest of a release.
pub const RELEASE: &str = "bluefin 2026 release manifest 1";
/// Of the versions that shape the results of a session of `tune`.
pub const VERSIONS: &str = "bluefin 2026 versions";
/// Of what aiter builds for a family on a host.
pub const AITER_MODULES: &str = "bluefin 2026 aiter modules";

/// A BLAKE3-256 digest. Prints as 64 lowercase hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Digest(#[serde(with = "crate::wire::fixed")] pub [u8; 32]);

impl Digest {
    /// Digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Digest of the content of a file of any size.
    ///
    /// # Errors
    /// If it can not be read.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        Self::of_reader(File::open(path)?)
    }

    /// Digest of all that `reader` gives.
    ///
    /// # Errors
    /// If it fails.
    pub fn of_reader(reader: impl Read) -> io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(reader)?;
        Ok(Self(*hasher.finalize().as_bytes()))
    }

    /// Digest of several parts. Each part is preceded by its length, so that moving a byte from one part to the next
    /// changes the digest. `domain` keeps digests of different things apart.
    #[must_use]
    pub fn of_parts<'a>(domain: &str, parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(domain);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// The first 12 hex digits: enough for a person, never for a key.
    #[must_use]
    pub fn short(&self) -> String {
        self.to_string()[..12].to_string()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Written in one go: it is done several times for each job.
        let mut hex = String::with_capacity(2 * self.0.len());
        for byte in self.0 {
            for nibble in [byte >> 4, byte & 0xf] {
                hex.push(char::from_digit(u32::from(nibble), 16).unwrap_or_default());
            }
        }
        f.write_str(&hex)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.short())
    }
}

/// A text that is not 64 hex digits.
#[derive(Debug, thiserror::Error)]
#[error("digest: found {found:?}, expected 64 hex digits")]
pub struct InvalidDigest {
    found: String,
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidDigest { found: text.chars().take(80).collect() };
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(invalid());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().as_chunks::<2>().0) {
            let pair = std::str::from_utf8(pair).map_err(|_| invalid())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| invalid())?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_and_parses() {
        let digest = Digest::of(b"bluefin");
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        assert!("zz".repeat(32).parse::<Digest>().is_err());
        assert!("+f".repeat(32).parse::<Digest>().is_err());
    }

    #[test]
    fn a_file_has_the_digest_of_its_bytes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"bluefin").unwrap();
        assert_eq!(Digest::of_file(file.path()).unwrap(), Digest::of(b"bluefin"));
        assert!(Digest::of_file(&file.path().join("x")).is_err());
    }

    #[test]
    fn parts_are_kept_apart() {
        let a = Digest::of_parts("t", [b"ab".as_slice(), b"c"]);
        let b = Digest::of_parts("t", [b"a".as_slice(), b"bc"]);
        assert_ne!(a, b);
    }
}
