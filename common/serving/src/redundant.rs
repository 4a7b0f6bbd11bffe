//! Redundant experts: copies of experts that are taken often, which vLLM's EPLB and SGLang's `--ep-num-redundant-experts` add to those of a
//! model. Models that hand the number on to their experts, by engine: others refuse it, or go on without.

use crate::engine::Engine;

const VLLM: &[&str] = &[
    "AXK1ForCausalLM",
    "AfmoeForCausalLM",
    "AliceAIForCausalLM",
    "BeamForCausalLM",
    "DeepseekForCausalLM",
    "DeepseekOCR2ForCausalLM",
    "DeepseekOCRForCausalLM",
    "DeepseekV2ForCausalLM",
    "DeepseekV32ForCausalLM",
    "DeepseekV3ForCausalLM",
    "DeepseekV41ForCausalLM",
    "DeepseekV4ForCausalLM",
    "DeepseekV4ForConditionalGeneration",
    "Dots3NoteForCausalLM",
    "Ernie4_5_MoeForCausalLM",
    "ExaoneMoEForCausalLM",
    "ExaoneMoeForCausalLM",
    "Glm4MoeForCausalLM",
    "Glm4MoeLiteForCausalLM",
    "Glm4vMoeForConditionalGeneration",
    "Glm5NextForCausalLM",
    "Glm5NextForConditionalGeneration",
    "GlmMoeDsaForCausalLM",
    "HYV3ForCausalLM",
    "HYV4ForCausalLM",
    "InternS1ProForConditionalGeneration",
    "InternS2MobiusForConditionalGeneration",
    "InternS2PreviewForConditionalGeneration",
    "K2HorizonForCausalLM",
    "KimiK25ForConditionalGeneration",
    "KimiVLForConditionalGeneration",
    "LagunaForCausalLM",
    "Lfm2MoeForCausalLM",
    "Llama4ForCausalLM",
    "Llama4ForConditionalGeneration",
    "MiMoV2FlashForCausalLM",
    "MiMoV2ForCausalLM",
    "MiMoV2OmniForCausalLM",
    "MistralLarge3ForCausalLM",
    "MixtralForCausalLM",
    "NemotronHForCausalLM",
    "NemotronHPuzzleForCausalLM",
    "PanguProMoEV2ForCausalLM",
    "PanguUltraMoEForCausalLM",
    "Qwen3MoeForCausalLM",
    "Qwen3NextForCausalLM",
    "Qwen3OmniMoeForConditionalGeneration",
    "Qwen3VLMoeForConditionalGeneration",
    "Qwen3_5MoeForCausalLM",
    "Qwen3_5MoeForConditionalGeneration",
    "Qwen4ExpForCausalLM",
    "Qwen4ExpForConditionalGeneration",
    "Step3p5ForCausalLM",
    "Step3p7ForConditionalGeneration",
    "Step5ForCausalLM",
    "Step5ForConditionalGeneration",
    "UnlimitedOCRForCausalLM",
];

const SGLANG: &[&str] = &[
    "DeepseekV2ForCausalLM",
    "DeepseekV32ForCausalLM",
    "DeepseekV3ForCausalLM",
    "DeepseekV4ForCausalLM",
    "Dots3NoteForCausalLM",
    "DotsVLMForCausalLM",
    "ExaoneMoEForCausalLM",
    "ExaoneMoeForCausalLM",
    "Gemma4ForCausalLM",
    "Gemma4ForConditionalGeneration",
    "Gemma4UnifiedForConditionalGeneration",
    "GigaChat35ForCausalLM",
    "Glm4MoeLiteForCausalLM",
    "Glm5NextForConditionalGeneration",
    "GlmMoeDsaForCausalLM",
    "GptOssForCausalLM",
    "HYV4ForCausalLM",
    "InternS1ProForConditionalGeneration",
    "InternS2PreviewForConditionalGeneration",
    "K2HorizonForCausalLM",
    "KimiK25ForConditionalGeneration",
    "KimiVLForConditionalGeneration",
    "LagunaForCausalLM",
    "MellumForCausalLM",
    "MiMoV2FlashForCausalLM",
    "MiMoV2ForCausalLM",
    "MiniMaxM2ForCausalLM",
    "MiniMaxM3SparseForCausalLM",
    "MiniMaxM3SparseForConditionalGeneration",
    "MistralLarge3ForCausalLM",
    "NemotronHForCausalLM",
    "NemotronHPuzzleForCausalLM",
    "Qwen2MoeForCausalLM",
    "Qwen3MoeForCausalLM",
    "Qwen3NextForCausalLM",
    "Qwen3OmniMoeForConditionalGeneration",
    "Qwen3VLMoeForConditionalGeneration",
    "Qwen3_5MoeForCausalLM",
    "Qwen3_5MoeForConditionalGeneration",
    "Qwen4ExpForConditionalGeneration",
    "SDARMoeForCausalLM",
    "SarvamMLAForCausalLM",
    "SarvamMoEForCausalLM",
    "Step3p5ForCausalLM",
    "Step3p7ForConditionalGeneration",
    "XllmForCausalLM",
];

impl Engine {
    /// Whether its model for the architecture takes redundant experts.
    #[must_use]
    pub(crate) fn has_redundant_experts(self, architecture: &str) -> bool {
        let names = if self == Self::VLLM { VLLM } else { SGLANG };
        names.contains(&architecture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::family_of;

    #[test]
    fn all_are_architectures_that_the_engine_serves() {
        for (engine, names) in [(Engine::VLLM, VLLM), (Engine::SGLANG, SGLANG)] {
            assert!(names.is_sorted(), "{engine}");
            for name in names {
                let family = family_of(name).unwrap_or_else(|| panic!("{name}"));
                assert!(family.only.is_none_or(|only| only == engine), "{name}");
            }
        }
    }
}
