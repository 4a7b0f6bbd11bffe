//! The closing table: for each problem the winner and what tuning gained.

use crate::colour::{self, Tone};
use crate::width;
use bluefin_exporter::summary::{Summary, Winner};
use bluefin_exporter::troubles::shortened;
use comfy_table::{Cell, CellAlignment, Table};

/// Most characters of a reason.
const MAX_REASON: usize = 100;

/// A row for each problem, in the order given.
pub fn table(summaries: &[Summary]) -> Table {
    let mut table = width::table();
    table.set_header(["problem", "winner", "params", "time", "±", "GFLOP/s", "vs default", "vs reference"]);
    for summary in summaries {
        let Some(winner) = &summary.winner else {
            let none = format!("none: {}", failures(summary));
            table.add_row([Cell::new(&summary.label), colour::cell(none, Some(Tone::Bad))]);
            continue;
        };
        let params: Vec<String> = winner.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let tie = if winner.ties > 0 { format!(" (ties with {})", winner.ties) } else { String::new() };
        table.add_row([
            Cell::new(&summary.label),
            Cell::new(format!("{}{tie}", winner.solver.trim_start_matches("Bluefin"))),
            Cell::new(params.join(" ")),
            Cell::new(format!("{:.3} ms", winner.median_ms)),
            spread(winner),
            Cell::new(work(winner)),
            times(winner.speedup_over_default, winner.over_default()),
            times(winner.speedup_over_reference, winner.over_reference()),
        ]);
    }
    for column in 3..8 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// As a share of the time; bad where the time is in doubt.
fn spread(winner: &Winner) -> Cell {
    let text = format!("{:.1} %", 100.0 * winner.spread_ms / winner.median_ms);
    match winner.noise {
        Some(_) => colour::cell(format!("noisy {text}"), Some(Tone::Bad)),
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
