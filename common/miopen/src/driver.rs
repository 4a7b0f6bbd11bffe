//! MIOpenDriver: how it is asked to find and tune, and what is harvested from the databases that it leaves.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::db::compress;
use crate::db::find_db::FindDb;
use crate::db::kernel_db::{KernelDb, KernelRow};
use crate::db::perf_db::PerfDb;
use crate::fin::Inexpressible;
use crate::key::{FindDbKey, PerfDbKey};
use crate::place::Place;
use bluefin_common::artifact::{ArtifactRef, CodeObject, Packed};
use bluefin_common::child_file::{self, ChildFileError};
use bluefin_common::description::SolverInfo;
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::problem::{DataType, Problem};
use tempfile::TempDir;

/// Largest text database of one run that is read, in bytes.
const MAX_TEXT: u64 = 64 << 20;
/// Largest SQLite database of one run that is read, and largest log of one, in bytes.
const MAX_DATABASE: u64 = 512 << 20;
/// Databases of a kind that one run leaves, at most: MIOpen leaves one or two.
const MOST_FILES: usize = 64;

/// A solver that MIOpen found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub solver: String,
    /// Those of the perf db; empty for a solver without.
    pub params: String,
    /// As the find db says it: not yet known to be positive.
    pub time_ms: f64,
    /// Scratch memory in bytes.
    pub workspace: u64,
    pub info: SolverInfo,
}

/// A code object and its bzip2 stream.
pub type Kernel = (CodeObject, Vec<u8>);

/// What one run left.
#[derive(Clone, Debug, PartialEq)]
pub struct Harvest {
    /// Fastest first.
    pub found: Vec<Found>,
    /// All that were compiled: the kernel db does not say whose they are.
    pub kernels: Vec<Kernel>,
}

/// What MIOpen does about params that its perf dbs lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Params {
    /// Searches for them.
    Search,
    /// Takes the solver's own.
    Take,
}

/// The arguments that ask for `problem`.
///
/// # Errors
/// A problem that MIOpenDriver has no words for.
pub fn arguments(problem: &Problem, params: Params) -> Result<Vec<OsString>, Inexpressible> {
    let Problem::Conv(conv) = problem else {
        return Err(Inexpressible::new(format!("{}, which is no convolution", problem.label())));
    };
    let user = conv.as_asked();
    if !matches!(user.x_type, DataType::Fp32 | DataType::Fp16 | DataType::Bf16 | DataType::Int8)
        || user.w_type != user.x_type
        || user.y_type != user.x_type.product()
    {
        let what = format!("types {}, {} and {} of input, weights and output", user.x_type, user.w_type, user.y_type);
        return Err(Inexpressible::new(what));
    }
    let command = problem.canonical();
    // Timed, not verified: MIOpen's own tests do that.
    let more = ["-s", if params == Params::Search { "1" } else { "0" }, "-t", "1", "-V", "0", "-i", "1"];
    Ok(command.split_whitespace().chain(more).map(OsString::from).collect())
}

/// The variable that says what MIOpen tunes: what its perf dbs lack, or everything.
pub const FIND_ENFORCE: &str = "MIOPEN_FIND_ENFORCE";
/// Its value for what the perf dbs lack.
pub const MISSING: &str = "3";
/// Its value for everything.
pub const EVERYTHING: &str = "4";
/// Its value for nothing.
const NOTHING: &str = "1";
/// The variable that names the solvers that MIOpen looks at.
const ONLY_SOLVERS: &str = "MIOPEN_DEBUG_FIND_ONLY_SOLVER";

/// Tells MIOpen how to tune, as the session's `environment` has it, and which solvers, if not all.
pub fn instruct(place: &mut Place, environment: &BTreeMap<String, String>, solvers: &[&str]) {
    place.set(FIND_ENFORCE, environment.get(FIND_ENFORCE).map_or(MISSING, String::as_str));
    // Any other mode would take what the system's find db holds.
    place.set("MIOPEN_FIND_MODE", "1");
    if !solvers.is_empty() {
        place.set(ONLY_SOLVERS, solvers.join(";"));
    }
}

/// Tells MIOpen to run `solver` alone, with the params that a run before left in `place`, and to keep what that compiles apart. Returns
/// the folder of it: MIOpen's log and its kernel db name source files and options, not whose they are, and a search leaves those of
/// every point that it tried.
///
/// # Errors
/// If the folder can not be made.
pub fn instruct_alone(place: &mut Place, solver: &str) -> std::io::Result<PathBuf> {
    let cache = place.path().join("cache-alone");
    std::fs::create_dir(&cache)?;
    place.set(FIND_ENFORCE, NOTHING);
    place.set(ONLY_SOLVERS, solver);
    place.set("MIOPEN_CUSTOM_CACHE_DIR", &cache);
    Ok(cache)
}

/// Reads what a run for `problem` on an `arch` left in `place`.
///
/// # Errors
/// If there is nothing, or nothing about this problem, or what is there is damaged.
pub fn harvest(place: &Place, problem: &Problem, arch: &str) -> Result<Harvest, Failure> {
    let Problem::Conv(conv) = problem else {
        return Err(Failure::new(FailureKind::NotApplicable, "MIOpenDriver tunes convolutions only"));
    };
    let key = FindDbKey::from(conv);
    let user = place.user_db();
    let mut find = FindDb::default();
    for name in files(&user, ".ufdb.txt") {
        let bytes = read(&user, &name, MAX_TEXT)?;
        let db = FindDb::parse("user find db", &bytes).map_err(|error| malformed(error.to_string()))?;
        find.records.extend(db.records);
    }
    let Some(entries) = find.records.get(&key.to_string()).filter(|entries| !entries.is_empty()) else {
        return Err(match find.records.keys().next() {
            None => Failure::new(FailureKind::NoResult, "MIOpenDriver left no find db, or an empty one"),
            Some(other) => {
                let other: String = other.chars().take(200).collect();
                Failure::new(FailureKind::KeyMismatch, format!("find db: found key {other}, expected {key}"))
            }
        });
    };
    let tuned = tuned(&user, &PerfDbKey::from(&key))?;
    let mut found: Vec<Found> = entries
        .iter()
        .map(|entry| {
            let params = tuned.get(&*entry.solver).cloned();
            Found {
                solver: entry.solver.to_string(),
                time_ms: f64::from(entry.time_ms),
                workspace: entry.workspace,
                info: SolverInfo {
                    name: entry.solver.to_string(),
                    algorithm: Some(entry.algorithm.to_string()),
                    tunable: params.is_some(),
                    ..SolverInfo::default()
                },
                params: params.unwrap_or_default(),
            }
        })
        .collect();
    found.sort_by(|a, b| a.time_ms.total_cmp(&b.time_ms).then_with(|| a.solver.cmp(&b.solver)));
    Ok(Harvest { found, kernels: kernels(&place.cache(), arch)? })
}

/// Params by solver: what the run tuned, and what its system's perf db had.
fn tuned(user: &Path, key: &PerfDbKey) -> Result<BTreeMap<String, String>, Failure> {
    let mut tuned = BTreeMap::new();
    let mut add = |db: &PerfDb| {
        let solvers = db.records.get(key).into_iter().flatten();
        tuned.extend(solvers.map(|(solver, params)| (solver.to_string(), params.to_string())));
    };
    for name in files(user, ".udb.txt") {
        let text = read(user, &name, MAX_TEXT)?;
        add(&PerfDb::parse_text("user perf db", &text).map_err(|error| malformed(error.to_string()))?);
    }
    for name in files(user, ".udb") {
        let (_folder, copy) = copied(user, &name)?;
        add(&PerfDb::read_sqlite(&copy).map_err(|error| malformed(error.to_string()))?);
    }
    Ok(tuned)
}

/// The kernels of a kernel cache, by name, each with its bzip2 stream.
///
/// # Errors
/// If it or one of them is damaged.
pub fn kernels(cache: &Path, arch: &str) -> Result<Vec<Kernel>, Failure> {
    let mut rows: Vec<KernelRow> = Vec::new();
    for name in files(cache, ".ukdb") {
        let (_folder, copy) = copied(cache, &name)?;
        KernelDb::scan(&copy, |_, row| rows.push(row)).map_err(|error| malformed(error.to_string()))?;
    }
    rows.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    let suffix = format!(" -mcpu={arch}");
    rows.into_iter()
        .map(|row| {
            let code = row.code().map_err(|error| Failure::new(FailureKind::CorruptArtifact, error.to_string()))?;
            let KernelRow { kernel, blob, hash, uncompressed_size } = row;
            let stream = match uncompressed_size {
                0 => compress(&code).ok_or_else(|| {
                    let detail = format!("kernel {}: could not be compressed", kernel.name);
                    Failure::new(FailureKind::Uncompressed, detail)
                })?,
                _ => blob,
            };
            let object = CodeObject {
                artifact: ArtifactRef::of(&stream),
                file: kernel.name.strip_suffix(".o").unwrap_or(&kernel.name).to_string(),
                options: kernel.args.strip_suffix(&suffix).unwrap_or(&kernel.args).to_string(),
                packed: Some(Packed { md5: hash, size: code.len() as u64 }),
            };
            Ok((object, stream))
        })
        .collect()
}

fn files(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    child_file::names(folder, suffix, MOST_FILES)
}

fn read(folder: &Path, name: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    child_file::read(folder, name, limit).map_err(|error| malformed(error.to_string()))
}

/// A copy of the database `name` in `from`, with its write-ahead log if it has one: SQLite opens more than one file, each by
/// its name.
fn copied(from: &Path, name: &Path) -> Result<(TempDir, PathBuf), Failure> {
    let machine = |error: std::io::Error| Failure::new(FailureKind::NoResult, format!("copy of a database: {error}"));
    let folder = tempfile::tempdir().map_err(machine)?;
    let copy = folder.path().join("copy");
    std::fs::write(&copy, read(from, name, MAX_DATABASE)?).map_err(machine)?;
    let mut log = name.as_os_str().to_owned();
    log.push("-wal");
    match child_file::read(from, &log, MAX_DATABASE) {
        Ok(bytes) => std::fs::write(folder.path().join("copy-wal"), bytes).map_err(machine)?,
        Err(ChildFileError::Missing { .. }) => {}
        Err(error) => return Err(malformed(error.to_string())),
    }
    Ok((folder, copy))
}

fn malformed(reason: String) -> Failure {
    Failure::new(FailureKind::MalformedOutput, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bluefin_common::problem::{ConvProblem, ConvShape, Direction};

    fn problem(data_type: DataType) -> Problem {
        let shape = ConvShape { n: 3, ..ConvShape::plain(Direction::Forward, data_type) };
        Problem::Conv(ConvProblem::new(shape).unwrap())
    }

    #[test]
    fn what_the_driver_has_words_for() {
        let words: Vec<String> = arguments(&problem(DataType::Fp16), Params::Search)
            .unwrap()
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        assert_eq!((words[0].as_str(), &words[1..3]), ("convfp16", ["-n".to_string(), "3".to_string()].as_slice()));
        assert!(words.join(" ").ends_with("-F 1 -s 1 -t 1 -V 0 -i 1"));
        assert!(arguments(&problem(DataType::Fp64), Params::Take).is_err());
    }

    #[test]
    fn an_empty_place_gives_nothing() {
        let place = Place::new(None).unwrap();
        assert_eq!(harvest(&place, &problem(DataType::Fp32), "gfx90a").unwrap_err().kind, FailureKind::NoResult);
        let line = "1-1-1-1x1-1-1-1-9-0x0-1x1-1x1-0-NCHW-FP32-F=GemmFwdRest:0.5,0,miopenConvolutionFwdAlgoGEMM\n";
        std::fs::write(place.user_db().join("gfx90a68.HIP.x.ufdb.txt"), line).unwrap();
        assert_eq!(harvest(&place, &problem(DataType::Fp32), "gfx90a").unwrap_err().kind, FailureKind::KeyMismatch);
        std::fs::write(place.user_db().join("gfx90a68.HIP.x.ufdb.txt"), line.replace("-9-0x0", "-3-0x0")).unwrap();
        let harvest = harvest(&place, &problem(DataType::Fp32), "gfx90a").unwrap();
        assert_eq!((harvest.found[0].solver.as_str(), harvest.found[0].time_ms), ("GemmFwdRest", 0.5));
    }
}
