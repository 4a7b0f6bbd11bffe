//! What devices waited for between their jobs, as the courses of all jobs tell.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

use serde::Serialize;

use crate::course::{Course, Worked};

/// Where nobody works for so long, what comes then is another run.
const PAUSE_MS: u64 = 30_000;
/// Jobs whose courses are kept; where there are more nothing is told.
const MOST: usize = 500_000;

/// The time of a device, or of several together, in the runs that it had jobs in: from the first job of any device to the end of the
/// last. Milliseconds; they overlap nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Idle {
    /// It had a job.
    pub busy_ms: u64,
    /// Its next job was not compiled, and compilers were at work.
    pub compilers_ms: u64,
    /// Its next job was not there yet, and nothing was compiled: it was to be planned.
    pub plans_ms: u64,
    /// Its next job was ready: its artifacts were fetched, the worker was busy with others.
    pub handover_ms: u64,
    /// All was compiled; play-offs were to come of what other devices had in hand.
    pub others_ms: u64,
    /// Nothing was left to begin: other devices had the last jobs.
    pub tail_ms: u64,
}

impl Idle {
    /// The causes, in words that go behind "for", and the time of each.
    fn causes(&self) -> [(&'static str, u64); 5] {
        let Self { busy_ms: _, compilers_ms, plans_ms, handover_ms, others_ms, tail_ms } = *self;
        [
            ("compilers", compilers_ms),
            ("the next round", plans_ms),
            ("jobs on their way", handover_ms),
            ("results of other devices", others_ms),
            ("the last jobs of other devices", tail_ms),
        ]
    }

    /// All of the time without a job.
    #[must_use]
    pub fn idle_ms(&self) -> u64 {
        self.causes().iter().map(|(_, ms)| ms).sum()
    }

    /// The share of all of its time that it had no job, in percent; 0 of no time.
    #[must_use]
    pub fn percent(&self) -> f64 {
        self.share(self.idle_ms())
    }

    fn share(&self, ms: u64) -> f64 {
        100.0 * ms as f64 / (self.busy_ms + self.idle_ms()).max(1) as f64
    }
}

/// `33 %: 30 % for compilers, 2 % for the last jobs of other devices`; causes of less than 1 % are left out.
impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} %", self.percent())?;
        let mut causes = self.causes();
        causes.sort_by_key(|(_, ms)| std::cmp::Reverse(*ms));
        let told = causes.iter().map(|(name, ms)| (name, self.share(*ms))).filter(|(_, share)| *share >= 1.0);
        told.enumerate().try_for_each(|(at, (name, share))| {
            write!(f, "{} {share:.0} % for {name}", if at == 0 { ":" } else { "," })
        })
    }
}

impl AddAssign for Idle {
    fn add_assign(&mut self, other: Self) {
        self.busy_ms += other.busy_ms;
        self.compilers_ms += other.compilers_ms;
        self.plans_ms += other.plans_ms;
        self.handover_ms += other.handover_ms;
        self.others_ms += other.others_ms;
        self.tail_ms += other.tail_ms;
    }
}

/// From when to when; milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    begun_ms: u64,
    ended_ms: u64,
}

impl Span {
    fn of(worked: &Worked) -> Option<Self> {
        let Worked { begun_ms, ended_ms, .. } = *worked;
        (begun_ms > 0).then(|| Self { begun_ms, ended_ms: ended_ms.max(begun_ms) })
    }

    /// How much of it is in `other`.
    fn within(self, other: Self) -> u64 {
        self.ended_ms.min(other.ended_ms).saturating_sub(self.begun_ms.max(other.begun_ms))
    }
}

/// A job on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    span: Span,
    /// It could have begun then, milliseconds since the Unix epoch.
    ready_ms: u64,
}

/// Courses of jobs, by device.
#[derive(Clone, Debug, Default)]
pub struct Courses {
    compiled: Vec<Span>,
    evaluated: BTreeMap<String, Vec<Job>>,
    count: usize,
}

impl Courses {
    /// A job that `device` had. `None`: it came to none.
    pub fn add(&mut self, device: Option<&str>, course: &Course) {
        self.count += 1;
        if self.count > MOST {
            (self.compiled, self.evaluated) = (Vec::new(), BTreeMap::new());
            return;
        }
        let compiled = course.compiled.as_ref().and_then(Span::of);
        self.compiled.extend(compiled);
        let (Some(device), Some(span)) = (device, course.evaluated.as_ref().and_then(Span::of)) else { return };
        let ready_ms = course.enqueued_ms.max(compiled.map_or(0, |span| span.ended_ms)).min(span.begun_ms);
        let job = Job { span, ready_ms };
        match self.evaluated.get_mut(device) {
            Some(jobs) => jobs.push(job),
            None => drop(self.evaluated.insert(device.to_string(), vec![job])),
        }
    }

    /// Those of both.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        if self.count > MOST {
            (self.compiled, self.evaluated) = (Vec::new(), BTreeMap::new());
            return;
        }
        self.compiled.extend(other.compiled);
        for (device, jobs) in other.evaluated {
            self.evaluated.entry(device).or_default().extend(jobs);
        }
    }

    /// What each device did, by name.
    #[must_use]
    pub fn devices(&self) -> BTreeMap<String, Idle> {
        let mut told = BTreeMap::new();
        for run in self.runs() {
            for (device, idle) in run.devices() {
                *told.entry(device.to_string()).or_insert_with(Idle::default) += idle;
            }
        }
        told
    }

    /// What all devices did together.
    #[must_use]
    pub fn all(&self) -> Idle {
        let mut all = Idle::default();
        self.devices().into_values().for_each(|idle| all += idle);
        all
    }

    /// The runs in which somebody had a device, in order.
    fn runs(&self) -> Vec<Run<'_>> {
        let jobs = self.evaluated.values().flatten().map(|job| job.span);
        let mut spans: Vec<Span> = jobs.chain(self.compiled.iter().copied()).collect();
        spans.sort_unstable();
        let stretches = joined(spans.into_iter(), PAUSE_MS);
        let compiled = {
            let mut compiled = self.compiled.clone();
            compiled.sort_unstable();
            joined(compiled.into_iter(), 0)
        };
        let mut runs: Vec<Run<'_>> = stretches.into_iter().map(Run::new).collect();
        let place =
            |runs: &[Run<'_>], at_ms| runs.partition_point(|run| run.stretch.begun_ms <= at_ms).saturating_sub(1);
        for span in compiled {
            let at = place(&runs, span.begun_ms);
            runs.iter_mut().skip(at).take(1).for_each(|run| run.compiled.push(span));
        }
        for (device, jobs) in &self.evaluated {
            let mut jobs = jobs.clone();
            jobs.sort_unstable();
            for job in jobs {
                let at = place(&runs, job.span.begun_ms);
                runs.iter_mut().skip(at).take(1).for_each(|run| run.jobs.entry(device).or_default().push(job));
            }
        }
        runs.retain(|run| !run.jobs.is_empty());
        runs
    }
}

/// Spans in order, as one where the next begins within `gap_ms`.
fn joined(spans: impl Iterator<Item = Span>, gap_ms: u64) -> Vec<Span> {
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.begun_ms <= last.ended_ms.saturating_add(gap_ms) => {
                last.ended_ms = last.ended_ms.max(span.ended_ms);
            }
            _ => joined.push(span),
        }
    }
    joined
}

/// A stretch of time in which somebody was always at work, but for short pauses.
struct Run<'a> {
    stretch: Span,
    /// When compilers were at work, in order, apart.
    compiled: Vec<Span>,
    /// In order.
    jobs: BTreeMap<&'a str, Vec<Job>>,
}

impl<'a> Run<'a> {
    fn new(stretch: Span) -> Self {
        Self { stretch, compiled: Vec::new(), jobs: BTreeMap::new() }
    }

    fn devices(&self) -> impl Iterator<Item = (&'a str, Idle)> {
        let all = || self.jobs.values().flatten();
        let begun_ms = all().map(|job| job.span.begun_ms).min().unwrap_or(0);
        let ended_ms = all().map(|job| job.span.ended_ms).max().unwrap_or(0);
        let last_ready_ms = all().map(|job| job.ready_ms).max().unwrap_or(0);
        self.jobs.iter().map(move |(device, jobs)| {
            let (mut idle, mut at_ms) = (Idle::default(), begun_ms);
            for Job { span, ready_ms } in jobs {
                let ready_ms = (*ready_ms).clamp(at_ms, span.begun_ms.max(at_ms));
                self.wait(&mut idle, at_ms, ready_ms, last_ready_ms);
                idle.handover_ms += span.begun_ms.saturating_sub(ready_ms);
                // Some have two at a time.
                idle.busy_ms += span.ended_ms.saturating_sub(span.begun_ms.max(at_ms));
                at_ms = at_ms.max(span.ended_ms);
            }
            self.wait(&mut idle, at_ms, ended_ms, last_ready_ms);
            (*device, idle)
        })
    }

    /// A device had nothing ready from `from_ms` to `to_ms`.
    fn wait(&self, idle: &mut Idle, from_ms: u64, to_ms: u64, last_ready_ms: u64) {
        let until = to_ms.min(last_ready_ms).max(from_ms);
        idle.tail_ms += to_ms.saturating_sub(until);
        let gap = Span { begun_ms: from_ms, ended_ms: until };
        let first = self.compiled.partition_point(|span| span.ended_ms <= from_ms);
        let near = self.compiled.iter().skip(first).take_while(|span| span.begun_ms < until);
        let compilers_ms: u64 = near.map(|span| gap.within(*span)).sum();
        let last_compiled_ms = self.compiled.last().map_or(0, |span| span.ended_ms);
        let others_ms = until.saturating_sub(from_ms.max(last_compiled_ms));
        idle.compilers_ms += compilers_ms;
        idle.others_ms += others_ms;
        idle.plans_ms += (until - from_ms).saturating_sub(compilers_ms + others_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An hour into the epoch, and so many milliseconds.
    fn at(ms: u64) -> u64 {
        3_600_000 + ms
    }

    fn worked(begun_ms: u64, ended_ms: u64) -> Option<Worked> {
        Some(Worked { worker: "w".to_string(), begun_ms: at(begun_ms), ended_ms: at(ended_ms) })
    }

    fn course(enqueued_ms: u64, compiled: Option<(u64, u64)>, evaluated: Option<(u64, u64)>) -> Course {
        let of = |span: Option<(u64, u64)>| span.and_then(|(begun, ended)| worked(begun, ended));
        Course { enqueued_ms: at(enqueued_ms), recompiles: 0, compiled: of(compiled), evaluated: of(evaluated) }
    }

    #[test]
    fn each_cause_has_its_time() {
        let mut courses = Courses::default();
        // Compiled at once, on the device at 1000.
        courses.add(Some("a"), &course(0, Some((0, 1000)), Some((1000, 2000))));
        // Compiled until 2500; the device has it at 2600.
        courses.add(Some("a"), &course(0, Some((1000, 2500)), Some((2600, 3000))));
        // Planned at 3300, since 3400 compiled.
        courses.add(Some("a"), &course(3300, Some((3400, 3500)), Some((3500, 4000))));
        // b has a long job that nothing else waits for but a play-off, which a has, and the last one.
        courses.add(Some("b"), &course(0, None, Some((1000, 4500))));
        courses.add(Some("a"), &course(4500, None, Some((4500, 5000))));
        courses.add(Some("b"), &course(4500, None, Some((4500, 7000))));
        // Nothing that fails to be compiled gets anywhere.
        courses.add(None, &course(0, Some((0, 200)), None));
        let told = courses.devices();
        let expected = Idle {
            busy_ms: 1000 + 400 + 500 + 500,
            compilers_ms: 500 + 100,
            plans_ms: 400,
            handover_ms: 100,
            others_ms: 500,
            tail_ms: 2000,
        };
        assert_eq!(told["a"], expected);
        assert_eq!(told["b"], Idle { busy_ms: 6000, ..Idle::default() });
        assert_eq!(expected.busy_ms + expected.idle_ms(), 6000);
        let words = "60 %: 33 % for the last jobs of other devices, 10 % for compilers, 8 % for results of other devices, \
                     7 % for the next round, 2 % for jobs on their way";
        assert_eq!(expected.to_string(), words);
    }

    #[test]
    fn a_night_between_two_runs_is_nobodys_time() {
        let mut courses = Courses::default();
        courses.add(Some("a"), &course(0, None, Some((0, 1000))));
        courses.add(Some("b"), &course(0, None, Some((0, 500))));
        let night = 8 * 3_600_000;
        let mut later = Courses::default();
        later.add(Some("a"), &course(0, None, Some((night, night + 1000))));
        courses.merge(later);
        assert_eq!(courses.devices()["a"], Idle { busy_ms: 2000, ..Idle::default() });
        assert_eq!(courses.devices()["b"], Idle { busy_ms: 500, tail_ms: 500, ..Idle::default() });
        assert_eq!(courses.all(), Idle { busy_ms: 2500, tail_ms: 500, ..Idle::default() });
    }

    #[test]
    fn jobs_side_by_side_count_once() {
        let mut courses = Courses::default();
        courses.add(Some("a"), &course(0, None, Some((0, 1000))));
        courses.add(Some("a"), &course(0, None, Some((500, 1500))));
        courses.add(Some("a"), &course(0, None, Some((600, 700))));
        assert_eq!(courses.all(), Idle { busy_ms: 1500, ..Idle::default() });
        assert_eq!(Courses::default().all().to_string(), "0 %");
    }

    #[test]
    fn more_jobs_than_are_kept_tell_nothing() {
        let mut courses = Courses { count: MOST, ..Courses::default() };
        courses.add(Some("a"), &course(0, None, Some((0, 1000))));
        assert_eq!(courses.devices(), BTreeMap::new());
    }
}
