//! `bluefin bench`: how fast bluefin itself is. Every figure comes with one of a bare run beside it, in the same minute, since
//! machines differ and are noisy.
#![forbid(unsafe_code)]

mod compile;
mod db;
mod device;
mod enqueue;
mod export;
mod filled;
mod fleet;
mod jobs;
mod pipeline;
mod replay;
mod results;
mod search;
mod stability;
mod subjects;
mod timing;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_campaign::ports::FleetArgs;
use bluefin_common::session::SessionName;
use bluefin_common::store::Sessions as _;
use bluefin_terminal::out;
use clap::Subcommand;

/// Measure bluefin itself
#[derive(Subcommand)]
#[command(after_help = "Example:\n  bluefin bench compile --candidates 200")]
pub enum BenchVerb {
    /// Jobs enqueued a second, confirms on, beside bare confirmed publishes
    #[command(after_help = "Example:\n  tests/servers target/release/bluefin bench enqueue --jobs 50000")]
    Enqueue {
        #[arg(long, default_value_t = 50_000)]
        jobs: u64,
        /// Print as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        fleet: FleetArgs,
    },
    /// No-op jobs through both hops a second, every promise in force, beside bare publish and consume
    #[command(after_help = "Example:\n  tests/servers target/release/bluefin bench pipeline --jobs 150000")]
    Pipeline {
        #[arg(long, default_value_t = 150_000)]
        jobs: u64,
        /// Deliveries that each worker has under way
        #[arg(long, default_value_t = 512)]
        slots: u16,
        /// Print as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        fleet: FleetArgs,
    },
    /// Share of the CPU time that goes into compilers, and what a warm cache is worth
    #[command(after_help = "Example:\n  bluefin bench compile --candidates 200")]
    Compile {
        #[arg(long, default_value_t = 100)]
        candidates: usize,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// A find db and a perf db read, checked and rewritten, beside a plain scan and sqlite3 in Python
    #[command(after_help = "Example:\n  bluefin bench db gfx906_60.HIP.fdb.txt gfx906_60.db")]
    Db {
        /// Text, or packed as .bz2
        #[arg(value_name = "FIND_DB")]
        find: PathBuf,
        /// SQLite, or packed as .bz2
        #[arg(value_name = "PERF_DB")]
        perf: PathBuf,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Time and memory of an export, from Redis if one is named, else from a state file
    #[command(after_help = "Example:\n  bluefin bench export --outcomes 1000000")]
    Export {
        #[arg(long, default_value_t = 1_000_000)]
        outcomes: u64,
        /// Print as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        fleet: FleetArgs,
    },
    /// Time and memory of `bluefin results` into each format, from Redis if one is named, else from a state file
    #[command(after_help = "Example:\n  bluefin bench results --candidates 1000000")]
    Results {
        #[arg(long, default_value_t = 1_000_000)]
        candidates: u64,
        /// Print as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        fleet: FleetArgs,
    },
    /// One format, in a process of its own
    #[command(hide = true)]
    ResultsOnce(results::OnceArgs),
    /// Simulated devices and compilers by the hundred: how many of them broker and store keep busy; and what a session takes
    #[command(after_help = "Examples:\n  tests/servers target/release/bluefin bench fleet --devices 1,16,128,512\n  \
        tests/servers target/release/bluefin bench fleet --session-jobs 1000000\n\n\
        Devices and compilers sleep for as long as they are said to take; all else is what a fleet does, against the RabbitMQ \
        and the Redis that are named.")]
    Fleet(fleet::FleetBenchArgs),
    /// One process of such a fleet, started by it
    #[command(hide = true)]
    Machine(fleet::machine::MachineArgs),
    /// What the timing protocol is worth: ties, repeats, winners and device time beside Triton's do_bench, busy share
    #[command(after_help = "Examples:\n  bluefin bench timing --trials 20\n  \
        bluefin bench timing --device sm_90-132 --state compiled.db --trials 200")]
    Timing(timing::TimingArgs),
    /// Whether tuning comes to the same when it is repeated, and beside other work: how often winners change, and what each is slower
    /// than the best
    #[command(after_help = "Examples:\n  bluefin bench stability --repeats 10 --busy 3\n  \
        bluefin bench stability --state compiled.db --device 0,1 --json\n\n\
        The judge is a long play-off of all winners and finalists on the machine as it is, without the busy loops.")]
    Stability(stability::StabilityArgs),
    /// What other rules to stop and to search by would have made of a session's samples, without a device
    #[command(after_help = "Example:\n  bluefin tune examples/resnet50.txt && bluefin bench replay --state bluefin.db")]
    Replay(replay::ReplayArgs),
    /// How close searches come to the optimum of tuning spaces of which every point was measured, without a device
    #[command(after_help = "Examples:\n  bluefin bench search convolution_A100.tsv.gz\n  \
        bluefin bench search *_T4.json.gz --search fixed --seeds 10 --noise 5%\n\n\
        A FILE, plain or packed as .gz, is T4 results, as Kernel Tuner and `bluefin results --t4` write them, or tab-separated: \
        a header with the names of the params, median_ms and compile_ms, then a line for each point, of which median_ms may be \
        fail: and why. A T1 may stand beside the T4 of its results.\n\n\
        The baseline is `fixed`: of a measured space it tries points in a random order, another one for each seed.")]
    Search(search::SearchArgs),
}

impl BenchVerb {
    /// Measures, and prints what came of it.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Enqueue { jobs, json, fleet } => print(&enqueue::run(jobs, &fleet).await?, json)?,
            Self::Pipeline { jobs, slots, json, fleet } => print(&pipeline::run(jobs, slots, &fleet).await?, json)?,
            Self::Compile { candidates, json } => print(&compile::run(candidates).await?, json)?,
            Self::Db { find, perf, json } => {
                print(&tokio::task::spawn_blocking(move || db::run(&find, &perf)).await??, json)?;
            }
            Self::Export { outcomes, json, fleet } => print(&export::run(outcomes, &fleet).await?, json)?,
            Self::Results { candidates, json, fleet } => print(&results::run(candidates, &fleet).await?, json)?,
            Self::ResultsOnce(args) => args.run().await?,
            Self::Fleet(args) => args.run().await?,
            Self::Machine(args) => return args.run().await,
            Self::Timing(args) => print(&args.run().await?, args.json)?,
            Self::Stability(args) => args.run().await?,
            Self::Replay(args) => args.run().await?,
            Self::Search(args) => tokio::task::spawn_blocking(move || args.run()).await??,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A figure with its unit.
#[derive(serde::Serialize)]
struct Figure {
    what: &'static str,
    value: f64,
    unit: &'static str,
}

impl Figure {
    fn new(what: &'static str, value: f64, unit: &'static str) -> Self {
        Self { what, value, unit }
    }

    fn rate(what: &'static str, count: u64, time: Duration, unit: &'static str) -> Self {
        Self::new(what, count as f64 / time.as_secs_f64().max(1e-9), unit)
    }
}

fn print(figures: &[Figure], json: bool) -> anyhow::Result<()> {
    if json {
        out::json(&figures)?;
    } else {
        for figure in figures {
            out::line(format_args!("{:>14.3} {:<10} {}", figure.value, figure.unit, figure.what))?;
        }
    }
    Ok(())
}

/// A state file, and the session in it that `name` names, or the last that was made.
async fn session_in(path: &Path, name: Option<&SessionName>) -> anyhow::Result<(SqliteStore, SessionName)> {
    anyhow::ensure!(path.exists(), "{}: no such file", path.display());
    let store = SqliteStore::open(path).await?;
    let sessions = store.sessions().await?;
    let found = match name {
        Some(name) => sessions.into_iter().find(|session| session.name == *name),
        None => sessions.into_iter().max_by_key(|session| session.created_ms),
    };
    match (found, name) {
        (Some(session), _) => Ok((store, session.name)),
        (None, Some(name)) => anyhow::bail!("{}: no session {name}", path.display()),
        (None, None) => anyhow::bail!("{}: no session", path.display()),
    }
}

/// Peak resident memory of this process in MiB, as the kernel counts it.
fn peak_rss_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}
