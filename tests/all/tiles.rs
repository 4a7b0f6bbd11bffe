//! Tiles of matrices, textures, surfaces and tensors in HIP and CUDA files, for which bluefin has no hardware to stand in but plain loads and
//! shuffles.

use crate::common::write;
use crate::people::{CUDA, Known, TARGETS, check, right};

/// Each shape, with operands by rows and by columns, against sums that are computed here.
#[test]
fn matrix_tiles_of_cuda() {
    let kernel = "#include <mma.h>\nusing namespace nvcuda;\ntemplate <int M, int N, int K, class T, class D, class Layout>\n\
        __device__ void product(const T* a, const T* b, D* out, int stride) {\n    wmma::fragment<wmma::matrix_a, M, N, K, T, Layout> left;\n    \
        wmma::fragment<wmma::matrix_b, M, N, K, T, wmma::row_major> right;\n    wmma::fragment<wmma::accumulator, M, N, K, D> sums;\n    \
        wmma::fill_fragment(sums, 1);\n    wmma::load_matrix_sync(left, a, stride);\n    wmma::load_matrix_sync(right, b, N);\n    \
        wmma::mma_sync(sums, left, right, sums);\n    for (int i = 0; i < sums.num_elements; ++i) sums.x[i] *= 2;\n    \
        wmma::store_matrix_sync(out, sums, N, wmma::mem_row_major);\n}\n\
        __global__ void found(int* out) {\n    __shared__ half a[512], b[512];\n    __shared__ signed char c[512];\n    __shared__ float sums[256];\n    \
        const int t = threadIdx.x;\n    for (int i = t; i < 512; i += 64) { a[i] = i % 7 - 3; b[i] = i % 5 - 2; c[i] = i % 7 - 3; }\n    __syncthreads();\n    \
        for (int shape = 0; shape < 4; ++shape) {\n        if (t < 32) {\n            \
        if (shape == 0) product<16, 16, 16, half, float, wmma::row_major>(a, b, sums, 16);\n            \
        if (shape == 1) product<32, 8, 16, half, float, wmma::row_major>(a, b, sums, 16);\n            \
        if (shape == 2) product<8, 32, 16, half, float, wmma::col_major>(a, b, sums, 8);\n            \
        if (shape == 3) product<16, 16, 16, signed char, int, wmma::row_major>(c, c, out + 768, 16);\n        }\n        __syncthreads();\n        \
        for (int i = t; shape < 3 && i < 256; i += 64) out[256 * shape + i] = (int)sums[i];\n        __syncthreads();\n    }\n}\n";
    let left = |at: i64| at % 7 - 3;
    let right_of = |at: i64| at % 5 - 2;
    let tile = |columns: i64, a: &dyn Fn(i64, i64) -> i64, b: &dyn Fn(i64) -> i64| -> Vec<i64> {
        let sum = |at: i64| (0..16).map(|k| a(at / columns, k) * b(k * columns + at % columns)).sum::<i64>();
        (0..256).map(|at| 2 * (1 + sum(at))).collect()
    };
    let by_rows = |row, k| left(16 * row + k);
    let values = [
        tile(16, &by_rows, &right_of),
        tile(8, &by_rows, &right_of),
        tile(32, &|row, k| left(8 * k + row), &right_of),
        tile(16, &by_rows, &left),
    ];
    right(&Known::integers(values.concat()), "people.cu", "found", CUDA, kernel);
}

/// A texture, a surface and a tensor are structures: where their elements are, and sizes.
#[test]
fn textures_surfaces_and_tensors() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <cuda_runtime.h>\n#include <torch/extension.h>\n#include <THC/THCAtomics.cuh>\nusing at::Tensor;\n\
        texture<float, 1> bound;\n\
        __global__ void plain(const float* image, float* out) { out[threadIdx.x] = image[threadIdx.x / 8 * 8 + min(threadIdx.x % 8 + 1, 7)]; }\n\
        __global__ void sampled(cudaTextureObject_t image, float* out) {\n    \
        out[threadIdx.x] = tex2D<float>(image, threadIdx.x % 8 + 1.5f, threadIdx.x / 8 + 0.5f);\n}\n\
        __global__ void drawn(cudaTextureObject_t image, cudaSurfaceObject_t out) {\n    const int x = threadIdx.x % 8, y = threadIdx.x / 8;\n    \
        surf2Dwrite(tex1Dfetch<float>(image, 8 * y + min(x + 1, 7)), out, x * sizeof(float), y, cudaBoundaryModeClamp);\n}\n\
        template <class scalar_t> __global__ void indexed(const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> image,\n    \
        torch::PackedTensorAccessor64<scalar_t, 3> out) {\n    const int x = threadIdx.x % image.size(1), y = threadIdx.x / image.size(1);\n    \
        out[0][y][x] = image[y][min(x + 1, (int)out.size(2) - 1)] * (out.stride(1) == 8);\n}\n\
        __global__ void unknown(float* out) { out[threadIdx.x] = tex1Dfetch(bound, threadIdx.x); }\n\
        Tensor host(Tensor t) { return t; }\n";
    write(folder.path(), "people.cu", source);
    let solver = |name: &str, entry: &str, arguments: &str| {
        format!(
            "[[solver]]\nname = \"{name}\"\nalgorithm = \"Direct\"\n[[solver.launch]]\nentry = \"{entry}\"\narguments = [{arguments}]\n\
             grid = [1]\nblock = [32]\n"
        )
    };
    let texture = "{ struct = [\"image\", { i32 = 8 }, { i32 = 4 }, { i32 = 1 }] }";
    let surface = texture.replace("image", "out");
    let tensors = "{ struct = [\"image\", { i32 = 4 }, { i32 = 8 }] }, { struct = [\"out\", { i64 = 1 }, { i64 = 4 }, { i64 = 8 }] }";
    let solvers = [
        solver("Plain", "plain", "\"image\", \"out\""),
        solver("Sampled", "sampled", &format!("{texture}, \"out\"")),
        solver("Drawn", "drawn", &format!("{texture}, {surface}")),
        solver("Indexed", "indexed<float>", tensors),
        solver("Unknown", "unknown", "\"out\""),
    ];
    let buffer = |name: &str, role: &str| {
        format!("[[buffer]]\nname = \"{name}\"\ntype = \"FP32\"\nlength = 32\nrole = \"{role}\"\n")
    };
    let spec = format!(
        "name = \"people\"\nproblem = \"kernel\"\ntoolchain = \"clang\"\ntargets = [\"amd\"]\nsource = \"people.cu\"\nreference = \"Plain\"\n\
         {}{}[tolerance.FP32]\nabsolute = 0.0\nrelative = 0.0\n{}",
        buffer("image", "input"),
        buffer("out", "output"),
        solvers.concat()
    );
    write(folder.path(), "spec.toml", &spec);
    for target in TARGETS {
        let report = check(folder.path(), target, 1);
        assert_eq!(report["right"], 4, "{target}: {report:#}");
        let unknown = report["candidates"].as_array().unwrap().iter().find(|one| one["solver"] == "Unknown").unwrap();
        let detail = unknown["detail"].as_str().unwrap();
        assert!(
            detail.contains("a texture that is a variable, of which only its host knows what is in it"),
            "{detail}"
        );
    }
}
