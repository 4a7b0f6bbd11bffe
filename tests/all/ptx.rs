//! Inline PTX of CUDA files that AMD's GPUs compute as well.

use crate::people::{CUDA, Known, right};

/// Words of a lane, bits, numbers, predicates, shared memory, halves, copies, atomics, in functions and in macros.
#[test]
fn instructions_of_ptx() {
    let kernel = r#"#include <cuda_fp16.h>
#define COPY(to, from, bytes) \
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;\n" \
                 ::"r"(to), "l"(from), "n"(bytes))
#define PUT(out, value) out = value
__device__ int of_lane() {
    int lane, before;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(before));
    return lane + 100 * __popc(before);
}
__global__ void found(int* out) {
    const int t = threadIdx.x;
    __shared__ int4 fours[64];
    int x, y, z, w, low, high;
    float real = (t * 10 - 300) * 0.5f;
    PUT(out[t], of_lane());
    asm("bfe.u32 %0, %1, 2, 3;" : "=r"(x) : "r"(t * 37));
    asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(y) : "r"(t), "r"(t + 1), "r"(5));
    out[64 + t] = x + 100 * y;
    asm("{\n\t.reg .pred p;\n\t.reg .s32 r;\n\tsetp.gt.s32 p, %1, 20;\n\tmov.s32 r, %1;\n\t@p add.s32 r, r, 1000;\n\t@!p mul.lo.s32 r, r, 2;\n\tmov.s32 %0, r;}"
        : "=r"(x) : "r"(t));
    asm volatile("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(y) : "f"(real));
    out[128 + t] = 1000 * x + y;
    unsigned at;
    asm("{.reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide;}" : "=r"(at) : "l"(fours + t));
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(t), "r"(t * 2), "r"(t * 3), "r"(t * 4) : "memory");
    asm volatile("bar.sync 0;");
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2 + 8];" : "=r"(z), "=r"(w) : "r"(at ^ 16));
    asm volatile("shfl.sync.bfly.b32 %0, %1, 3, 0x1f, 0xffffffff;" : "=r"(x) : "r"(t));
    out[192 + t] = z + 1000 * w + 1000000 * (x - t);
    __half2 pair = __floats2half2_rn(t % 32, 2);
    asm("fma.rn.f16x2 %0, %1, %1, %2;" : "=r"(*(unsigned*)&pair) : "r"(*(unsigned*)&pair), "r"(0x3c003c00));
    asm("mov.b32 {%0, %1}, %2;" : "=h"(*(short*)&low), "=h"(*(short*)&high) : "r"(t | 7 << 16));
    out[256 + t] = (int)__low2float(pair) + 10000 * (int)__high2float(pair) + 100000 * (short)high + 0 * (short)low;
    __syncthreads();
    COPY((unsigned)__cvta_generic_to_shared(fours + t), out + 4 * t, 16);
    asm volatile("cp.async.commit_group;\ncp.async.wait_group %0;" ::"n"(0));
    __syncthreads();
    out[320 + t] = fours[t].z;
    const int* from = out + t;
    asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(x) : "l"(from));
    asm("add.s32 %[sum], %[one], %[other];" : [sum] "=r"(y) : [one] "r"(x), [other] "r"(3));
    out[384 + t] = y;
    out[448 + t] = 0;
    __syncthreads();
    asm volatile("red.global.add.s32 [%0], %1;" ::"l"(out + 448 + t % 2), "r"(t) : "memory");
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(real) : "f"((float)(t % 8)));
    asm("{rcp.approx.f32 %0, %0;}" : "+f"(real));
    out[512 + t] = (int)(1 / real);
}
"#;
    let lanes = |t: i64| t % 32 * 101;
    let bits = |t: i64| (((t * 37) >> 2) & 7) + 100 * (t ^ (t + 1) ^ 5);
    let chosen = |t: i64| 1000 * if t > 20 { t + 1000 } else { 2 * t } + ((t * 10 - 300) / 2).clamp(-128, 127);
    let near = |t: i64| 3 * (t ^ 1) + 4000 * (t ^ 1) + 1_000_000 * ((t ^ 3) - t);
    let copied: [fn(i64) -> i64; 4] = [lanes, bits, chosen, near];
    let values = (0..64)
        .map(lanes)
        .chain((0..64).map(bits))
        .chain((0..64).map(chosen))
        .chain((0..64).map(near))
        .chain((0..64).map(|t| (t % 32) * (t % 32) + 1 + 50_000 + 700_000))
        .chain((0..64).map(|t: i64| copied[(t / 16) as usize]((4 * t + 2) % 64)))
        .chain((0..64).map(|t| lanes(t) + 3))
        .chain((0..64).map(|t| [992, 1024].get(t).copied().unwrap_or(0)))
        .chain((0..64).map(|t| 1 << (t % 8)));
    right(&Known::integers(values), "people.cu", "found", CUDA, kernel);
}

/// Literals and constants of their instruction's type, what is no number, tied operands, parts of a word copied, accesses with an order, conditions.
#[test]
fn operands_and_orders_of_ptx() {
    let kernel = r#"__global__ void found(int* out) {
    const int t = threadIdx.x;
    __shared__ uint4 s[64];
    long long a = t, m = 0x123456789abcdef7ll;
    asm("add.s64 %0, %0, -1;" : "+l"(a));
    asm("and.b64 %0, %0, -16;" : "+l"(m));
    asm("add.s64 %0, %0, %1;" : "+l"(a) : "n"(-3));
    out[t] = (int)a + (m == 0x123456789abcdef0ll ? 1000 : 0);
    float h = t;
    asm("mul.f32 %0, %0, 0.5;\n\tfma.rn.f32 %0, %0, 0f40800000, 1.0;" : "+f"(h));
    const float nan = __int_as_float(0x7fc00000);
    int is, differs, unordered;
    asm("{ .reg .pred p; setp.gt.s64 p, %1, -1; selp.s32 %0, 1, 0, p; }" : "=r"(is) : "l"((long long)t - 32));
    asm("{ .reg .pred p; setp.ne.f32 p, %1, %1; selp.s32 %0, 1, 0, p; }" : "=r"(differs) : "f"(nan));
    asm("{ .reg .pred p; setp.neu.f32 p, %1, %1; selp.s32 %0, 1, 0, p; }" : "=r"(unordered) : "f"(nan));
    out[64 + t] = (int)h + 1000 * is + 10000 * differs + 100000 * unordered;
    double most, least;
    asm("max.f64 %0, %1, %2;" : "=d"(most) : "d"((double)nan), "d"((double)t));
    asm("min.f64 %0, %1, %2;" : "=d"(least) : "d"((double)t), "d"((double)nan));
    int x = 7 * t;
    asm("sub.s32 %0, %0, %2;" : "=r"(x) : "0"(3 * t), "r"(x));
    asm(
#if __CUDA_ARCH__ >= 900
        "sub.s32 %0, %0, -1;"
#else
        "add.s32 %0, %0, 1;"
#endif
        : "+r"(x));
    out[128 + t] = (int)most + 100 * (int)least + 10000 * x;
    __syncthreads();
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(s + t)), "l"(out + 64 + t % 16 * 4), "r"(6));
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    out[192 + t] = s[t].x + 2 * s[t].y + 7 * s[t].z + 7 * s[t].w;
    unsigned* const own = (unsigned*)out + 256 + t;
    unsigned got, before;
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(own), "r"(t + 5) : "memory");
    asm volatile("red.release.gpu.global.add.u32 [%0], 10;" ::"l"(own) : "memory");
    asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(got) : "l"(own) : "memory");
    asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(own), "r"(got + 100) : "memory");
    asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(got) : "l"(own) : "memory");
    asm volatile("atom.acq_rel.gpu.global.exch.b32 %0, [%1], %2;" : "=r"(before) : "l"(own), "r"(got * 2) : "memory");
    out[320 + t] = before;
}
"#;
    let real = |t: i64| 2 * t + 1 + if t >= 32 { 1000 } else { 0 } + 100_000;
    let values = (0..64)
        .map(|t: i64| t - 4 + 1000)
        .chain((0..64).map(real))
        .chain((0..64).map(|t| 101 * t + 10000 * (1 - 4 * t)))
        .chain((0..64).map(|t| real(t % 16 * 4) + 2 * (real(t % 16 * 4 + 1) & 0xffff)))
        .chain((0..64).map(|t| 2 * (t + 115)))
        .chain((0..64).map(|t| t + 115));
    right(&Known::integers(values), "people.cu", "found", CUDA, kernel);
}

/// A product of tiles of a warp by `ldmatrix` and `mma`, from rows and from columns that are turned.
#[test]
fn products_of_ptx() {
    let kernel = r#"#include <cuda_fp16.h>
__global__ void found(int* out) {
    __shared__ __align__(16) half a[16][16], b[8][16], turned[16][8];
    for (int i = threadIdx.x; i < 256; i += 64) a[i / 16][i % 16] = (float)((i / 16 * 3 + i % 16) % 5 - 2);
    for (int i = threadIdx.x; i < 128; i += 64) {
        const int n = i / 16, k = i % 16;
        b[n][k] = turned[k][n] = (float)((n + 2 * k) % 7 - 3);
    }
    __syncthreads();
    const int lane = threadIdx.x % 32;
    unsigned left[4], right[2], other[2], halves[2];
    float sums[4] = {1, 1, 1, 1};
    unsigned at = (unsigned)__cvta_generic_to_shared(&a[lane % 16][lane / 16 * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(left[0]), "=r"(left[1]), "=r"(left[2]), "=r"(left[3]) : "r"(at));
    at = (unsigned)__cvta_generic_to_shared(&b[lane % 8][lane / 8 % 2 * 8]);
    asm volatile("ldmatrix.sync.aligned.x2.m8n8.shared.b16 {%0, %1}, [%2];\n" : "=r"(right[0]), "=r"(right[1]) : "r"(at));
    at = (unsigned)__cvta_generic_to_shared(&turned[lane % 16][0]);
    asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n" : "=r"(other[0]), "=r"(other[1]) : "r"(at));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%5, %6};\n"
                 : "=r"(halves[0]), "=r"(halves[1]) : "r"(left[0]), "r"(left[1]), "r"(other[0]), "r"(0), "r"(0));
    if (threadIdx.x < 32) {
        for (int i = 0; i < 4; ++i) {
            const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            out[row * 8 + column] = (int)sums[i];
            const __half2 pair = *(__half2*)&halves[i / 2];
            out[128 + row * 8 + column] = (int)(i % 2 ? __high2float(pair) : __low2float(pair));
        }
    }
}
"#;
    let product = |row: i64, column: i64, most: i64| {
        (0..most).map(|k| ((row * 3 + k) % 5 - 2) * ((column + 2 * k) % 7 - 3)).sum::<i64>()
    };
    let all = |most, more| (0..128).map(move |at| product(at / 8, at % 8, most) + more);
    right(&Known::integers(all(16, 1).chain(all(8, 0))), "people.cu", "found", CUDA, kernel);
}

/// Numbers of several words, whose carries go from one instruction of a statement to the next, and shifts of two words.
#[test]
fn carries_of_ptx() {
    let kernel = r#"__global__ void found(int* out) {
    const unsigned t = threadIdx.x, big = 0xffffffffu - t / 2;
    unsigned low, high, top;
    asm("add.cc.u32 %0, %3, %4;\n\taddc.cc.u32 %1, %3, %3;\n\taddc.u32 %2, 0, 0;" : "=r"(low), "=r"(high), "=r"(top) : "r"(big), "r"(40u));
    const unsigned long long sum = (unsigned long long)big + 40, next = 2ull * big + (sum >> 32);
    out[t] = low == (unsigned)sum && high == (unsigned)next && top == (unsigned)(next >> 32);
    asm("{sub.cc.u32 %0, %2, %3; subc.u32 %1, 0, 0;}" : "=r"(low), "=r"(high) : "r"(t), "r"(20u));
    out[64 + t] = (int)low + (int)high * 1000;
    asm("mad.lo.cc.u32 %0, %2, %3, %2;\n\tmadc.hi.u32 %1, %2, %3, 7;" : "=r"(low), "=r"(high) : "r"(big), "r"(t + 2));
    const unsigned long long product = (unsigned long long)big * (t + 2) + big + (7ull << 32);
    out[128 + t] = ((unsigned long long)high << 32 | low) == product;
    unsigned long long wide, upper;
    asm("add.cc.u64 %0, %2, %2; addc.u64 %1, 0, 0;" : "=l"(wide), "=l"(upper) : "l"(1ull << 63 | t));
    out[192 + t] = (int)wide + 100 * (int)upper;
    asm("shf.l.wrap.b32 %0, %1, %2, %3;" : "=r"(low) : "r"(0x80000001u), "r"(t), "r"(33u));
    asm("shf.r.clamp.b32 %0, %1, %2, %3;" : "=r"(high) : "r"(16u), "r"(t), "r"(t < 32 ? 4u : 40u));
    out[256 + t] = low + 1000 * (high & 0xff);
}
"#;
    let values = std::iter::repeat_n(1, 64)
        .chain((0..64).map(|t| t - 20 - if t < 20 { 1000 } else { 0 }))
        .chain(std::iter::repeat_n(1, 64))
        .chain((0..64).map(|t| 2 * t + 100))
        .chain((0..64).map(|t| 2 * t + 1 + 1000 * if t < 32 { 1 } else { t }));
    right(&Known::integers(values), "people.cu", "found", CUDA, kernel);
}
