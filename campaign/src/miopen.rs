//! What a session of MIOpen's solvers is told before its jobs are planned: the solvers of its library, and which of them apply.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use bluefin_common::method::Method;
use bluefin_common::problem::Problem;
use bluefin_common::session::{Session, SessionName};
use bluefin_common::store::{Sessions, Store};
use bluefin_miopen::fin::Fin;
use bluefin_producer::applicability;
use bluefin_producer::input::read_bytes;
use bluefin_producer::library::{Library, TagName};
use bluefin_producer::solvers::{self, from_document};

use crate::known::known;
use crate::machine::itself;

/// Where ROCm installs fin.
pub const DEFAULT_FIN: &str = "/opt/rocm/bin/fin";

/// fin where nobody names one: as workers, what the environment says, or else where ROCm installs it.
pub fn default_fin() -> PathBuf {
    std::env::var_os("BLUEFIN_FIN").map_or_else(|| DEFAULT_FIN.into(), PathBuf::from)
}

/// Whether the sessions of `method` have a list of solvers.
fn has_solvers(method: Method) -> bool {
    [Method::FIN, Method::MIOPENDRIVER].contains(&method)
}

/// Every session that has a list of solvers.
///
/// # Errors
/// If the store fails.
pub async fn sessions(store: &dyn Sessions) -> anyhow::Result<Vec<SessionName>> {
    let sessions = store.sessions().await?.into_iter();
    Ok(sessions.filter(|session| has_solvers(session.method)).map(|session| session.name).collect())
}

/// The session of that name, which must be one of MIOpen's solvers.
///
/// # Errors
/// If it is none, or the store fails.
pub async fn session(store: &dyn Sessions, name: &SessionName) -> anyhow::Result<Session> {
    let Some(session) = store.session(name).await? else {
        bail!("session {name}: there is none of that name; make it with bluefin session new --name {name}");
    };
    if !has_solvers(session.method) {
        let tunes = known().planners().get(session.method)?.tunes();
        bail!("session {name}: it tunes {tunes}, which have no list of solvers");
    }
    Ok(session)
}

/// What says which solvers there are.
#[derive(Clone, Debug)]
pub enum SolverSource {
    /// fin, which is asked.
    Fin(PathBuf),
    /// A file with the answer to that.
    Answer(PathBuf),
}

impl SolverSource {
    /// Replaces the list of `session`.
    ///
    /// # Errors
    /// If it is no session of MIOpen's solvers, or the source or the store fails.
    pub async fn update(&self, store: &dyn Store, name: &SessionName) -> anyhow::Result<solvers::Updated> {
        session(store, name).await?;
        let found = match self {
            Self::Answer(path) => from_document(&read_bytes(path)?)
                .map_err(|reason| anyhow::anyhow!(reason))
                .with_context(|| path.display().to_string())?,
            Self::Fin(fin) => Fin::new(fin, Vec::new())
                .solvers()
                .await
                .map_err(|trouble| anyhow::anyhow!("fin: {}", trouble.into_failure().detail))?,
        };
        Ok(solvers::update(store, name, &found).await?)
    }
}

/// How fin is asked which solvers apply.
#[derive(Clone, Debug)]
pub struct AskFin {
    /// The program.
    pub fin: PathBuf,
    /// Processes of it at a time; `None`: as many as there are CPUs.
    pub processes: Option<u32>,
    /// Also about problems that are known.
    pub again: bool,
}

impl AskFin {
    /// Asks about the problems of `tag`, or of all tags, and keeps what fin says. `progress` is told how many are done, and of how many.
    ///
    /// # Errors
    /// If fin is not needed for the session, or it or the store fails.
    pub async fn update(
        &self,
        store: &dyn Store,
        name: &SessionName,
        tag: Option<&TagName>,
        mut progress: impl FnMut(u64, u64),
    ) -> anyhow::Result<applicability::Updated> {
        let session = session(store, name).await?;
        if session.method != Method::FIN {
            bail!("session {name}: MIOpenDriver finds out itself which solvers apply");
        }
        let problems = problems(store, tag).await?;
        let fin = Fin::new(&self.fin, Vec::new());
        let processes = self.processes.map_or_else(itself::cpus, |processes| processes as usize);
        let plan = applicability::Plan { fin: &fin, processes, again: self.again };
        let all = problems.len() as u64;
        Ok(applicability::update(store, &session, &problems, &plan, |done| progress(done, all)).await?)
    }
}

/// The problems of `tag`, or of all tags: each once, by their canonical forms.
///
/// # Errors
/// If there are none, or the store fails.
pub async fn problems(store: &dyn Store, tag: Option<&TagName>) -> anyhow::Result<Vec<Problem>> {
    let library = Library::new(store);
    let tags = match tag {
        Some(tag) => vec![tag.clone()],
        None => library.tags().await?.iter().map(|(name, _)| name.parse()).collect::<Result<_, _>>()?,
    };
    let mut problems = BTreeSet::new();
    for tag in &tags {
        problems.extend(library.problems(tag).await?.into_iter().map(|tagged| tagged.problem));
    }
    if problems.is_empty() {
        bail!("the library has no problems; add some with bluefin problems import -t TAG -f FILE");
    }
    Ok(problems.into_iter().collect())
}
