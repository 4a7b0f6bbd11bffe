//! Drafts of small files: what is found, and that what is written is a spec.

use super::*;
use crate::KernelSpec;

fn draft(name: &str, text: &str) -> Draft {
    let language = Language::of(Path::new(name)).expect("a file with kernels");
    Draft::new(language, name, text, |_| None)
}

/// The draft as a spec.
fn loaded(draft: &Draft) -> KernelSpec {
    let text = draft.spec();
    let bundle = Bundle { toml: text.clone(), ..draft.bundle() };
    KernelSpec::load(&bundle).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn kernels_of_hip_and_cuda() {
    let text = "#include <cuda_runtime.h>\n#ifndef TILE\n#define TILE 16\n#endif\n\
        __global__ void declared(int);\n\
        __global__ void __launch_bounds__(256) add(const float *__restrict__ a, float b[], const size_t n, double s) { }\n\
        template <typename T, unsigned int Block = 128> __global__ void sum(T const* in, T* out, int4* v) { }\n\
        int main() { add<<<1, 2>>>(a, b, 1, 2); }\n";
    let draft = draft("vectorAdd.cu", text);
    let names: Vec<&str> = draft.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    assert_eq!(names, ["add", "sum"]);
    let [add, sum] = draft.kernels.as_slice() else { panic!("{draft:?}") };
    let kinds: Vec<&ParameterKind> = add.parameters.iter().map(|one| &one.kind).collect();
    let buffer =
        |written| ParameterKind::Pointer { element: Some(DataType::Fp32), spelled: "float".into(), lanes: 1, written };
    assert_eq!(kinds, [&buffer(false), &buffer(true), &ParameterKind::I64, &ParameterKind::F64]);
    assert_eq!((sum.entry(true), sum.entry(false)), ("sum<float, SUM_BLOCK>".into(), "sum<float, 128>".into()));
    let spec = loaded(&draft);
    assert_eq!((spec.name.as_str(), spec.solvers.len()), ("vector-add", 2));
    let text = draft.spec();
    for part in [
        "name = \"TILE\"\n  values = [16]",
        "name = \"SUM_BLOCK\"\n  values = [128]",
        "{ i64 = \"n\" }",
        "4 for each int4",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn what_indexes_is_in_range() {
    let text = "__global__ void rows(const int* begin, const int* columns, const float* a, const int* signs, float* out) {\n\
        float sum = 0;\n\
        for (int j = begin[0]; j < begin[1]; ++j) sum += a[columns[j]] * signs[j];\n\
        out[0] = sum;\n}\n";
    let draft = draft("rows.hip", text);
    let spec = draft.spec();
    for (name, is_index) in [("begin", true), ("columns", true), ("a", false), ("signs", false)] {
        let (_, part) = spec.split_once(&format!("name = \"{name}\"")).unwrap();
        let part = part.split("[[buffer]]").next().unwrap();
        assert_eq!(part.contains("\nlow = 0\nhigh = 4"), is_index, "{name}: {spec}");
    }
    loaded(&draft);
}

#[test]
fn what_is_passed_by_value() {
    let text = "enum Mode { A };\n\
        template <typename T, typename IndexType> __global__ void step(T* p, T* m, const T* g, T* unused, bool nesterov, short s, Mode mode,\n\
        __half h, int2 v, float4 w, IndexType n) {\n\
        for (int i = 0; i < n; ++i) { p[i] = m[i] * g[i]; m[i] += 1; }\n}\n";
    let mut draft = draft("step.hip", text);
    let spec = draft.spec();
    for part in [
        "name = \"p\"\ntype = \"FP32\"\nlength = \"n\"  # how many elements\nrole = \"output\"\n",
        "name = \"m\"\ntype = \"FP32\"\nlength = \"n\"  # how many elements\nrole = \"inout\"",
        "entry = \"step<float, int>\"",
        "# nesterov is 0 here, as a bool",
        "# s is 0 here, as a short",
        "# h is 0 here: the 2 bytes of a __half as one number",
        "# v is 0 here: the 8 bytes of a int2 as one number",
        "# w is a float4, whose fields are not known",
        "{ i32 = 0 }, { i32 = 0 }, { i64 = 0 }, { struct = [], size = 16 }, { i32 = \"n\" }]",
    ] {
        assert!(spec.contains(part), "{part}\n{spec}");
    }
    loaded(&draft);
    let types = ["float*", "float*", "float const*", "float*", "bool", "short", "bluefin_enum<Mode>"];
    let types = types.into_iter().chain([
        "_Float16",
        "bluefin_bytes<Pair, (unsigned int)8>",
        "bluefin_bytes<Wide, 16u>",
        "int",
    ]);
    draft.set_types(0, &types.map(String::from).collect::<Vec<_>>());
    let spec = draft.spec();
    for part in ["# mode is 0 here, as a Mode", "the 8 bytes of a Pair", "# w is a Wide, whose fields are not known"] {
        assert!(spec.contains(part), "{part}\n{spec}");
    }
}

/// A structure whose layout is known: pointers in it are buffers, whole numbers sizes.
#[test]
fn structures_by_value() {
    let text = "struct P { const float* in; float* out; unsigned n; float dt; double m[4]; bool on; int** rows; };\n\
        __global__ void step(P p, int3 at, float* in) { p.out[0] = p.in[0] * p.dt; at.x = 1; }\n";
    let mut draft = draft("step.hip", text);
    let field = |at, path: &str, spelled: &str, count| LayoutField {
        at,
        path: path.split('.').map(String::from).collect(),
        spelled: spelled.to_string(),
        count,
    };
    let fields = vec![
        field(0, "in", "const float *", 1),
        field(8, "out", "float *", 1),
        field(16, "n", "unsigned int", 1),
        field(20, "dt", "float", 1),
        field(24, "m", "double", 4),
        field(56, "on", "bool", 1),
        // The second view of a union.
        field(56, "off", "bool", 1),
        field(64, "rows", "int **", 1),
        field(80, "last.x", "float", 1),
    ];
    let point = ["x", "y", "z"].into_iter().zip([0, 4, 8]).map(|(name, at)| field(at, name, "int", 1)).collect();
    draft.set_types(0, &["bluefin_bytes<P, 96u>", "bluefin_bytes<int3, 12u>", "float*"].map(String::from));
    let layouts = [
        Some(Layout { size: 96, alignment: 16, fields }),
        Some(Layout { size: 12, alignment: 4, fields: point }),
        None,
    ];
    draft.set_layouts(0, &layouts);
    let spec = draft.spec();
    for part in [
        "[sizes]  # of a problem; --size replaces a value\nat_x = 10\nat_y = 10\nat_z = 10\nn = 1000\n",
        "name = \"p_in\"\ntype = \"FP32\"\nlength = \"n\"  # how many elements\nrole = \"input\"\n",
        "name = \"out\"\ntype = \"FP32\"\nlength = \"n\"  # how many elements\nrole = \"output\"\n",
        "# p is a P, in which dt, m, on, p_last_x are 1 or false here\n",
        "# zeros are in p for what is no buffer and no number: rows (int **)\n",
        "arguments = [{ struct = [\"p_in\", \"out\", { u32 = \"n\" }, { f32 = 1.0 }, { f64 = [1.0, 1.0, 1.0, 1.0] }, { i1 = false }, \
         { f32 = 1.0, at = 80 }], align = 16 }, { struct = [{ i32 = \"at_x\" }, { i32 = \"at_y\" }, { i32 = \"at_z\" }] }, \"in\"]\n",
    ] {
        assert!(spec.contains(part), "{part}\n{spec}");
    }
    loaded(&draft);
}

/// Numbers of a template that are no integers, kernels of one name, and one that is under two conditions.
#[test]
fn instances_and_kernels_of_one_name() {
    let text = "enum Mode { A };\ntemplate <bool Exact, Mode mode, int N> __global__ void sum(float* out, int n) { }\n\
        __global__ void twice(const float* __restrict__ a, float* b) { b[0] = a[0]; }\n__global__ void twice(float* b) { b[0] = 1; }\n\
        #if X\n__global__ void once(float* b) { b[0] += 1; }\n#else\n__global__ void once(float* b) { b[0] = 1; }\n#endif\n";
    let draft = draft("k.cu", text);
    let entries: Vec<String> = draft.kernels.iter().map(|kernel| kernel.entry(true)).collect();
    assert_eq!(
        entries,
        [
            "sum<SUM_EXACT, static_cast<Mode>(SUM_MODE), SUM_N>",
            "twice(const float *, float *)",
            "twice(float *)",
            "once"
        ]
    );
    assert_eq!(draft.kernels.first().map(Kernel::instance).unwrap(), "sum<1, static_cast<Mode>(0), 256>");
    let many = "template <int First, int Second, int Third, int Fourth, int Fifth> __global__ void aKernelOfManyNumbers(float* p) { }\n";
    let entry = self::draft("k.cu", many).kernels.first().map(|kernel| kernel.entry(true)).unwrap();
    assert_eq!(
        entry,
        "aKernelOfManyNumbers<AKERNELO_FIRST, AKERNELO_SECOND, AKERNELO_THIRD, AKERNELO_FOURTH, AKERNELO_FIFTH>"
    );
    let spec = loaded(&draft);
    let names: Vec<&str> = spec.solvers.iter().map(|solver| solver.name.as_str()).collect();
    assert_eq!(names, ["Sum", "Twice", "Twice2", "Once"]);
}

/// Macros of the build file are the spec's, and no params.
#[test]
fn macros_of_the_build_file() {
    let text = "#ifndef TILE\n#define TILE 16\n#endif\n__global__ void k(REAL* p) { p[TILE] = 1; }\n";
    let build = |name: &str| (name == "Makefile").then(|| "NVCCFLAGS = -DREAL=double -DTILE=8\n".to_string());
    let draft = Draft::new(Language::Gpu, "k.cu", text, build);
    let text = draft.spec();
    assert!(text.contains("REAL = \"\\\"double\\\"\"\nTILE = 8\n") && !text.contains("[[solver.param]]"), "{text}");
    assert_eq!(loaded(&draft).solvers.len(), 1);
}

#[test]
fn a_spec_has_an_output() {
    let text = "__global__ void k(const float* a, const int* b) { use(a, b); }\n";
    let draft_of = draft("k.hip", text);
    loaded(&draft_of);
    assert!(
        draft_of
            .spec()
            .contains("name = \"b\"\ntype = \"INT32\"\nlength = \"n\"  # how many elements\nrole = \"inout\"")
    );
    let text = "__global__ void k(float* a, float* b) { x = a[0] + b[0]; }\n";
    let spec = draft("k.hip", text).spec();
    assert_eq!(spec.matches("role = \"inout\"").count(), 2, "{spec}");
}

#[test]
fn functions_of_c() {
    let text = "#include <stdint.h>\nstatic void helper(float *x) { }\nint count(int *x) { return 1; }\n\
        void axpy(const float *x, float *y, int64_t n, float a) { for (;;) { } }\n";
    let draft = draft("axpy.c", text);
    assert_eq!(draft.kernels.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>(), ["axpy"]);
    assert_eq!(loaded(&draft).toolchain, "cc");
}

#[test]
fn functions_of_triton() {
    let text = "import triton\nimport triton.language as tl\n\n@triton.autotune(configs=[\n    triton.Config({'BLOCK': 64}),\n], key=['n'])\n\
        @triton.jit\ndef add(\n    x, out_ptr,  # buffers\n    n,\n    BLOCK: tl.constexpr = 256,\n):\n    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    \
        ptrs = x + at\n    v = tl.load(ptrs, mask=at < n)\n    tl.store(out_ptr + at, v, mask=at < n)\n\n\ndef host(x):\n    return add[(1,)](x)\n";
    let draft = draft("add.py", text);
    let [add] = draft.kernels.as_slice() else { panic!("{draft:?}") };
    let pointer = |written| ParameterKind::Pointer { element: None, spelled: String::new(), lanes: 1, written };
    let kinds: Vec<&ParameterKind> = add.parameters.iter().map(|one| &one.kind).collect();
    assert_eq!(
        kinds,
        [
            &pointer(false),
            &pointer(true),
            &ParameterKind::I32,
            &ParameterKind::Constant { default: Some("256".into()) }
        ]
    );
    assert_eq!(loaded(&draft).toolchain, "triton");
}

#[test]
fn files_beside_it_travel() {
    let beside = |name: &str| (name == "common.h").then(|| "#include \"none.h\"\ntypedef float real;\n".to_string());
    let text = "#include \"common.h\"\n#include \"prelude.h\"\nKERNEL BLOCK_OF(64) k(real* x) { }\n";
    let mut draft = Draft::new(Language::Gpu, "k.hip", text, beside);
    assert_eq!(draft.includes, ["common.h", "prelude.h"]);
    draft.set_types(0, &["float*".to_string()]);
    assert!(draft.spec().contains("type = \"FP32\""), "{}", draft.spec());
    loaded(&draft);
}

#[test]
fn the_kernel_that_is_called_plain_is_the_reference() {
    let text = "void scale(const float *x, float *y, long n) { }\nvoid scale_reference(const float *x, float *y, long n) { }\n";
    assert!(draft("k.c", text).spec().contains("reference = \"ScaleReference\""));
    assert!(draft("k.c", &text.replace("_reference", "_fast")).spec().contains("reference = \"Scale\""));
}

#[test]
fn nothing_is_nothing() {
    for (name, text) in
        [("a.cu", "int main() { }"), ("a.c", "int f(int x) { return x; }"), ("a.py", "def f(x):\n    pass\n")]
    {
        assert!(draft(name, text).kernels.is_empty(), "{name}");
    }
    assert_eq!(Language::of(Path::new("a.rs")), None);
}

#[test]
fn helpers_of_triton_are_no_solvers_and_constants_keep_their_kind() {
    let text = "@triton.jit\ndef leaky(x):\n    return x\n\n@triton.jit\ndef part(q_ptr, n):\n    tl.store(q_ptr, n)\n\n\
        @triton.autotune([triton.Config({'BLOCK': 64}, num_warps=4)], key=['n'])\n@triton.jit\n\
        def whole(p_ptr, n, eps, stride_pm, stride_pn, BLOCK: tl.constexpr, ACT: tl.constexpr = 'leaky', USE_X: tl.constexpr = None,\n    \
        HAS_Y: tl.constexpr = tl.constexpr(False), OUT: tl.constexpr = tl.bfloat16, SCALE: tl.constexpr = 0.5, OUT_DTYPE: tl.constexpr):\n    \
        part(p_ptr, leaky(n))\n    tl.store(p_ptr, n)\n";
    let draft = Draft::new(Language::Python, "k.py", text, |_| None);
    let spec = draft.spec();
    assert_eq!(draft.kernels.len(), 1, "{spec}");
    for expected in [
        "points = [  # what @triton.autotune tries\n  { BLOCK = 64, num_warps = 4 },\n]\n",
        "  ACT = \"leaky\"\n  USE_X = { none = true }\n  HAS_Y = false  # a guess\n  OUT = { dtype = \"bf16\" }\n  SCALE = 0.5\n  \
         OUT_DTYPE = { dtype = \"fp32\" }  # a guess\n",
        "arguments = [\"p_ptr\", { i32 = \"n\" }, { f32 = 0.75 }, { i32 = \"stride_pm\" }, { i32 = 1 }]",
        "grid = [\"ceil_div(n, BLOCK)\"]",
    ] {
        assert!(spec.contains(expected), "{expected}\n{spec}");
    }
    KernelSpec::load(&Bundle { toml: spec, files: draft.bundle().files, ..Bundle::default() }).unwrap();
}

#[test]
fn buffers_of_other_elements_have_names_of_their_own_and_the_reference_runs() {
    let text = "__global__ void a(const float* x, int* y) { y[0] = x[0]; }\n__global__ void b(const int* x, unsigned* y, double* x2) { y[0] = x[0]; x2[0] = 1; }\n";
    let mut draft = Draft::new(Language::Gpu, "k.cu", text, |_| None).told_apart();
    draft.set_reach([(&BTreeMap::new(), false), (&BTreeMap::from([("y".to_string(), 1)]), true)]);
    let names: Vec<&str> =
        draft.kernels.iter().flat_map(|kernel| &kernel.parameters).map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["x", "y", "x3", "y", "x2"]);
    let spec = draft.spec();
    assert!(spec.contains("reference = \"B\"") && spec.contains("name = \"x3\"\ntype = \"INT32\""), "{spec}");
}
