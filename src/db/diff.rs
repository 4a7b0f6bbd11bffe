//! `bluefin db diff`.

use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_common::printable::printable;
use bluefin_exporter::db::diff::{Best, Change, Diff, DiffRequest, FindDiff, KeyChange, RowsDiff, Share, diff};
use bluefin_terminal::out;

use super::Bar;

/// Compare two databases of one kind by what they mean
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  bluefin db diff old/gfx90a68.HIP.fdb.txt new/gfx90a68.HIP.fdb.txt --threshold 10%\n\n\
    Find dbs are compared by the fastest solver of each key; perf dbs by params, kernel dbs by the hash of each kernel. Exit \
    code 1 if a key became slower by more than the threshold."
)]
pub struct DiffArgs {
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    #[command(flatten)]
    judgement: Judgement,
    /// Print as JSON, with every key that is not what it was
    #[arg(long)]
    json: bool,
}

/// What counts as a change, and how much of it is told.
#[derive(clap::Args)]
pub struct Judgement {
    /// Times that differ by less are ties
    #[arg(long, default_value = "5%", value_name = "SHARE")]
    pub noise: Share,
    /// Times that grow by more are regressions
    #[arg(long, default_value = "10%", value_name = "SHARE")]
    pub threshold: Share,
    /// What is no longer there is a regression too
    #[arg(long)]
    pub deny_gone: bool,
    /// Keys that are listed of each change, those that changed most first
    #[arg(long, default_value_t = 10)]
    pub top: usize,
}

impl DiffArgs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let request = DiffRequest {
            before: self.before,
            after: self.after,
            noise: self.judgement.noise.0,
            threshold: self.judgement.threshold.0,
        };
        let diff = {
            let bar = Bar::start();
            diff(&request, &|step| bar.show(step))?
        };
        if self.json {
            out::json(&diff)?;
        } else {
            print(&diff, &self.judgement)?;
        }
        let failed = diff.regressions() > 0 || (self.judgement.deny_gone && diff.gone() > 0);
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// For people: counts, and the `top` keys of each change.
pub fn print(diff: &Diff, judgement: &Judgement) -> anyhow::Result<()> {
    let Judgement { noise, threshold, top, .. } = *judgement;
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
        Some(Best { solver, time_ms }) => format!("{solver} {time_ms} ms"),
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
