//! `bluefin tune`: one process, nothing installed.

mod interrupted;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::artifact::Built;
use bluefin_common::digest::Digest;
use bluefin_common::outcome::Outcome;
use bluefin_common::session::{SessionName, Stage};
use bluefin_common::shelf;
use bluefin_common::store::{Artifacts as _, Blobs as _, Records as _, Sessions as _, Work as _};
use bluefin_common::task::Task;
use bluefin_common::wire;
use bluefin_compile_worker::carried::Kept;
use rustix::process::Signal;

use crate::common::{Running, bluefin, expect, files, json, text, write};

/// Two small convolutions, one direction each.
const PROBLEMS: &str = "./bin/MIOpenDriver conv -n 1 -c 16 -H 14 -W 14 -k 24 -y 3 -x 3 -p 1 -q 1 -F 1\n\
    ./bin/MIOpenDriver conv -n 1 -c 16 -H 14 -W 14 -k 24 -y 1 -x 1 -F 4\n";

fn tune(folder: &Path, problems: &str) -> Command {
    write(folder, "problems.txt", problems);
    let mut command = bluefin();
    command.current_dir(folder).args(["tune", "problems.txt", "--budget", "3", "--state", "state.db", "--out", "out"]);
    command
}

#[test]
fn tunes_and_does_nothing_the_second_time() {
    let folder = tempfile::tempdir().unwrap();
    let first = expect(tune(folder.path(), PROBLEMS).arg("--json"), 0);
    let result = json(&first);
    let problems = result["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 2);
    for problem in problems {
        assert!(problem["winner"]["median_ms"].as_f64().unwrap() > 0.0, "{problem}");
        assert!(problem["tried"].as_u64().unwrap() >= 3, "{problem}");
    }
    let written = files(&folder.path().join("out"));
    let names: Vec<&str> = written.keys().map(String::as_str).collect();
    assert_eq!(names, ["host.HOST.fdb.txt", "host.db", "host.db.txt", "host.kdb", "winners.json"]);
    let find_db = text(&written["host.HOST.fdb.txt"]);
    let keys: Vec<&str> = find_db.lines().filter_map(|line| line.split('=').next()).collect();
    assert_eq!(
        keys,
        ["16-14-14-3x3-24-14-14-1-1x1-1x1-1x1-0-NCHW-FP32-F", "24-14-14-1x1-16-14-14-1-0x0-1x1-1x1-0-NCHW-FP32-W"]
    );

    let second = expect(tune(folder.path(), PROBLEMS).arg("--json"), 0);
    assert!(text(&second.stderr).contains("nothing to do"), "{}", text(&second.stderr));
    assert_eq!(json(&second)["problems"], result["problems"]);
    assert_eq!(files(&folder.path().join("out")), written);
}

/// In BF16, and with channels innermost, the CPU's kernels work on copies; their references do not.
#[test]
fn other_types_and_layouts_have_winners() {
    let folder = tempfile::tempdir().unwrap();
    let nhwc = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC";
    let turned = format!("conv -n 2 -c 6 -H 9 -W 7 -k 9 -y 3 -x 2 -p 1 -q 0 -u 2 -v 1 -g 3 -F 0 {nhwc}\n");
    let others = format!("{turned}conv -n 2 -c 20 -H 8 -W 5 -k 12 -y 1 -x 1 -F 1\ngemm -m 37 -n 29 -k 43\n");
    for (data_type, problems, count) in [("FP32", &turned, 3), ("BF16", &others, 5)] {
        let tuned = expect(tune(folder.path(), problems).args(["--type", data_type, "--json"]), 0);
        let result = json(&tuned);
        let found = result["problems"].as_array().unwrap();
        assert_eq!(found.len(), count, "{data_type}");
        for problem in found {
            assert!(problem["winner"]["median_ms"].as_f64().unwrap() > 0.0, "{problem}");
            assert!(problem["failed"].as_object().unwrap().is_empty(), "{problem}");
        }
    }
}

/// A new state file, and one that it is filled from.
struct Copied {
    from: SqliteStore,
    to: SqliteStore,
    session: SessionName,
}

impl Copied {
    /// Of the session `it` in `state.db`, with its pins, into `copy.db`.
    async fn begin(folder: &Path) -> Self {
        let session: SessionName = "it".parse().unwrap();
        let from = SqliteStore::open(&folder.join("state.db")).await.unwrap();
        let to = SqliteStore::open(&folder.join("copy.db")).await.unwrap();
        to.create_session(&from.session(&session).await.unwrap().unwrap()).await.unwrap();
        for (key, value) in from.pins(&session).await.unwrap() {
            to.pin(&session, &key, &value).await.unwrap();
        }
        Self { from, to, session }
    }

    async fn outcomes(&self) -> Vec<Outcome> {
        let groups = self.from.groups(&self.session).await.unwrap();
        self.from.outcomes(&self.session, &groups).await.unwrap()
    }

    /// A task, and what it is checked by.
    async fn task(&self, digest: Digest) -> Task {
        let bytes = self.from.blob(digest).await.unwrap().unwrap();
        self.to.put_blob(&bytes).await.unwrap();
        wire::decode(&bytes).unwrap()
    }

    async fn artifacts(&self, built: &Built) {
        for object in &built.objects {
            let bytes = self.from.artifact(object.artifact).await.unwrap().unwrap();
            self.to.put_artifact(&bytes).await.unwrap();
        }
    }

    /// Puts the new one in the place of the other.
    async fn end(self, folder: &Path) {
        self.from.close().await;
        self.to.close().await;
        std::fs::rename(folder.join("copy.db"), folder.join("state.db")).unwrap();
    }
}

/// The state file is for any number of models.
#[test]
fn other_problems_are_compiled_into_the_same_state() {
    let folder = tempfile::tempdir().unwrap();
    for problems in [PROBLEMS, "conv -n 2 -c 8 -H 9 -W 9 -k 8 -y 3 -x 3 -F 1\n", PROBLEMS] {
        expect(tune(folder.path(), problems).args(["--session", "it", "--stage", "compile"]), 0);
    }
    expect(bluefin().current_dir(folder.path()).args(["tune", "--stage", "eval", "--state", "state.db"]), 0);
    let export = ["tune", "--stage", "export", "--state", "state.db", "--out", "out", "--json"];
    let output = expect(bluefin().current_dir(folder.path()).args(export), 0);
    assert_eq!(json(&output)["problems"].as_array().unwrap().len(), 3);
}

#[test]
fn parts_run_on_machines_of_their_own() {
    let (here, there, anywhere) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let part = |folder: &Path, part: &str| {
        let mut command = bluefin();
        command.current_dir(folder).args(["tune", "--state", "state.db", "--stage", part]);
        command
    };
    expect(&mut part(there.path(), "eval"), 1);
    let first = expect(tune(here.path(), PROBLEMS).args(["--stage", "compile"]), 0);
    assert!(text(&first.stderr).contains("compiled in"), "{}", text(&first.stderr));
    assert!(!here.path().join("out").exists(), "nothing is evaluated yet");

    std::fs::copy(here.path().join("state.db"), there.path().join("state.db")).unwrap();
    // No compiler can be found there; and it is killed once.
    let killed = Running::start(part(there.path(), "eval").env("PATH", "/nowhere").stderr(Stdio::null()));
    std::thread::sleep(Duration::from_millis(500));
    killed.signal(Signal::KILL);
    killed.wait(Duration::from_secs(10));
    let second = expect(part(there.path(), "eval").env("PATH", "/nowhere"), 0);
    assert!(text(&second.stderr).contains("evaluated in"), "{}", text(&second.stderr));
    let nothing = expect(part(there.path(), "eval").env("PATH", "/nowhere"), 0);
    assert!(text(&nothing.stderr).contains(" 0 compiled jobs"), "{}", text(&nothing.stderr));

    std::fs::copy(there.path().join("state.db"), anywhere.path().join("state.db")).unwrap();
    let third = expect(part(anywhere.path(), "export").args(["--json", "--out", "out"]), 0);
    let problems = json(&third)["problems"].as_array().unwrap().clone();
    assert!(problems.len() == 2 && problems.iter().all(|problem| problem["winner"].is_object()), "{problems:?}");
    let names: Vec<String> = files(&anywhere.path().join("out")).into_keys().collect();
    assert_eq!(names, ["host.HOST.fdb.txt", "host.db", "host.db.txt", "host.kdb", "winners.json"]);

    // More is compiled where the compilers are, into the state that came back: only that is evaluated.
    std::fs::copy(there.path().join("state.db"), here.path().join("state.db")).unwrap();
    let session = text(&first.stderr).split("session ").nth(1).unwrap().split(' ').next().unwrap().to_string();
    expect(part(here.path(), "compile").args(["problems.txt", "--session", &session, "--budget", "6"]), 0);
    std::fs::copy(here.path().join("state.db"), there.path().join("state.db")).unwrap();
    let more = expect(part(there.path(), "eval").env("PATH", "/nowhere"), 0);
    assert!(!text(&more.stderr).contains(" 0 compiled jobs"), "{}", text(&more.stderr));

    expect(part(there.path(), "eval").arg("problems.txt"), 2);
    expect(part(there.path(), "export").args(["--session", "other"]), 1);
}

/// When the outcomes of the only session ended, in milliseconds since the Unix epoch.
async fn ended(folder: &Path) -> Vec<u64> {
    let store = SqliteStore::open(&folder.join("state.db")).await.unwrap();
    let session = store.sessions().await.unwrap().remove(0).name;
    let groups = store.groups(&session).await.unwrap();
    let ended = store.outcomes(&session, &groups).await.unwrap().iter().map(|outcome| outcome.finished_ms).collect();
    store.close().await;
    ended
}

#[tokio::test]
async fn what_was_tuned_is_measured_again_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    expect(&mut tune(folder, PROBLEMS), 0);
    let first = ended(folder).await;
    let said = text(&expect(tune(folder, PROBLEMS).args(["--remeasure", "all"]), 0).stderr);
    assert!(said.contains("measured again: 2 of the problems"), "{said}");
    let second = ended(folder).await;
    assert_eq!(first.len(), second.len(), "{said}");
    assert!(first.iter().max() < second.iter().min(), "{first:?} {second:?}");
    // The same by a verb of its own, which leaves the work to the next run.
    let retry = ["jobs", "retry", "--remeasure", "ALL", "--state", "state.db"];
    let said = text(&expect(bluefin().current_dir(folder).args(retry), 0).stdout);
    assert!(said.contains("jobs planned again"), "{said}");
    expect(&mut tune(folder, PROBLEMS), 0);
    assert!(second.iter().max() < ended(folder).await.iter().min());
    expect(bluefin().current_dir(folder).args(["jobs", "retry", "--state", "state.db"]), 2);
}

#[test]
fn tunes_a_kernel_of_ones_own() {
    let folder = tempfile::tempdir().unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/stencil.toml");
    let output = expect(
        bluefin()
            .current_dir(folder.path())
            .args([
                "tune",
                "--budget",
                "3",
                "--json",
                "--size",
                "height=200",
                "--size",
                "height=300,width=70",
                "--kernel",
            ])
            .arg(example),
        0,
    );
    let result = json(&output);
    let problems = result["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 2);
    assert!(problems.iter().all(|problem| problem["winner"].is_object()), "{result}");
}

#[test]
fn a_broken_kernel_fails_by_kind_and_the_rest_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "broken.c", include_str!("../kernels/broken.c"));
    let spec = write(folder.path(), "broken.toml", include_str!("../kernels/broken.toml"));
    let output = expect(
        bluefin().current_dir(folder.path()).args(["tune", "--budget", "all", "--json", "--kernel"]).arg(spec),
        0,
    );
    let result = json(&output);
    let problem = &result["problems"][0];
    // Good, or Bad in the one way that is fine: they tie.
    let winner = &problem["winner"];
    assert!(winner["solver"] == "Good" || winner["params"]["HOW"] == "fine", "{problem}");
    let failed = &problem["failed"];
    for (kind, count) in [
        ("compile_error", 1),
        ("compile_timeout", 0),
        ("wrong_result", 1),
        ("output_not_written", 1),
        ("fault", 3),
        ("hang", 1),
    ] {
        assert_eq!(failed[kind].as_u64().unwrap_or(0), count, "{kind} in {failed}");
    }
}

/// No solver of the host's specs is for bfloat16 or int8, and none for channels-last.
#[test]
fn what_no_solver_applies_to_ends_at_once_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let small = "-n 2 -c 8 -H 8 -W 8 -k 8 -y 1 -x 1";
    let cases = [
        (
            format!("convfp16 {small} -F 1\n"),
            "conv-fwd-host needs (in_type == \"FP32\" || in_type == \"BF16\") (in_type is FP16)",
        ),
        (format!("convint8 {small} -F 1\n"), "(in_type is INT8)"),
        (format!("conv {small} -F 2 -I CHWN -f CHWN -O CHWN\n"), "in_layout is CHWN"),
        (format!("conv {small} -F 2 -I NHWC -f NCHW -O NHWC\n"), "conv-bwd-host needs wei_layout == in_layout"),
        ("bnorm -n 2 -c 8 -H 8 -W 8 -F 1 -m 1\n".to_string(), "no kernel spec is for batch norms"),
    ];
    for (problem, reason) in &cases {
        // A second time there is a session that holds nothing.
        for _ in 0..2 {
            let output = expect(tune(folder.path(), problem).arg("--json"), 1);
            let said = text(&output.stderr);
            assert!(said.contains("skipped, no solver applies: ") && said.contains(reason), "{said}");
            assert!(said.contains("nothing to do: no solver applies to any problem"), "{said}");
            let unsolved = &json(&output)["plan"]["unsolved"];
            assert_eq!(unsolved.as_array().unwrap().len(), 1, "{unsolved}");
            assert!(unsolved[0]["reason"].as_str().unwrap().contains(reason), "{unsolved}");
        }
        let output = expect(tune(folder.path(), problem).args(["--stage", "compile"]), 1);
        assert!(text(&output.stderr).contains(reason), "{}", text(&output.stderr));
        assert!(files(&folder.path().join("out")).is_empty(), "nothing was tuned");
    }
    let status = expect(bluefin().current_dir(folder.path()).args(["status", "--state", "state.db"]), 0);
    assert!(text(&status.stdout).contains("empty"), "{}", text(&status.stdout));

    // Beside one that is tuned, and many that are told in a few lines.
    let mut mixed = format!("{}{}", cases[0].0, PROBLEMS);
    mixed.extend((1..=30).map(|n| format!("convint8 -n {n} -c 8 -H 8 -W 8 -k 8 -y 1 -x 1 -F 1\n")));
    let output = expect(tune(folder.path(), &mixed).arg("--json"), 1);
    let said = text(&output.stderr);
    assert_eq!(said.matches("skipped, no solver applies: conv").count(), 20, "{said}");
    assert!(said.contains("skipped, no solver applies: 11 more problems"), "{said}");
    let result = json(&output);
    assert_eq!(result["plan"]["unsolved"].as_array().unwrap().len(), 31);
    let problems = result["problems"].as_array().unwrap();
    assert!(problems.len() == 2 && problems.iter().all(|problem| problem["winner"].is_object()), "{problems:?}");
}

/// A kernel of one's own that has no valid candidate, or is for another target.
#[test]
fn a_kernel_without_a_candidate_ends_at_once_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    std::fs::copy(examples.join("stencil.c"), folder.path().join("stencil.c")).unwrap();
    let spec = std::fs::read_to_string(examples.join("stencil.toml")).unwrap();
    let head = spec.split("[[solver]]").next().unwrap();
    let solver = "[[solver]]\nname = \"StencilNone\"\nalgorithm = \"Direct\"\nconstraints = [\"A > 0\", \"A * width < 1\"]\n\
        [[solver.param]]\nname = \"A\"\nvalues = [1, 2]\ndefault = 2\n[[solver.launch]]\nentry = \"stencil\"\narguments = [\"now\"]\n";
    let reference = spec.lines().find(|line| line.starts_with("reference")).unwrap();
    let none = format!("{}{solver}", head.replace(reference, "reference = \"StencilNone\""));
    let elsewhere = spec.replace("\"host\"", "\"gfx90a\"").replace("\"cc\"", "\"noop\"");
    let elsewhere = elsewhere.replace("entry = ", "grid = [1]\nblock = [64]\nentry = ");
    for (text_of_spec, reason) in [
        (none, "none of the 2 params of StencilNone is valid: the default needs A * width < 1 (A is 2, width is "),
        (elsewhere, "stencil is for gfx90a"),
    ] {
        write(folder.path(), "own.toml", &text_of_spec);
        let mut command = bluefin();
        command.current_dir(folder.path()).args(["tune", "--kernel", "own.toml", "--state", "state.db"]);
        let said = text(&expect(&mut command, 1).stderr);
        assert!(said.contains(reason) && said.contains("nothing to do"), "{said}");
    }
}

/// The compilers were stopped before they came to all problems: what is there is evaluated, and that is told.
#[tokio::test]
async fn what_was_never_compiled_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    expect(tune(folder.path(), PROBLEMS).args(["--session", "it", "--stage", "compile"]), 0);
    let session: SessionName = "it".parse().unwrap();
    let store = SqliteStore::open(&folder.path().join("state.db")).await.unwrap();
    let kept = Kept::load(&store, &session).await.unwrap();
    let lost = kept.jobs().next().unwrap().job.group();
    let keys: Vec<String> =
        kept.jobs().filter(|kept| kept.job.group() == lost).map(|kept| kept.job.id().to_string()).collect();
    store.remove_records(&shelf::compiled(&session), &keys).await.unwrap();
    store.close().await;
    let eval = ["tune", "--stage", "eval", "--state", "state.db"];
    let output = expect(bluefin().current_dir(folder.path()).args(eval), 1);
    assert!(text(&output.stderr).contains("1 problem with candidates that were never compiled"), "{output:?}");
    // Another run in that state waits for neither of them.
    let other = "conv -n 2 -c 8 -H 9 -W 9 -k 8 -y 3 -x 3 -F 1\n";
    expect(tune(folder.path(), other).args(["--session", "it"]), 0);
    // Compiled after all, it is evaluated.
    expect(tune(folder.path(), PROBLEMS).args(["--session", "it", "--stage", "compile"]), 0);
    expect(bluefin().current_dir(folder.path()).args(eval), 0);
}

/// The compilers were stopped amid a problem, and a run of other problems came in between, which forgets what it does not do.
#[tokio::test]
async fn what_is_compiled_in_part_is_not_taken_for_whole() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    expect(tune(folder, PROBLEMS).args(["--session", "it", "--stage", "compile"]), 0);
    let session: SessionName = "it".parse().unwrap();
    let store = SqliteStore::open(&folder.join("state.db")).await.unwrap();
    let kept = Kept::load(&store, &session).await.unwrap();
    let lost = kept.jobs().next().unwrap().job.clone();
    assert!(kept.jobs().filter(|kept| kept.job.group() == lost.group()).count() > 1);
    store.remove_records(&shelf::compiled(&session), &[lost.id().to_string()]).await.unwrap();
    store.close().await;

    let other = "conv -n 2 -c 8 -H 9 -W 9 -k 8 -y 3 -x 3 -F 1\n";
    expect(tune(folder, other).args(["--session", "it"]), 0);
    let eval = ["tune", "--stage", "eval", "--state", "state.db"];
    // The second time everything that is here is evaluated.
    for _ in 0..2 {
        let said = text(&expect(bluefin().current_dir(folder).args(eval), 1).stderr);
        assert!(said.contains("1 problem with candidates that were never compiled"), "{said}");
    }
    expect(tune(folder, PROBLEMS).args(["--session", "it", "--stage", "compile"]), 0);
    expect(bluefin().current_dir(folder).args(eval), 0);
    let export = ["tune", "--stage", "export", "--state", "state.db", "--out", "out", "--json"];
    let problems = json(&expect(bluefin().current_dir(folder).args(export), 0))["problems"].clone();
    assert_eq!(problems.as_array().unwrap().len(), 3);
}

/// One problem needs the compilers for its play-off, as its artifacts are gone; the other is played to its end.
#[tokio::test]
async fn what_waits_for_the_compilers_holds_up_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (first, second) = PROBLEMS.split_once('\n').unwrap();
    expect(tune(folder, first).args(["--session", "it", "--search", "fixed"]), 0);
    expect(tune(folder, second).args(["--session", "it", "--stage", "compile"]), 0);
    let copy = Copied::begin(folder).await;
    for outcome in copy.outcomes().await.iter().filter(|outcome| outcome.job.stage == Stage::Perf) {
        copy.task(outcome.task.unwrap()).await;
        copy.to.put_outcome(outcome).await.unwrap();
        copy.to.settle_group(&copy.session, outcome.group()).await.unwrap();
    }
    let kept = Kept::load(&copy.from, &copy.session).await.unwrap();
    let second = kept.jobs().next().unwrap().job.group();
    for kept in kept.jobs() {
        let task = copy.task(kept.task.digest().unwrap()).await;
        copy.artifacts(&task.reference).await;
        for built in kept.built.iter().flatten() {
            copy.artifacts(built).await;
        }
        let record = (kept.job.id().to_string(), wire::encode(kept).unwrap());
        copy.to.put_records(&shelf::compiled(&copy.session), &[record]).await.unwrap();
    }
    let session = copy.session.clone();
    copy.end(folder).await;

    let eval = ["tune", "--stage", "eval", "--state", "state.db"];
    let said = text(&expect(bluefin().current_dir(folder).args(eval), 1).stderr);
    assert!(said.contains("1 problem with candidates"), "{said}");
    let store = SqliteStore::open(&folder.join("state.db")).await.unwrap();
    let outcomes = store.outcomes(&session, &[second]).await.unwrap();
    assert!(outcomes.iter().any(|outcome| outcome.job.stage == Stage::Find), "{said}");
}

/// Another compiler, or another device, than the one that the session is of: nobody else takes what is handed back.
#[tokio::test]
async fn a_session_of_another_machine_is_not_waited_for() {
    for key in ["toolchain.cc", "device.host"] {
        let folder = tempfile::tempdir().unwrap();
        expect(tune(folder.path(), "convint8 -n 2 -F 1\n").args(["--session", "it"]), 1);
        let store = SqliteStore::open(&folder.path().join("state.db")).await.unwrap();
        store.pin(&"it".parse().unwrap(), key, "another").await.unwrap();
        store.close().await;
        let said = text(&expect(tune(folder.path(), PROBLEMS).args(["--session", "it"]), 1).stderr);
        assert!(said.contains("session it: it is pinned to another compiler or device"), "{said}");
    }
}

#[test]
fn bad_input_is_named_and_ends_with_its_code() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&[&str], i32, &str); 8] = [
        (&["tune"], 2, "nothing to tune"),
        (&["tune", "missing.txt"], 1, "missing.txt"),
        (&["tune", "problems.txt", "--budget", "some"], 2, "expected quick (8)"),
        (&["tune", "problems.txt", "--device", "cpu"], 2, "expected one of host"),
        (&["tune", "problems.txt", "--direction", "Q"], 2, "--direction"),
        (&["tune", "--kernel", "missing.toml"], 1, "missing.toml"),
        (&["enqueue", "problems.txt", "--session", "a/b"], 2, "session name"),
        (
            &["enqueue", "problems.txt", "--session", "a", "--amqp", "amqp://u:p@h", "--redis", "redis://h:1"],
            2,
            "password",
        ),
    ];
    write(folder.path(), "problems.txt", PROBLEMS);
    for (arguments, code, expected) in cases {
        let output = expect(bluefin().current_dir(folder.path()).args(arguments), code);
        assert!(text(&output.stderr).contains(expected), "{arguments:?}: {}", text(&output.stderr));
    }
    assert_eq!(files(folder.path()).len(), 1, "nothing half-written");
}

/// A target is named by the GPU that people buy, and need not be in the table of architectures if the compiler knows it.
#[test]
fn architectures_without_a_row_are_compiled_for() {
    let folder = tempfile::tempdir().unwrap();
    let half = "./bin/MIOpenDriver convfp16 -n 1 -c 16 -H 14 -W 14 -k 24 -y 1 -x 1 -F 1\n";
    let compile = |device: &str, code: i32| {
        let output = expect(tune(folder.path(), half).args(["--stage", "compile", "--device", device]), code);
        text(&output.stderr)
    };
    let known = compile("RTX 3090", 0);
    assert!(known.contains("session tune-sm_86-82-") && !known.contains("table of architectures"), "{known}");
    // Xavier's, which clang has known since its release 7.
    let unknown = compile("sm_72-8", 0);
    assert_eq!(unknown.matches("sm_72 is not in bluefin's table of architectures").count(), 1, "{unknown}");
    let refused = compile("gfx1399-4", 1);
    assert!(refused.starts_with("error: gfx1399-4: ") && refused.lines().count() == 1, "{refused}");
    assert!(refused.contains(" does not know gfx1399, expected a later release of bluefin"), "{refused}");
}
