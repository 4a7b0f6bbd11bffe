//! `bluefin db query`.

use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_common::problem::FindDbKey;
use bluefin_exporter::db::printable;
use bluefin_exporter::db::query::{Answer, query};
use bluefin_producer::driver;

use super::Bar;
use crate::out;

/// What databases hold for a driver command, or for a find-db key
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  bluefin db query \"MIOpenDriver conv -n 16 -c 512 -H 13 -W 13 -k 1000 -y 1 -x 1 -F 2\" --db \
    gfx90a68.HIP.fdb.txt,gfx90a68.db.txt,gfx90a68.kdb\n\n\
    A command without -F asks for all three directions. Kernels are those that a solver found may use, by source file. Exit \
    code 1 if there is nothing."
)]
pub struct QueryArgs {
    /// A MIOpenDriver command, or a find-db key
    #[arg(value_name = "COMMAND")]
    command: String,
    /// Databases; what they are is seen by name and content
    #[arg(long, value_name = "FILE,...", value_delimiter = ',', num_args = 1.., required = true)]
    db: Vec<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

impl QueryArgs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let keys = keys(&self.command)?;
        let answers = {
            let bar = Bar::start();
            query(&keys, &self.db, &|step| bar.show(step))?
        };
        if self.json {
            out::json(&answers)?;
        } else {
            answers.iter().try_for_each(print)?;
        }
        let found = answers.iter().any(|answer| !answer.finds.is_empty() || !answer.params.is_empty());
        Ok(if found { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The keys that a text asks for.
fn keys(text: &str) -> anyhow::Result<Vec<FindDbKey>> {
    // Also a key that no convolution has: files hold some.
    if let Ok(key) = FindDbKey::parse(text.trim()) {
        return Ok(vec![key]);
    }
    let table = driver::keys(text.as_bytes());
    if let Some(reject) = table.rejects.first() {
        return Err(crate::usage(format!("COMMAND: {}", reject.reason)));
    }
    // Only convolutions have one.
    let keys: Vec<FindDbKey> =
        table.rows.iter().filter_map(|row| row.find_db_key.as_deref()).map(str::parse).collect::<Result<_, _>>()?;
    if keys.is_empty() {
        return Err(crate::usage(format!(
            "COMMAND: found {text:?}, expected the driver command of a convolution, or a find-db key"
        )));
    }
    Ok(keys)
}

fn print(answer: &Answer) -> std::io::Result<()> {
    out::line(format_args!("{}\n  perf-db key {}", answer.find_db_key, answer.perf_db_key))?;
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
