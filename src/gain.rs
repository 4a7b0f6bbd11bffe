//! `bluefin gain`: a Python program with the Triton configs that were found for it, and without, in turns.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Instant;

use anyhow::Context as _;
use bluefin_terminal::out;
use bluefin_triton::{Applied, Hook, Mode};
use comfy_table::{CellAlignment, Table};
use serde_json::{Value as Json, json};
use tokio::process::Command;

use crate::apply::tuned_in;

/// How much of what a program said is shown where it failed.
const SHOWN: usize = 2_000;

/// Measure what the Triton configs that were found give a program
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin gain --triton out --repeats 5 -- python3 bench.py\n\n\
    The program is run without and with the configs, in turns: with an empty cache of Triton's (cold),\n\
    and again with what that left (warm). Shown are the medians over the repeats, with the least and\n\
    the most; of the launches behind the first of each tuning key, the GPU's time.")]
pub struct GainArgs {
    /// The folder that `bluefin tune --triton` wrote
    #[arg(long, value_name = "DIR")]
    triton: PathBuf,
    /// How often: each is four runs of the program
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// One run of the program.
struct Run {
    /// Of all of it.
    seconds: f64,
    /// In the first launches of each tuning key: tuning, compiling.
    first_s: f64,
    /// Milliseconds of launches, by function and key: a launch's, times how many there were.
    kernels: BTreeMap<String, f64>,
}

/// All runs of one kind.
#[derive(Default)]
struct Runs(Vec<Run>);

/// The middle of some numbers, with the least and the most.
#[derive(Clone, Copy)]
struct Spread {
    least: f64,
    middle: f64,
    most: f64,
}

impl GainArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let tuned = tuned_in(&self.triton)?;
        let mut all: [Runs; 4] = Default::default();
        for _ in 0..self.repeats {
            let caches = [tempfile::tempdir()?, tempfile::tempdir()?];
            // Cold without and with, then warm.
            for (at, runs) in all.iter_mut().enumerate() {
                let with = (at % 2 == 1).then_some(tuned.as_path());
                let cache = caches.get(at % 2).map(tempfile::TempDir::path).unwrap_or(Path::new("."));
                runs.0.push(self.once(with, cache).await?);
            }
        }
        let rows = rows(&all);
        if self.json {
            out::line(serde_json::to_string(&rows)?)?;
        } else {
            out::line(table(&rows))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn once(&self, tuned: Option<&Path>, cache: &Path) -> anyhow::Result<Run> {
        let (program, arguments) =
            self.command.split_first().ok_or_else(|| crate::usage("name a COMMAND behind --"))?;
        let (hook, folder, said) = (Hook::new()?, tempfile::tempdir()?, tempfile::NamedTempFile::new()?);
        let environment = hook.environment(Mode::Apply { tuned, folder: folder.path(), times: true })?;
        let begin = Instant::now();
        let status = Command::new(program)
            .args(arguments)
            .envs(environment)
            .env("TRITON_CACHE_DIR", cache)
            .stdout(Stdio::from(said.reopen()?))
            .stderr(Stdio::from(said.reopen()?))
            .kill_on_drop(true)
            .status()
            .await
            .with_context(|| program.display().to_string())?;
        let seconds = begin.elapsed().as_secs_f64();
        if !status.success() {
            let text = std::fs::read(said.path())?;
            let text = String::from_utf8_lossy(&text).into_owned();
            let from = text.char_indices().rev().nth(SHOWN).map_or(0, |(at, _)| at);
            anyhow::bail!("{}: {status}\n{}", program.display(), text.get(from..).unwrap_or_default().trim());
        }
        Ok(Run::of(seconds, &Applied::read(folder.path())?))
    }
}

impl Run {
    fn of(seconds: f64, applied: &Applied) -> Self {
        let mut run = Self { seconds, first_s: 0.0, kernels: BTreeMap::new() };
        for one in &applied.timed {
            run.first_s += one["first_s"].as_f64().unwrap_or_default();
            let times: Vec<f64> = one["ms"].as_array().into_iter().flatten().filter_map(Json::as_f64).collect();
            let calls = one["calls"].as_f64().unwrap_or_default();
            if let Some(middle) = times.get(times.len() / 2) {
                let name = shown(one["function"].as_str().unwrap_or_default(), one["key"].as_str().unwrap_or_default());
                *run.kernels.entry(name).or_default() += middle * calls;
            }
        }
        run
    }
}

/// A function with the numbers of its tuning key, without types.
fn shown(function: &str, key: &str) -> String {
    let parts = key.trim_matches(['(', ')']).split(", ").filter(|part| !part.is_empty() && !part.contains("torch."));
    format!("{function} {}", parts.collect::<Vec<_>>().join(", "))
}

impl Runs {
    fn spread(&self, of: impl Fn(&Run) -> Option<f64>) -> Option<Spread> {
        let mut values: Vec<f64> = self.0.iter().filter_map(of).collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        Some(Spread { least, middle: *values.get(values.len() / 2)?, most })
    }
}

/// What is compared, without and with; the share of a kernel in all launches.
fn rows([cold, cold_with, warm, warm_with]: &[Runs; 4]) -> Vec<Json> {
    let row = |what: &str, unit: &str, without: Option<Spread>, with: Option<Spread>, share: Option<f64>| {
        let ratio = |one: f64, other: f64| (other > 0.0).then(|| one / other);
        let gain = without.zip(with).and_then(|(without, with)| {
            Some(json!({
                "middle": ratio(without.middle, with.middle)?, "least": ratio(without.least, with.most)?, "most": ratio(without.most, with.least)?,
            }))
        });
        let told = |spread: Option<Spread>| {
            spread.map(|one| json!({ "least": one.least, "middle": one.middle, "most": one.most }))
        };
        json!({ "what": what, "unit": unit, "without": told(without), "with": told(with), "gain": gain, "share": share })
    };
    let mut rows = Vec::new();
    for (what, without, with) in [("cold start", cold, cold_with), ("warm start", warm, warm_with)] {
        let of = |run: &Run| Some(run.seconds);
        rows.push(row(what, "s", without.spread(of), with.spread(of), None));
        let first = |run: &Run| Some(run.first_s);
        rows.push(row(&format!("{what}: tuning, compiling"), "s", without.spread(first), with.spread(first), None));
    }
    let launches = |run: &Run| (!run.kernels.is_empty()).then(|| run.kernels.values().sum::<f64>());
    rows.push(row("launches", "ms", warm.spread(launches), warm_with.spread(launches), Some(1.0)));
    let total = warm.spread(launches).map_or(0.0, |all| all.middle);
    let names: Vec<&String> = warm.0.first().map(|run| run.kernels.keys().collect()).unwrap_or_default();
    let mut kernels: Vec<(f64, Json)> = Vec::new();
    for name in names {
        let of = |run: &Run| run.kernels.get(name).copied();
        let (without, with) = (warm.spread(of), warm_with.spread(of));
        let share = without.map(|one| one.middle / total);
        kernels.push((share.unwrap_or_default(), row(name, "ms", without, with, share)));
    }
    kernels.sort_by(|one, other| other.0.total_cmp(&one.0));
    rows.extend(kernels.into_iter().map(|(_, row)| row));
    rows
}

fn table(rows: &[Json]) -> Table {
    let mut table = bluefin_terminal::width::table();
    table.set_header(["", "without", "with", "gain", "share"]);
    for at in 1..5 {
        if let Some(column) = table.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in rows {
        let unit = row["unit"].as_str().unwrap_or_default();
        let number = |value: &Json| value.as_f64().map_or("–".to_string(), |value| format!("{value:.3}"));
        let spread = |one: &Json| match one["middle"].as_f64() {
            None => "–".to_string(),
            Some(_) => {
                format!("{} {unit} ({} to {})", number(&one["middle"]), number(&one["least"]), number(&one["most"]))
            }
        };
        let gain = &row["gain"];
        let gained = match gain["middle"].as_f64() {
            None => "–".to_string(),
            Some(middle) if gain["least"] == gain["most"] => format!("{middle:.2}x"),
            Some(middle) => format!(
                "{middle:.2}x ({:.2} to {:.2})",
                gain["least"].as_f64().unwrap_or_default(),
                gain["most"].as_f64().unwrap_or_default()
            ),
        };
        let share = row["share"].as_f64().map_or(String::new(), |share| format!("{:.0} %", share * 100.0));
        table.add_row([
            row["what"].as_str().unwrap_or_default().to_string(),
            spread(&row["without"]),
            spread(&row["with"]),
            gained,
            share,
        ]);
    }
    table
}
