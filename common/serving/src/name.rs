//! Names of config files, built and parsed as each engine's loader builds them.

use std::fmt::Write as _;

use serde::Serialize;

use crate::engine::{CHANNELWISE, Engine, Precision};

/// What a config file is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct FileName {
    /// The weights of the layer.
    #[serde(flatten)]
    pub layer: Layer,
    /// The GPU, as file names have it.
    pub device: String,
    /// `None` for 16 bits.
    pub dtype: Option<Precision>,
    /// Rows and columns of a quantised block of the weights.
    pub block_shape: Option<[u32; 2]>,
    /// Whether weights have a scale for each channel, where the engine's names say so: of products behind the type.
    pub per_channel: bool,
    /// Whether it is for the second GEMM alone.
    pub down: bool,
    /// What computes the layer, where that is not Triton.
    pub backend: Option<String>,
}

/// The weights of a layer on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum Layer {
    /// A mixture of experts.
    Moe {
        /// Experts.
        #[serde(rename = "E")]
        experts: u32,
        /// The intermediate size of an expert.
        #[serde(rename = "N")]
        intermediate: u32,
    },
    /// A product with block-quantised weights.
    Gemm {
        /// Columns of the result.
        #[serde(rename = "N")]
        n: u32,
        /// What is summed over.
        #[serde(rename = "K")]
        k: u32,
    },
}

/// Why a name is none of a config file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found {found}, expected {expected}")]
pub struct NameError {
    /// The part that is wrong.
    pub found: String,
    /// What it could have been.
    pub expected: &'static str,
}

impl NameError {
    fn of(found: &str, expected: &'static str) -> Self {
        Self { found: format!("{:?}", found.chars().take(120).collect::<String>()), expected }
    }
}

impl FileName {
    /// The name that the engine's loader builds.
    #[must_use]
    pub fn build(&self, engine: Engine) -> String {
        let mut name = match self.layer {
            Layer::Moe { experts, intermediate } => format!("E={experts},N={intermediate}"),
            Layer::Gemm { n, k } => format!("N={n},K={k}"),
        };
        // Writing to a text does not fail.
        let _ = write!(name, ",device_name={}", self.device);
        let is_channelwise = self.per_channel && matches!(self.layer, Layer::Gemm { .. });
        if let Some(dtype) = self.dtype {
            let _ = write!(name, ",dtype={}{}", dtype.word(), if is_channelwise { CHANNELWISE } else { "" });
        }
        if let Some([n, k]) = self.blocks() {
            let _ = write!(name, ",block_shape=[{n}{}{k}]", engine.info().block_separator);
        }
        if engine.info().names_variants {
            name.push_str(if self.per_channel && !is_channelwise { ",per_channel_quant=True" } else { "" });
            name.push_str(if self.down { "_down" } else { "" });
        }
        if let Some(backend) = &self.backend {
            let _ = write!(name, ",backend={backend}");
        }
        name.push_str(".json");
        name
    }

    /// The file of the second product beside this one.
    #[must_use]
    pub fn second(self) -> Self {
        Self { down: true, ..self }
    }

    /// The layer by its numbers of weights, also where the engine's names count the bytes that hold two of them.
    #[must_use]
    pub fn unpacked(&self, engine: Engine) -> Layer {
        match self.layer {
            Layer::Moe { experts, intermediate } if packs(engine, self.dtype) => {
                Layer::Moe { experts, intermediate: intermediate.saturating_mul(2) }
            }
            layer => layer,
        }
    }

    /// The block shape, where it is in the name: not if one of its numbers is 0, but for dense products, whose loader asks for both.
    fn blocks(&self) -> Option<[u32; 2]> {
        let is_named = |shape: &[u32; 2]| !shape.contains(&0) || matches!(self.layer, Layer::Gemm { .. });
        self.block_shape.filter(is_named)
    }

    /// Reads a name, also one that has blanks that no loader writes: [`Self::is_built`] tells those.
    ///
    /// # Errors
    /// If a part of it is missing or unknown.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        let stem = name.strip_suffix(".json").ok_or_else(|| NameError::of(name, "a name that ends with .json"))?;
        let (stem, down) = stem.strip_suffix("_down").map_or((stem, false), |stem| (stem, true));
        let (sizes, rest) =
            stem.split_once(",device_name=").ok_or_else(|| NameError::of(name, "device_name= after the sizes"))?;
        let layer = layer(sizes)?;
        let (rest, backend) = match rest.split_once(",backend=") {
            Some((rest, backend)) => (rest, Some(backend.to_string())),
            None => (rest, None),
        };
        let (rest, mut per_channel) =
            rest.strip_suffix(",per_channel_quant=True").map_or((rest, false), |rest| (rest, true));
        let (rest, block_shape) = match rest.split_once(",block_shape=") {
            Some((rest, shape)) => (rest, Some(block_shape(shape)?)),
            None => (rest, None),
        };
        let (device, dtype) = match rest.split_once(",dtype=") {
            Some((device, word)) => {
                let channelwise = word.strip_suffix(CHANNELWISE).filter(|_| matches!(layer, Layer::Gemm { .. }));
                per_channel |= channelwise.is_some();
                let dtype = Precision::of_word(channelwise.unwrap_or(word));
                let expected = "dtype= fp8_w8a8, fp8_w8a16, int8_w8a8, int8_w8a16, int4_w4a16 or float32";
                (device, Some(dtype.ok_or_else(|| NameError::of(word, expected))?))
            }
            None => (rest, None),
        };
        if device.is_empty() || device.contains([',', '=']) {
            return Err(NameError::of(device, "the name of a device, then dtype=, block_shape= or .json"));
        }
        Ok(Self { layer, device: device.to_string(), dtype, block_shape, per_channel, down, backend })
    }

    /// Whether the engine's loader ever builds `name`, which was parsed into this. Else what it builds instead, if anything.
    ///
    /// # Errors
    /// What the loader builds, or `None` where it looks for no such file.
    pub fn is_built(&self, name: &str, engine: Engine) -> Result<(), Option<String>> {
        let is_asked_for = match self.layer {
            Layer::Moe { .. } => self.is_asked_of_experts(engine),
            Layer::Gemm { .. } => self.is_asked_of_products(engine),
        };
        let as_called = Self { device: engine.device_word(&self.device), ..self.clone() };
        let built = as_called.build(engine);
        match (is_asked_for, built == name) {
            (true, true) => Ok(()),
            (true, false) => Err(Some(built)),
            (false, _) => Err(None),
        }
    }

    fn is_asked_of_experts(&self, engine: Engine) -> bool {
        let info = engine.info();
        // Scales of such weights are of groups, which names do not have.
        let has_blocks = self.blocks().is_some();
        self.dtype.is_none_or(|dtype| info.precisions.contains(&dtype) && !(has_blocks && dtype.has_groups()))
            && (info.names_variants || !(self.per_channel || self.down))
            && self.backend.as_deref().is_none_or(|backend| info.backends.contains(&backend))
    }

    /// Products have one loader for each type, with blocks, and SGLang's has one for FP8 with a scale for each channel.
    fn is_asked_of_products(&self, engine: Engine) -> bool {
        let info = engine.info();
        let is_channelwise = self.per_channel && self.block_shape.is_none() && self.dtype == Some(Precision::Fp8W8A8);
        let is_blocked = !self.per_channel && self.block_shape.is_some();
        self.dtype.is_some_and(|dtype| info.product_precisions.contains(&dtype))
            && (is_blocked || is_channelwise && info.names_variants)
            && !self.down
            && self.backend.is_none()
    }
}

/// Whether N of an engine's names is half the intermediate size of the rank.
pub(crate) fn packs(engine: Engine, dtype: Option<Precision>) -> bool {
    engine.info().names_packed && dtype == Some(Precision::Int4W4A16)
}

/// `E=8,N=14336` or `N=1536,K=7168`.
fn layer(sizes: &str) -> Result<Layer, NameError> {
    let wrong = || NameError::of(sizes, "E= and N=, or N= and K=, whole numbers from 1");
    let (first, second) = sizes.split_once(',').ok_or_else(wrong)?;
    let number = |part: &str, word: &str| {
        let digits = part.trim().strip_prefix(word)?;
        digits.parse().ok().filter(|number: &u32| *number > 0 && digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let moe = number(first, "E=").zip(number(second, "N="));
    let gemm = number(first, "N=").zip(number(second, "K="));
    moe.map(|(experts, intermediate)| Layer::Moe { experts, intermediate })
        .or(gemm.map(|(n, k)| Layer::Gemm { n, k }))
        .ok_or_else(wrong)
}

/// `[128,128]`, with blanks or without.
fn block_shape(text: &str) -> Result<[u32; 2], NameError> {
    let wrong = || NameError::of(text, "block_shape= with two whole numbers, as in [128,128]");
    let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).ok_or_else(wrong)?;
    let (n, k) = inside.split_once(',').ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse().map_err(|_| wrong());
    Ok([number(n)?, number(k)?])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_spelled_as_each_engine_spells_them() {
        let name = FileName {
            layer: Layer::Moe { experts: 257, intermediate: 256 },
            device: "NVIDIA_H200".to_string(),
            dtype: Some(Precision::Fp8W8A8),
            block_shape: Some([128, 128]),
            per_channel: false,
            down: false,
            backend: None,
        };
        let vllm = "E=257,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";
        assert_eq!(name.build(Engine::VLLM), vllm);
        let sglang = "E=257,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json";
        assert_eq!(name.build(Engine::SGLANG), sglang);
        let down = FileName { down: true, per_channel: true, block_shape: Some([0, 128]), ..name.clone() };
        let expected = "E=257,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,per_channel_quant=True_down.json";
        assert_eq!(down.build(Engine::SGLANG), expected);
        // A blank that the other engine writes is one that no loader of this one builds.
        let parsed = FileName::parse(sglang).unwrap();
        assert_eq!(parsed, name);
        assert_eq!(parsed.is_built(sglang, Engine::SGLANG), Ok(()));
        assert_eq!(parsed.is_built(sglang, Engine::VLLM), Err(Some(vllm.to_string())));
        let nvl = "E=8,N=64,device_name=NVIDIA_H200_NVL.json";
        let built = FileName::parse(nvl).unwrap().is_built(nvl, Engine::VLLM);
        assert_eq!(built, Err(Some("E=8,N=64,device_name=NVIDIA_H200.json".to_string())));
        let int8 = "E=8,N=64,device_name=X,dtype=int8_w8a8.json";
        assert_eq!(FileName::parse(int8).unwrap().is_built(int8, Engine::VLLM), Err(None));
        // SGLang alone has products of FP8 with a scale for each channel; vLLM has no loader for INT8 in blocks.
        let channelwise = "N=512,K=4096,device_name=NVIDIA_H200,dtype=fp8_w8a8_channelwise.json";
        let parsed = FileName::parse(channelwise).unwrap();
        assert!(parsed.per_channel && parsed.build(Engine::SGLANG) == channelwise);
        let built = |name: &str, engine| FileName::parse(name).unwrap().is_built(name, engine);
        assert_eq!((built(channelwise, Engine::SGLANG), built(channelwise, Engine::VLLM)), (Ok(()), Err(None)));
        let blocks = "N=512,K=4096,device_name=X,dtype=int8_w8a8,block_shape=[128,128].json";
        assert_eq!(built(blocks, Engine::VLLM), Err(None));
        assert_eq!(built(&blocks.replace(",128]", ", 128]"), Engine::SGLANG), Ok(()));
        assert_eq!(built("N=512,K=4096,device_name=X.json", Engine::VLLM), Err(None));
        let groups = "E=8,N=64,device_name=X,dtype=int4_w4a16,block_shape=[128,128].json";
        assert_eq!(built(groups, Engine::VLLM), Err(None));
        let by_driver = "E=8,N=7168,device_name=AMD_Radeon_RX_7900_XTX.json";
        let expected = Err(Some("E=8,N=7168,device_name=AMD_Radeon_RX7900XTX.json".to_string()));
        assert_eq!(built(by_driver, Engine::VLLM), expected);
        let blank = "E=8,N=64,device_name=AMD Instinct MI300X.json";
        let built = FileName::parse(blank).unwrap().is_built(blank, Engine::VLLM);
        assert_eq!(built, Err(Some("E=8,N=64,device_name=AMD_Instinct_MI300X.json".to_string())));
    }

    #[test]
    fn what_is_no_name_says_which_part_is_wrong() {
        for (name, part) in [
            ("E=8,N=64,device_name=X", "found \"E=8,N=64,device_name=X\", expected a name that ends with .json"),
            ("E=8,N=64.json", "expected device_name= after the sizes"),
            ("E=0,N=64,device_name=X.json", "found \"E=0,N=64\", expected E= and N="),
            ("E=8,N=6x,device_name=X.json", "found \"E=8,N=6x\""),
            ("E=8,N=64,device_name=X,dtype=fp7.json", "found \"fp7\", expected dtype= fp8_w8a8"),
            ("E=8,N=64,device_name=X,block_shape=[1].json", "found \"[1]\", expected block_shape="),
            ("E=8,N=64,device_name=,dtype=fp8_w8a8.json", "expected the name of a device"),
            ("E=8,N=64,device_name=X,colour=red.json", "found \"X,colour=red\""),
        ] {
            let error = FileName::parse(name).unwrap_err().to_string();
            assert!(error.contains(part), "{name}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_built_is_parsed(
            sizes in (1u32.., 1u32..),
            moe: bool,
            device in "[A-Za-z0-9_-]{1,20}",
            dtype in proptest::option::of(proptest::sample::select(Precision::ALL.to_vec())),
            block in proptest::option::of((1u32..512, 1u32..512)),
            per_channel: bool,
            down: bool,
        ) {
            prop_assume!(!device.ends_with("_down") && (moe || !per_channel || dtype.is_some()));
            let layer = if moe {
                Layer::Moe { experts: sizes.0, intermediate: sizes.1 }
            } else {
                Layer::Gemm { n: sizes.0, k: sizes.1 }
            };
            let block_shape = block.map(|(n, k)| [n, k]);
            let name = FileName { layer, device, dtype, block_shape, per_channel, down, backend: None };
            prop_assert_eq!(FileName::parse(&name.build(Engine::SGLANG)), Ok(name.clone()));
            let plain = FileName { per_channel: false, down: false, ..name };
            prop_assert_eq!(FileName::parse(&plain.build(Engine::VLLM)), Ok(plain));
        }
    }
}
