//! What else a CPU does while kernels are timed on it.

use std::collections::VecDeque;
use std::fs;

use bluefin_common::outcome::Disturbance;

/// Runs of a piece of work of which the fastest counts.
const RUNS: usize = 3;
/// Readings that are remembered: some minutes of jobs.
const READINGS: usize = 256;

/// Reads what the kernel counts, from one reading to the next.
#[derive(Default)]
pub(super) struct Meter {
    last: Option<Counts>,
    core: Pace,
    memory: Pace,
}

/// What one piece of work took, in milliseconds, the latest last.
#[derive(Default)]
struct Pace(VecDeque<f64>);

/// Since the start of the thread, or of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Nanoseconds that this thread had a CPU, and that it was ready to have one.
    ran: u64,
    waited: u64,
    /// Ticks that a hypervisor gave to other machines, and all ticks.
    stolen: u64,
    ticks: u64,
}

impl Meter {
    /// What happened since the last reading, if there was one. Each of `core` and `memory` does a fixed piece of work and says how long
    /// it took in milliseconds: other work slows one of both and not the other.
    pub(super) fn read(
        &mut self,
        core: impl FnMut() -> Option<f64>,
        memory: impl FnMut() -> Option<f64>,
    ) -> Option<Disturbance> {
        let now = counts()?;
        let slowdown = self.core.slowdown(core).max(self.memory.slowdown(memory));
        let last = self.last.replace(now)?;
        Some(last.until(now, slowdown))
    }
}

impl Pace {
    /// How many times as long as usual `work` takes now. Usual is the lower quartile of what it took, and not the least: a processor
    /// runs faster for the first seconds than it can for long, and all that follows would count as slow.
    fn slowdown(&mut self, work: impl FnMut() -> Option<f64>) -> f64 {
        let fastest = std::iter::repeat_with(work).take(RUNS).flatten().fold(f64::INFINITY, f64::min);
        if !fastest.is_finite() {
            return 1.0;
        }
        if self.0.len() == READINGS {
            self.0.pop_front();
        }
        self.0.push_back(fastest);
        let mut sorted: Vec<f64> = self.0.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        sorted.get((sorted.len() - 1) / 4).map_or(1.0, |usual| (fastest / usual).max(1.0))
    }
}

impl Counts {
    fn until(self, now: Self, slowdown: f64) -> Disturbance {
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { (part as f64 / whole as f64) as f32 };
        let (ran, waited) = (now.ran.saturating_sub(self.ran), now.waited.saturating_sub(self.waited));
        Disturbance {
            waiting: share(waited, ran.saturating_add(waited)),
            stolen: share(now.stolen.saturating_sub(self.stolen), now.ticks.saturating_sub(self.ticks)),
            slowdown: slowdown as f32,
        }
    }
}

/// `None` where the kernel does not count.
fn counts() -> Option<Counts> {
    let thread = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut thread = thread.split_ascii_whitespace().map(str::parse);
    let (ran, waited) = (thread.next()?.ok()?, thread.next()?.ok()?);
    let (stolen, ticks) = fs::read_to_string("/proc/stat").ok().and_then(|stat| machine(&stat)).unwrap_or_default();
    Some(Counts { ran, waited, stolen, ticks })
}

/// Stolen ticks and all ticks by the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal; guests are part of
/// the first two (proc_stat(5)).
fn machine(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_ascii_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    Some((*ticks.get(7)?, ticks.iter().sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_was_counted_between() {
        assert_eq!(machine("cpu  10 20 30 400 0 0 5 35 7 0\ncpu0 1 2 3\n"), Some((35, 500)));
        assert_eq!(machine("cpu  10 20\n"), None);
        let then = Counts { ran: 100, waited: 50, stolen: 35, ticks: 500 };
        let now = Counts { ran: 400, waited: 150, stolen: 45, ticks: 600 };
        assert_eq!(then.until(now, 1.5), Disturbance { waiting: 0.25, stolen: 0.1, slowdown: 1.5 });
        assert_eq!(then.until(then, 1.0), Disturbance { waiting: 0.0, stolen: 0.0, slowdown: 1.0 });
    }

    #[test]
    fn a_piece_of_work_that_takes_longer_is_a_slowdown_from_the_second_reading_on() {
        let mut meter = Meter::default();
        assert_eq!(meter.read(|| Some(2.0), || None), None);
        let slowdown = |meter: &mut Meter, core, memory| meter.read(|| Some(core), || Some(memory)).unwrap().slowdown;
        assert_eq!(slowdown(&mut meter, 3.0, 8.0), 1.5);
        assert_eq!(slowdown(&mut meter, 1.0, 8.0), 1.0);
        assert_eq!(slowdown(&mut meter, 2.0, 8.0), 2.0);
        assert_eq!(slowdown(&mut meter, 1.0, 12.0), 1.5);
    }

    #[test]
    fn a_fast_start_does_not_make_the_rest_slow() {
        let mut meter = Meter::default();
        let mut slow = |ms, times| {
            (0..times).filter(|_| meter.read(|| Some(ms), || None).is_some_and(|one| one.slowdown > 1.1)).count()
        };
        assert_eq!(slow(1.0, 10), 0);
        // Seen as slow until there are three times as many.
        assert_eq!(slow(1.2, 300), 30);
        assert_eq!(slow(1.5, 20), 20);
        // What lasts is how fast the device is now.
        assert_eq!(slow(1.5, 1000), READINGS - 20 - READINGS / 4);
    }
}
