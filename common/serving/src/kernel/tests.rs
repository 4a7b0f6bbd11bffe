use bluefin_common::arch::Vendor;
use bluefin_kernel_spec::{Bundle, KernelSpec};

use super::*;
use crate::engine::Precision;
use crate::fit::{accumulators, misfit};
use crate::quantised::Storage;
use crate::row::WARPS;
use crate::space::{LADDER, distinct, pruned};

const H100: Gpu = Gpu { vendor: Vendor::Nvidia, shared_memory: 232_448, is_cdna: false };
const MI300X: Gpu = Gpu { vendor: Vendor::Amd, shared_memory: 65_536, is_cdna: true };

fn shape(sizes: [u32; 4], storage: Storage) -> MoeShape {
    let [experts, intermediate, hidden, topk] = sizes;
    MoeShape { experts, intermediate, hidden, topk, is_gated: true, storage }
}

fn asked(shape: &MoeShape, gpu: Gpu) -> Asked<'_> {
    Asked::of(Engine::VLLM, shape, "BF16", gpu, &LADDER, &Routing::Uniform)
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

/// vLLM's Nemotron-H: (E, N, K), where gated experts have (E, 2 N, K).
#[test]
fn the_first_product_of_experts_without_a_gate_has_half_the_columns() {
    let gated = shape([8, 64, 128, 2], Storage::default());
    let ungated = MoeShape { is_gated: false, ..gated.clone() };
    let wide = |shape: &MoeShape| {
        let toml = files(&asked(shape, H100), &Source::own()).unwrap().remove(SPEC_FILE).unwrap();
        let name = toml.lines().find(|line| line.starts_with("name = ")).unwrap().to_string();
        (toml.lines().find(|line| line.starts_with("let = ")).unwrap().to_string(), name)
    };
    let ((two, name), (one, other)) = (wide(&gated), wide(&ungated));
    assert_eq!(two, r#"let = ["routes = tokens * topk", "wide = 2 * intermediate"]"#);
    assert_eq!(one, r#"let = ["routes = tokens * topk", "wide = intermediate"]"#);
    assert_ne!(name, other, "results of one are none of the other");
    loaded(&asked(&ungated, H100));
}

#[test]
fn a_widened_space_has_further_values() {
    let mixtral = shape([8, 7168, 4096, 2], Storage::default());
    let values = |is_widened: bool, key: &str| {
        let axes = asked(&mixtral, H100).widened(is_widened).axes();
        axes.into_iter().find(|(name, _)| *name == key).unwrap().1
    };
    assert_eq!((values(false, K), values(true, K)), (vec![64, 128, 256], vec![32, 64, 128, 256, 512]));
    assert_eq!((values(false, WARPS), values(true, WARPS)), (vec![4, 8], vec![2, 4, 8, 16]));
    assert_eq!(values(true, M), values(false, M));
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

    let storage = Storage { dtype: Some(Precision::Fp8W8A8), block_shape: Some([128, 128]), ..Storage::default() };
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
    let params: Vec<_> = params.iter().map(|(key, value)| ((*key).to_string(), Value::Int(*value))).collect();
    assert_eq!(row_of(&asked_for, 64, "Searched", &params).short(), "16x64x128 g1 w4 s3");
    assert_eq!(row_of(&asked_for, 64, "Default64", &params), asked_for.default_row(64).ordered(Engine::VLLM));
    let ungrouped = Storage { dtype: Some(Precision::Int4W4A16), ..Storage::default() };
    let error = files(&asked(&shape([8, 64, 64, 2], ungrouped), H100), &Source::own()).unwrap_err().to_string();
    assert_eq!(
        error,
        "found weights of int4_w4a16, expected 16 bits, fp8_w8a8 or int8_w8a8 with a scale for each expert, channel or block, \
         int8_w8a16 with one for each channel, or int8_w8a16 or int4_w4a16 in groups of an even size (--group-size)"
    );
}

#[test]
fn weights_in_groups_have_a_kernel_of_their_own() {
    let kimi = shape([8, 512, 1024, 2], Storage::grouped(Precision::Int4W4A16, 128));
    let asked_for = asked(&kimi, H100);
    let spec = loaded(&asked_for);
    // Nothing is a block of its own, and no tile ends behind a sum.
    let can_win = |row: &&Row| {
        misfit(row, kimi.storage.dtype, H100).is_none()
            && accumulators(row, 32) < 256
            && 512 % row.number(K).unwrap() == 0
    };
    let left = pruned(Engine::VLLM, H100, &asked_for.tuned(), 1).iter().filter(can_win).count();
    let told = candidates(&spec, &asked_for, "sm_90-132", 1);
    assert_eq!(told, [("Default1".to_string(), 1), ("Searched".to_string(), left)]);

    // The launcher chooses tiles by the rows of each product.
    let chosen = |tokens| asked_for.given(tokens)[0].1.short();
    assert_eq!(chosen(1), "1x32x64 g1 SECOND_N=64 SECOND_K=32");
    assert_eq!(chosen(64), "64x64x32 g1");
    assert_eq!(asked_for.default_row(1).short(), "1x-x- g1 SPLIT_K=1");
    let wide = Row::of([(M, 1), (N, 32), (K, 64), (GROUP, 1)]);
    assert_eq!(asked_for.solver_of(1, &wide), None, "the second product has other tiles");
    assert_eq!(asked_for.solver_of(1, &asked_for.default_row(1)), Some("Default1".to_string()));
    // vLLM's kernel asks for it, SGLang's does not take it.
    let params = [(M.to_string(), Value::Int(16)), (N.to_string(), Value::Int(64))];
    let params: Vec<_> = params
        .into_iter()
        .chain([(K, 64), (GROUP, 1)].map(|(key, value)| (key.to_string(), Value::Int(value))))
        .collect();
    assert_eq!(row_of(&asked_for, 8, "Searched", &params).short(), "16x64x64 g1 SPLIT_K=1");
    let of_sglang = Asked { engine: Engine::SGLANG, ..asked_for.clone() };
    assert_eq!(row_of(&of_sglang, 8, "Searched", &params).short(), "16x64x64 g1");
    assert_eq!(of_sglang.given(1)[0].1.short(), "16x32x64 g1");
    // A CUDA kernel takes over for six routes an expert, where vLLM's function is called.
    let note = asked_for.note().unwrap();
    assert!(
        note.contains("--moe-backend triton") && note.ends_with("a CUDA kernel instead for up to 24 tokens"),
        "{note}"
    );
    let wide = shape([8, 512, 1024, 2], Storage::grouped(Precision::Int4W4A16, 256));
    assert!(asked(&wide, H100).note().unwrap().ends_with("Marlin"));
    assert!(of_sglang.note().is_none() && asked(&kimi, MI300X).note().is_none());
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
fn second_products_have_the_rows_of_a_tile_that_the_first_have() {
    let mixtral = shape([8, 7168, 4096, 2], Storage::default());
    let tokens = [1, 64, 4096];
    let mut of_first = Row::of([(M, 16), (N, 32), (K, 64), (GROUP, 1)]);
    of_first.0.insert(USE_TMA.to_string(), true.into());
    let firsts = BTreeMap::from([1, 64, 4096].map(|size| {
        let mut row = of_first.clone();
        row.set(M, if size == 4096 { 128 } else { 16 });
        (size, row)
    }));
    let mut without_tma = Row::of([(M, 64), (N, 64), (K, 64), (GROUP, 1)]);
    without_tma.0.insert(USE_TMA.to_string(), false.into());
    let with_tma = Row(without_tma
        .0
        .iter()
        .map(|(key, _)| (key.clone(), 64.into()))
        .chain([(USE_TMA.to_string(), true.into())])
        .collect());
    let shipped = ConfigFile::of(Engine::SGLANG, None, [(64, without_tma), (4096, with_tma)]);
    let of_layer = Asked { engine: Engine::SGLANG, tokens: &tokens, ..asked(&mixtral, H100) };
    let asked_for = Asked { down: Some(&firsts), ..of_layer.clone() }.beside(Some(&shipped));
    let spec = loaded(&asked_for);
    let can_win =
        |row: &Row, m| row.number(M) == Some(m) && misfit(row, None, H100).is_none() && accumulators(row, 32) < 256;
    let rows = pruned(Engine::SGLANG, H100, &asked_for.tuned(), 1);
    let left = |m| rows.iter().filter(|row| can_win(row, m)).count();
    let told = |tokens| candidates(&spec, &asked_for, "sm_90-132", tokens);
    let named = |name: &str, count| (name.to_string(), count);
    assert_eq!(told(1), [named("Default1", 1), named("Shipped1", 1), named("Searched", left(16))]);
    // What a launch with TMA is worth is not known here.
    assert_eq!(told(4096), [named("Default4096", 1), named("Searched", left(128))]);
    let given = asked_for.given(64);
    assert_eq!(given[0].1.short(), "16x32x64 g1");
    assert_eq!(given[1].1.short(), "16x64x64 g1", "the engine replaces BLOCK_SIZE_M");
    assert_eq!(row_of(&asked_for, 64, "Default64", &[]).short(), "16x32x64 g1");
    let text = files(&asked_for, &Source::own()).unwrap().remove(SPEC_FILE).unwrap();
    assert!(["x", "w1", "c1"].iter().all(|buffer| !text.contains(&format!("name = \"{buffer}\""))), "{text}");
    // Without a file the first are the engine's own.
    assert_eq!(of_layer.firsts()[&1], of_layer.default_row(1));
    assert_eq!(of_layer.beside(Some(&shipped)).firsts()[&1].number(M), Some(64));
}

/// By SGLang's own kernel alone: of a layer the weights of the first product, of a second product both operands, where they are FP8 in blocks.
#[test]
fn rows_with_descriptors_are_launched_with_them() {
    let storage = Storage { dtype: Some(Precision::Fp8W8A8), block_shape: Some([128, 128]), ..Storage::default() };
    let (deepseek, mixtral) = (shape([8, 256, 512, 2], storage), shape([8, 256, 512, 2], Storage::default()));
    let tokens = [64];
    let mut row = Row::of([(M, 16), (N, 64), (K, 128), (GROUP, 1)]);
    let firsts = BTreeMap::from([(64, row.clone())]);
    row.0.insert(USE_TMA.to_string(), true.into());
    let shipped = ConfigFile::of(Engine::SGLANG, None, [(64, row.clone())]);
    let source = Source { is_engines: true, ..Source::own() };
    let of = |shape, down| {
        let asked_for = Asked { engine: Engine::SGLANG, tokens: &tokens, down, ..asked(shape, H100) };
        asked_for.by(&source).beside(Some(&shipped))
    };
    let text = |asked_for: &Asked<'_>| files(asked_for, &source).unwrap().remove(SPEC_FILE).unwrap();
    let (layer, second) = (of(&deepseek, None), of(&deepseek, Some(&firsts)));
    assert_eq!(layer.solver_of(64, &row), Some("Shipped64".to_string()));
    let of_layer = text(&layer);
    assert_eq!(of_layer.matches("descriptor = \"w1\"").count(), 1, "{of_layer}");
    assert!(!of_layer.contains("descriptor = \"w2\"") && !of_layer.contains("name = \"USE_TMA\""), "{of_layer}");
    let of_second = text(&second);
    for (part, count) in [
        // The row that is given, and those of the search for which it is so.
        ("descriptor = \"h_sorted\"", 2),
        ("descriptor = \"w2\", shape = [\"experts\", \"hidden\", \"intermediate\"]", 2),
        ("recipe = { copy_of = \"h_scale\", by = \"sorted\", row = \"ceil_div(intermediate, 128)\" }", 1),
        ("when = \"!USE_TMA\"", 1),
        ("name = \"USE_TMA\"\n  values = [false, true]", 1),
    ] {
        assert_eq!(of_second.matches(part).count(), count, "{part}\nin\n{of_second}");
    }
    let [on, off] = [true, false].map(|by| [(M.to_string(), Value::Int(16)), (USE_TMA.to_string(), Value::Bool(by))]);
    assert_eq!(row_of(&second, 64, "Searched", &on).0.get(USE_TMA), Some(&true.into()));
    assert!(!row_of(&second, 64, "Searched", &off).0.contains_key(USE_TMA));
    // The kernel asks for blocks, and bluefin's own knows nothing of it.
    assert_eq!(of(&mixtral, None).solver_of(64, &row), Some("Shipped64".to_string()));
    assert_eq!(of(&mixtral, Some(&firsts)).solver_of(64, &row), None);
    assert_eq!(layer.by(&Source::own()).solver_of(64, &row), None);
}

#[test]
fn sglangs_space_is_that_of_its_tuner() {
    let storage = Storage { dtype: Some(Precision::Fp8W8A8), block_shape: Some([128, 128]), ..Storage::default() };
    let deepseek = shape([257, 256, 7168, 9], storage);
    let asked_for = Asked { engine: Engine::SGLANG, ..asked(&deepseek, H100) };
    let spec = loaded(&asked_for);
    let rows = pruned(Engine::SGLANG, H100, &asked_for.tuned(), 1);
    let can_win = |row: &&Row| misfit(row, Some(Precision::Fp8W8A8), H100).is_none() && accumulators(row, 32) < 256;
    let left = rows.iter().filter(can_win).count();
    let told = candidates(&spec, &asked_for, "sm_90-132", 1);
    assert_eq!(told, [("Default1".to_string(), 1), ("Searched".to_string(), left)]);
}

#[test]
fn a_time_is_of_as_many_draws_as_it_takes_and_no_cache_spoils() {
    let fp8 = Storage { dtype: Some(Precision::Fp8W8A8), block_shape: Some([128, 128]), ..Storage::default() };
    let int4 = Storage { dtype: Some(Precision::Int4W4A16), block_shape: Some([0, 128]), ..Storage::default() };
    for (sizes, storage, draws) in [
        ([8, 7168, 4096, 2], Storage::default(), 8),
        ([256, 256, 7168, 8], fp8, 4),
        // 302, 704 and 352 MB of weights.
        ([128, 192, 2048, 8], Storage::default(), 1),
        ([8, 7168, 4096, 2], fp8, 8),
        ([8, 7168, 4096, 2], int4, 1),
    ] {
        let layer = shape(sizes, storage);
        let text = files(&asked(&layer, H100), &Source::own()).unwrap().remove(SPEC_FILE).unwrap();
        assert!(text.contains(&format!("picks = \"topk\", draws = {draws} }}")), "{sizes:?} {storage:?}\n{text}");
    }
}
