// Conversions, sums, products and quotients that round down (rd), up (ru) or towards zero (rz): what is rounded to the nearest is
// compared with the exact value, and takes one step where it lies on the wrong side.
#pragma once

#pragma clang fp contract(off)

// `beyond` has the sign of what was rounded minus the exact value.
#define BLUEFIN_STEPS(T, U)                                                                                     \
    BLUEFIN_BOTH T bluefin_step(T x, bool up) {                                                                 \
        if (x == 0) return up ? bluefin_bits<T>((U)1) : -bluefin_bits<T>((U)1);                                 \
        return bluefin_bits<T>((U)(bluefin_bits<U>(x) + ((x > 0) == up ? 1 : -1)));                             \
    }                                                                                                           \
    BLUEFIN_BOTH T bluefin_rd(T x, double beyond) { return beyond > 0 ? bluefin_step(x, false) : x; }           \
    BLUEFIN_BOTH T bluefin_ru(T x, double beyond) { return beyond < 0 ? bluefin_step(x, true) : x; }            \
    BLUEFIN_BOTH T bluefin_rz(T x, double beyond) { return x > 0 ? bluefin_rd(x, beyond) : bluefin_ru(x, beyond); }
BLUEFIN_STEPS(float, unsigned)
BLUEFIN_STEPS(double, unsigned long long)

// Of a whole number in two parts: each difference is exact, as the number and what it was rounded to are close to each other.
template <class T> BLUEFIN_BOTH double bluefin_beyond(double rounded, T x) {
    const double high = (double)(x >> 16 >> 16) * 0x1p32, low = (double)(unsigned)x;
    return rounded - high - low;
}
BLUEFIN_BOTH double bluefin_beyond(double rounded, double x) { return rounded == x ? 0 : rounded > x ? 1 : -1; }
// Of the sum of two numbers that was rounded to `sum`, if that is of the same type.
BLUEFIN_BOTH double bluefin_beyond_sum(double sum, double x, double y) {
    const double part = sum - x;
    return sum - part - x + (part - y);
}

#define BLUEFIN_CONVERSION(from, F, to, T, way)                                    \
    BLUEFIN_BOTH T __##from##2##to##_##way(F x) { return bluefin_##way((T)x, bluefin_beyond((double)(T)x, x)); }
#define BLUEFIN_DIRECTED(way)                                                                                          \
    BLUEFIN_CONVERSION(int, int, float, float, way)                                                                    \
    BLUEFIN_CONVERSION(uint, unsigned, float, float, way)                                                              \
    BLUEFIN_CONVERSION(ll, long long, float, float, way)                                                               \
    BLUEFIN_CONVERSION(ull, unsigned long long, float, float, way)                                                     \
    BLUEFIN_CONVERSION(ll, long long, double, double, way)                                                             \
    BLUEFIN_CONVERSION(ull, unsigned long long, double, double, way)                                                   \
    BLUEFIN_CONVERSION(double, double, float, float, way)                                                              \
    BLUEFIN_BOTH float __fmaf_##way(float x, float y, float z) {                                                       \
        /* The product is exact; of the sum the part that FP64 has no room for decides if the rest does not. */        \
        const double product = (double)x * y, sum = product + z;                                                       \
        const float rounded = (float)sum;                                                                              \
        return bluefin_##way(rounded, rounded == sum ? bluefin_beyond_sum(sum, product, z) : rounded - sum);           \
    }                                                                                                                  \
    BLUEFIN_BOTH float __fadd_##way(float x, float y) { return __fmaf_##way(x, 1, y); }                                \
    BLUEFIN_BOTH float __fsub_##way(float x, float y) { return __fmaf_##way(x, 1, -y); }                               \
    BLUEFIN_BOTH float __fmul_##way(float x, float y) { return __double2float_##way((double)x * y); }                  \
    BLUEFIN_BOTH float __fdiv_##way(float x, float y) {                                                                \
        const float rounded = x / y;                                                                                   \
        const double rest = (double)rounded * y - x;                                                                   \
        return bluefin_##way(rounded, y < 0 ? -rest : rest);                                                           \
    }                                                                                                                  \
    BLUEFIN_BOTH float __frcp_##way(float x) { return __fdiv_##way(1, x); }                                            \
    BLUEFIN_BOTH float __fsqrt_##way(float x) {                                                                        \
        const float rounded = __builtin_sqrtf(x);                                                                      \
        return bluefin_##way(rounded, (double)rounded * rounded - x);                                                  \
    }                                                                                                                  \
    BLUEFIN_BOTH double __dadd_##way(double x, double y) {                                                             \
        const double sum = x + y;                                                                                      \
        return bluefin_##way(sum, bluefin_beyond_sum(sum, x, y));                                                      \
    }                                                                                                                  \
    BLUEFIN_BOTH double __dsub_##way(double x, double y) { return __dadd_##way(x, -y); }                               \
    BLUEFIN_BOTH double __dmul_##way(double x, double y) {                                                             \
        return bluefin_##way(x * y, -__builtin_fma(x, y, -(x * y)));                                                   \
    }                                                                                                                  \
    BLUEFIN_BOTH double __ddiv_##way(double x, double y) {                                                             \
        const double rest = __builtin_fma(x / y, y, -x);                                                               \
        return bluefin_##way(x / y, y < 0 ? -rest : rest);                                                             \
    }                                                                                                                  \
    BLUEFIN_BOTH double __drcp_##way(double x) { return __ddiv_##way(1, x); }                                          \
    BLUEFIN_BOTH double __dsqrt_##way(double x) {                                                                      \
        const double rounded = __builtin_sqrt(x);                                                                      \
        return bluefin_##way(rounded, __builtin_fma(rounded, rounded, -x));                                            \
    }
BLUEFIN_DIRECTED(rd)
BLUEFIN_DIRECTED(ru)
BLUEFIN_DIRECTED(rz)

#pragma clang fp contract(fast)
