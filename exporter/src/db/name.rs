//! File names: what MIOpen takes a file for, and whether it looks for it at all (MIOpen 3.3, src/find_db.cpp,
//! src/include/miopen/{handle,execution_context}.hpp, src/binary_cache.cpp).

use std::fmt;
use std::path::PathBuf;

use bluefin_common::arch::{self, Vendor};
use bluefin_common::target::{Target, db_basename};
use serde::Serialize;

/// What a database holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DbKind {
    Find,
    Perf,
    Kernel,
}

impl fmt::Display for DbKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Find => "find db",
            Self::Perf => "perf db",
            Self::Kernel => "kernel db",
        })
    }
}

/// Of what its keys are. Kernel dbs hold those of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Keys {
    Convolutions,
    /// In perf dbs of their own.
    BatchNorms,
    /// Plans, in find dbs of their own; their params are in the perf db of convolutions.
    Fusions,
}

impl Keys {
    pub const ALL: [Self; 3] = [Self::Convolutions, Self::BatchNorms, Self::Fusions];

    /// What stands behind the kind of a database; nothing for convolutions.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Convolutions => "",
            Self::BatchNorms => " of batch norms",
            Self::Fusions => " of fusions",
        }
    }
}

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    Text,
    Sqlite,
}

/// What a file's ending says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    pub kind: DbKind,
    pub form: Form,
    /// Written by MIOpen for its user, not shipped.
    pub user: bool,
    text: &'static str,
    /// Of releases up to 4.3; nothing looks for it any more.
    old: bool,
}

const ENDINGS: [Ending; 10] = [
    ending(".ufdb.txt", DbKind::Find, Form::Text, true, false),
    ending(".fdb.txt", DbKind::Find, Form::Text, false, false),
    ending(".udb.txt", DbKind::Perf, Form::Text, true, false),
    ending(".db.txt", DbKind::Perf, Form::Text, false, false),
    ending(".cd.updb.txt", DbKind::Perf, Form::Text, true, true),
    ending(".cd.pdb.txt", DbKind::Perf, Form::Text, false, true),
    ending(".ukdb", DbKind::Kernel, Form::Sqlite, true, false),
    ending(".kdb", DbKind::Kernel, Form::Sqlite, false, false),
    ending(".udb", DbKind::Perf, Form::Sqlite, true, false),
    ending(".db", DbKind::Perf, Form::Sqlite, false, false),
];

const fn ending(text: &'static str, kind: DbKind, form: Form, user: bool, old: bool) -> Ending {
    Ending { kind, form, user, text, old }
}

impl Ending {
    /// The ending of a file name, less `.bz2`. `None` if no database of MIOpen's ends like that.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let name = unpacked(name);
        ENDINGS.into_iter().find(|ending| name.ends_with(ending.text))
    }
}

/// The name that the file has when it is unpacked.
#[must_use]
pub fn unpacked(name: &str) -> &str {
    name.strip_suffix(".bz2").unwrap_or(name)
}

/// Whose databases a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Architecture and, for a few, a feature: `gfx90a`, `gfx90a_xnack`; `host` and `sm_90` are bluefin's own.
    pub id: String,
    /// `None` in the name of a kernel db for all of an architecture.
    pub cus: Option<u32>,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id)?;
        self.cus.map_or(Ok(()), |cus| write!(f, "-{cus}"))
    }
}

impl Device {
    /// The device that code for `target` runs on, without any feature.
    #[must_use]
    pub fn of(target: &Target) -> Self {
        Self { id: target.arch().to_string(), cus: Some(target.cus()) }
    }

    /// The first that the name of one of `files` tells, with its compute units.
    #[must_use]
    pub fn named_by(files: &[PathBuf]) -> Option<Self> {
        files
            .iter()
            .find_map(|file| DbName::parse(file.file_name()?.to_str()?)?.device.filter(|device| device.cus.is_some()))
    }

    /// What the names of its databases begin with.
    #[must_use]
    pub fn base_name(&self) -> String {
        self.cus.map_or_else(|| self.id.clone(), |cus| db_basename(&self.id, cus))
    }

    /// The architecture as compilers name it.
    #[must_use]
    pub fn arch(&self) -> &str {
        if self.is_miopens() { self.id.split('_').next().unwrap_or(&self.id) } else { &self.id }
    }

    /// Whether MIOpen runs on it.
    #[must_use]
    pub fn is_miopens(&self) -> bool {
        arch::vendor(&self.id) == Some(Vendor::Amd)
    }

    /// Why MIOpen does not look for `base`, if that is another spelling of the device.
    fn other_spelling(&self, base: &str) -> Option<String> {
        let (expected, cus) = (self.base_name(), self.cus.unwrap_or_default());
        (base != expected && base != "host")
            .then(|| format!("base {base}, expected {expected} for {cus} compute units"))
    }

    /// Whether databases of both may be used together.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        self.id == other.id && (self.cus.is_none() || other.cus.is_none() || self.cus == other.cus)
    }

    /// Reads a base name: `gfx906_60`, `gfx90a68`, `gfx942130`, `gfx90a_xnack68`, `gfx90a`. Another spelling of it, such as
    /// `gfx115128` for 40 compute units, is what a search for the nearest number of compute units finds.
    fn parse(base: &str) -> Result<Self, String> {
        if base == "host" {
            return Ok(Self { id: base.to_string(), cus: Some(1) });
        }
        let (id, rest) = split_id(base).ok_or_else(|| format!("base {base:?}, expected one such as gfx906_60"))?;
        let cus = |text: &str, radix| u32::from_str_radix(text, radix).ok().filter(|cus| (1..65_536).contains(cus));
        let found = match rest.strip_prefix('_') {
            _ if rest.is_empty() => return Ok(Self { id: id.to_string(), cus: None }),
            Some(decimal) => cus(decimal, 10),
            None => cus(rest, 16),
        };
        let found = found.ok_or_else(|| format!("compute units {rest:?}, expected _ and decimal up to 64, or hex"))?;
        Ok(Self { id: id.to_string(), cus: Some(found) })
    }
}

/// Splits the architecture, and what MIOpen adds to it, off the front.
fn split_id(base: &str) -> Option<(&str, &str)> {
    let digits = arch::end_of_name(base)?;
    let (arch, rest) = base.split_at_checked(digits)?;
    if !arch.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase() || byte == b'_') {
        return None;
    }
    let feature = ["_sramecc", "_nosramecc"].into_iter().find(|feature| rest.starts_with(feature)).unwrap_or_default();
    let after = rest.get(feature.len()..)?;
    let xnack = ["_xnack", "_noxnack"].into_iter().find(|feature| after.starts_with(feature)).unwrap_or_default();
    base.split_at_checked(digits + feature.len() + xnack.len())
}

/// A database's file name, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DbName {
    pub ending: Ending,
    pub device: Option<Device>,
    pub keys: Keys,
    /// Why MIOpen does not look for it.
    pub wrong: Option<String>,
    /// Nothing else is wrong with it than how its number of compute units is spelled: a search for the nearest number sees it.
    pub respelled: bool,
}

impl DbName {
    /// Takes a file name apart, less `.bz2`. `None` if no database of MIOpen's ends like that.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let ending = Ending::of(name)?;
        let stem = unpacked(name).strip_suffix(ending.text)?;
        let (keys, stem) = match (ending.kind, stem.strip_prefix("batchnorm_"), stem.strip_suffix(".fusion")) {
            (DbKind::Perf, Some(rest), _) => (Keys::BatchNorms, rest),
            (DbKind::Find, _, Some(rest)) => (Keys::Fusions, rest),
            _ => (Keys::Convolutions, stem),
        };
        let (base, suffix) = match ending.form {
            Form::Text => stem.split_once('.').map_or((stem, ""), |(base, suffix)| (base, suffix)),
            Form::Sqlite if ending.kind == DbKind::Perf && ending.user => {
                stem.strip_suffix("_1.1.0").map_or((stem, ""), |base| (base, "1.1.0"))
            }
            Form::Sqlite => (stem, ""),
        };
        let (device, wrong, respelled) = match Device::parse(base) {
            Ok(device) => match wrong_suffix(ending, &device, suffix) {
                None => {
                    let spelling = device.other_spelling(base);
                    let respelled = spelling.is_some() && !ending.old;
                    (Some(device), spelling, respelled)
                }
                wrong => (Some(device), wrong, false),
            },
            Err(reason) => (None, Some(reason), false),
        };
        let wrong = if ending.old { Some(format!("{}, which MIOpen after 4.3 has not", ending.text)) } else { wrong };
        Some(Self { ending, device, keys, wrong, respelled })
    }
}

fn wrong_suffix(ending: Ending, device: &Device, suffix: &str) -> Option<String> {
    let backends = ["HIP", "OpenCL", "HIPNOGPU", "HIPOC", "HOST", "CUDA"];
    let (backend, version) = suffix.split_once('.').map_or((suffix, ""), |(backend, version)| (backend, version));
    let numbers = version.split('_').take(3).filter(|part| part.parse::<u32>().is_ok()).count();
    let (fine, expected) = match (ending.kind, ending.form, ending.user) {
        (DbKind::Find, _, false) => (backends.contains(&suffix), "a backend such as .HIP behind the base"),
        (DbKind::Find, ..) | (DbKind::Perf, Form::Text, true) => {
            (backends.contains(&backend) && numbers == 3, "a backend and a version such as .HIP.3_3_0_2d1fd997")
        }
        (DbKind::Perf, Form::Sqlite, true) => (suffix == "1.1.0", "the schema's version _1.1.0 behind the base"),
        (DbKind::Perf | DbKind::Kernel, ..) => (suffix.is_empty(), "nothing behind the base"),
    };
    if !fine {
        return Some(format!("{suffix:?} behind the base, expected {expected}"));
    }
    let whole_arch = ending.kind == DbKind::Kernel && !ending.user;
    (device.cus.is_none() && !whole_arch)
        .then(|| format!("no number of compute units behind {}, expected one such as _60", device.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_miopen_looks_for() {
        for (name, id, cus, user) in [
            ("gfx906_60.HIP.fdb.txt", "gfx906", Some(60), false),
            ("gfx942130.HIP.fusion.fdb.txt", "gfx942", Some(304), false),
            ("gfx90a68.HIP.3_3_0_2d1fd997-dirty.ufdb.txt", "gfx90a", Some(104), true),
            ("gfx90a68.HIP.3_3_0.ufdb.txt", "gfx90a", Some(104), true),
            ("gfx1150_6.HIP.3_3_0_.ufdb.txt", "gfx1150", Some(6), true),
            ("gfx90a_xnack68.OpenCL.fdb.txt", "gfx90a_xnack", Some(104), false),
            ("gfx1030_36.db.txt", "gfx1030", Some(36), false),
            ("gfx103048.db", "gfx1030", Some(72), false),
            ("gfx90878_1.1.0.udb", "gfx908", Some(120), true),
            ("gfx90878.HIP.3_3_0_abc.udb.txt", "gfx908", Some(120), true),
            ("batchnorm_gfx90a6e.db.txt", "gfx90a", Some(110), false),
            ("gfx90a.kdb", "gfx90a", None, false),
            ("gfx90a68.ukdb", "gfx90a", Some(104), true),
            ("gfx906_60.db.bz2", "gfx906", Some(60), false),
            ("host.HOST.fdb.txt", "host", Some(1), false),
            ("sm_9084.CUDA.fdb.txt", "sm_90", Some(132), false),
            ("sm_90_10.db", "sm_90", Some(10), false),
        ] {
            let parsed = DbName::parse(name).unwrap();
            let device = parsed.device.unwrap();
            assert_eq!((device.id.as_str(), device.cus, parsed.ending.user), (id, cus, user), "{name}");
            assert_eq!(parsed.wrong, None, "{name}");
        }
        assert_eq!(DbName::parse("gfx90a_xnack68.kdb").unwrap().device.unwrap().arch(), "gfx90a");
    }

    #[test]
    fn names_that_it_does_not_look_for() {
        for (name, reason) in [
            ("gfx942_304.HIP.fdb.txt", "base gfx942_304, expected gfx942130"),
            ("gfx9063c.HIP.fdb.txt", "base gfx9063c, expected gfx906_60"),
            ("gfx90A68.db", "base \"gfx90A68\""),
            ("usr_gfx90a68.HIP.fdb.txt", "base \"usr_gfx90a68\""),
            ("gfx906_60.fdb.txt", "expected a backend"),
            ("gfx906_60.HIP.ufdb.txt", "expected a backend and a version"),
            ("gfx906_60.HIP.db.txt", "expected nothing behind the base"),
            ("gfx906_60.udb", "expected the schema's version"),
            ("gfx906.db", "no number of compute units"),
            ("gfx906.ukdb", "no number of compute units"),
            ("miopen.db", "base \"miopen\""),
            ("gfx906_60.cd.pdb.txt", "which MIOpen after 4.3 has not"),
            ("gfx906_x.db", "compute units \"_x\""),
        ] {
            let wrong = DbName::parse(name).unwrap().wrong.unwrap_or_default();
            assert!(wrong.contains(reason), "{name}: {wrong}");
        }
        let other = DbName::parse("gfx115128.HIP.fdb.txt").unwrap();
        assert_eq!(other.device.unwrap().to_string(), "gfx1151-40");
        assert!(other.respelled);
        assert_eq!(other.wrong.unwrap(), "base gfx115128, expected gfx1151_40 for 40 compute units");
        assert!(DbName::parse("notes.txt").is_none());
    }
}
