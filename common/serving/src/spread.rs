//! The layers of models on one rank, each once, and the config files that they have.

use serde::Serialize;

use crate::dense::GemmShape;
use crate::device::Maker;
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
    /// Which of those products are not known here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<&'static str>,
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
    /// All models over all ranks, each layer once. Told with it is why models can not be spread over some of the ranks, and which have layers
    /// besides for which the engine reads no file, a line for each.
    ///
    /// # Errors
    /// If a model can be spread over none of the ranks, or has nothing of what is asked for, and that the engine has no files for second products.
    pub fn all(
        models: &[Model],
        engine: Engine,
        ranks: &[Ranks],
        maker: Maker,
        further: Further,
    ) -> Result<(Vec<Self>, Vec<String>), String> {
        if further.down && !engine.info().names_variants {
            return Err(format!("--down: found {engine}, expected sglang: {engine} has one row for both products"));
        }
        let (mut all, mut left_out): (Vec<Self>, Vec<String>) = (Vec::new(), Vec::new());
        for model in models {
            let mut refused = Vec::new();
            for ranks in ranks {
                match Self::of(model, engine, *ranks, maker, further) {
                    Ok(spread) => {
                        let is_new = |one: &Self| {
                            let is_same = |other: &Self| {
                                other.model == one.model && other.moe == one.moe && other.gemms == one.gemms
                            };
                            !all.iter().any(is_same)
                        };
                        let spread: Vec<Self> = spread.into_iter().filter(is_new).collect();
                        all.extend(spread);
                    }
                    Err(reason) => refused.push((*ranks, reason)),
                }
            }
            if let Some((_, reason)) = refused.first().filter(|_| refused.len() == ranks.len()) {
                return Err(reason.clone());
            }
            left_out.extend(model.note(engine).filter(|_| model.has_experts()));
            left_out.extend(refused.iter().map(|(Ranks { tp, ep }, reason)| format!("tp={tp} ep={ep}: {reason}")));
        }
        Ok((all, left_out))
    }

    /// A model over these ranks: several where they have different numbers of experts.
    fn of(model: &Model, engine: Engine, ranks: Ranks, maker: Maker, further: Further) -> Result<Vec<Self>, String> {
        let name = model.called();
        if !model.has_experts() && !further.gemms {
            let gemms = if model.gemms(ranks, false).is_empty() { "" } else { OF_DENSE };
            return Err(format!("{name}: found no experts, expected some{gemms}"));
        }
        let moes = if model.has_experts() { model.moes(engine, ranks, maker)? } else { Vec::new() };
        if moes.is_empty() {
            model.is_served(engine)?;
            model.divides(ranks.tp)?;
        }
        let is_separate = moes.first().is_some_and(|moe| moe.topk == model.moe_topk());
        let gemms = if further.gemms { model.gemms(ranks, is_separate) } else { Vec::new() };
        if moes.is_empty() && gemms.is_empty() {
            return Err(format!("{name}: found no products with block-quantised weights, expected FP8 in blocks"));
        }
        let of_moe = |(at, moe): (usize, Option<MoeShape>)| Self {
            model: model.architecture().to_string(),
            ranks,
            moe,
            gemms: if at == 0 { gemms.clone() } else { Vec::new() },
            unknown: if further.gemms && at == 0 { model.unknown_gemms() } else { None },
            down: further.down,
        };
        let moes: Vec<Option<MoeShape>> =
            if moes.is_empty() { vec![None] } else { moes.into_iter().map(Some).collect() };
        Ok(moes.into_iter().enumerate().map(of_moe).collect())
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

/// Layers that are written under names of their own: two models, or ranks, whose layers are the same to the last number are one.
///
/// # Errors
/// If two that differ have one name, as the names of engines leave out what is summed over, experts a token, and some types.
pub fn named_apart(
    spread: &[Spread],
    name: impl Fn(&MoeShape) -> String,
    expected: &str,
) -> Result<Vec<MoeShape>, String> {
    let mut layers: Vec<(String, &Spread, &MoeShape)> = Vec::new();
    for (one, moe) in spread.iter().filter_map(|one| Some((one, one.moe.as_ref()?))) {
        let name = name(moe);
        match layers.iter().find(|(known, ..)| *known == name) {
            None => layers.push((name, one, moe)),
            Some((_, _, known)) if *known == moe => {}
            Some((_, first, known)) => {
                let told = |one: &Spread, moe: &MoeShape| {
                    let dtype = moe.storage.dtype.map_or("16 bits", |dtype| dtype.word());
                    let (Ranks { tp, ep }, k, topk) = (one.ranks, moe.hidden, moe.topk);
                    format!("{} tp={tp} ep={ep} (K={k} topk={topk} {dtype})", one.model)
                };
                let (first, second) = (told(first, known), told(one, moe));
                return Err(format!("{name}: found it for two layers, {first} and {second}, expected {expected}"));
            }
        }
    }
    Ok(layers.into_iter().map(|(_, _, moe)| moe.clone()).collect())
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
            Spread::all(&models, engine, &twice, Maker::Nvidia, Further { gemms: false, down })
        };
        let all = of(Engine::SGLANG, &ranks, true).unwrap().0;
        let files: Vec<_> = all.iter().flat_map(|one| one.files(Engine::SGLANG, "X")).collect();
        let names: Vec<_> = files.iter().map(|name| name.build(Engine::SGLANG)).collect();
        assert_eq!((names.len(), names[0].as_str()), (6, "E=8,N=128,device_name=X.json"));
        assert_eq!(names[1], "E=8,N=128,device_name=X_down.json");
        let error = of(Engine::VLLM, &ranks[..1], true).unwrap_err();
        assert_eq!(error, "--down: found vllm, expected sglang: vllm has one row for both products");
        assert!(Engine::SGLANG.ranks(&[1], &[2]).unwrap_err().contains("expected a divisor of --tp"));
    }

    #[test]
    fn pairs_that_do_not_go_are_told_and_the_rest_is_there() {
        let models = [Model::of_sizes([8, 128, 64, 2], Storage::default())];
        let of = |tp: &[u32]| {
            let ranks = Engine::VLLM.ranks(tp, &[1]).unwrap();
            Spread::all(&models, Engine::VLLM, &ranks, Maker::Nvidia, Further::default())
        };
        let (all, left_out) = of(&[2, 3, 4]).unwrap();
        assert_eq!(all.iter().map(|one| one.ranks.tp).collect::<Vec<_>>(), [2, 4]);
        let reason = "8,128,64,2: found intermediate size 128 on 3 ranks, expected one that 3 divides";
        assert_eq!(left_out, [format!("tp=3 ep=1: {reason}")]);
        assert_eq!(of(&[3]).unwrap_err(), reason);
    }

    #[test]
    fn two_layers_with_one_name_are_an_error() {
        let sizes = |hidden| Model::of_sizes([4, 32, hidden, 2], Storage::default());
        let named = |models: &[Model]| {
            let ranks = [Ranks { tp: 1, ep: 1 }];
            let spread = Spread::all(models, Engine::VLLM, &ranks, Maker::Nvidia, Further::default()).unwrap().0;
            let name = |moe: &MoeShape| moe.file_name(Engine::VLLM, "X").build(Engine::VLLM);
            named_apart(&spread, name, "one").map(|layers| layers.len())
        };
        assert_eq!(named(&[sizes(32), sizes(32)]), Ok(1));
        let error = named(&[sizes(32), sizes(64)]).unwrap_err();
        let expected = "E=4,N=32,device_name=X.json: found it for two layers, 4,32,32,2 tp=1 ep=1 (K=32 topk=2 16 bits) and \
            4,32,64,2 tp=1 ep=1 (K=64 topk=2 16 bits), expected one";
        assert_eq!(error, expected);
    }
}
