//! How far a session is, for people: a bar for each stage on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use bluefin_campaign::carry::Watch;
use bluefin_common::spelled::human;
use bluefin_common::store::Progress;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// Between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Shows [`Progress`] as it changes.
pub struct Display {
    bars: Option<Bars>,
    started: Instant,
    last_line: Instant,
    /// Candidates that earlier runs had done: they do not count towards this run's speed.
    before: Option<u64>,
    jobs_before: u64,
}

struct Bars {
    all: MultiProgress,
    perf: ProgressBar,
    find: ProgressBar,
    summary: ProgressBar,
}

impl Display {
    /// Starts a display.
    pub fn start() -> Self {
        let bars = std::io::stderr().is_terminal().then(Bars::new);
        let started = Instant::now();
        Self { bars, started, last_line: started, before: None, jobs_before: 0 }
    }

    fn summary(&self, counts: &Counts) -> String {
        let seconds = self.started.elapsed().as_secs_f64().max(0.001);
        let rate = counts.candidates.saturating_sub(self.before.unwrap_or(0)) as f64 / seconds;
        let done = counts.done().saturating_sub(self.jobs_before);
        let left = counts.planned().saturating_sub(counts.done());
        let eta = match done {
            0 => "?".to_string(),
            _ => human(Duration::from_secs_f64(seconds * left as f64 / done as f64)),
        };
        format!("{} candidates, {} failed, {rate:.1}/s, {eta} left", counts.candidates, counts.failed)
    }
}

impl Watch for Display {
    fn progress(&mut self, progress: &Progress) {
        let counts = Counts::of(progress);
        if self.before.is_none() {
            self.before = Some(counts.candidates);
            self.jobs_before = counts.done();
        }
        let text = self.summary(&counts);
        if let Some(bars) = &self.bars {
            bars.perf.set_length(counts.perf.1);
            bars.perf.set_position(counts.perf.0);
            // Each group ends with one find job, which is planned when its perf jobs are done.
            bars.find.set_length(counts.find.1.max(progress.groups));
            bars.find.set_position(counts.find.0);
            bars.summary.set_message(text);
        } else if Instant::now().duration_since(self.last_line) >= LINE_EVERY {
            self.last_line = Instant::now();
            eprintln!(
                "perf {}/{}, find {}/{} jobs; {text}",
                counts.perf.0,
                counts.perf.1,
                counts.find.0,
                counts.find.1.max(progress.groups)
            );
        }
    }

    /// Above the bars, or on a line of its own.
    fn say(&mut self, text: &str) {
        match &self.bars {
            Some(bars) => drop(bars.all.println(text)),
            None => eprintln!("{text}"),
        }
    }
}

impl Drop for Display {
    /// Clears the bars.
    fn drop(&mut self) {
        for bar in self.bars.iter().flat_map(|bars| [&bars.perf, &bars.find, &bars.summary]) {
            bar.finish_and_clear();
        }
    }
}

impl Bars {
    fn new() -> Self {
        let all = MultiProgress::new();
        let bar = |name: &'static str| {
            let style = ProgressStyle::with_template("{prefix:>5} [{bar:40}] {pos}/{len} jobs")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            all.add(ProgressBar::new(0)).with_style(style).with_prefix(name)
        };
        let (perf, find) = (bar("perf"), bar("find"));
        let style =
            ProgressStyle::with_template("      {spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
        let summary = all.add(ProgressBar::new_spinner()).with_style(style);
        summary.enable_steady_tick(Duration::from_millis(200));
        Self { all, perf, find, summary }
    }
}

/// The numbers that people look at.
struct Counts {
    /// Done and planned.
    perf: (u64, u64),
    find: (u64, u64),
    candidates: u64,
    failed: u64,
}

impl Counts {
    fn of(progress: &Progress) -> Self {
        let jobs = |stage: &str| {
            let count = |counts: &std::collections::BTreeMap<String, u64>| counts.get(stage).copied().unwrap_or(0);
            (count(&progress.done), count(&progress.planned))
        };
        let candidates: u64 = progress.candidates.values().sum();
        let fine: u64 = ["timed", "pruned"].iter().filter_map(|name| progress.candidates.get(*name)).sum();
        Self { perf: jobs("perf"), find: jobs("find"), candidates, failed: candidates.saturating_sub(fine) }
    }

    fn done(&self) -> u64 {
        self.perf.0 + self.find.0
    }

    fn planned(&self) -> u64 {
        self.perf.1 + self.find.1
    }
}
