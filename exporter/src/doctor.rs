//! Which databases MIOpen will look for here, what is there, and why something that is there is not used.
//!
//! The rules are those of MIOpen 3.3: src/db_path.cpp.in, src/find_db.cpp, src/binary_cache.cpp, src/find_controls.cpp and
//! src/include/miopen/{handle,execution_context}.hpp.

mod environment;
mod files;
mod machine;
mod shadow;

pub use environment::{Environment, user_folders};
pub use machine::devices;

use std::path::PathBuf;

use bluefin_common::target::Target;
use serde::Serialize;

use crate::db::name::{DbKind, Device, Form, Keys};
use crate::install::combine::nearest;
use crate::install::{InstallPlace, Nearest, PerfForm, Versions, names, system_folder, unfinished};

/// What to examine.
pub struct Request<'a> {
    /// Where ROCm is.
    pub prefix: PathBuf,
    /// Instead of what the prefix says.
    pub versions: Versions,
    /// Instead of the devices of this machine.
    pub target: Option<Target>,
    /// Where the kernel tells of its devices: [`bluefin_common::kfd::topology`].
    pub topology: PathBuf,
    pub environment: Environment<'a>,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// As it should be, and worth knowing.
    Note,
    /// Something that is there is not used, or something that is to be there is missing.
    Finding,
}

/// One thing to be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Told {
    pub severity: Severity,
    /// The file, folder or variable.
    pub subject: String,
    pub text: String,
}

/// A database that MIOpen will look for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Expected {
    pub device: String,
    pub kind: DbKind,
    pub keys: Keys,
    pub user: bool,
    pub path: PathBuf,
    /// Bytes; `None` if it is not there.
    pub bytes: Option<u64>,
    /// Keys or rows; `None` if it is not there or can not be read.
    pub records: Option<u64>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub rocm: Option<String>,
    pub miopen: Option<String>,
    pub devices: Vec<String>,
    pub system_folder: PathBuf,
    pub user_folder: Option<PathBuf>,
    pub cache_folder: Option<PathBuf>,
    pub expected: Vec<Expected>,
    pub told: Vec<Told>,
}

impl Report {
    /// Whether there is more than notes.
    #[must_use]
    pub fn has_findings(&self) -> bool {
        self.told.iter().any(|told| told.severity == Severity::Finding)
    }

    pub fn note(&mut self, subject: impl ToString, text: impl Into<String>) {
        self.told.push(Told { severity: Severity::Note, subject: subject.to_string(), text: text.into() });
    }

    pub fn finding(&mut self, subject: impl ToString, text: impl Into<String>) {
        self.told.push(Told { severity: Severity::Finding, subject: subject.to_string(), text: text.into() });
    }
}

/// Where MIOpen looks.
struct Places {
    system: PathBuf,
    user: Option<(PathBuf, PathBuf)>,
    form: PerfForm,
    versions: Versions,
}

impl Places {
    /// How the perf db is written.
    fn perf_form(&self) -> Form {
        match self.form {
            PerfForm::Sqlite => Form::Sqlite,
            PerfForm::Text => Form::Text,
        }
    }

    /// The file that MIOpen opens for `device`, which has none of its exact name.
    fn nearest(&self, device: &Device, kind: DbKind, form: Form) -> Option<PathBuf> {
        let rule = self.versions.nearest();
        matches!(rule, Nearest::Taken { .. }).then(|| nearest(&self.system, device, kind, form, rule)).flatten()
    }
}

/// Examines this machine. Writes nothing.
#[must_use]
pub fn examine(request: &Request<'_>) -> Report {
    let mut report = Report::default();
    let versions = versions(request, &mut report);
    let form = match versions.perf_form() {
        Ok(Some(form)) => form,
        Ok(None) => PerfForm::Text,
        Err(reason) => {
            report.finding(request.prefix.display(), reason);
            return report;
        }
    };
    let environment = &request.environment;
    let shipped = system_folder(&request.prefix);
    let system = environment.path("MIOPEN_SYSTEM_DB_PATH").unwrap_or_else(|| shipped.clone());
    let user = user_folders(environment.get, versions.miopen.as_ref());
    let places = Places { system, user, form, versions };
    report.system_folder.clone_from(&places.system);
    report.user_folder = places.user.as_ref().map(|(folder, _)| folder.clone());
    report.cache_folder = places.user.as_ref().map(|(_, cache)| cache.clone());
    environment::check(environment, &shipped, &places, &mut report);

    let devices = found_devices(request, &mut report);
    for device in &devices {
        report.devices.push(device.to_string());
        check_device(device, &places, &mut report);
    }
    if devices.len() > 1 {
        report.finding(
            "devices",
            "several kinds in one machine: a process takes the databases of the first one it meets for all; make only one \
             kind visible to each process",
        );
    }
    let folders = [Some(places.system.clone()), report.user_folder.clone(), report.cache_folder.clone()];
    for folder in folders.into_iter().flatten() {
        shadow::check_replaced(&folder, &mut report);
        for step in unfinished(&folder).unwrap_or_default() {
            let text =
                format!("installation {} was interrupted; the next bluefin install or --undo finishes it", step.step);
            report.finding(folder.display(), text);
        }
    }
    report
}

fn versions(request: &Request<'_>, report: &mut Report) -> Versions {
    let detected = Versions::detect(&request.prefix);
    let prefix = request.prefix.display();
    let versions = if request.versions == Versions::default() { detected } else { request.versions.clone() };
    if !request.prefix.is_dir() {
        report.finding(prefix, "not there: ROCm is expected here; name another place with --prefix");
    } else if versions == Versions::default() {
        let text = "neither .info/version nor include/miopen/version.h tells a version; MIOpen 3.2 to 3.5 is assumed";
        report.finding(prefix, text);
    }
    report.rocm = versions.rocm.map(|version| version.to_string());
    report.miopen = versions.miopen.as_ref().map(ToString::to_string);
    versions
}

fn found_devices(request: &Request<'_>, report: &mut Report) -> Vec<Device> {
    if let Some(target) = &request.target {
        return vec![Device::of(target)];
    }
    let mut found = devices(&request.topology);
    if found.is_empty() {
        let text = "no AMD GPU: name what the databases are for with --target";
        report.finding(request.topology.display(), text);
    }
    if let Some(arch) = request.environment.text("MIOPEN_DEVICE_ARCH") {
        for device in &mut found {
            device.id = arch.split(':').next().unwrap_or(&arch).to_string();
        }
    }
    found
}

fn check_device(device: &Device, places: &Places, report: &mut Report) {
    let system = InstallPlace::System { folder: places.system.clone() };
    // Those of batch norms and fusions are rarely there, and nothing ships them.
    let looked_for = |place: &InstallPlace| {
        let mut names = names(device, place, places.form);
        names.retain(|wanted| wanted.keys == Keys::Convolutions || wanted.path.is_file());
        names
    };
    let mut expected = looked_for(&system);
    // What is written for other builds as well is not what this one reads.
    let form = places.perf_form();
    expected.retain(|wanted| wanted.kind != DbKind::Perf || wanted.form == form);
    for wanted in expected {
        files::check_expected(device, wanted, places, false, report);
    }
    let known = places.user.clone().zip(places.versions.miopen.clone());
    if let Some(((folder, cache), version)) = known {
        let user = InstallPlace::User { folder, cache, version };
        for wanted in looked_for(&user) {
            files::check_expected(device, wanted, places, true, report);
        }
    } else {
        let text = "the names of users' databases hold MIOpen's whole version, which is not known: not examined";
        report.note("user databases", text);
    }
    files::check_others(device, places, report);
    shadow::check(device, places, report);
}
