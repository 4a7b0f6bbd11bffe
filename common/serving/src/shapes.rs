//! Shapes of a model's layers on one rank, by each engine's own rules.

use std::path::Path;

use bluefin_common::arch::Vendor;
use serde::Serialize;
use serde_json::Value as Json;

use crate::engine::{Engine, Precision};
use crate::error::Error;
use crate::models::{Fused, ModelFamily, family_of, field, first, number, whole, wrapped_by};
use crate::name::{FileName, Layer, packs};
use crate::quantised::{Quantised, Storage, leaves_shared_out, storage_of};

/// Over how many ranks a model is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Ranks {
    /// Ranks that share each layer.
    pub tp: u32,
    /// Ranks that share the experts: each has some of them, whole.
    pub ep: u32,
}

/// A mixture of experts on one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MoeShape {
    /// Experts of the rank.
    #[serde(rename = "E")]
    pub experts: u32,
    /// Intermediate size of the rank.
    #[serde(rename = "N")]
    pub intermediate: u32,
    /// Columns of the activations.
    #[serde(rename = "K")]
    pub hidden: u32,
    /// Experts a token.
    pub topk: u32,
    /// Whether the first product has a gate for each column, and so twice the intermediate size.
    #[serde(rename = "gated", skip_serializing_if = "Clone::clone")]
    pub is_gated: bool,
    /// How weights are stored.
    #[serde(flatten)]
    pub storage: Storage,
}

/// A model's sizes before it is spread.
#[derive(Clone, Debug)]
pub struct Model {
    architecture: String,
    /// What errors begin with: its file, where it has one, and the architecture.
    called: String,
    family: Option<&'static ModelFamily>,
    /// The only engine that has a model for it.
    only: Option<Engine>,
    config: Json,
    experts: u32,
    intermediate: u32,
    hidden: u32,
    topk: u32,
    is_gated: bool,
    quantised: Quantised,
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

/// Columns below which the engines halve no group.
const LEAST_GROUP: u32 = 32;
/// Rows and columns of the smallest block that vLLM makes of larger ones.
const LEAST_BLOCK: u32 = 32;

/// What is asked for where a model's config does not tell.
const NEEDED: &str = "one that is known (docs/serving.md); --moe E,N,K,TOPK says experts, intermediate size of one, hidden size and \
    experts a token for any model";

/// So many ranks in words.
fn counted(ranks: u32) -> String {
    if ranks == 1 { "1 rank".to_string() } else { format!("{ranks} ranks") }
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
        let config: Json = serde_json::from_str(text).map_err(|error| {
            let found = error.to_string().split(" at line ").next().unwrap_or_default().to_string();
            Error::Torn { path: path.to_path_buf(), line: error.line(), column: error.column(), found }
        })?;
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
        let (config, inner, only) = match wrapped_by(&architecture) {
            None => (config, architecture.clone(), None),
            Some((place, only)) => {
                let inner = field(&config, place);
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
                (inner, named, only)
            }
        };
        let Some(family) = family_of(&inner) else {
            return Err(wrong(path, "architectures", format!("{inner:?}"), NEEDED));
        };
        let text = family.text_of(&config);
        let size = |names: &[&str], what: &str| {
            let Some((name, value)) = first(text, names).or_else(|| first(&config, names)) else {
                let said = format!("no {} of {inner}", names.join(" or "));
                return Err(wrong(path, names.first().copied().unwrap_or_default(), said, what));
            };
            let size = whole(value).filter(|size| *size > 0);
            size.ok_or_else(|| wrong(path, name, value.to_string(), format!("{what}, a whole number from 1 on")))
        };
        let said = storage_of(&config, text);
        let quantised = match asked {
            AskedType::Half => Quantised::default(),
            AskedType::Auto => said.map_err(|unread| wrong(path, &unread.field, unread.found, unread.expected))?,
            AskedType::Of(dtype) => match said {
                Ok(said) if said.storage.dtype == Some(dtype) => Quantised { is_plain_for_sglang: false, ..said },
                _ => {
                    Quantised { storage: Storage { dtype: Some(dtype), ..Storage::default() }, ..Quantised::default() }
                }
            },
        };
        let is_dense = family.experts.is_empty();
        let of_experts = |names: &[&str], what: &str| if is_dense { Ok(0) } else { size(names, what) };
        Ok(Self {
            experts: of_experts(family.experts, "a number of experts")?,
            topk: of_experts(family.topk, "a number of experts a token")?,
            intermediate: size(
                family.intermediate,
                if is_dense { "the intermediate size" } else { "the intermediate size of an expert" },
            )?,
            hidden: size(family.hidden, "the hidden size")?,
            called: format!("{}: {architecture}", path.display()),
            architecture,
            family: Some(family),
            only: only.or(family.only),
            is_gated: family.is_gated,
            quantised,
            config,
        })
    }

    /// A model of these sizes and nothing else.
    #[must_use]
    pub fn of_sizes([experts, intermediate, hidden, topk]: [u32; 4], storage: Storage) -> Self {
        let architecture = format!("{experts},{intermediate},{hidden},{topk}");
        let called = architecture.clone();
        let quantised = Quantised { storage, has_finer_blocks: has_finer_blocks(storage), ..Quantised::default() };
        let (family, only, config, is_gated) = (None, None, Json::Null, true);
        Self { architecture, called, family, only, config, experts, intermediate, hidden, topk, is_gated, quantised }
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
        let quantised = Quantised { storage, has_finer_blocks: has_finer_blocks(storage), is_plain_for_sglang: false };
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

    /// The layer of one rank; two where the engine gives some ranks an expert more than others.
    ///
    /// # Errors
    /// What does not divide, or that the engine does not spread a model so.
    pub fn moes(&self, engine: Engine, ranks: Ranks, vendor: Vendor) -> Result<Vec<MoeShape>, String> {
        let (name, Ranks { tp, ep }) = (&self.called, ranks);
        self.is_served(engine)?;
        let parts = engine.parts_of_an_expert(ranks)?;
        if self.topk > self.experts {
            return Err(format!(
                "{name}: found {} experts a token, expected at most {}, all of them",
                self.topk, self.experts
            ));
        }
        if !self.experts.is_multiple_of(ep) && (engine == Engine::SGLANG || self.experts < ep) {
            return Err(format!(
                "{name}: found {} experts on {}, expected a number that {ep} divides",
                self.experts,
                counted(ep)
            ));
        }
        if !self.intermediate.is_multiple_of(parts) {
            let size = self.intermediate;
            return Err(format!(
                "{name}: found intermediate size {size} on {}, expected one that {parts} divides",
                counted(parts)
            ));
        }
        let intermediate = self.intermediate / parts;
        let storage = match engine == Engine::SGLANG && self.quantised.is_plain_for_sglang {
            true => Storage::default(),
            false => {
                self.storage_of_parts(engine, intermediate, tp, parts).map_err(|error| format!("{name}: {error}"))?
            }
        };
        let fused = if engine == Engine::SGLANG { self.fused(ranks, vendor)? } else { 0 };
        let of_rank = |experts: u32| MoeShape {
            experts: experts.saturating_add(fused),
            intermediate,
            hidden: self.hidden,
            topk: self.topk.saturating_add(fused),
            is_gated: self.is_gated,
            storage,
        };
        // vLLM gives what is left over to the first ranks.
        let least = self.experts / ep;
        let more = (!self.experts.is_multiple_of(ep)).then(|| of_rank(least.saturating_add(1)));
        Ok(more.into_iter().chain([of_rank(least)]).collect())
    }

    /// How weights are stored on a rank that has a part of each expert.
    fn storage_of_parts(&self, engine: Engine, intermediate: u32, tp: u32, parts: u32) -> Result<Storage, String> {
        let storage = self.quantised.storage;
        if let Some(of_model) = storage.group() {
            return self.grouped(of_model, intermediate);
        }
        let Some([n, k]) = storage.block_shape.filter(|shape| !shape.contains(&0)) else { return Ok(storage) };
        let divides = |block: u32| intermediate.is_multiple_of(block);
        let is_finer = engine == Engine::VLLM && self.quantised.has_finer_blocks;
        if is_finer && !(divides(n) && (parts == 1 || divides(k))) {
            // vLLM repeats the scales for blocks that divide everything.
            let block = [n, k, intermediate, self.hidden].into_iter().fold(0, common_divisor);
            if block >= LEAST_BLOCK {
                return Ok(Storage { block_shape: Some([block, block]), ..storage });
            }
        }
        match [(n, true), (k, tp > 1)].into_iter().find(|(block, is_asked)| *is_asked && !divides(*block)) {
            Some((block, _)) => Err(format!(
                "found intermediate size {intermediate} on each of {}, expected a multiple of the block of {block}",
                counted(parts)
            )),
            None => Ok(storage),
        }
    }

    /// Groups that do not divide both sums of a rank are halved, and their scales repeated, as both engines do it.
    fn grouped(&self, of_model: u32, intermediate: u32) -> Result<Storage, String> {
        let mut group = of_model;
        let divides = |group: u32| intermediate.is_multiple_of(group) && self.hidden.is_multiple_of(group);
        while !divides(group) && group / 2 >= LEAST_GROUP {
            group /= 2;
        }
        if !divides(group) {
            return Err(format!(
                "found sizes {intermediate} and {} in groups of {of_model}, expected multiples of it, or of its half and so on down to {LEAST_GROUP}",
                self.hidden
            ));
        }
        Ok(Storage { block_shape: Some([0, group]), ..self.quantised.storage })
    }

    /// Shared experts that SGLang makes experts like the others.
    ///
    /// # Errors
    /// If that is not known for GPUs of the vendor.
    fn fused(&self, Ranks { ep, .. }: Ranks, vendor: Vendor) -> Result<u32, String> {
        let shared = self.number("n_shared_experts").unwrap_or(0);
        let is_wide = self.quantised.storage.dtype != Some(Precision::Int4W4A16);
        let is_spread = ep > 1 && vendor == Vendor::Nvidia;
        let is_as_large = |size: Option<u32>| size.is_some_and(|size| size == self.intermediate);
        Ok(match self.family.map_or(Fused::Never, |family| family.fused) {
            Fused::Minimax if shared == 1 && ep == 1 && vendor == Vendor::Amd => {
                return Err(format!(
                    "{}: found a GPU of AMD's, expected one of NVIDIA's: sglang fuses the shared expert on some of AMD's alone; --moe E,N,K,TOPK \
                     says the sizes",
                    self.called
                ));
            }
            Fused::Minimax if shared == 1 && ep == 1 => shared,
            Fused::Deepseek if self.experts == 256 && shared == 1 && is_wide && !is_spread => shared,
            Fused::Glm if !is_spread => shared,
            Fused::GlmLite if shared == 1 && vendor == Vendor::Nvidia && ep == 1 => shared,
            Fused::QwenNext if vendor == Vendor::Nvidia => {
                u32::from(is_as_large(self.number("shared_expert_intermediate_size")))
            }
            Fused::Bailing if !leaves_shared_out(&self.config) => {
                let count = self.number("num_shared_experts").unwrap_or(0);
                let size = self.number("moe_shared_expert_intermediate_size");
                u32::from(is_as_large(size.or(count.checked_mul(self.intermediate))))
            }
            Fused::Never
            | Fused::Deepseek
            | Fused::Glm
            | Fused::GlmLite
            | Fused::QwenNext
            | Fused::Bailing
            | Fused::Minimax => 0,
        })
    }
}

/// Whether vLLM makes blocks of such weights smaller, where a command says that they are stored so.
fn has_finer_blocks(storage: Storage) -> bool {
    storage.dtype == Some(Precision::Fp8W8A8) && storage.block_shape.is_some()
}

fn common_divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { common_divisor(other, one % other) }
}

impl Engine {
    /// Whether the engine spreads a model so.
    ///
    /// # Errors
    /// What it does instead.
    pub fn spreads(self, ranks: Ranks) -> Result<(), String> {
        self.parts_of_an_expert(ranks).map(|_| ())
    }

    /// Over how many ranks each expert is spread. vLLM, once it spreads experts, spreads them over all ranks and none of them further;
    /// SGLang spreads what ranks are left over.
    fn parts_of_an_expert(self, Ranks { tp, ep }: Ranks) -> Result<u32, String> {
        if tp == 0 || ep == 0 {
            return Err("found 0 ranks, expected 1 or more".to_string());
        }
        if self == Self::SGLANG {
            return (tp % ep == 0)
                .then_some(tp / ep)
                .ok_or_else(|| format!("found --ep {ep} with --tp {tp}, expected a divisor of --tp: SGLang's ranks of experts are among those"));
        }
        match ep {
            1 => Ok(tp),
            _ if ep % tp == 0 => Ok(1),
            _ => Err(format!(
                "found --ep {ep} with --tp {tp}, expected a multiple of --tp: vLLM spreads experts over all ranks"
            )),
        }
    }
}

impl MoeShape {
    /// The config file of the layer on a device, as the engine's loader names it.
    #[must_use]
    pub fn file_name(&self, engine: Engine, device: &str) -> FileName {
        let asked = |dtype: &Precision| engine.info().precisions.contains(dtype);
        let parts = if packs(engine, self.storage.dtype) { 2 } else { 1 };
        FileName {
            layer: Layer::Moe { experts: self.experts, intermediate: self.intermediate / parts },
            device: engine.device_word(device),
            dtype: self.storage.dtype.filter(asked),
            block_shape: self.storage.block_shape,
            per_channel: self.storage.per_channel && engine.info().names_variants,
            down: false,
            backend: None,
        }
    }
}

#[cfg(test)]
mod tests;
