//! The names that MIOpen looks for.

use std::path::PathBuf;

use super::{InstallPlace, PerfForm};
use crate::db::name::{DbKind, Device, Form, Keys};

/// MIOpen's backend on AMD GPUs.
const BACKEND: &str = "HIP";

/// A database that MIOpen looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub kind: DbKind,
    pub keys: Keys,
    pub form: Form,
    pub path: PathBuf,
}

/// The databases that MIOpen looks for on `device`. Of batch norms it has perf dbs as text alone, so none where it reads SQLite.
#[must_use]
pub fn names(device: &Device, place: &InstallPlace, form: PerfForm) -> Vec<Wanted> {
    let base = device.base_name();
    let mut all = Vec::new();
    let mut add = |kind, keys, form, path| all.push(Wanted { kind, keys, form, path });
    match place {
        InstallPlace::System { folder } => {
            let named = |name: String| folder.join(name);
            add(DbKind::Find, Keys::Convolutions, Form::Text, named(format!("{base}.{BACKEND}.fdb.txt")));
            if form == PerfForm::Text {
                add(DbKind::Perf, Keys::Convolutions, Form::Text, named(format!("{base}.db.txt")));
                add(DbKind::Perf, Keys::BatchNorms, Form::Text, named(format!("batchnorm_{base}.db.txt")));
            }
            // A MIOpen that reads text may have been built to read this instead.
            add(DbKind::Perf, Keys::Convolutions, Form::Sqlite, named(format!("{base}.db")));
            add(DbKind::Find, Keys::Fusions, Form::Text, named(format!("{base}.{BACKEND}.fusion.fdb.txt")));
            add(DbKind::Kernel, Keys::Convolutions, Form::Sqlite, named(format!("{base}.kdb")));
        }
        InstallPlace::User { folder, cache, version } => {
            let suffix = version.user_suffix(BACKEND);
            let named = |name: String| folder.join(name);
            add(DbKind::Find, Keys::Convolutions, Form::Text, named(format!("{base}.{suffix}.ufdb.txt")));
            match form {
                PerfForm::Text => {
                    add(DbKind::Perf, Keys::Convolutions, Form::Text, named(format!("{base}.{suffix}.udb.txt")));
                    add(
                        DbKind::Perf,
                        Keys::BatchNorms,
                        Form::Text,
                        named(format!("batchnorm_{base}.{suffix}.udb.txt")),
                    );
                }
                PerfForm::Sqlite => {
                    add(DbKind::Perf, Keys::Convolutions, Form::Sqlite, named(format!("{base}_1.1.0.udb")));
                }
            }
            add(DbKind::Find, Keys::Fusions, Form::Text, named(format!("{base}.{suffix}.fusion.ufdb.txt")));
            add(DbKind::Kernel, Keys::Convolutions, Form::Sqlite, cache.join(format!("{base}.ukdb")));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::name::DbName;

    #[test]
    fn every_name_says_what_it_is_looked_for_as() {
        let device = Device { id: "gfx90a".to_string(), cus: Some(104) };
        let version = "3.3.0.2d1fd997".parse().unwrap();
        let places = [
            InstallPlace::System { folder: "db".into() },
            InstallPlace::User { folder: "user".into(), cache: "cache".into(), version },
        ];
        for (place, form) in
            places.iter().flat_map(|place| [PerfForm::Text, PerfForm::Sqlite].map(|form| (place, form)))
        {
            for wanted in names(&device, place, form) {
                let name = wanted.path.file_name().unwrap().to_str().unwrap();
                let parsed = DbName::parse(name).unwrap();
                assert_eq!(
                    (parsed.keys, parsed.wrong, parsed.device.as_ref()),
                    (wanted.keys, None, Some(&device)),
                    "{name}"
                );
                assert_eq!((parsed.ending.kind, parsed.ending.form), (wanted.kind, wanted.form), "{name}");
            }
        }
    }
}
