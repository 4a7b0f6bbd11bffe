//! The first page: how fast it goes, all sessions with their progress, what happened, who works, what waits.

use std::collections::BTreeMap;

use bluefin_common::roster::Whereabouts;
use bluefin_common::session::{Session, Stage};
use bluefin_common::store::Progress;
use maud::{Markup, html};

use super::found::{Found, candidates, failed, jobs};
use super::history::STEP_MS;
use super::watch::{Look, Pace};
use crate::words::{count, long, when};

/// Events that are shown.
const EVENTS: usize = 30;
const MINUTE_MS: u64 = 60_000;

pub fn page(look: &Look) -> Markup {
    let found = match &look.found {
        Ok(found) => found,
        Err(reason) => return html! { h1 { "Sessions" } p.bad role="alert" { "away: " (reason) } },
    };
    html! {
        h1 { "Sessions" }
        (cards(found, look))
        @if found.sessions.is_empty() { p { "There is none yet." } } @else { (sessions(found, look)) }
        @if found.left_out > 0 { p { (found.left_out) " older sessions are left out." } }
        h2 { "The last hour" }
        noscript { p { "Charts of the last hour are drawn by a script." } }
        div.live #charts data-keep { p.faint { "The first points are there in half a minute." } }
        h2 { "What happened" }
        @if look.events.is_empty() { p { "Nothing in the last hour." } } @else { ul.feed {
            @for event in look.events.iter().take(EVENTS) { li data-row {
                (age(event.at_ms)) " "
                @match &event.place { Some(place) => a href=(place) { (event.who) }, None => strong { (event.who) } }
                " " span.bad[event.is_bad] { (event.what) }
            } }
        } }
        h2 { "Failures" }
        (failures(&found.sessions))
        h2 { "Workers" }
        @if found.workers.is_empty() { p { "None has said that it is here." } } @else { (workers(found, &look.paces.workers)) }
        h2 { "Queues" }
        @match &found.queues {
            None => p { "No broker is named." },
            Some(Err(reason)) => p.bad role="alert" { "away: " (reason) },
            Some(Ok(queues)) => div.scroll tabindex="0" role="group" aria-label="queues" { table {
                thead { tr { th scope="col" { "queue" } th.n scope="col" { "waiting" } } }
                tbody { @for (name, depth) in queues { tr data-row { th scope="row" { (name) } td.n { (count(*depth)) } } } }
            } },
        }
    }
}

/// When something was: an age, which the page's script counts on.
fn age(ms: u64) -> Markup {
    html! { time datetime=(stamp(ms)) { (when(ms)) } }
}

/// For how long something goes on, which the page's script counts on.
fn lasting(since_ms: u64) -> Markup {
    html! { time data-lasts datetime=(stamp(since_ms)) { "since " (when(since_ms)) } }
}

fn stamp(ms: u64) -> String {
    when(ms).replace(" UTC", "Z").replacen(' ', "T", 1)
}

/// The numbers that matter.
fn cards(found: &Found, look: &Look) -> Markup {
    let here = found.workers.iter().filter(|worker| worker.whereabouts(found.now_ms).is_here());
    let working = here.clone().filter(|worker| worker.whereabouts(found.now_ms) == Whereabouts::Working).count();
    let going = look.paces.sessions.iter().filter(|pace| pace.goes_on).count();
    let waiting = match &found.queues {
        Some(Ok(queues)) => Some(count(queues.values().sum())),
        Some(Err(_)) => Some("away".to_string()),
        None => None,
    };
    let rate = look.rate.map_or_else(|| "–".to_string(), |(rate, _)| count(rate.round() as u64));
    html! {
        ul.cards {
            li { strong { (going) " of " (found.sessions.len()) } @if found.sessions.len() == 1 { "session goes on" } @else { "sessions go on" } }
            @if !found.workers.is_empty() { li { strong { (working) " of " (here.count()) } "workers have a job" } }
            li { strong { (rate) } "candidates a minute" @if let Some((_, over_ms)) = look.rate { br; span.faint { "over the last " (long(over_ms)) } } }
            @if let Some(waiting) = waiting { li { strong { (waiting) } "messages wait" } }
        }
    }
}

/// Who works, and who is gone.
fn workers(found: &Found, shares: &[Option<f64>]) -> Markup {
    let shares = shares.iter().copied().chain(std::iter::repeat(None));
    html! {
        div.scroll tabindex="0" role="group" aria-label="workers" { table.stack {
            thead { tr { th scope="col" { "worker" } th scope="col" { "step" } th scope="col" { "serves" } th scope="col" { "state" } th scope="col" { "on" }
                th scope="col" { "busy" } th.n scope="col" { "done" } th.n scope="col" { "given up" } th scope="col" { "seen" } } }
            tbody { @for (worker, share) in found.workers.iter().zip(shares) {
                @let at = worker.whereabouts(found.now_ms);
                @let settled = |name: &str| worker.settled.get(name).copied().unwrap_or(0);
                tr data-row {
                    th.line scope="row" { (worker.worker) } td data-l="step" { (worker.step) } td.line data-l="serves" { (worker.serves.join(" ")) }
                    td data-l="state" { span.line.bad[at == Whereabouts::Gone] { (at.name()) } @if let Some(reason) = &worker.waits { ": " (reason) } }
                    td data-l="on" { @if at.is_here() && let Some(doing) = worker.doing.first() {
                        @match doing.digest {
                            Some(digest) => a href=(format!("/session/{}/{digest}", doing.session)) { (doing.problem) },
                            None => (doing.problem),
                        }
                        span.faint { ", " (lasting(doing.since_ms)) }
                        @if worker.in_hand > 1 { span.faint { ", and " (worker.in_hand - 1) " more" } }
                    } }
                    td.line data-l="busy" { @if at.is_here() && let Some(share) = share { (bar(share, 100.0, "busy in the last five minutes", &format!("{share:.0} %"))) } }
                    td.n data-l="done" { (count(settled("done"))) } td.n data-l="given up" { (count(settled("dead"))) } td data-l="seen" { (age(worker.seen_ms)) }
                }
            } }
        } }
    }
}

/// How much of `whole` is done, as a bar and in words.
fn bar(part: f64, whole: f64, name: &str, words: &str) -> Markup {
    html! { progress value=(part) max=(whole.max(1.0)) aria-label=(name) {} " " span.faint.n { (words) } }
}

fn sessions(found: &Found, look: &Look) -> Markup {
    let of = |counts: &BTreeMap<String, u64>, stage: Stage| counts.get(stage.name()).copied().unwrap_or(0);
    let in_words = |progress: &Progress| {
        let told = |stage: Stage| {
            format!("{} {} / {}", stage.name(), count(of(&progress.done, stage)), count(of(&progress.planned, stage)))
        };
        [Stage::Perf, Stage::Find]
            .into_iter()
            .filter(|stage| of(&progress.planned, *stage) > 0)
            .map(told)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let named = |progress: &Progress, name: &str| progress.candidates.get(name).copied().unwrap_or(0);
    let nothing = Pace::default();
    let paces = look.paces.sessions.iter().chain(std::iter::repeat(&nothing));
    html! {
        div.scroll tabindex="0" role="group" aria-label="sessions" { table.stack {
            thead { tr { th scope="col" { "session" } th scope="col" { "target" } th scope="col" { "state" } th scope="col" { "jobs" }
                th scope="col" { "left" } th scope="col" { "pace" } th.n scope="col" { "problems" } th.n scope="col" { "timed" } th.n scope="col" { "pruned" } th.n scope="col" { "failed" }
                th.n scope="col" { "on devices" } th scope="col" { "made" } } }
            tbody { @for ((session, progress), at) in found.sessions.iter().zip(paces) {
                @let (done, planned) = jobs(progress);
                tr data-row {
                    th scope="row" { a href=(format!("/session/{}", session.name)) { (session.name) } @if !session.label.is_empty() { br; span.faint { (session.label) } } }
                    td data-l="target" { (session.target) @if session.method.to_string() != "kernels" { br; span.faint { (session.method) } } }
                    td data-l="state" { @if at.waits { "waits" br; span.faint.line { "nobody is at it" } } @else { (found.state(session, progress)) } }
                    td data-l="jobs" { @if planned > 0 { (bar(done as f64, planned as f64, "jobs that are done, of those that are planned", &in_words(progress))) } }
                    td data-l="left" { @if let Some(left_ms) = at.left_ms { (about(left_ms)) } }
                    td data-l="pace" { (pace(session, &at.steps)) }
                    td.n data-l="problems" { (count(progress.groups.saturating_sub(progress.unsettled_groups))) " / " (count(progress.groups)) }
                    td.n data-l="timed" { (count(named(progress, "timed"))) } td.n data-l="pruned" { (count(named(progress, "pruned"))) }
                    td.n data-l="failed" { (count(failed(progress).map(|(_, amount)| amount).sum())) @if let Some(share) = share_failed(progress) { span.faint { " (" (share) ")" } } }
                    td.n data-l="on devices" { (long(progress.busy_ms.values().sum())) } td data-l="made" { (age(session.created_ms)) }
                }
            } }
        } }
    }
}

/// Of all candidates, where some failed.
fn share_failed(progress: &Progress) -> Option<String> {
    let (all, failed) = (candidates(progress), failed(progress).map(|(_, amount)| amount).sum::<u64>());
    (failed > 0).then(|| match failed * 100 / all.max(1) {
        0 => "<1 %".to_string(),
        percent => format!("{percent} %"),
    })
}

/// A time that nobody knows to the second: `about 4m`.
fn about(ms: u64) -> String {
    match ms.div_ceil(MINUTE_MS) {
        0 | 1 => "under 1m".to_string(),
        minutes if minutes < 10 => format!("about {minutes}m"),
        minutes if minutes < 120 => format!("about {}m", minutes.div_ceil(5) * 5),
        minutes => format!("about {}h", minutes.div_ceil(60)),
    }
}

/// Candidates at each step of the last hour, as a line.
fn pace(session: &Session, steps: &[u64]) -> Markup {
    const HEIGHT: f64 = 24.0;
    let most = steps.iter().copied().max().unwrap_or(0);
    if most == 0 {
        return html! {};
    }
    let wide = (steps.len().max(2) - 1) as f64;
    let points = steps.iter().enumerate().map(|(at, amount)| {
        let y = HEIGHT - 2.0 - *amount as f64 / most as f64 * (HEIGHT - 4.0);
        format!("{:.1},{y:.1}", at as f64 / wide * 100.0)
    });
    let says = format!(
        "{} candidates in the last {}, {} a minute at most",
        count(steps.iter().sum()),
        long(steps.len() as u64 * STEP_MS),
        count(most * MINUTE_MS / STEP_MS)
    );
    html! {
        svg.spark viewBox=(format!("0 0 100 {HEIGHT}")) preserveAspectRatio="none" role="img" aria-label=(format!("pace of {}: {says}", session.name)) {
            title { (says) }
            desc { (says) }
            polyline.l.c2 points=(points.collect::<Vec<_>>().join(" ")) vector-effect="non-scaling-stroke" {}
        }
    }
}

fn failures(sessions: &[(Session, Progress)]) -> Markup {
    if sessions.iter().all(|(_, progress)| failed(progress).next().is_none()) {
        return html! { p { "No candidate failed." } };
    }
    html! {
        ul { @for (session, progress) in sessions { @for (kind, amount) in failed(progress) { li data-row {
            a href=(format!("/session/{}#failures", session.name)) { (session.name) } ": " (count(amount)) " " (kind)
        } } } }
    }
}

#[cfg(test)]
mod tests {
    use super::about;

    #[test]
    fn what_is_left_is_told_as_coarsely_as_it_is_known() {
        let minute = 60_000;
        let told = [0, minute, 3 * minute + 1, 41 * minute, 119 * minute, 200 * minute].map(about);
        assert_eq!(told, ["under 1m", "under 1m", "about 4m", "about 45m", "about 120m", "about 4h"]);
    }
}
