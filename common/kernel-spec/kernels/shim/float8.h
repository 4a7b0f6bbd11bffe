// Floats of 8 bits: their bytes, and what they are turned into and made of. A number is rounded to the nearest, and to the even one of two.
#pragma once

#include "bluefin/operands.h"

// A kind of them: bits of mantissa, bias, the byte of the largest number, that of no number, and what is too large without
// being saturated. A kind that has one zero alone has the byte of the negative one for no number.
struct bluefin_e4m3 { enum { mantissa = 3, bias = 7, most = 0x7e, none = 0x7f, infinite = 0x7f, unsigned_zero = 0 }; };
struct bluefin_e5m2 { enum { mantissa = 2, bias = 15, most = 0x7b, none = 0x7f, infinite = 0x7c, unsigned_zero = 0 }; };
struct bluefin_e4m3_fnuz { enum { mantissa = 3, bias = 8, most = 0x7f, none = 0x80, infinite = 0x80, unsigned_zero = 1 }; };
struct bluefin_e5m2_fnuz { enum { mantissa = 2, bias = 16, most = 0x7f, none = 0x80, infinite = 0x80, unsigned_zero = 1 }; };

// Two to the power of `exponent`, which FP32 has.
BLUEFIN_BOTH float bluefin_power(int exponent) { return bluefin_bits<float>((unsigned)(127 + exponent) << 23); }

template <class Kind> BLUEFIN_BOTH float bluefin_of_byte(unsigned char byte) {
    const int bits = byte & 0x7f, part = bits & ((1 << Kind::mantissa) - 1), exponent = bits >> Kind::mantissa;
    const bool is_none = Kind::unsigned_zero ? byte == Kind::none : bits > Kind::infinite || bits == Kind::none;
    if (is_none) return __builtin_nanf("");
    const float sign = byte & 0x80 ? -1.0f : 1.0f;
    if (!Kind::unsigned_zero && bits == Kind::infinite) return sign * __builtin_inff();
    const int whole = exponent ? part + (1 << Kind::mantissa) : part;
    return sign * (float)whole * bluefin_power((exponent ? exponent : 1) - Kind::bias - Kind::mantissa);
}

// What is too large is the largest where it `saturates`.
template <class Kind> BLUEFIN_BOTH unsigned char bluefin_byte_of(float x, bool saturates) {
    const unsigned bits = bluefin_bits<unsigned>(x);
    const unsigned char sign = (unsigned char)(bits >> 24 & 0x80);
    if (x != x) return Kind::unsigned_zero ? Kind::none : (unsigned char)(sign | Kind::none);
    const float size = bluefin_bits<float>(bits & 0x7fffffff);
    int exponent = (int)(bits >> 23 & 0xff) - 127;
    int code = Kind::most + 1;
    if (exponent < 1 - Kind::bias) exponent = 1 - Kind::bias;
    // The largest of all have an exponent of 15 at most.
    if (exponent < 16) {
        const int whole = (int)__builtin_rintf(size * bluefin_power(Kind::mantissa - exponent));
        // A carry goes to the next exponent.
        code = ((exponent - (1 - Kind::bias)) << Kind::mantissa) + whole;
    }
    if (code > Kind::most) {
        if (!saturates) return Kind::unsigned_zero ? Kind::none : (unsigned char)(sign | Kind::infinite);
        code = Kind::most;
    }
    return Kind::unsigned_zero && code == 0 ? 0 : (unsigned char)(sign | code);
}

// The float below or above whose last bit is 1 where none is the same: what is rounded from it on to fewer bits is what they are of `x` itself.
BLUEFIN_BOTH float bluefin_odd_float(double x) {
    const float near = (float)x;
    if (x != x || (double)near == x) return near;
    unsigned bits = bluefin_bits<unsigned>(near);
    if (__builtin_fabs((double)near) > __builtin_fabs(x)) --bits;
    return bluefin_bits<float>(bits | 1);
}

// No number is 0, and what is too large the largest.
BLUEFIN_BOTH int bluefin_int_of(float x) {
    if (x != x) return 0;
    if (x >= 2147483648.0f) return 0x7fffffff;
    return x < -2147483648.0f ? -0x7fffffff - 1 : (int)x;
}

#if __clang_major__ >= 19
#define BLUEFIN_OF_BFLOAT(T, value) BLUEFIN_MEMBER_OF_BOTH explicit T(bluefin_bfloat x) : value((float)x) {}
#define BLUEFIN_TO_BFLOAT BLUEFIN_MEMBER_OF_BOTH explicit operator bluefin_bfloat() const { return (bluefin_bfloat)(float)*this; }
#define BLUEFIN_OF_BFLOATS(T) BLUEFIN_MEMBER_OF_BOTH explicit T(bluefin_bfloat2 x) : T(make_float2((float)x.x, (float)x.y)) {}
#else
#define BLUEFIN_OF_BFLOAT(T, value)
#define BLUEFIN_TO_BFLOAT
#define BLUEFIN_OF_BFLOATS(T)
#endif

// One, two and four of a kind. Whoever makes one of a number has the largest for what is too large.
#define BLUEFIN_EIGHT(one, two, four, Kind)                                                                            \
    struct one {                                                                                                       \
        unsigned char __x;                                                                                             \
        one() = default;                                                                                               \
        BLUEFIN_MEMBER_OF_BOTH explicit one(float x) : __x(bluefin_byte_of<Kind>(x, true)) {}                          \
        BLUEFIN_MEMBER_OF_BOTH explicit one(__half x) : one((float)x) {}                                               \
        BLUEFIN_MEMBER_OF_BOTH explicit one(double x) : one(bluefin_odd_float(x)) {}                                   \
        BLUEFIN_MEMBER_OF_BOTH explicit one(int x) : one((float)x) {}                                                  \
        BLUEFIN_MEMBER_OF_BOTH explicit one(unsigned x) : one((float)x) {}                                             \
        BLUEFIN_OF_BFLOAT(one, one)                                                                                    \
        BLUEFIN_MEMBER_OF_BOTH explicit operator float() const { return bluefin_of_byte<Kind>(__x); }                  \
        BLUEFIN_MEMBER_OF_BOTH explicit operator __half() const { return (__half)(float)*this; }                       \
        BLUEFIN_MEMBER_OF_BOTH explicit operator double() const { return (float)*this; }                               \
        BLUEFIN_MEMBER_OF_BOTH explicit operator int() const { return bluefin_int_of((float)*this); }                  \
        BLUEFIN_MEMBER_OF_BOTH explicit operator bool() const { return (float)*this != 0; }                            \
        BLUEFIN_TO_BFLOAT                                                                                              \
    };                                                                                                                 \
    struct alignas(2) two {                                                                                            \
        unsigned short __x;                                                                                            \
        two() = default;                                                                                               \
        BLUEFIN_MEMBER_OF_BOTH explicit two(float2 x) : __x((unsigned short)(one(x.x).__x | one(x.y).__x << 8)) {}     \
        BLUEFIN_MEMBER_OF_BOTH explicit two(__half2 x) : two(make_float2((float)x.x, (float)x.y)) {}                   \
        BLUEFIN_OF_BFLOATS(two)                                                                                        \
        BLUEFIN_MEMBER_OF_BOTH explicit operator float2() const {                                                      \
            return make_float2(bluefin_of_byte<Kind>((unsigned char)__x), bluefin_of_byte<Kind>((unsigned char)(__x >> 8))); \
        }                                                                                                              \
        BLUEFIN_MEMBER_OF_BOTH explicit operator __half2() const {                                                     \
            const float2 both = (float2)*this;                                                                         \
            return {(__half)both.x, (__half)both.y};                                                                   \
        }                                                                                                              \
    };                                                                                                                 \
    struct alignas(4) four {                                                                                           \
        unsigned __x;                                                                                                  \
        four() = default;                                                                                              \
        BLUEFIN_MEMBER_OF_BOTH explicit four(float4 x)                                                                 \
            : __x(two(make_float2(x.x, x.y)).__x | (unsigned)two(make_float2(x.z, x.w)).__x << 16) {}                  \
        BLUEFIN_MEMBER_OF_BOTH four(__half2 low, __half2 high) : __x(two(low).__x | (unsigned)two(high).__x << 16) {}  \
        BLUEFIN_MEMBER_OF_BOTH explicit operator float4() const {                                                      \
            return make_float4(bluefin_of_byte<Kind>((unsigned char)__x), bluefin_of_byte<Kind>((unsigned char)(__x >> 8)), \
                               bluefin_of_byte<Kind>((unsigned char)(__x >> 16)), bluefin_of_byte<Kind>((unsigned char)(__x >> 24))); \
        }                                                                                                              \
    };

enum bluefin_saturation { __NV_NOSAT, __NV_SATFINITE, __HIP_NOSAT = __NV_NOSAT, __HIP_SATFINITE = __NV_SATFINITE };
enum bluefin_interpretation { __NV_E4M3, __NV_E5M2, __HIP_E4M3 = __NV_E4M3, __HIP_E5M2 = __NV_E5M2, __HIP_E4M3_FNUZ, __HIP_E5M2_FNUZ };

BLUEFIN_BOTH unsigned char bluefin_byte_as(float x, bool saturates, bluefin_interpretation kind) {
    switch (kind) {
        case __NV_E4M3: return bluefin_byte_of<bluefin_e4m3>(x, saturates);
        case __NV_E5M2: return bluefin_byte_of<bluefin_e5m2>(x, saturates);
        case __HIP_E4M3_FNUZ: return bluefin_byte_of<bluefin_e4m3_fnuz>(x, saturates);
        default: return bluefin_byte_of<bluefin_e5m2_fnuz>(x, saturates);
    }
}
BLUEFIN_BOTH __half bluefin_half_as(unsigned char x, bluefin_interpretation kind) {
    switch (kind) {
        case __NV_E4M3: return (__half)bluefin_of_byte<bluefin_e4m3>(x);
        case __NV_E5M2: return (__half)bluefin_of_byte<bluefin_e5m2>(x);
        case __HIP_E4M3_FNUZ: return (__half)bluefin_of_byte<bluefin_e4m3_fnuz>(x);
        default: return (__half)bluefin_of_byte<bluefin_e5m2_fnuz>(x);
    }
}

// The conversions under the names of either dialect.
#define BLUEFIN_CONVERSIONS(of)                                                                                        \
    using of##fp8_storage_t = unsigned char;                                                                           \
    using of##fp8x2_storage_t = unsigned short;                                                                        \
    using of##fp8x4_storage_t = unsigned;                                                                              \
    using of##saturation_t = bluefin_saturation;                                                                       \
    using of##fp8_interpretation_t = bluefin_interpretation;                                                           \
    BLUEFIN_BOTH unsigned char of##cvt_float_to_fp8(float x, bluefin_saturation saturation, bluefin_interpretation kind) { \
        return bluefin_byte_as(x, saturation == __NV_SATFINITE, kind);                                                 \
    }                                                                                                                  \
    BLUEFIN_BOTH unsigned char of##cvt_double_to_fp8(double x, bluefin_saturation saturation, bluefin_interpretation kind) { \
        return of##cvt_float_to_fp8(bluefin_odd_float(x), saturation, kind);                                           \
    }                                                                                                                  \
    BLUEFIN_BOTH unsigned char of##cvt_halfraw_to_fp8(__half_raw x, bluefin_saturation saturation, bluefin_interpretation kind) { \
        return of##cvt_float_to_fp8((float)(__half)x, saturation, kind);                                               \
    }                                                                                                                  \
    BLUEFIN_BOTH unsigned short of##cvt_float2_to_fp8x2(float2 x, bluefin_saturation saturation, bluefin_interpretation kind) { \
        return (unsigned short)(of##cvt_float_to_fp8(x.x, saturation, kind) | of##cvt_float_to_fp8(x.y, saturation, kind) << 8); \
    }                                                                                                                  \
    BLUEFIN_BOTH unsigned short of##cvt_halfraw2_to_fp8x2(__half2_raw x, bluefin_saturation saturation, bluefin_interpretation kind) { \
        const float2 both = make_float2((float)bluefin_bits<__half>(x.x), (float)bluefin_bits<__half>(x.y));           \
        return of##cvt_float2_to_fp8x2(both, saturation, kind);                                                        \
    }                                                                                                                  \
    BLUEFIN_BOTH __half_raw of##cvt_fp8_to_halfraw(unsigned char x, bluefin_interpretation kind) {                     \
        return bluefin_half_as(x, kind);                                                                               \
    }                                                                                                                  \
    BLUEFIN_BOTH __half2_raw of##cvt_fp8x2_to_halfraw2(unsigned short x, bluefin_interpretation kind) {                \
        return __half2{bluefin_half_as((unsigned char)x, kind), bluefin_half_as((unsigned char)(x >> 8), kind)};       \
    }
BLUEFIN_CONVERSIONS(__nv_)
BLUEFIN_CONVERSIONS(__hip_)
#if __clang_major__ >= 19
BLUEFIN_BOTH unsigned char __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, bluefin_saturation saturation, bluefin_interpretation kind) {
    return __nv_cvt_float_to_fp8((float)(bluefin_bfloat)x, saturation, kind);
}
#endif

BLUEFIN_EIGHT(__nv_fp8_e4m3, __nv_fp8x2_e4m3, __nv_fp8x4_e4m3, bluefin_e4m3)
BLUEFIN_EIGHT(__nv_fp8_e5m2, __nv_fp8x2_e5m2, __nv_fp8x4_e5m2, bluefin_e5m2)
BLUEFIN_EIGHT(__hip_fp8_e4m3_fnuz, __hip_fp8x2_e4m3_fnuz, __hip_fp8x4_e4m3_fnuz, bluefin_e4m3_fnuz)
BLUEFIN_EIGHT(__hip_fp8_e5m2_fnuz, __hip_fp8x2_e5m2_fnuz, __hip_fp8x4_e5m2_fnuz, bluefin_e5m2_fnuz)
// A file for both may name either.
using __hip_fp8_e4m3 = __nv_fp8_e4m3;
using __hip_fp8x2_e4m3 = __nv_fp8x2_e4m3;
using __hip_fp8x4_e4m3 = __nv_fp8x4_e4m3;
using __hip_fp8_e5m2 = __nv_fp8_e5m2;
using __hip_fp8x2_e5m2 = __nv_fp8x2_e5m2;
using __hip_fp8x4_e5m2 = __nv_fp8x4_e5m2;
