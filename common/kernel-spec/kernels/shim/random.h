// Random numbers that kernels draw: streams of their own for each seed, sequence and offset, which are not those of cuRAND and hipRAND.
#pragma once

#include "bluefin/gpu.h"

struct bluefin_random {
    unsigned long long key, drawn;
};
// A bijection of 64 bits by which each bit of the result hangs on all.
BLUEFIN_BOTH unsigned long long bluefin_scrambled(unsigned long long x) {
    x ^= x >> 31;
    x *= 0x7fb5d329728ea185ull;
    x ^= x >> 27;
    x *= 0x81dadef4bc2dd44dull;
    return x ^ x >> 33;
}
BLUEFIN_BOTH unsigned bluefin_draw(bluefin_random* from) {
    return (unsigned)(bluefin_scrambled(from->key + 0x9e3779b97f4a7c15ull * ++from->drawn) >> 32);
}
BLUEFIN_BOTH void bluefin_seed(unsigned long long seed, unsigned long long sequence, unsigned long long offset, bluefin_random* to) {
    to->key = bluefin_scrambled(seed + 1) + bluefin_scrambled(~sequence);
    to->drawn = offset;
}
// Above 0, up to 1.
BLUEFIN_BOTH float bluefin_uniform(bluefin_random* from) { return (float)((bluefin_draw(from) >> 8) + 1) * 0x1p-24f; }
BLUEFIN_BOTH double bluefin_uniform_double(bluefin_random* from) {
    const unsigned long long high = bluefin_draw(from);
    return (double)((high << 21 ^ bluefin_draw(from) >> 11) + 1) * 0x1p-53;
}
BLUEFIN_DEVICE float2 bluefin_normal2(bluefin_random* from) {
    const float radius = sqrtf(-2 * logf(bluefin_uniform(from))), angle = 2 * bluefin_uniform(from);
    return make_float2(radius * cospif(angle), radius * sinpif(angle));
}
BLUEFIN_DEVICE double bluefin_normal_double(bluefin_random* from) {
    const double radius = sqrt(-2 * log(bluefin_uniform_double(from)));
    return radius * cospi(2 * bluefin_uniform_double(from));
}
BLUEFIN_DEVICE unsigned bluefin_poisson(bluefin_random* from, double mean) {
    if (mean > 64) return (unsigned)fmax(0.0, rint(mean + sqrt(mean) * bluefin_normal_double(from)));
    const double least = exp(-mean);
    unsigned count = 0;
    for (double left = bluefin_uniform_double(from); left > least; left *= bluefin_uniform_double(from)) ++count;
    return count;
}

// `api` is curand or hiprand.
#define BLUEFIN_RANDOM(api)                                                                                                  \
    using api##State = bluefin_random;                                                                                       \
    using api##State_t = bluefin_random;                                                                                     \
    using api##StateXORWOW = bluefin_random;                                                                                 \
    using api##StateXORWOW_t = bluefin_random;                                                                               \
    using api##StatePhilox4_32_10 = bluefin_random;                                                                          \
    using api##StatePhilox4_32_10_t = bluefin_random;                                                                        \
    using api##StateMRG32k3a = bluefin_random;                                                                               \
    using api##StateMRG32k3a_t = bluefin_random;                                                                             \
    BLUEFIN_DEVICE void api##_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset,          \
                                   bluefin_random* to) {                                                                     \
        bluefin_seed(seed, sequence, offset, to);                                                                            \
    }                                                                                                                        \
    BLUEFIN_DEVICE unsigned api(bluefin_random* from) { return bluefin_draw(from); }                                         \
    BLUEFIN_DEVICE uint4 api##4(bluefin_random* from) {                                                                      \
        const unsigned x = api(from), y = api(from), z = api(from);                                                          \
        return make_uint4(x, y, z, api(from));                                                                               \
    }                                                                                                                        \
    BLUEFIN_DEVICE float api##_uniform(bluefin_random* from) { return bluefin_uniform(from); }                               \
    BLUEFIN_DEVICE double api##_uniform_double(bluefin_random* from) { return bluefin_uniform_double(from); }                \
    BLUEFIN_DEVICE float4 api##_uniform4(bluefin_random* from) {                                                             \
        const float x = bluefin_uniform(from), y = bluefin_uniform(from), z = bluefin_uniform(from);                         \
        return make_float4(x, y, z, bluefin_uniform(from));                                                                  \
    }                                                                                                                        \
    BLUEFIN_DEVICE float api##_normal(bluefin_random* from) { return bluefin_normal2(from).x; }                              \
    BLUEFIN_DEVICE float2 api##_normal2(bluefin_random* from) { return bluefin_normal2(from); }                              \
    BLUEFIN_DEVICE float4 api##_normal4(bluefin_random* from) {                                                              \
        const float2 one = bluefin_normal2(from), other = bluefin_normal2(from);                                             \
        return make_float4(one.x, one.y, other.x, other.y);                                                                  \
    }                                                                                                                        \
    BLUEFIN_DEVICE double api##_normal_double(bluefin_random* from) { return bluefin_normal_double(from); }                  \
    BLUEFIN_DEVICE float api##_log_normal(bluefin_random* from, float mean, float deviation) {                               \
        return expf(mean + deviation * bluefin_normal2(from).x);                                                             \
    }                                                                                                                        \
    BLUEFIN_DEVICE unsigned api##_poisson(bluefin_random* from, double mean) { return bluefin_poisson(from, mean); }
#if BLUEFIN_CUDA
BLUEFIN_RANDOM(curand)
#else
BLUEFIN_RANDOM(hiprand)
#endif
