//! How many operations of lanes a second the executor does, by kind: a loop of 32 times one instruction in a block of four waves. And how many
//! instructions of lanes in whole kernels.

#[path = "../tests/all/support.rs"]
#[allow(dead_code, reason = "what only tests need")]
mod support;

use bluefin_amd::{Launch, Memory, Options, Program, Target};
use criterion::{BenchmarkId, Criterion, Throughput};
use support::Tools;

const TURNS: u64 = 200;
const COPIES: u64 = 32;
const WAVES: u32 = 4;

/// Name, target, instruction, and what one lane does in it.
const KINDS: &[(&str, &str, &str, u64)] = &[
    ("integer sum", "gfx942", "v_add_u32_e32 v10, v1, v2", 1),
    ("comparison", "gfx942", "v_cmp_lt_u32_e32 vcc, v1, v2", 1),
    ("address", "gfx942", "v_lshl_add_u64 v[10:11], v[2:3], 2, v[4:5]", 1),
    ("FP32 fused", "gfx942", "v_fmac_f32_e32 v10, v1, v2", 1),
    ("FP32 fused, two", "gfx942", "v_pk_fma_f32 v[10:11], v[2:3], v[4:5], v[10:11] op_sel_hi:[0,1,1]", 2),
    ("FP32 fused, VOPD", "gfx1100", "v_dual_fmac_f32 v10, v1, v2 :: v_dual_fmac_f32 v11, v4, v5", 2),
    ("FP16 to FP32", "gfx942", "v_cvt_f32_f16_e32 v10, v1", 1),
    ("MFMA 32x32x8 FP16", "gfx942", "v_mfma_f32_32x32x8_f16 v[16:31], v[2:3], v[4:5], v[16:31]", 32 * 32 * 8 / 64),
    ("LDS load, 16 bytes", "gfx942", "ds_read_b128 v[12:15], v0", 4),
    ("LDS store, 4 bytes", "gfx942", "ds_write_b32 v0, v1", 1),
    ("global load, 4 bytes", "gfx942", "global_load_dword v12, v0, s[4:5]", 1),
];

fn kernel(target: &Target, instruction: &str) -> String {
    let load = if target.name == "gfx1100" { "s_load_b64" } else { "s_load_dwordx2" };
    let accumulators = if target.name == "gfx1100" { ".amdhsa_wavefront_size32 1" } else { ".amdhsa_accum_offset 64" };
    let clear: String = (1..32).map(|at| format!("v_mov_b32_e32 v{at}, 0\n")).collect();
    // Each wave has its own part of LDS, written before.
    let (write, wait) = match target.name {
        "gfx1100" => ("ds_store_b128 v0, v[4:7]", "s_waitcnt vmcnt(0) lgkmcnt(0)"),
        _ => ("ds_write_b128 v0, v[4:7]", "s_waitcnt vmcnt(0) lgkmcnt(0)"),
    };
    let body = format!("{instruction}\n").repeat(COPIES as usize);
    // The barrier is there as a loop that does nothing but load one place is taken for one that waits for others.
    format!(
        ".amdgcn_target \"amdgcn-amd-amdhsa--{}\"\n.text\n.globl k\n.p2align 8\n.type k,@function\nk:\n{load} s[4:5], s[0:1], 0x0\n{clear}\
         v_lshlrev_b32_e32 v0, 4, v0\n{write}\n{wait}\ns_movk_i32 s6, {TURNS}\nLoop:\n{body}{wait}\ns_barrier\ns_sub_u32 s6, s6, 1\n\
         s_cmp_lg_u32 s6, 0\ns_cbranch_scc1 Loop\ns_endpgm\n.rodata\n.p2align 6\n.amdhsa_kernel k\n.amdhsa_next_free_vgpr 64\n\
         .amdhsa_next_free_sgpr 32\n.amdhsa_kernarg_size 8\n.amdhsa_group_segment_fixed_size 4096\n\
         .amdhsa_user_sgpr_kernarg_segment_ptr 1\n.amdhsa_float_denorm_mode_32 3\n{accumulators}\n.end_amdhsa_kernel\n",
        target.name
    )
}

fn execute(program: &Program, threads: u32) {
    let mut memory = Memory::new();
    let buffer = memory.allocate("in", 4096, 4);
    memory.fill(buffer, 0, 4096).expect("a buffer");
    let arguments = buffer.to_le_bytes();
    let launch = Launch { kernel: "k", grid: [1, 1, 1], block: [threads, 1, 1], dynamic_lds: 0, arguments: &arguments };
    program.run(&mut memory, &launch, &Options::default()).expect("it runs");
}

/// A kernel of `float* out, const float* in, int n`, its blocks of 256 threads, and elements of each buffer.
const KERNELS: &[(&str, &str, u32, usize)] = &[
    (
        "sum of rows",
        "float sum = 0; for (int i = t; i < n; i += 256) sum += in[b * n + i];\
         SHARED float s[256]; s[t] = sum; barrier();\
         for (int half = 128; half; half /= 2) { if (t < half) s[t] += s[t + half]; barrier(); }\
         if (t == 0) out[b] = s[0];",
        16,
        16 * 4096,
    ),
    (
        "product by tiles",
        "SHARED float x[16][17], y[16][17]; const int r = t / 16, c = t % 16, blocks = n / 16, br = b / blocks, bc = b % blocks;\
         float sum = 0; for (int k = 0; k < n; k += 16) {\
         x[r][c] = in[(br * 16 + r) * n + k + c]; y[r][c] = in[(k + r) * n + bc * 16 + c]; barrier();\
         for (int i = 0; i < 16; ++i) sum = __builtin_fmaf(x[r][i], y[i][c], sum); barrier(); }\
         out[(br * 16 + r) * n + bc * 16 + c] = sum;",
        16,
        64 * 64,
    ),
    (
        "gelu",
        "const int i = b * 256 + t; if (i < n) { float v = in[i], u = v * (0.79788456f + 0.035677408f * v * v);\
         float e = __builtin_exp2f(u * 2.885390f); out[i] = v * (1.0f - 1.0f / (e + 1.0f)); }",
        64,
        64 * 256,
    ),
    (
        "softmax",
        "typedef float vec4 __attribute__((ext_vector_type(4))); SHARED float s[256];\
         const vec4* from = (const vec4*)(in + b * n); vec4* to = (vec4*)(out + b * n);\
         float most = -__builtin_inff(); for (int i = t; i < n / 4; i += 256) { vec4 v = from[i];\
         for (int j = 0; j < 4; ++j) most = __builtin_fmaxf(most, v[j]); }\
         s[t] = most; barrier(); for (int half = 128; half; half /= 2) { if (t < half) s[t] = __builtin_fmaxf(s[t], s[t + half]); barrier(); }\
         most = s[0]; barrier(); float sum = 0; for (int i = t; i < n / 4; i += 256) { vec4 v = from[i];\
         for (int j = 0; j < 4; ++j) sum += __builtin_exp2f((v[j] - most) * 1.442695f); }\
         s[t] = sum; barrier(); for (int half = 128; half; half /= 2) { if (t < half) s[t] += s[t + half]; barrier(); }\
         sum = 1.0f / s[0]; for (int i = t; i < n / 4; i += 256) { vec4 v = from[i];\
         for (int j = 0; j < 4; ++j) v[j] = __builtin_exp2f((v[j] - most) * 1.442695f) * sum; to[i] = v; }",
        16,
        16 * 4096,
    ),
    (
        "product in registers",
        "typedef float vec4 __attribute__((ext_vector_type(4))); SHARED vec4 x[16][16], y[16][16];\
         const int r = t / 16, c = t % 16, blocks = n / 64, br = b / blocks, bc = b % blocks; vec4 sum[4] = {};\
         for (int k = 0; k < n; k += 16) { x[r][c] = ((const vec4*)in)[((k + r) * n + br * 64) / 4 + c];\
         y[r][c] = ((const vec4*)in)[((k + r) * n + bc * 64) / 4 + c]; barrier();\
         for (int i = 0; i < 16; ++i) { vec4 p = x[i][r], q = y[i][c];\
         for (int j = 0; j < 4; ++j) for (int l = 0; l < 4; ++l) sum[j][l] = __builtin_fmaf(p[j], q[l], sum[j][l]); } barrier(); }\
         for (int j = 0; j < 4; ++j) ((vec4*)out)[((br * 64 + r * 4 + j) * n + bc * 64) / 4 + c] = sum[j];",
        4,
        128 * 128,
    ),
    (
        "product on matrix cores",
        "typedef _Float16 half4 __attribute__((ext_vector_type(4))); typedef _Float16 half16 __attribute__((ext_vector_type(16)));\
         typedef float vec8 __attribute__((ext_vector_type(8))); typedef float vec16 __attribute__((ext_vector_type(16)));\
         SHARED half16 x[64], y[64]; const half4* from = (const half4*)in;\
         const int w = t / LANES, l = t % LANES; float* to = out + b * 64 * 64;\
         vec16 sum = {}; vec8 sums[2] = {}; for (int k = 0; k < n; k += 16) {\
         ((half4*)x)[t] = from[((b * 64 + t / 4) * n + k) / 4 + t % 4]; ((half4*)y)[t] = from[(t / 4 * n + k) / 4 + t % 4]; barrier();\
         MULTIPLY barrier(); }\
         STORE",
        4,
        256 * 256 / 2,
    ),
];

/// `MULTIPLY` and `STORE` of the product on matrix cores.
const MATRIX_CORES: &str = r#"
#if defined(__GFX9__)
#define LANES 64
#define MULTIPLY for (int i = 0; i < 4; i += 2) sum = __builtin_amdgcn_mfma_f32_32x32x8f16( \
    ((half4*)x)[(w / 2 * 32 + l % 32) * 4 + i + l / 32], ((half4*)y)[(w % 2 * 32 + l % 32) * 4 + i + l / 32], sum, 0, 0, 0);
#define STORE for (int i = 0; i < 16; ++i) to[(w / 2 * 32 + i / 4 * 8 + l / 32 * 4 + i % 4) * 64 + w % 2 * 32 + l % 32] = sum[i];
#else
#define LANES 32
#define MULTIPLY for (int i = 0; i < 2; ++i) sums[i] = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32( \
    x[w / 2 * 16 + l % 16], y[w % 2 * 32 + i * 16 + l % 16], sums[i]);
#define STORE for (int i = 0; i < 2; ++i) for (int j = 0; j < 8; ++j) \
    to[(w / 2 * 16 + j * 2 + l / 16) * 64 + w % 2 * 32 + i * 16 + l % 16] = sums[i][j];
#endif
"#;

const PRELUDE: &str = r#"
#define SHARED __attribute__((shared))
static __attribute__((device, always_inline)) inline void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
"#;

fn kernels(criterion: &mut Criterion, tools: &Tools) {
    let mut group = criterion.benchmark_group("kernels");
    for (arch, lanes) in [("gfx90a", 64), ("gfx942", 64), ("gfx1100", 32)] {
        let Some(target) = Target::named(arch) else { continue };
        for (name, body, blocks, elements) in KERNELS {
            let source = format!(
                "{PRELUDE}{MATRIX_CORES}extern \"C\" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(256, 256))) \
                 void k(float* out, const float* in, int n) {{ const int t = __builtin_amdgcn_workitem_id_x(), b = __builtin_amdgcn_workgroup_id_x(); {body} }}"
            );
            let program = tools.program(&source, target);
            let run = || {
                let mut memory = Memory::new();
                let [out, from] = ["out", "in"].map(|name| memory.allocate(name, elements * 4, 4));
                memory.fill(from, 0x3c, elements * 4).expect("a buffer");
                let n = match *name {
                    "product by tiles" => 64,
                    "gelu" => *elements as i32,
                    "product in registers" => 128,
                    "product on matrix cores" => 256,
                    _ => (*elements as u32 / blocks) as i32,
                };
                let arguments = support::Arguments::default().pointer(out).pointer(from).int(n);
                let launch = support::launch("k", *blocks, 256, &arguments);
                program.run(&mut memory, &launch, &Options::default()).expect("it runs").executed
            };
            group.throughput(Throughput::Elements(run() * lanes));
            group.bench_function(BenchmarkId::from_parameter(format!("{name}, {arch}")), |bencher| bencher.iter(run));
        }
    }
    group.finish();
}

fn main() {
    let Some(tools) = Tools::find() else { return };
    let mut criterion = Criterion::default().configure_from_args().sample_size(10);
    kernels(&mut criterion, &tools);
    let mut group = criterion.benchmark_group("lane operations");
    for (name, arch, instruction, work) in KINDS {
        let Some(target) = Target::named(arch) else { continue };
        let lanes = if target.name == "gfx1100" { 32 } else { 64 };
        let program = tools.load(&tools.compile("kernel.s", &kernel(target, instruction), target, &[]), target);
        group.throughput(Throughput::Elements(TURNS * COPIES * u64::from(WAVES * lanes) * work));
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter(|| execute(&program, WAVES * lanes))
        });
    }
    group.finish();
    criterion.final_summary();
}
