//! The report of a session.

use bluefin_common::session::Stage;
use bluefin_exporter::report::{Gain, Report, Row};
use bluefin_exporter::summary::Winner;
use maud::{Markup, html};

use crate::chart::{Colour, Mark, Shape, TITLED, around, chart, framed, logarithmic, plain, wholes};
use crate::failures::failures;
use crate::problem::problem;
use crate::timeline::time;
use crate::words::{count, maybe_times, ms, ratio, times, when};

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
                    (stage.name()) " " (count(report.progress.done.get(stage.name()).copied().unwrap_or(0))) " of " (count(*planned)) " jobs, "
                } } (count(report.candidates)) " candidates" }
            @for (key, value) in &report.pins { dt { (key) } dd { (value) } }
        }
        @for warning in &report.warnings { p.bad { (warning) } }
        section #gained aria-label="Gained" { h2 { "What was gained" } (gained(report)) }
        section #problems aria-label="Problems" { h2 { "Problems" } (problems(report, link)) }
        section #failures aria-label="Failures" { h2 { "Failures" }
            @if report.failures.total() == 0 { p { "No candidate failed." } } @else { (failures(&report.failures)) } }
        section #time aria-label="Time" { h2 { "Where time went" } (time(&report.time)) }
        section #details aria-label="Details" {
            h2 { "Problems at length" }
            @if report.details.left_out > 0 { p { (count(report.details.left_out)) " problems are not told of at length." } }
            @for detail in report.details.iter() { (problem(detail)) }
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
                    "geometric mean of " (count(gain.problems)) " problems"
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
            li { strong { (count(gains.without_winner)) } "problems without a winner" }
        }
        @if gains.default.problems > 1 { (speedups(report)) }
    }
}

fn speedups(report: &Report) -> Markup {
    let speedup = |row: &Row| row.summary.winner.as_ref()?.speedup_over_default;
    let mut rows: Vec<(f64, &Row)> = report.problems.iter().filter_map(|row| Some((speedup(row)?, row))).collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let edge = |at: Option<&(f64, &Row)>| at.map_or_else(String::new, |(value, _)| times(*value));
    let says = format!("{} problems, from {} down to {}", rows.len(), edge(rows.first()), edge(rows.last()));
    let legend = [
        (Shape::Dot, Colour::First, "gain over the default, with its uncertainty"),
        (Shape::Line, Colour::Second, "as fast as the default"),
    ];
    chart(240, "Against defaults, problem by problem", &says, &legend, None, |root| {
        let gains = || rows.iter().map(|(value, _)| *value).chain([1.0]);
        let Some((low, high)) = around(gains()) else { return Ok(()) };
        // What is in doubt by more than that is drawn as far as there is room.
        let ranges = rows.iter().filter_map(|(_, row)| row.summary.winner.as_ref()?.speedup_over_default_range);
        let ends = ranges.flat_map(|(least, most)| [least.max(low / 1.5), most.min(high * 1.5)]);
        let Some((low, high)) = around(gains().chain(ends)) else { return Ok(()) };
        let end = rows.len() as f64 + 1.0;
        let mut builder = framed(root);
        let mut plot = builder
            .x_label_area_size(TITLED)
            .y_label_area_size(60)
            .build_cartesian_2d(wholes(0.0, end), logarithmic(low, high))?;
        plain(&mut plot.configure_mesh())
            .x_label_formatter(&|value| format!("{value:.0}"))
            .y_label_formatter(&|value| times(*value))
            .x_desc("problems, the largest gain first; the values are in the list of problems")
            .draw()?;
        plot.draw_series([
            Mark::new(vec![(0.0, 1.0), (end, 1.0)], Shape::Line, Colour::Second).telling("as fast as the default")
        ])?;
        let doubt = |(index, (_, row)): (usize, &(f64, &Row))| {
            let (least, most) = row.summary.winner.as_ref()?.speedup_over_default_range?;
            let at = index as f64 + 1.0;
            Some(Mark::new(vec![(at, least.max(low)), (at, most.min(high))], Shape::Line, Colour::First))
        };
        plot.draw_series(rows.iter().enumerate().filter_map(doubt))?;
        plot.draw_series(rows.iter().enumerate().map(|(index, (value, row))| {
            let gain = row.summary.winner.as_ref().and_then(Winner::over_default);
            Mark::new(vec![(index as f64 + 1.0, *value)], Shape::Dot, Colour::First).telling(format!(
                "{}: {}",
                row.summary.label,
                ratio(gain)
            ))
        }))?;
        Ok(())
    })
}

fn problems(report: &Report, link: Option<&dyn Fn(&str) -> String>) -> Markup {
    let told: std::collections::HashSet<_> = report.details.iter().map(|detail| detail.row.digest).collect();
    html! {
        p.faint { "Those without a winner first, then those that take most of the time." }
        div.scroll tabindex="0" role="group" aria-label="list of problems" { table {
            thead { tr { th scope="col" { "problem" } @if report.weighted { th.n scope="col" { "asked for" } } th scope="col" { "winner" } th.n scope="col" { "time" } th.n scope="col" { "±" }
                th.n scope="col" { "GFLOP/s" } th.n scope="col" { "ties" } th.n scope="col" { "vs default" } th.n scope="col" { "vs reference" } th.n scope="col" { "tried" } th.n scope="col" { "failed" } } }
            tbody { @for row in report.problems.iter() { (line(row, report.weighted, place(row, told.contains(&row.digest), link))) } }
        } }
        @if report.problems.left_out > 0 { p { (count(report.problems.left_out)) " more problems are left out; all sums have them." } }
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
            @if weighted { td.n { (count(row.count)) } }
            @if let Some(winner) = &summary.winner {
                td { (winner.solver) " " @for (name, value) in &winner.params { code { (name) "=" (value) } " " } }
                td.n { (ms(winner.median_ms)) } (spread(winner))
                td.n { @if let Some(gflops) = winner.gflops { (format!("{gflops:.1}")) } @else { "–" } } td.n { (winner.ties) }
                td.n { (ratio(winner.over_default())) } td.n { (ratio(winner.over_reference())) }
            } @else {
                td.bad { "none" } td {} td {} td {} td {} td {} td {}
            }
            td.n { (count(summary.tried)) } td.n { (count(failed)) }
        }
    }
}

/// As a share of the time; what is in doubt says why.
fn spread(winner: &Winner) -> Markup {
    let text = format!("{:.1} %", 100.0 * winner.spread_ms / winner.median_ms);
    html! {
        @match &winner.noise { Some(noise) => td.n.bad title=(noise) { "noisy " (text) }, None => td.n { (text) } }
    }
}
