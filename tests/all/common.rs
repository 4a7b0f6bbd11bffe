//! Running `bluefin` as its users do, and reading what it says.

pub mod fleet;
pub mod roles;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use bluefin_test_support::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// `bluefin` with an environment that names no fleet.
pub fn bluefin() -> Command {
    other(Path::new(env!("CARGO_BIN_EXE_bluefin")))
}

/// The same of another build.
pub fn other(program: &Path) -> Command {
    let mut command = Command::new(program);
    for variable in ["BLUEFIN_AMQP_URL", "BLUEFIN_REDIS_URL", "BLUEFIN_CACHE_URL", "BLUEFIN_LOG"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null());
    command
}

/// Runs to the end and expects `code`.
pub fn expect(command: &mut Command, code: i32) -> Output {
    let output = command.output().unwrap();
    let found = output.status.code();
    assert_eq!(found, Some(code), "{command:?}\nstdout:\n{}\nstderr:\n{}", text(&output.stdout), text(&output.stderr));
    output
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Verbs that a help text lists, in whatever groups.
pub fn verbs(help: &str) -> Vec<&str> {
    let listed = help.lines().skip_while(|line| !line.starts_with("Usage:")).take_while(|line| *line != "Options:");
    // Further lines of what a verb is for are further in, and arguments begin with a bracket.
    let names = listed
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error} in {}", text(&output.stdout)))
}

/// Writes a file into `folder` and returns its path.
pub fn write(folder: &Path, name: &str, content: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// All files of a folder by name.
pub fn files(folder: &Path) -> std::collections::BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap())
        })
        .collect()
}

/// What is answered to a GET of `path` on a local port: nothing where nobody listens.
pub fn http_get(port: u16, path: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return String::new() };
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A process that is killed when the test ends, however it ends.
pub struct Running(pub Child);

impl Running {
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Waits for the end and returns the exit code; `None` for a signal.
    pub fn wait(mut self, patience: Duration) -> Option<i32> {
        let mut status = None;
        wait_until(patience, "the process to end", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
