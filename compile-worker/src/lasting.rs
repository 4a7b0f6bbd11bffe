//! Compilers that live on: a process in the sandbox that answers one request after another, for compilers that take longer to start
//! than to compile. A request and its answer are a line each.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bluefin_common::control_group::ControlGroup;
use bluefin_common::process_group::ProcessGroup;
use bluefin_common::secrets;
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::error::Error;
use crate::folder::Folder;
use crate::process::{Ended, Limits, MAX_OUTPUT, in_time, is_stopped, sandboxed};

/// Longest answer, in bytes.
const MAX_ANSWER: u64 = 1 << 20;
/// How long one that closed its answers may take to end.
const END: Duration = Duration::from_secs(5);
/// How long the last words of one that ended may take to arrive: a child of it may hold the pipe.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A compiler that lives on, in a folder of its own. It ends, with all its children, when this is dropped.
#[derive(Debug)]
pub(crate) struct Lasting {
    child: Child,
    group: ProcessGroup,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    said: Said,
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
    /// It answered without an end, and was ended.
    TooLong,
}

impl Lasting {
    /// Starts `command`, with its part of the environment, in `folder` behind `launcher`, which sets `limits`; that of time is for each request.
    pub(crate) fn start(
        launcher: Option<&[OsString]>,
        limits: &Limits,
        (command, environment): (&[OsString], &[(&str, &str)]),
        folder: Folder,
    ) -> Result<Self, Error> {
        let program = command.first().map(OsString::as_os_str).unwrap_or_default();
        let machine = |source| Error::machine(program.to_string_lossy(), source);
        let mut sandbox = limits.sandbox(program);
        sandbox.cpu_seconds = None;
        let control_group = ControlGroup::of_this_process(&limits.root);
        let kills = control_group.kills();
        let mut child = sandboxed(launcher, &sandbox, command, folder.path())
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(machine)?;
        let group = ProcessGroup::of(child.id());
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(requests), Some(answers), Some(said)) = pipes else {
            return Err(Error::Exhausted { reason: "a compiler without pipes".to_string() });
        };
        let (answers, said) = (BufReader::new(answers), Said::of(said));
        Ok(Self { child, group, requests, answers, said, control_group, kills, folder })
    }

    /// The folder that it works in.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Asks for an answer to `request`, a line; without one, waits for the next.
    pub(crate) async fn ask(&mut self, request: Option<&str>, limit: Duration) -> Result<Answer, Error> {
        let machine = |source| Error::machine("a compiler's process", source);
        // What it said before was of other requests.
        self.said.kept().clear();
        let exchange = async {
            if let Some(request) = request {
                // One that is gone closes its answers as well.
                let _ = self.requests.write_all(format!("{request}\n").as_bytes()).await;
            }
            let mut line = Vec::new();
            // A pipe that fails has ended.
            let _ = (&mut self.answers).take(MAX_ANSWER).read_until(b'\n', &mut line).await;
            line
        };
        match in_time(limit, exchange).await {
            Some(line) if line.ends_with(b"\n") => Ok(Answer::Line(String::from_utf8_lossy(&line).into_owned())),
            Some(line) if line.len() as u64 == MAX_ANSWER => {
                self.kill().await.map_err(machine)?;
                Ok(Answer::TooLong)
            }
            Some(_) => Ok(Answer::Ended(self.end().await.map_err(machine)?)),
            None => {
                let stopped = self.group.leader().is_some_and(is_stopped);
                self.kill().await.map_err(machine)?;
                Ok(Answer::Ended(if stopped { Ended::Stopped } else { Ended::TimedOut }))
            }
        }
    }

    /// What it said on standard error while it made its last answer, up to the byte of zero that it ends that with.
    pub(crate) async fn words(&self) -> String {
        let all = |kept: &[u8]| kept.len() >= MAX_OUTPUT || kept.contains(&0);
        // Its pipes are read one by one: the answer may be here first.
        let until = Instant::now() + LAST_WORDS;
        while !all(&self.said.kept()) && Instant::now() < until {
            sleep(Duration::from_millis(2)).await;
        }
        let kept = self.said.kept();
        let said = kept.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(said).into_owned()
    }

    async fn kill(&mut self) -> std::io::Result<()> {
        self.group.kill();
        self.child.wait().await?;
        self.group.disarm();
        Ok(())
    }

    /// How it ended: it answers no more.
    async fn end(&mut self) -> std::io::Result<Ended> {
        let status = match timeout(END, self.child.wait()).await {
            Ok(status) => status?,
            Err(_) => {
                self.kill().await?;
                return Ok(Ended::Exited {
                    status: ExitStatus::from_raw(1 << 8),
                    output: self.said.last_words().await,
                });
            }
        };
        // Its children go with it, before their number may be another group's.
        self.group.kill();
        self.group.disarm();
        if status.signal() == Some(Signal::KILL.as_raw()) && self.control_group.killed_since(self.kills) {
            return Ok(Ended::Killed { short_of: self.control_group.to_string() });
        }
        Ok(Ended::Exited { status, output: self.said.last_words().await })
    }
}

/// What a process says, through a pipe: a file would be one that it can replace.
#[derive(Debug)]
struct Said {
    /// The first [`MAX_OUTPUT`] bytes since it was asked.
    kept: Arc<Mutex<Vec<u8>>>,
    reader: JoinSet<()>,
}

impl Said {
    fn of(mut pipe: ChildStderr) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let mut reader = JoinSet::new();
        let into = Arc::clone(&kept);
        // All of it is read, so that the process does not wait for a reader.
        reader.spawn(async move {
            let mut chunk = vec![0; 16 << 10];
            while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
                let mut kept = into.lock().unwrap_or_else(PoisonError::into_inner);
                let room = MAX_OUTPUT.saturating_sub(kept.len());
                kept.extend(chunk.iter().take(count.min(room)));
            }
        });
        Self { kept, reader }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<u8>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that it said of a process that ended.
    async fn last_words(&mut self) -> String {
        let _ = timeout(LAST_WORDS, self.reader.join_next()).await;
        secrets::scrub(&String::from_utf8_lossy(&self.kept()))
    }
}
