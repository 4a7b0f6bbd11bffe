//! How much of the tuning spaces a campaign is to try, in a sentence: what a budget leaves out, or how far a search may go.

use std::time::Duration;

use bluefin_common::session::SearchPlan;
use bluefin_common::spelled::{counted, human};
use bluefin_producer::plan::{CandidateBudget, Plan, Space};

/// What was planned, and what `budget`, `search` and `time` leave out of it.
#[must_use]
pub fn planned(plan: &Plan, budget: CandidateBudget, search: Option<&SearchPlan>, time: Option<Duration>) -> String {
    let Space { candidates, valid_candidates, .. } = plan.space.clone().unwrap_or_default();
    let left = valid_candidates.saturating_sub(candidates);
    let mut text = format!(
        "{}, {} in {}",
        counted(plan.problems, "problem"),
        counted(candidates, "candidate"),
        counted(plan.jobs, "job")
    );
    if let Some(plan @ SearchPlan { strategy, candidates, .. }) = search {
        let within = match (candidates, time) {
            (_, Some(time)) => human(time),
            (0, None) => format!("budget {budget}"),
            (_, None) => format!("at most {candidates} of each solver"),
        };
        let until = match plan.patience {
            0 => String::new(),
            _ => format!(", until less than {} % is expected to be left to gain", plan.patience_percent()),
        };
        text.push_str(&format!(
            " so far; the search {strategy} goes on from what they come to, within {within} (of {valid_candidates} valid candidates){until}"
        ));
    } else if left > 0 {
        text.push_str(&format!(
            "; budget {budget} skips {left} of {valid_candidates} valid candidates (--budget thorough or all tries more)"
        ));
    }
    if plan.done > 0 {
        text.push_str(&format!("; done before: {}", counted(plan.done, "job")));
    }
    text
}
