//! What the verbs that are about models have in common: which model, over how many ranks, on which GPU.

use std::path::PathBuf;

use bluefin_common::arch::{Architecture, Vendor};
use bluefin_serving::Engine;
use bluefin_serving::asked::{WeightType, numbers};
use bluefin_serving::device::architecture_of;
use bluefin_serving::quantised::Storage;
use bluefin_serving::shapes::{AskedType, Model, MoeShape};
use bluefin_serving::spread::{Further, Spread};
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
    /// The engine whose rules count
    #[arg(long, value_name = "vllm|sglang")]
    pub engine: Engine,
    /// Ranks that share each layer
    #[arg(long, value_name = "RANKS,...", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=4096))]
    tp: Vec<u32>,
    /// Ranks that share the experts
    #[arg(long, value_name = "RANKS,...", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=4096))]
    ep: Vec<u32>,
    /// How weights are stored: auto, bf16, fp16, fp8_w8a8, fp8_w8a16, int8_w8a8, int8_w8a16, int4_w4a16, float32
    #[arg(long, value_name = "TYPE", default_value = "auto")]
    dtype: WeightType,
    /// Rows and columns of a block of the weights that has a scale, with --moe
    #[arg(long, value_name = "N,K", value_parser = numbers::<2>, requires = "moe")]
    block_shape: Option<[u32; 2]>,
    /// Each channel of the weights has a scale, and each token, with --moe
    #[arg(long, requires = "moe", conflicts_with = "block_shape")]
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
    /// GPUs, as their driver names them: 'NVIDIA H200'
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
    /// All models over all ranks, each layer once. `gemms` takes products with block-quantised weights as well.
    pub fn spread(&self, gemms: bool) -> anyhow::Result<Vec<Spread>> {
        let ranks = self.engine.ranks(&self.tp, &self.ep).map_err(usage)?;
        let further = Further { gemms, down: self.down };
        Spread::all(&self.models()?, self.engine, &ranks, self.vendor(), further).map_err(usage)
    }

    /// The mixtures of experts of all models over all ranks, each once.
    pub fn layers(&self) -> anyhow::Result<Vec<MoeShape>> {
        Ok(self.spread(false)?.into_iter().filter_map(|one| one.moe).collect())
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
        let dtype = if let AskedType::Of(dtype) = self.dtype.asked { Some(dtype) } else { None };
        let block_shape = block_shape.or(group_size.map(|group| [0, group]));
        let storage = Storage { dtype, block_shape, per_channel, zero_points };
        if group_size.is_some() && storage.group().is_none() {
            return Err(usage("--group-size: expected --dtype int4_w4a16 or int8_w8a16 with it"));
        }
        let grouped = group_size.map(|_| storage);
        let read = |path: &PathBuf| Ok(Model::read(path, self.dtype.asked)?.stored(grouped));
        let of_sizes = self.moe.iter().map(|sizes| Ok(Model::of_sizes(*sizes, storage)));
        self.models.iter().map(read).chain(of_sizes).collect()
    }

    /// Of the first GPU that the table of architectures has; NVIDIA without one.
    fn vendor(&self) -> Vendor {
        self.gpu.iter().find_map(|gpu| architecture_of(gpu)).map_or(Vendor::Nvidia, |row| row.vendor)
    }
}
