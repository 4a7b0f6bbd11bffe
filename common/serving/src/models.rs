//! Model architectures: where a Hugging Face config says the sizes of a model's experts and products. One table has a row for each family
//! of architectures.

use serde_json::Value as Json;

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
    /// Whether SGLang makes the shared expert one of the others.
    pub fused: Fused,
    /// How the products of attention follow from the config.
    pub attention: Attention,
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
    /// If it is as large as the others.
    Qwen,
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

const TEXT: &str = "text_config";

/// What most rows have in common.
const COMMON: ModelFamily = ModelFamily {
    names: &[],
    text: TEXT,
    experts: &["num_experts"],
    topk: &["num_experts_per_tok"],
    intermediate: &["moe_intermediate_size"],
    hidden: &["hidden_size"],
    fused: Fused::Never,
    attention: Attention::Grouped,
};

/// Experts as DeepSeek's configs have them.
const ROUTED: ModelFamily = ModelFamily { experts: &["n_routed_experts"], attention: Attention::Latent, ..COMMON };

/// The families that are known: those of both engines' tuners, and others that both engines serve by these kernels.
pub static FAMILIES: &[ModelFamily] = &[
    ModelFamily {
        names: &[
            "MixtralForCausalLM",
            "Llama4ForCausalLM",
            "Llama4ForConditionalGeneration",
            "GptOssForCausalLM",
            "PhiMoEForCausalLM",
            "MiniMaxM2ForCausalLM",
            "GraniteMoeForCausalLM",
            "GraniteMoeSharedForCausalLM",
        ],
        experts: &["num_local_experts"],
        intermediate: &["intermediate_size"],
        ..COMMON
    },
    ModelFamily {
        names: &[
            "Qwen2MoeForCausalLM",
            "Qwen3MoeForCausalLM",
            "Qwen3VLMoeForConditionalGeneration",
            "BailingMoEForCausalLM",
            "BailingMoeForCausalLM",
            "BailingMoeV2ForCausalLM",
            "BailingMoeV3ForCausalLM",
            "Lfm2MoeForCausalLM",
        ],
        ..COMMON
    },
    ModelFamily {
        names: &[
            "Qwen3NextForCausalLM",
            "Qwen3_5MoeForCausalLM",
            "Qwen3_5MoeForConditionalGeneration",
            "Qwen3_5MoeTextConfig",
        ],
        fused: Fused::Qwen,
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily { names: &["Qwen3OmniMoeForConditionalGeneration"], text: "thinker_config.text_config", ..COMMON },
    ModelFamily {
        names: &["DeepseekV3ForCausalLM", "KimiK25ForConditionalGeneration", "GlmMoeDsaForCausalLM"],
        fused: Fused::Deepseek,
        ..ROUTED
    },
    ModelFamily {
        names: &[
            "DeepseekV2ForCausalLM",
            "DeepseekV32ForCausalLM",
            "MistralLarge3ForCausalLM",
            "KimiVLForConditionalGeneration",
        ],
        ..ROUTED
    },
    ModelFamily {
        names: &["DeepseekForCausalLM", "DeepseekV4ForCausalLM", "DeepseekOCRForCausalLM", "Dots1ForCausalLM"],
        attention: Attention::Other,
        ..ROUTED
    },
    ModelFamily {
        names: &["Glm4MoeForCausalLM", "Glm4vMoeForConditionalGeneration"],
        fused: Fused::Glm,
        attention: Attention::Grouped,
        ..ROUTED
    },
    ModelFamily { names: &["Glm4MoeLiteForCausalLM"], fused: Fused::GlmLite, ..ROUTED },
    ModelFamily {
        names: &["NemotronHForCausalLM"],
        hidden: &["moe_latent_size", "hidden_size"],
        attention: Attention::Other,
        ..ROUTED
    },
    ModelFamily {
        names: &["KimiLinearForCausalLM", "KimiK3ForConditionalGeneration"],
        topk: &["num_experts_per_token"],
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily {
        names: &["Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "DiffusionGemmaForBlockDiffusion"],
        topk: &["top_k_experts"],
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily { names: &["HunYuanMoEV1ForCausalLM"], topk: &["moe_topk"], ..COMMON },
    ModelFamily { names: &["HYV3ForCausalLM"], intermediate: &["expert_hidden_dim"], ..COMMON },
    ModelFamily { names: &["Ernie4_5_MoeForCausalLM"], experts: &["moe_num_experts"], topk: &["moe_k"], ..COMMON },
    ModelFamily {
        names: &["Step3TextForCausalLM"],
        experts: &["moe_num_experts"],
        topk: &["moe_top_k"],
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily { names: &["OlmoeForCausalLM", "JambaForCausalLM"], intermediate: &["intermediate_size"], ..COMMON },
    ModelFamily {
        names: &["DbrxForCausalLM"],
        experts: &["ffn_config.moe_num_experts"],
        topk: &["ffn_config.moe_top_k"],
        intermediate: &["ffn_config.ffn_hidden_size"],
        hidden: &["hidden_size", "d_model"],
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily { names: &["Grok1ForCausalLM", "Grok1AForCausalLM"], experts: &["num_local_experts"], ..COMMON },
    ModelFamily {
        names: &[
            "Gemma2ForCausalLM",
            "Gemma3ForCausalLM",
            "Gemma3ForConditionalGeneration",
            "GlmForCausalLM",
            "Glm4ForCausalLM",
            "GraniteForCausalLM",
            "LlamaForCausalLM",
            "MistralForCausalLM",
            "Mistral3ForConditionalGeneration",
            "Olmo2ForCausalLM",
            "Phi3ForCausalLM",
            "Qwen2ForCausalLM",
            "Qwen2_5_VLForConditionalGeneration",
            "Qwen3ForCausalLM",
            "Qwen3VLForConditionalGeneration",
            "SeedOssForCausalLM",
        ],
        experts: &[],
        topk: &[],
        intermediate: &["intermediate_size"],
        ..COMMON
    },
];

/// The row of an architecture.
#[must_use]
pub fn family_of(architecture: &str) -> Option<&'static ModelFamily> {
    FAMILIES.iter().find(|family| family.names.contains(&architecture))
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

/// The whole number of the first of these fields that is there; of a list that of its first element.
#[must_use]
pub fn number(config: &Json, names: &[&str]) -> Option<u32> {
    let value = names.iter().find_map(|name| field(config, name))?;
    let value = value.as_array().map_or(Some(value), |list| list.first())?;
    value.as_u64().and_then(|number| number.try_into().ok())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_architecture_is_there_twice() {
        let names: Vec<&str> = FAMILIES.iter().flat_map(|family| family.names).copied().collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert_eq!(family_of("DbrxForCausalLM").unwrap().experts, ["ffn_config.moe_num_experts"]);
        assert!(family_of("BertModel").is_none());
    }

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
