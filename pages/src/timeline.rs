//! Where time went.

use bluefin_exporter::report::{Lane, Time};
use maud::{Markup, html};
use plotters::element::Text;

use crate::chart::{Chart, Colour, FRAME, Mark, Shape, TICKS, UNTITLED, framed, ink, plain, spans, wholes};
use crate::words::{self, count, counted, long, range, short, when};

/// Timeline, sums, devices and drift.
pub fn time(time: &Time) -> Markup {
    let lanes: Vec<(&String, &Lane, Colour)> = time
        .compilers
        .iter()
        .map(|(name, lane)| (name, lane, Colour::Second))
        .chain(time.evaluators.iter().map(|(name, lane)| (name, lane, Colour::First)))
        .collect();
    html! {
        dl {
            dt { "compiling" } dd { (long(time.compiled_ms)) }
            dt { "on devices" } dd { (long(time.evaluated_ms)) }
            @if time.known > 0 {
                dt { "waiting" } dd { (long(time.waited_to_compile_ms)) " to be compiled, " (long(time.waited_to_evaluate_ms))
                    " for a device; sums over " (counted(time.known, "job")) ", which wait side by side" }
            } @else {
                dt { "waiting" } dd { "not known: the outcomes do not say who worked on them when" }
            }
        }
        @if !lanes.is_empty() { (timeline(&lanes)) }
        @if !time.devices.is_empty() { (devices(time)) }
        @if !time.drift.is_empty() { (drift(time)) }
    }
}

fn timeline(lanes: &[(&String, &Lane, Colour)]) -> Markup {
    let starts = lanes.iter().filter_map(|(_, lane, _)| Some(lane.bins.bins.keys().next()? * lane.bins.width_ms));
    let ends =
        lanes.iter().filter_map(|(_, lane, _)| Some((lane.bins.bins.keys().next_back()? + 1) * lane.bins.width_ms));
    let (start, end) = (starts.min().unwrap_or(0), ends.max().unwrap_or(1));
    let says = format!("{} from {} for {}", counted(lanes.len() as u64, "worker"), when(start), long(end - start));
    let table = html! {
        table {
            thead { tr { th scope="col" { "worker" } th scope="col" { "does" } th.n scope="col" { "jobs" } th.n scope="col" { "busy" } th.n scope="col" { "share" } } }
            tbody { @for (name, lane, colour) in lanes { tr {
                th scope="row" { (name) } td { @if *colour == Colour::Second { "compiles" } @else { "evaluates" } }
                td.n { (count(lane.jobs)) } td.n { (long(lane.busy_ms)) }
                td.n { (format!("{:.0} %", 100.0 * lane.busy_ms as f64 / (end - start).max(1) as f64)) }
            } } }
        }
    };
    let legend = [
        (Shape::Bar { strength: 1.0 }, Colour::Second, "compiles"),
        (Shape::Bar { strength: 1.0 }, Colour::First, "evaluates; the paler, the less busy"),
    ];
    let chart = Chart {
        height: FRAME + 34 * lanes.len() as u32,
        name: "Who was busy when",
        says: &says,
        legend: &legend,
        axis: "",
        table: Some(table),
    };
    chart.drawn(|root, size| {
        let (rows, span) = (lanes.len() as f64, (end - start).max(1) as f64);
        let mut builder = framed(root);
        let mut plot = builder
            .margin_left(30)
            .margin_right(40)
            .x_label_area_size(UNTITLED)
            .build_cartesian_2d(spans(span, size.ticks()), rows..0.0)?;
        let ink = ink();
        plain(&mut plot.configure_mesh())
            .disable_y_mesh()
            .disable_y_axis()
            .x_label_formatter(&|value| format!("+{}", long(*value as u64)))
            .draw()?;
        for (index, (name, lane, colour)) in lanes.iter().enumerate() {
            let y = index as f64;
            let what = if *colour == Colour::Second { "compiles" } else { "evaluates" };
            let told = format!("{} {what}", short(name, size.letters(70) - 10));
            plot.draw_series([Text::new(told, (0.0, y + 0.25), ink.clone())])?;
            let width = lane.bins.width_ms;
            plot.draw_series(lane.bins.bins.iter().map(|(bin, busy)| {
                let from = (bin * width).saturating_sub(start);
                let share = *busy as f64 / width as f64;
                let says = format!("{name}, +{}: busy {:.0} %", long(from), 100.0 * share);
                let strength = (0.2 + 0.8 * share).min(1.0);
                let corners = vec![(from as f64, y + 0.5), ((from + width) as f64, y + 0.95)];
                Mark::new(corners, Shape::Bar { strength }, *colour).telling(says)
            }))?;
        }
        Ok(())
    })
}

fn devices(time: &Time) -> Markup {
    html! {
        h3 { "Devices and clocks" }
        div.scroll tabindex="0" role="group" aria-label="devices" { table.stack {
            thead { tr { th scope="col" { "device" } th.n scope="col" { "jobs" } th scope="col" { "without a job" } th scope="col" { "against the others" } th scope="col" { "clock" } th scope="col" { "held against" } th scope="col" { "temperature" } th scope="col" { "power" } th.n scope="col" { "throttled samples" } th scope="col" { "driver" } } }
            tbody { @for (name, device) in &time.devices { tr {
                th scope="row" { (name) } td.n data-l="jobs" { (count(device.jobs)) }
                td data-l="without a job" { (device.idle.map_or("–".to_string(), |idle| idle.to_string())) }
                td data-l="against the others" { (device.bias.map_or("–".to_string(), |bias| bias.to_string())) }
                td data-l="clock" { (range(device.clock_mhz, "MHz")) }
                td data-l="held against" { (range(device.reference_clock_mhz, "MHz")) }
                td data-l="temperature" { (range(device.celsius, "°C")) }
                td data-l="power" { (range(device.watts, "W")) }
                td.n data-l="throttled samples" { (count(device.throttled)) } td data-l="driver" { (device.driver) }
            } } }
        } }
    }
}

/// The drift that `share` of the candidates are not above.
fn drift_of(time: &Time, share: f64) -> i64 {
    let total: u64 = time.drift.values().sum();
    let wanted = ((share * total as f64).ceil() as u64).max(1);
    let mut below = 0;
    let found = time.drift.iter().find(|(_, amount)| {
        below += **amount;
        below >= wanted
    });
    found.map_or(0, |(percent, _)| *percent)
}

fn drift(time: &Time) -> Markup {
    let total: u64 = time.drift.values().sum();
    let [least, low, median, high, most] = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| drift_of(time, share));
    let mut says = format!(
        "{} timed in both stages: the play-off's times are {} off, those of half of them {}, the median {median:+} %",
        counted(total, "candidate"),
        words::drift((least, most)),
        words::drift((low, high))
    );
    for (stage, clock) in &time.clock_mhz {
        says.push_str(&format!("; clock in {stage} {}", range(Some(*clock), "MHz")));
    }
    let table = html! {
        table {
            thead { tr { th.n scope="col" { "drift" } th.n scope="col" { "candidates" } } }
            tbody { @for (percent, amount) in &time.drift { tr { th.n scope="row" { (format!("{percent:+} %")) } td.n { (count(*amount)) } } } }
        }
    };
    let chart = Chart {
        height: 220,
        name: "Drift: the play-off's time against that of the perf stage",
        says: &says,
        legend: &[],
        axis: "how much longer in the play-off; as high as there are candidates",
        table: Some(table),
    };
    chart.drawn(|root, size| {
        let (low, high) =
            (time.drift.keys().next().copied().unwrap_or(0), time.drift.keys().next_back().copied().unwrap_or(0));
        let most = time.drift.values().copied().max().unwrap_or(1) as f64;
        let mut builder = framed(root);
        let mut plot = builder.margin_right(40).x_label_area_size(UNTITLED).y_label_area_size(60).build_cartesian_2d(
            wholes((low.min(-5) - 1) as f64, (high.max(5) + 1) as f64, size.ticks()),
            wholes(0.0, (most * 1.05).max(2.0), TICKS),
        )?;
        plain(&mut plot.configure_mesh())
            .x_label_formatter(&|value| format!("{value:+.0} %"))
            .y_label_formatter(&|value| format!("{value:.0}"))
            .draw()?;
        plot.draw_series(time.drift.iter().map(|(percent, amount)| {
            let at = *percent as f64;
            Mark::new(vec![(at - 0.4, 0.0), (at + 0.4, *amount as f64)], Shape::Bar { strength: 1.0 }, Colour::First)
                .telling(format!("{percent:+} %: {}", counted(*amount, "candidate")))
        }))?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use bluefin_common::idle::Idle;
    use bluefin_exporter::Bias;
    use bluefin_exporter::report::Device;

    use super::*;

    #[test]
    fn drift_and_clocks_are_ranges() {
        let bias = Some(Bias { percent: 2.34, kernels: 53 });
        let idle = Some(Idle { busy_ms: 900, compilers_ms: 80, tail_ms: 20, ..Idle::default() });
        let device =
            |clock_mhz| Device { jobs: 3, clock_mhz, reference_clock_mhz: clock_mhz, bias, idle, ..Device::default() };
        let mut told = Time::default();
        told.devices = [("a", Some((1700, 1980))), ("b", Some((1410, 1410))), ("c", None)]
            .map(|(name, clock)| (name.to_string(), device(clock)))
            .into();
        told.drift = [(-3, 1), (-1, 4), (0, 8), (2, 5), (7, 1)].into();
        told.clock_mhz = [("perf", (1410, 1980)), ("find", (1700, 1700))].into();
        let page = time(&told).into_string();
        for text in [
            "clock\">1700 to 1980 MHz</td><td data-l=\"held against\">1700 to 1980 MHz</td>",
            "others\">+2.3 % (53 kernels)</td><td data-l=\"clock\">1410 MHz</td><td data-l=\"held against\">1410 MHz</td>",
            "clock\">–</td><td data-l=\"held against\">–</td>",
            "job\">10 %: 8 % for compilers, 2 % for the last jobs of other devices</td><td data-l=\"against the others\">+2.3 %",
            "19 candidates timed in both stages: the play-off's times are -3 % to +7 % off, those of half of them -1 % to +2 %, \
             the median +0 %; clock in find 1700 MHz; clock in perf 1410 to 1980 MHz",
        ] {
            assert!(page.contains(text) || page.contains(&text.replace('\'', "&#39;")), "{text}\n{page}");
        }
    }
}
