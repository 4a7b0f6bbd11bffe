//! What people read at 80 columns, what a pipe gets, and what is said of a run.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use bluefin_test_support::{patience, wait_until};
use rustix::process::Signal;

use crate::common::{Running, bluefin, expect, text, write};

const PROBLEMS: &str =
    "conv -n 1 -c 16 -H 14 -W 14 -k 16 -y 1 -x 1 -F 1\nconv -n 1 -c 16 -H 14 -W 14 -k 16 -y 1 -x 1 -F 4\n";

/// What `bluefin` prints in `folder`, where a line has so many columns; `None`: in a pipe.
fn printed(folder: &Path, columns: Option<usize>, line: &str) -> String {
    let mut command = bluefin();
    match columns {
        Some(columns) => command.env("COLUMNS", columns.to_string()),
        None => command.env_remove("COLUMNS"),
    };
    text(&expect(command.current_dir(folder).args(line.split(' ')), 0).stdout)
}

/// Errors of a command line that ends with `code`.
fn refused(folder: &Path, code: i32, line: &str) -> String {
    text(&expect(bluefin().current_dir(folder).args(line.split(' ')), code).stderr)
}

#[test]
fn no_table_is_wider_than_the_terminal_and_no_word_is_broken() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "two.txt", PROBLEMS);
    let tuned = printed(folder, Some(80), "tune two.txt --device host --budget 2 --state a.db --out db");
    let table: Vec<&str> = tuned.lines().take_while(|line| !line.contains("as fast as")).collect();
    assert!(table.iter().all(|line| line.chars().count() <= 80), "{tuned}");
    assert!(tuned.contains(" ms ") && tuned.contains("ConvFwdHost"), "{tuned}");

    for line in ["status --state a.db", "jobs list --state a.db", "session list --state a.db"] {
        let narrow = printed(folder, Some(80), line);
        let wide = printed(folder, None, line);
        for (columns, text) in [(80, &narrow), (120, &wide)] {
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{line} at {columns}:\n{text}");
        }
        // Ages go on between two looks.
        let words = |text: &str| -> Vec<String> {
            let words = text.split_whitespace().filter(|word| !word.ends_with('s') && word.len() > 3);
            words.map(str::to_string).collect()
        };
        let of_narrow = words(&narrow);
        let lost: Vec<String> = words(&wide).into_iter().filter(|word| !of_narrow.contains(word)).collect();
        assert!(lost.is_empty(), "{line}: {lost:?} is not in\n{narrow}");
    }

    // What is done is listed as well.
    let jobs = printed(folder, Some(80), "jobs list --state a.db");
    assert!(jobs.contains("done") && jobs.contains("ConvBwdWeightsHost"), "{jobs}");
    let csv = printed(folder, None, "jobs list --state a.db --csv");
    assert!(csv.starts_with("problem,job,session,place,stage,solver,"), "{csv}");
    assert!(csv.lines().skip(1).all(|line| line.contains(",done,")), "{csv}");
    assert!(printed(folder, None, "status --state a.db --csv").starts_with("session,target,perf,find,"));
    let wide = printed(folder, Some(80), "jobs list --state a.db --wide");
    assert!(wide.lines().any(|line| line.chars().count() > 80), "{wide}");
    let devices = text(&bluefin().env("COLUMNS", "80").arg("devices").output().unwrap().stdout);
    assert!(devices.lines().all(|line| line.chars().count() <= 80), "{devices}");

    // Names that there are none of.
    let said = refused(folder, 2, "results --state a.db --solver convfwdhostgem");
    assert!(said.contains("--solver convfwdhostgem: the session has none of that name; did you mean"), "{said}");
    let said = refused(folder, 2, "results --state a.db --problem 99x99");
    assert!(said.contains("--problem 99x99: the session has none of that name"), "{said}");
    for line in ["status --state a.db --session tune-hots", "jobs list --state a.db --session tune-hots"] {
        let said = refused(folder, 1, line);
        assert!(said.contains("session tune-hots: there is none of that name; did you mean tune-host-"), "{said}");
    }
}

#[test]
fn gpu_runtimes_that_are_not_here_are_one_line() {
    let mut command = bluefin();
    command.env_remove("BLUEFIN_HIP_LIBRARY").env_remove("BLUEFIN_CUDA_LIBRARY").env_remove("LD_LIBRARY_PATH");
    let said = text(&command.arg("devices").output().unwrap().stdout);
    let about = said.lines().filter(|line| line.contains("libcuda") || line.contains("libamdhip64")).count();
    assert!(about <= 1, "{said}");
}

#[test]
fn a_line_that_is_cut_off_is_told() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "cut.txt", "conv -n 1 -c 3 -H 8\n");
    let output = expect(bluefin().current_dir(folder.path()).args(["problems", "list", "cut.txt"]), 0);
    let said = text(&output.stderr);
    assert!(said.contains("cut.txt:1: note: sizes are missing"), "{said}");
    assert!(said.contains("-W 32 -k 32 -y 3 -x 3"), "{said}");
}

#[test]
fn a_kernel_of_ones_own_comes_with_a_header_and_the_command_that_builds_it() {
    let folder = tempfile::tempdir().unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    // Large enough that the reference does not win on a busy machine: it has no params.
    let mut command = bluefin();
    command.current_dir(folder.path()).args(["tune", "--device", "host", "--budget", "2", "--out", "out", "--kernel"]);
    command.arg(examples.join("stencil.toml")).args(["--size", "height=256,width=512"]);
    let said = text(&expect(&mut command, 0).stderr);
    let mut written: Vec<String> = crate::common::files(&folder.path().join("out")).into_keys().collect();
    written.sort();
    assert_eq!(written, ["host.kdb", "stencil.h", "winners.json"], "no empty databases of MIOpen's");
    let header = std::fs::read_to_string(folder.path().join("out/stencil.h")).unwrap();
    assert!(header.contains("#define TILE_H ") && header.contains("#define ROWS "), "{header}");
    // The command works as it is told, beside the source.
    let (_, built_by) =
        said.split_once("stencil height=256 width=512 is built by: ").unwrap_or_else(|| panic!("{said}"));
    let line = built_by.lines().next().unwrap();
    assert!(line.contains("-ffp-contract=fast") && header.contains(line), "{line}\n{header}");
    std::fs::copy(examples.join("stencil.c"), folder.path().join("stencil.c")).unwrap();
    expect(std::process::Command::new("sh").current_dir(folder.path()).args(["-c", line]), 0);
    assert!(folder.path().join("stencil.so").exists());
    // Who asks for a database by its name gets it.
    let mut command = bluefin();
    command.current_dir(folder.path()).args(["session", "list", "--state", "bluefin.db"]);
    let session = text(&expect(&mut command, 0).stdout)
        .split_whitespace()
        .find(|word| word.starts_with("tune-"))
        .unwrap()
        .to_string();
    let mut command = bluefin();
    command.current_dir(folder.path()).args(["export", "--session", &session, "--find-db", "--out", "named"]);
    expect(&mut command, 0);
    assert!(folder.path().join("named/host.HOST.fdb.txt").exists());
}

#[test]
fn a_number_of_toml_is_a_number() {
    let folder = tempfile::tempdir().unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    std::fs::copy(examples.join("stencil.c"), folder.path().join("stencil.c")).unwrap();
    let spec = std::fs::read_to_string(examples.join("stencil.toml")).unwrap();
    for number in ["0.00001", "1e-7", "-2.5e-3", "1_000.5"] {
        write(folder.path(), "spec.toml", &spec.replace("f32 = 0.1", &format!("f32 = {number}")));
        let mut command = bluefin();
        command.current_dir(folder.path()).args(["tune", "--kernel", "spec.toml", "--size", "height=8,width=64"]);
        command.args(["--device", "host", "--stage", "compile", "--budget", "1", "--state"]).arg("n.db");
        expect(&mut command, 0);
    }
}

#[test]
fn an_interrupt_is_answered_at_once_and_obeyed_soon() {
    let folder = tempfile::tempdir().unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let said = folder.path().join("said");
    let mut command = bluefin();
    command
        .current_dir(folder.path())
        .args(["tune", "--device", "host", "--budget", "all", "--search", "fixed", "--kernel"]);
    command.arg(examples.join("stencil.toml")).args(["--size", "height=2048,width=2048"]);
    command.stdout(Stdio::null()).stderr(std::fs::File::create(&said).unwrap());
    let running = Running::start(&mut command);
    let read = || std::fs::read_to_string(&said).unwrap();
    wait_until(Duration::from_secs(60), "a plan", || read().contains("candidates"));
    std::thread::sleep(Duration::from_secs(2));
    running.signal(Signal::INT);
    let interrupted = Instant::now();
    wait_until(Duration::from_secs(5), "an answer", || read().contains("stopping: what a device or a compiler is at"));
    assert_eq!(running.wait(Duration::from_secs(30)), Some(130));
    // Three seconds of grace, and what a busy machine takes.
    assert!(interrupted.elapsed() < patience(Duration::from_secs(20)), "{:?}: {}", interrupted.elapsed(), read());
}

#[test]
fn the_config_file_stands_behind_the_environment_and_flags() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "two.txt", PROBLEMS);
    write(folder, "bluefin.toml", "device = \"mi300x\"\nstate = \"other.db\"\n");
    let listed = |arguments: &str| printed(folder, None, &format!("tune two.txt --list{arguments}"));
    assert!(listed("").contains("for gfx942-304"), "{}", listed(""));
    assert!(listed(" --device h100").contains("for sm_90-132"));
    assert!(printed(folder, None, "tune --help").contains("[default: other.db]"));
    let version = printed(folder, None, "--version --verbose");
    assert!(version.contains("config     bluefin.toml") && version.contains("compiler   cc: "), "{version}");
    // Another one is named, or none.
    write(folder, "mine.toml", "device = \"rtx4090\"\n");
    let mut command = bluefin();
    command.current_dir(folder).env("BLUEFIN_CONFIG", "mine.toml").args(["tune", "two.txt", "--list"]);
    assert!(text(&expect(&mut command, 0).stdout).contains("for sm_89-128"));
    write(folder, "bluefin.toml", "devise = \"mi300x\"\n");
    let said = refused(folder, 2, "tune two.txt --list");
    assert!(said.contains("bluefin.toml: ") && said.contains("unknown field `devise`"), "{said}");
    let mut command = bluefin();
    command.current_dir(folder).env("BLUEFIN_CONFIG", "").args(["tune", "two.txt", "--list", "--device", "host"]);
    expect(&mut command, 0);
}
