//! Commands while broker or store are away, and what is done about what they lost.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use bluefin_test_support::{Proxy, Redis, RedisOptions, Vhost, free_port, patience, wait_until};
use rustix::process::Signal;

use crate::common::fleet::{Fleet, many_problems, noop_spec, on_servers};
use crate::common::{Running, bluefin, expect, files, http_get, json, write};

const PATIENCE: Duration = Duration::from_secs(120);

fn enqueue(fleet: &Fleet, session: &str) -> std::process::Command {
    write(fleet.folder.path(), "problems.txt", &many_problems(4));
    let mut command =
        fleet.bluefin(&["enqueue", "problems.txt", "--session", session, "--target", "gfx000-1", "--json"]);
    command.args(["--budget", "8", "--kernel"]).arg(noop_spec());
    command
}

/// Starts it with standard error in a file of the fleet's folder.
fn start(fleet: &Fleet, mut command: std::process::Command, log: &str) -> Running {
    let log = std::fs::File::create(fleet.folder.path().join(log)).unwrap();
    Running::start(command.stderr(log).stdout(Stdio::null()))
}

fn said(fleet: &Fleet, log: &str) -> String {
    std::fs::read_to_string(fleet.folder.path().join(log)).unwrap_or_default()
}

#[test]
fn enqueue_waits_for_a_store_that_is_away_and_says_so() {
    let (fleet, _vhost, mut redis, _cache) = on_servers();
    redis.kill();
    let waiting = start(&fleet, enqueue(&fleet, "late"), "enqueue.log");
    wait_until(PATIENCE, "a line that says for what", || said(&fleet, "enqueue.log").contains("waiting"));
    redis.restart();
    assert_eq!(waiting.wait(PATIENCE), Some(0), "{}", said(&fleet, "enqueue.log"));
    assert_eq!(fleet.told("late")["complete"], false);
}

#[test]
fn the_first_signal_ends_what_never_connected() {
    let (fleet, _vhost, mut redis, _cache) = on_servers();
    redis.kill();
    let commands = [
        (enqueue(&fleet, "never"), "enqueue.log"),
        (fleet.bluefin(&["compile-worker", "--toolchain", "noop"]), "compile.log"),
        (fleet.bluefin(&["eval-worker", "--device", "noop:gfx000-1"]), "eval.log"),
        (fleet.bluefin(&["monitor", "--admin-addr", "127.0.0.1:0"]), "monitor.log"),
    ];
    for (command, log) in commands {
        let running = start(&fleet, command, log);
        wait_until(PATIENCE, "that it waits", || said(&fleet, log).contains("waiting"));
        let asked = Instant::now();
        running.signal(Signal::TERM);
        // A worker that had nothing to do has done it; not so whoever was to enqueue.
        let expected = if log == "enqueue.log" { 1 } else { 0 };
        assert_eq!(running.wait(PATIENCE), Some(expected), "{log}: {}", said(&fleet, log));
        assert!(
            asked.elapsed() < patience(Duration::from_secs(10)),
            "{log}: {:?}: {}",
            asked.elapsed(),
            said(&fleet, log)
        );
    }
}

/// Whoever starts a worker on a machine whose disk is full at that moment has neither a worker that is gone nor one without
/// compilers.
#[test]
fn a_worker_that_is_started_on_a_full_disk_waits_for_room() {
    let (fleet, _vhost, _redis, _cache) = on_servers();
    let folder = fleet.folder.path();
    let is_full = folder.join("full");
    std::fs::write(&is_full, "").unwrap();
    write(
        folder,
        "cc",
        &format!(
            "#!/bin/sh\nif [ -e {} ]; then echo 'cc: fatal error: /tmp/a.s: No space left on device' >&2; exit 1; fi\nexec gcc \"$@\"\n",
            is_full.display()
        ),
    );
    std::fs::set_permissions(folder.join("cc"), std::fs::Permissions::from_mode(0o755)).unwrap();
    for arguments in [&["compile-worker", "--toolchain", "cc"][..], &["compile-worker"]] {
        let log = "compile.log";
        let mut command = fleet.bluefin(arguments);
        command.env("BLUEFIN_CC", folder.join("cc"));
        std::fs::write(&is_full, "").unwrap();
        let running = start(&fleet, command, log);
        wait_until(PATIENCE, "that it waits", || said(&fleet, log).contains("No space left on device"));
        std::fs::remove_file(&is_full).unwrap();
        wait_until(PATIENCE, "that it works", || said(&fleet, log).contains("there again"));
        running.signal(Signal::TERM);
        assert_eq!(running.wait(PATIENCE), Some(0), "{}", said(&fleet, log));
    }
}

#[test]
fn status_shows_what_it_can() {
    let (fleet, _vhost, mut redis, _cache) = on_servers();
    expect(&mut enqueue(&fleet, "half"), 0);
    redis.kill();
    let asked = Instant::now();
    let status = json(&expect(&mut fleet.bluefin(&["status", "--json"]), 1));
    assert!(asked.elapsed() < patience(Duration::from_secs(15)), "{:?}", asked.elapsed());
    assert_eq!(status["queues"]["bluefin.dead"], 0, "{status}");
    assert!(status["away"][0].as_str().unwrap().contains("store"), "{status}");
}

/// Through an address that swallows everything.
#[test]
fn status_of_a_broker_that_hangs_ends() {
    let vhost = Vhost::fresh();
    let url = vhost.url();
    let (_, rest) = url.split_once('@').unwrap();
    let (address, path) = rest.split_once('/').unwrap();
    let proxy = Proxy::start(address.parse().unwrap());
    proxy.pause();
    let redis = Redis::start(RedisOptions::DURABLE);
    let hanging = url.replace(&format!("{address}/{path}"), &format!("127.0.0.1:{}/{path}", proxy.port()));
    let fleet = Fleet::new(hanging, redis.url(), redis.url());
    let status = json(&expect(&mut fleet.bluefin(&["status", "--json"]), 1));
    assert!(status["away"][0].as_str().unwrap().contains("broker"), "{status}");
}

#[test]
fn the_monitor_mends_a_session_whose_messages_were_lost() {
    let (fleet, vhost, _redis, _cache) = on_servers();
    // Two requests, which have a problem in common.
    let lines = ["conv -n 1 -c 4 -H 5 -W 5 -k 4 -F 1\n", "conv -n 1 -c 4 -H 6 -W 6 -k 4 -F 1\n"];
    let mut enqueued = 0;
    for (list, lines) in [("one.txt", &lines[..1]), ("both.txt", &lines[..])] {
        write(fleet.folder.path(), list, &lines.concat());
        let enqueue = &["enqueue", list, "--session", "lost", "--budget", "2", "--json"];
        enqueued += json(&expect(&mut fleet.bluefin(enqueue), 0))["enqueued"].as_u64().unwrap();
    }
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let arguments = ["monitor", "--admin-addr", &address, "--every", "200ms", "--mend-after", "2s"];
    let monitor = fleet.worker(&arguments);
    let waits = format!("bluefin_queue_depth{{queue=\"bluefin.compile.cc.host\"}} {enqueued}\n");
    wait_until(PATIENCE, "the depth of the queue", || http_get(port, "/metrics").contains(&waits));
    let metrics = http_get(port, "/metrics");
    let open = format!("bluefin_session_open_jobs{{session=\"lost\",stage=\"perf\"}} {enqueued}\n");
    assert!(metrics.contains(&open), "{metrics}");
    assert!(metrics.contains("bluefin_build_info{") && metrics.contains("process_resident_memory_bytes"), "{metrics}");
    vhost.ctl("purge_queue", &["bluefin.compile.cc.host"]);
    wait_until(PATIENCE, "that the loss is seen", || !http_get(port, "/metrics").contains(&waits));
    wait_until(PATIENCE, "all of it published again", || http_get(port, "/metrics").contains(&waits));
    let workers = [
        fleet.worker(&["compile-worker", "--toolchain", "cc", "--exit-when-idle", "10s"]),
        fleet.worker(&["eval-worker", "--device", "host", "--exit-when-idle", "10s"]),
    ];
    fleet.wait_complete("lost", PATIENCE);
    for worker in workers {
        assert_eq!(worker.wait(PATIENCE), Some(0), "{}", fleet.logged());
    }
    // By hand, and where nothing is to be done.
    expect(&mut fleet.bluefin(&["reconcile", "--session", "lost"]), 0);
    monitor.signal(Signal::TERM);
    assert_eq!(monitor.wait(PATIENCE), Some(0), "{}", fleet.logged());
    assert_eq!(files(&fleet.export("lost", "out")).len(), 5);
}

/// A log that lies on a disk which is full takes nothing, and what is logged is not what stops the work.
#[test]
fn work_goes_on_while_standard_error_takes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        "one.txt",
        "conv -n 1 -c 8 -H 7 -W 7 -k 8 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1 -t 1\n",
    );
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = bluefin();
    command.current_dir(folder.path()).args(["tune", "one.txt", "--budget", "1", "--state", "s.db", "-o", "out"]);
    let running = Running::start(command.env("BLUEFIN_LOG", "debug").stderr(full).stdout(Stdio::null()));
    assert_eq!(running.wait(PATIENCE), Some(0));
    assert!(folder.path().join("out/winners.json").is_file());
}
