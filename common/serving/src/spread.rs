//! The layers of models on one rank, each once, and the config files that they have.

use bluefin_common::arch::Vendor;
use serde::Serialize;

use crate::dense::GemmShape;
use crate::engine::Engine;
use crate::name::FileName;
use crate::shapes::{Model, MoeShape, Ranks};

/// The layers of a model on one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// As its config names it.
    pub model: String,
    /// Over how many ranks.
    #[serde(flatten)]
    pub ranks: Ranks,
    /// Its mixture of experts; none of a model whose layers are dense.
    pub moe: Option<MoeShape>,
    /// Products with block-quantised weights, where they were asked for.
    pub gemms: Vec<GemmShape>,
    /// Whether second products have a file of their own.
    #[serde(skip)]
    pub down: bool,
}

/// What is asked for besides mixtures of experts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Further {
    /// Products with block-quantised weights.
    pub gemms: bool,
    /// Files of second products.
    pub down: bool,
}

/// What there is of a model without experts.
const OF_DENSE: &str = "; bluefin serving shapes --gemms tells its products with block-quantised weights";

impl Spread {
    /// All models over all ranks, each layer once.
    ///
    /// # Errors
    /// What does not divide, that the engine has no files for second products, or that a model has nothing of what is asked for.
    pub fn all(
        models: &[Model],
        engine: Engine,
        ranks: &[Ranks],
        vendor: Vendor,
        further: Further,
    ) -> Result<Vec<Self>, String> {
        if further.down && !engine.info().names_variants {
            return Err(format!("--down: found {engine}, expected sglang: {engine} has one row for both products"));
        }
        let mut all: Vec<Self> = Vec::new();
        for (model, ranks) in models.iter().flat_map(|model| ranks.iter().map(move |ranks| (model, *ranks))) {
            if !model.has_experts() && !further.gemms {
                let name = model.architecture();
                let gemms = if model.gemms(ranks, false).is_empty() { "" } else { OF_DENSE };
                return Err(format!("{name}: found no experts, expected some{gemms}"));
            }
            if !model.has_experts() {
                model.divides(ranks.tp)?;
            }
            let moe = model.has_experts().then(|| model.moe(engine, ranks, vendor)).transpose()?;
            let is_separate = moe.as_ref().is_some_and(|moe| moe.topk == model.moe_topk());
            let gemms = if further.gemms { model.gemms(ranks, is_separate) } else { Vec::new() };
            if moe.is_none() && gemms.is_empty() {
                let name = model.architecture();
                return Err(format!("{name}: found no products with block-quantised weights, expected FP8 in blocks"));
            }
            let model = model.architecture().to_string();
            if !all.iter().any(|one| one.model == model && one.moe == moe && one.gemms == gemms) {
                all.push(Self { model, ranks, moe, gemms, down: further.down });
            }
        }
        Ok(all)
    }

    /// The config files of the layers on a GPU.
    #[must_use]
    pub fn files(&self, engine: Engine, gpu: &str) -> Vec<FileName> {
        let gemms = self.gemms.iter().map(|gemm| gemm.file_name(engine, gpu));
        let moe = self.moe.as_ref().map(|moe| moe.file_name(engine, gpu));
        let second = moe.clone().filter(|_| self.down).map(FileName::second);
        moe.into_iter().chain(second).chain(gemms).collect()
    }
}

impl Engine {
    /// Those pairs of ranks that the engine has.
    ///
    /// # Errors
    /// Why it has none of them.
    pub fn ranks(self, tp: &[u32], ep: &[u32]) -> Result<Vec<Ranks>, String> {
        let pairs = tp.iter().flat_map(|tp| ep.iter().map(|ep| Ranks { tp: *tp, ep: *ep }));
        let (known, others): (Vec<Ranks>, Vec<Ranks>) = pairs.partition(|ranks| self.spreads(*ranks).is_ok());
        match others.first().filter(|_| known.is_empty()) {
            Some(first) => Err(self.spreads(*first).err().unwrap_or_default()),
            None => Ok(known),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantised::Storage;

    #[test]
    fn each_layer_is_there_once_and_second_products_have_files() {
        let models = [Model::of_sizes([8, 128, 64, 2], Storage::default())];
        let ranks = Engine::SGLANG.ranks(&[1, 2], &[1, 2]).unwrap();
        let pairs: Vec<_> = ranks.iter().map(|ranks| (ranks.tp, ranks.ep)).collect();
        assert_eq!(pairs, [(1, 1), (2, 1), (2, 2)]);
        let of = |engine, ranks: &[Ranks], down| {
            let twice = [ranks, ranks].concat();
            Spread::all(&models, engine, &twice, Vendor::Nvidia, Further { gemms: false, down })
        };
        let all = of(Engine::SGLANG, &ranks, true).unwrap();
        let files: Vec<_> = all.iter().flat_map(|one| one.files(Engine::SGLANG, "X")).collect();
        let names: Vec<_> = files.iter().map(|name| name.build(Engine::SGLANG)).collect();
        assert_eq!((names.len(), names[0].as_str()), (6, "E=8,N=128,device_name=X.json"));
        assert_eq!(names[1], "E=8,N=128,device_name=X_down.json");
        let error = of(Engine::VLLM, &ranks[..1], true).unwrap_err();
        assert_eq!(error, "--down: found vllm, expected sglang: vllm has one row for both products");
        assert!(Engine::SGLANG.ranks(&[1], &[2]).unwrap_err().contains("expected a divisor of --tp"));
    }
}
