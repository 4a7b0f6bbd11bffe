//! What a process of the fleet's has of secrets where others can see it.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Waits for a broker that is not there.
#[test]
fn the_addresses_of_the_fleet_leave_the_environment() {
    let mut worker = Command::new(env!("CARGO_BIN_EXE_bluefin"))
        .args(["compile-worker", "--toolchain", "cc"])
        .env("BLUEFIN_AMQP_URL", "amqp://me:hunter2@127.0.0.1:1/%2f")
        .env("BLUEFIN_REDIS_URL", "redis://:hunter2@127.0.0.1:1")
        .env("BLUEFIN_LOG", "info")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = worker.stderr.take().unwrap();
    let environment = || std::fs::read(format!("/proc/{}/environ", worker.id()));
    let started = Instant::now();
    let hidden = loop {
        match environment() {
            // Of another process than root's nobody reads it at all.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => break true,
            Ok(bytes) if !bytes.is_empty() && !contains(&bytes, "hunter2") => break true,
            _ if started.elapsed() > Duration::from_secs(30) => break false,
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    // It has them nevertheless: it looks for that broker.
    let mut words = Vec::new();
    while !contains(&words, "127.0.0.1:1") {
        let mut chunk = [0; 4096];
        let count = std::io::Read::read(&mut said, &mut chunk).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&words));
        words.extend(&chunk[..count]);
    }
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert!(hidden && !contains(&words, "hunter2"), "{}", String::from_utf8_lossy(&words));
}

fn contains(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window == word.as_bytes())
}
