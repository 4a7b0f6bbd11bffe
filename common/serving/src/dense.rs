//! The products with block-quantised weights of a model besides its experts, on one rank: N and K as their config files name them.

use serde::Serialize;

use crate::engine::{Engine, Precision};
use crate::models::Attention;
use crate::name::{FileName, Layer};
use crate::shapes::{Model, Ranks};

/// A product of activations with weights of N rows and K columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GemmShape {
    /// What it is in the model.
    pub layer: &'static str,
    /// Columns of the result.
    #[serde(rename = "N")]
    pub n: u32,
    /// What is summed over.
    #[serde(rename = "K")]
    pub k: u32,
    /// Rows and columns of a block.
    pub block_shape: [u32; 2],
}

impl GemmShape {
    /// The config file of the product on a device, as the engine's loader names it.
    #[must_use]
    pub fn file_name(&self, engine: Engine, device: &str) -> FileName {
        FileName {
            layer: Layer::Gemm { n: self.n, k: self.k },
            device: engine.device_word(device),
            dtype: Some(Precision::Fp8W8A8),
            block_shape: Some(self.block_shape),
            per_channel: false,
            down: false,
            backend: None,
        }
    }
}

impl Model {
    /// The products of a model whose weights are FP8 with blocks; none of other models, and of architectures whose attention is not known
    /// those around attention are left out. `shared` is whether shared experts are a layer of their own.
    #[must_use]
    pub fn gemms(&self, ranks: Ranks, shared: bool) -> Vec<GemmShape> {
        let storage = self.storage();
        let (Some(Precision::Fp8W8A8), Some(block_shape)) = (storage.dtype, storage.block_shape) else {
            return Vec::new();
        };
        let tp = ranks.tp.max(1);
        let mut sizes = self.attention(tp).unwrap_or_default();
        sizes.extend(self.layers(tp, shared).unwrap_or_default());
        let mut gemms: Vec<GemmShape> = Vec::new();
        for (layer, n, k) in sizes {
            if n > 0 && k > 0 && !gemms.iter().any(|gemm| gemm.n == n && gemm.k == k) {
                gemms.push(GemmShape { layer, n, k, block_shape });
            }
        }
        gemms
    }

    /// Which products around the experts are left out, as nobody here knows them; `None` where there are none, or weights are not FP8 with blocks.
    #[must_use]
    pub fn unknown_gemms(&self) -> Option<&'static str> {
        let storage = self.storage();
        storage.block_shape.filter(|_| storage.dtype == Some(Precision::Fp8W8A8))?;
        match self.family() {
            None => Some("all products but those of the experts, of which --moe does not tell"),
            Some(family) if family.attention == Attention::Other => Some("those of attention in this architecture"),
            Some(_) if self.number("index_n_heads").is_some() => Some("those of the indexer of sparse attention"),
            Some(_) => None,
        }
    }

    /// Whether the layers of a model without experts can be spread over so many ranks.
    ///
    /// # Errors
    /// What does not divide.
    pub fn divides(&self, tp: u32) -> Result<(), String> {
        for (field, what) in [("num_attention_heads", "attention heads"), ("intermediate_size", "intermediate size")] {
            if let Some(size) = self.number(field).filter(|size| !size.is_multiple_of(tp.max(1))) {
                let name = self.called();
                return Err(format!(
                    "{name}: found {size} as {what} on {tp} ranks, expected a number that {tp} divides"
                ));
            }
        }
        Ok(())
    }

    /// Layer, N and K of the products around attention.
    fn attention(&self, tp: u32) -> Option<Vec<(&'static str, u32, u32)>> {
        let hidden = self.number("hidden_size")?;
        let heads = self.number("num_attention_heads")?;
        let own = heads / tp;
        match self.family()?.attention {
            Attention::Other => None,
            Attention::Grouped => {
                let kv_heads = (self.number("num_key_value_heads").unwrap_or(heads) / tp).max(1);
                let size = self.number("head_dim").unwrap_or(hidden / heads.max(1));
                Some(vec![
                    ("qkv_proj", own.saturating_add(kv_heads.saturating_mul(2)).saturating_mul(size), hidden),
                    ("o_proj", hidden, own.saturating_mul(size)),
                ])
            }
            Attention::Latent => {
                let latent = self.number("kv_lora_rank")?;
                let rope = self.number("qk_rope_head_dim")?;
                let plain = self.number("qk_nope_head_dim")?;
                let value = self.number("v_head_dim")?;
                // The compressed queries, keys and values are the same on all ranks.
                let mut products = match self.number("q_lora_rank") {
                    Some(rank) => vec![
                        ("fused_qkv_a_proj", rank.saturating_add(latent).saturating_add(rope), hidden),
                        ("q_b_proj", own.saturating_mul(plain.saturating_add(rope)), rank),
                    ],
                    None => vec![
                        ("q_proj", own.saturating_mul(plain.saturating_add(rope)), hidden),
                        ("kv_a_proj", latent.saturating_add(rope), hidden),
                    ],
                };
                products.extend([
                    ("kv_b_proj", own.saturating_mul(plain.saturating_add(value)), latent),
                    ("o_proj", hidden, own.saturating_mul(value)),
                ]);
                Some(products)
            }
        }
    }

    /// Layer, N and K of the layers without experts, and of the shared experts.
    fn layers(&self, tp: u32, shared: bool) -> Option<Vec<(&'static str, u32, u32)>> {
        let hidden = self.number("hidden_size")?;
        let two = |names: [&'static str; 2], size: u32| {
            [(names[0], size.saturating_mul(2) / tp, hidden), (names[1], hidden, size / tp)]
        };
        let mut products = Vec::new();
        if !self.has_experts() || self.number("first_k_dense_replace").is_some_and(|layers| layers > 0) {
            let size = self.number("intermediate_size")?;
            products.extend(two(["gate_up_proj", "down_proj"], size));
        }
        let of_count = self.number("n_shared_experts").zip(self.number("moe_intermediate_size"));
        let size =
            self.number("shared_expert_intermediate_size").or(of_count.map(|(count, size)| count.saturating_mul(size)));
        if let Some(size) = size.filter(|size| *size > 0 && shared) {
            products.extend(two(["shared_experts.gate_up_proj", "shared_experts.down_proj"], size));
        }
        Some(products)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::shapes::AskedType;

    /// DeepSeek-V3, whose products vLLM's `benchmark_w8a8_block_fp8.py` lists.
    #[test]
    fn products_are_those_that_vllms_benchmark_lists() {
        let config = serde_json::from_str(
            r#"{"architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 7168, "intermediate_size": 18432,
            "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
            "num_attention_heads": 128, "num_key_value_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512,
            "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "first_k_dense_replace": 3,
            "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}"#,
        );
        let model = Model::of_config(Path::new("config.json"), config.unwrap(), AskedType::Auto).unwrap();
        let sizes = |tp, shared| {
            let gemms = model.gemms(Ranks { tp, ep: 1 }, shared);
            gemms.iter().map(|gemm| (gemm.n, gemm.k)).collect::<Vec<_>>()
        };
        let whole = [
            (2112, 7168),
            (24_576, 1536),
            (32_768, 512),
            (7168, 16_384),
            (36_864, 7168),
            (7168, 18_432),
            (4096, 7168),
            (7168, 2048),
        ];
        assert_eq!(sizes(1, true), whole);
        let eighth = [
            (2112, 7168),
            (3072, 1536),
            (4096, 512),
            (7168, 2048),
            (4608, 7168),
            (7168, 2304),
            (512, 7168),
            (7168, 256),
        ];
        assert_eq!(sizes(8, true), eighth);
        assert_eq!(sizes(8, false).len(), 6);
        let name = model.gemms(Ranks { tp: 1, ep: 1 }, true)[0].file_name(Engine::VLLM, "NVIDIA H200");
        let expected = "N=2112,K=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";
        assert_eq!(name.build(Engine::VLLM), expected);
    }

    #[test]
    fn what_is_not_known_of_a_model_is_said() {
        let of = |architecture: &str, more: &str| {
            let text = format!(
                r#"{{"architectures": ["{architecture}"], "hidden_size": 64, "moe_intermediate_size": 128, "num_experts": 8, "n_routed_experts": 8,
                "num_experts_per_tok": 2, {more} "quantization_config": {{"quant_method": "fp8", "weight_block_size": [128, 128]}}}}"#
            );
            let config = serde_json::from_str(&text).unwrap();
            Model::of_config(Path::new("config.json"), config, AskedType::Auto).unwrap().unknown_gemms()
        };
        assert_eq!(of("Qwen3MoeForCausalLM", ""), None);
        assert_eq!(of("Qwen3NextForCausalLM", ""), Some("those of attention in this architecture"));
        let sparse = of("DeepseekV32ForCausalLM", "\"index_n_heads\": 64,");
        assert_eq!(sparse, Some("those of the indexer of sparse attention"));
    }
}
