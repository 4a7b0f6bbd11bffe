//! One child process, from its start to its end.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bluefin_common::control_group::ControlGroup;
use bluefin_common::digest::Digest;
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::outcome::{Resources, Timing};
use bluefin_common::process_group::{ProcessGroup, ended_from_outside};
use bluefin_common::secrets;
use bluefin_common::target::Target;
use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::config::{ChildConfig, OF_LOADING, Wait};
use super::environment;
use super::error::DeviceError;
use super::own_time::OwnTime;
use crate::protocol::{Activity, Cpus, FrameError, Identity, Phase, Ready, Reply, Request, Spent, receive, send};

/// Bytes kept of what a child prints; the end says why it died.
const TAIL: usize = 2048;
/// How long a child that closed its pipe may take to end, and its last words to arrive.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long a killed child may take to be gone: a driver cleans up behind it. One that takes longer waits in the kernel
/// for a device that does not answer, and no signal ends that.
const DEATH: Duration = Duration::from_secs(10);

/// A running child.
pub(super) struct ChildProcess {
    child: Child,
    /// Its process group, which what it starts belongs to.
    group: ProcessGroup,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    tail: Arc<Mutex<Vec<u8>>>,
    /// Reads what the child prints; aborted with it.
    printed: JoinSet<()>,
    activity: Option<Activity>,
    /// The one that it shares with this process.
    control_group: ControlGroup,
    /// Kills for want of memory before its last request.
    kills: Option<u64>,
    /// What came of candidates of the last request, by their index.
    pub(super) evaluated: Vec<(u32, Attempt<Timing>)>,
    /// What candidates of the last request take of the device, as far as that is known.
    pub(super) resources: Vec<(u32, Resources)>,
    /// Where its time went.
    pub(super) spent: Spent,
    /// What a spin took in it, in milliseconds.
    pub(super) spin_ms: Option<f64>,
    pub(super) device: Identity,
    /// The task that it has prepared, and how its reference ran.
    pub(super) task: Option<(Digest, Ready)>,
}

/// Why a child is of no use any more.
#[derive(Debug)]
pub(super) enum Lost {
    /// It was silent for too long.
    Hung { deadline: Duration },
    /// It gave signs of life for too long, and no result.
    Overran { limit: Duration },
    /// It closed its pipe.
    Ended,
    /// What it says makes no sense.
    Garbled { reason: String },
    /// It says itself that it is not to be trusted any more.
    Tainted,
}

/// What is known of a lost child.
pub(super) struct Obituary {
    /// Index of the candidate that it worked on, within its request.
    pub(super) candidate: Option<u32>,
    pub(super) failure: Failure,
    /// For the metrics.
    pub(super) cause: &'static str,
    /// Whether the kernel killed it for want of memory, which is nobody's failure; what there is too little of.
    pub(super) short_of: Option<String>,
    /// Whether it was ended by a signal that somebody else sent, which is no failure as far as anybody knows.
    pub(super) from_outside: bool,
    /// Its process id, if it could not be killed.
    pub(super) stuck: Option<u32>,
}

impl ChildProcess {
    pub(super) async fn start(config: &ChildConfig, cpus: Cpus) -> Result<Self, DeviceError> {
        let command = config.command.first().cloned().unwrap_or_default();
        let failed = |reason: String| DeviceError::Start { command: command.clone(), reason };
        let mut starter = Command::new(&command);
        starter.env_clear().envs(environment::inherited());
        for (variable, value) in &config.environment {
            match value {
                Some(value) => starter.env(variable, value),
                None => starter.env_remove(variable),
            };
        }
        let mut child = starter
            .args(config.command.iter().skip(1))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(failed("no pipes".to_string()));
        };
        let tail = Arc::new(Mutex::new(Vec::new()));
        let mut printed = JoinSet::new();
        printed.spawn(keep_tail(stderr, Arc::clone(&tail)));
        let group = ProcessGroup::of(child.id());
        let mut process = Self {
            child,
            group,
            stdin,
            stdout: BufReader::new(stdout),
            tail,
            printed,
            activity: None,
            control_group: ControlGroup::of_this_process(&config.root),
            kills: None,
            evaluated: Vec::new(),
            resources: Vec::new(),
            spent: Spent::default(),
            spin_ms: None,
            device: Identity::default(),
            task: None,
        };
        match process.ask(&Request::Start { cpus }, &[], config.deadlines.of_start()).await {
            Ok(Reply::Started { device }) => {
                process.device = device;
                Ok(process)
            }
            Ok(other) => Err(failed(format!("unexpected reply {other:?}"))),
            Err(lost) => {
                let hung = matches!(lost, Lost::Hung { .. } | Lost::Overran { .. });
                let obituary = process.bury(lost).await;
                Err(match obituary.stuck {
                    Some(pid) => DeviceError::Stuck { pid },
                    None if obituary.short_of.is_some() => {
                        DeviceError::Killed { short_of: obituary.short_of.unwrap_or_default() }
                    }
                    None if hung => DeviceError::Silent { reason: obituary.failure.detail },
                    None => failed(obituary.failure.detail),
                })
            }
        }
    }

    /// Sends a request and waits for its answer, as long as `wait` lasts.
    pub(super) async fn ask(
        &mut self,
        request: &Request,
        artifacts: &[&[u8]],
        Wait { silence, first_run, result: limit }: Wait,
    ) -> Result<Reply, Lost> {
        self.activity = None;
        self.kills = self.control_group.kills();
        self.evaluated.clear();
        self.resources.clear();
        self.spent = Spent::default();
        self.spin_ms = None;
        let hung = |_| Lost::Hung { deadline: silence };
        // The child reads all of a request before it answers, so writing first can not lock up both.
        timeout(silence, send(&mut self.stdin, request, artifacts)).await.map_err(hung)??;
        let mut since = Instant::now();
        let mut loading = Loading::default();
        loop {
            let left = limit.saturating_sub(since.elapsed());
            // Who talks without a pause would always have something ready.
            if left.is_zero() {
                return Err(Lost::Overran { limit });
            }
            let lost = |_| if left < silence { Lost::Overran { limit } } else { Lost::Hung { deadline: silence } };
            let reply = receive(&mut self.stdout);
            let reply = if self.activity.is_some_and(|activity| activity.phase == Phase::Check) {
                let first_run = first_run.saturating_add(loading.took.saturating_mul(OF_LOADING));
                let own_time = OwnTime::of(self.child.id(), self.device.target == Target::Host.to_string());
                timeout(silence.min(left), own_time.limited(first_run, reply))
                    .await
                    .map_err(lost)?
                    .ok_or(Lost::Hung { deadline: first_run })?
            } else {
                timeout(silence.min(left), reply).await.map_err(lost)?
            };
            match reply? {
                Some(Reply::Working(activity)) => {
                    loading.notes(activity);
                    self.activity = Some(activity);
                }
                Some(Reply::Loaded { candidate, resources }) => self.resources.push((candidate, resources)),
                Some(Reply::Evaluated { candidate, result, spent, spin_ms }) => {
                    since = Instant::now();
                    self.evaluated.push((candidate, result));
                    self.spent += spent;
                    self.spin_ms = spin_ms.or(self.spin_ms);
                }
                Some(reply) => return Ok(reply),
                None => return Err(Lost::Ended),
            }
        }
    }

    /// Makes sure that the process and all it started are gone, and says what happened to it.
    pub(super) async fn bury(mut self, lost: Lost) -> Obituary {
        // One that ended by itself has a status to tell; what is left of its group is killed after that.
        let ended = match lost {
            Lost::Ended => timeout(LAST_WORDS, self.child.wait()).await.ok().and_then(Result::ok),
            Lost::Hung { .. } | Lost::Overran { .. } | Lost::Garbled { .. } | Lost::Tainted => None,
        };
        let pid = self.child.id();
        self.group.kill();
        let gone = ended.is_some() || timeout(DEATH, self.child.wait()).await.is_ok();
        self.group.disarm();
        let _ = timeout(LAST_WORDS, self.printed.join_next()).await;

        // Counted before it is sent, so that whoever dies of it has been counted.
        let killed = ended.is_some_and(|status| status.signal() == Some(Signal::KILL.as_raw()))
            && self.control_group.killed_since(self.kills);
        let from_outside = !killed && ended.is_some_and(|status| ended_from_outside(status).is_some());
        let (kind, cause, what) = match (&lost, ended) {
            (Lost::Ended, _) if killed => (FailureKind::Fault, "memory", "killed for want of memory".to_string()),
            (Lost::Hung { deadline }, _) => {
                (FailureKind::Hang, "hang", format!("killed after {:.1} s without a sign", deadline.as_secs_f64()))
            }
            (Lost::Overran { limit }, _) => {
                let what = format!("killed after {:.1} s without a result", limit.as_secs_f64());
                (FailureKind::Hang, "overrun", what)
            }
            (Lost::Tainted, _) => (FailureKind::Fault, "tainted", "broke the device".to_string()),
            (Lost::Garbled { reason }, _) => (FailureKind::Fault, "garbled", format!("damaged its process: {reason}")),
            (Lost::Ended, Some(status)) if from_outside => (FailureKind::Fault, "outside", describe(status)),
            (Lost::Ended, Some(status)) if status.signal().is_some() => {
                (FailureKind::Fault, "signal", describe(status))
            }
            (Lost::Ended, Some(status)) => (FailureKind::Fault, "exit", describe(status)),
            (Lost::Ended, None) => (FailureKind::Fault, "exit", "closed its pipe and was killed".to_string()),
        };
        let short_of = killed.then(|| self.control_group.to_string());
        let mut detail = what;
        if let Some(activity) = self.activity {
            detail = format!("{detail} {}", activity.phase);
        }
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let printed = secrets::scrub(&String::from_utf8_lossy(&tail));
        if !printed.trim().is_empty() {
            detail = format!("{detail}; it printed: {}", printed.trim());
        }
        drop(tail);
        let candidate = self.activity.and_then(|activity| activity.candidate);
        let (failure, stuck) = (Failure::new(kind, detail), pid.filter(|_| !gone));
        Obituary { candidate, failure, cause, short_of, from_outside, stuck }
    }
}

/// How long the last candidate was loaded.
#[derive(Default)]
struct Loading {
    since: Option<Instant>,
    took: Duration,
}

impl Loading {
    fn notes(&mut self, activity: Activity) {
        match (activity.phase, self.since.take()) {
            (Phase::Load, since) => self.since = since.or_else(|| Some(Instant::now())),
            (_, Some(since)) => self.took = since.elapsed(),
            (_, None) => {}
        }
    }
}

/// A pipe that breaks is the child's end.
impl From<FrameError> for Lost {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Io(error) if is_end(&error) => Self::Ended,
            error => Self::Garbled { reason: error.to_string() },
        }
    }
}

fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof)
}

async fn keep_tail(mut stderr: impl AsyncRead + Unpin, tail: Arc<Mutex<Vec<u8>>>) {
    let mut chunk = [0; TAIL];
    while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend(chunk.iter().take(count));
        let excess = tail.len().saturating_sub(TAIL);
        tail.drain(..excess);
    }
}

/// How a process ended, with the name of its signal.
fn describe(status: ExitStatus) -> String {
    let Some(signal) = status.signal() else {
        return format!("ended its process with exit code {}", status.code().unwrap_or_default());
    };
    let name = match Signal::from_named_raw(signal) {
        Some(Signal::SEGV) => "SIGSEGV (invalid address)",
        Some(Signal::BUS) => "SIGBUS (invalid address)",
        Some(Signal::FPE) => "SIGFPE (integer division)",
        Some(Signal::ILL) => "SIGILL (instruction that this CPU does not have)",
        Some(Signal::ABORT) => "SIGABRT",
        Some(Signal::TRAP) => "SIGTRAP",
        Some(Signal::SYS) => "SIGSYS",
        Some(Signal::KILL) => "SIGKILL (not by bluefin; most likely the machine ran out of memory)",
        Some(Signal::TERM) => "SIGTERM",
        Some(Signal::INT) => "SIGINT",
        Some(Signal::HUP) => "SIGHUP",
        Some(Signal::QUIT) => "SIGQUIT",
        _ => return format!("killed by signal {signal}"),
    };
    format!("killed by {name}")
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::Path;

    use bluefin_common::wire;

    use super::super::config::Deadlines;
    use super::*;
    use crate::protocol::{Phase, write_frame};

    #[test]
    fn statuses() {
        assert_eq!(describe(ExitStatus::from_raw(11)), "killed by SIGSEGV (invalid address)");
        assert_eq!(describe(ExitStatus::from_raw(6)), "killed by SIGABRT");
        assert_eq!(describe(ExitStatus::from_raw(34)), "killed by signal 34");
        assert_eq!(describe(ExitStatus::from_raw(3 << 8)), "ended its process with exit code 3");
    }

    /// A child that is started, then says `replies` over and over.
    async fn chatterer(folder: &Path, replies: &[Reply]) -> ChildProcess {
        let frames = |replies: &[Reply]| {
            let mut frames = Vec::new();
            replies.iter().for_each(|reply| write_frame(&mut frames, &wire::encode(reply).unwrap()).unwrap());
            frames
        };
        std::fs::write(folder.join("started"), frames(&[Reply::Started { device: Identity::default() }])).unwrap();
        std::fs::write(folder.join("replies"), frames(replies)).unwrap();
        let script = "cat started; while cat replies; do :; done";
        let command = ["env", "-C", &folder.display().to_string(), "sh", "-c", script].map(OsString::from);
        let config = ChildConfig::new(command.to_vec(), Deadlines::default());
        ChildProcess::start(&config, Cpus::One(None)).await.unwrap()
    }

    #[tokio::test]
    async fn signs_of_life_are_no_result() {
        let folder = tempfile::tempdir().unwrap();
        let working = Reply::Working(Activity { phase: Phase::Time, candidate: Some(7) });
        let wait = Wait {
            silence: Duration::from_secs(60),
            first_run: Duration::from_secs(60),
            result: Duration::from_millis(300),
        };
        let mut child = chatterer(folder.path(), std::slice::from_ref(&working)).await;
        let lost = child.ask(&Request::Translate, &[], wait).await.unwrap_err();
        assert!(matches!(lost, Lost::Overran { .. }), "{lost:?}");
        let obituary = child.bury(lost).await;
        assert_eq!((obituary.candidate, obituary.failure.kind), (Some(7), FailureKind::Hang));
        assert_eq!(obituary.failure.detail, "killed after 0.3 s without a result while it was timed");

        // A result is one more time to wait for the next.
        let result = Err(Failure::new(FailureKind::WrongResult, ""));
        let evaluated = Reply::Evaluated { candidate: 1, result, spent: Spent::default(), spin_ms: None };
        let mut child = chatterer(folder.path(), &[working, evaluated]).await;
        let asked = child.ask(&Request::Translate, &[], Wait { result: Duration::from_secs(2), ..wait });
        assert!(timeout(Duration::from_secs(4), asked).await.is_err(), "it goes on while results come");
        assert!(child.evaluated.len() > 1);
    }

    #[tokio::test]
    async fn the_tail_is_bounded_and_is_the_end() {
        let text: Vec<u8> = (0..20_000_u32).flat_map(|number| number.to_le_bytes()).collect();
        let tail = Arc::new(Mutex::new(Vec::new()));
        keep_tail(text.as_slice(), Arc::clone(&tail)).await;
        assert_eq!(*tail.lock().unwrap(), text[text.len() - TAIL..]);
    }
}
