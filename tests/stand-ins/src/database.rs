//! The databases that a library looks into and writes.

use std::path::{Path, PathBuf};

use bluefin_common::problem::ConvProblem;
use bluefin_miopen::db::find_db::FindDb;
use bluefin_miopen::db::perf_db::PerfDb;
use bluefin_miopen::key::PerfDbKey;

use crate::library::Registered;
use crate::variable;

/// Base name of the database files of a GPU.
pub fn base_name(arch: &str, cus: u64) -> String {
    let arch = arch.split(':').next().unwrap_or_default();
    if cus > 64 { format!("{arch}{cus:x}") } else { format!("{arch}_{cus}") }
}

/// The params of `solver` for `problem` in the user's and the system's perf db, in this order; nothing if they have none.
pub fn tuned(base: &str, problem: &ConvProblem, solver: &Registered) -> Option<String> {
    let key = PerfDbKey::from(problem);
    let places = [
        ("MIOPEN_USER_DB_PATH", ".HIP.3_3_0_stand-in.udb.txt", "_1.1.0.udb"),
        ("MIOPEN_SYSTEM_DB_PATH", ".db.txt", ".db"),
    ];
    places.into_iter().find_map(|(folder, text, sqlite)| {
        let folder = PathBuf::from(variable(folder)?);
        let db = read(&folder.join(format!("{base}{text}")), &folder.join(format!("{base}{sqlite}")))?;
        Some(db.records.get(&key)?.get(solver.name)?.to_string())
    })
}

/// The solver that the user's or the system's find db has for a key, the fastest.
pub fn found(base: &str, key: &str) -> Option<String> {
    let files = [("MIOPEN_USER_DB_PATH", ".HIP.3_3_0_stand-in.ufdb.txt"), ("MIOPEN_SYSTEM_DB_PATH", ".HIP.fdb.txt")];
    files.into_iter().find_map(|(folder, name)| {
        let bytes = std::fs::read(PathBuf::from(variable(folder)?).join(format!("{base}{name}"))).ok()?;
        let db = FindDb::parse("find db", &bytes).ok()?;
        let entries = db.records.get(key)?.iter();
        Some(entries.min_by(|a, b| a.time_ms.total_cmp(&b.time_ms))?.solver.to_string())
    })
}

/// As a build with text databases reads it, or as one with SQLite does.
fn read(text: &Path, sqlite: &Path) -> Option<PerfDb> {
    if variable("STAND_IN_PERF_DB").as_deref() == Some("sqlite") {
        // A system's that is not there is that of another number of CUs.
        let other = || {
            let files = std::fs::read_dir(sqlite.parent()?).ok()?.flatten().map(|file| file.path());
            files.into_iter().find(|path| path.extension().is_some_and(|end| end == "db"))
        };
        let is_system = sqlite.extension().is_some_and(|end| end == "db");
        let found = if is_system && !sqlite.exists() { other()? } else { sqlite.to_path_buf() };
        return PerfDb::read_sqlite(&found).ok();
    }
    PerfDb::parse_text("perf db", &std::fs::read(text).ok()?).ok()
}
