//! `MIOpenDriver conv -n 1 …`: tunes as `MIOPEN_FIND_ENFORCE` says, and leaves its databases in the user's folders. With `-S 0` it launches
//! what the find dbs have for a problem, or else its first solver, with `-S 85` that solver, with the params that the perf dbs have, and tells the time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use bluefin_common::problem::driver;
use bluefin_common::problem::{ConvProblem, Problem};
use bluefin_miopen::db::find_db::{FindDb, FindEntry};
use bluefin_miopen::db::kernel_db::{KernelDbWriter, KernelName, KernelRow};
use bluefin_miopen::db::perf_db::PerfDb;
use bluefin_miopen::key::{FindDbKey, PerfDbKey};

use crate::fault::{Fault, Faults};
use crate::library::{self, Registered};
use crate::{database, note_call, variable};

const USER: &str = "HIP.3_3_0_stand-in";

/// Runs the program.
pub fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    println!("MIOpenDriver {}", words.join(" "));
    let problems = driver::parse(&words.join(" "), None);
    let Ok([Problem::Conv(problem)]) = problems.as_deref() else {
        eprintln!("MIOpenDriver: can not run {words:?}");
        return ExitCode::FAILURE;
    };
    if variable("STAND_IN_GPU").as_deref() == Some("none") {
        eprintln!(
            "terminate called after throwing an instance of 'miopen::Exception'\n  what():  no ROCm-capable device is detected"
        );
        std::process::abort();
    }
    let key = FindDbKey::from(problem).to_string();
    let solution = words.windows(2).find(|pair| matches!(pair, [flag, _] if flag == "-S")).map(|pair| pair[1].as_str());
    let is_immediate = solution.is_some();
    let step = match variable("MIOPEN_FIND_ENFORCE").as_deref() {
        _ if is_immediate => "driver-immediate",
        Some("1") => "driver-alone",
        _ => "driver",
    };
    note_call(step, &variable("MIOPEN_DEBUG_FIND_ONLY_SOLVER").unwrap_or_default(), &key);
    match Faults::from_environment().of_call(step, "", &key) {
        Some(Fault::Crash | Fault::WrongArch) => std::process::abort(),
        Some(Fault::ExitCode) => return ExitCode::from(3),
        Some(Fault::Hang) => loop {
            std::thread::sleep(std::time::Duration::from_millis(50));
        },
        Some(Fault::Babble) => loop {
            println!("MIOpen(HIP): Warning [Monitor] still at it");
            std::thread::sleep(std::time::Duration::from_millis(50));
        },
        Some(Fault::EmptyOutput) => return ExitCode::SUCCESS,
        Some(Fault::OutOfMemory) => {
            eprintln!("hipMalloc: out of memory");
            std::process::abort();
        }
        Some(Fault::DiskIo) => {
            eprintln!("SQLite: disk I/O error");
            std::process::abort();
        }
        Some(Fault::LeakEnvironment) => {
            std::env::vars().for_each(|(name, value)| println!("{name}={value}"));
            std::process::abort();
        }
        fault if is_immediate => immediate(problem, &key, solution.unwrap_or("0"), fault),
        fault => find(problem, &key, fault),
    }
    ExitCode::SUCCESS
}

/// Launches what MIOpen chooses. A row of a solver that fails takes the process with it, and so does a choice without one.
fn immediate(problem: &ConvProblem, key: &str, solution: &str, fault: Option<Fault>) {
    let base = database::base_name(&variable("STAND_IN_ARCH").unwrap_or_else(|| "gfx90a".into()), 104);
    if let Some(solver) = library::solvers().find(|solver| solver.id.to_string() == solution || solver.name == solution)
    {
        return solved(problem, key, &base, &solver, fault);
    }
    let known = database::found(&base, key);
    let first = || library::solvers().find(|solver| applies(solver, problem)).map(|solver| solver.name.to_string());
    let Some(solver) = known.clone().or_else(first) else { return };
    let step = if known.is_some() { "driver-row" } else { "driver-default" };
    if let Some(Fault::Crash | Fault::DiskIo) = Faults::from_environment().of_call(step, &solver, key) {
        std::process::abort();
    }
    tell(&solver, library::solver(&solver).map_or(1.0, |solver| solver.time_ms(key, "")), fault);
}

/// Launches a solver that is asked for, with the params of its perf dbs. Those that it does not have are told, and left.
fn solved(problem: &ConvProblem, key: &str, base: &str, solver: &Registered, fault: Option<Fault>) {
    if !applies(solver, problem) {
        eprintln!("MIOpen(HIP): Error [CompileSolution] The supplied solution id: {} is not applicable", solver.name);
        std::process::exit(1);
    }
    let known = database::tuned(base, problem, solver);
    let says = variable("MIOPEN_LOG_LEVEL").is_some_and(|level| level.as_str() >= "5");
    if says && variable("STAND_IN_SAYS").is_none() {
        match &known {
            Some(params) => {
                eprintln!("MIOpen(HIP): Info [GetValues] {}={}:{params}", PerfDbKey::from(problem), solver.name)
            }
            None => eprintln!("MIOpen(HIP): Info [FindSolutionImpl] Perf Db: record not found for: {}", solver.name),
        }
    }
    if let Some(lines) = variable("STAND_IN_SAYS").filter(|_| says) {
        eprintln!("{lines}");
    }
    if variable("STAND_IN_BABBLES").is_some() {
        (0..40_000)
            .for_each(|at| eprintln!("MIOpen(HIP): Info [Monitor] line {at} of many that say nothing of any row"));
    }
    let step = if known.is_some() { "driver-row" } else { "driver-default" };
    if let Some(Fault::Crash | Fault::DiskIo) = Faults::from_environment().of_call(step, solver.name, key) {
        std::process::abort();
    }
    let taken = known.clone().filter(|params| solver.space(key).contains(params));
    if let (Some(known), None) = (&known, &taken) {
        let name = solver.name;
        eprintln!(
            "MIOpen(HIP): Warning [FindSolutionImpl] Invalid config loaded from Perf Db: {name}: {known}. Performance may degrade."
        );
    }
    let params = taken.unwrap_or_else(|| solver.default_params(key));
    tell(solver.name, solver.time_ms(key, &params), fault);
}

fn tell(solver: &str, time: f64, fault: Option<Fault>) {
    let time = if fault == Some(Fault::NegativeTime) { -1.0 } else { time };
    println!("MIOpen Forward Conv. Algorithm: 1, Solution: 7/{solver}");
    println!("GPU Kernel Time Forward Conv. Elapsed: {time:.6} ms (average)");
}

/// Finds, and writes what was found.
fn find(problem: &ConvProblem, key: &str, fault: Option<Fault>) {
    let enforce = variable("MIOPEN_FIND_ENFORCE").unwrap_or_default().to_ascii_uppercase();
    let exhaustive = matches!(enforce.as_str(), "4" | "SEARCH_DB_UPDATE");
    let search = exhaustive || matches!(enforce.as_str(), "3" | "SEARCH");
    let only: Option<Vec<String>> =
        variable("MIOPEN_DEBUG_FIND_ONLY_SOLVER").map(|names| names.split(';').map(str::to_string).collect());
    let (arch, cus) = (variable("STAND_IN_ARCH").unwrap_or_else(|| "gfx90a".into()), 104);
    let base = database::base_name(&arch, cus);
    let (mut find, mut perf) = (FindDb::default(), PerfDb::default());
    let mut rows: BTreeMap<KernelName, KernelRow> = BTreeMap::new();
    for solver in library::solvers().filter(|solver| applies(solver, problem)) {
        if only.as_ref().is_some_and(|names| !names.iter().any(|name| name == solver.name)) {
            continue;
        }
        let known = database::tuned(&base, problem, &solver).filter(|_| !exhaustive);
        let searched = known.is_none() && search && solver.tunable;
        let params = match known {
            Some(known) => known,
            None if searched => {
                let best = solver.best_params(key);
                let solvers = perf.records.entry(PerfDbKey::from(problem)).or_default();
                solvers.insert(Arc::from(solver.name), best.as_str().into());
                best
            }
            None => solver.default_params(key),
        };
        let time_ms = match fault {
            Some(Fault::ZeroTime) => 0.0,
            Some(Fault::NegativeTime) => -1.0,
            _ => solver.time_ms(key, &params) as f32,
        };
        let shown = if fault == Some(Fault::WrongKey) {
            key.replacen("-0x0-", "-9x9-", 1).replacen("-1x1-", "-7x7-", 1)
        } else {
            key.to_string()
        };
        find.records.entry(shown).or_default().push(FindEntry::new(
            solver.name.into(),
            time_ms,
            solver.workspace(key),
            solver.algorithm_for(problem.direction).into(),
        ));
        // A search leaves the kernels of every point that it tries.
        let tried = if searched { solver.space(key) } else { vec![params] };
        for kernel in tried.iter().flat_map(|params| solver.kernels(key, params, &arch)) {
            let (md5, stream) = kernel.packed();
            let name =
                KernelName { name: format!("{}.o", kernel.file), args: format!("{} -mcpu={arch}", kernel.options) };
            let row = KernelRow {
                kernel: name.clone(),
                blob: stream,
                hash: md5,
                uncompressed_size: kernel.code.len() as u64,
            };
            rows.insert(name, row);
        }
    }
    let folder = |name: &str| variable(name).map(PathBuf::from).expect("folders of its own");
    let (user, cache) = (folder("MIOPEN_USER_DB_PATH"), folder("MIOPEN_CUSTOM_CACHE_DIR"));
    let mut text = Vec::new();
    find.write(&mut text).expect("a find db");
    std::fs::write(user.join(format!("{base}.{USER}.ufdb.txt")), text).expect("the find db is written");
    if !perf.records.is_empty() {
        write_perf(&perf, &user, &base);
    }
    let path = cache.join(format!("{base}.ukdb"));
    std::fs::File::create(&path).expect("the kernel db");
    let mut writer = KernelDbWriter::create(&path).expect("the kernel db");
    rows.values().for_each(|row| writer.add(row).expect("a kernel"));
    writer.finish().expect("the kernel db");
}

fn write_perf(perf: &PerfDb, user: &Path, base: &str) {
    if variable("STAND_IN_PERF_DB").as_deref() == Some("sqlite") {
        let path = user.join(format!("{base}_1.1.0.udb"));
        std::fs::File::create(&path).expect("the perf db");
        perf.write_sqlite(&path).expect("a perf db");
        return;
    }
    let mut text = Vec::new();
    perf.write_text(&mut text).expect("a perf db");
    std::fs::write(user.join(format!("{base}.{USER}.udb.txt")), text).expect("the perf db is written");
}

fn applies(solver: &Registered, problem: &ConvProblem) -> bool {
    let [_, y, x] = problem.filter;
    problem.spatial == 2 && solver.applies(problem.direction, [y, x])
}
