//! A Redis of one's own.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use crate::launch::{Server, tail};
use crate::{free_port, wait_until};

const START: Duration = Duration::from_secs(20);

/// How a Redis keeps what it is given. Keys with a TTL are evicted first (`volatile-lru`), keys without one never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedisOptions {
    /// Every write is on disk before its reply (`appendonly`, `appendfsync always`); otherwise nothing is kept.
    pub durable: bool,
    /// `maxmemory` in bytes.
    pub max_memory: Option<u64>,
}

impl RedisOptions {
    /// For outcomes, sessions and problems.
    pub const DURABLE: Self = Self { durable: true, max_memory: None };

    /// For artifacts.
    pub const fn cache(max_memory: u64) -> Self {
        Self { durable: false, max_memory: Some(max_memory) }
    }
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self::DURABLE
    }
}

/// A private Redis on the loopback address; gone, with its folder, when dropped.
#[derive(Debug)]
pub struct Redis {
    server: Server,
    options: RedisOptions,
    port: u16,
    folder: TempDir,
}

impl Redis {
    /// Starts one and waits until it answers.
    pub fn start(options: RedisOptions) -> Self {
        let folder = tempfile::Builder::new().prefix("bluefin-redis-").tempdir().expect("a folder can be made");
        let port = free_port();
        let server = spawn(&folder, port, options);
        let mut redis = Self { server, options, port, folder };
        redis.await_ready();
        redis
    }

    /// `redis://127.0.0.1:PORT/`
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Where it listens, for a [`Proxy`](crate::Proxy).
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Kills it with SIGKILL. Its folder stays.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Starts it again on the same port and folder, killing it first if it runs.
    pub fn restart(&mut self) {
        self.server.kill();
        self.server = spawn(&self.folder, self.port, self.options);
        self.await_ready();
    }

    /// SIGSTOP: connections stay open and nothing is answered.
    pub fn stop(&self) {
        self.server.stop();
    }

    /// SIGCONT after [`stop`](Self::stop).
    pub fn cont(&self) {
        self.server.cont();
    }

    fn await_ready(&mut self) {
        let addr = self.addr();
        let log = log_of(&self.folder);
        wait_until(START, "redis-server to answer PING", || {
            assert!(self.server.is_running(), "redis-server ended while starting:\n{}", tail(&log));
            answers_ping(addr)
        });
    }
}

fn log_of(folder: &TempDir) -> PathBuf {
    folder.path().join("redis.log")
}

fn spawn(folder: &TempDir, port: u16, options: RedisOptions) -> Server {
    Server::spawn("redis-server", &log_of(folder), |command| {
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""]);
        command.arg("--dir").arg(folder.path());
        if options.durable {
            command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        }
        if let Some(bytes) = options.max_memory {
            command.args(["--maxmemory", &bytes.to_string(), "--maxmemory-policy", "volatile-lru"]);
        }
    })
}

/// While it still loads its append-only file it answers `-LOADING`.
fn answers_ping(addr: SocketAddr) -> bool {
    let mut answer = [0; 5];
    TcpStream::connect_timeout(&addr, Duration::from_secs(1))
        .and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            stream.write_all(b"PING\r\n")?;
            stream.read_exact(&mut answer)
        })
        .is_ok_and(|()| &answer == b"+PONG")
}
