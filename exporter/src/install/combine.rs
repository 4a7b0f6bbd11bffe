//! What is installed beside what MIOpen opens already: record by record, so that nothing that was found is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::{Path, PathBuf};

use bluefin_common::digest::Digest;
use bluefin_common::files::FileError;
use bluefin_miopen::db::find_db::FindDb;
use bluefin_miopen::db::kernel_db::KernelReader;
use bluefin_miopen::db::perf_db::Records;
use serde::Serialize;

use super::{InstallError, InstallPlace, Item, Nearest, PerfForm, Wanted};
use crate::db::name::{DbKind, DbName, Device, Form, Keys};
use crate::db::{DbError, Destination, MergeRequest, Policy, Source, merge};

/// What becomes of the records that are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combine {
    /// Of each key and solver the faster entry, and the params that belong to it; the given params and kernels where no time tells.
    #[default]
    Best,
    /// By one policy.
    By(Policy),
    /// None stays: the files that are given stand for those that are there.
    Replace,
}

impl Combine {
    /// How databases of `kind` are merged. Perf dbs hold no times: `timed` says whether there are some for the given one.
    fn policy(self, kind: DbKind, timed: bool) -> Policy {
        let asked = if let Self::By(policy) = self { policy } else { Policy::Fastest };
        match (kind, asked) {
            (DbKind::Kernel, Policy::Fastest) => Policy::Newest,
            (DbKind::Perf, Policy::Fastest) if !timed => Policy::Newest,
            _ => asked,
        }
    }
}

/// What came of merging: keys of a find db, rows of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Merged {
    /// That were there.
    pub before: u64,
    /// That were not there.
    pub new: u64,
    /// That say something else now.
    pub changed: u64,
    /// That are there no longer: only as a policy says.
    pub gone: u64,
}

/// Where a given database goes, before it is known what is there.
pub(super) struct Given<'a> {
    pub wanted: Wanted,
    /// Its content in that form.
    pub source: PathBuf,
    /// Of a perf db of convolutions: the find db that is installed with it.
    pub find: Option<&'a Path>,
}

/// What combining needs to know.
pub(super) struct Combiner<'a> {
    pub combine: Combine,
    pub device: &'a Device,
    pub place: &'a InstallPlace,
    /// The folder of the system databases, of whose find records a user's would hide those of the same keys.
    pub system: Option<&'a Path>,
    /// How the MIOpen that is there reads its perf db.
    pub form: PerfForm,
    /// What it takes where a device has no file of its exact name.
    pub nearest: Nearest,
    /// Where files may be made.
    pub copies: &'a Path,
}

impl Combiner<'_> {
    /// The file that is to be put in place.
    pub(super) fn item(&self, given: Given<'_>, warnings: &mut Vec<String>) -> Result<Item, InstallError> {
        if self.combine == Combine::Replace {
            self.tell_replaced(&given, warnings)?;
            return item(&given.wanted.path, given.source, None, None);
        }
        let path = match self.shadowed(&given) {
            // Kernels are found by name and options, whatever the number of compute units.
            Some(arch) if given.wanted.kind == DbKind::Kernel => arch,
            Some(near) => return Err(self.refuse_shadow(&given, &near)),
            None => given.wanted.path.clone(),
        };
        let present = path.try_exists().map_err(FileError::at(&path))?;
        let hidden = self.hidden(&given)?;
        if !present && hidden.is_none() {
            return item(&path, given.source, None, None);
        }
        let mut files: Vec<PathBuf> = hidden.into_iter().collect();
        files.extend(present.then(|| path.clone()));
        files.push(given.source.clone());
        self.merged(&given, &path, files, present, warnings)
    }

    fn merged(
        &self,
        given: &Given<'_>,
        path: &Path,
        files: Vec<PathBuf>,
        present: bool,
        warnings: &mut Vec<String>,
    ) -> Result<Item, InstallError> {
        let digest = if present { Some(Digest::of_file(path).map_err(FileError::at(path))?) } else { None };
        let policy = self.combine.policy(given.wanted.kind, given.find.is_some());
        let times = match given.find {
            Some(find) if policy == Policy::Fastest => vec![self.times_of_present()?, find.to_path_buf()],
            _ => Vec::new(),
        };
        let folder = tempfile::tempdir_in(self.copies).map_err(FileError::at(self.copies))?.keep();
        let out = folder.join(path.file_name().unwrap_or_default());
        let report = merge(&MergeRequest { policy, files, times, out: out.clone() }, &|_| {}).map_err(unusable)?;
        warnings.extend(report.left_out.told.iter().map(|told| format!("left out: {told}")));
        let after = contents(&out)?;
        let before = if present { contents(path)? } else { BTreeMap::new() };
        let merged = compare(&before, &after);
        // What changes nothing leaves the file as it is, to the byte.
        let unchanged = present && (merged.new, merged.changed, merged.gone) == (0, 0, 0);
        item(path, if unchanged { path.to_path_buf() } else { out }, digest, Some(merged))
    }

    /// The find db with the times of the perf db that is there; an empty one if there is none.
    fn times_of_present(&self) -> Result<PathBuf, InstallError> {
        if let Some(find) = self.find_db(self.place, Keys::Convolutions) {
            return Ok(find);
        }
        let none = self.copies.join("none.HIP.fdb.txt");
        std::fs::write(&none, "").map_err(FileError::at(&none))?;
        Ok(none)
    }

    /// The find db that is there.
    fn find_db(&self, place: &InstallPlace, keys: Keys) -> Option<PathBuf> {
        let mut names = super::names(self.device, place, self.form).into_iter();
        let is_it = |wanted: &Wanted| wanted.kind == DbKind::Find && wanted.keys == keys && wanted.path.is_file();
        names.find(is_it).map(|wanted| wanted.path)
    }

    /// The system's records of the keys that a user's find db is given: a user's record hides the whole of the system's.
    fn hidden(&self, given: &Given<'_>) -> Result<Option<PathBuf>, InstallError> {
        let Wanted { kind, keys: of, .. } = given.wanted;
        let (InstallPlace::User { .. }, DbKind::Find, Some(system)) = (self.place, kind, self.system) else {
            return Ok(None);
        };
        let place = InstallPlace::System { folder: system.to_path_buf() };
        let own = self.find_db(&place, of).or_else(|| {
            let searched = matches!(self.nearest, Nearest::Taken { .. }) && of == Keys::Convolutions;
            searched.then(|| nearest(system, self.device, DbKind::Find, Form::Text, self.nearest)).flatten()
        });
        let Some(path) = own else { return Ok(None) };
        let keys = Source::open(&given.source, &|_| {})?.find_db()?.records;
        let mut db: FindDb = Source::open(&path, &|_| {})?.find_db()?;
        db.records.retain(|key, _| keys.contains_key(key));
        if db.records.is_empty() {
            return Ok(None);
        }
        let name = if of == Keys::Fusions { "hidden.HIP.fusion.fdb.txt" } else { "hidden.HIP.fdb.txt" };
        let out = self.copies.join(name);
        Destination::parse(&out)?.find_db(&db)?;
        Ok(Some(out))
    }

    /// The file that MIOpen opens now and would not open any more if a new one came to be at `given`'s path.
    fn shadowed(&self, given: &Given<'_>) -> Option<PathBuf> {
        let InstallPlace::System { folder } = self.place else { return None };
        let Wanted { kind, keys, form, path } = &given.wanted;
        if path.exists() {
            return None;
        }
        if *kind == DbKind::Kernel {
            return Some(folder.join(format!("{}.kdb", self.device.id))).filter(|path| path.is_file());
        }
        let reads = match self.form {
            PerfForm::Text => Form::Text,
            PerfForm::Sqlite => Form::Sqlite,
        };
        // The other form is for another build, which has no file to lose.
        let opens = *kind == DbKind::Find || *form == reads;
        let searched = matches!(self.nearest, Nearest::Taken { .. }) && *keys == Keys::Convolutions;
        if searched && opens { nearest(folder, self.device, *kind, *form, self.nearest) } else { None }
    }

    fn refuse_shadow(&self, given: &Given<'_>, near: &Path) -> InstallError {
        let lost = contents(near).map_or_else(|_| "its".to_string(), |records| format!("its {}", records.len()));
        let (kind, device) = (given.wanted.kind, self.device);
        InstallError::Refused {
            path: given.wanted.path.clone(),
            reason: format!(
                "MIOpen takes {} for {device}, as the nearest number of compute units, and would lose {lost} records to this \
                 {kind}; merge both with bluefin db merge and install what that writes, or say --replace",
                near.display()
            ),
        }
    }

    /// What is no longer found.
    fn tell_replaced(&self, given: &Given<'_>, warnings: &mut Vec<String>) -> Result<(), InstallError> {
        let shadowed = self.shadowed(given);
        let path = &given.wanted.path;
        let Some(path) = shadowed.or_else(|| path.is_file().then(|| path.clone())) else { return Ok(()) };
        match contents(&path) {
            Ok(before) => {
                let lost = compare(&before, &contents(&given.source)?).gone;
                if lost > 0 {
                    warnings.push(format!("{}: MIOpen no longer finds {lost} of its records", path.display()));
                }
            }
            Err(error) => warnings.push(format!("{error}; it is replaced")),
        }
        Ok(())
    }
}

/// Says what to do about a file that is there and is no database.
fn unusable(error: DbError) -> InstallError {
    InstallError::Present(Box::new(error))
}

fn item(path: &Path, source: PathBuf, present: Option<Digest>, merged: Option<Merged>) -> Result<Item, InstallError> {
    let name = path.file_name().and_then(|name| name.to_str());
    let (Some(folder), Some(name)) = (path.parent(), name) else {
        return Err(InstallError::Refused { path: path.to_path_buf(), reason: "is no name of a file".to_string() });
    };
    Ok(Item { folder: folder.to_path_buf(), name: name.to_string(), source, present, merged })
}

/// The system database with the nearest number of compute units, other than that of the exact name.
pub(crate) fn nearest(folder: &Path, device: &Device, kind: DbKind, form: Form, rule: Nearest) -> Option<PathBuf> {
    let own = rule.wanted(device)?;
    let entries = folder.read_dir().ok()?.flatten().map(|entry| entry.path());
    let near = entries.filter_map(|path| {
        let name = DbName::parse(path.file_name()?.to_str()?)?;
        let of_kind = name.ending.kind == kind && name.ending.form == form && !name.ending.user;
        let plain =
            (name.wrong.is_none() || name.respelled) && name.keys == Keys::Convolutions && path.extension()? != "bz2";
        let found = name.device.filter(|found| found.id == device.id)?;
        let is_other = name.respelled || found.cus != device.cus;
        (of_kind && plain && is_other).then_some((found.cus?.abs_diff(own), path))
    });
    near.min().map(|(_, path)| path)
}

/// What a database says, by key: digests of what stands for each.
pub(crate) fn contents(path: &Path) -> Result<BTreeMap<String, Digest>, DbError> {
    let source = Source::open(path, &|_| {})?;
    let mut found = BTreeMap::new();
    match source.content.kind {
        DbKind::Find => {
            for (key, entries) in source.find_db()?.records.into_iter().filter(|(_, entries)| !entries.is_empty()) {
                let said: BTreeSet<String> = entries
                    .iter()
                    .map(|entry| format!("{} {} {} {}", entry.solver, entry.time_ms, entry.workspace, entry.algorithm))
                    .collect();
                found.insert(key, Digest::of(said.into_iter().collect::<Vec<_>>().join("\n").as_bytes()));
            }
        }
        DbKind::Perf if source.keys() == Keys::BatchNorms => {
            add_rows(&mut found, source.norm_db(|_, _, _, _| {})?.records)
        }
        DbKind::Perf => add_rows(&mut found, source.perf_db(|_| {})?.records),
        DbKind::Kernel => {
            let reader = KernelReader::open(source.local()).map_err(|error| source.named(error))?;
            let heads = reader.heads(|head| {
                found.insert(format!("{} {}", head.kernel.name, head.kernel.args), Digest::of(head.hash.as_bytes()));
            });
            heads.map_err(|error| source.named(error))?;
        }
    }
    Ok(found)
}

fn add_rows<K: Display>(found: &mut BTreeMap<String, Digest>, records: Records<K>) {
    for (key, solvers) in records {
        for (solver, params) in solvers {
            found.insert(format!("{key} {solver}"), Digest::of(params.as_bytes()));
        }
    }
}

fn compare(before: &BTreeMap<String, Digest>, after: &BTreeMap<String, Digest>) -> Merged {
    let mut merged = Merged { before: before.len() as u64, ..Merged::default() };
    for (key, said) in after {
        match before.get(key) {
            None => merged.new += 1,
            Some(old) => merged.changed += u64::from(old != said),
        }
    }
    merged.gone = before.keys().filter(|key| !after.contains_key(*key)).count() as u64;
    merged
}
