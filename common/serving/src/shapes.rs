//! Shapes of a model's layers on one rank, by each engine's own rules.

use serde::Serialize;

use crate::device::Maker;
use crate::engine::{Engine, Precision};
use crate::excluded::LeftOut;
use crate::model::Kind;
pub use crate::model::{AskedType, Model};
use crate::models::Rule;
use crate::name::{FileName, Layer, packs};
use crate::quantised::Storage;

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

/// Columns below which the engines halve no group.
const LEAST_GROUP: u32 = 32;
/// Rows and columns of the smallest block that vLLM makes of larger ones.
const LEAST_BLOCK: u32 = 32;

/// Columns that vLLM's model of Kimi gives a rank at least.
const LEAST_COLUMNS: u32 = 256;

/// So many ranks in words.
fn counted(ranks: u32) -> String {
    if ranks == 1 { "1 rank".to_string() } else { format!("{ranks} ranks") }
}

impl Model {
    /// The layers of one rank: several where the engine gives some ranks an expert more than others, where a model has two kinds of
    /// experts, and where those of some layers are not quantised; these alone where the engine reads no config file for the others.
    ///
    /// # Errors
    /// What does not divide, that the engine does not spread a model so, or that it reads no config file for such weights.
    pub fn moes(&self, engine: Engine, ranks: Ranks, maker: Maker) -> Result<Vec<MoeShape>, String> {
        let name = &self.called;
        self.is_served(engine)?;
        let Self { experts, intermediate, hidden, topk, .. } = *self;
        let own = Kind { experts, intermediate, hidden, topk, is_shared: false };
        // Others compute shared experts by kernels that read no file.
        let is_had = |kind: &&Kind| !kind.is_shared || engine == Engine::SGLANG;
        let kinds: Vec<Kind> = [own].iter().chain(&self.others).filter(is_had).copied().collect();
        if let Some(Kind { experts, topk, .. }) = kinds.iter().find(|kind| kind.topk > kind.experts) {
            return Err(format!("{name}: found {topk} experts a token, expected at most {experts}, all of them"));
        }
        let left_out = self.quantised.left_out(engine);
        let (mut is_quantised, is_plain) = (left_out != LeftOut::Everywhere, left_out != LeftOut::Nowhere);
        if let Some(unread) = self.quantised.unread.as_ref().filter(|_| is_quantised) {
            return Err(format!("{name}: {}: found {}, expected {}", unread.field, unread.found, unread.expected));
        }
        if let Some(found) = self.quantised.unserved.found(engine).filter(|_| is_quantised) {
            if !is_plain {
                return Err(format!(
                    "{name}: found {found}: {engine} reads no config file for such experts, expected others, or --dtype if they are stored otherwise"
                ));
            }
            is_quantised = false;
        }
        let mut shapes: Vec<MoeShape> = Vec::new();
        for Kind { experts, intermediate: size, hidden, topk, is_shared } in kinds {
            let of_rank = if is_shared { vec![experts] } else { self.experts_of_a_rank(experts, engine, ranks)? };
            let spread = if is_shared { Ranks { ep: 1, ..ranks } } else { ranks };
            let (intermediate, parts) = self.columns_of_a_rank(size, engine, spread, maker)?;
            let stored = |is_there: bool, plain: bool| match (is_there, plain) {
                (false, _) => Ok(None),
                (true, true) => Ok(Some(Storage::default())),
                (true, false) => self.storage_of_parts(engine, intermediate, ranks.tp, parts).map(Some),
            };
            let stored = [stored(is_quantised, false), stored(is_plain, true)];
            for storage in stored {
                let Some(storage) = storage.map_err(|error| format!("{name}: {error}"))? else { continue };
                let fused = if engine == Engine::SGLANG && !is_shared { self.fused(ranks.ep, maker) } else { 0 };
                let shape = |experts: &u32| MoeShape {
                    experts: experts.saturating_add(fused),
                    intermediate,
                    hidden,
                    topk: topk.saturating_add(fused),
                    is_gated: self.is_gated,
                    storage,
                };
                shapes.extend(of_rank.iter().map(shape).filter(|shape| !shapes.contains(shape)).collect::<Vec<_>>());
            }
        }
        Ok(shapes)
    }

    /// What is to be told where the engine reads a file for some of the layers alone.
    pub(crate) fn note(&self, engine: Engine) -> Option<String> {
        let found = self.quantised.unserved.found(engine)?;
        let is_some = self.quantised.left_out(engine) == LeftOut::Somewhere;
        is_some.then(|| {
            format!("{}: found {found} in some layers: {engine} reads no config file for these, but for the others, of 16 bits", self.called)
        })
    }

    fn rule(&self) -> Rule {
        self.family.map_or(Rule::Usual, |family| family.rule)
    }

    /// The number of experts of a rank; two of them where vLLM gives what is left over to the first ranks.
    fn experts_of_a_rank(&self, experts: u32, engine: Engine, ranks: Ranks) -> Result<Vec<u32>, String> {
        let (name, Ranks { tp, ep }) = (&self.called, ranks);
        engine.parts_of_an_expert(ranks)?;
        let refused = |experts: u32, ranks: u32| {
            format!("{name}: found {experts} experts on {}, expected a number that {ranks} divides", counted(ranks))
        };
        if self.redundant > 0 {
            let is_known = self.family.is_none() || engine.has_redundant_experts(&self.inner);
            if !is_known {
                return Err(format!(
                    "{name}: found {} redundant experts, expected none: {engine}'s model has no place for them",
                    self.redundant
                ));
            }
            if ep == 1 && engine == Engine::VLLM {
                return Err(format!(
                    "{name}: found {} redundant experts with --ep 1, expected --ep of 2 or more: vLLM has them where experts are spread",
                    self.redundant
                ));
            }
            let all = experts.saturating_add(self.redundant);
            return if all.is_multiple_of(ep) { Ok(vec![all / ep]) } else { Err(refused(all, ep)) };
        }
        match self.rule() {
            Rule::WholeExperts => {
                let ranks = tp.max(ep);
                if experts.is_multiple_of(ranks) { Ok(vec![experts / ranks]) } else { Err(refused(experts, ranks)) }
            }
            Rule::PadsExperts if engine == Engine::VLLM => Ok(vec![experts.div_ceil(ep)]),
            _ if experts.is_multiple_of(ep) => Ok(vec![experts / ep]),
            _ if engine == Engine::SGLANG || experts < ep => Err(refused(experts, ep)),
            _ => Ok(vec![(experts / ep).saturating_add(1), experts / ep]),
        }
    }

    /// The intermediate size of a rank, and over how many ranks that of an expert is spread.
    fn columns_of_a_rank(&self, size: u32, engine: Engine, ranks: Ranks, maker: Maker) -> Result<(u32, u32), String> {
        let parts = engine.parts_of_an_expert(ranks)?;
        if self.rule() == Rule::WholeExperts {
            return Ok((size, 1));
        }
        // Its model for AMD's GPUs pads whole experts as well.
        let tp = if maker == Maker::Nvidia { parts } else { ranks.tp };
        let least = self.number("min_moe_intermediate_per_partition").unwrap_or(LEAST_COLUMNS);
        if self.rule() == Rule::PadsColumns && engine == Engine::VLLM && tp > 1 && size / tp < least {
            return Ok((least.saturating_mul(tp / parts), parts));
        }
        if !size.is_multiple_of(parts) {
            let (name, ranks) = (&self.called, counted(parts));
            return Err(format!(
                "{name}: found intermediate size {size} on {ranks}, expected one that {parts} divides"
            ));
        }
        Ok((size / parts, parts))
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
