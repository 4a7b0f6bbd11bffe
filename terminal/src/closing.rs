//! The bottom line of a run: what all winners together gained, what to doubt, and where to see more.

use std::path::Path;

use bluefin_common::session::SessionName;
use bluefin_common::spelled::counted;
use bluefin_exporter::report::Gains;
use bluefin_exporter::searched::Searched;
use bluefin_exporter::summary::Summary;

/// A line for each thing that `summaries` say together, and the verbs that show more of the session in `state`.
#[must_use]
pub fn lines(summaries: &[Summary], state: &Path, session: &SessionName) -> String {
    let gains = Gains::of(summaries);
    let mut lines = Vec::new();
    for (gain, over) in [(&gains.default, "default params"), (&gains.reference, "the reference")] {
        if let Some(mean) = gain.told() {
            let count = counted(gain.problems, "problem");
            lines.push(format!(
                "{mean} as fast as {over} (geometric mean of {count}); sum {:.3} ms, before {:.3} ms",
                gain.after_ms, gain.before_ms
            ));
        }
    }
    let winners = summaries.iter().filter_map(|summary| summary.winner.as_ref());
    let without = winners.clone().filter(|winner| winner.speedup_over_default.is_some_and(|gain| gain < 1.005)).count();
    let noisy = winners.filter(|winner| winner.noise.is_some()).count();
    let failed = summaries.iter().filter(|summary| summary.winner.is_none()).count();
    let mut told = vec![counted(summaries.len(), "problem")];
    for (count, what) in [(without, "without a gain over default params"), (failed, "without a winner")] {
        if count > 0 {
            told.push(format!("{count} {what}"));
        }
    }
    if noisy > 0 {
        told.push(format!("{noisy} noisy: this machine was busy"));
    }
    lines.push(told.join("; "));
    lines.extend(searched(summaries));
    if noisy > 0 {
        lines.push("measured again: the same command with --remeasure".to_string());
    }
    let of_session = format!("--state {} --session {session}", state.display());
    lines.push(format!("as a page: bluefin report {of_session} -o report.html"));
    lines.push(format!("every candidate: bluefin results {of_session}"));
    lines.join("\n")
}

/// How much of the tuning spaces was tried, and why no more of them. `None`: nobody searched.
fn searched(summaries: &[Summary]) -> Option<String> {
    let searches: Vec<&Searched> =
        summaries.iter().flat_map(|summary| &summary.searched).filter(|one| one.of > 1).collect();
    let (tried, of): (u64, u64) = (searches.iter().map(|one| one.tried).sum(), searches.iter().map(|one| one.of).sum());
    let ends = [
        ("patience", "stopped as little is left to gain"),
        ("budget", "at the budget"),
        ("behind", "far behind others"),
        ("all", "tried as a whole"),
    ];
    let told = ends.map(|(why, what)| (searches.iter().filter(|one| one.ended == why).count(), what));
    let told: Vec<String> =
        told.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    (of > 0).then(|| {
        let share = 100.0 * tried as f64 / of as f64;
        format!(
            "searched: {tried} of {of} candidates ({share:.1} %); {}: {}",
            counted(searches.len(), "tuning space"),
            told.join(", ")
        )
    })
}
