use bluefin_common::arch::Vendor;
use bluefin_kernel_spec::{Bundle, KernelSpec};

use super::*;
use crate::engine::Precision;
use crate::fit::{accumulators, misfit};
use crate::quantised::Storage;
use crate::space::{LADDER, distinct, pruned};

const H100: Gpu = Gpu { vendor: Vendor::Nvidia, shared_memory: 232_448, is_cdna: false };
const MI300X: Gpu = Gpu { vendor: Vendor::Amd, shared_memory: 65_536, is_cdna: true };

fn shape(sizes: [u32; 4], storage: Storage) -> MoeShape {
    let [experts, intermediate, hidden, topk] = sizes;
    MoeShape { experts, intermediate, hidden, topk, storage }
}

fn asked(shape: &MoeShape, gpu: Gpu) -> Asked<'_> {
    Asked {
        engine: Engine::VLLM,
        shape,
        half: "BF16",
        gpu,
        tokens: &LADDER,
        routing: &Routing::Uniform,
        shipped: None,
        known: None,
        searched: true,
    }
}

fn loaded(asked: &Asked<'_>) -> KernelSpec {
    let mut files = files(asked, &Source::own()).unwrap();
    let toml = files.remove(SPEC_FILE).unwrap();
    KernelSpec::load(&Bundle { toml: toml.clone(), files, ..Bundle::default() })
        .unwrap_or_else(|error| panic!("{error}\n{toml}"))
}

/// How many candidates each solver has for so many tokens.
fn candidates(spec: &KernelSpec, asked: &Asked<'_>, target: &str, tokens: i64) -> Vec<(String, usize)> {
    let sizes = sizes(asked.shape, tokens).into_iter().map(|(name, size)| (name, size.into())).collect();
    let scope = spec.scope(&spec.problem(&sizes).unwrap(), &target.parse().unwrap()).unwrap().unwrap();
    let solvers = spec.solvers_for(&scope).unwrap();
    let count = |name: &str| spec.candidates(spec.solver(name).unwrap(), &scope, 100_000).unwrap().points.len();
    solvers.iter().map(|solver| (solver.name.clone(), count(&solver.name))).collect()
}

#[test]
fn the_space_is_that_of_the_tuner_without_what_can_not_win() {
    let mixtral = shape([8, 7168, 4096, 2], Storage::default());
    let asked_for = asked(&mixtral, H100);
    let spec = loaded(&asked_for);
    let rows = pruned(Engine::VLLM, H100, &asked_for.tuned(), 64);
    let can_win = |row: &&Row| misfit(row, None, H100).is_none() && accumulators(row, 32) < 256;
    let left = rows.iter().filter(can_win).count();
    let told = candidates(&spec, &asked_for, "sm_90-132", 64);
    assert_eq!(told, [("Default64".to_string(), 1), ("Searched".to_string(), left)]);
    // Routes that are blocks of their own are another kernel.
    let told = candidates(&spec, &asked_for, "sm_90-132", 1);
    assert_eq!(told, [("Default1".to_string(), 1), ("SearchedNaive".to_string(), left)]);

    let storage = Storage { dtype: Some(Precision::Fp8W8A8), block_shape: Some([128, 128]), per_channel: false };
    let deepseek = shape([256, 256, 7168, 8], storage);
    let asked_for = asked(&deepseek, H100);
    let spec = loaded(&asked_for);
    let rows = distinct(Engine::VLLM, pruned(Engine::VLLM, H100, &asked_for.tuned(), 64), asked_for.block_shape());
    let can_win = |row: &&Row| {
        let launched = launched(Engine::VLLM, row, asked_for.block_shape());
        misfit(&launched, Some(Precision::Fp8W8A8), H100).is_none() && accumulators(row, 32) < 256
    };
    let left = rows.iter().filter(can_win).count();
    assert_eq!(candidates(&spec, &asked_for, "sm_90-132", 64)[1], ("Searched".to_string(), left));
}

#[test]
fn on_rocm_the_space_is_what_vllms_tuner_leaves() {
    let qwen = shape([128, 768, 2048, 8], Storage::default());
    let asked_for = asked(&qwen, MI300X);
    let spec = loaded(&asked_for);
    for tokens in [64, 1024] {
        let rows = pruned(Engine::VLLM, MI300X, &asked_for.tuned(), tokens);
        assert_eq!(candidates(&spec, &asked_for, "gfx942-304", tokens)[1].1, rows.len(), "{tokens}");
    }
}

#[test]
fn a_winner_is_a_row_of_the_engines() {
    let mixtral = shape([8, 7168, 4096, 2], Storage::default());
    let asked_for = asked(&mixtral, H100);
    let params = [
        ("num_stages", 3),
        ("BLOCK_SIZE_M", 16),
        ("BLOCK_SIZE_N", 64),
        ("BLOCK_SIZE_K", 128),
        ("GROUP_SIZE_M", 1),
        ("num_warps", 4),
    ];
    let params: Vec<(String, i64)> = params.iter().map(|(key, value)| ((*key).to_string(), *value)).collect();
    assert_eq!(row_of(&asked_for, 64, "Searched", &params).short(), "16x64x128 g1 w4 s3");
    assert_eq!(row_of(&asked_for, 64, "Default64", &params), asked_for.default_row(64).ordered(Engine::VLLM));
    let grouped = Storage { dtype: Some(Precision::Int8W8A16), block_shape: Some([0, 128]), per_channel: false };
    let error = files(&asked(&shape([8, 64, 64, 2], grouped), H100), &Source::own()).unwrap_err().to_string();
    assert_eq!(
        error,
        "found weights of int8_w8a16 in groups of 128, expected 16 bits, fp8_w8a8 or int8_w8a8 with a scale for each expert, channel or block, \
         or int8_w8a16 with one for each channel"
    );
}

#[test]
fn rows_that_are_given_are_solvers_of_their_own() {
    let mixtral = shape([8, 7168, 4096, 2], Storage::default());
    let row = |m| Row::of([(M, m), (N, 64), (K, 64), (GROUP, 1)]);
    let shipped = ConfigFile::of(Engine::VLLM, None, [(1, row(16)), (64, row(32))]);
    let mut text = row(64);
    text.0.insert("grf_mode".to_string(), "256".into());
    let known = ConfigFile::of(Engine::VLLM, None, [(64, row(128)), (128, text.clone())]);
    let asked_for = Asked { shipped: Some(&shipped), known: Some(&known), searched: false, ..asked(&mixtral, H100) };
    let spec = loaded(&asked_for);
    let names = |tokens| {
        let all = candidates(&spec, &asked_for, "sm_90-132", tokens);
        all.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(names(64), ["Default64", "Shipped64", "Known64"]);
    assert_eq!(names(128), ["Default128", "Shipped128"]);
    assert_eq!(asked_for.solver_of(64, &row(32)), Some("Shipped64".to_string()));
    assert_eq!(asked_for.solver_of(64, &asked_for.default_row(64)), Some("Default64".to_string()));
    assert_eq!(asked_for.solver_of(128, &text), None);
}

#[test]
fn sglangs_space_is_that_of_its_tuner() {
    let storage = Storage { dtype: Some(Precision::Fp8W8A8), block_shape: Some([128, 128]), per_channel: false };
    let deepseek = shape([257, 256, 7168, 9], storage);
    let asked_for = Asked { engine: Engine::SGLANG, ..asked(&deepseek, H100) };
    let spec = loaded(&asked_for);
    let rows = pruned(Engine::SGLANG, H100, &asked_for.tuned(), 1);
    let can_win = |row: &&Row| misfit(row, Some(Precision::Fp8W8A8), H100).is_none() && accumulators(row, 32) < 256;
    let left = rows.iter().filter(can_win).count();
    let told = candidates(&spec, &asked_for, "sm_90-132", 1);
    assert_eq!(told, [("Default1".to_string(), 1), ("Searched".to_string(), left)]);
}
