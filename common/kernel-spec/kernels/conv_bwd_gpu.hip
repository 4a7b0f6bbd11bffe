// dx(n, c, iy, ix) = sum over k, r, s of dy(n, k, oy, ox) * w(k, c, r, s), where oy * sh = iy + ph - r * dh and likewise
// for ox.
#include "conv_channels_gpu.hip"

#if defined(REFERENCE)
KERNEL BLOCK_OF(256) conv_bwd_reference(const Element* dy, const Element* wei, Element* dx, CONV_PARAMETERS) {
    const Conv v = {CONV_SIZES};
    const int index = block_x() * 256 + thread_x();
    const int pixels = h * w;
    if (index >= n * c * pixels) return;
    const Cell at = cell_of(c, pixels, index);
    const int pixel = at.place, channel = at.channel, image = index / pixels / c;
    const int in_channels = v.in_channels(), out_channels = v.out_channels();
    const int group = channel / in_channels;
    // FP64, so that the reference's own rounding is no part of the comparison.
    double sum = 0;
    for (int r = 0; r < fy; ++r) {
        const int row = pixel / w + ph - r * dh;
        if (row < 0 || row % sh != 0 || row / sh >= oh) continue;
        for (int s = 0; s < fx; ++s) {
            const int column = pixel % w + pw - s * dw;
            if (column < 0 || column % sw != 0 || column / sw >= ow) continue;
            const int first = group * out_channels;
            const Element* value = dy + image_at(k, oh * ow, image, first, row / sh * ow + column / sw);
            const Element* weight = wei + weight_at(in_channels, fy * fx, first, channel % in_channels, r * fx + s);
            // From one channel to the next.
            const int value_step = image_at(k, oh * ow, 0, 1, 0), weight_step = weight_at(in_channels, fy * fx, 1, 0, 0);
            for (int o = 0; o < out_channels; ++o) {
                sum += (double)(float)value[o * value_step] * (float)weight[o * weight_step];
            }
        }
    }
    dx[index] = (Element)(float)sum;
}
#endif

#if defined(DIRECT)
// A block computes TC input channels of a TH x TW tile of one image: CK output channels at a time, the patch of dy that
// met the tile and the filters lie in shared memory. A thread keeps TC channels of PX pixels, TW / PX apart in a row. With a
// stride a tap meets every SH-th row and every SW-th column only: threads of such rows and columns come one behind the other, so
// that a wave has the same taps.
constexpr int TILE_THREADS = TH * TW / PX;
constexpr int STEP_H = TH % SH == 0 ? SH : 1, STEP_W = TW / PX % SW == 0 ? SW : 1;
constexpr int PATCH_H = (TH - 1 + (FY - 1) * DH) / SH + 1;
constexpr int PATCH_W = (TW - 1 + (FX - 1) * DW) / SW + 1;

KERNEL BLOCK_OF(TILE_THREADS) conv_bwd_direct(const Element* dy, const Element* wei, Element* dx, CONV_PARAMETERS) {
    SHARED float patch[CK][PATCH_H * PATCH_W];
    SHARED float filters[CK][FY * FX][TC];
    const Conv v = {CONV_SIZES};
    const int in_channels = v.in_channels(), out_channels = v.out_channels(), group = block_z();
    const int tiles_x = ceil_div(w, TW), tiles = tiles_x * ceil_div(h, TH);
    const int image = block_x() / tiles, tile = block_x() % tiles;
    const int tile_y = tile / tiles_x * TH, tile_x = tile % tiles_x * TW;
    // The first row and column of dy that a tap of the tile can meet.
    const int top = floor_div(tile_y + ph - (FY - 1) * DH + SH - 1, SH);
    const int left = floor_div(tile_x + pw - (FX - 1) * DW + SW - 1, SW);
    const int channel0 = block_y() * TC;
    const int thread = thread_x();
    constexpr int alike = TILE_THREADS / (STEP_H * STEP_W), in_row = TW / PX / STEP_W;
    const int first = thread / alike, rest = thread % alike;
    const int across = rest % in_row * STEP_W + first % STEP_W, down = rest / in_row * STEP_H + first / STEP_W;

    float sums[PX][TC] = {};
#pragma unroll 1
    for (int i = 0; i < out_channels; i += CK) {
        barrier();
        for (int at = thread; at < CK * PATCH_H * PATCH_W; at += TILE_THREADS) {
            const auto [channel, place] = cell_of(CK, PATCH_H * PATCH_W, at);
            const int row = top + place / PATCH_W, column = left + place % PATCH_W;
            const bool inside = i + channel < out_channels && row >= 0 && row < oh && column >= 0 && column < ow;
            const int from = image_at(k, oh * ow, image, group * out_channels + i + channel, row * ow + column);
            patch[channel][place] = inside ? (float)dy[from] : 0.0f;
        }
        for (int at = thread; at < CK * TC * FY * FX; at += TILE_THREADS) {
            const auto [in, tap] = cell_of(TC, FY * FX, at);
            const int channel = at / (TC * FY * FX), filter = group * out_channels + i + channel;
            const bool inside = channel0 + in < in_channels && i + channel < out_channels;
            const int from = weight_at(in_channels, FY * FX, filter, channel0 + in, tap);
            filters[channel][tap][in] = inside ? (float)wei[from] : 0.0f;
        }
        barrier();
#pragma unroll 1
        for (int channel = 0; channel < CK; ++channel) {
#pragma unroll 1
            for (int r = 0; r < FY; ++r) {
                const int row = tile_y + down + ph - r * DH - top * SH;
                if (row % SH != 0) continue;
#pragma unroll
                for (int s = 0; s < FX; ++s) {
#pragma unroll
                    for (int p = 0; p < PX; ++p) {
                        const int column = tile_x + across + p * (TW / PX) + pw - s * DW - left * SW;
                        if (column % SW != 0) continue;
                        const float value = patch[channel][row / SH * PATCH_W + column / SW];
#pragma unroll
                        for (int t = 0; t < TC; ++t) {
                            sums[p][t] = fma(value, filters[channel][r * FX + s][t], sums[p][t]);
                        }
                    }
                }
            }
        }
    }

#pragma unroll
    for (int p = 0; p < PX; ++p) {
        const int row = tile_y + down, column = tile_x + across + p * (TW / PX);
        if (row >= h || column >= w) continue;
#pragma unroll
        for (int t = 0; t < TC; ++t) {
            if (channel0 + t >= in_channels) continue;
            const int channel = group * in_channels + channel0 + t;
            dx[image_at(c, h * w, image, channel, row * w + column)] = (Element)sums[p][t];
        }
    }
}
#endif

#if defined(IMPLICIT) || defined(MATRIX)
// As a product: rows are input channels, columns input pixels of all images, k runs over output channels and taps. In NHWC
// it is turned, so that what is written side by side lies so, and k runs over taps and channels.
#if defined(WARPGROUP)
#include "warpgroup_tile_gpu.hip"
#elif defined(MATRIX)
#include "matrix_tile_gpu.hip"
#else
#include "vector_tile_gpu.hip"
#endif

KERNEL BLOCK_OF(TILE_THREADS) conv_bwd_tile(const Element* dy, const Element* wei, Element* dx, CONV_PARAMETERS) {
    const Conv v = {CONV_SIZES};
    const int group = block_z();
    // Neighbouring blocks share pixels: the images are larger than the weights.
#if NHWC
    const Channels channels(v.out_channels());
    const int rows = n * h * w, columns = v.in_channels(), depth = channels.count() * TAPS, across = ceil_div(columns, BN);
    const int row0 = block_x() / across * BM, column0 = block_x() % across * BN;
    const TapPixels<false> pixels = {dy + group * channels.count(), channels, k, n, oh, ow, h, w, ph, pw, dh, dw};
    const TapWeights<ALIGN_B> weights = {wei + group * columns * depth, channels, columns};
    const MatrixOut<Element, ALIGN_C> out = {dx + group * columns, rows, columns, c};
    tile_loop(pixels, weights, out, row0, column0, {0, depth});
#else
    const int rows = v.in_channels(), depth = v.out_channels() * TAPS, down = ceil_div(rows, BM);
    const int row0 = block_x() % down * BM, column0 = block_x() / down * BN;
    const Element* group_weights = wei + group * rows * depth;
    const PixelColumnsOut<ALIGN_C> out = {{dx + group * rows * h * w, n, c, rows, h * w}};
#if POINTWISE
    const Matrix<false, ALIGN_A> weights = {group_weights, rows, depth};
    const auto pixels = pixel_columns<ALIGN_B>(output_images(v, dy, group));
#else
    const WeightsByInput weights = {group_weights, v};
    const OutputPatches pixels = {dy + group * v.out_channels() * oh * ow, v};
#endif
    tile_loop(weights, pixels, out, row0, column0, {0, depth});
#endif
}
#endif

#if defined(CHANNELS_LAST)
// The same with dy and the weights laid out anew in the workspace, one behind the other: k runs over taps and channels.
#if defined(WARPGROUP)
#include "warpgroup_tile_gpu.hip"
#else
#include "matrix_tile_gpu.hip"
#endif

KERNEL BLOCK_OF(256) conv_bwd_channels_last(const Element* dy, Element* workspace, int channels, int pixels) {
    channels_last(dy, workspace, channels, pixels, block_x());
}

KERNEL BLOCK_OF(256) conv_bwd_filters_by_tap(const Element* wei, Element* workspace, CONV_PARAMETERS) {
    const Conv v = {CONV_SIZES};
    filters_by_tap<true>(wei, behind(workspace, n * k * oh * ow), v.in_channels(), v.out_channels(),
                          k * v.in_channels() * TAPS);
}

KERNEL BLOCK_OF(TILE_THREADS) conv_bwd_taps(Element* workspace, Element* dx, CONV_PARAMETERS) {
    const Conv v = {CONV_SIZES};
    const int group = block_z(), rows = v.in_channels();
    const Channels channels(v.out_channels());
    const int depth = channels.count() * TAPS, down = ceil_div(rows, BM);
    const int row0 = block_x() % down * BM, column0 = block_x() / down * BN;
    const Matrix<true, ALIGN_A> weights = {behind(workspace, n * k * oh * ow) + group * rows * depth, rows, depth};
    const Element* from = workspace + group * channels.count();
    const TapPixels<false> pixels = {from, channels, k, n, oh, ow, h, w, ph, pw, dh, dw};
    const PixelColumnsOut<ALIGN_C> out = {{dx + group * rows * h * w, n, c, rows, h * w}};
    tile_loop(weights, pixels, out, row0, column0, {0, depth});
}
#endif

#if defined(STREAM)
#include "conv_stream_gpu.hip"

KERNEL BLOCK_ALONE(TILE_THREADS)
conv_bwd_stream(const Element* dy, const Element* wei, Element* dx, unsigned char* maps, CONV_PARAMETERS, int blocks) {
    const Conv v = {CONV_SIZES};
    stream_pixels<false>(wei, output_images(v, dy, 0), {dx, n, c, v.in_channels(), h * w}, g, maps, blocks);
}
#endif
