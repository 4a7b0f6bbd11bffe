//! What the child does to be harmless, and undisturbed.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use bluefin_common::limits;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{
    Resource, Rlimit, Signal, getpgrp, getpid, kill_current_process_group, kill_process, nice, setrlimit,
};
use rustix::stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::protocol::Cpus;

/// Descriptors from here on are out of the way of kernels that print to, or close, the usual ones. Where fewer files can be
/// open the last ones have to do.
const OUT_OF_THE_WAY: i32 = 64;

/// Files that a child of the CPU has open at a time: the usual three, its pipes, one of them twice, the artifacts of a
/// play-off and of its reference, and what the loader opens. Drivers of GPUs open more, and say so themselves.
const OPEN_FILES: u64 = 20;

/// Pipes to the parent.
const PIPES: u64 = 2;

/// How much translators leave to others.
const NICE: i32 = 10;

/// The two ends that lead to the parent.
pub(super) struct Pipes {
    pub(super) requests: File,
    pub(super) replies: File,
}

/// Takes the pipes to the parent away from the reach of kernels: what a kernel prints to standard output goes to standard
/// error. No core dumps, death with the parent, and not before it.
pub(super) fn enter() -> io::Result<Pipes> {
    limits::expect_open_files(OPEN_FILES).map_err(io::Error::other)?;
    let away = out_of_the_way(limits::open_files());
    let requests = fcntl_dupfd_cloexec(stdin(), away)?;
    let replies = fcntl_dupfd_cloexec(stdout(), away)?;
    dup2_stdin(File::open("/dev/null")?)?;
    dup2_stdout(stderr())?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    outlast_signals()?;
    let requests = File::from(requests);
    die_with_parent(requests.try_clone()?)?;
    Ok(Pipes { requests, replies: File::from(replies) })
}

/// A service manager that stops the parent sends its signal to this process as well. The parent finishes what is under way, and
/// needs this process for that.
fn outlast_signals() -> io::Result<()> {
    // A handler that does nothing, unlike a signal that is ignored, is not handed down to what a kernel starts.
    let received = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&received))?;
    }
    Ok(())
}

/// The first descriptor for pipes where `limit` files can be open.
fn out_of_the_way(limit: u64) -> i32 {
    let last = limit.saturating_sub(PIPES);
    i32::try_from(last).map_or(OUT_OF_THE_WAY, |last| last.min(OUT_OF_THE_WAY))
}

/// Kills this process and what it started once nobody holds the other end of `requests`, even if a kernel never returns.
///
/// The kernel's own parent-death signal would not do: it is sent when the *thread* that started the child ends, and
/// threads of an async runtime come and go.
fn die_with_parent(requests: File) -> io::Result<()> {
    let watch = move || {
        // No events asked for: only a hang-up wakes it, or a signal.
        let mut pipe = [PollFd::new(&requests, PollFlags::empty())];
        while let Ok(0) | Err(rustix::io::Errno::INTR) = poll(&mut pipe, None) {}
        if pipe.iter().any(|pipe| pipe.revents().contains(PollFlags::NVAL)) {
            // The parent is there: a kernel closed what is not its own, and dies of that.
            std::process::abort();
        }
        if getpgrp() == getpid() {
            let _ = kill_current_process_group(Signal::KILL);
        }
        let _ = kill_process(getpid(), Signal::KILL);
    };
    thread::Builder::new().name("die-with-parent".to_string()).stack_size(64 << 10).spawn(watch)?;
    Ok(())
}

/// Keeps this thread, and those that it starts, where they belong. By default that is the last CPU: the first ones serve
/// interrupts and everybody else.
pub(super) fn settle(cpus: &Cpus) -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let chosen: Vec<usize> = match cpus {
        Cpus::One(None) => allowed.last().copied().into_iter().collect(),
        Cpus::One(Some(cpu)) => match allowed.iter().find(|allowed| **allowed == *cpu as usize) {
            Some(cpu) => vec![*cpu],
            None => return Err(io::Error::other(format!("cpu: found {cpu}, which this process may not use"))),
        },
        Cpus::Spare { taken } => {
            let spare = allowed.iter().copied().filter(|cpu| taken.iter().all(|taken| *taken as usize != *cpu));
            let spare: Vec<usize> = spare.collect();
            if spare.is_empty() { allowed } else { spare }
        }
    };
    let mut set = CpuSet::new();
    chosen.into_iter().for_each(|cpu| set.set(cpu));
    sched_setaffinity(None, &set)?;
    if matches!(cpus, Cpus::Spare { .. }) {
        // Whoever feeds the devices comes first.
        nice(NICE)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_find_room_below_every_limit() {
        assert_eq!(out_of_the_way(u64::MAX), 64);
        assert_eq!(out_of_the_way(1024), 64);
        assert_eq!(out_of_the_way(66), 64);
        // Descriptors below the limit: 62 and 63, 18 and 19.
        assert_eq!(out_of_the_way(64), 62);
        assert_eq!(out_of_the_way(OPEN_FILES), 18);
    }
}
