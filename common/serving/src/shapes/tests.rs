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
const NEXT: &str = r#"{"architectures": ["Qwen3NextForCausalLM"], "hidden_size": 2048, "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512, "num_experts": 512, "num_experts_per_tok": 10}"#;

fn model(text: &str, asked: AskedType) -> Result<Model, String> {
    let config = serde_json::from_str(text).unwrap();
    Model::of_config(Path::new("config.json"), config, asked).map_err(|error| error.to_string())
}

fn shape(text: &str, engine: Engine, tp: u32, ep: u32) -> Result<[u32; 4], String> {
    let shape = model(text, AskedType::Auto)?.moe(engine, Ranks { tp, ep }, Vendor::Nvidia)?;
    Ok([shape.experts, shape.intermediate, shape.hidden, shape.topk])
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
    let amd = model(DEEPSEEK, AskedType::Auto).unwrap().moe(sglang, Ranks { tp: 8, ep: 8 }, Vendor::Amd).unwrap();
    assert_eq!((amd.experts, amd.topk), (33, 9));
    assert_eq!(shape(LLAMA4, sglang, 8, 1), Ok([16, 1024, 5120, 1]));
    assert_eq!(shape(GLM, sglang, 4, 1), Ok([129, 352, 4096, 9]));
    assert_eq!(shape(GLM, vllm, 4, 1), Ok([128, 352, 4096, 8]));
    assert_eq!(shape(NEXT, sglang, 1, 1), Ok([513, 512, 2048, 11]));
    let sizes = Model::of_sizes([60, 1408, 2048, 4], Storage::default());
    assert_eq!(sizes.moe(vllm, Ranks { tp: 4, ep: 1 }, Vendor::Nvidia).unwrap().intermediate, 352);
}

#[test]
fn files_are_called_as_the_loader_calls_them() {
    let name = |text, engine: Engine, tp| {
        let shape = model(text, AskedType::Auto).unwrap().moe(engine, Ranks { tp, ep: 1 }, Vendor::Nvidia).unwrap();
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
        let model =
            model(MIXTRAL, AskedType::Auto).unwrap().stored(Some(Storage::grouped(Precision::Int4W4A16, group)));
        model.moe(Engine::SGLANG, Ranks { tp, ep: 1 }, Vendor::Amd)
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
    assert!(dense.starts_with("config.json: architectures: found \"BertModel\", expected one with experts"), "{dense}");
    assert!(dense.ends_with("--moe E,N,K,TOPK says them for any model"), "{dense}");
    let none = error(r#"{"architectures": ["JambaForCausalLM"], "hidden_size": 64}"#);
    assert!(none.starts_with("config.json: num_experts: found no num_experts of JambaForCausalLM, expected"), "{none}");
    let mxfp4 = MIXTRAL.replacen('{', "{\"quantization_config\": {\"quant_method\": \"mxfp4\"}, ", 1);
    assert!(error(&mxfp4).contains("quantization_config: found quant_method \"mxfp4\""));
    assert!(model(&mxfp4, AskedType::Half).is_ok());

    let spread = |text, engine, tp, ep| shape(text, engine, tp, ep).unwrap_err();
    let experts = spread(MIXTRAL, Engine::VLLM, 1, 3);
    assert_eq!(experts, "MixtralForCausalLM: found 8 experts on 3 ranks, expected a number that 3 divides");
    let size = spread(QWEN3, Engine::VLLM, 5, 1);
    assert_eq!(size, "Qwen3MoeForCausalLM: found intermediate size 768 on 5 ranks, expected one that 5 divides");
    let block = spread(DEEPSEEK, Engine::VLLM, 32, 1);
    assert!(block.ends_with("expected a multiple of the block of 128"), "{block}");
    assert!(spread(MIXTRAL, Engine::SGLANG, 2, 4).contains("expected a divisor of --tp"));
    assert!(spread(MIXTRAL, Engine::VLLM, 8, 4).contains("expected a multiple of --tp"));
}
