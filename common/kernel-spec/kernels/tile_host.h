/* The register tile of a CPU kernel: TILE_ROWS x TILE_VECTORS sums, each a vector of VL floats. The kernel defines the
 * three before it includes this. All is inlined, and every loop over the tile unrolled: only if no index is left at run
 * time do the sums stay in registers. */
#pragma once
#include <stdint.h>

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 64")
#endif
#define TILE_STEP static inline __attribute__((always_inline)) void

/* VL floats at any address. */
typedef float vec __attribute__((vector_size(VL * 4), aligned(4), may_alias));
typedef vec tile[TILE_ROWS][TILE_VECTORS];

TILE_STEP clear_tile(tile sum)
{
    UNROLL for (int i = 0; i < TILE_ROWS; i++) {
        UNROLL for (int j = 0; j < TILE_VECTORS; j++) sum[i][j] = (vec){0};
    }
}

/* Adds the product of a column, element `at` of each of the `left` rows, and the vectors that start at `right`. */
TILE_STEP add_products(tile sum, const float *const left[TILE_ROWS], int64_t at, const float *right)
{
    vec v[TILE_VECTORS];
    UNROLL for (int j = 0; j < TILE_VECTORS; j++) v[j] = *(const vec *)(right + j * VL);
    UNROLL for (int i = 0; i < TILE_ROWS; i++) {
        UNROLL for (int j = 0; j < TILE_VECTORS; j++) sum[i][j] += left[i][at] * v[j];
    }
}

/* Adds the product of two packed strips: `depth` columns of `left`, as many rows of `right`. */
TILE_STEP add_strips(tile sum, const float *restrict left, const float *restrict right, int64_t depth)
{
    for (int64_t p = 0; p < depth; p++, left += TILE_ROWS, right += TILE_VECTORS * VL) {
        vec v[TILE_VECTORS];
        UNROLL for (int j = 0; j < TILE_VECTORS; j++) v[j] = *(const vec *)(right + j * VL);
        UNROLL for (int i = 0; i < TILE_ROWS; i++) {
            UNROLL for (int j = 0; j < TILE_VECTORS; j++) sum[i][j] += left[i] * v[j];
        }
    }
}

/* Writes a whole tile to rows `stride` apart, or adds it to what they hold. */
TILE_STEP put_tile(tile sum, float *out, int64_t stride, int add)
{
    UNROLL for (int i = 0; i < TILE_ROWS; i++) {
        UNROLL for (int j = 0; j < TILE_VECTORS; j++) {
            vec *o = (vec *)(out + j * VL);
            if (add) sum[i][j] += *o;
            *o = sum[i][j];
        }
        out += stride;
    }
}

/* The sums in memory, for a tile that goes only partly to the output. */
TILE_STEP spill_tile(tile sum, float spill[TILE_ROWS][TILE_VECTORS * VL])
{
    UNROLL for (int i = 0; i < TILE_ROWS; i++) {
        UNROLL for (int j = 0; j < TILE_VECTORS; j++) *(vec *)&spill[i][j * VL] = sum[i][j];
    }
}
