//! What the verbs that are about models have in common: which model, over how many ranks, on which GPU.

use std::path::PathBuf;

use bluefin_common::arch::Architecture;
use bluefin_serving::Engine;
use bluefin_serving::asked::{Scales, WeightType, numbers};
use bluefin_serving::device::{Maker, architecture_of};
use bluefin_serving::quantised::Storage;
use bluefin_serving::shapes::{AskedType, Model, MoeShape};
use bluefin_serving::spread::{Further, Spread, named_apart};
use clap::builder::NonEmptyStringValueParser;

use crate::usage;

/// The flags that say them.
#[derive(clap::Args)]
pub struct ModelArgs {
    /// A model's config.json
    #[arg(value_name = "CONFIG")]
    models: Vec<PathBuf>,
    /// A mixture of experts by its sizes: experts, intermediate size, hidden size, experts a token
    #[arg(long, value_name = "E,N,K,TOPK", value_parser = numbers::<4>)]
    moe: Vec<[u32; 4]>,
    /// Experts of --moe have no gate, as those of Nemotron-H: their first product has N columns, not 2 N
    #[arg(long, requires = "moe")]
    ungated: bool,
    /// The engine whose rules count
    #[arg(long, value_name = "vllm|sglang")]
    pub engine: Engine,
    /// Ranks that share each layer
    #[arg(long, value_name = "RANKS,...", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=4096))]
    tp: Vec<u32>,
    /// Ranks that share the experts
    #[arg(long, value_name = "RANKS,...", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=4096))]
    ep: Vec<u32>,
    /// Copies of experts that are taken often: vLLM's num_redundant_experts of EPLB, SGLang's --ep-num-redundant-experts
    #[arg(long, value_name = "COPIES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=65536))]
    redundant_experts: u32,
    /// How weights are stored: auto, bf16, fp16, fp8_w8a8, fp8_w8a16, int8_w8a8, int8_w8a16, int4_w4a16, float32
    #[arg(long, value_name = "TYPE", default_value = "auto")]
    dtype: WeightType,
    /// Rows and columns of a block of the weights that has a scale, in fp8_w8a8 or int8_w8a8
    #[arg(long, value_name = "N,K", value_parser = numbers::<2>)]
    block_shape: Option<[u32; 2]>,
    /// Each channel of the weights has a scale, and each token, in types of 8 bits
    #[arg(long, conflicts_with = "block_shape")]
    per_channel: bool,
    /// Columns of a group of the weights that has a scale, with --dtype int4_w4a16 or int8_w8a16
    #[arg(long, value_name = "K", conflicts_with_all = ["block_shape", "per_channel"], value_parser = clap::value_parser!(u32).range(1..))]
    group_size: Option<u32>,
    /// Each group has a zero point, with --group-size
    #[arg(long, requires = "group_size")]
    zero_points: bool,
    /// SGLang's second products have files of their own
    #[arg(long)]
    pub down: bool,
    /// GPUs, as their driver names them: 'NVIDIA H200'. vLLM asks amdsmi about AMD's: what it says may differ from the driver
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub gpu: Vec<String>,
}

/// That the table of architectures has no such GPU.
#[must_use]
pub fn unknown_gpu(gpu: &str) -> anyhow::Error {
    usage(format!(
        "--gpu {gpu:?}: found no such GPU in the table of architectures, expected a name such as 'NVIDIA H200'"
    ))
}

impl ModelArgs {
    /// All models over all ranks, each layer once. `gemms` takes products with block-quantised weights as well. Ranks over which a model can
    /// not be spread are told by `note`, where there are others.
    pub fn spread(&self, gemms: bool, note: impl Fn(&str)) -> anyhow::Result<Vec<Spread>> {
        let ranks = self.engine.ranks(&self.tp, &self.ep).map_err(usage)?;
        let (models, further) = (self.models()?, Further { gemms, down: self.down });
        let on = |maker| Spread::all(&models, self.engine, &ranks, maker, further).map_err(usage);
        let mut makers = self.gpu.iter().filter_map(|gpu| architecture_of(gpu)).map(|row| Maker::of(Some(row)));
        let (all, left_out) = on(makers.next().unwrap_or(Maker::Nvidia))?;
        for maker in makers {
            if on(maker)?.0 != all {
                return Err(usage(format!(
                    "--gpu: found GPUs on which {} spreads a model otherwise, expected some on which it is the same",
                    self.engine
                )));
            }
        }
        left_out.iter().for_each(|reason| note(&format!("left out: {reason}")));
        Ok(all)
    }

    /// The mixtures of experts of all models over all ranks, each once. All have other files on `gpu`.
    pub fn layers(&self, gpu: &str, note: impl Fn(&str)) -> anyhow::Result<Vec<MoeShape>> {
        let spread = self.spread(false, note)?;
        let file = |moe: &MoeShape| moe.file_name(self.engine, gpu).build(self.engine);
        named_apart(&spread, file, "one layer: the engine reads the same file for both").map_err(usage)
    }

    /// The same, all of which have folders of their own as well.
    pub fn layers_with(
        &self,
        gpu: &str,
        folder: impl Fn(&MoeShape) -> String,
        note: impl Fn(&str),
    ) -> anyhow::Result<Vec<MoeShape>> {
        self.layers(gpu, |_| {})?;
        named_apart(&self.spread(false, note)?, folder, "one layer: -o names another folder for another").map_err(usage)
    }

    /// The GPU, of which one is asked for. It is of `architecture`, where that and the name are known.
    pub fn one_gpu(&self, architecture: Option<&Architecture>) -> anyhow::Result<String> {
        match self.gpu.as_slice() {
            [one] => match architecture_of(one).zip(architecture) {
                Some((found, expected)) if found.name != expected.name => Err(usage(format!(
                    "--gpu {one:?}: found a GPU of {}, expected one of {}, as the device is",
                    found.name, expected.name
                ))),
                _ => Ok(one.clone()),
            },
            several => Err(usage(format!("--gpu: found {}, expected one", several.len()))),
        }
    }

    /// What 16 bits are.
    pub fn half(&self) -> &'static str {
        self.dtype.half
    }

    fn models(&self) -> anyhow::Result<Vec<Model>> {
        if self.models.is_empty() && self.moe.is_empty() {
            return Err(usage("found no model, expected a config.json, or the sizes of a layer: --moe E,N,K,TOPK"));
        }
        let Self { group_size, block_shape, per_channel, zero_points, .. } = *self;
        let scales = Scales { block_shape, per_channel, group_size, zero_points };
        let read = |path: &PathBuf| {
            let model = Model::read(path, self.dtype.asked)?;
            let storage = scales.over(model.storage()).map_err(usage)?;
            Ok(model.stored(storage).with_redundant(self.redundant_experts))
        };
        let dtype = if let AskedType::Of(dtype) = self.dtype.asked { Some(dtype) } else { None };
        let of_sizes = |sizes: &[u32; 4]| {
            let storage = scales.over(Storage { dtype, ..Storage::default() }).map_err(usage)?;
            Ok(Model::of_sizes(*sizes, storage).gated(!self.ungated).with_redundant(self.redundant_experts))
        };
        self.models.iter().map(read).chain(self.moe.iter().map(of_sizes)).collect()
    }
}
