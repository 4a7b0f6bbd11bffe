//! What databases hold for a problem, and how two of them differ, for people.

use std::path::PathBuf;

use anyhow::Context as _;
use bluefin_common::printable::printable;
use bluefin_exporter::db::diff::{Best, Change, Diff, FindDiff, KeyChange, RowsDiff, Share};
use bluefin_exporter::db::query::Answer;

use crate::out;

/// The files in `paths`, those of folders included, without what bluefin writes beside databases, as `db` and `db/*` name it all.
///
/// # Errors
/// A folder that can not be read.
pub fn databases(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let inside = std::fs::read_dir(path).with_context(|| path.display().to_string())?;
            let mut inside: Vec<PathBuf> = inside.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
            inside.sort();
            files.extend(inside.into_iter().filter(|path| path.is_file()));
        } else {
            files.push(path.clone());
        }
    }
    let is_beside = |path: &PathBuf| {
        let extension = path.extension().unwrap_or_default();
        ["json", "h", "py", "csv"].iter().any(|other| extension == *other)
    };
    let (beside, databases): (Vec<PathBuf>, Vec<PathBuf>) = files.into_iter().partition(is_beside);
    beside.iter().for_each(|path| crate::say!("note: {}: is no database, and was left aside", path.display()));
    Ok(databases)
}

/// What databases hold for a problem, a line for each record.
///
/// # Errors
/// If standard output can not be written to.
pub fn print_answer(answer: &Answer) -> std::io::Result<()> {
    match (&answer.find_db_key, &answer.perf_db_key) {
        (Some(find), Some(perf)) => out::line(format_args!("{find}\n  perf-db key {perf}"))?,
        (Some(key), None) | (None, Some(key)) => out::line(printable(key))?,
        (None, None) => {}
    }
    for find in &answer.finds {
        out::line(printable(&format!(
            "  find {}:{}: {} {} ms, {} bytes of workspace, {}",
            find.path.display(),
            find.line,
            find.solver,
            find.time_ms,
            find.workspace,
            find.algorithm
        )))?;
    }
    for row in &answer.params {
        out::line(printable(&format!("  perf {}:{}: {} {}", row.path.display(), row.line, row.solver, row.params)))?;
    }
    for found in &answer.kernels {
        out::line(printable(&format!("  kernels {}: {} may use {}", found.path.display(), found.solver, found.total)))?;
        for kernel in &found.kernels {
            out::line(printable(&format!("    {kernel}")))?;
        }
    }
    if answer.finds.is_empty() && answer.params.is_empty() {
        out::line("  nothing")?;
    }
    Ok(())
}

/// For people: counts, and the `top` keys of each change. Times that differ by less than `noise` are ties, and those that grow by more
/// than `threshold` regressions.
///
/// # Errors
/// If standard output can not be written to.
pub fn print_diff(diff: &Diff, top: usize, noise: Share, threshold: Share) -> anyhow::Result<()> {
    match diff {
        Diff::Find(find) => print_find(find, top, noise, threshold),
        Diff::Perf(rows) | Diff::Kernel(rows) => print_rows(rows, top),
    }
}

fn print_find(diff: &FindDiff, top: usize, noise: Share, threshold: Share) -> anyhow::Result<()> {
    let total: u64 = diff.counts.values().sum();
    for change in Change::ALL {
        let count = diff.counts.get(&change).copied().unwrap_or(0);
        let share = 100.0 * count as f64 / total.max(1) as f64;
        out::line(format_args!("{count:>8} {:<8} {share:>5.1} %", change.name()))?;
    }
    out::line(format_args!("{:>8} switched solver", diff.switched))?;
    out::line(format_args!("{:>8} regressions of more than {threshold} (noise {noise})", diff.regressions))?;
    if let Some(mean) = diff.mean_speedup {
        out::line(format_args!("{mean:>8.3} times as fast on (geometric) average"))?;
    }
    for change in [Change::Slower, Change::Gone, Change::New] {
        list(diff.keys.iter().filter(|key| key.change == change), top)?;
    }
    // The best at the end of the order.
    list(diff.keys.iter().rev().filter(|key| key.change == Change::Faster), top)
}

fn list<'a>(keys: impl Iterator<Item = &'a KeyChange>, top: usize) -> anyhow::Result<()> {
    let side = |best: &Option<Best>| match best {
        Some(Best { solver, time_ms, .. }) => format!("{solver} {time_ms} ms"),
        None => "-".to_string(),
    };
    for key in keys.take(top) {
        let ratio = key.ratio.map_or(String::new(), |ratio| format!(" x{ratio:.3}"));
        let (change, before, after) = (key.change.name(), side(&key.before), side(&key.after));
        out::line(printable(&format!("{change}{ratio}: {}: {before} -> {after}", key.key)))?;
    }
    Ok(())
}

fn print_rows(diff: &RowsDiff, top: usize) -> anyhow::Result<()> {
    for (count, what) in [(diff.same, "same"), (diff.changed, "changed"), (diff.new, "new"), (diff.gone, "gone")] {
        out::line(format_args!("{count:>8} {what}"))?;
    }
    for (what, before, after) in [("changed", true, true), ("gone", true, false), ("new", false, true)] {
        let rows = diff.rows.iter().filter(|row| (row.before.is_some(), row.after.is_some()) == (before, after));
        for row in rows.take(top) {
            let side = |text: &Option<String>| text.as_deref().unwrap_or("-").to_string();
            let (before, after) = (side(&row.before), side(&row.after));
            out::line(printable(&format!("{what}: {}: {before} -> {after}", row.row)))?;
        }
    }
    Ok(())
}
