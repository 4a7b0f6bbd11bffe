//! The servers themselves: they keep what they should, and nothing of them stays.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use bluefin_test_support::{Rabbit, Redis, RedisOptions, Vhost, wait_until};

fn redis(server: &Redis, command: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(server.addr())?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    write!(stream, "{command}\r\nQUIT\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn a_durable_redis_keeps_what_it_acknowledged() {
    let mut server = Redis::start(RedisOptions::DURABLE);
    assert_eq!(redis(&server, "SET key kept").unwrap(), "+OK\r\n+OK\r\n");
    server.kill();
    assert!(redis(&server, "GET key").is_err());
    server.restart();
    assert_eq!(redis(&server, "GET key").unwrap(), "$4\r\nkept\r\n+OK\r\n");
    server.stop();
    assert!(redis(&server, "GET key").is_err());
    server.cont();
    assert_eq!(redis(&server, "GET key").unwrap(), "$4\r\nkept\r\n+OK\r\n");
}

#[test]
fn a_cache_redis_keeps_nothing_and_evicts_by_ttl() {
    let mut server = Redis::start(RedisOptions::cache(64 << 20));
    assert!(redis(&server, "CONFIG GET maxmemory-policy").unwrap().contains("volatile-lru"));
    assert!(redis(&server, "CONFIG GET maxmemory").unwrap().contains("67108864"));
    redis(&server, "SET key lost").unwrap();
    server.restart();
    assert_eq!(redis(&server, "GET key").unwrap(), "$-1\r\n+OK\r\n");
}

#[test]
fn rabbit_comes_back_with_its_data_after_a_kill() {
    let mut rabbit = Rabbit::start();
    rabbit.ctl(&["add_vhost", "kept"]);
    rabbit.kill();
    assert!(TcpStream::connect(rabbit.addr()).is_err());
    rabbit.restart();
    assert!(rabbit.ctl(&["list_vhosts"]).lines().any(|name| name == "kept"));
}

#[test]
fn rabbit_vhosts_are_fresh_and_apart() {
    let (one, other) = (Vhost::fresh(), Vhost::fresh());
    assert_ne!(one.url(), other.url());
    assert_eq!(one.ctl("list_queues", &["name"]).trim(), "");
    assert!(other.ctl("list_permissions", &[]).contains("guest"));
}

#[test]
fn rabbit_and_redis_end_with_a_killed_process() {
    let folder = tempfile::tempdir().unwrap();
    // Ends with this test if an assertion below fails.
    let mut process = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", env!("CARGO_BIN_EXE_bluefin-test-servers")])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let printed = BufReader::new(process.stdout.take().unwrap()).lines();
    assert!(printed.map_while(Result::ok).any(|line| line == "READY"));
    let running = processes_of(folder.path());
    for name in ["beam.smp", "epmd", "redis-server"] {
        assert!(running.iter().any(|n| n == name), "{name} is not among {running:?}");
    }
    process.kill().unwrap();
    process.wait().unwrap();
    wait_until(Duration::from_secs(10), "every server to end", || processes_of(folder.path()).is_empty());
}

/// The names of the processes that work in `folder` or have it in their environment.
fn processes_of(folder: &Path) -> Vec<String> {
    let needle = folder.as_os_str().as_bytes();
    let mut names = Vec::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let path = process.path();
        let works_there = fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        if works_there || environment.windows(needle.len()).any(|part| part == needle) {
            // It may have ended since: then it does not count.
            names.extend(fs::read_to_string(path.join("comm")).map(|name| name.trim().to_owned()));
        }
    }
    names
}
