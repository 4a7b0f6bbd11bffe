//! Results of many candidates, into each format.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_campaign::ports::{FleetArgs, StoreArgs};
use bluefin_common::session::SessionName;
use bluefin_common::store::Store;
use bluefin_exporter::results::{FileKind, Filter, JsonLines, TargetFile, Write, results};
use bluefin_terminal::out;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use super::filled::Tuned;
use super::{Figure, peak_rss_mib};

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Json,
    Parquet,
    Sqlite,
}

/// What one of them took.
#[derive(Debug, Serialize, Deserialize)]
struct Took {
    rows: u64,
    seconds: f64,
    peak_mib: f64,
    bytes: u64,
}

/// One format, in a process whose peak of memory is its own.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  bluefin bench results-once --session it --state it.db --out it.parquet --into parquet"
)]
pub struct OnceArgs {
    #[arg(long)]
    session: SessionName,
    #[arg(long)]
    out: PathBuf,
    #[arg(long, value_enum)]
    into: Form,
    #[command(flatten)]
    store: StoreArgs,
}

impl OnceArgs {
    pub async fn run(self) -> anyhow::Result<()> {
        let store = self.store.open_to_read().await?.store;
        let session = store.session(&self.session).await?.context("the session")?;
        let sessions = [session];
        let file = |kind| TargetFile::new(&self.out, kind, &sessions, false);
        let writer: Box<dyn Write> = match self.into {
            Form::Json => Box::new(JsonLines::new(std::fs::File::create(&self.out)?)),
            Form::Parquet => Box::new(file(FileKind::Parquet)?),
            Form::Sqlite => Box::new(file(FileKind::Sqlite)?),
        };
        let started = Instant::now();
        let (totals, _) = results(&*store, &sessions, Arc::new(Filter::default()), None, vec![writer]).await?;
        let seconds = started.elapsed().as_secs_f64();
        let bytes = std::fs::metadata(&self.out)?.len();
        out::line(serde_json::to_string(&Took { rows: totals.rows, seconds, peak_mib: peak_rss_mib(), bytes })?)?;
        Ok(())
    }
}

/// Fills a store (Redis if one is named, else a temporary state file) and tells of all candidates, once in each format.
pub async fn run(candidates: u64, fleet: &FleetArgs) -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::Builder::new().prefix("bluefin-bench-results-").tempdir()?;
    let state = folder.path().join("state.db");
    let (store, file): (Arc<dyn Store>, _) = match fleet.names_a_store() {
        true => (fleet.store().await?, None),
        false => {
            let file = Arc::new(SqliteStore::open(&state).await?);
            (file.clone(), Some(file))
        }
    };
    let mut tuned = Tuned::new(&*store, 1).await?;
    tuned.resize(candidates)?;
    tuned.plan(&*store).await?;
    tuned.finish(&*store).await?;
    if let Some(file) = &file {
        file.close().await;
    }
    let mut figures = Vec::new();
    for (into, names) in [
        (Form::Json, ["rows as JSON lines", "into JSON lines", "peak memory, JSON lines", "size, JSON lines"]),
        (Form::Parquet, ["rows in Parquet", "into Parquet", "peak memory, Parquet", "size, Parquet"]),
        (Form::Sqlite, ["rows in SQLite", "into SQLite", "peak memory, SQLite", "size, SQLite"]),
    ] {
        let took = once(into, &tuned.session.name, folder.path(), file.is_some().then_some(&*state), fleet).await?;
        let [rows, time, memory, size] = names;
        figures.push(Figure::new(rows, took.rows as f64, "rows"));
        figures.push(Figure::new(time, took.seconds, "s"));
        figures.push(Figure::new(memory, took.peak_mib, "MiB"));
        figures.push(Figure::new(size, took.bytes as f64 / 1048576.0, "MiB"));
    }
    Ok(figures)
}

async fn once(
    into: Form,
    session: &SessionName,
    folder: &Path,
    state: Option<&Path>,
    fleet: &FleetArgs,
) -> anyhow::Result<Took> {
    let name = into.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default();
    let out = folder.join(format!("results.{name}"));
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "results-once", "--into", &name, "--session", session.as_str()]).arg("--out").arg(&out);
    if let Some(state) = state {
        command.arg("--state").arg(state);
    } else if let Some(url) = &fleet.redis {
        command.args(["--redis", url]);
    }
    let output = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).output().await?;
    anyhow::ensure!(output.status.success(), "{name}: {}", output.status);
    let took = serde_json::from_slice(&output.stdout).with_context(|| name.clone())?;
    std::fs::remove_file(&out).with_context(|| out.display().to_string())?;
    Ok(took)
}
