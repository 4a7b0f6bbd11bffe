//! What each role of a fleet may do, with the rights that `deploy/` gives it.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use bluefin_test_support::wait_until;

use crate::common::fleet::{Fleet, many_problems, noop_spec};
use crate::common::roles::{ROLES, Roles};
use crate::common::{bluefin, expect, text, verbs, write};

const PATIENCE: Duration = Duration::from_secs(60);

fn enqueue(roles: &Roles, session: &str, problems: u32) {
    let list = format!("{session}.txt");
    write(roles.fleet.folder.path(), &list, &many_problems(problems));
    let arguments = ["enqueue", &list, "--session", session, "--target", "gfx000-1", "--kernel"];
    expect(roles.bluefin("producer", &arguments).arg(noop_spec()), 0);
}

/// All that the store has, by key: what every command that wrote something has changed.
fn stored(roles: &Roles) -> Vec<String> {
    let keys = roles.redis("admin", &["KEYS", "*"]);
    let mut all: Vec<String> =
        keys.lines().map(|key| format!("{key} {}", roles.redis("admin", &["DUMP", key]))).collect();
    all.sort();
    all
}

/// What is said on standard error of a command that ends with 1: one line.
fn refusal(roles: &Roles, role: &str, arguments: &[&str]) -> String {
    let said = text(&expect(&mut roles.bluefin(role, arguments), 1).stderr);
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{role} {arguments:?}: {said}");
    errors[0].to_string()
}

#[test]
fn who_may_not_delete_changes_nothing() {
    let roles = Roles::start();
    enqueue(&roles, "kept", 4);
    let before = stored(&roles);
    for verb in [
        &["session", "delete", "kept", "--yes"][..],
        &["prune", "--session", "kept", "--yes"],
        &["jobs", "retry", "--failed", "--session", "kept"],
        &["dead", "retry", "--all"],
    ] {
        let said = refusal(&roles, "producer", verb);
        assert!(REFUSED.iter().any(|word| said.contains(word)), "{verb:?}: {said}");
        assert_eq!(stored(&roles), before, "{verb:?}");
    }
    // It is as it was, so that its jobs are done.
    let fleet: &Fleet = &roles.fleet;
    let _compile = fleet.worker(&["compile-worker", "--toolchain", "noop"]);
    let _eval = fleet.worker(&["eval-worker", "--device", "noop:gfx000-1"]);
    wait_until(PATIENCE, "the session to be complete", || {
        fleet.status("kept").is_some_and(|status| status["complete"] == true)
    });
}

/// Verbs that go to a fleet, what they are called with, and by whom. `{s}` is a session that the role may spoil, `{r}` the role,
/// `{j}` a job that is done.
const VERBS: [(&str, &str, &[&str]); 36] = [
    ("session list", "", &READERS),
    ("session show", "done", &READERS),
    ("status", "", &READERS),
    ("workers", "", &READERS),
    ("jobs list", "--session done", &READERS),
    ("job", "{j}", &READERS),
    ("results", "--session done", &READERS),
    ("report", "--session done --out {r}.html", &READERS),
    ("export", "--session done --out {r}-db", &ROLES),
    ("problems list", "--tag all", &READERS),
    ("problems tag list", "", &READERS),
    ("release list", "", &READERS),
    ("release verify", "", &READERS),
    ("session new", "--label x --name new-{r} --target host", &PLANNERS),
    ("problems import", "--tag {r} --file done.txt", &PLANNERS),
    ("problems tag remove", "of-{r}", &PLANNERS),
    ("enqueue", "done.txt --session {s} --kernel {k}", &PLANNERS),
    ("enqueue --priority", "low done.txt --session {s} --kernel {k}", &PLANNERS),
    ("reconcile", "--session {s}", &["producer", "monitor", "admin"]),
    ("session pause", "{s}", &PLANNERS),
    ("session resume", "{s}", &PLANNERS),
    ("session resume --priority", "high {s}", &PLANNERS),
    ("enqueue --retry-failed", "done.txt --session {s} --kernel {k}", &["admin"]),
    ("session unpin", "{s} rocm", &["admin"]),
    ("session cancel", "{s}", &PLANNERS),
    ("jobs retry", "--failed --session {s}", &["admin"]),
    ("jobs retry --dead", "--session {s}", &["admin"]),
    ("dead list", "", &["monitor", "admin"]),
    ("dead drop", "--all", &["monitor", "admin"]),
    ("dead retry", "--all", &["admin"]),
    ("release create", "{r}-3 --session done", &["admin"]),
    ("release rollback", "--channel {r}", &["admin"]),
    ("prune --dry-run", "--session {s}", &["admin"]),
    ("prune --samples", "--session {s} --yes", &["admin"]),
    ("session delete", "{s} --yes", &["admin"]),
    ("prune", "--older-than 1000d --yes", &["admin"]),
];

const READERS: [&str; 4] = ["producer", "exporter", "monitor", "admin"];
const PLANNERS: [&str; 2] = ["producer", "admin"];

/// Verbs that are not in [`VERBS`]: without a fleet, of a role that runs until it is stopped, or made of those.
const OTHERS: [&str; 37] = [
    "tune",
    "tune-gemm",
    "problems export",
    "problems keys",
    "session new",
    "solvers update",
    "solvers list",
    "applicability update",
    "applicability show",
    "run",
    "compile-worker",
    "eval-worker",
    "devices",
    "selftest",
    "check",
    "monitor",
    "dashboard",
    "capture",
    "apply",
    "gain",
    "init",
    "release show",
    "release export",
    "release diff",
    "install",
    "doctor",
    "coverage",
    "db",
    "aiter",
    "serving",
    "verify",
    "bench",
    "completions",
    "man",
    "problems tag show",
    "help",
    "problems tag",
];

/// What is said on standard error where a right is missing: by Redis, by its scripts, by RabbitMQ, and where a role has no broker.
const REFUSED: [&str; 4] =
    ["NOPERM", "The user executing the script can't", "ACCESS_REFUSED", "BLUEFIN_AMQP_URL is not set"];

/// Runs to the end, which is to come soon: whoever is refused waits for nothing.
fn soon(mut command: Command) -> Output {
    let mut limited = Command::new("timeout");
    limited.arg("60").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited.current_dir(command.get_current_dir().unwrap());
    command = limited;
    let output = command.output().unwrap();
    assert_ne!(output.status.code(), Some(124), "{command:?} hangs: {}", text(&output.stderr));
    output
}

/// Whether `role` may do it; what it may not is refused with one error.
fn may(roles: &Roles, role: &str, (verb, arguments): (&str, &str), job: &str) -> Result<bool, String> {
    let spec = noop_spec();
    let filled = arguments
        .replace("{s}", &format!("of-{role}"))
        .replace("{r}", role)
        .replace("{j}", job)
        .replace("{k}", spec.to_str().unwrap());
    let words: Vec<&str> = verb.split(' ').chain(filled.split_whitespace()).collect();
    let output = soon(roles.bluefin(role, &words));
    let said = format!("{}{}", text(&output.stderr), text(&output.stdout));
    // `status` says what it can, and what is away.
    let is_error = |line: &&str| line.starts_with("error: ") || verb == "status" && line.contains("refuses: ");
    let errors = said.lines().filter(is_error).count();
    if REFUSED.iter().any(|word| said.contains(word)) {
        let is_one_error = !output.status.success() && errors == 1;
        return if is_one_error { Ok(false) } else { Err(format!("{:?}: {said}", output.status)) };
    }
    // Workers that have ended are findings.
    let fine = output.status.success() || verb == "workers";
    if fine { Ok(true) } else { Err(format!("{:?}: {said}", output.status)) }
}

/// Prepares what the verbs are about, by those who do so in a fleet: which is the proof that their rights are enough.
fn worked(roles: &Roles) -> String {
    enqueue(roles, "done", 2);
    let compile = roles.worker("compile-worker", &["compile-worker", "--toolchain", "noop"]);
    let eval = roles.worker("eval-worker", &["eval-worker", "--device", "noop:gfx000-1"]);
    roles.fleet.wait_complete("done", PATIENCE);
    for worker in [compile, eval] {
        worker.signal(rustix::process::Signal::TERM);
        worker.wait(PATIENCE);
    }
    expect(&mut roles.bluefin("producer", &["problems", "import", "--tag", "all", "--file", "done.txt"]), 0);
    for role in ROLES {
        let session = format!("of-{role}");
        let new = ["session", "new", "--label", "x", "--name", &session, "--target", "gfx000-1", "--tuner", "kernels"];
        expect(roles.bluefin("producer", &new).args(["--rocm-v", "6.4"]), 0);
        enqueue(roles, &session, 1);
        expect(&mut roles.bluefin("producer", &["problems", "import", "--tag", &session, "--file", "done.txt"]), 0);
        for release in ["1", "2"].map(|number| format!("{role}-{number}")) {
            let create = ["release", "create", &release, "--session", "done", "--channel", role];
            expect(&mut roles.bluefin("admin", &create), 0);
        }
    }
    let jobs = text(&expect(&mut roles.bluefin("exporter", &["results", "--session", "done", "--json"]), 0).stdout);
    let one: serde_json::Value = serde_json::from_str(jobs.lines().next().unwrap()).unwrap();
    one["job"].as_str().unwrap().to_string()
}

#[test]
fn every_role_may_do_what_the_table_says() {
    let roles = Roles::start();
    let job = worked(&roles);
    let mut wrong = Vec::new();
    // One verb after the other, as what one of them does others look at.
    for (verb, arguments, expected) in VERBS {
        let found = std::thread::scope(|scope| {
            let (roles, job) = (&roles, &job);
            let tried = ROLES.map(|role| scope.spawn(move || may(roles, role, (verb, arguments), job)));
            tried.map(|thread| thread.join().unwrap())
        });
        for (role, may) in ROLES.into_iter().zip(found) {
            if may != Ok(expected.contains(&role)) {
                wrong.push(format!("{role}: {verb}: may it: {may:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_manual_has_the_table() {
    let manual = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operating.md")).unwrap();
    let mut table = format!("| `bluefin` | {} |\n| --- {}|\n", ROLES.join(" | "), "| --- ".repeat(ROLES.len()));
    for (verb, _, by) in VERBS {
        let marks = ROLES.map(|role| if by.contains(&role) { "yes" } else { "" });
        table.push_str(&format!("| `{verb}` | {} |\n", marks.join(" | ")));
    }
    assert!(manual.contains(&table), "docs/operating.md does not have this table:\n{table}");
}

#[test]
fn no_verb_is_left_out() {
    let mut unseen = vec![Vec::<String>::new()];
    let mut left_out = Vec::new();
    while let Some(verb) = unseen.pop() {
        let name = verb.join(" ");
        if OTHERS.contains(&name.as_str()) && name != "problems tag" || VERBS.iter().any(|(known, ..)| *known == name) {
            continue;
        }
        let help = text(&expect(bluefin().args(&verb).arg("--help"), 0).stdout);
        let below = verbs(&help);
        if below.is_empty() {
            left_out.push(name);
        }
        unseen.extend(below.into_iter().map(|one| [&*verb, &[one.to_string()]].concat()));
    }
    assert!(left_out.is_empty(), "in no table of roles: {left_out:?}");
}

#[test]
fn the_monitor_mends_with_the_rights_that_it_has() {
    let roles = Roles::start();
    enqueue(&roles, "lost", 2);
    // The broker has lost its messages.
    for queue in roles.rabbit.ctl(&["list_queues", "name"]).lines().filter(|name| name.starts_with("bluefin.compile")) {
        roles.rabbit.ctl(&["purge_queue", queue]);
    }
    let arguments = ["monitor", "--admin-addr", "127.0.0.1:0", "--every", "200ms", "--mend-after", "1s"];
    let _monitor = roles.worker("monitor", &arguments);
    wait_until(PATIENCE, "the jobs to be published again", || {
        let queues = roles.rabbit.ctl(&["list_queues", "name", "messages"]);
        let waiting = queues.lines().find_map(|line| line.strip_prefix("bluefin.compile.noop.gfx000-1\t"));
        waiting.is_some_and(|waiting| waiting.trim() != "0")
    });
}
