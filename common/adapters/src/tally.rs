//! What an outcome adds to the progress of its session.

use std::collections::BTreeMap;

use bluefin_common::outcome::{CandidateOutcome, Outcome};

/// What is counted, as kind and name: `candidates` by result (`timed`, `pruned`, or the name of a failure kind), and `busy`
/// milliseconds by stage.
pub(crate) fn tally(outcome: &Outcome) -> BTreeMap<(&'static str, &'static str), u64> {
    let mut tally = BTreeMap::new();
    for candidate in &outcome.candidates {
        *tally.entry(("candidates", result_name(candidate))).or_default() += 1;
    }
    if outcome.busy_ms > 0 {
        tally.insert(("busy", outcome.job.stage.name()), outcome.busy_ms);
    }
    tally
}

/// The best median of `outcome` that was measured to the end and is a finite number.
pub(crate) fn best_ms(outcome: &Outcome) -> Option<f64> {
    let timings = outcome.candidates.iter().filter_map(|candidate| candidate.result.as_ref().ok());
    let medians = timings.filter(|timing| !timing.pruned).map(|timing| timing.median_ms);
    medians.filter(|median_ms| median_ms.is_finite()).min_by(f64::total_cmp)
}

fn result_name(candidate: &CandidateOutcome) -> &'static str {
    match &candidate.result {
        Ok(timing) if timing.pruned => "pruned",
        Ok(_) => "timed",
        Err(failure) => failure.kind.name(),
    }
}
