// dw(k, c, r, s) = sum over n, oy, ox of dy(n, k, oy, ox) * x(n, c, oy * sh - ph + r * dh, ox * sw - pw + s * dw).
#include "conv_channels_gpu.hip"

#if defined(REFERENCE)
// Threads that share a weight: there may be few weights, each of many pixels.
constexpr int SHARERS = 32;

KERNEL BLOCK_OF(256) conv_wrw_reference(const Element* x, const Element* dy, Element* dwei, CONV_PARAMETERS) {
    SHARED double parts[256];
    const Conv v = {CONV_SIZES};
    const int thread = thread_x(), index = block_x() * (256 / SHARERS) + thread / SHARERS, sharer = thread % SHARERS;
    const int in_channels = v.in_channels(), pixels = oh * ow;
    const bool is_one = index < k * in_channels * fy * fx;
    // FP64, so that the reference's own rounding is no part of the comparison.
    double sum = 0;
    if (is_one) {
        const auto [in, tap] = cell_of(in_channels, fy * fx, index);
        const int s = tap % fx, r = tap / fx, channel = index / (fy * fx) / in_channels;
        const int group = channel / v.out_channels();
        for (int at = sharer; at < n * pixels; at += SHARERS) {
            const int image = at / pixels, pixel = at % pixels;
            const int row = pixel / ow * sh - ph + r * dh, column = pixel % ow * sw - pw + s * dw;
            if (row < 0 || row >= h || column < 0 || column >= w) continue;
            const Element gradient = dy[image_at(k, pixels, image, channel, pixel)];
            const int from = image_at(c, h * w, image, group * in_channels + in, row * w + column);
            sum += (double)(float)gradient * (float)x[from];
        }
    }
    parts[thread] = sum;
    barrier();
    if (!is_one || sharer != 0) return;
    for (int other = 1; other < SHARERS; ++other) sum += parts[thread + other];
    dwei[index] = (Element)(float)sum;
}
#endif

#if defined(DIRECT)
// A block computes one tap of TK x TC filters: its threads share the output pixels of all images, each keeps TK x TC
// sums, which meet at the end, within a wave by exchange and between the waves through shared memory.
constexpr int WAVES = BLOCK / WAVE;

KERNEL BLOCK_OF(BLOCK) conv_wrw_direct(const Element* x, const Element* dy, Element* dwei, CONV_PARAMETERS) {
    SHARED float parts[WAVES][TK * TC];
    const Conv v = {CONV_SIZES};
    const int in_channels = v.in_channels(), out_channels = v.out_channels(), group = block_z();
    const int tiles = ceil_div(in_channels, TC);
    const int channel0 = block_x() / tiles * TK, in0 = block_x() % tiles * TC;
    const int r = block_y() / FX, s = block_y() % FX;
    const int thread = thread_x(), lane = thread % WAVE;
    const int pixels = oh * ow, total = n * pixels;

    float sums[TK][TC] = {};
    for (int at = thread; at < total; at += BLOCK) {
        const int image = at / pixels, pixel = at % pixels;
        const int row = pixel / ow * SH - ph + r * dh, column = pixel % ow * SW - pw + s * dw;
        if (row < 0 || row >= h || column < 0 || column >= w) continue;
        const Element* gradient = dy + image_at(k, pixels, image, group * out_channels, pixel);
        const Element* from = x + image_at(c, h * w, image, group * in_channels, row * w + column);
        // From one channel to the next.
        const int gradient_step = image_at(k, pixels, 0, 1, 0), from_step = image_at(c, h * w, 0, 1, 0);
        float left[TK], right[TC];
        // Channels beyond the last are computed from the last and not stored.
#pragma unroll
        for (int t = 0; t < TK; ++t) left[t] = gradient[min(channel0 + t, out_channels - 1) * gradient_step];
#pragma unroll
        for (int t = 0; t < TC; ++t) right[t] = from[min(in0 + t, in_channels - 1) * from_step];
#pragma unroll
        for (int a = 0; a < TK; ++a) {
#pragma unroll
            for (int b = 0; b < TC; ++b) sums[a][b] = fma(left[a], right[b], sums[a][b]);
        }
    }

#pragma unroll
    for (int a = 0; a < TK; ++a) {
#pragma unroll
        for (int b = 0; b < TC; ++b) {
            const float sum = wave_sum(sums[a][b], lane);
            if (lane == 0) parts[thread / WAVE][a * TC + b] = sum;
        }
    }
    barrier();
    if (thread >= TK * TC) return;
    const int channel = channel0 + thread / TC, in = in0 + thread % TC;
    if (channel >= out_channels || in >= in_channels) return;
    float sum = 0;
    for (int i = 0; i < WAVES; ++i) sum += parts[i][thread];
    dwei[weight_at(in_channels, FY * FX, group * out_channels + channel, in, r * FX + s)] = (Element)sum;
}
#endif

#if defined(IMPLICIT) || defined(MATRIX) || defined(CHANNELS_LAST)
// As a product: rows are output channels, columns input channels and taps (in NHWC taps and channels, as they lie in the
// weights), k runs over the output pixels of all images, perhaps split among SPLIT blocks, whose parts a second kernel sums.
#if defined(WARPGROUP)
#include "warpgroup_tile_gpu.hip"
#elif defined(MATRIX) || defined(CHANNELS_LAST)
#include "matrix_tile_gpu.hip"
#else
#include "vector_tile_gpu.hip"
#endif

template <class Out>
DEVICE void weights_tile(const Conv& v, const Element* x, const Element* dy, const Out& out, Span span) {
    const int group = block_z(), down = ceil_div(out.rows, BM);
    const int row0 = block_x() % down * BM, column0 = block_x() / down * BN;
#if CHANNELS
    const Matrix<false, ALIGN_A> gradients = {dy + group * out.rows, out.rows, v.n * v.oh * v.ow, v.k};
    const Channels channels(v.in_channels());
    const TapChannels inputs = {x + group * channels.count(), channels, v};
#else
    const auto gradients = pixel_rows<ALIGN_A>(output_images(v, dy, group));
#if POINTWISE
    const auto inputs = pixel_rows<ALIGN_B>(input_images(v, x, group));
#else
    const InputTaps inputs = {x + group * v.in_channels() * v.h * v.w, v};
#endif
#endif
    tile_loop(gradients, inputs, out, row0, column0, span);
}

#if defined(CHANNELS_LAST)
// The same with x and dy laid out anew in the workspace, one behind the other, and the parts behind them. One launch for both images:
// small ones take less time than a launch.
KERNEL BLOCK_OF(256) conv_wrw_channels_last(const Element* x, const Element* dy, Element* workspace, CONV_PARAMETERS) {
    const int tiles = ceil_div(h * w, 32) * ceil_div(c, 64);
    const bool is_x = block_x() < tiles;
    channels_last(is_x ? x : dy, is_x ? workspace : behind(workspace, n * c * h * w), is_x ? c : k, is_x ? h * w : oh * ow,
                  is_x ? block_x() : block_x() - tiles);
}

// What is written where nothing has to be summed: a row is an output channel, a column tap and input channel.
struct WeightsOut {
    Element* data;
    Channels channels;
    int rows;

    template <int V> DEVICE void store(int row, int column, Vec<float, V> value) const {
        if (row >= rows) return;
#pragma unroll
        for (int j = 0; j < V; ++j) {
            const int k = column + j;
            if (k >= channels.count() * TAPS) continue;
            data[(row * channels.count() + channels.channel(k)) * TAPS + channels.tap(k)] = (Element)value[j];
        }
    }
};

KERNEL BLOCK_OF(TILE_THREADS) conv_wrw_taps(Element* workspace, Element* dwei, CONV_PARAMETERS) {
    const Conv v = {CONV_SIZES};
    const int rows = v.out_channels(), columns = v.in_channels() * TAPS;
    Element* dy = behind(workspace, n * c * h * w);
#if SPLIT > 1
    float* part = (float*)behind(dy, n * k * oh * ow) + (block_y() * (long long)g + block_z()) * rows * columns;
    weights_tile(v, workspace, dy, MatrixOut<float, ALIGN_C>{part, rows, columns}, span_of(n * oh * ow, BK, block_y(), SPLIT));
#elif FY * FX > 1
    const WeightsOut out = {dwei + block_z() * rows * columns, Channels(v.in_channels()), rows};
    weights_tile(v, workspace, dy, out, {0, n * oh * ow});
#else
    weights_tile(v, workspace, dy, MatrixOut<Element, ALIGN_C>{dwei + block_z() * rows * columns, rows, columns}, {0, n * oh * ow});
#endif
}

// Sums the parts, whose taps lie around the channels, to weights whose taps lie within.
KERNEL BLOCK_OF(256) conv_wrw_reduce_taps(Element* workspace, Element* dwei, CONV_PARAMETERS) {
    const Channels channels(c / g);
    const int index = block_x() * 256 + thread_x(), elements = k * channels.count() * TAPS;
    if (index >= elements) return;
    const int tap = index % TAPS, channel = channels.channel(index / TAPS), filter = channels.tap(index / TAPS);
    const float* parts = (const float*)behind(behind(workspace, n * c * h * w), n * k * oh * ow);
    const long long from = (filter * TAPS + tap) * channels.count() + channel;
    float sum = 0;
    for (int p = 0; p < SPLIT; ++p) sum += parts[p * (long long)elements + from];
    dwei[index] = (Element)sum;
}
#elif SPLIT > 1
KERNEL BLOCK_OF(TILE_THREADS)
conv_wrw_tile_split(const Element* x, const Element* dy, float* partial, CONV_PARAMETERS) {
    const Conv v = {CONV_SIZES};
    const int rows = v.out_channels(), columns = v.in_channels() * TAPS;
    float* part = partial + (block_y() * (long long)g + block_z()) * rows * columns;
    weights_tile(v, x, dy, MatrixOut<float, ALIGN_C>{part, rows, columns}, span_of(n * oh * ow, BK, block_y(), SPLIT));
}

KERNEL BLOCK_OF(256) conv_wrw_reduce(const float* partial, Element* dwei, int elements) {
    reduce_parts(partial, dwei, elements, SPLIT, block_x() * 256 + thread_x());
}
#else
KERNEL BLOCK_OF(TILE_THREADS) conv_wrw_tile(const Element* x, const Element* dy, Element* dwei, CONV_PARAMETERS) {
    const Conv v = {CONV_SIZES};
    const int rows = v.out_channels(), columns = v.in_channels() * TAPS;
    Element* group_weights = dwei + block_z() * rows * columns;
    weights_tile(v, x, dy, MatrixOut<Element, ALIGN_C>{group_weights, rows, columns}, {0, n * oh * ow});
}
#endif
#endif
