//! `bluefin tune-gemm`: ROCm's tune_gemm.py, its command line and its files, on the pipeline.

mod flags;
mod regression;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bluefin_campaign::admin::AdminArgs;
use bluefin_campaign::gemm::files::{self, Entry, Size};
use bluefin_campaign::gemm::kind::{ProductKind, ProductKindArgs};
use bluefin_campaign::gemm::products::{Done, Products, Tuned, What, best};
use bluefin_campaign::gemm::space::{Config, Dtype, Space};
use bluefin_campaign::machine::local::{Compilers, LocalDevice};
use bluefin_campaign::ports::StoreArgs;
use bluefin_campaign::search::SearchArgs;
use bluefin_campaign::site::Site;
use bluefin_common::arch;
use bluefin_common::digest::Digest;
use bluefin_common::spelled::{counted, human};
use bluefin_common::target::Target;
use bluefin_common::value::Value;
use bluefin_exporter::summary::Summary;
use bluefin_producer::plan::CandidateBudget;
use bluefin_terminal::failed;
use bluefin_terminal::listing::{self, ListArgs};
use bluefin_terminal::out;
use bluefin_terminal::progress::Display;
use bluefin_terminal::{width, winners};

use crate::workers::LoadArgs;

/// Where the work is kept if nobody says.
const STATE: &str = "tune-gemm.db";

/// Tune Triton's matrix products: tune_gemm.py's command line and files
#[derive(clap::Args)]
#[command(mut_arg("state", |arg| arg.help("Keep it in this file [default: tune-gemm.db, where there is no --fleet]")))]
#[command(after_help = "Examples:\n  bluefin tune-gemm --gemm_size_file sizes.yaml --o tuned.yaml --ngpus 8\n  \
    bluefin tune-gemm -m 8192 -n 8192 -k 8192 -dtype_a bf16 -dtype_b bf16 -dtype_c bf16\n  \
    bluefin tune-gemm -m 8192 -n 8192 -k 8192 --device gfx942 --list --json   (the configs, and nothing else)\n  \
    bluefin tune-gemm --benchmark --gemm_size_file tuned.yaml --o times.csv\n  \
    bluefin tune-gemm --benchmark --gemm_size_file tuned.yaml --reference fallback.yaml   (regression: exit 1 below 0.98)\n  \
    bluefin tune-gemm --gemm_size_file sizes.yaml --fleet --device gfx942-304              (with BLUEFIN_AMQP_URL, BLUEFIN_REDIS_URL)\n\n\
    Triton has to be here (pip install triton), torch has not. Every config that is timed is checked first. Ctrl-C loses nothing: \
    the same command continues.")]
pub struct TuneGemmArgs {
    /// YAML list of sizes, or of sizes with configs; an output file is an input file
    #[arg(long = "gemm_size_file", value_name = "FILE")]
    gemm_size_file: Option<PathBuf>,
    /// Where the results go [default: tuning_results.yaml, with --benchmark benchmarking_results.csv]
    #[arg(long = "o", alias = "tuning_results_file", value_name = "FILE")]
    o: Option<PathBuf>,
    /// Rows of C, without a file
    #[arg(short, value_name = "M", requires = "n", requires = "k")]
    m: Option<i64>,
    /// Columns of C
    #[arg(short, value_name = "N", requires = "m")]
    n: Option<i64>,
    /// Columns of A
    #[arg(short, value_name = "K", requires = "m")]
    k: Option<i64>,
    /// A is column major (with -m, -n and -k)
    #[arg(long = "col_a")]
    col_a: bool,
    /// B is column major
    #[arg(long = "col_b")]
    col_b: bool,
    #[command(flatten)]
    kind: ProductKindArgs,
    /// Use the first so many GPUs
    #[arg(long, value_name = "N", conflicts_with = "gpu_ids")]
    ngpus: Option<u32>,
    /// Use these GPUs
    #[arg(long = "gpu_ids", value_name = "ID,...", value_delimiter = ',')]
    gpu_ids: Vec<u32>,
    /// Devices as `bluefin devices` shows them; with --fleet a target, such as gfx942-304
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["ngpus", "gpu_ids"])]
    device: Option<String>,
    /// Compilers to run at a time [default: the number of CPUs]
    #[arg(long = "num_threads", value_name = "N")]
    num_threads: Option<usize>,
    /// Configs of each solver that are tried for a size: quick (8), normal (16), thorough (64), all, or a number [default: thorough, if the search
    /// learns, else all]
    #[arg(long)]
    budget: Option<CandidateBudget>,
    #[command(flatten)]
    search: SearchArgs,
    /// Search for so long, such as 10m, instead of as far as a budget goes: after the first round of every size the next is that of the size that is
    /// expected to gain most. Then play-offs follow
    #[arg(long, visible_alias = "for", value_name = "TIME", conflicts_with_all = ["budget", "list", "benchmark", "compare_wo_tuning"], value_parser = humantime::parse_duration)]
    time: Option<Duration>,
    #[command(flatten)]
    load: LoadArgs,
    /// Say of each winner that it is correct; every config is checked in any case
    #[arg(long)]
    compare: bool,
    /// Check the configs in the file, and tune nothing
    #[arg(long = "compare_wo_tuning")]
    compare_wo_tuning: bool,
    /// Time the configs in the file, and tune nothing
    #[arg(long, conflicts_with = "compare_wo_tuning")]
    benchmark: bool,
    /// A file of configs to compare with, for --benchmark: reports, and exit code 1 if any is below 0.98 of it
    #[arg(long, value_name = "FILE", requires = "benchmark")]
    reference: Option<PathBuf>,
    /// Have a fleet do it, instead of this machine; its eval workers say how they time
    #[arg(long, requires = "device", conflicts_with = "sustained")]
    fleet: bool,
    #[command(flatten)]
    listing: ListArgs,
    /// With --list: print the configs as JSON on standard output, and nothing else there
    #[arg(long, requires = "list")]
    json: bool,
    #[command(flatten)]
    unneeded: flags::Unneeded,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Where it is done.
struct Workplace<'a> {
    target: Target,
    site: &'a Site,
    /// `None` where a fleet does it.
    local: Option<(Compilers, LocalDevice)>,
}

impl TuneGemmArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        self.unneeded.notes().iter().for_each(|note| say!("{note}"));
        let kind = self.kind.kind()?;
        let mut files = vec![self.entries()?];
        if let Some(reference) = &self.reference {
            files.push(files::read(reference, |note| say!("{note}"))?);
        }
        let given = self.benchmark || self.compare_wo_tuning;
        if given && let Some(entry) = files.iter().flatten().find(|entry| entry.config.is_none()) {
            let Size { m, n, k, .. } = entry.size;
            return Err(crate::usage(format!(
                "--benchmark and --compare_wo_tuning: {m} x {n} x {k} has no config: name an output file"
            )));
        }
        if self.listing.list {
            return self.list(kind, files).await;
        }
        let site = Site::open(&self.place(), self.fleet, &self.admin).await?;
        let result = self.at(&site, kind, files).await;
        site.close().await;
        result
    }

    /// The configs that would be tried.
    async fn list(&self, kind: ProductKind, files: Vec<Vec<Entry>>) -> anyhow::Result<ExitCode> {
        let target = bluefin_campaign::listing::target(Some(&self.devices()))?;
        let entries = files.into_iter().next().unwrap_or_default();
        self.search.lists_no_priors()?;
        listing::print(&self.products(entries, &kind, &target, None)?.list().await?, self.json)
    }

    async fn at(&self, site: &Site, kind: ProductKind, files: Vec<Vec<Entry>>) -> anyhow::Result<ExitCode> {
        let local = if self.fleet { None } else { Some(self.local().await?) };
        let target = match (&local, &self.device) {
            (Some((_, device)), _) => device.target.clone(),
            (None, Some(text)) => text.parse().map_err(|error| crate::usage(format!("--device: {error}")))?,
            (None, None) => return Err(crate::usage("--fleet: --device names the target, such as gfx942-304")),
        };
        self.all(&Workplace { target, site, local }, kind, files).await
    }

    /// Where the work is kept.
    fn place(&self) -> StoreArgs {
        if self.fleet {
            return self.store.clone();
        }
        let state = self.store.state.clone().unwrap_or_else(|| STATE.into());
        StoreArgs { state: Some(state), ..self.store.clone() }
    }

    /// The devices, as `--device` names them.
    fn devices(&self) -> String {
        match (&self.device, self.ngpus) {
            (Some(device), _) => device.clone(),
            (None, Some(count)) => (0..count.max(1)).map(|index| index.to_string()).collect::<Vec<_>>().join(","),
            (None, None) if self.gpu_ids.is_empty() => "0".to_string(),
            (None, None) => self.gpu_ids.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
        }
    }

    async fn local(&self) -> anyhow::Result<(Compilers, LocalDevice)> {
        // Both take seconds.
        let devices = self.devices();
        let device = LocalDevice::find(&devices, self.load.limits());
        let (device, compilers) = tokio::try_join!(device, Compilers::probe(&["triton"], self.num_threads))?;
        Ok((compilers.all_for(&device.target)?, device))
    }

    fn entries(&self) -> anyhow::Result<Vec<Entry>> {
        if let Some(path) = &self.gemm_size_file {
            if self.m.is_some() {
                say!("-m, -n and -k are not needed: --gemm_size_file has the sizes");
            }
            return files::read(path, |note| say!("{note}"));
        }
        let (Some(m), Some(n), Some(k)) = (self.m, self.n, self.k) else {
            return Err(crate::usage("nothing to tune: name a --gemm_size_file, or -m, -n and -k"));
        };
        for (name, size) in [("-m", m), ("-n", n), ("-k", k)] {
            if !(1..=i64::from(i32::MAX)).contains(&size) {
                return Err(crate::usage(format!("{name}: found {size}, expected 1 to {}", i32::MAX)));
            }
        }
        let size = Size { m, n, k, row_a: !self.col_a, row_b: !self.col_b };
        Ok(vec![Entry { size, config: None }])
    }

    /// What is done with all products.
    fn what(&self, priors: Option<Digest>) -> anyhow::Result<What> {
        if self.benchmark || self.compare_wo_tuning {
            return Ok(What::Timed);
        }
        let search = self.search.plan()?;
        // Of those that no search chooses, the best may be the last one.
        let budget = match &search {
            Some(_) if !self.listing.list => CandidateBudget::THOROUGH,
            _ => CandidateBudget::All,
        };
        Ok(What::Tuned { budget: self.budget.unwrap_or(budget), search, time: self.time, priors })
    }

    /// The products of `entries`; says what is not as somebody may expect.
    fn products(
        &self,
        entries: Vec<Entry>,
        kind: &ProductKind,
        target: &Target,
        priors: Option<Digest>,
    ) -> anyhow::Result<Products> {
        let products = Products::of(entries, kind, target, self.what(priors)?)?;
        if kind.types[0] == Dtype::Fp32 && !kind.ieee {
            say!(
                "fp32: products are of 10 bits of mantissa where the GPU has such (TF32, XF32), as tune_gemm.py has them; \
                 --ieee keeps all 24"
            );
        }
        if products.space == Space::V3 && arch::feature(target.arch(), "has_wide_mfma") == Value::Bool(true) {
            say!("kpack: 1 alone is tried, as 2 is the same on {}", target.arch());
        }
        Ok(products)
    }

    async fn all(&self, place: &Workplace<'_>, kind: ProductKind, files: Vec<Vec<Entry>>) -> anyhow::Result<ExitCode> {
        let started = Instant::now();
        let mut results = Vec::new();
        let priors = self.priors(place, &kind).await?;
        for entries in files {
            let products = self.products(entries, &kind, &place.target, priors)?;
            let Some(done) = self.carry_out(place, products).await? else { return Ok(crate::interrupted()) };
            results.push(done);
        }
        say!("done in {}", human(started.elapsed()));
        let done = results.first().map(Vec::as_slice).unwrap_or_default();
        self.tell(done);
        if let Some(reference) = results.get(1) {
            return regression::report(done, reference);
        }
        self.write(done, &kind)?;
        Ok(if done.iter().all(|(_, summary)| best(summary).is_some()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The winners of earlier work that searches begin with: also those of a file of tuned sizes.
    async fn priors(&self, place: &Workplace<'_>, kind: &ProductKind) -> anyhow::Result<Option<Digest>> {
        let given = self.benchmark || self.compare_wo_tuning;
        if let Some(from) = self.search.from.as_ref().filter(|_| given) {
            return Err(crate::usage(format!("--from {from}: --benchmark and --compare_wo_tuning tune nothing")));
        }
        let tuned = |path: &Path| {
            let mut entries = files::read(path, |note| say!("{note}"))?;
            let sizes = entries.len();
            entries.retain(|entry| entry.config.is_some());
            anyhow::ensure!(
                !entries.is_empty(),
                "found {sizes} sizes without a config, expected one or more that have one"
            );
            Products::of(entries, kind, &place.target, What::Timed)?.priors()
        };
        self.search.priors(&*place.site.ports.store, &place.target, Some(&tuned)).await
    }

    /// `None`: it was interrupted.
    async fn carry_out(&self, place: &Workplace<'_>, products: Products) -> anyhow::Result<Option<Vec<Done>>> {
        let mut display = Display::new(|plan| {
            plan.left_out().iter().for_each(|line| say!("{line}"));
            let candidates = plan.space.as_ref().map_or(0, |space| space.candidates);
            let (sizes, jobs) = (counted(plan.problems, "size"), counted(plan.jobs, "job"));
            say!("{sizes}, {} in {jobs}", counted(candidates, "config"));
        })
        .that_ends_after(self.time);
        let tuned = products.carry_out(place.site, place.local.clone(), &mut display).await?;
        let Some(Tuned { done, session, groups, utilisation, bought }) = tuned else { return Ok(None) };
        utilisation.iter().for_each(|utilisation| say!("tuned{utilisation}"));
        bought.iter().for_each(|stretch| say!("{stretch}"));
        if done.iter().any(|(_, summary)| summary.as_ref().is_some_and(|summary| !summary.failed.is_empty())) {
            failed::say(&*place.site.ports.store, &session, &groups, &self.place()).await?;
        }
        Ok(Some(done))
    }

    /// Says what came of each product.
    fn tell(&self, done: &[Done]) {
        for (Entry { size: Size { m, n, k, .. }, .. }, summary) in done {
            let failed = summary.iter().flat_map(|summary| &summary.failed);
            let failed: Vec<String> = failed.map(|(kind, count)| format!("{count} {kind}")).collect();
            match best(summary) {
                Some(_) if self.compare || self.compare_wo_tuning => say!("{m} x {n} x {k}: Correct"),
                Some(_) if failed.is_empty() => {}
                Some(_) => say!("{m} x {n} x {k}: configs that failed: {}", failed.join(", ")),
                None => say!("{m} x {n} x {k}: no config is right: {}", failed.join(", ")),
            }
        }
        let summaries: Vec<Summary> = done.iter().filter_map(|(_, summary)| summary.clone()).collect();
        say!("{}", winners::sheet(&summaries, width::of_stdout()).fitting(width::of_stdout()));
    }

    /// Writes the results where they are wanted.
    fn write(&self, done: &[Done], kind: &ProductKind) -> anyhow::Result<()> {
        if self.compare_wo_tuning {
            return Ok(());
        }
        let timed: Vec<(Size, f64, Config)> = done
            .iter()
            .filter_map(|(entry, summary)| {
                let (us, config) = best(summary)?;
                Some((entry.size, us, config))
            })
            .collect();
        let default = if self.benchmark { "benchmarking_results.csv" } else { "tuning_results.yaml" };
        let path = self.o.clone().unwrap_or_else(|| default.into());
        let text = if self.benchmark {
            files::csv(timed.iter().map(|(size, us, _)| (size, *us)))
        } else {
            let before = match std::fs::read_to_string(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
                read => read.with_context(|| path.display().to_string())?,
            };
            let space = kind.space.unwrap_or(Space::V3);
            let lines = timed.iter().map(|(size, us, config)| (*size, files::line(space, size, config, *us)));
            files::merged(&before, &lines.collect::<Vec<_>>())
        };
        files::replace(&path, &text)?;
        out::line(format_args!("wrote {}: {} of {}", path.display(), timed.len(), counted(done.len(), "size")))?;
        Ok(())
    }
}
