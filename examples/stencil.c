/* One explicit step of the heat equation: each inner cell moves towards the mean of its four neighbours, the border stays
 * as it is. TILE_H, TILE_W and ROWS are the params of the solver StencilTiled. */
#include <stdint.h>

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void copy_border(const float *now, float *next, int64_t height, int64_t width)
{
    for (int64_t x = 0; x < width; x++) {
        next[x] = now[x];
        next[(height - 1) * width + x] = now[(height - 1) * width + x];
    }
    for (int64_t y = 0; y < height; y++) {
        next[y * width] = now[y * width];
        next[y * width + width - 1] = now[y * width + width - 1];
    }
}

#ifndef ROWS
void stencil_reference(const float *now, float *next, int64_t height, int64_t width, float rate)
{
    copy_border(now, next, height, width);
    for (int64_t y = 1; y < height - 1; y++)
        for (int64_t x = 1; x < width - 1; x++) {
            const float *cell = now + y * width + x;
            const double around = (double)cell[-1] + cell[1] + cell[-width] + cell[width];
            next[y * width + x] = (float)(cell[0] + rate * (around - 4.0 * cell[0]));
        }
}
#else
/* Rows y to y + count of a tile, columns x0 to x1. */
static inline void rows(const float *restrict now, float *restrict next, int64_t count, int64_t y, int64_t x0, int64_t x1,
                        int64_t width, float rate)
{
    for (int64_t x = x0; x < x1; x++)
        for (int64_t row = 0; row < count; row++) {
            const float *cell = now + (y + row) * width + x;
            const float around = cell[-1] + cell[1] + cell[-width] + cell[width];
            next[(y + row) * width + x] = cell[0] + rate * (around - 4.0f * cell[0]);
        }
}

void stencil_tiled(const float *now, float *next, int64_t height, int64_t width, float rate)
{
    copy_border(now, next, height, width);
    for (int64_t y0 = 1; y0 < height - 1; y0 += TILE_H)
        for (int64_t x0 = 1; x0 < width - 1; x0 += TILE_W) {
            const int64_t y1 = least(y0 + TILE_H, height - 1), x1 = least(x0 + TILE_W, width - 1);
            int64_t y = y0;
            for (; y + ROWS <= y1; y += ROWS)
                rows(now, next, ROWS, y, x0, x1, width, rate);
            rows(now, next, y1 - y, y, x0, x1, width, rate);
        }
}
#endif
