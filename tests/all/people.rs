//! HIP and CUDA files as people have them: compiled as they are with bluefin's own headers, executed, and compared with values that are
//! known.

use std::path::Path;

use serde_json::Value;

use crate::common::{bluefin, expect, json, write};

pub(crate) const TARGETS: [&str; 5] = ["gfx90a", "gfx942", "gfx1100", "gfx1201", "gfx1030"];

/// What a kernel `found` is to write into `out`, element by element.
pub(crate) struct Known {
    /// The element as C++ and as specs have it.
    pub(crate) element: (&'static str, &'static str),
    /// Relative error that is allowed.
    pub(crate) error: f64,
    pub(crate) values: Vec<f64>,
}

impl Known {
    pub(crate) fn integers(values: impl IntoIterator<Item = i64>) -> Self {
        let values = values.into_iter().map(|value| value as f64).collect();
        Self { element: ("int", "INT32"), error: 0.0, values }
    }

    /// A file in which `found` is beside a kernel that writes what is known, and beside a host.
    pub(crate) fn source(&self, head: &str, kernels: &str) -> String {
        let (element, _) = self.element;
        let spelled = |value: &f64| match value {
            value if value.is_nan() => "__builtin_nan(\"\")".to_string(),
            value if value.is_infinite() => format!("{}__builtin_inf()", if *value < 0.0 { "-" } else { "" }),
            value => format!("{value:?}"),
        };
        let values: Vec<String> = self.values.iter().map(|value| format!("({element}){}", spelled(value))).collect();
        format!(
            "{head}\n#include <iostream>\n#include <vector>\n__constant__ {element} known[] = {{{}}};\n\
             extern \"C\" __global__ void expected({element}* out) {{\n    \
             for (int i = threadIdx.x; i < {}; i += blockDim.x) out[i] = known[i];\n}}\n{kernels}\n\
             int main() {{ std::vector<unknown_of_host> v; found<<<1, 64>>>(v.data()); std::cout << v[0]; }}\n",
            values.join(", "),
            values.len()
        )
    }

    pub(crate) fn spec(&self, source: &str, entry: &str) -> String {
        let (_, name) = self.element;
        format!(
            "name = \"people\"\nproblem = \"kernel\"\ntoolchain = \"clang\"\ntargets = [\"amd\", \"nvidia\"]\nsource = \"{source}\"\n\
             reference = \"Known\"\n[sizes]\nn = {}\n[[buffer]]\nname = \"out\"\ntype = \"{name}\"\nlength = \"n\"\nrole = \"output\"\n\
             [tolerance.{name}]\nabsolute = {absolute:?}\nrelative = {:?}\n[[solver]]\nname = \"Known\"\nalgorithm = \"Direct\"\n\
             candidate = false\n[[solver.launch]]\nentry = \"expected\"\narguments = [\"out\"]\ngrid = [1]\nblock = [64]\n\
             [[solver]]\nname = \"Found\"\nalgorithm = \"Direct\"\n[[solver.launch]]\nentry = \"{entry}\"\narguments = [\"out\"]\n\
             grid = [1]\nblock = [64]\n",
            self.values.len(),
            self.error,
            absolute = if self.error > 0.0 { 1e-30 } else { 0.0 },
        )
    }
}

pub(crate) fn check(folder: &Path, target: &str, code: i32) -> Value {
    let arguments = ["check", "--json", "--kernel", "spec.toml", "--target", target];
    json(&expect(bluefin().current_dir(folder).args(arguments), code))
}

/// `found` writes what is known, on all targets that are executed; for NVIDIA it compiles.
pub(crate) fn right(known: &Known, source: &str, entry: &str, head: &str, kernels: &str) {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), source, &known.source(head, kernels));
    write(folder.path(), "spec.toml", &known.spec(source, entry));
    for target in TARGETS {
        let report = check(folder.path(), target, 0);
        assert_eq!(report["candidates"][0]["result"], "right", "{target}: {report:#}");
    }
}

pub(crate) const HIP: &str = "#include <hip/hip_runtime.h>";
pub(crate) const CUDA: &str = "#include \"cuda_runtime.h\"";

#[test]
fn integers_and_bits() {
    let kernel = "__constant__ int x[] = {12, -7, 0x00f0};\n__global__ void found(int* out) {\n    if (threadIdx.x != 0) return;\n    \
        const int values[] = {__popc(x[0]), __clz(x[0]), __ffs(x[0]), (int)__brev(x[0]), __mul24(x[0], x[1]), (int)__umulhi(x[1], x[0]),\n    \
        __mulhi(x[0] << 28, x[1]), (int)__byte_perm(x[2], x[1], 0x4120), __dp4a(0x01020304, x[1], 5), min(x[0], x[1]), max(x[0], x[1]),\n    \
        abs(x[1]), (int)__funnelshift_l(x[1], x[0], 4), __popcll(-1ll), __clzll(x[0]), __float_as_int(x[0] * 1.0f),\n    \
        __float2int_rn(x[1] / 2.0f), __float2int_rz(x[1] / 2.0f), __float2int_rd(x[1] / 2.0f), __double2int_ru(x[1] / 2.0), (int)__sad(x[0], x[1], 1u),\n    \
        (int)__umul24(x[1], 2u), __hadd(x[0], x[1]), __ldg(x + 2),\n    \
        (int)(umax(x[1], 3u) / 2)};\n    for (int i = 0; i < 25; ++i) out[i] = values[i];\n}\n";
    let known = Known::integers(
        [
            2,
            28,
            3,
            0x3000_0000,
            -84,
            11,
            1,
            0x0000_00f0 | 0xf9 << 24,
            5 + (-7) * 4 - 6,
            -7,
            12,
            7,
            12 << 4 | 15,
            64,
            60,
            0x4140_0000,
            -4,
            -3,
            -4,
            -3,
            20,
            0x01ff_fff2,
            2,
            0xf0,
            0x7fff_fffc,
        ]
        .map(|value: i64| i64::from(value as i32)),
    );
    right(&known, "people.cu", "found", CUDA, kernel);
}

/// Halves and bytes of a word at once, and sums of which the larger is taken.
#[test]
fn parts_of_words() {
    let kernel = "__constant__ unsigned x[] = {0x7fff8001, 0x00010002, 0x80ff7f01, 0x01010101};\n__global__ void found(int* out) {\n    \
        if (threadIdx.x != 0) return;\n    const unsigned values[] = {__vadd2(x[0], x[1]), __vaddss2(x[0], x[1]), __vabs2(x[0]), __vabsdiffu4(x[2], x[3]),\n    \
        __vaddus4(x[2], x[3]), __vsubss4(x[2], x[3]), __vcmpgts4(x[2], x[3]), __vsetltu2(x[1], x[0]), __vavgu4(x[2], x[3]), __vsads4(x[2], x[3]),\n    \
        __vmaxs4(x[2], x[3]), __vneg2(x[1]), (unsigned)__viaddmax_s32(-5, 3, -4), __viaddmin_s16x2_relu(x[0], x[1], x[1]), (unsigned)__vimax3_s32(3, -9, 7)};\n    \
        for (int i = 0; i < 15; ++i) out[i] = (int)values[i];\n}\n";
    let known = Known::integers(
        [
            0x8000_8003_u32,
            0x7fff_8003,
            0x7fff_7fff,
            0x7ffe_7e00,
            0x81ff_8002,
            0x80fe_7e00,
            0x0000_ff00,
            0x0001_0001,
            0x4180_4001,
            257,
            0x0101_7f01,
            0xffff_fffe,
            0xffff_fffe,
            0x0000_0000,
            7,
        ]
        .map(|value| i64::from(value as i32)),
    );
    right(&known, "people.cu", "found", CUDA, kernel);
}

/// Comparisons that hold of what is not a number, products of halves and bytes, BF16 of either side, places in shared memory.
#[test]
fn words_that_few_files_have() {
    let kernel = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n__constant__ float x[] = {1.0f, 1.003f};\n\
        __constant__ int y[] = {0x0002ffff, 0x04fd0201};\n__global__ void found(int* out) {\n    __shared__ int s[4];\n    \
        if (threadIdx.x != 0) return;\n    const half nan = __ushort_as_half(0x7e00), one = x[0];\n    const half2 pair = __halves2half2(one, nan);\n    \
        const int values[] = {__hequ(one, nan), __heq(one, nan), __hltu(one, one), __hgeu(one, nan), __hneu(one, one), __hbequ2(pair, pair),\n    \
        (int)(float)__hgtu2(pair, pair).x, (int)(float)__hgtu2(pair, pair).y, __dp2a_lo(y[0], y[1], 5), __dp2a_hi(y[0], y[1], 5),\n    \
        (int)__dp2a_lo((unsigned)y[0], (unsigned)y[1], 5u), __bfloat16_as_ushort(__float2bfloat16_rz(-x[1])), __bfloat16_as_ushort(__float2bfloat16_ru(x[1])),\n    \
        __bfloat16_as_ushort(__float2bfloat16_rd(x[1])), __bfloat16_as_ushort(__float2bfloat16_rd(-x[1])), (int)__ballot64(1),\n    \
        (int)__cvta_generic_to_shared(s + 3)};\n    for (int i = 0; i < 17; ++i) out[i] = values[i];\n}\n";
    let known = [1, 0, 0, 1, 0, 1, 0, 1, 8, 16, 65544, 0xbf80, 0x3f81, 0x3f80, 0xbf81, 1, 12];
    right(&Known::integers(known), "people.cu", "found", CUDA, kernel);
}

/// What rounds down, up and towards zero is beside the exact value on the side that it says.
#[test]
fn directed_rounding() {
    let kernel = "__constant__ int x[] = {16777217, -16777217, 3};\n__constant__ double y[] = {0.1};\n__global__ void found(int* out) {\n    \
        if (threadIdx.x != 0) return;\n    const float three = (float)x[2], tiny = __int_as_float(x[2] - 2);\n    const float values[] = {__int2float_rd(x[0]), __int2float_ru(x[0]), \
        __int2float_rz(x[1]), __int2float_rd(x[1]), __uint2float_ru(x[0]),\n    \
        __ll2float_rz(((long long)x[0] << 32) + 1), __ll2float_ru(((long long)x[0] << 32) + 1), __double2float_rd(y[0]), __double2float_ru(y[0]),\n    \
        __fadd_ru(three, tiny), __fadd_rd(three, -tiny), __fdiv_rd(1, three), __fdiv_ru(1, three), __fsqrt_rz(three), __fmaf_ru(three, three, tiny)};\n    \
        for (int i = 0; i < 15; ++i) out[i] = __float_as_int(values[i]);\n}\n";
    let third = 1.0_f32 / 3.0;
    let root = 3.0_f32.sqrt();
    let values: [f32; 15] = [
        16_777_216.0,
        16_777_218.0,
        -16_777_216.0,
        -16_777_218.0,
        16_777_218.0,
        16_777_216.0 * 4_294_967_296.0,
        16_777_218.0 * 4_294_967_296.0,
        0.1_f32.next_down(),
        0.1,
        3.0_f32.next_up(),
        3.0_f32.next_down(),
        third.next_down(),
        third,
        if f64::from(root) * f64::from(root) > 3.0 { root.next_down() } else { root },
        9.0_f32.next_up(),
    ];
    let known = Known::integers(values.map(|value| i64::from(value.to_bits() as i32)));
    right(&known, "people.cu", "found", CUDA, kernel);
}

/// A file's own function goes before one that CUDA lacks; halves are added one by one and in pairs.
#[test]
fn atomics_of_floats_and_halves() {
    let kernel = "#include <hip/hip_fp16.h>\n__device__ float atomicMin(float* to, float value) { *to = 7; return value; }\n\
        __global__ void found(float* out) {\n    __shared__ __half halves[4];\n    __shared__ float least, most;\n    const int t = threadIdx.x;\n    \
        if (t < 4) halves[t] = __float2half(0.0f);\n    if (t == 0) { least = 100; most = -1; }\n    __syncthreads();\n    \
        if (t < 3) atomicAdd(&halves[1], __float2half(1.5f));\n    if (t < 2) unsafeAtomicAdd((__half2*)halves + 1, __floats2half2_rn(1, 2));\n    \
        atomicMax(&most, (float)t);\n    __syncthreads();\n    if (t == 0) atomicMin(&least, 1.0f);\n    __syncthreads();\n    \
        if (t < 4) out[t] = __half2float(halves[t]);\n    if (t == 4) out[4] = least;\n    if (t == 5) out[5] = most;\n    \
        if (t == 6) out[6] = __half2float(__float2half_rd(0.1f)) < 0.1f && __half2float(__float2half_ru(0.1f)) > 0.1f;\n}\n";
    let values = vec![0.0, 4.5, 2.0, 4.0, 7.0, 63.0, 1.0];
    right(&Known { element: ("float", "FP32"), error: 0.0, values }, "people.hip", "found", HIP, kernel);
}

/// Atomics of each type, on buffers and in shared memory, of which the first is dynamic.
#[test]
fn atomics_and_shared_memory() {
    let kernel = "__global__ void __launch_bounds__(64) found(int* out) {\n    __shared__ int sums[8];\n    __shared__ float real;\n    \
        __shared__ double wide;\n    __shared__ unsigned long long many;\n    const int t = threadIdx.x;\n    \
        if (t < 8) sums[t] = t == 2 ? 1000 : t == 4 ? -1 : t == 6 ? 60 : 0;\n    if (t == 0) { real = 0; wide = 0; many = 0; }\n    \
        __syncthreads();\n    atomicAdd(&sums[0], t);\n    atomicSub(&sums[1], 2);\n    atomicMin(&sums[2], 70 - t);\n    atomicMax(&sums[3], t);\n    \
        atomicAnd(&sums[4], ~(1 << (t % 8)));\n    atomicOr(&sums[5], 1 << (t % 9));\n    atomicInc((unsigned*)&sums[6], 61u);\n    \
        atomicXor(&sums[7], t);\n    atomicAdd(&real, 0.5f);\n    atomicAdd(&wide, 0.25);\n    atomicAdd(&many, 3ull);\n    __syncthreads();\n    \
        if (t < 8) out[t] = sums[t];\n    if (t == 8) out[8] = (int)real;\n    if (t == 9) out[9] = (int)wide;\n    if (t == 10) out[10] = (int)many;\n    \
        if (t == 11) { out[11] = 5; out[12] = atomicCAS(&out[11], 5, 9) + atomicExch(&out[11], 4); __threadfence(); }\n}\n";
    let known = Known::integers([2016, -128, 7, 63, -256, 511, 0, 0, 32, 16, 192, 4, 14]);
    right(&known, "people.hip", "found", HIP, kernel);
}

/// Bits of a half are a field of its raw form, and a file's own sum of halves goes before ours.
#[test]
fn bits_of_halves_and_sums_of_ones_own() {
    let kernels = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <ATen/ATen.h>\n__device__ at::Half atomicAdd(at::Half* to, at::Half) { *to = 5; return 0; }\n\
        __global__ void found(int* out) {\n    __shared__ __half sum;\n    if (threadIdx.x != 0) return;\n    __half_raw bits;\n    \
        bits.x = 0x3c00;\n    __half one = bits;\n    __half2_raw two = __half2_raw(__halves2half2(one, one + one));\n    \
        bits = __half_raw(__hadd(bits, one));\n    sum = one;\n    atomicAdd(&sum, one);\n    \
        out[0] = (int)(float)one;\n    out[1] = bits.x;\n    out[2] = two.y;\n    out[3] = (int)(float)sum;\n    \
        __half_raw four = {0x4400};\n    const unsigned short eight = 0x4800;\n    __half2_raw both = {0x4400, eight};\n    __nv_bfloat16_raw small = {0x3f80};\n    \
        out[4] = (int)(float)(__half)four + (int)(float)(__half)__half_raw{eight};\n    out[5] = (int)(float)((__half2)both).y + (int)(float)(__nv_bfloat16)small;\n}\n";
    right(&Known::integers([1, 0x4000, 0x4000, 5, 12, 9]), "people.cu", "found", CUDA, kernels);
}

#[test]
fn types_of_16_bits_and_vectors() {
    let kernel = "#include <hip/hip_fp16.h>\n#include <hip/hip_bf16.h>\n__constant__ float x[] = {1.5f, -2.25f};\n\
        __global__ void found(float* out) {\n    if (threadIdx.x != 0) return;\n    const __half a = __float2half(x[0]), b = __float2half(x[1]);\n    \
        const half2 c = __halves2half2(a, b), d = __hfma2(c, c, __float2half2_rn(1.0f));\n    const __hip_bfloat16 e = __float2bfloat16(x[0]), f = e * e + e;\n    \
        const float4 v = make_float4(1, 2, 3, 4) * x[0] + float4(1.0f);\n    const int3 w = make_int3(7, 8, 9);\n    const float2 p = __half22float2(d);\n    \
        const float values[] = {__half2float(__hadd(a, b)), __half2float(a * b), (float)__hmax(a, b), p.x, p.y, __high2float(__hmul2(c, c)),\n    \
        __bfloat162float(f), (float)(e < f), v.x, v.w, (float)(w.x + w.y + w.z), __half2float(hsqrt(__float2half(9.0f))), (float)sizeof(float3),\n    \
        (float)(__hgt(a, b) && !__heq(a, b)), (float)(int)dim3(3, 2).z};\n    for (int i = 0; i < 15; ++i) out[i] = values[i];\n}\n";
    let values = vec![-0.75, -3.375, 1.5, 3.25, 6.0625, 5.0625, 3.75, 1.0, 2.5, 7.0, 24.0, 3.0, 12.0, 1.0, 1.0];
    right(&Known { element: ("float", "FP32"), error: 1e-7, values }, "people.hip", "found", HIP, kernel);
}

/// Kernels whose symbols are mangled: instances of a template, with a macro that a param would be, and one of two that are alike by name.
#[test]
fn entries_are_named_as_a_source_names_them() {
    let kernels = "namespace deep {\ntemplate <int N, class T> __global__ void sum(T* out) { if (threadIdx.x == 0) out[0] = N; }\n}\n\
        __global__ void twice(float* out) { out[0] = 1; }\n__global__ void twice(int* out) { if (threadIdx.x == 0) out[0] = 256; }\n\
        __global__ void found(int* out) { if (threadIdx.x == 0) out[0] = blockDim.x * 4 + gridDim.x - 1; }\n";
    for entry in ["deep::sum<256, int>", "deep::sum<(4 * 64), int>", "twice(int*)", "found"] {
        right(&Known::integers([256]), "people.hip", entry, HIP, kernels);
    }
    let folder = tempfile::tempdir().unwrap();
    let known = Known::integers([256]);
    write(folder.path(), "people.hip", &known.source(HIP, kernels));
    for (entry, words) in [
        ("twice", "found twice("),
        ("deep::sum", "found the kernels "),
        ("deep::sum<1, none>", "the entry deep::sum<1, none>:1"),
    ] {
        write(folder.path(), "spec.toml", &known.spec("people.hip", entry));
        let report = check(folder.path(), "gfx942", 1);
        let detail = report["candidates"][0]["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{entry}: {detail}");
    }
}

/// PTX that is not known here may stand in functions that a kernel has no use for. One that comes to it is told so, with the line.
#[test]
fn inline_ptx_is_a_fault_where_a_kernel_comes_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let known = Known::integers([7]);
    let functions = "template <class T> __device__ inline T cast(float);\n\
        template <> __device__ inline int cast<int>(float x) { return (int)x; }\n\
        template <> __device__ inline short cast<short>(float x) {\n    short y;\n    \
        asm volatile(\"cvt.rn.satfinite.e4m3x2.f32 %0, %1, %1;\" : \"=h\"(y) : \"f\"(x));\n    return y;\n}\n\
        __device__ void step(int* at) { asm(\"multimem.red.add.s32 [%0], 1;\" ::\"l\"(at) : \"memory\"); }\n";
    let of = |statement: &str, code| {
        let kernels =
            format!("{functions}__global__ void found(int* out) {{\n    volatile int x = 7;\n    {statement}\n}}\n");
        write(folder.path(), "people.cu", &known.source(CUDA, &kernels));
        write(folder.path(), "spec.toml", &known.spec("people.cu", "found"));
        check(folder.path(), "gfx942", code)
    };
    assert_eq!(of("out[0] = cast<int>((float)x);", 0)["candidates"][0]["result"], "right");
    for statement in ["out[0] = cast<short>((float)x);", "step(out);"] {
        let report = of(statement, 1);
        let detail = report["candidates"][0]["detail"].as_str().unwrap();
        assert!(detail.contains("inline PTX, which is for no AMD GPU (trap 120), by `s_trap 120` at"), "{detail}");
        assert!(detail.contains("(people.cu:"), "{detail}");
    }
}

/// An assert that fails is told by the line of the assert, not by that of the header.
#[test]
fn an_assert_that_fails_is_named_by_its_line() {
    let known = Known::integers([7]);
    for (source, head) in [("people.hip", HIP), ("people.cu", CUDA)] {
        let folder = tempfile::tempdir().unwrap();
        let of = |least, code| {
            let kernels =
                format!("__global__ void found(int* out) {{\n    out[0] = 7;\n    assert(out[0] > {least});\n}}\n");
            let text = known.source(&format!("#include <cassert>\n{head}"), &kernels);
            write(folder.path(), source, &text);
            write(folder.path(), "spec.toml", &known.spec(source, "found"));
            let line = 1 + text.lines().position(|line| line.contains("assert(")).unwrap();
            ["gfx942", "gfx1100"].map(|target| (check(folder.path(), target, code), format!("({source}:{line})")))
        };
        for (report, _) in of(6, 0) {
            assert_eq!(report["candidates"][0]["result"], "right");
        }
        for (report, line) in of(7, 1) {
            let detail = report["candidates"][0]["detail"].as_str().unwrap();
            assert!(
                detail.contains("an assert fails (trap 121), by `s_trap 121` at") && detail.contains(&line),
                "{detail}"
            );
        }
    }
}

/// Clang knows HIP's and CUDA's bound by another word for AMD's GPUs: a kernel has the registers that it leaves, and no larger blocks.
#[test]
fn bounds_of_launches_are_kept() {
    let known = Known::integers(0..64);
    for (source, head, bounds) in
        [("people.hip", HIP, "32, 2"), ("people.cu", CUDA, "32"), ("people.cu", CUDA, "32, 2, 1")]
    {
        let folder = tempfile::tempdir().unwrap();
        let kernel = format!(
            "__global__ void __launch_bounds__({bounds}) found(int* out) {{\n    out[blockIdx.x * 32 + threadIdx.x] = blockIdx.x * 32 + threadIdx.x;\n}}\n"
        );
        write(folder.path(), source, &known.source(head, &kernel));
        let spec = known.spec(source, "found");
        write(folder.path(), "spec.toml", &spec);
        let report = check(folder.path(), "gfx942", 1);
        let candidate = &report["candidates"][0];
        assert_eq!(candidate["result"], "launch_failure", "{report:#}");
        let detail = candidate["detail"].as_str().unwrap();
        assert!(detail.contains("64 threads"), "{detail}");
        let (before, found) = spec.split_once("entry = \"found\"").unwrap();
        let found = found.replace("grid = [1]\nblock = [64]", "grid = [2]\nblock = [32]");
        write(folder.path(), "spec.toml", &format!("{before}entry = \"found\"{found}"));
        check(folder.path(), "gfx942", 0);
    }
}

/// A name that is in no header, and a fault, name the line.
#[test]
fn errors_and_faults_name_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let known = Known::integers([1]);
    let kernels = "__global__ void found(int* out) {\n    out[0] = 1;\n    out[threadIdx.x] = 1;\n}\n";
    let source = known.source(HIP, kernels);
    let line = |part: &str| source.lines().position(|line| line.contains(part)).unwrap() + 1;
    write(folder.path(), "people.hip", &source);
    write(folder.path(), "spec.toml", &known.spec("people.hip", "found"));
    let report = check(folder.path(), "gfx942", 1);
    let detail = report["candidates"][0]["detail"].as_str().unwrap();
    assert!(detail.starts_with("found(int*): out of bounds: write of 4 bytes at element"), "{detail}");
    assert!(detail.contains(&format!("(people.hip:{})", line("out[threadIdx.x]"))), "{detail}");

    write(folder.path(), "people.hip", &source.replace("out[0] = 1", "out[0] = __not_there(1)"));
    let report = check(folder.path(), "gfx942", 1);
    let detail = report["candidates"][0]["detail"].as_str().unwrap();
    let expected = format!("people.hip:{}:14: error: use of undeclared identifier '__not_there'", line("out[0] = 1"));
    assert!(detail.contains(&expected), "{detail}");

    let elsewhere = source.replace(HIP, "#include <hip/hip_runtime.h>\n#include \"../common/own.hpp\"");
    write(folder.path(), "people.hip", &elsewhere.replace("out[0] = 1", "out[0] = own(1)"));
    let report = check(folder.path(), "gfx942", 1);
    let detail = report["candidates"][0]["detail"].as_str().unwrap();
    assert!(detail.ends_with("note: left out, as the spec has no such file beside it: ../common/own.hpp"), "{detail}");

    // A library is named by what is missing of it, and not by files whose hosts use one.
    let library = source.replace(HIP, "#include <hip/hip_runtime.h>\n#include <hipcub/hipcub.hpp>\n#include <rccl.h>");
    write(
        folder.path(),
        "people.hip",
        &library.replace("out[0] = 1", "out[0] = sizeof(hipcub::BlockRadixSort<int, 64, 1>)"),
    );
    let report = check(folder.path(), "gfx942", 1);
    let detail = report["candidates"][0]["detail"].as_str().unwrap();
    let note = "note: nothing, or a part, is here of the libraries of hipcub/hipcub.hpp: kernels that use more compile with nvcc alone";
    assert!(detail.contains(note), "{detail}");
}
