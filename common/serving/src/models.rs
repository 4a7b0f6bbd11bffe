//! Model architectures: where a Hugging Face config says the sizes of a model's experts and products. One table has a row for each family
//! of architectures.

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
    /// Whether experts have a gate beside the values that it multiplies, so that the first product has twice the intermediate size.
    pub is_gated: bool,
    /// Whether SGLang makes the shared expert one of the others.
    pub fused: Fused,
    /// The only engine that has a model of its own for it; `None` where both have.
    pub only: Option<Engine>,
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
    /// If it is as large as the others, on NVIDIA's GPUs. (On AMD's aiter has to compute the layer.)
    QwenNext,
    /// If it is as large as the others, and stored as they are.
    Bailing,
    /// If there is exactly one, and experts are not spread over ranks: on NVIDIA's GPUs, and on some of AMD's.
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

const TEXT: &str = "text_config";

/// What most rows have in common.
const COMMON: ModelFamily = ModelFamily {
    names: &[],
    text: TEXT,
    experts: &["num_experts"],
    topk: &["num_experts_per_tok"],
    intermediate: &["moe_intermediate_size"],
    hidden: &["hidden_size"],
    is_gated: true,
    fused: Fused::Never,
    only: None,
    attention: Attention::Grouped,
};

/// Experts as DeepSeek's configs have them.
const ROUTED: ModelFamily = ModelFamily { experts: &["n_routed_experts"], attention: Attention::Latent, ..COMMON };

const LONGCAT: ModelFamily = ModelFamily {
    topk: &["moe_topk"],
    intermediate: &["expert_ffn_hidden_size", "moe_intermediate_size"],
    attention: Attention::Other,
    ..ROUTED
};

const STEP3: ModelFamily =
    ModelFamily { experts: &["moe_num_experts"], topk: &["moe_top_k"], attention: Attention::Other, ..COMMON };

/// Models without experts.
const DENSE: ModelFamily = ModelFamily { experts: &[], topk: &[], intermediate: &["intermediate_size"], ..COMMON };

/// The families that are known: those of both engines' tuners, and others that the engines serve by these kernels. What a family says of
/// fields is what the engines' models ask for.
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
            "GraniteMoeSWAForCausalLM",
        ],
        experts: &["num_local_experts"],
        intermediate: &["intermediate_size"],
        ..COMMON
    },
    ModelFamily {
        names: &["GraniteMoeHybridForCausalLM"],
        experts: &["num_local_experts"],
        intermediate: &["intermediate_size"],
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily {
        names: &[
            "Qwen2MoeForCausalLM",
            "Qwen3MoeForCausalLM",
            "Qwen3VLMoeForConditionalGeneration",
            "BailingMoeForCausalLM",
            "BailingMoeV2ForCausalLM",
            "Lfm2MoeForCausalLM",
        ],
        ..COMMON
    },
    ModelFamily { names: &["BailingMoEForCausalLM"], only: Some(Engine::SGLANG), ..COMMON },
    ModelFamily {
        names: &[
            "Qwen3_5MoeForCausalLM",
            "Qwen3_5MoeForConditionalGeneration",
            "AfmoeForCausalLM",
            "K2HorizonForCausalLM",
            "BailingMoeV2_5ForCausalLM",
            "ExaoneMoEForCausalLM",
            "ExaoneMoeForCausalLM",
            "LagunaForCausalLM",
            "SarvamMoEForCausalLM",
            "SarvamMLAForCausalLM",
            "InternS1ProForConditionalGeneration",
            "InternS2MobiusForConditionalGeneration",
        ],
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily {
        names: &["AliceAIForCausalLM", "Param2MoEForCausalLM"],
        only: Some(Engine::VLLM),
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily {
        names: &["SDARMoeForCausalLM", "LLaDA2MoeModelLM"],
        only: Some(Engine::SGLANG),
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily { names: &["Qwen3NextForCausalLM"], fused: Fused::QwenNext, attention: Attention::Other, ..COMMON },
    ModelFamily {
        names: &["BailingMoeV3ForCausalLM", "BailingMoeV3VLForConditionalGeneration"],
        fused: Fused::Bailing,
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily {
        names: &["IQuestQ1ForCausalLM"],
        intermediate: &["intermediate_size"],
        only: Some(Engine::SGLANG),
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily { names: &["Qwen3OmniMoeForConditionalGeneration"], text: "thinker_config.text_config", ..COMMON },
    ModelFamily {
        names: &["Cohere2MoeForCausalLM"],
        intermediate: &["intermediate_size"],
        attention: Attention::Other,
        ..COMMON
    },
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
        names: &[
            "DeepseekForCausalLM",
            "DeepseekV4ForCausalLM",
            "DeepseekOCRForCausalLM",
            "MiMoV2FlashForCausalLM",
            "MiMoV2ForCausalLM",
        ],
        attention: Attention::Other,
        ..ROUTED
    },
    ModelFamily {
        names: &["AXK1ForCausalLM", "PanguUltraMoEForCausalLM", "PanguProMoEV2ForCausalLM", "MiMoV2OmniForCausalLM"],
        only: Some(Engine::VLLM),
        attention: Attention::Other,
        ..ROUTED
    },
    ModelFamily { names: &["LongcatFlashForCausalLM"], ..LONGCAT },
    ModelFamily { names: &["LongcatFlashNgramForCausalLM"], only: Some(Engine::VLLM), ..LONGCAT },
    ModelFamily { names: &["Glm4MoeForCausalLM"], fused: Fused::Glm, attention: Attention::Grouped, ..ROUTED },
    ModelFamily {
        names: &["Glm4vMoeForConditionalGeneration"],
        fused: Fused::GlmLite,
        attention: Attention::Grouped,
        ..ROUTED
    },
    ModelFamily { names: &["Glm4MoeLiteForCausalLM"], fused: Fused::GlmLite, ..ROUTED },
    ModelFamily {
        names: &["Glm5NextForConditionalGeneration"],
        fused: Fused::GlmLite,
        attention: Attention::Other,
        ..ROUTED
    },
    ModelFamily {
        names: &["MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration"],
        experts: &["num_local_experts"],
        intermediate: &["intermediate_size"],
        fused: Fused::Minimax,
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily {
        names: &["NemotronHForCausalLM", "NemotronHPuzzleForCausalLM"],
        hidden: &["moe_latent_size", "hidden_size"],
        is_gated: false,
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
    ModelFamily {
        // The second names are what Transformers calls them by.
        names: &["Ernie4_5_MoeForCausalLM"],
        experts: &["moe_num_experts", "num_experts"],
        topk: &["moe_k", "num_experts_per_tok"],
        ..COMMON
    },
    ModelFamily { names: &["Step3TextForCausalLM"], only: Some(Engine::VLLM), ..STEP3 },
    ModelFamily { names: &["Step3VLForConditionalGeneration", "Step3p5ForCausalLM"], ..STEP3 },
    ModelFamily {
        names: &["AriaForConditionalGeneration"],
        experts: &["moe_num_experts"],
        topk: &["moe_topk"],
        intermediate: &["intermediate_size"],
        only: Some(Engine::VLLM),
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily { names: &["OlmoeForCausalLM"], intermediate: &["intermediate_size"], ..COMMON },
    ModelFamily {
        names: &["JambaForCausalLM"],
        intermediate: &["intermediate_size"],
        only: Some(Engine::VLLM),
        ..COMMON
    },
    ModelFamily {
        names: &["DbrxForCausalLM"],
        experts: &["ffn_config.moe_num_experts"],
        topk: &["ffn_config.moe_top_k"],
        intermediate: &["ffn_config.ffn_hidden_size"],
        hidden: &["hidden_size", "d_model"],
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily {
        names: &["Grok1ForCausalLM", "Grok1ModelForCausalLM"],
        experts: &["num_local_experts"],
        intermediate: &["moe_intermediate_size", "intermediate_size"],
        only: Some(Engine::SGLANG),
        ..COMMON
    },
    ModelFamily {
        names: &[
            "Gemma2ForCausalLM",
            "Gemma3ForCausalLM",
            "Gemma3ForConditionalGeneration",
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
        ],
        ..DENSE
    },
    ModelFamily { names: &["GlmForCausalLM", "SeedOssForCausalLM"], only: Some(Engine::VLLM), ..DENSE },
];

/// Models that hold the config of another one, whose architecture says what it is: name, field, and the only engine that has it.
static WRAPPERS: &[(&str, &str, Option<Engine>)] =
    &[("InternVLChatModel", "llm_config", None), ("DeepseekVLV2ForCausalLM", "language_config", Some(Engine::VLLM))];

/// The field with the config of the model that an architecture holds, and the only engine that has it, where just one has.
#[must_use]
pub fn wrapped_by(architecture: &str) -> Option<(&'static str, Option<Engine>)> {
    WRAPPERS.iter().find(|(name, ..)| *name == architecture).map(|(_, field, only)| (*field, *only))
}

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
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_architecture_is_there_twice() {
        let names: Vec<&str> = FAMILIES.iter().flat_map(|family| family.names).copied().collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert_eq!(family_of("DbrxForCausalLM").unwrap().experts, ["ffn_config.moe_num_experts"]);
        assert!(family_of("BertModel").is_none());
        // What one engine serves alone is said.
        assert_eq!(family_of("JambaForCausalLM").unwrap().only, Some(Engine::VLLM));
        assert_eq!(family_of("Grok1ForCausalLM").unwrap().only, Some(Engine::SGLANG));
        assert!(family_of("Dots1ForCausalLM").is_none(), "neither engine has a model for it any more");
        assert_eq!(wrapped_by("InternVLChatModel"), Some(("llm_config", None)));
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
