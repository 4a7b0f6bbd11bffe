//! Shared experts that SGLang makes experts like the others (`shared_experts_fusion_disable_reason` of its models).

use crate::device::Maker;
use crate::engine::Precision;
use crate::model::Model;
use crate::models::Fused;

impl Model {
    /// How many there are more where experts are spread over `ep` ranks, and more a token.
    pub(crate) fn fused(&self, ep: u32, maker: Maker) -> u32 {
        let shared = self.number("n_shared_experts").unwrap_or(0);
        let is_one = shared == 1;
        let leaves_shared_out = self.quantised.leaves_shared_out;
        let is_wide = self.quantised.storage.dtype != Some(Precision::Int4W4A16);
        let is_spread = ep > 1 && maker == Maker::Nvidia;
        let is_as_large = |size: Option<u32>| size.is_some_and(|size| size == self.intermediate);
        match self.family.map_or(Fused::Never, |family| family.fused) {
            Fused::Minimax if is_one && ep == 1 && maker != Maker::Amd => shared,
            Fused::Deepseek if self.experts == 256 && is_one && is_wide && !is_spread && !leaves_shared_out => shared,
            Fused::Glm if !is_spread => shared,
            Fused::GlmLite if is_one && maker == Maker::Nvidia && ep == 1 => shared,
            Fused::Dots if self.experts == 256 && is_one && maker == Maker::Nvidia && ep == 1 => shared,
            Fused::QwenNext if maker == Maker::Nvidia => {
                u32::from(is_as_large(self.number("shared_expert_intermediate_size")))
            }
            Fused::Bailing if !leaves_shared_out => {
                let count = self.number("num_shared_experts").unwrap_or(0);
                let size = self.number("moe_shared_expert_intermediate_size");
                u32::from(is_as_large(size.or(count.checked_mul(self.intermediate))))
            }
            Fused::Never
            | Fused::Deepseek
            | Fused::Dots
            | Fused::Glm
            | Fused::GlmLite
            | Fused::QwenNext
            | Fused::Bailing
            | Fused::Minimax => 0,
        }
    }
}
