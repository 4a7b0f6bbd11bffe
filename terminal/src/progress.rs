//! How far a session is, for people: a bar and a line on a terminal, a line now and then elsewhere.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crate::estimate::Estimate;
use crate::{bar, width};
use bluefin_campaign::carry::{UnderWay, Watch};
use bluefin_common::decision::FINALISTS;
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
    /// Candidates of each solver that a search tries at most; what is planned, where nobody searches.
    budget: Option<u64>,
    /// Candidates that are tried at most.
    work: u64,
    /// It ends by then.
    time: Option<Duration>,
    /// They are compiled here, and timed elsewhere.
    only_compiles: bool,
    session: Option<Shown>,
    asked: Option<ProgressBar>,
    /// Of rows that other programs launch.
    turns: Option<ProgressBar>,
    /// When a line was said of them, where there is no bar.
    told: Option<Instant>,
    /// What each step of a whole campaign did.
    pub report: Map<String, Value>,
}

/// A session, as it is shown.
struct Shown {
    bars: Option<Bars>,
    started: Instant,
    last_line: Instant,
    estimate: Estimate,
}

/// A bar for what is done, and two lines below it.
struct Bars {
    all: MultiProgress,
    problems: ProgressBar,
    summary: ProgressBar,
    phase: ProgressBar,
}

impl<'a> Display<'a> {
    /// Says `planned` of a plan.
    pub fn new(planned: impl FnMut(&Plan) + Send + 'a) -> Self {
        Self {
            planned: Box::new(planned),
            budget: None,
            work: 0,
            time: None,
            only_compiles: false,
            session: None,
            asked: None,
            turns: None,
            told: None,
            report: Map::new(),
        }
    }

    /// The same of a campaign that is compiled here, and timed elsewhere.
    #[must_use]
    pub fn that_only_compiles(mut self) -> Self {
        self.only_compiles = true;
        self
    }

    /// The same of a campaign that ends after some time.
    #[must_use]
    pub fn that_ends_after(mut self, time: Option<Duration>) -> Self {
        self.time = time;
        self
    }

    /// The same of searches that try at most so many candidates of each solver.
    #[must_use]
    pub fn with_budget(mut self, candidates: u64) -> Self {
        self.budget = Some(candidates);
        self
    }
}

impl Shown {
    fn start() -> Self {
        let bars = std::io::stderr().is_terminal().then(Bars::new);
        let started = Instant::now();
        Self { bars, started, last_line: started, estimate: Estimate::default() }
    }

    fn show(&mut self, counts: &Counts, under_way: Option<&UnderWay>, (work, time): (u64, Option<Duration>)) {
        let left = self.estimate.left(counts.share(work), Instant::now());
        let most = time.map(|time| time.saturating_sub(self.started.elapsed()));
        let left = left.into_iter().chain(most).min();
        let (text, phase) = (summary(counts, under_way, self.started.elapsed(), left), phase(counts, under_way));
        if let Some(bars) = &self.bars {
            bars.problems.set_length(counts.problems.1);
            bars.problems.set_position(counts.problems.0);
            bars.summary.set_message(text);
            bars.phase.set_message(phase);
        } else if self.last_line.elapsed() >= LINE_EVERY {
            self.last_line = Instant::now();
            crate::say!("{} of {}; {text}; {phase}", counts.problems.0, counted(counts.problems.1, "problem"));
        }
    }
}

/// How long it goes on, and what is done of the candidates.
fn summary(counts: &Counts, under_way: Option<&UnderWay>, elapsed: Duration, left: Option<Duration>) -> String {
    let mut text = human(elapsed);
    if let Some(left) = left {
        text.push_str(&format!(", about {} left", human(left)));
    }
    if let Some(compiled) = under_way.map(|under_way| under_way.compiled).filter(|compiled| *compiled > 0) {
        text.push_str(&format!("; {compiled} compiled"));
    }
    if counts.compiled.is_none() {
        text.push_str(&format!("; {} timed", counts.timed));
    }
    if counts.failed > 0 {
        text.push_str(&format!(", {} failed", counts.failed));
    }
    text
}

/// On what work goes on.
fn phase(counts: &Counts, under_way: Option<&UnderWay>) -> String {
    match under_way {
        Some(UnderWay { tuning, .. }) => match tuning.as_slice() {
            [] if counts.compiled.is_some() => "compiling; times are taken where the device is".to_string(),
            [] if counts.timed + counts.failed == 0 => "compiling the first candidates".to_string(),
            [] => "compiling".to_string(),
            [one, others @ ..] => {
                let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
                let doing = if counts.only_finals { "timing the best side by side" } else { "timing" };
                format!("{doing}: {one}{more}")
            }
        },
        None => "the fleet's workers are at it".to_string(),
    }
}

impl Watch for Display<'_> {
    fn planned(&mut self, plan: &Plan) {
        (self.planned)(plan);
        let space = plan.space.as_ref();
        self.work = space.map_or(0, |space| self.budget.map_or(space.candidates, |budget| space.at_most(budget)));
    }

    fn progress(&mut self, progress: &Progress, under_way: Option<&UnderWay>) {
        let compiled = under_way.filter(|_| self.only_compiles).map(|under_way| under_way.compiled);
        let counts = Counts { compiled, ..Counts::of(progress) };
        self.session.get_or_insert_with(Shown::start).show(&counts, under_way, (self.work, self.time));
    }

    /// Above the bars, or on a line of its own.
    fn say(&mut self, text: &str) {
        match self.session.as_ref().and_then(|shown| shown.bars.as_ref()) {
            Some(bars) => drop(bars.all.println(width::prose(text, width::of_stderr()))),
            None => crate::say!("{text}"),
        }
    }

    /// Clears the bars.
    fn finish(&mut self) {
        let bars = self.session.take().and_then(|shown| shown.bars);
        let bars = bars.into_iter().flat_map(|bars| [bars.problems, bars.summary, bars.phase]);
        for bar in bars.chain(self.turns.take()) {
            bar.finish_and_clear();
        }
    }

    fn step(&mut self, name: &'static str, text: &str, report: Value) {
        crate::say!("{name}: {text}");
        self.report.insert(name.to_string(), report);
    }

    fn in_turn(&mut self, done: u64, all: u64, what: &str) {
        if std::io::stderr().is_terminal() {
            let bar = self.turns.get_or_insert_with(|| bar::of_turns(all));
            bar.set_position(done);
            bar.set_message(what.to_string());
        } else if self.told.is_none_or(|told| told.elapsed() >= LINE_EVERY) {
            self.told = Some(Instant::now());
            crate::say!("{done} of {}; {what}", counted(all, "turn"));
        }
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
        let style = ProgressStyle::with_template("[{bar:40}] problems done: {pos} of {len}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let problems = all.add(ProgressBar::new(0)).with_style(style);
        let style =
            ProgressStyle::with_template("{spinner} {wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
        let summary = all.add(ProgressBar::new_spinner()).with_style(style);
        summary.enable_steady_tick(Duration::from_millis(200));
        let style = ProgressStyle::with_template("  {wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
        let phase = all.add(ProgressBar::new_spinner()).with_style(style);
        Self { all, problems, summary, phase }
    }
}

/// The numbers that people look at.
struct Counts {
    /// Problems with each of their specs: done, and all.
    problems: (u64, u64),
    timed: u64,
    failed: u64,
    /// Candidates with an outcome, but those of play-offs, which are tried again.
    tried: u64,
    /// Candidates that are compiled, where that is all that is done.
    compiled: Option<u64>,
    /// Only play-offs are left of what is planned.
    only_finals: bool,
}

impl Counts {
    fn of(progress: &Progress) -> Self {
        let count = |name: &str| progress.candidates.get(name).copied().unwrap_or(0);
        let candidates: u64 = progress.candidates.values().sum();
        let timed = count("timed") + count("pruned");
        let jobs = |counts: &BTreeMap<String, u64>, stage: &str| counts.get(stage).copied().unwrap_or(0);
        Self {
            problems: (progress.groups.saturating_sub(progress.unsettled_groups), progress.groups),
            timed,
            failed: candidates.saturating_sub(timed),
            tried: candidates.saturating_sub(jobs(&progress.done, "find").saturating_mul(FINALISTS as u64)),
            compiled: None,
            only_finals: progress.planned.contains_key("find")
                && jobs(&progress.done, "perf") == jobs(&progress.planned, "perf"),
        }
    }

    /// Of all that may come, from 0 to 1: `work` candidates, or what problems there are.
    fn share(&self, work: u64) -> f64 {
        let share = |done: u64, all: u64| if all == 0 { 0.0 } else { done as f64 / all as f64 };
        if let Some(compiled) = self.compiled {
            return share(compiled, work).min(1.0);
        }
        share(self.tried, work).max(share(self.problems.0, self.problems.1)).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts() -> Counts {
        let candidates = [("timed".to_string(), 30), ("pruned".to_string(), 2), ("fault".to_string(), 4)].into();
        let stage = |perf, find| [("perf".to_string(), perf), ("find".to_string(), find)].into();
        let (planned, done) = (stage(12, 1), stage(7, 1));
        Counts::of(&Progress { planned, done, candidates, groups: 4, unsettled_groups: 3, ..Progress::default() })
    }

    #[test]
    fn it_says_what_is_tuned_for_how_long_and_how_much_is_left() {
        let under_way = UnderWay { compiled: 57, tuning: vec!["conv F 3x8x8".to_string()] };
        let said = summary(&counts(), Some(&under_way), Duration::from_secs(65), Some(Duration::from_secs(30)));
        assert_eq!(said, "1m 05s, about 30s left; 57 compiled; 32 timed, 4 failed");
        assert_eq!(phase(&counts(), Some(&under_way)), "timing: conv F 3x8x8");
        let nothing = Counts::of(&Progress::default());
        let compiling = UnderWay { compiled: 3, tuning: Vec::new() };
        let said = summary(&nothing, Some(&compiling), Duration::from_secs(2), None);
        assert_eq!(said, "2s; 3 compiled; 0 timed");
        assert_eq!(phase(&nothing, Some(&compiling)), "compiling the first candidates");
    }

    #[test]
    fn where_all_is_compiled_and_nothing_timed_that_is_what_counts() {
        let (counts, under_way) =
            (Counts { compiled: Some(18), ..counts() }, UnderWay { compiled: 18, tuning: vec![] });
        assert!((counts.share(72) - 0.25).abs() < 1e-9);
        let said = summary(&counts, Some(&under_way), Duration::from_secs(4), None);
        assert_eq!(said, "4s; 18 compiled, 4 failed");
        assert_eq!(phase(&counts, Some(&under_way)), "compiling; times are taken where the device is");
    }

    #[test]
    fn the_share_is_of_all_that_may_be_tried() {
        assert!((counts().share(56) - 0.5).abs() < 1e-9);
        assert!((counts().share(0) - 0.25).abs() < 1e-9, "without a space, of the problems");
    }
}
