//! Specs that are written from the signatures in people's files (`bluefin init`), and checked as they are.

use std::path::Path;

use bluefin_test_support::hip::HipMachine;
use serde_json::Value;

use crate::common::{bluefin, expect, json, text, write};

const CHECK: [&str; 6] = ["check", "--json", "--kernel", "spec.toml", "--target", "gfx942"];

/// What is executed of the spec in a folder.
fn checked(folder: &Path) -> Value {
    json(&expect(bluefin().current_dir(folder).args(CHECK), 0))
}

/// A spec from files that lie together: macros of the build file, a kernel that only the file that includes it makes whole, a template for vectors,
/// kernels that share a name.
#[test]
fn a_spec_is_written_from_files_that_lie_together() {
    let folder = tempfile::tempdir().unwrap();
    let init =
        |arguments: &[&str]| text(&expect(bluefin().current_dir(folder.path()).arg("init").args(arguments), 0).stderr);
    let right = |count: u32| {
        let report = checked(folder.path());
        assert_eq!(report["right"], count, "{report:#}");
        std::fs::remove_file(folder.path().join("spec.toml")).unwrap();
    };
    write(folder.path(), "Makefile", "CFLAGS := -O3 -DREAL=float -DSTEP=3 $(MORE)\n");
    let kernel = "__global__ void scale(REAL* p, Params q) { if (blockIdx.x == 0 && threadIdx.x < ROWS) p[threadIdx.x] = STEP * ROWS + p[threadIdx.x]; }\n";
    write(folder.path(), "kernels.cu", kernel);
    let main = "#include \"reference.h\"\n#define ROWS 8\nstruct Params { int a; };\n#include \"kernels.cu\"\nint main() { return golden(); }\n";
    // By way of another file.
    write(folder.path(), "moves.cpp", "#include \"kernels.cu\"\n");
    write(folder.path(), "main.cu", &main.replace("kernels.cu", "moves.cpp"));
    let said = init(&["kernels.cu", "-o", "spec.toml"]);
    assert!(
        said.contains("kernels.cu does not compile alone: the spec's source is main.cu, which includes it"),
        "{said}"
    );
    assert!(said.contains("reference.h") && !said.contains("as the text spells them"), "{said}");
    let spec = std::fs::read_to_string(folder.path().join("spec.toml")).unwrap();
    assert!(
        spec.contains("[defines]  # macros that the build file beside it gives, or that its files ask for\nREAL = \"\\\"float\\\"\"\nSTEP = 3\n"),
        "{spec}"
    );
    right(1);

    let kernels = "#include <hip/hip_runtime.h>\n#include <hip/hip_fp16.h>\n\
        template <class T> __global__ void first(T* p) { p[threadIdx.x].x = 1; p[threadIdx.x].z = 2; }\n\
        __global__ void twice(__half* p) { p[threadIdx.x] = 1; }\n__global__ void twice(const int* n, __half* p) { p[threadIdx.x] = n ? 1 : 2; }\n";
    write(folder.path(), "people.hip", kernels);
    init(&["people.hip", "-o", "spec.toml", "--entry", "twice"]);
    right(2);
    init(&["people.hip", "-o", "spec.toml", "--entry", "first"]);
    let spec = std::fs::read_to_string(folder.path().join("spec.toml")).unwrap();
    assert!(spec.contains("entry = \"first<float4>\""), "{spec}");
}

/// Kernels beside a host whose headers are elsewhere, a library's types, another kernel in NVIDIA's assembly; headers in folders, a namespace.
#[test]
fn what_kernels_do_not_reach_may_be_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include \"sub/tools.h\"\n#include <nowhere/window.h>\n#include <cublas_v2.h>\n#include \"../host/reference.h\"\n\
        using namespace sdk;\ncublasHandle_t handle;\nclass Host : public Base { Unknown* a; };\nUnknown table[2];\n\
        #define check(e) check((e), __LINE__)\n\
        void check(cublasStatus_t status, int line) { if (status != CUBLAS_STATUS_SUCCESS) exit(line); }\nnamespace deep {\n\
        __global__ void other(float* p) {\n#pragma unroll\n    for (int i = 0; i < 2; ++i) asm(\"neg.f32 %0, %0;\" : \"+f\"(p[i]));\n}\n\
        template <int N>\n__launch_bounds__(64, (N > 2)) __global__ void scale(float* p, const half* q) {\n    \
        register int i = threadIdx.x;\n    assert(i >= 0);\n    if (blockIdx.x == 0 && i < N) p[i] = STEP * float(q[i]);\n}\n}\n\
        int main() { deep::scale<8><<<1, 64>>>(p, q); }\n";
    write(folder.path(), "k.cu", source);
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    write(&folder.path().join("sub"), "tools.h", "#include \"more.h\"\n");
    write(&folder.path().join("sub"), "more.h", "#define STEP 3\n");
    let init = ["init", "k.cu", "--entry", "scale", "-o", "spec.toml"];
    let said = text(&expect(bluefin().current_dir(folder.path()).args(init), 0).stderr);
    assert!(said.contains("../host/reference.h") && !said.contains("as the text spells them"), "{said}");
    let spec = std::fs::read_to_string(folder.path().join("spec.toml")).unwrap();
    assert!(spec.contains("includes = [\"sub/more.h\", \"sub/tools.h\"]"), "{spec}");
    assert!(spec.contains("entry = \"deep::scale<SCALE_N>\""), "{spec}");
    let report = checked(folder.path());
    assert_eq!(report["right"], 1, "{report:#}");
}

/// Headers in folders that only a build file names, a launch in another file of the project, a file and a size with names of their own.
#[test]
fn what_a_kernel_needs_may_be_anywhere_in_its_project() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("src/first kernels");
    for name in ["src/first kernels", "src/common", "include/tools"] {
        std::fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    write(folder.path(), "README.md", "");
    write(&folder.path().join("src/common"), "types.h", "#include \"more.h\"\n");
    // It is called like one of a library.
    write(&folder.path().join("src/common"), "more.h", "#include \"cublas_real.h\"\n");
    write(&folder.path().join("include/tools"), "cublas_real.h", "typedef float real;\n");
    write(&folder.path().join("include/tools"), "step.h", "#define STEP 3\n");
    let launch = "#include \"first kernels/my scale.cu\"\ntemplate <int Size> void go(int n) { scale<Size><<<1, 2 * Size>>>(n, p, q); }\n\
        void host() { const int size = 32; go<size>(7); }\n";
    write(&folder.path().join("src"), "main.cpp", launch);
    let kernel = "#include \"../common/types.h\"\n#include <tools/step.h>\n#include \"../helper_cuda.h\"\n\
        template <int N> __global__ void scale(int in, const real* x, real* y) {\n    __shared__ real s[N * 512];\n    \
        int i = blockIdx.x * blockDim.x + threadIdx.x;\n    s[threadIdx.x] = threadIdx.x < in ? x[i] : 0;\n    __syncthreads();\n    \
        y[i] = STEP * s[threadIdx.x];\n}\n";
    write(&own, "my scale.cu", kernel);
    let spec = |arguments: &[&str]| {
        let said = text(&expect(bluefin().current_dir(&own).arg("init").args(arguments), 0).stderr);
        let spec = std::fs::read_to_string(own.join("spec.toml")).unwrap();
        assert_eq!(checked(&own)["right"], 1, "{said}\n{spec}");
        std::fs::remove_file(own.join("spec.toml")).unwrap();
        (said, spec)
    };
    let (said, written) = spec(&["my scale.cu", "-o", "spec.toml"]);
    assert!(!said.contains("not beside it") && !said.contains("as the text spells"), "{said}");
    let includes = "includes = [\"../../include/tools/cublas_real.h\", \"../../include/tools/step.h\", \"../common/more.h\", \"../common/types.h\"]";
    for part in [includes, "SCALE_N\"\n  values = [32]", "block = [\"2 * SCALE_N\"]", "in_size = 1192"] {
        assert!(written.contains(part), "{part}\n{written}");
    }
    // Where nothing says the number, it is one with which the kernel fits.
    std::fs::remove_file(folder.path().join("src/main.cpp")).unwrap();
    let (said, written) = spec(&["my scale.cu", "-o", "spec.toml"]);
    assert!(said.contains("scale is a template of numbers that nothing here says: they are 16, a guess"), "{said}");
    assert!(written.contains("SCALE_N\"\n  values = [16]"), "{written}");
    // Only sources are read above a spec.
    write(&own, "spec.toml", &written.replace("../common/more.h", "../../README.md"));
    let error = text(&expect(bluefin().current_dir(&own).args(CHECK), 1).stderr);
    assert!(error.contains("file name: found \"../../README.md\""), "{error}");
}

/// Sizes that count a few, tiles without bounds, indices by way of others, structures of one type.
#[test]
fn sizes_and_contents_are_those_that_kernels_go_well_with() {
    let folder = tempfile::tempdir().unwrap();
    let source = "__constant__ float mask[9];\nstruct Node { int first; int count; };\n\
        __global__ void filter(const float* x, float* y, int n, int width) {\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    \
        float sum = 0;\n    for (int j = 0; j < width; ++j) if (i + j < n) sum += x[i + j] * mask[j];\n    if (i < n) y[i] = sum;\n}\n\
        __global__ void scatter(const int* to, const float* x, float* y, int n, int c) {\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    \
        if (i >= n) return;\n    int row = to[i];\n    int at = row * c + 1;\n    atomicAdd(y + c + at, x[i]);\n}\n\
        __global__ void visit(const Node* nodes, const int* edges, int* seen, int n) {\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    \
        if (i >= n) return;\n    for (int j = nodes[i].first; j < nodes[i].first + nodes[i].count; ++j) {\n        int id = edges[j];\n        \
        seen[id] = 1;\n    }\n}\n\
        __global__ void tiles(const float* a, float* b, int n, int m) {\n    __shared__ float s[32][33];\n    \
        int x = blockIdx.x * 32 + threadIdx.x % 32, y = blockIdx.y * 32 + threadIdx.x / 32;\n    assert(n % 32 == 0 && m % 32 == 0);\n    \
        s[threadIdx.x / 32][threadIdx.x % 32] = a[y * n + x];\n    __syncthreads();\n    b[y * n + x] = s[threadIdx.x / 32][threadIdx.x % 32];\n}\n\
        void host(int n, int m) { tiles<<<dim3(n / 32, m / 32), 1024>>>(a, b, n, m); }\n";
    write(folder.path(), "k.cu", source);
    for (entry, parts) in [
        ("filter", &["width = 5"][..]),
        (
            "scatter",
            &["\"to\"\ntype = \"INT32\"\nlength = \"n\"  # how far the kernels go in it\nrole = \"input\"\nlow = 0"],
        ),
        (
            "visit",
            &[
                "\"nodes\"\ntype = \"INT32\"\nlength = \"2 * n\"  # how far the kernels go in it, 2 for each Node\nrole = \"input\"\nlow = 0",
            ],
        ),
        ("tiles", &["m = 384\nn = 640"]),
    ] {
        let init = ["init", "k.cu", "--entry", entry, "-o", "spec.toml"];
        let said = text(&expect(bluefin().current_dir(folder.path()).args(init), 0).stderr);
        let spec = std::fs::read_to_string(folder.path().join("spec.toml")).unwrap();
        parts.iter().for_each(|part| assert!(spec.contains(part), "{part}\n{spec}\n{said}"));
        assert_eq!(checked(folder.path())["right"], 1, "{entry}: {said}");
        std::fs::remove_file(folder.path().join("spec.toml")).unwrap();
    }
}

/// Types of templates that stand beside a kernel in a macro's call, functions that only a launch elsewhere gives, a bound in front of the kernel's mark,
/// a buffer that no kernel names, the instance that is right for the blocks, a size with which anything is written.
#[test]
fn templates_get_what_they_compile_with() {
    let folder = tempfile::tempdir().unwrap();
    let source = "struct Wide { using type = double; static constexpr int scale = 2; };\n\
        template <class Traits> __global__ void cast(const float* x, double* y, int n) {\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    \
        if (i < n) y[i] = (typename Traits::type)x[i] * Traits::scale;\n}\n\
        template <class T, class Op> __global__ void fold(const T* x, T* y, int n, Op op) {\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    \
        if (i < n) y[i] = op(x[i], y[i]);\n}\n\
        template <int N> __launch_bounds__(N) __global__ void bounded(float* y, float* unused) { y[blockIdx.x * N + threadIdx.x] = 1; }\n\
        template <int N> __global__ void square(const float* x, float* y, int n) {\n    __shared__ float s[N][N];\n    \
        int i = (blockIdx.y * N + threadIdx.y) * n + blockIdx.x * N + threadIdx.x;\n    s[threadIdx.y][threadIdx.x] = x[i];\n    __syncthreads();\n    \
        y[i] = s[N - 1 - threadIdx.y][N - 1 - threadIdx.x];\n}\n\
        __global__ void late(const float* x, float* y, int from, int n) {\n    int i = blockIdx.x * blockDim.x + threadIdx.x + from;\n    \
        if (i < n) y[i] = x[i];\n}\n\
        template <class In, class Join, class T> __global__ void folds(const T* x, T* y, int n, In in, Join join) {\n    \
        int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) y[i] = join(in(x[i]), y[i]);\n}\n\
        #define LAUNCH(kernel, type) kernel<type><<<1, 64>>>(x, y, n)\nvoid host(int n) {\n    LAUNCH(cast, Wide);\n    auto f = bounded<96>;\n    \
        const int side = 8;\n    dim3 threads(side, side), grid(n / side, n / side);\n    \
        if (side == 16) square<16><<<grid, threads>>>(x, y, n); else square<8><<<grid, threads>>>(x, y, n);\n}\n";
    write(folder.path(), "k.cu", source);
    for (entry, part) in [
        ("cast", "entry = \"cast<Wide>\""),
        ("fold", "entry = \"fold<float, bluefin_function>\""),
        ("folds", "entry = \"folds<bluefin_function, bluefin_function, float>\""),
        ("bounded", "name = \"unused\"\ntype = \"FP32\"\nlength = \"n\"  # how many elements\nrole = \"input\""),
        ("bounded", "block = [\"BOUNDED_N\"]"),
        ("square", "name = \"SQUARE_N\"\n  values = [8]"),
        ("late", "from = 384\nn = 640"),
    ] {
        let init = ["init", "k.cu", "--entry", entry, "-o", "spec.toml"];
        let said = text(&expect(bluefin().current_dir(folder.path()).args(init), 0).stderr);
        let spec = std::fs::read_to_string(folder.path().join("spec.toml")).unwrap();
        assert!(spec.contains(part), "{part}\n{spec}\n{said}");
        assert_eq!(checked(folder.path())["right"], 1, "{entry}: {said}");
        std::fs::remove_file(folder.path().join("spec.toml")).unwrap();
    }
}

/// What keeps a kernel from being drafted is named: types and numbers that nothing says, a library.
#[test]
fn what_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <cute/tensor.hpp>\n\
        template <class Traits> __global__ void cast(const float* x, float* y) { y[threadIdx.x] = Traits::cast(x[threadIdx.x]); }\n\
        template <int N> __global__ void tile(float* y) { static_assert(N == 48, \"\"); y[threadIdx.x] = N; }\n\
        __global__ void view(float* y) { auto t = cute::make_tensor(y); y[0] = t(0); }\n";
    write(folder.path(), "k.cu", source);
    for (entry, expected) in [
        (
            "cast",
            "cast is a template of types that nothing here says, and compiles with none that was tried: name Traits in its entry",
        ),
        (
            "tile",
            "tile is a template of numbers that nothing here says, and ends well with none that was tried: name them in its params",
        ),
        ("view", "nothing, or a part, is here of the libraries of cute/tensor.hpp"),
    ] {
        let init = ["init", "k.cu", "--entry", entry, "-o", "spec.toml"];
        let said = text(&expect(bluefin().current_dir(folder.path()).args(init), 0).stderr);
        assert!(said.contains(expected), "{said}");
        std::fs::remove_file(folder.path().join("spec.toml")).unwrap();
    }
    let source =
        "#include <eye/mat.hpp>\n#include \"eye/view.hpp\"\n__global__ void dim(eye::View<float> of) { of(0) = 0; }\n";
    write(folder.path(), "dim.cu", source);
    let said = text(&expect(bluefin().current_dir(folder.path()).args(["init", "dim.cu"]), 1).stderr);
    let expected = "dim.cu: found no kernel whose text has a pointer, expected one: a spec has buffers; not in its project: eye/mat.hpp eye/view.hpp";
    assert!(said.contains(expected), "{said}");
}

/// Grids, blocks and lengths are what the text and an execution of it say: as it is drafted, each kernel is right.
#[test]
fn kernels_are_executed_to_see_how_far_they_go() {
    let folder = tempfile::tempdir().unwrap();
    let source = "__global__ void multiply(const float* A, const float* B, float* C, int M, int N, int K) {\n    \
        int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;\n    float sum = 0;\n    \
        if (row >= M || col >= N) return;\n    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];\n    \
        C[row * N + col] = sum;\n}\n\
        __global__ void rows(const int* begin, const int* column, const float* x, float* y, int n) {\n    \
        int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i >= n) return;\n    float sum = 0;\n    \
        for (int j = begin[i]; j < begin[i + 1]; ++j) sum += x[column[j]];\n    y[i] = sum;\n}\n\
        __global__ void total(const float* in, float* sums, int n) {\n    extern __shared__ float of[];\n    \
        int i = blockIdx.x * 256 + threadIdx.x;\n    of[threadIdx.x] = i < n ? in[i] : 0;\n    __syncthreads();\n    \
        if (threadIdx.x == 0) { float sum = 0; for (int t = 0; t < 256; ++t) sum += of[t]; sums[blockIdx.x] = sum; }\n}\n\
        __global__ void torn(float* p, int n) { p[threadIdx.x / 2] = threadIdx.x; }\n";
    write(folder.path(), "k.cu", source);
    for (entry, expected) in [
        (
            "multiply",
            &[
                "\"A\"\ntype = \"FP32\"\nlength = \"K * M\"  # how far the kernels go in it\n",
                "\"B\"\ntype = \"FP32\"\nlength = \"K * N\"",
                "\"C\"\ntype = \"FP32\"\nlength = \"M * N\"",
                "grid = [\"ceil_div(N, 16)\", \"ceil_div(M, 16)\"]  # blocks\n  block = [16, 16]",
            ][..],
        ),
        ("rows", &["\"begin\"\ntype = \"INT32\"\nlength = \"n + 1\"", "\"y\"\ntype = \"FP32\"\nlength = \"n\""]),
        ("total", &["\"sums\"\ntype = \"FP32\"\nlength = \"ceil_div(n, 256)\"", "\n  shared = 16384"]),
    ] {
        let spec = folder.path().join("spec.toml");
        let init = ["init", "k.cu", "--entry", entry, "-o", "spec.toml"];
        expect(bluefin().current_dir(folder.path()).args(init), 0);
        let text = std::fs::read_to_string(&spec).unwrap();
        expected.iter().for_each(|part| assert!(text.contains(part), "{entry}: {part}\n{text}"));
        let report = checked(folder.path());
        assert_eq!(report["right"], 1, "{report:#}");
        std::fs::remove_file(spec).unwrap();
    }
    let torn = ["init", "k.cu", "--entry", "torn", "-o", "spec.toml"];
    let said = text(&expect(bluefin().current_dir(folder.path()).args(torn), 0).stderr);
    assert!(said.contains("torn can not be executed as it is drafted, how far it goes is a guess: fault: "), "{said}");
    let spec = std::fs::read_to_string(folder.path().join("spec.toml")).unwrap();
    assert!(spec.contains("length = \"n\"  # how many elements\n"), "{spec}");
}

/// A kernel that ends well by another launch than the usual one is drafted with that, and sizes that are too large become smaller.
#[test]
fn launches_are_tried_where_the_usual_one_does_not_end_well() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#define SIDE 16\n\
        __global__ void diagonal(float* m, int n) {\n    __shared__ float of[SIDE][SIDE];\n    \
        for (int i = 0; i < SIDE; ++i) of[i][threadIdx.x] = m[i * n + threadIdx.x];\n    __syncthreads();\n    \
        for (int i = 0; i < SIDE; ++i) m[i * n + threadIdx.x] = of[threadIdx.x][i];\n}\n\
        __global__ void total(const float* in, float* sum, int n) {\n    assert(gridDim.x == 1);\n    __shared__ float of[256];\n    \
        float own = 0;\n    for (int i = threadIdx.x; i < n; i += 256) own += in[i];\n    of[threadIdx.x] = own;\n    __syncthreads();\n    \
        if (threadIdx.x == 0) { for (int i = 1; i < 256; ++i) own += of[i]; *sum = own; }\n}\n\
        __global__ void cube(float* p, int a, int b, int c) {\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    \
        if (i < a * b * c) p[(size_t)i * 8] = 1;\n}\n";
    write(folder.path(), "k.cu", source);
    for (entry, remark, spec_has) in [
        (
            "diagonal",
            "diagonal is launched by blocks of 16 threads, by the usual ones it ends like this: fault: ",
            "block = [16]",
        ),
        (
            "total",
            "total is launched by one block of 256 threads, by the usual ones it ends like this: fault: ",
            "  # found by trying: by the usual blocks it ends like this: fault: ",
        ),
        ("cube", "sizes are smaller than usual, by which an execution ends like this: ", "a = 596\nb = 52\nc = 68\n"),
    ] {
        let init = ["init", "k.cu", "--entry", entry, "-o", "spec.toml"];
        let said = text(&expect(bluefin().current_dir(folder.path()).args(init), 0).stderr);
        assert!(said.contains(remark) && !said.contains("is a guess"), "{said}");
        let spec = std::fs::read_to_string(folder.path().join("spec.toml")).unwrap();
        assert!(spec.contains(spec_has), "{spec}");
        assert_eq!(checked(folder.path())["right"], 1, "{entry}");
        std::fs::remove_file(folder.path().join("spec.toml")).unwrap();
    }
}

/// What no launch causes is not avoided by another launch.
#[test]
fn faults_of_a_kernel_itself_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let source = "__global__ void ptx(float* p) {\n    if (threadIdx.x >= 100) asm volatile(\"tanh.approx.bf16 %0, %0;\" : \"+f\"(p[threadIdx.x]));\n    \
        else p[threadIdx.x] = 100;\n}\n";
    write(folder.path(), "k.cu", source);
    let init = ["init", "k.cu", "-o", "spec.toml"];
    let said = text(&expect(bluefin().current_dir(folder.path()).args(init), 0).stderr);
    assert!(said.contains("ptx can not be executed as it is drafted") && said.contains("inline PTX"), "{said}");
    assert!(std::fs::read_to_string(folder.path().join("spec.toml")).unwrap().contains("block = [256]"));
}

/// A spec from a file's signatures: what is completed is little, and then it is checked.
#[test]
fn a_spec_is_written_from_signatures() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <cuda_runtime.h>\n#include <cstdio>\ntypedef float real;\n\
        __global__ void vectorAdd(const real* A, const real* B, real* C, int n) {\n    \
        int i = blockDim.x * blockIdx.x + threadIdx.x;\n    if (i < n) C[i] = A[i] + B[i];\n}\nint main() { std::puts(\"\"); }\n";
    write(folder.path(), "vectorAdd.cu", source);
    let init =
        |arguments: &[&str], code| expect(bluefin().current_dir(folder.path()).arg("init").args(arguments), code);
    let out = text(&init(&["vectorAdd.cu", "-o", "spec.toml"], 0).stdout);
    assert_eq!(out, "spec.toml: vectorAdd; complete what has a remark\n");
    let spec = std::fs::read_to_string(folder.path().join("spec.toml")).unwrap();
    assert_eq!(spec.matches("type = \"FP32\"").count(), 3, "an alias is resolved\n{spec}");
    // As written it is a spec already: a kernel is right beside itself.
    let report = checked(folder.path());
    assert_eq!(report["right"], 1, "{report:#}");

    let error = text(&init(&["vectorAdd.cu", "-o", "spec.toml"], 1).stderr);
    assert!(error.contains("spec.toml: nothing was written"), "{error}");
    let error = text(&init(&["vectorAdd.cu", "--entry", "sub"], 1).stderr);
    assert!(error.contains("--entry sub: expected one of vectorAdd"), "{error}");
    write(folder.path(), "none.hip", "int main() { return 0; }\n");
    let error = text(&init(&["none.hip"], 1).stderr);
    assert!(
        error.contains("none.hip: found no kernel, expected a function that is declared `__global__` or `KERNEL`"),
        "{error}"
    );
    let error = text(&init(&["spec.toml"], 2).stderr);
    assert!(error.contains("found no file of .hip .cu .cuh .cpp .hpp .c .py"), "{error}");
}

const STEP: &str = "#include <cuda_runtime.h>\n\
    struct Params { const float* in; float* out; int n; float dt; double weights[2]; bool on; };\n\
    struct Scale { float by; __device__ float operator()(float a) const { return a * by; } };\n\
    __global__ void step(Params p, float3 c, Scale scale) {\n    \
    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    \
    if (i < p.n && !p.on) p.out[i] = scale(p.in[i]) * p.dt + c.x * c.z + float(p.weights[1]);\n}\n";

/// Kernels that take structures by value: drafted, executed, and launched by the runtime; what differs in one field is found.
#[test]
fn structures_are_passed_by_value() {
    let machine = HipMachine::new("gfx942-304");
    let folder = machine.folder();
    write(folder, "step.cu", STEP);
    let init = ["init", "step.cu", "-o", "spec.toml"];
    expect(bluefin().current_dir(folder).args(init), 0);
    let spec = std::fs::read_to_string(folder.join("spec.toml")).unwrap();
    let first = "{ struct = [\"in\", \"out\", { i32 = \"n\" }, { f32 = 1.0 }, { f64 = [1.0, 1.0] }, { i1 = false }] }";
    let rest = ", { struct = [{ f32 = 1.0 }, { f32 = 1.0 }, { f32 = 1.0 }] }, { struct = [{ f32 = 1.0 }] }]";
    assert!(spec.contains(&format!("arguments = [{first}{rest}")), "{spec}");
    assert_eq!(checked(folder)["right"], 1);

    let tune = |code| {
        let mut command = bluefin();
        command.current_dir(folder).envs(machine.environment()).env("BLUEFIN_STANDIN_BACKEND", "executed");
        command.env("BLUEFIN_STANDIN_MEMORY", (64 << 20).to_string());
        command.args(["tune", "--kernel", "spec.toml", "--device", "gpu", "--out", "db", "--json"]);
        expect(&mut command, code)
    };
    let tuned = text(&tune(0).stdout);
    assert!(folder.join("db/winners.json").exists(), "{tuned}");

    // Another solver, in which one field is another: what a launch passes is what the kernel reads.
    let (_, solver) = spec.split_once("[[solver]]").unwrap();
    let mistaken = solver.replace("\"Step\"", "\"Mistaken\"").replace("{ f64 = [1.0, 1.0] }", "{ f64 = [1.0, 1.5] }");
    write(folder, "spec.toml", &format!("{spec}\n[[solver]]{mistaken}"));
    let report = json(&bluefin().current_dir(folder).args(CHECK).output().unwrap());
    assert_eq!(report["right"], 1, "{report:#}");
    let wrong = report["candidates"].as_array().unwrap().iter().find(|one| one["solver"] == "Mistaken").unwrap();
    assert_eq!(wrong["result"], "wrong_result", "{report:#}");

    // One that is not as large as the kernel's, in an executor and before a runtime reads beyond it.
    let small = spec.replace(", { f64 = [1.0, 1.0] }, { i1 = false }", "");
    write(folder, "spec.toml", &small);
    let expected = "arguments[0]: found a structure of 24 bytes, expected the 48 bytes of its parameter";
    let report = json(&bluefin().current_dir(folder).args(CHECK).output().unwrap());
    let candidate = &report["candidates"][0];
    assert_eq!(candidate["result"], "launch_failure", "{report:#}");
    assert!(candidate["detail"].as_str().unwrap().contains(expected), "{report:#}");
    let _ = std::fs::remove_dir_all(folder.join("db"));
    let failed = tune(1);
    let said = format!("{}{}", text(&failed.stdout), text(&failed.stderr));
    assert!(said.contains(expected), "{said}");
    let beyond = small.replace("{ f32 = 1.0 }] }, {", "{ f32 = 1.0 }], size = 16 }, {");
    write(folder, "spec.toml", &beyond);
    let error = text(&expect(bluefin().current_dir(folder).args(CHECK), 1).stderr);
    assert!(error.contains("arguments[0].struct[2]: found \"bytes 16 to 20\""), "{error}");
}

/// Kernels that take other buffers, or compute something else, have specs of their own; the rest is solvers of one.
#[test]
fn kernels_that_compute_other_things_have_specs_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let map = |name: &str, value: &str| {
        format!(
            "__global__ void {name}(const float* x, float* y, int n) {{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = {value}; }}\n"
        )
    };
    let count = "__global__ void count(const float* x, int* hits, int n) { if (blockIdx.x == 0 && threadIdx.x == 0) hits[0] = n; }\n".to_string();
    let maps = [("twice", "2 * x[i]"), ("square", "x[i] * x[i]"), ("sum", "x[i] + x[i]"), ("squared", "powf(x[i], 2)")];
    let source: String = maps.map(|(name, value)| map(name, value)).into_iter().chain([count]).collect();
    write(folder.path(), "k.cu", &source);
    let said = text(&expect(bluefin().current_dir(folder.path()).args(["init", "k.cu"]), 0).stdout);
    for line in ["k_twice.toml: twice sum;", "k_square.toml: square squared;", "k_count.toml: count;"] {
        assert!(said.contains(line), "{line}\n{said}");
    }
    for (spec, right) in [("k_twice.toml", 2), ("k_square.toml", 2), ("k_count.toml", 1)] {
        let check = ["check", "--json", "--kernel", spec, "--target", "gfx942"];
        let report = json(&expect(bluefin().current_dir(folder.path()).args(check), 0));
        assert_eq!(report["right"], right, "{spec}: {report:#}");
    }
    // Nothing is overwritten.
    expect(bluefin().current_dir(folder.path()).args(["init", "k.cu"]), 1);
}

/// Macros open namespaces, and a kernel is defined outside of the one that declares it.
#[test]
fn kernels_are_found_in_their_namespaces() {
    let folder = tempfile::tempdir().unwrap();
    let map = "(const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 2 * x[i]; }";
    let header = "#define NAME own\n#define BEGIN namespace NAME {\n#define END }\nBEGIN\ninline int host() { return unknown(); }\n\
        __global__ void twice(const float* x, float* y, int n);\nEND\n";
    write(folder.path(), "k.h", header);
    write(
        folder.path(),
        "k.cu",
        &format!(
            "#include \"k.h\"\n__global__ void own::twice{map}\nnamespace NAME {{\n__global__ void sum{map}\n}}\n"
        ),
    );
    expect(bluefin().current_dir(folder.path()).args(["init", "k.cu", "-o", "spec.toml"]), 0);
    assert_eq!(checked(folder.path())["right"], 2);
}

/// A fault of a kernel as its file launches it is what the draft shows, and not a launch without it.
#[test]
fn a_launch_that_the_file_says_is_kept_with_its_fault() {
    let folder = tempfile::tempdir().unwrap();
    let source = "__global__ void total(const float* x, float* sums, int n) {\n    __shared__ float s[1024];\n    \
        int i = blockIdx.x * blockDim.x + threadIdx.x;\n    s[threadIdx.x] = i < n ? x[i] : 0;\n    \
        for (int half = blockDim.x / 2; half > 0; half /= 2) {\n        __syncthreads();\n        \
        if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];\n    }\n    if (threadIdx.x == 0) sums[blockIdx.x] = s[0];\n}\n\
        void host(const float* x, float* sums, int n) { total<<<(n + 1023) / 1024, 1024>>>(x, sums, n); }\n";
    let torn = source.replace("        __syncthreads();\n", "");
    for (text_of, is_right) in [(source.to_string(), true), (torn, false)] {
        write(folder.path(), "k.cu", &text_of);
        let init = ["init", "k.cu", "-o", "spec.toml"];
        let said = text(&expect(bluefin().current_dir(folder.path()).args(init), 0).stderr);
        let spec = std::fs::read_to_string(folder.path().join("spec.toml")).unwrap();
        assert!(spec.contains("grid = [\"(n + 1023) / 1024\"]") && spec.contains("block = [1024]"), "{spec}");
        assert_eq!(said.contains("launched as its file launches it, ends like this: fault"), !is_right, "{said}");
        let check = expect(bluefin().current_dir(folder.path()).args(CHECK), i32::from(!is_right));
        assert_eq!(text(&check.stdout).contains("race"), !is_right);
        std::fs::remove_file(folder.path().join("spec.toml")).unwrap();
    }
}
