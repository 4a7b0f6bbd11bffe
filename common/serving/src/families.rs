//! The table of model architectures: a row for each family whose configs say sizes in the same place. It is what the engines' registries
//! have, of models with experts all.

use crate::engine::Engine;
use crate::models::{Attention, Fused, ModelFamily, Rule};

const TEXT: &str = "text_config";

/// What most rows have in common.
const COMMON: ModelFamily = ModelFamily {
    names: &[],
    text: TEXT,
    // The second name is what Transformers writes of some.
    experts: &["num_experts", "num_local_experts"],
    topk: &["num_experts_per_tok"],
    intermediate: &["moe_intermediate_size"],
    hidden: &["hidden_size"],
    columns: 1,
    rule: Rule::Usual,
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

const STEP3: ModelFamily = ModelFamily {
    // The second names are what Transformers calls them by.
    experts: &["moe_num_experts", "n_routed_experts"],
    topk: &["moe_top_k", "num_experts_per_tok"],
    attention: Attention::Other,
    ..COMMON
};

/// The first name is what Transformers calls it by.
const INKLING: ModelFamily = ModelFamily {
    intermediate: &["moe_intermediate_size", "intermediate_size"],
    rule: Rule::PadsExperts,
    attention: Attention::Other,
    ..ROUTED
};

const KIMI: ModelFamily = ModelFamily {
    topk: &["num_experts_per_token"],
    hidden: &["routed_expert_hidden_size", "hidden_size"],
    rule: Rule::PadsColumns,
    attention: Attention::Other,
    ..COMMON
};

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
            "InternS2PreviewForConditionalGeneration",
            "BeamForCausalLM",
            "Qwen4ExpForConditionalGeneration",
        ],
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily {
        names: &["AliceAIForCausalLM", "Param2MoEForCausalLM", "FlintForCausalLM", "Qwen4ExpForCausalLM"],
        only: Some(Engine::VLLM),
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily {
        names: &["SDARMoeForCausalLM", "LLaDA2MoeModelLM", "MellumForCausalLM", "XllmForCausalLM"],
        only: Some(Engine::SGLANG),
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily {
        names: &["BailingMMNativeForConditionalGeneration", "BailingMM2NativeForConditionalGeneration"],
        text: "llm_config",
        only: Some(Engine::SGLANG),
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily {
        names: &["ZayaForCausalLM"],
        topk: &["moe_router_topk"],
        intermediate: &["ffn_hidden_size"],
        columns: 2,
        only: Some(Engine::SGLANG),
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily {
        names: &["XverseMoeForCausalLM"],
        topk: &["moe_top_k"],
        intermediate: &["intermediate_size"],
        only: Some(Engine::SGLANG),
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily {
        names: &["MiniCPMForCausalLM"],
        intermediate: &["intermediate_size"],
        only: Some(Engine::VLLM),
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily {
        names: &["NomicBertModel"],
        topk: &["moe_top_k"],
        intermediate: &["n_inner", "intermediate_size"],
        hidden: &["n_embd", "hidden_size"],
        is_gated: false,
        only: Some(Engine::VLLM),
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily {
        names: &["Moondream3ForCausalLM", "HfMoondream"],
        experts: &["moe.n_experts", "moe.num_experts"],
        topk: &["moe.n_experts_per_tok", "moe.experts_per_token"],
        intermediate: &["moe.expert_inner_dim"],
        hidden: &["dim"],
        rule: Rule::WholeExperts,
        only: Some(Engine::VLLM),
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily {
        // SGLang computes its experts by kernels that read no file.
        names: &["MuseSparkForConditionalGeneration"],
        experts: &["num_local_experts"],
        hidden: &["moe_hidden_size"],
        only: Some(Engine::VLLM),
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
            "UnlimitedOCRForCausalLM",
        ],
        attention: Attention::Other,
        ..ROUTED
    },
    ModelFamily {
        names: &[
            "AXK1ForCausalLM",
            "DeepseekOCR2ForCausalLM",
            "DeepseekV41ForCausalLM",
            "DeepseekV4ForConditionalGeneration",
            "Glm5NextForCausalLM",
            "MiMoV2OmniForCausalLM",
            "PanguProMoEV2ForCausalLM",
            "PanguUltraMoEForCausalLM",
        ],
        only: Some(Engine::VLLM),
        attention: Attention::Other,
        ..ROUTED
    },
    ModelFamily {
        names: &["DotsVLMForCausalLM", "GigaChat35ForCausalLM"],
        only: Some(Engine::SGLANG),
        attention: Attention::Other,
        ..ROUTED
    },
    ModelFamily { names: &["Dots3NoteForCausalLM"], fused: Fused::Dots, attention: Attention::Other, ..ROUTED },
    ModelFamily {
        names: &["HYV4ForCausalLM"],
        experts: &["n_routed_experts", "num_experts"],
        intermediate: &["moe_intermediate_size", "expert_hidden_dim"],
        attention: Attention::Other,
        ..ROUTED
    },
    ModelFamily { names: &["InklingForConditionalGeneration"], ..INKLING },
    ModelFamily { names: &["InklingForCausalLM"], only: Some(Engine::VLLM), ..INKLING },
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
        rule: Rule::Pattern,
        is_gated: false,
        attention: Attention::Other,
        ..ROUTED
    },
    ModelFamily { names: &["KimiLinearForCausalLM", "KimiK3ForConditionalGeneration"], ..KIMI },
    ModelFamily { names: &["KimiK3LinearForCausalLM"], only: Some(Engine::SGLANG), ..KIMI },
    ModelFamily {
        names: &[
            "Gemma4ForCausalLM",
            "Gemma4ForConditionalGeneration",
            "Gemma4UnifiedForConditionalGeneration",
            "DiffusionGemmaForBlockDiffusion",
        ],
        topk: &["top_k_experts"],
        intermediate: &["moe_intermediate_size", "expert_intermediate_size"],
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily {
        names: &["HunYuanMoEV1ForCausalLM"],
        topk: &["moe_topk"],
        intermediate: &["moe_intermediate_size", "intermediate_size"],
        ..COMMON
    },
    ModelFamily {
        names: &["HYV3ForCausalLM"],
        intermediate: &["expert_hidden_dim", "moe_intermediate_size"],
        ..COMMON
    },
    ModelFamily {
        // The second names are what Transformers calls them by.
        names: &["Ernie4_5_MoeForCausalLM"],
        experts: &["moe_num_experts", "num_experts"],
        topk: &["moe_k", "num_experts_per_tok"],
        ..COMMON
    },
    ModelFamily {
        names: &["Ernie4_5_VLMoeForConditionalGeneration"],
        experts: &["moe_num_experts"],
        topk: &["moe_k"],
        rule: Rule::TwoKinds,
        attention: Attention::Other,
        ..COMMON
    },
    ModelFamily {
        names: &["Step3TextForCausalLM", "Step5ForCausalLM", "Step5ForConditionalGeneration"],
        only: Some(Engine::VLLM),
        ..STEP3
    },
    ModelFamily {
        names: &["Step3VLForConditionalGeneration", "Step3p5ForCausalLM", "Step3p7ForConditionalGeneration"],
        ..STEP3
    },
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
        names: &["JambaForCausalLM", "JambaForSequenceClassification"],
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

/// A model that holds the config of another one, whose architecture says what it is.
#[derive(Debug)]
pub struct Wrapper {
    name: &'static str,
    /// The field with the inner config: the first that is there.
    pub fields: &'static [&'static str],
    /// The only engine that has a model of its own for it.
    pub only: Option<Engine>,
}

const fn wrapper(name: &'static str, fields: &'static [&'static str], only: Option<Engine>) -> Wrapper {
    Wrapper { name, fields, only }
}

const INNER: &[&str] = &[TEXT, "llm_config"];

static WRAPPERS: &[Wrapper] = &[
    wrapper("Cohere2VisionForConditionalGeneration", INNER, None),
    wrapper("DeepseekVL2ForCausalLM", &["language_config"], Some(Engine::SGLANG)),
    wrapper("DeepseekVLV2ForCausalLM", &["language_config"], Some(Engine::VLLM)),
    wrapper("InternS1ForConditionalGeneration", INNER, None),
    wrapper("InternVLChatModel", &["llm_config"], None),
    wrapper("InternVLForConditionalGeneration", INNER, Some(Engine::VLLM)),
    wrapper("NemotronH_Nano_Omni_Reasoning_V3", INNER, None),
    wrapper("NemotronH_Nano_VL_V2", INNER, None),
    wrapper("NemotronH_Omni_Reasoning_V3", INNER, None),
    wrapper("NemotronH_Super_Omni_Reasoning_V3", INNER, Some(Engine::VLLM)),
    wrapper("Ovis2_6_MoeForCausalLM", INNER, Some(Engine::VLLM)),
    wrapper("PixtralForConditionalGeneration", INNER, None),
    wrapper("SkyworkR1VChatModel", INNER, Some(Engine::VLLM)),
];

/// What holds the config of another model, if the architecture does.
#[must_use]
pub fn wrapper_of(architecture: &str) -> Option<&'static Wrapper> {
    WRAPPERS.iter().find(|wrapper| wrapper.name == architecture)
}

/// The row of an architecture.
#[must_use]
pub fn family_of(architecture: &str) -> Option<&'static ModelFamily> {
    FAMILIES.iter().find(|family| family.names.contains(&architecture))
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
        assert_eq!(wrapper_of("InternVLChatModel").unwrap().fields, ["llm_config"]);
        assert!(WRAPPERS.iter().all(|wrapper| family_of(wrapper.name).is_none()));
    }
}
