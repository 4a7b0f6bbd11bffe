//! Kernel specs from users, up to the launches of their candidates.
#![no_main]

use std::collections::BTreeMap;

use bluefin_common::problem::Problem;
use bluefin_common::target::Target;
use bluefin_kernel_spec::{Bundle, KernelSpec, SpecError};
use bluefin_producer::input::{Overrides, read_problems};
use libfuzzer_sys::fuzz_target;

const PROBLEMS: &[u8] = b"conv -n 1 -c 8 -H 9 -W 9 -k 8 -F 1\ngemm -m 8 -n 16 -k 4\n";
/// Candidates asked for.
const LIMIT: usize = 4;

fuzz_target!(|toml: &str| {
    // The files that a spec names are only stored and compiled, never read by us.
    let names = ["kernel.c", "stencil.c", "conv_fwd_host.c", "gemm_host.c", "gemm_gpu.hip"];
    let files = names.map(|name| (name.to_string(), String::new())).into();
    for files in [files, beside(toml)] {
        if let Ok(spec) = KernelSpec::load(&Bundle { toml: toml.to_string(), files, ..Bundle::default() }) {
            let _ = plan(&spec);
        }
    }
});

/// The files that shipped specs and most mutations of them name.
fn beside(toml: &str) -> BTreeMap<String, String> {
    let names = toml.split('"').filter(|word| [".c", ".h", ".hip"].iter().any(|end| word.ends_with(end)));
    names.take(8).map(|name| (name.to_string(), String::new())).collect()
}

fn plan(spec: &KernelSpec) -> Result<(), SpecError> {
    // Other words are those of operators, whose problems are below.
    let mut problems: Vec<Problem> = match spec.problem.as_str() {
        "kernel" => vec![spec.problem(&BTreeMap::new())?],
        _ => Vec::new(),
    };
    problems.extend(read_problems("", PROBLEMS, &Overrides::default()).problems.into_iter().map(|one| one.problem));
    for arch in spec.targets.iter().take(2) {
        let target = if arch == "host" { Target::Host } else { Target::Gpu { arch: arch.clone(), cus: 60 } };
        for problem in &problems {
            let Some(scope) = spec.scope(problem, &target)? else { continue };
            let _ = spec.task_parts(&scope);
            let _ = spec.build(&spec.reference(), &scope);
            for solver in spec.solvers_for(&scope)?.into_iter().take(4) {
                let Ok(candidates) = spec.candidates(solver, &scope, LIMIT) else { continue };
                assert!(candidates.points.len() <= LIMIT && candidates.points.len() as u64 <= candidates.space);
                for point in &candidates.points {
                    assert_eq!(solver.parse_params(&point.params_text()).as_ref(), Some(&point.params));
                    let _ = spec.build(point, &scope);
                }
            }
        }
    }
    Ok(())
}
