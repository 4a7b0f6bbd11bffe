//! What people's files take for granted, in drafts that are checked as they are: links, variables of make, declarations without marks, atomics with an
//! order, blocks that a kernel insists on.

use std::path::Path;

use serde_json::Value;

use crate::common::{bluefin, expect, json, text, write};

/// What `init` says of `k.cu`, and the spec that it writes.
fn drafted(folder: &Path) -> (String, String) {
    let init = expect(bluefin().current_dir(folder).args(["init", "k.cu", "-o", "spec.toml"]), 0);
    (text(&init.stderr), std::fs::read_to_string(folder.join("spec.toml")).unwrap())
}

fn checked(folder: &Path) -> Value {
    let check = ["check", "--json", "--kernel", "spec.toml", "--target", "gfx90a"];
    json(&expect(bluefin().current_dir(folder).args(check), 0))
}

/// `check` reads through no links, and so `init` does not either.
#[test]
fn links_are_refused_with_their_name() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let refused = |file: &str| {
        let init = expect(bluefin().current_dir(folder.path()).args(["init", file, "-o", "spec.toml"]), 1);
        assert!(!folder.path().join("spec.toml").exists());
        text(&init.stderr)
    };
    let source = "#include \"tools.h\"\n__global__ void k(float* x) { x[threadIdx.x] = tool(); }\n";
    write(folder.path(), "k.cu", source);
    write(other.path(), "tools.h", "__device__ float tool() { return 1; }\n");
    std::os::unix::fs::symlink(other.path().join("tools.h"), folder.path().join("tools.h")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("k.cu"), folder.path().join("linked.cu")).unwrap();
    let why =
        "found a link, expected a regular file: a spec reads through no links, so copy it, or name the file itself";
    let said = refused("k.cu");
    assert_eq!(said, format!("error: k.cu: tools.h: {why}\n"));
    assert!(refused("linked.cu").contains(&format!("linked.cu: {why}")));
    // Of a header that bluefin has nothing is taken from there.
    std::os::unix::fs::symlink(other.path().join("tools.h"), folder.path().join("cuda_runtime.h")).unwrap();
    write(folder.path(), "k.cu", "#include \"cuda_runtime.h\"\n__global__ void k(float* x) { x[threadIdx.x] = 1; }\n");
    drafted(folder.path());
    assert_eq!(checked(folder.path())["right"], 1);
}

/// The header says less than the bodies; the build gives a macro by way of a variable.
#[test]
fn what_nvcc_and_make_add_is_added() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "Makefile", "SIDE ?= 4\nWIDTH := $(SIDE)\nall:\n\tnvcc -DWIDTH=${WIDTH} k.cu\n");
    write(
        folder.path(),
        "k.h",
        "struct P { float x, y; };\nfloat dot(const P& a, const P& b);\nP operator*(const P& a, float b);\nint main_part(int);\n",
    );
    write(
        folder.path(),
        "k.cu",
        "#include \"k.h\"\n__host__ __device__ float dot(const P& a, const P& b) { return a.x * b.x + a.y * b.y; }\n\
         __host__ __device__ P operator*(const P& a, float b) { return P{a.x * b, a.y * b}; }\nint main_part(int n) { return n; }\n\
         __global__ void k(const P* p, float* out, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) {\n\
         float t = 0; for (int j = 0; j < WIDTH; ++j) t += dot(p[i] * 2.0f, p[i]); out[i] = t; } }\n\
         void run(const P* p, float* o, int n) { k<<<(n + 63) / 64, 64>>>(p, o, n); }\n",
    );
    let (said, spec) = drafted(folder.path());
    assert!(spec.contains("WIDTH = 4\n"), "{spec}{said}");
    assert_eq!(checked(folder.path())["right"], 1);
}

/// Atomics of `cuda::` come to what those of CUDA do.
#[test]
fn atomics_with_an_order_are_those_without() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = |name: &str, body: &str| {
        format!(
            "__global__ void {name}(const int* x, int* sums, int n) {{ int i = blockIdx.x * 64 + threadIdx.x; if (i < n) {{ {body} }} }}\n"
        )
    };
    let plain = "atomicAdd(&sums[x[i]], i); atomicMax(&sums[5], i); atomicAnd(&sums[6], ~i); atomicAdd(&sums[7], -1); atomicCAS(&sums[8], 0, 3);";
    let ordered = "cuda::atomic_ref<int, cuda::thread_scope_device> to(sums[x[i]]); to.fetch_add(i, cuda::memory_order_relaxed);\n\
        cuda::atomic_ref<int>(sums[5]).fetch_max(i); cuda::std::atomic_ref<int>(sums[6]).fetch_and(~i, cuda::std::memory_order_acq_rel);\n\
        --cuda::atomic_ref<int, cuda::thread_scope_device>(sums[7]);\n\
        int zero = 0; cuda::atomic_ref<int, cuda::thread_scope_device>(sums[8]).compare_exchange_strong(zero, 3);";
    let held = "__shared__ cuda::atomic<int, cuda::thread_scope_block> count; if (threadIdx.x == 0) count.store(0, cuda::memory_order_relaxed);\n\
        __syncthreads(); count.fetch_add(1, cuda::memory_order_relaxed); __syncthreads(); if (threadIdx.x == 0) sums[blockIdx.x] = count.load();";
    let source = format!(
        "#include <cuda/atomic>\n{}{}__global__ void counts(int* sums) {{ {held} }}\n",
        kernel("plain", plain),
        kernel("ordered", ordered)
    );
    write(folder.path(), "k.cu", &source);
    let files = expect(
        bluefin().current_dir(folder.path()).args([
            "init",
            "k.cu",
            "-o",
            "spec.toml",
            "--entry",
            "plain",
            "--entry",
            "ordered",
        ]),
        0,
    );
    let report = checked(folder.path());
    assert_eq!((&report["right"], &report["wrong"]), (&2.into(), &Value::Null), "{report:#}{files:?}");
    std::fs::remove_file(folder.path().join("spec.toml")).unwrap();
    expect(bluefin().current_dir(folder.path()).args(["init", "k.cu", "-o", "spec.toml", "--entry", "counts"]), 0);
    assert_eq!(checked(folder.path())["right"], 1);
}

/// A kernel that returns at once by the usual block says which one it wants by nothing else.
#[test]
fn a_kernel_that_writes_nothing_is_tried_by_other_blocks() {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        "k.cu",
        "__global__ void k(const float* x, float* y, int n) {\n    if (blockDim.x != 32) return;\n    int i = blockIdx.x * 32 + threadIdx.x;\n    \
         if (i < n) y[i] = x[i] * 2;\n}\n",
    );
    let (said, spec) = drafted(folder.path());
    assert!(
        said.contains("k is launched by blocks of 32 threads, by the usual ones it ends like this: nothing is written"),
        "{said}"
    );
    assert!(spec.contains("block = [32]"), "{spec}");
    assert_eq!(checked(folder.path())["right"], 1);
}

/// A mask in constant memory has as many elements as its constant says.
#[test]
fn a_mask_is_as_large_as_its_constant() {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        "k.cu",
        "#define MASK 3\n__constant__ float mask[MASK * MASK];\n\
         __global__ void blur(const float* x, float* y, int h, int w, int mh, int mw) {\n    __shared__ float s[8 + MASK - 1][8 + MASK - 1];\n    \
         int tx = threadIdx.x, ty = threadIdx.y, i = blockIdx.x * 8 + tx - mw / 2, j = blockIdx.y * 8 + ty - mh / 2;\n    \
         s[ty][tx] = i >= 0 && i < w && j >= 0 && j < h ? x[j * w + i] : 0;\n    __syncthreads();\n    \
         int ox = blockIdx.x * 8 + tx, oy = blockIdx.y * 8 + ty;\n    if (tx < 8 && ty < 8 && ox < w && oy < h) {\n        float t = 1;\n        \
         for (int a = 0; a < mh; ++a) for (int b = 0; b < mw; ++b) t += s[ty + a][tx + b] * mask[a * mw + b];\n        y[oy * w + ox] = t;\n    }\n}\n\
         void host(const float* x, float* y, int h, int w, int mh, int mw) {\n    dim3 block(8 + MASK - 1, 8 + MASK - 1), grid((w + 7) / 8, (h + 7) / 8);\n    \
         blur<<<grid, block>>>(x, y, h, w, mh, mw);\n}\n",
    );
    let (said, spec) = drafted(folder.path());
    assert!(spec.contains("mh = 3\nmw = 3\n"), "{spec}{said}");
    assert_eq!(checked(folder.path())["right"], 1);
}

/// Three axes of the one size that there is: with the usual one there would be more elements than an address has room for.
#[test]
fn a_volume_has_fewer_elements_of_each_axis() {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        "k.cu",
        "__global__ void k(const float* x, float* y, int n) {\n    int i = blockIdx.z * 8 + threadIdx.z, j = blockIdx.y * 8 + threadIdx.y, k = blockIdx.x * 8 + threadIdx.x;\n    \
         if (i >= 1 && i < n - 1 && j < n && k < n) y[(i * n + j) * n + k] = x[((i - 1) * n + j) * n + k] + x[((i + 1) * n + j) * n + k];\n}\n\
         void host(const float* x, float* y, int n) {\n    dim3 block(8, 8, 8), grid((n + 7) / 8, (n + 7) / 8, (n + 7) / 8);\n    k<<<grid, block>>>(x, y, n);\n}\n",
    );
    let (said, spec) = drafted(folder.path());
    assert!(said.contains("sizes are smaller than usual"), "{said}");
    assert!(spec.contains("length = \"n * n * n\""), "{spec}");
    assert_eq!(checked(folder.path())["right"], 1);
}
