/* Forward convolution on the CPU: FP32, NC(D)HW, groups, any stride, padding and dilation, one thread.
 *
 * Exactly one solver is compiled, chosen by -DSOLVER_REFERENCE, -DSOLVER_DIRECT or -DSOLVER_GEMM. No size is baked in,
 * so one artifact serves every problem: the inner loops walk a table of offsets, one for each (channel, tap), and never
 * see the filter's shape, its stride or its dilation.
 */
#include <stdint.h>
#include <string.h>

/* The sizes, in the order in which every solver's launch passes them. */
#define SIZES                                                                                                          \
    int32_t n, int32_t c, int32_t d, int32_t h, int32_t w, int32_t k, int32_t g, int32_t fz, int32_t fy, int32_t fx,   \
        int32_t od, int32_t oh, int32_t ow, int32_t pd, int32_t ph, int32_t pw, int32_t sd, int32_t sh, int32_t sw,    \
        int32_t dd, int32_t dh, int32_t dw

/* The first j >= 0 with start + j * step >= bound. */
static inline int64_t first_at(int64_t start, int64_t step, int64_t bound)
{
    return start >= bound ? 0 : (bound - start + step - 1) / step;
}

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#ifdef SOLVER_REFERENCE
/* Output columns that are summed together. */
enum { ROW = 256 };

/* The definition of the operation, summed in double. Rows of output columns keep it fast enough to run once a
 * problem. */
void conv_fwd_reference(const float *x, const float *wei, float *y, SIZES)
{
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
            const float *row = x + (((b * c + ko / kg * cg + ci) * d + iz) * h + iy) * w;
            const float *taps = wei + (((ko * cg + ci) * fz + tz) * fy + ty) * fx;
            for (int64_t tx = 0; tx < fx; tx++) {
                const int64_t start = col * sw - pw + tx * dw, end = least(len, first_at(start, sw, w));
                const double tap = taps[tx];
                for (int64_t j = first_at(start, sw, 0); j < end; j++) sum[j] += tap * row[start + j * sw];
            }
        }
        float *out = y + (((b * k + ko) * od + z) * oh + r) * ow + col;
        for (int64_t j = 0; j < len; j++) out[j] = (float)sum[j];
    }
}
#endif

#if defined(SOLVER_DIRECT) || defined(SOLVER_GEMM)
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 64")
#endif

/* VL floats at any address. */
typedef float vec __attribute__((vector_size(VL * 4), aligned(4), may_alias));

/* Both solvers read a padded copy of a channel, split by stride: phase (a, b, e) holds every sd-th, sh-th, sw-th
 * element from there on. In it, whatever the stride and the dilation, a tap reads neighbouring outputs from
 * neighbouring addresses, and no load needs a border test. The spec computes the same sizes for the workspace. */
struct planes {
    int64_t nz, ny, nx; /* phases */
    int64_t d, h, w;    /* of one phase */
    int64_t volume;     /* floats of one channel, all phases */
};

static struct planes planes_of(SIZES)
{
    struct planes p;
    (void)n, (void)c, (void)d, (void)h, (void)w, (void)k, (void)g, (void)pd, (void)ph, (void)pw;
    p.nz = least(sd, (fz - 1) * dd + 1), p.ny = least(sh, (fy - 1) * dh + 1), p.nx = least(sw, (fx - 1) * dw + 1);
    p.d = od + (fz - 1) * dd / sd, p.h = oh + (fy - 1) * dh / sh, p.w = ow + (fx - 1) * dw / sw;
    p.volume = p.nz * p.ny * p.nx * p.d * p.h * p.w;
    return p;
}

/* Fills the phases of one channel. */
static void pad_channel(float *restrict dst, const float *restrict src, const struct planes *p, int64_t d, int64_t h,
                        int64_t w, int64_t pd, int64_t ph, int64_t pw, int64_t sd, int64_t sh, int64_t sw)
{
    for (int64_t a = 0; a < p->nz; a++)
    for (int64_t b = 0; b < p->ny; b++)
    for (int64_t e = 0; e < p->nx; e++)
    for (int64_t z = 0; z < p->d; z++)
    for (int64_t r = 0; r < p->h; r++, dst += p->w) {
        const int64_t iz = z * sd + a - pd, iy = r * sh + b - ph, start = e - pw;
        if (iz < 0 || iz >= d || iy < 0 || iy >= h) {
            memset(dst, 0, p->w * sizeof *dst);
            continue;
        }
        const float *row = src + (iz * h + iy) * w;
        const int64_t lo = least(p->w, first_at(start, sw, 0)), hi = least(p->w, first_at(start, sw, w));
        for (int64_t j = 0; j < lo; j++) dst[j] = 0.0f;
        if (sw == 1)
            for (int64_t j = lo; j < hi; j++) dst[j] = row[start + j];
        else
            for (int64_t j = lo; j < hi; j++) dst[j] = row[start + j * sw];
        for (int64_t j = hi; j < p->w; j++) dst[j] = 0.0f;
    }
}

/* offset[(channel, tap)]: from an output's position in the padded copy to the element that this tap multiplies. */
static void tap_offsets(int32_t *offset, int64_t channels, const struct planes *p, int64_t fz, int64_t fy, int64_t fx,
                        int64_t sd, int64_t sh, int64_t sw, int64_t dd, int64_t dh, int64_t dw)
{
    for (int64_t ci = 0; ci < channels; ci++)
    for (int64_t tz = 0; tz < fz; tz++)
    for (int64_t ty = 0; ty < fy; ty++)
    for (int64_t tx = 0; tx < fx; tx++) {
        const int64_t z = tz * dd, r = ty * dh, e = tx * dw;
        const int64_t phase = (z % sd * p->ny + r % sh) * p->nx + e % sw;
        *offset++ = (int32_t)(ci * p->volume + ((phase * p->d + z / sd) * p->h + r / sh) * p->w + e / sw);
    }
}

/* Floats that fill whole cache lines, so that the next part of the workspace starts on one. */
static inline int64_t lines(int64_t floats)
{
    return (floats + 15) / 16 * 16;
}
#endif

#ifdef SOLVER_DIRECT
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
    vec acc[TK][TQ];
    UNROLL for (int i = 0; i < TK; i++) {
        UNROLL for (int j = 0; j < TQ; j++) acc[i][j] = (vec){0};
    }
    const float *wr[TK];
    /* Rows past the last channel repeat it; they are computed and dropped. */
    UNROLL for (int i = 0; i < TK; i++) wr[i] = t->weights + least(i, t->rows - 1) * t->stride;
    const float *pixels = t->pixels + t->q;
    const int32_t *offset = t->offset;
    for (int64_t p = 0, depth = t->depth; p < depth; p++) {
        const float *src = pixels + offset[p];
        vec v[TQ];
        UNROLL for (int j = 0; j < TQ; j++) v[j] = *(const vec *)(src + j * VL);
        UNROLL for (int i = 0; i < TK; i++) {
            UNROLL for (int j = 0; j < TQ; j++) acc[i][j] += wr[i][p] * v[j];
        }
    }
    if (t->width == t->ow && t->left >= TQ * VL && t->rows >= TK) {
        UNROLL for (int i = 0; i < TK; i++) {
            float *out = t->out + i * t->image + t->q;
            UNROLL for (int j = 0; j < TQ; j++) {
                vec *o = (vec *)(out + j * VL);
                if (t->add) acc[i][j] += *o;
                *o = acc[i][j];
            }
        }
        return;
    }
    float spill[TK][TQ * VL];
    UNROLL for (int i = 0; i < TK; i++) {
        UNROLL for (int j = 0; j < TQ; j++) *(vec *)&spill[i][j * VL] = acc[i][j];
    }
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

void conv_fwd_direct(const float *x, const float *wei, float *y, void *workspace, SIZES)
{
    const struct planes p = planes_of(n, c, d, h, w, k, g, fz, fy, fx, od, oh, ow, pd, ph, pw, sd, sh, sw, dd, dh, dw);
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
#endif

#ifdef SOLVER_GEMM
/* Implicit GEMM, vectors over the output channels: Y^T (pixels x k) = im2col(X)^T (pixels x crs) * W^T (crs x k). A
 * register tile of TP pixels x TV vectors of channels needs no padding columns, so an image of 7 x 7 or 14 x 14 divides
 * into tiles of 7 or 14 pixels without waste. The weights are packed once, channels innermost; the im2col matrix exists
 * only in blocks of KC (channel, tap) pairs x NC pixels, which are to stay in the cache while all channels pass over
 * them. */
static void run_tile(const float *restrict pixels, const float *restrict weights, int64_t depth, float *out,
                     int64_t image, int64_t count, int64_t channels, int add)
{
    vec acc[TP][TV];
    UNROLL for (int i = 0; i < TP; i++) {
        UNROLL for (int j = 0; j < TV; j++) acc[i][j] = (vec){0};
    }
    for (int64_t p = 0; p < depth; p++, pixels += TP, weights += TV * VL) {
        vec v[TV];
        UNROLL for (int j = 0; j < TV; j++) v[j] = *(const vec *)(weights + j * VL);
        UNROLL for (int i = 0; i < TP; i++) {
            UNROLL for (int j = 0; j < TV; j++) acc[i][j] += pixels[i] * v[j];
        }
    }
    float spill[TP][TV * VL];
    UNROLL for (int i = 0; i < TP; i++) {
        UNROLL for (int j = 0; j < TV; j++) *(vec *)&spill[i][j * VL] = acc[i][j];
    }
    for (int64_t j = 0; j < channels; j++, out += image) {
        if (count == TP && !add) {
            UNROLL for (int i = 0; i < TP; i++) out[i] = spill[i][j];
        } else {
            for (int64_t i = 0; i < count; i++) out[i] = add ? out[i] + spill[i][j] : spill[i][j];
        }
    }
}

void conv_fwd_gemm(const float *x, const float *wei, float *y, void *workspace, SIZES)
{
    const struct planes p = planes_of(n, c, d, h, w, k, g, fz, fy, fx, od, oh, ow, pd, ph, pw, sd, sh, sw, dd, dh, dw);
    const int64_t cg = c / g, kg = k / g, crs = cg * fz * fy * fx, image = (int64_t)od * oh * ow, wide = TV * VL;
    const int64_t tiles = (kg + wide - 1) / wide;
    float *weights = workspace;
    float *planes = weights + lines(g * tiles * wide * crs);
    float *block = planes + lines(cg * p.volume);
    int32_t *offset = (int32_t *)(block + KC * ((NC + TP - 1) / TP * TP));
    int32_t *position = offset + crs;
    tap_offsets(offset, cg, &p, fz, fy, fx, sd, sh, sw, dd, dh, dw);
    for (int64_t q = 0; q < image; q++)
        position[q] = (int32_t)((q / ow / oh * p.h + q / ow % oh) * p.w + q % ow);
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
#endif
