//! A capture becomes specs that load, and winners come back in Triton's own form.

use std::path::Path;

use bluefin_kernel_spec::{Bundle, KernelSpec};
use serde_json::{Value as Json, json};

use crate::{CacheOf, Captured, Choice, Process, Tuned, Winner, Winners};

const NAME: &str = "scale-0badcafe";

fn config(block: u64, warps: u64, grid: u64) -> Json {
    json!({
        "kwargs": { "BLOCK": { "int": block } },
        "options": { "num_warps": { "int": warps }, "num_ctas": { "int": 1 }, "num_stages": { "int": 3 } }, "computed": { "EVEN": { "bool": false } }, "grid": [grid, 2, 1], "read": ["BLOCK"], "text": format!("BLOCK: {block}"),
    })
}

fn document() -> Json {
    let tensor = |name: &str, buffer: &str, offset: u64| json!({ "name": name, "kind": "tensor", "buffer": buffer, "offset": offset, "shape": [10, 100], "strides": [100, 1] });
    json!({
        "format": 1, "function": "scale", "file": "/home/bench.py", "line": 7, "triton": "3.9.0",
        "target": { "backend": "hip", "arch": "gfx942", "warp_size": 64 }, "key": [1000, "torch.bfloat16"],
        "arguments": [
            tensor("x", "x", 0), tensor("y", "x", 500), tensor("out", "out", 0), { "name": "none", "kind": "none" },
            { "name": "n", "kind": "int", "value": 1000 }, { "name": "far", "kind": "int", "value": 5_000_000_000_u64 },
            { "name": "huge", "kind": "int", "value": u64::MAX }, { "name": "by", "kind": "float", "value": 0.5 },
            { "name": "yes", "kind": "bool", "value": true }, { "name": "BLOCK", "kind": "param" }, { "name": "EVEN", "kind": "param" },
            { "name": "MODE", "kind": "constexpr", "value": { "str": "" } },
            { "name": "SHAPE", "kind": "constexpr", "value": { "tuple": [{ "int": 2 }, { "none": true }] } },
        ],
        "buffers": [
            { "name": "x", "dtype": "bf16", "elements": 1000, "role": "input", "low": -1.5, "high": 2.0, "rms": null, "data": null },
            { "name": "out", "dtype": "fp32", "elements": 1000, "role": "inout", "low": 0.0, "high": 0.0, "rms": 3.0, "data": null },
        ],
        "launch_options": {}, "configs": [config(64, 2, 16), config(256, 4, 4)], "chosen": "BLOCK: 256",
        "widened": {
            "params": { "BLOCK": [{ "int": 64 }, { "int": 128 }, { "int": 256 }] },
            "cases": [
                { "values": { "BLOCK": { "int": 64 } }, "grid": [16, 2, 1] }, { "values": { "BLOCK": { "int": 128 } }, "grid": [8, 2, 1] },
                { "values": { "BLOCK": { "int": 256 } }, "grid": [4, 2, 1] },
            ],
        },
        "not_widened": null, "function_digest": "abc", "source": "k_bench.py", "files": ["k_bench.py", "k_ops.py"],
        "cache": { "folder": "ABC", "file": "scale.autotune.json", "elsewhere": { "sm_90": "DEF" } },
    })
}

fn put(folder: &Path, document: &Json) -> Captured {
    let folder = folder.join(NAME);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("capture.json"), document.to_string()).unwrap();
    for name in ["k_bench.py", "k_ops.py"] {
        std::fs::write(folder.join(name), "# tl.dot(a, b)\n").unwrap();
    }
    Captured::read(&folder).unwrap()
}

fn load(folder: &Path, name: &str) -> KernelSpec {
    KernelSpec::load(&Bundle::read(&folder.join(NAME).join(name)).unwrap()).unwrap()
}

#[test]
fn a_capture_becomes_two_specs_that_load() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), &document()).write_specs().unwrap().unwrap();
    let listed = load(folder.path(), "spec.toml");
    assert_eq!(listed.name, NAME);
    let listed = listed.solver("scale").unwrap();
    assert_eq!(listed.listed(), Some(2));
    // What ran is the default.
    assert_eq!(listed.default_candidate().to_string(), "scale:256,false,3,4");
    let widened = load(folder.path(), "widened.toml");
    let widened = widened.solver("scale").unwrap();
    assert_eq!((widened.space(), widened.default_candidate().to_string()), (3 * 3 * 4, "scale:256,3,4".to_string()));
    let text = std::fs::read_to_string(folder.path().join(NAME).join("spec.toml")).unwrap();
    for part in [
        "arguments = [\"x\", { buffer = \"x\", offset = 500 }, \"out\", \"none\", { i32 = 1000 }, { i64 = 5000000000 }, \
         { u64 = \"18446744073709551615\" }, { f32 = 0.5 }, { i1 = true }]",
        "grid = [\"ceil_div(1000, BLOCK)\", \"2\"]",
        "low = -1.5\nhigh = 2.0",
        "role = \"inout\"\nfill = 0.0",
        "SHAPE = [2, { none = true }]",
        // Of bfloat16, and of numbers of this size.
        "[tolerance.FP32]\nabsolute = 0.12\nrelative = 0.04",
    ] {
        assert!(text.contains(part), "{part}\nin\n{text}");
    }
    // Where all is FP32 and no matrices are multiplied, sums in another order are all that differs.
    let mut plain = document();
    plain["buffers"][0]["dtype"] = "fp32".into();
    for (source, expected) in
        [("# tl.dot(a, b)\n", "0.012\nrelative = 0.004"), ("# source\n", "0.0015\nrelative = 0.0005")]
    {
        let captured = put(folder.path(), &plain);
        for name in ["k_bench.py", "k_ops.py"] {
            std::fs::write(folder.path().join(NAME).join(name), source).unwrap();
        }
        captured.write_specs().unwrap().unwrap();
        let listed = std::fs::read_to_string(folder.path().join(NAME).join("spec.toml")).unwrap();
        assert!(listed.contains(&format!("[tolerance.FP32]\nabsolute = {expected}")), "{listed}");
    }
}

/// A capture whose configs differ in these values of MODE, widened, with the one of them that won.
fn of_modes(folder: &Path, modes: [Json; 2]) -> Captured {
    let mut document = document();
    for (config, mode) in document["configs"].as_array_mut().unwrap().iter_mut().zip(&modes) {
        config["kwargs"]["MODE"] = mode.clone();
        config["read"] = json!(["BLOCK", "MODE"]);
    }
    document["configs"][1]["grid"] = json!([5, 2, 1]);
    document["arguments"][11] = json!({ "name": "MODE", "kind": "param" });
    document["widened"]["params"]["MODE"] = json!(modes);
    for case in document["widened"]["cases"].as_array_mut().unwrap() {
        case["values"]["MODE"] = modes[0].clone();
    }
    put(folder, &document)
}

#[test]
fn values_that_no_param_has_are_words() {
    let folder = tempfile::tempdir().unwrap();
    let dtype = json!({ "dtype": "fp16" });
    for (modes, word, plain) in [
        ([json!({ "str": "" }), json!({ "str": "a-b" })], "text_a_b", Some(json!("a-b"))),
        ([json!({ "float": 0.5 }), json!({ "tuple": [{ "int": 2 }] })], "tuple_2", Some(json!([2]))),
        ([json!({ "str": "fp16" }), dtype], "fp16_2", None),
        ([json!({ "bool": false }), json!({ "bool": true })], "true", Some(json!(true))),
    ] {
        let captured = of_modes(folder.path(), modes.clone());
        captured.write_specs().unwrap().unwrap();
        let listed = load(folder.path(), "spec.toml");
        let candidate = listed.solver("scale").unwrap().default_candidate();
        assert_eq!(candidate.to_string(), format!("scale:256,false,{word},3,4"));
        let widened = load(folder.path(), "widened.toml");
        assert_eq!(widened.solver("scale").unwrap().space(), 3 * 2 * 3 * 4);
        let text = std::fs::read_to_string(folder.path().join(NAME).join("spec.toml")).unwrap();
        assert!(text.contains("grid = [\"if MODE == "), "{text}");

        // What won comes back as the program has it, by either way.
        let told = if word == "true" { json!(true) } else { json!(word) };
        let params = [("BLOCK".to_string(), json!(256)), ("MODE".to_string(), told)].into();
        let by_name = [(NAME.to_string(), Winner { params, median_ms: 0.125, over_default: None })].into();
        let winners = Winners { architecture: "gfx942".to_string(), by_name };
        let tuned = Tuned::of(std::slice::from_ref(&captured), &winners);
        let document: Json = serde_json::from_str(&tuned.document()).unwrap();
        assert_eq!(document["kernels"][0]["kwargs"]["MODE"], modes[1]);
        let cache = folder.path().join("cache/ABC");
        std::fs::create_dir_all(&cache).unwrap();
        let Some(plain) = plain else {
            let why = "a config has a type among its values, which Triton's cache can not hold";
            assert_eq!(tuned.uncached(), [(NAME.to_string(), why.to_string())]);
            continue;
        };
        let [file] = tuned.cached() else { panic!("{:?}", tuned.uncached()) };
        std::fs::write(cache.join(&file.file), file.text()).unwrap();
        let choice = Choice::all(&folder.path().join("cache"), &captured).unwrap().remove("gfx942").unwrap();
        assert_eq!(choice.config["kwargs"]["MODE"], plain);
        assert_eq!(choice.params(&captured).unwrap()["MODE"].to_string(), word);
    }
}

#[test]
fn what_no_spec_can_say_is_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |change: &dyn Fn(&mut Json)| {
        let mut document = document();
        change(&mut document);
        put(folder.path(), &document).write_specs().unwrap().unwrap_err()
    };
    let reason = refused(&|document| document["buffers"][0]["dtype"] = json!("fp8e4b15"));
    assert_eq!(reason, "x: found elements of fp8e4b15, which bluefin has none of");
    let reason = refused(&|document| document["buffers"][1]["role"] = json!("input"));
    assert_eq!(reason, "it writes nothing that can be compared");
    let error = |text: &str| {
        std::fs::write(folder.path().join(NAME).join("capture.json"), text).unwrap();
        Captured::read_all(folder.path()).unwrap_err().to_string()
    };
    assert!(error("{").contains("capture.json: "), "{}", error("{"));
    for place in ["..", "../up", "/etc", "a/b", ""] {
        let mut elsewhere = document();
        elsewhere["cache"]["folder"] = json!(place);
        let said = error(&elsewhere.to_string());
        assert!(said.ends_with(&format!("cache: found {place:?}, expected the name of a file")), "{said}");
    }
    let mut newer = document();
    newer["format"] = json!(9);
    assert!(error(&newer.to_string()).ends_with("format: found 9, expected 1"));
    assert!(
        Captured::read_all(&folder.path().join(NAME))
            .unwrap_err()
            .to_string()
            .contains("found no folder with a capture.json")
    );
}

#[test]
fn winners_come_back_as_triton_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let captured = put(folder.path(), &document());
    let exported = json!({ "target": "gfx942-304", "kernels": { NAME: { "": {
        "solver": "scale", "median_ms": 0.25, "kwargs": { "BLOCK": 128, "EVEN": false }, "num_warps": 8,
    } }, "other": { "m=1": { "median_ms": 1.0, "kwargs": {} } } } });
    let path = folder.path().join("triton.json");
    std::fs::write(&path, exported.to_string()).unwrap();
    let winners = Winners::read(&path).unwrap();
    let tuned = Tuned::of(&[captured], &winners);
    let [file] = tuned.cached() else { panic!("{:?}", tuned.cached()) };
    assert_eq!((file.cache, &*file.folder, &*file.file), (CacheOf::Triton, "ABC", "scale.autotune.json"));
    let config = json!({
        "kwargs": { "BLOCK": 128 }, "num_warps": 8, "num_ctas": 1, "num_stages": 3, "maxnreg": null, "pre_hook": null, "ir_override": null,
    });
    let expected = json!({ "key": [1000, "torch.bfloat16"], "configs_timings": [[config, [0.25, 0.25, 0.25]]] });
    assert_eq!(serde_json::from_str::<Json>(&file.text()).unwrap(), expected);
    let document: Json = serde_json::from_str(&tuned.document()).unwrap();
    assert_eq!(
        document["kernels"][0]["options"],
        json!({ "num_warps": { "int": 8 }, "num_ctas": { "int": 1 }, "num_stages": { "int": 3 } })
    );
    assert_eq!(document["kernels"][0]["source"], "abc");
    assert_eq!(document["target"], json!({ "backend": "hip", "arch": "gfx942", "warp_size": 64 }));
}

#[test]
fn what_another_gpu_is_for_is_said_and_kept_where_that_one_looks() {
    let folder = tempfile::tempdir().unwrap();
    let captured = put(folder.path(), &document());
    let tuned = |architecture: &str| {
        let winner = Winner { params: [("BLOCK".to_string(), json!(64))].into(), median_ms: 0.125, over_default: None };
        let by_name = [(NAME.to_string(), winner)].into();
        Tuned::of(std::slice::from_ref(&captured), &Winners { architecture: architecture.to_string(), by_name })
    };
    let target = |tuned: &Tuned| serde_json::from_str::<Json>(&tuned.document()).unwrap()["target"].clone();
    let known = tuned("sm_90");
    assert_eq!(target(&known), json!({ "backend": "cuda", "arch": 90, "warp_size": 32 }));
    assert_eq!(known.cached().iter().map(|file| &*file.folder).collect::<Vec<_>>(), ["DEF"]);
    let unknown = tuned("gfx90a");
    assert_eq!(target(&unknown), json!({ "backend": "hip", "arch": "gfx90a", "warp_size": 64 }));
    assert_eq!(unknown.cached().len(), 0);
    let why = "its capture on gfx942 does not say where Triton looks for it on gfx90a";
    assert_eq!(unknown.uncached(), [(NAME.to_string(), why.to_string())]);
}

#[test]
fn inductor_is_told_what_it_takes() {
    let folder = tempfile::tempdir().unwrap();
    let tuned = |any_config: bool, block: u32, architecture: &str| {
        let mut document = document();
        let inductor = json!({ "folder": "zz", "file": "k.best_config", "configs_hash": "abc", "source": "czz.py", "any_config": any_config });
        document["cache"] = json!({ "why": "it is Inductor's", "inductor": inductor });
        let captured = put(folder.path(), &document);
        let params = [("BLOCK".to_string(), json!(block)), ("num_warps".to_string(), json!(4))];
        let by_name =
            [(NAME.to_string(), Winner { params: params.into(), median_ms: 0.125, over_default: None })].into();
        Tuned::of(&[captured], &Winners { architecture: architecture.to_string(), by_name })
    };
    for (any_config, block) in [(false, 256), (true, 64)] {
        let tuned = tuned(any_config, block, "gfx942");
        let [file] = tuned.cached() else { panic!("{:?}", tuned.uncached()) };
        assert_eq!((file.cache, &*file.folder, &*file.file), (CacheOf::Inductor, "zz", "k.best_config"));
        let expected = json!({
            "BLOCK": block, "num_warps": 4, "num_stages": 3, "configs_hash": "abc", "found_by_coordesc": any_config,
        });
        assert_eq!(serde_json::from_str::<Json>(&file.text()).unwrap(), expected);
    }
    let why = |any_config, block, architecture| tuned(any_config, block, architecture).uncached()[0].1.clone();
    assert_eq!(why(false, 64, "gfx942"), "it is none of Inductor's list, and coordinate_descent_tuning is off");
    assert_eq!(why(true, 64, "gfx90a"), "Inductor wrote it for gfx942, and writes another for gfx90a");
}

/// A config as Triton's cache has it, with its times.
fn timed(block: u64, warps: u64, ctas: u64, ms: &str) -> String {
    format!(
        "[{{\"kwargs\": {{\"BLOCK\": {block}}}, \"num_warps\": {warps}, \"num_ctas\": {ctas}, \"num_stages\": 3, \"maxnreg\": null, \
         \"pre_hook\": null, \"ir_override\": null}}, [{ms}, {ms}, {ms}]]"
    )
}

#[test]
fn the_choice_in_a_cache_is_read_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let captured = put(folder.path(), &document());
    let cache = folder.path().join("cache");
    assert!(Choice::all(&cache, &captured).unwrap().is_empty());
    std::fs::create_dir_all(cache.join("ABC")).unwrap();
    let read = |document: &str| {
        std::fs::write(cache.join("ABC/scale.autotune.json"), document).unwrap();
        Choice::all(&cache, &captured).map(|mut found| found.remove("gfx942").unwrap())
    };
    let kept =
        |configs: &[String]| read(&format!("{{\"key\": [1000], \"configs_timings\": [{}]}}", configs.join(", ")));
    let params = |choice: &Choice| {
        let params = choice.params(&captured)?;
        Some(params.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "))
    };
    // The fastest, beside one that could not be launched.
    let mut choice = kept(&[timed(64, 2, 1, "0.5"), timed(256, 4, 1, "0.25"), timed(512, 4, 1, "Infinity")]).unwrap();
    assert_eq!(choice.short(), "BLOCK=256 num_warps=4 num_stages=3");
    assert_eq!(params(&choice).unwrap(), "BLOCK=256 EVEN=false num_ctas=1 num_stages=3 num_warps=4");
    // What lies beside the list, and what does not.
    assert_eq!(params(&kept(&[timed(128, 8, 1, "1")]).unwrap()).unwrap(), "BLOCK=128 num_stages=3 num_warps=8");
    assert_eq!(params(&kept(&[timed(128, 8, 2, "1")]).unwrap()), None);

    let winner = Winner { params: [("BLOCK".to_string(), json!(64))].into(), median_ms: 0.125, over_default: None };
    choice.set(&captured, &winner);
    let document: Json = serde_json::from_str(&choice.text()).unwrap();
    assert_eq!(document["key"], json!([1000]));
    assert_eq!(document["configs_timings"][0][0]["kwargs"], json!({ "BLOCK": 64 }));
    assert_eq!(document["configs_timings"][0][1], json!([0.125, 0.125, 0.125]));
    assert_eq!(document["configs_timings"].as_array().unwrap().len(), 1);

    for (text, said) in [
        ("{", "scale.autotune.json: EOF while parsing"),
        ("{}", "configs_timings: found nothing, expected what Triton writes"),
        ("{\"configs_timings\": []}", "configs_timings: found no config"),
        ("{\"configs_timings\": [[1, 2]]}", "configs_timings[0]: found [1,2]"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn processes_are_added_up_and_what_they_left_is_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let one = json!({ "kernels": { "a": { "calls": 2, "ms": 0.5 } }, "left": [{ "function": "f", "at": "x:1", "reason": "r" }] });
    let two = json!({ "kernels": { "a": { "calls": 3, "ms": null } }, "left": [{ "function": "f", "at": "x:1", "reason": "r" }] });
    std::fs::write(folder.path().join(".process-1.json"), one.to_string()).unwrap();
    std::fs::write(folder.path().join(".process-2.json"), two.to_string()).unwrap();
    std::fs::write(folder.path().join(".process-3.json"), "{").unwrap();
    std::fs::create_dir(folder.path().join(".part-x")).unwrap();
    let all = Process::take(folder.path()).unwrap();
    assert_eq!((all.kernels["a"].calls, all.kernels["a"].ms, all.left.len()), (5, Some(0.5), 1));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
