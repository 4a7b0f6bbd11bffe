//! The kernels that bluefin ships, on problems that people tune.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::bundle::SHIPPED_NAMES;
use crate::{Bundle, KernelSpec, SCATTERED, Solver};
use bluefin_common::arch::{Architecture, FEATURES, ROWS};
use bluefin_common::candidate::Candidate;
use bluefin_common::method::{CLANG_AND_TRITON, Method};
use bluefin_common::problem::{ConvProblem, ConvShape, DataType, Direction, GemmProblem, Layout, Problem};
use bluefin_common::target::Target;
use bluefin_common::value::Value;

/// Convolutions of ResNet-50 (c, size, k, filter, stride, pad) and a grouped one.
fn conv_problems(direction: Direction, n: u32) -> Vec<Problem> {
    let layers = [
        (3, 224, 64, 7, 2, 3, 1),
        (64, 56, 64, 1, 1, 0, 1),
        (64, 56, 64, 3, 1, 1, 1),
        (256, 56, 512, 1, 2, 0, 1),
        (512, 7, 512, 3, 1, 1, 1),
        (128, 28, 128, 3, 1, 1, 32),
    ];
    let mut problems = Vec::new();
    for (c, size, k, filter, stride, pad, group) in layers {
        for (data_type, layout) in
            [(DataType::Fp32, Layout::Nchw), (DataType::Fp16, Layout::Nchw), (DataType::Bf16, Layout::Nhwc)]
        {
            let shape = ConvShape {
                x_layout: layout,
                w_layout: layout,
                y_layout: layout,
                n,
                c,
                k,
                group,
                input: [1, size, size],
                filter: [1, filter, filter],
                stride: [1, stride, stride],
                pad: [0, pad, pad],
                ..ConvShape::plain(direction, data_type)
            };
            problems.push(Problem::Conv(ConvProblem::new(shape).unwrap()));
        }
    }
    problems
}

fn gemm_problems() -> Vec<Problem> {
    let sizes = [(128, 128, 128, 1), (512, 49, 2048, 1), (1024, 1024, 1024, 1), (64, 64, 64, 12)];
    let mut problems = Vec::new();
    for (m, n, k, batch) in sizes {
        for data_type in [DataType::Fp32, DataType::Fp16, DataType::Bf16] {
            for (trans_a, trans_b, col_major) in [(false, false, false), (true, true, false), (false, true, true)] {
                let plain = GemmProblem::plain([m, n, k], data_type);
                problems.push(Problem::Gemm(GemmProblem { batch, trans_a, trans_b, col_major, ..plain }));
            }
        }
    }
    problems
}

fn problems(spec: &KernelSpec, on_gpu: bool) -> Vec<Problem> {
    let n = if on_gpu { 32 } else { 1 };
    match spec.problem.as_str() {
        "conv" => Direction::ALL.into_iter().flat_map(|direction| conv_problems(direction, n)).collect(),
        "gemm" => gemm_problems(),
        _ => vec![spec.problem(&spec.sizes).unwrap()],
    }
}

/// The host, or an architecture for each set of features.
fn targets(spec: &KernelSpec) -> Vec<&'static str> {
    if spec.targets == ["host"] {
        return vec!["host"];
    }
    let features = |row: &Architecture| (row.wave(), FEATURES.map(|name| row.feature(name)));
    let mut rows: Vec<&Architecture> = Vec::new();
    for row in ROWS.iter().filter(|row| spec.is_for(&target(row.name))) {
        if !rows.iter().any(|known| features(known) == features(row)) {
            rows.push(row);
        }
    }
    rows.iter().map(|row| row.name).collect()
}

fn target(arch: &str) -> Target {
    if arch == "host" { Target::Host } else { format!("{arch}-104").parse().unwrap() }
}

#[test]
fn none_is_forgotten_or_shipped_twice() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_spec = |name: &String| name.ends_with(".toml") && name != "tile_spaces_gpu.toml";
    let on_disk: BTreeSet<String> = files.filter(is_spec).collect();
    assert_eq!(on_disk, SHIPPED_NAMES.iter().map(ToString::to_string).collect(), "list it in spec/bundle.rs");
    assert_eq!(on_disk.len(), SHIPPED_NAMES.len(), "twice in spec/bundle.rs");
    for (name, shipped) in SHIPPED_NAMES.iter().zip(Bundle::shipped()) {
        assert_eq!(Bundle::read(&folder.join(name)).unwrap(), shipped, "{name}");
    }
}

#[test]
fn every_solver_has_candidates_and_a_valid_default() {
    for bundle in Bundle::shipped() {
        let spec = KernelSpec::load(&bundle).unwrap_or_else(|error| panic!("{error}"));
        let mut used = BTreeSet::new();
        for arch in targets(&spec) {
            for problem in problems(&spec, arch != "host") {
                let Some(scope) = spec.scope(&problem, &target(arch)).unwrap() else { continue };
                spec.task_parts(&scope).unwrap();
                spec.build(&spec.reference(), &scope).unwrap_or_else(|error| panic!("{arch} {problem}: {error}"));
                for solver in spec.solvers_for(&scope).unwrap() {
                    let found = spec.candidates(solver, &scope, 20).unwrap();
                    assert!(
                        found.points.first() == Some(&solver.default_candidate()),
                        "{}: {arch} {problem}: default",
                        solver.name
                    );
                    for point in &found.points {
                        let build = spec.build(point, &scope);
                        build.unwrap_or_else(|error| panic!("{arch} {problem}: {error}"));
                    }
                    if used.insert(solver.name.clone()) {
                        let mark = if found.exact { "" } else { "about " };
                        println!("{}: {mark}{} of {} points: {arch} {problem}", solver.name, found.valid, found.space);
                    }
                    assert!(
                        !solver.is_tunable() || found.valid > 1,
                        "{}: {arch} {problem}: nothing to tune",
                        solver.name
                    );
                }
            }
        }
        let all: BTreeSet<String> = spec.solvers.iter().map(|solver| solver.name.clone()).collect();
        assert_eq!(used, all, "{}: solvers that no sample problem reaches", spec.name);
    }
}

/// What multiplies FP16 multiplies BF16 as fast; what has no matrix instructions converts it.
#[test]
fn all_solvers_of_fp16_are_for_bf16() {
    let shape = |direction, data_type| ConvShape { c: 64, k: 64, ..ConvShape::plain(direction, data_type) };
    let conv = |direction, data_type| Problem::Conv(ConvProblem::new(shape(direction, data_type)).unwrap());
    let all = |data_type| -> Vec<Problem> {
        let products = gemm_problems().into_iter();
        let of_type = |problem: &Problem| matches!(problem, Problem::Gemm(gemm) if gemm.data_type() == Some(data_type));
        let convolutions = Direction::ALL.map(|direction| conv(direction, data_type));
        products.filter(of_type).chain(convolutions).collect()
    };
    for bundle in Bundle::shipped() {
        let spec = KernelSpec::load(&bundle).unwrap();
        for arch in targets(&spec).into_iter().filter(|arch| *arch != "host") {
            let names = |problem: &Problem| -> Vec<String> {
                let Some(scope) = spec.scope(problem, &target(arch)).unwrap() else { return Vec::new() };
                spec.solvers_for(&scope).unwrap().iter().map(|solver| solver.name.clone()).collect()
            };
            let with = |data_type| -> Vec<Vec<String>> { all(data_type).iter().map(names).collect() };
            assert!(with(DataType::Fp16).iter().any(|names| !names.is_empty()), "{} {arch}", spec.name);
            assert_eq!(with(DataType::Fp16), with(DataType::Bf16), "{} {arch}", spec.name);
        }
    }
}

/// On Hopper a tile's sums are in registers, of which ptxas wants as many again for the rest: what has no room for one
/// instruction's sums it refuses (C7602), and what has hardly any keeps it busy beyond a compile's time.
#[test]
fn sums_of_warpgroups_leave_half_of_the_registers() {
    let (mut seen, mut points) = (BTreeSet::new(), 0);
    for bundle in Bundle::shipped() {
        let spec = KernelSpec::load(&bundle).unwrap();
        if !spec.is_for(&target("sm_90")) {
            continue;
        }
        for problem in problems(&spec, true) {
            let Some(scope) = spec.scope(&problem, &target("sm_90")).unwrap() else { continue };
            for solver in spec.solvers_for(&scope).unwrap() {
                let feeders = u32::from(solver.name.ends_with("TensorCopy"));
                let has_sums = feeders == 1 || solver.name.contains("Warpgroup");
                if !has_sums || !seen.insert(solver.name.clone()) {
                    continue;
                }
                for point in spec.candidates(solver, &scope, usize::MAX).unwrap().points {
                    let build = spec.build(&point, &scope).unwrap();
                    let size = |name: &str| -> u32 {
                        let (_, value) = build.defines.iter().find(|(define, _)| define == name).unwrap();
                        value.parse().unwrap()
                    };
                    let threads = size("WM") * size("WN") * 128;
                    assert!(build.launches.iter().any(|launch| launch.block[0] == threads + feeders * 128), "{point}");
                    let sums = size("BM") * size("BN") / threads;
                    assert!(
                        sums <= 128 && sums * 2 <= 65536 / threads,
                        "{point}: {sums} sums a thread, {threads} threads"
                    );
                    points += 1;
                }
            }
        }
    }
    assert!(seen.len() == 10 && points > 1000, "{points} points of {seen:?}");
}

/// As tune_gemm.py counts its configs; 880 and 1152 are also in logs of its users.
#[test]
fn spaces_of_matrix_products_in_triton_are_those_of_tune_gemm() {
    let spec = KernelSpec::load(&Bundle::gemm_in_triton()).unwrap();
    let count = |sizes: [i64; 3], space: &str, target: &str, whole: bool| {
        let names = ["m", "n", "k"].into_iter().map(String::from);
        let sizes = names.zip(sizes.map(Value::Int)).chain([("space".to_string(), space.into())]).collect();
        let scope = spec.scope(&spec.problem(&sizes).unwrap(), &target.parse().unwrap()).unwrap().unwrap();
        let solvers = spec.solvers_for(&scope).unwrap();
        let tuned = solvers.into_iter().filter(|solver| solver.is_tunable());
        let mut found = 0;
        for solver in tuned {
            let candidates = spec.candidates(solver, &scope, usize::MAX).unwrap();
            assert!(candidates.exact);
            found += candidates.points.len();
            // What shares a compile.
            if !whole {
                let compiled = |params: &[Value]| -> Vec<Value> {
                    let params = solver.params.iter().zip(params).filter(|(param, _)| !param.at_launch);
                    params.map(|(_, value)| value.clone()).collect()
                };
                let different: BTreeSet<Vec<Value>> =
                    candidates.points.iter().map(|candidate| compiled(&candidate.params)).collect();
                found = found - candidates.points.len() + different.len();
            }
        }
        found
    };
    for (sizes, on_gfx942, on_gfx950) in [
        ([16, 13312, 16384], 880, 1000),
        ([512, 512, 512], 5112, 6128),
        ([1024, 1024, 1024], 6224, 7520),
        ([8192, 8192, 8192], 672, 1152),
        ([17, 5120, 5120], 2304, 2560),
    ] {
        assert_eq!(count(sizes, "v3", "gfx942-304", true), on_gfx942, "{sizes:?}");
        // Which does without kpack 2: it is what 1 is there.
        assert_eq!(count(sizes, "v3", "gfx950-256", true) * 2, on_gfx950, "{sizes:?}");
    }
    assert_eq!(count([1024, 1024, 1024], "v3", "gfx942-304", false), 1288);
    assert_eq!(count([17, 5120, 5120], "v3", "gfx942-304", false), 704);
    assert_eq!(count([8192, 8192, 8192], "cuda", "sm_90-132", true), 393);
}

/// The shipped spec of matrix products on GPUs, with Triton's beside.
fn beside_triton() -> (Bundle, Bundle) {
    let mut both = Bundle::shipped().into_iter().filter_map(|bundle| Some((bundle.beside_triton()?, bundle)));
    let (joined, alone) = both.next().unwrap();
    assert_eq!((both.count(), joined.beside_triton()), (0, None));
    (joined, alone)
}

#[test]
fn triton_stands_beside_the_matrix_products_of_gpus() {
    let (joined, alone) = beside_triton();
    // What a compiler is given is what it is given of either spec, so that the compile cache has it.
    assert_eq!(joined.for_toolchain("clang").files, alone.files);
    let python: Vec<String> = joined.for_toolchain("triton").files.into_keys().collect();
    assert_eq!(python, ["gemm.py"]);
    let (joined, alone) = (KernelSpec::load(&joined).unwrap(), KernelSpec::load(&alone).unwrap());
    assert_eq!((joined.name.as_str(), joined.toolchain.as_str()), ("gemm-gpu", CLANG_AND_TRITON));
    assert_eq!((joined.method(), joined.reference()), (Method::KERNELS, alone.reference()));
    assert_eq!(joined.compiled_by("triton"), ("gemm.py", &[][..]));
    assert_eq!(joined.compiled_by("clang"), (alone.source.as_str(), &alone.flags[..]));
    let mut used = BTreeSet::new();
    for arch in ["gfx90a", "gfx950", "gfx1100", "sm_75", "sm_90"] {
        for problem in gemm_problems() {
            let of = |spec: &KernelSpec| {
                let scope = spec.scope(&problem, &target(arch)).unwrap()?;
                let solvers = spec.solvers_for(&scope).unwrap();
                let points = |solver: &&Solver| spec.candidates(solver, &scope, 4).unwrap().points;
                let named = solvers.iter().map(|solver| (solver.name.clone(), points(solver)));
                Some((scope.clone(), named.collect::<BTreeMap<String, Vec<Candidate>>>()))
            };
            let (Some((scope, found)), Some((_, own))) = (of(&joined), of(&alone)) else { continue };
            for (name, points) in &found {
                let solver = joined.solver(name).unwrap();
                if solver.toolchain == "clang" {
                    assert_eq!(own.get(name), Some(points), "{arch} {problem}: {name}");
                    continue;
                }
                used.insert(name.clone());
                // Small products have no place for the default of NVIDIA's.
                let default = solver.default_candidate();
                let is_valid = joined.build(&default, &scope).is_ok();
                assert_eq!(points.first() == Some(&default), is_valid, "{arch} {problem}: {name}");
                assert!(is_valid || name.contains("Cuda"), "{arch} {problem}: {name}");
                for point in points {
                    let build = joined.build(point, &scope).unwrap();
                    assert_eq!(build.launches.len(), build.typed.len(), "{point}");
                    assert!(build.defines.iter().all(|(define, _)| define != "ELEMENT"), "{point}");
                }
            }
            assert!(found.len() > own.len(), "{arch} {problem}");
        }
    }
    let names = ["TritonGemm", "TritonGemmCuda", "TritonGemmSplit", "TritonGemmSplitCuda"];
    assert_eq!(used, names.map(String::from).into());
}

/// Of the types of a, b and c that are not bluefin's own kernels', each is Triton's where the architecture multiplies it.
#[test]
fn other_types_of_matrix_products_are_tritons() {
    let types = KernelSpec::load(&Bundle::gemm_types_in_triton()).unwrap();
    let alone = KernelSpec::load(&beside_triton().1).unwrap();
    for (line, on) in [
        ("gemmfp8 -m 64 -n 64 -k 64", &["gfx942", "gfx950", "sm_90"][..]),
        ("gemmfp8 -m 64 -n 64 -k 64 --b_type BF8 --c_type FP16", &["gfx942", "gfx950", "sm_90"]),
        ("gemmfp16 -m 64 -n 64 -k 64 --c_type FP8", &["gfx942", "gfx950", "sm_90"]),
        ("gemmfp16 -m 64 -n 64 -k 64 -C 1 --c_type FP32", &["gfx90a", "gfx942", "gfx950", "sm_80", "sm_90"]),
        ("gemmint8 -m 64 -n 64 -k 64", &["gfx90a", "gfx942", "gfx950", "sm_80", "sm_90"]),
        ("gemmfp16 -m 64 -n 64 -k 64 --b_type BF16", &[]),
        ("gemmfp8 -m 64 -n 64 -k 64 --b_type FP16 --c_type FP16", &[]),
        ("gemmfp16 -m 64 -n 64 -k 64 -b 2 --c_type FP32", &["gfx90a", "gfx942", "gfx950", "sm_80", "sm_90"]),
        ("gemmfp16 -m 64 -n 64 -k 64", &[]),
    ] {
        let [problem] =
            &bluefin_common::problem::parse(line, None).unwrap_or_else(|error| panic!("{line}: {error}"))[..]
        else {
            panic!("{line}")
        };
        let archs = ["gfx90a", "gfx942", "gfx950", "sm_80", "sm_90"];
        let found: Vec<&str> = archs
            .into_iter()
            .filter(|arch| {
                let Some(scope) = types.scope(problem, &target(arch)).unwrap() else { return false };
                assert!(alone.scope(problem, &target(arch)).unwrap().is_none(), "{line}: no problem is of both specs");
                types.build(&types.reference(), &scope).unwrap();
                types.task_parts(&scope).unwrap();
                types
                    .solvers_for(&scope)
                    .unwrap()
                    .iter()
                    .any(|solver| types.candidates(solver, &scope, 8).unwrap().valid > 1)
            })
            .collect();
        assert_eq!(found, on, "{line}");
    }
}

/// Behind those that small budgets try, so that few compiles give a device much to do.
#[test]
fn what_shares_a_compile_follows_each_other() {
    let spec = KernelSpec::load(&Bundle::gemm_in_triton()).unwrap();
    let sizes = ["m", "n", "k"].map(|name| (name.to_string(), 512_i64.into())).into();
    let scope = spec.scope(&spec.problem(&sizes).unwrap(), &"gfx942-304".parse().unwrap()).unwrap().unwrap();
    let solver = spec.solver("TritonGemm").unwrap();
    let all = spec.candidates(solver, &scope, usize::MAX).unwrap().points;
    assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (5112, 5112));
    for limit in [1, SCATTERED, SCATTERED + 1, 200] {
        assert_eq!(spec.candidates(solver, &scope, limit).unwrap().points, all[..limit]);
    }
    let compiled = |candidate: &Candidate| -> Vec<Value> {
        let params = solver.params.iter().zip(&candidate.params).filter(|(param, _)| !param.at_launch);
        params.map(|(_, value)| value.clone()).collect()
    };
    let (scattered, grouped) = all.split_at(SCATTERED);
    let of = |points: &[Candidate]| points.iter().map(compiled).collect::<BTreeSet<_>>().len();
    let runs = 1 + grouped.windows(2).filter(|pair| compiled(&pair[0]) != compiled(&pair[1])).count();
    assert_eq!(runs, of(grouped));
    assert!(of(scattered) > SCATTERED * 9 / 10, "{}", of(scattered));
}
