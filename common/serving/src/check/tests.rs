use std::path::Path;

use super::*;

const NAME: &str = "E=8,N=64,device_name=NVIDIA_H100_80GB_HBM3.json";

fn found(name: &str, text: &str) -> Found {
    let path = Path::new(name);
    let file_name = FileName::parse(&name_of(path));
    Found {
        path: path.to_path_buf(),
        engine: Engine::of_path(path),
        name: file_name,
        folder: Version::of_folder(path),
        document: Document::parse(path, text),
    }
}

fn told(name: &str, text: &str) -> Vec<String> {
    let strictness = Strictness { allow: [Rule::Gap].into(), ..Strictness::default() };
    let reports = check(&[found(name, text)], &strictness);
    reports[0].findings.iter().map(|finding| Located(&reports[0], finding).to_string()).collect()
}

fn row(fields: &str) -> String {
    format!("{{\"BLOCK_SIZE_M\": 64, \"BLOCK_SIZE_N\": 64, \"BLOCK_SIZE_K\": 64, \"GROUP_SIZE_M\": 1{fields}}}")
}

#[test]
fn each_finding_names_file_row_and_what_was_expected() {
    let one = |fields: &str| told(NAME, &format!("{{\"64\": {}}}", row(fields)));
    assert!(one("").is_empty());
    assert!(one(", \"num_ctas\": 1").is_empty());
    for (fields, expected) in [
        (", \"num_wraps\": 4", "64: error unknown-key: found \"num_wraps\", expected BLOCK_SIZE_M, BLOCK_SIZE_N"),
        (", \"kpack\": 2", "64: error unknown-key: found \"kpack\", expected it for AMD's GPUs alone"),
        (", \"num_warps\": 3", "64: error value: num_warps: found 3, expected a power of two"),
        (", \"num_stages\": 0", "64: error value: num_stages: found 0, expected a whole number from 1 on"),
        (", \"num_stages\": \"3\"", "64: error value: num_stages: found \"3\", expected a whole number from 1 on"),
        (
            ", \"num_stages\": 20",
            "64: error memory: 64x64x64 g1 s20: found 327680 bytes of shared memory a block, of at most 232448",
        ),
    ] {
        let told = one(fields);
        assert!(told.len() == 1 && told[0].starts_with(&format!("{NAME}: {expected}")), "{told:?}");
    }
    let all = |text: &str| told(NAME, text).join("\n");
    assert_eq!(all("{\"1\": 7}"), format!("{NAME}: 1: error row: found 7, expected an object of block sizes"));
    assert!(all("{\"1\": {}}").contains("1: error row: found no BLOCK_SIZE_M, expected it in every row"));
    assert_eq!(all("{\"best\": {}}"), format!("{NAME}: best: error key: found \"best\", expected a batch size"));
    assert_eq!(all("{\"0\": {}}"), format!("{NAME}: 0: error key: found \"0\", expected a batch size from 1 on"));
    let twice = all(&format!("{{\"1\": {0}, \"1\": {0}}}", row("")));
    assert_eq!(twice, format!("{NAME}: 1: error key: found the batch size twice, expected once: the last row counts"));
    let torn = all("{\"1\": {");
    assert!(torn.starts_with(&format!("{NAME}: the file: error torn: line 1, column 7: found EOF")), "{torn}");
    let version = all("{\"triton_version\": \"new\"}");
    assert!(version.contains("triton_version: error version: found \"new\", expected a version"), "{version}");
}

/// What runs is the Triton at hand, whatever made the file.
#[test]
fn the_triton_at_hand_goes_before_the_files() {
    let wide = row(", \"num_warps\": 4").replace("\"BLOCK_SIZE_M\": 64", "\"BLOCK_SIZE_M\": 256");
    let text = format!("{{\"triton_version\": \"3.6.0\", \"64\": {wide}}}");
    let rules = |triton: Option<&str>| {
        let triton = triton.map(|triton| triton.parse().unwrap());
        let strictness = Strictness { allow: [Rule::Gap, Rule::OtherTriton].into(), triton, ..Strictness::default() };
        check(&[found(NAME, &text)], &strictness)[0].findings.iter().map(|finding| finding.rule).collect::<Vec<_>>()
    };
    assert_eq!(rules(None), [Rule::Compiler]);
    assert_eq!(rules(Some("3.6.0")), [Rule::Compiler]);
    assert!(rules(Some("3.8.0")).is_empty());
}

#[test]
fn a_name_that_no_loader_builds_is_told_with_the_one_that_it_builds() {
    let text = format!("{{\"64\": {}}}", row(""));
    let blank = told("E=8,N=64,device_name=AMD Instinct MI300X.json", &text);
    assert!(
        blank[0].contains("expected E=8,N=64,device_name=AMD_Instinct_MI300X.json, which vllm's loader builds"),
        "{blank:?}"
    );
    let of_type = told("E=8,N=64,device_name=NVIDIA_H200,dtype=int8_w8a8.json", &text);
    assert!(of_type[0].contains("a type or a variant that vllm's loader never asks for"), "{of_type:?}");
    let bf16 = told("E=8,N=64,device_name=NVIDIA_H200,dtype=bf16.json", &text);
    assert!(bf16[0].contains("name: error name: found \"bf16\", expected dtype= fp8_w8a8"), "{bf16:?}");
}

#[test]
fn what_one_engine_lowers_is_wrong_for_the_other() {
    let large = row("").replace("\"BLOCK_SIZE_K\": 64", "\"BLOCK_SIZE_K\": 256");
    let text = format!("{{\"64\": {large}}}");
    let vllm = told("E=8,N=128,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json", &text);
    assert!(vllm.len() == 1 && vllm[0].contains("64: note lowered: BLOCK_SIZE_K: found 256, which is launched as 128"));
    let sglang =
        told("triton_3_6_0/E=8,N=128,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json", &text);
    assert!(sglang.len() == 1 && sglang[0].contains("64: error block: BLOCK_SIZE_K: found 256, expected a divisor"));
    let version = told("triton_3_6_0/E=8,N=128,device_name=NVIDIA_H200.json", "{\"triton_version\": \"3.6.0\"}");
    assert!(version[0].contains("expected no such key: sglang's loader takes batch sizes alone"), "{version:?}");
}

/// vLLM's launcher for products lowers nothing: its kernel takes one scale a step.
#[test]
fn products_are_launched_as_their_rows_say() {
    let of =
        |k: i64, name: &str| told(name, &format!("{{\"8\": {}}}", row("").replace("_K\": 64", &format!("_K\": {k}"))));
    let vllm =
        |sum, k| of(k, &format!("N=7168,K={sum},device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json"));
    let large = vllm(2048, 256);
    assert!(
        large.len() == 1
            && large[0].contains("8: error block: BLOCK_SIZE_K: found 256, expected a divisor of the block of 128")
    );
    assert!(vllm(2048, 64).is_empty());
    // All that one step sums over has one scale.
    assert!(vllm(128, 256).is_empty());
    // SGLang's loader raises smaller ones on AMD's GPUs.
    let sglang =
        |device, k| of(k, &format!("N=8,K=2048,device_name={device},dtype=fp8_w8a8,block_shape=[128, 128].json"));
    let raised = sglang("AMD_Instinct_MI300X", 64);
    assert!(
        raised.len() == 1 && raised[0].contains("note lowered: BLOCK_SIZE_K: found 64, which is launched as 128"),
        "{raised:?}"
    );
    assert!(sglang("NVIDIA_H200", 64).is_empty());
    assert!(sglang("NVIDIA_H200", 256)[0].contains("error block"));
}

#[test]
fn keys_of_products_are_those_of_their_kernels() {
    let name = |engine: &str, device: &str| {
        let separator = if engine == "vllm" { "," } else { ", " };
        format!("N=1792,K=5120,device_name={device},dtype=fp8_w8a8,block_shape=[32{separator}32].json")
    };
    let one =
        |name: &str, fields: &str| told(name, &format!("{{\"8\": {}}}", row(fields).replace("_K\": 64", "_K\": 32")));
    let (h200, b200) = (name("sglang", "NVIDIA_H200"), name("sglang", "NVIDIA_B200"));
    let split = ", \"SWAP_AB\": true, \"SPLIT_K\": 16";
    assert!(one(&h200, split).is_empty() && one(&h200, ", \"SWAP_AB\": true, \"SPLIT_K\": 1").is_empty());
    assert!(one(&b200, split)[0].contains("unknown-key: found \"SWAP_AB\", expected it for GPUs with Hopper's matrix"));
    assert!(one(&h200, ", \"SPLIT_K\": 1")[0].contains("expected SWAP_AB true or SPLIT_K above 1 with it"));
    assert!(one(&h200, ", \"SWAP_AB\": 1")[0].contains("SWAP_AB: found 1, expected true or false"));
    assert!(
        one(&name("vllm", "NVIDIA_H200"), split)[0].contains("unknown-key: found \"SWAP_AB\", expected BLOCK_SIZE_M")
    );
    // SGLang's launcher of products with a scale for each channel asks for five keys, and null is another kernel's.
    let channelwise = "N=512,K=4096,device_name=NVIDIA_H200,dtype=fp8_w8a8_channelwise.json";
    let fields = r#""BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "num_warps": 4, "num_stages": 3"#;
    assert!(told(channelwise, &format!("{{\"1\": null, \"8\": {{{fields}}}}}")).is_empty());
    let lacks = told(channelwise, &format!("{{\"8\": {{{}}}}}", fields.replace("num_stages", "num_ctas")));
    assert!(lacks.len() == 1 && lacks[0].contains("8: error row: found no num_stages"), "{lacks:?}");
}

#[test]
fn what_triton_does_not_compile_for_nvidia_is_told() {
    let one = |name: &str, k: i64, fields: &str| {
        let row = row(fields).replace("_K\": 64", &format!("_K\": {k}"));
        told(name, &format!("{{\"64\": {row}}}"))
    };
    let fp8 = "E=8,N=64,device_name=NVIDIA_H200,dtype=fp8_w8a8.json";
    assert!(one(NAME, 16, "").is_empty() && one(fp8, 32, "").is_empty());
    assert!(one(NAME, 8, "")[0].contains("64: error value: BLOCK_SIZE_K: found 8, expected at least 16"));
    assert!(one(fp8, 16, "")[0].contains("64: error value: BLOCK_SIZE_K: found 16, expected at least 32"));
    assert!(one("E=8,N=64,device_name=AMD_Instinct_MI300X.json", 8, "").is_empty());
    assert!(one(NAME, 64, ", \"num_warps\": 32").is_empty());
    let warps = one(NAME, 64, ", \"num_warps\": 64");
    assert!(
        warps[0].contains("num_warps: found 64, expected at most 32: a block has no more than 1024 threads"),
        "{warps:?}"
    );
    assert!(one(NAME, 64, ", \"maxnreg\": 128").is_empty());
    let amd = one("E=8,N=64,device_name=AMD_Instinct_MI300X.json", 64, ", \"maxnreg\": 128");
    assert!(amd[0].contains("unknown-key: found \"maxnreg\", expected it for NVIDIA's GPUs alone"), "{amd:?}");
}

#[test]
fn rows_of_four_bits_are_those_of_their_kernel() {
    let name = "E=8,N=128,device_name=NVIDIA_H100_80GB_HBM3,dtype=int4_w4a16.json";
    let one = |fields: &str| told(name, &format!("{{\"64\": {}}}", row(fields)));
    assert!(one(", \"SPLIT_K\": 1").is_empty());
    let without = one("");
    assert!(
        without.len() == 1 && without[0].contains("64: error row: found no SPLIT_K, expected 1: the kernel"),
        "{without:?}"
    );
    // vLLM chooses the tiles that a row lacks.
    let default = r#"{"64": {"BLOCK_SIZE_M": 64, "GROUP_SIZE_M": 1, "SPLIT_K": 1}}"#;
    assert!(told(name, default).is_empty());
    let sglang = told(&format!("triton_3_6_0/{name}"), default).join(" ");
    assert!(sglang.contains("found no BLOCK_SIZE_N") && sglang.contains("unknown-key: found \"SPLIT_K\""), "{sglang}");
    assert!(told(&format!("triton_3_6_0/{name}"), &format!("{{\"64\": {}}}", row(""))).is_empty());
}

#[test]
fn a_name_of_many_gpus_needs_to_be_told_which() {
    let text = format!("{{\"64\": {}}}", row(", \"num_stages\": 20"));
    let many = found("E=8,N=64,device_name=AMD_Radeon_Graphics.json", &text);
    let of = |gpu: Option<&str>| {
        let gpu = gpu.map(|name| Gpu::named(name).unwrap());
        let strictness = Strictness { allow: [Rule::Gap].into(), gpu, ..Strictness::default() };
        let findings = check(std::slice::from_ref(&many), &strictness).remove(0).findings;
        findings.into_iter().map(|finding| (finding.rule, finding.message)).collect::<Vec<_>>()
    };
    let expected = "found AMD_Radeon_Graphics, expected the name of one GPU, or --target: memory is not checked";
    assert_eq!(of(None), [(Rule::Device, expected.to_string())]);
    let bytes = "64x64x64 g1 s20: found 311296 bytes of shared memory a block, of at most 65536";
    assert_eq!(of(Some("gfx1151")), [(Rule::Memory, bytes.to_string())]);
    for wrong in ["x90", "gfx000"] {
        assert!(Gpu::named(wrong).unwrap_err().contains("expected an architecture"), "{wrong}");
    }
    // It is not said of another vendor's.
    let intel = found("E=8,N=64,device_name=Intel_Arc.json", &text);
    let strictness = Strictness { allow: [Rule::Gap].into(), gpu: Gpu::named("gfx1151").ok(), ..Strictness::default() };
    assert_eq!(check(&[intel], &strictness)[0].findings[0].rule, Rule::Device);
    // A name that says it is believed.
    let known = found(NAME, &format!("{{\"64\": {}}}", row(", \"num_stages\": 5")));
    let strictness = Strictness { gpu: Gpu::named("gfx1151").ok(), ..Strictness::default() };
    assert!(check(&[known], &strictness)[0].findings.iter().all(|finding| finding.rule == Rule::Gap));
}

#[test]
fn gaps_and_other_versions_are_warnings() {
    let file = found(NAME, &format!("{{\"triton_version\": \"3.4.0\", \"64\": {}}}", row("")));
    let strictness = Strictness { triton: Some("3.6.0".parse().unwrap()), ..Strictness::default() };
    let reports = check(&[file], &strictness);
    let told: Vec<_> = reports[0].findings.iter().map(|finding| (finding.rule, finding.severity)).collect();
    assert_eq!(told, [(Rule::OtherTriton, Severity::Warning), (Rule::Gap, Severity::Warning)]);
    let gap = &reports[0].findings[1].message;
    assert!(gap.starts_with("found none for 1, 2, 4, 8, 16, 24, 32, 48, 96, 128"), "{gap}");
    assert!(reports[0].has_findings() && reports[0].rows == 1);
}

#[test]
fn the_second_gemm_has_the_rows_of_the_first() {
    let text = format!("{{\"64\": {}}}", row(""));
    let other = text.replace("\"BLOCK_SIZE_M\": 64", "\"BLOCK_SIZE_M\": 16");
    let up = found("triton_3_6_0/E=8,N=64,device_name=NVIDIA_H200.json", &text);
    let down = found("triton_3_6_0/E=8,N=64,device_name=NVIDIA_H200_down.json", &other);
    let strictness = Strictness { allow: [Rule::Gap].into(), ..Strictness::default() };
    let alone = check(std::slice::from_ref(&down), &strictness);
    assert!(alone[0].findings[0].message.starts_with("found no E=8,N=64,device_name=NVIDIA_H200.json beside it"));
    let both = check(&[up, down], &strictness);
    let message = &both[1].findings[0].message;
    assert_eq!(message, "BLOCK_SIZE_M: found 16, expected 64 as the first GEMM has it");
    assert!(both[0].findings.is_empty());
    // Of a batch size without a row the first GEMM takes the nearest.
    let up = found("triton_3_6_0/E=8,N=64,device_name=NVIDIA_H200.json", &text);
    let more =
        found("triton_3_6_0/E=8,N=64,device_name=NVIDIA_H200_down.json", &other.replace("\"64\": {", "\"48\": {"));
    assert_eq!(check(&[up, more], &strictness)[1].findings[0].place, "48");
}

#[test]
fn what_is_found_of_several_rows_alike_is_said_once() {
    let (wrong, other) = (row(", \"num_warps\": 3"), row(", \"num_warps\": 5"));
    let text = format!("{{\"1\": {wrong}, \"2\": {other}, \"4\": {wrong}}}");
    let strictness = Strictness { allow: [Rule::Gap].into(), ..Strictness::default() };
    let reports = check(&[found(NAME, &text)], &strictness);
    assert_eq!(reports[0].findings.len(), 3);
    let places: Vec<String> = reports[0].told().into_iter().map(|finding| finding.place).collect();
    assert_eq!(places, ["1, 4", "2"]);
}
