//! `bluefin capture`: runs an application and writes down the problems that it asks MIOpen for, or the kernels that Triton tunes in it.

mod triton;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};

use anyhow::Context as _;
use bluefin_campaign::ports::StoreArgs;
use bluefin_common::clock::now_ms;
use bluefin_common::files::FileSet;
use bluefin_producer::capture::{Captured, run};
use bluefin_producer::input::{ProblemList, Sourced};
use bluefin_producer::library::{AddOptions, Library, TagName};
use bluefin_triton::Contents;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::json;

/// Run an application and write down what it asks MIOpen or Triton for
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin capture -t resnet50 -- python3 train.py\n  \
    bluefin capture -t resnet50 -o shapes.txt --json -- ./serve --warmup\n  \
    bluefin capture --triton -o kernels -- python3 bench.py\n\n\
    Problems go to the library under the tag, with how often each was asked for, or to a file. \
    The application's output, exit code and death by a signal are passed on as they are; what was captured until then is \
    written in any case. Its standard error is a pipe, which some programs take as a reason to print no colours. It ends \
    when everybody who holds its standard error has closed it.\n\n\
    Each problem stands in the file once, in the order in which it was first met, below a comment with the number of \
    commands that asked for it.\n\n\
    With --triton the program does not tune: each function with @triton.autotune gets a config that \
    Triton remembers, or the first that runs, and each kernel of torch.compile the first. A kernel spec of it, with its sources and arguments, goes \
    to a folder for each tuning key; `bluefin tune --triton` finds the fastest config of each. Of \
    tensors of floats mean and spread are kept, of tensors of integers their elements.")]
pub struct CaptureArgs {
    /// What to call the problems
    #[arg(short, long, required_unless_present = "triton")]
    tag: Option<TagName>,
    /// Capture the kernels that the autotuners of Triton and torch.compile meet, into the folder of --output
    #[arg(long, requires = "output", conflicts_with = "tag")]
    triton: bool,
    /// With --triton: capture launches of functions without @triton.autotune as well. What they choose is warps and stages, and blocks that
    /// their grid is computed from: `tune --triton --widen` finds others
    #[arg(long, requires = "triton")]
    jit: bool,
    /// With --triton: keep the elements of no tensor
    #[arg(long, requires = "triton")]
    no_contents: bool,
    /// With --triton: keep the elements of all tensors, floats as well
    #[arg(long, requires = "triton", conflicts_with = "no_contents")]
    all_contents: bool,
    /// Write a file instead of adding to the library; with --triton the folder of the kernels
    #[arg(short, long, visible_alias = "out", value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// Print what was captured as one line of JSON on standard error
    #[arg(long)]
    json: bool,
    /// The application and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl CaptureArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let Some(tag) = &self.tag else { return self.triton().await };
        // Where nothing can be kept is found out before the application runs for hours.
        match &self.output {
            Some(output) => drop(FileSet::new(&place(output)?.0).with_context(|| output.display().to_string())?),
            None => self.store.open().await?.close().await,
        }
        let (program, arguments) =
            self.command.split_first().ok_or_else(|| crate::usage("name a COMMAND behind --"))?;
        let (status, captured) = run(program, arguments).await?;
        let kept = match &self.output {
            Some(output) => write(output, tag, &captured)?,
            None => match self.add(tag, &captured).await {
                Ok(kept) => kept,
                // What took hours is not lost with a connection.
                Err(error) => {
                    let kept = write(Path::new(&format!("{tag}.txt")), tag, &captured)?;
                    say!("bluefin: not added to the library: {}", crate::message(&error));
                    kept
                }
            },
        };
        self.report(tag, &kept, &captured)?;
        end_like(status)
    }

    async fn triton(&self) -> anyhow::Result<ExitCode> {
        let contents = match (self.no_contents, self.all_contents) {
            (true, _) => Contents::Nothing,
            (_, true) => Contents::All,
            _ => Contents::default(),
        };
        let folder = self.output.as_deref().ok_or_else(|| crate::usage("--triton: name a folder with --output"))?;
        end_like(triton::capture(folder, (contents, self.jit), &self.command, self.json).await?)
    }

    /// Adds to the library. Returns where that is.
    async fn add(&self, tag: &TagName, captured: &Captured) -> anyhow::Result<String> {
        let problems = captured.problems.iter().zip(1..).map(|(met, line)| Sourced {
            problem: met.problem.clone(),
            line,
            count: usize::try_from(met.count).unwrap_or(usize::MAX),
        });
        let list = ProblemList { name: "capture".to_string(), problems: problems.collect(), ..ProblemList::default() };
        let opened = self.store.open().await?;
        let options = AddOptions { now_ms: now_ms(), ..AddOptions::default() };
        Library::new(&*opened.store).add(tag, &list, options).await?;
        opened.close().await;
        Ok(format!("tag {tag}"))
    }

    fn report(&self, tag: &TagName, kept: &str, captured: &Captured) -> anyhow::Result<()> {
        let problems = captured.problems.len();
        let mut text = String::new();
        if self.json {
            let report = json!({
                "tag": tag.as_str(), "kept": kept, "problems": problems, "commands": captured.commands,
                "unsupported": captured.unsupported, "unread": captured.unread, "unread_shown": captured.unread_shown,
            });
            writeln!(text, "{report}")?;
        } else {
            let commands = captured.commands;
            writeln!(text, "bluefin: {kept}: {problems} problems of {commands} commands")?;
            for (base, count) in &captured.unsupported {
                writeln!(text, "bluefin: {count} commands of {base}, which bluefin does not tune")?;
            }
            if problems == 0 {
                writeln!(text, "bluefin: {}", why_none(captured))?;
            }
            if captured.unread > 0 {
                writeln!(text, "bluefin: {} commands torn or not understood, such as", captured.unread)?;
                for shown in &captured.unread_shown {
                    writeln!(text, "  {shown}")?;
                }
            }
        }
        io::stderr().write_all(text.as_bytes())?;
        Ok(())
    }
}

/// Why nothing may have been captured.
fn why_none(captured: &Captured) -> &'static str {
    match (captured.unsupported.is_empty(), captured.unread) {
        (true, 0) => {
            "no problem was captured: the application asked MIOpen for nothing, or MIOpen could not say so: it writes its commands \
             to standard error, which the application must not redirect, and under MIOPEN_ENABLE_LOGGING_CMD=1, which it must \
             not unset"
        }
        (true, _) => "no problem was captured: none of the commands was whole",
        (false, _) => "no problem was captured: none of the commands is of an operation that bluefin tunes",
    }
}

/// Folder and name of a file to be written.
fn place(path: &Path) -> anyhow::Result<(PathBuf, String)> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| crate::usage(format!("--output: found {:?}, expected a file", path)))?;
    if path.is_dir() {
        return Err(crate::usage(format!("--output {}: found a folder, expected a file", path.display())));
    }
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    Ok((folder.to_path_buf(), name.to_string()))
}

/// Writes the file, whole or not at all. Returns what it is called.
fn write(output: &Path, tag: &TagName, captured: &Captured) -> anyhow::Result<String> {
    let (folder, name) = place(output)?;
    let mut files = FileSet::new(&folder)?;
    let path = files.add(&name)?;
    std::fs::write(&path, captured.list(tag.as_str()))?;
    files.commit()?;
    Ok(output.display().to_string())
}

/// Ends as the application did: with its exit code, or by its signal.
pub(crate) fn end_like(status: ExitStatus) -> anyhow::Result<ExitCode> {
    if let Some(code) = status.code() {
        return Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)));
    }
    let signal = status.signal().unwrap_or_default();
    // The application left its core, if it was to leave one.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    // As a shell says it, for a signal that does not end this process.
    Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX)))
}
