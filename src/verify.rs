//! `bluefin verify`: rows of files that bluefin writes against what is launched without them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bluefin_campaign::admin::AdminArgs;
use bluefin_campaign::gemm::kind::ProductKindArgs;
use bluefin_campaign::machine::local::{Compilers, LocalDevice};
use bluefin_campaign::ports::StoreArgs;
use bluefin_campaign::search::SearchArgs;
use bluefin_campaign::serving::ROWS;
use bluefin_campaign::site::Site;
use bluefin_campaign::verify::{
    Bench, CacheFolder, FileKind, Judged, LayerFile, LayerSizes, ProductFile, Remedy, Retune, Subject, ToolArgs,
    ToolFile, Verified, verify,
};
use bluefin_common::arch;
use bluefin_common::spelled::counted;
use bluefin_producer::plan::CandidateBudget;
use bluefin_serving::{Engine, Precision};
use bluefin_terminal::out;
use bluefin_terminal::progress::Display;
use serde_json::json;

use crate::serving::layer::SourceArgs;
use crate::workers::LoadArgs;

/// Time the rows of files that bluefin writes against what is launched without them: is tuned ever slower than untuned
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  bluefin verify 'E=8,N=7168,device_name=NVIDIA_H200.json' --hidden 4096 --topk 2 --installed venv/lib/python3.12/site-packages/vllm\n  \
    bluefin verify tuned/*.json --hidden 4096 --topk 2 --installed venv/lib/python3.12/site-packages/vllm --known old/ --fix\n  \
    bluefin verify tuned.yaml --known fallback.yaml --retune\n  \
    bluefin verify out/triton-cache --triton kernels --fix\n  \
    bluefin verify aiter/aiter/configs/a8w8_tuned_gemm.csv --aiter aiter\n\n\
    Files of vLLM or SGLang for mixtures of experts (.json) or folders of them, of tune_gemm.py (.yaml), of aiter's operators (.csv), MIOpen's find dbs (fdb.txt) and perf dbs (db.txt, .db), or \
    folders that are a cache of Triton's. The default is the engine's row without a file, the default config of the kernel of tune-gemm, what aiter, MIOpen and its solvers choose without a row, and the config that \
    the program runs by without the cache. The row, the default, and the row \
    of --known are timed in turns, anew each time. FASTER and SLOWER: their intervals do not meet. Exit code 1 if a row is slower than the default, or fails, \
    and is not replaced, if no row of a file of aiter's or MIOpen's can be judged, and if no loader of the engine ever asks for a file of that name."
)]
pub struct VerifyArgs {
    /// Files, folders with those of an engine, or folders that are a cache of Triton's: all of one kind
    #[arg(value_name = "FILE|DIR", required = true)]
    files: Vec<PathBuf>,
    /// The best rows that are known: a file, or a folder that may have one of the same name; of a cache another one
    #[arg(long, value_name = "FILE|DIR")]
    known: Option<PathBuf>,
    /// Put the default in the place of each row that loses to it
    #[arg(long)]
    fix: bool,
    /// Search for better rows where one loses, and put those in their places; it begins with all rows of the file
    #[arg(long)]
    retune: bool,
    /// Candidates of each solver, with --retune
    #[arg(long, default_value_t = ROWS, requires = "retune")]
    budget: CandidateBudget,
    /// Devices, all of one target, as `bluefin devices` shows them [default: gpu]
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    #[command(flatten)]
    load: LoadArgs,
    /// Where the work is kept [default: verify.db]
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten, next_help_heading = "Files of vLLM and SGLang")]
    layer: LayerArgs,
    #[command(flatten, next_help_heading = "Files of tune_gemm.py")]
    products: ProductKindArgs,
    #[command(flatten, next_help_heading = "Files of aiter's operators, and MIOpen's databases")]
    tools: ToolArgs,
    /// The kernels of the program, as bluefin capture --triton writes them
    #[arg(long, value_name = "KERNELS", help_heading = "A cache of Triton's")]
    triton: Option<PathBuf>,
    #[command(flatten)]
    search: SearchArgs,
}

/// What the name of a config file does not say.
#[derive(clap::Args)]
struct LayerArgs {
    /// Columns of the activations
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    hidden: Option<u32>,
    /// Experts a token
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    topk: Option<u32>,
    /// What 16 bits are [default: bf16]
    #[arg(long, value_name = "TYPE", value_parser = ["bf16", "fp16"])]
    half: Option<String>,
    /// What weights are in files of vLLM whose names have no type: 16 bits, or int8_w8a8
    #[arg(long, value_name = "TYPE", value_parser = ["int8_w8a8"])]
    dtype: Option<String>,
    /// Experts have no gate: the first product has N columns, not 2 N
    #[arg(long)]
    ungated: bool,
    /// Each channel of the weights has a scale, and each token, in fp8_w8a8
    #[arg(long)]
    per_channel: bool,
    /// Columns of a group of the weights that has a scale, in int4_w4a16 and int8_w8a16
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    group_size: Option<u32>,
    /// Each group has a zero point as well
    #[arg(long, requires = "group_size")]
    zero_points: bool,
    #[command(flatten)]
    source: SourceArgs,
}

impl VerifyArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let (files, kind) = self.files()?;
        if kind.is_of_tools() {
            return self.of_tools(&files, kind).await;
        }
        let mut subjects = self.subjects(&files, kind)?;
        let named = self.device.as_deref().unwrap_or("gpu");
        let (device, compilers) =
            tokio::try_join!(LocalDevice::find(named, self.load.limits()), Compilers::probe(&["triton"], None))?;
        let compilers = compilers.all_for(&device.target)?;
        let architecture = arch::of(device.target.arch())
            .ok_or_else(|| crate::usage(format!("--device {named}: found {}, expected a GPU", device.target)))?;
        let state = self.state.clone().or_else(|| Some("verify.db".into()));
        let store = StoreArgs { state, ..StoreArgs::default() };
        let site = Site::open(&store, false, &self.admin).await?;
        let result = self.all(&Bench { site: &site, compilers, device, architecture }, &mut subjects).await;
        site.close().await;
        result
    }

    /// All files, which are of one kind.
    fn files(&self) -> anyhow::Result<(Vec<PathBuf>, FileKind)> {
        let (files, kind) = FileKind::of_all(&self.files)?;
        let flags = [
            (self.layer.given(), FileKind::Layer),
            (self.products.given(), FileKind::Products),
            (self.triton.as_ref().map(|_| "--triton"), FileKind::Cache),
        ];
        let (device, state) = (self.device.is_some(), self.state.is_some());
        let bench = [("--device", device), ("--state", state), ("--sustained", self.load.sustained)];
        kind.allows(&flags, self.tools.given(), &bench)?;
        Ok((files, kind))
    }

    async fn of_tools(&self, files: &[PathBuf], kind: FileKind) -> anyhow::Result<ExitCode> {
        let mut told = Told::default();
        for mut file in ToolFile::read_all(kind, files, self.known.as_deref(), &self.tools, self.retune)? {
            file.note().iter().for_each(|note| say!("note: {}: {note}", file.path().display()));
            let mut display = Display::new(|_| ());
            let verified = file.verify(&self.tools, self.fix, &mut display).await;
            let Ok(Some(verified)) = verified else {
                told.end(self.json)?;
                say!("stopped; of {} nothing is kept, and nothing was written", file.path().display());
                return verified.map(|_| ExitCode::from(130));
            };
            verified.is_unknown().then(|| say!("{}: no row can be judged", file.path().display()));
            told.tell(file.path(), file.kernel(), verified, self.json)?;
        }
        told.end(self.json)
    }

    fn subjects(&self, files: &[PathBuf], kind: FileKind) -> anyhow::Result<Vec<Box<dyn Subject>>> {
        let known = self.known.as_deref();
        match kind {
            FileKind::Layer => self.layer.read(files, known),
            FileKind::Products => {
                let kind = self.products.kind()?;
                let read = |path: &PathBuf| ProductFile::read(path, known, kind, |note| say!("{note}"));
                files.iter().map(|path| Ok(Box::new(read(path)?) as Box<dyn Subject>)).collect()
            }
            FileKind::Cache | FileKind::Operators | FileKind::Finds | FileKind::Perfs => {
                let kernels = self.triton.as_ref();
                let kernels = kernels.ok_or_else(|| {
                    let first = files.first().map_or(String::new(), |path| path.display().to_string());
                    let expected = "config files of an engine, such as E=8,N=7168,device_name=NVIDIA_H200.json, or with --triton a cache of Triton's";
                    crate::usage(format!("{first}: found a folder without any, expected {expected}"))
                })?;
                let read = |path: &PathBuf| CacheFolder::read(path, known, kernels);
                files.iter().map(|path| Ok(Box::new(read(path)?) as Box<dyn Subject>)).collect()
            }
        }
    }

    async fn all(&self, bench: &Bench<'_>, subjects: &mut [Box<dyn Subject>]) -> anyhow::Result<ExitCode> {
        let retune = self.retune.then_some(Retune { budget: self.budget, search: &self.search });
        let remedy = Remedy { fix: self.fix, retune };
        let mut told = Told::default();
        for subject in subjects {
            let path = subject.path().display().to_string();
            subject.note().iter().for_each(|note| say!("note: {path}: {note}"));
            subject.fault().iter().for_each(|fault| say!("{path}: {fault}"));
            told.loses |= subject.fault().is_some();
            let mut display = Display::new(|plan| plan.left_out().iter().for_each(|line| say!("{line}")));
            let verified = verify(&mut **subject, bench, &remedy, &mut display).await?;
            let Some(verified) = verified else { return Ok(crate::interrupted()) };
            told.tell(subject.path(), subject.kernel(), verified, self.json)?;
        }
        told.end(self.json)
    }
}

/// What came of files.
#[derive(Default)]
struct Told {
    files: Vec<serde_json::Value>,
    loses: bool,
}

impl Told {
    fn tell(&mut self, path: &Path, kernel: &str, verified: Verified, json: bool) -> anyhow::Result<()> {
        let Verified { rows, replaced, loses } = verified;
        self.loses |= loses;
        if !json {
            out::line(format_args!("{}:", path.display()))?;
            let width = rows.iter().map(Judged::width).max().unwrap_or(0).max(6);
            rows.iter().try_for_each(|row| out::line(row.line(width)))?;
        }
        if replaced {
            let put = rows.iter().filter(|row| row.replaced_by.is_some()).count();
            say!("wrote {}: {} replaced", path.display(), counted(put as u64, "row"));
        }
        self.files.push(json!({ "file": path, "kernel": kernel, "replaced": replaced, "rows": rows }));
        Ok(())
    }

    fn end(self, json: bool) -> anyhow::Result<ExitCode> {
        if json && !self.files.is_empty() {
            out::json(&self.files)?;
        }
        Ok(if self.loses { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

impl LayerArgs {
    /// The first flag that is there.
    fn given(&self) -> Option<&'static str> {
        let flags = [
            ("--hidden", self.hidden.is_some()),
            ("--topk", self.topk.is_some()),
            ("--half", self.half.is_some()),
            ("--dtype", self.dtype.is_some()),
            ("--ungated", self.ungated),
            ("--per-channel", self.per_channel),
            ("--group-size", self.group_size.is_some()),
            ("--zero-points", self.zero_points),
            ("--installed", self.source.is_given()),
        ];
        flags.into_iter().find_map(|(flag, given)| given.then_some(flag))
    }

    /// Reads files of one engine.
    fn read(&self, files: &[PathBuf], known: Option<&Path>) -> anyhow::Result<Vec<Box<dyn Subject>>> {
        let (Some(hidden), Some(topk)) = (self.hidden, self.topk) else {
            return Err(crate::usage(
                "a config file of vLLM or SGLang does not say all of its layer: name --hidden and --topk",
            ));
        };
        let engine = files.first().map_or(Engine::VLLM, |path| Engine::of_path(path));
        if let Some(path) = files.iter().find(|path| Engine::of_path(path) != engine) {
            let (path, found) = (path.display(), Engine::of_path(path));
            anyhow::bail!("{path}: found a file of {found}, expected one of {engine} as the first is");
        }
        let half = if self.half.as_deref() == Some("fp16") { "FP16" } else { "BF16" };
        let (per_channel, group, zero_points) = (self.per_channel, self.group_size, self.zero_points);
        let (is_gated, unnamed) = (!self.ungated, self.dtype.as_deref().and_then(Precision::of_word));
        let sizes = LayerSizes { hidden, topk, half, per_channel, group, zero_points, is_gated, unnamed };
        let source = self.source.source(engine)?;
        let read = |path: &PathBuf| LayerFile::read(path, known, sizes, source.clone());
        files.iter().map(|path| Ok(Box::new(read(path)?) as Box<dyn Subject>)).collect()
    }
}
