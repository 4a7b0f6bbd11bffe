/* What the CPU convolutions share: a problem's sizes, how its tensors lie, where a filter meets its image, and the image's
 * padded copy. */
#pragma once
#include "host.h"

/* The sizes, in the order in which every solver's launch passes them. */
#define CONV_PARAMETERS                                                                                                \
    int32_t n, int32_t c, int32_t d, int32_t h, int32_t w, int32_t k, int32_t g, int32_t fz, int32_t fy, int32_t fx,   \
        int32_t od, int32_t oh, int32_t ow, int32_t pd, int32_t ph, int32_t pw, int32_t sd, int32_t sh, int32_t sw,    \
        int32_t dd, int32_t dh, int32_t dw
#define CONV_SIZES n, c, d, h, w, k, g, fz, fy, fx, od, oh, ow, pd, ph, pw, sd, sh, sw, dd, dh, dw

/* The first j >= 0 with start + j * step >= bound. */
static inline int64_t first_at(int64_t start, int64_t step, int64_t bound)
{
    return start >= bound ? 0 : (bound - start + step - 1) / step;
}

/* Images or filters: so many, of channels and of places, which are pixels or taps. */
struct tensor {
    int64_t count, channels, places;
};

static inline struct tensor tensor_x(CONV_PARAMETERS)
{
    (void)k, (void)g, (void)fz, (void)fy, (void)fx, (void)od, (void)oh, (void)ow, (void)pd, (void)ph, (void)pw;
    (void)sd, (void)sh, (void)sw, (void)dd, (void)dh, (void)dw;
    return (struct tensor){n, c, (int64_t)d * h * w};
}

static inline struct tensor tensor_weights(CONV_PARAMETERS)
{
    (void)n, (void)d, (void)h, (void)w, (void)od, (void)oh, (void)ow, (void)pd, (void)ph, (void)pw;
    (void)sd, (void)sh, (void)sw, (void)dd, (void)dh, (void)dw;
    return (struct tensor){k, c / g, (int64_t)fz * fy * fx};
}

static inline struct tensor tensor_y(CONV_PARAMETERS)
{
    (void)c, (void)d, (void)h, (void)w, (void)g, (void)fz, (void)fy, (void)fx, (void)pd, (void)ph, (void)pw;
    (void)sd, (void)sh, (void)sw, (void)dd, (void)dh, (void)dw;
    return (struct tensor){n, k, (int64_t)od * oh * ow};
}

/* Where an element lies, and how far from it that of the next place: with -DNHWC=1 channels are innermost, else places. */
static inline int64_t element_at(struct tensor of, int64_t number, int64_t channel, int64_t place)
{
    return NHWC ? (number * of.places + place) * of.channels + channel
                : (number * of.channels + channel) * of.places + place;
}

static inline int64_t step_of(struct tensor of)
{
    return NHWC ? of.channels : 1;
}

/* Where all lies as the solvers want it, floats with channels outside, they need no copies. */
enum { IN_PLACE = IS_FLOAT && !NHWC, STRIP = 16 };

static inline float *behind(float *copy, struct tensor of)
{
    return copy + lines(of.count * of.channels * of.places);
}

/* Copies a tensor to floats with channels outside, in strips of places, so that neither side jumps at each element. */
static inline void load_tensor(float *restrict to, const element *restrict from, struct tensor of)
{
    for (int64_t number = 0; number < of.count; number++, to += of.channels * of.places)
    for (int64_t strip = 0; strip < of.places; strip += STRIP)
    for (int64_t channel = 0; channel < of.channels; channel++)
    for (int64_t place = strip; place < least(strip + STRIP, of.places); place++)
        to[channel * of.places + place] = TO_FLOAT(from[element_at(of, number, channel, place)]);
}

/* The way back. */
static inline void store_tensor(element *restrict to, const float *restrict from, struct tensor of)
{
    for (int64_t number = 0; number < of.count; number++, from += of.channels * of.places)
    for (int64_t strip = 0; strip < of.places; strip += STRIP)
    for (int64_t channel = 0; channel < of.channels; channel++)
    for (int64_t place = strip; place < least(strip + STRIP, of.places); place++)
        to[element_at(of, number, channel, place)] = FROM_FLOAT(from[channel * of.places + place]);
}

typedef void solver(const float *, const float *, float *, void *, CONV_PARAMETERS);

/* Solves on copies of the tensors at the front of the workspace, where they are needed: one text for all types and layouts. */
static inline void solve_on_floats(solver *solve, const element *left, struct tensor of_left, const element *right,
                                   struct tensor of_right, element *out, struct tensor of_out, void *workspace,
                                   CONV_PARAMETERS)
{
    if (IN_PLACE) {
        solve((const float *)left, (const float *)right, (float *)out, workspace, CONV_SIZES);
        return;
    }
    float *left_copy = workspace, *right_copy = behind(left_copy, of_left), *out_copy = behind(right_copy, of_right);
    load_tensor(left_copy, left, of_left);
    load_tensor(right_copy, right, of_right);
    solve(left_copy, right_copy, out_copy, behind(out_copy, of_out), CONV_SIZES);
    store_tensor(out, out_copy, of_out);
}

/* A padded copy of a channel, split by stride: phase (a, b, e) holds every sd-th, sh-th, sw-th element from there on.
 * In it, whatever the stride and the dilation, a tap meets neighbouring outputs at neighbouring addresses, and no load
 * needs a border test. The spec computes the same sizes for the workspace. */
struct planes {
    int64_t nz, ny, nx; /* phases */
    int64_t d, h, w;    /* of one phase */
    int64_t volume;     /* floats of one channel, all phases */
};

static inline struct planes planes_of(CONV_PARAMETERS)
{
    struct planes p;
    (void)n, (void)c, (void)d, (void)h, (void)w, (void)k, (void)g, (void)pd, (void)ph, (void)pw;
    p.nz = least(sd, (fz - 1) * dd + 1), p.ny = least(sh, (fy - 1) * dh + 1), p.nx = least(sw, (fx - 1) * dw + 1);
    p.d = od + (fz - 1) * dd / sd, p.h = oh + (fy - 1) * dh / sh, p.w = ow + (fx - 1) * dw / sw;
    p.volume = p.nz * p.ny * p.nx * p.d * p.h * p.w;
    return p;
}

/* Fills the phases of one channel. */
static inline void pad_channel(float *restrict dst, const float *restrict src, const struct planes *p, int64_t d,
                               int64_t h, int64_t w, int64_t pd, int64_t ph, int64_t pw, int64_t sd, int64_t sh,
                               int64_t sw)
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
static inline void tap_offsets(int32_t *offset, int64_t channels, const struct planes *p, int64_t fz, int64_t fy,
                               int64_t fx, int64_t sd, int64_t sh, int64_t sw, int64_t dd, int64_t dh, int64_t dw)
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

/* position[pixel]: where an output is in a phase of the padded copy. */
static inline void output_positions(int32_t *position, const struct planes *p, int64_t od, int64_t oh, int64_t ow)
{
    for (int64_t q = 0; q < od * oh * ow; q++)
        position[q] = (int32_t)((q / ow / oh * p->h + q / ow % oh) * p->w + q % ow);
}
