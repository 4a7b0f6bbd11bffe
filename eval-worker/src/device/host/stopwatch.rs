//! How long a kernel ran on a CPU that is not its own alone.

use std::time::Instant;

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::timing::Sample;

/// CPU time of other threads, as a share of this one's, from which on the kernel has threads of its own.
const OF_OTHERS: f64 = 0.02;

/// Measures from its start: by the CPU time of the calling thread, where that is all that the kernel takes.
///
/// A thread that is preempted has used no CPU time meanwhile, so that a kernel of one thread takes as long on a busy machine as on an
/// idle one. For a kernel that waits or that starts threads it says nothing: those are timed by the wall clock.
pub(super) struct Stopwatch {
    wall: Instant,
    thread_s: f64,
    process_s: f64,
    waits: i64,
}

impl Stopwatch {
    pub(super) fn start() -> Self {
        let (process_s, waits) = (cpu_seconds(ClockId::ProcessCPUTime), voluntary_switches());
        // What is read last is what is closest to the kernel.
        Self { process_s, waits, thread_s: cpu_seconds(ClockId::ThreadCPUTime), wall: Instant::now() }
    }

    /// What it took since the start. The counter of a CPU's cycles is not open to every process, so there is no clock.
    pub(super) fn sample(self) -> Sample {
        let wall_s = self.wall.elapsed().as_secs_f64();
        let thread_s = cpu_seconds(ClockId::ThreadCPUTime) - self.thread_s;
        let process_s = cpu_seconds(ClockId::ProcessCPUTime) - self.process_s;
        // A thread that is stopped by a signal leaves its CPU by its own will, as the kernel counts it.
        let waited = voluntary_switches() != self.waits || process_s > (1.0 + OF_OTHERS) * thread_s + TICK_S;
        // The CPU time has what little the calls in between took, which the wall clock has not.
        let seconds = if waited { wall_s } else { thread_s.min(wall_s) };
        Sample { waited, ..Sample::of(seconds * 1000.0) }
    }
}

/// What the calls above take together, in seconds: less is no CPU time of other threads.
const TICK_S: f64 = 20e-6;

fn cpu_seconds(clock: ClockId) -> f64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    tv_sec as f64 + tv_nsec as f64 * 1e-9
}

/// How often the calling thread left its CPU without being preempted.
fn voluntary_switches() -> i64 {
    // SAFETY: `usage` is a structure of plain numbers, for which zeros are a value, and is written by the call.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage.ru_nvcsw
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::process::Command;
    use std::thread;
    use std::time::Duration;

    use rustix::process::Pid;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;

    fn work() {
        (0..2_000_000_u64).fold(0, |sum, next| black_box(sum + next));
    }

    #[test]
    fn a_kernel_that_waits_or_starts_threads_is_timed_by_the_wall_clock() {
        let watch = Stopwatch::start();
        thread::sleep(Duration::from_millis(5));
        let slept = watch.sample();
        assert!(slept.waited && slept.ms >= 5.0, "{slept:?}");

        let watch = Stopwatch::start();
        thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
        assert!(watch.sample().waited);
    }

    #[test]
    fn a_kernel_that_shares_its_cpu_is_no_slower() {
        let cpus = sched_getaffinity(None).unwrap();
        let cpu = (0..CpuSet::MAX_CPU).find(|cpu| cpus.is_set(*cpu)).unwrap();
        let mut one = CpuSet::new();
        one.set(cpu);
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        sched_setaffinity(Some(Pid::from_child(&busy)), &one).unwrap();
        sched_setaffinity(None, &one).unwrap();
        let shared = (0..50).any(|_| {
            let (wall, watch) = (Instant::now(), Stopwatch::start());
            (0..20).for_each(|_| work());
            let sample = watch.sample();
            !sample.waited && sample.ms < 800.0 * wall.elapsed().as_secs_f64()
        });
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert!(shared, "never less than four fifths of the wall clock");
    }
}
