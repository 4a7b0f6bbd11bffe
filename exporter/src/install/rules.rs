//! What MIOpen does with files and variables that differs by its version, in one place. Each rule was read in MIOpen's sources.

use bluefin_common::arch;

use super::Versions;
use crate::db::name::Device;

/// What MIOpen takes where a device has no system database of its exact name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nearest {
    /// The one with the nearest number of compute units: up to 3.1, and from 3.6 on.
    Taken {
        /// A gfx942 of few compute units takes that of 304 instead (from 3.6 on).
        redirected: bool,
    },
    /// No text: 3.2 to 3.5 compare an ending of two parts with the last part of a name. In SQLite, which few builds read, it is taken.
    #[default]
    Never,
}

/// What `MIOPEN_FIND_ENFORCE=3` (SEARCH) does to the find mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchMode {
    /// Any value but 1 forces the NORMAL mode: up to 3.5.0.
    Normal,
    /// Builds of 3.5.1 do the one or the other.
    Either,
    /// The find mode stays as it is: from 3.5.2 on.
    Kept,
}

impl Nearest {
    /// The number of compute units that the search wants for `device`.
    #[must_use]
    pub fn wanted(self, device: &Device) -> Option<u32> {
        let cus = device.cus?;
        let redirected = self == Self::Taken { redirected: true };
        let instead = arch::of(&device.id).and_then(|known| known.miopen_instead).filter(|_| redirected);
        Some(instead.filter(|(_, few)| cus <= *few).map_or(cus, |(instead, _)| instead))
    }
}

impl Versions {
    /// The release of MIOpen: its own word, or what comes with the ROCm.
    #[must_use]
    pub fn release(&self) -> Option<(u32, u32, u32)> {
        if let Some(miopen) = &self.miopen {
            return Some((miopen.major, miopen.minor, miopen.patch));
        }
        let rocm = self.rocm?;
        Some(match (rocm.major, rocm.minor) {
            (0..=5, _) | (6, 0) => (3, 0, 0),
            (6, minor) => (3, minor.min(4), 0),
            (7, 0) => (3, 5, 0),
            (7, 1..=11) => (3, 5, 1),
            (7..=9, _) => (3, 5, 2),
            _ => (3, 6, 0),
        })
    }

    /// What is taken where a device has no file of its exact name.
    #[must_use]
    pub fn nearest(&self) -> Nearest {
        match self.release() {
            Some(release) if release < (3, 2, 0) => Nearest::Taken { redirected: false },
            Some(release) if release >= (3, 6, 0) => Nearest::Taken { redirected: true },
            _ => Nearest::Never,
        }
    }

    /// What `MIOPEN_FIND_ENFORCE=3` does to the find mode.
    #[must_use]
    pub fn search_mode(&self) -> SearchMode {
        match self.release() {
            Some((3, 5, 1)) => SearchMode::Either,
            Some(release) if release > (3, 5, 1) => SearchMode::Kept,
            _ => SearchMode::Normal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_go_by_the_version() {
        let miopen = |text: &str| Versions { miopen: Some(text.parse().unwrap()), rocm: None };
        let rocm = |text: &str| Versions { miopen: None, rocm: Some(text.parse().unwrap()) };
        let (old, new) = (Nearest::Taken { redirected: false }, Nearest::Taken { redirected: true });
        for (versions, nearest, mode) in [
            (miopen("3.1.0"), old, SearchMode::Normal),
            (miopen("3.2.0"), Nearest::Never, SearchMode::Normal),
            (miopen("3.3.0.abc"), Nearest::Never, SearchMode::Normal),
            (miopen("3.5.1"), Nearest::Never, SearchMode::Either),
            (miopen("3.5.2"), Nearest::Never, SearchMode::Kept),
            (miopen("3.6.1."), new, SearchMode::Kept),
            (rocm("6.1.0"), old, SearchMode::Normal),
            (rocm("6.2"), Nearest::Never, SearchMode::Normal),
            (rocm("7.1"), Nearest::Never, SearchMode::Either),
            (rocm("10.0"), new, SearchMode::Kept),
            (Versions::default(), Nearest::Never, SearchMode::Normal),
        ] {
            assert_eq!((versions.nearest(), versions.search_mode()), (nearest, mode), "{versions:?}");
        }
        let device = |cus| Device { id: "gfx942".to_string(), cus: Some(cus) };
        assert_eq!([1, 80, 81, 228].map(|cus| new.wanted(&device(cus))), [304, 304, 81, 228].map(Some));
        assert_eq!(old.wanted(&device(80)), Some(80));
        assert_eq!(new.wanted(&Device { id: "gfx90a".to_string(), cus: Some(64) }), Some(64));
    }
}
