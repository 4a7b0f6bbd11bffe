//! How far a session is, for people: a bar for each stage on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crate::bar;
use bluefin_campaign::carry::Watch;
use bluefin_common::spelled::{counted, human};
use bluefin_common::store::Progress;
use bluefin_producer::plan::Plan;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::{Map, Value};

/// Between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Tells people of a campaign on standard error.
pub struct Display<'a> {
    /// What is said of a plan.
    planned: Box<dyn FnMut(&Plan) + Send + 'a>,
    session: Option<Shown>,
    asked: Option<ProgressBar>,
    /// What each step of a whole campaign did.
    pub report: Map<String, Value>,
}

/// A session, as it is shown.
struct Shown {
    bars: Option<Bars>,
    started: Instant,
    last_line: Instant,
    /// Candidates that earlier runs had done: they do not count towards this run's speed.
    candidates_before: u64,
    jobs_before: u64,
}

struct Bars {
    all: MultiProgress,
    perf: ProgressBar,
    find: ProgressBar,
    summary: ProgressBar,
}

impl<'a> Display<'a> {
    /// Says `planned` of a plan.
    pub fn new(planned: impl FnMut(&Plan) + Send + 'a) -> Self {
        Self { planned: Box::new(planned), session: None, asked: None, report: Map::new() }
    }
}

impl Shown {
    /// From where it is now.
    fn start(counts: &Counts) -> Self {
        let bars = std::io::stderr().is_terminal().then(Bars::new);
        let started = Instant::now();
        let (candidates_before, jobs_before) = (counts.candidates, counts.done());
        Self { bars, started, last_line: started, candidates_before, jobs_before }
    }

    fn show(&mut self, counts: &Counts) {
        let text = self.summary(counts);
        if let Some(bars) = &self.bars {
            bars.perf.set_length(counts.perf.1);
            bars.perf.set_position(counts.perf.0);
            bars.find.set_length(counts.find.1);
            bars.find.set_position(counts.find.0);
            bars.summary.set_message(text);
        } else if self.last_line.elapsed() >= LINE_EVERY {
            self.last_line = Instant::now();
            let Counts { perf, find, .. } = counts;
            eprintln!("perf {}/{}, find {}/{} jobs; {text}", perf.0, perf.1, find.0, find.1);
        }
    }

    fn summary(&self, counts: &Counts) -> String {
        let seconds = self.started.elapsed().as_secs_f64().max(0.001);
        let rate = counts.candidates.saturating_sub(self.candidates_before) as f64 / seconds;
        let done = counts.done().saturating_sub(self.jobs_before);
        let left = counts.planned.saturating_sub(counts.done());
        let eta = match done {
            0 => "?".to_string(),
            _ => human(Duration::from_secs_f64(seconds * left as f64 / done as f64)),
        };
        format!("{}, {} failed, {rate:.1}/s, {eta} left", counted(counts.candidates, "candidate"), counts.failed)
    }
}

impl Watch for Display<'_> {
    fn planned(&mut self, plan: &Plan) {
        (self.planned)(plan);
    }

    fn progress(&mut self, progress: &Progress) {
        let counts = Counts::of(progress);
        self.session.get_or_insert_with(|| Shown::start(&counts)).show(&counts);
    }

    /// Above the bars, or on a line of its own.
    fn say(&mut self, text: &str) {
        match self.session.as_ref().and_then(|shown| shown.bars.as_ref()) {
            Some(bars) => drop(bars.all.println(text)),
            None => eprintln!("{text}"),
        }
    }

    /// Clears the bars.
    fn finish(&mut self) {
        let bars = self.session.take().and_then(|shown| shown.bars);
        for bar in bars.into_iter().flat_map(|bars| [bars.perf, bars.find, bars.summary]) {
            bar.finish_and_clear();
        }
    }

    fn step(&mut self, name: &'static str, text: &str, report: Value) {
        eprintln!("{name}: {text}");
        self.report.insert(name.to_string(), report);
    }

    fn asked(&mut self, done: u64, all: u64) {
        let bar = self.asked.get_or_insert_with(|| bar::up_to(all, "problems"));
        bar.set_position(done);
        if done >= all
            && let Some(bar) = self.asked.take()
        {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Display<'_> {
    fn drop(&mut self) {
        self.finish();
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
    planned: u64,
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
        let (perf, find) = (jobs("perf"), jobs("find"));
        // Each group ends with one find job, which is planned when its perf jobs are done.
        let with_follow_ups = (find.0, find.1.max(progress.groups));
        let failed = candidates.saturating_sub(fine);
        Self { perf, find: with_follow_ups, planned: perf.1 + find.1, candidates, failed }
    }

    fn done(&self) -> u64 {
        self.perf.0 + self.find.0
    }
}
