//! Compilers that live on: a process in the sandbox that answers one request after another, for compilers that take longer to start
//! than to compile. A request and its answer are a line each.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bluefin_common::control_group::ControlGroup;
use bluefin_common::process_group::ProcessGroup;
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

use crate::error::Error;
use crate::folder::Folder;
use crate::process::{Ended, Limits, MAX_OUTPUT, is_stopped, sandboxed};

/// Longest answer, in bytes.
const MAX_ANSWER: u64 = 1 << 20;
/// Where what it says goes, in its folder.
const SAID: &str = "said.txt";
/// How long one that closed its answers may take to end.
const END: Duration = Duration::from_secs(5);

/// A compiler that lives on, in a folder of its own. It ends, with all its children, when this is dropped.
#[derive(Debug)]
pub(crate) struct Lasting {
    child: Child,
    group: ProcessGroup,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    said: File,
    control_group: ControlGroup,
    kills: Option<u64>,
    folder: Folder,
}

/// What comes of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    Line(String),
    /// It ended instead, and is of no more use.
    Ended(Ended),
}

impl Lasting {
    /// Starts `command`, with its part of the environment, in `folder` behind `launcher`, which sets `limits`; that of time is for each request. `readable`: folders that
    /// it reads beside its own and the system's, where it is confined.
    pub(crate) fn start(
        launcher: Option<&[OsString]>,
        limits: &Limits,
        (command, environment): (&[OsString], &[(&str, &str)]),
        readable: &[PathBuf],
        folder: Folder,
    ) -> Result<Self, Error> {
        let program = command.first().map(OsString::as_os_str).unwrap_or_default();
        let machine = |source| Error::machine(program.to_string_lossy(), source);
        let mut sandbox = limits.sandbox(program);
        sandbox.cpu_seconds = None;
        if !sandbox.readable.is_empty() {
            sandbox.readable.extend(readable.iter().cloned());
        }
        let path = folder.path().join(SAID);
        let said = File::options().create(true).append(true).open(&path).map_err(machine)?;
        let control_group = ControlGroup::of_this_process(&limits.root);
        let kills = control_group.kills();
        let mut child = sandboxed(launcher, &sandbox, command, folder.path())
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(said.try_clone().map_err(machine)?)
            .spawn()
            .map_err(machine)?;
        let group = ProcessGroup::of(child.id());
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Exhausted { reason: "a compiler without pipes".to_string() });
        };
        let answers = BufReader::new(answers);
        Ok(Self { child, group, requests, answers, said, control_group, kills, folder })
    }

    /// The folder that it works in.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Asks for an answer to `request`, a line; without one, waits for the next.
    pub(crate) async fn ask(&mut self, request: Option<&str>, limit: Duration) -> Result<Answer, Error> {
        let machine = |source| Error::machine("a compiler's pipes", source);
        // What it said before was of other requests.
        self.said.set_len(0).map_err(machine)?;
        let exchange = async {
            if let Some(request) = request {
                // One that is gone closes its answers as well.
                let _ = self.requests.write_all(format!("{request}\n").as_bytes()).await;
            }
            let mut line = String::new();
            (&mut self.answers).take(MAX_ANSWER).read_line(&mut line).await?;
            Ok(line)
        };
        match timeout(limit, exchange).await {
            Ok(Ok(line)) if line.ends_with('\n') => Ok(Answer::Line(line)),
            Ok(Ok(_)) => Ok(Answer::Ended(self.end().await.map_err(machine)?)),
            Ok(Err(source)) => Err(machine(source)),
            Err(_) => {
                let stopped = self.group.leader().is_some_and(is_stopped);
                self.group.kill();
                self.child.wait().await.map_err(machine)?;
                self.group.disarm();
                Ok(Answer::Ended(if stopped { Ended::Stopped } else { Ended::TimedOut }))
            }
        }
    }

    /// How it ended: it answers no more.
    async fn end(&mut self) -> std::io::Result<Ended> {
        let status = match timeout(END, self.child.wait()).await {
            Ok(status) => status?,
            Err(_) => {
                self.group.kill();
                self.child.wait().await?;
                return Ok(Ended::Exited { status: ExitStatus::from_raw(1 << 8), output: self.said()? });
            }
        };
        self.group.disarm();
        if status.signal() == Some(Signal::KILL.as_raw()) && self.control_group.killed_since(self.kills) {
            return Ok(Ended::Killed { short_of: self.control_group.to_string() });
        }
        Ok(Ended::Exited { status, output: self.said()? })
    }

    /// The beginning of what it said.
    fn said(&self) -> std::io::Result<String> {
        let mut bytes = Vec::new();
        File::open(self.folder.path().join(SAID))?.take(MAX_OUTPUT as u64).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
