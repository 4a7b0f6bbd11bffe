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
