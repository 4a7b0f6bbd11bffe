//! What the timing protocol is worth on a device: whether equal kernels tie, whether medians repeat, whether it finds what
//! an exhaustive run with Triton's rule finds, at what cost, and how busy it keeps the device.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use bluefin_common::session::SessionName;
use bluefin_eval_worker::timing::{Cache, Estimator, Limits, Rule, median};

use super::Figure;
use super::device::{Bench, Tuned};
use super::subjects::{self, Most, Subject};

/// Times that each way to keep the cache cold is tried on a winner.
const COOLED: usize = 5;
/// Processes whose medians are compared.
const PROCESSES: usize = 5;
/// Problems whose medians are compared.
const REPEATED: usize = 8;
/// How far a winner may be from the best.
const CLOSE: f64 = 0.01;

#[derive(clap::Args)]
pub struct TimingArgs {
    /// Device to measure on
    #[arg(long, default_value = "host")]
    device: String,
    /// State file with compiled jobs, of `bluefin tune --stage compile` [default: some are compiled for the host now]
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Session in the state file [default: the last that was made]
    #[arg(long, value_name = "NAME", requires = "state")]
    session: Option<SessionName>,
    /// Times that a kernel is measured against itself
    #[arg(long, value_name = "N", default_value_t = 200)]
    trials: usize,
    /// Problems to measure at most
    #[arg(long, value_name = "N")]
    problems: Option<usize>,
    /// Candidates of each problem at most
    #[arg(long, value_name = "N")]
    candidates: Option<usize>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

impl TimingArgs {
    pub(super) async fn run(&self) -> anyhow::Result<Vec<Figure>> {
        let most = Most { problems: self.problems, candidates: self.candidates };
        let mut subjects = subjects::chosen(self.state.as_deref(), self.session.as_ref(), most).await?;
        let mut bench = Bench::start(&self.device).await?;

        let (tuned, mut figures) = tune(&mut bench, &mut subjects).await?;
        figures.extend(exhaust(&mut bench, &subjects, &tuned).await?);
        figures.extend(ties(&mut bench, &subjects, &tuned, self.trials).await?);
        figures.extend(repeats(&self.device, &subjects, &tuned).await?);
        if self.device == "host" {
            figures.extend(coolings(&mut bench, &subjects, &tuned).await?);
        }
        Ok(figures)
    }
}

/// Tunes all subjects as an eval worker does that never waits for jobs: what a subject needs is translated while the one
/// before is on the device. Says where the time went.
async fn tune(bench: &mut Bench, subjects: &mut [Subject]) -> anyhow::Result<(Vec<Option<Tuned>>, Vec<Figure>)> {
    let translators = bench.translators();
    let count = subjects.len();
    let mut rest = subjects.iter_mut().enumerate();
    let mut next = rest.next();
    if let Some((_, first)) = &mut next {
        first.translate(translators.as_deref()).await;
    }
    let before = bench.spent();
    let started = std::time::Instant::now();
    let mut tuned = Vec::new();
    while let Some((index, subject)) = next {
        eprintln!("tuning {} of {count}: {}", index + 1, subject.job.problem);
        next = rest.next();
        let ahead = async {
            if let Some((_, next)) = &mut next {
                next.translate(translators.as_deref()).await;
            }
        };
        tuned.push(futures_util::join!(bench.tune(subject), ahead).0?);
    }
    let wall = started.elapsed();
    let spent = bench.spent();
    let percent = |part: Duration| 100.0 * part.as_secs_f64() / wall.as_secs_f64().max(1e-9);
    let parts = [
        ("of it making inputs, allocating, running references", spent.prepare - before.prepare),
        ("of it loading candidates", spent.load - before.load),
        ("of it checking candidates", spent.check - before.check),
        ("of it warming the device up", spent.warm_up - before.warm_up),
        ("of it timing candidates", spent.time - before.time),
    ];
    let inside: Duration = parts.iter().map(|(_, part)| *part).sum();
    let mut figures = vec![
        Figure::new("problems", subjects.len() as f64, ""),
        Figure::new("candidates", subjects.iter().map(|subject| subject.candidates.len() as f64).sum(), ""),
        Figure::new("wall time of the evaluation", wall.as_secs_f64(), "s"),
    ];
    figures.extend(parts.map(|(what, part)| Figure::new(what, percent(part), "%")));
    figures.push(Figure::new(
        "of it between parent and child, or lost to failures",
        percent(wall.saturating_sub(inside)),
        "%",
    ));
    figures.push(Figure::new("of it the device was busy with candidates", percent(spent.device - before.device), "%"));
    figures.push(Figure::new(
        "of it their samples, as the device counts",
        percent(spent.samples - before.samples),
        "%",
    ));
    let deviations = tuned.iter().flatten().flat_map(|tuned| &tuned.samples).map(|samples| {
        let ours = Estimator::Robust.summarize(samples).median;
        (Estimator::MiopenCompat.summarize(samples).median / ours - 1.0).abs()
    });
    let worst = 100.0 * deviations.fold(0.0, f64::max);
    figures.push(Figure::new("MIOpen's estimator from ours on the same samples, at worst", worst, "%"));
    Ok((tuned, figures))
}

/// Times all candidates with Triton's rule, and looks where the tuned winners stand.
async fn exhaust(bench: &mut Bench, subjects: &[Subject], tuned: &[Option<Tuned>]) -> anyhow::Result<Vec<Figure>> {
    // Without memory for copies a GPU's cache is flushed before each launch, as Triton does it.
    let limits = Limits { rule: Rule::DoBench, rotation_bytes: 0, ..Limits::default() };
    let before = bench.spent();
    let mut losses = Vec::new();
    for (index, (subject, tuned)) in subjects.iter().zip(tuned).enumerate() {
        eprintln!("exhausting {} of {}: {}", index + 1, subjects.len(), subject.job.problem);
        let times = bench.all(subject, &limits).await?;
        let best = times.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        let winner = tuned.as_ref().and_then(|tuned| *times.get(tuned.winner)?);
        losses.extend(winner.map(|winner| winner / best - 1.0));
    }
    let exhaustive = (bench.spent().samples - before.samples).as_secs_f64();
    let ours = before.samples.as_secs_f64();
    let close = losses.iter().filter(|loss| **loss <= CLOSE).count() as f64;
    Ok(vec![
        Figure::new("problems with a winner by both rules", losses.len() as f64, ""),
        Figure::new(
            "of the winners within 1 % of do_bench's, by do_bench's times",
            100.0 * close / losses.len().max(1) as f64,
            "%",
        ),
        Figure::new(
            "the worst winner is slower than do_bench's by",
            100.0 * losses.iter().copied().fold(0.0, f64::max),
            "%",
        ),
        Figure::new("device time of the samples, do_bench on all candidates", exhaustive, "s"),
        Figure::new("device time of the samples, protocol with its play-offs", ours, "s"),
        Figure::new("of do_bench's device time", ours / exhaustive.max(1e-9), "x"),
    ])
}

/// Measures winners against themselves under two names.
async fn ties(
    bench: &mut Bench,
    subjects: &[Subject],
    tuned: &[Option<Tuned>],
    trials: usize,
) -> anyhow::Result<Vec<Figure>> {
    let winners: Vec<_> =
        subjects.iter().zip(tuned).filter_map(|(subject, tuned)| Some((subject, tuned.as_ref()?.winner))).collect();
    ensure!(!winners.is_empty(), "no candidate has a time");
    let (mut ties, mut made) = (0, 0);
    // All trials of a problem in a row, so that it is prepared once.
    for (index, (subject, winner)) in winners.iter().enumerate() {
        let share = trials / winners.len() + usize::from(index < trials % winners.len());
        for _ in 0..share {
            ties += usize::from(bench.ties_with_itself(subject, *winner).await?);
            made += 1;
        }
    }
    Ok(vec![
        Figure::new("trials of one kernel under two names", made as f64, ""),
        Figure::new("of them ties", 100.0 * ties as f64 / made.max(1) as f64, "%"),
    ])
}

/// Measures winners in fresh processes.
async fn repeats(device: &str, subjects: &[Subject], tuned: &[Option<Tuned>]) -> anyhow::Result<Vec<Figure>> {
    let winners: Vec<_> =
        subjects.iter().zip(tuned).filter_map(|(subject, tuned)| Some((subject, tuned.as_ref()?.winner))).collect();
    let mut across = vec![Vec::new(); winners.len().min(REPEATED)];
    let mut within = across.clone();
    for process in 0..PROCESSES {
        let mut bench = Bench::start(device).await.context("a fresh process")?;
        for ((subject, winner), medians) in winners.iter().zip(&mut across) {
            medians.extend(bench.one(subject, *winner, &Limits::default()).await?);
        }
        // The same in the last of them, so that what a process does to a kernel is told from noise.
        for _ in 0..if process + 1 == PROCESSES { PROCESSES } else { 0 } {
            for ((subject, winner), medians) in winners.iter().zip(&mut within) {
                medians.extend(bench.one(subject, *winner, &Limits::default()).await?);
            }
        }
    }
    for ((subject, _), (across, within)) in winners.iter().zip(across.iter().zip(&within)) {
        eprintln!("{}: {across:.4?} ms in five processes, {within:.4?} ms in one", subject.job.problem);
    }
    let deviation = |medians: &Vec<f64>| {
        let center = median(medians);
        medians.iter().map(|median| (median / center - 1.0).abs()).fold(0.0, f64::max)
    };
    let across: Vec<f64> = across.iter().map(deviation).collect();
    let within: Vec<f64> = within.iter().map(deviation).collect();
    let worst = |deviations: &[f64]| deviations.iter().copied().fold(0.0, f64::max);
    Ok(vec![
        Figure::new("a median in one of 5 processes from that of all, at worst", 100.0 * worst(&across), "%"),
        Figure::new("the same, for the problem in the middle", 100.0 * median(&across), "%"),
        Figure::new("a median in one process, of 5, from that of all, at worst", 100.0 * worst(&within), "%"),
        Figure::new("the same, for the problem in the middle", 100.0 * median(&within), "%"),
    ])
}

/// Measures winners with what a launch uses evicted before it, and with copies that rotate through the cache, in turn.
async fn coolings(bench: &mut Bench, subjects: &[Subject], tuned: &[Option<Tuned>]) -> anyhow::Result<Vec<Figure>> {
    let ways = [Cache::Cold, Cache::Rotated, Cache::Warm];
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for (subject, tuned) in subjects.iter().zip(tuned) {
        let Some(tuned) = tuned else { continue };
        let mut medians = ways.map(|_| Vec::new());
        for _ in 0..COOLED {
            for (cache, medians) in ways.into_iter().zip(&mut medians) {
                let limits = Limits { cache, ..Limits::default() };
                medians.extend(bench.one(subject, tuned.winner, &limits).await?);
            }
        }
        let [evicted, rotated, kept] = medians.map(|medians| median(&medians));
        eprintln!("{}: {evicted:.4} ms evicted, {rotated:.4} ms rotated, {kept:.4} ms warm", subject.job.problem);
        cold.push(evicted / rotated);
        warm.push(kept / rotated);
    }
    let worst = cold.iter().map(|ratio| (ratio - 1.0).abs()).fold(0.0, f64::max);
    Ok(vec![
        Figure::new("a cold time by eviction from one by rotation, at worst", 100.0 * worst, "%"),
        Figure::new("the same, for the problem in the middle", 100.0 * (median(&cold) - 1.0), "%"),
        Figure::new(
            "a warm time from one by rotation, for the problem in the middle",
            100.0 * (median(&warm) - 1.0),
            "%",
        ),
    ])
}
