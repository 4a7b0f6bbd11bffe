//! `bluefin serving merge`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_common::spelled::counted;
use bluefin_serving::files::Found;
use bluefin_serving::merge::{Fate, Policy, Told, merge, write};
use bluefin_serving::{ConfigFile, Engine};
use bluefin_terminal::out;
use clap::ValueEnum;
use serde::Serialize;

/// Bring the rows of config files into the first of them, also of the other engine
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  bluefin serving merge 'E=8,N=7168,device_name=NVIDIA_H200.json' tuned/'E=8,N=7168,device_name=NVIDIA_H200.json'\n\n\
    The files are of one layer on one GPU. A row of the other engine is written as it launches there: vLLM lowers BLOCK_SIZE_K to the block of \
    the scales, SGLang does not. Rows that the engine of the first file could not launch, or would be wrong by, are refused and named; the \
    exit code is 1 then. A file that stays the same keeps its bytes."
)]
pub struct MergeArgs {
    /// The file that rows are brought into
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// Files with further rows; of several the last counts
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Which of two rows stays
    #[arg(long, value_name = "POLICY", default_value = "newest")]
    policy: PolicyName,
    /// Take rows of files that were made with another Triton
    #[arg(long)]
    any_triton: bool,
    /// Whose the first file is [default: told by place and name]
    #[arg(long, value_name = "vllm|sglang")]
    engine: Option<Engine>,
    /// Where to write it [default: the first file]
    #[arg(short, long, visible_alias = "out", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Say what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum PolicyName {
    /// The one that comes later
    Newest,
    /// The one that is there: only batch sizes without a row get one
    Missing,
}

/// What became of the rows of a file.
#[derive(Serialize)]
struct OfFile {
    path: PathBuf,
    rows: Vec<Told>,
}

impl MergeArgs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let policy = match self.policy {
            PolicyName::Newest => Policy::Newest,
            PolicyName::Missing => Policy::Missing,
        };
        let found = Found::read(&self.base, self.engine)?;
        let mut base = ConfigFile::read(&self.base, found.engine)?;
        let mut told = Vec::new();
        for path in &self.files {
            let rows = merge(&mut base, &found, &Found::read(path, None)?, policy, self.any_triton)?;
            told.push(OfFile { path: path.clone(), rows });
        }
        if !self.dry_run {
            write(self.output.as_deref().unwrap_or(&self.base), &base.text())?;
        }
        if self.json {
            out::json(&told)?;
        } else {
            print(&base, &told)?;
        }
        let refused = told.iter().flat_map(|file| &file.rows).any(|row| matches!(row.fate, Fate::Refused(_)));
        Ok(if refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn print(base: &ConfigFile, told: &[OfFile]) -> anyhow::Result<()> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (path, row) in told.iter().flat_map(|file| file.rows.iter().map(move |row| (&file.path, row))) {
        *counts.entry(row.fate.name()).or_default() += 1;
        if let Fate::Refused(reason) = &row.fate {
            say!("refused: {}: {}: {reason}", path.display(), row.size);
        }
    }
    let counts: Vec<String> = counts.iter().map(|(fate, count)| format!("{count} {fate}")).collect();
    let counts = if counts.is_empty() { "none brought".to_string() } else { counts.join(", ") };
    Ok(out::line(format_args!("{}; {counts}", counted(base.rows().count() as u64, "row")))?)
}
