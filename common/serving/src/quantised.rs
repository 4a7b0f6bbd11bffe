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
    /// Whether each group has a zero point; else the middle of the range is zero.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub zero_points: bool,
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
        return Ok(Storage { dtype: Some(Precision::Fp8W8A8), block_shape, ..Storage::default() });
    }
    if let Some(group) = field(quantisation, "config_groups").and_then(first_group) {
        return compressed(group);
    }
    let bits = field(quantisation, "bits").or_else(|| field(quantisation, "w_bit")).and_then(Json::as_u64);
    let group = field(quantisation, "group_size").and_then(Json::as_u64).and_then(|group| group.try_into().ok());
    let is_true = |name: &str| field(quantisation, name).and_then(Json::as_bool);
    let zero_points = is_true("zero_point").or(is_true("sym").map(|symmetric| !symmetric)).unwrap_or(false);
    match (bits, group) {
        (Some(4), Some(group)) => Ok(Storage { zero_points, ..Storage::grouped(Precision::Int4W4A16, group) }),
        (Some(8), Some(group)) => Ok(Storage { zero_points, ..Storage::grouped(Precision::Int8W8A16, group) }),
        _ => Err(format!("quant_method {method:?}")),
    }
}

impl Storage {
    /// Weights with a scale for each `group` of columns, and no zero points.
    #[must_use]
    pub fn grouped(dtype: Precision, group: u32) -> Self {
        Self { dtype: Some(dtype), block_shape: Some([0, group]), ..Self::default() }
    }

    /// Columns of a group that has a scale, where the kernel for such weights is launched.
    #[must_use]
    pub fn group(&self) -> Option<u32> {
        let is_grouped = self.dtype.is_some_and(Precision::has_groups);
        self.block_shape.filter(|[rows, group]| is_grouped && *rows == 0 && *group > 0).map(|[_, group]| group)
    }
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
    let zero_points = field(group, "weights.symmetric").and_then(Json::as_bool) == Some(false);
    let plain = |dtype| Storage { dtype: Some(dtype), block_shape, per_channel, zero_points: false };
    match (text("weights.type"), bits, has_activations) {
        ("float", 8, true) => Ok(plain(Precision::Fp8W8A8)),
        ("float", 8, false) => Ok(plain(Precision::Fp8W8A16)),
        ("int", 8, true) => Ok(plain(Precision::Int8W8A8)),
        ("int", 8 | 4, false) if size.is_some() => {
            let dtype = if bits == 4 { Precision::Int4W4A16 } else { Precision::Int8W8A16 };
            Ok(Storage { zero_points, ..Storage::grouped(dtype, size.unwrap_or_default()) })
        }
        ("int", 8, false) => Ok(Storage { block_shape: None, ..plain(Precision::Int8W8A16) }),
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
            Ok(Storage::grouped(Precision::Int4W4A16, 128))
        );
        let channel = r#"{"config_groups": {"group_0": {"weights": {"type": "float", "num_bits": 8, "strategy": "channel"},
            "input_activations": {"strategy": "token"}}}}"#;
        assert_eq!(of(channel), Ok(Storage { per_channel: true, ..fp8 }));
        let packed = r#"{"config_groups": {"group_0": {"weights": {"type": "int", "num_bits": 4, "group_size": 32}}}}"#;
        assert_eq!(of(packed), Ok(Storage::grouped(Precision::Int4W4A16, 32)));
        let asymmetric =
            packed.replace("\"group_size\": 32", "\"group_size\": 32, \"symmetric\": false").replace("4,", "8,");
        let expected = Storage { zero_points: true, ..Storage::grouped(Precision::Int8W8A16, 32) };
        assert_eq!(of(&asymmetric), Ok(expected));
        let zero_points = |said: &str| of(&format!(r#"{{"bits": 4, "group_size": 128, {said}}}"#)).unwrap().zero_points;
        assert!(zero_points("\"zero_point\": true") && zero_points("\"sym\": false") && !zero_points("\"sym\": true"));
        assert_eq!(of(r#"{"quant_method": "mxfp4"}"#), Err("quant_method \"mxfp4\"".to_string()));
    }
}
