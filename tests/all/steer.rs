//! Sessions that are paused, cancelled, deleted and tried again, with jobs in queues and processes that are killed amid it.

use std::time::Duration;

use bluefin_adapters::amqp::AmqpBroker;
use bluefin_adapters::redis::RedisStore;
use bluefin_common::broker::Broker;
use bluefin_common::history;
use bluefin_common::job::{CompileJob, JobId};
use bluefin_common::outcome::Outcome;
use bluefin_common::session::SessionName;
use bluefin_common::store::Work as _;
use bluefin_common::wire;
use bluefin_test_support::{Redis, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use crate::common::fleet::{Fleet, many_problems, noop_spec, on_servers};
use crate::common::{Running, bluefin, expect, json, text, write};

const PATIENCE: Duration = Duration::from_secs(120);
const COMPILE: &str = "bluefin.compile.noop.gfx000-1";
const EVAL: &str = "bluefin.eval.gfx000-1";

fn enqueue(fleet: &Fleet, session: &str, problems: u32) -> u64 {
    let list = format!("{session}.txt");
    write(fleet.folder.path(), &list, &many_problems(problems));
    let arguments = ["enqueue", &list, "--session", session, "--target", "gfx000-1", "--json", "--kernel"];
    json(&expect(fleet.bluefin(&arguments).arg(noop_spec()), 0))["enqueued"].as_u64().unwrap()
}

fn workers(fleet: &Fleet) -> (Running, Running) {
    (
        fleet.worker(&["compile-worker", "--toolchain", "noop"]),
        fleet.worker(&["eval-worker", "--device", "noop:gfx000-1"]),
    )
}

fn waiting(fleet: &Fleet) -> u64 {
    let status = json(&fleet.bluefin(&["status", "--json"]).output().unwrap());
    [COMPILE, EVAL].iter().map(|queue| status["queues"][queue].as_u64().unwrap_or(0)).sum()
}

fn done(fleet: &Fleet, session: &str) -> u64 {
    let status = fleet.told(session);
    ["perf", "find"].iter().map(|stage| status["done"][stage].as_u64().unwrap_or(0)).sum()
}

fn say(fleet: &Fleet, arguments: &[&str]) -> String {
    text(&expect(&mut fleet.bluefin(arguments), 0).stdout)
}

/// Starts `arguments` again and again and kills it at some point, then lets it end.
fn killed_amid(fleet: &Fleet, arguments: &[&str]) {
    let mut killed = 0;
    for millis in [5, 30, 60, 90, 130, 180] {
        let verb = fleet.worker(arguments);
        std::thread::sleep(Duration::from_millis(millis));
        verb.signal(Signal::KILL);
        // Who was done before has a code.
        killed += usize::from(verb.wait(PATIENCE).is_none());
    }
    assert!(killed > 0, "{arguments:?} was always done before");
    expect(&mut fleet.bluefin(arguments), 0);
}

/// Keys of Redis that are of a session.
fn keys(redis: &Redis, session: &str) -> Vec<String> {
    let patterns = [format!("bluefin:session:{session}:*"), format!("bluefin:shelf:*:{session}*")];
    patterns.iter().flat_map(|pattern| list(redis, pattern)).collect()
}

/// Keys of Redis that match `pattern`.
fn list(redis: &Redis, pattern: &str) -> Vec<String> {
    let output = std::process::Command::new("redis-cli").args(["-u", &redis.url(), "KEYS", pattern]).output().unwrap();
    text(&output.stdout).lines().map(str::to_string).filter(|key| !key.is_empty()).collect()
}

#[test]
fn a_paused_session_waits_and_blocks_nobody() {
    let (fleet, _vhost, redis, _cache) = on_servers();
    let jobs = enqueue(&fleet, "slow", 60);
    for _ in 0..2 {
        assert_eq!(say(&fleet, &["session", "pause", "slow"]), "session slow: paused\n");
    }
    let (compile, eval) = workers(&fleet);
    enqueue(&fleet, "quick", 3);
    fleet.wait_complete("quick", PATIENCE);
    // A worker that is killed amid parking has its messages delivered to the next.
    compile.signal(Signal::KILL);
    let _again = fleet.worker(&["compile-worker", "--toolchain", "noop"]);
    wait_until(PATIENCE, "the queues to be empty", || waiting(&fleet) == 0);
    assert_eq!(done(&fleet, "slow"), 0);
    assert!(say(&fleet, &["session", "list"]).contains("  paused  "));
    assert!(keys(&redis, "slow").iter().any(|key| key.starts_with("bluefin:shelf:parked:slow:")));
    assert!(fleet.told("slow")["planned"]["perf"] == jobs);

    killed_amid(&fleet, &["session", "resume", "slow"]);
    eval.signal(Signal::KILL);
    let _eval = fleet.worker(&["eval-worker", "--device", "noop:gfx000-1"]);
    fleet.wait_complete("slow", PATIENCE);
    assert!(!keys(&redis, "slow").iter().any(|key| key.contains("parked")));
    let progress = fleet.told("slow");
    assert_eq!(progress["done"], progress["planned"], "{progress}");
}

#[test]
fn who_comes_late_or_matters_more_is_not_behind_a_large_session() {
    let (fleet, _vhost, _redis, _cache) = on_servers();
    let jobs = enqueue(&fleet, "large", 700);
    assert!(jobs > 600, "{jobs}");
    let low = enqueue(&fleet, "may-wait", 3);
    say(&fleet, &["session", "pause", "may-wait"]);
    let (_compile, _eval) = workers(&fleet);
    enqueue(&fleet, "small", 10);
    fleet.wait_complete("small", PATIENCE);
    // All of it was enqueued before, and most of it is still to be done.
    let behind = jobs - done(&fleet, "large").min(jobs);
    assert!(behind > jobs / 4, "{behind} of {jobs} are left");
    say(&fleet, &["session", "resume", "may-wait", "--priority", "low"]);
    assert!(say(&fleet, &["session", "show", "may-wait"]).contains("  priority low\n"));
    for session in ["large", "may-wait"] {
        fleet.wait_complete(session, PATIENCE);
        let progress = fleet.told(session);
        assert_eq!(progress["done"], progress["planned"], "{progress}");
    }
    assert!(low > 0 && waiting(&fleet) == 0);
    let refused = expect(&mut fleet.bluefin(&["session", "resume", "large", "--priority", "urgent"]), 2);
    assert!(text(&refused.stderr).contains("expected high, normal or low"), "{}", text(&refused.stderr));
}

#[test]
fn a_cancelled_session_is_dropped_and_can_be_taken_up_again() {
    let (fleet, _vhost, _redis, _cache) = on_servers();
    enqueue(&fleet, "not", 40);
    for _ in 0..2 {
        assert_eq!(say(&fleet, &["session", "cancel", "not"]), "session not: cancelled\n");
    }
    let (_compile, _eval) = workers(&fleet);
    wait_until(PATIENCE, "the queues to be empty", || waiting(&fleet) == 0);
    assert_eq!(done(&fleet, "not"), 0);
    let refused = expect(fleet.bluefin(&["enqueue", "not.txt", "--session", "not", "--kernel"]).arg(noop_spec()), 1);
    assert!(text(&refused.stderr).contains("bluefin session resume not"), "{}", text(&refused.stderr));

    killed_amid(&fleet, &["session", "resume", "not"]);
    fleet.wait_complete("not", PATIENCE);
    let progress = fleet.told("not");
    assert_eq!(progress["done"], progress["planned"], "{progress}");
}

#[test]
fn a_deleted_session_leaves_nothing_and_its_jobs_are_acknowledged() {
    let (fleet, _vhost, redis, _cache) = on_servers();
    enqueue(&fleet, "stays", 4);
    let (compile, eval) = workers(&fleet);
    fleet.wait_complete("stays", PATIENCE);
    let before = fleet.export("stays", "before");
    enqueue(&fleet, "gone", 60);
    wait_until(PATIENCE, "some of it to be done", || done(&fleet, "gone") > 5);
    compile.signal(Signal::KILL);
    let refused = expect(&mut fleet.bluefin(&["session", "delete", "gone"]), 2);
    assert!(text(&refused.stderr).contains("--dry-run"));
    let dry = json(&expect(&mut fleet.bluefin(&["session", "delete", "gone", "--dry-run", "--json"]), 0));
    assert!(dry["belongings"]["size"]["outcomes"].as_u64().unwrap() > 0, "{dry}");
    assert_eq!(fleet.told("gone")["session"], Value::Null, "still there, by its fields");

    killed_amid(&fleet, &["session", "delete", "gone", "--yes"]);
    let _compile = fleet.worker(&["compile-worker", "--toolchain", "noop"]);
    wait_until(PATIENCE, "the queues to be empty", || waiting(&fleet) == 0);
    // What a worker had in hand is not stored any more.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(keys(&redis, "gone"), [""; 0]);
    assert!(!say(&fleet, &["session", "list"]).contains("gone"));
    expect(&mut fleet.bluefin(&["session", "show", "gone"]), 1);
    // Kernels and specs that both have are those of the other one as well.
    let after = fleet.export("stays", "after");
    assert_eq!(crate::common::files(&before), crate::common::files(&after));
    // What compilers had put there of jobs that were never evaluated is named by nobody, and goes too.
    say(&fleet, &["prune", "--unnamed-for", "0s", "--yes"]);
    assert_eq!(crate::common::files(&before), crate::common::files(&fleet.export("stays", "pruned")));
    say(&fleet, &["session", "delete", "stays", "--yes"]);
    say(&fleet, &["prune", "--unnamed-for", "0s", "--yes"]);
    assert_eq!(list(&redis, "bluefin:blob:*"), [""; 0]);
    // A new one of the name is another one.
    enqueue(&fleet, "gone", 2);
    fleet.wait_complete("gone", PATIENCE);
    drop(eval);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_up_is_tried_again_and_remembered() {
    let (fleet, _vhost, redis, cache) = on_servers();
    let jobs = enqueue(&fleet, "dead", 10);
    let name: SessionName = "dead".parse().unwrap();
    let store = RedisStore::connect(&redis.url(), Some(&cache.url()), Duration::from_secs(600)).await.unwrap();
    let broker = AmqpBroker::connect(&fleet.amqp).await.unwrap();
    let mut given_up: Vec<JobId> = Vec::new();
    let mut consumer = broker.consume(COMPILE, 100).await.unwrap();
    for _ in 0..jobs {
        let delivery = consumer.next().await.unwrap();
        let job = wire::decode::<CompileJob>(&delivery.body).unwrap().job;
        given_up.push(job.id());
        store.put_outcome(&Outcome::dead(&job, "20 workers died while they worked on it", 7)).await.unwrap();
        delivery.dead("20 workers died while they worked on it").await.unwrap();
    }
    consumer.stop().await;
    broker.publish("bluefin.eval.gfx000-1", "poison", b"no job".as_slice().into()).await.unwrap();
    let listed = |fleet: &Fleet| json(&expect(&mut fleet.bluefin(&["dead", "list", "--json"]), 0));
    let eval = fleet.worker(&["eval-worker", "--device", "noop:gfx000-1"]);
    wait_until(PATIENCE, "the poison among the dead", || listed(&fleet).as_array().unwrap().len() as u64 == jobs + 1);
    eval.signal(Signal::KILL);
    let dead = listed(&fleet);
    assert_eq!(listed(&fleet).as_array().unwrap().len() as u64, jobs + 1, "looking changes nothing");
    let one = dead.as_array().unwrap().iter().find(|one| one["id"] == given_up[0].to_string()).unwrap();
    assert_eq!((&one["queue"], &one["session"]), (&COMPILE.into(), &"dead".into()), "{one}");
    assert!(one["at_ms"].as_u64().is_some() && one["reason"].as_str().unwrap().starts_with("20 workers"), "{one}");

    // One through its message, the others through their outcomes, with the verb killed amid.
    let said = say(&fleet, &["dead", "retry", &given_up[0].short()]);
    assert_eq!(said, "1 messages back in their queues\n");
    assert_eq!(say(&fleet, &["dead", "drop", "poison"]), "1 messages dropped\n");
    expect(&mut fleet.bluefin(&["dead", "drop", "nosuch"]), 1);
    killed_amid(&fleet, &["jobs", "retry", "--dead", "--session", "dead"]);
    say(&fleet, &["dead", "drop", "--all"]);
    assert_eq!(listed(&fleet).as_array().unwrap().len(), 0);
    // What waits says what it is, and what came of it before.
    let listed = expect(&mut fleet.bluefin(&["jobs", "list", "--session", "dead", "--json"]), 0);
    let open: Vec<Value> = text(&listed.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(open.len() as u64, jobs);
    for one in &open {
        assert_eq!((&one["place"], &one["stage"]), (&"waiting".into(), &"perf".into()), "{one}");
        assert!(one["problem"].as_str().unwrap().contains(" 8x14x14 k"), "{one}");
        assert!(one["solvers"][0].as_str().unwrap().starts_with("Noop") && one["candidates"]["open"].is_u64(), "{one}");
        assert_eq!(one["attempts"], 2, "{one}");
        assert!(one["error"].as_str().unwrap().starts_with("dead: 20 workers"), "{one}");
    }
    let shown = say(&fleet, &["job", &given_up[1].short()]);
    assert!(
        shown.contains(
            ": waiting
"
        ) && shown.contains("  problem   conv -n 1 -c 8 "),
        "{shown}"
    );
    assert!(
        shown.contains(
            "  attempts  2
"
        ) && shown.contains(
            ": open
"
        ) && shown.contains("20 workers"),
        "{shown}"
    );

    let (_compile, _eval) = workers(&fleet);
    fleet.wait_complete("dead", PATIENCE);
    let progress = fleet.told("dead");
    assert_eq!(progress["done"], progress["planned"], "{progress}");
    assert_eq!(progress["candidates"].as_object().unwrap().keys().collect::<Vec<_>>(), ["timed"], "{progress}");
    for job in &given_up {
        let history = history::of(&store, &name, *job).await.unwrap();
        assert_eq!(history.len(), 1, "{history:?}");
        assert!(history[0].failed.iter().all(|failed| failed.words.starts_with("20 workers")));
    }
    let retried = expect(&mut fleet.bluefin(&["results", "--session", "dead", "--retried", "--json"]), 0);
    let rows: Vec<Value> = text(&retried.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() as u64 >= jobs, "{rows:?}");
    for row in &rows {
        assert_eq!((&row["attempts"], &row["before"][0]["failure"]), (&2.into(), &"dead".into()), "{row}");
        assert!(row["before"][0]["detail"].as_str().unwrap().starts_with("20 workers") && row["failure"].is_null());
    }
    broker.close().await;
}

/// On a state file nobody else works, and its queues end with each process.
#[test]
fn a_state_file_is_steered_too() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str], code| {
        let mut command = bluefin();
        command.current_dir(folder.path()).args(arguments);
        expect(&mut command, code)
    };
    write(folder.path(), "one.txt", "gemm -m 16 -n 16 -k 16\n");
    let tune = ["tune", "one.txt", "--device", "host", "--session", "s", "--budget", "2"];
    run(&tune, 0);
    assert_eq!(text(&run(&["session", "pause", "s"], 0).stdout), "session s: paused\n");
    assert_eq!(text(&run(&["session", "resume", "s"], 0).stdout), "session s: running\n");
    run(&["session", "cancel", "s"], 0);
    assert!(text(&run(&tune, 1).stderr).contains("bluefin session resume s"));
    run(&["session", "resume", "s"], 0);
    run(&tune, 0);
    // The list of jobs fits a terminal, with ids that can be copied.
    let mut narrow = bluefin();
    narrow.current_dir(folder.path()).env("COLUMNS", "80").args(["jobs", "list", "--place", "done"]);
    let (listed, ids) = (text(&expect(&mut narrow, 0).stdout), run(&["jobs", "list", "--place", "done", "--json"], 0));
    assert!(listed.lines().all(|line| line.chars().count() <= 80), "{listed}");
    for line in text(&ids.stdout).lines() {
        let job: Value = serde_json::from_str(line).unwrap();
        assert!(listed.contains(&format!("  {}  done", &job["job"].as_str().unwrap()[..12])), "{listed}");
    }
    let unpinned = text(&run(&["session", "unpin", "s"], 0).stdout);
    assert!(unpinned.contains("unpinned toolchain."), "{unpinned}");
    assert_eq!(text(&run(&["jobs", "retry", "--failed"], 0).stdout), "no job failed so\n");
    let dry = json(&run(&["session", "delete", "s", "--dry-run", "--json"], 0));
    assert!(dry["belongings"]["blobs"].as_u64().unwrap() > 0, "{dry}");
    run(&["session", "delete", "s", "--yes"], 0);
    assert_eq!(text(&run(&["session", "list"], 0).stdout), "");
    run(&["session", "delete", "s", "--yes"], 1);
    run(&tune, 0);
}

/// `--stage perf` of a session that has both, until both are asked.
#[test]
fn perf_alone_is_perf_alone() {
    let (fleet, _vhost, _redis, _cache) = on_servers();
    enqueue(&fleet, "both", 1);
    let (_compile, _eval) = workers(&fleet);
    fleet.wait_complete("both", PATIENCE);
    assert!(fleet.told("both")["done"]["find"].as_u64().unwrap() > 0);
    write(fleet.folder.path(), "more.txt", &many_problems(4));
    let more = |stage: &str| {
        let arguments = ["enqueue", "more.txt", "--session", "both", "--stage", stage, "--json", "--kernel"];
        json(&expect(fleet.bluefin(&arguments).arg(noop_spec()), 0))
    };
    let before = fleet.told("both")["planned"]["find"].as_u64().unwrap();
    assert!(more("perf")["enqueued"].as_u64().unwrap() > 0);
    fleet.wait_complete("both", PATIENCE);
    let after = fleet.told("both");
    assert_eq!((after["planned"]["find"].as_u64().unwrap(), &after["done"]), (before, &after["planned"]));
    more("perf,find");
    fleet.wait_complete("both", PATIENCE);
    let after = fleet.told("both");
    assert_eq!(after["done"]["find"].as_u64().unwrap(), 4 * before, "{after}");
}

#[test]
fn old_sessions_are_pruned_and_releases_keep_what_they_name() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str], code| {
        let mut command = bluefin();
        command.current_dir(folder.path()).args(arguments);
        expect(&mut command, code)
    };
    write(folder.path(), "one.txt", "gemm -m 16 -n 16 -k 16\nconv -n 1 -c 8 -H 8 -W 8 -k 8 -y 1 -x 1 -F 1\n");
    run(&["tune", "one.txt", "--device", "host", "--session", "s", "--budget", "4"], 0);
    run(&["release", "create", "r", "--session", "s"], 0);
    let export = |out: &str| {
        run(&["export", "--session", "s", "--state", "bluefin.db", "--out", out], 0);
        crate::common::files(&folder.path().join(out))
    };
    let before = export("before");
    let size = |arguments: &[&str]| json(&run(arguments, 0));
    let dry = size(&["prune", "--session", "s", "--samples", "--dry-run", "--json"]);
    assert!(dry["sessions"][0]["samples"].as_u64().unwrap() > 0, "{dry}");
    for _ in 0..2 {
        let slim = size(&["prune", "--session", "s", "--samples", "--yes", "--json"]);
        let bytes = |which: &str| slim["sessions"][0][which].as_u64().unwrap();
        assert!(bytes("bytes_after") <= bytes("bytes_before"), "{slim}");
    }
    assert_eq!(export("after"), before, "winners, ties and databases are the same");
    assert_eq!(text(&run(&["prune", "--older-than", "30d", "--yes"], 0).stdout), "0 sessions, 0 B removed\n");
    run(&["prune", "--older-than", "30d"], 2);
    std::thread::sleep(Duration::from_millis(10));
    let dry = size(&["prune", "--older-than", "1ms", "--dry-run", "--json"]);
    let pruned = size(&["prune", "--older-than", "1ms", "--yes", "--json"]);
    assert_eq!(dry["sessions"], pruned["sessions"]);
    assert!(pruned["sessions"][0]["blobs"].as_u64().unwrap() > 0, "{pruned}");
    assert_eq!(text(&run(&["session", "list"], 0).stdout), "");
    run(&["release", "verify", "r"], 0);
}
