//! Releases of ROCm and MIOpen, as far as they tell which files MIOpen reads.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use bluefin_miopen::detect::{miopen_version, rocm_version};
use serde::Serialize;

/// How MIOpen reads its perf db.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PerfForm {
    /// MIOpen 2.15 to 3.1, ROCm 5.0 to 6.1.
    Sqlite,
    /// MIOpen 3.2 and later, ROCm 6.2 and later; a build with `MIOPEN_USE_SQLITE_PERFDB` still reads SQLite.
    Text,
}

/// A release of MIOpen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MiopenVersion {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
    /// What tells one build from another, normally a hash of its sources; part of the names of users' databases. Empty in a build
    /// outside of a repository, whose names then end in `_`.
    pub tweak: Option<String>,
}

/// A release of ROCm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RocmVersion {
    pub major: u32,
    pub minor: u32,
}

/// A text that is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("version: found {found:?}, expected {expected}")]
pub struct InvalidVersion {
    found: String,
    expected: &'static str,
}

impl FromStr for MiopenVersion {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let mut parts = text.splitn(4, '.');
            let major = parts.next()?.parse().ok()?;
            let minor = parts.next()?.parse().ok()?;
            let patch = parts.next().map_or(Some(0), |patch| patch.parse().ok())?;
            let tweak = parts.next().map(str::to_string);
            let plain = |text: &String| text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
            tweak.as_ref().is_none_or(plain).then_some(Self { major, minor, patch, tweak })
        };
        let expected = "one such as 3.2.0, or 3.2.0.2d1fd997 with the build's tweak";
        parse().ok_or_else(|| InvalidVersion { found: text.chars().take(80).collect(), expected })
    }
}

impl fmt::Display for MiopenVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        self.tweak.as_ref().map_or(Ok(()), |tweak| write!(f, ".{tweak}"))
    }
}

impl MiopenVersion {
    /// What stands in the names of users' text databases behind the device: `HIP.3_2_0_2d1fd997`. A build for developers
    /// has no tweak there.
    #[must_use]
    pub fn user_suffix(&self, backend: &str) -> String {
        let tweak = self.tweak.as_ref().map(|tweak| format!("_{tweak}")).unwrap_or_default();
        format!("{backend}.{}_{}_{}{tweak}", self.major, self.minor, self.patch)
    }

    /// The form of its perf db; `None` for releases whose databases bluefin does not write.
    #[must_use]
    pub fn perf_form(&self) -> Option<PerfForm> {
        match (self.major, self.minor) {
            (0..=1, _) | (2, 0..=14) => None,
            (2, _) | (3, 0..=1) => Some(PerfForm::Sqlite),
            _ => Some(PerfForm::Text),
        }
    }
}

impl FromStr for RocmVersion {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.trim().split(['.', '-']);
        let mut part = || parts.next().and_then(|part| part.parse().ok());
        match (part(), part()) {
            (Some(major), Some(minor)) => Ok(Self { major, minor }),
            _ => {
                Err(InvalidVersion { found: text.chars().take(80).collect(), expected: "one such as 6.2 or 6.2.0-66" })
            }
        }
    }
}

impl fmt::Display for RocmVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl RocmVersion {
    /// The form of the perf db of the MIOpen that it comes with; `None` for releases whose databases bluefin does not write.
    #[must_use]
    pub fn perf_form(self) -> Option<PerfForm> {
        match self {
            Self { major: 0..=4, .. } => None,
            Self { major: 5, .. } | Self { major: 6, minor: 0..=1 } => Some(PerfForm::Sqlite),
            _ => Some(PerfForm::Text),
        }
    }
}

/// What a prefix says of the ROCm and the MIOpen in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    pub rocm: Option<RocmVersion>,
    pub miopen: Option<MiopenVersion>,
}

impl Versions {
    /// Reads `.info/version` and `include/miopen/version.h` below `prefix`; what is not there or makes no sense is `None`.
    #[must_use]
    pub fn detect(prefix: &Path) -> Self {
        let rocm = rocm_version(prefix).and_then(|text| text.parse().ok());
        // Up to ROCm 5.1 every library had a prefix of its own.
        let own = || miopen_version(&prefix.join("miopen"));
        let miopen = miopen_version(prefix).or_else(own).and_then(|text| text.parse().ok());
        Self { rocm, miopen }
    }

    /// Whether this MIOpen is newer than [`RELEASE`](bluefin_miopen::db::solvers::RELEASE), and so may have solvers that are not in its
    /// list. MIOpen's own word counts first; ROCm 6.3 has MIOpen 3.3.
    #[must_use]
    pub fn may_have_newer_solvers(&self) -> bool {
        match (&self.miopen, self.rocm) {
            (Some(miopen), _) => (miopen.major, miopen.minor) > (3, 3),
            (None, rocm) => rocm > Some(RocmVersion { major: 6, minor: 3 }),
        }
    }

    /// The form of the perf db, MIOpen's own word first. `Err` tells why there is none; `Ok(None)`: nothing is known.
    ///
    /// # Errors
    /// A release whose databases bluefin does not write.
    pub fn perf_form(&self) -> Result<Option<PerfForm>, String> {
        let expected = "expected MIOpen 2.15 (ROCm 5.0) or later: older ones read other databases";
        match (&self.miopen, self.rocm) {
            (Some(miopen), _) => {
                miopen.perf_form().map(Some).ok_or_else(|| format!("found MIOpen {miopen}, {expected}"))
            }
            (None, Some(rocm)) => rocm.perf_form().map(Some).ok_or_else(|| format!("found ROCm {rocm}, {expected}")),
            (None, None) => Ok(None),
        }
    }
}

/// The folder of the system databases below a prefix: beside the library, wherever a link leads (MIOpen 3.3,
/// src/db_path.cpp.in).
#[must_use]
pub fn system_folder(prefix: &Path) -> PathBuf {
    for library in ["lib/libMIOpen.so", "lib/libMIOpen.so.1", "lib64/libMIOpen.so", "miopen/lib/libMIOpen.so"] {
        let folder = prefix.join(library).canonicalize().ok();
        let folder = folder.as_deref().and_then(Path::parent).and_then(Path::parent);
        if let Some(folder) = folder.map(|folder| folder.join("share/miopen/db"))
            && folder.is_dir()
        {
            return folder;
        }
    }
    prefix.join("share/miopen/db")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_tell_the_form() {
        for (text, form) in [
            ("2.12.0", None),
            ("2.15", Some(PerfForm::Sqlite)),
            ("3.1.0", Some(PerfForm::Sqlite)),
            ("3.2.0.2d1fd997-dirty", Some(PerfForm::Text)),
            ("4.0.0", Some(PerfForm::Text)),
        ] {
            assert_eq!(text.parse::<MiopenVersion>().unwrap().perf_form(), form, "{text}");
        }
        for (text, form) in [
            ("4.5.2-1", None),
            ("5.0.0", Some(PerfForm::Sqlite)),
            ("6.1.3-122\n", Some(PerfForm::Sqlite)),
            ("6.2", Some(PerfForm::Text)),
            ("7.0.0", Some(PerfForm::Text)),
        ] {
            assert_eq!(text.parse::<RocmVersion>().unwrap().perf_form(), form, "{text}");
        }
        for text in ["", "3", "3.x", "3.2.0.a/b"] {
            assert!(text.parse::<MiopenVersion>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_prefix_says_what_is_in_it() {
        let prefix = tempfile::tempdir().unwrap();
        assert_eq!(Versions::detect(prefix.path()), Versions::default());
        std::fs::create_dir_all(prefix.path().join(".info")).unwrap();
        std::fs::write(prefix.path().join(".info/version"), "6.2.0-66\n").unwrap();
        std::fs::create_dir_all(prefix.path().join("include/miopen")).unwrap();
        let header = "#ifndef X\n#define MIOPEN_VERSION_MAJOR 3\n#define MIOPEN_VERSION_MINOR 2\n\
            #define  MIOPEN_VERSION_PATCH 0\n#define MIOPEN_VERSION_TWEAK 2d1fd997\n";
        std::fs::write(prefix.path().join("include/miopen/version.h"), header).unwrap();
        let found = Versions::detect(prefix.path());
        assert_eq!(found.rocm, Some(RocmVersion { major: 6, minor: 2 }));
        assert_eq!(found.miopen.unwrap().user_suffix("HIP"), "HIP.3_2_0_2d1fd997");
        let header = header.replace(" 2d1fd997", " ");
        std::fs::write(prefix.path().join("include/miopen/version.h"), header).unwrap();
        let found = Versions::detect(prefix.path()).miopen.unwrap();
        assert_eq!((found.to_string().as_str(), found.user_suffix("HIP").as_str()), ("3.2.0.", "HIP.3_2_0_"));
    }
}
