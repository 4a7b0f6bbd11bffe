/* What the CPU kernels share: bounds of sizes, vectors of VL floats and the loops over a register tile. */
#pragma once
#include <stdint.h>

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Goes before a loop over a register tile: only if no index is left at run time do its sums stay in registers. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 64")
#endif

#ifdef VL
/* VL floats at any address. */
typedef float vec __attribute__((vector_size(VL * 4), aligned(4), may_alias));
#endif
