//! A RabbitMQ of one's own.
//!
//! It runs the server's own script, not the distribution's wrapper, so any user may start it. Everything that could meet
//! another RabbitMQ is private: folder, cookie (through `HOME`), Erlang port mapper, and all ports. Booting takes about
//! four seconds, most of it Erlang loading code: a test that need not kill the broker asks for a [`Vhost`](crate::Vhost).

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::launch::{Server, tail};
use crate::{control, free_port, wait_until};

const SCRIPTS: &str = "/usr/lib/rabbitmq/bin";
const NODE: &str = "bluefin@localhost";
const START: Duration = Duration::from_secs(90);
const PORTS_FILE: &str = "ports";
/// What is shipped for those of users.
const ADVANCED: &str = include_str!("../../../deploy/rabbitmq-advanced.config");

/// How a RabbitMQ is started.
#[derive(Debug, Clone, Default)]
pub struct RabbitOptions {
    /// As many Erlang schedulers as there are cores, as in production, instead of one.
    pub all_cores: bool,
    /// Further lines of `rabbitmq.conf`, such as `consumer_timeout = 5000`.
    pub config: String,
}

/// Where a node is: enough to start it, to reach it and to talk to it with `rabbitmqctl`.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    folder: PathBuf,
    amqp: u16,
    distribution: u16,
    epmd: u16,
}

/// A private RabbitMQ on the loopback address, without plugins; gone, with its folder, when dropped.
#[derive(Debug)]
pub struct Rabbit {
    // Dropped in this order: a broker that misses its port mapper would start another.
    server: Server,
    _epmd: Server,
    node: Node,
    all_cores: bool,
    folder: TempDir,
}

impl Rabbit {
    /// Starts one on a single scheduler and waits until it speaks AMQP.
    pub fn start() -> Self {
        Self::start_with(&RabbitOptions::default())
    }

    /// Starts one and waits until it speaks AMQP.
    pub fn start_with(options: &RabbitOptions) -> Self {
        let folder = tempfile::Builder::new().prefix("bluefin-rabbit-").tempdir().expect("a folder can be made");
        let node =
            Node { folder: folder.path().to_owned(), amqp: free_port(), distribution: free_port(), epmd: free_port() };
        node.write_files(&options.config);
        let epmd = start_epmd(&node);
        let server = node.spawn(options.all_cores);
        let mut rabbit = Self { server, _epmd: epmd, node, all_cores: options.all_cores, folder };
        rabbit.await_ready();
        rabbit
    }

    /// `amqp://guest:guest@127.0.0.1:PORT/%2f`
    pub fn url(&self) -> String {
        self.node.url("%2f")
    }

    /// Where it listens, for a [`Proxy`](crate::Proxy).
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.node.amqp).into()
    }

    /// Its folder: logs in `log/`, and what [`Vhost::fresh`](crate::Vhost::fresh) needs to use it from other processes.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills it with SIGKILL. Its folder stays.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Starts it again on the same ports and folder, killing it first if it runs.
    pub fn restart(&mut self) {
        self.server.kill();
        self.server = self.node.spawn(self.all_cores);
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

    /// Runs `rabbitmqctl` with `args` against it and returns what it printed.
    ///
    /// # Panics
    /// When the command fails.
    pub fn ctl(&self, args: &[&str]) -> String {
        self.node.ctl(args)
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    fn await_ready(&mut self) {
        let (addr, log) = (self.addr(), self.node.log());
        wait_until(START, "rabbitmq-server to speak AMQP", || {
            assert!(self.server.is_running(), "rabbitmq-server ended while starting:\n{}", tail(&log));
            speaks_amqp(addr)
        });
    }
}

impl Node {
    /// The node whose folder is `folder`, started by another process.
    pub(crate) fn open(folder: &Path) -> Self {
        let file = folder.join(PORTS_FILE);
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("cannot read {}: {e}", file.display()));
        let ports: Vec<u16> = text.split_whitespace().map(|p| p.parse().expect("a port")).collect();
        let [amqp, distribution, epmd] = ports[..] else { panic!("{}: expected three ports", file.display()) };
        Self { folder: folder.to_owned(), amqp, distribution, epmd }
    }

    pub(crate) fn url(&self, vhost: &str) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/{vhost}", self.amqp)
    }

    /// What `rabbitmqctl` prints. A node that has just begun to listen may not have come to its end of starting.
    pub(crate) fn ctl(&self, args: &[&str]) -> String {
        const STARTING: &str = "requires the 'rabbit' app to be running";
        let mut command = Command::new(format!("{SCRIPTS}/rabbitmqctl"));
        self.set_env(&mut command);
        command.args(["--quiet", "--node", NODE]).args(args).stdin(Stdio::null());
        let started = Instant::now();
        loop {
            let output = command.output().unwrap_or_else(|e| panic!("cannot run rabbitmqctl: {e}"));
            let errors = String::from_utf8_lossy(&output.stderr);
            if output.status.success() {
                return String::from_utf8_lossy(&output.stdout).into_owned();
            }
            let starts = errors.contains(STARTING) && started.elapsed() < START;
            assert!(starts, "rabbitmqctl {args:?} ended with {}: {errors}", output.status);
        }
    }

    /// The value of Erlang `expressions`, in a hundredth of the time that [`Self::ctl`] takes.
    pub(crate) fn evaluate(&self, expressions: &str) -> String {
        control::evaluate(&self.folder, expressions)
    }

    fn log(&self) -> PathBuf {
        self.folder.join("rabbitmq.out")
    }

    fn write_files(&self, more_config: &str) {
        let write = |name: &str, text: String| {
            std::fs::write(self.folder.join(name), text).unwrap_or_else(|e| panic!("cannot write {name}: {e}"));
        };
        write(PORTS_FILE, format!("{} {} {}\n", self.amqp, self.distribution, self.epmd));
        write("plugins", "[].\n".into());
        write(control::FILE, control::PROGRAM.into());
        write("advanced.config", ADVANCED.into());
        // No resolver: Erlang's is a process of its own, which would have to be ended too.
        write("inetrc", "{lookup, [file]}.\n{host, {127,0,0,1}, [\"localhost\"]}.\n".into());
        write("rabbitmq.conf", format!("listeners.tcp.1 = 127.0.0.1:{}\n{more_config}\n", self.amqp));
    }

    fn spawn(&self, all_cores: bool) -> Server {
        let schedulers = if all_cores { "" } else { "+S 1:1 +SDio 2" };
        Server::spawn(&format!("{SCRIPTS}/rabbitmq-server"), &self.log(), |command| {
            self.set_env(command);
            command.env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                format!(
                    "{schedulers} +sbwt none -kernel inet_dist_use_interface {{127,0,0,1}} -eval file:eval(\"{}\")",
                    control::FILE
                ),
            );
        })
    }

    fn set_env(&self, command: &mut Command) {
        let path = |name: &str| self.folder.join(name);
        command
            .current_dir(&self.folder)
            .env("HOME", &self.folder)
            .env("ERL_EPMD_PORT", self.epmd.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("ERL_INETRC", path("inetrc"))
            // Only the port mapper started here: one that Erlang starts would be a daemon, and stay.
            .env("ERL_AFLAGS", "-start_epmd false")
            .env("RABBITMQ_NODENAME", NODE)
            .env("RABBITMQ_DIST_PORT", self.distribution.to_string())
            .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
            .env("RABBITMQ_CONFIG_FILE", path("rabbitmq.conf"))
            .env("RABBITMQ_ADVANCED_CONFIG_FILE", path("advanced.config"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", path("plugins"))
            .env("RABBITMQ_MNESIA_BASE", path("db"))
            .env("RABBITMQ_LOG_BASE", path("log"))
            // Makes the script become the Erlang machine instead of its parent, so that a signal reaches that one.
            .env("RUNNING_UNDER_SYSTEMD", "true")
            .env_remove("NOTIFY_SOCKET");
    }
}

fn start_epmd(node: &Node) -> Server {
    let log = node.folder.join("epmd.log");
    let mut epmd = Server::spawn("epmd", &log, |command| {
        command.current_dir(&node.folder).args(["-port", &node.epmd.to_string(), "-address", "127.0.0.1"]);
    });
    wait_until(START, "epmd to listen", || {
        assert!(epmd.is_running(), "epmd ended while starting:\n{}", tail(&log));
        TcpStream::connect((Ipv4Addr::LOCALHOST, node.epmd)).is_ok()
    });
    epmd
}

/// A broker answers the protocol header with a method frame, `connection.start`.
fn speaks_amqp(addr: SocketAddr) -> bool {
    const METHOD_FRAME: u8 = 1;
    let mut kind = [0];
    TcpStream::connect_timeout(&addr, Duration::from_secs(1))
        .and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.write_all(b"AMQP\x00\x00\x09\x01")?;
            stream.read_exact(&mut kind)
        })
        .is_ok_and(|()| kind[0] == METHOD_FRAME)
}
