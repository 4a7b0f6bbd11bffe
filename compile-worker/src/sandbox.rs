//! The inner side of the sandbox: sets limits on this process, then becomes the compiler.
//!
//! A compile worker starts `bluefin sandbox-exec <limits> -- <compiler> <arguments>` for each compile, because the limits
//! must be set between fork and exec, and the code that may run there is unsafe. What it limits: CPU time, memory,
//! size of files, core dumps, and life beyond the worker's. Where a hard limit of the worker is lower, as batch systems set
//! them, that one stands. A compiler is also isolated: see [`Isolation`].

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use bluefin_common::isolation::{Isolation, IsolationError};
use bluefin_common::limits;
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Between the signal that says that a compiler has used its CPU time, and the one that looks like any other kill.
const LAST_CPU_SECONDS: u64 = 2;

/// The flag that has no value.
const ISOLATED: &str = "--isolated";

/// What goes wrong before the compiler runs.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("{flag}: found {found:?}, expected {expected}")]
    Usage { flag: String, found: String, expected: &'static str },
    #[error("{what}: {source}")]
    System { what: String, source: io::Error },
    #[error(transparent)]
    Isolation(#[from] IsolationError),
}

/// The limits of one compile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxLimits {
    pub cpu_seconds: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub file_bytes: Option<u64>,
    /// CPUs it may run on; all if empty.
    pub cpus: Vec<usize>,
    /// What it keeps of its user's rights; all if there is none.
    pub isolation: Option<Isolation>,
}

impl SandboxLimits {
    /// The arguments that [`Self::parse`] reads back, up to and with `--`.
    #[must_use]
    pub fn to_args(&self) -> Vec<OsString> {
        let numbers = [
            ("--cpu-seconds", self.cpu_seconds),
            ("--memory-bytes", self.memory_bytes),
            ("--file-bytes", self.file_bytes),
        ];
        let mut args = Vec::new();
        for (flag, value) in numbers {
            args.extend(value.into_iter().flat_map(|value| [OsString::from(flag), value.to_string().into()]));
        }
        if !self.cpus.is_empty() {
            let cpus: Vec<String> = self.cpus.iter().map(usize::to_string).collect();
            args.extend(["--cpus".into(), cpus.join(",").into()]);
        }
        if let Some(isolation) = &self.isolation {
            args.push(ISOLATED.into());
            let readable = isolation.readable.iter().flatten();
            args.extend(readable.flat_map(|path| ["--readable".into(), path.clone().into_os_string()]));
        }
        args.push("--".into());
        args
    }

    /// Reads the arguments of `sandbox-exec`: the limits, and the command behind `--`.
    ///
    /// # Errors
    /// A flag or value that is unknown; no command.
    pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<(Self, Vec<OsString>), SandboxError> {
        let mut limits = Self::default();
        let mut args = args.into_iter();
        while let Some(flag) = args.next() {
            let flag = flag.to_string_lossy().into_owned();
            if flag == "--" {
                let command: Vec<OsString> = args.collect();
                if command.is_empty() {
                    return Err(usage("--", "nothing", "a command behind it"));
                }
                return Ok((limits, command));
            }
            if flag == ISOLATED {
                limits.isolation.get_or_insert_default();
                continue;
            }
            let raw = args.next().unwrap_or_default();
            let value = raw.to_string_lossy().into_owned();
            let number = || value.parse::<u64>().map_err(|_| usage(&flag, &value, "a whole number"));
            match flag.as_str() {
                "--cpu-seconds" => limits.cpu_seconds = Some(number()?),
                "--memory-bytes" => limits.memory_bytes = Some(number()?),
                "--file-bytes" => limits.file_bytes = Some(number()?),
                "--cpus" => {
                    let parse = |cpu: &str| cpu.parse().ok().filter(|cpu| *cpu < CpuSet::MAX_CPU);
                    let cpus: Option<Vec<usize>> = value.split(',').map(parse).collect();
                    limits.cpus = cpus.ok_or_else(|| usage(&flag, &value, "CPU numbers separated by commas"))?;
                }
                "--readable" if !raw.is_empty() => {
                    let isolation = limits.isolation.get_or_insert_default();
                    isolation.readable.get_or_insert_default().push(raw.into());
                }
                other => {
                    let expected = "one of --cpu-seconds --memory-bytes --file-bytes --cpus --isolated --readable --";
                    return Err(usage(other, &value, expected));
                }
            }
        }
        Err(usage("--", "nothing", "-- and a command"))
    }

    fn apply(&self) -> Result<(), SandboxError> {
        let system = |what: &str| {
            let what = what.to_string();
            move |errno: rustix::io::Errno| SandboxError::System { what, source: errno.into() }
        };
        // First: a worker that is killed takes its compilers along.
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(system("parent death signal"))?;
        let limit = |resource, value: u64, what: &str| {
            let value = Some(limits::within(resource, value));
            setrlimit(resource, Rlimit { current: value, maximum: value }).map_err(system(what))
        };
        limit(Resource::Core, 0, "limit of core dumps")?;
        if let Some(bytes) = self.file_bytes {
            limit(Resource::Fsize, bytes, "limit of file size")?;
        }
        if let Some(bytes) = self.memory_bytes {
            limit(Resource::As, bytes, "limit of memory")?;
        }
        if let Some(seconds) = self.cpu_seconds {
            // At the hard limit the kernel kills; only below it the signal says why.
            let maximum = limits::within(Resource::Cpu, seconds + LAST_CPU_SECONDS);
            let current = seconds.min(maximum.saturating_sub(1));
            setrlimit(Resource::Cpu, Rlimit { current: Some(current), maximum: Some(maximum) })
                .map_err(system("limit of CPU time"))?;
        }
        if !self.cpus.is_empty() {
            let mut set = CpuSet::new();
            self.cpus.iter().for_each(|cpu| set.set(*cpu));
            sched_setaffinity(None, &set).map_err(system("CPU affinity"))?;
        }
        if let Some(isolation) = &self.isolation {
            isolation.enter()?;
        }
        Ok(())
    }
}

fn usage(flag: &str, found: &str, expected: &'static str) -> SandboxError {
    SandboxError::Usage { flag: flag.to_string(), found: found.to_string(), expected }
}

/// Limits this process, then becomes `command`. Returns only with an error.
///
/// # Errors
/// A limit that cannot be set; a program that cannot be started.
pub fn exec(limits: &SandboxLimits, command: &[OsString]) -> Result<Infallible, SandboxError> {
    let Some((program, args)) = command.split_first() else {
        return Err(usage("--", "nothing", "a command behind it"));
    };
    limits.apply()?;
    let source = Command::new(program).args(args).exec();
    Err(SandboxError::System { what: program.to_string_lossy().into_owned(), source })
}

/// Carries out the arguments of the verb `sandbox-exec`. Returns only if that fails.
#[must_use]
pub fn main(args: Vec<OsString>) -> ExitCode {
    match exec_from_args(args) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("bluefin sandbox-exec: {error}");
            // As a shell says that a command can not be run.
            ExitCode::from(126)
        }
    }
}

/// [`exec`] with the arguments of the verb `sandbox-exec`.
///
/// # Errors
/// As [`exec`], and arguments that make no sense.
pub fn exec_from_args(args: impl IntoIterator<Item = OsString>) -> Result<Infallible, SandboxError> {
    let (limits, command) = SandboxLimits::parse(args)?;
    exec(&limits, &command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn arguments_are_read_back() {
        let limits = SandboxLimits {
            cpu_seconds: Some(60),
            memory_bytes: Some(1 << 32),
            file_bytes: None,
            cpus: vec![0, 3],
            isolation: Some(Isolation { readable: Some(vec!["/opt/cc".into(), "/a b".into()]), timed: false }),
        };
        let mut args = limits.to_args();
        args.extend(os(&["cc", "--", "x.c"]));
        assert_eq!(SandboxLimits::parse(args).unwrap(), (limits, os(&["cc", "--", "x.c"])));
        let limits = SandboxLimits { isolation: Some(Isolation::default()), ..SandboxLimits::default() };
        let mut args = limits.to_args();
        args.push("cc".into());
        assert_eq!(SandboxLimits::parse(args).unwrap(), (limits, os(&["cc"])));
        assert_eq!(SandboxLimits::parse(os(&["--", "cc"])).unwrap(), (SandboxLimits::default(), os(&["cc"])));
    }

    #[test]
    fn nonsense_is_refused() {
        for args in [
            os(&[]),
            os(&["--"]),
            os(&["cc"]),
            os(&["--cpu-seconds"]),
            os(&["--cpu-seconds", "x", "--", "cc"]),
            os(&["--cpus", "0,x", "--", "cc"]),
            os(&["--cpus", "99999", "--", "cc"]),
            os(&["--nice", "1", "--", "cc"]),
            os(&["--readable", "", "--", "cc"]),
        ] {
            assert!(SandboxLimits::parse(args.clone()).is_err(), "{args:?}");
        }
    }
}
