//! Every shipped file is read, found by its name, and written back.

use std::collections::BTreeMap;

use bluefin_serving::check::{Rule, Strictness, check};
use bluefin_serving::diff::diff;
use bluefin_serving::files::Found;
use bluefin_serving::{ConfigFile, Document, Engine, FileName, Version};

use crate::shipped::shipped;

#[test]
fn every_file_is_read_and_written_back_byte_for_byte() {
    let files = shipped();
    let count = |engine| files.iter().filter(|file| file.engine == engine).count();
    assert_eq!((count(Engine::VLLM), count(Engine::SGLANG)), (338, 390));
    let mut versions: BTreeMap<String, u32> = BTreeMap::new();
    for file in &files {
        let config = ConfigFile::parse(&file.path, &file.text, file.engine).unwrap();
        assert!(config.text() == file.text, "{}", file.path.display());
        assert!(config.rows().count() > 0);
        if file.engine == Engine::VLLM {
            *versions.entry(config.version.map_or("none".to_string(), |version| version.to_string())).or_default() += 1;
        }
    }
    let expected =
        [("3.4.0", 16), ("3.5.0", 19), ("3.5.1", 8), ("3.6.0", 19), ("3.7.1", 3), ("3.8.0", 1), ("none", 272)];
    assert_eq!(versions, expected.map(|(version, count)| (version.to_string(), count)).into());
}

/// Written anew from its rows alone a file is what the tuner writes: but for those that were laid out by hand, or whose keys are in
/// another order.
#[test]
fn files_of_the_tuners_are_written_anew_byte_for_byte() {
    let mut same = BTreeMap::new();
    for file in shipped() {
        let config = ConfigFile::parse(&file.path, &file.text, file.engine).unwrap();
        let rows = config.rows().map(|(size, row)| (size, row.clone()));
        let anew = ConfigFile::of(file.engine, config.version.clone(), rows).text();
        *same.entry((file.engine, anew == file.text)).or_insert(0) += 1;
        let read = |text: &str| Document::parse(&file.path, text).unwrap().fields.len();
        assert_eq!(read(&anew), read(&file.text), "{}", file.path.display());
    }
    let of = |engine, is_same| same.get(&(engine, is_same)).copied().unwrap_or(0);
    assert_eq!((of(Engine::VLLM, true), of(Engine::SGLANG, true)), (236, 353));
    assert_eq!((of(Engine::VLLM, false), of(Engine::SGLANG, false)), (102, 37));
}

/// Files that are shipped and that no loader asks for.
const DEAD: [(&str, &str); 11] = [
    ("E=128,N=8960,device_name=NVIDIA_H100_80GB_HBM3,dtype=bf16.json", "\"bf16\""),
    ("E=16,N=3072,device_name=NVIDIA_H100_80GB_HBM3,dtype=float8.json", "\"float8\""),
    ("E=16,N=7168,device_name=NVIDIA_H100_80GB_HBM3,dtype=float8.json", "\"float8\""),
    ("E=256,N=128,device_name=NVIDIA_A100-SXM4-80GB,dtype=int8_w8a8,block_shape=[128,128].json", "None"),
    ("E=256,N=128,device_name=NVIDIA_A100-SXM4-80GB,dtype=int8_w8a8.json", "None"),
    ("E=256,N=128,device_name=NVIDIA_A800-SXM4-80GB,dtype=int8_w8a8,block_shape=[128,128].json", "None"),
    ("E=256,N=128,device_name=NVIDIA_A800-SXM4-80GB,dtype=int8_w8a8.json", "None"),
    ("E=256,N=256,device_name=NVIDIA_H20,dtype=int8_w8a8,block_shape=[128,128].json", "None"),
    ("E=64,N=8960,device_name=NVIDIA_H100_80GB_HBM3,dtype=bf16.json", "\"bf16\""),
    ("triton_3_4_0/E=384,N=128,device_name=,dtype=int4_w4a16.json", "\"\""),
    ("triton_3_4_0/E=384,N=128,device_name=,dtype=int4_w4a16_down.json", "\"\""),
];

#[test]
fn every_name_is_one_that_its_loader_builds_but_for_those_of_a_type_that_none_asks_for() {
    let mut dead = Vec::new();
    for file in shipped() {
        let found = match FileName::parse(file.name()) {
            Ok(name) => {
                assert_eq!(name.build(file.engine), file.name());
                name.is_built(file.name(), file.engine).err().map(|built| format!("{built:?}"))
            }
            Err(error) => Some(error.found),
        };
        dead.extend(found.map(|found| (file.path.display().to_string(), found)));
        assert_eq!(Engine::of_path(&file.path), file.engine);
        assert_eq!(Version::of_folder(&file.path).is_some(), file.engine == Engine::SGLANG);
    }
    assert_eq!(dead, DEAD.map(|(path, found)| (path.to_string(), found.to_string())));
}

#[test]
fn what_is_wrong_with_shipped_files_is_found() {
    let found: Vec<Found> = shipped()
        .iter()
        .map(|file| Found {
            path: file.path.clone(),
            engine: file.engine,
            name: FileName::parse(file.name()),
            folder: Version::of_folder(&file.path),
            document: Document::parse(&file.path, &file.text),
        })
        .collect();
    let mut counts: BTreeMap<(Engine, Rule), usize> = BTreeMap::new();
    for report in check(&found, &Strictness::default()) {
        for finding in &report.findings {
            *counts.entry((report.engine, finding.rule)).or_default() += 1;
        }
    }
    let told: Vec<String> = counts.iter().map(|((engine, rule), count)| format!("{engine} {rule} {count}")).collect();
    let expected = [
        "sglang name 2",
        "sglang block 4",
        "sglang memory 2",
        "sglang device 10",
        "sglang gap 37",
        "vllm name 9",
        "vllm lowered 334",
        "vllm device 4",
        "vllm gap 29",
    ];
    assert_eq!(told, expected);
    let same = diff(&found[..338], &found[..338]).unwrap();
    assert_eq!((same.same, same.changes.len()), (6057, 0));
}
