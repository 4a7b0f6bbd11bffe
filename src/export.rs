//! `bluefin export`: folds a session's outcomes into MIOpen's database files.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use bluefin_campaign::admin::AdminArgs;
use bluefin_campaign::formats::FormatArgs;
use bluefin_campaign::given_back;
use bluefin_campaign::known::known;
use bluefin_campaign::ports::StoreArgs;
use bluefin_common::session::SessionName;
use bluefin_common::spelled::counted;
use bluefin_common::store::Store;
use bluefin_exporter::{ExportReport, ExportRequest, Metrics, WhichSpecs, export};
use bluefin_producer::library::{Library, TagName};
use bluefin_terminal::out;

/// Write a session's results as MIOpen databases
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin export --session nightly --find-db --perf-db --kernel-db --out db\n  \
    bluefin export --session 1 -f -t resnet50\n  \
    bluefin export --state bluefin.db --session tune-host --find-db --out db\n  \
    bluefin export --session nightly --format find-db,winners\n\n\
    Without any of the format flags all are written. The same outcomes give the same bytes.")]
pub struct ExportArgs {
    /// The session to export
    #[arg(long, alias = "session_id", value_name = "NAME")]
    session: SessionName,
    /// Only problems of this tag of the library
    #[arg(short = 't', long, alias = "config_tag", value_name = "TAG")]
    config_tag: Option<TagName>,
    /// The session's architecture, which it is held against
    #[arg(short, long)]
    arch: Option<String>,
    /// The session's compute units, which they are held against
    #[arg(short, long, alias = "num_cu")]
    num_cu: Option<u32>,
    /// Base name of the files [default: the one that MIOpen looks for, such as gfx90a68]
    #[arg(long, value_name = "NAME", value_parser = parse_filename)]
    filename: Option<String>,
    #[command(flatten)]
    formats: FormatArgs,
    /// Solvers kept for each find-db key, fastest first: a number, or all
    #[arg(long, default_value = "4", value_parser = parse_top)]
    top: Top,
    /// Write results of kernel specs that were edited since into winners.json too, each with its digest and time
    #[arg(long)]
    all_specs: bool,
    /// Folder to write to; made if need be
    #[arg(short, long, visible_alias = "output", default_value = "out")]
    out: PathBuf,
    /// Write what was found for captured Triton kernels, of these folders of `bluefin capture --triton`, as their program reads it
    #[arg(long, value_name = "DIR")]
    triton: Vec<PathBuf>,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    store: StoreArgs,
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

/// A name without folders.
fn parse_filename(text: &str) -> Result<String, String> {
    let plain = !text.is_empty() && !text.starts_with('.') && !text.contains(['/', '\0']) && text.len() <= 100;
    plain
        .then(|| text.to_string())
        .ok_or_else(|| "expected a file name of at most 100 bytes, without folders".to_string())
}

impl ExportArgs {
    /// What to write, for the problems that were asked for.
    async fn export(&self, store: &dyn Store, mut request: ExportRequest) -> anyhow::Result<ExportReport> {
        if let Some(tag) = &self.config_tag {
            let problems = Library::new(store).problems(tag).await?;
            request.only = Some(Arc::new(problems.into_iter().map(|tagged| tagged.problem).collect()));
        }
        if let Some(session) = store.session(&self.session).await? {
            let (target, arch, cus) = (&session.target, self.arch.as_deref(), self.num_cu);
            if arch.is_some_and(|arch| arch != target.arch()) || cus.is_some_and(|cus| cus != target.cus()) {
                return Err(crate::usage(format!("--arch, --num-cu: session {} is for {target}", self.session)));
            }
        }
        Ok(export(store, &self.session, &request).await?)
    }

    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let formats = self.formats.chosen(!self.triton.is_empty()).map_err(crate::usage)?;
        let request = ExportRequest {
            formats: known().formats.chosen(&formats),
            top: self.top.0,
            out: self.out.clone(),
            only: None,
            base_name: self.filename.clone(),
            is_named: !formats.is_empty(),
            specs: if self.all_specs { WhichSpecs::All } else { WhichSpecs::Current(HashSet::new()) },
        };
        let admin = self.admin.start().await?;
        let metrics = Metrics::register(&admin.registry)?;
        admin.readiness.ready();
        let opened = self.store.open_to_read().await?;
        let report = self.export(&*opened.store, request).await?;
        metrics.exported(&report);
        admin.stop().await;
        if self.json {
            out::json(&report)?;
        } else {
            print_report(&report)?;
        }
        if let Some(said) = given_back::write(&self.triton, &self.out)? {
            say!("{said}");
        }
        Ok(if report.warnings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// One line a file, then the warnings on standard error.
pub fn print_report(report: &ExportReport) -> std::io::Result<()> {
    for file in &report.files {
        let (records, bytes) = (counted(file.records, "record"), counted(file.bytes, "byte"));
        out::line(format_args!("wrote {}: {records}, {bytes}", file.path.display()))?;
    }
    for warning in &report.warnings {
        say!("warning: {warning}");
    }
    for note in &report.notes {
        say!("note: {note}");
    }
    Ok(())
}
