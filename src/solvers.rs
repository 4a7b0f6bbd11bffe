//! `bluefin solvers`: what MIOpen's library lists.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use bluefin_campaign::miopen::{self, DEFAULT_FIN, SolverSource};
use bluefin_campaign::ports::StoreArgs;
use bluefin_common::session::SessionName;
use bluefin_common::store::Store;
use bluefin_producer::solvers::{self, algorithm};
use bluefin_terminal::out;
use clap::Subcommand;
use comfy_table::{Table, presets};

/// Keep and show the solvers that a session's MIOpen has
#[derive(Subcommand)]
#[command(after_help = "Example:\n  bluefin solvers update --session 1\n  bluefin solvers list --session 1")]
pub enum SolversVerb {
    Update(UpdateArgs),
    List(ListArgs),
}

/// Ask fin for the solvers of its library and keep them for the session
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  bluefin solvers update --session 1\n  \
    bluefin solvers update --session 1 --from fin_output.json")]
pub struct UpdateArgs {
    /// The session that they are for [default: every session of MIOpen's solvers]
    #[arg(long, alias = "session_id", value_name = "NAME")]
    pub session: Option<SessionName>,
    /// The fin executable
    #[arg(long, value_name = "PATH", env = "BLUEFIN_FIN", default_value = DEFAULT_FIN, conflicts_with = "from")]
    pub fin: PathBuf,
    /// Read fin's answer to get_solvers from this file instead of running fin
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Print what was done as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Print the solvers that are kept for a session
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:\n  bluefin solvers list --session 1 --json")]
pub struct ListArgs {
    /// The session [default: the only one of MIOpen's solvers]
    #[arg(long, alias = "session_id", value_name = "NAME")]
    session: Option<SessionName>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl SolversVerb {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Update(args) => args.run().await,
            Self::List(args) => args.run().await,
        }
    }
}

impl UpdateArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let opened = self.store.open().await?;
        let updated = self.update_all(&*opened.store).await;
        opened.close().await;
        let updated = updated?;
        if self.json {
            match (&self.session, updated.as_slice()) {
                (Some(_), [(_, one)]) => out::json(one)?,
                _ => out::json(&updated.into_iter().collect::<BTreeMap<_, _>>())?,
            }
        } else {
            for (session, solvers::Updated { solvers, tunable, gone }) in &updated {
                out::line(format_args!("session {session}: {solvers} solvers, {tunable} tunable, {gone} gone"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn update_all(&self, store: &dyn Store) -> anyhow::Result<Vec<(SessionName, solvers::Updated)>> {
        let sessions = match &self.session {
            Some(session) => vec![session.clone()],
            None => miopen::sessions(store).await?,
        };
        if sessions.is_empty() {
            say!("no session of MIOpen's solvers yet: solvers are asked for when there is one");
        }
        let source = match &self.from {
            Some(path) => SolverSource::Answer(path.clone()),
            None => SolverSource::Fin(self.fin.clone()),
        };
        let mut updated = Vec::new();
        for session in sessions {
            updated.push((session.clone(), source.update(store, &session).await?));
        }
        Ok(updated)
    }
}

impl ListArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let opened = self.store.open_to_read().await?;
        let session = match &self.session {
            Some(session) => session.clone(),
            None => match <[SessionName; 1]>::try_from(miopen::sessions(&*opened.store).await?) {
                Ok([session]) => session,
                Err(several) => {
                    return Err(crate::usage(format!("--session NAME: found {} of MIOpen's solvers", several.len())));
                }
            },
        };
        let mut found: Vec<_> = solvers::snapshot(&*opened.store, &session).await?.into_values().collect();
        if found.is_empty() {
            bail!("session {session}: no solvers are kept for it; run bluefin solvers update --session {session}");
        }
        found.sort_by_key(|solver| solver.id);
        if self.json {
            out::json(&found)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["id", "name", "primitive", "algorithm", "tunable", "dynamic"]);
        for solver in found {
            let algorithm = if solver.primitive == "batch_norm" { "" } else { algorithm(&solver.name).name() };
            let yes = |set: bool| if set { "yes" } else { "" }.to_string();
            table.add_row([
                solver.id.to_string(),
                solver.name,
                solver.primitive,
                algorithm.to_string(),
                yes(solver.tunable),
                yes(solver.dynamic),
            ]);
        }
        out::line(table.trim_fmt())?;
        Ok(ExitCode::SUCCESS)
    }
}
