//! Two tunings side by side.

use bluefin_exporter::db::diff::Diff;
use bluefin_exporter::report::compare::{Best, Compared, Comparison};
use maud::{Markup, html};

use crate::ratios::{Ratio, ratios};
use crate::words::{count, maybe_times, ms, times};

/// Rows of a database without times that are listed.
const ROWS: usize = 100;

/// What is between header and footer.
#[must_use]
pub fn comparison(compared: &Compared) -> Markup {
    let [before, after] = names(&compared.before, &compared.after);
    html! {
        h1 { (before) " and " (after) }
        @if [before, after] != [&compared.before, &compared.after] { p.faint { (compared.before) " and " (compared.after) } }
        p { "What changed from the first to the second. Times that differ by at most " (format!("{:.0} %", 100.0 * compared.noise)) " are tied." }
        @if let Some(winners) = &compared.winners { (winners_of(winners)) }
        @for (name, diff) in &compared.files { (file(name, diff)) }
    }
}

/// Of files the names alone, where those tell them apart.
fn names<'a>(before: &'a str, after: &'a str) -> [&'a str; 2] {
    let [short, other] = [before, after].map(|name| name.rsplit_once('/').map_or(name, |(_, last)| last));
    if short == other { [before, after] } else { [short, other] }
}

fn winners_of(found: &Comparison) -> Markup {
    let best = |best: &Option<Best>| match best {
        Some(best) => html! {
            td { (best.solver) " " @for (name, value) in &best.params { code { (name) "=" (value) } " " } } td.n { (ms(best.time_ms)) }
        },
        None => html! { td { "–" } td {} },
    };
    let dot = |(value, problem): &(f64, String)| Ratio {
        value: *value,
        doubt: None,
        says: format!("{problem}: {}", times(*value)),
    };
    let dots = found.speedups.iter().map(dot).collect();
    html! {
        section #gained aria-label="Gained" {
            h2 { "What was gained" }
            ul.cards {
                li.first { strong { (maybe_times(found.mean_speedup)) } "as fast" br; span.faint { "geometric mean of " (count(found.common)) " problems that both have; "
                    (maybe_times(found.weighted_speedup)) " weighted by how often they are asked for" } }
                li { strong { (count(found.faster)) } "faster" }
                li { strong { (count(found.slower)) } "slower" }
                li { strong { (count(found.tied)) } "tied" br; span.faint { (count(found.switched)) " have another solver" } }
                li { strong { (count(found.new)) } "new, " (count(found.gone)) " gone" }
            }
            @if found.common > 1 { (ratios("Second against first, problem by problem", ["the second tuning against the first", "as fast as before"], dots)) }
        }
        section #problems aria-label="Problems" {
            h2 { "Problems that changed" }
            p.faint { "The slowest first." }
            div.scroll tabindex="0" role="group" aria-label="problems that changed" { table {
                thead { tr { th scope="col" { "problem" } th.n scope="col" { "speedup" } th scope="col" { "before" } th.n scope="col" { "time" } th scope="col" { "after" } th.n scope="col" { "time" } } }
                tbody { @for change in &found.changes { tr {
                    th scope="row" { @match &change.label { Some(label) => span title=(change.problem) { (label) }, None => code { (change.problem) } } } td.n { (maybe_times(change.speedup)) } (best(&change.before)) (best(&change.after))
                } } }
            } }
            @if found.left_out > 0 { p { (found.left_out) " more, which changed less, are left out." } }
        }
    }
}

fn file(name: &str, diff: &Diff) -> Markup {
    let (Diff::Perf(rows) | Diff::Kernel(rows)) = diff else { return Markup::default() };
    html! {
        section aria-label=(name) {
            h2 { (name) }
            p { (count(rows.same)) " rows are the same, " (count(rows.changed)) " changed, " (count(rows.new)) " are new, " (count(rows.gone)) " are gone." }
            div.scroll tabindex="0" role="group" aria-label=(format!("rows of {name}")) { table {
                thead { tr { th scope="col" { "row" } th scope="col" { "before" } th scope="col" { "after" } } }
                tbody { @for row in rows.rows.iter().take(ROWS) { tr {
                    th scope="row" { code { (row.row) } } td { code { (row.before.as_deref().unwrap_or("–")) } } td { code { (row.after.as_deref().unwrap_or("–")) } }
                } } }
            } }
            @if rows.rows.len() > ROWS { p { (rows.rows.len() - ROWS) " more rows are left out." } }
        }
    }
}
