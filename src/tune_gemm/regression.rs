//! What two files of configs come to, one against the other: as the script's regression test has it.

use std::path::Path;
use std::process::ExitCode;

use bluefin_campaign::gemm::files::{self, Size};
use bluefin_campaign::gemm::products::{Done, best};
use bluefin_campaign::gemm::space::Space;
use bluefin_terminal::out;

/// Below this share of the reference's speed a config is a regression.
const LEAST: f64 = 0.98;
const REPORT: &str = "gemm-performance-report.yaml";
const REFERENCE: &str = "gemm-performance-report-reference.yaml";

/// Writes both reports, prints the ratio of each product, and fails if any is slower than it may be.
pub fn report(done: &[Done], reference: &[Done]) -> anyhow::Result<ExitCode> {
    for (path, done) in [(REPORT, done), (REFERENCE, reference)] {
        files::replace(Path::new(path), &document(done))?;
    }
    let (mut logs, mut slower, mut missing) = (Vec::new(), 0, 0);
    for (entry, summary) in done {
        let Size { m, n, k, .. } = entry.size;
        let other = reference.iter().find(|(other, _)| other.size == entry.size);
        let (Some((us, _)), Some((reference_us, _))) = (best(summary), other.and_then(|(_, summary)| best(summary)))
        else {
            missing += 1;
            out::line(format_args!("{m} x {n} x {k}: nothing to compare with, skipped"))?;
            continue;
        };
        let ratio = reference_us / us;
        logs.push(ratio.ln());
        slower += usize::from(ratio < LEAST);
        let verdict = if ratio < LEAST { "  SLOWER" } else { "" };
        let [ours, theirs] = [us, reference_us].map(|us| files::number(files::tflops(&entry.size, us)));
        out::line(format_args!("{m} x {n} x {k}: {ours} TFLOPS, reference {theirs}: {ratio:.3}{verdict}"))?;
    }
    let mean = (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp();
    out::line(format_args!(
        "geometric mean {mean:.3} of {} configs, {slower} below {LEAST}, {missing} not compared; {REPORT}, {REFERENCE}",
        logs.len()
    ))?;
    // As the script has it: what the reference lacks is skipped. Nothing at all is no success.
    let fine = slower == 0 && !logs.is_empty() && mean >= LEAST;
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A list of configs with their TFLOP/s.
fn document(done: &[Done]) -> String {
    let mut text = String::new();
    for (entry, summary) in done {
        let Some((us, config)) = best(summary) else { continue };
        let line = files::line(Space::V3, &entry.size, &config, us);
        let config = line.trim_start_matches("- ").split(" #").next().unwrap_or_default();
        let tflops = files::tflops(&entry.size, us);
        text.push_str(&format!("- config: {config}\n  tflops: {tflops}\n"));
    }
    text
}
