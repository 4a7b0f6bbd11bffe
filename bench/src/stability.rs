//! Whether tuning comes to the same when it is repeated: on the machine as it is, beside busy loops, and on each of several devices.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bluefin_common::session::SessionName;
use bluefin_eval_worker::timing::{Limits, median};
use bluefin_terminal::{out, width};
use serde::Serialize;

use super::device::{Bench, Tuned};
use super::subjects::{self, Most, Subject};

/// Play-offs of the judge, whose median counts.
const JUDGED: usize = 3;
/// What each candidate of them may take, in milliseconds.
const JUDGE_MS: f64 = 1000.0;

#[derive(clap::Args)]
pub struct StabilityArgs {
    /// Devices to measure on, each for itself
    #[arg(long, value_name = "DEVICE,...", value_delimiter = ',', default_value = "host")]
    device: Vec<String>,
    /// State file with compiled jobs, of `bluefin tune --stage compile` [default: some are compiled for the host now]
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Session in the state file [default: the last that was made]
    #[arg(long, value_name = "NAME", requires = "state")]
    session: Option<SessionName>,
    /// Times that each problem is tuned, in each condition
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=1000))]
    repeats: u32,
    /// Busy loops beside which all is repeated; 0: none
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1024))]
    busy: u16,
    /// Problems to measure at most
    #[arg(long, value_name = "N")]
    problems: Option<usize>,
    /// Candidates of each problem at most
    #[arg(long, value_name = "N")]
    candidates: Option<usize>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// What came of tuning one problem several times in one condition.
#[derive(Serialize)]
struct Repeated {
    device: String,
    busy_loops: u16,
    problem: String,
    /// Times that it was tuned and had a winner.
    runs: usize,
    /// Different winners.
    winners: usize,
    /// Runs with another winner than the run before.
    changes: usize,
    /// Runs that say that their time is in doubt.
    noisy: usize,
    /// How much longer a winner takes than the best that the judge knows, as a share: mean of the runs, and the worst.
    mean_regret: f64,
    worst_regret: f64,
}

/// A device, the busy loops beside it, and what each run came to for each subject.
struct Condition {
    device: usize,
    busy_loops: u16,
    runs: Vec<Vec<Option<Tuned>>>,
}

impl StabilityArgs {
    pub(super) async fn run(&self) -> anyhow::Result<()> {
        let most = Most { problems: self.problems, candidates: self.candidates };
        let mut subjects = subjects::chosen(self.state.as_deref(), self.session.as_ref(), most).await?;
        let mut benches = Vec::new();
        for device in &self.device {
            benches.push(Bench::start(device).await?);
        }
        if let Some(bench) = benches.first() {
            let translators = bench.translators();
            for subject in &mut subjects {
                subject.translate(translators.as_deref()).await;
            }
        }
        let mut conditions = Vec::new();
        for device in 0..benches.len() {
            for busy_loops in BTreeSet::from([0, self.busy]) {
                conditions.push(Condition { device, busy_loops, runs: Vec::new() });
            }
        }
        // Conditions take turns, so that what the machine does otherwise hits all alike.
        for run in 1..=self.repeats {
            for condition in &mut conditions {
                let Some(bench) = benches.get_mut(condition.device) else { continue };
                eprintln!("run {run} of {}: {}", self.repeats, self.named(condition));
                let _load = Load::start(condition.busy_loops);
                let mut tuned = Vec::new();
                for subject in &subjects {
                    tuned.push(bench.tune(subject).await?);
                }
                condition.runs.push(tuned);
            }
        }
        let mut all = Vec::new();
        for (index, subject) in subjects.iter().enumerate() {
            eprintln!("judging {} of {}: {}", index + 1, subjects.len(), subject.job.problem);
            for (device, bench) in benches.iter_mut().enumerate() {
                let of_subject = |condition: &Condition| -> Vec<usize> {
                    let tuned = condition.runs.iter().filter_map(|run| run.get(index)?.as_ref());
                    tuned.flat_map(|tuned| tuned.finalists.iter().copied().chain([tuned.winner])).collect()
                };
                // Those of other devices too: what won there may be the best here.
                let places: BTreeSet<usize> = conditions.iter().flat_map(of_subject).collect();
                let times = judge(bench, subject, &places.into_iter().collect::<Vec<_>>()).await?;
                for condition in conditions.iter().filter(|condition| condition.device == device) {
                    all.push(self.repeated(condition, subject, index, &times));
                }
            }
        }
        if self.json { out::json(&all) } else { print(&all) }
    }

    fn named(&self, condition: &Condition) -> String {
        let device = self.device.get(condition.device).map_or("", String::as_str);
        match condition.busy_loops {
            0 => device.to_string(),
            1 => format!("{device} beside a busy loop"),
            loops => format!("{device} beside {loops} busy loops"),
        }
    }

    /// What the runs of `condition` came to for the subject at `index`, by the judge's `times` in milliseconds.
    fn repeated(&self, condition: &Condition, subject: &Subject, index: usize, times: &[(usize, f64)]) -> Repeated {
        let tuned: Vec<&Tuned> = condition.runs.iter().filter_map(|run| run.get(index)?.as_ref()).collect();
        let winners: Vec<usize> = tuned.iter().map(|tuned| tuned.winner).collect();
        let best = times.iter().map(|(_, ms)| *ms).fold(f64::INFINITY, f64::min);
        let of = |winner: &usize| Some(times.iter().find(|(place, _)| place == winner)?.1 / best - 1.0);
        let regrets: Vec<f64> = winners.iter().filter_map(of).collect();
        Repeated {
            device: self.device.get(condition.device).cloned().unwrap_or_default(),
            busy_loops: condition.busy_loops,
            problem: subject.job.problem.label(),
            runs: winners.len(),
            winners: winners.iter().collect::<BTreeSet<_>>().len(),
            changes: winners.iter().zip(winners.iter().skip(1)).filter(|(before, now)| before != now).count(),
            noisy: tuned.iter().filter(|tuned| tuned.is_noisy).count(),
            mean_regret: regrets.iter().sum::<f64>() / regrets.len().max(1) as f64,
            worst_regret: regrets.iter().copied().fold(0.0, f64::max),
        }
    }
}

/// The time in milliseconds of each of the candidates at `places` that has one: the median of some long play-offs.
async fn judge(bench: &mut Bench, subject: &Subject, places: &[usize]) -> anyhow::Result<Vec<(usize, f64)>> {
    let limits = Limits { sample_budget_ms: JUDGE_MS, ..Limits::default() };
    let mut times = vec![Vec::new(); places.len()];
    for _ in 0..JUDGED {
        let judged = bench.play_off(subject, places, &limits).await?;
        times.iter_mut().zip(judged).for_each(|(times, time)| times.extend(time));
    }
    let timed = places.iter().copied().zip(times).filter(|(_, times)| !times.is_empty());
    Ok(timed.map(|(place, times)| (place, median(&times))).collect())
}

/// A row for each problem and condition, then one for all problems of each condition.
fn print(all: &[Repeated]) -> anyhow::Result<()> {
    let mut table = width::table();
    table.set_header(["problem", "device", "busy", "winners", "changes", "noisy", "regret", "worst"]);
    let row = |name: &str, of: &Repeated| {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        [
            name.to_string(),
            of.device.clone(),
            of.busy_loops.to_string(),
            format!("{} in {}", of.winners, of.runs),
            of.changes.to_string(),
            of.noisy.to_string(),
            percent(of.mean_regret),
            percent(of.worst_regret),
        ]
    };
    for one in all {
        table.add_row(row(&one.problem, one));
    }
    let conditions: BTreeSet<(&str, u16)> = all.iter().map(|one| (one.device.as_str(), one.busy_loops)).collect();
    for (device, busy_loops) in conditions {
        let of: Vec<&Repeated> =
            all.iter().filter(|one| (one.device.as_str(), one.busy_loops) == (device, busy_loops)).collect();
        let sum = |count: fn(&Repeated) -> usize| of.iter().map(|one| count(one)).sum();
        let together = Repeated {
            device: device.to_string(),
            busy_loops,
            problem: String::new(),
            runs: sum(|one| one.runs),
            winners: sum(|one| one.winners),
            changes: sum(|one| one.changes),
            noisy: sum(|one| one.noisy),
            mean_regret: of.iter().map(|one| one.mean_regret).sum::<f64>() / of.len().max(1) as f64,
            worst_regret: of.iter().map(|one| one.worst_regret).fold(0.0, f64::max),
        };
        table.add_row(row("all", &together));
    }
    Ok(out::line(table)?)
}

/// Threads that do nothing but run, until it is dropped.
struct Load(Arc<AtomicBool>);

impl Load {
    fn start(loops: u16) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..loops {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                let mut state = 1_u64;
                while !stop.load(Ordering::Relaxed) {
                    // Not a pause, which would leave the core to others.
                    (0..1000).for_each(|_| state = black_box(state.wrapping_mul(3).wrapping_add(1)));
                }
            });
        }
        Self(stop)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
