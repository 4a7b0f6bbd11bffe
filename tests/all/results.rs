//! `bluefin results`, and what runs say of failures.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{bluefin, expect, json, text, write};

/// Tunes one good solver among all that can go wrong.
fn broken(folder: &Path) -> String {
    write(folder, "broken.c", include_str!("../kernels/broken.c"));
    write(folder, "broken.toml", include_str!("../kernels/broken.toml"));
    let arguments = ["tune", "--kernel", "broken.toml", "--budget", "all", "--session", "it", "--json"];
    text(&expect(bluefin().current_dir(folder).args(arguments), 0).stderr)
}

fn results(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = bluefin();
    command.current_dir(folder).env_remove("COLUMNS").arg("results").args(arguments);
    command
}

fn lines(folder: &Path, arguments: &[&str]) -> Vec<Value> {
    let output = expect(results(folder, arguments).arg("--json"), 0);
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn failures_are_told_with_their_words() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let said = broken(folder);
    assert!(said.contains("failed: 1 compile_error, 3 fault, 1 hang, 1 output_not_written, 1 wrong_result"), "{said}");
    assert!(said.contains("  wrong_result: Bad with HOW="), "{said}");
    let command = said.lines().find_map(|line| line.strip_prefix("in their own words: bluefin ")).unwrap();
    assert_eq!(command, "results --state bluefin.db --session it --failed");

    // The very command that was told, on a narrow terminal.
    let told: Vec<&str> = command.split(' ').collect();
    let output = expect(bluefin().current_dir(folder).env("COLUMNS", "80").args(told), 0);
    let table = text(&output.stdout);
    for line in table.lines().filter(|line| !line.starts_with("    | ")) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for words in ["compile_error", "error:", "SIGSEGV", "wrong_result", "hang"] {
        assert!(table.contains(words), "{words} in {table}");
    }
    assert!(!table.contains("Good"), "{table}");
    assert!(text(&output.stderr).starts_with("7 candidates: 1 compile_error, 3 fault"), "{output:?}");

    let only = |arguments: &[&str]| lines(folder, arguments).len();
    assert_eq!(only(&["--failed", "fault"]), 3);
    assert_eq!(only(&["--failed", "compile-error", "--solver", "good"]), 0);
    assert_eq!(only(&["--winner"]), 1);
    let unknown = expect(&mut results(folder, &["--failed", "--problem", "other"]), 2);
    assert!(text(&unknown.stderr).contains("--problem other: the session has none of that name"), "{unknown:?}");
    assert_eq!(only(&["--failed", "--problem", "broken", "--limit", "2"]), 2);
    let error = lines(folder, &["--failed", "compile_error"]).remove(0);
    assert_eq!((&error["result"], &error["params"]["HOW"]), (&"compile_error".into(), &"syntax".into()));
    assert!(error["detail"].as_str().unwrap().contains("error"), "{error}");
    assert_eq!((&error["median_ms"], &error["is_default"]), (&Value::Null, &Value::Bool(false)));
    assert!(error["compiled_by"].is_string() && error["finished_ms"].as_u64().unwrap() > 0, "{error}");

    for (arguments, code, expected) in [
        (&["--failed", "nonsense"][..], 2, "budget_spent"),
        (&["--session", "other"], 1, "session other: there is none of that name; there is it"),
        (&["--reverse"], 2, "--sort"),
        (&["--state", "missing.db"], 1, "missing.db"),
        (&["--force", "--sqlite", "bluefin.db"], 2, "is the state file itself"),
    ] {
        let output = expect(&mut results(folder, arguments), code);
        assert!(text(&output.stderr).contains(expected), "{arguments:?}: {output:?}");
    }
}

/// What `bluefin ARGUMENTS` prints to a terminal.
fn on_a_terminal(folder: &Path, arguments: &str, no_color: Option<&str>) -> String {
    let bluefin = bluefin();
    let mut command = Command::new("script");
    let line = format!("{} {arguments}", bluefin.get_program().to_str().unwrap());
    command.current_dir(folder).args(["-qec", &line, "/dev/null"]).env_remove("NO_COLOR");
    for (variable, _) in bluefin.get_envs() {
        command.env_remove(variable);
    }
    text(&command.envs(no_color.map(|value| ("NO_COLOR", value))).output().unwrap().stdout)
}

#[test]
fn colour_is_for_terminals() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    broken(folder);
    for (arguments, coloured) in [
        ("results", ["\x1b[31m", "\x1b[32m"]),
        ("status --state bluefin.db", ["\x1b[31m", "\x1b[32m"]),
        ("jobs list --state bluefin.db --place done", ["done", "\x1b[32m"]),
    ] {
        for said in [None, Some("")] {
            let seen = on_a_terminal(folder, arguments, said);
            assert!(coloured.iter().all(|code| seen.contains(code)), "{arguments}: {seen:?}");
        }
        let plain = on_a_terminal(folder, arguments, Some("1"));
        assert!(plain.contains("it") && !plain.contains('\x1b'), "{arguments}: {plain:?}");
        let piped = expect(bluefin().current_dir(folder).args(arguments.split(' ')), 0);
        assert!(!text(&piped.stdout).contains('\x1b'), "{piped:?}");
        let asked = expect(bluefin().current_dir(folder).args(arguments.split(' ')).args(["--color", "always"]), 0);
        assert!(coloured.iter().all(|code| text(&asked.stdout).contains(code)), "{asked:?}");
        let plain = on_a_terminal(folder, &format!("--color never {arguments}"), None);
        assert!(plain.contains("it") && !plain.contains('\x1b'), "{arguments}: {plain:?}");
    }
}

#[test]
fn every_format_has_every_candidate() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    broken(folder);
    let rows = lines(folder, &[]);
    let files = ["--parquet", "r.parquet", "--sqlite", "r.db", "--t4", "r.json"];
    let wrote = text(&expect(&mut results(folder, &files), 0).stdout);
    for name in ["r.parquet", "r.db", "r.json"] {
        assert!(wrote.contains(&format!("wrote {name}: {} rows", rows.len())), "{wrote}");
    }
    // Not again over what is there, unless told to.
    let again = expect(&mut results(folder, &files), 1);
    assert!(text(&again.stderr).contains("r.parquet: is there already; --force replaces it"), "{again:?}");
    expect(results(folder, &files).arg("--force"), 0);

    let database = rusqlite::Connection::open(folder.join("r.db")).unwrap();
    let count = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM results"), rows.len() as i64);
    assert_eq!(count("SELECT sum(failures) FROM failures_by_kind WHERE solver = 'Bad'"), 7);
    assert_eq!(count("SELECT count(*) FROM winners"), 1);
    let samples: i64 = rows.iter().map(|row| row["samples_ms"].as_array().unwrap().len() as i64).sum();
    assert!(samples > 0 && count("SELECT count(*) FROM samples") == samples);
    assert_eq!(&std::fs::read(folder.join("r.parquet")).unwrap()[..4], b"PAR1");
    let t4: Value = serde_json::from_slice(&std::fs::read(folder.join("r.json")).unwrap()).unwrap();
    assert_eq!(t4["results"].as_array().unwrap().len(), rows.len());

    let csv = text(&expect(results(folder, &["--csv", "--winner"]).arg("--stage=find"), 0).stdout);
    assert!(csv.starts_with("session,target,problem,") && csv.lines().count() == 2, "{csv}");

    // Fastest first, what has no time last; with a limit the same ones.
    let times = |rows: &[Value]| rows.iter().map(|row| row["median_ms"].as_f64()).collect::<Vec<_>>();
    let sorted = times(&lines(folder, &["--sort", "time"]));
    let (timed, failed): (Vec<Option<f64>>, Vec<Option<f64>>) = sorted.iter().partition(|time| time.is_some());
    assert!(timed.is_sorted_by(|a, b| a <= b) && failed.len() == 7, "{sorted:?}");
    assert_eq!(times(&lines(folder, &["--sort", "time", "--limit", "3"])), sorted[..3]);

    // A pipe has 120 characters in a line, but for words of compilers; all columns are there for the asking.
    let piped = text(&expect(&mut results(folder, &[]), 0).stdout);
    let table = piped.lines().filter(|line| !line.starts_with("    | "));
    assert!(table.clone().count() > 3 && table.into_iter().all(|line| line.chars().count() <= 120), "{piped}");
    let wide = text(&expect(&mut results(folder, &["--wide"]), 0).stdout);
    let header: Vec<&str> = wide.lines().next().unwrap().split_whitespace().collect();
    assert!(["median_ms", "evaluated", "artifacts", "detail"].iter().all(|name| header.contains(name)), "{header:?}");

    // A second session, and nobody says which.
    write(folder, "one.txt", "conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 3 -x 3 -p 1 -q 1 -F 1\n");
    expect(bluefin().current_dir(folder).args(["tune", "one.txt", "--budget", "1", "--session", "that"]), 0);
    let which = expect(&mut results(folder, &[]), 2);
    assert!(text(&which.stderr).contains("name one with --session: it, that"), "{which:?}");
    let key = "8-8-8-3x3-8-8-8-1-1x1-1x1-1x1-0-NCHW-FP32-F";
    for problem in [key, "MIOpenDriver conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 3 -x 3 -p 1 -q 1 -F 1", "3X3"] {
        let found = lines(folder, &["--session", "it,that", "--problem", problem]);
        assert!(!found.is_empty() && found.iter().all(|row| row["session"] == "that"), "{problem}: {found:?}");
    }
}

/// What a spec says of its work is told, and an edited spec is not taken for the one before.
#[test]
fn an_edited_kernel_is_told_from_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    std::fs::copy(examples.join("stencil.c"), folder.join("stencil.c")).unwrap();
    let spec = std::fs::read_to_string(examples.join("stencil.toml")).unwrap();
    let tune = |spec: &str| {
        write(folder, "stencil.toml", spec);
        let arguments = ["tune", "--kernel", "stencil.toml", "--size", "height=64,width=64", "--budget", "1", "--json"];
        json(&expect(bluefin().current_dir(folder).args(arguments).args(["--session", "it"]), 0))
    };
    let winners = || -> Vec<Value> {
        let text = std::fs::read(folder.join("out/winners.json")).unwrap();
        serde_json::from_slice::<Value>(&text).unwrap()["problems"].as_array().unwrap().clone()
    };
    let first = tune(&spec);
    let winner = &first["problems"][0]["winner"];
    let ms = winner["median_ms"].as_f64().unwrap();
    let gflops = 7.0 * 62.0 * 62.0 / (ms * 1e6);
    assert!((winner["gflops"].as_f64().unwrap() - gflops).abs() < 1e-9 * gflops, "{winner}");
    assert!(winner["gbytes_per_s"].as_f64().unwrap() > 0.0, "{winner}");

    let edited = spec.lines().filter(|line| !line.starts_with("flops") && !line.starts_with("bytes"));
    let second = tune(&format!("{}\n", edited.collect::<Vec<_>>().join("\n")));
    assert_eq!(second["problems"].as_array().unwrap().len(), 1);
    assert_eq!(second["problems"][0]["winner"]["gflops"], Value::Null);
    let digest = |told: &Value| told["spec_digest"].as_str().unwrap().to_string();
    assert_ne!(digest(&first["problems"][0]), digest(&second["problems"][0]));
    assert_eq!(winners().iter().map(digest).collect::<Vec<_>>(), [digest(&second["problems"][0])]);
    let note = second["export"]["notes"].to_string();
    assert!(note.contains("1 result of kernel specs that were edited since"), "{note}");

    // Back to the first: nothing is left to do, and it is what is in use now.
    let third = tune(&spec);
    assert_eq!(winners().iter().map(digest).collect::<Vec<_>>(), [digest(&third["problems"][0])]);
    assert_eq!(digest(&third["problems"][0]), digest(&first["problems"][0]));

    let export = ["export", "--state", "bluefin.db", "--session", "it", "-w", "--all-specs", "--out", "out"];
    expect(bluefin().current_dir(folder).args(export), 0);
    let all = winners();
    assert!(all.len() == 2 && all.iter().all(|told| told["tuned"].as_str().unwrap().ends_with('Z')), "{all:?}");
    assert_ne!(digest(&all[0]), digest(&all[1]));

    let results = ["results", "--state", "bluefin.db", "--session", "it"];
    let told = text(&expect(bluefin().current_dir(folder).args(results), 0).stdout);
    let newest = digest(&second["problems"][0])[..8].to_string();
    let note = format!("stencil was edited: rows are of 2 versions, {newest} is the newest");
    assert!(told.contains(&format!("\nnote: {note}\n")) && told.contains("(stencil, version "), "{told}");
    let report = ["report", "--state", "bluefin.db", "--session", "it", "--json"];
    let told = json(&expect(bluefin().current_dir(folder).args(report), 0));
    assert_eq!(told["warnings"], Value::from(vec![note]));
}

#[test]
fn what_can_not_be_launched_says_why_in_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "broken.c", include_str!("../kernels/broken.c"));
    write(folder, "broken.toml", include_str!("../kernels/broken.toml"));
    let tune = |more: &[&str]| {
        let mut command = bluefin();
        command.current_dir(folder).args(["tune", "--kernel", "broken.toml", "--budget", "1"]).args(more);
        command
    };
    let output = expect(&mut tune(&["--size", "n=0"]), 1);
    let table = text(&output.stdout);
    assert!(table.contains("invalid_launch (") && table.contains("found 0, expected 1 to"), "{table}");
    assert!(text(&output.stderr).contains("with its default params"), "{output:?}");
    // So does the part that only compiles.
    let output = expect(&mut tune(&["--size", "n=0", "--stage", "compile", "--state", "c.db", "--device", "host"]), 0);
    let said = text(&output.stderr);
    assert!(said.contains("invalid_launch") && said.contains("bluefin results --state c.db"), "{said}");
    for flag in [["--batchsize", "4"], ["--direction", "F"], ["--type", "FP16"]] {
        let output = expect(&mut tune(&flag), 2);
        assert!(text(&output.stderr).contains(&format!("{} changes the problems of a FILE", flag[0])), "{output:?}");
    }
}

/// A campaign from a plan says it as well, where its state is.
#[test]
fn a_plan_ends_with_what_failed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "broken.c", include_str!("../kernels/broken.c"));
    let all = r#"["syntax", "wrong", "unwritten", "segfault", "abort", "exits", "forever", "fine"]"#;
    let spec = include_str!("../kernels/broken.toml").replace(all, r#"["syntax", "fine"]"#);
    write(folder, "broken.toml", &spec.replace(r#"default = "fine""#, r#"default = "syntax""#));
    let plan = "[session]\nlabel = \"a plan\"\ntarget = \"host\"\n\
        [enqueue]\nkernels = [\"broken.toml\"]\ncandidates = \"1\"\n";
    write(folder, "plan.toml", plan);
    let output = expect(bluefin().current_dir(folder).args(["run", "plan.toml", "--state", "s t.db"]), 0);
    let said = text(&output.stderr);
    assert!(said.contains("failed: 1 compile_error"), "{said}");
    assert!(said.contains("  compile_error: Bad with its default params (HOW=syntax) on "), "{said}");
    assert!(said.ends_with("in their own words: bluefin results --state 's t.db' --session 1 --failed\n"), "{said}");
}
