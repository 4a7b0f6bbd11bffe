//! `bluefin problems`: what bluefin makes of a file of problems, and the library that they are kept in.

mod import;
mod tag;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_campaign::ports::StoreArgs;
use bluefin_producer::input::{self, Overrides};
use bluefin_producer::keys;
use bluefin_producer::library::TagName;
use clap::Subcommand;

pub use import::ImportArgs;

/// Look at problems, and keep them by tag
#[derive(Subcommand)]
#[command(after_help = "Examples:\n  bluefin problems list examples/resnet50.txt\n  \
    bluefin problems import -t resnet50 -f examples/resnet50.txt")]
pub enum ProblemsVerb {
    Import(ImportArgs),
    #[command(subcommand)]
    Tag(tag::TagVerb),
    Export(tag::ExportArgs),
    /// Prints each driver command with its find-db key and its text perf-db key, tab-separated
    #[command(after_help = "Example:\n  bluefin problems keys examples/resnet50.txt\n\n\
        Lines that can not be taken are reported on standard error with their number, and the exit code is 1.")]
    Keys {
        /// File of MIOpenDriver commands or MIOpen logs; - for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Prints the problems of files or of a tag in their canonical form
    #[command(after_help = "Examples:\n  bluefin problems list examples/resnet50.txt --json\n  \
        bluefin problems list -t resnet50")]
    List {
        /// Files as import takes them; - for standard input
        #[arg(value_name = "FILE", required_unless_present = "tag")]
        files: Vec<PathBuf>,
        /// A tag of the library instead of files
        #[arg(short, long, value_name = "TAG", conflicts_with = "files")]
        tag: Option<TagName>,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
}

impl ProblemsVerb {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Import(args) => args.run().await,
            Self::Tag(verb) => verb.run().await,
            Self::Export(args) => args.run().await,
            Self::Keys { file, json } => keys(&file, json),
            Self::List { tag: Some(tag), json, store, .. } => list_tag(&tag, json, &store).await,
            Self::List { files, json, .. } => list(&files, json),
        }
    }
}

fn keys(file: &std::path::Path, json: bool) -> anyhow::Result<ExitCode> {
    let text = input::read_bytes(file)?;
    let keys = keys::keys(&text);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for row in &keys.rows {
        if json {
            let line = serde_json::json!({
                "command": row.command, "find_db_key": row.find_db_key, "perf_db_key": row.perf_db_key
            });
            writeln!(out, "{line}")?;
        } else {
            writeln!(out, "{row}")?;
        }
    }
    out.flush()?;
    Ok(report_rejects(file, &keys.rejects))
}

fn list(files: &[PathBuf], json: bool) -> anyhow::Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for file in files {
        let list = input::read_file(file, &Overrides::default())?;
        for sourced in &list.problems {
            let problem = &sourced.problem;
            if json {
                let line = serde_json::json!({
                    "problem": problem.canonical(), "digest": problem.digest().to_string(), "line": sourced.line
                });
                writeln!(out, "{line}")?;
            } else {
                writeln!(out, "{problem}")?;
            }
        }
        out.flush()?;
        list.notes().for_each(|note| say!("{note}"));
        if !list.rejects.is_empty() {
            code = report_rejects(file, &list.rejects);
        }
    }
    Ok(code)
}

async fn list_tag(tag: &TagName, json: bool, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for tagged in tag::problems(tag, store).await? {
        let problem = &tagged.problem;
        if json {
            let line = serde_json::json!({
                "problem": problem.canonical(), "digest": problem.digest().to_string(), "count": tagged.count,
                "source": tagged.source
            });
            writeln!(out, "{line}")?;
        } else {
            writeln!(out, "{problem}")?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn report_rejects(file: &std::path::Path, rejects: &[input::Reject]) -> ExitCode {
    for reject in rejects {
        say!("{}:{}: {}", file.display(), reject.line, reject.reason);
    }
    if rejects.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
