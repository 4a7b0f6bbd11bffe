//! `bluefin problems import`: adds problems to a tag of the library.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bluefin_campaign::ports::StoreArgs;
use bluefin_common::clock::now_ms;
use bluefin_common::problem::{DataType, Problem};
use bluefin_producer::driver::untuned_operation;
use bluefin_producer::input::{Overrides, ProblemList, Reject, read_file};
use bluefin_producer::library::{AddOptions, Added, Library, TagName};
use bluefin_terminal::out;
use clap::ValueEnum;
use serde::Serialize;

/// Add problems to a tag of the library
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  bluefin problems import -t resnet50 -f examples/resnet50.txt\n  \
    bluefin problems import -t resnet50 -f resnet50.log --batches 16,32 --command convfp16\n  \
    bluefin problems import -t shipped -f gfx906_60.HIP.fdb.txt.bz2 gfx906_60.db.bz2 --allow-rejects\n\n\
    Files may hold driver commands, MIOpen's log, find-db or perf-db lines, JSON objects with a \"problem\", or be a perf db \
    in SQLite; also packed by bzip2. Lines that can not be taken are reported as FILE:LINE: reason; the others are imported, \
    and the exit code is 1. Importing the same file again changes nothing.")]
pub struct ImportArgs {
    /// Tag that the problems get
    #[arg(short, long, value_name = "TAG")]
    pub tag: TagName,
    /// Files to read; - for standard input
    #[arg(short, long, alias = "file_name", value_name = "FILE", required = true, num_args = 1..)]
    pub file: Vec<PathBuf>,
    /// Once with each of these batch sizes instead of the files' own
    #[arg(short, long, alias = "batchsize", value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub batches: Vec<u32>,
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

/// A driver's base word, for its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Precision {
    Conv,
    Convfp16,
    #[value(alias = "convbfp16")]
    Convbf16,
}

impl Precision {
    fn data_type(self) -> DataType {
        match self {
            Self::Conv => DataType::Fp32,
            Self::Convfp16 => DataType::Fp16,
            Self::Convbf16 => DataType::Bf16,
        }
    }
}

/// A kind of problem, by MITuna's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Operation {
    Convolution,
    #[value(name = "batch_norm", alias = "batch-norm")]
    BatchNorm,
}

impl Operation {
    fn is(self, problem: &Problem) -> bool {
        match self {
            Self::Convolution => matches!(problem, Problem::Conv(_)),
            Self::BatchNorm => matches!(problem, Problem::BatchNorm(_)),
        }
    }
}

/// What importing came to.
#[derive(Debug, Default, Serialize)]
pub struct Imported {
    pub tag: String,
    pub files: Vec<ImportedFile>,
}

/// What importing one file came to.
#[derive(Debug, Serialize)]
pub struct ImportedFile {
    pub file: String,
    /// How often the file asks for a problem, repetitions included.
    pub asked: u64,
    /// Different problems.
    pub problems: u64,
    #[serde(flatten)]
    pub added: Added,
    /// Lines of a log that have nothing to do with problems.
    pub skipped: u64,
    pub rejects: Vec<String>,
    /// Driver commands of operations that nothing tunes.
    pub passed_over: Vec<String>,
}

impl Imported {
    pub fn rejects(&self) -> usize {
        self.files.iter().map(|file| file.rejects.len()).sum()
    }
}

impl ImportArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let opened = self.store.open().await?;
        let imported = self.import(Library::new(&*opened.store)).await?;
        opened.close().await;
        if self.json {
            out::json(&imported)?;
        } else {
            imported.print()?;
        }
        for note in imported.files.iter().flat_map(|file| &file.passed_over) {
            eprintln!("{note}");
        }
        for reject in imported.files.iter().flat_map(|file| &file.rejects) {
            eprintln!("{reject}");
        }
        let fine = self.allow_rejects || imported.rejects() == 0;
        Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Reads all files, then adds their problems.
    pub async fn import(&self, library: Library<'_>) -> anyhow::Result<Imported> {
        let overrides = Overrides {
            batchsizes: self.batches.clone(),
            directions: None,
            data_type: self.command.map(Precision::data_type),
        };
        let lists = self.file.iter().map(|file| self.read(file, &overrides)).collect::<anyhow::Result<Vec<_>>>()?;
        let options = AddOptions { recurrent: self.mark_recurrent, known_only: self.tag_only, now_ms: now_ms() };
        let mut imported = Imported { tag: self.tag.to_string(), files: Vec::new() };
        for list in lists {
            let named = |one: &Reject| format!("{}:{}", list.name, one.line);
            let (passed_over, rejects): (Vec<_>, Vec<_>) =
                list.rejects.iter().partition(|one| untuned_operation(&one.text).is_some());
            let note = |one: &&Reject| {
                let operation = untuned_operation(&one.text).unwrap_or_default();
                format!("{}: note: passed over: MIOpen tunes nothing for {operation}", named(one))
            };
            let added = library.add(&self.tag, &list, options).await?;
            imported.files.push(ImportedFile {
                asked: list.problems.iter().map(|one| one.count as u64).sum(),
                problems: list.problems.len() as u64,
                added,
                skipped: list.skipped as u64,
                rejects: rejects.iter().map(|one| format!("{}: {}", named(one), one.reason)).collect(),
                passed_over: passed_over.iter().map(note).collect(),
                file: list.name,
            });
        }
        Ok(imported)
    }

    fn read(&self, file: &Path, overrides: &Overrides) -> anyhow::Result<ProblemList> {
        let mut list = read_file(file, overrides)?;
        let Some(kind) = self.config_type else { return Ok(list) };
        let (kept, others) = list.problems.into_iter().partition(|one| kind.is(&one.problem));
        list.problems = kept;
        for other in others {
            let label = other.problem.label();
            let reason = format!("found {label}, expected only problems of --config-type");
            list.rejects.push(Reject { line: other.line, text: label, reason });
        }
        list.rejects.sort_by_key(|reject| reject.line);
        Ok(list)
    }
}

impl Imported {
    fn print(&self) -> std::io::Result<()> {
        for file in &self.files {
            let Added { new, present, unknown } = file.added;
            let unknown = if unknown > 0 { format!(", {unknown} unknown") } else { String::new() };
            out::line(format_args!(
                "{}: tag {}: {} problems ({} asked for): {new} new, {present} present{unknown}; {} lines rejected",
                file.file,
                self.tag,
                file.problems,
                file.asked,
                file.rejects.len()
            ))?;
        }
        Ok(())
    }
}
