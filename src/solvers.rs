//! `bluefin solvers`: what MIOpen's library lists.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use bluefin_campaign::known::known;
use bluefin_campaign::ports::StoreArgs;
use bluefin_common::method::Method;
use bluefin_common::session::{Session, SessionName};
use bluefin_common::store::Store;
use bluefin_miopen::fin::Fin;
use bluefin_producer::input::read_bytes;
use bluefin_producer::solvers::{self, algorithm, from_document};
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

/// Where ROCm installs fin.
pub const DEFAULT_FIN: &str = "/opt/rocm/bin/fin";

/// fin where nobody names one: as workers, what the environment says, or else where ROCm installs it.
pub fn default_fin() -> PathBuf {
    std::env::var_os("BLUEFIN_FIN").map_or_else(|| DEFAULT_FIN.into(), PathBuf::from)
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
            None => sessions_of_miopen(store).await?,
        };
        if sessions.is_empty() {
            eprintln!("no session of MIOpen's solvers yet: solvers are asked for when there is one");
        }
        let mut updated = Vec::new();
        for session in sessions {
            updated.push((session.clone(), self.update(store, &session).await?));
        }
        Ok(updated)
    }

    /// Replaces the snapshot of `session`.
    pub async fn update(&self, store: &dyn Store, session: &SessionName) -> anyhow::Result<solvers::Updated> {
        miopen_session(store, session).await?;
        let found = match &self.from {
            Some(path) => from_document(&read_bytes(path)?)
                .map_err(|reason| anyhow::anyhow!(reason))
                .with_context(|| path.display().to_string())?,
            None => Fin::new(&self.fin, Vec::new())
                .solvers()
                .await
                .map_err(|trouble| anyhow::anyhow!("fin: {}", trouble.into_failure().detail))?,
        };
        Ok(solvers::update(store, session, &found).await?)
    }
}

/// Every session that has a list of solvers.
async fn sessions_of_miopen(store: &dyn Store) -> anyhow::Result<Vec<SessionName>> {
    let sessions = store.sessions().await?.into_iter();
    let ours = sessions.filter(|session| [Method::FIN, Method::MIOPENDRIVER].contains(&session.method));
    Ok(ours.map(|session| session.name).collect())
}

/// The session of that name, which must be one of MIOpen's solvers.
pub async fn miopen_session(store: &dyn Store, name: &SessionName) -> anyhow::Result<Session> {
    let Some(session) = store.session(name).await? else {
        bail!("session {name}: there is none of that name; make it with bluefin session new --name {name}");
    };
    if ![Method::FIN, Method::MIOPENDRIVER].contains(&session.method) {
        let tunes = known().planners().get(session.method)?.tunes();
        bail!("session {name}: it tunes {tunes}, which have no list of solvers");
    }
    Ok(session)
}

impl ListArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let opened = self.store.open_to_read().await?;
        let session = match &self.session {
            Some(session) => session.clone(),
            None => match <[SessionName; 1]>::try_from(sessions_of_miopen(&*opened.store).await?) {
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
