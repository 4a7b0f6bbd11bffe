//! The files that are there.

use std::fs::File;
use std::path::{Path, PathBuf};

use bluefin_miopen::db::kernel_db::KernelReader;
use bluefin_miopen::db::{Findings, ReadError};

use super::{Expected, Places, Report};
use crate::db::Source;
use crate::db::name::{DbKind, DbName, Device, Form, Keys};
use crate::install::{MIN_SQLITE, Nearest, PerfForm, Wanted};

/// Kernels of a database that are unpacked, evenly spread: all would be gigabytes.
const KERNELS: u64 = 256;

/// Looks at a file that MIOpen will look for.
pub(super) fn check_expected(device: &Device, wanted: Wanted, places: &Places, user: bool, report: &mut Report) {
    let Wanted { kind, keys, path, form } = wanted;
    let mut expected = Expected { device: device.to_string(), kind, keys, user, path, bytes: None, records: None };
    let path = expected.path.clone();
    match File::open(&path).and_then(|file| file.metadata()) {
        Ok(data) => {
            expected.bytes = Some(data.len());
            expected.records = check_content(&path, user, data.len(), report);
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => match (kind, user) {
            (_, true) => {}
            (DbKind::Kernel, _) => check_arch_kernels(device, &path, report),
            _ if keys == Keys::Convolutions
                && let Some(near) = places.nearest(device, kind, form) =>
            {
                let text =
                    format!("not there: MIOpen takes {}, as the nearest number of compute units", near.display());
                report.note(path.display(), text);
                if let Ok(data) = near.metadata() {
                    check_content(&near, false, data.len(), report);
                }
            }
            _ => report.finding(path.display(), format!("not there: MIOpen has no system {kind} for {device}")),
        },
        Err(error) => report.finding(path.display(), format!("can not be read: {error}")),
    }
    report.expected.push(expected);
}

/// Without a kernel db of its own a device has that of its architecture.
fn check_arch_kernels(device: &Device, path: &Path, report: &mut Report) {
    let all = path.with_file_name(format!("{}.kdb", device.id));
    let text = if all.is_file() {
        format!("not there: MIOpen takes {}", all.display())
    } else {
        "not there: MIOpen compiles every kernel at its first use".to_string()
    };
    report.note(path.display(), text);
}

/// Reads a file as MIOpen does. Returns its number of records.
fn check_content(path: &Path, user: bool, bytes: u64, report: &mut Report) -> Option<u64> {
    if bytes == 0 {
        report.finding(path.display(), "is empty");
        return None;
    }
    let source = match Source::open(path, &|_| {}) {
        Ok(source) => source,
        Err(error) => {
            report.finding(path.display(), format!("can not be read: {error}"));
            return None;
        }
    };
    if source.packed {
        report.finding(path.display(), "is packed by bzip2, which MIOpen does not unpack");
        return None;
    }
    let ending = source.name.as_ref().map(|name| name.ending);
    if let Some(ending) = ending.filter(|ending| ending.form != source.content.form) {
        report.finding(path.display(), format!("holds {:?}, but its name says {:?}", source.content.form, ending.form));
        return None;
    }
    if source.content.form == Form::Sqlite {
        if !user && bytes < MIN_SQLITE {
            report.finding(
                path.display(),
                format!("has {bytes} bytes: MIOpen refuses a database of less than {MIN_SQLITE}"),
            );
        }
        let log = source.has_write_ahead_log().unwrap_or(false);
        if log && !user && path.parent().is_some_and(|folder| !is_writable(folder)) {
            let text = "has a write-ahead log and its folder is not writable here: MIOpen may fail to open it; turn the log off \
                with sqlite3 FILE 'PRAGMA journal_mode=DELETE'";
            report.finding(path.display(), text);
        }
    }
    let read = match source.content.kind {
        DbKind::Find => source.find_db().map(|db| (db.records.len() as u64, db.findings)),
        DbKind::Perf if source.keys() == Keys::BatchNorms => {
            source.norm_db(|_, _, _, _| {}).map(|db| (db.rows(), db.findings))
        }
        DbKind::Perf => source.perf_db(|_| {}).map(|db| (db.rows(), db.findings)),
        DbKind::Kernel => match kernels(source.local()) {
            Ok((rows, damaged)) => {
                damaged.into_iter().for_each(|text| report.finding(path.display(), text));
                Ok((rows, Findings::default()))
            }
            Err(error) => Err(error.into()),
        },
    };
    match read {
        Ok((records, findings)) => {
            if records == 0 {
                report.finding(path.display(), "holds no record");
            }
            if let Some(first) = findings.kept.first() {
                let text = format!("{} findings, such as {first}; bluefin db check tells all", findings.total);
                report.note(path.display(), text);
            }
            Some(records)
        }
        Err(error) => {
            report.finding(path.display(), format!("can not be read: {error}"));
            None
        }
    }
}

/// How many kernels a database has, and what is to be said of those that were looked at.
fn kernels(path: &Path) -> Result<(u64, Option<String>), ReadError> {
    let reader = KernelReader::open(path)?;
    reader.check_whole()?;
    let (count, mut at, mut heads) = (reader.count()?, 0, Vec::new());
    let step = count.div_ceil(KERNELS).max(1);
    reader.heads(|head| {
        if at % step == 0 {
            heads.push(head);
        }
        at += 1;
    })?;
    let (looked, mut damaged) = (heads.len(), Vec::new());
    for head in heads {
        damaged.extend(reader.row(head)?.code().err());
    }
    let text = damaged.first().map(|first| {
        let count = damaged.len();
        format!(
            "{count} of {looked} kernels that were looked at are damaged, such as {first}; bluefin db check tells all"
        )
    });
    Ok((count, text))
}

/// Whether this process may make files in `folder`.
fn is_writable(folder: &Path) -> bool {
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Looks at files beside those that MIOpen will look for: those that somebody may take for used.
pub(super) fn check_others(device: &Device, places: &Places, report: &mut Report) {
    let user = places.user.as_ref().map(|(folder, _)| folder.as_path());
    let cache = places.user.as_ref().map(|(_, cache)| cache.as_path());
    let mut folders: Vec<&Path> = vec![&places.system];
    folders.extend(user.into_iter().chain(cache));
    folders.dedup();
    for folder in folders {
        let Ok(entries) = folder.read_dir() else { continue };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if report.expected.iter().any(|expected| expected.path == path) {
                continue;
            }
            if let Some(parsed) = DbName::parse(name)
                && let Some(reason) = unused(device, places, name, &parsed, &path, report)
            {
                report.finding(path.display(), format!("not used: {reason}"));
            }
        }
    }
}

/// Why MIOpen does not read a file that somebody may have meant for `device`. `None`: it was not meant for it, or is read.
fn unused(
    device: &Device,
    places: &Places,
    name: &str,
    parsed: &DbName,
    path: &Path,
    report: &Report,
) -> Option<String> {
    let ending = parsed.ending;
    if name.ends_with(".bz2") {
        let ours = parsed.device.as_ref().is_some_and(|found| found.matches(device));
        return ours.then(|| "is packed by bzip2, which MIOpen does not unpack".to_string());
    }
    if parsed.respelled
        && let Some(found) = parsed.device.as_ref().filter(|found| found.id == device.id && found.cus != device.cus)
        && !ending.user
    {
        return other_cus(device, found, places, ending.form, false);
    }
    if let Some(wrong) = &parsed.wrong {
        if places.nearest(device, ending.kind, ending.form).as_deref() == Some(path) {
            return None;
        }
        // Of another architecture it is none of this device's business.
        let arch = device.arch();
        let near = parsed.device.as_ref().map_or(name.contains(arch), |found| found.arch() == arch);
        return near.then(|| wrong.clone());
    }
    let found = parsed.device.as_ref().filter(|found| found.arch() == device.arch())?;
    if ending.user && path.parent() == Some(places.system.as_path()) {
        return Some("a user's database in the folder of the system's".to_string());
    }
    if !ending.user && path.parent() != Some(places.system.as_path()) {
        return Some("a system database in a folder of the user's".to_string());
    }
    if parsed.keys == Keys::BatchNorms && (ending.form == Form::Sqlite || places.form == PerfForm::Sqlite) {
        return Some("batch norms, of which MIOpen reads perf dbs as text alone, from 3.2 (ROCm 6.2) on".to_string());
    }
    let exact = |kind: DbKind| {
        let is_it = |one: &&Expected| (one.kind, one.keys, one.user) == (kind, parsed.keys, ending.user);
        report.expected.iter().filter(is_it).any(|one| one.bytes.is_some())
    };
    if found.id != device.id {
        return (!exact(ending.kind)).then(|| format!("is for {found}, and this is {device}"));
    }
    if found.cus.is_some() && found.cus != device.cus {
        return other_cus(device, found, places, ending.form, exact(ending.kind));
    }
    found.cus?;
    if ending.kind == DbKind::Perf && parsed.keys == Keys::Convolutions {
        let reads = places.perf_form();
        if ending.form != reads {
            // Both beside each other is how bluefin installs them.
            return (!exact(DbKind::Perf)).then(|| match reads {
                Form::Text => {
                    "SQLite, which MIOpen from 3.2 (ROCm 6.2) on does not read unless it is built to: it wants the \
                    text; bluefin db convert makes it"
                        .to_string()
                }
                Form::Sqlite => {
                    "text, which MIOpen before 3.2 (ROCm 6.2) does not read: it wants SQLite; bluefin db convert \
                    makes it"
                        .to_string()
                }
            });
        }
    }
    if name.contains(".OpenCL.") || name.contains(".HIPNOGPU.") {
        return None;
    }
    ending.user.then(|| "written by another build of MIOpen: users' databases are of one build alone".to_string())
}

/// The search for the nearest number of compute units.
fn other_cus(device: &Device, found: &Device, places: &Places, form: Form, exact: bool) -> Option<String> {
    if exact {
        return None;
    }
    match (places.versions.nearest(), form) {
        (Nearest::Never, Form::Text) => Some(format!(
            "is for {found}: MIOpen 3.2 to 3.5 mean to take the nearest number of compute units where {device} has no \
             file, but compare endings so that no text ever matches; the exact name is {}",
            device.base_name()
        )),
        _ => None,
    }
}
