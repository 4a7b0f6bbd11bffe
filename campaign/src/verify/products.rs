//! Files of tune_gemm.py: the default is that of the kernel, or the first config that is one for the size.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use bluefin_serving::Row;
use bluefin_serving::files::name_of;
use serde_json::{Map, Value as Json, json};

use super::{Bench, Case, Launch, Subject, Unlaunched, launched};
use crate::gemm::edit::with_config;
use crate::gemm::files::{self, CONFIG, Entry, Size};
use crate::gemm::kind::ProductKind;
use crate::gemm::products::{Products, What, config_of};
use crate::gemm::space::Config;

/// A file of sizes with their configs.
pub struct ProductFile {
    path: PathBuf,
    text: String,
    entries: Vec<Entry>,
    kind: ProductKind,
    known: BTreeMap<Size, Config>,
}

impl ProductFile {
    /// Reads a file of products of that `kind`, and the other one that `known` names, or that has its name in the folder that `known` is. `note`
    /// is told which lines a later one takes the place of.
    ///
    /// # Errors
    /// If one can not be read, or a size has no config.
    pub fn read(
        path: &Path,
        known: Option<&Path>,
        kind: ProductKind,
        mut note: impl FnMut(String),
    ) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let entries = files::read(path, &mut note)?;
        if let Some(Entry { size, .. }) = entries.iter().find(|entry| entry.config.is_none()) {
            let (path, name) = (path.display(), size.to_string());
            anyhow::bail!("{path}: {name}: found no config, expected one for each size, as tune-gemm writes them");
        }
        let known = super::beside(known, &name_of(path)).map(|other| files::read(&other, &mut note)).transpose()?;
        let of = |entry: Entry| Some((entry.size, entry.config?));
        let known = known.into_iter().flatten().filter_map(of).collect();
        Ok(Self { path: path.to_path_buf(), text, entries, kind, known })
    }
}

impl Subject for ProductFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn kernel(&self) -> &str {
        "a kernel of bluefin's own"
    }

    fn cases(&self, bench: &Bench<'_>) -> anyhow::Result<Vec<Case>> {
        let products = Products::of(self.entries.clone(), &self.kind, bench.target(), What::Timed)?;
        let spec = Arc::new(products.spec().clone());
        let mut cases = Vec::with_capacity(self.entries.len());
        for (Entry { size, config }, problem) in products.entries() {
            let config = config.as_ref().context("a config")?;
            let candidate = |config: &Config| {
                let candidate = products.candidate(config).map_err(|error| Unlaunched::Unknown(error.to_string()))?;
                launched(&spec, problem, bench.target(), candidate)
            };
            let (own, known) = (candidate(config), self.known.get(size).and_then(|config| candidate(config).ok()));
            let row = row(config);
            cases.push(Case {
                key: Map::from_iter([("size".to_string(), json!(size))]),
                name: size.to_string(),
                says: json!(row),
                short: row.short(),
                begins: own.iter().chain(&known).cloned().collect(),
                own,
                default: products.untuned(problem)?,
                known,
                spec: spec.clone(),
                searched: spec.clone(),
                problem: problem.clone(),
            });
        }
        Ok(cases)
    }

    fn put(&mut self, at: usize, launch: &Launch, _: &Bench<'_>) -> anyhow::Result<String> {
        let Entry { size, .. } = self.entries.get(at).context("an entry of the file")?;
        let config = config_of(&launch.params);
        let edited = with_config(&self.text, size, &config, 1000.0 * launch.median_ms);
        self.text = edited.with_context(|| self.path.display().to_string())?;
        Ok(row(&config).short())
    }

    fn write(&self) -> anyhow::Result<()> {
        files::replace(&self.path, &self.text)
    }
}

/// A config with its keys in the order of the file.
fn row(config: &Config) -> Row {
    let field = |key: &&str| Some((key.to_string(), Json::from(*config.get(*key)?)));
    Row(CONFIG.iter().filter_map(field).collect())
}
