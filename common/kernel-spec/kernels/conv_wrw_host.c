/* Weight gradient of a convolution on the CPU: FP32 or BF16, NC(D)HW or NHWC, groups, any stride, padding and dilation, one thread.
 *
 * Exactly one solver is compiled, chosen by -DSOLVER_REFERENCE, -DSOLVER_DIRECT or -DSOLVER_GEMM. No size is baked in,
 * so one artifact serves every problem. Both tunable solvers compute dW (k x crs) = dY (k x pixels) * im2col(X)^T,
 * where crs counts (channel, tap) pairs; they differ in what a vector runs over: pixels (Direct) or pairs (Gemm).
 */
#include "conv_host.h"

#ifdef SOLVER_REFERENCE
/* Input channels that are summed together, where they lie side by side. */
enum { ROW = NHWC ? 256 : 1 };

/* The definition of the operation, summed in double: for one output channel and tap, and a row of input channels. */
static inline void sum_row(double *sum, const element *x, const element *dy, int64_t ko, int64_t c0, int64_t tz, int64_t ty,
                           int64_t tx, CONV_PARAMETERS)
{
    const struct tensor in = tensor_x(CONV_SIZES), outs = tensor_y(CONV_SIZES);
    const int64_t in_step = step_of(in), out_step = step_of(outs), len = least(ROW, c / g - c0);
    const int64_t channel = ko / (k / g) * (c / g) + c0;
    const int64_t start = tx * dw - pw, lo = first_at(start, sw, 0), hi = least(ow, first_at(start, sw, w));
    double one = 0.0;
    for (int64_t b = 0; b < n; b++)
    for (int64_t z = 0; z < od; z++)
    for (int64_t r = 0; r < oh; r++) {
        const int64_t iz = z * sd - pd + tz * dd, iy = r * sh - ph + ty * dh;
        if (iz < 0 || iz >= d || iy < 0 || iy >= h) continue;
        const element *row = x + element_at(in, b, channel, (iz * h + iy) * w);
        const element *out = dy + element_at(outs, b, ko, (z * oh + r) * ow);
        for (int64_t j = lo; j < hi; j++) {
            const double gradient = TO_FLOAT(out[j * out_step]);
            const element *from = row + (start + j * sw) * in_step;
            if (ROW == 1)
                one += gradient * TO_FLOAT(*from);
            else
                for (int64_t e = 0; e < len; e++) sum[e] += gradient * TO_FLOAT(from[e]);
        }
    }
    sum[0] += one;
}

void conv_wrw_reference(const element *x, const element *dy, element *dwei, CONV_PARAMETERS)
{
    const struct tensor filters = tensor_weights(CONV_SIZES);
    for (int64_t ko = 0; ko < k; ko++)
    for (int64_t c0 = 0; c0 < c / g; c0 += ROW)
    for (int64_t tz = 0; tz < fz; tz++)
    for (int64_t ty = 0; ty < fy; ty++)
    for (int64_t tx = 0; tx < fx; tx++) {
        double sum[ROW] = {0};
        sum_row(sum, x, dy, ko, c0, tz, ty, tx, CONV_SIZES);
        for (int64_t e = 0; e < least(ROW, c / g - c0); e++)
            dwei[element_at(filters, ko, c0 + e, (tz * fy + ty) * fx + tx)] = FROM_FLOAT((float)sum[e]);
    }
}
#endif

#ifdef SOLVER_DIRECT
#define TILE_ROWS TK
#define TILE_VECTORS TJ
#include "tile_host.h"

/* Direct, vectors over the pixels: every weight is a dot product of a gradient channel with a shifted image channel.
 * Both are copied with rows of the same padded width, the gradient with zeros in the padding, so that a dot product
 * is one run over a whole image. A register tile of TK output channels x TJ pairs costs TK + TJ loads for TK * TJ
 * multiply-adds, and at its end the lanes of each sum are added up, which only pays with enough pixels. QB pixels
 * are done at a time, so that the rows which a tile shares with the next stay in the cache. ORDER: 0 all pairs for a
 * channel tile, 1 all channels for a tile of pairs. */
static inline float lane_sum(vec v)
{
    typedef float quad __attribute__((vector_size(16)));
    quad sum = __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
#if VL == 16
    sum += __builtin_shufflevector(v, v, 8, 9, 10, 11) + __builtin_shufflevector(v, v, 12, 13, 14, 15);
#endif
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

/* out[i * stride + j] (+)= the dot product of row i of the gradient and the pixels at offset[j], `length` long. Rows
 * and pairs past the last repeat it and are dropped. */
static void run_tile(const float *dy, int64_t dy_stride, const float *pixels, const int32_t *offset, int64_t length,
                     int64_t rows, int64_t pairs, float *out, int64_t stride, int add)
{
    const float *a[TK], *b[TJ];
    tile acc;
    UNROLL for (int i = 0; i < TK; i++) a[i] = dy + least(i, rows - 1) * dy_stride;
    UNROLL for (int j = 0; j < TJ; j++) b[j] = pixels + offset[least(j, pairs - 1)];
    clear_tile(acc);
    for (int64_t q = 0; q < length; q += VL) {
        vec u[TK], v[TJ];
        UNROLL for (int i = 0; i < TK; i++) u[i] = *(const vec *)(a[i] + q);
        UNROLL for (int j = 0; j < TJ; j++) v[j] = *(const vec *)(b[j] + q);
        /* Without this barrier gcc reads each v again for every use, which halves the speed. */
        __asm__("" ::: "memory");
        UNROLL for (int i = 0; i < TK; i++) {
            UNROLL for (int j = 0; j < TJ; j++) acc[i][j] += u[i] * v[j];
        }
    }
    float sums[TK][TJ];
    UNROLL for (int i = 0; i < TK; i++) {
        UNROLL for (int j = 0; j < TJ; j++) sums[i][j] = lane_sum(acc[i][j]);
    }
    for (int64_t i = 0; i < least(TK, rows); i++)
        for (int64_t j = 0; j < least(TJ, pairs); j++)
            out[i * stride + j] = add ? out[i * stride + j] + sums[i][j] : sums[i][j];
}

static void direct(const float *x, const float *dy, float *dwei, void *workspace, CONV_PARAMETERS)
{
    const struct planes p = planes_of(CONV_SIZES);
    const int64_t cg = c / g, kg = k / g, crs = cg * fy * fx, slack = p.w + VL;
    const int64_t line = (oh * p.w + VL - 1) / VL * VL; /* of one gradient channel; a multiple of VL, the rest zero */
    float *pixels = workspace;
    float *grad = pixels + lines(cg * p.volume + slack);
    int32_t *offset = (int32_t *)(grad + lines(kg * line));
    tap_offsets(offset, cg, &p, 1, fy, fx, 1, sh, sw, 1, dh, dw);
    /* What is read past the last channel meets a zero of the gradient, so it must be a number. */
    memset(pixels + cg * p.volume, 0, slack * sizeof *pixels);
    memset(grad, 0, kg * line * sizeof *grad);
    const int64_t k_tiles = (kg + TK - 1) / TK, j_tiles = (crs + TJ - 1) / TJ;
    for (int64_t b = 0; b < n; b++)
    for (int64_t gi = 0; gi < g; gi++) {
        for (int64_t ci = 0; ci < cg; ci++)
            pad_channel(pixels + ci * p.volume, x + (b * c + gi * cg + ci) * h * w, &p, 1, h, w, 0, ph, pw, 1, sh, sw);
        for (int64_t ki = 0; ki < kg; ki++)
            for (int64_t r = 0; r < oh; r++) {
                const float *src = dy + ((b * k + gi * kg + ki) * oh + r) * ow;
                for (int64_t j = 0; j < ow; j++) grad[ki * line + r * p.w + j] = src[j];
            }
        for (int64_t q = 0; q < line; q += QB)
        for (int64_t s = 0; s < k_tiles * j_tiles; s++) {
            const int64_t ki = TK * (ORDER ? s % k_tiles : s / j_tiles), j = TJ * (ORDER ? s / k_tiles : s % j_tiles);
            run_tile(grad + ki * line + q, line, pixels + q, offset + j, least(QB, line - q), kg - ki, crs - j,
                     dwei + (gi * kg + ki) * crs + j, crs, b > 0 || q > 0);
        }
    }
}

void conv_wrw_direct(const element *x, const element *dy, element *dwei, void *workspace, CONV_PARAMETERS)
{
    solve_on_floats(direct, x, tensor_x(CONV_SIZES), dy, tensor_y(CONV_SIZES), dwei, tensor_weights(CONV_SIZES),
                    workspace, CONV_SIZES);
}
#endif

#ifdef SOLVER_GEMM
#define TILE_ROWS TK
#define TILE_VECTORS TV
#include "tile_host.h"

/* Implicit GEMM, vectors over the (channel, tap) pairs, which lie side by side in dW. A register tile of TK output
 * channels x TV vectors of pairs is summed over KC pixels at a time; a block of NC pairs x KC pixels of im2col(X)^T
 * is gathered from the padded copy for all output channels, and is to stay in the cache while they pass over it. The
 * gradient is read where it lies, TK channels at a time. Few pixels (7 x 7) cost nothing here: there are no lanes to
 * add up. */
static void run_tile(const float *grad, int64_t image, const float *restrict pairs, int64_t depth, int64_t rows,
                     int64_t count, float *out, int64_t stride, int add)
{
    const float *a[TK];
    tile acc;
    clear_tile(acc);
    UNROLL for (int i = 0; i < TK; i++) a[i] = grad + least(i, rows - 1) * image;
    for (int64_t q = 0; q < depth; q++, pairs += TV * VL) add_products(acc, a, q, pairs);
    float spill[TK][TV * VL];
    spill_tile(acc, spill);
    for (int64_t i = 0; i < least(TK, rows); i++, out += stride)
        if (add)
            for (int64_t j = 0; j < count; j++) out[j] += spill[i][j];
        else
            for (int64_t j = 0; j < count; j++) out[j] = spill[i][j];
}

static void gemm(const float *x, const float *dy, float *dwei, void *workspace, CONV_PARAMETERS)
{
    enum { WIDE = TV * VL };
    const struct planes p = planes_of(CONV_SIZES);
    const int64_t cg = c / g, kg = k / g, crs = cg * fz * fy * fx, image = (int64_t)od * oh * ow;
    float *planes = workspace;
    float *block = planes + lines(cg * p.volume);
    int32_t *offset = (int32_t *)(block + (NC + WIDE - 1) / WIDE * WIDE * KC);
    int32_t *position = offset + crs;
    tap_offsets(offset, cg, &p, fz, fy, fx, sd, sh, sw, dd, dh, dw);
    output_positions(position, &p, od, oh, ow);
    for (int64_t b = 0; b < n; b++)
    for (int64_t gi = 0; gi < g; gi++) {
        for (int64_t ci = 0; ci < cg; ci++)
            pad_channel(planes + ci * p.volume, x + (b * c + gi * cg + ci) * d * h * w, &p, d, h, w, pd, ph, pw, sd, sh,
                        sw);
        for (int64_t j0 = 0; j0 < crs; j0 += NC)
        for (int64_t q0 = 0; q0 < image; q0 += KC) {
            const int64_t pairs = least(NC, crs - j0), depth = least(KC, image - q0);
            float *dst = block;
            for (int64_t j = 0; j < pairs; j += WIDE) {
                int32_t at[WIDE];
                for (int64_t i = 0; i < WIDE; i++) at[i] = offset[j0 + least(j + i, pairs - 1)];
                for (int64_t q = 0; q < depth; q++, dst += WIDE) {
                    const float *src = planes + position[q0 + q];
                    for (int i = 0; i < WIDE; i++) dst[i] = src[at[i]];
                }
            }
            for (int64_t ki = 0; ki < kg; ki += TK)
            for (int64_t j = 0; j < pairs; j += WIDE)
                run_tile(dy + (b * k + gi * kg + ki) * image + q0, image, block + j * depth, depth, kg - ki,
                         least(WIDE, pairs - j), dwei + (gi * kg + ki) * crs + j0 + j, crs, b > 0 || q0 > 0);
        }
    }
}

void conv_wrw_gemm(const element *x, const element *dy, element *dwei, void *workspace, CONV_PARAMETERS)
{
    solve_on_floats(gemm, x, tensor_x(CONV_SIZES), dy, tensor_y(CONV_SIZES), dwei, tensor_weights(CONV_SIZES),
                    workspace, CONV_SIZES);
}
#endif
