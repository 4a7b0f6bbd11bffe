//! What the verbs that are about models have in common: which model, over how many ranks, on which GPU.

use std::path::PathBuf;

use bluefin_campaign::usage;
use bluefin_common::arch::Vendor;
use bluefin_serving::dense::GemmShape;
use bluefin_serving::device::architecture_of;
use bluefin_serving::quantised::Storage;
use bluefin_serving::shapes::{AskedType, Model, MoeShape, Ranks};
use bluefin_serving::{Engine, FileName, Precision};
use serde::Serialize;

#[derive(clap::Args)]
pub struct ModelArgs {
    /// A model's config.json
    #[arg(value_name = "CONFIG", required_unless_present = "moe")]
    models: Vec<PathBuf>,
    /// A mixture of experts by its sizes: experts, intermediate size, hidden size, experts a token
    #[arg(long, value_name = "E,N,K,TOPK", value_parser = sizes)]
    moe: Vec<Sizes>,
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
    #[arg(long, value_name = "TYPE", default_value = "auto", value_parser = asked_type)]
    dtype: Type,
    /// Rows and columns of a block of the weights that has a scale, with --moe
    #[arg(long, value_name = "N,K", value_parser = pair, requires = "moe")]
    block_shape: Option<Pair>,
    /// Each channel of the weights has a scale, and each token, with --moe
    #[arg(long, requires = "moe", conflicts_with = "block_shape")]
    per_channel: bool,
    /// GPUs, as their driver names them: 'NVIDIA H200'
    #[arg(long, value_name = "NAME")]
    pub gpu: Vec<String>,
}

/// Experts, intermediate size, hidden size, experts a token.
#[derive(Clone, Copy)]
pub struct Sizes([u32; 4]);

#[derive(Clone, Copy)]
pub struct Pair([u32; 2]);

fn sizes(text: &str) -> Result<Sizes, String> {
    numbers(text).map(Sizes).ok_or_else(|| "expected four whole numbers from 1 on, as in 8,14336,4096,2".to_string())
}

fn pair(text: &str) -> Result<Pair, String> {
    numbers(text).map(Pair).ok_or_else(|| "expected two whole numbers from 1 on, as in 128,128".to_string())
}

fn numbers<const COUNT: usize>(text: &str) -> Option<[u32; COUNT]> {
    let numbers: Option<Vec<u32>> =
        text.split(',').map(|number| number.trim().parse().ok().filter(|n| *n > 0)).collect();
    numbers?.try_into().ok()
}

/// How weights are stored, and which 16 bits those of activations are.
#[derive(Clone, Copy)]
pub struct Type {
    asked: AskedType,
    half: &'static str,
}

fn asked_type(text: &str) -> Result<Type, String> {
    let half = if text == "fp16" { "FP16" } else { "BF16" };
    let asked = match text {
        "auto" => Ok(AskedType::Auto),
        "bf16" | "fp16" => Ok(AskedType::Half),
        word => Precision::of_word(word).map(AskedType::Of).ok_or_else(|| {
            let words: Vec<&str> = Precision::ALL.iter().map(|precision| precision.word()).collect();
            format!("expected auto, bf16, fp16, {}", words.join(", "))
        }),
    };
    asked.map(|asked| Type { asked, half })
}

pub fn unknown_gpu(gpu: &str) -> anyhow::Error {
    usage(format!(
        "--gpu {gpu:?}: found no such GPU in the table of architectures, expected a name such as 'NVIDIA H200'"
    ))
}

/// The layers of a model on one rank.
#[derive(Serialize)]
pub struct Spread {
    pub model: String,
    #[serde(flatten)]
    pub ranks: Ranks,
    pub moe: MoeShape,
    pub gemms: Vec<GemmShape>,
}

impl Spread {
    /// The config files of the layers on a GPU.
    pub fn files(&self, engine: Engine, gpu: &str) -> Vec<FileName> {
        let gemms = self.gemms.iter().map(|gemm| gemm.file_name(engine, gpu));
        std::iter::once(self.moe.file_name(engine, gpu)).chain(gemms).collect()
    }
}

impl ModelArgs {
    /// All models over all ranks, each layer once. `with_gemms` takes products with block-quantised weights as well.
    pub fn spread(&self, with_gemms: bool) -> anyhow::Result<Vec<Spread>> {
        let mut all: Vec<Spread> = Vec::new();
        let vendor = self.vendor();
        for model in self.models()? {
            for ranks in self.ranks()? {
                let moe = model.moe(self.engine, ranks, vendor).map_err(usage)?;
                let is_separate = moe.topk == model.moe_topk();
                let gemms = if with_gemms { model.gemms(ranks, is_separate) } else { Vec::new() };
                let name = model.architecture().to_string();
                if !all.iter().any(|one| one.model == name && one.moe == moe && one.gemms == gemms) {
                    all.push(Spread { model: name, ranks, moe, gemms });
                }
            }
        }
        Ok(all)
    }

    /// The GPU, of which one is asked for.
    pub fn one_gpu(&self) -> anyhow::Result<String> {
        match self.gpu.as_slice() {
            [one] => Ok(one.clone()),
            several => Err(usage(format!("--gpu: found {}, expected one", several.len()))),
        }
    }

    /// What 16 bits are.
    pub fn half(&self) -> &'static str {
        self.dtype.half
    }

    fn models(&self) -> anyhow::Result<Vec<Model>> {
        let mut models: Vec<Model> = Vec::new();
        for path in &self.models {
            models.push(Model::read(path, self.dtype.asked)?);
        }
        let dtype = if let AskedType::Of(dtype) = self.dtype.asked { Some(dtype) } else { None };
        let storage =
            Storage { dtype, block_shape: self.block_shape.map(|pair| pair.0), per_channel: self.per_channel };
        models.extend(self.moe.iter().map(|sizes| Model::of_sizes(sizes.0, storage)));
        Ok(models)
    }

    /// Those pairs of --tp and --ep that the engine has; one that it has not is an error where it is the only one.
    fn ranks(&self) -> anyhow::Result<Vec<Ranks>> {
        let pairs: Vec<Ranks> =
            self.tp.iter().flat_map(|tp| self.ep.iter().map(|ep| Ranks { tp: *tp, ep: *ep })).collect();
        let known: Vec<Ranks> = pairs.iter().copied().filter(|ranks| self.engine.spreads(*ranks).is_ok()).collect();
        match (known.is_empty(), pairs.first()) {
            (true, Some(first)) => Err(usage(self.engine.spreads(*first).err().unwrap_or_default())),
            _ => Ok(known),
        }
    }

    /// Of the first GPU that the table of architectures has; NVIDIA without one.
    fn vendor(&self) -> Vendor {
        self.gpu.iter().find_map(|gpu| architecture_of(gpu)).map_or(Vendor::Nvidia, |row| row.vendor)
    }
}
