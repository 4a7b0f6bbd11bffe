//! A campaign as a plan file: TOML, one table a step. Tables and keys that are not known, or given twice, are refused with their
//! place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use bluefin_common::algorithm::Algorithm;
use bluefin_common::method::{Method, UnknownMethod};
use bluefin_common::priority::Priority;
use bluefin_common::session::SessionName;
use bluefin_common::target::Target;
use bluefin_exporter::{FormatName, UnknownFormat};
use bluefin_producer::library::TagName;
use bluefin_producer::plan::CandidateBudget;
use clap::ValueEnum;
use serde::{Deserialize, Deserializer, de};

use crate::kernels::With;
use crate::known::known;
use crate::problems::{Operation, Precision};
use crate::search::{Patience, SearchChoice};
use crate::session::{Blacklisted, parse_stage};

mod steps;

/// Largest plan.
const MAX_BYTES: u64 = 1 << 20;

/// The steps of a campaign, which run in the order of the fields. Paths are relative to the plan's folder.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    #[serde(default)]
    import: Vec<ImportStep>,
    session: SessionStep,
    solvers: Option<SolversStep>,
    applicability: Option<ApplicabilityStep>,
    #[serde(default)]
    enqueue: EnqueueStep,
    #[serde(default)]
    wait: WaitStep,
    export: Option<ExportStep>,
    check: Option<CheckStep>,
}

/// `bluefin problems import`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ImportStep {
    tag: Word<TagName>,
    files: Vec<PathBuf>,
    #[serde(default)]
    batches: Vec<std::num::NonZeroU32>,
    command: Option<Named<Precision>>,
    config_type: Option<Named<Operation>>,
    #[serde(default)]
    tag_only: bool,
    #[serde(default)]
    mark_recurrent: bool,
    #[serde(default)]
    allow_rejects: bool,
}

/// `bluefin session new`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionStep {
    label: String,
    name: Option<Word<SessionName>>,
    target: Word<Target>,
    tuner: Option<Word<TunerName>>,
    #[serde(default)]
    exhaustive: bool,
    #[serde(default)]
    stages: Vec<Word<StageName>>,
    rocm_v: Option<String>,
    miopen_v: Option<String>,
    docker_name: Option<String>,
    ticket: Option<String>,
    find_mode: Option<u8>,
    #[serde(default)]
    blacklist: Vec<Named<Blacklisted>>,
    /// `NAME[:N]`
    search: Option<Word<SearchChoice>>,
    /// Winners of earlier work that it begins with: a file, or a release or a session of the store
    from: Option<String>,
    search_seed: Option<u64>,
    #[serde(default)]
    search_options: BTreeMap<String, String>,
    /// `0.5%`
    patience: Option<Word<Patience>>,
    #[serde(default)]
    budget: BudgetStep,
}

/// The budget flags of `bluefin session new`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BudgetStep {
    solver: Option<Time>,
    problem: Option<Time>,
    session: Option<Time>,
    tuning_time: Option<Time>,
    tuning_patience: Option<u64>,
    tuning_iterations: Option<u64>,
}

/// `bluefin solvers update`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SolversStep {
    fin: Option<PathBuf>,
    from: Option<PathBuf>,
}

/// `bluefin applicability update`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApplicabilityStep {
    fin: Option<PathBuf>,
    processes: Option<u32>,
}

/// `bluefin enqueue`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EnqueueStep {
    /// Those that the plan imports, if there are none.
    #[serde(default)]
    tags: Vec<Word<TagName>>,
    #[serde(default)]
    stages: Vec<Word<StageName>>,
    #[serde(default)]
    solvers: Vec<String>,
    algorithm: Option<Word<Algorithm>>,
    #[serde(default)]
    tunable: bool,
    #[serde(default)]
    dynamic_only: bool,
    /// Candidates of kernel specs.
    candidates: Option<Word<CandidateBudget>>,
    /// How long searches go on, instead of `candidates`.
    time: Option<Time>,
    /// Kernel specs of one's own.
    #[serde(default)]
    kernels: Vec<PathBuf>,
    /// Kernels that are tried beside bluefin's own.
    with: Option<With>,
    /// How much the session matters beside others of a fleet.
    priority: Option<Priority>,
}

/// Until the session is complete.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitStep {
    /// Run workers in this process. Without a fleet they are run in any case.
    #[serde(default)]
    local: bool,
    /// Compilers that such workers run at a time.
    compile_slots: Option<usize>,
    /// fin with a GPU, for such workers [default: BLUEFIN_FIN_GPU, BLUEFIN_FIN, the one of ROCm, or in PATH]
    fin: Option<PathBuf>,
    /// MIOpenDriver, for such workers [default: BLUEFIN_MIOPEN_DRIVER, the one of ROCm, or in PATH]
    miopen_driver: Option<PathBuf>,
}

/// `bluefin export`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportStep {
    out: PathBuf,
    /// Names of formats, such as `find_db`; all if there are none.
    #[serde(default)]
    files: Vec<Word<FormatChoice>>,
    /// Solvers kept for each find-db key; 0 for all.
    #[serde(default = "four")]
    top: usize,
}

/// `bluefin db check` of what was exported.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckStep {
    /// Rules that are not looked at.
    #[serde(default)]
    allow: Vec<Word<bluefin_exporter::db::check::Rule>>,
}

fn four() -> usize {
    4
}

/// A format by its name.
#[derive(Debug)]
struct FormatChoice(FormatName);

impl FromStr for FormatChoice {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        known().formats.named(text).map(Self)
    }
}

/// A method by its name, however that is spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TunerName(pub Method);

impl FromStr for TunerName {
    type Err = UnknownMethod;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.to_ascii_lowercase().parse().map(Self)
    }
}

/// A stage by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StageName(bluefin_common::session::Stage);

impl FromStr for StageName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_stage(text).map(Self)
    }
}

/// A value that is read from its text.
#[derive(Clone, Debug)]
struct Word<T>(pub T);

impl<'de, T: FromStr<Err: std::fmt::Display>> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}

/// A value of a flag that has names.
#[derive(Clone, Copy, Debug)]
struct Named<T>(pub T);

impl<'de, T: ValueEnum> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        T::from_str(&text, true).map(Self).map_err(|_| {
            let names: Vec<String> = T::value_variants()
                .iter()
                .filter_map(|value| Some(value.to_possible_value()?.get_name().to_string()))
                .collect();
            de::Error::custom(format!("found {text:?}, expected {}", names.join(", ")))
        })
    }
}

/// A span of time, such as `10m`.
#[derive(Clone, Copy, Debug)]
struct Time(pub Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_duration(&text).map(Self).map_err(|error| de::Error::custom(format!("{text:?}: {error}")))
    }
}

impl PlanFile {
    /// Reads the plan at `path`. Its paths are made relative to where this process is.
    ///
    /// # Errors
    /// If it can not be read, or is no plan: with the line and the column.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let named = || path.display().to_string();
        let size = std::fs::metadata(path).with_context(named)?.len();
        anyhow::ensure!(size <= MAX_BYTES, "{}: found {size} bytes, expected at most {MAX_BYTES}", named());
        let text = std::fs::read_to_string(path).with_context(named)?;
        let mut plan = Self::parse(&text).with_context(named)?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            // It may be the name of a release.
            if let Some(from) = &mut plan.session.from
                && folder.join(&*from).exists()
            {
                *from = folder.join(&*from).display().to_string();
            }
            for path in plan.paths() {
                // An absolute path replaces what it is joined to.
                *path = folder.join(&*path);
            }
        }
        Ok(plan)
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let plan: Self = toml::from_str(text)?;
        anyhow::ensure!(
            !plan.import.is_empty() || !plan.enqueue.tags.is_empty() || !plan.enqueue.kernels.is_empty(),
            "nothing to tune: give an [[import]], or tags or kernels of [enqueue]"
        );
        if let Some(solvers) = plan.solvers.as_ref().filter(|solvers| solvers.fin.is_some() && solvers.from.is_some()) {
            anyhow::bail!("[solvers]: found fin and from {:?}, expected one of them", solvers.from);
        }
        if let Some(time) = plan.enqueue.time.filter(|_| plan.enqueue.candidates.is_some()) {
            anyhow::bail!("[enqueue]: found candidates and time {:?}, expected one of them", time.0);
        }
        anyhow::ensure!(plan.check.is_none() || plan.export.is_some(), "[check] is of what [export] writes");
        Ok(plan)
    }

    fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let solvers = self.solvers.iter_mut().flat_map(|step| step.fin.iter_mut().chain(step.from.iter_mut()));
        let imported = self.import.iter_mut().flat_map(|step| step.files.iter_mut());
        let applicability = self.applicability.iter_mut().filter_map(|step| step.fin.as_mut());
        let export = self.export.iter_mut().map(|step| &mut step.out);
        let tools = self.wait.fin.iter_mut().chain(self.wait.miopen_driver.iter_mut());
        let kernels = self.enqueue.kernels.iter_mut();
        imported.chain(solvers).chain(applicability).chain(kernels).chain(tools).chain(export)
    }

    /// The tags whose problems are tuned.
    fn tags(&self) -> Vec<TagName> {
        let own = self.enqueue.tags.iter().map(|tag| tag.0.clone());
        let mut tags: Vec<TagName> = own.collect();
        if tags.is_empty() {
            tags = self.import.iter().map(|step| step.tag.0.clone()).collect();
        }
        tags.sort();
        tags.dedup();
        tags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "[[import]]\ntag = \"a\"\nfiles = [\"a.txt\"]\n[session]\nlabel = \"x\"\ntarget = \"host\"\n";

    fn message(text: &str) -> String {
        crate::message(&PlanFile::parse(text).unwrap_err())
    }

    #[test]
    fn mistakes_have_a_place() {
        for (wrong, place, reason) in [
            ("[sesion]\n", "line 7, column 2", "unknown field `sesion`"),
            ("[export]\nout = \"o\"\nout = \"p\"\n", "line 9, column 1", "duplicate key"),
            ("[wait]\nlocal = true\n[wait]\n", "line 9, column 2", "duplicate key"),
            ("[enqueue]\nstages = [\"perf\", \"fund\"]\n", "line 8", "expected perf or find"),
            ("[enqueue]\nalgorithm = \"SCGEMM\"\n", "line 8", "algorithm: found \"SCGEMM\""),
            (
                "[export]\nout = \"o\"\nfiles = [\"kernels\"]\n",
                "line 9",
                "expected one of find-db, perf-db, kernel-db, winners",
            ),
            ("[enqueue]\ntags = [\"a b\"]\n", "line 8", "tag: found \"a b\""),
            ("[enqueue]\nwith = \"tritan\"\n", "line 8", "expected `triton`"),
            ("[session.budget]\nsolver = \"ten\"\n", "line 8", "\"ten\": "),
        ] {
            let found = message(&format!("{SMALL}{wrong}"));
            assert!(found.contains(place) && found.contains(reason), "{found}");
        }
        assert!(message("[session]\nlabel = \"x\"\ntarget = \"host\"\n").contains("nothing to tune"));
        assert!(message(&format!("{SMALL}[check]\n")).contains("[export]"));
        let both = message(&format!("{SMALL}[enqueue]\ncandidates = \"quick\"\ntime = \"2m\"\n"));
        assert_eq!(both, "[enqueue]: found candidates and time 120s, expected one of them");
        assert!(message(&SMALL.replace("host", "mars")).contains("target: found \"mars\""));
    }

    #[test]
    fn paths_are_those_of_the_plan() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.toml");
        let steps = "[solvers]\nfin = \"/opt/rocm/bin/fin\"\n[export]\nout = \"out\"\n";
        std::fs::write(&path, format!("{SMALL}{steps}")).unwrap();
        let plan = PlanFile::read(&path).unwrap();
        assert_eq!(plan.import[0].files, [folder.path().join("a.txt")]);
        assert_eq!(plan.solvers.unwrap().fin.unwrap(), Path::new("/opt/rocm/bin/fin"));
        assert_eq!(plan.export.unwrap().out, folder.path().join("out"));
    }

    /// The plan that is shipped is a plan.
    #[test]
    fn the_example_is_read() {
        let plan = PlanFile::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/plan.toml")).unwrap();
        assert_eq!(plan.tags().iter().map(TagName::as_str).collect::<Vec<_>>(), ["resnet50"]);
        assert!(plan.solvers.is_some() && plan.applicability.is_some() && plan.check.is_some());
    }
}
