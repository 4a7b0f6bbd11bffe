// FP16: `__half` is the compiler's own type, with its operators and conversions; `__half2` is a pair that the hardware computes at once.
#pragma once

#include "bluefin/gpu.h"

using __half = _Float16;
using half = __half;

// Has a type if U is T.
template <class U, class T> struct bluefin_same {};
template <class T> struct bluefin_same<T, T> {
    using type = void;
};

// The bits of T, which a field has: a number is those bits, a T is turned into them.
#define BLUEFIN_RAW(raw, T)                                                                     \
    struct raw {                                                                                \
        unsigned short x;                                                                       \
        raw() = default;                                                                        \
        BLUEFIN_MEMBER_OF_BOTH constexpr raw(unsigned short bits) : x(bits) {}                  \
        template <class U, class = typename bluefin_same<U, T>::type>                           \
        BLUEFIN_MEMBER_OF_BOTH raw(U of) : x(bluefin_bits<unsigned short>(of)) {}               \
        BLUEFIN_MEMBER_OF_BOTH operator T() const { return bluefin_bits<T>(x); }                \
    };
BLUEFIN_RAW(__half_raw, __half)

template <class T> using bluefin_two = T __attribute__((ext_vector_type(2)));

// A pair of T, computed as the vector that it is.
#define BLUEFIN_PAIR(pair, T)                                                                                       \
    struct alignas(4) pair {                                                                                        \
        T x, y;                                                                                                     \
        pair() = default;                                                                                           \
        BLUEFIN_MEMBER_OF_BOTH constexpr pair(T x, T y) : x(x), y(y) {}                                             \
        BLUEFIN_MEMBER_OF_BOTH constexpr explicit pair(T both) : x(both), y(both) {}                                \
        BLUEFIN_MEMBER_OF_BOTH pair(bluefin_two<T> of) : x(of.x), y(of.y) {}                                        \
        BLUEFIN_MEMBER_OF_BOTH operator bluefin_two<T>() const { return bluefin_bits<bluefin_two<T>>(*this); }      \
    };                                                                                                              \
    BLUEFIN_BOTH bluefin_two<T> bluefin_vector_of(pair of) { return of; }                                           \
    BLUEFIN_BOTH pair operator+(pair a, pair b) { return bluefin_vector_of(a) + bluefin_vector_of(b); }             \
    BLUEFIN_BOTH pair operator-(pair a, pair b) { return bluefin_vector_of(a) - bluefin_vector_of(b); }             \
    BLUEFIN_BOTH pair operator*(pair a, pair b) { return bluefin_vector_of(a) * bluefin_vector_of(b); }             \
    BLUEFIN_BOTH pair operator/(pair a, pair b) { return bluefin_vector_of(a) / bluefin_vector_of(b); }             \
    BLUEFIN_BOTH pair operator-(pair a) { return -bluefin_vector_of(a); }                                           \
    BLUEFIN_BOTH pair& operator+=(pair& a, pair b) { return a = a + b; }                                            \
    BLUEFIN_BOTH pair& operator-=(pair& a, pair b) { return a = a - b; }                                            \
    BLUEFIN_BOTH pair& operator*=(pair& a, pair b) { return a = a * b; }                                            \
    BLUEFIN_BOTH pair& operator/=(pair& a, pair b) { return a = a / b; }                                            \
    BLUEFIN_BOTH bool operator==(pair a, pair b) { return a.x == b.x && a.y == b.y; }                               \
    BLUEFIN_BOTH bool operator!=(pair a, pair b) { return !(a == b); }

// What both types of 16 bits have under the same names: T with its pair, and `compute`, the type that T is computed in.
#define BLUEFIN_SIXTEEN(T, pair)                                                                                        \
    BLUEFIN_BOTH T __hadd(T a, T b) { return a + b; }                                                                   \
    BLUEFIN_BOTH T __hsub(T a, T b) { return a - b; }                                                                   \
    BLUEFIN_BOTH T __hmul(T a, T b) { return a * b; }                                                                   \
    BLUEFIN_BOTH T __hdiv(T a, T b) { return a / b; }                                                                   \
    BLUEFIN_BOTH T __hneg(T a) { return -a; }                                                                           \
    BLUEFIN_BOTH T __habs(T a) { return bluefin_bits<T>((unsigned short)(bluefin_bits<unsigned short>(a) & 0x7fff)); }  \
    BLUEFIN_DEVICE T __hmin(T a, T b) { return (T)fminf((float)a, (float)b); }                                          \
    BLUEFIN_DEVICE T __hmax(T a, T b) { return (T)fmaxf((float)a, (float)b); }                                          \
    BLUEFIN_DEVICE T __hadd_sat(T a, T b) { return (T)__saturatef((float)(a + b)); }                                    \
    BLUEFIN_DEVICE T __hmul_sat(T a, T b) { return (T)__saturatef((float)(a * b)); }                                    \
    BLUEFIN_BOTH bool __heq(T a, T b) { return a == b; }                                                                \
    BLUEFIN_BOTH bool __hne(T a, T b) { return a < b || a > b; }                                                                \
    BLUEFIN_BOTH bool __hlt(T a, T b) { return a < b; }                                                                 \
    BLUEFIN_BOTH bool __hle(T a, T b) { return a <= b; }                                                                \
    BLUEFIN_BOTH bool __hgt(T a, T b) { return a > b; }                                                                 \
    BLUEFIN_BOTH bool __hge(T a, T b) { return a >= b; }                                                                \
    BLUEFIN_BOTH bool __hequ(T a, T b) { return !(a < b || a > b); }                                                    \
    BLUEFIN_BOTH bool __hneu(T a, T b) { return a != b; }                                                               \
    BLUEFIN_BOTH bool __hltu(T a, T b) { return !(a >= b); }                                                            \
    BLUEFIN_BOTH bool __hleu(T a, T b) { return !(a > b); }                                                             \
    BLUEFIN_BOTH bool __hgtu(T a, T b) { return !(a <= b); }                                                            \
    BLUEFIN_BOTH bool __hgeu(T a, T b) { return !(a < b); }                                                             \
    BLUEFIN_BOTH bool __hisnan(T a) { return a != a; }                                                                  \
    BLUEFIN_DEVICE bool __hisinf(T a) { return isinf((float)a); }                                                       \
    BLUEFIN_DEVICE T hexp(T a) { return (T)expf((float)a); }                                                            \
    BLUEFIN_DEVICE T hexp2(T a) { return (T)exp2f((float)a); }                                                          \
    BLUEFIN_DEVICE T hlog(T a) { return (T)logf((float)a); }                                                            \
    BLUEFIN_DEVICE T hexp10(T a) { return (T)exp10f((float)a); }                                                        \
    BLUEFIN_DEVICE T hlog10(T a) { return (T)log10f((float)a); }                                                        \
    BLUEFIN_DEVICE T htanh(T a) { return (T)tanhf((float)a); }                                                          \
    BLUEFIN_DEVICE T hlog2(T a) { return (T)log2f((float)a); }                                                          \
    BLUEFIN_DEVICE T hsin(T a) { return (T)sinf((float)a); }                                                            \
    BLUEFIN_DEVICE T hcos(T a) { return (T)cosf((float)a); }                                                            \
    BLUEFIN_DEVICE T hsqrt(T a) { return (T)sqrtf((float)a); }                                                          \
    BLUEFIN_DEVICE T hrsqrt(T a) { return (T)rsqrtf((float)a); }                                                        \
    BLUEFIN_DEVICE T hrcp(T a) { return (T)(1 / (float)a); }                                                            \
    BLUEFIN_DEVICE T hfloor(T a) { return (T)floorf((float)a); }                                                        \
    BLUEFIN_DEVICE T hceil(T a) { return (T)ceilf((float)a); }                                                          \
    BLUEFIN_DEVICE T hrint(T a) { return (T)rintf((float)a); }                                                          \
    BLUEFIN_DEVICE T htrunc(T a) { return (T)truncf((float)a); }                                                        \
    BLUEFIN_BOTH pair __hadd2(pair a, pair b) { return a + b; }                                                         \
    BLUEFIN_BOTH pair __hsub2(pair a, pair b) { return a - b; }                                                         \
    BLUEFIN_BOTH pair __hmul2(pair a, pair b) { return a * b; }                                                         \
    BLUEFIN_BOTH pair __h2div(pair a, pair b) { return a / b; }                                                         \
    BLUEFIN_BOTH pair __hneg2(pair a) { return -a; }                                                                    \
    BLUEFIN_BOTH pair __habs2(pair a) { return {__habs(a.x), __habs(a.y)}; }                                            \
    BLUEFIN_DEVICE pair __hmin2(pair a, pair b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }                        \
    BLUEFIN_DEVICE pair __hmax2(pair a, pair b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }                        \
    BLUEFIN_DEVICE pair h2exp(pair a) { return {hexp(a.x), hexp(a.y)}; }                                                \
    BLUEFIN_DEVICE pair h2exp2(pair a) { return {hexp2(a.x), hexp2(a.y)}; }                                             \
    BLUEFIN_DEVICE pair h2exp10(pair a) { return {hexp10(a.x), hexp10(a.y)}; }                                          \
    BLUEFIN_DEVICE pair h2log2(pair a) { return {hlog2(a.x), hlog2(a.y)}; }                                             \
    BLUEFIN_DEVICE pair h2log10(pair a) { return {hlog10(a.x), hlog10(a.y)}; }                                          \
    BLUEFIN_DEVICE pair h2sin(pair a) { return {hsin(a.x), hsin(a.y)}; }                                                \
    BLUEFIN_DEVICE pair h2cos(pair a) { return {hcos(a.x), hcos(a.y)}; }                                                \
    BLUEFIN_DEVICE pair h2tanh(pair a) { return {htanh(a.x), htanh(a.y)}; }                                             \
    BLUEFIN_DEVICE pair h2floor(pair a) { return {hfloor(a.x), hfloor(a.y)}; }                                          \
    BLUEFIN_DEVICE pair h2ceil(pair a) { return {hceil(a.x), hceil(a.y)}; }                                             \
    BLUEFIN_DEVICE pair h2rint(pair a) { return {hrint(a.x), hrint(a.y)}; }                                             \
    BLUEFIN_DEVICE pair h2trunc(pair a) { return {htrunc(a.x), htrunc(a.y)}; }                                          \
    BLUEFIN_DEVICE pair h2log(pair a) { return {hlog(a.x), hlog(a.y)}; }                                                \
    BLUEFIN_DEVICE pair h2sqrt(pair a) { return {hsqrt(a.x), hsqrt(a.y)}; }                                             \
    BLUEFIN_DEVICE pair h2rsqrt(pair a) { return {hrsqrt(a.x), hrsqrt(a.y)}; }                                          \
    BLUEFIN_DEVICE pair h2rcp(pair a) { return {hrcp(a.x), hrcp(a.y)}; }                                                \
    BLUEFIN_BOTH pair __heq2(pair a, pair b) { return {(T)(float)(a.x == b.x), (T)(float)(a.y == b.y)}; }               \
    BLUEFIN_BOTH pair __hne2(pair a, pair b) { return {(T)(float)__hne(a.x, b.x), (T)(float)__hne(a.y, b.y)}; }         \
    BLUEFIN_BOTH pair __hlt2(pair a, pair b) { return {(T)(float)(a.x < b.x), (T)(float)(a.y < b.y)}; }                 \
    BLUEFIN_BOTH pair __hle2(pair a, pair b) { return {(T)(float)(a.x <= b.x), (T)(float)(a.y <= b.y)}; }               \
    BLUEFIN_BOTH pair __hgt2(pair a, pair b) { return {(T)(float)(a.x > b.x), (T)(float)(a.y > b.y)}; }                 \
    BLUEFIN_BOTH pair __hge2(pair a, pair b) { return {(T)(float)(a.x >= b.x), (T)(float)(a.y >= b.y)}; }               \
    BLUEFIN_BOTH pair __hequ2(pair a, pair b) { return {(T)(float)__hequ(a.x, b.x), (T)(float)__hequ(a.y, b.y)}; }     \
    BLUEFIN_BOTH bool __hbequ2(pair a, pair b) { return __hequ(a.x, b.x) && __hequ(a.y, b.y); }                        \
    BLUEFIN_BOTH pair __hneu2(pair a, pair b) { return {(T)(float)__hneu(a.x, b.x), (T)(float)__hneu(a.y, b.y)}; }     \
    BLUEFIN_BOTH bool __hbneu2(pair a, pair b) { return __hneu(a.x, b.x) && __hneu(a.y, b.y); }                        \
    BLUEFIN_BOTH pair __hltu2(pair a, pair b) { return {(T)(float)__hltu(a.x, b.x), (T)(float)__hltu(a.y, b.y)}; }     \
    BLUEFIN_BOTH bool __hbltu2(pair a, pair b) { return __hltu(a.x, b.x) && __hltu(a.y, b.y); }                        \
    BLUEFIN_BOTH pair __hleu2(pair a, pair b) { return {(T)(float)__hleu(a.x, b.x), (T)(float)__hleu(a.y, b.y)}; }     \
    BLUEFIN_BOTH bool __hbleu2(pair a, pair b) { return __hleu(a.x, b.x) && __hleu(a.y, b.y); }                        \
    BLUEFIN_BOTH pair __hgtu2(pair a, pair b) { return {(T)(float)__hgtu(a.x, b.x), (T)(float)__hgtu(a.y, b.y)}; }     \
    BLUEFIN_BOTH bool __hbgtu2(pair a, pair b) { return __hgtu(a.x, b.x) && __hgtu(a.y, b.y); }                        \
    BLUEFIN_BOTH pair __hgeu2(pair a, pair b) { return {(T)(float)__hgeu(a.x, b.x), (T)(float)__hgeu(a.y, b.y)}; }     \
    BLUEFIN_BOTH bool __hbgeu2(pair a, pair b) { return __hgeu(a.x, b.x) && __hgeu(a.y, b.y); }                        \
    BLUEFIN_BOTH bool __hbne2(pair a, pair b) { return __hne(a.x, b.x) && __hne(a.y, b.y); }                            \
    BLUEFIN_BOTH bool __hblt2(pair a, pair b) { return a.x < b.x && a.y < b.y; }                                        \
    BLUEFIN_BOTH bool __hble2(pair a, pair b) { return a.x <= b.x && a.y <= b.y; }                                      \
    BLUEFIN_BOTH bool __hbge2(pair a, pair b) { return a.x >= b.x && a.y >= b.y; }                                      \
    BLUEFIN_BOTH bool __hbeq2(pair a, pair b) { return a == b; }                                                        \
    BLUEFIN_BOTH bool __hbgt2(pair a, pair b) { return a.x > b.x && a.y > b.y; }

BLUEFIN_PAIR(__half2, __half)
using half2 = __half2;
struct __half2_raw {
    unsigned short x, y;
    __half2_raw() = default;
    BLUEFIN_MEMBER_OF_BOTH constexpr __half2_raw(unsigned short x, unsigned short y) : x(x), y(y) {}
    BLUEFIN_MEMBER_OF_BOTH __half2_raw(__half2 of)
        : x(bluefin_bits<unsigned short>(of.x)), y(bluefin_bits<unsigned short>(of.y)) {}
    BLUEFIN_MEMBER_OF_BOTH operator __half2() const { return {bluefin_bits<__half>(x), bluefin_bits<__half>(y)}; }
};
BLUEFIN_SIXTEEN(__half, __half2)
BLUEFIN_BOTH __half __hfma(__half a, __half b, __half c) { return __builtin_fmaf16(a, b, c); }
BLUEFIN_BOTH __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
    return __builtin_elementwise_fma(bluefin_vector_of(a), bluefin_vector_of(b), bluefin_vector_of(c));
}

BLUEFIN_BOTH __half __float2half(float x) { return (__half)x; }
BLUEFIN_BOTH __half __float2half_rn(float x) { return (__half)x; }
// Down, up, and towards zero: what FP16 has next to it on the wrong side is left by one step.
BLUEFIN_BOTH __half bluefin_half_step(__half x, bool up) {
    const unsigned short bits = bluefin_bits<unsigned short>(x);
    if (x == 0) return bluefin_bits<__half>((unsigned short)(up ? 1 : 0x8001));
    return bluefin_bits<__half>((unsigned short)(bits + ((x > 0) == up ? 1 : -1)));
}
BLUEFIN_BOTH __half __float2half_rd(float x) { return (float)(__half)x > x ? bluefin_half_step((__half)x, false) : (__half)x; }
BLUEFIN_BOTH __half __float2half_ru(float x) { return (float)(__half)x < x ? bluefin_half_step((__half)x, true) : (__half)x; }
BLUEFIN_BOTH __half __float2half_rz(float x) { return x > 0 ? __float2half_rd(x) : __float2half_ru(x); }
BLUEFIN_BOTH __half __double2half(double x) { return (__half)x; }
BLUEFIN_BOTH float __half2float(__half x) { return (float)x; }
// A double holds each of these numbers that FP16 comes near to, if not all of 64 bits; what is beyond FP16 becomes infinite as it is rounded, or the largest there is.
#define BLUEFIN_HALF_OF(T, name)                                                                                     \
    BLUEFIN_BOTH __half __##name##2half_rn(T x) { return (__half)x; }                                                \
    BLUEFIN_BOTH __half __##name##2half_rd(T x) { return (double)(__half)x > x ? bluefin_half_step((__half)x, false) : (__half)x; } \
    BLUEFIN_BOTH __half __##name##2half_ru(T x) { return (double)(__half)x < x ? bluefin_half_step((__half)x, true) : (__half)x; }  \
    BLUEFIN_BOTH __half __##name##2half_rz(T x) { return x > 0 ? __##name##2half_rd(x) : __##name##2half_ru(x); }    \
    BLUEFIN_BOTH T __half2##name##_rz(__half x) { return (T)(float)x; }                                              \
    BLUEFIN_DEVICE T __half2##name##_rn(__half x) { return (T)__builtin_rintf((float)x); }                           \
    BLUEFIN_DEVICE T __half2##name##_rd(__half x) { return (T)__builtin_floorf((float)x); }                          \
    BLUEFIN_DEVICE T __half2##name##_ru(__half x) { return (T)__builtin_ceilf((float)x); }
BLUEFIN_HALF_OF(int, int)
BLUEFIN_HALF_OF(unsigned, uint)
BLUEFIN_HALF_OF(short, short)
BLUEFIN_HALF_OF(unsigned short, ushort)
BLUEFIN_HALF_OF(long long, ll)
BLUEFIN_HALF_OF(unsigned long long, ull)
#undef BLUEFIN_HALF_OF
BLUEFIN_BOTH unsigned short __half_as_ushort(__half x) { return bluefin_bits<unsigned short>(x); }
BLUEFIN_BOTH short __half_as_short(__half x) { return bluefin_bits<short>(x); }
BLUEFIN_BOTH __half __ushort_as_half(unsigned short x) { return bluefin_bits<__half>(x); }
BLUEFIN_BOTH __half __short_as_half(short x) { return bluefin_bits<__half>(x); }

BLUEFIN_BOTH __half2 make_half2(__half x, __half y) { return {x, y}; }
BLUEFIN_BOTH __half2 __halves2half2(__half x, __half y) { return {x, y}; }
BLUEFIN_BOTH __half2 __half2half2(__half x) { return {x, x}; }
BLUEFIN_BOTH __half2 __float2half2_rn(float x) { return {(__half)x, (__half)x}; }
BLUEFIN_BOTH __half2 __floats2half2_rn(float x, float y) { return {(__half)x, (__half)y}; }
BLUEFIN_BOTH __half2 __float22half2_rn(float2 x) { return {(__half)x.x, (__half)x.y}; }
BLUEFIN_BOTH float2 __half22float2(__half2 x) { return make_float2((float)x.x, (float)x.y); }
BLUEFIN_BOTH float __low2float(__half2 x) { return (float)x.x; }
BLUEFIN_BOTH float __high2float(__half2 x) { return (float)x.y; }
BLUEFIN_BOTH __half __low2half(__half2 x) { return x.x; }
BLUEFIN_BOTH __half __high2half(__half2 x) { return x.y; }
BLUEFIN_BOTH __half2 __low2half2(__half2 x) { return {x.x, x.x}; }
BLUEFIN_BOTH __half2 __high2half2(__half2 x) { return {x.y, x.y}; }
BLUEFIN_BOTH __half2 __lowhigh2highlow(__half2 x) { return {x.y, x.x}; }
BLUEFIN_BOTH __half2 __lows2half2(__half2 a, __half2 b) { return {a.x, b.x}; }
BLUEFIN_BOTH __half2 __highs2half2(__half2 a, __half2 b) { return {a.y, b.y}; }

// Adds to a pair of 16 bits each, by exchanging the word that both are.
template <class Pair> BLUEFIN_DEVICE Pair bluefin_add_pair(Pair* to, Pair value) {
    unsigned found = atomicCAS((unsigned*)to, 0u, 0u);
    while (true) {
        const Pair sum = bluefin_bits<Pair>(found) + value;
        const unsigned before = atomicCAS((unsigned*)to, found, bluefin_bits<unsigned>(sum));
        if (before == found) return bluefin_bits<Pair>(found);
        found = before;
    }
}
// The same of one of them: the word has another one beside it.
template <class T> BLUEFIN_DEVICE T bluefin_add_half(T* to, T value) {
    unsigned* const word = (unsigned*)((size_t)to & ~(size_t)3);
    const unsigned from = (size_t)to & 2 ? 16 : 0;
    unsigned found = atomicCAS(word, 0u, 0u);
    while (true) {
        const T before = bluefin_bits<T>((unsigned short)(found >> from));
        const unsigned sum = bluefin_bits<unsigned short>((T)(before + value));
        const unsigned other = atomicCAS(word, found, (found & ~(0xffffu << from)) | sum << from);
        if (other == found) return before;
        found = other;
    }
}
#define BLUEFIN_ADDS(T, pair)                                                                              \
    BLUEFIN_YIELDS BLUEFIN_DEVICE pair atomicAdd(pair* to, pair value) { return bluefin_add_pair(to, value); } \
    BLUEFIN_YIELDS BLUEFIN_DEVICE T atomicAdd(T* to, T value) { return bluefin_add_half(to, value); }       \
    BLUEFIN_YIELDS BLUEFIN_DEVICE pair unsafeAtomicAdd(pair* to, pair value) { return atomicAdd(to, value); }
BLUEFIN_ADDS(__half, __half2)
