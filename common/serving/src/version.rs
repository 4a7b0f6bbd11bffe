//! Versions of Triton: in files of vLLM, and as folders of SGLang.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A version such as 3.6.0. Versions order by their numbers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version(Vec<u32>);

/// What is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found {found:?}, expected a version of Triton such as 3.6.0")]
pub struct NoVersion {
    /// What was said.
    pub found: String,
}

impl Version {
    /// The folder of SGLang's files for it.
    #[must_use]
    pub fn folder(&self) -> String {
        format!("triton_{}", self.joined("_"))
    }

    /// The version of the folder that a file lies in.
    #[must_use]
    pub fn of_folder(path: &Path) -> Option<Self> {
        let folder = path.parent()?.file_name()?.to_str()?;
        folder.strip_prefix("triton_")?.replace('_', ".").parse().ok()
    }

    fn joined(&self, separator: &str) -> String {
        let numbers: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        numbers.join(separator)
    }
}

impl FromStr for Version {
    type Err = NoVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // What follows the numbers, as in 3.6.0+git1a2b or 3.6.0.post1, is of a build.
        let release = text.split(['+', '-']).next().unwrap_or_default();
        let release = release.split(".post").next().unwrap_or_default();
        let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let parts: Vec<&str> = release.split('.').collect();
        let numbers: Vec<u32> =
            parts.iter().take_while(|part| is_number(part)).filter_map(|part| part.parse().ok()).collect();
        let is_version = numbers.len() == parts.len() && (2..=4).contains(&numbers.len());
        if is_version { Ok(Self(numbers)) } else { Err(NoVersion { found: text.chars().take(80).collect() }) }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.joined("."))
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers() {
        let version: Version = "3.10.0".parse().unwrap();
        assert!(version > "3.9.1".parse().unwrap());
        assert_eq!((version.folder(), version.to_string()), ("triton_3_10_0".to_string(), "3.10.0".to_string()));
        assert_eq!("3.6.0+git4ba787ec".parse::<Version>().unwrap().to_string(), "3.6.0");
        for wrong in ["", "3", "three", "3.x.0", "3..0", "3.6.0.1.2", "-3.6"] {
            assert!(wrong.parse::<Version>().is_err(), "{wrong}");
        }
        let path = Path::new("configs/triton_3_6_0/E=1.json");
        assert_eq!(Version::of_folder(path), Some("3.6.0".parse().unwrap()));
    }
}
