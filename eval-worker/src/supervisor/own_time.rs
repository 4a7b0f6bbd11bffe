//! Time that counts against a child: not that in which it was stopped or others had its CPU.

use std::fs;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

/// How often it is looked how the child does.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Fields of `/proc/PID/stat` behind the name of the program: state, and time in user and kernel mode (proc_pid_stat(5), 3, 14, 15).
const STATE: usize = 0;
const USER: usize = 11;
const KERNEL: usize = 12;

/// The time of a child, as the kernel tells it.
pub(super) struct OwnTime {
    stat: Option<PathBuf>,
    /// What it runs it runs on the CPU.
    on_cpu: bool,
    used: Duration,
}

impl OwnTime {
    /// That of the process `pid`; of one that is not known all time counts.
    pub(super) fn of(pid: Option<u32>, on_cpu: bool) -> Self {
        let stat = pid.map(|pid| PathBuf::from(format!("/proc/{pid}/stat")));
        let mut own = Self { stat, on_cpu, used: Duration::ZERO };
        own.used = own.look().map_or(Duration::ZERO, |(_, used)| used);
        own
    }

    /// Waits for `reply`. `None`: `limit` of the child's own time was over first.
    pub(super) async fn limited<T>(mut self, limit: Duration, reply: impl Future<Output = T>) -> Option<T> {
        let mut reply = pin!(reply);
        let mut counted = Duration::ZERO;
        while counted < limit {
            let slice = LOOK_EVERY.min(limit.saturating_sub(counted)).max(Duration::from_millis(1));
            tokio::select! {
                biased;
                reply = &mut reply => return Some(reply),
                () = tokio::time::sleep(slice) => counted += self.counted(slice),
            }
        }
        None
    }

    /// How much of the last `slice` counts.
    fn counted(&mut self, slice: Duration) -> Duration {
        let Some((stopped, used)) = self.look() else { return slice };
        let more = used.saturating_sub(self.used);
        self.used = used;
        match (stopped, self.on_cpu) {
            (true, _) => Duration::ZERO,
            (false, true) => more.min(slice),
            (false, false) => slice,
        }
    }

    /// Whether the child is stopped, and how long it has had a CPU.
    fn look(&self) -> Option<(bool, Duration)> {
        let stat = fs::read_to_string(self.stat.as_ref()?).ok()?;
        // The name may have anything in it, a parenthesis too.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
        let stopped = matches!(*fields.get(STATE)?, "T" | "t");
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        let millis = (ticks(USER)? + ticks(KERNEL)?).saturating_mul(1000) / per_second;
        Some((stopped, Duration::from_millis(millis)))
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::Instant;

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    struct Running(Child);

    impl Running {
        fn start(script: &str) -> Self {
            Self(Command::new("sh").args(["-c", script]).spawn().unwrap())
        }

        fn signal(&self, signal: Signal) {
            kill_process(Pid::from_child(&self.0), signal).unwrap();
        }

        async fn is_hung(&self, on_cpu: bool, patience: Duration) -> bool {
            let own = OwnTime::of(Some(self.0.id()), on_cpu);
            let forever = std::future::pending::<()>();
            let hung = own.limited(Duration::from_millis(200), forever);
            matches!(tokio::time::timeout(patience, hung).await, Ok(None))
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[tokio::test]
    async fn time_counts_that_a_child_had() {
        let (patient, short) = (Duration::from_secs(60), Duration::from_secs(1));
        let busy = Running::start("while :; do :; done");
        let idle = Running::start("exec sleep 100");
        assert!(busy.is_hung(true, patient).await, "it has a CPU");
        assert!(busy.is_hung(false, patient).await && idle.is_hung(false, patient).await, "a device is waited for");
        assert!(!idle.is_hung(true, short).await, "it has no CPU");
        busy.signal(Signal::STOP);
        std::thread::sleep(Duration::from_millis(50));
        assert!(!busy.is_hung(true, short).await && !busy.is_hung(false, short).await, "it is stopped");
        busy.signal(Signal::CONT);
        assert!(busy.is_hung(false, patient).await);
    }

    #[tokio::test]
    async fn an_answer_in_time_is_taken() {
        let own = OwnTime::of(None, false);
        let started = Instant::now();
        let reply = async {
            tokio::time::sleep(Duration::from_millis(120)).await;
            7
        };
        assert!(matches!(own.limited(Duration::from_secs(60), reply).await, Some(7)));
        assert!(started.elapsed() < Duration::from_secs(60));
    }
}
