//! What `init` makes of the launches in a file: a fault of one is not hidden by another, and what is tried shapes it.

use std::path::Path;

use serde_json::Value;

use crate::common::{bluefin, expect, json, text, write};

/// What `init` says of `source`, and the spec that it writes.
fn drafted(folder: &Path, source: &str) -> (String, String) {
    write(folder, "k.cu", source);
    let init = expect(bluefin().current_dir(folder).args(["init", "k.cu", "-o", "spec.toml"]), 0);
    (text(&init.stderr), std::fs::read_to_string(folder.join("spec.toml")).unwrap())
}

fn checked(folder: &Path, more: &[&str], code: i32) -> Value {
    let check = ["check", "--json", "--kernel", "spec.toml", "--target", "gfx942"];
    json(&expect(bluefin().current_dir(folder).args(check).args(more), code))
}

#[test]
fn sizes_that_a_launch_is_for_are_found_and_others_show_its_fault() {
    let folder = tempfile::tempdir().unwrap();
    // The last block of a line that is not whole blocks adds what nobody wrote.
    let source = "__global__ void blur(const float* in, float* out, int width, int height) {\n    __shared__ float row[257];\n    \
        int x = blockIdx.x * 256 + threadIdx.x, y = blockIdx.y;\n    if (x < width) row[threadIdx.x] = in[y * width + x];\n    \
        if (threadIdx.x == 0) row[256] = x + 256 < width ? in[y * width + x + 256] : 0;\n    __syncthreads();\n    \
        if (x < width) out[y * width + x] = row[threadIdx.x] + row[threadIdx.x + 1];\n}\n\
        void host(const float* in, float* out, int w, int h) {\n    dim3 grid((w + 255) / 256, h);\n    blur<<<grid, 256>>>(in, out, w, h);\n}\n";
    let (said, spec) = drafted(folder.path(), source);
    let fault = "a value that nobody wrote decides what is stored";
    assert!(said.contains("with the usual sizes blur ends like this: fault: ") && said.contains(fault), "{said}");
    for part in [
        "grid = [\"(width + 255) / 256\", \"height\"]  # blocks, as the file launches it\n  block = [256]",
        "\"in\"\ntype = \"FP32\"\nlength = \"height * width\"",
        "\"out\"\ntype = \"FP32\"\nlength = \"height * width\"",
    ] {
        assert!(spec.contains(part), "{part}\n{spec}");
    }
    assert_eq!(checked(folder.path(), &[], 0)["right"], 1);
    let report = checked(folder.path(), &["--size", "width=300,height=3"], 1);
    assert!(report["candidates"][0]["detail"].as_str().unwrap().contains(fault), "{report:#}");
}

#[test]
fn macros_that_are_tried_shape_the_launch() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#ifndef TILE\n#define TILE 16\n#endif\n#ifndef ROWS\n#define ROWS 4\n#endif\n\
        __global__ void transpose(float* out, const float* in, int width, int height) {\n    __shared__ float tile[TILE][TILE + 1];\n    \
        int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;\n    for (int j = 0; j < TILE; j += ROWS)\n        \
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];\n    __syncthreads();\n    \
        x = blockIdx.y * TILE + threadIdx.x;\n    y = blockIdx.x * TILE + threadIdx.y;\n    for (int j = 0; j < TILE; j += ROWS)\n        \
        if (x < height && y + j < width) out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];\n}\n\
        void host(float* out, const float* in, int w, int h) {\n    dim3 block(TILE, ROWS);\n    \
        dim3 grid((w + TILE - 1) / TILE, (h + block.x - 1) / block.x);\n    transpose<<<grid, block>>>(out, in, w, h);\n}\n";
    let (_, spec) = drafted(folder.path(), source);
    let launch = "grid = [\"(width + TILE - 1) / TILE\", \"(height + TILE - 1) / TILE\"]  # blocks, as the file launches it\n  \
        block = [\"TILE\", \"ROWS\"]";
    assert!(spec.contains(launch) && !spec.contains("index"), "{spec}");
    let tried = spec.replace("values = [16]", "values = [8, 16, 32]").replace("values = [4]", "values = [2, 4]");
    write(folder.path(), "spec.toml", &tried);
    assert_eq!(checked(folder.path(), &["--size", "width=45,height=77"], 0)["right"], 6);
}

#[test]
fn blocks_may_be_sizes_and_launches_go_by_way_of_pointers() {
    let folder = tempfile::tempdir().unwrap();
    let counts = "__global__ void counts(const unsigned* ids, int* out, int bins, int n) {\n    __shared__ int seen[64];\n    \
        seen[threadIdx.x] = 0;\n    __syncthreads();\n    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&seen[ids[i] % bins], 1);\n    \
        __syncthreads();\n    out[threadIdx.x] = seen[threadIdx.x];\n}\n\
        void host(Tensor ids, Tensor out) {\n    int count = out.size(0);\n    counts<<<1, count>>>(ids.data(), out.data(), count, ids.size(0));\n}\n";
    let sums = "typedef void (*Kernel)(const float*, float*, int, int);\n\
        template <bool Twice> __global__ void sums(const float* x, float* y, int width, int dim) {\n    __shared__ float parts[16][32];\n    \
        int column = blockIdx.x * 32 + threadIdx.x, first = threadIdx.y * 64;\n    float sum = 0;\n    \
        if (column < width) for (int i = first; i < min(dim, first + 64); ++i) sum += x[i * width + column] * (Twice ? 2 : 1);\n    \
        parts[threadIdx.y][threadIdx.x] = sum;\n    __syncthreads();\n    if (threadIdx.y == 0 && column < width) {\n        \
        for (int i = 1; i < blockDim.y; ++i) sum += parts[i][threadIdx.x];\n        y[column] = sum;\n    }\n}\n\
        Kernel pick(bool twice) {\n    if (twice) return sums<true>;\n    return sums<false>;\n}\n\
        void host(const float* x, float* y, int w, int d) {\n    dim3 threads(32, (d + 63) / 64);\n    dim3 blocks((w + 31) / 32);\n    \
        Kernel run = pick(d > 2);\n    run<<<blocks, threads>>>(x, y, w, d);\n}\n";
    // Of a buffer that is called like the workspace nothing is lost.
    let workspace = "__global__ void alone(float* workspace, int n) {\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    \
        if (i < n) workspace[i] = 2 * i;\n}\n";
    for (source, launch) in [
        (counts, "grid = [1]  # blocks, as the file launches it\n  block = [\"bins\"]  # threads of each\n"),
        (
            sums,
            "grid = [\"(width + 31) / 32\"]  # blocks, as the file launches it\n  block = [32, \"(dim + 63) / 64\"]  # threads of each\n",
        ),
        (workspace, "block = [256]  # threads of each: a guess, as no launch here says it\n"),
    ] {
        let (said, spec) = drafted(folder.path(), source);
        assert!(spec.contains(launch), "{said}\n{spec}");
        assert_eq!(checked(folder.path(), &[], 0)["right"], 1, "{spec}");
        std::fs::remove_file(folder.path().join("spec.toml")).unwrap();
    }
}

/// Numbers of a template are computed of constants of the host's function, its type is that of what the kernel is given, and a header of kernels includes
/// nothing of CUDA's itself.
#[test]
fn what_a_launch_computes_is_what_its_template_has() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#pragma once\nstruct Twice {\n    int by;\n    __device__ float operator()(float x) const { return by * x; }\n};\n\
        template <unsigned THREADS, unsigned ITEMS, typename F>\n__global__ void __launch_bounds__(THREADS) apply(F f, const float* in, float* out, int n) {\n    \
        static_assert(THREADS == 64 && ITEMS == 4, \"as it is launched\");\n    \
        for (unsigned i = 0; i < ITEMS; ++i) {\n        unsigned at = (blockIdx.x * ITEMS + i) * THREADS + threadIdx.x;\n        \
        if (at < n) out[at] = f(in[at]);\n    }\n}\n\
        template <typename F> __global__ void all(F f, const float* in, float* out, int n) {\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    \
        if (i < n) out[i] = f(in[i]) + 1;\n}\n\
        void host(const float* in, float* out, int n) {\n    const unsigned WARPS = 2, WARP = 32u;\n    constexpr unsigned THREADS{WARPS * WARP};\n    \
        constexpr unsigned ITEMS = (THREADS + 192) / 64;\n    \
        apply<THREADS, ITEMS, Twice><<<(n + THREADS * ITEMS - 1) / (THREADS * ITEMS), THREADS>>>(Twice{2}, in, out, n);\n    \
        all<<<(n + 63) / 64, 64>>>(Twice{2}, in, out, n);\n}\n";
    write(folder.path(), "k.hpp", source);
    let init = expect(bluefin().current_dir(folder.path()).args(["init", "k.hpp", "-o", "spec.toml"]), 0);
    for spec in ["spec_apply.toml", "spec_all.toml"] {
        let check = ["check", "--json", "--kernel", spec, "--target", "gfx942"];
        let report = json(&expect(bluefin().current_dir(folder.path()).args(check), 0));
        assert_eq!(report["right"], 1, "{}\n{report:#}", text(&init.stderr));
    }
}

/// A fault that comes of what a draft fills buffers with is not told as the kernel's alone.
#[test]
fn faults_by_what_is_drawn_are_told_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let source = "struct Row {\n    float* values;\n    int count;\n};\n\
        __global__ void scatter(const int* at, int* out, int n) {\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    \
        if (i < n) out[at[i]] = i;\n}\n\
        __global__ void far(const Row* rows, float** more, float* sums, int n) {\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    \
        if (i < n) sums[i] = rows[i].values[0] + more[i][0];\n}\n\
        void host(int* at, int* out, Row* rows, float** more, float* sums, int n) {\n    scatter<<<(n + 63) / 64, 64>>>(at, out, n);\n    \
        far<<<(n + 63) / 64, 64>>>(rows, more, sums, n);\n}\n";
    write(folder.path(), "k.cu", source);
    let said = text(&expect(bluefin().current_dir(folder.path()).args(["init", "k.cu", "-o", "spec.toml"]), 0).stderr);
    for part in [
        "scatter finds elements by at, drawn at random here: what is wrong may be these and not the kernel",
        "rows of far is Row: pointers within a buffer lead nowhere",
        "more of far is float*: pointers within a buffer lead nowhere",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
}

#[test]
fn sizes_that_a_launch_gives_are_taken_where_others_do_not_do() {
    let folder = tempfile::tempdir().unwrap();
    // What a table of the source has is as many as the launch says.
    let source = "#define COUNT 20\n__constant__ float centres[COUNT];\n\
        __global__ void nearest(const float* x, float* out, int count) {\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    \
        float best = 1e9f;\n    for (int c = 0; c < count; ++c) best = fminf(best, fabsf(x[i] - centres[c]));\n    out[i] = best;\n}\n\
        void host(const float* x, float* out) {\n    nearest<<<4, 64>>>(x, out, COUNT);\n}\n";
    let (said, spec) = drafted(folder.path(), source);
    assert!(
        said.contains("with the usual sizes nearest ends like this: fault: ") && said.contains("of centres"),
        "{said}"
    );
    assert!(spec.contains("count = 20"), "{spec}");
    assert_eq!(checked(folder.path(), &[], 0)["right"], 1);
    let report = checked(folder.path(), &["--size", "count=21"], 1);
    assert!(report["candidates"][0]["detail"].as_str().unwrap().contains("of centres"), "{report:#}");
}

#[test]
fn a_grid_of_whole_tiles_has_some() {
    let folder = tempfile::tempdir().unwrap();
    // By other blocks, or along lines that are no whole tiles, it races or reads what nobody wrote.
    let source = "#define TILE 128\n__global__ void add(const float* x, float* y, int rows, int columns) {\n    __shared__ float line[TILE];\n    \
        int at = blockIdx.y * TILE * columns + blockIdx.x * TILE + threadIdx.x;\n    line[threadIdx.x] = x[at];\n    __syncthreads();\n    \
        float sum = rows;\n    for (int j = 0; j < TILE; ++j) sum += line[j];\n    \
        for (int j = 0; j < TILE; ++j) y[at + j * columns] += sum;\n}\n\
        void host(const float* x, float* y, int m, int n) {\n    dim3 grid;\n    grid.x = n / TILE;\n    grid.y = m / TILE;\n    \
        add<<<grid, TILE>>>(x, y, m, n);\n}\n";
    let (said, spec) = drafted(folder.path(), source);
    assert!(said.contains("found 0, expected 1"), "{said}");
    assert!(spec.contains("grid = [\"columns / 128\", \"rows / 128\"]  # blocks, as the file launches it"), "{spec}");
    assert_eq!(checked(folder.path(), &[], 0)["right"], 1);
}
