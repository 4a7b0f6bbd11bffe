//! `bluefin export`: folds a session's outcomes into MIOpen's database files.

use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_common::session::SessionName;
use bluefin_common::store::Store;
use bluefin_common::store::sqlite::SqliteStore;
use bluefin_exporter::{ExportReport, ExportRequest, Metrics, export};

use crate::admin::AdminArgs;
use crate::out;
use crate::ports::FleetArgs;

/// Write a session's results as MIOpen databases
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin export --session nightly --find-db --perf-db --kernel-db --out db\n  \
    bluefin export --state bluefin.db --session tune-host --find-db --out db\n\n\
    Without any of the format flags all are written. The same outcomes give the same bytes.")]
pub struct ExportArgs {
    /// The session to export
    #[arg(long, value_name = "NAME")]
    session: SessionName,
    /// The find db (text): best solvers of each convolution
    #[arg(short, long)]
    find_db: bool,
    /// The perf db (sqlite and text): best params of each tunable solver
    #[arg(short, long)]
    perf_db: bool,
    /// The kernel db (sqlite): code objects of the winners
    #[arg(short, long)]
    kernel_db: bool,
    /// winners.json: every problem with its winner, also GEMMs and your own kernels
    #[arg(short, long)]
    winners: bool,
    /// Solvers kept for each find-db key, fastest first: a number, or all
    #[arg(long, default_value = "4", value_parser = parse_top)]
    top: Top,
    /// Folder to write to; made if need be
    #[arg(short, long, default_value = "out")]
    out: PathBuf,
    /// Read from this state file of bluefin tune instead of Redis
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    fleet: FleetArgs,
}

/// How many entries of a find-db key are kept. `None`: all.
#[derive(Clone, Copy, Debug)]
pub struct Top(pub Option<usize>);

pub fn parse_top(text: &str) -> Result<Top, String> {
    match text.parse() {
        _ if text == "all" => Ok(Top(None)),
        Ok(top) if top > 0 => Ok(Top(Some(top))),
        _ => Err("expected a number from 1, or all".to_string()),
    }
}

impl ExportArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let any = self.find_db || self.perf_db || self.kernel_db || self.winners;
        let request = ExportRequest {
            find_db: self.find_db || !any,
            perf_db: self.perf_db || !any,
            kernel_db: self.kernel_db || !any,
            winners: self.winners || !any,
            top: self.top.0,
            out: self.out.clone(),
        };
        let admin = self.admin.start().await?;
        let metrics = Metrics::register(&admin.registry)?;
        admin.readiness.ready();
        let report = match &self.state {
            Some(path) => export(&SqliteStore::open_read_only(path).await?, &self.session, &request).await?,
            None => export(&*self.fleet.store().await? as &dyn Store, &self.session, &request).await?,
        };
        metrics.exported(&report);
        admin.stop().await;
        if self.json {
            out::json(&report)?;
        } else {
            print_report(&report)?;
        }
        Ok(if report.warnings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// One line a file, then the warnings on standard error.
pub fn print_report(report: &ExportReport) -> std::io::Result<()> {
    for file in &report.files {
        out::line(format_args!("wrote {}: {} records, {} bytes", file.path.display(), file.records, file.bytes))?;
    }
    for warning in &report.warnings {
        eprintln!("warning: {warning}");
    }
    Ok(())
}
