//! Products that are tuned, or whose configs are timed as they are given.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use anyhow::Context as _;
use bluefin_common::arch::Vendor;
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

use super::files::{Entry, Size};
use super::kind::ProductKind;
use super::space::{Config, Dtype, Space, candidate};
use crate::carry::Watch;
use crate::given::Given;
use crate::listing::Listing;
use crate::machine::local::{Compilers, LocalDevice};
use crate::order::{CarriedOut, End, Order, Workers};
use crate::site::Site;
use crate::stretches::Stretch;
use crate::timed::{self, TimeLimit};
use crate::usage;

/// Products with the configs that are given for them, and their problems.
pub struct Products {
    loaded: LoadedSpec,
    /// Whose configs are tried.
    pub space: Space,
    entries: Vec<(Entry, Problem)>,
    target: Target,
    what: What,
}

/// What is done with them.
#[derive(Clone, Debug)]
pub enum What {
    /// Each is tuned.
    Tuned {
        /// Candidates of each.
        budget: CandidateBudget,
        /// How they are chosen in rounds.
        search: Option<SearchPlan>,
        /// How long, instead of a budget.
        time: Option<Duration>,
        /// The blob of winners of earlier work that searches begin with.
        priors: Option<Digest>,
    },
    /// The configs that are given are timed, anew each time.
    Timed,
}

/// What came of a product.
pub type Done = (Entry, Option<Summary>);

/// Products that were tuned, and in which session.
pub struct Tuned {
    /// In the order in which they were given.
    pub done: Vec<Done>,
    /// The one that was carried out.
    pub session: Session,
    /// Those of the products.
    pub groups: Vec<GroupId>,
    /// How busy the devices of this machine were, in words.
    pub utilisation: Option<String>,
    /// What each stretch of the time bought, if it had a limit.
    pub bought: Vec<Stretch>,
}

impl Products {
    /// Those of `entries` on `target`.
    ///
    /// # Errors
    /// If the spec does not take one.
    pub fn of(entries: Vec<Entry>, kind: &ProductKind, target: &Target, what: What) -> anyhow::Result<Self> {
        let loaded = LoadedSpec::load(Bundle::gemm_in_triton())?;
        let nvidia = target.vendor() == Some(Vendor::Nvidia);
        let space = kind.space.unwrap_or(if nvidia { Space::Cuda } else { Space::V3 });
        let [a_type, b_type, c_type] = kind.types.map(Dtype::name);
        let problem = |entry: Entry| {
            let Size { m, n, k, row_a, row_b } = entry.size;
            let sizes = [
                ("m", m.into()),
                ("n", n.into()),
                ("k", k.into()),
                ("row_a", row_a.into()),
                ("row_b", row_b.into()),
                ("a_type", a_type.into()),
                ("b_type", b_type.into()),
                ("c_type", c_type.into()),
                ("bias", kind.bias.into()),
                ("ieee", kind.ieee.into()),
                ("space", space.name().into()),
            ];
            let sizes: BTreeMap<String, Value> =
                sizes.into_iter().map(|(name, size)| (name.to_string(), size)).collect();
            let problem = loaded.spec.problem(&sizes)?;
            Ok((entry, problem))
        };
        let entries = entries.into_iter().map(problem).collect::<anyhow::Result<_>>()?;
        Ok(Self { loaded, space, entries, target: target.clone(), what })
    }

    /// Tunes them, or times what is given, by the compilers and devices that are `local`, or by a fleet. `None`: a signal
    /// interrupted it.
    ///
    /// # Errors
    /// As [`Site::carry_out`].
    pub async fn carry_out(
        self,
        site: &Site,
        local: Option<(Compilers, LocalDevice)>,
        watch: &mut dyn Watch,
    ) -> anyhow::Result<Option<Tuned>> {
        let session = self.session(local.as_ref())?;
        let store = &*site.ports.store;
        let workers = local.map_or(Workers::Fleet, |(compilers, device)| Workers::Device(compilers, device));
        let problems: Vec<Problem> = self.entries.iter().map(|(_, problem)| problem.clone()).collect();
        let groups: Vec<GroupId> = problems.iter().map(|problem| group_id(problem, self.loaded.digest)).collect();
        let CarriedOut { end, bought, .. } = match &self.what {
            What::Timed => {
                store.put_blob(&self.loaded.bundle.encode()?).await?;
                let candidates = self.candidates()?.into_iter();
                let candidates = candidates.map(|(problem, one)| (problem, (&self.loaded, vec![one]))).collect();
                let planning = Given { session: &session, stage: Stage::Perf, candidates };
                site.carry_out(Order::given(session.clone(), problems, &planning), workers, watch).await?
            }
            What::Tuned { budget, time, .. } => {
                let asked = self.asked(*budget)?;
                let time = time.map(|time| TimeLimit { time, weights: HashMap::new() });
                if time.is_some() {
                    timed::check(&session).map_err(usage)?;
                }
                let order = Order { time, ..Order::of(session.clone(), problems, &asked) };
                site.carry_out(order, workers, watch).await?
            }
        };
        let utilisation = match end {
            End::Interrupted => return Ok(None),
            End::Complete(utilisation) => utilisation,
            End::DoneBefore | End::Nothing => None,
        };
        let found = summaries(store, &session, &groups).await?;
        let mut found: HashMap<String, Summary> =
            found.into_iter().map(|summary| (summary.problem.clone(), summary)).collect();
        let done = self.entries.into_iter().map(|(entry, problem)| (entry, found.remove(&problem.canonical())));
        Ok(Some(Tuned { done: done.collect(), session, groups, utilisation, bought }))
    }

    /// The configs that would be tried.
    ///
    /// # Errors
    /// If there is no space that they are of, or they can not be planned.
    pub async fn list(&self) -> anyhow::Result<Listing> {
        let What::Tuned { budget, .. } = &self.what else {
            return Err(usage(
                "--list: --benchmark and --compare_wo_tuning take the configs of the file, not of a space",
            ));
        };
        let problems = self.entries.iter().map(|(_, problem)| problem.clone()).collect();
        Listing::of(&self.session(None)?, problems, &self.asked(*budget)?, Vec::new()).await
    }

    /// What is asked of a plan for them.
    fn asked(&self, budget: CandidateBudget) -> anyhow::Result<Asked> {
        let spec = LoadedSpec::load(self.loaded.bundle.clone())?;
        let specs = Specs::for_target(vec![spec], &self.target);
        Ok(Asked { specs, budget, ..Asked::default() })
    }

    /// Another one for other compilers and devices, and in a fleet for whatever else is asked, so that nobody waits for the sizes of
    /// others.
    fn session(&self, local: Option<&(Compilers, LocalDevice)>) -> anyhow::Result<Session> {
        let versions = match (local, &self.what) {
            (Some((compilers, device)), _) => format!("{}\n{}", compilers.versions(), device.versions()),
            (None, What::Tuned { budget, .. }) => format!("{:?}\n{budget}", self.entries),
            (None, What::Timed) => format!("{:?}", self.entries),
        };
        let (what, stages, search, priors, when): (_, &[Stage], _, _, _) = match &self.what {
            What::Tuned { search, priors, .. } => ("tune", &Stage::ALL, search.clone(), *priors, String::new()),
            What::Timed => ("given", &[Stage::Perf], None, None, format!("{} {}", now_ms(), std::process::id())),
        };
        let (searched, begun) = (search.as_ref().map(|plan| format!("{plan:?}")), priors.map(|blob| blob.to_string()));
        let said = searched.as_deref().into_iter().chain(begun.as_deref());
        let shaped = [versions.as_str(), when.as_str()].into_iter().chain(said).map(str::as_bytes);
        let shaped = Digest::of_parts(digest::VERSIONS, shaped);
        let name = format!("gemm-{what}-{}-{}", self.target, &shaped.short()[..8]).parse()?;
        let plain = Session::of_kernels(name, self.target.clone(), "bluefin tune-gemm", stages, now_ms());
        Ok(Session { search, priors, ..plain })
    }

    /// Their configs as winners of earlier work.
    ///
    /// # Errors
    /// If one has none, or it is none of the solver's.
    pub fn priors(&self) -> anyhow::Result<Vec<Prior>> {
        let candidates = self.candidates()?;
        let spec = &self.loaded.spec;
        let prior = |(_, problem): &(Entry, Problem)| {
            let candidate = candidates.get(problem)?;
            let names = spec.solver(&candidate.solver)?.params.iter().map(|param| param.name.clone());
            Some(Prior {
                problem: problem.clone(),
                spec: spec.name.clone(),
                solver: candidate.solver.clone(),
                params: names.zip(candidate.params.iter().cloned()).collect(),
            })
        };
        Ok(self.entries.iter().filter_map(prior).collect())
    }

    /// Of each product, its config as a candidate.
    fn candidates(&self) -> anyhow::Result<HashMap<Problem, Candidate>> {
        let candidate = |(entry, problem): &(Entry, Problem)| {
            let config = entry.config.as_ref().context("a config")?;
            Ok((problem.clone(), self.candidate(config)?))
        };
        self.entries.iter().map(candidate).collect()
    }

    /// The candidate that a config is, which need not be one that the spec takes.
    pub(crate) fn candidate(&self, config: &Config) -> anyhow::Result<Candidate> {
        candidate(&self.loaded, self.space, config, &self.target)
    }

    /// What is launched for a problem of these where nobody has tuned: the default of the kernel, or, where that is none for the size,
    /// the first of its candidates. `None`: it has none.
    pub(crate) fn untuned(&self, problem: &Problem) -> anyhow::Result<Option<Candidate>> {
        let (spec, [whole, _]) = (&self.loaded.spec, self.space.solvers());
        let solver = spec.solver(whole).with_context(|| format!("solver {whole}"))?;
        let Some(scope) = spec.scope(problem, &self.target)? else { return Ok(None) };
        Ok(spec.candidates(solver, &scope, 1)?.points.into_iter().next())
    }

    /// The products with their problems, in the order in which they were given.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &(Entry, Problem)> {
        self.entries.iter()
    }

    /// The spec of their kernels.
    pub(crate) fn spec(&self) -> &LoadedSpec {
        &self.loaded
    }
}

/// Microseconds and config of the winner. The reference is no config.
pub fn best(summary: &Option<Summary>) -> Option<(f64, Config)> {
    let winner = summary.as_ref()?.winner.as_ref()?;
    let config = config_of(&winner.params);
    (!config.is_empty()).then_some((winner.median_ms * 1000.0, config))
}

/// The config that params are, by their names.
pub(crate) fn config_of(params: &[(String, Value)]) -> Config {
    let number = |(name, value): &(String, Value)| match value {
        Value::Int(value) => Some((name.clone(), *value)),
        Value::Text(_) | Value::Bool(_) => None,
    };
    params.iter().filter_map(number).collect()
}
