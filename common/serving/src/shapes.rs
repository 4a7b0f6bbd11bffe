//! Shapes of a model's layers on one rank, by each engine's own rules.

use std::path::Path;

use bluefin_common::arch::Vendor;
use serde::Serialize;
use serde_json::Value as Json;

use crate::engine::{Engine, Precision};
use crate::error::Error;
use crate::models::{Fused, ModelFamily, family_of, field, number};
use crate::name::{FileName, Layer, packs};
use crate::quantised::{Storage, storage_of};

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
    /// How weights are stored.
    #[serde(flatten)]
    pub storage: Storage,
}

/// A model's sizes before it is spread.
#[derive(Clone, Debug)]
pub struct Model {
    architecture: String,
    family: Option<&'static ModelFamily>,
    config: Json,
    experts: u32,
    intermediate: u32,
    hidden: u32,
    topk: u32,
    storage: Storage,
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

/// What is asked for where a model's config does not tell.
const NEEDED: &str = "one with experts that is known; what is needed is experts (num_experts, num_local_experts or n_routed_experts in most configs), \
    intermediate size of one (moe_intermediate_size or intermediate_size), hidden size (hidden_size) and experts a token (num_experts_per_tok): \
    --moe E,N,K,TOPK says them for any model";

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
        let Some(family) = family_of(&architecture) else {
            return Err(wrong(path, "architectures", format!("{architecture:?}"), NEEDED));
        };
        let text = family.text_of(&config);
        let size = |names: &[&str], what: &str| {
            let found = number(text, names).or_else(|| number(&config, names)).filter(|size| *size > 0);
            let said = || format!("no {} of {architecture}", names.join(" or "));
            found.ok_or_else(|| wrong(path, names.first().copied().unwrap_or_default(), said(), what.to_string()))
        };
        let storage = match asked {
            AskedType::Half => Storage::default(),
            AskedType::Auto => storage_of(&config, text).map_err(|found| {
                wrong(
                    path,
                    "quantization_config",
                    found,
                    "weights that Triton's kernels take; --dtype says how to store them",
                )
            })?,
            AskedType::Of(dtype) => {
                let said = storage_of(&config, text).unwrap_or_default();
                if said.dtype == Some(dtype) { said } else { Storage { dtype: Some(dtype), ..Storage::default() } }
            }
        };
        let is_dense = family.experts.is_empty();
        let of_experts = |names: &[&str], what: &str| if is_dense { Ok(0) } else { size(names, what) };
        Ok(Self {
            experts: of_experts(family.experts, "a number of experts: the model has none, or says it elsewhere")?,
            topk: of_experts(family.topk, "a number of experts a token")?,
            intermediate: size(
                family.intermediate,
                if is_dense { "the intermediate size" } else { "the intermediate size of an expert" },
            )?,
            hidden: size(family.hidden, "the hidden size")?,
            architecture,
            family: Some(family),
            storage,
            config,
        })
    }

    /// A model of these sizes and nothing else.
    #[must_use]
    pub fn of_sizes([experts, intermediate, hidden, topk]: [u32; 4], storage: Storage) -> Self {
        let architecture = format!("{experts},{intermediate},{hidden},{topk}");
        Self { architecture, family: None, config: Json::Null, experts, intermediate, hidden, topk, storage }
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
        self.storage
    }

    /// The same with weights that are stored otherwise, if that is said.
    #[must_use]
    pub fn stored(self, storage: Option<Storage>) -> Self {
        Self { storage: storage.unwrap_or(self.storage), ..self }
    }

    pub(crate) fn family(&self) -> Option<&'static ModelFamily> {
        self.family
    }

    /// A number of its text part.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        let text = self.family.map_or(&self.config, |family| family.text_of(&self.config));
        number(text, &[name])
    }

    /// The layer of one rank.
    ///
    /// # Errors
    /// What does not divide, or that the engine does not spread a model so.
    pub fn moe(&self, engine: Engine, ranks: Ranks, vendor: Vendor) -> Result<MoeShape, String> {
        let (name, Ranks { tp, ep }) = (&self.architecture, ranks);
        let parts = engine.parts_of_an_expert(ranks)?;
        if self.topk > self.experts {
            return Err(format!(
                "{name}: found {} experts a token, expected at most {}, all of them",
                self.topk, self.experts
            ));
        }
        if !self.experts.is_multiple_of(ep) {
            return Err(format!(
                "{name}: found {} experts on {ep} ranks, expected a number that {ep} divides",
                self.experts
            ));
        }
        if !self.intermediate.is_multiple_of(parts) {
            let size = self.intermediate;
            return Err(format!(
                "{name}: found intermediate size {size} on {parts} ranks, expected one that {parts} divides"
            ));
        }
        let intermediate = self.intermediate / parts;
        if let Some([n, _]) = self.storage.block_shape.filter(|[n, _]| *n > 0 && !intermediate.is_multiple_of(*n)) {
            return Err(format!(
                "{name}: found intermediate size {intermediate} on each of {tp} ranks, expected a multiple of the block of {n}"
            ));
        }
        let fused = if engine == Engine::SGLANG { self.fused(ranks, vendor) } else { 0 };
        let storage = self.storage_of_parts(intermediate).map_err(|error| format!("{name}: {error}"))?;
        Ok(MoeShape {
            experts: (self.experts / ep).saturating_add(fused),
            intermediate,
            hidden: self.hidden,
            topk: self.topk.saturating_add(fused),
            storage,
        })
    }

    /// Groups that do not divide both sums of a rank are halved, and their scales repeated, as both engines do it.
    fn storage_of_parts(&self, intermediate: u32) -> Result<Storage, String> {
        let Some(of_model) = self.storage.group() else { return Ok(self.storage) };
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
        Ok(Storage { block_shape: Some([0, group]), ..self.storage })
    }

    /// Shared experts that SGLang makes experts like the others.
    fn fused(&self, Ranks { ep, .. }: Ranks, vendor: Vendor) -> u32 {
        let shared = self.number("n_shared_experts").unwrap_or(0);
        let is_wide = self.storage.dtype != Some(Precision::Int4W4A16);
        let is_spread = ep > 1 && vendor == Vendor::Nvidia;
        match self.family.map_or(Fused::Never, |family| family.fused) {
            Fused::Deepseek if self.experts == 256 && shared == 1 && is_wide && !is_spread => shared,
            Fused::Glm if !is_spread => shared,
            Fused::GlmLite if shared == 1 && vendor == Vendor::Nvidia && ep == 1 => shared,
            Fused::Qwen => {
                let size = self.number("shared_expert_intermediate_size");
                u32::from(size.is_some_and(|size| size == self.intermediate))
            }
            Fused::Never | Fused::Deepseek | Fused::Glm | Fused::GlmLite => 0,
        }
    }
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
