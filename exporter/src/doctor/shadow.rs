//! Databases that MIOpen does not open, or records that it does not find, because others stand in front of them.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use bluefin_miopen::db::find_db::{FindDb, FindEntry};

use super::{Expected, Places, Report};
use crate::db::name::{DbKind, DbName, Device, Form, Keys};
use crate::install::combine::contents;
use crate::install::{Nearest, replaced};

/// Looks for what stands in front of what on `device`.
pub(super) fn check(device: &Device, places: &Places, report: &mut Report) {
    check_arch(device, places, report);
    check_near(device, places, report);
    for keys in Keys::ALL {
        check_finds(device, keys, report);
        check_rows(device, DbKind::Perf, keys, report);
    }
    check_rows(device, DbKind::Kernel, Keys::Convolutions, report);
}

/// A kernel db of a device hides that of its architecture.
fn check_arch(device: &Device, places: &Places, report: &mut Report) {
    let name = format!("{}.kdb", device.base_name());
    let (own, all) = (places.system.join(&name), places.system.join(format!("{}.kdb", device.id)));
    if !own.is_file() || !all.is_file() || own == all {
        return;
    }
    let lost =
        lost(&all, &own).map_or_else(String::new, |(lost, of)| format!("; {lost} of its {of} kernels are not there"));
    report.finding(all.display(), format!("not used: {name} stands for it, for {device}{lost}"));
}

/// Where MIOpen has a database for exactly the device, it does not take the nearest one.
fn check_near(device: &Device, places: &Places, report: &mut Report) {
    for (kind, form) in [(DbKind::Find, Form::Text), (DbKind::Perf, places.perf_form())] {
        let is_it = |one: &&Expected| one.kind == kind && one.keys == Keys::Convolutions && !one.user;
        let own = report.expected.iter().filter(is_it).find(|one| one.records.is_some());
        let (Some(own), Some(near)) = (own.map(|one| one.path.clone()), places.nearest(device, kind, form)) else {
            continue;
        };
        // From 3.6 on files of other devices lie beside it in every installation; one that is respelled is no device's own.
        let respelled =
            near.file_name().and_then(|name| DbName::parse(name.to_str()?)).is_some_and(|name| name.respelled);
        if !respelled && places.versions.nearest() == (Nearest::Taken { redirected: true }) {
            continue;
        }
        if let Some((lost, of)) = lost(&near, &own).filter(|(lost, _)| *lost > 0) {
            let name = own.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let text = format!("{name} stands for it, for {device}; {lost} of its {of} records are not there");
            report.note(near.display(), text);
        }
    }
}

/// Files that an installation put in the place of others, less what came along.
pub(super) fn check_replaced(folder: &Path, report: &mut Report) {
    for replaced in replaced(folder).unwrap_or_default() {
        if let Some((lost, of)) = lost(&replaced.old, &replaced.path).filter(|(lost, _)| *lost > 0) {
            let text = format!(
                "{lost} of the {of} records that were here before installation {} are gone; bluefin install --undo brings them back",
                replaced.step
            );
            report.finding(replaced.path.display(), text);
        }
    }
}

/// How many records of how many in the database at `before` are not in the one at `after`.
fn lost(before: &Path, after: &Path) -> Option<(usize, usize)> {
    let (before, after) = (contents(before).ok()?, contents(after).ok()?);
    Some((before.keys().filter(|key| !after.contains_key(*key)).count(), before.len()))
}

/// The user's and the system's database of a kind, if both can be read.
fn pair(device: &Device, kind: DbKind, keys: Keys, report: &Report) -> Option<(PathBuf, PathBuf)> {
    let of = device.to_string();
    let path = |user: bool| {
        let is_it = |one: &&Expected| (one.kind, one.keys, one.user) == (kind, keys, user) && one.device == of;
        let found = report.expected.iter().find(is_it);
        found.filter(|one| one.records.is_some()).map(|one| one.path.clone())
    };
    Some((path(true)?, path(false)?))
}

/// Params and kernels of a user stand for the system's of the same key and solver, name and options.
fn check_rows(device: &Device, kind: DbKind, keys: Keys, report: &mut Report) {
    let Some((user_path, system_path)) = pair(device, kind, keys, report) else { return };
    let (Ok(user), Ok(system)) = (contents(&user_path), contents(&system_path)) else { return };
    let hidden = user.iter().filter(|(key, said)| system.get(*key).is_some_and(|other| other != *said)).count();
    if hidden > 0 {
        let what = if kind == DbKind::Perf { "params" } else { "kernels" };
        report.finding(user_path.display(), format!("hides {hidden} rows of the system's, which have other {what}"));
    }
}

/// A find record of a user hides the system's, better or worse.
fn check_finds(device: &Device, keys: Keys, report: &mut Report) {
    let Some((user_path, system_path)) = pair(device, DbKind::Find, keys, report) else { return };
    let read = |path: PathBuf| {
        let mut text = Vec::new();
        File::open(&path).and_then(|mut file| file.read_to_end(&mut text)).ok()?;
        FindDb::parse(&path.display().to_string(), &text).ok()
    };
    let (Some(user), Some(system)) = (read(user_path.clone()), read(system_path)) else { return };
    let best = |entries: &[FindEntry]| {
        entries.iter().map(|entry| entry.time_ms).filter(|time| *time > 0.0).min_by(f32::total_cmp)
    };
    let (mut hidden, mut slower) = (0_u64, 0_u64);
    for (key, entries) in &user.records {
        let Some(shipped) = system.records.get(key) else { continue };
        hidden += 1;
        slower += u64::from(best(entries).zip(best(shipped)).is_some_and(|(user, system)| user > system));
    }
    if hidden > 0 {
        let text = format!(
            "hides {hidden} records of the system's, {slower} of which have a faster solver: find records of both are not merged"
        );
        report.finding(user_path.display(), text);
    }
}
