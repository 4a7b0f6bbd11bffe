//! A session, for people: what it is, and how far each of its stages is.

use std::collections::BTreeMap;
use std::time::Duration;

use bluefin_campaign::fleet::overview::Overview;
use bluefin_common::priority::Priority;
use bluefin_common::session::Budget;
use bluefin_common::spelled::{bytes, human};
use bluefin_miopen::driver::FIND_ENFORCE;
use bluefin_producer::session::{is_exhaustive, tuner_text};

use crate::out;

/// Prints it for people.
///
/// # Errors
/// If standard output can not be written to.
pub fn print(overview: &Overview) -> std::io::Result<()> {
    let Overview { session, pins, progress, .. } = overview;
    out::line(format_args!("session {}: {}", session.name, overview.state()))?;
    out::line(format_args!("  label    {}", session.label))?;
    out::line(format_args!("  target   {}", session.target))?;
    out::line(format_args!("  tuner    {}", tuner_text(session)))?;
    if session.search.is_some() {
        out::line(format_args!("  search   {}", session.search_text()))?;
    }
    if session.priors.is_some() {
        out::line(format_args!("  begins   with {}", session.priors_text()))?;
    }
    let said = is_exhaustive(session).then_some(FIND_ENFORCE);
    for (name, value) in session.environment.iter().filter(|(name, _)| Some(name.as_str()) != said) {
        out::line(format_args!("  with     {name}={value}"))?;
    }
    if overview.priority != Priority::Normal {
        out::line(format_args!("  priority {}", overview.priority))?;
    }
    for (name, limit) in limits(&session.budget) {
        out::line(format_args!("  budget   {name} {limit}"))?;
    }
    if let Some(size) = overview.size {
        out::line(format_args!("  size     {}", bytes(size.total())))?;
    }
    for (key, value) in pins {
        out::line(format_args!("  pinned   {key} = {value}"))?;
    }
    for stage in &session.stages {
        let count = |counts: &BTreeMap<String, u64>| counts.get(stage.name()).copied().unwrap_or(0);
        out::line(format_args!(
            "  {:<8} {} of {} jobs, {} of devices' time",
            stage.name(),
            count(&progress.done),
            count(&progress.planned),
            human(Duration::from_millis(count(&progress.busy_ms)))
        ))?;
    }
    for (result, count) in &progress.candidates {
        out::line(format_args!("  {count:>8} {result}"))?;
    }
    Ok(())
}

fn limits(budget: &Budget) -> Vec<(&'static str, String)> {
    let time = |ms: Option<u64>| ms.map(|ms| human(Duration::from_millis(ms)));
    let number = |limit: Option<u64>| limit.map(|limit| limit.to_string());
    let all = [
        ("of a solver", time(budget.solver_ms)),
        ("of a problem", time(budget.problem_ms)),
        ("of the session", time(budget.session_ms)),
        ("of a search", time(budget.tuning_time_ms)),
        ("of patience", number(budget.tuning_patience)),
        ("of iterations", number(budget.tuning_iterations)),
    ];
    all.into_iter().filter_map(|(name, limit)| Some((name, limit?))).collect()
}
