//! Environment variables that change what MIOpen reads.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use bluefin_common::file_system::FileSystem;

use super::{Places, Report};
use crate::install::{MiopenVersion, SearchMode};

/// The environment of the process that is to use MIOpen.
pub struct Environment<'a> {
    pub get: &'a dyn Fn(&str) -> Option<OsString>,
}

impl Environment<'_> {
    /// A variable that is set to something.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        (self.get)(name).and_then(|value| value.into_string().ok()).filter(|value| !value.is_empty())
    }

    /// The same as a path; a leading `~` is the home.
    #[must_use]
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        path(self.get, name)
    }

    fn is_on(&self, name: &str) -> bool {
        let text = self.text(name).unwrap_or_default().to_ascii_lowercase();
        ["1", "on", "yes", "true", "enable", "enabled"].contains(&text.as_str())
    }
}

fn path(get: &dyn Fn(&str) -> Option<OsString>, name: &str) -> Option<PathBuf> {
    let value = PathBuf::from(get(name).filter(|value| !value.is_empty())?);
    match value.strip_prefix("~") {
        Ok(rest) => Some(PathBuf::from(get("HOME")?).join(rest)),
        Err(_) => Some(value),
    }
}

/// Where MIOpen keeps a user's databases and kernels. `None` without a home.
#[must_use]
pub fn user_folders(
    get: &dyn Fn(&str) -> Option<OsString>,
    version: Option<&MiopenVersion>,
) -> Option<(PathBuf, PathBuf)> {
    let home = || path(get, "HOME");
    let folder = path(get, "MIOPEN_USER_DB_PATH").or_else(|| Some(home()?.join(".config/miopen")))?;
    let below = version.map(ToString::to_string).unwrap_or_default();
    let cache = path(get, "MIOPEN_CUSTOM_CACHE_DIR").or_else(|| Some(home()?.join(".cache/miopen").join(below)))?;
    Some((folder, cache))
}

/// Tells what the variables do to databases that are installed.
pub(super) fn check(environment: &Environment<'_>, shipped: &Path, places: &Places, report: &mut Report) {
    if let Some(folder) = environment.path("MIOPEN_SYSTEM_DB_PATH") {
        if !folder.is_dir() {
            report.finding(
                "MIOPEN_SYSTEM_DB_PATH",
                format!("{}: not a folder; MIOpen has no system databases", folder.display()),
            );
        } else if folder != shipped {
            let text = format!("{} stands for all of {}, which is not read", folder.display(), shipped.display());
            report.note("MIOPEN_SYSTEM_DB_PATH", text);
        }
    } else if !places.system.is_dir() {
        report.finding(places.system.display(), "not there: MIOpen has no system databases");
    }
    match (environment.path("MIOPEN_USER_DB_PATH"), &places.user) {
        (Some(folder), _) => report.note("MIOPEN_USER_DB_PATH", format!("user databases are in {}", folder.display())),
        (None, Some((folder, _))) if FileSystem::of(folder).is_network_to_miopen() => {
            let text = "is on a network: MIOpen keeps the user's databases in the folder of temporary files instead, and loses \
                them with it; set MIOPEN_USER_DB_PATH";
            report.finding(folder.display(), text);
        }
        (None, Some(_)) => {}
        (None, None) => report.finding("HOME", "not set, and neither is MIOPEN_USER_DB_PATH: no user databases"),
    }
    if let Some(folder) = environment.path("MIOPEN_CUSTOM_CACHE_DIR") {
        report.note("MIOPEN_CUSTOM_CACHE_DIR", format!("user kernels are in {}", folder.display()));
    }
    let text = |name| environment.text(name);
    if let Some(mode) = text("MIOPEN_FIND_MODE")
        && ["1", "NORMAL"].contains(&mode.to_ascii_uppercase().as_str())
    {
        let text = format!(
            "is {mode} (NORMAL), which never reads the system find db; unset it, or set 2 (FAST) or 3 (HYBRID)"
        );
        report.finding("MIOPEN_FIND_MODE", text);
    }
    if let Some(enforce) = text("MIOPEN_FIND_ENFORCE")
        && !["1", "NONE"].contains(&enforce.to_ascii_uppercase().as_str())
    {
        check_enforce(&enforce, places.versions.search_mode(), report);
    }
    for (name, effect) in [
        ("MIOPEN_DEBUG_DISABLE_FIND_DB", "no find db is read"),
        ("MIOPEN_DISABLE_CACHE", "no kernel db is read: every kernel is compiled"),
    ] {
        if environment.is_on(name) {
            report.finding(name, format!("is set: {effect}"));
        }
    }
    for (name, effect) in [
        ("MIOPEN_DEVICE_ARCH", "stands for the device's architecture, and find evaluates nothing"),
        ("MIOPEN_DEBUG_ENFORCE_DEVICE", "stands for the device's name, and databases are looked for by it"),
        ("MIOPEN_DEBUG_FIND_ONLY_SOLVER", "is the only solver that find may take"),
        ("MIOPEN_DEBUG_PERFDB_OVERRIDE", "stands for what the perf db says, in builds that read it from SQLite"),
    ] {
        if let Some(value) = text(name) {
            report.finding(name, format!("is {value:?}: it {effect}"));
        }
    }
}

/// What `MIOPEN_FIND_ENFORCE` does that is not 1, by version.
fn check_enforce(value: &str, mode: SearchMode, report: &mut Report) {
    const NAME: &str = "MIOPEN_FIND_ENFORCE";
    let forced = "forces the NORMAL find mode, which never reads the system find db, and tunes or deletes; unset it to use what is \
                  installed";
    let searches = ["3", "SEARCH"].contains(&value.to_ascii_uppercase().as_str());
    match mode {
        SearchMode::Kept if searches => report.note(
            NAME,
            format!("is {value} (SEARCH): the find mode stays as it is, and problems without a record are tuned when they are first met"),
        ),
        SearchMode::Either if searches => report.finding(
            NAME,
            format!("is {value} (SEARCH): builds of MIOpen 3.5.1 differ, and some {}", forced.replacen("forces", "force", 1)),
        ),
        SearchMode::Kept | SearchMode::Either => {
            report.finding(NAME, format!("is {value}: anything but 1 (NONE) and 3 (SEARCH) {forced}"));
        }
        SearchMode::Normal => report.finding(NAME, format!("is {value}: anything but 1 (NONE) {forced}")),
    }
}
