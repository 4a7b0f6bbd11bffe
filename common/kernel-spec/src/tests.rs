use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use crate::{Bundle, KernelSpec, Scope};
use bluefin_common::artifact::Argument;
use bluefin_common::candidate::Candidate;
use bluefin_common::problem::{DataType, GemmProblem, Problem};
use bluefin_common::target::Target;
use bluefin_common::task::Role;
use bluefin_common::value::Value;

/// A spec with one of everything.
pub(super) const SPEC: &str = r#"
name = "axpy"
problem = "kernel"
toolchain = "clang"
targets = ["gfx90a", "sm_90"]
source = "axpy.hip"
includes = ["prelude.h"]
flags = ["-O3"]
applicable = "n > 0 && total <= 4096 * 1048576"
let = ["total = n * m", "half = n / 2"]
reference = "Reference"

[sizes]
n = 1000
m = 2

[[buffer]]
name = "x"
type = "FP32"
length = "total"
role = "input"

[[buffer]]
name = "y"
type = "if wave == 64 { \"FP64\" } else { \"FP32\" }"
length = "total"
role = "output"

[tolerance.FP32]
absolute = 1e-4
relative = 1e-4
[tolerance.FP64]
absolute = 0
relative = 1e-9

[[solver]]
name = "Reference"
algorithm = "Direct"
[[solver.launch]]
entry = "axpy_reference"
arguments = ["x", "y", { i64 = "total" }, { f32 = 0.5 }]
grid = ["ceil_div(total, 256)"]
block = [256]

[[solver]]
name = "Tiled"
algorithm = "GEMM"
applicable = "n >= 4"
defines = { WAVE = "wave", EXACT = "n % TILE == 0", TYPE = "if wave == 64 { \"double\" } else { \"float\" }" }
workspace = "total * SPLIT"
constraints = ["TILE * UNROLL <= 512", "MODE == \"plain\" || SPLIT == 1"]
[[solver.param]]
name = "TILE"
values = [32, 64, 128, 256]
default = 64
[[solver.param]]
name = "UNROLL"
values = [1, 2, 4, 8]
default = 2
[[solver.param]]
name = "MODE"
values = ["plain", "packed"]
default = "plain"
[[solver.param]]
name = "SPLIT"
values = [1, 2, 4]
default = 1
[[solver.launch]]
entry = "axpy_tiled"
arguments = ["x", "workspace", { i32 = "total" }]
grid = ["ceil_div(total, TILE)", "SPLIT", 1]
block = ["TILE"]
shared = "TILE * 4"
[[solver.launch]]
entry = "axpy_reduce"
arguments = ["workspace", "y", { f64 = "total" }]
grid = ["ceil_div(total, 256)", 1]
block = [256]
"#;

pub(super) fn bundle(toml: &str) -> Bundle {
    let files = ["axpy.hip", "prelude.h"].map(|name| (name.to_string(), "// nothing\n".to_string()));
    Bundle { toml: toml.to_string(), files: files.into(), ..Bundle::default() }
}

fn spec() -> KernelSpec {
    KernelSpec::load(&bundle(SPEC)).unwrap()
}

pub(super) fn target() -> Target {
    "gfx90a-104".parse().unwrap()
}

pub(super) fn scope(spec: &KernelSpec, n: i64) -> Scope {
    let problem = spec.problem(&[("n".to_string(), Value::Int(n))].into()).unwrap();
    spec.scope(&problem, &target()).unwrap().unwrap()
}

#[test]
fn a_spec_may_say_what_its_problem_comes_to() {
    let with = |lines: &str| {
        let text = SPEC.replacen("reference = \"Reference\"", &format!("reference = \"Reference\"\n{lines}"), 1);
        KernelSpec::load(&bundle(&text))
    };
    let work = |lines: &str| {
        let spec = with(lines).unwrap();
        spec.work(&scope(&spec, 1000)).map(|work| (work.flops, work.bytes))
    };
    assert_eq!(work("").unwrap(), (None, None));
    assert_eq!(work("flops = \"2 * total\"\nbytes = \"12 * total\"").unwrap(), (Some(4000.0), Some(24000.0)));
    assert_eq!(work("flops = \"n - 1000\"").unwrap(), (None, None), "nothing is not known");
    let error = work("flops = \"n / (m - 2)\"").unwrap_err().to_string();
    assert!(error.contains("flops"), "{error}");
    let error = with("bytes = \"4 * q\"").unwrap_err().to_string();
    assert!(error.contains("bytes") && error.contains("unknown variable q"), "{error}");
}

#[test]
fn a_spec_is_read_whole() {
    let spec = spec();
    assert_eq!((spec.name.as_str(), spec.problem.as_str(), spec.toolchain.as_str()), ("axpy", "kernel", "clang"));
    let scope = scope(&spec, 1000);
    assert_eq!(scope.get("total"), Some(Value::Int(2000)));
    assert_eq!(scope.get("target"), Some(Value::from("gfx90a")));
    assert_eq!(scope.get("nothing"), None);
    let names: Vec<&str> = spec.solvers_for(&scope).unwrap().iter().map(|solver| solver.name.as_str()).collect();
    assert_eq!(names, ["Reference", "Tiled"]);
    let (buffers, tolerance) = spec.task_parts(&scope).unwrap();
    assert_eq!(buffers[1].data_type, DataType::Fp64);
    assert_eq!((buffers[1].bytes(), buffers[1].role), (16_000, Role::Output));
    assert_eq!((tolerance.absolute, tolerance.relative), (0.0, 1e-9));
    assert_eq!(spec.reference(), Candidate { solver: "Reference".to_string(), params: vec![] });
}

#[test]
fn a_candidate_is_built() {
    let spec = spec();
    let scope = scope(&spec, 1000);
    let solver = spec.solver("Tiled").unwrap();
    assert!(solver.is_tunable());
    let candidate = solver.default_candidate();
    assert_eq!(candidate.to_string(), "Tiled:64,2,plain,1");
    let build = spec.build(&candidate, &scope).unwrap();
    let defines: Vec<String> = build.defines.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(defines, ["EXACT=0", "MODE=plain", "SPLIT=1", "TILE=64", "TYPE=double", "UNROLL=2", "WAVE=64"]);
    assert_eq!(build.workspace, 2000);
    let [tiled, reduce] = build.launches.as_slice() else { panic!("{:?}", build.launches) };
    assert_eq!((tiled.grid, tiled.block, tiled.shared), ([32, 1, 1], [64, 1, 1], 256));
    assert_eq!(tiled.arguments, [Argument::Buffer(0), Argument::Workspace, Argument::I32(2000)]);
    assert_eq!(reduce.arguments, [Argument::Workspace, Argument::Buffer(1), Argument::F64(2000.0)]);
    let reference = spec.build(&spec.reference(), &scope).unwrap();
    assert_eq!(reference.launches[0].arguments[3], Argument::F32(0.5));
}

#[test]
fn a_candidate_has_the_launches_that_are_for_it() {
    let split = SPEC.replacen("entry = \"axpy_reduce\"", "entry = \"axpy_reduce\"\nwhen = \"SPLIT > 1\"", 1);
    let spec = KernelSpec::load(&bundle(&split)).unwrap();
    let scope = scope(&spec, 1000);
    let solver = spec.solver("Tiled").unwrap();
    let entries = |spec: &KernelSpec, params: &str| {
        let params = solver.parse_params(params).unwrap();
        let built = spec.build(&Candidate { solver: "Tiled".to_string(), params }, &scope)?;
        Ok::<_, crate::SpecError>(built.launches.into_iter().map(|launch| launch.entry).collect::<Vec<_>>())
    };
    assert_eq!(entries(&spec, "64,2,plain,1").unwrap(), ["axpy_tiled"]);
    assert_eq!(entries(&spec, "64,2,plain,2").unwrap(), ["axpy_tiled", "axpy_reduce"]);
    for (when, expected) in [("false", "the constraint `(false) || (false)` is false"), ("\"n\"", "expecting bool")] {
        let never = SPEC.replace("entry = \"axpy_", &format!("when = {when}\nentry = \"axpy_"));
        let never = KernelSpec::load(&bundle(&never)).unwrap();
        let error = entries(&never, "64,2,plain,1").expect_err(when).to_string();
        assert!(error.contains(expected), "{error}");
    }
    // A point without a launch is none.
    let when = |entry: &str, text: &str| {
        text.replace(&format!("entry = \"{entry}\""), &format!("when = \"SPLIT > 1\"\nentry = \"{entry}\""))
    };
    let two = when("axpy_tiled", &when("axpy_reduce", SPEC));
    let two = KernelSpec::load(&bundle(&two)).unwrap();
    let points = two.candidates(two.solver("Tiled").unwrap(), &scope, 1000).unwrap().points;
    assert!(!points.is_empty() && points.iter().all(|point| point.params[3] != Value::Int(1)), "{points:?}");
}

#[test]
fn candidates_from_outside_are_checked() {
    let spec = spec();
    let scope = scope(&spec, 1000);
    let tiled = |text: &str| {
        let params = text.split(',').map(|word| word.parse().map_or_else(|_| Value::from(word), Value::Int)).collect();
        Candidate { solver: "Tiled".to_string(), params }
    };
    for (candidate, reason) in [
        (tiled("64,2,plain"), "found 3 params, expected 4"),
        (tiled("65,2,plain,1"), "TILE: found 65, expected one of 32 64 128 256"),
        (tiled("64,2,3,1"), "MODE: found 3"),
        (tiled("256,4,plain,1"), "the constraint `TILE * UNROLL <= 512` is false"),
        (Candidate { solver: "None".to_string(), params: vec![] }, "unknown solver, expected one of Reference Tiled"),
    ] {
        let error = spec.build(&candidate, &scope).expect_err(reason).to_string();
        assert!(error.contains(reason), "{error}");
    }
    let small = self::scope(&spec, 2);
    assert!(spec.build(&tiled("64,2,plain,1"), &small).expect_err("n").to_string().contains("not applicable"));
    let solver = spec.solver("Tiled").unwrap();
    assert_eq!(solver.parse_params("64,2,plain,1"), Some(tiled("64,2,plain,1").params));
    for text in ["", "64", "64,2,plain,1,", "64,2,plain,3", "064,2,plain,1"] {
        assert_eq!(solver.parse_params(text), None, "{text}");
    }
    assert_eq!(spec.solver("Reference").unwrap().parse_params(""), Some(vec![]));
}

#[test]
fn launches_stay_within_what_devices_take() {
    let spec = spec();
    let candidate = spec.solver("Tiled").unwrap().default_candidate();
    // 2^32 elements: more than an i32 argument can say.
    let error = spec.build(&candidate, &scope(&spec, 1 << 31)).expect_err("i32").to_string();
    assert!(error.contains("expected 32 bits") && error.contains("solver[1].launch[0].arguments[2]"), "{error}");
    for (from, to, reason) in [
        ("block = [256]", "block = [1025]", "expected 1 to 1024"),
        ("block = [256]", "block = [64, 32]", "2048 threads"),
        ("block = [256]", "block = [1, 1, 65]", "expected 1 to 64"),
        ("block = [256]", "block = [0]", "expected 1 to 1024"),
        ("grid = [\"ceil_div(total, 256)\"]", "grid = [\"n - m * 500\"]", "found 0, expected 1 to"),
        ("grid = [\"ceil_div(total, 256)\"]", "grid = [\"half / 0\"]", "zero"),
    ] {
        let spec = KernelSpec::load(&bundle(&SPEC.replacen(from, to, 1))).unwrap();
        let error = spec.build(&spec.reference(), &scope(&spec, 1000)).expect_err(to).to_string();
        assert!(error.contains(reason) && error.contains("solver[0].launch[0]") && error.contains("line 4"), "{error}");
    }
}

#[test]
fn what_does_not_fit_is_told() {
    let alone = SPEC.replacen("name = \"Reference\"", "name = \"Reference\"\napplicable = \"n > 4 && m > 1\"", 1);
    let spec = KernelSpec::load(&bundle(&alone)).unwrap();
    let sized = |n: i64, m: i64| {
        spec.problem(&[("n".to_string(), Value::Int(n)), ("m".to_string(), Value::Int(m))].into()).unwrap()
    };
    let told = |problem: &Problem, target: &Target| {
        spec.misfit(problem, target).unwrap().map(|misfit| (misfit.distance(), misfit.to_string()))
    };
    assert_eq!(told(&sized(5, 2), &target()), None);
    let (_, solvers) = told(&sized(3, 0), &target()).unwrap();
    assert_eq!(solvers, "has no solver: Reference needs n > 4 (n is 3), Tiled needs n >= 4 (n is 3)");
    assert_eq!(told(&sized(5, 0), &target()), None, "Tiled applies");
    let (_, other) = told(&sized(5, 2), &Target::Host).unwrap();
    assert!(other.starts_with("is for gfx"), "{other}");
    assert_eq!(told(&gemm(), &target()).unwrap().1, "is for other problems");
    let (unmet, huge) = told(&sized(1 << 32, 2), &target()).unwrap();
    assert!(unmet == 1 && huge.starts_with("needs ") && huge.ends_with("(total is 8589934592)"), "{huge}");
}

#[test]
fn targets_are_vendors_and_features_too() {
    let text = SPEC.replacen("targets = [\"gfx90a\", \"sm_90\"]", "targets = [\"amd\", \"has_wgmma\", \"sm_75\"]", 1);
    let spec = KernelSpec::load(&bundle(&text)).unwrap();
    for (target, is_one) in [
        ("gfx906-60", true),
        ("gfx1250-64", true),
        ("sm_90-132", true),
        ("sm_75-40", true),
        ("sm_86-82", false),
        ("host", false),
    ] {
        assert_eq!(spec.is_for(&target.parse().unwrap()), is_one, "{target}");
    }
}

#[test]
fn expressions_know_what_an_architecture_has() {
    let text = SPEC.replacen(
        "half = n / 2",
        "half = if has_mfma && vendor == \\\"amd\\\" { shared_memory } else { registers }",
        1,
    );
    let spec = KernelSpec::load(&bundle(&text)).unwrap();
    let problem = spec.problem(&BTreeMap::new()).unwrap();
    let half = |target: &str| spec.scope(&problem, &target.parse().unwrap()).unwrap().unwrap().get("half");
    assert_eq!(half("gfx90a-104"), Some(Value::Int(65_536)));
    assert_eq!(half("sm_90-132"), Some(Value::Int(255)));
}

/// Specs that are older than a feature, and that sessions still have, may call something of their own so.
#[test]
fn a_spec_may_mean_something_else_by_the_name_of_a_feature() {
    let old = "applicable = \"has_mma && n > 0\"\nlet = [\"has_mma = n > 4\", \"shared_memory = 7\", \"total = n * m\", \"half = n\"]";
    let from = "applicable = \"n > 0 && total <= 4096 * 1048576\"\nlet = [\"total = n * m\", \"half = n / 2\"]";
    assert!(SPEC.contains(from));
    let spec = KernelSpec::load(&bundle(&SPEC.replacen(from, old, 1))).unwrap();
    let scope = |n: i64| {
        let problem = spec.problem(&[("n".to_string(), Value::Int(n))].into()).unwrap();
        spec.scope(&problem, &"gfx90a-104".parse().unwrap()).unwrap()
    };
    assert_eq!(scope(5).unwrap().get("shared_memory"), Some(Value::Int(7)));
    assert!(scope(4).is_none(), "its own has_mma is false");
}

#[test]
fn problems_that_do_not_fit_have_no_scope() {
    let spec = spec();
    let problem = spec.problem(&BTreeMap::new()).unwrap();
    assert_eq!(problem.canonical(), "kernel axpy m=2 n=1000");
    assert!(spec.scope(&problem, &target()).unwrap().is_some());
    assert!(spec.scope(&problem, &Target::Host).unwrap().is_none(), "another architecture");
    assert!(spec.scope(&gemm(), &target()).unwrap().is_none(), "another kind");
    let huge = spec.problem(&[("n".to_string(), Value::Int(1 << 32))].into()).unwrap();
    assert!(spec.scope(&huge, &target()).unwrap().is_none(), "not applicable");
    let error = spec.problem(&[("k".to_string(), Value::Int(1))].into()).expect_err("unknown size").to_string();
    assert!(error.contains("size k") && error.contains("one of m n"), "{error}");
    assert!(spec.problem(&[("n".to_string(), Value::Int(i64::MAX))].into()).is_err());
    let overflow =
        spec.problem(&[("n".to_string(), Value::Int(1 << 40)), ("m".to_string(), Value::Int(1 << 40))].into()).unwrap();
    let error = spec.scope(&overflow, &target()).expect_err("overflow").to_string();
    assert!(error.contains("line 10: let[0]: `n * m`") && error.contains("overflow"), "{error}");
}

#[test]
fn candidate_order_is_fixed_for_all_time() {
    let spec = spec();
    let solver = spec.solver("Tiled").unwrap();
    let all = spec.candidates(solver, &scope(&spec, 1000), usize::MAX).unwrap();
    // 13 of 16 (TILE, UNROLL) pairs fit 512, with 4 of 6 (MODE, SPLIT) pairs.
    assert_eq!((all.valid, all.exact, all.space, all.points.len()), (13 * 4, true, 96, 13 * 4));
    let first: Vec<String> = all.points.iter().take(8).map(Candidate::params_text).collect();
    // Changing it would give sessions that are resumed other candidates.
    assert_eq!(first, GOLDEN);
    let other = spec.candidates(solver, &scope(&spec, 1001), usize::MAX).unwrap();
    assert_eq!(other.points, all.points, "another problem tries the same points, so that artifacts are shared");
}

const GOLDEN: [&str; 8] = [
    "64,2,plain,1",
    "32,8,plain,2",
    "128,4,plain,2",
    "128,4,packed,1",
    "128,4,plain,1",
    "64,1,packed,1",
    "64,4,plain,1",
    "64,1,plain,2",
];

#[test]
fn huge_spaces_are_not_enumerated() {
    let values: Vec<String> = (0..4096).map(|value| value.to_string()).collect();
    let big = SPEC.replacen("[1, 2, 4, 8]", &format!("[{}]", values.join(",")), 1).replacen(
        "[1, 2, 4]",
        &format!("[{}]", values.join(",")),
        1,
    );
    let spec = KernelSpec::load(&bundle(&big.replacen("TILE * UNROLL <= 512", "UNROLL % 2 == 0", 1))).unwrap();
    let solver = spec.solver("Tiled").unwrap();
    let found = spec.candidates(solver, &scope(&spec, 1000), 10).unwrap();
    assert_eq!((found.points.len(), found.exact, found.space), (10, false, 4 * 4096 * 2 * 4096));
    // Half of the space by UNROLL, and half of that by MODE.
    let share = found.valid as f64 / found.space as f64;
    assert!((0.2..0.3).contains(&share), "{share}");
    let none = KernelSpec::load(&bundle(&big.replacen("TILE * UNROLL <= 512", "UNROLL < 0", 1))).unwrap();
    let found = none.candidates(none.solver("Tiled").unwrap(), &scope(&none, 1000), 0).unwrap();
    assert_eq!((found.points.len(), found.valid), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_larger_budget_extends_a_smaller_one(n in 4_i64..100_000, small in 0_usize..60, more in 0_usize..60) {
        let spec = spec();
        let solver = spec.solver("Tiled").unwrap();
        let scope = scope(&spec, n);
        let few = spec.candidates(solver, &scope, small).unwrap();
        let many = spec.candidates(solver, &scope, small + more).unwrap();
        prop_assert!(few.points.len() <= small);
        prop_assert_eq!(few.points.as_slice(), &many.points[..few.points.len()]);
        prop_assert_eq!(few.valid, many.valid);
        let mut unique = many.points.clone();
        unique.sort();
        unique.dedup();
        prop_assert_eq!(unique.len(), many.points.len());
        for point in &many.points {
            prop_assert!(spec.build(point, &scope).is_ok());
        }
    }

    #[test]
    fn any_toml_is_a_spec_or_an_error(cut in 0..SPEC.len(), insert in "\\PC{0,8}") {
        let text = format!("{}{insert}{}", &SPEC[..cut], &SPEC[cut..]);
        let _ = KernelSpec::load(&bundle(&text));
        let _ = KernelSpec::load(&bundle(&SPEC[..cut]));
    }
}

fn gemm() -> Problem {
    Problem::Gemm(GemmProblem::plain([64; 3], DataType::Fp32))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn bundles_are_read_from_disk() {
    let bundle = Bundle::read(&root().join("examples/stencil.toml")).unwrap();
    assert_eq!(bundle.files.keys().collect::<Vec<_>>(), ["stencil.c"]);
    let spec = KernelSpec::load(&bundle).unwrap();
    let problem = spec.problem(&[("width".to_string(), 64_i64.into())].into()).unwrap();
    let scope = spec.scope(&problem, &Target::Host).unwrap().unwrap();
    let found = spec.candidates(spec.solver("StencilTiled").unwrap(), &scope, 5).unwrap();
    assert_eq!((found.points.len(), found.exact), (5, true));
    for point in found.points.iter().chain([&spec.reference()]) {
        spec.build(point, &scope).unwrap();
    }
}

#[test]
fn the_manual_shows_the_example() {
    let manual = std::fs::read_to_string(root().join("docs/kernel-specs.md")).unwrap();
    let shown = manual.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let example = std::fs::read_to_string(root().join("examples/stencil.toml")).unwrap();
    let parse = |text: &str| text.parse::<toml::Table>().unwrap();
    assert_eq!(parse(shown), parse(&example));
}

#[test]
fn files_that_are_no_bundle_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).unwrap();
    let path = folder.path().join("axpy.toml");
    let error = || Bundle::read(&path).expect_err("no bundle").to_string();
    assert!(error().contains("axpy.toml"));
    write("axpy.toml", SPEC.as_bytes());
    assert!(error().contains("axpy.hip"));
    write("axpy.hip", b"\xff\xfe");
    assert!(error().contains("axpy.hip"));
    write("axpy.hip", &vec![b' '; (2 << 20) + 1]);
    assert!(error().contains("expected at most 2097152"));
    write("axpy.hip", b"// source");
    let bundle = Bundle::read(&path).unwrap();
    assert!(bundle.files["prelude.h"].len() > 100, "the shipped prelude");
    write("prelude.h", b"// mine");
    assert_eq!(Bundle::read(&path).unwrap().files["prelude.h"], "// mine");
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("zero.hip")).unwrap();
    write("axpy.toml", SPEC.replace("\"axpy.hip\"", "\"zero.hip\"").as_bytes());
    assert!(error().ends_with("zero.hip: found a link, expected a regular file"), "{}", error());
    // A user may name a spec by a link.
    write("axpy.toml", SPEC.as_bytes());
    let other = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(folder.path(), other.path().join("specs")).unwrap();
    Bundle::read(&other.path().join("specs/axpy.toml")).unwrap();
}

#[test]
fn options_are_the_macros_in_byte_order() {
    let define = |name: &str, value: &str| (name.to_string(), value.to_string());
    let defines = vec![define("A", "1"), define("A1", "2"), define("B", "x")];
    let build = crate::Build { defines, ..crate::Build::default() };
    assert_eq!(build.options(), " -DA1=2 -DA=1 -DB=x");
}
