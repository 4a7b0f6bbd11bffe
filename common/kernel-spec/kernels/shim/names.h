// Mathematical functions that are a few others, and CUDA's intrinsics.
#pragma once

BLUEFIN_DEVICE void sincosf(float x, float* sine, float* cosine) { bluefin_sincos32(x, sine, cosine); }
BLUEFIN_DEVICE void sincos(double x, double* sine, double* cosine) { bluefin_sincos(x, sine, cosine); }
BLUEFIN_DEVICE void sincos(float x, float* sine, float* cosine) { bluefin_sincos32(x, sine, cosine); }
BLUEFIN_DEVICE double sin(double x) { return bluefin_sin(x); }
BLUEFIN_DEVICE double cos(double x) { return bluefin_cos(x); }
BLUEFIN_DEVICE double tan(double x) { return bluefin_tan(x); }
BLUEFIN_DEVICE float sinf(float x) {
    float sine, cosine;
    bluefin_sincos32(x, &sine, &cosine);
    return sine;
}
BLUEFIN_DEVICE float cosf(float x) {
    float sine, cosine;
    bluefin_sincos32(x, &sine, &cosine);
    return cosine;
}
BLUEFIN_DEVICE float tanf(float x) {
    float sine, cosine;
    bluefin_sincos32(x, &sine, &cosine);
    return sine / cosine;
}
BLUEFIN_DEVICE float sin(float x) { return sinf(x); }
BLUEFIN_DEVICE float cos(float x) { return cosf(x); }
BLUEFIN_DEVICE float tan(float x) { return tanf(x); }
BLUEFIN_DEVICE double sinpi(double x) { return bluefin_sinpi(x); }
BLUEFIN_DEVICE double cospi(double x) { return bluefin_cospi(x); }
BLUEFIN_DEVICE float sinpif(float x) { return (float)bluefin_sinpi(x); }
BLUEFIN_DEVICE float cospif(float x) { return (float)bluefin_cospi(x); }
BLUEFIN_DEVICE void sincospif(float x, float* sine, float* cosine) {
    *sine = sinpif(x);
    *cosine = cospif(x);
}
BLUEFIN_DEVICE void sincospi(double x, double* sine, double* cosine) {
    *sine = sinpi(x);
    *cosine = cospi(x);
}

BLUEFIN_DEVICE double exp2(double x) {
    const double n = __builtin_rint(x);
    if (!(__builtin_fabs(x) < 2000)) return x != x ? x : x > 0 ? BLUEFIN_INFINITY : 0;
    return bluefin_scale(bluefin_exp((x - n) * 0x1.62e42fefa39efp-1, (x - n) * 0x1.abc9e3b39803fp-56), (int)n);
}
BLUEFIN_DEVICE float exp2f(float x) { return bluefin_exp2_32(x); }
BLUEFIN_DEVICE float exp2(float x) { return exp2f(x); }
BLUEFIN_DEVICE double exp10(double x) { return bluefin_pow(10, x); }
BLUEFIN_DEVICE float exp10f(float x) { return (float)bluefin_exp(x * 2.302585092994046); }
BLUEFIN_DEVICE double log2(double x) {
    if (!(x > 0 && x < BLUEFIN_INFINITY)) return bluefin_log(x);
    const bluefin_parts64 parts = bluefin_parts(x);
    return parts.exponent + bluefin_log(parts.mantissa) * 0x1.71547652b82fep+0;
}
BLUEFIN_DEVICE float log2f(float x) { return bluefin_log2_32(x); }
BLUEFIN_DEVICE float log2(float x) { return log2f(x); }
BLUEFIN_DEVICE double log10(double x) {
    if (!(x > 0 && x < BLUEFIN_INFINITY)) return bluefin_log(x);
    const bluefin_pair log = bluefin_log_pair(x);
    return __builtin_fma(log.high, 0x1.bcb7b1526e50ep-2, __builtin_fma(log.high, 0x1.95355baaafad3p-57, log.low * 0x1.bcb7b1526e50ep-2));
}
BLUEFIN_DEVICE float log10f(float x) {
    if (!bluefin_is_plain(x)) return bluefin_log_else(x);
    return (float)log10((double)x);
}
BLUEFIN_DEVICE float log10(float x) { return log10f(x); }

BLUEFIN_DEVICE float rsqrtf(float x) { return bluefin_rsqrt(x); }
BLUEFIN_DEVICE float rsqrt(float x) { return bluefin_rsqrt(x); }
BLUEFIN_DEVICE double rsqrt(double x) { return 1 / __builtin_sqrt(x); }
BLUEFIN_DEVICE float rcbrtf(float x) { return (float)(1 / bluefin_cbrt(x)); }
BLUEFIN_DEVICE double rcbrt(double x) { return 1 / bluefin_cbrt(x); }
BLUEFIN_DEVICE float rhypotf(float x, float y) { return (float)(1 / bluefin_hypot(x, y)); }
BLUEFIN_DEVICE double rhypot(double x, double y) { return 1 / bluefin_hypot(x, y); }
BLUEFIN_DEVICE float norm3df(float x, float y, float z) { return __builtin_sqrtf(x * x + y * y + z * z); }
BLUEFIN_DEVICE float rnorm3df(float x, float y, float z) { return 1 / norm3df(x, y, z); }
BLUEFIN_DEVICE double norm3d(double x, double y, double z) { return bluefin_hypot(bluefin_hypot(x, y), z); }
BLUEFIN_DEVICE double rnorm3d(double x, double y, double z) { return 1 / norm3d(x, y, z); }
BLUEFIN_DEVICE double norm4d(double x, double y, double z, double w) { return bluefin_hypot(bluefin_hypot(x, y), bluefin_hypot(z, w)); }
BLUEFIN_DEVICE double rnorm4d(double x, double y, double z, double w) { return 1 / norm4d(x, y, z, w); }
BLUEFIN_DEVICE float norm4df(float x, float y, float z, float w) { return (float)norm4d(x, y, z, w); }
BLUEFIN_DEVICE float rnorm4df(float x, float y, float z, float w) { return (float)rnorm4d(x, y, z, w); }
BLUEFIN_DEVICE double nan(const char*) { return BLUEFIN_NAN; }
BLUEFIN_DEVICE float nanf(const char*) { return (float)BLUEFIN_NAN; }
// The next number towards y.
#define BLUEFIN_NEXT(name, T, U)                                                                    \
    BLUEFIN_DEVICE T name(T x, T y) {                                                               \
        if (x != x || y != y) return x + y;                                                         \
        if (x == y) return y;                                                                       \
        if (x == 0) return bluefin_bits<T>((U)((U)(y < 0) << (sizeof(U) * 8 - 1) | 1));             \
        return bluefin_bits<T>((U)(bluefin_bits<U>(x) + ((x < y) == (x > 0) ? (U)1 : ~(U)0)));      \
    }
BLUEFIN_NEXT(nextafterf, float, unsigned)
BLUEFIN_NEXT(nextafter, double, unsigned long long)
BLUEFIN_DEVICE float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
BLUEFIN_DEVICE double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
BLUEFIN_DEVICE float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
// The remainder, and the last three bits of the whole number of times.
BLUEFIN_DEVICE double remquo(double x, double y, int* times) {
    const double rest = bluefin_remainder(x, y), few = __builtin_fabs(y) < 0x1p1020 ? bluefin_fmod(x, 8 * y) : x;
    const double whole = __builtin_rint((few - rest) / y);
    *times = whole == whole ? (int)whole % 8 : 0;
    return rest;
}
BLUEFIN_DEVICE float remquof(float x, float y, int* times) { return (float)remquo(x, y, times); }
BLUEFIN_DEVICE void abort() { __builtin_trap(); }
BLUEFIN_DEVICE float fdimf(float x, float y) { return x > y ? x - y : x <= y ? 0 : x + y; }
BLUEFIN_DEVICE double fdim(double x, double y) { return x > y ? x - y : x <= y ? 0 : x + y; }
BLUEFIN_DEVICE float fdividef(float x, float y) { return x / y; }
BLUEFIN_DEVICE float modff(float x, float* whole) {
    *whole = __builtin_truncf(x);
    return __builtin_copysignf(x == *whole ? 0 : x - *whole, x);
}
BLUEFIN_DEVICE double modf(double x, double* whole) {
    *whole = __builtin_trunc(x);
    return __builtin_copysign(x == *whole ? 0 : x - *whole, x);
}
// Halves are rounded away from zero.
BLUEFIN_DEVICE float roundf(float x) {
    const float whole = __builtin_truncf(x);
    return __builtin_copysignf(__builtin_fabsf(x - whole) >= 0.5f ? __builtin_fabsf(whole) + 1 : whole, x);
}
BLUEFIN_DEVICE double round(double x) {
    const double whole = __builtin_trunc(x);
    return __builtin_copysign(__builtin_fabs(x - whole) >= 0.5 ? __builtin_fabs(whole) + 1 : whole, x);
}
BLUEFIN_DEVICE float round(float x) { return roundf(x); }
BLUEFIN_DEVICE long lroundf(float x) { return (long)roundf(x); }
BLUEFIN_DEVICE long lround(double x) { return (long)round(x); }
BLUEFIN_DEVICE long long llroundf(float x) { return (long long)roundf(x); }
BLUEFIN_DEVICE long long llround(double x) { return (long long)round(x); }
BLUEFIN_DEVICE long lrintf(float x) { return (long)__builtin_rintf(x); }
BLUEFIN_DEVICE long lrint(double x) { return (long)__builtin_rint(x); }
BLUEFIN_DEVICE long long llrintf(float x) { return (long long)__builtin_rintf(x); }
BLUEFIN_DEVICE long long llrint(double x) { return (long long)__builtin_rint(x); }
BLUEFIN_DEVICE float ldexpf(float x, int by) { return (float)bluefin_scale(x, by); }
BLUEFIN_DEVICE double ldexp(double x, int by) { return bluefin_scale(x, by); }
BLUEFIN_DEVICE float ldexp(float x, int by) { return ldexpf(x, by); }
BLUEFIN_DEVICE float scalbnf(float x, int by) { return ldexpf(x, by); }
BLUEFIN_DEVICE double scalbn(double x, int by) { return bluefin_scale(x, by); }
BLUEFIN_DEVICE int bluefin_clamped(long by) { return (int)(by < -4000 ? -4000 : by > 4000 ? 4000 : by); }
BLUEFIN_DEVICE float scalblnf(float x, long by) { return ldexpf(x, bluefin_clamped(by)); }
BLUEFIN_DEVICE double scalbln(double x, long by) { return bluefin_scale(x, bluefin_clamped(by)); }
BLUEFIN_DEVICE double frexp(double x, int* exponent) {
    *exponent = 0;
    if (x == 0 || !(__builtin_fabs(x) < BLUEFIN_INFINITY)) return x;
    *exponent = (int)bluefin_logb(x) + 1;
    return bluefin_scale(x, -*exponent);
}
BLUEFIN_DEVICE float frexpf(float x, int* exponent) { return (float)frexp((double)x, exponent); }
BLUEFIN_DEVICE float logbf(float x) { return (float)bluefin_logb(x); }
BLUEFIN_DEVICE double logb(double x) { return bluefin_logb(x); }
BLUEFIN_DEVICE int ilogbf(float x) { return (int)bluefin_logb(x); }
BLUEFIN_DEVICE int ilogb(double x) { return (int)bluefin_logb(x); }
// The cumulative normal distribution.
BLUEFIN_DEVICE double normcdf(double x) { return 0.5 * bluefin_erfc(x * -0x1.6a09e667f3bcdp-1); }
BLUEFIN_DEVICE float normcdff(float x) { return (float)normcdf((double)x); }

BLUEFIN_DEVICE double normcdfinv(double x) { return -0x1.6a09e667f3bcdp+0 * bluefin_erfcinv(2 * x); }
BLUEFIN_DEVICE float normcdfinvf(float x) { return (float)normcdfinv((double)x); }
BLUEFIN_DEVICE double erfinv(double x) { return bluefin_erfinv(x); }
BLUEFIN_DEVICE float erfinvf(float x) { return (float)bluefin_erfinv(x); }
BLUEFIN_DEVICE double erfcinv(double x) { return bluefin_erfcinv(x); }
BLUEFIN_DEVICE float erfcinvf(float x) { return (float)bluefin_erfcinv(x); }
BLUEFIN_DEVICE double erfcx(double x) { return bluefin_erfcx(x); }
BLUEFIN_DEVICE float erfcxf(float x) { return (float)bluefin_erfcx(x); }

BLUEFIN_DEVICE bool isnan(float x) { return x != x; }
BLUEFIN_DEVICE bool isnan(double x) { return x != x; }
BLUEFIN_DEVICE bool isinf(float x) { return __builtin_fabsf(x) == __builtin_inff(); }
BLUEFIN_DEVICE bool isinf(double x) { return __builtin_fabs(x) == BLUEFIN_INFINITY; }
BLUEFIN_DEVICE bool isfinite(float x) { return __builtin_fabsf(x) < __builtin_inff(); }
BLUEFIN_DEVICE bool isfinite(double x) { return __builtin_fabs(x) < BLUEFIN_INFINITY; }
BLUEFIN_DEVICE bool signbit(float x) { return bluefin_bits<int>(x) < 0; }
BLUEFIN_DEVICE bool signbit(double x) { return bluefin_bits<long long>(x) < 0; }

#define BLUEFIN_LEAST_AND_MOST(T)                                       \
    BLUEFIN_DEVICE constexpr T min(T x, T y) { return y < x ? y : x; }  \
    BLUEFIN_DEVICE constexpr T max(T x, T y) { return x < y ? y : x; }
BLUEFIN_LEAST_AND_MOST(int)
BLUEFIN_LEAST_AND_MOST(unsigned)
BLUEFIN_LEAST_AND_MOST(long)
BLUEFIN_LEAST_AND_MOST(unsigned long)
BLUEFIN_LEAST_AND_MOST(long long)
BLUEFIN_LEAST_AND_MOST(unsigned long long)
BLUEFIN_DEVICE float min(float x, float y) { return __builtin_fminf(x, y); }
BLUEFIN_DEVICE float max(float x, float y) { return __builtin_fmaxf(x, y); }
BLUEFIN_DEVICE double min(double x, double y) { return __builtin_fmin(x, y); }
BLUEFIN_DEVICE double max(double x, double y) { return __builtin_fmax(x, y); }
#define BLUEFIN_MIXED(A, B, T)                                              \
    BLUEFIN_DEVICE T min(A x, B y) { return min((T)x, (T)y); }              \
    BLUEFIN_DEVICE T max(A x, B y) { return max((T)x, (T)y); }
BLUEFIN_MIXED(int, unsigned, unsigned)
BLUEFIN_MIXED(unsigned, int, unsigned)
BLUEFIN_MIXED(float, double, double)
BLUEFIN_MIXED(double, float, double)
BLUEFIN_MIXED(float, int, float)
BLUEFIN_MIXED(int, float, float)
BLUEFIN_MIXED(double, int, double)
BLUEFIN_MIXED(int, double, double)
BLUEFIN_MIXED(long, int, long)
BLUEFIN_MIXED(int, long, long)
BLUEFIN_MIXED(long, unsigned, long)
BLUEFIN_MIXED(unsigned, long, long)
BLUEFIN_MIXED(unsigned long, unsigned, unsigned long)
BLUEFIN_MIXED(unsigned, unsigned long, unsigned long)
BLUEFIN_MIXED(unsigned long, int, unsigned long)
BLUEFIN_MIXED(int, unsigned long, unsigned long)
BLUEFIN_DEVICE int abs(int x) { return x < 0 ? -x : x; }
BLUEFIN_DEVICE long abs(long x) { return x < 0 ? -x : x; }
BLUEFIN_DEVICE long long abs(long long x) { return x < 0 ? -x : x; }
BLUEFIN_DEVICE float abs(float x) { return __builtin_fabsf(x); }
BLUEFIN_DEVICE double abs(double x) { return __builtin_fabs(x); }
BLUEFIN_DEVICE long labs(long x) { return x < 0 ? -x : x; }
BLUEFIN_DEVICE long long llabs(long long x) { return x < 0 ? -x : x; }
BLUEFIN_DEVICE unsigned umin(unsigned x, unsigned y) { return y < x ? y : x; }
BLUEFIN_DEVICE unsigned umax(unsigned x, unsigned y) { return x < y ? y : x; }
// With a whole exponent, as C++ has it.
BLUEFIN_DEVICE double pow(double x, int y) { return bluefin_pow(x, y); }
BLUEFIN_DEVICE double pow(float x, int y) { return bluefin_pow(x, y); }
BLUEFIN_DEVICE double pow(int x, double y) { return bluefin_pow(x, y); }
BLUEFIN_DEVICE double pow(int x, float y) { return bluefin_pow(x, y); }
BLUEFIN_DEVICE double pow(int x, int y) { return bluefin_pow(x, y); }
BLUEFIN_DEVICE double pow(float x, double y) { return bluefin_pow(x, y); }
BLUEFIN_DEVICE double pow(double x, float y) { return bluefin_pow(x, y); }
BLUEFIN_DEVICE double powi(double x, int y) { return bluefin_pow(x, y); }
BLUEFIN_DEVICE float powif(float x, int y) { return (float)bluefin_pow(x, y); }

// ---- Intrinsics: fast ones have the errors of the hardware, about 2^-21 for moderate arguments.
BLUEFIN_DEVICE float __expf(float x) { return bluefin_exp2_fast(x * 0x1.715476p+0f); }
BLUEFIN_DEVICE float __exp10f(float x) { return bluefin_exp2_fast(x * 0x1.a934fp+1f); }
BLUEFIN_DEVICE float __logf(float x) { return bluefin_log2_fast(x) * 0x1.62e43p-1f; }
BLUEFIN_DEVICE float __log2f(float x) { return bluefin_log2_fast(x); }
BLUEFIN_DEVICE float __log10f(float x) { return bluefin_log2_fast(x) * 0x1.344136p-2f; }
BLUEFIN_DEVICE float __powf(float x, float y) { return bluefin_exp2_fast(y * bluefin_log2_fast(x)); }
BLUEFIN_DEVICE float __sinf(float x) { return bluefin_sin_fast(x); }
BLUEFIN_DEVICE float __cosf(float x) { return bluefin_cos_fast(x); }
BLUEFIN_DEVICE float __tanf(float x) { return bluefin_sin_fast(x) * bluefin_reciprocal_fast(bluefin_cos_fast(x)); }
BLUEFIN_DEVICE void __sincosf(float x, float* sine, float* cosine) {
    *sine = bluefin_sin_fast(x);
    *cosine = bluefin_cos_fast(x);
}
BLUEFIN_DEVICE float __fdividef(float x, float y) { return x * bluefin_reciprocal_fast(y); }
BLUEFIN_DEVICE float __frsqrt_rn(float x) { return bluefin_rsqrt(x); }
BLUEFIN_DEVICE float __saturatef(float x) { return __builtin_fminf(__builtin_fmaxf(x, 0), 1); }

// Rounded to the nearest, and never fused.
#pragma clang fp contract(off)
#define BLUEFIN_ROUNDED(prefix, T, letter)                                              \
    BLUEFIN_DEVICE T __##prefix##add_rn(T x, T y) { return x + y; }                     \
    BLUEFIN_DEVICE T __##prefix##sub_rn(T x, T y) { return x - y; }                     \
    BLUEFIN_DEVICE T __##prefix##mul_rn(T x, T y) { return x * y; }                     \
    BLUEFIN_DEVICE T __##prefix##div_rn(T x, T y) { return x / y; }                     \
    BLUEFIN_DEVICE T __##prefix##rcp_rn(T x) { return 1 / x; }                          \
    BLUEFIN_DEVICE T __##prefix##sqrt_rn(T x) { return __builtin_sqrt##letter(x); }
BLUEFIN_ROUNDED(f, float, f)
BLUEFIN_ROUNDED(d, double, )
BLUEFIN_DEVICE float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
BLUEFIN_DEVICE double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
#pragma clang fp contract(fast)

// Conversions: rn to the nearest, rz towards zero, rd down, ru up.
#define BLUEFIN_TO_WHOLE(from, F, to, T, letter)                                                       \
    BLUEFIN_DEVICE T __##from##2##to##_rn(F x) { return (T)__builtin_rint##letter(x); }                \
    BLUEFIN_DEVICE T __##from##2##to##_rz(F x) { return (T)x; }                                        \
    BLUEFIN_DEVICE T __##from##2##to##_rd(F x) { return (T)__builtin_floor##letter(x); }               \
    BLUEFIN_DEVICE T __##from##2##to##_ru(F x) { return (T)__builtin_ceil##letter(x); }
BLUEFIN_TO_WHOLE(float, float, int, int, f)
BLUEFIN_TO_WHOLE(float, float, uint, unsigned, f)
BLUEFIN_TO_WHOLE(float, float, ll, long long, f)
BLUEFIN_TO_WHOLE(float, float, ull, unsigned long long, f)
BLUEFIN_TO_WHOLE(double, double, int, int, )
BLUEFIN_TO_WHOLE(double, double, uint, unsigned, )
BLUEFIN_TO_WHOLE(double, double, ll, long long, )
BLUEFIN_TO_WHOLE(double, double, ull, unsigned long long, )
BLUEFIN_DEVICE float __int2float_rn(int x) { return (float)x; }
BLUEFIN_DEVICE float __uint2float_rn(unsigned x) { return (float)x; }
BLUEFIN_DEVICE float __ll2float_rn(long long x) { return (float)x; }
BLUEFIN_DEVICE float __ull2float_rn(unsigned long long x) { return (float)x; }
BLUEFIN_DEVICE double __int2double_rn(int x) { return x; }
BLUEFIN_DEVICE double __uint2double_rn(unsigned x) { return x; }
BLUEFIN_DEVICE double __ll2double_rn(long long x) { return (double)x; }
BLUEFIN_DEVICE double __ull2double_rn(unsigned long long x) { return (double)x; }
BLUEFIN_DEVICE float __double2float_rn(double x) { return (float)x; }
