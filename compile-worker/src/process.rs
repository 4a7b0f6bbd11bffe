//! The outer side of the sandbox: runs one compiler, bounded in time and output, and kills it with all its children.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::thread::available_parallelism;
use std::time::Duration;

use bluefin_common::control_group::ControlGroup;
use bluefin_common::isolation::{Isolation, files};
use bluefin_common::limits;
use bluefin_common::process_group::ProcessGroup;
use bluefin_common::secrets;
use rustix::process::{Pid, Resource, Signal};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::time::{Instant, timeout};

use crate::error::Error;
use crate::sandbox::SandboxLimits;

/// Bytes of diagnostics that are kept; the first ones say what is wrong.
pub(crate) const MAX_OUTPUT: usize = 64 << 10;

/// As many times its limit a compile may take on an overloaded machine.
const MOST_PATIENCE: f64 = 10.0;

/// Bounds of one compile.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Time of a processor, and of the wall clock where the machine is not overloaded.
    pub time: Duration,
    /// Address space of each process.
    pub memory_bytes: u64,
    /// Size of each file it writes, the artifact included.
    pub file_bytes: u64,
    /// CPUs that compilers may run on; all if empty.
    pub cpus: Vec<usize>,
    /// Whether compilers are confined to their own files and those of the system, where the kernel can do that. Isolated from all
    /// but files they are in any case.
    pub confine: bool,
    /// What it reads beside the compiler's own folder and those of the system, where it is confined.
    pub readable: Vec<PathBuf>,
    /// What the files that tell of control groups are below: `/`.
    pub root: PathBuf,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(60),
            memory_bytes: 4 << 30,
            file_bytes: 64 << 20,
            cpus: Vec::new(),
            confine: false,
            readable: Vec::new(),
            root: PathBuf::from("/"),
        }
    }
}

impl Limits {
    /// What is in force of memory and files: the limits of this process where they are lower.
    pub(crate) fn in_force(&self) -> Self {
        Self {
            memory_bytes: limits::within(Resource::As, self.memory_bytes),
            file_bytes: limits::within(Resource::Fsize, self.file_bytes),
            ..self.clone()
        }
    }

    pub(crate) fn sandbox(&self, program: &OsStr) -> SandboxLimits {
        let readable = || files::own(Path::new(program)).into_iter().chain(self.readable.iter().cloned()).collect();
        SandboxLimits {
            // The wall clock ends a compile first, unless the compiler runs threads, or the machine is overloaded.
            cpu_seconds: Some(self.time.as_secs() + 2),
            memory_bytes: Some(self.memory_bytes),
            file_bytes: Some(self.file_bytes),
            cpus: self.cpus.clone(),
            isolation: Some(Isolation { readable: self.confine.then(readable), timed: false }),
        }
    }
}

/// How a compiler ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// By itself or by a signal, with the beginning of what it said.
    Exited {
        status: ExitStatus,
        output: String,
    },
    TimedOut,
    /// It did not end, and somebody had stopped it.
    Stopped,
    /// By the kernel, itself or a part of it, for want of memory: what there is too little of.
    Killed {
        short_of: String,
    },
}

/// Runs `command` in `folder` as [`sandboxed`] has it, with no input.
pub(crate) async fn run(
    launcher: Option<&[OsString]>,
    limits: &Limits,
    command: &[OsString],
    folder: &Path,
) -> Result<Ended, Error> {
    let program = command.first().map(OsString::as_os_str).unwrap_or_default();
    let started = launcher.and_then(|launcher| launcher.first()).map_or(program, OsString::as_os_str);
    let machine = |source| Error::Machine { what: started.to_string_lossy().into_owned(), source };
    let control_group = ControlGroup::of_this_process(&limits.root);
    let kills = control_group.kills();
    let mut child = sandboxed(launcher, &limits.sandbox(program), command, folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(machine)?;
    let mut group = ProcessGroup::of(child.id());
    let stderr = child.stderr.take();
    let work = async {
        let output = match stderr {
            Some(stderr) => read_start(stderr).await?,
            None => String::new(),
        };
        Ok((child.wait().await?, output))
    };
    match in_time(limits.time, work).await {
        Some(Ok((status, output))) => {
            // Reaped: its number may belong to another group by now.
            group.disarm();
            // A driver says so of its parts, and exits.
            let killed =
                status.signal() == Some(Signal::KILL.as_raw()) || !status.success() && output.contains("Killed");
            if killed && control_group.killed_since(kills) {
                return Ok(Ended::Killed { short_of: control_group.to_string() });
            }
            Ok(Ended::Exited { status, output })
        }
        Some(Err(source)) => Err(machine(source)),
        None => {
            let stopped = group.leader().is_some_and(is_stopped);
            drop(group);
            // Reaps it; it was killed, so this is short.
            child.wait().await.map_err(machine)?;
            Ok(if stopped { Ended::Stopped } else { Ended::TimedOut })
        }
    }
}

/// What `work` comes to within `limit`. Where more wants to run than the machine has CPUs it gets as much longer, up to [`MOST_PATIENCE`] times:
/// what other work slows down is no failure of a candidate.
pub(crate) async fn in_time<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    within(limit, overload, work).await
}

/// [`in_time`] by what `overload` says when time is up.
async fn within<T>(limit: Duration, overload: impl Fn() -> f64, work: impl Future<Output = T>) -> Option<T> {
    let begun = Instant::now();
    let mut work = pin!(work);
    let mut left = limit;
    while !left.is_zero() {
        if let Ok(done) = timeout(left, &mut work).await {
            return Some(done);
        }
        left = limit.mul_f64(overload().clamp(1.0, MOST_PATIENCE)).saturating_sub(begun.elapsed());
    }
    None
}

/// Threads that want to run, for each CPU that this process may run on; nothing where nobody says.
fn overload() -> f64 {
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    let load = load.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    load.unwrap_or_default() / available_parallelism().map_or(1, usize::from) as f64
}

/// `command` in `folder`, behind `launcher` if there is one, which sets the `limits`: with an environment that is the same on all
/// machines but for PATH, and in a process group of its own.
pub(crate) fn sandboxed(
    launcher: Option<&[OsString]>,
    limits: &SandboxLimits,
    command: &[OsString],
    folder: &Path,
) -> Command {
    let mut line: Vec<OsString> = Vec::new();
    if let Some(launcher) = launcher {
        line.extend(launcher.iter().cloned());
        line.extend(limits.to_args());
    }
    line.extend(command.iter().cloned());
    let mut line = line.into_iter();
    let mut sandboxed = Command::new(line.next().unwrap_or_default());
    sandboxed.args(line).current_dir(folder).env_clear().envs(environment()).process_group(0).kill_on_drop(true);
    sandboxed
}

/// Whether somebody stopped it, by SIGSTOP or a debugger.
pub(crate) fn is_stopped(process: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
    // The state is behind the name, which is in parentheses and may have any byte.
    stat.rsplit_once(')').is_some_and(|(_, rest)| matches!(rest.trim_start().chars().next(), Some('T' | 't')))
}

/// Libraries of numbers, which a Python may import, start a thread for each CPU of the machine. Each takes some 40 MiB of addresses: on
/// a host of many CPUs more than [`Limits::memory_bytes`] leaves.
const ONE_THREAD: [(&str, &str); 3] =
    [("OMP_NUM_THREADS", "1"), ("OPENBLAS_NUM_THREADS", "1"), ("MKL_NUM_THREADS", "1")];

/// The environment of every compiler. All of it is a constant but PATH, where compilers look for their own parts.
pub(crate) fn environment() -> Vec<(OsString, OsString)> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let fixed = [("LC_ALL", "C"), ("TMPDIR", "."), ("SOURCE_DATE_EPOCH", "0")];
    let fixed = fixed.into_iter().chain(ONE_THREAD);
    let fixed = fixed.map(|(name, value)| (name.into(), value.into()));
    fixed.chain([("PATH".into(), path)]).collect()
}

/// The first [`MAX_OUTPUT`] bytes; the rest is read too, so that the writer does not wait for a reader.
async fn read_start(mut from: impl AsyncRead + Unpin) -> std::io::Result<String> {
    let mut kept = Vec::new();
    let mut chunk = vec![0; 16 << 10];
    loop {
        let count = from.read(&mut chunk).await?;
        if count == 0 {
            break;
        }
        let room = MAX_OUTPUT - kept.len();
        kept.extend_from_slice(chunk.get(..count.min(room)).unwrap_or_default());
    }
    Ok(secrets::scrub(&String::from_utf8_lossy(&kept)))
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_overloaded_machine_has_more_time() {
        let limit = Duration::from_millis(50);
        let late = || sleep(3 * limit);
        assert_eq!(within(limit, || 0.5, late()).await, None);
        assert_eq!(within(limit, || 40.0, late()).await, Some(()));
        let begun = Instant::now();
        assert_eq!(within(limit, || 40.0, pending::<()>()).await, None);
        assert!(begun.elapsed() >= limit.mul_f64(MOST_PATIENCE), "{:?}", begun.elapsed());
        assert_eq!(within(limit, || 0.0, ready(1)).await, Some(1));
        assert!(overload() >= 0.0);
    }
}
