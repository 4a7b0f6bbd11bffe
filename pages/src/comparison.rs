//! Two tunings side by side.

use bluefin_exporter::db::diff::Diff;
use bluefin_exporter::report::compare::{Best, Compared, Comparison, Speedup};
use maud::{Markup, html};

use crate::names;
use crate::ratios::{Ratio, ratios};
use crate::words::{count, counted, maybe_times, ms, ratio};

/// Rows of a database without times that are listed.
const ROWS: usize = 100;

/// What the two are called, in short.
#[must_use]
pub fn comparison_title(compared: &Compared) -> String {
    short(&compared.before, &compared.after).join(" and ")
}

/// What is between header and footer.
#[must_use]
pub fn comparison(compared: &Compared) -> Markup {
    let [before, after] = short(&compared.before, &compared.after);
    html! {
        h1 { (comparison_title(compared)) }
        @if [&before, &after] != [&compared.before, &compared.after] { p.faint { (compared.before) " and " (compared.after) } }
        p { "What changed from the first to the second. Times that differ by at most " (format!("{:.0} %", 100.0 * compared.noise)) " are tied." }
        @if let Some(winners) = &compared.winners { (winners_of(winners, &before, &after)) }
        @for (name, diff) in &compared.files { (file(name, diff)) }
    }
}

/// Of files the last parts of their paths: as few as tell the two apart.
fn short(before: &str, after: &str) -> [String; 2] {
    let last = |path: &str, parts: usize| {
        let all: Vec<&str> = path.split('/').collect();
        all.iter().skip(all.len().saturating_sub(parts)).copied().collect::<Vec<_>>().join("/")
    };
    let most = before.split('/').count().max(after.split('/').count());
    let told = (1..=most).map(|parts| [last(before, parts), last(after, parts)]);
    told.clone().find(|[a, b]| a != b).or(told.clone().next()).unwrap_or_default()
}

fn winners_of(found: &Comparison, before: &str, after: &str) -> Markup {
    let best = |best: &Option<Best>, name: &str, other: &str| match best {
        Some(best) => html! {
            td data-l=(name) { (names::solver(&best.solver, best.params.iter().map(|(name, value)| format!("{name}={value}")))) }
            td.n data-l=(other) { (ms(best.time_ms)) }
        },
        None => html! { td data-l=(name) { "–" } td {} },
    };
    let dot = |one: &Speedup| {
        let says = format!("{}: {}", one.name, ratio(Some(one.told())));
        Ratio { value: one.times, doubt: one.range, says }
    };
    let dots = found.speedups.iter().map(dot).collect();
    let title = format!("{after} against {before}, problem by problem");
    let legend = [format!("{after} against {before}, with its uncertainty"), format!("as fast as {before}")];
    html! {
        section #gained aria-label="Gained" {
            h2 { "What was gained" }
            ul.cards {
                li.first { strong { (ratio(found.told())) } "as fast" br; span.faint {
                    @if found.common > 0 { "geometric mean of " (counted(found.common, "problem")) " that both have, " (count(found.switched)) " with another solver; "
                        (maybe_times(found.weighted_speedup)) " weighted by how often they are asked for" } @else { "no problem is in both" }
                } }
                li { strong { (count(found.faster)) } "faster" }
                li { strong { (count(found.slower)) } "slower" }
                li { strong { (count(found.tied)) } "tied" }
                li { strong { (count(found.new)) } "new, " (count(found.gone)) " gone" }
            }
            @if found.common > 1 { (ratios(&title, legend.each_ref().map(String::as_str), dots)) }
        }
        section #problems aria-label="Problems" {
            h2 { "Problems that changed" }
            p.faint { "The slowest first." }
            div.scroll tabindex="0" role="group" aria-label="problems that changed" { table.stack {
                thead { tr { th scope="col" { "problem" } th.n scope="col" { "speedup" } th scope="col" { "before" } th.n scope="col" { "time" } th scope="col" { "after" } th.n scope="col" { "time" } } }
                tbody { @for change in &found.changes { tr {
                    th scope="row" { @match &change.label { Some(label) => span title=(change.problem) { (label) }, None => code { (change.problem) } } } td.n.gain data-l="speedup" { (ratio(change.told())) }
                    (best(&change.before, "before", "time before")) (best(&change.after, "after", "time after"))
                } } }
            } }
            @if found.left_out > 0 { p { (counted(found.left_out as u64, "problem")) " left out, which changed less." } }
        }
    }
}

fn file(name: &str, diff: &Diff) -> Markup {
    let (Diff::Perf(rows) | Diff::Kernel(rows)) = diff else { return Markup::default() };
    html! {
        section aria-label=(name) {
            h2 { (name) }
            p { (counted(rows.same, "row")) " the same, " (count(rows.changed)) " changed, " (count(rows.new)) " new, " (count(rows.gone)) " gone." }
            div.scroll tabindex="0" role="group" aria-label=(format!("rows of {name}")) { table {
                thead { tr { th scope="col" { "row" } th scope="col" { "before" } th scope="col" { "after" } } }
                tbody { @for row in rows.rows.iter().take(ROWS) { tr {
                    th scope="row" { code { (row.row) } } td { code { (row.before.as_deref().unwrap_or("–")) } } td { code { (row.after.as_deref().unwrap_or("–")) } }
                } } }
            } }
            @if rows.rows.len() > ROWS { p { (counted((rows.rows.len() - ROWS) as u64, "more row")) " left out." } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn the_ends_of_paths_tell_two_apart() {
        for (before, after, expected) in [
            ("../a/bluefin.db", "../c/bluefin.db", ["a/bluefin.db", "c/bluefin.db"]),
            ("/x/a.db", "/y/b.db", ["a.db", "b.db"]),
            ("a.db:monday", "a.db:tuesday", ["a.db:monday", "a.db:tuesday"]),
            ("x/a.db", "a.db", ["x/a.db", "a.db"]),
            ("monday", "tuesday", ["monday", "tuesday"]),
            ("x/a.db", "x/a.db", ["a.db", "a.db"]),
        ] {
            assert_eq!(short(before, after), expected);
        }
    }
}
