//! What was found, in the form in which a hook gives it back to the program, and Triton reads it from its cache on disk.

use std::collections::BTreeMap;
use std::path::Path;

use bluefin_common::arch;
use bluefin_common::target::Target;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::captured::{Captured, Config, Inductor, Typed};
use crate::error::Error;
use crate::text::plain;
use crate::times::{self, Times, Won};
use crate::words::Words;

/// Version of the document; changes when a field changes its meaning.
const FORMAT: u32 = 1;

/// The winner of a capture, by names of params.
#[derive(Clone, Debug)]
pub struct Winner {
    pub params: BTreeMap<String, Json>,
    pub median_ms: f64,
    /// Against the config that the program ran.
    pub over_default: Option<f64>,
}

/// What won on the GPUs of a target.
#[derive(Clone, Debug)]
pub struct Winners {
    /// Of these GPUs, as compilers name it.
    pub architecture: String,
    /// By kernel spec.
    pub by_name: BTreeMap<String, Winner>,
}

/// All that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Tuned {
    format: u32,
    /// The GPU, as Triton names it.
    target: Json,
    kernels: Vec<TunedKernel>,
    #[serde(skip)]
    cached: Vec<Cached>,
    #[serde(skip)]
    uncached: Vec<(String, String)>,
}

/// What was found for a function and tuning key.
#[derive(Clone, Debug, Serialize)]
pub struct TunedKernel {
    /// Of the capture.
    pub name: String,
    /// Of the `@triton.jit` function.
    pub function: String,
    /// Digest of its source and of all that it uses, by Triton.
    source: String,
    /// It has no autotuner.
    jit: bool,
    /// Name of the file that Inductor wrote it into.
    #[serde(skip_serializing_if = "Option::is_none")]
    inductor: Option<String>,
    /// Between which Inductor chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<Times>,
    key: Vec<Json>,
    /// Constexprs that no config sets: launches of one key may differ in them.
    constants: BTreeMap<String, Typed>,
    kwargs: BTreeMap<String, Typed>,
    options: BTreeMap<String, Typed>,
    /// Milliseconds.
    pub median_ms: f64,
}

/// A file of a cache.
#[derive(Clone, Debug)]
pub struct Cached {
    pub cache: CacheOf,
    /// In the cache.
    pub folder: String,
    pub file: String,
    content: Json,
}

/// Who reads a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheOf {
    Triton,
    Inductor,
}

#[derive(Deserialize)]
struct Exported {
    target: Target,
    kernels: BTreeMap<String, BTreeMap<String, ExportedConfig>>,
}

#[derive(Deserialize)]
struct ExportedConfig {
    median_ms: f64,
    #[serde(default)]
    speedup_over_default: Option<f64>,
    kwargs: BTreeMap<String, Json>,
    #[serde(flatten)]
    options: BTreeMap<String, Json>,
}

/// What came of giving it to a program.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Applied {
    /// By function and key.
    pub given: BTreeMap<String, Given>,
    /// By function and key, with the reason.
    pub left: BTreeMap<String, String>,
    pub timed: Vec<Json>,
}

/// What an autotuner was given.
#[derive(Clone, Debug, Deserialize)]
pub struct Given {
    /// Name of the capture.
    pub from: String,
    /// Whether the key is the capture's own.
    pub exact: bool,
}

impl Tuned {
    /// Joins captures with the winners of their specs, by name, which may be those of another GPU than the captures'. Captures without one
    /// are left out.
    #[must_use]
    pub fn of(captures: &[Captured], winners: &Winners) -> Self {
        let mut tuned =
            Self { format: FORMAT, target: Json::Null, kernels: Vec::new(), cached: Vec::new(), uncached: Vec::new() };
        let mut templates = Vec::new();
        for capture in captures {
            let Some(winner) = winners.by_name.get(&capture.name()) else { continue };
            let source = &capture.function_digest;
            let Some(first) = capture.configs.first() else { continue };
            let (architecture, own) = (&winners.architecture, capture.architecture());
            tuned.target = if *architecture == own { capture.target.clone() } else { in_triton(architecture) };
            let words = Words::of(capture);
            let (kwargs, options) = (winner.part(&first.kwargs, &words), winner.part(&first.options, &words));
            let won = winner.among(capture).filter(|_| *architecture == own);
            let template = capture.cache.template.as_ref().zip(won);
            if let Some(of_a_file) = template.filter(|(template, _)| template.file.is_some()) {
                templates.push(of_a_file);
            } else {
                match winner.file(capture, architecture, &own) {
                    Ok(file) => tuned.cached.push(file),
                    Err(why) => tuned.uncached.push((capture.name(), why)),
                }
            }
            tuned.kernels.push(TunedKernel {
                name: capture.name(),
                function: capture.function.clone(),
                source: source.clone(),
                jit: capture.jit,
                // The file's name stands for the GPU that it was written for.
                inductor: capture.cache.inductor.as_ref().filter(|_| *architecture == own).map(|it| it.source.clone()),
                template: template.map(|(template, won)| template.times(won)),
                key: capture.key.clone(),
                constants: capture.constants(),
                kwargs,
                options,
                median_ms: winner.median_ms,
            });
        }
        let file = |((folder, file), content)| Cached { cache: CacheOf::Inductor, folder, file, content };
        tuned.cached.extend(times::files(&templates).into_iter().map(file));
        tuned
    }

    /// How many there are.
    #[must_use]
    pub fn kernels(&self) -> &[TunedKernel] {
        &self.kernels
    }

    /// The document that [`Mode::Apply`](crate::Mode::Apply) reads.
    #[must_use]
    pub fn document(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Captures for which nothing is looked for on disk, and why: a hook can give them theirs.
    #[must_use]
    pub fn uncached(&self) -> &[(String, String)] {
        &self.uncached
    }

    /// Files of the caches that Triton and Inductor have on disk.
    #[must_use]
    pub fn cached(&self) -> &[Cached] {
        &self.cached
    }
}

impl Cached {
    /// What is in it.
    #[must_use]
    pub fn text(&self) -> String {
        self.content.to_string()
    }
}

impl Winners {
    /// Those of a `triton.json`, as the exporter writes it. A capture is a spec without sizes.
    ///
    /// # Errors
    /// A file that is not there, or no such document.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::file(path, source))?;
        let document = serde_json::from_str::<Exported>(&text);
        let document = document.map_err(|error| Error::Document {
            path: path.to_path_buf(),
            reason: error.to_string(),
            expected: "what `bluefin export --format triton` writes",
        })?;
        let architecture = document.target.arch().to_string();
        let of = |(name, mut sizes): (String, BTreeMap<String, ExportedConfig>)| {
            let found = sizes.remove("")?;
            let params = found.kwargs.into_iter().chain(found.options).collect();
            let (median_ms, over_default) = (found.median_ms, found.speedup_over_default);
            Some((name, Winner { params, median_ms, over_default }))
        };
        Ok(Self { architecture, by_name: document.kernels.into_iter().filter_map(of).collect() })
    }
}

impl Winner {
    /// As Triton's cache has it for a capture: beside its config the median and two quantiles, of which Triton takes the least.
    pub(crate) fn cached(&self, capture: &Captured) -> Option<Json> {
        let (first, ms, words) = (capture.configs.first()?, self.median_ms, Words::of(capture));
        Some(json!([config(&self.part(&first.kwargs, &words), &self.part(&first.options, &words))?, [ms, ms, ms]]))
    }

    /// Which of a capture's configs it is.
    fn position(&self, capture: &Captured) -> Option<usize> {
        let words = Words::of(capture);
        let is_it = |config: &Config| {
            self.part(&config.kwargs, &words) == config.kwargs && self.part(&config.options, &words) == config.options
        };
        capture.configs.iter().position(is_it)
    }

    /// The same, with times.
    fn among(&self, capture: &Captured) -> Option<Won> {
        let at = self.position(capture)?;
        let is_first = capture.configs.get(at)?.text == capture.chosen;
        let over_default = self.over_default.or(is_first.then_some(1.0))?;
        Some(Won { at, ms: self.median_ms, first_ms: self.median_ms * over_default })
    }

    /// The file in which the program looks for it on GPUs of `architecture`, where the capture is of those of `own`; or why there is none.
    fn file(&self, capture: &Captured, architecture: &str, own: &str) -> Result<Cached, String> {
        if let Some(place) = &capture.cache.inductor {
            return self.of_inductor(place, capture, architecture, own);
        }
        if capture.cache.template.is_some() && capture.cache.why.is_none() {
            let not_beside = || "it was not timed beside the config that the program ran".to_string();
            return Err(if architecture == own { not_beside() } else { of_inductors(own, architecture) });
        }
        let Some((folder, file)) = capture.places().get(architecture).copied() else {
            let elsewhere = || format!("its capture on {own} does not say where Triton looks for it on {architecture}");
            return Err(capture.cache.why.clone().unwrap_or_else(elsewhere));
        };
        let row =
            self.cached(capture).ok_or("a config has a type among its values, which Triton's cache can not hold")?;
        let content = json!({ "key": capture.key, "configs_timings": [row] });
        Ok(Cached { cache: CacheOf::Triton, folder: folder.to_string(), file: file.to_string(), content })
    }

    /// As Inductor's cache has it. It takes what is in its list, and others where it looks around its choice itself.
    fn of_inductor(
        &self,
        place: &Inductor,
        capture: &Captured,
        architecture: &str,
        own: &str,
    ) -> Result<Cached, String> {
        if architecture != own {
            return Err(of_inductors(own, architecture));
        }
        let words = Words::of(capture);
        let chosen = |config: &Config| (self.part(&config.kwargs, &words), self.part(&config.options, &words));
        if !place.any_config && self.position(capture).is_none() {
            return Err("it is none of Inductor's list, and coordinate_descent_tuning is off".to_string());
        }
        let (kwargs, options) = capture.configs.first().map(chosen).unwrap_or_default();
        let options = options.iter().filter(|(name, _)| matches!(name.as_str(), "num_warps" | "num_stages"));
        let mut content: serde_json::Map<String, Json> =
            kwargs.iter().chain(options).filter_map(|(name, value)| Some((name.clone(), plain(value)?))).collect();
        content.insert("configs_hash".to_string(), json!(place.configs_hash));
        content.insert("found_by_coordesc".to_string(), json!(place.any_config));
        let (folder, file) = (place.folder.clone(), place.file.clone());
        Ok(Cached { cache: CacheOf::Inductor, folder, file, content: content.into() })
    }

    /// What it says of these names; of others what is there.
    fn part(&self, names: &BTreeMap<String, Typed>, words: &Words) -> BTreeMap<String, Typed> {
        let of = |(name, before): (&String, &Typed)| {
            let value = match (self.params.get(name), before) {
                (None, before) => before.clone(),
                (Some(Json::String(text)), _) if words.value(name, text).is_some() => {
                    words.value(name, text).unwrap_or(before).clone()
                }
                (Some(Json::Null), _) => Typed::None(true),
                (Some(Json::String(text)), _) if text == "None" => Typed::None(true),
                (Some(Json::Bool(value)), _) => Typed::Bool(*value),
                (Some(Json::Number(value)), Typed::Bool(_)) => Typed::Bool(value.as_i64() != Some(0)),
                (Some(Json::Number(value)), _) => Typed::Int(value.as_i64().unwrap_or_default()),
                (Some(Json::String(text)), _) => Typed::Str(text.clone()),
                (Some(_), before) => before.clone(),
            };
            (name.clone(), value)
        };
        names.iter().map(of).collect()
    }
}

/// Why what Inductor wrote for GPUs of `own` is of no use on others.
fn of_inductors(own: &str, architecture: &str) -> String {
    format!("Inductor wrote it for {own}, and writes another for {architecture}")
}

/// A GPU of this architecture, as Triton names it.
fn in_triton(architecture: &str) -> Json {
    let (backend, name, wave) = arch::in_triton(architecture);
    // NVIDIA's are numbers.
    let name = name.parse::<u32>().map_or(json!(name), |number| json!(number));
    json!({ "backend": backend, "arch": name, "warp_size": wave })
}

/// A `triton.Config` as its cache has it; nothing where it can not hold one.
fn config(kwargs: &BTreeMap<String, Typed>, options: &BTreeMap<String, Typed>) -> Option<Json> {
    let option = |name: &str| options.get(name).and_then(plain);
    let kwargs = kwargs.iter().map(|(name, value)| Some((name.clone(), plain(value)?)));
    let kwargs = kwargs.collect::<Option<serde_json::Map<String, Json>>>()?;
    Some(json!({
        "kwargs": kwargs, "num_warps": option("num_warps"), "num_ctas": option("num_ctas"), "num_stages": option("num_stages"),
        "maxnreg": option("maxnreg"), "pre_hook": null, "ir_override": null,
    }))
}

impl Applied {
    /// What the processes of a program wrote into `folder`.
    ///
    /// # Errors
    /// A folder that can not be read. What one process did not finish is left out.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let mut all = Self::default();
        for entry in std::fs::read_dir(folder).map_err(|source| Error::file(folder, source))? {
            let path = entry.map_err(|source| Error::file(folder, source))?.path();
            let one = std::fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str::<Self>(&text).ok());
            let one = one.unwrap_or_default();
            all.given.extend(one.given);
            all.left.extend(one.left);
            all.timed.extend(one.timed);
        }
        Ok(all)
    }
}
