//! The fleet: a producer, workers and an exporter that meet only in RabbitMQ and Redis.

use std::time::Duration;

use bluefin_adapters::redis::RedisStore;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::artifact::Built;
use bluefin_common::session::SessionName;
use bluefin_common::store::{Artifacts as _, Blobs as _, Planned, Sessions as _, Work as _};
use bluefin_exporter::{ExportRequest, export};
use bluefin_test_support::{Redis, free_port, wait_until};
use rustix::process::Signal;

use crate::common::fleet::{Fleet, many_problems, noop_spec, on_servers};
use crate::common::{expect, files, http_get, json, text, write};

const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn tunes_a_small_network_whenever_the_workers_come() {
    let (fleet, _vhost, _redis, _cache) = on_servers();
    let problems =
        "conv -n 1 -c 16 -H 14 -W 14 -k 24 -y 3 -x 3 -p 1 -q 1 -F 0\nconv -n 1 -c 16 -H 7 -W 7 -k 32 -y 1 -x 1 -F 0\n";
    write(fleet.folder.path(), "problems.txt", problems);
    // One worker before the session exists, one after.
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let compile = fleet.worker(&["compile-worker", "--admin-addr", &address]);
    let enqueue = ["enqueue", "problems.txt", "--session", "net", "--budget", "3", "--json"];
    let first = json(&expect(&mut fleet.bluefin(&enqueue), 0));
    assert_eq!(first["enqueued"], first["jobs"]);
    let again = json(&expect(&mut fleet.bluefin(&enqueue), 0));
    assert_eq!((&again["enqueued"], &again["jobs"]), (&serde_json::json!(0), &first["jobs"]));
    let eval = fleet.worker(&["eval-worker", "--device", "host"]);
    fleet.wait_complete("net", PATIENCE);

    let metrics = http_get(port, "/metrics");
    assert!(metrics.contains("bluefin_jobs_total{result=\"done\",stage=\"perf\",step=\"compile\"}"), "{metrics}");
    assert!(http_get(port, "/live").starts_with("HTTP/1.1 200"));
    assert!(http_get(port, "/ready").starts_with("HTTP/1.1 200"));

    let out = files(&fleet.export("net", "out"));
    let names: Vec<&str> = out.keys().map(String::as_str).collect();
    assert_eq!(names, ["host.HOST.fdb.txt", "host.db", "host.db.txt", "host.kdb", "winners.json"]);
    assert_eq!(text(&out["host.HOST.fdb.txt"]).lines().count(), 6);
    assert_eq!(files(&fleet.export("net", "again")), out, "the same outcomes, the same bytes");

    for worker in [compile, eval] {
        worker.signal(Signal::TERM);
        assert_eq!(worker.wait(Duration::from_secs(60)), Some(0), "{}", fleet.logged());
    }
}

/// No worker runs, and none is waited for.
#[test]
fn what_no_solver_applies_to_ends_at_once_with_the_reason() {
    let (fleet, _vhost, _redis, _cache) = on_servers();
    write(fleet.folder.path(), "fp16.txt", "convfp16 -n 2 -c 8 -H 8 -W 8 -k 8 -y 1 -x 1 -F 1\n");
    let plan = "[[import]]\ntag = \"a\"\nfiles = [\"fp16.txt\"]\n[session]\nlabel = \"x\"\ntarget = \"host\"\n\
        [export]\nout = \"out\"\n";
    write(fleet.folder.path(), "plan.toml", plan);
    for arguments in [&["enqueue", "fp16.txt", "--session", "1"][..], &["run", "plan.toml"]] {
        let said = text(&expect(&mut fleet.bluefin(arguments), 1).stderr);
        assert!(
            said.contains("conv-fwd-host needs (in_type == \"FP32\" || in_type == \"BF16\") (in_type is FP16)"),
            "{said}"
        );
        assert!(said.contains("nothing to do"), "{said}");
    }
    let status = text(&expect(&mut fleet.bluefin(&["status"]), 0).stdout);
    assert!(status.contains("empty") && !status.contains("open"), "{status}");
}

#[tokio::test]
async fn the_same_outcomes_export_the_same_bytes_from_either_store() {
    let (fleet, _vhost, redis, cache) = on_servers();
    noop_session(&fleet, "bytes", 20);
    let compile = fleet.worker(&["compile-worker", "--toolchain", "noop"]);
    let eval = fleet.worker(&["eval-worker", "--device", "noop:gfx000-1"]);
    fleet.wait_complete("bytes", PATIENCE);
    drop((compile, eval));
    let distributed = files(&fleet.export("bytes", "distributed"));

    let name: SessionName = "bytes".parse().unwrap();
    let source = RedisStore::connect(&redis.url(), Some(&cache.url()), Duration::from_secs(600)).await.unwrap();
    let embedded = SqliteStore::in_memory().unwrap();
    embedded.create_session(&source.session(&name).await.unwrap().unwrap()).await.unwrap();
    let mut groups = source.groups(&name).await.unwrap();
    groups.reverse();
    for outcome in source.outcomes(&name, &groups).await.unwrap() {
        embedded.plan(&name, &[Planned::of(&outcome.job)]).await.unwrap();
        embedded.put_outcome(&outcome).await.unwrap();
        for candidate in &outcome.candidates {
            let artifact = candidate.built.as_ref().and_then(Built::artifact).unwrap();
            let code = source.artifact(artifact).await.unwrap().unwrap();
            embedded.put_blob(&code).await.unwrap();
        }
        let spec = source.blob(outcome.job.spec).await.unwrap().unwrap();
        embedded.put_blob(&spec).await.unwrap();
        embedded.settle_group(&name, outcome.group()).await.unwrap();
    }
    let out = fleet.folder.path().join("embedded");
    let request = ExportRequest::all(out.clone());
    export(&embedded, &name, &request).await.unwrap();
    assert_eq!(files(&out), distributed);
}

#[test]
fn a_larger_budget_adds_to_a_session() {
    let (fleet, _vhost, _redis, _cache) = on_servers();
    let _compile = fleet.worker(&["compile-worker", "--toolchain", "noop"]);
    let _eval = fleet.worker(&["eval-worker", "--device", "noop:gfx000-1"]);
    write(fleet.folder.path(), "problems.txt", &many_problems(4));
    let mut enqueued = Vec::new();
    for budget in ["8", "8", "16", "all"] {
        let spec = noop_spec();
        let mut command =
            fleet.bluefin(&["enqueue", "problems.txt", "--session", "more", "--target", "gfx000-1", "--json"]);
        let plan = json(&expect(command.args(["--budget", budget, "--kernel"]).arg(spec), 0));
        enqueued.push(plan["enqueued"].as_u64().unwrap());
        fleet.wait_complete("more", PATIENCE);
    }
    // 12 problems; 18 points of NoopDirect and 4 of NoopGemm in batches of 8, and the reference.
    assert_eq!(enqueued, [12 * 3, 0, 12, 12]);
}

#[test]
fn an_evicted_and_a_tampered_artifact_are_compiled_again() {
    let (fleet, _vhost, _redis, cache) = on_servers();
    noop_session(&fleet, "evicted", 10);
    let compile = fleet.worker(&["compile-worker", "--toolchain", "noop"]);
    let compiled = || fleet.status("evicted").is_some() && cli(&cache, &["DBSIZE"]) != "0";
    wait_until(PATIENCE, "artifacts in the cache", compiled);
    wait_until(PATIENCE, "all jobs to be compiled", || {
        let status = fleet.bluefin(&["status", "--json"]).output().unwrap();
        json(&status)["queues"]["bluefin.compile.noop.gfx000-1"].as_u64().unwrap_or(0) == 0
    });
    compile.signal(Signal::TERM);
    assert_eq!(compile.wait(Duration::from_secs(30)), Some(0));
    // One is gone, the others are changed: of a job that misses one nothing else may be read before all of it is there again.
    let keys = cli(&cache, &["KEYS", "bluefin:cas:*"]);
    let keys: Vec<&str> = keys.lines().collect();
    assert!(keys.len() > 1, "{keys:?}");
    cli(&cache, &["DEL", keys[0]]);
    for key in &keys[1..] {
        cli(&cache, &["SET", key, "not what was compiled"]);
    }
    let _eval = fleet.worker(&["eval-worker", "--device", "noop:gfx000-1"]);
    let _compile = fleet.worker(&["compile-worker", "--toolchain", "noop"]);
    fleet.wait_complete("evicted", PATIENCE);
    let status = fleet.told("evicted");
    let results: Vec<&String> = status["candidates"].as_object().unwrap().keys().collect();
    assert_eq!(results, ["timed"], "nothing failed: {status}");
    for reason in ["does not match its digest", "artifacts are gone; compiling again"] {
        assert!(fleet.logged().contains(reason), "{}", fleet.logged());
    }
}

#[test]
fn a_poison_message_goes_to_the_dead_with_its_reason() {
    let (fleet, _vhost, _redis, _cache) = on_servers();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        use bluefin_common::broker::Broker;
        let broker = bluefin_adapters::amqp::AmqpBroker::connect(&fleet.amqp).await.unwrap();
        for queue in ["bluefin.compile.noop.gfx000-1", "bluefin.eval.gfx000-1"] {
            broker.publish(queue, "poison", b"not a job at all".as_slice().into()).await.unwrap();
        }
        broker.close().await;
    });
    noop_session(&fleet, "poisoned", 3);
    let _compile = fleet.worker(&["compile-worker", "--toolchain", "noop"]);
    let _eval = fleet.worker(&["eval-worker", "--device", "noop:gfx000-1"]);
    fleet.wait_complete("poisoned", PATIENCE);
    wait_until(PATIENCE, "both in the dead letter queue", || {
        let status = fleet.bluefin(&["status", "--json"]).output().unwrap();
        json(&status)["queues"]["bluefin.dead"] == 2
    });
    assert!(fleet.logged().contains("not written by bluefin"), "{}", fleet.logged());
}

#[test]
fn a_child_that_always_crashes_and_a_compile_that_never_ends_cost_their_candidates() {
    let (fleet, _vhost, _redis, _cache) = on_servers();
    let folder = fleet.folder.path();
    write(folder, "broken.c", include_str!("../kernels/broken.c"));
    write(folder, "broken.toml", include_str!("../kernels/broken.toml"));
    // The preprocessor reads until its time is up.
    write(folder, "endless.c", "#include \"/dev/zero\"\n");
    let endless = include_str!("../kernels/broken.toml").replace("broken", "endless");
    write(folder, "endless.toml", &endless);
    for spec in ["broken.toml", "endless.toml"] {
        let session = spec.trim_end_matches(".toml");
        expect(&mut fleet.bluefin(&["enqueue", "--kernel", spec, "--session", session, "--budget", "all"]), 0);
    }
    let _compile = fleet.worker(&["compile-worker", "--compile-timeout", "6s"]);
    let _eval = fleet.worker(&["eval-worker", "--device", "host"]);
    for session in ["broken", "endless"] {
        fleet.wait_complete(session, PATIENCE);
    }
    let broken = fleet.told("broken");
    let failed = &broken["candidates"];
    for (kind, count) in
        [("compile_error", 1), ("wrong_result", 1), ("output_not_written", 1), ("fault", 3), ("hang", 1)]
    {
        assert_eq!(failed[kind], count, "{kind} in {failed}");
    }
    let endless = fleet.told("endless");
    let failed = endless["candidates"].as_object().unwrap();
    assert!(
        failed.keys().all(|kind| kind == "compile_timeout" || kind == "compile_crash" || kind == "compile_error"),
        "{failed:?}"
    );
}

fn noop_session(fleet: &Fleet, session: &str, problems: u32) {
    write(fleet.folder.path(), "problems.txt", &many_problems(problems));
    let mut command = fleet.bluefin(&["enqueue", "problems.txt", "--session", session, "--target", "gfx000-1"]);
    expect(command.arg("--kernel").arg(noop_spec()), 0);
}

fn cli(redis: &Redis, arguments: &[&str]) -> String {
    let output = std::process::Command::new("redis-cli").args(["-u", &redis.url()]).args(arguments).output().unwrap();
    text(&output.stdout).trim().to_string()
}
