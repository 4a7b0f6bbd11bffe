//! How long choices take where Inductor has to choose between libraries and configs of a template: it keeps times on disk, and takes the least.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

/// A config that lost is told to take so many times as long as the winner: it has no time that could be compared with those of libraries.
const LOST: f64 = 10.0;

/// Where Inductor looks for times, and by what names: `torch._inductor.codecache.PersistentCache`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Template {
    op: String,
    inputs: String,
    precision: String,
    /// In its cache; nothing where that PyTorch has no such file.
    pub(crate) folder: Option<String>,
    pub(crate) file: Option<String>,
    #[serde(default)]
    system: Json,
    /// Of each config, its name in the file.
    hashes: Vec<String>,
    /// Of each config, a name that other devices of its kind have too.
    described: Vec<String>,
    /// How many times as long as the config that the program ran each other choice takes, by its name.
    others: BTreeMap<String, f64>,
}

/// Milliseconds of each choice, for the hook.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Times {
    op: String,
    inputs: String,
    precision: String,
    times: BTreeMap<String, f64>,
}

/// What won, as far as times go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Won {
    /// Which config.
    pub(crate) at: usize,
    pub(crate) ms: f64,
    /// Of the config that the program ran.
    pub(crate) first_ms: f64,
}

impl Template {
    pub(crate) fn times(&self, won: Won) -> Times {
        let (op, inputs, precision) = (self.op.clone(), self.inputs.clone(), self.precision.clone());
        Times { op, inputs, precision, times: self.by(&self.described, won) }
    }

    fn by(&self, names: &[String], won: Won) -> BTreeMap<String, f64> {
        let own = |(at, name): (usize, &String)| (name.clone(), if at == won.at { won.ms } else { won.ms * LOST });
        let others = self.others.iter().map(|(name, ratio)| (name.clone(), ratio * won.first_ms));
        names.iter().enumerate().map(own).chain(others).collect()
    }
}

/// A file of Inductor's cache: by operator, inputs and precision the time of each choice.
type Content = BTreeMap<String, BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>>>;

/// The files in which Inductor finds these times, by folder and name.
pub(crate) fn files(found: &[(&Template, Won)]) -> BTreeMap<(String, String), Json> {
    let mut files: BTreeMap<(String, String), (Json, Content)> = BTreeMap::new();
    for (template, won) in found {
        let (Some(folder), Some(file)) = (&template.folder, &template.file) else { continue };
        let place = (folder.clone(), file.clone());
        let (_, content) = files.entry(place).or_insert_with(|| (template.system.clone(), Content::new()));
        let of_op = content.entry(template.op.clone()).or_default();
        let of_inputs = of_op.entry(template.inputs.clone()).or_default();
        // Several templates may be for the same operator: choices are made among all of them.
        let times = of_inputs.entry(template.precision.clone()).or_default();
        for (hash, ms) in template.by(&template.hashes, *won) {
            // A config that lost in one kernel may have won in another.
            times.entry(hash).and_modify(|least| *least = least.min(ms)).or_insert(ms);
        }
    }
    files.into_iter().map(|(place, (system, cache))| (place, json!({ "system": system, "cache": cache }))).collect()
}
