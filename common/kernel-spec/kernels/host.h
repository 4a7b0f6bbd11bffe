/* What the CPU kernels share: bounds of sizes, and the elements of tensors, which are computed with as floats. */
#pragma once
#include <stdint.h>
#include <string.h>

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Floats that fill whole cache lines, so that the next part of the workspace starts on one. */
static inline int64_t lines(int64_t floats)
{
    return (floats + 15) / 16 * 16;
}

/* BF16: the upper half of a float. */
typedef uint16_t bfloat;

/* What a problem's tensors hold, -DELEMENT: float or bfloat. One more is its type and these two functions. */
typedef ELEMENT element;
enum { IS_FLOAT = sizeof(element) == sizeof(float) };
#define OF_ELEMENT(element, function) element##function
#define OF(element, function) OF_ELEMENT(element, function)
#define TO_FLOAT OF(ELEMENT, _to_float)
#define FROM_FLOAT OF(ELEMENT, _from_float)

static inline float float_to_float(float value)
{
    return value;
}

static inline float float_from_float(float value)
{
    return value;
}

static inline float bfloat_to_float(bfloat value)
{
    const uint32_t bits = (uint32_t)value << 16;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

/* To the nearest, ties to the even one. */
static inline bfloat bfloat_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value != value) return (bfloat)(bits >> 16 | 0x40);
    return (bfloat)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
