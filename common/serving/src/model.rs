//! A model's sizes before it is spread over ranks, as its `config.json` says them.

use std::path::Path;

use serde_json::Value as Json;

use crate::engine::{Engine, Precision};
use crate::error::Error;
use crate::excluded::{MOE, has_no_experts};
use crate::families::{family_of, wrapper_of};
use crate::models::{ModelFamily, Rule, field, first, number, whole};
use crate::quantised::{Quantised, Storage, storage_of};

/// A model's sizes before it is spread.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) architecture: String,
    /// That of the model which it holds, where it holds one.
    pub(crate) inner: String,
    /// What errors begin with: its file, where it has one, and the architecture.
    pub(crate) called: String,
    pub(crate) family: Option<&'static ModelFamily>,
    /// The only engine that has a model for it.
    pub(crate) only: Option<Engine>,
    pub(crate) config: Json,
    pub(crate) experts: u32,
    pub(crate) intermediate: u32,
    pub(crate) hidden: u32,
    pub(crate) topk: u32,
    pub(crate) is_gated: bool,
    pub(crate) quantised: Quantised,
    /// Other kinds of layers with experts, where there are several.
    pub(crate) others: Vec<Kind>,
    /// Copies of experts that are taken often.
    pub(crate) redundant: u32,
}

/// A kind of layers with experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub experts: u32,
    pub intermediate: u32,
    pub hidden: u32,
    pub topk: u32,
    /// Whether experts are shared by all tokens, which SGLang spreads over all ranks.
    pub is_shared: bool,
}

/// How weights are stored, where the command line says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AskedType {
    /// As the model's config says.
    #[default]
    Auto,
    /// 16 bits.
    Half,
    /// This.
    Of(Precision),
}

fn wrong(path: &Path, place: &str, found: impl Into<String>, expected: impl Into<String>) -> Error {
    Error::Content {
        path: path.to_path_buf(),
        place: place.to_string(),
        found: found.into(),
        expected: expected.into(),
    }
}

/// What is asked for where a model's config does not tell.
const NEEDED: &str = "one that is known (docs/serving.md); --moe E,N,K,TOPK says experts, intermediate size of one, hidden size and \
    experts a token for any model";

/// Of sizes, for people.
const EXPERTS: &str = "a number of experts";
const TOPK: &str = "a number of experts a token";

/// What a config says of each layer with experts alone, where layers differ: Nemotron-H-Puzzle.
fn blocks_with_experts(text: &Json) -> Vec<&Json> {
    let has_experts = |block: &&Json| field(block, "block_type").and_then(Json::as_str) == Some(MOE);
    blocks(text).into_iter().flatten().filter(has_experts).collect()
}

fn blocks(text: &Json) -> Option<&Vec<Json>> {
    field(text, "block_configs").and_then(Json::as_array).filter(|blocks| !blocks.is_empty())
}

/// Experts that all tokens share and SGLang has in a layer like the others, but over all ranks: Inkling's, where their weights are stored for that.
fn shared_apart(text: &Json, family: &ModelFamily, kind: Kind) -> Option<Kind> {
    let says = |name: &str, value: bool| field(text, name).and_then(Json::as_bool) == Some(value);
    let is_apart = says("shared_expert_sink", true) && says("inference_moe_w13_interleaved", false);
    let experts = number(text, &["n_shared_experts"]).filter(|count| *count > 0)?;
    (family.rule == Rule::PadsExperts && is_apart).then_some(Kind { experts, topk: experts, is_shared: true, ..kind })
}

impl Model {
    /// Reads the `config.json` of a model.
    ///
    /// # Errors
    /// If it is no config, of an architecture that is not known, or its weights are stored as no kernel takes them.
    pub fn read(path: &Path, asked: AskedType) -> Result<Self, Error> {
        Self::parse(path, &std::fs::read_to_string(path).map_err(Error::at(path))?, asked)
    }

    /// Takes the text of a `config.json`; `path` is what errors name.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(path: &Path, text: &str, asked: AskedType) -> Result<Self, Error> {
        let config: Json = serde_json::from_str(text).map_err(|error| Error::torn(path, text, &error))?;
        Self::of_config(path, config, asked)
    }

    /// Takes the object of a `config.json`; `path` is what errors name.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn of_config(path: &Path, config: Json, asked: AskedType) -> Result<Self, Error> {
        let named = field(&config, "architectures").and_then(|list| list.get(0)).and_then(Json::as_str);
        let Some(architecture) = named.map(str::to_string) else {
            return Err(wrong(path, "architectures", "no list of names", "the config.json of a model"));
        };
        let (config, inner, only) = match wrapper_of(&architecture) {
            None => (config, architecture.clone(), None),
            Some(wrapper) => {
                let place =
                    first(&config, wrapper.fields).map_or_else(|| wrapper.fields.join(" or "), |it| it.0.to_string());
                let inner = first(&config, wrapper.fields).map(|(_, inner)| inner);
                let named = inner.and_then(|inner| field(inner, "architectures")?.get(0)?.as_str());
                let Some(named) = named.map(str::to_string) else {
                    let place = format!("{place}.architectures");
                    return Err(wrong(path, &place, "no list of names", "that of the model which this one holds"));
                };
                // How weights are stored is said on the outside, where it is said there.
                let mut inner = inner.cloned().unwrap_or_default();
                if let Some((said, fields)) = field(&config, "quantization_config").zip(inner.as_object_mut()) {
                    fields.insert("quantization_config".to_string(), said.clone());
                }
                (inner, named, wrapper.only)
            }
        };
        let Some(family) = family_of(&inner) else {
            return Err(wrong(path, "architectures", format!("{inner:?}"), NEEDED));
        };
        let text = family.text_of(&config);
        let is_listed = family.rule == Rule::Pattern && blocks(text).is_some();
        let blocks = if is_listed { blocks_with_experts(text) } else { Vec::new() };
        let size_of = |block: &Json, names: &[&str], what: &str| {
            let found = first(block, names).or_else(|| first(text, names)).or_else(|| first(&config, names));
            let Some((name, value)) = found else {
                let said = format!("no {} of {inner}", names.join(" or "));
                return Err(wrong(path, names.first().copied().unwrap_or_default(), said, what));
            };
            let size = whole(value).filter(|size| *size > 0);
            size.ok_or_else(|| wrong(path, name, value.to_string(), format!("{what}, a whole number from 1 on")))
        };
        let second = |names: &[&str]| first(text, names).or_else(|| first(&config, names))?.1.get(1).and_then(whole);
        let second = second(family.experts)
            .zip(second(family.intermediate))
            .filter(|(experts, size)| family.rule == Rule::TwoKinds && *experts > 0 && *size > 0);
        let has_none = if is_listed { blocks.is_empty() } else { family.rule == Rule::Pattern && has_no_experts(text) };
        let said = storage_of(&config, text);
        let quantised = match asked {
            AskedType::Half => Quantised::default(),
            AskedType::Auto => said.map_err(|unread| wrong(path, &unread.field, unread.found, unread.expected))?,
            AskedType::Of(dtype) => match said {
                Ok(said) if said.storage.dtype == Some(dtype) => {
                    Quantised { storage: said.storage, has_finer_blocks: said.has_finer_blocks, ..Quantised::default() }
                }
                _ => Storage { dtype: Some(dtype), ..Storage::default() }.into(),
            },
        };
        let is_dense = family.experts.is_empty() || has_none;
        let kind_of = |block: &Json| {
            let of_experts = |names: &[&str], what: &str| if is_dense { Ok(0) } else { size_of(block, names, what) };
            let (names, what) = match is_dense {
                true => (&["intermediate_size"][..], "the intermediate size"),
                false => (family.intermediate, "the intermediate size of an expert"),
            };
            Ok(Kind {
                experts: of_experts(family.experts, EXPERTS)?,
                topk: of_experts(family.topk, TOPK)?,
                intermediate: size_of(block, names, what)? / family.columns,
                hidden: size_of(block, family.hidden, "the hidden size")?,
                is_shared: false,
            })
        };
        let block = blocks.first().copied().unwrap_or(&Json::Null);
        let kind = kind_of(block)?;
        let mut others = blocks.iter().skip(1).map(|block| kind_of(block)).collect::<Result<Vec<Kind>, Error>>()?;
        others.extend(second.map(|(experts, intermediate)| Kind { experts, intermediate, ..kind }));
        others.extend(shared_apart(text, family, kind));
        Ok(Self {
            experts: kind.experts,
            topk: kind.topk,
            intermediate: kind.intermediate,
            hidden: kind.hidden,
            called: format!("{}: {architecture}", path.display()),
            architecture,
            inner,
            family: Some(family),
            only: only.or(family.only),
            is_gated: family.is_gated,
            quantised,
            others,
            redundant: 0,
            config,
        })
    }

    /// A model of these sizes and nothing else.
    #[must_use]
    pub fn of_sizes([experts, intermediate, hidden, topk]: [u32; 4], storage: Storage) -> Self {
        let architecture = format!("{experts},{intermediate},{hidden},{topk}");
        let (called, inner) = (architecture.clone(), architecture.clone());
        let quantised = Quantised { storage, has_finer_blocks: has_finer_blocks(storage), ..Quantised::default() };
        let (family, only, config, is_gated) = (None, None, Json::Null, true);
        Self {
            architecture,
            inner,
            called,
            family,
            only,
            config,
            experts,
            intermediate,
            hidden,
            topk,
            is_gated,
            quantised,
            others: Vec::new(),
            redundant: 0,
        }
    }

    /// The same with so many copies of experts: vLLM's EPLB, and SGLang's `--ep-num-redundant-experts`.
    #[must_use]
    pub fn with_redundant(self, redundant: u32) -> Self {
        Self { redundant, ..self }
    }

    /// The same without a gate, unless there is one.
    #[must_use]
    pub fn gated(self, is_gated: bool) -> Self {
        Self { is_gated, ..self }
    }

    /// Whether it has a mixture of experts: the layers of others are dense.
    #[must_use]
    pub fn has_experts(&self) -> bool {
        self.experts > 0
    }

    /// As its config names it.
    #[must_use]
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// Experts a token, without shared ones.
    #[must_use]
    pub fn moe_topk(&self) -> u32 {
        self.topk
    }

    /// How its weights are stored.
    #[must_use]
    pub fn storage(&self) -> Storage {
        self.quantised.storage
    }

    /// The same with weights that are stored otherwise.
    #[must_use]
    pub fn stored(self, storage: Storage) -> Self {
        if storage == self.quantised.storage {
            return self;
        }
        let quantised = Quantised { has_finer_blocks: has_finer_blocks(storage), ..storage.into() };
        Self { quantised, ..self }
    }

    /// What errors begin with.
    pub(crate) fn called(&self) -> &str {
        &self.called
    }

    pub(crate) fn family(&self) -> Option<&'static ModelFamily> {
        self.family
    }

    /// A number of its text part.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        let text = self.family.map_or(&self.config, |family| family.text_of(&self.config));
        number(text, &[name])
    }

    /// Whether the engine has a model of its own for the architecture.
    pub(crate) fn is_served(&self, engine: Engine) -> Result<(), String> {
        match self.only.filter(|only| *only != engine) {
            None => Ok(()),
            Some(only) => Err(format!(
                "{}: found an architecture that {engine} has no model of its own for, expected one that it has, or --engine {only}; \
                 --moe E,N,K,TOPK says the sizes for any model",
                self.called
            )),
        }
    }
}

/// Whether vLLM makes blocks of such weights smaller, where a command says that they are stored so.
fn has_finer_blocks(storage: Storage) -> bool {
    storage.dtype == Some(Precision::Fp8W8A8) && storage.block_shape.is_some()
}
