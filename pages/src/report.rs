//! The report of a session.

use bluefin_common::session::Stage;
use bluefin_exporter::report::{Gain, Report, Row};
use bluefin_exporter::summary::Winner;
use maud::{Markup, html};

use crate::failures::failures;
use crate::names;
use crate::problem::problem;
use crate::ratios::{Ratio, ratios};
use crate::timeline::time;
use crate::words::{count, counted, maybe_times, ms, ratio, when};

/// Names of the parts of a report, for links to them.
#[must_use]
pub fn parts() -> Vec<(String, String)> {
    let parts = [
        ("gained", "Gained"),
        ("problems", "Problems"),
        ("failures", "Failures"),
        ("time", "Time"),
        ("details", "Details"),
    ];
    parts.map(|(id, name)| (format!("#{id}"), name.to_string())).into()
}

/// What is between header and footer. `link` is where a problem that is not told of here at length is told of, given its digest.
#[must_use]
pub fn report(report: &Report, link: Option<&dyn Fn(&str) -> String>) -> Markup {
    let session = &report.session;
    html! {
        h1 { "Session " (session.name) }
        p { (session.label) }
        dl {
            dt { "target" } dd { (session.target) }
            dt { "tuner" } dd { (session.method) }
            dt { "made" } dd { (when(session.created_ms)) }
            dt { "state" } dd { (report.progress.state()) ": "
                @for stage in Stage::ALL { @if let Some(planned) = report.progress.planned.get(stage.name()) {
                    (stage.name()) " " (count(report.progress.done.get(stage.name()).copied().unwrap_or(0))) " of " (counted(*planned, "job")) ", "
                } } (counted(report.candidates, "candidate")) }
            @for (key, value) in &report.pins { dt { (key) } dd { (value) } }
        }
        @if report.unfinished > 0 { p { (count(report.unfinished)) " of " (counted(report.groups, "problem")) " not finished yet." } }
        @for warning in &report.warnings { p.bad { (warning) } }
        section #gained aria-label="Gained" { h2 { "What was gained" } (gained(report)) }
        section #problems aria-label="Problems" { h2 { "Problems" } (problems(report, link)) }
        section #failures aria-label="Failures" { h2 { "Failures" }
            @if report.failures.total() == 0 { p { "No candidate failed." } } @else { (failures(&report.failures)) } }
        section #time aria-label="Time" { h2 { "Where time went" } (time(&report.time)) }
        section #details aria-label="Details" {
            h2 { "Problems at length" }
            @if report.details.left_out > 0 { p { (counted(report.details.left_out, "problem")) " not told of at length." } }
            @for detail in report.details.iter() { (problem(detail, report.details.iter().len() == 1)) }
        }
    }
}

fn gained(report: &Report) -> Markup {
    let gains = &report.gains;
    let card = |name: &str, gain: &Gain, class: Option<&str>| {
        html! {
            li class=[class] {
                strong { (ratio(gain.told())) } "as fast as " (name)
                br; span.faint {
                    @if gain.problems > 0 { "geometric mean of " (counted(gain.problems, "problem")) } @else { "no problem has both times" }
                    @if report.weighted { "; " (maybe_times(gain.weighted_mean())) " weighted by how often they are asked for" }
                    @if gain.problems > 0 { "; " (ms(gain.before_ms)) " → " (ms(gain.after_ms)) " in all" }
                }
            }
        }
    };
    html! {
        ul.cards {
            (card("defaults", &gains.default, Some("first")))
            (card("the reference", &gains.reference, None))
            @if gains.under_way > 0 { li { strong { (count(gains.under_way)) } (noun(gains.under_way)) " under way, without a winner yet" } }
            @if gains.under_way == 0 || gains.without_winner > 0 { li { strong { (count(gains.without_winner)) } (noun(gains.without_winner)) " without a winner" } }
        }
        @if gains.default.problems > 1 { (speedups(report)) }
    }
}

fn noun(problems: u64) -> &'static str {
    if problems == 1 { "problem" } else { "problems" }
}

fn speedups(report: &Report) -> Markup {
    let gain = |row: &Row| {
        let winner = row.summary.winner.as_ref()?;
        let says = format!("{}: {}", row.summary.label, ratio(winner.over_default()));
        Some(Ratio { value: winner.speedup_over_default?, doubt: winner.speedup_over_default_range, says })
    };
    let legend = ["gain over the default, with its uncertainty", "as fast as the default"];
    ratios("Against defaults, problem by problem", legend, report.problems.iter().filter_map(gain).collect())
}

fn problems(report: &Report, link: Option<&dyn Fn(&str) -> String>) -> Markup {
    let told: std::collections::HashSet<_> = report.details.iter().map(|detail| detail.row.digest).collect();
    html! {
        p.faint { "Those without a winner first, then those that take most of the time." }
        div.scroll tabindex="0" role="group" aria-label="list of problems" { table.stack {
            thead { tr { th scope="col" { "problem" } @if report.weighted { th.n scope="col" { "asked for" } } th scope="col" { "winner" } th.n scope="col" { "time" } th.n scope="col" { "±" }
                th.n.less scope="col" { "GFLOP/s" } th.n.less scope="col" { "ties" } th.n scope="col" { "vs default" } th.n scope="col" { "vs reference" } th.n.less scope="col" { "tried" } th.n.less scope="col" { "failed" } } }
            tbody { @for row in report.problems.iter() { (line(row, report.weighted, place(row, told.contains(&row.digest), link))) } }
        } }
        p.paper { "On paper: the first 20 problems. All of them, those at length, and who did what when are in the page itself." }
        @if report.problems.left_out > 0 { p { (counted(report.problems.left_out, "more problem")) " left out; all sums have them." } }
    }
}

fn place(row: &Row, is_told: bool, link: Option<&dyn Fn(&str) -> String>) -> Option<String> {
    if is_told { Some(format!("#p-{}", row.digest.short())) } else { link.map(|link| link(&row.digest.to_string())) }
}

fn line(row: &Row, weighted: bool, place: Option<String>) -> Markup {
    let summary = &row.summary;
    let failed: u64 = summary.failed.values().sum();
    html! {
        tr {
            th scope="row" { @match place { Some(place) => a href=(place) { (summary.label) }, None => (summary.label) } }
            @if weighted { td.n data-l="asked for" { (count(row.count)) } }
            @if let Some(winner) = &summary.winner {
                td.winner data-l="winner" { (names::winner(winner)) }
                td.n data-l="time" { (ms(winner.median_ms)) } (spread(winner))
                td.n.less data-l="GFLOP/s" { @if let Some(gflops) = winner.gflops { (format!("{gflops:.1}")) } @else { "–" } } td.n.less data-l="ties" { (winner.ties) }
                td.n.gain data-l="vs default" { (ratio(winner.over_default())) } td.n.gain data-l="vs reference" { (ratio(winner.over_reference())) }
            } @else {
                td.bad[!row.under_way] data-l="winner" { @if row.under_way { "under way" } @else { "none" } }
                td {} td {} td.less {} td.less {} td {} td {}
            }
            td.n.less data-l="tried" { (count(summary.tried)) } td.n.less data-l="failed" { (count(failed)) }
        }
    }
}

/// As a share of the time; what is in doubt says why.
fn spread(winner: &Winner) -> Markup {
    let text = format!("{:.1} %", 100.0 * winner.spread_ms / winner.median_ms);
    html! {
        @match &winner.noise {
            Some(noise) => td.n.bad data-l="±" title=(noise) { "noisy " (text) },
            None => td.n data-l="±" { (text) },
        }
    }
}
