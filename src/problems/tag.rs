//! What the library holds: tags and their problems.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use bluefin_campaign::ports::StoreArgs;
use bluefin_common::files::FileSet;
use bluefin_common::problem::Problem;
use bluefin_common::spelled::counted;
use bluefin_producer::library::{Library, Tag, TagName, Tagged};
use bluefin_terminal::out;
use clap::Subcommand;
use serde_json::json;

/// Look at the tags of the library, or remove one
#[derive(Subcommand)]
#[command(after_help = "Example:\n  bluefin problems tag list")]
pub enum TagVerb {
    /// Prints every tag with its number of problems
    #[command(after_help = "Example:\n  bluefin problems tag list --json")]
    List {
        /// Print as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Prints what a tag holds, in numbers
    #[command(after_help = "Example:\n  bluefin problems tag show resnet50")]
    Show {
        #[arg(value_name = "TAG")]
        tag: TagName,
        /// Print as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Removes a tag; sessions that were planned from it keep their jobs
    #[command(after_help = "Example:\n  bluefin problems tag remove resnet50")]
    Remove {
        #[arg(value_name = "TAG")]
        tag: TagName,
        #[command(flatten)]
        store: StoreArgs,
    },
}

impl TagVerb {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::List { json, store } => list(json, &store).await?,
            Self::Show { tag, json, store } => show(&tag, json, &store).await?,
            Self::Remove { tag, store } => {
                let opened = store.open().await?;
                let removed = Library::new(&*opened.store).remove(&tag).await;
                opened.close().await;
                out::line(format_args!("tag {tag}: removed, with {}", counted(removed?, "problem")))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn list(json: bool, store: &StoreArgs) -> anyhow::Result<()> {
    let opened = store.open_to_read().await?;
    let library = Library::new(&*opened.store);
    let mut rows = Vec::new();
    for (name, tag) in library.tags().await? {
        let problems = library.problems(&name.parse()?).await?.len();
        rows.push((name, problems, tag));
    }
    if json {
        let row = |(name, problems, tag): &(String, usize, Tag)| json!({ "tag": name, "problems": problems, "recurrent": tag.recurrent, "created_ms": tag.created_ms });
        return out::json(&rows.iter().map(row).collect::<Vec<_>>());
    }
    for (name, problems, tag) in rows {
        let mark = if tag.recurrent { "  recurrent" } else { "" };
        out::line(format_args!("{problems:>8}  {name}{mark}"))?;
    }
    Ok(())
}

async fn show(name: &TagName, json: bool, store: &StoreArgs) -> anyhow::Result<()> {
    let opened = store.open_to_read().await?;
    let library = Library::new(&*opened.store);
    let (tag, problems) = (library.tag(name).await?, library.problems(name).await?);
    let mut kinds = std::collections::BTreeMap::new();
    for one in &problems {
        *kinds.entry(one.problem.operation().kind()).or_insert(0_u64) += 1;
    }
    let asked: u64 = problems.iter().map(|one| one.count).sum();
    if json {
        return out::json(&json!({
            "tag": name.as_str(), "problems": problems.len(), "asked": asked, "kinds": kinds,
            "recurrent": tag.recurrent, "created_ms": tag.created_ms,
        }));
    }
    let recurrent = if tag.recurrent { ", recurrent" } else { "" };
    let (problems, asked) = (counted(problems.len(), "problem"), counted(asked, "time"));
    out::line(format_args!("tag {name}: {problems}, asked for {asked}{recurrent}"))?;
    for (kind, count) in kinds {
        out::line(format_args!("{count:>8}  {kind}"))?;
    }
    Ok(())
}

/// The problems of a tag, by their digests.
pub async fn problems(tag: &TagName, store: &StoreArgs) -> anyhow::Result<Vec<Tagged>> {
    let opened = store.open_to_read().await?;
    Ok(Library::new(&*opened.store).problems(tag).await?)
}

/// Writes the problems of a tag as driver commands
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  bluefin problems export -t resnet50 > resnet50.txt\n  \
    bluefin problems export -t resnet50 --filename resnet50.txt")]
pub struct ExportArgs {
    /// Tag to write
    #[arg(short, long, value_name = "TAG")]
    tag: TagName,
    /// File to write [default: standard output]
    #[arg(short, long, visible_aliases = ["out", "output"], value_name = "FILE")]
    filename: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

impl ExportArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let mut commands: Vec<String> =
            problems(&self.tag, &self.store).await?.iter().map(|one| command(&one.problem)).collect();
        commands.sort_unstable();
        let Some(path) = &self.filename else {
            let mut out = std::io::BufWriter::new(std::io::stdout().lock());
            commands.iter().try_for_each(|command| writeln!(out, "{command}"))?;
            out.flush()?;
            return Ok(ExitCode::SUCCESS);
        };
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("--filename {}: found no file name", path.display()))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut files = FileSet::new(folder)?;
        std::fs::write(files.add(name)?, commands.iter().map(|command| format!("{command}\n")).collect::<String>())?;
        files.commit()?;
        out::line(format_args!("wrote {}: {}", path.display(), counted(commands.len(), "problem")))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// As MIOpen logs it; what MIOpenDriver does not know stands alone.
fn command(problem: &Problem) -> String {
    let program = if problem.operation().operator().in_miopen { "./bin/MIOpenDriver " } else { "" };
    format!("{program}{problem}")
}
