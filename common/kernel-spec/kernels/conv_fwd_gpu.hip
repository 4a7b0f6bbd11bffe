// y(n, k, oy, ox) = sum over c, r, s of x(n, c, oy * sh - ph + r * dh, ox * sw - pw + s * dw) * w(k, c, r, s).
#include "conv_channels_gpu.hip"

#if defined(REFERENCE)
KERNEL BLOCK_OF(256) conv_fwd_reference(const Element* x, const Element* wei, Element* y, CONV_PARAMETERS) {
    const Conv v = {CONV_SIZES};
    const int index = block_x() * 256 + thread_x();
    const int pixels = oh * ow;
    if (index >= n * k * pixels) return;
    const Cell at = cell_of(k, pixels, index);
    const int pixel = at.place, channel = at.channel, image = index / pixels / k;
    const int in_channels = v.in_channels(), group = channel / v.out_channels();
    // FP64, so that the reference's own rounding is no part of the comparison.
    double sum = 0;
    for (int r = 0; r < fy; ++r) {
        const int row = pixel / ow * sh - ph + r * dh;
        if (row < 0 || row >= h) continue;
        for (int s = 0; s < fx; ++s) {
            const int column = pixel % ow * sw - pw + s * dw;
            if (column < 0 || column >= w) continue;
            const Element* value = x + image_at(c, h * w, image, group * in_channels, row * w + column);
            const Element* weight = wei + weight_at(in_channels, fy * fx, channel, 0, r * fx + s);
            // From one channel to the next.
            const int value_step = image_at(c, h * w, 0, 1, 0), weight_step = weight_at(in_channels, fy * fx, 0, 1, 0);
            for (int i = 0; i < in_channels; ++i) {
                sum += (double)(float)value[i * value_step] * (float)weight[i * weight_step];
            }
        }
    }
    y[index] = (Element)(float)sum;
}
#endif

#if defined(DIRECT)
// A block computes TK channels of a TH x TW tile of one image: CC input channels at a time, the patch under the tile and
// the filters lie in shared memory. A thread keeps TK channels of PX pixels, TW / PX apart in a row.
constexpr int TILE_THREADS = TH * TW / PX;
constexpr int PATCH_H = (TH - 1) * SH + (FY - 1) * DH + 1;
constexpr int PATCH_W = (TW - 1) * SW + (FX - 1) * DW + 1;

KERNEL BLOCK_OF(TILE_THREADS) conv_fwd_direct(const Element* x, const Element* wei, Element* y, CONV_PARAMETERS) {
    SHARED float patch[CC][PATCH_H * PATCH_W];
    SHARED float filters[CC][FY * FX][TK];
    const Conv v = {CONV_SIZES};
    const int in_channels = v.in_channels(), out_channels = v.out_channels(), group = block_z();
    const int tiles_x = ceil_div(ow, TW), tiles = tiles_x * ceil_div(oh, TH);
    const int image = block_x() / tiles, tile = block_x() % tiles;
    const int tile_y = tile / tiles_x * TH, tile_x = tile % tiles_x * TW;
    const int top = tile_y * SH - ph, left = tile_x * SW - pw;
    const int channel0 = block_y() * TK;
    const int thread = thread_x();
    const int across = thread % (TW / PX), down = thread / (TW / PX);

    float sums[PX][TK] = {};
#pragma unroll 1
    for (int i = 0; i < in_channels; i += CC) {
        barrier();
        for (int at = thread; at < CC * PATCH_H * PATCH_W; at += TILE_THREADS) {
            const auto [channel, place] = cell_of(CC, PATCH_H * PATCH_W, at);
            const int row = top + place / PATCH_W, column = left + place % PATCH_W;
            const bool inside = i + channel < in_channels && row >= 0 && row < h && column >= 0 && column < w;
            const int from = image_at(c, h * w, image, group * in_channels + i + channel, row * w + column);
            patch[channel][place] = inside ? (float)x[from] : 0.0f;
        }
        for (int at = thread; at < TK * CC * FY * FX; at += TILE_THREADS) {
            const auto [channel, tap] = cell_of(CC, FY * FX, at);
            const int out = at / (CC * FY * FX), filter = group * out_channels + channel0 + out;
            const bool inside = channel0 + out < out_channels && i + channel < in_channels;
            const int from = weight_at(in_channels, FY * FX, filter, i + channel, tap);
            filters[channel][tap][out] = inside ? (float)wei[from] : 0.0f;
        }
        barrier();
#pragma unroll 1
        for (int channel = 0; channel < CC; ++channel) {
#pragma unroll 1
            for (int r = 0; r < FY; ++r) {
                const float* row = &patch[channel][(down * SH + r * DH) * PATCH_W];
#pragma unroll
                for (int s = 0; s < FX; ++s) {
#pragma unroll
                    for (int p = 0; p < PX; ++p) {
                        const float value = row[(across + p * (TW / PX)) * SW + s * DW];
#pragma unroll
                        for (int t = 0; t < TK; ++t) {
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
        if (row >= oh || column >= ow) continue;
#pragma unroll
        for (int t = 0; t < TK; ++t) {
            if (channel0 + t >= out_channels) continue;
            const int channel = group * out_channels + channel0 + t;
            y[image_at(k, oh * ow, image, channel, row * ow + column)] = (Element)sums[p][t];
        }
    }
}
#endif

#if defined(IMPLICIT) || defined(MATRIX)
// As a product: rows are output channels, columns output pixels of all images, k runs over input channels and taps. In NHWC
// it is turned, so that what is written side by side lies so, and k runs over taps and channels.
#if defined(WARPGROUP)
#include "warpgroup_tile_gpu.hip"
#elif defined(MATRIX)
#include "matrix_tile_gpu.hip"
#else
#include "vector_tile_gpu.hip"
#endif

KERNEL BLOCK_OF(TILE_THREADS) conv_fwd_tile(const Element* x, const Element* wei, Element* y, CONV_PARAMETERS) {
    const Conv v = {CONV_SIZES};
    const int group = block_z();
    // Neighbouring blocks share pixels: the images are larger than the weights.
#if NHWC
    const Channels channels(v.in_channels());
    const int rows = n * oh * ow, columns = v.out_channels(), depth = channels.count() * TAPS, across = ceil_div(columns, BN);
    const int row0 = block_x() / across * BM, column0 = block_x() % across * BN;
    const TapPixels<true> pixels = {x + group * channels.count(), channels, c, n, h, w, oh, ow, ph, pw, dh, dw};
    const Matrix<true, ALIGN_B> weights = {wei + group * columns * depth, columns, depth};
    const MatrixOut<Element, ALIGN_C> out = {y + group * columns, rows, columns, k};
    tile_loop(pixels, weights, out, row0, column0, {0, depth});
#else
    const int rows = v.out_channels(), depth = v.in_channels() * TAPS, down = ceil_div(rows, BM);
    const int row0 = block_x() % down * BM, column0 = block_x() / down * BN;
    const Matrix<true, ALIGN_A> weights = {wei + group * rows * depth, rows, depth};
    const PixelColumnsOut<ALIGN_C> out = {{y + group * rows * oh * ow, n, k, rows, oh * ow}};
#if POINTWISE
    const auto pixels = pixel_columns<ALIGN_B>(input_images(v, x, group));
#else
    const InputPatches pixels = {x + group * v.in_channels() * h * w, v};
#endif
    tile_loop(weights, pixels, out, row0, column0, {0, depth});
#endif
}
#endif

#if defined(CHANNELS_LAST)
// The same with x and the weights laid out anew in the workspace, one behind the other: k runs over taps and channels.
#if defined(WARPGROUP)
#include "warpgroup_tile_gpu.hip"
#else
#include "matrix_tile_gpu.hip"
#endif

KERNEL BLOCK_OF(256) conv_fwd_channels_last(const Element* x, Element* workspace, int channels, int pixels) {
    channels_last(x, workspace, channels, pixels, block_x());
}

KERNEL BLOCK_OF(256) conv_fwd_filters_by_tap(const Element* wei, Element* workspace, CONV_PARAMETERS) {
    const Conv v = {CONV_SIZES};
    filters_by_tap<false>(wei, behind(workspace, n * c * h * w), v.in_channels(), v.out_channels(),
                          k * v.in_channels() * TAPS);
}

KERNEL BLOCK_OF(TILE_THREADS) conv_fwd_taps(Element* workspace, Element* y, CONV_PARAMETERS) {
    const Conv v = {CONV_SIZES};
    const int group = block_z(), rows = v.out_channels();
    const Channels channels(v.in_channels());
    const int depth = channels.count() * TAPS, down = ceil_div(rows, BM);
    const int row0 = block_x() % down * BM, column0 = block_x() / down * BN;
    const Matrix<true, ALIGN_A> weights = {behind(workspace, n * c * h * w) + group * rows * depth, rows, depth};
    const Element* from = workspace + group * channels.count();
    const TapPixels<true> pixels = {from, channels, c, n, h, w, oh, ow, ph, pw, dh, dw};
    const PixelColumnsOut<ALIGN_C> out = {{y + group * rows * oh * ow, n, k, rows, oh * ow}};
    tile_loop(weights, pixels, out, row0, column0, {0, depth});
}
#endif

#if defined(STREAM)
#include "conv_stream_gpu.hip"

KERNEL BLOCK_ALONE(TILE_THREADS)
conv_fwd_stream(const Element* x, const Element* wei, Element* y, unsigned char* maps, CONV_PARAMETERS, int blocks) {
    const Conv v = {CONV_SIZES};
    stream_pixels<true>(wei, input_images(v, x, 0), {y, n, k, v.out_channels(), oh * ow}, g, maps, blocks);
}
#endif
