//! What the engines' own functions said, run with their imports stubbed, against what is said here.

use bluefin_common::arch::Vendor;
use bluefin_serving::default::{Gpu, Question, default_row};
use bluefin_serving::space::{Tuned, pruned};
use bluefin_serving::{ConfigFile, Engine, Precision, Row};
use bluefin_test_support::data_text;
use md5::{Digest as _, Md5};

use crate::shipped::shipped;

fn gpu(word: &str) -> Gpu {
    let nvidia = Gpu { vendor: Vendor::Nvidia, shared_memory: 232_448, is_cdna: false };
    let amd = Gpu { vendor: Vendor::Amd, shared_memory: 65_536, is_cdna: true };
    match word {
        "cuda" => nvidia,
        "cuda-small" => Gpu { shared_memory: 101_376, ..nvidia },
        "rocm" | "cdna" => amd,
        "rdna" => Gpu { is_cdna: false, ..amd },
        _ => panic!("{word}"),
    }
}

fn dtype(word: &str) -> Option<Precision> {
    (word != "-").then(|| Precision::of_word(word).unwrap())
}

fn block_shape(word: &str) -> Option<[i64; 2]> {
    let (n, k) = word.split_once(',')?;
    Some([n.parse().unwrap(), k.parse().unwrap()])
}

#[test]
fn every_default_is_the_engines_own() {
    let table = data_text("serving/defaults.tsv");
    let (mut cases, mut wrong) = (0, Vec::new());
    for line in table.lines() {
        let [engine, device, tokens, experts, topk, of_type, block, row] =
            line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let question = Question {
            tokens: tokens.parse().unwrap(),
            experts: experts.parse().unwrap(),
            topk: topk.parse().unwrap(),
            dtype: dtype(of_type),
            block_shape: block_shape(block),
        };
        let said = default_row(engine.parse().unwrap(), gpu(device), &question);
        cases += 1;
        if serde_json::to_string(&said).unwrap() != row {
            wrong.push(format!("{line}: {}", said.short()));
        }
    }
    assert_eq!((cases, wrong.len()), (60_480, 0), "{:?}", wrong.first());
}

#[test]
fn every_row_is_looked_up_as_the_engines_do() {
    let sizes =
        [1, 2, 3, 5, 6, 12, 20, 28, 40, 56, 80, 112, 192, 384, 768, 1280, 1792, 2560, 3584, 4096, 5000, 100_000];
    let table = data_text("serving/lookups.tsv");
    let files = shipped();
    let mut cases = 0;
    for line in table.lines() {
        let [engine, path, keys, name] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let engine: Engine = engine.parse().unwrap();
        let file = files.iter().find(|file| file.engine == engine && file.path.to_str() == Some(path)).unwrap();
        assert_eq!(file.name(), name);
        let config = ConfigFile::parse(&file.path, &file.text, engine).unwrap();
        let found = sizes.map(|tokens| config.row_for(tokens).unwrap().0.to_string());
        assert_eq!(found.join(","), keys, "{path}");
        cases += 1;
    }
    assert_eq!(cases, 728);
}

#[test]
fn every_space_is_the_tuners_own_config_by_config() {
    let table = data_text("serving/spaces.tsv");
    let mut cases = 0;
    for line in table.lines() {
        let [engine, device, of_type, block, intermediate, hidden, topk, tokens, count, digest] =
            line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let tuned = Tuned {
            intermediate: intermediate.parse().unwrap(),
            hidden: hidden.parse().unwrap(),
            topk: topk.parse().unwrap(),
            dtype: dtype(of_type),
            block_shape: block_shape(block),
        };
        let rows = pruned(engine.parse().unwrap(), gpu(device), &tuned, tokens.parse().unwrap());
        let mut digests = Md5::new();
        for row in &rows {
            digests.update(written(row));
        }
        let hex: String = digests.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((rows.len().to_string().as_str(), hex.as_str()), (count, digest), "{line}");
        cases += 1;
    }
    assert_eq!(cases, 62);
}

fn written(row: &Row) -> String {
    format!("{}\n", serde_json::to_string(row).unwrap())
}
