//! How a model's weights are stored, as its config says it.

use serde_json::Value as Json;

use crate::engine::{Engine, Precision};
use crate::excluded::{LeftOut, layers_with_experts, leaves_shared_out, left_out};
use crate::models::{field, first};
use crate::quark::quark;
pub use crate::storage::{Quantised, Storage};
use crate::unread::{FIELD, METHODS, Unread, unread};

/// What a config says in `quantization_config`; 16 bits without one, and for experts that it leaves out.
///
/// # Errors
/// The field that is not read here.
pub fn storage_of(config: &Json, text: &Json) -> Result<Quantised, Unread> {
    let Some(said) = field(config, FIELD).or_else(|| field(text, FIELD)) else { return Ok(Quantised::default()) };
    if !said.is_object() {
        return Err(unread("", said.to_string(), "an object with quant_method"));
    }
    let layers = layers_with_experts(text);
    let [vllm, sglang] = Engine::ALL.map(|engine| left_out(engine, said, &layers));
    let left_out = [vllm?, sglang?];
    if left_out == [LeftOut::Everywhere; 2] {
        return Ok(Quantised::default());
    }
    let quantised = match stored(said) {
        _ if is_of_four_bits(config, text, said) => Quantised::unserved("experts of FP4 (expert_dtype)"),
        Ok(quantised) => quantised,
        Err(unread) if left_out.contains(&LeftOut::Everywhere) => {
            Quantised { unread: Some(unread), ..Quantised::default() }
        }
        Err(unread) => return Err(unread),
    };
    let is_fp8 = field(said, "quant_method").and_then(Json::as_str) == Some("fp8");
    let has_finer_blocks = is_fp8 && quantised.storage.block_shape.is_some();
    Ok(Quantised { left_out, has_finer_blocks, leaves_shared_out: leaves_shared_out(said), ..quantised })
}

/// Whether experts have another type than the rest: DeepSeek-V4's have 4 bits unless the config says otherwise.
fn is_of_four_bits(config: &Json, text: &Json, said: &Json) -> bool {
    let named = [config, text, said].into_iter().find_map(|object| first(object, &["expert_dtype", "store_dtype"]));
    let is_v4 = field(config, "model_type").or_else(|| field(text, "model_type")).and_then(Json::as_str);
    match named.and_then(|(_, value)| value.as_str()) {
        Some(word) => word.contains("fp4"),
        None => is_v4.is_some_and(|word| word.starts_with("deepseek_v4")),
    }
}

/// Methods whose experts both engines compute by other kernels.
const UNSERVED: [&str; 14] = [
    "bitsandbytes",
    "fp_quant",
    "gguf",
    "gpt_oss_mxfp4",
    "humming",
    "minimax_m3_nvfp4",
    "modelopt_fp4",
    "modelopt_mxfp8",
    "mxfp4",
    "mxfp8",
    "mxfp_w4a8",
    "petit_nvfp4",
    "torchao",
    "w4afp8",
];

fn stored(said: &Json) -> Result<Quantised, Unread> {
    let method = field(said, "quant_method").and_then(Json::as_str).unwrap_or_default();
    let algorithm = field(said, "quant_algo").and_then(Json::as_str).unwrap_or_default();
    if UNSERVED.contains(&method) {
        return Ok(Quantised::unserved(format!("weights of {method}")));
    }
    if method.starts_with("modelopt") && ["NVFP4", "MXFP8", "MXFP4"].iter().any(|word| algorithm.contains(word)) {
        return Ok(Quantised::unserved(format!("weights of {algorithm}")));
    }
    let block_shape = block(said, "weight_block_size")
        .map_err(|found| unread("weight_block_size", found, "two whole numbers from 1 on, as in [128, 128]"))?;
    let plain = |dtype| Storage { dtype: Some(dtype), block_shape, ..Storage::default() };
    let per_channel = |dtype| Quantised::from(Storage { per_channel: true, ..plain(dtype) });
    match method {
        // The kernel for blocks knows those of several rows.
        "fp8" if block_shape.is_some_and(|[rows, _]| rows == 1) => {
            return Ok(Quantised::unserved("weights of mxfp8"));
        }
        "blockwise_int8" => return Ok(Quantised::from(plain(Precision::Int8W8A8)).only_for(Engine::SGLANG, method)),
        "w8a8_int8" => return Ok(per_channel(Precision::Int8W8A8).only_for(Engine::SGLANG, method)),
        "w8a8_fp8" => return Ok(per_channel(Precision::Fp8W8A8).only_for(Engine::SGLANG, method)),
        "experts_int8" => return Ok(per_channel(Precision::Int8W8A8).only_for(Engine::VLLM, method)),
        // vLLM quantises the other layers alone.
        "fbgemm_fp8" => return Ok(Quantised::default().only_for(Engine::VLLM, method)),
        _ => {}
    }
    if block_shape.is_some() || method == "fp8" || method == "modelopt" && algorithm == "FP8" {
        return Ok(plain(Precision::Fp8W8A8).into());
    }
    if let Some(group) = field(said, "config_groups").and_then(group_of_experts) {
        return compressed(group).map_err(|found| unread("config_groups", found, METHODS));
    }
    if method == "quark" {
        return quark(said);
    }
    let bits = field(said, "bits").or_else(|| field(said, "w_bit")).and_then(Json::as_u64);
    let precision = match bits {
        Some(4) => Precision::Int4W4A16,
        Some(8) => Precision::Int8W8A16,
        _ if method.is_empty() => return Err(unread("quant_method", "none", METHODS)),
        _ => return Err(unread("quant_method", format!("{method:?}"), METHODS)),
    };
    let group = field(said, "group_size");
    let columns = group.and_then(Json::as_u64).and_then(|group| group.try_into().ok()).filter(|group: &u32| *group > 0);
    let Some(columns) = columns else {
        let found = group.map_or("none".to_string(), ToString::to_string);
        return Err(unread("group_size", found, "the columns of a group that has a scale, a whole number from 1 on"));
    };
    let is_true = |name: &str| field(said, name).and_then(Json::as_bool);
    let zero_points = is_true("zero_point").or(is_true("sym").map(|symmetric| !symmetric)).unwrap_or(false);
    Ok(Storage { zero_points, ..Storage::grouped(precision, columns) }.into())
}

/// Of several groups the one whose targets name experts, else the first.
fn group_of_experts(groups: &Json) -> Option<&Json> {
    let groups = groups.as_object()?;
    let names_experts = |group: &&Json| {
        let targets = field(group, "targets").and_then(Json::as_array);
        targets.into_iter().flatten().filter_map(Json::as_str).any(|target| target.contains("experts"))
    };
    groups.values().find(names_experts).or_else(|| groups.values().next())
}

/// Two numbers from 1 on, where the field is there; else what it holds.
fn block(object: &Json, name: &str) -> Result<Option<[u32; 2]>, String> {
    let Some(said) = field(object, name) else { return Ok(None) };
    let number = |value: &Json| value.as_u64().and_then(|number| number.try_into().ok()).filter(|number| *number > 0);
    let numbers: Option<Vec<u32>> = said.as_array().and_then(|pair| pair.iter().map(number).collect());
    numbers.and_then(|pair| pair.try_into().ok()).map(Some).ok_or_else(|| said.to_string())
}

/// A group of the compressed-tensors format.
fn compressed(group: &Json) -> Result<Quantised, String> {
    let text = |name: &str| field(group, name).and_then(Json::as_str).unwrap_or_default();
    let bits = field(group, "weights.num_bits").and_then(Json::as_u64).unwrap_or_default();
    let has_activations = field(group, "input_activations").is_some();
    let size = field(group, "weights.group_size").and_then(Json::as_u64).and_then(|size| size.try_into().ok());
    let block_shape =
        block(group, "weights.block_structure").map_err(|found| format!("weights.block_structure {found}"))?;
    let per_channel = text("weights.strategy") == "channel";
    let zero_points = field(group, "weights.symmetric").and_then(Json::as_bool) == Some(false);
    let plain = |dtype| Storage { dtype: Some(dtype), block_shape, per_channel, zero_points: false };
    Ok(match (text("weights.type"), bits, has_activations) {
        ("float", 4, _) => return Ok(Quantised::unserved("weights of FP4")),
        ("float", 8, _) if size == Some(32) => return Ok(Quantised::unserved("weights of mxfp8")),
        ("int", 4, true) => return Ok(Quantised::unserved("weights of INT4 with activations of 8 bits")),
        ("float", 8, true) => plain(Precision::Fp8W8A8).into(),
        ("float", 8, false) => plain(Precision::Fp8W8A16).into(),
        ("int", 8, true) => Quantised::from(plain(Precision::Int8W8A8)).only_for(Engine::VLLM, "INT8 by INT8"),
        ("int", 8 | 4, false) if size.is_some() => {
            let dtype = if bits == 4 { Precision::Int4W4A16 } else { Precision::Int8W8A16 };
            Storage { zero_points, ..Storage::grouped(dtype, size.unwrap_or_default()) }.into()
        }
        ("int", 8, false) => Storage { block_shape: None, ..plain(Precision::Int8W8A16) }.into(),
        (kind, bits, _) => return Err(format!("config_groups of {kind:?} with {bits} bits")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Quantised, Unread> {
        let config: Json = serde_json::from_str(&format!("{{\"quantization_config\": {text}}}")).unwrap();
        storage_of(&config, &config)
    }

    fn storage(text: &str) -> Storage {
        of(text).unwrap().storage
    }

    #[test]
    fn weights_are_stored_as_the_config_says() {
        let fp8 = Storage { dtype: Some(Precision::Fp8W8A8), ..Storage::default() };
        assert_eq!(storage_of(&Json::Null, &Json::Null), Ok(Quantised::default()));
        assert_eq!(storage(r#"{"quant_method": "fp8"}"#), fp8);
        let blocks = of(r#"{"quant_method": "fp8", "weight_block_size": [128, 128]}"#).unwrap();
        assert_eq!(blocks.storage, Storage { block_shape: Some([128, 128]), ..fp8 });
        assert!(blocks.has_finer_blocks);
        assert_eq!(storage(r#"{"quant_method": "modelopt", "quant_algo": "FP8"}"#), fp8);
        let awq = storage(r#"{"quant_method": "awq", "bits": 4, "group_size": 128}"#);
        assert_eq!(awq, Storage::grouped(Precision::Int4W4A16, 128));
        let channel = r#"{"config_groups": {"group_0": {"weights": {"type": "float", "num_bits": 8, "strategy": "channel"},
            "input_activations": {"strategy": "token"}}}}"#;
        assert_eq!(storage(channel), Storage { per_channel: true, ..fp8 });
        let block = channel.replace("\"channel\"", "\"block\", \"block_structure\": [128, 128]");
        assert!(!of(&block).unwrap().has_finer_blocks, "vLLM refuses what does not divide in this format");
        let packed = r#"{"config_groups": {"group_0": {"weights": {"type": "int", "num_bits": 4, "group_size": 32}}}}"#;
        assert_eq!(storage(packed), Storage::grouped(Precision::Int4W4A16, 32));
        let asymmetric =
            packed.replace("\"group_size\": 32", "\"group_size\": 32, \"symmetric\": false").replace("4,", "8,");
        let expected = Storage { zero_points: true, ..Storage::grouped(Precision::Int8W8A16, 32) };
        assert_eq!(storage(&asymmetric), expected);
        let zero_points = |said: &str| storage(&format!(r#"{{"bits": 4, "group_size": 128, {said}}}"#)).zero_points;
        assert!(zero_points("\"zero_point\": true") && zero_points("\"sym\": false") && !zero_points("\"sym\": true"));
    }

    #[test]
    fn what_one_engine_or_none_reads_a_file_for_is_said() {
        let served = |text: &str| {
            let quantised = of(text).unwrap();
            Engine::ALL.map(|engine| match quantised.unserved.found(engine) {
                Some(found) => found.to_string(),
                None => quantised.storage.dtype.map_or("16 bits", Precision::word).to_string(),
            })
        };
        assert_eq!(served(r#"{"quant_method": "experts_int8"}"#), ["int8_w8a8", "experts_int8"]);
        assert_eq!(served(r#"{"quant_method": "fbgemm_fp8"}"#), ["16 bits", "fbgemm_fp8"]);
        assert_eq!(served(r#"{"quant_method": "w8a8_int8"}"#), ["w8a8_int8", "int8_w8a8"]);
        let blocks = r#"{"quant_method": "blockwise_int8", "weight_block_size": [128, 128]}"#;
        assert_eq!(served(blocks), ["blockwise_int8", "int8_w8a8"]);
        assert_eq!(storage(blocks).block_shape, Some([128, 128]));
        assert_eq!(served(r#"{"quant_method": "mxfp4"}"#), ["weights of mxfp4"; 2]);
        assert_eq!(served(r#"{"quant_method": "modelopt", "quant_algo": "NVFP4"}"#), ["weights of NVFP4"; 2]);
        assert_eq!(served(r#"{"quant_method": "fp8", "weight_block_size": [1, 32]}"#), ["weights of mxfp8"; 2]);
        let group = |weights: &str, more: &str| {
            served(&format!(r#"{{"config_groups": {{"group_0": {{"weights": {{{weights}}}{more}}}}}}}"#))
        };
        let inputs = r#", "input_activations": {}"#;
        assert_eq!(group(r#""type": "int", "num_bits": 8"#, inputs), ["int8_w8a8", "INT8 by INT8"]);
        assert_eq!(group(r#""type": "float", "num_bits": 4"#, inputs), ["weights of FP4"; 2]);
        assert_eq!(group(r#""type": "int", "num_bits": 4"#, inputs), ["weights of INT4 with activations of 8 bits"; 2]);
        // Of several groups that which names experts.
        let two = r#"{"config_groups": {"group_0": {"targets": ["Linear"], "weights": {"type": "float", "num_bits": 4}},
            "group_1": {"targets": ["re:.*mlp.experts.*"], "weights": {"type": "float", "num_bits": 8}, "input_activations": {}}}}"#;
        assert_eq!(served(two), ["fp8_w8a8"; 2]);
        // DeepSeek-V4's experts have 4 bits unless its config says otherwise.
        let v4 = |more: &str| {
            let text =
                format!(r#"{{"model_type": "deepseek_v4", "quantization_config": {{"quant_method": "fp8"}}{more}}}"#);
            let config: Json = serde_json::from_str(&text).unwrap();
            storage_of(&config, &config).unwrap().unserved.found(Engine::VLLM).map(str::to_string)
        };
        assert_eq!(v4("").as_deref(), Some("experts of FP4 (expert_dtype)"));
        assert_eq!(v4(r#", "expert_dtype": "fp8""#), None);
    }

    #[test]
    fn what_is_not_read_names_its_field() {
        for (text, field, found) in [
            (r#"{"quant_method": "vptq"}"#, ".quant_method", "\"vptq\""),
            ("{}", ".quant_method", "none"),
            ("\"fp8\"", "", "\"fp8\""),
            (r#"{"quant_method": "fp8", "weight_block_size": [128]}"#, ".weight_block_size", "[128]"),
            (r#"{"quant_method": "fp8", "weight_block_size": "128"}"#, ".weight_block_size", "\"128\""),
            (r#"{"quant_method": "fp8", "weight_block_size": [0, 0]}"#, ".weight_block_size", "[0,0]"),
            (r#"{"quant_method": "gptq", "bits": 4, "group_size": -1}"#, ".group_size", "-1"),
        ] {
            let error = of(text).unwrap_err();
            assert_eq!((error.field, error.found), (format!("{FIELD}{field}"), found.to_string()), "{text}");
        }
    }
}
