//! The closing table: for each problem the winner and what tuning gained.

use crate::colour::{self, Tone};
use crate::width;
use bluefin_exporter::summary::{Summary, Winner};
use bluefin_exporter::troubles::shortened;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, Table};

/// Most characters of a reason.
const MAX_REASON: usize = 100;

/// Columns of a terminal from which on winner and params have columns of their own.
const WIDE: usize = 150;
/// Columns from which on there is room for more than what was gained over default params.
const ROOMY: usize = 104;

/// A row for each problem, in the order given, as wide as the terminal: where that is narrow, winner and params stand below their
/// problem.
pub fn table(summaries: &[Summary]) -> Table {
    of_width(summaries, width::of_stdout().unwrap_or(usize::MAX))
}

fn of_width(summaries: &[Summary], columns: usize) -> Table {
    let mut table = width::table();
    let names: &[&str] = if columns >= WIDE { &["problem", "winner", "params"] } else { &["problem, winner"] };
    let numbers: &[&str] = if columns >= ROOMY {
        &["time", "±", "GFLOP/s", "vs default", "vs reference"]
    } else {
        &["time", "±", "vs default"]
    };
    table.set_header(names.iter().chain(numbers));
    for summary in summaries {
        let Some(winner) = &summary.winner else {
            let none = colour::cell(format!("none: {}", failures(summary)), Some(Tone::Bad));
            if columns >= WIDE {
                table.add_row([Cell::new(&summary.label), none]);
            } else {
                table.add_row([Cell::new(&summary.label)]);
                table.add_row([none]);
            }
            continue;
        };
        let params: Vec<String> = winner.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let tie = if winner.ties > 0 { format!(" (ties with {})", winner.ties) } else { String::new() };
        let named =
            [summary.label.clone(), format!("{}{tie}", winner.solver.trim_start_matches("Bluefin")), params.join(" ")];
        let mut row: Vec<Cell> = if columns >= WIDE {
            named.iter().map(Cell::new).collect()
        } else {
            vec![Cell::new(named.iter().filter(|line| !line.is_empty()).cloned().collect::<Vec<_>>().join("\n"))]
        };
        row.extend([Cell::new(format!("{:.3} ms", winner.median_ms)), spread(winner)]);
        let over_default = times(winner.speedup_over_default, winner.over_default());
        if columns >= ROOMY {
            let over_reference = times(winner.speedup_over_reference, winner.over_reference());
            row.extend([Cell::new(work(winner)), over_default, over_reference]);
        } else {
            row.push(over_default);
        }
        table.add_row(row);
    }
    for column in names.len()..names.len() + numbers.len() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
            // A number is not torn apart.
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table
}

/// As a share of the time; bad where the time is in doubt.
fn spread(winner: &Winner) -> Cell {
    let text = format!("{:.1} %", 100.0 * winner.spread_ms / winner.median_ms);
    match winner.noise {
        Some(_) => colour::cell(format!("{text}\nnoisy"), Some(Tone::Bad)),
        None => Cell::new(text),
    }
}

/// GFLOP/s, and GB/s where those are known.
fn work(winner: &Winner) -> String {
    let known = [(winner.gflops, ""), (winner.gbytes_per_s, " GB/s")];
    let known = known.into_iter().filter_map(|(rate, unit)| Some(format!("{:.1}{unit}", rate?)));
    let text = known.collect::<Vec<_>>().join(", ");
    if text.is_empty() { "-".to_string() } else { text }
}

/// What was gained, which is good or bad where the two digits show it.
fn times(gained: Option<f64>, text: Option<String>) -> Cell {
    let tone = match gained {
        Some(factor) if factor >= 1.005 => Some(Tone::Good),
        Some(factor) if factor < 0.995 => Some(Tone::Bad),
        _ => None,
    };
    colour::cell(text.unwrap_or_else(|| "-".to_string()), tone)
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
        for columns in [80, 104, 150] {
            let mut table = of_width(std::slice::from_ref(&summary), columns);
            table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic).set_width(columns as u16);
            let text = table.to_string();
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}:\n{text}");
            let whole = ["123.456 ms", "19.4 %", "1.15x ± 0.19"];
            assert!(whole.iter().all(|number| text.contains(number)), "{columns}:\n{text}");
            assert_eq!(text.contains("13.79x ± 2.79"), columns >= ROOMY, "{text}");
            assert!(text.lines().count() <= 7, "{columns}:\n{text}");
        }
    }
}
