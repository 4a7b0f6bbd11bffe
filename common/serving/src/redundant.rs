//! Redundant experts: copies of experts that are taken often, which vLLM's EPLB and SGLang's `--ep-num-redundant-experts` add to those of a
//! model. Models that hand the number on to their experts, by engine: others refuse it, or go on without.

use crate::engine::Engine;

/// Of both engines.
const OF_BOTH: &[&str] = &[
    "DeepseekV2ForCausalLM",
    "DeepseekV32ForCausalLM",
    "DeepseekV3ForCausalLM",
    "DeepseekV4ForCausalLM",
    "Dots3NoteForCausalLM",
    "ExaoneMoEForCausalLM",
    "ExaoneMoeForCausalLM",
    "Glm4MoeLiteForCausalLM",
    "Glm5NextForConditionalGeneration",
    "GlmMoeDsaForCausalLM",
    "HYV4ForCausalLM",
    "InternS1ProForConditionalGeneration",
    "InternS2PreviewForConditionalGeneration",
    "K2HorizonForCausalLM",
    "KimiK25ForConditionalGeneration",
    "KimiVLForConditionalGeneration",
    "LagunaForCausalLM",
    "MiMoV2FlashForCausalLM",
    "MiMoV2ForCausalLM",
    "MistralLarge3ForCausalLM",
    "NemotronHForCausalLM",
    "NemotronHPuzzleForCausalLM",
    "Qwen3MoeForCausalLM",
    "Qwen3NextForCausalLM",
    "Qwen3OmniMoeForConditionalGeneration",
    "Qwen3VLMoeForConditionalGeneration",
    "Qwen3_5MoeForCausalLM",
    "Qwen3_5MoeForConditionalGeneration",
    "Qwen4ExpForConditionalGeneration",
    "Step3p5ForCausalLM",
    "Step3p7ForConditionalGeneration",
];

/// Of vLLM alone.
const OF_VLLM: &[&str] = &[
    "AXK1ForCausalLM",
    "AfmoeForCausalLM",
    "AliceAIForCausalLM",
    "BeamForCausalLM",
    "DeepseekForCausalLM",
    "DeepseekOCR2ForCausalLM",
    "DeepseekOCRForCausalLM",
    "DeepseekV41ForCausalLM",
    "DeepseekV4ForConditionalGeneration",
    "Ernie4_5_MoeForCausalLM",
    "Glm4MoeForCausalLM",
    "Glm4vMoeForConditionalGeneration",
    "Glm5NextForCausalLM",
    "HYV3ForCausalLM",
    "InternS2MobiusForConditionalGeneration",
    "Lfm2MoeForCausalLM",
    "Llama4ForCausalLM",
    "Llama4ForConditionalGeneration",
    "MiMoV2OmniForCausalLM",
    "MixtralForCausalLM",
    "PanguProMoEV2ForCausalLM",
    "PanguUltraMoEForCausalLM",
    "Qwen4ExpForCausalLM",
    "Step5ForCausalLM",
    "Step5ForConditionalGeneration",
    "UnlimitedOCRForCausalLM",
];

/// Of SGLang alone.
const OF_SGLANG: &[&str] = &[
    "DotsVLMForCausalLM",
    "Gemma4ForCausalLM",
    "Gemma4ForConditionalGeneration",
    "Gemma4UnifiedForConditionalGeneration",
    "GigaChat35ForCausalLM",
    "GptOssForCausalLM",
    "MellumForCausalLM",
    "MiniMaxM2ForCausalLM",
    "MiniMaxM3SparseForCausalLM",
    "MiniMaxM3SparseForConditionalGeneration",
    "Qwen2MoeForCausalLM",
    "SDARMoeForCausalLM",
    "SarvamMLAForCausalLM",
    "SarvamMoEForCausalLM",
    "XllmForCausalLM",
];

impl Engine {
    /// Whether its model for the architecture takes redundant experts.
    #[must_use]
    pub(crate) fn has_redundant_experts(self, architecture: &str) -> bool {
        let own = if self == Self::VLLM { OF_VLLM } else { OF_SGLANG };
        OF_BOTH.contains(&architecture) || own.contains(&architecture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::family_of;

    #[test]
    fn all_are_architectures_that_the_engine_serves() {
        for (engine, names) in [(None, OF_BOTH), (Some(Engine::VLLM), OF_VLLM), (Some(Engine::SGLANG), OF_SGLANG)] {
            assert!(names.is_sorted(), "{engine:?}");
            for name in names {
                let family = family_of(name).unwrap_or_else(|| panic!("{name}"));
                assert!(family.only.is_none_or(|only| engine == Some(only)), "{name}");
            }
        }
        assert!(OF_VLLM.iter().all(|name| !OF_BOTH.contains(name) && !OF_SGLANG.contains(name)));
        assert!(OF_SGLANG.iter().all(|name| !OF_BOTH.contains(name)));
    }
}
