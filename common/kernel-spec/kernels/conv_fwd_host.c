/* Forward convolution on the CPU: FP32 or BF16, NC(D)HW or NHWC, groups, any stride, padding and dilation, one thread.
 *
 * Exactly one solver is compiled, chosen by -DSOLVER_REFERENCE, -DSOLVER_DIRECT or -DSOLVER_GEMM. No size is baked in,
 * so one artifact serves every problem: the inner loops walk a table of offsets, one for each (channel, tap), and never
 * see the filter's shape, its stride or its dilation.
 */
#include "conv_host.h"

#ifdef SOLVER_REFERENCE
/* Output columns that are summed together. */
enum { ROW = 256 };

/* The definition of the operation, summed in double. Rows of output columns keep it fast enough to run once a
 * problem. */
void conv_fwd_reference(const element *x, const element *wei, element *y, CONV_PARAMETERS)
{
    const struct tensor in = tensor_x(CONV_SIZES), filters = tensor_weights(CONV_SIZES), outs = tensor_y(CONV_SIZES);
    const int64_t in_step = step_of(in), tap_step = step_of(filters), out_step = step_of(outs);
    const int64_t cg = c / g, kg = k / g;
    double sum[ROW];
    for (int64_t b = 0; b < n; b++)
    for (int64_t ko = 0; ko < k; ko++)
    for (int64_t z = 0; z < od; z++)
    for (int64_t r = 0; r < oh; r++)
    for (int64_t col = 0; col < ow; col += ROW) {
        const int64_t len = least(ROW, ow - col);
        for (int64_t j = 0; j < len; j++) sum[j] = 0.0;
        for (int64_t ci = 0; ci < cg; ci++)
        for (int64_t tz = 0; tz < fz; tz++)
        for (int64_t ty = 0; ty < fy; ty++) {
            const int64_t iz = z * sd - pd + tz * dd, iy = r * sh - ph + ty * dh;
            if (iz < 0 || iz >= d || iy < 0 || iy >= h) continue;
            const element *row = x + element_at(in, b, ko / kg * cg + ci, (iz * h + iy) * w);
            const element *taps = wei + element_at(filters, ko, ci, (tz * fy + ty) * fx);
            for (int64_t tx = 0; tx < fx; tx++) {
                const int64_t start = col * sw - pw + tx * dw, end = least(len, first_at(start, sw, w));
                const double tap = TO_FLOAT(taps[tx * tap_step]);
                for (int64_t j = first_at(start, sw, 0); j < end; j++)
                    sum[j] += tap * TO_FLOAT(row[(start + j * sw) * in_step]);
            }
        }
        element *out = y + element_at(outs, b, ko, (z * oh + r) * ow + col);
        for (int64_t j = 0; j < len; j++) out[j * out_step] = FROM_FLOAT((float)sum[j]);
    }
}
#endif

#ifdef SOLVER_DIRECT
#define TILE_ROWS TK
#define TILE_VECTORS TQ
#include "tile_host.h"

/* Direct convolution, vectors over the output's pixels. The padded copy's rows are taken as one long line: position
 * q = row * width + column, so that vectors run across row ends and small images fill them too; what lands in the
 * padding columns is dropped. A register tile of TK output channels x TQ vectors costs TQ loads and TK broadcasts
 * for TK * TQ multiply-adds. CB input channels are done at a time, so that their padded copy stays in the cache
 * while all output channels pass over it. ORDER says what is kept near: 0 a pixel tile (the weights stream past it),
 * 1 a tile's weights (the pixels stream past them). The weights are read where they lie, TK rows at a time: to pack
 * them would cost more than the whole convolution of a 7 x 7 image. */
struct tile {
    const float *pixels, *weights;
    const int32_t *offset;
    int64_t depth, stride, rows, left; /* (channel, tap) pairs; between weight rows; channels; pixels up to the end */
    float *out;                        /* first output channel of the image */
    int64_t q, width, ow, image;       /* first position; of a padded row; of an output row; of an output channel */
    int add;                           /* whether earlier input channels are already in the output */
};

static void run_tile(const struct tile *t)
{
    tile acc;
    clear_tile(acc);
    const float *wr[TK];
    /* Rows past the last channel repeat it; they are computed and dropped. */
    UNROLL for (int i = 0; i < TK; i++) wr[i] = t->weights + least(i, t->rows - 1) * t->stride;
    const float *pixels = t->pixels + t->q;
    const int32_t *offset = t->offset;
    for (int64_t p = 0, depth = t->depth; p < depth; p++) {
        add_products(acc, wr, p, pixels + offset[p]);
    }
    if (t->width == t->ow && t->left >= TQ * VL && t->rows >= TK) {
        put_tile(acc, t->out + t->q, t->image, t->add);
        return;
    }
    float spill[TK][TQ * VL];
    spill_tile(acc, spill);
    const int64_t count = least(TQ * VL, t->left);
    int64_t row = t->q / t->width, col = t->q % t->width;
    for (int64_t j = 0; j < count; j += t->width - col, row++, col = 0) {
        const int64_t run = least(count - j, t->ow - col);
        for (int64_t i = 0; i < least(TK, t->rows); i++) {
            float *out = t->out + i * t->image + row * t->ow + col;
            if (t->add)
                for (int64_t e = 0; e < run; e++) out[e] += spill[i][j + e];
            else
                for (int64_t e = 0; e < run; e++) out[e] = spill[i][j + e];
        }
    }
}

static void direct(const float *x, const float *wei, float *y, void *workspace, CONV_PARAMETERS)
{
    const struct planes p = planes_of(CONV_SIZES);
    const int64_t cg = c / g, kg = k / g, taps = fy * fx, crs = cg * taps, block = least(CB, cg);
    const int64_t tiles = (kg + TK - 1) / TK, end = (oh - 1) * p.w + ow, slack = p.w + TQ * VL;
    float *pixels = workspace;
    int32_t *offset = (int32_t *)(pixels + lines(block * p.volume + slack));
    tap_offsets(offset, block, &p, 1, fy, fx, 1, sh, sw, 1, dh, dw);
    memset(pixels + block * p.volume, 0, slack * sizeof *pixels);
    struct tile t = {.pixels = pixels, .offset = offset, .stride = crs, .width = p.w, .ow = ow, .image = oh * ow};
    for (int64_t b = 0; b < n; b++)
    for (int64_t gi = 0; gi < g; gi++)
    for (int64_t c0 = 0; c0 < cg; c0 += CB) {
        const int64_t channels = least(CB, cg - c0);
        for (int64_t ci = 0; ci < channels; ci++)
            pad_channel(pixels + ci * p.volume, x + (b * c + gi * cg + c0 + ci) * h * w, &p, 1, h, w, 0, ph, pw, 1, sh,
                        sw);
        t.depth = channels * taps;
        t.add = c0 > 0;
        const int64_t steps = (end + TQ * VL - 1) / (TQ * VL);
        for (int64_t s = 0; s < steps * tiles; s++) {
            const int64_t qt = ORDER ? s % steps : s / tiles, kt = ORDER ? s / steps : s % tiles;
            const int64_t ko = gi * kg + kt * TK;
            t.q = qt * TQ * VL;
            t.left = end - t.q;
            t.rows = kg - kt * TK;
            t.weights = wei + ko * crs + c0 * taps;
            t.out = y + (b * k + ko) * t.image;
            run_tile(&t);
        }
    }
}

void conv_fwd_direct(const element *x, const element *wei, element *y, void *workspace, CONV_PARAMETERS)
{
    solve_on_floats(direct, x, tensor_x(CONV_SIZES), wei, tensor_weights(CONV_SIZES), y, tensor_y(CONV_SIZES),
                    workspace, CONV_SIZES);
}
#endif

#ifdef SOLVER_GEMM
#define TILE_ROWS TP
#define TILE_VECTORS TV
#include "tile_host.h"

/* Implicit GEMM, vectors over the output channels: Y^T (pixels x k) = im2col(X)^T (pixels x crs) * W^T (crs x k). A
 * register tile of TP pixels x TV vectors of channels needs no padding columns, so an image of 7 x 7 or 14 x 14 divides
 * into tiles of 7 or 14 pixels without waste. The weights are packed once, channels innermost; the im2col matrix exists
 * only in blocks of KC (channel, tap) pairs x NC pixels, which are to stay in the cache while all channels pass over
 * them. */
static void run_tile(const float *restrict pixels, const float *restrict weights, int64_t depth, float *out,
                     int64_t image, int64_t count, int64_t channels, int add)
{
    tile acc;
    clear_tile(acc);
    add_strips(acc, pixels, weights, depth);
    float spill[TP][TV * VL];
    spill_tile(acc, spill);
    for (int64_t j = 0; j < channels; j++, out += image) {
        if (count == TP && !add) {
            UNROLL for (int i = 0; i < TP; i++) out[i] = spill[i][j];
        } else {
            for (int64_t i = 0; i < count; i++) out[i] = add ? out[i] + spill[i][j] : spill[i][j];
        }
    }
}

static void gemm(const float *x, const float *wei, float *y, void *workspace, CONV_PARAMETERS)
{
    const struct planes p = planes_of(CONV_SIZES);
    const int64_t cg = c / g, kg = k / g, crs = cg * fz * fy * fx, image = (int64_t)od * oh * ow, wide = TV * VL;
    const int64_t tiles = (kg + wide - 1) / wide;
    float *weights = workspace;
    float *planes = weights + lines(g * tiles * wide * crs);
    float *block = planes + lines(cg * p.volume);
    int32_t *offset = (int32_t *)(block + KC * ((NC + TP - 1) / TP * TP));
    int32_t *position = offset + crs;
    tap_offsets(offset, cg, &p, fz, fy, fx, sd, sh, sw, dd, dh, dw);
    output_positions(position, &p, od, oh, ow);
    for (int64_t kt = 0; kt < g * tiles; kt++)
        for (int64_t i = 0; i < wide; i++) {
            const float *src = wei + (kt / tiles * kg + least(kt % tiles * wide + i, kg - 1)) * crs;
            for (int64_t j = 0; j < crs; j++) weights[(kt * crs + j) * wide + i] = src[j];
        }
    for (int64_t b = 0; b < n; b++)
    for (int64_t gi = 0; gi < g; gi++) {
        for (int64_t ci = 0; ci < cg; ci++)
            pad_channel(planes + ci * p.volume, x + (b * c + gi * cg + ci) * d * h * w, &p, d, h, w, pd, ph, pw, sd, sh,
                        sw);
        for (int64_t q0 = 0; q0 < image; q0 += NC)
        for (int64_t p0 = 0; p0 < crs; p0 += KC) {
            const int64_t pixels = least(NC, image - q0), depth = least(KC, crs - p0);
            float *dst = block;
            for (int64_t q = 0; q < pixels; q += TP) {
                int64_t at[TP];
                for (int64_t i = 0; i < TP; i++) at[i] = position[q0 + least(q + i, pixels - 1)];
                for (int64_t j = 0; j < depth; j++, dst += TP) {
                    const float *src = planes + offset[p0 + j];
                    UNROLL for (int i = 0; i < TP; i++) dst[i] = src[at[i]];
                }
            }
            for (int64_t kt = 0; kt < tiles; kt++)
            for (int64_t q = 0; q < pixels; q += TP)
                run_tile(block + q * depth, weights + ((gi * tiles + kt) * crs + p0) * wide, depth,
                         y + (b * k + gi * kg + kt * wide) * image + q0 + q, image, least(TP, pixels - q),
                         least(wide, kg - kt * wide), p0 > 0);
        }
    }
}

void conv_fwd_gemm(const element *x, const element *wei, element *y, void *workspace, CONV_PARAMETERS)
{
    solve_on_floats(gemm, x, tensor_x(CONV_SIZES), wei, tensor_weights(CONV_SIZES), y, tensor_y(CONV_SIZES),
                    workspace, CONV_SIZES);
}
#endif
