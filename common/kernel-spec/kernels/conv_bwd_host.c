/* Data gradient of a convolution on the CPU: FP32 or BF16, NC(D)HW or NHWC, groups, any stride, padding and dilation, one thread.
 *
 * Exactly one solver is compiled, chosen by -DSOLVER_REFERENCE, -DSOLVER_DIRECT or -DSOLVER_GEMM. No size is baked in,
 * so one artifact serves every problem.
 */
#include "conv_host.h"

#ifdef SOLVER_REFERENCE
/* Input columns that are summed together; channels, where these lie side by side. */
enum { ROW = 256 };

/* What the channels from c0 of group gi gather at one place of dX, each of its taps at a time. */
static inline void sum_channels(double *sum, const element *dy, const element *wei, int64_t b, int64_t gi, int64_t c0,
                                int64_t iz, int64_t iy, int64_t ix, CONV_PARAMETERS)
{
    const struct tensor in = tensor_y(CONV_SIZES), filters = tensor_weights(CONV_SIZES);
    const int64_t kg = k / g, len = least(ROW, c / g - c0);
    for (int64_t tz = 0; tz < fz; tz++)
    for (int64_t ty = 0; ty < fy; ty++)
    for (int64_t tx = 0; tx < fx; tx++) {
        const int64_t z = iz + pd - tz * dd, r = iy + ph - ty * dh, q = ix + pw - tx * dw;
        if (z < 0 || z % sd || z / sd >= od || r < 0 || r % sh || r / sh >= oh || q < 0 || q % sw || q / sw >= ow) continue;
        const int64_t place = (z / sd * oh + r / sh) * ow + q / sw, tap = (tz * fy + ty) * fx + tx;
        for (int64_t ko = gi * kg; ko < (gi + 1) * kg; ko++) {
            const double gradient = TO_FLOAT(dy[element_at(in, b, ko, place)]);
            const element *row = wei + element_at(filters, ko, c0, tap);
            for (int64_t e = 0; e < len; e++) sum[e] += gradient * TO_FLOAT(row[e]);
        }
    }
}

/* What a row of dX gathers from col on, each tap of each output channel at a time. */
static inline void sum_columns(double *sum, const element *dy, const element *wei, int64_t b, int64_t ci, int64_t iz,
                               int64_t iy, int64_t col, CONV_PARAMETERS)
{
    const struct tensor in = tensor_y(CONV_SIZES), filters = tensor_weights(CONV_SIZES);
    const int64_t cg = c / g, kg = k / g, len = least(ROW, w - col);
    for (int64_t ko = ci / cg * kg; ko < (ci / cg + 1) * kg; ko++)
    for (int64_t tz = 0; tz < fz; tz++)
    for (int64_t ty = 0; ty < fy; ty++) {
        const int64_t z = iz + pd - tz * dd, r = iy + ph - ty * dh;
        if (z < 0 || z % sd || z / sd >= od || r < 0 || r % sh || r / sh >= oh) continue;
        const element *row = dy + element_at(in, b, ko, (z / sd * oh + r / sh) * ow);
        const element *taps = wei + element_at(filters, ko, ci % cg, (tz * fy + ty) * fx);
        for (int64_t tx = 0; tx < fx; tx++) {
            /* Output column j was made from input column start + j * sw, counted from col. */
            const int64_t start = tx * dw - pw - col, end = least(ow, first_at(start, sw, len));
            const double tap = TO_FLOAT(taps[tx]);
            for (int64_t j = first_at(start, sw, 0); j < end; j++) sum[start + j * sw] += tap * TO_FLOAT(row[j]);
        }
    }
}

/* The definition of the operation, summed in double: each element of dX gathers what it took part in. */
void conv_bwd_reference(const element *dy, const element *wei, element *dx, CONV_PARAMETERS)
{
    const struct tensor outs = tensor_x(CONV_SIZES);
    const int64_t cg = c / g, outer = NHWC ? g : c, inner = NHWC ? cg : w;
    for (int64_t b = 0; b < n; b++)
    for (int64_t iz = 0; iz < d; iz++)
    for (int64_t iy = 0; iy < h; iy++)
    for (int64_t ix = 0; ix < (NHWC ? w : 1); ix++)
    for (int64_t at = 0; at < outer; at++)
    for (int64_t first = 0; first < inner; first += ROW) {
        double sum[ROW] = {0};
        if (NHWC)
            sum_channels(sum, dy, wei, b, at, first, iz, iy, ix, CONV_SIZES);
        else
            sum_columns(sum, dy, wei, b, at, iz, iy, first, CONV_SIZES);
        /* Channels, or columns, follow each other. */
        element *out = dx + (NHWC ? element_at(outs, b, at * cg + first, (iz * h + iy) * w + ix)
                                  : element_at(outs, b, at, (iz * h + iy) * w + first));
        for (int64_t j = 0; j < least(ROW, inner - first); j++) out[j] = FROM_FLOAT((float)sum[j]);
    }
}
#endif

#ifdef SOLVER_DIRECT
#define TILE_ROWS TC
#define TILE_VECTORS TQ
#include "tile_host.h"

/* Direct, vectors over the pixels of dX. Every sh-th row and sw-th column of dX, one phase, is a convolution of
 * stride 1 of dY with the taps that can reach it, so that no product with an inserted zero is ever computed. dY is
 * copied with zeros around it, and its rows are taken as one long line: position q = row * width + column, whose
 * vectors run across row ends; what lands in the padding columns is dropped. A register tile of TC input channels x
 * TQ vectors costs TQ loads and TC broadcasts for TC * TQ multiply-adds. KB output channels are done at a time, so
 * that their copy of dY stays in the cache while all input channels pass over it. PACK gathers a tile's weights,
 * which lie a whole filter row apart, into one stream: it costs as much as a few pixels, and pays with many. */
struct tile {
    const float *pixels, *weights;
    const int32_t *offset, *weight;     /* for each (output channel, tap): where its pixels and its weights are */
    int64_t depth, taps, rows, left;    /* such pairs; between two channels' weights; channels; pixels up to the end */
    int64_t q, width;                   /* first position; of a padded row */
    float *out;                         /* the phase's first element of the first channel */
    int64_t image, row, column, valid;  /* in dX: between channels, rows and columns of the phase; columns of it */
    int add;                            /* whether earlier output channels are already in dX */
};

static void run_tile(const struct tile *t)
{
    tile acc;
    clear_tile(acc);
    const float *wr[TC];
    /* Channels past the last repeat it; they are computed and dropped. */
    UNROLL for (int i = 0; i < TC; i++)
        wr[i] = PACK ? t->weights + i : t->weights + least(i, t->rows - 1) * t->taps;
    const float *pixels = t->pixels + t->q;
    const int32_t *offset = t->offset, *weight = t->weight;
    for (int64_t p = 0, depth = t->depth; p < depth; p++) {
        add_products(acc, wr, PACK ? p * TC : weight[p], pixels + offset[p]);
    }
    if (t->column == 1 && t->row == t->width && t->valid == t->width && t->left >= TQ * VL && t->rows >= TC) {
        put_tile(acc, t->out + t->q, t->image, t->add);
        return;
    }
    float spill[TC][TQ * VL];
    spill_tile(acc, spill);
    const int64_t count = least(TQ * VL, t->left), step = t->column;
    int64_t row = t->q / t->width, col = t->q % t->width;
    for (int64_t j = 0; j < count; j += t->width - col, row++, col = 0) {
        const int64_t run = least(count - j, t->valid - col);
        for (int64_t i = 0; i < least(TC, t->rows); i++) {
            float *out = t->out + i * t->image + row * t->row + col * step;
            if (t->add)
                for (int64_t e = 0; e < run; e++) out[e * step] += spill[i][j + e];
            else if (step == 1)
                for (int64_t e = 0; e < run; e++) out[e] = spill[i][j + e];
            else
                for (int64_t e = 0; e < run; e++) out[e * step] = spill[i][j + e];
        }
    }
}

static void direct(const float *dy, const float *wei, float *dx, void *workspace, CONV_PARAMETERS)
{
    (void)d, (void)fz, (void)od, (void)pd, (void)sd, (void)dd;
    const int64_t cg = c / g, kg = k / g, taps = fy * fx, crs = cg * taps, block = least(KB, kg);
    /* Zeros above and left of dY, and the size with those below and right, as the spec computes them. */
    const int64_t top = most(0, (fy - 1) * dh - ph + sh - 1) / sh, left = most(0, (fx - 1) * dw - pw + sw - 1) / sw;
    const int64_t height = top + most(oh, (h + sh - 1) / sh + (sh - 1 + ph) / sh);
    const int64_t width = left + most(ow, (w + sw - 1) / sw + (sw - 1 + pw) / sw);
    const int64_t volume = height * width;
    float *pixels = workspace;
    float *packed = pixels + lines(block * volume + TQ * VL);
    int32_t *offset = (int32_t *)(packed + PACK * lines(block * taps * TC)), *weight = offset + block * taps;
    memset(pixels, 0, (block * volume + TQ * VL) * sizeof *pixels);
    for (int64_t b = 0; b < n; b++)
    for (int64_t gi = 0; gi < g; gi++)
    for (int64_t k0 = 0; k0 < kg; k0 += KB) {
        const int64_t channels = least(KB, kg - k0);
        for (int64_t ki = 0; ki < channels; ki++)
            for (int64_t r = 0; r < oh; r++) {
                const float *src = dy + ((b * k + gi * kg + k0 + ki) * oh + r) * ow;
                float *dst = pixels + ki * volume + (top + r) * width + left;
                for (int64_t j = 0; j < ow; j++) dst[j] = src[j];
            }
        for (int64_t py = 0; py < least(sh, h); py++)
        for (int64_t px = 0; px < least(sw, w); px++) {
            int64_t depth = 0;
            for (int64_t ki = 0; ki < channels; ki++)
            for (int64_t ty = 0; ty < fy; ty++)
            for (int64_t tx = 0; tx < fx; tx++) {
                const int64_t r = py + ph - ty * dh, e = px + pw - tx * dw;
                if (r % sh || e % sw) continue;
                offset[depth] = (int32_t)(ki * volume + (r / sh + top) * width + e / sw + left);
                weight[depth++] = (int32_t)(ki * crs + ty * fx + tx);
            }
            if (depth == 0 && k0 > 0) continue;
            struct tile t = {.pixels = pixels, .offset = offset, .weight = weight, .depth = depth, .taps = taps,
                             .width = width, .image = (int64_t)h * w, .row = (int64_t)sh * w, .column = sw,
                             .valid = (w - px + sw - 1) / sw, .add = k0 > 0};
            const int64_t end = ((h - py + sh - 1) / sh - 1) * width + t.valid;
            for (int64_t ci = 0; ci < cg; ci += TC) {
                const float *weights = wei + (gi * kg + k0) * crs + ci * taps;
                t.rows = cg - ci;
                t.weights = PACK ? packed : weights;
                t.out = dx + ((b * c + gi * cg + ci) * h + py) * w + px;
                if (PACK)
                    for (int64_t p = 0; p < depth; p++)
                        for (int64_t i = 0; i < TC; i++)
                            packed[p * TC + i] = weights[weight[p] + least(i, t.rows - 1) * taps];
                for (t.q = 0; t.q < end; t.q += TQ * VL) {
                    t.left = end - t.q;
                    run_tile(&t);
                }
            }
        }
    }
}

void conv_bwd_direct(const element *dy, const element *wei, element *dx, void *workspace, CONV_PARAMETERS)
{
    solve_on_floats(direct, dy, tensor_y(CONV_SIZES), wei, tensor_weights(CONV_SIZES), dx, tensor_x(CONV_SIZES),
                    workspace, CONV_SIZES);
}
#endif

#ifdef SOLVER_GEMM
#define TILE_ROWS TM
#define TILE_VECTORS TV
#include "tile_host.h"

/* GEMM and col2im: columns (crs x pixels) = W^T (crs x k) * dY (k x pixels), then every row of the columns is added
 * to dX where its tap took it from. A register tile has TM rows x TV vectors of pixels and is summed over KC output
 * channels at a time. Only about MB rows of the columns exist at once, whole input channels, so that they are still
 * in the cache when they are added up. */
static void run_tile(const float *restrict weights, const float *restrict pixels, int64_t depth, float *out,
                     int64_t stride, int add)
{
    tile acc;
    clear_tile(acc);
    add_strips(acc, weights, pixels, depth);
    put_tile(acc, out, stride, add);
}

static void gemm(const float *dy, const float *wei, float *dx, void *workspace, CONV_PARAMETERS)
{
    enum { WIDE = TV * VL };
    const int64_t cg = c / g, kg = k / g, taps = fz * fy * fx, crs = cg * taps, image = (int64_t)od * oh * ow;
    const int64_t stride = (image + WIDE - 1) / WIDE * WIDE, block = least(cg, most(1, MB / taps));
    const int64_t volume = (int64_t)d * h * w;
    float *pixels = workspace;            /* dY in panels: [block of KC channels][vector group][channel][pixel] */
    float *packed = pixels + kg * stride; /* the weights of one tile */
    float *columns = packed + KC * TM;    /* rows and pixels rounded up, so that no tile has a tail */
    for (int64_t b = 0; b < n; b++)
    for (int64_t gi = 0; gi < g; gi++) {
        for (int64_t ki = 0; ki < kg; ki++) {
            const float *src = dy + (b * k + gi * kg + ki) * image;
            const int64_t k0 = ki / KC * KC, depth = least(KC, kg - k0);
            for (int64_t q = 0; q < stride; q += WIDE) {
                float *dst = pixels + k0 * stride + q * depth + (ki - k0) * WIDE;
                for (int64_t j = 0; j < WIDE; j++) dst[j] = q + j < image ? src[q + j] : 0.0f;
            }
        }
        for (int64_t c0 = 0; c0 < cg; c0 += block) {
            const int64_t channels = least(block, cg - c0), rows = channels * taps;
            for (int64_t k0 = 0; k0 < kg; k0 += KC)
            for (int64_t m = 0; m < rows; m += TM) {
                const int64_t depth = least(KC, kg - k0);
                const float *src = wei + (gi * kg + k0) * crs + c0 * taps + m;
                for (int64_t p = 0; p < depth; p++)
                    for (int64_t i = 0; i < TM; i++) packed[p * TM + i] = src[p * crs + least(i, rows - m - 1)];
                for (int64_t q = 0; q < stride; q += WIDE)
                    run_tile(packed, pixels + k0 * stride + q * depth, depth, columns + m * stride + q, stride, k0 > 0);
            }
            const float *row = columns;
            for (int64_t ci = 0; ci < channels; ci++) {
                float *out = dx + (b * c + gi * cg + c0 + ci) * volume;
                memset(out, 0, volume * sizeof *out);
                for (int64_t tz = 0; tz < fz; tz++)
                for (int64_t ty = 0; ty < fy; ty++)
                for (int64_t tx = 0; tx < fx; tx++, row += stride) {
                    const int64_t start = tx * dw - pw, lo = first_at(start, sw, 0);
                    const int64_t hi = least(ow, first_at(start, sw, w));
                    for (int64_t q = 0; q < od * oh; q++) {
                        const int64_t iz = q / oh * sd - pd + tz * dd, iy = q % oh * sh - ph + ty * dh;
                        if (iz < 0 || iz >= d || iy < 0 || iy >= h) continue;
                        float *line = out + (iz * h + iy) * w + start;
                        const float *from = row + q * ow;
                        if (sw == 1)
                            for (int64_t j = lo; j < hi; j++) line[j] += from[j];
                        else
                            for (int64_t j = lo; j < hi; j++) line[j * sw] += from[j];
                    }
                }
            }
        }
    }
}

void conv_bwd_gemm(const element *dy, const element *wei, element *dx, void *workspace, CONV_PARAMETERS)
{
    solve_on_floats(gemm, dy, tensor_y(CONV_SIZES), wei, tensor_weights(CONV_SIZES), dx, tensor_x(CONV_SIZES),
                    workspace, CONV_SIZES);
}
#endif
