//! `bluefin report`: what came of a session, as one page or as data.

mod sides;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use bluefin_campaign::ports::StoreArgs;
use bluefin_common::digest::Digest;
use bluefin_common::files::FileSet;
use bluefin_common::session::SessionName;
use bluefin_common::store::{Sessions, Store};
use bluefin_exporter::db::diff::Share;
use bluefin_exporter::report::{Scope, report};
use bluefin_pages::{Page, comparison};
use bluefin_producer::library::Library;
use bluefin_terminal::out;
use maud::Markup;
use serde::Serialize;

/// Write what came of a session as a page: gains, times, params, failures, where time went
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  bluefin report -o report.html\n  \
    bluefin report --session nightly --json | jq .gains\n  \
    bluefin report --compare monday tuesday -o compared.html\n\n\
    The page is one file that loads nothing. --compare takes sessions, state files (FILE or FILE:SESSION), releases, or \
    databases of MIOpen.")]
pub struct ReportArgs {
    /// The session [default: the only one]
    #[arg(long, value_name = "NAME", conflicts_with = "compare")]
    session: Option<SessionName>,
    /// Compare two: sessions, state files, releases or databases
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"])]
    compare: Option<Vec<String>>,
    /// With --compare: times that differ by less are ties
    #[arg(long, default_value = "5%", value_name = "SHARE")]
    noise: Share,
    /// Problems that are told of at length, those that take most of the time first
    #[arg(long, default_value_t = Scope::default().details, value_name = "N")]
    details: usize,
    /// File to write [default: report.html; standard output with --json]
    #[arg(short, long, visible_alias = "output", value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the same as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl ReportArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        if let Some([before, after]) = self.compare.as_deref() {
            let compared = sides::compare(&self.store, before, after, self.noise.0).await?;
            let title = bluefin_pages::comparison_title(&compared);
            self.write(&compared, &title, &[], || comparison(&compared))?;
            return Ok(ExitCode::SUCCESS);
        }
        let opened = self.store.open_to_read().await?;
        let store = &*opened.store;
        let session = match &self.session {
            Some(session) => session.clone(),
            None => only_session(store).await?,
        };
        let scope = Scope { counts: counts(store).await?, details: self.details, ..Scope::default() };
        let found = report(store, &session, scope).await?;
        opened.close().await;
        let links = bluefin_pages::parts();
        self.write(&found, &format!("Session {session}"), &links, || bluefin_pages::report(&found, None))?;
        Ok(ExitCode::SUCCESS)
    }

    fn write(
        &self,
        data: &impl Serialize,
        title: &str,
        links: &[(String, String)],
        content: impl FnOnce() -> Markup,
    ) -> anyhow::Result<()> {
        let path = match (&self.out, self.json) {
            (None, true) => return out::json(data),
            (None, false) => Path::new("report.html"),
            (Some(path), _) => path,
        };
        let text = if self.json {
            serde_json::to_string_pretty(data)?
        } else {
            Page { title, links, live: false, content: content() }.html()
        };
        put(path, &text).with_context(|| format!("-o {}", path.display()))?;
        say!("{}: {} kB", path.display(), text.len().div_ceil(1000));
        Ok(())
    }
}

/// A file that is there whole or not at all.
fn put(path: &Path, text: &str) -> anyhow::Result<()> {
    let name = path.file_name().and_then(|name| name.to_str()).context("expected the name of a file")?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut files = FileSet::new(folder)?;
    std::fs::write(files.add(name)?, text)?;
    files.commit()?;
    Ok(())
}

/// The session of a store that holds one.
async fn only_session(store: &dyn Sessions) -> anyhow::Result<SessionName> {
    let mut sessions = store.sessions().await?;
    match (sessions.pop(), sessions.is_empty()) {
        (Some(session), true) => Ok(session.name),
        (None, _) => anyhow::bail!("the store holds no session"),
        (Some(last), false) => {
            let names = sessions.iter().chain([&last]).map(|session| session.name.to_string());
            let names: Vec<String> = names.collect();
            Err(crate::usage(format!("which session? --session {}", names.join(", --session "))))
        }
    }
}

/// How often the problem library's problems are asked for, by digest: what the tag says that asks for one most.
pub async fn counts(store: &dyn Store) -> anyhow::Result<HashMap<Digest, u64>> {
    let library = Library::new(store);
    let mut counts = HashMap::new();
    for (tag, _) in library.tags().await? {
        for tagged in library.problems(&tag.parse()?).await? {
            let count: &mut u64 = counts.entry(tagged.problem.digest()).or_default();
            *count = tagged.count.max(*count);
        }
    }
    Ok(counts)
}
