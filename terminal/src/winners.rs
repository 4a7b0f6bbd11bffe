//! The closing table: for each problem the winner and what tuning gained.

use crate::colour::Tone;
use crate::sheet::{Cell, Column, Sheet, cell, number, text, toned};
use bluefin_exporter::summary::{Summary, Winner};
use bluefin_exporter::troubles::shortened;

/// Most characters of a reason.
const MAX_REASON: usize = 100;

/// A row for each problem, in the order given: where there is little room, winner and params stand below their problem.
#[must_use]
pub fn sheet(summaries: &[Summary], columns: usize) -> Sheet {
    let wide = of(summaries, true);
    if wide.fits(columns) { wide } else { of(summaries, false) }
}

/// With columns of their own for winner and params, or without.
fn of(summaries: &[Summary], wide: bool) -> Sheet {
    let names: &[Column] =
        if wide { &[text("problem"), text("winner"), text("params")] } else { &[text("problem, winner")] };
    // A column has one unit.
    let numbers = [
        number("time").in_csv("median_ms"),
        number("±").in_csv("spread_ms"),
        number("GFLOP/s").rank(2).in_csv("gflops"),
        number("GB/s").rank(2).in_csv("gbytes_per_s"),
        number("vs default").in_csv("speedup_over_default"),
        number("vs reference").rank(1).in_csv("speedup_over_reference"),
    ];
    let mut sheet = Sheet::new(names.iter().copied().chain(numbers));
    for summary in summaries {
        let Some(winner) = &summary.winner else {
            let none = format!("none: {}", failures(summary));
            let named = if wide {
                vec![cell(&summary.label), toned(none, Some(Tone::Bad)), cell("")]
            } else {
                vec![toned(format!("{}\n{none}", summary.label), Some(Tone::Bad))]
            };
            sheet.row(named.into_iter().chain(numbers.map(|_| cell(""))));
            continue;
        };
        let params: Vec<String> = winner.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let tie = if winner.ties > 0 { format!(" (ties with {})", winner.ties) } else { String::new() };
        let named =
            [summary.label.clone(), format!("{}{tie}", winner.solver.trim_start_matches("Bluefin")), params.join(" ")];
        let named = if wide {
            named.map(cell).to_vec()
        } else {
            vec![cell(named.iter().filter(|line| !line.is_empty()).cloned().collect::<Vec<_>>().join("\n"))]
        };
        let rate = |rate: Option<f64>| cell(rate.map(|rate| format!("{rate:.1}")).unwrap_or_default()).in_csv(rate);
        sheet.row(named.into_iter().chain([
            cell(format!("{:.3} ms", winner.median_ms)).in_csv(Some(winner.median_ms)),
            spread(winner).in_csv(Some(winner.spread_ms)),
            rate(winner.gflops),
            rate(winner.gbytes_per_s),
            times(winner.speedup_over_default, winner.over_default()),
            times(winner.speedup_over_reference, winner.over_reference()),
        ]));
    }
    sheet
}

/// As a share of the time; bad where the time is in doubt.
fn spread(winner: &Winner) -> Cell {
    let text = format!("{:.1} %", 100.0 * winner.spread_ms / winner.median_ms);
    match winner.noise {
        Some(_) => toned(format!("{text}\nnoisy"), Some(Tone::Bad)),
        None => cell(text),
    }
}

/// What was gained, which is good or bad where the two digits show it.
fn times(gained: Option<f64>, text: Option<String>) -> Cell {
    let tone = match gained {
        Some(factor) if factor >= 1.005 => Some(Tone::Good),
        Some(factor) if factor < 0.995 => Some(Tone::Bad),
        _ => None,
    };
    toned(text.unwrap_or_else(|| "-".to_string()), tone).in_csv(gained)
}

fn failures(summary: &Summary) -> String {
    let kinds: Vec<String> = summary.failed.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let why = summary.reason.as_deref().unwrap_or_default().trim();
    match (kinds.is_empty(), why) {
        (true, _) => "nothing ran".to_string(),
        (false, "") => kinds.join(", "),
        (false, why) => format!("{} ({})", kinds.join(", "), shortened(why, MAX_REASON)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bluefin_common::value::Value;
    use bluefin_exporter::summary::Winner;

    #[test]
    fn a_narrow_terminal_tears_no_number_apart() {
        let winner = Winner {
            solver: "BluefinConvBwdWeightsHostGemm".to_string(),
            params: ["VL", "TK", "TV", "KC", "NC"].map(|name| (name.to_string(), Value::Int(144))).to_vec(),
            median_ms: 123.456,
            spread_ms: 24.0,
            noise: Some("spread 19 %".to_string()),
            workspace: 0,
            gflops: Some(57.9),
            gbytes_per_s: None,
            ties: 2,
            speedup_over_default: Some(1.15),
            speedup_over_default_range: Some((1.0, 1.34)),
            speedup_over_reference: Some(13.79),
            speedup_over_reference_range: Some((11.0, 15.69)),
        };
        let summary = Summary {
            problem: String::new(),
            label: "conv W 128x28x28 k128 3x3 s1 n1 FP32".to_string(),
            spec: "spec".to_string(),
            spec_digest: None,
            tuned_ms: 0,
            winner: Some(winner),
            tried: 1,
            failed: Default::default(),
            searched: Vec::new(),
            nothing_tuned: false,
            reason: None,
        };
        for columns in [80, 104, 150, 200] {
            let text = sheet(std::slice::from_ref(&summary), columns).fitting(columns);
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}:\n{text}");
            let whole = ["123.456 ms", "19.4 %", "1.15x ± 0.19", "57.9", "13.79x ± 2.79", "ConvBwdWeightsHostGemm"];
            assert!(whole.iter().all(|word| text.contains(word)), "{columns}:\n{text}");
            let header = text.lines().next().unwrap_or_default();
            assert_eq!(header.contains("vs reference"), columns > 80, "{text}");
            assert!(!header.contains("GB/s"), "no winner has any:\n{text}");
        }
    }
}
