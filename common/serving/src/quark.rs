//! Quark's format, AMD's: what is said of experts' layers, else of all.

use serde_json::Value as Json;

use crate::engine::{Engine, Precision};
use crate::models::field;
use crate::storage::{Quantised, Storage};
use crate::unread::{Unread, unread};

const ALL: &str = "global_quant_config";
const EXPECTED: &str =
    "fp8_e4m3 of both, int8 of both, or weights of int4 in groups; --dtype says how weights are stored";

/// How experts are stored. Of its types both engines' kernels take FP8 by tensors and channels, vLLM's FP8 in blocks, INT8, and INT4 in groups.
///
/// # Errors
/// The field that says another type.
pub(crate) fn quark(said: &Json) -> Result<Quantised, Unread> {
    let layers = field(said, "layer_quant_config").and_then(Json::as_object);
    let of_experts = layers.into_iter().flatten().find(|(name, _)| names_experts(name)).map(|(_, group)| group);
    let (place, group) = match of_experts {
        Some(group) => ("layer_quant_config", group),
        None => (ALL, field(said, ALL).ok_or_else(|| unread(ALL, "none", "how weights and activations are stored"))?),
    };
    // One tensor's scheme may be the only one of a list; several are steps of a scheme that other kernels compute.
    let tensors = |name: &str| match field(group, name) {
        Some(Json::Array(list)) => list.first(),
        one => one,
    };
    let is_stepped = ["weight", "input_tensors"]
        .iter()
        .any(|name| field(group, name).and_then(Json::as_array).is_some_and(|list| list.len() > 1));
    let of = |name: &str, word: &str| tensors(name).and_then(|it| field(it, word)?.as_str()).unwrap_or("none");
    let [weight, input] = ["weight", "input_tensors"].map(|name| (of(name, "dtype"), of(name, "qscheme")));
    let plain = |dtype| Storage { dtype: Some(dtype), per_channel: weight.1 == "per_channel", ..Storage::default() };
    let found = || format!("weights of {} {}, activations of {}", weight.0, weight.1, input.0);
    match (weight, input.0) {
        _ if is_stepped => Ok(Quantised::unserved("weights of Quark in several steps")),
        (("fp8_e4m3", "per_tensor" | "per_channel"), "fp8_e4m3") => Ok(plain(Precision::Fp8W8A8).into()),
        (("fp8_e4m3", "per_block"), "fp8_e4m3") => {
            let storage = Storage { block_shape: Some([128, 128]), ..plain(Precision::Fp8W8A8) };
            Ok(Quantised::from(storage).only_for(Engine::VLLM, "Quark's FP8 in blocks"))
        }
        (("int8", "per_tensor" | "per_channel"), "int8") => {
            Ok(Quantised::from(plain(Precision::Int8W8A8)).only_for(Engine::VLLM, "Quark's INT8"))
        }
        (("int4" | "uint4", _), "none") => {
            let size = tensors("weight").and_then(|weight| field(weight, "group_size")?.as_u64());
            let size = size.and_then(|size| size.try_into().ok()).filter(|size: &u32| *size > 0);
            let size = size.ok_or_else(|| unread(place, found(), "a group_size, a whole number from 1 on"))?;
            let is_symmetric = tensors("weight").and_then(|weight| field(weight, "symmetric")?.as_bool());
            let zero_points = is_symmetric == Some(false);
            let storage = Storage { zero_points, ..Storage::grouped(Precision::Int4W4A16, size) };
            Ok(Quantised::from(storage).only_for(Engine::VLLM, "Quark's INT4"))
        }
        ((dtype, _), _) if ["fp4", "fp6", "mx"].iter().any(|word| dtype.starts_with(word)) => {
            Ok(Quantised::unserved(found()))
        }
        (("fp8_e4m3", "per_group"), _) => Ok(Quantised::unserved(found())),
        _ => Err(unread(place, found(), EXPECTED)),
    }
}

/// Whether a name is of the experts of all layers.
fn names_experts(name: &str) -> bool {
    let is_of_word = |character: char| character.is_alphanumeric() || character == '_';
    let mut parts = name.trim_start_matches("re:").split(|character| !is_of_word(character));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.clone().any(|part| part == "experts") && !parts.any(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experts_are_stored_as_their_layers_say() {
        let said = |weight: &str, input: &str, more: &str| {
            let group = format!(r#"{{"weight": {weight}, "input_tensors": {input}}}"#);
            quark(&serde_json::from_str(&format!(r#"{{"global_quant_config": {group}{more}}}"#)).unwrap())
        };
        let tensor = r#"{"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": false}"#;
        let channel = r#"{"dtype": "fp8_e4m3", "qscheme": "per_channel"}"#;
        let fp8 = Storage { dtype: Some(Precision::Fp8W8A8), ..Storage::default() };
        assert_eq!(said(tensor, tensor, "").unwrap(), fp8.into());
        let channels = Storage { per_channel: true, ..fp8 };
        assert_eq!(said(&format!("[{channel}]"), channel, "").unwrap(), channels.into());
        let fp4 = r#"{"dtype": "fp4", "qscheme": "per_group", "group_size": 32}"#;
        let experts = format!(
            r#", "layer_quant_config": {{"*q_proj": {{}}, "*mlp.experts.*": {{"weight": {channel}, "input_tensors": {channel}}}}}"#
        );
        assert_eq!(said(fp4, fp4, &experts).unwrap(), channels.into());
        let never = said(fp4, fp4, "").unwrap();
        for engine in Engine::ALL {
            assert_eq!(never.unserved.found(engine), Some("weights of fp4 per_group, activations of fp4"));
        }
        let steps = said(&format!("[{tensor}, {tensor}]"), tensor, "").unwrap();
        assert_eq!(steps.unserved.found(Engine::VLLM), Some("weights of Quark in several steps"));
        let int4 = said(r#"{"dtype": "uint4", "group_size": 128, "symmetric": false}"#, "null", "").unwrap();
        let grouped = Storage { zero_points: true, ..Storage::grouped(Precision::Int4W4A16, 128) };
        assert_eq!((int4.storage, int4.unserved.found(Engine::VLLM)), (grouped, None));
        assert_eq!(int4.unserved.found(Engine::SGLANG), Some("Quark's INT4"));
        let int8 = r#"{"dtype": "int8", "qscheme": "per_channel"}"#;
        assert_eq!(said(int8, int8, "").unwrap().storage.dtype, Some(Precision::Int8W8A8));
        for (weight, input, found) in [
            (tensor, "null", "weights of fp8_e4m3 per_tensor, activations of none"),
            ("null", tensor, "weights of none none, activations of fp8_e4m3"),
            (r#"{"dtype": "int4"}"#, "null", "weights of int4 none, activations of none"),
        ] {
            let error = said(weight, input, "").unwrap_err();
            assert_eq!((&*error.field, &*error.found), ("quantization_config.global_quant_config", found));
        }
        assert_eq!(quark(&Json::Null).unwrap_err().field, "quantization_config.global_quant_config");
    }
}
