//! Which files are judged: the extension tells.

use std::path::{Path, PathBuf};
use std::slice;

use bluefin_serving::Error;
use bluefin_serving::check::OF_AITER;
use bluefin_serving::files::{self, name_of};

use crate::usage;

/// Why files hold no choice that could lose.
const KERNELS: &str = "found a kernel db, which holds compiled code and chooses nothing: without it MIOpen compiles the same kernels; `bluefin db check` reads it";
const HEADER: &str =
    "found a header, whose macros a compiler reads: `bluefin report` holds a session's winners against the defaults";
const WINNERS: (&str, &str) = (
    "winners.json",
    "found a report, which no program reads: `bluefin verify` takes the files that were exported beside it",
);

/// What files there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// vLLM's and SGLang's for mixtures of experts.
    Layer,
    /// Those of tune_gemm.py.
    Products,
    /// A folder that is a cache of Triton's.
    Cache,
    /// aiter's.
    Operators,
    /// MIOpen's find dbs.
    Finds,
    /// MIOpen's perf dbs.
    Perfs,
}

impl FileKind {
    /// All files that are named, with those of folders, and their one kind.
    ///
    /// # Errors
    /// If they are of several kinds, or nothing tells one.
    pub fn of_all(named: &[PathBuf]) -> anyhow::Result<(Vec<PathBuf>, Self)> {
        // A folder without config files may be a cache of Triton's.
        let of = |path: &PathBuf| match files::list(slice::from_ref(path)) {
            Err(Error::NoFile { path }) => Ok(vec![path]),
            found => found,
        };
        let files = named.iter().map(of).collect::<Result<Vec<_>, _>>()?.concat();
        let kinds = files.iter().map(|path| Self::of(path)).collect::<anyhow::Result<Vec<_>>>()?;
        let kind = kinds.first().copied().unwrap_or(Self::Layer);
        match files.iter().zip(kinds).find(|(_, other)| *other != kind) {
            None => Ok((files, kind)),
            Some((path, other)) => {
                let (path, found, expected) = (path.display(), other.name(), kind.name());
                Err(usage(format!("{path}: found {found}, expected {expected} as the first is")))
            }
        }
    }

    /// Of a file or a folder.
    ///
    /// # Errors
    /// If nothing tells it.
    fn of(path: &Path) -> anyhow::Result<Self> {
        let extension = path.extension().map(|extension| extension.to_string_lossy().into_owned());
        match extension.as_deref() {
            _ if path.is_dir() => Ok(Self::Cache),
            Some("json") if name_of(path) == WINNERS.0 => Err(usage(format!("{}: {}", path.display(), WINNERS.1))),
            Some("json") if files::is_aiters(path) => Err(usage(format!("{}: {OF_AITER}", path.display()))),
            Some("json") => Ok(Self::Layer),
            Some("yaml" | "yml") => Ok(Self::Products),
            Some("csv") => Ok(Self::Operators),
            Some("txt") if path.to_string_lossy().ends_with("fdb.txt") => Ok(Self::Finds),
            Some("txt") if path.to_string_lossy().ends_with("db.txt") => Ok(Self::Perfs),
            Some("db" | "udb") => Ok(Self::Perfs),
            Some("kdb" | "ukdb") => Err(usage(format!("{}: {KERNELS}", path.display()))),
            Some("h") => Err(usage(format!("{}: {HEADER}", path.display()))),
            _ => Err(usage(format!(
                "{}: found neither a folder nor a known extension, expected .json, .yaml, .csv, fdb.txt, db.txt, .db or a cache of Triton's",
                path.display()
            ))),
        }
    }

    /// Refuses flags that say nothing of such files: each of `named` is of one kind, `tools` of what other programs launch, and `bench` of what
    /// bluefin launches itself.
    ///
    /// # Errors
    /// If one is there.
    pub fn allows(
        self,
        named: &[(Option<&str>, Self)],
        tools: Option<&str>,
        bench: &[(&str, bool)],
    ) -> anyhow::Result<()> {
        let named = named.iter().filter(|(_, of)| *of != self).find_map(|(flag, of)| Some(((*flag)?, of.name())));
        let tools =
            tools.filter(|_| !self.is_of_tools()).map(|flag| (flag, "a file of aiter's or a database of MIOpen's"));
        let bench = bench.iter().find(|(_, given)| *given && self.is_of_tools());
        let bench = bench.map(|(flag, _)| (*flag, "files whose rows bluefin launches itself"));
        match named.or(tools).or(bench) {
            None => Ok(()),
            Some((flag, expected)) => Err(usage(format!("{flag}: found {}, expected {expected}", self.name()))),
        }
    }

    /// Whether other programs launch what rows say.
    #[must_use]
    pub const fn is_of_tools(self) -> bool {
        matches!(self, Self::Operators | Self::Finds | Self::Perfs)
    }

    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Layer => "a config file of vLLM or SGLang",
            Self::Products => "a file of tune_gemm.py",
            Self::Cache => "a cache of Triton's",
            Self::Operators => "a file of aiter's",
            Self::Finds => "a find db",
            Self::Perfs => "a perf db",
        }
    }
}
