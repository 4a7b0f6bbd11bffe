//! Where one process of MIOpen's tools runs: folders and databases of its own, and an environment in which nothing is left
//! to chance. Two processes that share a cache folder destroy each other's kernels.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use crate::db::WriteError;
use crate::db::perf_db::PerfDb;
use crate::key::PerfDbKey;
use bluefin_common::scratch::{self, Scratch};
use bluefin_common::session::Session;
use bluefin_common::target::Target;

/// What is passed on of a worker's own environment: where ROCm is and how it finds its devices. Not what is MIOpen's, as
/// sessions say that, and nothing that could be a secret: fin writes all of it into its answer.
const INHERITED: [&str; 6] =
    ["PATH", "LD_LIBRARY_PATH", "ROCM_PATH", "HIP_PATH", "HIP_PLATFORM", "ROCR_VISIBLE_DEVICES"];
const INHERITED_PREFIXES: [&str; 3] = ["HSA_", "AMD_", "COMGR_"];

/// What MIOpen needs to be told whoever tunes it. Without the last one it left out a tenth of the solvers that shipped
/// databases were once made of.
const DEFAULTS: [(&str, &str); 4] = [
    ("MIOPEN_LOG_LEVEL", "4"),
    ("MIOPEN_SQLITE_KERN_CACHE", "ON"),
    ("MIOPEN_FIND_MODE", "1"),
    ("MIOPEN_DEBUG_IMPLICIT_GEMM_FIND_ALL_SOLUTIONS", "1"),
];

/// What the names of their folders begin with.
const PREFIX: &str = "bluefin-miopen-";

/// The folders and the environment of one process. Gone when dropped.
#[derive(Debug)]
pub struct Place {
    folder: Scratch,
    variables: BTreeMap<OsString, OsString>,
}

impl Place {
    /// A place for a process that serves `session`, if it is for one.
    ///
    /// # Errors
    /// If the folders can not be made.
    pub fn new(session: Option<&Session>) -> io::Result<Self> {
        static SWEPT: Once = Once::new();
        SWEPT.call_once(|| {
            let left = scratch::sweep(&std::env::temp_dir(), PREFIX);
            if left > 0 {
                tracing::info!(left, "removed folders of workers that were killed");
            }
        });
        let folder = Scratch::new(PREFIX)?;
        let mut variables: BTreeMap<OsString, OsString> =
            std::env::vars_os().filter(|(name, _)| inherited(name)).collect();
        variables.extend(DEFAULTS.map(|(name, value)| (name.into(), value.into())));
        variables.insert("LC_ALL".into(), "C".into());
        let said = session.into_iter().flat_map(Self::said_by);
        variables.extend(said.map(|(name, value)| (name.into(), value.into())));
        let mut place = Self { folder, variables };
        for (name, path) in [
            ("MIOPEN_USER_DB_PATH", place.user_db()),
            ("MIOPEN_CUSTOM_CACHE_DIR", place.cache()),
            ("HOME", place.path().join("home")),
            ("TMPDIR", place.path().join("tmp")),
        ] {
            std::fs::create_dir(&path)?;
            place.variables.insert(name.into(), path.into());
        }
        Ok(place)
    }

    /// The variables that a session says, in an order that is always the same.
    pub fn said_by(session: &Session) -> impl Iterator<Item = (String, String)> {
        let own = session.environment.iter().filter(|(name, _)| allowed(name));
        let budget = &session.budget;
        let limits = [
            ("MIOPEN_TUNING_TIME_MS_MAX", budget.tuning_time_ms),
            ("MIOPEN_TUNING_PATIENCE", budget.tuning_patience),
            ("MIOPEN_DEBUG_TUNING_ITERATIONS_MAX", budget.tuning_iterations),
        ];
        let limits = limits.into_iter().filter_map(|(name, limit)| Some((name.to_string(), limit?.to_string())));
        own.map(|(name, value)| (name.clone(), value.clone())).chain(limits)
    }

    /// The folder of it all.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Where MIOpen writes its user databases.
    #[must_use]
    pub fn user_db(&self) -> PathBuf {
        self.path().join("user-db")
    }

    /// Where MIOpen writes its kernel cache.
    #[must_use]
    pub fn cache(&self) -> PathBuf {
        self.path().join("cache")
    }

    /// Sets a variable, whatever the session says.
    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.insert(name.into(), value.into());
    }

    /// Shows the process one GPU, as the runtime numbers or names it.
    pub fn show_gpu(&mut self, gpu: &str) {
        self.set("HIP_VISIBLE_DEVICES", gpu);
        self.set("HIP_FORCE_DEV_KERNARG", "1");
    }

    /// Makes a system database folder with one row of a perf db, under each name that one of MIOpen's versions looks for:
    /// it replaces what the library was installed with.
    ///
    /// # Errors
    /// If it can not be written, or params that no perf db can hold.
    pub fn tuned(&mut self, target: &Target, key: PerfDbKey, solver: &str, params: &str) -> Result<(), WriteError> {
        let folder = self.path().join("system-db");
        std::fs::create_dir(&folder)?;
        let mut db = PerfDb::default();
        if !params.is_empty() {
            db.records.insert(key, [(Arc::from(solver), Arc::from(params))].into_iter().collect());
        }
        let base = target.db_basename();
        let mut text = Vec::new();
        db.write_text(&mut text)?;
        // 6.2 and later; and up to 6.1 without SQLite.
        for name in [format!("{base}.db.txt"), format!("{base}.cd.pdb.txt")] {
            std::fs::write(folder.join(name), &text)?;
        }
        // 5.0 to 6.1.
        let sqlite = folder.join(format!("{base}.db"));
        std::fs::File::create_new(&sqlite)?;
        db.write_sqlite(&sqlite)?;
        self.set("MIOPEN_SYSTEM_DB_PATH", folder);
        Ok(())
    }

    /// All variables.
    #[must_use]
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        self.variables.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

fn inherited(name: &OsString) -> bool {
    let name = name.to_string_lossy();
    INHERITED.contains(&&*name) || INHERITED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a session may set a variable: those of MIOpen and of the runtime below it.
#[must_use]
pub fn allowed(name: &str) -> bool {
    let plain = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    let prefixes = ["MIOPEN_", "HIP_", "HSA_", "AMD_", "COMGR_", "ROCBLAS_", "GPU_"];
    plain && prefixes.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bluefin_common::session::Budget;
    use bluefin_common::session::Stage;

    fn session() -> Session {
        let name = "test".parse().unwrap();
        let mut session = Session::of_kernels(name, "gfx90a-104".parse().unwrap(), "", &Stage::ALL, 1);
        session.environment = [
            ("MIOPEN_FIND_MODE", "3"),
            ("MIOPEN_DEBUG_CONV_FFT", "0"),
            ("MIOPEN_USER_DB_PATH", "/shared"),
            ("MIOPEN_SYSTEM_DB_PATH", "/base"),
            ("LD_PRELOAD", "x"),
        ]
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .into();
        session.budget = Budget {
            tuning_time_ms: Some(5),
            tuning_patience: Some(6),
            tuning_iterations: Some(7),
            ..Budget::default()
        };
        session
    }

    fn value(place: &Place, name: &str) -> Option<String> {
        let all = place.environment();
        all.iter().find(|(key, _)| key == name).map(|(_, value)| value.to_string_lossy().into_owned())
    }

    #[test]
    fn the_session_says_what_and_the_place_says_where() {
        let (place, other) = (Place::new(Some(&session())).unwrap(), Place::new(Some(&session())).unwrap());
        let shown = |name| value(&place, name);
        for (name, expected) in [
            ("MIOPEN_FIND_MODE", "3"),
            ("MIOPEN_DEBUG_CONV_FFT", "0"),
            ("MIOPEN_DEBUG_IMPLICIT_GEMM_FIND_ALL_SOLUTIONS", "1"),
            ("MIOPEN_SYSTEM_DB_PATH", "/base"),
            ("MIOPEN_TUNING_TIME_MS_MAX", "5"),
            ("MIOPEN_TUNING_PATIENCE", "6"),
            ("MIOPEN_DEBUG_TUNING_ITERATIONS_MAX", "7"),
        ] {
            assert_eq!(shown(name).as_deref(), Some(expected), "{name}");
        }
        for name in ["MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR", "HOME", "TMPDIR"] {
            let (own, others) = (shown(name).unwrap(), value(&other, name).unwrap());
            assert!(Path::new(&own).is_dir() && own != others && own.starts_with(place.path().to_str().unwrap()));
        }
        assert_eq!((shown("LD_PRELOAD"), shown("CARGO_PKG_NAME"), shown("HIP_VISIBLE_DEVICES")), (None, None, None));
        assert!(shown("PATH").is_some());
        let path = place.path().to_path_buf();
        drop(place);
        assert!(!path.exists());
    }

    #[test]
    fn one_tuned_row_under_every_name() {
        let mut place = Place::new(Some(&session())).unwrap();
        let key: PerfDbKey = "2x1000x13x13x1x1x1x1x512x16x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP16xB".parse().unwrap();
        place.tuned(&"gfx90a-104".parse().unwrap(), key.clone(), "ConvAsm1x1U", "1,2").unwrap();
        let folder = PathBuf::from(value(&place, "MIOPEN_SYSTEM_DB_PATH").unwrap());
        assert_eq!(folder, place.path().join("system-db"));
        let sqlite = PerfDb::read_sqlite(&folder.join("gfx90a68.db")).unwrap();
        for name in ["gfx90a68.db.txt", "gfx90a68.cd.pdb.txt"] {
            assert_eq!(PerfDb::parse_text(name, &std::fs::read(folder.join(name)).unwrap()).unwrap(), sqlite);
        }
        assert_eq!(&**sqlite.records[&key].get("ConvAsm1x1U").unwrap(), "1,2");
    }
}
