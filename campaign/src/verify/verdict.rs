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

/// What is known of a side of a row by processes that timed it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Came {
    /// It runs.
    Timed(Time),
    /// It does not, again and again.
    Fails(String),
    /// Why neither is known.
    Unmeasured(String),
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

    /// Of processes that timed the same. `None`: they are too few for an interval that the true median is in with little doubt.
    pub(super) fn of_samples(samples_us: &[f64]) -> Option<Self> {
        let mut sorted = samples_us.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (middle, count) = (sorted.len() / 2, sorted.len());
        let low = outside(u32::try_from(count).ok()?)?;
        let at = |at: usize| sorted.get(at).map(|us| us / 1000.0);
        let upper = at(middle)?;
        let median_ms = if count.is_multiple_of(2) { f64::midpoint(at(middle.checked_sub(1)?)?, upper) } else { upper };
        Some(Self { median_ms, low_ms: at(low)?, high_ms: at(count - 1 - low)? })
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

impl Came {
    fn time(&self) -> Option<Time> {
        if let Self::Timed(time) = self { Some(*time) } else { None }
    }

    fn reason(&self) -> Option<&str> {
        if let Self::Fails(reason) | Self::Unmeasured(reason) = self { Some(reason) } else { None }
    }
}

impl Worth {
    /// Nothing is known of a row.
    pub(super) fn unknown(reason: &str) -> Self {
        let reason = Some(reason.to_string());
        Self { verdict: Verdict::Unknown, time: None, default: None, known: None, regret: None, reason }
    }

    /// A row against what there is without it. It loses where it fails and the default runs; where one of the two was not measured, nothing is known.
    pub(super) fn between(own: &Came, default: &Came, known: Option<&Came>) -> Self {
        let verdict = match (own, default) {
            (Came::Timed(time), Came::Timed(default)) => time.against(*default),
            (Came::Fails(_), Came::Timed(_)) => Verdict::Fails,
            // There is nothing to fall back to.
            (Came::Timed(_), Came::Fails(_)) => Verdict::Faster,
            _ => Verdict::Unknown,
        };
        let without = default.reason().map(|reason| format!("without it: {reason}"));
        let reasons: Vec<String> = own.reason().map(str::to_string).into_iter().chain(without).collect();
        let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
        let (time, default, known) = (own.time(), default.time(), known.and_then(Came::time));
        Self { verdict, time, default, known, regret: regret(time, default, known), reason }
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

/// How many of so many sorted samples can be left out at each end, so that the true median lies between the others in 19 of 20 cases.
fn outside(count: u32) -> Option<usize> {
    let (mut chance, mut below, mut outside) = (0.5_f64.powi(i32::try_from(count).ok()?), 0.0, None);
    for at in 0..count {
        below += chance;
        if 2.0 * below > 0.05 {
            break;
        }
        outside = usize::try_from(at).ok();
        chance *= f64::from(count - at) / f64::from(at + 1);
    }
    outside
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
        let of = |count: u32| Time::of_samples(&(1..=count).rev().map(|at| 1000.0 * f64::from(at)).collect::<Vec<_>>());
        assert_eq!(of(5), None, "too few");
        assert_eq!(of(6), Some(Time { median_ms: 3.5, low_ms: 1.0, high_ms: 6.0 }));
        assert_eq!(of(7), Some(Time { median_ms: 4.0, low_ms: 1.0, high_ms: 7.0 }));
        assert_eq!(of(20), Some(Time { median_ms: 10.5, low_ms: 6.0, high_ms: 15.0 }), "more tell more");
        assert!(of(99).is_some_and(|time| time.low_ms > 39.0 && time.high_ms < 61.0));
    }

    #[test]
    fn a_row_loses_where_the_default_runs() {
        let timed = Came::Timed(Time { median_ms: 2.0, low_ms: 1.0, high_ms: 3.0 });
        let (fails, unmeasured) = (Came::Fails("mismatch".to_string()), Came::Unmeasured("nothing".to_string()));
        let verdict = |own: &Came, default: &Came| Worth::between(own, default, None).verdict;
        assert_eq!(verdict(&timed, &timed), Verdict::Tied);
        assert_eq!((verdict(&fails, &timed), verdict(&timed, &fails)), (Verdict::Fails, Verdict::Faster));
        for (own, default) in [(&fails, &fails), (&fails, &unmeasured), (&timed, &unmeasured), (&unmeasured, &timed)] {
            assert_eq!(verdict(own, default), Verdict::Unknown);
        }
        assert_eq!(Worth::between(&fails, &fails, None).reason.as_deref(), Some("mismatch; without it: mismatch"));
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
