//! Model architectures as data: where a Hugging Face config says the sizes of a model's experts and products, and what an engine makes of
//! them.

use serde_json::Value as Json;

use crate::engine::Engine;

/// Where a family of architectures says its sizes. Fields are names in the config, of objects in it with dots; of several the first that is
/// there counts, and of a list its first element.
#[derive(Debug)]
pub struct ModelFamily {
    /// As `architectures` has them.
    pub names: &'static [&'static str],
    /// The object that holds the sizes of the text part; the config itself where it has none.
    pub text: &'static str,
    /// Experts; no field where layers are dense.
    pub experts: &'static [&'static str],
    /// Experts a token.
    pub topk: &'static [&'static str],
    /// The intermediate size of an expert.
    pub intermediate: &'static [&'static str],
    /// Columns of the activations that experts see.
    pub hidden: &'static [&'static str],
    /// How many columns that the config counts are one of an expert: two where it counts the gate as well.
    pub columns: u32,
    /// What engines make of the sizes before they spread them.
    pub rule: Rule,
    /// Whether experts have a gate beside the values that it multiplies, so that the first product has twice the intermediate size.
    pub is_gated: bool,
    /// Whether SGLang makes the shared expert one of the others.
    pub fused: Fused,
    /// The only engine that has a model of its own for it; `None` where both have.
    pub only: Option<Engine>,
    /// How the products of attention follow from the config.
    pub attention: Attention,
}

/// What engines make of a model's sizes that is not usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Nothing.
    Usual,
    /// vLLM pads experts to a multiple of the ranks that share them.
    PadsExperts,
    /// vLLM pads experts that are spread over ranks until each rank has 256 columns, or what `min_moe_intermediate_per_partition` says.
    PadsColumns,
    /// `--tp` spreads whole experts.
    WholeExperts,
    /// A letter for each layer says which of them have experts, and there may be none.
    Pattern,
    /// Text and pictures have experts of their own: two numbers of experts, two intermediate sizes.
    TwoKinds,
}

/// When SGLang makes the shared expert one of the others, so that there is one more. (`shared_experts_fusion_disable_reason` of its
/// models.) vLLM does so on ROCm alone where aiter's kernels are used, which read no such files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fused {
    /// Never.
    Never,
    /// If 256 experts are routed and one is shared, weights have 8 bits or more, and experts are not spread over ranks, but on AMD's GPUs.
    Deepseek,
    /// If there is one, and experts are not spread over ranks, but on AMD's GPUs.
    Glm,
    /// If there is exactly one, on NVIDIA's GPUs, and experts are not spread over ranks.
    GlmLite,
    /// If 256 experts are routed and exactly one is shared, on NVIDIA's GPUs, and experts are not spread over ranks.
    Dots,
    /// If it is as large as the others, on NVIDIA's GPUs. (On AMD's aiter has to compute the layer.)
    QwenNext,
    /// If it is as large as the others, and stored as they are.
    Bailing,
    /// If there is exactly one, and experts are not spread over ranks: on NVIDIA's GPUs, and AMD's of CDNA 4.
    Minimax,
}

/// The products around attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// Queries, keys and values in one product, heads grouped.
    Grouped,
    /// Compressed: DeepSeek's latent attention.
    Latent,
    /// Not known here.
    Other,
}

impl ModelFamily {
    /// The part of a config that says the sizes of the text part.
    #[must_use]
    pub fn text_of<'a>(&self, config: &'a Json) -> &'a Json {
        field(config, self.text).filter(|text| text.is_object()).unwrap_or(config)
    }
}

/// The field of that dotted name.
#[must_use]
pub fn field<'a>(config: &'a Json, name: &str) -> Option<&'a Json> {
    name.split('.').try_fold(config, |object, part| object.get(part)).filter(|value| !value.is_null())
}

/// The first of these fields that is there, with what it holds.
#[must_use]
pub fn first<'a, 'n>(config: &'a Json, names: &[&'n str]) -> Option<(&'n str, &'a Json)> {
    names.iter().find_map(|name| Some((*name, field(config, name)?)))
}

/// The whole number of the first of these fields that is there; of a list that of its first element.
#[must_use]
pub fn number(config: &Json, names: &[&str]) -> Option<u32> {
    whole(first(config, names)?.1)
}

/// The whole number that a value is, or the first element of a list.
#[must_use]
pub fn whole(value: &Json) -> Option<u32> {
    let value = value.as_array().map_or(Some(value), |list| list.first())?;
    value.as_u64().and_then(|number| number.try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_where_configs_have_them() {
        let config: Json =
            serde_json::from_str(r#"{"a": {"b": 7}, "list": [3, 4], "none": null, "text": "x"}"#).unwrap();
        assert_eq!(number(&config, &["a.b"]), Some(7));
        assert_eq!(number(&config, &["none", "list"]), Some(3));
        assert_eq!(number(&config, &["text"]), None);
        assert_eq!(number(&config, &["a.c"]), None);
    }
}
