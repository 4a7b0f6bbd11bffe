//! `bluefin serving tune`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use bluefin_campaign::admin::AdminArgs;
use bluefin_campaign::machine::local::{Compilers, LocalDevice};
use bluefin_campaign::ports::StoreArgs;
use bluefin_campaign::search::{Patience, SearchArgs};
use bluefin_campaign::serving::{How, Ladder, ROWS, Rung, Tuned};
use bluefin_campaign::site::Site;
use bluefin_common::arch::{self, Architecture};
use bluefin_common::spelled::human;
use bluefin_common::target::Target;
use bluefin_producer::plan::CandidateBudget;
use bluefin_serving::Row;
use bluefin_serving::default::Gpu;
use bluefin_serving::installed::Source;
use bluefin_serving::kernel::Asked;
use bluefin_serving::merge::write;
use bluefin_serving::shapes::MoeShape;
use bluefin_terminal::failed::quoted;
use bluefin_terminal::out;
use bluefin_terminal::progress::Display;
use serde_json::json;

use super::layer::LayerArgs;
use crate::workers::LoadArgs;
use bluefin_campaign::serving::models::ModelArgs;

/// Where the work is kept that no fleet does.
const STATE: &str = "serving.db";

/// Tune a model's mixtures of experts, here or over a fleet, and write the engine's config files
#[derive(clap::Args)]
#[command(mut_arg("state", |arg| arg.help("Keep it in this file [default: serving.db, where there is no --fleet]")))]
#[command(after_help = "Examples:\n  bluefin serving tune --moe 8,14336,4096,2 --engine vllm --tp 2 -o tuned\n  \
    bluefin serving tune config.json --engine sglang --tp 8 --fleet --device gfx942-304 --gpu 'AMD Instinct MI300X' -o tuned\n\n\
    Every batch size of the ladder is a problem of one session, whose searches learn from each other. Each candidate is checked against plain sums over \
    experts; a winner has to beat the engine's default row in the play-off, else the default's row is written. The file has the name that the engine's loader builds \
    for the device, and lies where VLLM_TUNED_CONFIG_FOLDER, or SGLANG_MOE_CONFIG_DIR, of -o finds it. Ctrl-C loses nothing: the same command continues.")]
pub struct TuneArgs {
    #[command(flatten)]
    models: ModelArgs,
    #[command(flatten)]
    layer: LayerArgs,
    /// Devices to tune on, all of one target, as `bluefin devices` shows them; with --fleet a target, such as sm_90-132
    #[arg(long, value_name = "DEVICE", default_value = "gpu")]
    device: String,
    /// Have a fleet do it, instead of this machine; its eval workers say how they time, and --gpu names the device
    #[arg(long, requires_all = ["device", "gpu"], conflicts_with_all = ["compile_slots", "sustained"])]
    fleet: bool,
    /// Candidates of each solver for each batch size: quick (8), normal (16), thorough (64), all, or a number
    #[arg(long, default_value_t = ROWS)]
    budget: CandidateBudget,
    #[command(flatten)]
    search: SearchArgs,
    #[command(flatten)]
    load: LoadArgs,
    /// Compilers to run at a time [default: the number of CPUs]
    #[arg(long, value_name = "N")]
    compile_slots: Option<usize>,
    /// Folder for the files; made if need be
    #[arg(short, long, visible_alias = "out", value_name = "DIR", default_value = "tuned")]
    output: PathBuf,
    /// Print the result as JSON on standard output, and nothing else there
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What it is tuned for, and by what.
struct Workplace {
    target: Target,
    gpu: String,
    architecture: &'static Architecture,
    /// `None` where a fleet does it.
    local: Option<(Compilers, LocalDevice)>,
}

impl TuneArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let place = self.workplace().await?;
        let state = self.store.state.clone().or_else(|| (!self.fleet).then(|| STATE.into()));
        let store = StoreArgs { state, ..self.store.clone() };
        let site = Site::open(&store, self.fleet, &self.admin).await?;
        let result = self.all(&site, &place).await;
        site.close().await;
        result
    }

    async fn workplace(&self) -> anyhow::Result<Workplace> {
        let local = if self.fleet { None } else { Some(self.local().await?) };
        let target = match &local {
            Some((_, device)) => device.target.clone(),
            None => self.device.parse().map_err(|error| crate::usage(format!("--device: {error}")))?,
        };
        let architecture = arch::of(target.arch())
            .ok_or_else(|| crate::usage(format!("--device {}: found {target}, expected a GPU", self.device)))?;
        let gpu = match &local {
            Some((_, device)) if self.models.gpu.is_empty() => device.name.clone(),
            _ => self.models.one_gpu(Some(architecture))?,
        };
        Ok(Workplace { target, gpu, architecture, local })
    }

    async fn local(&self) -> anyhow::Result<(Compilers, LocalDevice)> {
        // Both take seconds.
        let (device, compilers) = tokio::try_join!(
            LocalDevice::find(&self.device, self.load.limits()),
            Compilers::probe(&["triton"], self.compile_slots)
        )?;
        Ok((compilers.all_for(&device.target)?, device))
    }

    async fn all(&self, site: &Site, place: &Workplace) -> anyhow::Result<ExitCode> {
        let mut written = Vec::new();
        let mut is_whole = true;
        for moe in self.models.layers(&place.gpu, |note| say!("{note}"))? {
            let Some((told, has_all)) = self.layer(site, place, &moe).await? else { return Ok(crate::interrupted()) };
            written.extend(told);
            is_whole &= has_all;
        }
        if self.json {
            out::json(&written)?;
        }
        Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The command that tells every candidate.
    fn results_of(&self, tuned: &Tuned) -> String {
        let state = self.store.state.as_deref().or_else(|| (!self.fleet).then(|| Path::new(STATE)));
        let state = state.map_or(String::new(), |state| format!(" --state {}", quoted(&state.display().to_string())));
        format!("bluefin results{state} --session {}", tuned.session.name)
    }

    /// Where the engine's loader looks for files of the Triton that compiled it.
    fn folder(&self, tuned: &Tuned) -> anyhow::Result<PathBuf> {
        if !self.models.engine.info().has_version_folders {
            return Ok(self.output.clone());
        }
        let triton = tuned
            .triton
            .as_ref()
            .context("the version of Triton is not known, and SGLang's folders are of versions")?;
        Ok(self.output.join("configs").join(triton.folder()))
    }

    /// Tunes a layer and writes its files. What is told of them, and whether every batch size has a winner. `None`: it was interrupted.
    async fn layer(
        &self,
        site: &Site,
        place: &Workplace,
        moe: &MoeShape,
    ) -> anyhow::Result<Option<(Vec<serde_json::Value>, bool)>> {
        let engine = self.models.engine;
        let (source, routing, tokens) = (self.layer.source(engine)?, self.layer.routing()?, self.layer.tokens());
        let file = moe.file_name(engine, &place.gpu);
        let name = file.build(engine);
        let shipped = self.layer.shipped(engine, &name)?;
        let gpu = Gpu::of(place.architecture);
        let asked = Asked::of(engine, moe, self.models.half(), gpu, &tokens, &routing).by(&source);
        let asked = asked.widened(self.layer.widen).beside(shipped.as_ref());
        asked.note().iter().for_each(|note| say!("note: {note}"));
        let Some((tuned, first, mut is_whole)) = self.ladder(site, place, &asked, &source, &name).await? else {
            return Ok(None);
        };
        let mut written = vec![first];
        if self.models.down {
            let firsts = tuned.rungs.iter().map(|rung| (rung.tokens, rung.row.clone())).collect();
            let name = file.second().build(engine);
            let shipped = self.layer.shipped(engine, &name)?;
            let asked = Asked { down: Some(&firsts), ..asked }.beside(shipped.as_ref());
            let Some((_, second, has_all)) = self.ladder(site, place, &asked, &source, &name).await? else {
                return Ok(None);
            };
            written.push(second);
            is_whole &= has_all;
        }
        Ok(Some((written, is_whole)))
    }

    /// Tunes a ladder and writes its file, as [`Self::layer`] does.
    async fn ladder(
        &self,
        site: &Site,
        place: &Workplace,
        asked: &Asked<'_>,
        source: &Source,
        name: &str,
    ) -> anyhow::Result<Option<(Tuned, serde_json::Value, bool)>> {
        let started = Instant::now();
        let how = How {
            budget: self.budget,
            search: self.search.plan_with(Patience::SERVING)?,
            priors: self.search.priors(&*site.ports.store, &place.target, None).await?,
        };
        let mut display = Display::new(|plan| plan.left_out().iter().for_each(|line| say!("{line}")));
        let (ladder, local) = (Ladder::of(asked, source)?, place.local.clone());
        let tuned = ladder.carry_out(asked, how, site, &place.target, local, &mut display).await?;
        let Some(tuned) = tuned else { return Ok(None) };
        let path = self.folder(&tuned)?.join(name);
        write(&path, &tuned.file(asked, &path, |note| say!("note: {note}")).text())?;
        say!("tuned in {}{}", human(started.elapsed()), tuned.utilisation.as_deref().unwrap_or_default());
        if !self.json {
            print(&tuned, asked, &path.display().to_string(), &self.results_of(&tuned))?;
        }
        let rows: Vec<_> = tuned.rungs.iter().map(told).collect();
        let is_whole = tuned.rungs.iter().all(|rung| rung.median_ms().is_some());
        let told = json!({ "file": path, "kernel": source.from, "triton": tuned.triton, "session": tuned.session.name, "rows": rows });
        Ok(Some((tuned, told, is_whole)))
    }
}

fn told(rung: &Rung) -> serde_json::Value {
    let Rung { tokens, summary, row, is_default } = rung;
    let summary = summary.as_ref();
    json!({
        "tokens": tokens,
        "row": row,
        "default": is_default,
        "median_ms": rung.median_ms(),
        "solver": summary.and_then(|summary| summary.winner.as_ref()).map(|winner| &winner.solver),
        "tried": summary.map(|summary| summary.tried),
        "failed": summary.map(|summary| &summary.failed),
        "reason": summary.and_then(|summary| summary.reason.as_ref()),
    })
}

fn print(tuned: &Tuned, asked: &Asked<'_>, path: &str, results: &str) -> anyhow::Result<()> {
    for rung in &tuned.rungs {
        let time = rung.median_ms().map_or("nothing was right".to_string(), |time| format!("{:.1} us", 1000.0 * time));
        let default = if asked.down.is_some() { ", the first product's" } else { ", the engine's default" };
        let default = if rung.is_default { default } else { "" };
        out::line(format_args!("{:>6}: {}{default}: {time}", rung.tokens, Row::short(&rung.row)))?;
    }
    Ok(out::line(format_args!("wrote {path}; every candidate: {results}"))?)
}
