//! What a row of a file is worth: its time against that of what is launched without it.

use bluefin_common::candidate::Candidate;
use bluefin_common::outcome::{CandidateOutcome, Outcome, Timing};
use serde::Serialize;

use super::Unlaunched;

/// What a row of a file is worth.
#[derive(Clone, Debug, Serialize)]
pub struct Worth {
    /// Against the default.
    pub verdict: Verdict,
    /// Of the row.
    pub time: Option<Time>,
    /// Of the default: what is launched without the file.
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

/// A row against the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is faster.
    Faster,
    /// It can not be told apart.
    Tied,
    /// It is what is launched without the file.
    Default,
    /// It is slower: the file makes its reader slower.
    Slower,
    /// It does not compile, can not be launched, or computes what is wrong.
    Fails,
    /// It says what no kernel here takes, or nothing was timed.
    Unknown,
}

/// What is timed for a row.
pub(super) struct Contenders<'a> {
    /// What the row launches, or why that is nothing.
    pub own: Result<&'a Candidate, &'a Unlaunched>,
    /// What is launched without the file.
    pub default: Option<&'a Candidate>,
    /// What another row launches.
    pub known: Option<&'a Candidate>,
}

impl Verdict {
    /// Whether the default is the better choice.
    #[must_use]
    pub const fn loses(self) -> bool {
        matches!(self, Self::Slower | Self::Fails)
    }

    /// As it is printed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Faster => "FASTER",
            Self::Tied => "TIED",
            Self::Default => "DEFAULT",
            Self::Slower => "SLOWER",
            Self::Fails => "FAILS",
            Self::Unknown => "UNKNOWN",
        }
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

    /// Of processes that timed the same: the median lies between the least and the largest of six in 31 of 32 cases.
    pub(super) fn of_samples(samples_us: &[f64]) -> Option<Self> {
        let mut sorted = samples_us.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (middle, count) = (sorted.len() / 2, sorted.len());
        let at = |at: usize| sorted.get(at).map(|us| us / 1000.0);
        let upper = at(middle)?;
        let median_ms = if count.is_multiple_of(2) { f64::midpoint(at(middle.checked_sub(1)?)?, upper) } else { upper };
        Some(Self { median_ms, low_ms: at(0)?, high_ms: at(count - 1)? })
    }

    /// Against that of the default: what their intervals leave open is a tie.
    fn against(self, default: Self) -> Verdict {
        if self.low_ms > default.high_ms {
            Verdict::Slower
        } else if self.high_ms < default.low_ms {
            Verdict::Faster
        } else {
            Verdict::Tied
        }
    }
}

impl Worth {
    /// Nothing is known of a row.
    pub(super) fn unknown(reason: &str) -> Self {
        let reason = Some(reason.to_string());
        Self { verdict: Verdict::Unknown, time: None, default: None, known: None, regret: None, reason }
    }

    /// A row by its time, or by why it has none.
    pub(super) fn between(own: Result<Time, String>, default: Option<Time>, known: Option<Time>) -> Self {
        let time = own.as_ref().ok().copied();
        let verdict = match (time, default) {
            (None, _) => Verdict::Fails,
            (Some(time), Some(default)) => time.against(default),
            // There is nothing to fall back to.
            (Some(_), None) => Verdict::Faster,
        };
        Self { verdict, time, default, known, regret: regret(time, default, known), reason: own.err() }
    }

    pub(super) fn of(contenders: &Contenders<'_>, outcomes: &[Outcome]) -> Self {
        let came = |candidate: &Candidate| -> Option<&CandidateOutcome> {
            outcomes.iter().flat_map(|outcome| &outcome.candidates).find(|came| came.candidate == *candidate)
        };
        let time = |candidate: &Candidate| came(candidate)?.result.as_ref().ok().map(Time::of);
        let Contenders { own, default: untuned, known } = *contenders;
        let (time, default, known) = (own.ok().and_then(time), untuned.and_then(time), known.and_then(time));
        let failure = own.ok().and_then(came).and_then(|came| came.result.as_ref().err());
        let verdict = match (own, time, default) {
            (Ok(own), _, _) if Some(own) == untuned => Verdict::Default,
            _ if failure.is_some() => Verdict::Fails,
            (Err(Unlaunched::Fails(_)), _, _) => Verdict::Fails,
            (_, Some(time), Some(default)) => time.against(default),
            // The default can not be launched.
            (_, Some(_), None) => Verdict::Faster,
            _ => Verdict::Unknown,
        };
        let regret = regret(time, default, known);
        let reason = failure.map(|failure| format!("{}: {}", failure.kind.name(), failure.detail));
        let reason = reason.or_else(|| {
            let (Unlaunched::Unknown(reason) | Unlaunched::Fails(reason)) = own.err()?;
            Some(reason.clone())
        });
        Self { verdict, time, default, known, regret, reason }
    }
}

/// How much slower than the best a row is.
fn regret(time: Option<Time>, default: Option<Time>, known: Option<Time>) -> Option<f64> {
    let best = [time, default, known].into_iter().flatten().map(|time| time.median_ms).reduce(f64::min);
    time.zip(best).map(|(time, best)| time.median_ms / best - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_processes_have_a_median_and_an_interval() {
        let time = Time::of_samples(&[30.0, 10.0, 20.0]).unwrap();
        assert_eq!(time, Time { median_ms: 0.02, low_ms: 0.01, high_ms: 0.03 });
        assert_eq!(Time::of_samples(&[10.0, 20.0]).unwrap().median_ms, 0.015);
        assert_eq!(Time::of_samples(&[]), None);
        let worth = Worth::between(Err("mismatch".to_string()), Some(time), None);
        assert_eq!((worth.verdict, worth.reason.as_deref()), (Verdict::Fails, Some("mismatch")));
        assert_eq!(Worth::between(Ok(time), None, None).verdict, Verdict::Faster);
        assert_eq!(Worth::between(Ok(time), Some(time), None).verdict, Verdict::Tied);
    }

    #[test]
    fn what_intervals_leave_open_is_a_tie() {
        let time = |median_ms: f64| Time { median_ms, low_ms: 0.98 * median_ms, high_ms: 1.02 * median_ms };
        assert_eq!(time(1.0).against(time(1.03)), Verdict::Tied);
        assert_eq!(time(1.0).against(time(1.05)), Verdict::Faster);
        assert_eq!(time(1.05).against(time(1.0)), Verdict::Slower);
        assert!(Verdict::Slower.loses() && Verdict::Fails.loses() && !Verdict::Tied.loses());
    }
}
