// What a kernel of bluefin stands on: the few words of the GPU that C++ lacks, spelled for AMD (__AMDGCN__) and for
// NVIDIA (ON_NVIDIA). With clang only compiler builtins are used: nothing is included and nothing is linked, so clang
// alone compiles a kernel, in a fraction of a second, with neither ROCm nor CUDA installed. nvcc brings its own words.
#pragma once

#if defined(__NVCC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define ON_NVIDIA 1
#define KERNEL extern "C" __global__ void
#define DEVICE __device__ __forceinline__
#define DEVICE_LAMBDA
#define SHARED __shared__ __align__(16)
#define BLOCK_OF(threads) __launch_bounds__(threads)
#define BLOCK_ALONE(threads) __launch_bounds__(threads, 1)

// Clang's vectors, as far as kernels use them.
template <class T, int N> struct alignas(sizeof(T) * N) Vec {
    T values[N];
    DEVICE T& operator[](int i) { return values[i]; }
    DEVICE const T& operator[](int i) const { return values[i]; }
};
using bfloat = __nv_bfloat16;
template <class To, class From, int N> DEVICE Vec<To, N> convert(const Vec<From, N>& from) {
    Vec<To, N> to;
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = (To)from[i];
    return to;
}
#else
#if defined(__NVPTX__)
#define ON_NVIDIA 1
#endif
#define KERNEL extern "C" __attribute__((global)) void
#define DEVICE __attribute__((device, always_inline)) inline
// Goes before a lambda's parameters.
#define DEVICE_LAMBDA __attribute__((device, always_inline))
// Aligned for the widest vector.
#define SHARED __attribute__((shared, aligned(16)))

#if defined(__AMDGCN__) && __has_builtin(__builtin_amdgcn_mfma_f32_32x32x8f16)
#define HAS_MFMA 1
#endif
// Those of later ones are others.
#if defined(__GFX11__) || defined(__GFX12__)
#define HAS_WMMA 1
#endif

// Goes between KERNEL and the kernel's name: the block size it is launched with, which bounds its registers.
#if defined(__AMDGCN__) && __has_builtin(__builtin_amdgcn_mfma_f32_32x32x8bf16_1k)
// Its accumulators are registers like others. Two waves a SIMD leave 256 to each, few enough that clang lets matrix
// instructions sum in plain registers; with more it keeps the sums of a loop in plain ones but multiplies into
// accumulation ones, copying there and back.
#define BLOCK_OF(threads) __attribute__((amdgpu_flat_work_group_size(threads, threads), amdgpu_waves_per_eu(2)))
#elif defined(__AMDGCN__)
#define BLOCK_OF(threads) __attribute__((amdgpu_flat_work_group_size(threads, threads)))
#else
#define BLOCK_OF(threads) __attribute__((launch_bounds(threads)))
// The same for a block that has a multiprocessor for itself.
#define BLOCK_ALONE(threads) __attribute__((launch_bounds(threads, 1)))
#endif

using half = _Float16;
// Clang's 19 is the first that converts it on all GPUs.
#if __clang_major__ >= 19
using bfloat = __bf16;
#define HAS_BFLOAT 1
#endif
template <class T, int N> using Vec = T __attribute__((ext_vector_type(N)));
// The same values as another type.
template <class To, class From, int N> DEVICE Vec<To, N> convert(Vec<From, N> from) {
    return __builtin_convertvector(from, Vec<To, N>);
}
#endif

// Shared memory that may be more than 48 KiB: NVIDIA gives as much only to who asks at the launch (`shared`).
#if ON_NVIDIA
#define SHARED_SPACE(name, bytes) extern __attribute__((shared, aligned(1024))) unsigned char name[]
#else
#define SHARED_SPACE(name, bytes) SHARED unsigned char name[bytes]
#endif

// What a problem's tensors hold: float, half or bfloat (BF16), which differ in nothing else that a kernel says. Sums are
// always FP32.
#if !defined(ELEMENT)
#define ELEMENT float
#endif
using Element = ELEMENT;

#if defined(__AMDGCN__)
#if defined(__GFX9__)
constexpr int WAVE = 64;
#else
constexpr int WAVE = 32;
#endif
DEVICE int thread_x() { return (int)__builtin_amdgcn_workitem_id_x(); }
DEVICE int block_x() { return (int)__builtin_amdgcn_workgroup_id_x(); }
DEVICE int block_y() { return (int)__builtin_amdgcn_workgroup_id_y(); }
DEVICE int block_z() { return (int)__builtin_amdgcn_workgroup_id_z(); }

DEVICE void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// The value of the lane whose number differs by the bits of `mask`.
DEVICE float lane_xor(float value, int lane, int mask) {
    return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute((lane ^ mask) * 4, __builtin_bit_cast(int, value)));
}
#elif ON_NVIDIA
constexpr int WAVE = 32;
#if defined(__NVCC__)
DEVICE int thread_x() { return (int)threadIdx.x; }
DEVICE int block_x() { return (int)blockIdx.x; }
DEVICE int block_y() { return (int)blockIdx.y; }
DEVICE int block_z() { return (int)blockIdx.z; }
#else
DEVICE int thread_x() { return (int)__nvvm_read_ptx_sreg_tid_x(); }
DEVICE int block_x() { return (int)__nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE int block_y() { return (int)__nvvm_read_ptx_sreg_ctaid_y(); }
DEVICE int block_z() { return (int)__nvvm_read_ptx_sreg_ctaid_z(); }
#endif

DEVICE void barrier() { __syncthreads(); }

DEVICE float lane_xor(float value, int, int mask) {
    // The builtin is refused: without CUDA installed clang assumes a PTX too old for it.
    float other;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(other) : "f"(value), "r"(mask));
    return other;
}
#endif

template <class T> constexpr DEVICE T min(T a, T b) { return a < b ? a : b; }
template <class T> constexpr DEVICE T max(T a, T b) { return a < b ? b : a; }
constexpr DEVICE int ceil_div(int a, int b) { return (a + b - 1) / b; }
#if defined(__NVCC__)
DEVICE int leading_zeros(int a) { return __clz(a); }
#else
DEVICE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DEVICE int leading_zeros(int a) { return __builtin_clz((unsigned)a); }
#endif

// The quotient towards minus infinity; `b` is positive.
constexpr DEVICE int floor_div(int a, int b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

// The sum over the wave, in every lane.
DEVICE float wave_sum(float value, int lane) {
    for (int mask = WAVE / 2; mask > 0; mask /= 2) value += lane_xor(value, lane, mask);
    return value;
}

// ---- Matrix cores: products of FP16 or BF16 summed in FP32. A lane's part of each operand is laid out as the instruction
// says.
#if HAS_BFLOAT && defined(__AMDGCN__)
// What builtins for BF16 take.
template <int N> DEVICE Vec<short, N> bits(Vec<bfloat, N> of) { return __builtin_bit_cast(Vec<short, N>, of); }
#endif
#if HAS_MFMA
// What a lane takes of a row at once: two instructions' worth, which permutes k, in A and in B alike.
constexpr int LANE_K = 8;
// A is 32 x 8: lane l holds row l % 32, columns 4 * (l / 32) to + 3; B alike by column. Register r of C is row
// 8 * (r / 4) + 4 * (l / 32) + r % 4 of column l % 32.
DEVICE void matrix_fma(Vec<float, 16>& c, Vec<half, 4> a, Vec<half, 4> b) {
    c = __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, 0, 0, 0);
}
// A is 16 x 16: lane l holds row l % 16, columns 4 * (l / 16) to + 3; B alike by column. Register r of C is row
// 4 * (l / 16) + r of column l % 16.
DEVICE void matrix_fma(Vec<float, 4>& c, Vec<half, 4> a, Vec<half, 4> b) {
    c = __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0);
}
#if HAS_BFLOAT
#if defined(__gfx908__)
// Its instructions are half as deep: two of them see each column once, in another order. (__has_builtin says that it has
// the others as well, which is not so.)
DEVICE void matrix_fma(Vec<float, 16>& c, Vec<bfloat, 4> a, Vec<bfloat, 4> b) {
    c = __builtin_amdgcn_mfma_f32_32x32x4bf16(bits<2>(a.lo), bits<2>(b.lo), c, 0, 0, 0);
    c = __builtin_amdgcn_mfma_f32_32x32x4bf16(bits<2>(a.hi), bits<2>(b.hi), c, 0, 0, 0);
}
DEVICE void matrix_fma(Vec<float, 4>& c, Vec<bfloat, 4> a, Vec<bfloat, 4> b) {
    c = __builtin_amdgcn_mfma_f32_16x16x8bf16(bits<2>(a.lo), bits<2>(b.lo), c, 0, 0, 0);
    c = __builtin_amdgcn_mfma_f32_16x16x8bf16(bits<2>(a.hi), bits<2>(b.hi), c, 0, 0, 0);
}
#else
DEVICE void matrix_fma(Vec<float, 16>& c, Vec<bfloat, 4> a, Vec<bfloat, 4> b) {
    c = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(bits(a), bits(b), c, 0, 0, 0);
}
DEVICE void matrix_fma(Vec<float, 4>& c, Vec<bfloat, 4> a, Vec<bfloat, 4> b) {
    c = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(bits(a), bits(b), c, 0, 0, 0);
}
#endif
#endif
template <int N> DEVICE void matrix_fma(Vec<float, N>& c, Vec<Element, 8> a, Vec<Element, 8> b) {
    matrix_fma(c, a.lo, b.lo);
    matrix_fma(c, a.hi, b.hi);
}
// Which row of C, of SIDE from `row` on, a lane's register r holds.
template <int SIDE> DEVICE int matrix_row(int row, int r, int lane) {
    return row + r / 4 * 4 * (WAVE / SIDE) + lane / SIDE * 4 + r % 4;
}
#elif HAS_WMMA
#if defined(__GFX11__)
// A is 16 x 16: lane l holds row l % 16 whole; B alike by column. Register r of C is row 2 * r + l / 16 of column l % 16.
constexpr int LANE_K = 16;
#define WMMA(type) __builtin_amdgcn_wmma_f32_16x16x16_##type##_w32
template <int> DEVICE int matrix_row(int row, int r, int lane) { return row + 2 * r + lane / 16; }
#else
// The same, but a lane holds columns 8 * (l / 16) to + 7, and register r of C is row 8 * (l / 16) + r.
constexpr int LANE_K = 8;
#define WMMA(type) __builtin_amdgcn_wmma_f32_16x16x16_##type##_w32_gfx12
template <int> DEVICE int matrix_row(int row, int r, int lane) { return row + lane / 16 * 8 + r; }
#endif
DEVICE void matrix_fma(Vec<float, 8>& c, Vec<half, LANE_K> a, Vec<half, LANE_K> b) { c = WMMA(f16)(a, b, c); }
#if HAS_BFLOAT
DEVICE void matrix_fma(Vec<float, 8>& c, Vec<bfloat, LANE_K> a, Vec<bfloat, LANE_K> b) {
    c = WMMA(bf16)(bits(a), bits(b), c);
}
#endif
#elif ON_NVIDIA
#if defined(__NVCC__)
DEVICE unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
#else
using LocalPointer = __attribute__((address_space(3))) void*;
DEVICE unsigned shared_address(const void* p) { return (unsigned)(unsigned long long)(LocalPointer)p; }
#endif

// What PTX calls the elements of a product.
#define PTX_half "f16"
#define PTX_bfloat "bf16"
#define PTX_float "no element of a product"
#define PTX_NAME(element) PTX_##element
#define PTX_NAME_OF(element) PTX_NAME(element)
#define PTX_FACTORS PTX_NAME_OF(ELEMENT) "." PTX_NAME_OF(ELEMENT)

// A is 16 x 16, B is 16 x 8, C is 16 x 8: registers 0, 1 of C are row l / 4, columns 2 * (l % 4) and + 1;
// registers 2, 3 are eight rows further down.
DEVICE void matrix_fma(Vec<float, 4>& c, Vec<unsigned, 4> a, unsigned b0, unsigned b1) {
    float c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." PTX_FACTORS
                 ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    c = Vec<float, 4>{c0, c1, c2, c3};
}

// Four 8 x 8 matrices of elements of 16 bits; lanes 8q to 8q + 7 pass the addresses of the rows of matrix q. Lane l receives columns
// 2 * (l % 4) and + 1 of row l / 4 of each, or of its transpose.
template <bool TRANSPOSED> DEVICE Vec<unsigned, 4> matrix_load(const Element* row) {
    unsigned r0, r1, r2, r3;
    if constexpr (TRANSPOSED) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(shared_address(row)) : "memory");
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(shared_address(row)) : "memory");
    }
    return Vec<unsigned, 4>{r0, r1, r2, r3};
}

// Starts a copy of BYTES (4, 8 or 16, both sides aligned to it) into shared memory; zeros instead, and nothing is read,
// when not `inside`.
template <int BYTES> DEVICE void copy_async(void* to, const void* from, bool inside) {
    const int valid = inside ? BYTES : 0;
    if constexpr (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(shared_address(to)), "l"(from), "r"(valid) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     :: "r"(shared_address(to)), "l"(from), "n"(BYTES), "r"(valid) : "memory");
    }
}
DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most PENDING of the committed groups are under way.
template <int PENDING> DEVICE void copy_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory"); }
#endif
