//! Mathematical functions of HIP and CUDA files, which are bluefin's own: compared with those of the host, near and far from zero.

use std::fmt::Write as _;

use crate::people::{CUDA, HIP, Known, right};

/// How a kernel spells a function, and the function.
type Applied = (&'static str, fn(f64) -> f64);

/// Points, and the kernel that applies each of `functions` to all of them.
fn applied(element: &str, points: &[f64], functions: &[Applied]) -> (Vec<f64>, String) {
    let points_text: Vec<String> = points.iter().map(|point| format!("({element}){point:?}")).collect();
    let mut kernel = format!("__constant__ {element} points[] = {{{}}};\n", points_text.join(", "));
    let _ =
        writeln!(kernel, "__global__ void found({element}* out) {{\n    if (threadIdx.x >= {}) return;", points.len());
    let _ = writeln!(kernel, "    const {element} x = points[threadIdx.x];");
    let mut values = Vec::new();
    for (index, (code, function)) in functions.iter().enumerate() {
        let _ = writeln!(kernel, "    out[{} + threadIdx.x] = {code};", index * points.len());
        // Points are those of FP32, so that both sides have the same.
        values.extend(points.iter().map(|point| function(*point)));
    }
    (values, kernel + "}\n")
}

/// Points that FP32 has exactly.
const POINTS: [f64; 6] = [0.0625, 0.4375, 1.0, 2.71875, 7.5, 13.25];

#[test]
fn mathematical_functions_of_fp32() {
    let functions: [Applied; 27] = [
        ("expf(x)", f64::exp),
        ("std::exp(-x)", |x| (-x).exp()),
        ("exp2f(x)", f64::exp2),
        ("expm1f(x)", f64::exp_m1),
        ("logf(x)", f64::ln),
        ("log2f(x + 1)", |x| (x + 1.0).log2()),
        ("log10(x)", f64::log10),
        ("log1pf(x)", f64::ln_1p),
        ("sqrtf(x)", f64::sqrt),
        ("rsqrtf(x)", |x| 1.0 / x.sqrt()),
        ("cbrtf(x)", f64::cbrt),
        ("sinf(x)", f64::sin),
        ("cosf(x)", f64::cos),
        ("tanf(x)", f64::tan),
        ("sin(x * 1048576)", |x| (x * 1_048_576.0).sin()),
        ("tanhf(x)", f64::tanh),
        ("sinhf(x)", f64::sinh),
        ("asinhf(x)", f64::asinh),
        ("atanf(x)", f64::atan),
        ("atan2f(x, -2)", |x| x.atan2(-2.0)),
        ("asinf(x / 16)", |x| (x / 16.0).asin()),
        ("powf(x, 1.5f)", |x| x.powf(1.5)),
        ("std::pow(x, 3)", |x| x.powi(3)),
        ("fmaf(x, x, 1)", |x| x.mul_add(x, 1.0)),
        ("fmodf(x, 0.3125f)", |x| x % 0.3125 + 0.0),
        ("roundf(x) + floorf(x) + fminf(x, 2)", |x| x.round() + x.floor() + x.min(2.0)),
        ("hypotf(x, 2)", |x| x.hypot(2.0)),
    ];
    let (values, kernel) = applied("float", &POINTS, &functions);
    let known = Known { element: ("float", "FP32"), error: 6e-7, values };
    right(&known, "people.hip", "found", HIP, &kernel);
}

#[test]
fn mathematical_functions_of_fp64() {
    let functions: [Applied; 17] = [
        // Beside one of its zeros.
        ("cospi(x * 0x1p-30 + 0.5)", |x| -(std::f64::consts::PI * x * 2.0_f64.powi(-30)).sin()),
        ("exp(x)", f64::exp),
        ("log(x)", f64::ln),
        ("sin(x)", f64::sin),
        ("std::cos(x)", f64::cos),
        ("sin(x * 1e200)", |x| (x * 1e200).sin()),
        ("tan(x)", f64::tan),
        ("tanh(x)", f64::tanh),
        ("cosh(x)", f64::cosh),
        ("atan(x)", f64::atan),
        ("acos(x / 16)", |x| (x / 16.0).acos()),
        ("pow(x, 12.25)", |x| x.powf(12.25)),
        ("cbrt(x)", f64::cbrt),
        ("rsqrt(x)", |x| 1.0 / x.sqrt()),
        ("log2(x + 1)", |x| (x + 1.0).log2()),
        ("fmod(x, 0.3125) + round(x)", |x| x % 0.3125 + x.round()),
        ("frexp(x, &scratch) * ldexp(1.0, scratch)", |x| x),
    ];
    let (values, kernel) = applied("double", &POINTS, &functions);
    let kernel = kernel.replace("const double x", "int scratch = 0;\n    const double x");
    let known = Known { element: ("double", "FP64"), error: 2e-15, values };
    right(&known, "people.cu", "found", CUDA, &kernel);
}

/// Where exponents go beyond those of the type: a masked softmax takes e^-1e9.
#[test]
fn mathematical_functions_of_large_and_small_numbers() {
    const FAR: [f64; 12] = [-3e38, -1e9, -745.5, -300.0, -177.5, -104.5, -87.25, 88.5, 104.5, 177.5, 300.0, 1e9];
    let functions: [Applied; 12] = [
        ("expf(x)", f64::exp),
        ("exp2f(x)", f64::exp2),
        ("exp10f(x)", |x| (x * std::f64::consts::LN_10).exp()),
        ("expm1f(x)", f64::exp_m1),
        ("sinhf(x)", f64::sinh),
        ("coshf(x)", f64::cosh),
        ("tanhf(x)", f64::tanh),
        ("erff(x)", f64::signum),
        ("powf(2, x)", f64::exp2),
        ("powf(x, 5)", |x| x.powi(5)),
        ("hypotf(x, 1)", |x| x.hypot(1.0)),
        ("ldexpf(x, -300)", |x| x * 2.0_f64.powi(-300)),
    ];
    let (values, kernel) = applied("float", &FAR, &functions);
    let of_type = |value: f64| f64::from(value as f32);
    let values = values.into_iter().map(of_type).collect();
    right(&Known { element: ("float", "FP32"), error: 2e-6, values }, "people.cu", "found", CUDA, &kernel);
    let functions: [Applied; 6] = [
        ("exp(x)", f64::exp),
        ("exp2(x)", f64::exp2),
        ("expm1(x)", f64::exp_m1),
        ("sinh(x)", f64::sinh),
        ("tanh(x)", f64::tanh),
        ("pow(2, x)", f64::exp2),
    ];
    let (values, kernel) = applied("double", &FAR, &functions);
    right(&Known { element: ("double", "FP64"), error: 1e-13, values }, "people.hip", "found", HIP, &kernel);
}

/// What HIP's vectors and both dialects' halves have beside sums and products.
#[test]
fn operators_of_vectors_and_classes() {
    let kernel = "#include <hip/hip_fp16.h>\nstruct Shape {\n    __device__ virtual ~Shape() {}\n    __device__ virtual int area() const = 0;\n};\n\
        struct Square : Shape {\n    int a;\n    __device__ Square(int a) : a(a) {}\n    __device__ int area() const override { return a * a; }\n};\n\
        __device__ float4 pick(const float4 a, const unsigned) { return a; }\n__device__ float pick(float a, int) { return a; }\n\
        __global__ void found(int* out) {\n    if (threadIdx.x != 0) return;\n    int4 a = make_int4(12, 1, -8, 3), b = ~a;\n    ++a;\n    a |= make_int4(0, 4, 0, 0);\n    \
        a = (a << 2) % 7;\n    b--;\n    const Square square(5);\n    const Shape& shape = square;\n    const half2 two = __floats2half2_rn(1, 2);\n    \
        const int found[] = {a.x, a.y, a.z, (b & a).x, (b ^ a).w, b.z, shape.area(), (int)pick(3.0f, 1), (int)__low2float(__hge2(two, two)), __hble2(two, two),\n    \
        nextafterf(1.0f, 2.0f) == 1.0f + 0x1p-23f, nextafter(0.0, -1.0) < 0, (int)llrint(2.5), (int)norm3d(1, 2, 2)};\n    for (int i = 0; i < 14; ++i) out[i] = found[i];\n}\n";
    let known = [3, 3, 0, (!12 - 1) & 3, (!3 - 1) ^ 2, 6, 25, 3, 1, 1, 1, 1, 2, 3];
    right(&Known::integers(known), "people.hip", "found", HIP, kernel);
}

#[test]
fn error_functions_and_the_gamma_function() {
    let kernel = "__constant__ double x[] = {0.5, 1.5, 0.5, 3, 4.5, 4.5, -0.5, 0.5, 1e-20, 28.5, 0.975};\n__global__ void found(double* out) {\n    \
        if (threadIdx.x != 0) return;\n    out[0] = erf(x[0]);\n    out[1] = erf(x[1]);\n    out[2] = erfc(x[2]);\n    \
        out[3] = erfcf((float)x[3]);\n    out[4] = tgamma(x[4]);\n    out[5] = lgamma(x[5]);\n    out[6] = normcdf(x[6]);\n    \
        out[7] = erfinv(x[7]);\n    out[8] = erfcinv(x[8]);\n    out[9] = erfcx(x[9]);\n    out[10] = normcdfinv(x[10]);\n    int times;\n    \
        out[11] = remquo(29.0, 3.0, &times) + 10 * times;\n}\n";
    let values = vec![
        0.520_499_877_813_046_5,
        0.966_105_146_475_310_7,
        0.479_500_122_186_953_5,
        2.209_049_699_858_544e-5,
        11.631_728_396_567_448,
        2.453_736_570_842_442,
        0.308_537_538_725_986_9,
        0.476_936_276_204_469_9,
        6.601_580_622_355_143,
        0.019_783_962_192_913_174,
        1.959_963_984_540_054,
        // 29 is 10 times 3 less 1, and of 10 the last three bits are 2.
        19.0,
    ];
    right(&Known { element: ("double", "FP64"), error: 1e-7, values }, "people.hip", "found", HIP, kernel);
}

/// Complex numbers of libraries and of CUDA's and HIP's own, function objects, tuples and algorithms of Thrust, whole numbers as halves.
#[test]
fn complex_numbers_and_thrust() {
    let kernel = r#"#include <HALF>
#include <thrust/complex.h>
#include <thrust/functional.h>
#include <thrust/reduce.h>
#include <c10/util/complex.h>
#include <COMPLEX>
struct Sizes { __device__ int operator()(thrust::complex<float> z) const { return (int)thrust::norm(z); } };
__global__ void found(int* out) {
    if (threadIdx.x) return;
    thrust::complex<float> a(3, 4), b(1, -2);
    a *= b;
    b = a / b - 2.0f * thrust::conj(b);
    const c10::complex<double> c = b;
    thrust::complex<float> all[] = {a, b};
    int sizes[4];
    thrust::transform(thrust::seq, all, all + 2, sizes, Sizes());
    PAIR p = make_PAIR(1, 2), q = APICdivf(APICmulf(p, p), p);
    int values[] = {5, 1, 4, 2};
    thrust::sort(thrust::seq, values, values + 4, thrust::greater<int>());
    auto pair = thrust::make_tuple(7, 2.5f);
    const int found[] = {(int)a.real(), (int)a.imag(), (int)c.real(), (int)c.imag(), sizes[0], sizes[1], (int)thrust::abs(thrust::complex<double>(3, 4)),
                         (int)(q.x + 0.5f), (int)(APICabsf(make_PAIR(3, 4)) + 0.5f), values[0] * 1000 + values[1] * 100 + values[2] * 10 + values[3],
                         thrust::reduce(thrust::device, values, values + 4, 1), thrust::get<0>(pair), thrust::maximum<int>()(3, 8),
                         (int)(float)__int2half_rd(2051), (int)(float)__int2half_ru(-2051), (int)(float)__uint2half_rz(70000u), __half2int_ru((half)2.25f)};
    for (int i = 0; i < 17; ++i) out[i] = found[i];
    thrust::inclusive_scan(thrust::seq, values, values + 4, out + 17);
    thrust::exclusive_scan(thrust::seq, values, values + 4, out + 21, 10);
}
"#;
    let known = [11, -2, 1, 0, 125, 1, 5, 1, 5, 5421, 13, 7, 8, 2050, -2050, 65504, 3, 5, 9, 11, 12, 10, 15, 19, 21];
    for (source, head, names) in [
        (
            "people.cu",
            CUDA,
            [("HALF", "cuda_fp16.h"), ("COMPLEX", "cuComplex.h"), ("PAIR", "cuFloatComplex"), ("API", "cu")],
        ),
        (
            "people.hip",
            HIP,
            [("HALF", "hip/hip_fp16.h"), ("COMPLEX", "hip/hip_complex.h"), ("PAIR", "hipFloatComplex"), ("API", "hip")],
        ),
    ] {
        let kernel = names.iter().fold(kernel.to_string(), |text, (name, of)| text.replace(name, of));
        right(&Known::integers(known), source, "found", head, &kernel);
    }
}

/// What the samples of CUDA share for vectors, which are plain structures otherwise.
#[test]
fn vectors_have_the_operators_of_samples() {
    let kernel = r#"#include <helper_math.h>
__global__ void found(int* out) {
    if (threadIdx.x) return;
    const float4 a = make_float4(make_float3(1, 2, 3), 4), b = make_float4(2);
    float4 c = a * b - 1.0f;
    c += 0.5f * b;
    const float3 across = cross(make_float3(a), make_float3(0, 0, 1)), turned = reflect(make_float3(a), make_float3(0, 1, 0));
    const int3 whole = make_int3(make_float3(c)) + make_int3(1, 2, 3), between = clamp(whole, 3, 6);
    const int known[] = {(int)c.x, (int)c.w, (int)dot(a, b), (int)across.x, (int)across.y, (int)turned.y, whole.z, between.x, between.y,
                         between.z, (int)lerp(a, c, 0.5f).w, (int)length(make_float2(3, 4)), (int)(10 * normalize(make_float2(3, -4)).y),
                         (int)fmaxf(a, -b).x, (int)floorf(-a / 8.0f).x, (-whole).x, (int)smoothstep(0.0f, 2.0f, 5.0f)};
    for (int i = 0; i < 17; ++i) out[i] = known[i];
}
"#;
    let known = [2, 8, 20, 2, -1, -2, 9, 3, 6, 6, 6, 5, -8, 1, -1, -3, 1];
    right(&Known::integers(known), "samples.cu", "found", CUDA, kernel);
}

/// What the samples' own header lacks, files have of their own; bounds that lie the wrong way round and numbers that are none are as it has them.
#[test]
fn operators_of_samples_leave_room_for_a_files_own() {
    let kernel = r#"#include <helper_math.h>
__device__ float4 operator-(float a, float4 b) { return make_float4(a - b.x, 0, 0, 0); }
__device__ float4 operator-(const float4& a) { return make_float4(-10 * a.x, 0, 0, 0); }
__device__ int3 operator/(int3 a, float b) { return make_int3((int)(a.x / b * 100), 0, 0); }
__device__ uint2 make_uint2(float2 a) { return make_uint2((unsigned)a.x + 5, 0); }
__device__ uint3 make_uint3(float3 a) { return make_uint3((unsigned)a.x + 6, 0, 0); }
__device__ int3 make_int3(int4 a) { return make_int3(a.w, a.x, a.y); }
__global__ void found(int* out) {
    if (threadIdx.x) return;
    const float4 known = make_float4(2);
    float4 changed = known;
    const float2 none = make_float2(__int_as_float(0x7fffffff));
    const int all[] = {(int)(1 - known).x, (int)(-known).x, (int)(-changed).x, (make_int3(1) / 8).x, (int)make_uint2(make_float2(1)).x,
                       (int)make_uint3(make_float3(1)).x, make_int3(make_int4(1, 2, 3, 4)).x, EXIT_WAIVED, clamp(5, 3, 1), (int)clamp(7u, 3u, 1u),
                       (int)clamp(5.0f, 3.0f, 1.0f), clamp(make_int2(5), 3, 1).y, (int)fminf(make_float2(1), none).x,
                       (int)fmaxf(none, make_float2(2)).y, (int)clamp(none, 3, 4).x};
    for (int i = 0; i < 15; ++i) out[i] = all[i];
}
"#;
    let known = [-1, -20, -2, 12, 6, 7, 4, 2, 3, 3, 3, 3, 1, 2, 4];
    right(&Known::integers(known), "samples.cu", "found", CUDA, kernel);
}

/// Floats of 8 bits of either dialect: what is made of numbers and of each byte, and constants of mathematics.
#[test]
fn floats_of_8_bits() {
    let kernel = r#"#include <HEADER>
#include <CONSTANTS>
template <class T> __device__ int differing() {
    int count = 0;
    for (int byte = 0; byte < 256; ++byte) {
        T one;
        one.__x = byte;
        const float value = float(one);
        count += isinf(value) ? T(value).__x == byte : value == value && T(value).__x != byte;
    }
    return count;
}
__global__ void found(int* out) {
    if (threadIdx.x) return;
    APIfp8x2_e4m3 two(make_float2(-1, 19));
    const float2 both = float2(two);
    const float4 four = float4(APIfp8x4_e5m2(make_float4(1, 0.1f, -3, 1e30f)));
    const int found[] = {
        APIcvt_float_to_fp8(1, APISAT, APIE4M3), APIcvt_float_to_fp8(1000, APISAT, APIE4M3), APIcvt_float_to_fp8(1000, APINOSAT, APIE4M3),
        APIcvt_float_to_fp8(17, APISAT, APIE4M3), APIcvt_float_to_fp8(-0.001953125f, APISAT, APIE4M3), APIcvt_float_to_fp8(0.0009f, APISAT, APIE4M3),
        APIcvt_float_to_fp8(1, APISAT, APIE5M2), APIcvt_float_to_fp8(-1e6f, APISAT, APIE5M2), APIcvt_float_to_fp8(1e6f, APINOSAT, APIE5M2),
        two.__x & 0xff, (int)both.x, (int)both.y, (int)four.x, (int)(four.y * 4096), (int)four.z, (int)four.w,
        (int)(float)(__half)APIfp8_e4m3((half)448), (int)(float)(__half)APIcvt_fp8_to_halfraw(0x7b, APIE5M2),
        differing<APIfp8_e4m3>(), differing<APIfp8_e5m2>(), differing<__hip_fp8_e4m3_fnuz>(), differing<__hip_fp8_e5m2_fnuz>(),
        __hip_fp8_e4m3_fnuz(-0.0f).__x, __hip_fp8_e4m3_fnuz(1000.0f).__x, (int)(MATH_PI_F * 1000), isinf(MATH_INF_F), (int)(MATH_LN2 * 1000),
        APIfp8_e4m3(1.0625 + 1e-12).__x, APIfp8_e4m3(-1.1875 + 1e-12).__x, APIcvt_double_to_fp8(1.0625, APISAT, APIE4M3),
        APIcvt_double_to_fp8(1e300, APINOSAT, APIE5M2), int(APIfp8_e4m3(MATH_NAN)), int(APIfp8_e4m3(-3.0))};
    for (int i = 0; i < 33; ++i) out[i] = found[i];
}
"#;
    // An eighth of 0.1 is between 3 and 4 quarters; E5M2 has 0.09375, and 57344 at most. FP32 does not tell 1.0625 + 1e-12 from the middle of two.
    let known = [
        56, 126, 127, 88, 129, 0, 60, 251, 124, 184, -1, 20, 1, 384, -3, 57344, 448, 57344, 0, 0, 0, 0, 0, 127, 3141,
        1, 693, 57, 185, 56, 124, 0, -3,
    ];
    for (source, head, names) in [
        (
            "people.cu",
            CUDA,
            [
                ("HEADER", "cuda_fp8.h"),
                ("CONSTANTS", "math_constants.h"),
                ("MATH_", "CUDART_"),
                ("APISAT", "__NV_SATFINITE"),
                ("APINOSAT", "__NV_NOSAT"),
                ("APIE", "__NV_E"),
                ("API", "__nv_"),
            ],
        ),
        (
            "people.hip",
            HIP,
            [
                ("HEADER", "hip/hip_fp8.h"),
                ("CONSTANTS", "hip/hip_math_constants.h"),
                ("MATH_", "HIP_"),
                ("APISAT", "__HIP_SATFINITE"),
                ("APINOSAT", "__HIP_NOSAT"),
                ("APIE", "__HIP_E"),
                ("API", "__hip_"),
            ],
        ),
    ] {
        let kernel = names.iter().fold(kernel.to_string(), |text, (name, of)| text.replace(name, of));
        right(&Known::integers(known), source, "found", head, &kernel);
    }
}

/// Tensors of PyTorch's and of Torch's before it, which are contiguous.
#[test]
fn tensors_of_torch() {
    let kernel = "#include <ATen/cuda/detail/TensorInfo.cuh>\n#include \"THCDeviceTensor.cuh\"\n#include <cusparse.h>\n\
        __global__ void found(int* out) {\n    if (threadIdx.x) return;\n    int data[24];\n    \
        for (int i = 0; i < 24; ++i) data[i] = i;\n    at::cuda::detail::TensorInfo<int, unsigned> info;\n    info.data = data;\n    \
        info.sizes = {2, 3, 4, 1};\n    THCDeviceTensor<int, 3> tensor{data, 2, 3, 4};\n    const cuDoubleComplex z = make_cuDoubleComplex(7, 0);\n    \
        const int all[] = {(int)info.sizes[1], (int)info.strides[0], (int)info.strides[1], (int)info.strides[3], info.dims,\n        \
        (int)at::cuda::detail::IndexToOffset<int, unsigned, -1>::get(17, info), info.data[5], tensor.getSize(2), tensor.numElements(),\n        \
        tensor[1][2][3], ScalarConvert<float, int>::to(2.5f), THCCeilDiv(9, 4), (int)z.x};\n    \
        for (int i = 0; i < 13; ++i) out[i] = all[i];\n}\n";
    let known = [3, 12, 4, 1, 4, 17, 5, 4, 24, 23, 2, 3, 7];
    right(&Known::integers(known), "people.cu", "found", CUDA, kernel);
}
