use proptest::prelude::*;

use super::*;
use crate::row::{GROUP, K, M, N, STAGES, WARPS};

fn row(m: i64) -> Row {
    Row::of([(M, m), (N, 64), (K, 128), (GROUP, 1), (WARPS, 4), (STAGES, 3)])
}

fn parsed(text: &str, engine: Engine) -> Result<ConfigFile, String> {
    ConfigFile::parse(Path::new("x.json"), text, engine).map_err(|error| error.to_string())
}

/// Where SGLang found CUTLASS to be faster, its files for products with a scale for each channel say null.
#[test]
fn rows_of_such_products_may_be_null() {
    let name = Path::new("N=8,K=64,device_name=X,dtype=fp8_w8a8_channelwise.json");
    let text = "{\n    \"1\": null,\n    \"2\": {\n        \"num_warps\": 4\n    }\n}\n";
    let mut config = ConfigFile::parse(name, text, Engine::SGLANG).unwrap();
    assert_eq!((config.text().as_str(), config.row(1)), (text, Some(&Row::default())));
    config.set(1, Row::of([("num_warps", 8)]));
    assert_eq!(config.text(), text.replace("null", "{\n        \"num_warps\": 8\n    }"));
}

#[test]
fn a_file_is_written_as_the_tuners_write_it() {
    let version: Version = "3.6.0".parse().unwrap();
    let mixed = Row::of([(STAGES, 3), (WARPS, 4), (M, 16), (N, 64), (K, 128), (GROUP, 1)]);
    let file = ConfigFile::of(Engine::VLLM, Some(version.clone()), [(64, row(32)), (1, mixed)]);
    let expected = "{\n    \"triton_version\": \"3.6.0\",\n    \"1\": {\n        \"BLOCK_SIZE_M\": 16,\n        \
        \"BLOCK_SIZE_N\": 64,\n        \"BLOCK_SIZE_K\": 128,\n        \"GROUP_SIZE_M\": 1,\n        \"num_warps\": 4,\n        \
        \"num_stages\": 3\n    },\n    \"64\": {\n        \"BLOCK_SIZE_M\": 32,\n        \"BLOCK_SIZE_N\": 64,\n        \
        \"BLOCK_SIZE_K\": 128,\n        \"GROUP_SIZE_M\": 1,\n        \"num_warps\": 4,\n        \"num_stages\": 3\n    }\n}\n";
    assert_eq!(file.text(), expected);
    assert_eq!(parsed(expected, Engine::VLLM), Ok(file));
    // SGLang's loader takes no version.
    let file = ConfigFile::of(Engine::SGLANG, Some(version), [(1, row(16))]);
    assert!(file.text().starts_with("{\n    \"1\": {"));
    let error = parsed(expected, Engine::SGLANG).unwrap_err();
    assert!(error.ends_with("expected no such key: SGLang's loader takes batch sizes alone"), "{error}");
}

#[test]
fn the_nearest_key_rules_and_the_first_of_two() {
    let file = ConfigFile::of(Engine::VLLM, None, [(96, row(16)), (128, row(32)), (1024, row(64))]);
    let nearest = |tokens| file.row_for(tokens).unwrap().0;
    assert_eq!([1, 96, 111, 112, 113, 576, 577, 90_000].map(nearest), [96, 96, 96, 96, 128, 128, 1024, 1024]);
    let turned = parsed("{\"128\": {}, \"96\": {}}", Engine::VLLM).unwrap();
    assert_eq!(turned.row_for(112).unwrap().0, 128);
    assert!(parsed("{}", Engine::VLLM).unwrap().row_for(1).is_none());
}

#[test]
fn what_is_laid_out_by_hand_stays_until_it_changes() {
    for text in [
        "{ \"1\": {\"BLOCK_SIZE_M\": 16} }",
        "{\n  \"1\": {\n    \"BLOCK_SIZE_M\": 16\n  }\n}",
        "{\"01\": {}, \"1\": {}}\n",
        "{\"1\": {}, \"triton_version\": \"3.4.0\"}",
        "{\n    \"triton_version\": \"3.4.0+git12\"\n}",
    ] {
        let mut file = parsed(text, Engine::VLLM).unwrap();
        assert_eq!(file.text(), text);
        file.set(1, row(16));
        file.set(2, row(16));
        let again = parsed(&file.text(), Engine::VLLM).unwrap();
        assert_eq!(again.rows().collect::<Vec<_>>(), file.rows().collect::<Vec<_>>());
    }
    // Two blanks a level, and no line feed, are kept.
    let text = "{\n  \"1\": {\n    \"BLOCK_SIZE_M\": 16\n  }\n}";
    let mut file = parsed(text, Engine::VLLM).unwrap();
    file.set(2, Row::of([(M, 32)]));
    assert_eq!(
        file.text(),
        "{\n  \"1\": {\n    \"BLOCK_SIZE_M\": 16\n  },\n  \"2\": {\n    \"BLOCK_SIZE_M\": 32\n  }\n}"
    );
}

#[test]
fn what_the_loader_can_not_read_is_one_error() {
    for (text, message) in [
        (
            "{\"1\": {\"BLOCK_SIZE_M\": 16",
            "x.json:1:25: found EOF while parsing an object, expected JSON: the file is torn",
        ),
        ("", "x.json:1:1: found nothing, expected JSON: the file is torn"),
        ("[1]", "x.json: the file: found no object, expected an object of rows by batch size"),
        ("7", "x.json: the file: found no object, expected an object of rows by batch size"),
        ("{\"1\": {}} {", "x.json:1:11: found trailing characters, expected JSON: the file is torn"),
        ("{\"1\": null}", "x.json: row \"1\": found null, expected an object of block sizes"),
        ("{\"best\": {}}", "x.json: key \"best\": found \"best\", expected a batch size"),
        ("{\"1\": 7}", "x.json: row \"1\": found 7, expected an object of block sizes"),
        (
            "{\"triton_version\": \"new\"}",
            "x.json: triton_version: found \"new\", expected a version of Triton such as \"3.6.0\"",
        ),
    ] {
        assert_eq!(parsed(text, Engine::VLLM).unwrap_err(), message);
    }
    for key in ["1", " 1 ", "+8", "1_000", "007"] {
        assert!(batch_size(key).is_some(), "{key}");
    }
    for key in ["", "1.0", "_1", "1__0", "one", "1e3", "-"] {
        assert!(batch_size(key).is_none(), "{key}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(rows in proptest::collection::btree_map(0i64..100_000, 1i64..512, 0..20), is_vllm: bool) {
        let engine = if is_vllm { Engine::VLLM } else { Engine::SGLANG };
        let rows = rows.into_iter().map(|(size, m)| (size, row(m)));
        let file = ConfigFile::of(engine, Some("3.9.0".parse().unwrap()), rows);
        prop_assert_eq!(parsed(&file.text(), engine), Ok(file));
    }

    #[test]
    fn no_text_is_too_wild(text in "\\PC{0,60}") {
        let _ = parsed(&text, Engine::VLLM);
    }
}
