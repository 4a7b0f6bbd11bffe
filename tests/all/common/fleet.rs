//! A fleet of processes around a RabbitMQ and a Redis.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bluefin_test_support::{Redis, RedisOptions, Vhost, patience, wait_until};
use serde_json::Value;

use super::{Running, bluefin, expect, json, other, text};

/// Where a fleet meets, and a folder of its own.
pub struct Fleet {
    pub amqp: String,
    pub redis: String,
    pub cache: String,
    pub folder: tempfile::TempDir,
}

impl Fleet {
    pub fn new(amqp: String, redis: String, cache: String) -> Self {
        Self { amqp, redis, cache, folder: tempfile::tempdir().unwrap() }
    }

    /// `bluefin` in this fleet.
    pub fn bluefin(&self, arguments: &[&str]) -> Command {
        self.program(Path::new(bluefin().get_program()), arguments)
    }

    /// Another build of it.
    pub fn program(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = other(program);
        command
            .current_dir(self.folder.path())
            .env("BLUEFIN_AMQP_URL", &self.amqp)
            .env("BLUEFIN_REDIS_URL", &self.redis)
            .env("BLUEFIN_CACHE_URL", &self.cache)
            .args(arguments);
        command
    }

    /// Starts a worker that runs until it is dropped or signalled; it logs into the fleet's folder.
    pub fn worker(&self, arguments: &[&str]) -> Running {
        self.worker_with(arguments, [])
    }

    /// The same with more in its environment.
    pub fn worker_with(
        &self,
        arguments: &[&str],
        environment: impl IntoIterator<Item = (&'static str, OsString)>,
    ) -> Running {
        let mut command = self.bluefin(arguments);
        command.envs(environment).stdout(Stdio::null()).stderr(self.log());
        Running::start(&mut command)
    }

    /// The same of another build.
    pub fn worker_of(&self, program: &Path, arguments: &[&str]) -> Running {
        let mut command = self.program(program, arguments);
        command.stdout(Stdio::null()).stderr(self.log());
        Running::start(&mut command)
    }

    /// What the workers logged.
    pub fn logged(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Where they log to, each line behind the last.
    pub fn log(&self) -> File {
        File::options().create(true).append(true).open(self.log_file()).unwrap()
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("workers.log")
    }

    /// `bluefin status` of one session; `None` while the fleet is not reachable.
    pub fn status(&self, session: &str) -> Option<Value> {
        let output = self.bluefin(&["status", "--json", "--session", session]).output().unwrap();
        if !output.status.success() {
            println!("status: {}", text(&output.stderr).trim());
        }
        output.status.success().then(|| json(&output)["sessions"][0].clone())
    }

    /// The same, once the fleet is reachable: on a busy machine a server may not answer in time.
    pub fn told(&self, session: &str) -> Value {
        let mut told = None;
        wait_until(Duration::from_secs(60), "a status", || {
            told = self.status(session);
            told.is_some()
        });
        told.unwrap_or_default()
    }

    /// Waits until the session is complete.
    ///
    /// # Panics
    /// When none of its jobs was done for [`patience`] of `limit`.
    #[track_caller]
    pub fn wait_complete(&self, session: &str, limit: Duration) {
        let (mut done, mut since) = (Value::Null, Instant::now());
        loop {
            match self.status(session) {
                Some(status) if status["complete"] == true => return,
                Some(status) if status["done"] != done => (done, since) = (status["done"].clone(), Instant::now()),
                _ => assert!(since.elapsed() < patience(limit), "nothing of session {session} was done for {limit:?}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Exports the session and returns the folder.
    pub fn export(&self, session: &str, folder: &str) -> PathBuf {
        let out = self.folder.path().join(folder);
        expect(self.bluefin(&["export", "--session", session, "--out"]).arg(&out), 0);
        out
    }
}

impl Drop for Fleet {
    /// Of a test that fails, what the workers said.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.logged();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.get(lines.len().saturating_sub(200)..).unwrap_or_default();
            println!("the workers' last words:\n{}", last.join("\n"));
        }
    }
}

/// A virtual host, two Redis servers, and a fleet around them.
pub fn on_servers() -> (Fleet, Vhost, Redis, Redis) {
    let vhost = Vhost::fresh();
    let redis = Redis::start(RedisOptions::DURABLE);
    let cache = Redis::start(RedisOptions::cache(64 << 20));
    (Fleet::new(vhost.url(), redis.url(), cache.url()), vhost, redis, cache)
}

/// The spec of a kernel that computes nothing; see its text.
pub fn noop_spec() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/noop_conv.toml")
}

/// `count` different convolutions in all three directions, as driver commands.
pub fn many_problems(count: u32) -> String {
    (1..=count).map(|k| format!("conv -n 1 -c 8 -H 14 -W 14 -k {k} -y 3 -x 3 -p 1 -q 1 -F 0\n")).collect()
}
