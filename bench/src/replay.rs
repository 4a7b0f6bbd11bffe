//! What rules to stop and to search by are worth, on samples that a session recorded: no device is needed.

use std::path::PathBuf;

use anyhow::ensure;
use bluefin_common::outcome::{Outcome, Timing};
use bluefin_common::session::{SessionName, Stage};
use bluefin_common::store::Work as _;
use bluefin_eval_worker::timing::{ClockWatch, Limits, Recorded, StopRule, better, measure_by};
use bluefin_terminal::{out, width};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::session_in;

/// How far a winner may be from the best.
const CLOSE: f64 = 0.01;

#[derive(clap::Args)]
pub struct ReplayArgs {
    /// State file of `bluefin tune` whose samples are drawn from
    #[arg(long, value_name = "FILE", default_value = "bluefin.db")]
    state: PathBuf,
    /// Session in the state file [default: the last that was made]
    #[arg(long, value_name = "NAME")]
    session: Option<SessionName>,
    /// Times that each problem is tuned again, each in another order
    #[arg(long, value_name = "N", default_value_t = 20)]
    repeats: u64,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// A way to tune: which candidates are tried, and when each is stopped.
struct Way {
    name: &'static str,
    rule: StopRule,
    /// Share of the candidates that are tried, chosen at random.
    tried: f64,
}

fn ways() -> Vec<Way> {
    let rule = StopRule::default();
    let endless = f64::INFINITY;
    let never = StopRule { prune: endless, prune_short: endless, hopeless: endless, behind: endless, ..rule };
    let way = |name, rule| Way { name, rule, tried: 1.0 };
    vec![
        way("the protocol", rule),
        way("no early stop", never),
        way("early stop at 1.25 times the incumbent", StopRule { prune: 1.25, prune_short: 1.5, ..rule }),
        way("early stop at 1.1 times, by one probe", StopRule { probes: 1, prune: 1.1, prune_short: 1.1, ..rule }),
        way("ten samples of who is behind, too", StopRule { behind: endless, ..rule }),
        way("3 samples are enough", StopRule { min_samples: 3, ..rule }),
        way("30 samples at least", StopRule { min_samples: 30, ..rule }),
        Way { tried: 0.5, ..way("half of the candidates", rule) },
        Way { tried: 0.25, ..way("a quarter of the candidates", rule) },
    ]
}

/// What a way of tuning is worth.
#[derive(serde::Serialize)]
struct Worth {
    way: &'static str,
    /// Device time of the samples of one tuning of all problems, in seconds.
    samples_s: f64,
    /// Share of the winners within 1 % of the best, in percent.
    close_percent: f64,
    /// How much slower winners are than the best, in percent.
    mean_loss_percent: f64,
    worst_loss_percent: f64,
}

impl ReplayArgs {
    pub(super) async fn run(&self) -> anyhow::Result<()> {
        let (store, session) = session_in(&self.state, self.session.as_ref()).await?;
        let groups = store.groups(&session).await?;
        let outcomes = store.outcomes(&session, &groups).await?;
        store.close().await;
        let problems = problems(&outcomes);
        ensure!(
            !problems.is_empty(),
            "{}: session {session} has no problem of which two candidates have times",
            self.state.display()
        );
        let repeats = self.repeats.max(1);
        let worths: Vec<Worth> = ways().iter().map(|way| worth(way, &problems, repeats)).collect();
        if self.json {
            return out::json(&worths);
        }
        let mut table = width::table();
        table.set_header(["", "device time of samples", "winners within 1 %", "mean loss", "worst loss"]);
        for worth in &worths {
            table.add_row([
                worth.way.to_string(),
                format!("{:.3} s", worth.samples_s),
                format!("{:.1} %", worth.close_percent),
                format!("{:.2} %", worth.mean_loss_percent),
                format!("{:.2} %", worth.worst_loss_percent),
            ]);
        }
        out::line(format_args!("{} problems, each tuned {repeats} times, before the play-off", problems.len()))?;
        Ok(out::line(table)?)
    }
}

/// The timings of each problem's candidates in the perf stage, where there are two or more.
fn problems(outcomes: &[Outcome]) -> Vec<Vec<&Timing>> {
    let mut problems = std::collections::BTreeMap::<_, Vec<&Timing>>::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.job.stage == Stage::Perf) {
        let timings = outcome.candidates.iter().filter_map(|candidate| candidate.result.as_ref().ok());
        problems.entry(outcome.job.group()).or_default().extend(timings.filter(|timing| !timing.samples_ms.is_empty()));
    }
    problems.into_values().filter(|timings| timings.len() > 1).collect()
}

fn worth(way: &Way, problems: &[Vec<&Timing>], repeats: u64) -> Worth {
    let mut losses = Vec::new();
    let mut spent_ms = 0.0;
    for (problem, timings) in (0..).zip(problems) {
        let best = timings.iter().map(|timing| timing.median_ms).fold(f64::INFINITY, f64::min);
        for repeat in 0..repeats {
            let (winner, spent) = tune(way, timings, problem * repeats + repeat);
            spent_ms += spent;
            losses.extend(winner.map(|winner| winner.median_ms / best - 1.0));
        }
    }
    let count = losses.len().max(1) as f64;
    let close = losses.iter().filter(|loss| **loss <= CLOSE).count() as f64;
    Worth {
        way: way.name,
        samples_s: spent_ms / 1000.0 / repeats as f64,
        close_percent: 100.0 * close / count,
        mean_loss_percent: 100.0 * losses.iter().sum::<f64>() / count,
        worst_loss_percent: 100.0 * losses.iter().copied().fold(0.0, f64::max),
    }
}

/// Tunes one problem; the winner, and milliseconds of samples.
fn tune<'a>(way: &Way, timings: &[&'a Timing], seed: u64) -> (Option<&'a Timing>, f64) {
    let mut order = timings.to_vec();
    order.shuffle(&mut StdRng::seed_from_u64(seed));
    order.truncate((way.tried * timings.len() as f64).ceil() as usize);
    let mut recorded = Recorded::new(Vec::new(), seed);
    let mut incumbent_ms = None;
    let mut best: Option<(f64, &Timing)> = None;
    for timing in order {
        recorded.load(vec![&timing.samples_ms]);
        let Ok(again) =
            measure_by(&way.rule, &mut recorded, &mut ClockWatch::default(), incumbent_ms, &Limits::default());
        if !again.pruned && best.is_none_or(|(best_ms, _)| again.median_ms < best_ms) {
            best = Some((again.median_ms, timing));
        }
        incumbent_ms = better(incumbent_ms, &Ok(again));
    }
    (best.map(|(_, timing)| timing), recorded.spent_ms())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(samples_ms: &[f32]) -> Timing {
        let mut sorted = samples_ms.to_vec();
        sorted.sort_by(f32::total_cmp);
        Timing { samples_ms: samples_ms.to_vec(), ..Timing::single(f64::from(sorted[sorted.len() / 2])) }
    }

    #[test]
    fn what_ways_are_worth() {
        let timings: Vec<Timing> = (10..50).map(|tenth| timing(&[tenth as f32 / 10.0])).collect();
        let problems = [timings.iter().collect()];
        let worths: Vec<Worth> = ways().iter().map(|way| worth(way, &problems, 50)).collect();
        let [protocol, never, .., quarter] = worths.as_slice() else { panic!("all ways") };
        assert_eq!((protocol.close_percent, protocol.worst_loss_percent), (100.0, 0.0));
        assert_eq!(never.close_percent, 100.0);
        // 40 candidates of 1.0 to 4.9 ms, ten samples each.
        assert!((never.samples_s - 1.18).abs() < 0.01, "{}", never.samples_s);
        assert!(protocol.samples_s < 0.6 * never.samples_s, "{}", protocol.samples_s);
        assert!(quarter.close_percent < 50.0 && quarter.mean_loss_percent > 5.0);
    }

    #[test]
    fn a_hasty_rule_loses_to_noise() {
        // The better one is disturbed in half of its samples.
        let timings = [timing(&[1.0, 1.0, 1.3]), timing(&[1.15])];
        let problems = [timings.iter().collect()];
        let hasty = Way { name: "", rule: StopRule { probes: 1, prune: 1.1, ..StopRule::default() }, tried: 1.0 };
        let protocol = Way { name: "", rule: StopRule::default(), tried: 1.0 };
        let [hasty, protocol] = [hasty, protocol].map(|way| worth(&way, &problems, 200).close_percent);
        assert!(hasty < 90.0 && protocol > 95.0, "{hasty} {protocol}");
    }
}
