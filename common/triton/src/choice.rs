//! What Triton's cache on disk keeps of a tuning key: the configs that its autotuner timed. It takes the fastest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bluefin_common::value::Value;
use serde_json::{Map, Value as Json};

use crate::captured::{Captured, Config, Typed};
use crate::error::Error;
use crate::text::plain;
use crate::tuned::Winner;
use crate::words::Words;

/// What a document of Triton's is.
const EXPECTED: &str = "what Triton writes: {\"key\": [...], \"configs_timings\": [[{\"kwargs\": {...}, \"num_warps\": 4, ...}, [MS, ...]], ...]}";
const TIMED: &str = "configs_timings";
/// Options of a config that a widened space has params for.
const WIDENED: [&str; 2] = ["num_warps", "num_stages"];

/// A file of Triton's cache with the choice for a tuning key.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Where it is.
    pub path: PathBuf,
    document: Map<String, Json>,
    /// The config that Triton takes.
    pub config: Map<String, Json>,
}

impl Choice {
    /// Those for the key of `captured` in the folder `cache`, by the architecture that they are for. None: Triton's cache has no place for
    /// them, or nothing is there.
    ///
    /// # Errors
    /// A file that can not be read, or no such document.
    pub fn all(cache: &Path, captured: &Captured) -> Result<BTreeMap<String, Self>, Error> {
        let mut found = BTreeMap::new();
        for (architecture, path) in captured.places_in(cache) {
            if let Some(choice) = Self::read(path)? {
                found.insert(architecture, choice);
            }
        }
        Ok(found)
    }

    fn read(path: PathBuf) -> Result<Option<Self>, Error> {
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|source| Error::file(&path, source))?,
        };
        let wrong = |reason: String| Error::Document { path: path.clone(), reason, expected: EXPECTED };
        // Python writes the time of a config that can not be launched in a way that JSON has no word for.
        let document = serde_json::from_str(&text).or_else(|error| {
            serde_json::from_str(&text.replace("Infinity", "null")).map_err(|_| wrong(error.to_string()))
        });
        let document: Map<String, Json> = document?;
        let Some(Json::Array(timed)) = document.get(TIMED) else {
            return Err(wrong(format!("{TIMED}: found {}", shown(document.get(TIMED)))));
        };
        let mut fastest: Option<(f64, &Map<String, Json>)> = None;
        for (at, one) in timed.iter().enumerate() {
            let parts = one.as_array().map(Vec::as_slice);
            let Some([Json::Object(config), times]) = parts else {
                return Err(wrong(format!("{TIMED}[{at}]: found {}", shown(Some(one)))));
            };
            let ms = times.get(0).unwrap_or(times).as_f64().unwrap_or(f64::INFINITY);
            if fastest.is_none_or(|(best, _)| ms < best) {
                fastest = Some((ms, config));
            }
        }
        let config = fastest.map(|(_, config)| config.clone());
        let config = config.ok_or_else(|| wrong(format!("{TIMED}: found no config")))?;
        Ok(Some(Self { path, document, config }))
    }

    /// Its values by names of params of `captured`'s specs. `None`: it is none of the program's list, and sets something that has no
    /// param.
    #[must_use]
    pub fn params(&self, captured: &Captured) -> Option<BTreeMap<String, Value>> {
        let words = Words::of(captured);
        if let Some(config) = captured.configs.iter().find(|config| self.is(config)) {
            let point = captured.point(config);
            return Some(
                point
                    .iter()
                    .filter_map(|(name, value)| Some((name.clone(), param(&plain(&words.worded(name, value))?)?)))
                    .collect(),
            );
        }
        let first = captured.configs.first()?;
        let kwargs = self.config.get("kwargs")?.as_object()?;
        let is_like = |name: &String| kwargs.contains_key(name);
        if kwargs.len() != first.kwargs.len() || !first.kwargs.keys().all(is_like) || !self.has(first, &WIDENED) {
            return None;
        }
        let options = WIDENED.iter().filter_map(|name| self.config.get_key_value(*name));
        let of = |(name, value): (&String, &Json)| {
            let word = words.of_cached(name, value).map(|word| Value::Text(word.to_string()));
            Some((name.clone(), word.or_else(|| param(value))?))
        };
        kwargs.iter().chain(options).map(of).collect()
    }

    /// Whether it is `config`.
    fn is(&self, config: &Config) -> bool {
        let Some(Json::Object(kwargs)) = self.config.get("kwargs") else { return false };
        let same = |(name, value): (&String, &Typed)| kwargs.get(name) == plain(value).as_ref();
        kwargs.len() == config.kwargs.len() && config.kwargs.iter().all(same) && self.has(config, &[])
    }

    /// Whether it has the options of `config`, but these.
    fn has(&self, config: &Config, but: &[&str]) -> bool {
        let same = |(name, value): (&String, &Typed)| {
            Some(self.config.get(name).unwrap_or(&Json::Null)) == plain(value).as_ref()
        };
        config.options.iter().filter(|(name, _)| !but.contains(&name.as_str())).all(same)
    }

    /// Puts a config in the place of all that were timed.
    pub fn set(&mut self, captured: &Captured, winner: &Winner) {
        if let Some(row) = winner.cached(captured) {
            self.document.insert(TIMED.to_string(), Json::Array(vec![row]));
        }
    }

    /// The text of the file.
    #[must_use]
    pub fn text(&self) -> String {
        Json::Object(self.document.clone()).to_string()
    }

    /// As people read it: what it sets of the program's own, then warps and stages.
    #[must_use]
    pub fn short(&self) -> String {
        let kwargs = self.config.get("kwargs").and_then(Json::as_object).into_iter().flatten();
        let options = WIDENED.iter().filter_map(|name| self.config.get_key_value(*name));
        kwargs.chain(options).map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }
}

/// A value as params have it.
fn param(value: &Json) -> Option<Value> {
    match value {
        Json::Null => Some(Value::Text("None".to_string())),
        Json::Bool(value) => Some(Value::Bool(*value)),
        Json::Number(value) => value.as_i64().map(Value::Int),
        Json::String(value) => Some(Value::Text(value.clone())),
        Json::Array(_) | Json::Object(_) => None,
    }
}

fn shown(value: Option<&Json>) -> String {
    value.map_or_else(|| "nothing".to_string(), |value| value.to_string().chars().take(60).collect())
}
