//! Everything that can be wrong with a spec, and where errors say it is.

use std::collections::BTreeMap;

use crate::tests::{SPEC, bundle, scope, target};
use crate::{KernelSpec, SpecError};

/// The error of `SPEC` with `from` replaced by `to`.
fn broken(from: &str, to: &str) -> SpecError {
    assert!(SPEC.contains(from), "{from}");
    KernelSpec::load(&bundle(&SPEC.replacen(from, to, 1))).expect_err(to)
}

#[test]
fn mistakes_are_found_when_a_spec_is_loaded() {
    for (from, to, expected) in [
        ("name = \"axpy\"", "name = \"Axpy\"", "line 2: name: found \"Axpy\""),
        (
            "problem = \"kernel\"",
            "problem = \"Pool\"",
            "expected conv, gemm, bnorm, kernel, or the word of an operator",
        ),
        ("toolchain = \"clang\"", "toolchain = \"hipcc\"", "line 4: toolchain"),
        ("toolchain = \"clang\"", "toolchain = \"cc\"", "line 5: targets"),
        ("\"sm_90\"", "\"gpu\"", "targets[1]: found \"gpu\", expected host, gfx…, sm_…, amd, nvidia or has_…"),
        ("\"sm_90\"", "\"shared_memory\"", "targets[1]: found \"shared_memory\""),
        ("\"half = n / 2\"", "\"xcds = 2\", \"xcds = 3\"", "let[2]: found \"xcds\", expected a name that is not taken"),
        ("\"sm_90\"", "\"gfx90a\"", "targets[1]: found \"gfx90a\", expected a name that is not taken"),
        ("source = \"axpy.hip\"", "source = \"../axpy.hip\"", "file name: found \"../axpy.hip\""),
        ("source = \"axpy.hip\"", "source = \"other.hip\"", "source: found \"other.hip\""),
        ("includes = [\"prelude.h\"]", "", "only files that the spec names"),
        ("flags = [\"-O3\"]", "flags = [\"-O3\", \"-fplugin=x\"]", "line 8: flags[1]"),
        ("flags = [\"-O3\"]", "flag = [\"-O3\"]", "line 8: unknown field `flag`"),
        ("n > 0", "q > 0", "line 9: applicable: `q > 0"),
        ("n > 0", "(n > 0", "applicable"),
        (
            "entry = \"axpy_tiled\"",
            "entry = \"axpy_tiled\"\nwhen = \"PART > 1\"",
            "solver[1].launch[0].when: `PART > 1`",
        ),
        ("\"half = n / 2\"", "\"half\"", "let[1]: found \"half\", expected name = expression"),
        ("\"half = n / 2\"", "\"n = 2\"", "let[1]: found \"n\", expected a name that is not taken"),
        ("\"half = n / 2\"", "\"if = 2\"", "let[1]"),
        ("\"half = n / 2\"", "\"half = half2\"", "unknown variable half2"),
        (
            "algorithm = \"GEMM\"",
            "algorithm = \"GEMM\"\ntoolchain = \"triton\"",
            "solver[1].toolchain: found \"triton\", expected clang; a second one is said by [beside]",
        ),
        (
            "[tolerance.FP64]",
            "[beside]\ntoolchain = \"cc\"\nsource = \"axpy.hip\"\n[tolerance.FP64]",
            "beside.toolchain: found \"cc\", expected triton",
        ),
        (
            "[tolerance.FP64]",
            "[beside]\ntoolchain = \"triton\"\nsource = \"axpy.py\"\n[tolerance.FP64]",
            "beside.source: found \"axpy.py\", expected a file that comes with the spec",
        ),
        (
            "[tolerance.FP64]",
            "[beside]\ntoolchain = \"triton\"\nsource = \"axpy.hip\"\n[tolerance.FP64]",
            "beside: found \"triton\", expected a solver of that toolchain",
        ),
        ("toolchain = \"clang\"", "toolchain = \"clang+triton\"", "line 4: toolchain"),
        (
            "reference = \"Reference\"",
            "reference = \"Ref\"",
            "line 11: reference: found \"Ref\", expected one of the solvers",
        ),
        ("m = 2", "cus = 2", "sizes.cus"),
        ("name = \"x\"", "name = \"workspace\"", "line 18: buffer[0].name"),
        ("name = \"x\"", "name = \"y\"", "buffer[1]: found \"y\""),
        ("type = \"FP32\"", "type = \"fp31\"", "unknown variable fp31"),
        ("role = \"output\"", "role = \"input\"", "at least one buffer with role"),
        ("role = \"output\"", "role = \"both\"", "line 27: unknown variant"),
        ("tolerance.FP64", "tolerance.FP65", "tolerance.FP65"),
        ("absolute = 0\n", "absolute = -1\n", "tolerance.FP64.absolute"),
        ("relative = 1e-9", "relative = inf", "tolerance.FP64.relative"),
        ("absolute = 0\n", "abs = 0\n", "unknown field `abs`"),
        (
            "algorithm = \"GEMM\"",
            "algorithm = \"GEMM\"\ncandidate = false",
            "solver[1].candidate: found \"false\", expected true: it is not the reference",
        ),
        ("algorithm = \"GEMM\"", "algorithm = \"Gemm\"", "solver[1].algorithm"),
        ("name = \"Tiled\"", "name = \"Reference\"", "solver[1]: found \"Reference\""),
        ("entry = \"axpy_tiled\"", "entry = \"axpy-tiled\"", "solver[1].launch[0].entry"),
        (
            "[\"x\", \"workspace\"",
            "[\"z\", \"workspace\"",
            "solver[1].launch[0].arguments[0]: found \"z\", expected workspace or one of the buffers x y",
        ),
        ("{ f64 = \"total\" }", "{ f16 = \"total\" }", "expected a buffer's name"),
        ("grid = [\"ceil_div(total, 256)\", 1]", "", "solver[1].launch[1].grid: found \"nothing\""),
        ("block = [\"TILE\"]", "block = [1, 1, 1, 1]", "solver[1].launch[0].block: found \"4 entries\""),
        ("default = 64", "default = 65", "solver[1].param[0].default: found \"65\", expected one of the values"),
        ("values = [32, 64, 128, 256]", "values = [64, \"a\"]", "solver[1].param[0].values[1]"),
        ("values = [32, 64, 128, 256]", "values = [64, 64]", "expected each value once"),
        ("values = [32, 64, 128, 256]", "values = []", "found \"0 entries\""),
        ("[\"plain\", \"packed\"]", "[\"plain\", \"a b\"]", "expected an integer, a bool or an identifier"),
        ("name = \"UNROLL\"", "name = \"TILE\"", "solver[1].param[1].name"),
        ("WAVE = \"wave\"", "SPLIT = \"wave\"", "solver[1].defines.SPLIT"),
        (
            "TILE * UNROLL <= 512",
            "TILE * UNROL <= 512",
            "solver[1].constraints[0]: `TILE * UNROL <= 512`: unknown variable UNROL",
        ),
        ("applicable = \"n >= 4\"", "applicable = \"TILE >= 4\"", "unknown variable TILE"),
        ("shared = \"TILE * 4\"", "shared = \"exp(TILE)\"", "unknown function exp"),
    ] {
        let error = broken(from, to).to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn values_that_fail_at_run_time_name_their_field() {
    let load = |from: &str, to: &str| KernelSpec::load(&bundle(&SPEC.replacen(from, to, 1))).unwrap();
    let parts = |spec: &KernelSpec, n| spec.task_parts(&scope(spec, n)).expect_err("parts").to_string();
    let spec = load("length = \"total\"", "length = \"total * 1000000000\"");
    assert!(parts(&spec, 1000).contains("buffer[0].length"));
    let spec = load("type = \"FP32\"", "type = \"target\"");
    assert!(parts(&spec, 1000).contains("buffer[0].type: `target`: data type: found \"gfx90a\""));
    let spec = load("[tolerance.FP64]", "[tolerance.FP16]");
    assert!(parts(&spec, 1000).contains("output of type FP64"));
    let spec = load("applicable = \"n > 0 && total <= 4096 * 1048576\"", "applicable = \"n + 1\"");
    let problem = spec.problem(&BTreeMap::new()).unwrap();
    let error = spec.scope(&problem, &target()).expect_err("int").to_string();
    assert!(error.contains("found the integer 1001, expected a bool"), "{error}");
    let spec = load("WAVE = \"wave\"", "WAVE = \"\\\"a b\\\"\"");
    let error = spec.build(&spec.solvers[1].default_candidate(), &scope(&spec, 1000)).expect_err("text").to_string();
    assert!(error.contains("solver[1].defines.WAVE") && error.contains("identifier"), "{error}");
}
