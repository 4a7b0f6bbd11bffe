//! Serving engines as data: what differs between vLLM and SGLang in names, contents and places of config files.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A serving engine that reads config files of kernels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Engine(&'static EngineInfo);

/// Behind the type of products whose weights have a scale for each channel, in names.
pub(crate) const CHANNELWISE: &str = "_channelwise";

/// Keys of rows for products with quantised weights: block sizes, and options of Triton's.
pub(crate) const OF_PRODUCTS: [&str; 11] = [
    "BLOCK_SIZE_M",
    "BLOCK_SIZE_N",
    "BLOCK_SIZE_K",
    "GROUP_SIZE_M",
    "num_warps",
    "num_stages",
    "waves_per_eu",
    "matrix_instr_nonkdim",
    "kpack",
    "num_ctas",
    "maxnreg",
];

/// What differs between engines.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EngineInfo {
    /// As `--engine` has it.
    pub name: &'static str,
    /// What stands between the numbers of `block_shape` in names.
    pub block_separator: &'static str,
    /// Words of `dtype` that its loader asks for. 16-bit layers have none.
    pub precisions: &'static [Precision],
    /// Whether a device whose name has the word `H200` is called `NVIDIA_H200`.
    pub joins_h200: bool,
    /// Whether `/` in the name of a device becomes `_`, as blanks do, and several of them one.
    pub replaces_slashes: bool,
    /// What it calls AMD's GPUs by the ids of their PCI devices, and what their driver calls those.
    pub rocm_names: &'static [(&'static str, &'static [&'static str])],
    /// Whether names have `per_channel_quant=True` and `_down`.
    pub names_variants: bool,
    /// Whether N of weights of 4 bits counts the bytes that hold them, two numbers each.
    pub names_packed: bool,
    /// Whether a row for weights in groups says SPLIT_K, and may leave BLOCK_SIZE_N and BLOCK_SIZE_K to the launcher.
    pub splits_groups: bool,
    /// What else than Triton has files beside those of Triton's kernels.
    pub backends: &'static [&'static str],
    /// Whether a file may say its version of Triton, and the tuner does.
    pub has_version_key: bool,
    /// Whether files lie in a folder for each version of Triton.
    pub has_version_folders: bool,
    /// Whether BLOCK_SIZE_K of block-quantised layers is lowered to the block by the launcher. Where it is not, it must divide the block.
    pub lowers_block_k: bool,
    /// The keys of a row in the order in which the tuner writes them; it writes no others.
    pub order: &'static [&'static str],
    /// Further keys of rows that the launcher takes.
    pub other_keys: &'static [&'static str],
    /// Keys that the kernel for products takes besides block sizes and options of Triton's.
    pub product_keys: &'static [&'static str],
    /// Types of products that its loaders ask for.
    pub product_precisions: &'static [Precision],
    /// The variable of the environment that names a folder which is looked at first.
    pub folder_variable: &'static str,
    /// Where its own files lie, below the folder that it is installed in.
    pub folder: &'static str,
}

/// How weights and activations are stored, where that is in a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Precision {
    /// FP8 by FP8.
    Fp8W8A8,
    /// Weights in FP8, activations of 16 bits.
    Fp8W8A16,
    /// INT8 by INT8.
    Int8W8A8,
    /// Weights in INT8, activations of 16 bits.
    Int8W8A16,
    /// Weights in INT4, activations of 16 bits.
    Int4W4A16,
    /// FP32 by FP32.
    Float32,
}

use Precision::{Float32, Fp8W8A8, Fp8W8A16, Int4W4A16, Int8W8A8, Int8W8A16};

/// The names that vLLM has for ids of PCI devices (`_ROCM_DEVICE_ID_NAME_MAP` of its `platforms/rocm.py`), where the driver has others for them:
/// GPUs of several names have one id. Of other ids it takes what amdsmi calls the product, which no name of the driver's tells.
static ROCM_NAMES: [(&str, &[&str]); 7] = [
    ("AMD_Instinct_MI300X", &["AMD Instinct MI300X VF"]),
    ("AMD_Instinct_MI325X", &["AMD Instinct MI325X VF"]),
    ("AMD_Radeon_RX7900XTX", &["AMD Radeon RX 7900 XTX", "AMD Radeon RX 7900 XT", "AMD Radeon RX 7900 GRE"]),
    ("AMD_Radeon_890M", &["AMD Radeon 890M Graphics"]),
    ("AMD_Radeon_8060S", &["AMD Radeon 8060S Graphics"]),
    ("AMD_Radeon_RX9070XT", &["AMD Radeon RX 9070 XT", "AMD Radeon RX 9070", "AMD Radeon RX 9070 GRE"]),
    ("AMD_Radeon_R9700", &["AMD Radeon AI PRO R9700"]),
];

/// vLLM, as of 0.33: `fused_moe.py`, `benchmark_moe.py`.
static VLLM: EngineInfo = EngineInfo {
    name: "vllm",
    block_separator: ",",
    precisions: &[Fp8W8A8, Fp8W8A16, Int8W8A16, Int4W4A16, Float32],
    joins_h200: true,
    replaces_slashes: true,
    rocm_names: &ROCM_NAMES,
    names_variants: false,
    names_packed: false,
    splits_groups: true,
    backends: &["flydsl"],
    has_version_key: true,
    has_version_folders: false,
    lowers_block_k: true,
    order: &[
        "BLOCK_SIZE_M",
        "BLOCK_SIZE_N",
        "BLOCK_SIZE_K",
        "GROUP_SIZE_M",
        "num_warps",
        "num_stages",
        "waves_per_eu",
        "matrix_instr_nonkdim",
        "kpack",
        "grf_mode",
        "SPLIT_K",
    ],
    other_keys: &["num_ctas", "maxnreg", "tile_m", "tile_n", "tile_k", "tile_n2", "tile_k2"],
    product_keys: &[],
    product_precisions: &[Fp8W8A8],
    folder_variable: "VLLM_TUNED_CONFIG_FOLDER",
    folder: "model_executor/layers/fused_moe/configs",
};

/// SGLang, as of 0.5.23: `fused_moe_triton_config.py`, `benchmark/kernels/fused_moe_triton`.
static SGLANG: EngineInfo = EngineInfo {
    name: "sglang",
    block_separator: ", ",
    precisions: &[Fp8W8A8, Int8W8A8, Int8W8A16, Int4W4A16, Float32],
    joins_h200: false,
    replaces_slashes: false,
    rocm_names: &[],
    names_variants: true,
    names_packed: true,
    splits_groups: false,
    backends: &[],
    has_version_key: false,
    has_version_folders: true,
    lowers_block_k: false,
    order: &[
        "BLOCK_SIZE_M",
        "BLOCK_SIZE_N",
        "BLOCK_SIZE_K",
        "GROUP_SIZE_M",
        "num_warps",
        "num_stages",
        "waves_per_eu",
        "USE_TMA",
    ],
    other_keys: &["num_ctas", "maxnreg", "matrix_instr_nonkdim", "kpack"],
    product_keys: &["SWAP_AB", "SPLIT_K"],
    product_precisions: &[Fp8W8A8, Int8W8A8],
    folder_variable: "SGLANG_MOE_CONFIG_DIR",
    folder: "srt/layers/moe/moe_runner/triton_utils/configs",
};

impl Engine {
    /// vLLM.
    pub const VLLM: Self = Self(&VLLM);
    /// SGLang.
    pub const SGLANG: Self = Self(&SGLANG);
    /// All engines that are known.
    pub const ALL: [Self; 2] = [Self::VLLM, Self::SGLANG];

    /// What differs from other engines.
    #[must_use]
    pub const fn info(self) -> &'static EngineInfo {
        self.0
    }

    /// Whose a file is, by where it lies: SGLang's files are in folders of Triton's versions, and have what vLLM's names never have.
    #[must_use]
    pub fn of_path(path: &Path) -> Self {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let folder = path
            .parent()
            .and_then(Path::file_name)
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let in_version = folder.starts_with("triton_");
        let is_variant = ["_down.json", "per_channel_quant=", CHANNELWISE].iter().any(|part| name.contains(part));
        if in_version || is_variant || name.contains("block_shape=[") && name.contains(", ") {
            Self::SGLANG
        } else {
            Self::VLLM
        }
    }

    /// The name of a device as it is in file names, from the name that the driver has for it.
    #[must_use]
    pub fn device_word(self, device: &str) -> String {
        let mut word = String::new();
        let mut in_run = false;
        for character in device.chars() {
            let is_gap =
                if self.0.replaces_slashes { character.is_whitespace() || character == '/' } else { character == ' ' };
            let is_joined = self.0.replaces_slashes && in_run;
            match (is_gap, is_joined) {
                (true, true) => {}
                (true, false) => word.push('_'),
                (false, _) => word.push(character),
            }
            in_run = is_gap;
        }
        let is_called = |name: &&str| name.replace(' ', "_") == word;
        if let Some((name, _)) = self.0.rocm_names.iter().find(|(_, names)| names.iter().any(is_called)) {
            return (*name).to_string();
        }
        if self.0.joins_h200 && word.split('_').any(|part| part == "H200") { "NVIDIA_H200".to_string() } else { word }
    }

    /// Whether the launcher of mixtures of experts takes this key of a row.
    #[must_use]
    pub fn knows_key(self, key: &str) -> bool {
        self.0.order.contains(&key) || self.0.other_keys.contains(&key)
    }

    /// Whether the launcher of products takes it.
    #[must_use]
    pub fn knows_product_key(self, key: &str) -> bool {
        OF_PRODUCTS.contains(&key) || self.0.product_keys.contains(&key)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.name)
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.name)
    }
}

impl Serialize for Engine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

/// What is no engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found {found:?}, expected vllm or sglang")]
pub struct UnknownEngine {
    /// What was said.
    pub found: String,
}

impl FromStr for Engine {
    type Err = UnknownEngine;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_called = |engine: &Self| engine.0.name == text;
        Self::ALL.into_iter().find(is_called).ok_or_else(|| UnknownEngine { found: text.to_string() })
    }
}

impl Precision {
    /// All of them.
    pub const ALL: [Self; 6] = [Fp8W8A8, Fp8W8A16, Int8W8A8, Int8W8A16, Int4W4A16, Float32];

    /// As names and command lines have it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Fp8W8A8 => "fp8_w8a8",
            Fp8W8A16 => "fp8_w8a16",
            Int8W8A8 => "int8_w8a8",
            Int8W8A16 => "int8_w8a16",
            Int4W4A16 => "int4_w4a16",
            Float32 => "float32",
        }
    }

    /// The one that is called so.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|precision| precision.word() == word)
    }

    /// Whether weights may have a scale for each group of columns, and then a kernel of their own.
    #[must_use]
    pub const fn has_groups(self) -> bool {
        matches!(self, Int4W4A16 | Int8W8A16)
    }

    /// Bits of an element of the weights.
    #[must_use]
    pub const fn weight_bits(self) -> u32 {
        match self {
            Fp8W8A8 | Fp8W8A16 | Int8W8A8 | Int8W8A16 => 8,
            Int4W4A16 => 4,
            Float32 => 32,
        }
    }
}

impl Serialize for Precision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_called_as_each_engine_calls_them() {
        let both = |device| (Engine::VLLM.device_word(device), Engine::SGLANG.device_word(device));
        let same = |device, word: &str| assert_eq!(both(device), (word.to_string(), word.to_string()));
        same("NVIDIA H100 80GB HBM3", "NVIDIA_H100_80GB_HBM3");
        same("AMD Instinct MI300X", "AMD_Instinct_MI300X");
        same("NVIDIA H200", "NVIDIA_H200");
        let differ = |device, vllm: &str, sglang: &str| {
            assert_eq!(both(device), (vllm.to_string(), sglang.to_string()));
        };
        differ("NVIDIA H200 NVL", "NVIDIA_H200", "NVIDIA_H200_NVL");
        differ("A  B/C", "A_B_C", "A__B/C");
        // By ids of PCI devices.
        differ("AMD Instinct MI300X VF", "AMD_Instinct_MI300X", "AMD_Instinct_MI300X_VF");
        differ("AMD Radeon RX 7900 XTX", "AMD_Radeon_RX7900XTX", "AMD_Radeon_RX_7900_XTX");
        same("AMD Instinct MI300X HF", "AMD_Instinct_MI300X_HF");
        differ(" A ", "_A_", "_A_");
        differ("GH200 480GB", "GH200_480GB", "GH200_480GB");
    }

    #[test]
    fn an_engine_is_told_by_the_place_of_a_file() {
        let of = |path: &str| Engine::of_path(Path::new(path));
        assert_eq!(of("configs/E=8,N=64,device_name=X.json"), Engine::VLLM);
        assert_eq!(of("configs/triton_3_6_0/E=8,N=64,device_name=X.json"), Engine::SGLANG);
        assert_eq!(of("E=8,N=64,device_name=X_down.json"), Engine::SGLANG);
        assert_eq!(of("N=64,K=64,device_name=X,dtype=fp8_w8a8_channelwise.json"), Engine::SGLANG);
        assert_eq!("sglang".parse(), Ok(Engine::SGLANG));
        let error = "tgi".parse::<Engine>().unwrap_err().to_string();
        assert_eq!(error, "found \"tgi\", expected vllm or sglang");
    }
}
