//! `bluefin verify`: rows of config files against the engine's default.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bluefin_campaign::admin::AdminArgs;
use bluefin_campaign::machine::local::{Compilers, LocalDevice};
use bluefin_campaign::ports::StoreArgs;
use bluefin_campaign::search::SearchArgs;
use bluefin_campaign::serving::verify::{Judged, Time, fixed, judge};
use bluefin_campaign::serving::{How, Ladder, Tuned};
use bluefin_campaign::site::Site;
use bluefin_common::arch;
use bluefin_common::clock::now_ms;
use bluefin_producer::plan::CandidateBudget;
use bluefin_serving::default::Gpu;
use bluefin_serving::files::{Found, name_of};
use bluefin_serving::installed::Source;
use bluefin_serving::kernel::{Asked, Routing};
use bluefin_serving::merge::write;
use bluefin_serving::quantised::Storage;
use bluefin_serving::shapes::MoeShape;
use bluefin_serving::{ConfigFile, Engine, Error, Layer};
use bluefin_terminal::out;
use bluefin_terminal::progress::Display;
use serde_json::json;

use crate::serving::layer::SourceArgs;
use crate::workers::LoadArgs;

/// Time the rows of config files against the engine's default rows: is tuned ever slower than untuned
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  bluefin verify 'E=8,N=7168,device_name=NVIDIA_H200.json' --hidden 4096 --topk 2 --installed venv/lib/python3.12/site-packages/vllm\n  \
    bluefin verify tuned/*.json --hidden 4096 --topk 2 --installed venv/lib/python3.12/site-packages/vllm --known old/ --fix\n\n\
    Files of vLLM or SGLang for mixtures of experts; what their names do not say, the hidden size and the experts a token, is said by --hidden and --topk. The row, the engine's \
    default, and the row of --known are timed in turns, anew each time. FASTER and SLOWER: their intervals do not meet. Exit code 1 if a row is slower than the default, or fails, \
    and is not replaced."
)]
pub struct VerifyArgs {
    /// Config files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Columns of the activations
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    hidden: u32,
    /// Experts a token
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    topk: u32,
    /// What 16 bits are
    #[arg(long, value_name = "TYPE", default_value = "bf16", value_parser = ["bf16", "fp16"])]
    half: String,
    #[command(flatten)]
    source: SourceArgs,
    /// The best rows that are known: a config file, or a folder that may have one of the same name
    #[arg(long, value_name = "FILE|DIR")]
    known: Option<PathBuf>,
    /// Put the engine's default in the place of each row that loses to it
    #[arg(long)]
    fix: bool,
    /// Search for better rows where one loses, and put those in their places
    #[arg(long)]
    retune: bool,
    /// Candidates of each solver, with --retune
    #[arg(long, default_value_t = CandidateBudget::THOROUGH, requires = "retune")]
    budget: CandidateBudget,
    #[command(flatten)]
    search: SearchArgs,
    /// Devices, all of one target, as `bluefin devices` shows them
    #[arg(long, value_name = "DEVICE", default_value = "gpu")]
    device: String,
    #[command(flatten)]
    load: LoadArgs,
    /// Where the work is kept
    #[arg(long, value_name = "FILE", default_value = "verify.db")]
    state: PathBuf,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// A file with what its name says.
struct Subject {
    path: PathBuf,
    engine: Engine,
    file: ConfigFile,
    shape: MoeShape,
    known: Option<ConfigFile>,
}

/// Where rows are timed.
struct Bench<'a> {
    site: &'a Site,
    workers: (Compilers, LocalDevice),
    source: Source,
    gpu: Gpu,
}

impl VerifyArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let subjects = self.files.iter().map(|path| self.subject(path)).collect::<anyhow::Result<Vec<_>>>()?;
        let engine = subjects.first().map_or(Engine::VLLM, |subject| subject.engine);
        if let Some(other) = subjects.iter().find(|subject| subject.engine != engine) {
            anyhow::bail!(
                "{}: found a file of {}, expected one of {engine} as the first is",
                other.path.display(),
                other.engine
            );
        }
        let (device, compilers) =
            tokio::try_join!(LocalDevice::find(&self.device, self.load.limits()), Compilers::probe(&["triton"], None))?;
        let compilers = compilers.all_for(&device.target)?;
        let architecture = arch::of(device.target.arch()).ok_or_else(|| {
            crate::usage(format!("--device {}: found {}, expected a GPU", self.device, device.target))
        })?;
        let source = self.source.source(engine)?;
        let store = StoreArgs { state: Some(self.state.clone()), ..StoreArgs::default() };
        let site = Site::open(&store, false, &self.admin).await?;
        let bench = Bench { site: &site, workers: (compilers, device), source, gpu: Gpu::of(architecture) };
        let result = self.all(&bench, &subjects).await;
        site.close().await;
        result
    }

    /// Reads a file, which has to be vLLM's for a mixture of experts.
    fn subject(&self, path: &Path) -> anyhow::Result<Subject> {
        let found = Found::read(path, None)?;
        let name = found.name.map_err(|source| Error::Name { path: path.to_path_buf(), source })?;
        let file = ConfigFile::read(path, found.engine)?;
        let Layer::Moe { experts, intermediate } = name.layer else {
            anyhow::bail!("{}: found a file for products, expected one for a mixture of experts", path.display());
        };
        if name.down {
            anyhow::bail!("{}: found a file of second products, expected one of both", path.display());
        }
        let known = match &self.known {
            Some(folder) if folder.is_dir() => Some(folder.join(name_of(path))).filter(|other| other.is_file()),
            known => known.clone(),
        };
        let known = known.map(|other| ConfigFile::read(&other, found.engine)).transpose()?;
        let storage = Storage { dtype: name.dtype, block_shape: name.block_shape, per_channel: name.per_channel };
        let shape = MoeShape { experts, intermediate, hidden: self.hidden, topk: self.topk, storage };
        Ok(Subject { path: path.to_path_buf(), engine: found.engine, file, shape, known })
    }

    async fn all(&self, bench: &Bench<'_>, subjects: &[Subject]) -> anyhow::Result<ExitCode> {
        let (mut told, mut loses) = (Vec::new(), false);
        for subject in subjects {
            let tokens: Vec<i64> = subject.file.rows().map(|(size, _)| size).filter(|size| *size > 0).collect();
            let asked = self.asked(bench, subject, &tokens, false);
            let Some(tuned) = self.timed(bench, &asked).await? else { return Ok(crate::interrupted()) };
            let judged = judge(bench.site, &asked, &subject.file, &tuned).await?;
            let lost: Vec<i64> = judged.iter().filter(|one| one.verdict.loses()).map(|one| one.tokens).collect();
            let mut file = if self.fix { fixed(&asked, &subject.file, &judged) } else { subject.file.clone() };
            if self.retune && !lost.is_empty() {
                let asked = self.asked(bench, subject, &lost, true);
                let Some(tuned) = self.timed(bench, &asked).await? else { return Ok(crate::interrupted()) };
                tuned.rungs.iter().for_each(|rung| file.set(rung.tokens, rung.row.clone()));
            }
            if file != subject.file {
                write(&subject.path, &file.text())?;
            }
            loses |= !lost.is_empty() && !self.fix && !self.retune;
            if !self.json {
                print(subject, &judged)?;
            }
            told.push(json!({ "file": subject.path, "kernel": bench.source.from, "replaced": file != subject.file, "rows": judged }));
        }
        if self.json {
            out::json(&told)?;
        }
        Ok(if loses { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn asked<'a>(&self, bench: &Bench<'_>, subject: &'a Subject, tokens: &'a [i64], searched: bool) -> Asked<'a> {
        Asked {
            engine: subject.engine,
            shape: &subject.shape,
            half: if self.half == "fp16" { "FP16" } else { "BF16" },
            gpu: bench.gpu,
            tokens,
            routing: &Routing::Uniform,
            shipped: Some(&subject.file),
            known: subject.known.as_ref(),
            searched,
        }
    }

    /// Times all that is asked for, anew. `None`: it was interrupted.
    async fn timed(&self, bench: &Bench<'_>, asked: &Asked<'_>) -> anyhow::Result<Option<Tuned>> {
        let search = if asked.searched { self.search.plan()? } else { None };
        let target = &bench.workers.1.target;
        let priors = self.search.priors(&*bench.site.ports.store, target, None).await?;
        let how = How { budget: self.budget, search, priors, anew: Some(now_ms().to_string()) };
        let mut display = Display::new(|plan| plan.left_out().iter().for_each(|line| eprintln!("{line}")));
        let (ladder, local) = (Ladder::of(asked, &bench.source)?, Some(bench.workers.clone()));
        ladder.carry_out(asked, how, bench.site, target, local, &mut display).await
    }
}

fn print(subject: &Subject, judged: &[Judged]) -> anyhow::Result<()> {
    out::line(format_args!("{}:", subject.path.display()))?;
    for Judged { tokens, row, verdict, time, default, known, regret, reason } in judged {
        let shown =
            |time: &Option<Time>| time.map_or("-".to_string(), |time| format!("{:.1}", 1000.0 * time.median_ms));
        let regret = regret.map_or(String::new(), |regret| format!(", regret {:.1} %", 100.0 * regret));
        let known = known.map_or(String::new(), |time| format!(", known {:.1} us", 1000.0 * time.median_ms));
        let reason = reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
        let verdict = format!("{verdict:?}").to_uppercase();
        out::line(format_args!(
            "{tokens:>6} {verdict:<7} {}: {} us, default {} us{known}{regret}{reason}",
            row.short(),
            shown(time),
            shown(default)
        ))?;
    }
    Ok(())
}
