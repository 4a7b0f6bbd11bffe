//! Who works, and why nothing moves: `workers` and `status` over real servers.

use std::time::Duration;

use bluefin_adapters::redis::RedisStore;
use bluefin_common::store::Sessions as _;
use bluefin_test_support::{patience, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use crate::common::fleet::{Fleet, many_problems, noop_spec, on_servers};
use crate::common::{expect, json, text, write};

const PATIENCE: Duration = Duration::from_secs(60);

fn enqueue(fleet: &Fleet, session: &str) {
    write(fleet.folder.path(), "problems.txt", &many_problems(2));
    let mut command = fleet.bluefin(&["enqueue", "problems.txt", "--session", session, "--target", "gfx000-1"]);
    expect(command.arg("--kernel").arg(noop_spec()), 0);
}

fn why(fleet: &Fleet, session: &str) -> Vec<String> {
    let reasons = fleet.told(session)["why"].clone();
    serde_json::from_value(reasons).unwrap()
}

#[test]
fn a_session_that_does_not_move_says_why() {
    let (fleet, _vhost, _redis, _cache) = on_servers();
    enqueue(&fleet, "still");
    let reasons = why(&fleet, "still");
    assert!(reasons[0].ends_with("wait in bluefin.compile.noop.gfx000-1, and no worker takes from it"), "{reasons:?}");
    assert_eq!(text(&expect(&mut fleet.bluefin(&["workers", "--here", "--json"]), 1).stdout).trim(), "[]");

    let compile = fleet.worker(&["compile-worker", "--toolchain", "noop", "--name", "builder"]);
    let evals =
        || why(&fleet, "still").iter().any(|reason| reason.contains("wait in bluefin.eval.gfx000-1, and no worker"));
    wait_until(PATIENCE, "jobs that nobody evaluates", evals);
    // It says so itself every five seconds.
    let builder = || json(&expect(&mut fleet.bluefin(&["workers", "--json"]), 0))[0].clone();
    let queue = Value::from("bluefin.compile.noop.gfx000-1");
    wait_until(PATIENCE, "its queue", || builder()["queues"].as_array().unwrap().contains(&queue));
    let builder = builder();
    assert_eq!((&builder["worker"], &builder["step"]), (&Value::from("builder"), &Value::from("compile")));

    let jobs = |place: &str| -> Vec<Value> {
        let listed = text(&expect(&mut fleet.bluefin(&["jobs", "list", "--json", "--place", place]), 0).stdout);
        listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    // A job that the builder held when it last spoke is in its hands until it speaks again.
    wait_until(PATIENCE, "24 jobs that wait", || jobs("waiting").len() == 24);
    assert!(jobs("done").is_empty());

    let eval = fleet.worker(&["eval-worker", "--device", "noop:gfx000-1", "--name", "gpu-7"]);
    fleet.wait_complete("still", PATIENCE);
    assert!(why(&fleet, "still").is_empty());
    let done = jobs("done");
    let one = &done[0];
    assert_eq!((&one["worker"], &one["attempts"]), (&Value::from("gpu-7"), &Value::from(1)), "{one}");
    let id = &one["job"].as_str().unwrap()[..12];
    let told = text(&expect(&mut fleet.bluefin(&["job", id]), 0).stdout);
    assert!(told.contains("compiled  by builder") && told.contains("evaluated by gpu-7"), "{told}");
    let shown = json(&expect(&mut fleet.bluefin(&["job", id, "--json"]), 0));
    assert_eq!(shown["outcome"]["course"]["compiled"]["worker"], "builder");
    assert!(
        text(&expect(&mut fleet.bluefin(&["job", "0000000000000000"]), 1).stderr).contains("none whose id begins so")
    );
    assert!(
        text(&expect(&mut fleet.bluefin(&["jobs", "list", "--place", "waiting"]), 0).stdout)
            .contains("no job is there")
    );
    assert!(text(&expect(&mut fleet.bluefin(&["jobs", "list"]), 0).stdout).contains("done"));
    for worker in [compile, eval] {
        worker.signal(Signal::TERM);
        assert_eq!(worker.wait(PATIENCE), Some(0), "{}", fleet.logged());
    }
    let workers = json(&expect(&mut fleet.bluefin(&["workers", "--json"]), 1));
    let states: Vec<&str> = workers.as_array().unwrap().iter().map(|one| one["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["ended", "ended"]);
    let done = workers[1]["settled"]["done"].as_u64().unwrap();
    assert!(workers[1]["worker"] == "gpu-7" && done > 0, "{workers}");
    let told = text(&expect(&mut fleet.bluefin(&["workers"]), 1).stdout);
    assert!(told.contains("gpu-7") && told.contains("ended"), "{told}");
    // One line a job on both sides.
    let log = fleet.logged();
    assert_eq!(log.lines().filter(|line| line.contains(": done job=")).count() as u64, done, "{log}");
    assert!(log.contains(": compiled job="), "{log}");
}

#[test]
fn a_worker_that_is_killed_is_not_heard_of_soon() {
    let (fleet, _vhost, _redis, _cache) = on_servers();
    let worker = fleet.worker(&["eval-worker", "--device", "noop:gfx000-1", "--name", "gpu-7"]);
    let told = || text(&fleet.bluefin(&["workers"]).output().unwrap().stdout);
    wait_until(PATIENCE, "it to be here", || told().contains("idle"));
    worker.signal(Signal::KILL);
    worker.wait(PATIENCE);
    let killed = std::time::Instant::now();
    wait_until(PATIENCE, "it to be missed", || told().contains("gpu-7: not heard of for 2"));
    assert!(killed.elapsed() < patience(Duration::from_secs(30)), "{:?}", killed.elapsed());
    let table = told();
    assert!(table.contains("not heard of") && !table.contains("working"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 120), "{table}");
}

#[tokio::test]
async fn whom_a_session_refuses_is_seen_by_everybody() {
    let (fleet, _vhost, redis, _cache) = on_servers();
    enqueue(&fleet, "pinned");
    let store = RedisStore::connect(&redis.url(), None, Duration::from_secs(600)).await.unwrap();
    store.pin(&"pinned".parse().unwrap(), "toolchain.noop", "of another age").await.unwrap();
    let _compile = fleet.worker(&["compile-worker", "--toolchain", "noop", "--name", "builder"]);
    let refused = || {
        let said = why(&fleet, "pinned");
        said.iter().any(|one| one.contains("builder is refused: toolchain.noop is pinned to of another age, it has"))
    };
    wait_until(PATIENCE, "the refusal", refused);
    let told = text(&fleet.bluefin(&["workers"]).output().unwrap().stdout);
    assert!(told.contains("session pinned is pinned to another toolchain.noop: of another age"), "{told}");
    // Whoever waits for the right worker takes what there is instead, and the worker need not be told.
    // They go round, a few seconds each time.
    let delayed = || {
        let listed = expect(&mut fleet.bluefin(&["jobs", "list", "--json", "--place", "delayed"]), 0);
        text(&listed.stdout).lines().any(|line| line.contains("\"until_ms\":1") && line.contains("conv "))
    };
    wait_until(PATIENCE, "jobs that come back", delayed);
    expect(&mut fleet.bluefin(&["session", "unpin", "pinned", "toolchain.noop"]), 0);
    let _eval = fleet.worker(&["eval-worker", "--device", "noop:gfx000-1"]);
    fleet.wait_complete("pinned", PATIENCE);
}
