//! Rows of a config file against the engine's default rows and others that are known, timed in turns.

use bluefin_common::job::GroupId;
use bluefin_common::outcome::{CandidateOutcome, Outcome, Timing};
use bluefin_common::session::{Session, Stage};
use bluefin_serving::kernel::{Asked, DEFAULT, KNOWN};
use bluefin_serving::{ConfigFile, Row};
use serde::Serialize;

use super::Tuned;
use crate::site::Site;

/// What a row of a file is worth.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// Its batch size.
    pub tokens: i64,
    /// As the file has it.
    pub row: Row,
    /// Against the engine's default.
    pub verdict: RowVerdict,
    /// Of the row.
    pub time: Option<Time>,
    /// Of the engine's default.
    pub default: Option<Time>,
    /// Of the other row that is known.
    pub known: Option<Time>,
    /// How much slower it is than the best of the three, as a share.
    pub regret: Option<f64>,
    /// Why it has no time.
    pub reason: Option<String>,
}

/// Milliseconds, and between which the true median lies with little doubt.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Time {
    /// The median.
    pub median_ms: f64,
    /// At least.
    pub low_ms: f64,
    /// At most.
    pub high_ms: f64,
}

/// A row against the engine's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowVerdict {
    /// It is faster.
    Faster,
    /// It can not be told apart.
    Tied,
    /// It is what the engine launches without a file.
    Default,
    /// It is slower: the file makes the engine slower.
    Slower,
    /// It does not compile, can not be launched, or computes what is wrong.
    Fails,
    /// It says what no kernel here takes, or nothing was timed.
    Unknown,
}

impl RowVerdict {
    /// Whether the engine is better off with its default.
    #[must_use]
    pub const fn loses(self) -> bool {
        matches!(self, Self::Slower | Self::Fails)
    }
}

impl Time {
    fn of(timing: &Timing) -> Self {
        let (low_ms, high_ms) = timing.interval_ms().unwrap_or_else(|| {
            // Few samples say little.
            let (low, high) = timing.range_ms();
            (0.9 * low, 1.1 * high)
        });
        Self { median_ms: timing.median_ms, low_ms, high_ms }
    }
}

/// What came of the rows of `file` in a session whose ladder had them.
///
/// # Errors
/// If the store fails.
pub async fn judge(site: &Site, asked: &Asked<'_>, file: &ConfigFile, tuned: &Tuned) -> anyhow::Result<Vec<Judged>> {
    let mut judged = Vec::new();
    for (rung, group) in tuned.rungs.iter().zip(&tuned.groups) {
        let Some(row) = file.row(rung.tokens) else { continue };
        let outcomes = outcomes(site, &tuned.session, *group).await?;
        judged.push(Judged::of(asked, rung.tokens, row, &outcomes));
    }
    Ok(judged)
}

async fn outcomes(site: &Site, session: &Session, group: GroupId) -> anyhow::Result<Vec<Outcome>> {
    Ok(site.ports.store.outcomes(&session.name, &[group]).await?)
}

/// What came of the only candidate of a solver: in the play-off, or before it where it did not get there.
fn candidate<'a>(outcomes: &'a [Outcome], solver: &str) -> Option<&'a CandidateOutcome> {
    let of_stage = |stage: Stage| {
        let jobs = outcomes.iter().filter(move |outcome| outcome.job.stage == stage);
        jobs.flat_map(|outcome| &outcome.candidates).find(|one| one.candidate.solver == solver)
    };
    of_stage(Stage::Find).or_else(|| of_stage(Stage::Perf))
}

impl Judged {
    fn of(asked: &Asked<'_>, tokens: i64, row: &Row, outcomes: &[Outcome]) -> Self {
        let time = |solver: &str| {
            let timing = candidate(outcomes, solver)?.result.as_ref().ok()?;
            (!timing.pruned).then(|| Time::of(timing))
        };
        let own = asked.solver_of(tokens, row);
        let default_name = format!("{DEFAULT}{tokens}");
        let (default, known) = (time(&default_name), time(&format!("{KNOWN}{tokens}")));
        let time = own.as_deref().and_then(time);
        let failure = own.as_deref().and_then(|own| candidate(outcomes, own)).and_then(|one| one.result.as_ref().err());
        let verdict = match (own, time, default) {
            (Some(own), _, _) if own == default_name => RowVerdict::Default,
            _ if failure.is_some() => RowVerdict::Fails,
            (_, Some(time), Some(default)) => compared(time, default),
            // The default can not be launched.
            (_, Some(_), None) => RowVerdict::Faster,
            // What was only probed is clearly slower than the best.
            (Some(_), None, Some(_)) => RowVerdict::Slower,
            _ => RowVerdict::Unknown,
        };
        let best = [time, default, known].into_iter().flatten().map(|time| time.median_ms).reduce(f64::min);
        let regret = time.zip(best).map(|(time, best)| time.median_ms / best - 1.0);
        let reason = failure.map(|failure| format!("{}: {}", failure.kind.name(), failure.detail));
        Self { tokens, row: row.clone(), verdict, time, default, known, regret, reason }
    }
}

/// A time against that of the default: what their intervals leave open is a tie.
fn compared(time: Time, default: Time) -> RowVerdict {
    if time.low_ms > default.high_ms {
        RowVerdict::Slower
    } else if time.high_ms < default.low_ms {
        RowVerdict::Faster
    } else {
        RowVerdict::Tied
    }
}

/// The file with the engine's default in the place of each row that loses to it.
#[must_use]
pub fn fixed(asked: &Asked<'_>, file: &ConfigFile, judged: &[Judged]) -> ConfigFile {
    let mut fixed = file.clone();
    for one in judged.iter().filter(|one| one.verdict.loses()) {
        fixed.set(one.tokens, asked.default_row(one.tokens).ordered(asked.engine));
    }
    fixed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_intervals_leave_open_is_a_tie() {
        let time = |median_ms: f64| Time { median_ms, low_ms: 0.98 * median_ms, high_ms: 1.02 * median_ms };
        assert_eq!(compared(time(1.0), time(1.03)), RowVerdict::Tied);
        assert_eq!(compared(time(1.0), time(1.05)), RowVerdict::Faster);
        assert_eq!(compared(time(1.05), time(1.0)), RowVerdict::Slower);
        assert!(RowVerdict::Slower.loses() && RowVerdict::Fails.loses() && !RowVerdict::Tied.loses());
    }
}
