//! Starting servers that cannot outlive this process.
//!
//! Every server is started through `setpriv --pdeathsig KILL`: the kernel kills it when its parent ends, however that
//! happens, and also when the server is stopped at that moment. The kernel takes the *thread* that forked for the parent,
//! and test threads come and go, so one thread that lives as long as the process starts them all.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use rustix::process::{Pid, Signal, kill_process_group};

type Order = (Command, Sender<io::Result<Child>>);

fn launcher() -> &'static Sender<Order> {
    static LAUNCHER: OnceLock<Sender<Order>> = OnceLock::new();
    LAUNCHER.get_or_init(|| {
        let (orders, inbox) = channel::<Order>();
        thread::Builder::new()
            .name("launcher".into())
            .spawn(move || {
                for (mut command, reply) in inbox {
                    reply.send(command.spawn()).expect("who orders waits for the reply");
                }
            })
            .expect("a thread can be started");
        orders
    })
}

/// A server process and its process group, killed on drop.
#[derive(Debug)]
pub struct Server {
    child: Child,
    group: Pid,
}

impl Server {
    /// Starts `program args` in a process group of its own, with its output appended to `log`.
    pub fn spawn(program: &str, log: &Path, prepare: impl FnOnce(&mut Command)) -> Self {
        let output = std::fs::File::options()
            .create(true)
            .append(true)
            .open(log)
            .unwrap_or_else(|e| panic!("cannot open {}: {e}", log.display()));
        let errors = output.try_clone().expect("a file handle can be cloned");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", program]);
        prepare(&mut command);
        command.process_group(0).stdin(Stdio::null()).stdout(output).stderr(errors);
        let (reply, answer) = channel();
        launcher().send((command, reply)).expect("the launcher lives as long as the process");
        let child = answer
            .recv()
            .expect("the launcher answers every order")
            .unwrap_or_else(|e| panic!("cannot start setpriv (util-linux) for {program}: {e}"));
        let group = Pid::from_child(&child);
        Self { child, group }
    }

    /// Process id, which is also the id of its process group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// SIGSTOP: it keeps its sockets and answers nothing.
    pub fn stop(&self) {
        kill_process_group(self.group, Signal::STOP).expect("the server has not been killed");
    }

    /// SIGCONT.
    pub fn cont(&self) {
        kill_process_group(self.group, Signal::CONT).expect("the server has not been killed");
    }

    /// SIGKILL to the whole group, and waits for the end. Again is harmless.
    pub fn kill(&mut self) {
        if self.is_running() {
            // It may end by itself at this very moment: then there is no group any more, and wait says how it went.
            let _ = kill_process_group(self.group, Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The last lines of a log, for the message of a panic.
pub fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines.iter().skip(lines.len().saturating_sub(30)).fold(String::new(), |all, line| all + line + "\n")
}
