//! A problem at length.

use bluefin_exporter::report::{Detail, Finalist, Row};
use bluefin_exporter::searched::Searched;
use maud::{Markup, html};
use plotters::element::Text;

use crate::chart::{
    ABOVE, Chart, Colour, FRAME, Mark, ROOM, Shape, Size, UNTITLED, around, framed, ink, logarithmic, plain, wholes,
};
use crate::failures::failures;
use crate::names;
use crate::words::{self, count, counted, ms, range, ratio, short, times};

/// Params whose values are drawn; the table has all.
const DRAWN: usize = 4;

/// A part of its own, which opens where it `is_open`, and where a link leads into it.
pub fn problem(detail: &Detail, is_open: bool) -> Markup {
    let row = &detail.row;
    html! {
        details.problem open[is_open] {
            summary { h3 { (row.summary.label) } " " span.faint { (in_short(row)) } }
            div id=(format!("p-{}", row.digest.short())) { (at_length(detail)) }
        }
    }
}

/// What came of it, in a few words.
fn in_short(row: &Row) -> String {
    match &row.summary.winner {
        Some(winner) => {
            let gain = winner.over_default().map(|gain| format!(", {} vs default", ratio(Some(gain))));
            format!("{}{}", ms(winner.median_ms), gain.unwrap_or_default())
        }
        None if row.under_way => "under way".to_string(),
        None => "no winner".to_string(),
    }
}

fn at_length(detail: &Detail) -> Markup {
    let row = &detail.row;
    html! {
        p { code { (row.summary.problem) } }
        dl {
            dt { "kernels" } dd { (row.summary.spec) }
            dt { "asked for" } dd { (row.count) }
            dt { "candidates" } dd { (row.summary.tried) " tried, " (detail.timed) " timed, " (detail.failures.total()) " failed" }
            @if let Some(winner) = &row.summary.winner {
                dt { "winner" } dd { (names::winner(winner)) }
                dt { "time" } dd { (ms(winner.median_ms)) " ± " (ms(winner.spread_ms))
                    @if winner.ties > 0 { ", ties with " (winner.ties) }
                    @if let Some(gflops) = winner.gflops { ", " (format!("{gflops:.1}")) " GFLOP/s" } }
                dt { "against" } dd { "default " (ratio(winner.over_default())) ", reference "
                    (ratio(winner.over_reference())) }
                @if let Some(noise) = &winner.noise { dt { "in doubt" } dd.bad { (noise) } }
            } @else if row.under_way {
                dt { "winner" } dd { "under way" }
            } @else {
                dt { "winner" } dd.bad { "none" }
            }
            @if detail.clock_mhz.is_some() { dt { "clock" } dd { (range(detail.clock_mhz, "MHz")) } }
            @if let Some(drift) = detail.drift { dt { "drift" } dd { (words::drift(drift)) " in the play-off" } }
        }
        @if !row.summary.searched.is_empty() { (searched(&row.summary.searched)) }
        @if !detail.solvers.is_empty() { (spread(detail)) }
        @if detail.best_so_far.len() > 1 { (best_so_far(detail)) }
        @if !detail.params.is_empty() { (params(detail)) }
        @if !detail.finalists.is_empty() { (finalists(&detail.finalists)) }
        @if detail.failures.total() > 0 { details { summary { "Failures: " (detail.failures.total()) } (failures(&detail.failures)) } }
    }
}

/// How the search of each solver ended.
fn searched(solvers: &[Searched]) -> Markup {
    html! {
        details {
            summary { "Search: " (counted(solvers.iter().map(|one| one.tried).sum(), "candidate")) " tried" }
            div.scroll tabindex="0" role="group" aria-label="searches of solvers" { table.stack {
                thead { tr { th scope="col" { "solver" } th.n scope="col" { "tried" } th.n scope="col" { "of" }
                    th.n scope="col" { "share" } th scope="col" { "ended by" } th.n scope="col" { "expected gain" } } }
                tbody { @for one in solvers { tr {
                    th scope="row" { (names::name(&one.solver)) } td.n data-l="tried" { (count(one.tried)) } td.n data-l="of" { (count(one.of)) }
                    td.n data-l="share" { (format!("{:.1} %", one.share_percent())) } td data-l="ended by" { (one.ended) }
                    td.n data-l="expected gain" { (one.expected_gain_percent.map_or_else(|| "–".to_string(), |gain| format!("{gain:.2} %"))) }
                } } }
            } }
            p { "Expected gain: of the best time of the solver, if as many candidates are tried again." }
        }
    }
}

fn spread(detail: &Detail) -> Markup {
    let best = detail.solvers.first();
    let says = format!(
        "{}, fastest first; the fastest is {} with {}",
        counted(detail.solvers.len() as u64, "solver"),
        best.map_or("", |one| &one.solver),
        best.map_or_else(String::new, |one| ms(one.quantiles[0]))
    );
    const QUANTILES: [&str; 5] = ["least", "quartile", "median", "quartile", "most"];
    let table = html! {
        table.stack {
            thead { tr { th scope="col" { "solver" } th.n scope="col" { "timed" } th.n scope="col" { "only probed" }
                @for name in QUANTILES.iter().chain(&["default"]) { th.n scope="col" { (name) } } } }
            tbody { @for one in &detail.solvers { tr {
                th scope="row" { (names::name(&one.solver)) } td.n data-l="timed" { (one.timed) } td.n data-l="only probed" { (one.pruned) }
                @for (name, value) in QUANTILES.iter().zip(one.quantiles) { td.n data-l=(name) { (ms(value)) } }
                td.n data-l="default" { (one.default_ms.map_or_else(|| "–".to_string(), ms)) }
            } } }
        }
        @if detail.solvers_left_out > 0 { p { (counted(detail.solvers_left_out as u64, "more solver")) " left out." } }
    };
    let height = FRAME + 44 * detail.solvers.len() as u32;
    let legend = [
        (Shape::Ring, Colour::First, "candidate"),
        (Shape::Bar { strength: 0.25 }, Colour::First, "the middle half"),
        (Shape::Square, Colour::Second, "default"),
        (Shape::Dot, Colour::Third, "fastest"),
    ];
    let name = "Times of candidates by solver";
    let chart = Chart { height, name, says: &says, legend: &legend, axis: "time, logarithmic", table: Some(table) };
    chart.drawn(|root, size| {
        let all = detail.solvers.iter().flat_map(|one| one.quantiles);
        let Some((low, high)) = around(all) else { return Ok(()) };
        let rows = detail.solvers.len() as f64;
        let mut builder = framed(root);
        let mut plot = builder
            .margin_left(30)
            .margin_right(40)
            .x_label_area_size(UNTITLED)
            .build_cartesian_2d(logarithmic(low, high, size.room()), rows..0.0)?;
        let ink = ink();
        plain(&mut plot.configure_mesh())
            .disable_y_mesh()
            .disable_y_axis()
            .x_label_formatter(&|value| ms(*value))
            .draw()?;
        for (index, one) in detail.solvers.iter().enumerate() {
            let y = index as f64;
            let [least, q1, median, q3, most] = one.quantiles;
            let says = format!(
                "{}: median {}, quartiles {} and {}, {} to {}",
                one.solver,
                ms(median),
                ms(q1),
                ms(q3),
                ms(least),
                ms(most)
            );
            plot.draw_series([Text::new(short(&one.solver, size.letters(60)), (low * 1.002, y + 0.22), ink.clone())])?;
            plot.draw_series([
                Mark::new(vec![(least, y + 0.7), (most, y + 0.7)], Shape::Line, Colour::First).telling(says.clone()),
                Mark::new(vec![(q1, y + 0.5), (q3, y + 0.9)], Shape::Bar { strength: 0.25 }, Colour::First)
                    .telling(says.clone()),
                Mark::new(vec![(median, y + 0.5), (median, y + 0.9)], Shape::Line, Colour::First).telling(says),
            ])?;
            plot.draw_series(one.points.iter().step_by(if size == Size::Wide { 1 } else { 2 }).map(|point| {
                Mark::new(vec![(point.ms, y + 0.7)], Shape::Ring, Colour::First).telling(format!(
                    "{} {}",
                    ms(point.ms),
                    point.params
                ))
            }))?;
            plot.draw_series(one.default_ms.map(|value| {
                Mark::new(vec![(value, y + 0.7)], Shape::Square, Colour::Second)
                    .telling(format!("default: {}", ms(value)))
            }))?;
        }
        plot.draw_series(detail.solvers.first().map(|one| {
            let least = one.quantiles[0];
            Mark::new(vec![(least, 0.7)], Shape::Dot, Colour::Third).telling(format!("fastest: {}", ms(least)))
        }))?;
        Ok(())
    })
}

fn best_so_far(detail: &Detail) -> Markup {
    let steps = &detail.best_so_far;
    let (first, last) = (steps.first().map_or(0.0, |step| step.ms), steps.last().map_or(0.0, |step| step.ms));
    let says = format!(
        "from {} to {} over {}, in {}",
        ms(first),
        ms(last),
        counted(detail.timed as u64, "candidate"),
        counted(steps.len() as u64, "step")
    );
    let table = html! {
        table.stack {
            thead { tr { th.n scope="col" { "candidate" } th.n scope="col" { "best" } th scope="col" { "solver" } th scope="col" { "params" } } }
            tbody { @for step in steps { tr { th.n scope="row" { (step.candidate) } td.n data-l="best" { (ms(step.ms)) } td data-l="solver" { (names::name(&step.solver)) } td data-l="params" { (names::params(&step.params)) } } } }
        }
    };
    let (name, axis) = ("Best so far", "candidates");
    Chart { height: 240, name, says: &says, legend: &[], axis, table: Some(table) }.drawn(|root, size| {
        let Some((low, high)) = around(steps.iter().map(|step| step.ms)) else { return Ok(()) };
        let end = detail.timed as f64 + 1.0;
        let mut builder = framed(root);
        let mut plot = builder
            .x_label_area_size(UNTITLED)
            .y_label_area_size(76)
            .build_cartesian_2d(wholes(0.0, end, size.ticks()), logarithmic(low, high, ROOM))?;
        plain(&mut plot.configure_mesh())
            .x_label_formatter(&|value| format!("{value:.0}"))
            .y_label_formatter(&|value| ms(*value))
            .draw()?;
        let mut line = Vec::new();
        for step in steps {
            let at = step.candidate as f64;
            line.extend(line.last().map(|(_, before)| (at, *before)));
            line.push((at, step.ms));
        }
        line.push((end, last));
        plot.draw_series([Mark::new(line, Shape::Line, Colour::First)])?;
        plot.draw_series(steps.iter().map(|step| {
            let says = format!("candidate {}: {} {} {}", step.candidate, ms(step.ms), step.solver, step.params);
            Mark::new(vec![(step.candidate as f64, step.ms)], Shape::Dot, Colour::First).telling(says)
        }))?;
        Ok(())
    })
}

fn params(detail: &Detail) -> Markup {
    let drawn: Vec<_> = detail.params.iter().take(DRAWN).collect();
    let solver = detail.row.summary.winner.as_ref().map_or("", |winner| &winner.solver);
    let effects: Vec<String> = drawn.iter().map(|one| format!("{} {}", one.name, times(one.effect))).collect();
    let says = format!("the best time of the worst value by that of the best: {}", effects.join(", "));
    let table = html! {
        table {
            thead { tr { th scope="col" { "param" } th scope="col" { "value" } th.n scope="col" { "candidates" } th.n scope="col" { "best" } th.n scope="col" { "median" } } }
            tbody { @for one in &detail.params { @for value in &one.values { tr {
                th scope="row" { (names::name(&one.name)) } td { code { (value.value) } } td.n { (value.candidates) } td.n { (ms(value.best_ms)) } td.n { (ms(value.median_ms)) }
            } } @if one.values_left_out > 0 { tr { td colspan="5" { (one.name) ": " (counted(one.values_left_out as u64, "more value")) " left out." } } } } }
        }
    };
    let name = format!("What params of {solver} do");
    let legend = [(Shape::Dot, Colour::First, "best of a value"), (Shape::Ring, Colour::First, "median of a value")];
    let rows: usize = drawn.iter().map(|one| one.values.len() + 1).sum();
    let height = FRAME + 18 * rows as u32;
    let axis = "time, logarithmic";
    let chart = Chart { height, name: &name, says: &says, legend: &legend, axis, table: Some(table) };
    let chart = chart.drawn(|root, size| {
        let values = || drawn.iter().flat_map(|one| &one.values);
        let Some((low, high)) = around(values().flat_map(|value| [value.best_ms, value.median_ms])) else {
            return Ok(());
        };
        // Room for names and values, and for labels of ticks.
        let (left, letters, room) = if size == Size::Wide { (200, 26, size.room()) } else { (130, 14, 3.0) };
        let mut builder = framed(root);
        let mut plot = builder
            .margin_right(40)
            .margin_left(left)
            .x_label_area_size(UNTITLED)
            .build_cartesian_2d(logarithmic(low, high, room), rows as f64..0.0)?;
        let ink = ink();
        plain(&mut plot.configure_mesh())
            .disable_y_mesh()
            .disable_y_axis()
            .x_label_formatter(&|value| ms(*value))
            .draw()?;
        let mut y = 0.0;
        for one in &drawn {
            root.draw(&Text::new(
                short(&one.name, letters + 4),
                (8, ABOVE as i32 + (18.0 * (y + 0.5)) as i32),
                ink.clone(),
            ))?;
            y += 1.0;
            for value in &one.values {
                let name = short(&value.value, letters);
                root.draw(&Text::new(name.clone(), (28, ABOVE as i32 + (18.0 * (y + 0.5)) as i32), ink.clone()))?;
                let says = format!("{}={name}: best {}, median {}", one.name, ms(value.best_ms), ms(value.median_ms));
                let middle = y + 0.5;
                plot.draw_series([
                    Mark::new(vec![(value.best_ms, middle), (value.median_ms, middle)], Shape::Line, Colour::Faint),
                    Mark::new(vec![(value.median_ms, middle)], Shape::Ring, Colour::First).telling(says.clone()),
                    Mark::new(vec![(value.best_ms, middle)], Shape::Dot, Colour::First).telling(says),
                ])?;
                y += 1.0;
            }
        }
        Ok(())
    });
    html! { (chart) (left_out(detail)) }
}

/// Params that the chart does not show.
fn left_out(detail: &Detail) -> Markup {
    let undrawn = detail.params.len().saturating_sub(DRAWN);
    html! {
        @if undrawn > 0 { p.faint {
            "Drawn are the " (DRAWN) " that matter most; " (undrawn) " more among the values"
            @if detail.params_left_out > 0 { "; " (counted(detail.params_left_out as u64, "param")) " left out" }
            "."
        } }
    }
}

fn finalists(finalists: &[Finalist]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="fastest candidates" {
            table.stack {
                caption.faint { "The fastest, as they were timed last" }
                thead { tr { th scope="col" { "solver" } th scope="col" { "params" } th.n scope="col" { "time" } th.n scope="col" { "±" } th.n scope="col" { "samples" } th scope="col" { "" } } }
                tbody { @for one in finalists { tr {
                    th scope="row" { (names::name(&one.solver)) } td data-l="params" { (names::params(&one.params)) }
                    td.n data-l="time" { (ms(one.median_ms)) } td.n data-l="±" { (ms(one.spread_ms)) } td.n data-l="samples" { (one.samples) }
                    td data-l="is" { @if one.is_winner { "winner" } @else if one.ties { "tie" } }
                } } }
            }
        }
    }
}
