//! How a model's weights are stored, as its config says it.

use serde::Serialize;
use serde_json::Value as Json;

use crate::engine::Precision;
use crate::models::field;

/// Type and scales of a layer's weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Storage {
    /// `None` for 16 bits.
    pub dtype: Option<Precision>,
    /// Rows and columns of a block that has a scale: rows are 0 where scales are of groups of columns alone.
    pub block_shape: Option<[u32; 2]>,
    /// Whether each channel has a scale.
    pub per_channel: bool,
}

/// What a config says of `quantization_config`; 16 bits without one.
///
/// # Errors
/// What the config says, where that is nothing that the engines' Triton kernels take.
pub fn storage_of(config: &Json, text: &Json) -> Result<Storage, String> {
    let said = field(config, "quantization_config").or_else(|| field(text, "quantization_config"));
    let Some(quantisation) = said else { return Ok(Storage::default()) };
    let method = field(quantisation, "quant_method").and_then(Json::as_str).unwrap_or_default();
    let block_shape = block(quantisation, "weight_block_size");
    if block_shape.is_some() || method == "fp8" {
        return Ok(Storage { dtype: Some(Precision::Fp8W8A8), block_shape, per_channel: false });
    }
    if let Some(group) = field(quantisation, "config_groups").and_then(first_group) {
        return compressed(group);
    }
    let bits = field(quantisation, "bits").or_else(|| field(quantisation, "w_bit")).and_then(Json::as_u64);
    let group = field(quantisation, "group_size").and_then(Json::as_u64).and_then(|group| group.try_into().ok());
    match (bits, group) {
        (Some(4), Some(group)) => Ok(grouped(Precision::Int4W4A16, group)),
        (Some(8), Some(group)) => Ok(grouped(Precision::Int8W8A16, group)),
        _ => Err(format!("quant_method {method:?}")),
    }
}

fn grouped(dtype: Precision, group: u32) -> Storage {
    Storage { dtype: Some(dtype), block_shape: Some([0, group]), per_channel: false }
}

fn first_group(groups: &Json) -> Option<&Json> {
    groups.as_object().and_then(|groups| groups.values().next())
}

/// Two numbers.
fn block(object: &Json, name: &str) -> Option<[u32; 2]> {
    let pair = field(object, name)?.as_array()?;
    let number = |at: usize| pair.get(at)?.as_u64()?.try_into().ok();
    Some([number(0)?, number(1)?])
}

/// A group of the compressed-tensors format.
fn compressed(group: &Json) -> Result<Storage, String> {
    let text = |name: &str| field(group, name).and_then(Json::as_str).unwrap_or_default();
    let bits = field(group, "weights.num_bits").and_then(Json::as_u64).unwrap_or_default();
    let has_activations = field(group, "input_activations").is_some();
    let size = field(group, "weights.group_size").and_then(Json::as_u64).and_then(|size| size.try_into().ok());
    let block_shape = block(group, "weights.block_structure");
    let per_channel = text("weights.strategy") == "channel";
    match (text("weights.type"), bits, has_activations) {
        ("float", 8, true) => Ok(Storage { dtype: Some(Precision::Fp8W8A8), block_shape, per_channel }),
        ("float", 8, false) => Ok(Storage { dtype: Some(Precision::Fp8W8A16), block_shape, per_channel }),
        ("int", 8, true) => Ok(Storage { dtype: Some(Precision::Int8W8A8), block_shape, per_channel }),
        ("int", 8, false) => Ok(Storage { dtype: Some(Precision::Int8W8A16), block_shape: None, per_channel }),
        ("int", 4, false) if size.is_some() => Ok(grouped(Precision::Int4W4A16, size.unwrap_or_default())),
        (kind, bits, _) => Err(format!("config_groups of {kind:?} with {bits} bits")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_stored_as_the_config_says() {
        let of = |text: &str| {
            let config: Json = serde_json::from_str(&format!("{{\"quantization_config\": {text}}}")).unwrap();
            storage_of(&config, &config)
        };
        let fp8 = Storage { dtype: Some(Precision::Fp8W8A8), ..Storage::default() };
        assert_eq!(storage_of(&Json::Null, &Json::Null), Ok(Storage::default()));
        assert_eq!(of(r#"{"quant_method": "fp8"}"#), Ok(fp8));
        assert_eq!(
            of(r#"{"quant_method": "fp8", "weight_block_size": [128, 128]}"#),
            Ok(Storage { block_shape: Some([128, 128]), ..fp8 })
        );
        assert_eq!(
            of(r#"{"quant_method": "awq", "bits": 4, "group_size": 128}"#),
            Ok(grouped(Precision::Int4W4A16, 128))
        );
        let channel = r#"{"config_groups": {"group_0": {"weights": {"type": "float", "num_bits": 8, "strategy": "channel"},
            "input_activations": {"strategy": "token"}}}}"#;
        assert_eq!(of(channel), Ok(Storage { per_channel: true, ..fp8 }));
        let packed = r#"{"config_groups": {"group_0": {"weights": {"type": "int", "num_bits": 4, "group_size": 32}}}}"#;
        assert_eq!(of(packed), Ok(grouped(Precision::Int4W4A16, 32)));
        assert_eq!(of(r#"{"quant_method": "mxfp4"}"#), Err("quant_method \"mxfp4\"".to_string()));
    }
}
