//! `bluefin verify` of perf dbs: params of rows against those that solvers take without them.

use bluefin_common::problem::{Problem, driver};
use bluefin_miopen::db::perf_db::PerfDb;
use bluefin_miopen::key::{FindDbKey, PerfDbKey};
use bluefin_stand_ins::{Registered, solvers};

use super::{Machine, verdicts};
use crate::common::{expect, json, text, write};

const SYSTEM: &str = "gfx90a68.db.txt";
const SQLITE: &str = "gfx90a68.db";
/// All names that MIOpen's versions read, and whether they are SQLite.
const NAMES: [(&str, bool); 4] =
    [(SYSTEM, false), ("gfx90a68.HIP.3_3_0_stand-in.udb.txt", false), (SQLITE, true), ("gfx90a68_1.1.0.udb", true)];

/// Two lines: of a convolution for which one solver has params that are faster than its own and another one has slower ones, and of one whose row
/// is what the solver takes anyway.
struct Rows {
    key: String,
    faster: String,
    slower: String,
    /// The best that the second has.
    best: String,
    other: String,
    same: String,
    best_ms: f64,
}

impl Rows {
    fn new() -> Self {
        let named = |name: &str| solvers().find(|solver| solver.name == name).unwrap();
        let (a, b) = (named("ConvAsm3x3U"), named("ConvHipImplicitGemmV4R1Fwd"));
        let pick = |solver: &Registered, key: &str, wanted: &dyn Fn(f64) -> bool| {
            let own = solver.time_ms(key, &solver.default_params(key));
            solver.space(key).into_iter().find(|params| wanted(solver.time_ms(key, params) / own))
        };
        let (perf_key, key, faster, slower) = (1..64)
            .find_map(|n| {
                let (perf_key, key) = keys(n);
                let faster = pick(&a, &key, &|ratio| ratio < 0.8)?;
                let slower = pick(&b, &key, &|ratio| ratio > 1.2)?;
                Some((perf_key, key, faster, slower))
            })
            .unwrap();
        let best = b.best_params(&key);
        let best_ms = b.time_ms(&key, &best);
        let (other, find_key) = keys(100);
        let same = format!("{}:{}", a.name, a.default_params(&find_key));
        let (name_a, name_b) = (a.name, b.name);
        let row = |name: &str, params: &str| format!("{name}:{params}");
        let (faster, slower, best) = (row(name_a, &faster), row(name_b, &slower), row(name_b, &best));
        Self { key: perf_key, faster, slower, best, other, same, best_ms }
    }

    fn text(&self) -> String {
        let Self { key, faster, slower, other, same, .. } = self;
        format!("{key}={faster};{slower}\n{other}={same}\n")
    }
}

/// The keys of a convolution of that many pictures in perf dbs and find dbs.
fn keys(n: u32) -> (String, String) {
    let words = format!("conv -n {n} -c 64 -H 14 -W 14 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1");
    let problems = driver::parse(&words, None).unwrap();
    let [Problem::Conv(problem)] = &problems[..] else { panic!("{words}") };
    (PerfDbKey::from(problem).to_string(), FindDbKey::from(problem).to_string())
}

/// Writes a perf db in the form that its name says.
fn put(machine: &Machine, name: &str, text: &str) {
    if name.ends_with(".txt") {
        write(machine.folder.path(), name, text);
        return;
    }
    let path = machine.path(name);
    std::fs::write(&path, "").unwrap();
    PerfDb::parse_text("perf db", text.as_bytes()).unwrap().write_sqlite(&path).unwrap();
}

#[test]
fn params_are_held_against_those_that_solvers_take_without_them() {
    let rows = Rows::new();
    for (name, sqlite) in NAMES {
        let machine = Machine::new("unused.fdb.txt");
        put(&machine, name, &rows.text());
        let form: &[_] = if sqlite { &[("STAND_IN_PERF_DB", "sqlite")] } else { &[] };
        let report = json(&expect(&mut machine.verify(name, form, &["--json"]), 1));
        assert_eq!(verdicts(&report), ["faster", "slower", "tied"], "{name}: {report}");
        let row = &report[0]["rows"][1];
        assert_eq!(
            (row["key"].as_str(), row["solver"].as_str()),
            (Some(&*rows.key), Some("ConvHipImplicitGemmV4R1Fwd"))
        );

        let told = text(&expect(&mut machine.verify(name, form, &["--fix"]), 0).stdout);
        assert!(told.contains("; now no row, so that the solver chooses"), "{told}");
        let left = format!("{}={}\n{}={}\n", rows.key, rows.faster, rows.other, rows.same);
        let expected = PerfDb::parse_text("perf db", left.as_bytes()).unwrap();
        if sqlite {
            assert_eq!(PerfDb::read_sqlite(&machine.path(name)).unwrap().records, expected.records, "{name}");
        } else {
            assert_eq!(std::fs::read_to_string(machine.path(name)).unwrap(), left, "all else keeps its bytes");
        }
    }
}

#[test]
fn params_of_another_file_are_timed_as_well() {
    let (machine, rows) = (Machine::new("unused.fdb.txt"), Rows::new());
    put(&machine, SYSTEM, &rows.text());
    write(machine.folder.path(), "known.db.txt", &format!("{}={}\n", rows.key, rows.best));
    let report = json(&expect(&mut machine.verify(SYSTEM, &[], &["--json", "--known", "known.db.txt"]), 1));
    let row = &report[0]["rows"][1];
    let known = row["known"]["median_ms"].as_f64().unwrap();
    assert!((known - rows.best_ms).abs() < 1e-5 && row["regret"].as_f64().unwrap() > 0.1, "{row}");
    assert!(report[0]["rows"][0]["known"].is_null(), "{report}");
}

#[test]
fn rows_that_miopen_does_not_go_by_are_said_to_be_such() {
    let (machine, rows) = (Machine::new("unused.fdb.txt"), Rows::new());
    let Rows { key, .. } = &rows;
    let others = "BluefinConvDirect:1;ConvBiasActivAsm1x1U:1;ConvAsm1x1U:1";
    put(&machine, SYSTEM, &format!("{key}=ConvAsm3x3U:99,99,99;{others}\n{}\n", rows.text().lines().nth(1).unwrap()));
    let report = json(&expect(&mut machine.verify(SYSTEM, &[], &["--json"]), 0));
    assert_eq!(verdicts(&report), ["default", "unknown", "unknown", "unknown", "tied"], "{report}");
    let reasons = [
        "MIOpen does not take its params, and launches the default",
        "a solver of bluefin's, which MIOpen does not have",
        "a solver of another primitive (fusion), which MIOpenDriver does not launch by name",
        "no side runs: MIOpenDriver told no time: exit code 1: ",
    ];
    for (row, reason) in report[0]["rows"].as_array().unwrap().iter().zip(reasons) {
        assert!(row["reason"].as_str().unwrap().starts_with(reason), "{row}");
    }

    // A build that reads SQLite finds nothing in a text.
    put(&machine, SYSTEM, &rows.text());
    let output = expect(&mut machine.verify(SYSTEM, &[("STAND_IN_PERF_DB", "sqlite")], &["--json", "--fix"]), 1);
    assert_eq!(verdicts(&json(&output)), ["unknown"; 3]);
    assert!(text(&output.stdout).contains("MIOpen finds no such row in its perf db"));
    assert!(text(&output.stderr).contains("no row can be judged"));
    assert_eq!(std::fs::read_to_string(machine.path(SYSTEM)).unwrap(), rows.text());
}

#[test]
fn rows_that_miopen_need_not_have_read_are_not_judged() {
    let (machine, rows) = (Machine::new("unused.fdb.txt"), Rows::new());
    put(&machine, SYSTEM, &rows.text());
    for silent in ["(not searchable)", "(db access disabled)"] {
        let says = format!("MIOpen(HIP): Info [FindSolutionImpl] ConvHipImplicitGemmV4R1Fwd {silent}");
        let output = expect(&mut machine.verify(SYSTEM, &[("STAND_IN_SAYS", &says)], &["--json", "--fix"]), 1);
        let report = json(&output);
        assert_eq!(verdicts(&report), ["unknown"; 3], "{report}");
        assert_eq!(report[0]["rows"][1]["reason"], "MIOpen does not say that it reads the row");
    }
    assert_eq!(std::fs::read_to_string(machine.path(SYSTEM)).unwrap(), rows.text());
    // What is said is heard, however much follows.
    let report = json(&expect(&mut machine.verify(SYSTEM, &[("STAND_IN_BABBLES", "1")], &["--json"]), 1));
    assert_eq!(verdicts(&report), ["faster", "slower", "tied"], "{report}");

    // A build that reads SQLite takes what there is for another number of CUs, where its own is out of sight.
    std::fs::create_dir_all(machine.path("share/miopen/db")).unwrap();
    put(&machine, "share/miopen/db/gfx90a6e.db", &rows.text());
    put(&machine, "share/miopen/db/gfx90a68.db", &rows.text());
    let report = json(&expect(&mut machine.verify(SYSTEM, &[("STAND_IN_PERF_DB", "sqlite")], &["--json"]), 1));
    assert_eq!(verdicts(&report), ["unknown"; 3], "{report}");

    // A build that reads texts never opens a user's SQLite, and has what is installed on both sides.
    put(&machine, "gfx90a68_1.1.0.udb", &rows.text());
    let verdicts_beside = |installed: &str, code| {
        put(&machine, "installed/gfx90a68.db.txt", installed);
        let folder = machine.path("installed");
        let system = [("MIOPEN_SYSTEM_DB_PATH", folder.to_str().unwrap())];
        verdicts(&json(&expect(&mut machine.verify("gfx90a68_1.1.0.udb", &system, &["--json", "--fix"]), code)))
    };
    std::fs::create_dir(machine.path("installed")).unwrap();
    let best = format!("{}={}\n", rows.key, rows.best);
    assert_eq!(verdicts_beside(&best, 1), ["unknown"; 3]);
    let same = format!("{}={}\n", rows.key, rows.slower);
    assert_eq!(verdicts_beside(&same, 0), ["unknown", "default", "unknown"]);
}

#[test]
fn known_params_that_miopen_refuses_are_not_told_as_known() {
    let (machine, rows) = (Machine::new("unused.fdb.txt"), Rows::new());
    put(&machine, SYSTEM, &rows.text());
    write(machine.folder.path(), "known.db.txt", &format!("{}=ConvHipImplicitGemmV4R1Fwd:99,99\n", rows.key));
    let report = json(&expect(&mut machine.verify(SYSTEM, &[], &["--json", "--known", "known.db.txt"]), 1));
    let row = &report[0]["rows"][1];
    assert!(row["known"].is_null() && row["verdict"] == "slower", "{row}");
    let reason = "of the known params: MIOpen does not take its params, and launches the default";
    assert_eq!(row["reason"], reason);
}

#[test]
fn rows_that_lose_leave_all_else_as_it_is() {
    let (machine, rows) = (Machine::new("unused.fdb.txt"), Rows::new());
    let mut bytes = rows.text().into_bytes();
    bytes.extend(b"caf\xe9=ConvAsm3x3U:1\n");
    std::fs::write(machine.path(SYSTEM), &bytes).unwrap();
    expect(&mut machine.verify(SYSTEM, &[], &["--fix"]), 0);
    let left = format!("{}={}\n{}={}\n", rows.key, rows.faster, rows.other, rows.same);
    let read = || std::fs::read(machine.path(SYSTEM)).unwrap();
    assert_eq!(read(), [left.as_bytes(), b"caf\xe9=ConvAsm3x3U:1\n"].concat());

    // MIOpen has its users' databases open with a log beside them, and leaves problems without params.
    let name = "gfx90a68_1.1.0.udb";
    put(&machine, name, &rows.text());
    let open = rusqlite::Connection::open(machine.path(name)).unwrap();
    open.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE own (x INT); INSERT INTO own VALUES (7);",
    )
    .unwrap();
    let columns = PerfDbKey::COLUMNS.join(",");
    let other = "in_h = 77, id = 1000";
    open.execute_batch(&format!(
        "CREATE TEMP TABLE copied AS SELECT id,{columns} FROM config LIMIT 1; UPDATE copied SET {other}; \
         INSERT INTO config(id,{columns}) SELECT * FROM copied;"
    ))
    .unwrap();
    assert!(machine.path(&format!("{name}-wal")).metadata().unwrap().len() > 0);
    let sqlite = [("STAND_IN_PERF_DB", "sqlite")];
    let told = text(&expect(&mut machine.verify(name, &sqlite, &["--fix"]), 0).stdout);
    assert!(told.contains("; now no row, so that the solver chooses"), "{told}");
    let count = |what: &str| open.query_row(&format!("SELECT count(*) FROM {what}"), [], |row| row.get::<_, i64>(0));
    assert_eq!((count("perf_db"), count("own"), count("config")), (Ok(2), Ok(1), Ok(3)));
    drop(open);
    let expected = PerfDb::parse_text("perf db", left.as_bytes()).unwrap();
    assert_eq!(PerfDb::read_sqlite(&machine.path(name)).unwrap().records, expected.records);
}

#[test]
fn a_row_that_does_not_run_is_told_where_it_is_alone() {
    let (machine, rows) = (Machine::new("unused.fdb.txt"), Rows::new());
    put(&machine, SYSTEM, &format!("{}=ConvAsm1x1U:1\n", rows.key));
    let output = expect(&mut machine.verify(SYSTEM, &[], &["--json"]), 1);
    let report = json(&output);
    assert_eq!(verdicts(&report), ["unknown"]);
    let row = &report[0]["rows"][0];
    assert_eq!(row["solver"], "ConvAsm1x1U");
    assert!(row["reason"].as_str().unwrap().contains("is not applicable"), "{row}");
}

#[test]
fn files_that_hold_no_choice_are_named_as_such() {
    let machine = Machine::new("unused.fdb.txt");
    for (name, code, expected) in [
        ("gfx90a68.kdb", 2, "found a kernel db, which holds compiled code and chooses nothing"),
        ("gfx90a68.ukdb", 2, "found a kernel db"),
        ("saxpy.h", 2, "found a header, whose macros a compiler reads"),
        ("winners.json", 2, "found a report, which no program reads"),
        ("batchnorm_gfx90a68.db.txt", 1, "found a perf db of batch norms, expected one of convolutions"),
        ("gfx942130.db.txt", 1, "expected gfx90a68.db.txt or gfx90a68.db, or a user's"),
        (SYSTEM, 1, "found no row, expected some"),
    ] {
        write(machine.folder.path(), name, "");
        let told = text(&expect(&mut machine.verify(name, &[], &[]), code).stderr);
        assert!(told.contains(expected), "{name}: {told}");
    }
}
