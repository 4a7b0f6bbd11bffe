//! Folders that are a cache of Triton's: the default is the config that the program runs by where nobody has tuned, as it was captured.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use bluefin_common::candidate::Candidate;
use bluefin_common::problem::Problem;
use bluefin_common::target::Target;
use bluefin_common::value::Value;
use bluefin_kernel_spec::{Bundle, Solver};
use bluefin_producer::specs::LoadedSpec;
use bluefin_triton::{Captured, Choice, LISTED, WIDENED, Winner};
use serde_json::{Map, Value as Json, json};

use super::{Bench, Case, Launch, Subject, Unlaunched, launched};
use crate::given_back;

/// What is in a cache for the kernels of a program.
pub struct CacheFolder {
    path: PathBuf,
    kept: Vec<Kept>,
}

/// What it has for a tuning key.
struct Kept {
    captured: Captured,
    /// The GPUs that it is for.
    architecture: String,
    /// The config that Triton takes.
    choice: Choice,
    known: Option<Choice>,
    is_changed: bool,
}

impl CacheFolder {
    /// Reads what is in the cache `path` for the kernels that were captured into `kernels`, and in the other cache that is `known`.
    ///
    /// # Errors
    /// If a folder or file can not be read, or none of the kernels has a choice there.
    pub fn read(path: &Path, known: Option<&Path>, kernels: &Path) -> anyhow::Result<Self> {
        let captures = Captured::read_all(kernels)?;
        let expected = captures.iter().find_map(|captured| captured.places_in(path).remove(&captured.architecture()));
        let mut kept = Vec::new();
        for captured in captures {
            let mut known = known.map(|known| Choice::all(known, &captured)).transpose()?.unwrap_or_default();
            for (architecture, choice) in Choice::all(path, &captured)? {
                let known = known.remove(&architecture);
                kept.push(Kept { captured: captured.clone(), architecture, choice, known, is_changed: false });
            }
        }
        if kept.is_empty() {
            let expected = expected.map_or_else(
                || "kernels with a tuning key".to_string(),
                |place| format!("files such as {}", place.display()),
            );
            bail!("{}: found no choice for a kernel of {}, expected {expected}", path.display(), kernels.display());
        }
        Ok(Self { path: path.to_path_buf(), kept })
    }
}

impl Subject for CacheFolder {
    fn path(&self) -> &Path {
        &self.path
    }

    fn kernel(&self) -> &str {
        "the program's own"
    }

    fn cases(&self, bench: &Bench<'_>) -> anyhow::Result<Vec<Case>> {
        let target = bench.target();
        let cases = self.kept.iter().filter(|kept| kept.architecture == target.arch()).map(|kept| kept.case(target));
        let cases = cases.collect::<anyhow::Result<Vec<_>>>()?;
        if cases.is_empty() {
            let found: BTreeSet<&str> = self.kept.iter().map(|kept| kept.architecture.as_str()).collect();
            let found = found.into_iter().collect::<Vec<_>>().join(", ");
            bail!("{}: found choices for {found}, expected some for {}", self.path.display(), target.arch());
        }
        Ok(cases)
    }

    fn put(&mut self, at: usize, launch: &Launch, bench: &Bench<'_>) -> anyhow::Result<String> {
        let mut of_target = self.kept.iter_mut().filter(|kept| kept.architecture == bench.target().arch());
        let kept = of_target.nth(at).context("a choice for the target")?;
        let params = launch.params.iter().map(|(name, value)| (name.clone(), plain(value))).collect();
        kept.choice.set(&kept.captured, &Winner { params, median_ms: launch.median_ms, over_default: None });
        kept.is_changed = true;
        Ok(kept.choice.short())
    }

    fn write(&self) -> anyhow::Result<()> {
        for Kept { choice, .. } in self.kept.iter().filter(|kept| kept.is_changed) {
            let path = &choice.path;
            let (folder, name) = path.parent().zip(path.file_name()).context("a file in a folder")?;
            given_back::put(folder, &name.to_string_lossy(), &choice.text())?;
        }
        Ok(())
    }
}

/// A spec of a capture with the only problem that it has.
struct Space {
    spec: LoadedSpec,
    problem: Problem,
}

impl Space {
    /// That of the capture's file of this name. `None`: it has none.
    fn read(captured: &Captured, name: &str) -> anyhow::Result<Option<Self>> {
        let path = captured.folder.join(name);
        if !path.is_file() {
            return Ok(None);
        }
        let spec = LoadedSpec::load(Bundle::read(&path)?).with_context(|| path.display().to_string())?;
        let problem = spec.spec.problem(&BTreeMap::new())?;
        Ok(Some(Self { spec, problem }))
    }

    fn solver(&self, captured: &Captured) -> Option<&Solver> {
        self.spec.spec.solver(&captured.function)
    }

    /// The candidate that a choice is, or why it is none.
    fn candidate(&self, captured: &Captured, choice: &Choice, target: &Target) -> Result<Candidate, Unlaunched> {
        let unknown =
            || Unlaunched::Unknown("it is neither in the program's list of configs nor beside them".to_string());
        let (values, solver) = choice.params(captured).zip(self.solver(captured)).ok_or_else(unknown)?;
        // A config that lacks what others set has None for it.
        let value = |name: &String| values.get(name).cloned().unwrap_or_else(|| "None".into());
        let params = solver.params.iter().map(|param| value(&param.name)).collect();
        launched(&self.spec, &self.problem, target, Candidate { solver: solver.name.clone(), params })
    }
}

impl Kept {
    /// By the program's own list, if all that is compared is in it; else by what lies around it.
    fn case(&self, target: &Target) -> anyhow::Result<Case> {
        let Self { captured, choice, known, .. } = self;
        let listed = Space::read(captured, LISTED)?;
        let listed = listed.with_context(|| format!("{}: expected {LISTED}", captured.folder.display()))?;
        let widened = Space::read(captured, WIDENED)?;
        let both = |space: &Space| {
            let known = known.as_ref().and_then(|known| space.candidate(captured, known, target).ok());
            (space.candidate(captured, choice, target), known)
        };
        let has_all = |(own, other): &(Result<Candidate, Unlaunched>, Option<Candidate>)| {
            own.is_ok() && other.is_some() == known.is_some()
        };
        let (of_list, of_wide) = (both(&listed), widened.as_ref().map(both));
        let (space, (own, known)) = match (widened, of_wide) {
            (Some(widened), Some(of_wide)) if !has_all(&of_list) && of_wide.0.is_ok() => (widened, of_wide),
            _ => (listed, of_list),
        };
        let default = space.solver(captured).map(Solver::default_candidate);
        let default = default.and_then(|candidate| launched(&space.spec, &space.problem, target, candidate).ok());
        let spec = Arc::new(space.spec);
        Ok(Case {
            key: Map::from_iter([
                ("kernel".to_string(), json!(captured.name())),
                ("function".to_string(), json!(captured.function)),
            ]),
            name: captured.name(),
            says: Json::Object(choice.config.clone()),
            short: choice.short(),
            problem: space.problem,
            begins: own.iter().chain(&known).cloned().collect(),
            own,
            default,
            known,
            searched: spec.clone(),
            spec,
        })
    }
}

/// A value of a param as a winner has it.
fn plain(value: &Value) -> Json {
    match value {
        Value::Int(value) => json!(value),
        Value::Bool(value) => json!(value),
        Value::Text(value) => json!(value),
    }
}
