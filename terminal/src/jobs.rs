//! The table of jobs: where each is, and in whose hands.

use std::time::Duration;

use bluefin_common::failure::telling_line;
use bluefin_common::spelled::human;
use bluefin_producer::jobs::{Found, JobPlace};

use crate::colour::Tone;
use crate::sheet::{Sheet, cell, number, text, toned};

/// A row for each job, below its problem. A session that all have is not told, unless `all` columns are wanted.
#[must_use]
pub fn sheet(jobs: &[Found], now_ms: u64, all: bool) -> Sheet {
    let several = jobs.windows(2).any(|pair| matches!(pair, [one, other] if one.session != other.session));
    let mut sheet = Sheet::new([
        text("job"),
        text("session").rank(9),
        text("place"),
        text("stage"),
        text("solver").rank(3),
        text("results").rank(6),
        number("attempt").rank(5),
        text("worker").rank(4),
        number("back in").rank(1),
        number("since").rank(1),
        number("took").rank(2),
        text("error").rank(8),
    ])
    .headed("problem");
    for job in jobs {
        let since = |then: Option<u64>| then.map(|then| age(now_ms.saturating_sub(then))).unwrap_or_default();
        let results = job.candidates.iter().map(|(name, count)| format!("{count} {name}"));
        sheet.heading(job.problem.as_deref().unwrap_or("not known any more"));
        sheet.row([
            cell(job.job.get(..12).unwrap_or(&job.job)),
            cell(if several || all { job.session.as_str() } else { "" }),
            toned(job.place.name(), tone(job.place)),
            cell(job.stage.unwrap_or_default()),
            cell(solver(job)),
            cell(results.collect::<Vec<_>>().join(", ")),
            cell(if job.attempts > 1 { job.attempts.to_string() } else { String::new() }),
            cell(job.worker.as_deref().unwrap_or_default()),
            cell(job.until_ms.map(|then| age(then.saturating_sub(now_ms))).unwrap_or_default()),
            cell(since(job.since_ms)),
            cell(job.took_ms.map(age).unwrap_or_default()),
            cell(job.error.as_deref().map(telling_line).unwrap_or_default()),
        ]);
    }
    sheet
}

fn age(millis: u64) -> String {
    human(Duration::from_millis(millis))
}

fn solver(job: &Found) -> String {
    match job.solvers.as_slice() {
        [one] => one.trim_start_matches("Bluefin").to_string(),
        [] => String::new(),
        several => format!("{} solvers", several.len()),
    }
}

fn tone(place: JobPlace) -> Option<Tone> {
    match place {
        JobPlace::Planned | JobPlace::Waiting => None,
        JobPlace::Paused | JobPlace::Delayed => Some(Tone::Waits),
        JobPlace::Compiling | JobPlace::Evaluating | JobPlace::Done => Some(Tone::Good),
        JobPlace::Failed | JobPlace::Dead => Some(Tone::Bad),
    }
}
