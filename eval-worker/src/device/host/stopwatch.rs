//! How long a kernel ran on a CPU that is not its own alone.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::timing::Sample;

/// CPU time of other threads, as a share of this one's, from which on the kernel has threads of its own.
const OF_OTHERS: f64 = 0.02;
/// What reading the clocks takes, at most: less is no CPU time of other threads.
const TICK: Duration = Duration::from_micros(20);

/// Measures from its start: by the CPU time of the calling thread, where that is all that the kernel takes.
///
/// A thread that is preempted has used no CPU time meanwhile, so that a kernel of one thread takes as long on a busy machine as on an
/// idle one. For a kernel that waits or that starts threads it says nothing: those are timed by the wall clock.
pub(super) struct Stopwatch {
    wall: Instant,
    thread: Duration,
    process: Duration,
    waits: i64,
}

impl Stopwatch {
    pub(super) fn start() -> Self {
        let (process, waits) = (cpu_time(ClockId::ProcessCPUTime), voluntary_switches());
        // What is read last is what is closest to the kernel.
        Self { process, waits, thread: cpu_time(ClockId::ThreadCPUTime), wall: Instant::now() }
    }

    /// What it took since the start. The counter of a CPU's cycles is not open to every process, so there is no clock.
    pub(super) fn sample(self) -> Sample {
        let wall = self.wall.elapsed();
        let thread = cpu_time(ClockId::ThreadCPUTime).saturating_sub(self.thread);
        let process = cpu_time(ClockId::ProcessCPUTime).saturating_sub(self.process);
        // A thread that is stopped by a signal leaves its CPU by its own will, as the kernel counts it.
        let waited = voluntary_switches() != self.waits || process > thread.mul_f64(1.0 + OF_OTHERS) + TICK;
        // The CPU time has what little the calls in between took, which the wall clock has not.
        let time = if waited { wall } else { thread.min(wall) };
        Sample { waited, ..Sample::of(time.as_secs_f64() * 1000.0) }
    }
}

/// What the clock of this process, or of the calling thread, says.
fn cpu_time(clock: ClockId) -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    Duration::new(u64::try_from(tv_sec).unwrap_or_default(), u32::try_from(tv_nsec).unwrap_or_default())
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
