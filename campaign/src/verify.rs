//! Rows of files that bluefin writes against what is launched without them, and against others that are known: timed in turns. A format
//! is a [`Subject`] in a file of its own.

mod asked;
mod cache;
mod finds;
mod immediate;
mod kind;
mod layer;
mod lookups;
mod operators;
mod perfs;
mod processes;
mod products;
mod tools;
mod tries;
mod verdict;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bluefin_common::arch::Architecture;
use bluefin_common::candidate::Candidate;
use bluefin_common::clock::now_ms;
use bluefin_common::digest::{self, Digest};
use bluefin_common::job::{GroupId, group_id};
use bluefin_common::problem::Problem;
use bluefin_common::session::{Session, Stage};
use bluefin_common::target::Target;
use bluefin_common::value::Value;
use bluefin_exporter::summary::summaries;
use bluefin_kernel_spec::search::Prior;
use bluefin_producer::plan::{Asked, CandidateBudget};
use bluefin_producer::specs::{LoadedSpec, Specs};
use bluefin_serving::Version;
use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::carry::Watch;
use crate::given::Given;
use crate::machine::local::{Compilers, LocalDevice};
use crate::order::{End, Order, Workers};
use crate::priors;
use crate::search::SearchArgs;
use crate::serving::triton_in;
use crate::site::Site;

pub use asked::ToolArgs;
pub use cache::CacheFolder;
pub use kind::FileKind;
pub use layer::{LayerFile, LayerSizes};
pub use products::ProductFile;
pub use tools::ToolFile;
pub use verdict::{Time, Verdict, Worth};

use verdict::Contenders;

/// A file, or a folder of such, whose rows are held against what is launched without it.
pub trait Subject {
    /// Where it is.
    fn path(&self) -> &Path;

    /// Whose kernel is launched by its rows.
    fn kernel(&self) -> &str;

    /// Its rows, with what they are held against.
    ///
    /// # Errors
    /// If there is no kernel for them.
    fn cases(&self, bench: &Bench<'_>) -> anyhow::Result<Vec<Case>>;

    /// Says another launch in the place of the row at this index of [`Self::cases`]. Returns it for people.
    ///
    /// # Errors
    /// If the file can not say it.
    fn put(&mut self, at: usize, launch: &Launch, bench: &Bench<'_>) -> anyhow::Result<String>;

    /// Why whoever reads such files never reads this one, though its rows are what they are.
    fn fault(&self) -> Option<&str> {
        None
    }

    /// What was taken for granted of it.
    fn note(&self) -> Option<String> {
        None
    }

    /// Says that all of its rows hold by what compiles and times in `bench`.
    fn holds(&mut self, _bench: &Bench<'_>) {}

    /// Replaces the file, whole or not at all.
    ///
    /// # Errors
    /// If it can not be written.
    fn write(&self) -> anyhow::Result<()>;
}

/// A row of a file with what it is held against.
pub struct Case {
    /// What tells it from others of its file, as fields of a report.
    pub key: Map<String, Json>,
    /// The same for people.
    pub name: String,
    /// What it says.
    pub says: Json,
    /// The same for people.
    pub short: String,
    /// What is launched.
    pub problem: Problem,
    /// The spec that has the candidates.
    pub spec: Arc<LoadedSpec>,
    /// What the row launches, or why that is nothing.
    pub own: Result<Candidate, Unlaunched>,
    /// What is launched without the file.
    pub default: Option<Candidate>,
    /// What the row of another file launches.
    pub known: Option<Candidate>,
    /// The spec by which a better row is searched for. It has the same problem.
    pub searched: Arc<LoadedSpec>,
    /// Candidates of that spec that such a search begins with: the row's, and the other's.
    pub begins: Vec<Candidate>,
}

/// Why a row launches nothing.
#[derive(Clone, Debug)]
pub enum Unlaunched {
    /// It says what no kernel here takes.
    Unknown(String),
    /// Its reader can launch nothing by it.
    Fails(String),
}

/// What may stand in a row.
pub struct Launch {
    /// Name of the solver.
    pub solver: String,
    /// By name.
    pub params: Vec<(String, Value)>,
    /// Milliseconds that it takes.
    pub median_ms: f64,
}

/// A row and what it is worth.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    #[serde(flatten)]
    key: Map<String, Json>,
    row: Json,
    #[serde(skip)]
    name: String,
    #[serde(skip)]
    short: String,
    /// What it is worth.
    #[serde(flatten)]
    pub worth: Worth,
    /// What stands in its place now, for people.
    pub replaced_by: Option<String>,
}

/// Where rows are timed.
pub struct Bench<'a> {
    /// Where the work is kept.
    pub site: &'a Site,
    /// What compiles.
    pub compilers: Compilers,
    /// What times.
    pub device: LocalDevice,
    /// Of the device.
    pub architecture: &'static Architecture,
}

/// What is done about rows that lose.
pub struct Remedy<'a> {
    /// The default takes their places.
    pub fix: bool,
    /// Better rows are searched for, and take their places.
    pub retune: Option<Retune<'a>>,
}

/// How better rows are searched for.
pub struct Retune<'a> {
    /// Candidates of each solver.
    pub budget: CandidateBudget,
    /// How they are chosen.
    pub search: &'a SearchArgs,
}

/// What came of a file.
pub struct Verified {
    /// Its rows.
    pub rows: Vec<Judged>,
    /// Whether it was replaced.
    pub replaced: bool,
    /// Whether a row of it loses to the default still.
    pub loses: bool,
}

/// Times the rows of a file, anew, and replaces those that lose as `remedy` says. `None`: a signal interrupted it.
///
/// # Errors
/// As [`Site::carry_out`] and of the [`Subject`].
pub async fn verify(
    subject: &mut dyn Subject,
    bench: &Bench<'_>,
    remedy: &Remedy<'_>,
    watch: &mut dyn Watch,
) -> anyhow::Result<Option<Verified>> {
    let rows = subject.cases(bench)?;
    let Some(mut judged) = bench.judge(&rows, watch).await? else { return Ok(None) };
    let pairs = || rows.iter().zip(&judged).enumerate();
    let lost: BTreeSet<usize> =
        pairs().filter(|(_, (_, judged))| judged.worth.verdict.loses()).map(|(at, _)| at).collect();
    let mut better = HashMap::new();
    if remedy.fix {
        let untuned = pairs().filter(|(at, _)| lost.contains(at));
        better.extend(untuned.filter_map(|(at, (row, judged))| Some((at, row.untuned(&judged.worth)?))));
    }
    if let Some(retune) = remedy.retune.as_ref().filter(|_| !lost.is_empty()) {
        let Some(found) = bench.search(&rows, &lost, retune, watch).await? else { return Ok(None) };
        better.extend(found);
    }
    for (at, launch) in &better {
        let text = subject.put(*at, launch, bench)?;
        if let Some(row) = judged.get_mut(*at) {
            row.replaced_by = Some(text);
        }
    }
    let loses = lost.iter().any(|at| !better.contains_key(at));
    if !better.is_empty() {
        if !loses && judged.iter().all(|row| row.worth.verdict != Verdict::Unknown) {
            subject.holds(bench);
        }
        subject.write()?;
    }
    Ok(Some(Verified { rows: judged, replaced: !better.is_empty(), loses }))
}

impl Verified {
    /// Whether no row of it can be judged.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.rows.iter().all(|row| row.worth.verdict == Verdict::Unknown)
    }
}

impl Case {
    fn contenders(&self) -> Contenders<'_> {
        Contenders { own: self.own.as_ref(), default: self.default.as_ref(), known: self.known.as_ref() }
    }

    /// The default, where it was timed.
    fn untuned(&self, worth: &Worth) -> Option<Launch> {
        let (default, time) = (self.default.as_ref()?, worth.default?);
        Some(Launch { solver: default.solver.clone(), params: named(&self.spec, default)?, median_ms: time.median_ms })
    }

    /// What a search begins with.
    fn priors(&self) -> impl Iterator<Item = Prior> {
        self.begins.iter().filter_map(|candidate| {
            Some(Prior {
                problem: self.problem.clone(),
                spec: self.searched.spec.name.clone(),
                solver: candidate.solver.clone(),
                params: named(&self.searched, candidate)?,
            })
        })
    }
}

/// The file that `known` names, or that is called `name` in the folder that it is.
fn beside(known: Option<&Path>, name: &str) -> Option<PathBuf> {
    let known = known?;
    if known.is_dir() { Some(known.join(name)).filter(|other| other.is_file()) } else { Some(known.to_path_buf()) }
}

/// The params of a candidate by their names.
fn named(spec: &LoadedSpec, candidate: &Candidate) -> Option<Vec<(String, Value)>> {
    let names = spec.spec.solver(&candidate.solver)?.params.iter().map(|param| param.name.clone());
    Some(names.zip(candidate.params.iter().cloned()).collect())
}

/// The candidate, if `spec` launches it for `problem` on `target`; else why it does not.
fn launched(
    spec: &LoadedSpec,
    problem: &Problem,
    target: &Target,
    candidate: Candidate,
) -> Result<Candidate, Unlaunched> {
    let unknown = |error: bluefin_kernel_spec::SpecError| Unlaunched::Unknown(error.to_string());
    let scope = spec.spec.scope(problem, target).map_err(unknown)?;
    let none = || Unlaunched::Unknown(format!("{}: found no kernel for such sizes on {target}", spec.spec.name));
    spec.spec.build(&candidate, &scope.ok_or_else(none)?).map_err(unknown)?;
    Ok(candidate)
}

impl Bench<'_> {
    /// The class of its device.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.device.target
    }

    /// The Triton that compiles, where one does.
    #[must_use]
    pub fn triton(&self) -> Option<Version> {
        triton_in(&self.compilers.versions())
    }

    fn workers(&self) -> Workers {
        Workers::Device(self.compilers.clone(), self.device.clone())
    }

    /// A session that is another one each time.
    fn session(&self, stages: &[Stage]) -> anyhow::Result<Session> {
        let when = format!("{} {}", now_ms(), std::process::id());
        let versions = [self.compilers.versions(), self.device.versions(), when];
        let shaped = Digest::of_parts(digest::VERSIONS, versions.iter().map(String::as_bytes));
        let name = format!("verify-{}-{}", self.target(), &shaped.short()[..8]).parse()?;
        Ok(Session::of_kernels(name, self.target().clone(), "bluefin verify", stages, now_ms()))
    }

    /// Times rows in turns with what they are held against. `None`: it was interrupted.
    async fn judge(&self, rows: &[Case], watch: &mut dyn Watch) -> anyhow::Result<Option<Vec<Judged>>> {
        let (store, session) = (&*self.site.ports.store, self.session(&[Stage::Find])?);
        let (mut candidates, mut problems) = (HashMap::new(), Vec::new());
        for row in rows {
            row.spec.bundle.put(store).await?;
            let mut timed: Vec<Candidate> = row.own.iter().chain(&row.default).chain(&row.known).cloned().collect();
            timed.sort();
            timed.dedup();
            if !timed.is_empty() {
                problems.push(row.problem.clone());
                candidates.insert(row.problem.clone(), (&*row.spec, timed));
            }
        }
        let planning = Given { session: &session, stage: Stage::Find, candidates };
        let order = Order::given(session.clone(), problems, &planning);
        if let End::Interrupted = self.site.carry_out(order, self.workers(), watch).await?.end {
            return Ok(None);
        }
        let mut judged = Vec::with_capacity(rows.len());
        for row in rows {
            let outcomes = store.outcomes(&session.name, &[group_id(&row.problem, row.spec.digest)]).await?;
            let worth = Worth::of(&row.contenders(), &outcomes);
            let Case { key, name, says, short, .. } = row;
            let (key, name, row, short) = (key.clone(), name.clone(), says.clone(), short.clone());
            judged.push(Judged { key, row, name, short, worth, replaced_by: None });
        }
        Ok(Some(judged))
    }

    /// Searches for better rows in the places of those that are `lost`, by index. It begins with all rows that there are: what won once is
    /// tried again before anything else. `None`: it was interrupted.
    async fn search(
        &self,
        rows: &[Case],
        lost: &BTreeSet<usize>,
        retune: &Retune<'_>,
        watch: &mut dyn Watch,
    ) -> anyhow::Result<Option<Vec<(usize, Launch)>>> {
        let (store, target) = (&*self.site.ports.store, self.target());
        let priors = match retune.search.priors(store, target, None).await? {
            Some(named) => Some(named),
            None => priors::put(store, rows.iter().flat_map(Case::priors).collect()).await?,
        };
        let session = Session { search: retune.search.plan()?, priors, ..self.session(&Stage::ALL)? };
        let asked_of = |at: &usize| Some((*at, rows.get(*at)?));
        let lost: Vec<(usize, &Case)> = lost.iter().filter_map(asked_of).collect();
        let mut specs: Vec<LoadedSpec> = Vec::new();
        for (_, row) in &lost {
            if specs.iter().all(|known| known.digest != row.searched.digest) {
                specs.push((*row.searched).clone());
            }
        }
        let asked = Asked { specs: Specs::for_target(specs, target), budget: retune.budget, ..Asked::default() };
        let problems: Vec<Problem> = lost.iter().map(|(_, row)| row.problem.clone()).collect();
        let order = Order::of(session.clone(), problems, &asked);
        if let End::Interrupted = self.site.carry_out(order, self.workers(), watch).await?.end {
            return Ok(None);
        }
        let group = |(_, row): &(usize, &Case)| group_id(&row.problem, row.searched.digest);
        let groups: Vec<GroupId> = lost.iter().map(group).collect();
        let mut won: HashMap<String, Launch> = HashMap::new();
        for summary in summaries(store, &session, &groups).await? {
            if let Some(winner) = summary.winner {
                let launch = Launch { solver: winner.solver, params: winner.params, median_ms: winner.median_ms };
                won.insert(summary.problem, launch);
            }
        }
        let found = lost.iter().filter_map(|(at, row)| Some((*at, won.remove(&row.problem.canonical())?)));
        Ok(Some(found.collect()))
    }
}

impl Judged {
    /// As it is printed, with names of this width.
    #[must_use]
    pub fn line(&self, width: usize) -> String {
        let Worth { verdict, time, default, known, regret, reason } = &self.worth;
        let shown =
            |time: &Option<Time>| time.map_or("-".to_string(), |time| format!("{:.1}", 1000.0 * time.median_ms));
        let regret = regret.map_or(String::new(), |regret| format!(", regret {:.1} %", 100.0 * regret));
        let gain =
            time.zip(*default).filter(|_| *verdict != Verdict::Default).map_or(String::new(), |(time, default)| {
                let [low, high] = [default.low_ms / time.high_ms, default.high_ms / time.low_ms];
                format!(" ({:.2}x, {low:.2}x to {high:.2}x)", default.median_ms / time.median_ms)
            });
        let known = known.map_or(String::new(), |time| format!(", known {:.1} us", 1000.0 * time.median_ms));
        let reason = reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
        let put = self.replaced_by.as_ref().map_or(String::new(), |row| format!("; now {row}"));
        let (name, short, verdict) = (&self.name, &self.short, verdict.name());
        format!(
            "{name:>width$} {verdict:<7} {short}: {} us, default {} us{gain}{known}{regret}{reason}{put}",
            shown(time),
            shown(default)
        )
    }

    /// How wide its name is.
    #[must_use]
    pub fn width(&self) -> usize {
        self.name.chars().count()
    }
}
