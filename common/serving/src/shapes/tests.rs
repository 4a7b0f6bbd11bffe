use std::path::Path;

use super::*;

const MIXTRAL: &str = r#"{"architectures": ["MixtralForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
    "num_local_experts": 8, "num_experts_per_tok": 2, "num_attention_heads": 32, "num_key_value_heads": 8}"#;
const QWEN3: &str = r#"{"architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 2048, "intermediate_size": 6144,
    "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8}"#;
const DEEPSEEK: &str = r#"{"architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 7168, "intermediate_size": 18432,
    "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}"#;
const LLAMA4: &str = r#"{"architectures": ["Llama4ForConditionalGeneration"], "text_config": {"hidden_size": 5120,
    "intermediate_size": 8192, "num_local_experts": 16, "num_experts_per_tok": 1}}"#;
const GLM: &str = r#"{"architectures": ["Glm4MoeForCausalLM"], "hidden_size": 4096, "moe_intermediate_size": 1408,
    "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 8}"#;
const M2: &str = r#"{"architectures": ["MiniMaxM2ForCausalLM"], "hidden_size": 3072, "intermediate_size": 1536,
    "num_local_experts": 256, "num_experts_per_tok": 8,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}"#;
const BAILING: &str = r#"{"architectures": ["BailingMoeV3ForCausalLM"], "hidden_size": 4096, "moe_intermediate_size": 1024,
    "num_experts": 256, "num_experts_per_tok": 8, "num_shared_experts": 1}"#;
const NEXT: &str = r#"{"architectures": ["Qwen3NextForCausalLM"], "hidden_size": 2048, "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512, "num_experts": 512, "num_experts_per_tok": 10}"#;

fn model(text: &str, asked: AskedType) -> Result<Model, String> {
    let config = serde_json::from_str(text).unwrap();
    Model::of_config(Path::new("config.json"), config, asked).map_err(|error| error.to_string())
}

fn shape_on(text: &str, engine: Engine, tp: u32, ep: u32, maker: Maker) -> Result<[u32; 4], String> {
    let shape = model(text, AskedType::Auto)?.moes(engine, Ranks { tp, ep }, maker)?.remove(0);
    Ok([shape.experts, shape.intermediate, shape.hidden, shape.topk])
}

fn shape(text: &str, engine: Engine, tp: u32, ep: u32) -> Result<[u32; 4], String> {
    shape_on(text, engine, tp, ep, Maker::Nvidia)
}

#[test]
fn sizes_are_found_as_transformers_writes_them() {
    let of = |architecture: &str, fields: &str| {
        let text =
            format!(r#"{{"architectures": ["{architecture}"], "hidden_size": 64, "intermediate_size": 96, {fields}}}"#);
        shape(&text, Engine::SGLANG, 1, 1)
    };
    let usual = r#""num_local_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 32"#;
    for architecture in ["Qwen3MoeForCausalLM", "Qwen3VLMoeForConditionalGeneration", "MellumForCausalLM"] {
        assert_eq!(of(architecture, usual), Ok([16, 32, 64, 2]), "{architecture}");
    }
    let step = usual.replace("num_local_experts", "n_routed_experts");
    assert_eq!(of("Step3p7ForConditionalGeneration", &step), Ok([16, 32, 64, 2]));
    assert_eq!(of("HunYuanMoEV1ForCausalLM", r#""num_experts": 16, "moe_topk": 2"#), Ok([16, 96, 64, 2]));
}

#[test]
fn layers_are_spread_as_each_engine_spreads_them() {
    let (vllm, sglang) = (Engine::VLLM, Engine::SGLANG);
    assert_eq!(shape(MIXTRAL, vllm, 2, 1), Ok([8, 7168, 4096, 2]));
    assert_eq!(shape(QWEN3, vllm, 1, 1), Ok([128, 768, 2048, 8]));
    assert_eq!(shape(DEEPSEEK, vllm, 8, 1), Ok([256, 256, 7168, 8]));
    // The shared expert is one of SGLang's, unless experts are spread over ranks.
    assert_eq!(shape(DEEPSEEK, sglang, 8, 1), Ok([257, 256, 7168, 9]));
    assert_eq!(shape(DEEPSEEK, sglang, 8, 8), Ok([32, 2048, 7168, 8]));
    assert_eq!(shape(DEEPSEEK, sglang, 8, 2), Ok([128, 512, 7168, 8]));
    assert_eq!(shape(DEEPSEEK, vllm, 8, 8), Ok([32, 2048, 7168, 8]));
    assert_eq!(shape(DEEPSEEK, vllm, 1, 16), Ok([16, 2048, 7168, 8]));
    assert_eq!(shape_on(DEEPSEEK, sglang, 8, 8, Maker::Amd), Ok([33, 2048, 7168, 9]));
    assert_eq!(shape(LLAMA4, sglang, 8, 1), Ok([16, 1024, 5120, 1]));
    assert_eq!(shape(GLM, sglang, 4, 1), Ok([129, 352, 4096, 9]));
    assert_eq!(shape(GLM, vllm, 4, 1), Ok([128, 352, 4096, 8]));
    let sizes = Model::of_sizes([60, 1408, 2048, 4], Storage::default());
    assert_eq!(sizes.moes(vllm, Ranks { tp: 4, ep: 1 }, Maker::Nvidia).unwrap()[0].intermediate, 352);
    // vLLM gives four of eight ranks an expert more.
    let uneven = |engine| sizes.moes(engine, Ranks { tp: 8, ep: 8 }, Maker::Nvidia);
    assert_eq!(uneven(vllm).unwrap().iter().map(|shape| shape.experts).collect::<Vec<_>>(), [8, 7]);
    assert!(uneven(sglang).unwrap_err().contains("found 60 experts on 8 ranks, expected a number that 8 divides"));
}

#[test]
fn sglang_fuses_shared_experts_where_its_models_say_so() {
    let on =
        |text: &str, ep, maker| shape_on(text, Engine::SGLANG, 8, ep, maker).map(|[experts, .., topk]| (experts, topk));
    assert_eq!(on(NEXT, 1, Maker::Nvidia), Ok((513, 11)));
    assert_eq!(on(NEXT, 1, Maker::Amd), Ok((512, 10)));
    let next = NEXT.replace("Qwen3NextForCausalLM", "Qwen3_5MoeForConditionalGeneration");
    assert_eq!(on(&next, 1, Maker::Nvidia), Ok((512, 10)));
    let ling = BAILING.to_string();
    assert_eq!(on(&ling, 1, Maker::Nvidia), Ok((257, 9)));
    assert_eq!(on(&ling, 8, Maker::Nvidia), Ok((33, 9)));
    assert_eq!(
        on(&ling.replace("\"num_shared_experts\": 1", "\"num_shared_experts\": 2"), 1, Maker::Nvidia),
        Ok((256, 8))
    );
    let apart = r#"{"quantization_config": {"ignore": ["re:.*shared_experts.*"], "config_groups": {"group_0": {"weights":
        {"type": "float", "num_bits": 8}, "input_activations": {}}}}, "#;
    assert_eq!(on(&ling.replacen('{', apart, 1), 1, Maker::Nvidia), Ok((256, 8)));
    assert_eq!(shape(BAILING, Engine::VLLM, 8, 1), Ok([256, 128, 4096, 8]));
    let minimax =
        M2.replace("MiniMaxM2ForCausalLM", "MiniMaxM3SparseForCausalLM").replacen('{', "{\"n_shared_experts\": 1, ", 1);
    let (minimax, _) = minimax.split_once(",\n    \"quantization_config\"").unwrap();
    let minimax = format!("{minimax}}}");
    assert_eq!(on(&minimax, 1, Maker::Nvidia), Ok((257, 9)));
    assert_eq!(on(&minimax, 8, Maker::Nvidia), Ok((32, 8)));
    assert_eq!(on(&minimax, 1, Maker::Amd), Ok((256, 8)));
    assert_eq!(on(&minimax, 1, Maker::AmdCdna4), Ok((257, 9)));
    let dots = DEEPSEEK.replace("DeepseekV3ForCausalLM", "Dots3NoteForCausalLM");
    assert_eq!([Maker::Nvidia, Maker::Amd].map(|maker| on(&dots, 1, maker)), [Ok((257, 9)), Ok((256, 8))]);
    assert_eq!(on(&dots, 8, Maker::Nvidia), Ok((32, 8)));
    let vision = GLM.replace("Glm4MoeForCausalLM", "Glm4vMoeForConditionalGeneration");
    assert_eq!([Maker::Nvidia, Maker::Amd].map(|maker| on(&vision, 1, maker)), [Ok((129, 9)), Ok((128, 8))]);
}

/// What vLLM's `refine_fp8_moe_block_shape` makes of MiniMax-M2 and of Qwen3.
#[test]
fn vllm_makes_blocks_smaller_until_they_divide() {
    let block = |text: &str, engine, tp, ep| {
        let shapes = model(text, AskedType::Auto)?.moes(engine, Ranks { tp, ep }, Maker::Nvidia)?;
        Ok::<_, String>(shapes[0].storage.block_shape)
    };
    let of = |tp| block(M2, Engine::VLLM, tp, 1);
    assert_eq!((of(4), of(8), of(16)), (Ok(Some([128, 128])), Ok(Some([64, 64])), Ok(Some([32, 32]))));
    assert_eq!(block(M2, Engine::VLLM, 1, 8), Ok(Some([128, 128])));
    let error = of(32).unwrap_err();
    assert!(
        error.ends_with("found intermediate size 48 on each of 32 ranks, expected a multiple of the block of 128"),
        "{error}"
    );
    let name = model(M2, AskedType::Auto).unwrap().moes(Engine::VLLM, Ranks { tp: 8, ep: 1 }, Maker::Nvidia).unwrap();
    let expected = "E=256,N=192,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[64,64].json";
    assert_eq!(name[0].file_name(Engine::VLLM, "NVIDIA H200").build(Engine::VLLM), expected);
    // SGLang raises, and so does vLLM for other formats.
    let refused = "found intermediate size 192 on each of 8 ranks, expected a multiple of the block of 128";
    assert!(block(M2, Engine::SGLANG, 8, 1).unwrap_err().ends_with(refused));
    let other = r#""quantization_config": {"config_groups": {"group_0": {"weights": {"type": "float", "num_bits": 8,
        "strategy": "block", "block_structure": [128, 128]}, "input_activations": {}}}}}"#;
    let (head, _) = M2.split_once("\"quantization_config\"").unwrap();
    assert!(block(&format!("{head}{other}"), Engine::VLLM, 8, 1).unwrap_err().ends_with(refused));
}

#[test]
fn experts_without_a_gate_are_known() {
    let gated = |text: &str| model(text, AskedType::Auto).unwrap().is_gated;
    let nemotron = r#"{"architectures": ["NemotronHForCausalLM"], "hidden_size": 4096, "moe_latent_size": 1024,
        "moe_intermediate_size": 2688, "n_routed_experts": 512, "num_experts_per_tok": 22}"#;
    assert!(!gated(nemotron) && gated(QWEN3));
    assert_eq!(shape(nemotron, Engine::VLLM, 1, 1), Ok([512, 2688, 1024, 22]));
}

/// What the engines' own models hand to their experts, read in vLLM 0.33 and SGLang 0.5.23.
#[test]
fn models_with_ways_of_their_own_are_spread_as_they_are() {
    let (vllm, sglang) = (Engine::VLLM, Engine::SGLANG);
    let sizes = |text: &str, engine, tp, ep| {
        let shapes = model(text, AskedType::Auto)?.moes(engine, Ranks { tp, ep }, Maker::Nvidia)?;
        Ok::<_, String>(shapes.iter().map(|it| [it.experts, it.intermediate, it.hidden, it.topk]).collect::<Vec<_>>())
    };
    // vLLM pads what a rank has of an expert of Kimi's to 256 columns; routed experts may see fewer columns than the rest.
    let kimi = r#"{"architectures": ["KimiLinearForCausalLM"], "hidden_size": 2304, "moe_intermediate_size": 1024,
        "num_experts": 256, "num_experts_per_token": 8}"#;
    assert_eq!(shape(kimi, vllm, 4, 1), Ok([256, 256, 2304, 8]));
    assert_eq!(shape(kimi, vllm, 8, 1), Ok([256, 256, 2304, 8]));
    assert_eq!(shape(kimi, vllm, 8, 8), Ok([32, 1024, 2304, 8]));
    assert_eq!(shape_on(kimi, vllm, 8, 8, Maker::Amd), Ok([32, 2048, 2304, 8]));
    assert_eq!(shape(kimi, sglang, 8, 1), Ok([256, 128, 2304, 8]));
    let latent = kimi
        .replace("KimiLinearForCausalLM", "KimiK3LinearForCausalLM")
        .replace("2304", "7168, \"routed_expert_hidden_size\": 1024");
    assert_eq!(shape(&latent, sglang, 1, 1), Ok([256, 1024, 1024, 8]));
    // Text and pictures have experts of their own.
    let ernie = r#"{"architectures": ["Ernie4_5_VLMoeForConditionalGeneration"], "hidden_size": 2560, "moe_num_experts": [64, 64],
        "moe_intermediate_size": [1536, 512], "moe_k": 6}"#;
    assert_eq!(sizes(ernie, vllm, 2, 1), Ok(vec![[64, 768, 2560, 6], [64, 256, 2560, 6]]));
    assert_eq!(sizes(ernie, sglang, 1, 1), Ok(vec![[64, 1536, 2560, 6], [64, 512, 2560, 6]]));
    // The config counts the gate as well.
    let zaya = r#"{"architectures": ["ZayaForCausalLM"], "hidden_size": 2048, "ffn_hidden_size": 4096, "num_experts": 16,
        "moe_router_topk": 1}"#;
    assert_eq!(shape(zaya, sglang, 2, 1), Ok([16, 1024, 2048, 1]));
    let inkling = r#"{"architectures": ["InklingForConditionalGeneration"], "text_config": {"hidden_size": 4096,
        "intermediate_size": 768, "dense_intermediate_size": 12288, "n_routed_experts": 250, "num_experts_per_tok": 6}}"#;
    assert_eq!(shape(inkling, vllm, 4, 8), Ok([32, 768, 4096, 6]));
    assert!(shape(inkling, sglang, 8, 8).unwrap_err().contains("found 250 experts on 8 ranks"));
    assert_eq!(shape(inkling, sglang, 2, 1), Ok([250, 384, 4096, 6]));
    // SGLang spreads shared experts over all ranks, in a layer like the others where their weights are stored for it.
    let apart = inkling.replace(
        "\"hidden_size\"",
        "\"n_shared_experts\": 2, \"shared_expert_sink\": true, \"inference_moe_w13_interleaved\": false, \"hidden_size\"",
    );
    assert_eq!(sizes(&apart, sglang, 2, 2), Ok(vec![[125, 768, 4096, 6], [2, 384, 4096, 2]]));
    assert_eq!(sizes(&apart, vllm, 2, 1), Ok(vec![[250, 384, 4096, 6]]));
    assert_eq!(sizes(&apart.replace("false", "true"), sglang, 2, 1), Ok(vec![[250, 384, 4096, 6]]));
    let moondream = r#"{"architectures": ["Moondream3ForCausalLM"], "text_config": {"dim": 2048, "moe": {"num_experts": 64,
        "experts_per_token": 8, "expert_inner_dim": 1024}}}"#;
    assert_eq!(shape(moondream, vllm, 4, 1), Ok([16, 1024, 2048, 8]));
    assert!(shape(moondream, vllm, 3, 1).unwrap_err().contains("found 64 experts on 3 ranks"));
    for (name, engine) in [("BeamForCausalLM", vllm), ("BeamForCausalLM", sglang), ("XllmForCausalLM", sglang)] {
        let text = QWEN3.replace("Qwen3MoeForCausalLM", name);
        assert_eq!(shape(&text, engine, 2, 1), Ok([128, 384, 2048, 8]), "{name}");
    }
}

#[test]
fn layers_of_nemotron_are_what_its_pattern_says() {
    let nemotron = r#"{"architectures": ["NemotronHForCausalLM"], "hidden_size": 4096, "intermediate_size": 21504,
        "n_routed_experts": 8, "moe_intermediate_size": 7688, "num_experts_per_tok": 2, "hybrid_override_pattern": "ME*-"}"#;
    assert_eq!(shape(nemotron, Engine::VLLM, 2, 1), Ok([8, 3844, 4096, 2]));
    for dense in [r#""hybrid_override_pattern": "M-*-""#, r#""layers_block_type": ["mamba", "mlp", "attention"]"#] {
        let text = nemotron.replace(r#""hybrid_override_pattern": "ME*-""#, dense);
        assert!(!model(&text, AskedType::Auto).unwrap().has_experts(), "{dense}");
        let plain = text.replace(r#""n_routed_experts": 8, "moe_intermediate_size": 7688, "#, "");
        assert!(!model(&plain, AskedType::Auto).unwrap().has_experts(), "what it has not is not asked for");
    }
    assert!(model(&nemotron.replace("ME*-", ""), AskedType::Auto).is_ok_and(|model| !model.has_experts()));
    let both = r#""hybrid_override_pattern": "M-*-", "layers_block_type": ["mamba", "moe"]"#;
    let listed = nemotron.replace(r#""hybrid_override_pattern": "ME*-""#, both);
    assert_eq!(shape(&listed, Engine::SGLANG, 2, 1), Ok([8, 3844, 4096, 2]), "the list counts");
    // Its puzzle says for each layer what it is made of.
    let puzzle = r#"{"architectures": ["NemotronHPuzzleForCausalLM"], "hidden_size": 2048, "num_experts_per_tok": 6,
        "hybrid_override_pattern": "ME-E", "moe_intermediate_size": 1856, "block_configs": [{"block_type": "mamba"},
        {"block_type": "moe", "n_routed_experts": 96}, {"block_type": "mlp", "intermediate_size": 5},
        {"block_type": "moe", "n_routed_experts": 64, "moe_intermediate_size": 1024, "moe_latent_size": 512, "num_experts_per_tok": 4}]}"#;
    let shapes = model(puzzle, AskedType::Auto).unwrap().moes(Engine::VLLM, Ranks { tp: 2, ep: 1 }, Maker::Nvidia);
    let sizes = |it: &MoeShape| [it.experts, it.intermediate, it.hidden, it.topk];
    assert_eq!(shapes.unwrap().iter().map(sizes).collect::<Vec<_>>(), [[96, 928, 2048, 6], [64, 512, 512, 4]]);
    let none = r#"{"architectures": ["NemotronHPuzzleForCausalLM"], "hidden_size": 2048, "intermediate_size": 5, "n_routed_experts": 128,
        "moe_intermediate_size": 1856, "num_experts_per_tok": 6, "block_configs": [{"block_type": "mlp"}]}"#;
    assert!(model(none, AskedType::Auto).is_ok_and(|model| !model.has_experts()), "none of its layers has any");
}

#[test]
fn redundant_experts_are_experts_of_a_rank() {
    let of = |text: &str, engine, ep, redundant| {
        let model = model(text, AskedType::Auto)?.with_redundant(redundant);
        let shapes = model.moes(engine, Ranks { tp: 8, ep }, Maker::Nvidia)?;
        Ok::<_, String>(shapes.iter().map(|it| (it.experts, it.intermediate, it.topk)).collect::<Vec<_>>())
    };
    assert_eq!(of(DEEPSEEK, Engine::VLLM, 8, 32), Ok(vec![(36, 2048, 8)]));
    assert_eq!(of(DEEPSEEK, Engine::SGLANG, 8, 32), Ok(vec![(36, 2048, 8)]));
    // SGLang has them without ranks of experts as well, and a shared expert beside them.
    assert_eq!(of(DEEPSEEK, Engine::SGLANG, 1, 32), Ok(vec![(289, 256, 9)]));
    let alone = of(DEEPSEEK, Engine::VLLM, 1, 32).unwrap_err();
    assert!(alone.ends_with(
        "found 32 redundant experts with --ep 1, expected --ep of 2 or more: vLLM has them where experts are spread"
    ));
    let uneven = of(DEEPSEEK, Engine::VLLM, 8, 3).unwrap_err();
    assert!(uneven.ends_with("found 259 experts on 8 ranks, expected a number that 8 divides"), "{uneven}");
    let none = of(GLM, Engine::SGLANG, 8, 32).unwrap_err();
    assert!(
        none.ends_with("found 32 redundant experts, expected none: sglang's model has no place for them"),
        "{none}"
    );
}

#[test]
fn layers_that_are_not_quantised_have_files_of_their_own() {
    let of = |names: &str, engine: Engine| {
        let text = DEEPSEEK.replacen('{', "{\"num_hidden_layers\": 4, \"first_k_dense_replace\": 2, ", 1);
        let text = text.replace("\"fp8\",", &format!("\"fp8\", \"modules_to_not_convert\": [{names}],"));
        let shapes =
            model(&text, AskedType::Auto).unwrap().moes(engine, Ranks { tp: 8, ep: 1 }, Maker::Nvidia).unwrap();
        shapes.iter().map(|shape| shape.storage.dtype).collect::<Vec<_>>()
    };
    let fp8 = Some(Precision::Fp8W8A8);
    assert_eq!(of("\"model.layers.3.mlp.experts\"", Engine::VLLM), [fp8, None]);
    assert_eq!(of("\"model.layers.2.mlp.experts\", \"model.layers.3.mlp.experts\"", Engine::VLLM), [None]);
    assert_eq!(of("\"mlp.experts\"", Engine::VLLM), [fp8]);
    assert_eq!(of("\"mlp.experts\"", Engine::SGLANG), [None]);
    assert_eq!(of("\"model.layers.4.mlp.experts\"", Engine::SGLANG), [fp8]);
}

/// Layers of 16 bits have a file, though the engine reads none for the others.
#[test]
fn layers_that_are_not_quantised_have_files_beside_those_that_have_none() {
    let of = |said: &str, engine: Engine| {
        let head = format!("{{\"num_hidden_layers\": 6, \"quantization_config\": {{{said}}}, ");
        let model = model(&QWEN3.replacen('{', &head, 1), AskedType::Auto)?;
        let shapes = model.moes(engine, Ranks { tp: 1, ep: 1 }, Maker::Nvidia)?;
        Ok::<_, String>((shapes.iter().map(|shape| shape.storage.dtype).collect::<Vec<_>>(), model.note(engine)))
    };
    for said in [
        r#""quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["model.layers.4.mlp.experts*"]"#,
        r#""quant_method": "quark", "exclude": ["re:.*layers\\.5\\..*"],
            "global_quant_config": {"weight": {"dtype": "fp4", "qscheme": "per_group"}, "input_tensors": {"dtype": "fp4"}}"#,
    ] {
        for engine in Engine::ALL {
            let (types, note) = of(said, engine).unwrap();
            assert_eq!(types, [None], "{said}");
            assert!(note.unwrap().contains(&format!("in some layers: {engine} reads no config file for these")));
        }
    }
    // All layers to vLLM, none to SGLang.
    for (said, refused) in [
        (
            r#""quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["mlp.experts"]"#,
            "found weights of NVFP4: sglang reads no config file",
        ),
        (
            r#""quant_method": "modelopt", "quant_algo": "ODD", "ignore": ["mlp.experts"]"#,
            "quantization_config.quant_method: found \"modelopt\", expected a quantisation",
        ),
    ] {
        assert_eq!(of(said, Engine::VLLM), Ok((vec![None], None)));
        assert!(of(said, Engine::SGLANG).unwrap_err().contains(refused), "{said}");
    }
}

#[test]
fn a_model_that_holds_another_one_has_its_sizes() {
    let inner = QWEN3.to_string();
    let outer = format!(
        r#"{{"architectures": ["InternVLChatModel"], "llm_config": {inner}, "quantization_config": {{"quant_method": "fp8"}}}}"#
    );
    assert_eq!(shape(&outer, Engine::VLLM, 1, 1), Ok([128, 768, 2048, 8]));
    assert_eq!(model(&outer, AskedType::Auto).unwrap().storage().dtype, Some(Precision::Fp8W8A8));
    let without = model(r#"{"architectures": ["InternVLChatModel"]}"#, AskedType::Auto).unwrap_err();
    assert!(without.starts_with("config.json: llm_config.architectures: found no list of names"), "{without}");
}

#[test]
fn files_are_called_as_the_loader_calls_them() {
    let name = |text, engine: Engine, tp| {
        let shape =
            model(text, AskedType::Auto).unwrap().moes(engine, Ranks { tp, ep: 1 }, Maker::Nvidia).unwrap().remove(0);
        shape.file_name(engine, "NVIDIA H200").build(engine)
    };
    assert_eq!(name(MIXTRAL, Engine::VLLM, 2), "E=8,N=7168,device_name=NVIDIA_H200.json");
    let vllm = "E=256,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";
    assert_eq!(name(DEEPSEEK, Engine::VLLM, 8), vllm);
    let sglang = "E=257,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json";
    assert_eq!(name(DEEPSEEK, Engine::SGLANG, 8), sglang);
}

#[test]
fn the_type_may_be_said() {
    let storage = |asked| model(DEEPSEEK, asked).unwrap().storage();
    assert_eq!(storage(AskedType::Half), Storage::default());
    assert_eq!(storage(AskedType::Of(Precision::Fp8W8A8)), storage(AskedType::Auto));
    let int8 = Storage { dtype: Some(Precision::Int8W8A16), ..Storage::default() };
    assert_eq!(storage(AskedType::Of(Precision::Int8W8A16)), int8);
}

#[test]
fn groups_are_halved_until_they_divide_a_rank() {
    let of = |group, tp| {
        let model = model(MIXTRAL, AskedType::Auto).unwrap().stored(Storage::grouped(Precision::Int4W4A16, group));
        model.moes(Engine::SGLANG, Ranks { tp, ep: 1 }, Maker::Amd).map(|mut shapes| shapes.remove(0))
    };
    let whole = of(128, 8).unwrap();
    assert_eq!(whole.storage.group(), Some(128));
    assert_eq!(of(128, 32).unwrap().storage.group(), Some(64));
    let error = of(128, 1024).unwrap_err();
    assert!(
        error.contains("found sizes 14 and 4096 in groups of 128, expected multiples of it, or of its half"),
        "{error}"
    );
    // SGLang's loader takes N of the packed weights, vLLM's does not.
    let name = |engine| whole.file_name(engine, "AMD Instinct MI300X").build(engine);
    assert_eq!(name(Engine::SGLANG), "E=8,N=896,device_name=AMD_Instinct_MI300X,dtype=int4_w4a16.json");
    assert_eq!(name(Engine::VLLM), "E=8,N=1792,device_name=AMD_Instinct_MI300X,dtype=int4_w4a16.json");
    let parsed = FileName::parse(&name(Engine::SGLANG)).unwrap();
    assert_eq!(parsed.unpacked(Engine::SGLANG), Layer::Moe { experts: 8, intermediate: 1792 });
}

#[test]
fn what_is_no_such_model_is_one_error() {
    let error = |text| model(text, AskedType::Auto).unwrap_err();
    assert_eq!(error("{}"), "config.json: architectures: found no list of names, expected the config.json of a model");
    let dense = error(r#"{"architectures": ["BertModel"]}"#);
    assert!(
        dense.starts_with("config.json: architectures: found \"BertModel\", expected one that is known"),
        "{dense}"
    );
    assert!(
        dense.ends_with("says experts, intermediate size of one, hidden size and experts a token for any model"),
        "{dense}"
    );
    let none = error(r#"{"architectures": ["JambaForCausalLM"], "hidden_size": 64}"#);
    assert!(
        none.starts_with(
            "config.json: num_experts: found no num_experts or num_local_experts of JambaForCausalLM, expected"
        ),
        "{none}"
    );
    let mxfp4 = MIXTRAL.replacen('{', "{\"quantization_config\": {\"quant_method\": \"mxfp4\"}, ", 1);
    let never = shape(&mxfp4, Engine::VLLM, 1, 1).unwrap_err();
    let expected = "config.json: MixtralForCausalLM: found weights of mxfp4: vllm reads no config file for such experts, expected others, \
        or --dtype if they are stored otherwise";
    assert_eq!(never, expected);
    let vptq = mxfp4.replace("mxfp4", "vptq");
    assert!(error(&vptq).contains("quantization_config.quant_method: found \"vptq\""));
    assert!(model(&mxfp4, AskedType::Half).is_ok());

    let spread = |text, engine, tp, ep| shape(text, engine, tp, ep).unwrap_err();
    let experts = spread(MIXTRAL, Engine::VLLM, 1, 9);
    assert_eq!(
        experts,
        "config.json: MixtralForCausalLM: found 8 experts on 9 ranks, expected a number that 9 divides"
    );
    let size = spread(QWEN3, Engine::VLLM, 5, 1);
    assert_eq!(
        size,
        "config.json: Qwen3MoeForCausalLM: found intermediate size 768 on 5 ranks, expected one that 5 divides"
    );
    let block = spread(DEEPSEEK, Engine::SGLANG, 32, 1);
    assert!(block.ends_with("expected a multiple of the block of 128"), "{block}");
    let odd = error(&MIXTRAL.replace("\"num_local_experts\": 8", "\"num_local_experts\": \"8\""));
    let expected =
        "config.json: num_local_experts: found \"8\", expected a number of experts, a whole number from 1 on";
    assert_eq!(odd, expected);
    let alice = QWEN3.replace("Qwen3MoeForCausalLM", "AliceAIForCausalLM");
    let other = spread(&alice, Engine::SGLANG, 1, 1);
    assert!(other.contains("found an architecture that sglang has no model of its own for"), "{other}");
    assert!(spread(MIXTRAL, Engine::SGLANG, 2, 4).contains("expected a divisor of --tp"));
    assert!(spread(MIXTRAL, Engine::VLLM, 8, 4).contains("expected a multiple of --tp"));
}
