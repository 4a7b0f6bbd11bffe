//! The source of the kernel, out of the engine that is installed, or bluefin's in its place.

use std::path::{Path, PathBuf};

use crate::engine::Engine;
use crate::error::Error;

/// A file with the kernel, as it is where kernels are compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its text.
    pub text: String,
    /// Whose it is: `vllm 0.33.0`, or that it is bluefin's.
    pub from: String,
    /// Whether it is the engine's.
    pub is_engines: bool,
}

/// Where an engine has its kernel, below the folder that it is installed in, and the parameters as they are handed on.
struct KernelOf {
    engine: Engine,
    file: &'static str,
    parameters: &'static [&'static str],
}

static KERNELS: [KernelOf; 2] = [
    KernelOf {
        engine: Engine::VLLM,
        file: "model_executor/layers/fused_moe/fused_moe.py",
        parameters: &VLLM_PARAMETERS,
    },
    KernelOf {
        engine: Engine::SGLANG,
        file: "kernels/ops/moe/fused_moe_triton_kernels.py",
        parameters: &SGLANG_PARAMETERS,
    },
];

/// Bluefin's.
const OWN: &str = include_str!("../kernels/fused_moe.py");
/// The function.
const FUNCTION: &str = "fused_moe_kernel";

/// Of vLLM's kernel, as `layer.py` hands them on.
const VLLM_PARAMETERS: [&str; 45] = [
    "a_ptr",
    "b_ptr",
    "c_ptr",
    "b_bias_ptr",
    "a_scale_ptr",
    "b_scale_ptr",
    "topk_weights_ptr",
    "sorted_token_ids_ptr",
    "expert_ids_ptr",
    "num_tokens_post_padded_ptr",
    "N",
    "K",
    "EM",
    "num_valid_tokens",
    "stride_am",
    "stride_ak",
    "stride_be",
    "stride_bk",
    "stride_bn",
    "stride_cm",
    "stride_cn",
    "stride_asm",
    "stride_ask",
    "stride_bse",
    "stride_bsk",
    "stride_bsn",
    "stride_bbe",
    "stride_bbn",
    "group_n",
    "group_k",
    "naive_block_assignment",
    "BLOCK_SIZE_M",
    "BLOCK_SIZE_N",
    "BLOCK_SIZE_K",
    "GROUP_SIZE_M",
    "SPLIT_K",
    "MUL_ROUTED_WEIGHT",
    "top_k",
    "compute_type",
    "use_fp8_w8a8",
    "use_int8_w8a8",
    "use_int8_w8a16",
    "per_channel_quant",
    "HAS_BIAS",
    "SWAP_AB",
];

/// Of SGLang's kernel, as `layer_sglang.py` hands them on.
const SGLANG_PARAMETERS: [&str; 51] = [
    "a_ptr",
    "a_desc",
    "b_ptr",
    "b_desc",
    "bias_ptr",
    "c_ptr",
    "a_scale_ptr",
    "b_scale_ptr",
    "topk_weights_ptr",
    "sorted_token_ids_ptr",
    "expert_ids_ptr",
    "num_tokens_post_padded_ptr",
    "add_mask_ptr",
    "N",
    "K",
    "EM",
    "num_valid_tokens",
    "stride_am",
    "stride_ak",
    "stride_be",
    "stride_bk",
    "stride_bn",
    "stride_bias_e",
    "stride_bias_n",
    "stride_cm",
    "stride_cn",
    "stride_asm",
    "stride_ask",
    "stride_bse",
    "stride_bsk",
    "stride_bsn",
    "group_n",
    "group_k",
    "BLOCK_SIZE_M",
    "BLOCK_SIZE_N",
    "BLOCK_SIZE_K",
    "GROUP_SIZE_M",
    "MUL_ROUTED_WEIGHT",
    "top_k",
    "compute_type",
    "use_fp8_w8a8",
    "use_int8_w8a8",
    "use_int8_w8a16",
    "per_channel_quant",
    "even_Ks",
    "c_sorted",
    "swap_ab",
    "FUSE_ADD_TO_OUTPUT",
    "MASK_OUTPUT",
    "FUSE_SUM_ALL_REDUCE",
    "ROUTER_TOPK",
];

impl Source {
    /// Bluefin's own, which says that it is.
    #[must_use]
    pub fn own() -> Self {
        let from = "a kernel of bluefin's own, and no engine's".to_string();
        Self { text: OWN.to_string(), from, is_engines: false }
    }

    /// The engine's in `folder`, which it is installed in: that of its package.
    ///
    /// # Errors
    /// If there is none, or its kernel takes other arguments.
    pub fn installed(engine: Engine, folder: &Path) -> Result<Self, Error> {
        let kernel = KERNELS.iter().find(|kernel| kernel.engine == engine);
        let Some(kernel) = kernel.filter(|kernel| folder.join(kernel.file).is_file()) else {
            let file = kernel.map_or("a kernel", |kernel| kernel.file);
            let expected = format!("{file} in it, as the folder of the package {engine} has it");
            return Err(wrong(folder, "installed", format!("no kernel of {engine}"), expected));
        };
        let path = folder.join(kernel.file);
        let text = std::fs::read_to_string(&path).map_err(Error::at(&path))?;
        check_signature(&path, &text, kernel.parameters)?;
        let version = version_of(folder).unwrap_or_else(|| "of unknown version".to_string());
        Ok(Self { text, from: format!("{engine} {version}"), is_engines: true })
    }
}

fn wrong(path: &Path, place: &str, found: String, expected: impl Into<String>) -> Error {
    Error::Content { path: path.to_path_buf(), place: place.to_string(), found, expected: expected.into() }
}

/// Names the first argument of the kernel that is another one. Arguments that follow have to have defaults.
fn check_signature(path: &Path, text: &str, parameters: &[&str]) -> Result<(), Error> {
    let Some(found) = parameters_in(text) else {
        return Err(wrong(path, FUNCTION, "no such function".to_string(), "the kernel of a mixture of experts"));
    };
    let place = |at: usize| format!("argument {} of {FUNCTION}", at + 1);
    for (at, expected) in parameters.iter().enumerate() {
        match found.get(at) {
            Some((name, _)) if name == expected => {}
            other => {
                let found = other.map_or("none".to_string(), |(name, _)| name.clone());
                return Err(wrong(path, &place(at), found, *expected));
            }
        }
    }
    let needed = found.iter().enumerate().skip(parameters.len()).find(|(_, (_, has_default))| !has_default);
    match needed {
        Some((at, (name, _))) => Err(wrong(path, &place(at), name.clone(), "none, or one with a default")),
        None => Ok(()),
    }
}

/// The names of the kernel's parameters, each with whether it has a default.
fn parameters_in(text: &str) -> Option<Vec<(String, bool)>> {
    let (_, after) = text.split_once(&format!("def {FUNCTION}("))?;
    let (inside, _) = after.split_once("):")?;
    let without_comments: Vec<&str> = inside.lines().map(|line| line.split('#').next().unwrap_or_default()).collect();
    let parameters = without_comments.join(" ");
    let named = parameters.split(',').map(str::trim).filter(|parameter| !parameter.is_empty());
    let name = |parameter: &str| {
        let name = parameter.split([':', '=']).next().unwrap_or_default().trim().to_string();
        (name, parameter.contains('='))
    };
    Some(named.map(name).collect())
}

/// The version that the package in `folder` says: in `_version.py`, or by the folder of its metadata beside it.
fn version_of(folder: &Path) -> Option<String> {
    let text = std::fs::read_to_string(folder.join("_version.py")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("__version__ = ") || line.starts_with("version = "));
    let quoted = |line: &str| line.rsplit('=').next().map(|value| value.trim().trim_matches(['\'', '"']).to_string());
    if let Some(version) =
        line.and_then(quoted).filter(|version| version.starts_with(|first: char| first.is_ascii_digit()))
    {
        return Some(version);
    }
    let name = folder.file_name()?.to_str()?.to_string();
    let beside: Vec<PathBuf> = folder.parent()?.read_dir().ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    beside.iter().find_map(|path| {
        let metadata = path.file_name()?.to_str()?.strip_suffix(".dist-info")?;
        metadata.strip_prefix(&format!("{name}-")).map(str::to_string)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_the_installed_engines() {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("vllm");
        let none = Source::installed(Engine::VLLM, &package).unwrap_err().to_string();
        assert!(none.contains("installed: found no kernel of vllm, expected model_executor/layers"), "{none}");
        let path = package.join(KERNELS[0].file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::create_dir(folder.path().join("vllm-0.33.0.dist-info")).unwrap();
        std::fs::write(&path, OWN).unwrap();
        let source = Source::installed(Engine::VLLM, &package).unwrap();
        assert_eq!((source.from.as_str(), source.is_engines), ("vllm 0.33.0", true));
        std::fs::write(package.join("_version.py"), "__version__ = version = '0.34.1'\n").unwrap();
        assert_eq!(Source::installed(Engine::VLLM, &package).unwrap().from, "vllm 0.34.1");
        assert!(!Source::own().is_engines);
    }

    #[test]
    fn another_signature_is_told_by_the_argument() {
        let error = |from: &str, to: &str| {
            check_signature(Path::new("fused_moe.py"), &OWN.replacen(from, to, 1), &VLLM_PARAMETERS)
                .unwrap_err()
                .to_string()
        };
        let renamed = error(" EM, num_valid_tokens,", " EM, num_tokens,");
        assert_eq!(
            renamed,
            "fused_moe.py: argument 14 of fused_moe_kernel: found num_tokens, expected num_valid_tokens"
        );
        let missing = error("SWAP_AB: tl.constexpr, ", "");
        assert_eq!(missing, "fused_moe.py: argument 45 of fused_moe_kernel: found USE_TD, expected SWAP_AB");
        let more = error("USE_TD: tl.constexpr = False", "USE_TD: tl.constexpr");
        assert_eq!(
            more,
            "fused_moe.py: argument 46 of fused_moe_kernel: found USE_TD, expected none, or one with a default"
        );
        assert!(error("def fused_moe_kernel(", "def moe(").contains("found no such function"));
    }
}
