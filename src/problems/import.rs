//! `bluefin problems import`: adds problems to a tag of the library.

use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_campaign::ports::StoreArgs;
use bluefin_campaign::problems::{Operation, Precision};
use bluefin_common::clock::now_ms;
use bluefin_common::problem::Direction;
use bluefin_common::spelled::counted;
use bluefin_producer::import::{Import, Imported};
use bluefin_producer::input::Overrides;
use bluefin_producer::library::{AddOptions, Added, Library, TagName};
use bluefin_terminal::out;

/// Add problems to a tag of the library
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  bluefin problems import -t resnet50 -f examples/resnet50.txt\n  \
    bluefin problems import -t resnet50 -f resnet50.log --batches 16,32 --command convfp16\n  \
    bluefin problems import -t shipped -f gfx906_60.HIP.fdb.txt.bz2 gfx906_60.db.bz2 --allow-rejects\n\n\
    Files may hold driver commands, MIOpen's log, find-db or perf-db lines, JSON objects with a \"problem\", or be a perf db \
    in SQLite; also packed by bzip2. Lines that can not be taken are reported as FILE:LINE: reason; the others are imported, \
    and the exit code is 1. Importing the same file again changes nothing.")]
pub struct ImportArgs {
    /// Tag that the problems get; import_configs without one takes the name of the file
    #[arg(short, long, value_name = "TAG")]
    pub tag: TagName,
    /// Files to read; - for standard input
    #[arg(short, long, alias = "file_name", value_name = "FILE", required = true, num_args = 1..)]
    pub file: Vec<PathBuf>,
    /// Once with each of these batch sizes instead of the files' own
    #[arg(short, long, alias = "batchsize", value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub batches: Vec<u32>,
    /// Convolutions in these directions instead of the files' own: F (forward), B (backward data), W (backward weights)
    #[arg(long, value_name = "F,B,W", value_delimiter = ',')]
    pub direction: Vec<Direction>,
    /// In this precision instead of the files' own
    #[arg(short, long, value_enum, value_name = "COMMAND")]
    pub command: Option<Precision>,
    /// Only problems that the library has already, under whatever tag
    #[arg(short = 'T', long, alias = "tag_only")]
    pub tag_only: bool,
    /// Mark the tag as one that is tuned again and again
    #[arg(long, alias = "mark_recurrent")]
    pub mark_recurrent: bool,
    /// Only problems of this kind
    #[arg(short = 'C', long, alias = "config_type", value_enum, value_name = "KIND")]
    pub config_type: Option<Operation>,
    /// Lines that can not be taken are no failure
    #[arg(long)]
    pub allow_rejects: bool,
    /// Print what was done as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

impl ImportArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let opened = self.store.open().await?;
        let imported = self.what().import(Library::new(&*opened.store)).await;
        opened.close().await;
        let imported = imported?;
        if self.json {
            out::json(&imported)?;
        } else {
            print(&imported)?;
        }
        for note in imported.files.iter().flat_map(|file| &file.passed_over) {
            say!("{note}");
        }
        for reject in imported.files.iter().flat_map(|file| &file.rejects) {
            say!("{reject}");
        }
        let fine = self.allow_rejects || imported.rejects() == 0;
        Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// What is imported.
    fn what(&self) -> Import {
        Import {
            tag: self.tag.clone(),
            files: self.file.clone(),
            overrides: Overrides {
                batchsizes: self.batches.clone(),
                directions: (!self.direction.is_empty()).then(|| self.direction.clone()),
                data_type: self.command.map(Precision::data_type),
            },
            only: self.config_type.map(Operation::only),
            options: AddOptions { recurrent: self.mark_recurrent, known_only: self.tag_only, now_ms: now_ms() },
        }
    }
}

fn print(imported: &Imported) -> std::io::Result<()> {
    for file in &imported.files {
        let Added { new, present, unknown } = file.added;
        let unknown = if unknown > 0 { format!(", {unknown} unknown") } else { String::new() };
        out::line(format_args!(
            "{}: tag {}: {} ({} asked for): {new} new, {present} present{unknown}; {} rejected",
            file.file,
            imported.tag,
            counted(file.problems, "problem"),
            file.asked,
            counted(file.rejects.len(), "line")
        ))?;
    }
    Ok(())
}
