// Mathematical functions by their names in C, C++, HIP and CUDA. Those of FP32 that are used most have code of their own; the others
// are computed in FP64 and rounded, which makes them right to 1 ULP, and slow where FP64 is.
#pragma once

#include "bluefin/math64.h"
#include "bluefin/special.h"

#if BLUEFIN_AMD
// 1 ULP, without subnormals.
BLUEFIN_DEVICE float bluefin_exp2_fast(float x) { return __builtin_amdgcn_exp2f(x); }
BLUEFIN_DEVICE float bluefin_log2_fast(float x) { return __builtin_amdgcn_logf(x); }
BLUEFIN_DEVICE float bluefin_sin_fast(float x) {
    return __builtin_amdgcn_sinf(__builtin_amdgcn_fractf(x * 0x1.45f306p-3f));
}
BLUEFIN_DEVICE float bluefin_cos_fast(float x) {
    return __builtin_amdgcn_cosf(__builtin_amdgcn_fractf(x * 0x1.45f306p-3f));
}
BLUEFIN_DEVICE float bluefin_reciprocal_fast(float x) { return __builtin_amdgcn_rcpf(x); }
BLUEFIN_DEVICE float bluefin_rsqrt(float x) {
    // The instruction takes subnormals for 0.
    return x < 0x1p-126f && x > 0 ? __builtin_amdgcn_rsqf(x * 0x1p24f) * 0x1p12f : __builtin_amdgcn_rsqf(x);
}
#else
#define BLUEFIN_PTX(name, instruction)                                    \
    BLUEFIN_DEVICE float name(float x) {                                  \
        float y;                                                          \
        asm(instruction " %0, %1;" : "=f"(y) : "f"(x));                   \
        return y;                                                         \
    }
BLUEFIN_PTX(bluefin_exp2_fast, "ex2.approx.ftz.f32")
BLUEFIN_PTX(bluefin_log2_fast, "lg2.approx.f32")
BLUEFIN_PTX(bluefin_sin_fast, "sin.approx.f32")
BLUEFIN_PTX(bluefin_cos_fast, "cos.approx.f32")
BLUEFIN_PTX(bluefin_reciprocal_fast, "rcp.approx.f32")
BLUEFIN_PTX(bluefin_rsqrt, "rsqrt.approx.f32")
#endif

// ---- FP32 with code of its own.

BLUEFIN_DEVICE float bluefin_scale32(float value, int by) {
    // Each half is the exponent of a float; what is beyond is 0 and infinity by then.
    by = by < -252 ? -252 : by > 252 ? 252 : by;
    const int half = by / 2;
    return value * bluefin_bits<float>((unsigned)(127 + half) << 23) * bluefin_bits<float>((unsigned)(127 + by - half) << 23);
}
// 2^(n + part): `part` is from -1/2 to 1/2. 2 ULP.
BLUEFIN_DEVICE float bluefin_exp2_parts(float n, float part) {
    const float clamped = __builtin_fminf(__builtin_fmaxf(n, -300), 300);
    return bluefin_scale32(bluefin_exp2_fast(part), (int)clamped);
}
// 3 ULP.
BLUEFIN_DEVICE float bluefin_exp32(float x) {
    if (x != x) return x;
    x = __builtin_fminf(__builtin_fmaxf(x, -200), 200);
    const float n = __builtin_rintf(x * 0x1.715476p+0f);
    const float rest = __builtin_fmaf(x, 0x1.715476p+0f, -n) + x * 0x1.4ae0cp-26f;
    return bluefin_exp2_parts(n, rest);
}
BLUEFIN_DEVICE float bluefin_exp2_32(float x) {
    if (x != x) return x;
    x = __builtin_fminf(__builtin_fmaxf(x, -300), 300);
    const float n = __builtin_rintf(x);
    return bluefin_exp2_parts(n, x - n);
}
// A natural logarithm as n * log(2) + what is returned, of what is positive and finite.
BLUEFIN_DEVICE float bluefin_log_parts(float x, float* n) {
    float exponent = 0;
    if (x < 0x1p-126f) {
        x *= 0x1p24f;
        exponent = -24;
    }
    unsigned bits = bluefin_bits<unsigned>(x) + (0x3f800000u - 0x3f3504f3u);
    *n = exponent + (float)((int)(bits >> 23) - 127);
    const float f = bluefin_bits<float>((bits & 0x7fffffu) + 0x3f3504f3u) - 1;
    float p = 0.06769024114f;
    p = __builtin_fmaf(p, f, -0.1155728788f);
    p = __builtin_fmaf(p, f, 0.1181213614f);
    p = __builtin_fmaf(p, f, -0.1242081447f);
    p = __builtin_fmaf(p, f, 0.1423231786f);
    p = __builtin_fmaf(p, f, -0.1666753677f);
    p = __builtin_fmaf(p, f, 0.2000144672f);
    p = __builtin_fmaf(p, f, -0.2500001094f);
    p = __builtin_fmaf(p, f, 0.3333332279f);
    p = __builtin_fmaf(p, f, -0.4999999994f);
    return __builtin_fmaf(p, f * f, f);
}
BLUEFIN_DEVICE bool bluefin_is_plain(float x) { return x > 0 && x < __builtin_inff(); }
// The logarithm of 0, of what is negative or infinite, and of no number.
BLUEFIN_DEVICE float bluefin_log_else(float x) { return x == 0 ? -__builtin_inff() : x > 0 ? x : __builtin_nanf(""); }
// 2 ULP.
BLUEFIN_DEVICE float bluefin_log32(float x) {
    if (!bluefin_is_plain(x)) return bluefin_log_else(x);
    float n;
    const float part = bluefin_log_parts(x, &n);
    return __builtin_fmaf(n, 0x1.62e43p-1f, __builtin_fmaf(n, -0x1.05c61p-29f, part));
}
BLUEFIN_DEVICE float bluefin_log2_32(float x) {
    if (!bluefin_is_plain(x)) return bluefin_log_else(x);
    float n;
    const float part = bluefin_log_parts(x, &n);
    return __builtin_fmaf(part, 0x1.715476p+0f, part * 0x1.4ae0cp-26f) + n;
}
// 1 ULP.
BLUEFIN_DEVICE void bluefin_sincos32(float x, float* sine, float* cosine) {
    float r;
    int quarters;
    if (__builtin_fabsf(x) < 50000) {
        const float n = __builtin_rintf(x * 0x1.45f306p-1f);
        r = __builtin_fmaf(-n, 0x1.921fb6p+0f, x);
        r = __builtin_fmaf(n, 0x1.777a5cp-25f, r);
        r = __builtin_fmaf(n, 0x1.ee59dap-50f, r);
        quarters = (int)n & 3;
    } else if (__builtin_fabsf(x) < __builtin_inff()) {
        const bluefin_angle angle = bluefin_reduce(x);
        r = (float)angle.high;
        quarters = angle.quarters;
    } else {
        *sine = *cosine = __builtin_nanf("");
        return;
    }
    const float z = r * r;
    float s = __builtin_fmaf(z, 1.0f / 362880, -1.0f / 5040);
    s = __builtin_fmaf(s, z, 1.0f / 120);
    s = __builtin_fmaf(s, z, -1.0f / 6);
    s = __builtin_fmaf(s * z, r, r);
    float c = __builtin_fmaf(z, 1.0f / 40320, -1.0f / 720);
    c = __builtin_fmaf(c, z, 1.0f / 24);
    c = __builtin_fmaf(c, z, -0.5f);
    c = __builtin_fmaf(c, z, 1.0f);
    const float one = quarters & 1 ? c : s, other = quarters & 1 ? s : c;
    *sine = x == 0 ? x : quarters & 2 ? -one : one;
    *cosine = quarters == 1 || quarters == 2 ? -other : other;
}
// 4 ULP.
BLUEFIN_DEVICE float bluefin_tanh32(float x) {
    const float size = __builtin_fabsf(x), z = x * x;
    // Near 0 the difference below would lose digits: the series.
    float near = __builtin_fmaf(z, -1382.0f / 155925, 62.0f / 2835);
    near = __builtin_fmaf(near, z, -17.0f / 315);
    near = __builtin_fmaf(near, z, 2.0f / 15);
    near = __builtin_fmaf(near, z, -1.0f / 3);
    near = __builtin_fmaf(near * z, size, size);
    const float e = bluefin_exp32(2 * (size > 10 ? 10 : size));
    const float far = 1 - 2 / (e + 1);
    return __builtin_copysignf(size < 0.3f ? near : x != x ? x : far, x);
}

// ---- Names. Global, so that the C++ library finds them for `std` as well.
#define BLUEFIN_NAME1(name)                                                                  \
    BLUEFIN_DEVICE double name(double x) { return bluefin_##name(x); }                       \
    BLUEFIN_DEVICE float name##f(float x) { return (float)bluefin_##name((double)x); }       \
    BLUEFIN_DEVICE float name(float x) { return name##f(x); }
// The same with code of its own for FP32.
#define BLUEFIN_NAME1_OF(name, code)                                                         \
    BLUEFIN_DEVICE double name(double x) { return bluefin_##name(x); }                       \
    BLUEFIN_DEVICE float name##f(float x) { return code; }                                   \
    BLUEFIN_DEVICE float name(float x) { return name##f(x); }
// What the hardware has.
#define BLUEFIN_BUILTIN1(name)                                                               \
    BLUEFIN_DEVICE double name(double x) { return __builtin_##name(x); }                     \
    BLUEFIN_DEVICE float name##f(float x) { return __builtin_##name##f(x); }                 \
    BLUEFIN_DEVICE float name(float x) { return name##f(x); }
#define BLUEFIN_NAME2(name)                                                                                  \
    BLUEFIN_DEVICE double name(double x, double y) { return bluefin_##name(x, y); }                          \
    BLUEFIN_DEVICE float name##f(float x, float y) { return (float)bluefin_##name((double)x, (double)y); }   \
    BLUEFIN_DEVICE float name(float x, float y) { return name##f(x, y); }
#define BLUEFIN_BUILTIN2(name)                                                                               \
    BLUEFIN_DEVICE double name(double x, double y) { return __builtin_##name(x, y); }                        \
    BLUEFIN_DEVICE float name##f(float x, float y) { return __builtin_##name##f(x, y); }                     \
    BLUEFIN_DEVICE float name(float x, float y) { return name##f(x, y); }

BLUEFIN_BUILTIN1(sqrt)
BLUEFIN_BUILTIN1(fabs)
BLUEFIN_BUILTIN1(floor)
BLUEFIN_BUILTIN1(ceil)
BLUEFIN_BUILTIN1(trunc)
BLUEFIN_BUILTIN1(rint)
BLUEFIN_BUILTIN1(nearbyint)
BLUEFIN_BUILTIN2(fmin)
BLUEFIN_BUILTIN2(fmax)
BLUEFIN_BUILTIN2(copysign)
BLUEFIN_NAME1_OF(exp, bluefin_exp32(x))
BLUEFIN_NAME1(expm1)
BLUEFIN_NAME1_OF(log, bluefin_log32(x))
BLUEFIN_NAME1(log1p)
BLUEFIN_NAME1(atan)
BLUEFIN_NAME1(asin)
BLUEFIN_NAME1(acos)
BLUEFIN_NAME1(sinh)
BLUEFIN_NAME1(cosh)
BLUEFIN_NAME1_OF(tanh, bluefin_tanh32(x))
BLUEFIN_NAME1(asinh)
BLUEFIN_NAME1(acosh)
BLUEFIN_NAME1(atanh)
BLUEFIN_NAME1(cbrt)
BLUEFIN_NAME1(erf)
BLUEFIN_NAME1(erfc)
BLUEFIN_NAME1(tgamma)
BLUEFIN_NAME1(lgamma)
BLUEFIN_NAME2(pow)
BLUEFIN_NAME2(atan2)
BLUEFIN_NAME2(hypot)
BLUEFIN_NAME2(fmod)
BLUEFIN_NAME2(remainder)
#include "bluefin/names.h"
