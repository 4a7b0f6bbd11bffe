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

/// What a config says of how experts are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantised {
    /// Type and scales.
    pub storage: Storage,
    /// Whether vLLM makes blocks smaller until they divide what a rank has: its method for `quant_method` fp8 does, those of other formats do not.
    pub has_finer_blocks: bool,
    /// Whether SGLang leaves experts in 16 bits nevertheless: it compares the names that are left out by parts of a path, vLLM by whole paths.
    pub is_plain_for_sglang: bool,
}

/// What a config says that is read nowhere here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The field.
    pub field: String,
    /// What it says.
    pub found: String,
    /// What it could have said.
    pub expected: String,
}

const METHODS: &str = "a quantisation that is read here (fp8, compressed-tensors, AWQ, GPTQ, FP8 of modelopt and Quark); --dtype says how weights are stored";

fn unread(field: &str, found: impl Into<String>, expected: &str) -> Unread {
    let field = if field.is_empty() { FIELD.to_string() } else { format!("{FIELD}.{field}") };
    Unread { field, found: found.into(), expected: expected.to_string() }
}

const FIELD: &str = "quantization_config";

/// What a config says in `quantization_config`; 16 bits without one, and for experts that it leaves out.
///
/// # Errors
/// The field that is not read here.
pub fn storage_of(config: &Json, text: &Json) -> Result<Quantised, Unread> {
    let Some(said) = field(config, FIELD).or_else(|| field(text, FIELD)) else { return Ok(Quantised::default()) };
    if !said.is_object() {
        return Err(unread("", said.to_string(), "an object with quant_method"));
    }
    let excluded = excluded(said);
    if excluded == Excluded::Everywhere {
        return Ok(Quantised::default());
    }
    let is_fp8 = field(said, "quant_method").and_then(Json::as_str) == Some("fp8");
    let storage = stored(said)?;
    let is_plain_for_sglang = excluded == Excluded::BySglang;
    Ok(Quantised { storage, has_finer_blocks: is_fp8 && storage.block_shape.is_some(), is_plain_for_sglang })
}

fn stored(said: &Json) -> Result<Storage, Unread> {
    let method = field(said, "quant_method").and_then(Json::as_str).unwrap_or_default();
    let block_shape = block(said, "weight_block_size")
        .map_err(|found| unread("weight_block_size", found, "two whole numbers from 1 on, as in [128, 128]"))?;
    let algorithm = field(said, "quant_algo").and_then(Json::as_str);
    if block_shape.is_some() || method == "fp8" || method == "modelopt" && algorithm == Some("FP8") {
        return Ok(Storage { dtype: Some(Precision::Fp8W8A8), block_shape, ..Storage::default() });
    }
    if let Some(group) = field(said, "config_groups").and_then(first_group) {
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
    Ok(Storage { zero_points, ..Storage::grouped(precision, columns) })
}

/// Which engines leave experts in 16 bits, as a config says that they are not quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Excluded {
    Nowhere,
    BySglang,
    Everywhere,
}

/// Each format has a list of its own. Names of single layers count for nothing: the others of the model are quantised.
fn excluded(said: &Json) -> Excluded {
    let is_fp8 = field(said, "quant_method").and_then(Json::as_str) == Some("fp8");
    let is_compressed = field(said, "config_groups").is_some();
    let lists: &[&str] = match (is_fp8, is_compressed) {
        (true, _) => &["ignored_layers", "modules_to_not_convert"],
        (false, true) => &["ignore"],
        (false, false) => &["modules_to_not_convert", "exclude_modules", "exclude", "ignore"],
    };
    let names = lists.iter().filter_map(|list| field(said, list)?.as_array()).flatten().filter_map(Json::as_str);
    let excluded_by = |name: &str| match (names_experts(name), is_fp8, is_compressed) {
        (false, ..) => Excluded::Nowhere,
        // Parts of a path, which vLLM asks for as a whole.
        (true, true, _) if name.rsplit('.').next() == Some("experts") => Excluded::BySglang,
        (true, true, _) => Excluded::Nowhere,
        // A regular expression, or the whole path of one product.
        (true, false, true) if !name.starts_with("re:") => Excluded::Nowhere,
        (true, false, _) => Excluded::Everywhere,
    };
    names.map(excluded_by).max().unwrap_or(Excluded::Nowhere)
}

/// Whether a name is of the experts of all layers.
fn names_experts(name: &str) -> bool {
    let is_of_word = |character: char| character.is_alphanumeric() || character == '_';
    let mut parts = name.trim_start_matches("re:").split(|character| !is_of_word(character));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.clone().any(|part| part == "experts") && !parts.any(is_number)
}

/// Whether a config leaves shared experts in 16 bits.
pub(crate) fn leaves_shared_out(config: &Json) -> bool {
    let names = field(config, FIELD).and_then(|said| field(said, "ignore")).and_then(Json::as_array);
    names.is_some_and(|names| names.iter().filter_map(Json::as_str).any(|name| name.contains("shared_expert")))
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

/// Two numbers from 1 on, where the field is there; else what it holds.
fn block(object: &Json, name: &str) -> Result<Option<[u32; 2]>, String> {
    let Some(said) = field(object, name) else { return Ok(None) };
    let number = |value: &Json| value.as_u64().and_then(|number| number.try_into().ok()).filter(|number| *number > 0);
    let numbers: Option<Vec<u32>> = said.as_array().and_then(|pair| pair.iter().map(number).collect());
    numbers.and_then(|pair| pair.try_into().ok()).map(Some).ok_or_else(|| said.to_string())
}

/// A group of the compressed-tensors format.
fn compressed(group: &Json) -> Result<Storage, String> {
    let text = |name: &str| field(group, name).and_then(Json::as_str).unwrap_or_default();
    let bits = field(group, "weights.num_bits").and_then(Json::as_u64).unwrap_or_default();
    let has_activations = field(group, "input_activations").is_some();
    let size = field(group, "weights.group_size").and_then(Json::as_u64).and_then(|size| size.try_into().ok());
    let block_shape =
        block(group, "weights.block_structure").map_err(|found| format!("weights.block_structure {found}"))?;
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

/// Quark's format, AMD's: what is said of experts' layers, else of all. Of its types both engines' kernels take FP8.
fn quark(said: &Json) -> Result<Storage, Unread> {
    const ALL: &str = "global_quant_config";
    let layers = field(said, "layer_quant_config").and_then(Json::as_object);
    let of_experts = layers.into_iter().flatten().find(|(name, _)| names_experts(name)).map(|(_, group)| group);
    let (place, group) = match of_experts {
        Some(group) => ("layer_quant_config", group),
        None => (ALL, field(said, ALL).ok_or_else(|| unread(ALL, "none", "how weights and activations are stored"))?),
    };
    // One tensor's scheme may be the only one of a list.
    let tensors = |name: &str| {
        let tensors = field(group, name)?;
        tensors.as_array().map_or(Some(tensors), |list| list.first().filter(|_| list.len() == 1))
    };
    let of = |name: &str, word: &str| tensors(name).and_then(|it| field(it, word)?.as_str()).unwrap_or("none");
    let [weight, input] = ["weight", "input_tensors"].map(|name| (of(name, "dtype"), of(name, "qscheme")));
    match (weight, input.0) {
        (("fp8_e4m3", scheme @ ("per_tensor" | "per_channel")), "fp8_e4m3") => {
            Ok(Storage { dtype: Some(Precision::Fp8W8A8), per_channel: scheme == "per_channel", ..Storage::default() })
        }
        ((dtype, scheme), activations) => {
            let found = format!("weights of {dtype} {scheme}, activations of {activations}");
            Err(unread(
                place,
                found,
                "fp8_e4m3 of both, weights per_tensor or per_channel; --dtype says how weights are stored",
            ))
        }
    }
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
    fn quark_stores_experts_as_their_layers_say() {
        let said = |weight: &str, input: &str, more: &str| {
            let group = format!(r#"{{"weight": {weight}, "input_tensors": {input}}}"#);
            of(&format!(r#"{{"quant_method": "quark", "global_quant_config": {group}{more}}}"#))
        };
        let tensor = r#"{"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": false}"#;
        let channel = r#"{"dtype": "fp8_e4m3", "qscheme": "per_channel"}"#;
        let fp8 = Storage { dtype: Some(Precision::Fp8W8A8), ..Storage::default() };
        assert_eq!(said(tensor, tensor, "").unwrap().storage, fp8);
        let channels = Storage { per_channel: true, ..fp8 };
        assert_eq!(said(&format!("[{channel}]"), channel, "").unwrap().storage, channels);
        let fp4 = r#"{"dtype": "fp4", "qscheme": "per_group", "group_size": 32}"#;
        let experts = format!(
            r#", "layer_quant_config": {{"*q_proj": {{}}, "*mlp.experts.*": {{"weight": {channel}, "input_tensors": {channel}}}}}"#
        );
        assert_eq!(said(fp4, fp4, &experts).unwrap().storage, channels);
        assert_eq!(
            said(tensor, tensor, r#", "exclude": ["lm_head", "re:.*mlp.experts.*"]"#).unwrap().storage.dtype,
            None
        );
        assert_eq!(said(tensor, tensor, r#", "exclude": ["model.layers.78.mlp.experts.*"]"#).unwrap().storage, fp8);
        for (weight, input, found) in [
            (fp4, fp4, "weights of fp4 per_group, activations of fp4"),
            (tensor, "null", "weights of fp8_e4m3 per_tensor, activations of none"),
            ("null", tensor, "weights of none none, activations of fp8_e4m3"),
        ] {
            let error = said(weight, input, "").unwrap_err();
            assert_eq!((&*error.field, &*error.found), ("quantization_config.global_quant_config", found));
        }
        assert_eq!(of(r#"{"quant_method": "quark"}"#).unwrap_err().field, "quantization_config.global_quant_config");
    }

    #[test]
    fn what_is_not_read_names_its_field() {
        for (text, field, found) in [
            (r#"{"quant_method": "mxfp4"}"#, ".quant_method", "\"mxfp4\""),
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

    #[test]
    fn experts_that_are_left_out_have_16_bits() {
        let fp8 = |said: &str| {
            let quantised = of(&format!(r#"{{"quant_method": "fp8", {said}}}"#)).unwrap();
            (quantised.storage.dtype.is_some(), quantised.is_plain_for_sglang)
        };
        // vLLM asks for the whole path of a layer.
        assert_eq!(fp8(r#""modules_to_not_convert": ["mlp.experts"]"#), (true, true));
        assert_eq!(fp8(r#""modules_to_not_convert": ["model.layers.61.mlp.experts"]"#), (true, false));
        let others = |said: &str| of(&format!("{{{said}}}")).unwrap().storage.dtype.is_some();
        let group =
            r#""config_groups": {"group_0": {"weights": {"type": "float", "num_bits": 8}, "input_activations": {}}}"#;
        assert!(!others(&format!(r#"{group}, "ignore": ["lm_head", "re:.*mlp.experts.*"]"#)));
        assert!(others(&format!(
            r#"{group}, "ignore": ["re:.*mlp.shared_experts.*", "re:.*mlp.gate$", "mlp.experts"]"#
        )));
        assert!(!others(
            r#""quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": ["mlp.experts"]"#
        ));
    }
}
