//! Layers that a quantisation leaves out: which experts have 16 bits nevertheless, by each engine's own way to compare names.

use regex::Regex;
use serde_json::Value as Json;

use crate::engine::Engine;
use crate::models::field;
use crate::unread::{Unread, unread};

/// Of which layers a config leaves the experts in 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeftOut {
    /// Of none.
    #[default]
    Nowhere,
    /// Of some: the others are quantised.
    Somewhere,
    /// Of all.
    Everywhere,
}

/// How names are compared, which the format says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    /// FP8: whole paths to vLLM, parts of a path to SGLang.
    Fp8,
    /// Compressed-tensors: regular expressions, and whole paths of single products.
    Compressed,
    /// Modelopt: patterns of a shell.
    Modelopt,
    /// Quark: regular expressions, whole paths, and whole paths of single products.
    Quark,
    /// AWQ, GPTQ and their like: any part of a path's text.
    Other,
}

/// What holds the experts of a layer, in models.
const HOLDERS: [&str; 5] = ["mlp", "block_sparse_moe", "feed_forward", "moe", "mixer"];
/// What lists have.
const NAMES: &str = "a list of names; --dtype says how weights are stored";
const PATTERNS: &str =
    "a regular expression that looks neither ahead nor behind nor back; --dtype says how weights are stored";
/// A layer that no config names.
const ANY: u32 = u32::MAX;
/// What stands before the number of a layer in paths.
const LAYERS: &str = "layers.";

/// What layers with experts are called where a config lists what each layer is.
pub(crate) const MOE: &str = "moe";
/// Layers of a model at most, which are asked for one by one.
const MOST_LAYERS: u32 = 4096;

/// The layers of a model that have experts, as far as its config says it: layers that begin without, every so many of them, and those that it counts up.
pub(crate) fn layers_with_experts(text: &Json) -> Vec<u32> {
    let whole = |value: &Json| value.as_u64().and_then(|number| u32::try_from(number).ok());
    // Of text and pictures each has a number of its own.
    let all = |name: &str| -> Vec<u32> {
        let value = field(text, name);
        let list = value.and_then(Json::as_array).map(|list| list.iter().filter_map(whole).collect());
        list.unwrap_or_else(|| value.and_then(whole).into_iter().collect())
    };
    let number = |name: &str| field(text, name).and_then(whole);
    let every = |name: &str| number(name).filter(|step| *step > 0);
    let dense = all("mlp_only_layers");
    let begins =
        [number("first_k_dense_replace"), number("num_dense_layers"), all("moe_layer_start_index").into_iter().min()];
    let first = begins.into_iter().flatten().max().unwrap_or(0);
    let counted = field(text, "moe_layers_enum").and_then(Json::as_str);
    let counted: Option<Vec<u32>> =
        counted.map(|list| list.split(',').filter_map(|at| at.trim().parse().ok()).collect());
    let last = all("moe_layer_end_index").into_iter().max().unwrap_or(u32::MAX);
    let has_flag = |layer: u32| {
        let flags = field(text, "moe_layer_freq").and_then(Json::as_array);
        let is_off = |flag: &Json| flag.as_u64() == Some(0) || flag.as_bool() == Some(false);
        flags.is_none_or(|flags| flags.get(layer as usize).is_none_or(|flag| !is_off(flag)))
    };
    let steps = ["decoder_sparse_step", "moe_layer_interval", "interleave_moe_layer_step"].map(every);
    let is_due = |layer: &u32| {
        every("moe_layer_freq").is_none_or(|step| layer.is_multiple_of(step))
            && steps.iter().flatten().all(|step| (layer + 1).is_multiple_of(*step))
    };
    let kinds = |name: &str| -> Option<Vec<&str>> {
        Some(field(text, name)?.as_array()?.iter().map(|kind| kind.as_str().unwrap_or_default()).collect())
    };
    let (types, blocks) = (kinds("mlp_layer_types"), kinds("layers_block_type").filter(|all| all.contains(&MOE)));
    let pattern = field(text, "hybrid_override_pattern").and_then(Json::as_str);
    let pattern = pattern.filter(|all| blocks.is_none() && all.contains('E'));
    let is_kind = |layer: &u32| {
        let at = *layer as usize;
        types.as_ref().is_none_or(|all| all.get(at) != Some(&"dense"))
            && blocks.as_ref().is_none_or(|all| all.get(at) == Some(&MOE))
            && pattern.is_none_or(|all| all.as_bytes().get(at) == Some(&b'E'))
    };
    let period = every("expert_layer_period").zip(number("expert_layer_offset"));
    let is_in_period = |layer: &u32| period.is_none_or(|(step, offset)| layer % step == offset);
    let listed = [blocks.as_ref().map(Vec::len), pattern.map(str::len), types.as_ref().map(Vec::len)];
    let listed = listed.into_iter().flatten().next().and_then(|count| u32::try_from(count).ok());
    let layers = 0..number("num_hidden_layers").or(listed).unwrap_or(0).min(MOST_LAYERS);
    let in_range = layers.filter(|layer| (first..=last).contains(layer) && !dense.contains(layer));
    let is_counted = |layer: &u32| counted.as_ref().is_none_or(|counted| counted.contains(layer));
    let flagged = in_range.filter(|layer| has_flag(*layer)).filter(is_due).filter(is_counted);
    flagged.filter(is_kind).filter(is_in_period).collect()
}

/// Whether a config that lists what each layer is has none with experts, as the engines' models of Nemotron-H take it: the pattern counts where there is
/// no list.
pub(crate) fn has_no_experts(text: &Json) -> bool {
    let pattern = field(text, "hybrid_override_pattern").and_then(Json::as_str);
    let kinds = field(text, "layers_block_type").and_then(Json::as_array);
    let is_listed = kinds.map(|all| all.iter().any(|kind| kind.as_str() == Some(MOE)));
    is_listed.or(pattern.map(|all| all.contains('E'))) == Some(false)
}

/// Of which of these layers `quantization_config` leaves the experts in 16 bits. Without layers names of single ones count for nothing.
///
/// # Errors
/// A list that is none, or a pattern in it that can not be read here.
pub(crate) fn left_out(engine: Engine, said: &Json, layers: &[u32]) -> Result<LeftOut, Unread> {
    let format = Format::of(said);
    let lists = format.lists(said)?;
    let names = lists.into_iter().map(|(list, text)| Name::new(format, list, text));
    let names: Vec<Name<'_>> = names.collect::<Result<_, _>>()?;
    if names.is_empty() {
        return Ok(LeftOut::Nowhere);
    }
    let layers = if layers.is_empty() { &[ANY] } else { layers };
    let is_out = |layer: &&u32| {
        HOLDERS.iter().any(|holder| names.iter().any(|name| name.is_of(engine, format, **layer, holder)))
    };
    Ok(match layers.iter().filter(is_out).count() {
        0 => LeftOut::Nowhere,
        count if count == layers.len() => LeftOut::Everywhere,
        _ => LeftOut::Somewhere,
    })
}

/// Whether a config leaves shared experts in 16 bits.
pub(crate) fn leaves_shared_out(said: &Json) -> bool {
    let lists = Format::of(said).lists(said).unwrap_or_default();
    lists.iter().any(|(_, name)| name.contains("shared_expert") && !name.contains("shared_expert_gate"))
}

impl Format {
    fn of(said: &Json) -> Self {
        let method = field(said, "quant_method").and_then(Json::as_str).unwrap_or_default();
        match method {
            "fp8" | "mxfp8" | "blockwise_int8" => Self::Fp8,
            "quark" => Self::Quark,
            _ if method.starts_with("modelopt") => Self::Modelopt,
            _ if field(said, "config_groups").is_some() => Self::Compressed,
            _ => Self::Other,
        }
    }

    /// The names, each with its list: each format has lists of its own.
    fn lists(self, said: &Json) -> Result<Vec<(&'static str, &str)>, Unread> {
        let lists: &[&'static str] = match self {
            Self::Fp8 => &["ignored_layers", "modules_to_not_convert"],
            Self::Compressed => &["ignore"],
            Self::Modelopt => &["exclude_modules", "ignore"],
            Self::Quark => &["exclude"],
            Self::Other => &["modules_to_not_convert"],
        };
        let mut names = Vec::new();
        for (list, value) in lists.iter().filter_map(|list| Some((*list, field(said, list)?))) {
            let found: Option<Vec<&str>> = value.as_array().and_then(|list| list.iter().map(Json::as_str).collect());
            let found = found.ok_or_else(|| unread(list, value.to_string(), NAMES))?;
            names.extend(found.into_iter().map(|name| (list, name)));
        }
        Ok(names)
    }
}

/// A name of such a list.
struct Name<'a> {
    text: &'a str,
    /// From the number of the layer on, where it names one: what is before differs between models and engines.
    layer: Option<&'a str>,
    /// What it stands for as a pattern, where it is one.
    pattern: Option<Regex>,
}

impl<'a> Name<'a> {
    fn new(format: Format, list: &str, text: &'a str) -> Result<Self, Unread> {
        let layer = text.find(LAYERS).map(|at| text.get(at..).unwrap_or_default().trim_end_matches('.'));
        // Python's `re.match` holds a pattern to the beginning, `fnmatch` to the end as well.
        let pattern = match (format, text.strip_prefix("re:")) {
            (Format::Modelopt, _) => {
                let escaped = regex::escape(text).replace(r"\*", ".*").replace(r"\?", ".");
                Some(format!("^(?:{escaped})$"))
            }
            (Format::Compressed | Format::Quark, Some(pattern)) => Some(format!("^(?:{pattern})")),
            _ => None,
        };
        let pattern = pattern.map(|pattern| Regex::new(&pattern)).transpose();
        Ok(Self { text, layer, pattern: pattern.map_err(|_| unread(list, format!("{text:?}"), PATTERNS))? })
    }

    /// Whether it leaves out the experts that `holder` has in a layer.
    fn is_of(&self, engine: Engine, format: Format, layer: u32, holder: &str) -> bool {
        let path = format!("{LAYERS}{layer}.{holder}.experts");
        let is_path = |path: &str| self.layer.is_some_and(|named| named == path);
        let is_below = self.layer.and_then(|named| named.strip_prefix(&path)).is_some_and(|rest| rest.starts_with('.'));
        let whole = ["model.", "language_model.model.", "model.language_model."].map(|root| format!("{root}{path}"));
        let matches = |text: &str| self.pattern.as_ref().is_some_and(|pattern| pattern.is_match(text));
        match format {
            Format::Fp8 if engine == Engine::SGLANG => {
                let (name, path) = (format!(".{}.", self.text.trim_end_matches('.')), format!(".model.{path}."));
                is_below || path.contains(&name) || self.layer.is_some_and(|named| path.contains(&format!(".{named}.")))
            }
            Format::Fp8 => is_path(&path) || is_below,
            // The first expert stands for all. vLLM asks for no names but these two, and for that of the product behind.
            Format::Compressed => ["gate_proj", "up_proj", "w1"]
                .iter()
                .filter(|name| **name != "w1" || engine != Engine::VLLM)
                .any(|product| {
                    is_path(&format!("{path}.0.{product}"))
                        || whole.iter().any(|whole| matches(&format!("{whole}.0.{product}")))
                }),
            Format::Quark => is_path(&path) || is_below || whole.iter().any(|whole| matches(whole)),
            Format::Modelopt => {
                let is_part = if engine == Engine::VLLM {
                    whole.iter().any(|whole| whole.contains(self.text))
                } else {
                    path.split('.').any(matches)
                };
                is_part || whole.iter().any(|whole| matches(whole))
            }
            Format::Other => whole.iter().any(|whole| whole.contains(self.text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    fn of(said: &str, layers: Range<u32>) -> [LeftOut; 2] {
        let said: Json = serde_json::from_str(&format!("{{{said}}}")).unwrap();
        let layers: Vec<u32> = layers.collect();
        Engine::ALL.map(|engine| left_out(engine, &said, &layers).unwrap())
    }

    #[test]
    fn what_can_not_be_compared_is_an_error() {
        let of = |said: &str| left_out(Engine::VLLM, &serde_json::from_str(said).unwrap(), &[0, 1]).unwrap_err();
        let ahead = of(r#"{"config_groups": {}, "ignore": ["lm_head", "re:(?!.*shared).*experts.*"]}"#);
        assert_eq!(
            (ahead.field.as_str(), ahead.found.as_str()),
            ("quantization_config.ignore", "\"re:(?!.*shared).*experts.*\"")
        );
        assert_eq!(of(r#"{"config_groups": {}, "ignore": ["re:("]}"#).found, "\"re:(\"");
        let one = of(r#"{"quant_method": "fp8", "ignored_layers": "model.layers.0.mlp.experts"}"#);
        assert_eq!(
            (one.field.as_str(), one.found.as_str()),
            ("quantization_config.ignored_layers", "\"model.layers.0.mlp.experts\"")
        );
    }

    #[test]
    fn layers_with_experts_are_those_that_the_config_says() {
        let of = |said: &str| {
            let said = format!(r#"{{"num_hidden_layers": 6{said}}}"#);
            layers_with_experts(&serde_json::from_str(&said).unwrap())
        };
        assert_eq!(of(""), [0, 1, 2, 3, 4, 5]);
        assert_eq!(of(r#", "first_k_dense_replace": 1, "moe_layer_freq": 2"#), [2, 4]);
        assert_eq!(of(r#", "moe_layer_freq": [0, 1, 1, 0, 1, 1]"#), [1, 2, 4, 5]);
        assert_eq!(of(r#", "mlp_only_layers": [1], "decoder_sparse_step": 2"#), [3, 5]);
        assert_eq!(of(r#", "interleave_moe_layer_step": 2"#), [1, 3, 5]);
        assert_eq!(of(r#", "num_dense_layers": 4, "moe_layer_freq": [true, true, true, true, false, true]"#), [5]);
        assert_eq!(of(r#", "moe_layers_enum": "2,3, 5""#), [2, 3, 5]);
        assert_eq!(
            of(r#", "moe_layer_start_index": [2, 1], "moe_layer_end_index": [3, 4], "moe_layer_interval": 1"#),
            [1, 2, 3, 4]
        );
        assert_eq!(
            of(r#", "mlp_layer_types": ["dense", "sparse", "sparse", "dense", "hash_moe", "sparse"]"#),
            [1, 2, 4, 5]
        );
        assert_eq!(of(r#", "expert_layer_period": 3, "expert_layer_offset": 1"#), [1, 4]);
        assert_eq!(of(r#", "hybrid_override_pattern": "MEM*E-""#), [1, 4]);
        assert_eq!(of(r#", "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid", "mamba", "mamba"]"#).len(), 6);
        // Where each layer is listed nothing needs to count them.
        let listed = r#"{"layers_block_type": ["linear_attention", "moe", "full_attention", "moe"]}"#;
        assert_eq!(layers_with_experts(&serde_json::from_str(listed).unwrap()), [1, 3]);
        assert_eq!(layers_with_experts(&Json::Null), [] as [u32; 0]);
    }

    use LeftOut::{Everywhere, Nowhere, Somewhere};

    #[test]
    fn fp8_is_compared_by_paths() {
        let fp8 =
            |names: &str, layers| of(&format!(r#""quant_method": "fp8", "modules_to_not_convert": [{names}]"#), layers);
        // vLLM asks for the whole path of a layer, SGLang for parts of it.
        assert_eq!(fp8(r#""mlp.experts""#, 0..4), [Nowhere, Everywhere]);
        assert_eq!(fp8(r#""mlp""#, 0..4), [Nowhere, Everywhere]);
        assert_eq!(fp8(r#""mlp.gate", "mlp.shared_experts", "lm_head", "experts_bias""#, 0..4), [Nowhere, Nowhere]);
        assert_eq!(fp8(r#""model.layers.1.mlp.experts""#, 0..4), [Somewhere, Somewhere]);
        assert_eq!(fp8(r#""model.layers.1.mlp.experts.0.up_proj""#, 1..2), [Everywhere, Everywhere]);
        assert_eq!(
            fp8(r#""model.layers.4.mlp.experts""#, 0..4),
            [Nowhere, Nowhere],
            "a layer that predicts more tokens"
        );
        assert_eq!(fp8(r#""model.layers.1.""#, 0..4), [Nowhere, Somewhere]);
        assert_eq!(fp8(r#""model.layers.1.mlp.experts""#, 0..0), [Nowhere, Nowhere]);
    }

    #[test]
    fn compressed_tensors_names_products_and_patterns() {
        let groups = |names: &str| of(&format!(r#""config_groups": {{}}, "ignore": [{names}]"#), 0..2);
        assert_eq!(groups(r#""lm_head", "re:.*mlp.experts.*""#), [Everywhere; 2]);
        assert_eq!(groups(r#""re:.*mlp.shared_experts.*", "re:.*mlp.gate$", "mlp.experts""#), [Nowhere; 2]);
        assert_eq!(groups(r#""model.layers.0.mlp.experts""#), [Nowhere; 2]);
        assert_eq!(groups(r#""model.layers.0.mlp.experts.0.gate_proj""#), [Somewhere; 2]);
        assert_eq!(groups(r#""re:.*layers\\.[01]\\..*""#), [Everywhere; 2]);
        assert_eq!(groups(r#""re:model\\.layers\\.0\\..*""#), [Somewhere; 2]);
        assert_eq!(groups(r#""re:.*experts\\.0\\.w1""#), [Nowhere, Everywhere]);
    }

    #[test]
    fn other_formats_have_ways_of_their_own() {
        let modelopt = |names: &str| of(&format!(r#""quant_method": "modelopt", "ignore": [{names}]"#), 0..2);
        assert_eq!(modelopt(r#""*.mlp.experts""#), [Everywhere; 2]);
        assert_eq!(modelopt(r#""model.layers.1*", "*self_attn*""#), [Somewhere; 2]);
        assert_eq!(modelopt(r#""mlp.experts""#), [Everywhere, Nowhere]);
        assert_eq!(modelopt(r#""experts""#), [Everywhere; 2]);
        let quark = |names: &str| of(&format!(r#""quant_method": "quark", "exclude": [{names}]"#), 0..2);
        assert_eq!(quark(r#""re:.*mlp.experts.*""#), [Everywhere; 2]);
        assert_eq!(quark(r#""model.layers.1.mlp.experts.*.down_proj""#), [Somewhere; 2]);
        assert_eq!(quark(r#""model.layers.78.mlp.experts.*""#), [Nowhere; 2]);
        let awq = |names: &str| of(&format!(r#""quant_method": "awq", "modules_to_not_convert": [{names}]"#), 0..2);
        assert_eq!(awq(r#""experts""#), [Everywhere; 2]);
        assert_eq!(awq(r#""model.layers.0.""#), [Somewhere; 2]);
        assert_eq!(awq(r#""mlp.gate", "shared_experts""#), [Nowhere; 2]);
    }

    #[test]
    fn shared_experts_may_be_left_out_alone() {
        let of = |said: &str| leaves_shared_out(&serde_json::from_str(said).unwrap());
        assert!(of(r#"{"quant_method": "quark", "exclude": ["re:.*shared_experts.*"]}"#));
        assert!(!of(r#"{"quant_method": "quark", "exclude": ["model.layers.3.mlp.shared_expert_gate"]}"#));
    }
}
