//! The ladder of batch sizes of a mixture of experts: a problem for each, in one session, and the row that each comes to.

pub mod models;

use std::collections::HashMap;
use std::path::Path;

use bluefin_common::candidate::Candidate;
use bluefin_common::clock::now_ms;
use bluefin_common::digest::{self, Digest};
use bluefin_common::job::{GroupId, group_id};
use bluefin_common::problem::Problem;
use bluefin_common::session::{SearchPlan, Session, Stage};
use bluefin_common::target::Target;
use bluefin_common::value::Value;
use bluefin_exporter::summary::{Summary, summaries};
use bluefin_kernel_spec::Bundle;
use bluefin_kernel_spec::search::Prior;
use bluefin_producer::plan::{Asked, CandidateBudget};
use bluefin_producer::specs::{LoadedSpec, Specs};
use bluefin_serving::kernel::{self, SEARCHED, SPEC_FILE, row_of};
use bluefin_serving::merge::kept;
use bluefin_serving::row::USE_TMA;
use bluefin_serving::{ConfigFile, Row, Version, installed::Source};

use crate::carry::Watch;
use crate::machine::local::{Compilers, LocalDevice};
use crate::order::{CarriedOut, End, Order, Workers};
use crate::priors;
use crate::site::Site;
use crate::usage;
use serde_json::json;

/// Rows of a batch size that are tried unless another number is asked for: a tenth of those that an engine's tuner tries on NVIDIA's GPUs and that
/// fit. With 64, two rows of 18 on an H100 and two of eight on an H200 were more than 1 % slower than the best; with 112, none of these eight
/// (docs/serving.md).
pub const ROWS: CandidateBudget = CandidateBudget::Candidates(112);

/// A layer with its problems.
pub struct Ladder {
    loaded: LoadedSpec,
    problems: Vec<(i64, Problem)>,
    /// Whose kernel it is, and of which version.
    from: String,
}

/// What came of a batch size.
pub struct Rung {
    /// The batch size.
    pub tokens: i64,
    /// Nothing, where it was not tuned.
    pub summary: Option<Summary>,
    /// What is written: the engine's default where nothing is known to be faster.
    pub row: Row,
    /// Whether that is the engine's default.
    pub is_default: bool,
}

/// A ladder that was tuned.
pub struct Tuned {
    /// By batch size.
    pub rungs: Vec<Rung>,
    /// The session that was carried out.
    pub session: Session,
    /// How busy the devices were, in words.
    pub utilisation: Option<String>,
    /// What compiled all of it.
    pub triton: Option<Version>,
}

/// How the ladder is tuned.
#[derive(Clone)]
pub struct How {
    /// Candidates of each solver.
    pub budget: CandidateBudget,
    /// How they are chosen in rounds.
    pub search: Option<SearchPlan>,
    /// Winners of earlier work, which searches begin with.
    pub priors: Option<Digest>,
}

impl Ladder {
    /// The problems of a layer.
    ///
    /// # Errors
    /// If there are no kernels for it.
    pub fn of(asked: &kernel::Asked<'_>, source: &Source) -> anyhow::Result<Self> {
        let mut files = kernel::files(asked, source).map_err(|error| usage(error.to_string()))?;
        let toml = files.remove(SPEC_FILE).unwrap_or_default();
        let loaded = LoadedSpec::load(Bundle { toml, files, ..Bundle::default() })?;
        let problem = |tokens: &i64| {
            let sizes = kernel::sizes(asked.shape, *tokens);
            let sizes = sizes.into_iter().map(|(name, size)| (name, Value::Int(size))).collect();
            Ok((*tokens, loaded.spec.problem(&sizes)?))
        };
        let problems = asked.tokens.iter().map(problem).collect::<anyhow::Result<_>>()?;
        Ok(Self { loaded, problems, from: source.from.clone() })
    }

    /// The spec of its kernels, and the problem of each batch size.
    pub(crate) fn into_parts(self) -> (LoadedSpec, Vec<(i64, Problem)>) {
        (self.loaded, self.problems)
    }

    /// Tunes all batch sizes for `target`, by the compilers and devices that are `local`, or by a fleet. `None`: a signal interrupted it.
    ///
    /// # Errors
    /// As [`Site::carry_out`].
    pub async fn carry_out(
        &self,
        asked: &kernel::Asked<'_>,
        how: How,
        site: &Site,
        target: &Target,
        local: Option<(Compilers, LocalDevice)>,
        watch: &mut dyn Watch,
    ) -> anyhow::Result<Option<Tuned>> {
        let versions = local.as_ref().map_or_else(
            || "fleet".to_string(),
            |(compilers, device)| format!("{}\n{}", compilers.versions(), device.versions()),
        );
        let store = &*site.ports.store;
        let priors = match (how.priors, &how.search) {
            (None, Some(_)) => priors::put(store, self.begins(asked, target)).await?,
            (named, _) => named,
        };
        let how = How { priors, ..how };
        let session = self.session(target, &versions, &how, asked.is_widened)?;
        let specs = Specs::for_target(vec![LoadedSpec::load(self.loaded.bundle.clone())?], target);
        let plan = Asked { specs, budget: how.budget, ..Asked::default() };
        let problems: Vec<Problem> = self.problems.iter().map(|(_, problem)| problem.clone()).collect();
        let groups: Vec<GroupId> = problems.iter().map(|problem| group_id(problem, self.loaded.digest)).collect();
        let order = Order::of(session.clone(), problems, &plan);
        let workers = local.map_or(Workers::Fleet, |(compilers, device)| Workers::Device(compilers, device));
        let CarriedOut { end, .. } = site.carry_out(order, workers, watch).await?;
        let utilisation = match end {
            End::Interrupted => return Ok(None),
            End::Complete(utilisation) => utilisation,
            End::DoneBefore | End::Nothing => None,
        };
        let found = summaries(store, &session, &groups).await?;
        let mut found: HashMap<String, Summary> =
            found.into_iter().map(|summary| (summary.problem.clone(), summary)).collect();
        let rung = |(tokens, problem): &(i64, Problem)| Rung::of(asked, *tokens, found.remove(&problem.canonical()));
        let rungs = self.problems.iter().map(rung).collect();
        // All workers of a session have the same compiler, or are not of it.
        let triton = store.pins(&session.name).await?.values().find_map(|value| triton_in(value));
        Ok(Some(Tuned { rungs, session, utilisation, triton }))
    }

    /// The rows that are given, as points of the space that is searched: a search that has not come to the default by chance would be given up,
    /// as one of a solver that is far behind, and never look beside it.
    fn begins(&self, asked: &kernel::Asked<'_>, target: &Target) -> Vec<Prior> {
        let of_rung = |(tokens, problem): &(i64, Problem)| {
            let prior = |row: Row| {
                let Candidate { solver, params } = point(&self.loaded, problem, target, &row)?;
                let names = self.loaded.spec.solver(&solver)?.params.iter().map(|param| param.name.clone());
                let params = names.zip(params).collect();
                Some(Prior { problem: problem.clone(), spec: self.loaded.spec.name.clone(), solver, params })
            };
            asked.rows(*tokens).into_iter().filter_map(prior).collect::<Vec<_>>()
        };
        self.problems.iter().flat_map(of_rung).collect()
    }

    /// Results of another kernel, space, compiler, device, search or beginning are another session.
    fn session(&self, target: &Target, versions: &str, how: &How, is_widened: bool) -> anyhow::Result<Session> {
        let (search, priors) =
            (how.search.as_ref().map(|plan| format!("{plan:?}")), how.priors.map(|blob| blob.to_string()));
        let said = search.as_deref().into_iter().chain(priors.as_deref()).chain(is_widened.then_some("widened"));
        let shaped = [versions, &self.from].into_iter().chain(said).map(str::as_bytes);
        let shaped = Digest::of_parts(digest::VERSIONS, shaped);
        let name = format!("serving-{target}-{}", &shaped.short()[..8]).parse()?;
        let origin = format!("bluefin serving tune: {}", self.from);
        let plain = Session::of_kernels(name, target.clone(), &origin, &Stage::ALL, now_ms());
        Ok(Session { search: how.search.clone(), priors: how.priors, ..plain })
    }
}

/// A row as a point of the space that is searched for `problem`.
pub(crate) fn point(searched: &LoadedSpec, problem: &Problem, target: &Target, row: &Row) -> Option<Candidate> {
    let scope = searched.spec.scope(problem, target).ok().flatten()?;
    let solvers = searched.spec.solvers_for(&scope).ok()?;
    let solver = solvers.into_iter().find(|solver| solver.name.starts_with(SEARCHED))?;
    let value = |name: &str| match row.number(name) {
        Some(number) => Some(Value::Int(number)),
        // What a row does not say is false.
        None => (name == USE_TMA).then(|| Value::Bool(row.0.get(name) == Some(&json!(true)))),
    };
    let params = solver.params.iter().map(|param| value(&param.name)).collect::<Option<_>>()?;
    Some(Candidate { solver: solver.name.clone(), params })
}

impl Rung {
    fn of(asked: &kernel::Asked<'_>, tokens: i64, summary: Option<Summary>) -> Self {
        let default = asked.default_row(tokens).ordered(asked.engine);
        let won = summary
            .as_ref()
            .and_then(|summary| summary.winner.as_ref())
            .map(|winner| row_of(asked, tokens, &winner.solver, &winner.params));
        let row = won.unwrap_or_else(|| default.clone());
        Self { tokens, summary, is_default: row == default, row }
    }

    /// Milliseconds of the winner.
    #[must_use]
    pub fn median_ms(&self) -> Option<f64> {
        self.summary.as_ref()?.winner.as_ref().map(|winner| winner.median_ms)
    }
}

impl Tuned {
    /// The engine's file, with the rows of the one at `path` for other batch sizes if the same Triton made them; else `note` is told.
    pub fn file(&self, asked: &kernel::Asked<'_>, path: &Path, note: impl Fn(&str)) -> ConfigFile {
        let rows = self.rungs.iter().map(|rung| (rung.tokens, rung.row.clone()));
        let tuned = ConfigFile::of(asked.engine, self.triton.clone(), rows);
        if !path.exists() {
            return tuned;
        }
        let before = match ConfigFile::read(path, asked.engine) {
            Ok(before) => before,
            Err(error) => {
                note(&format!("replaced: {error}"));
                return tuned;
            }
        };
        let (file, left_out) = kept(tuned, before, asked.engine.info().has_version_folders);
        left_out.iter().for_each(|reason| note(&format!("{}: {reason}", path.display())));
        file
    }
}

/// The version of Triton that a compiler says of itself: `Triton 3.6.0, Python 3.12.3, ...`.
pub(crate) fn triton_in(identity: &str) -> Option<Version> {
    let mut words = identity.split([' ', ',']).skip_while(|word| *word != "Triton").skip(1);
    words.next()?.parse().ok()
}
