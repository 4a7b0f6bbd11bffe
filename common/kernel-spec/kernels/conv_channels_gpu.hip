// Convolutions of images that lie channels last as products, whose vectors are channels of one pixel: k runs over taps and
// within a tap over the channels of a group. NHWC images lie so, others are laid out so first, in the workspace.
#pragma once
#include "conv_operands_gpu.hip"

#if CHANNELS
// k counts the channels of a group, tap by tap; this tells which tap and which channel k is. CHANNELS is how many channels a tap has, so that
// divisions by it are cheap. Where it is -1, any power of two from eight on may be passed at run time: such convolutions have one code object. Weight
// gradients have it so; the other directions, which divide in their inner loops, lose 5 to 9 % by it on an H100.
struct Channels {
    int shift;

    DEVICE explicit Channels(int count) : shift(31 - leading_zeros(count)) {}
    DEVICE int count() const { return CHANNELS > 0 ? CHANNELS : 1 << shift; }
    DEVICE int tap(int k) const { return CHANNELS > 0 ? k / CHANNELS : k >> shift; }
    DEVICE int channel(int k) const { return CHANNELS > 0 ? k % CHANNELS : k & ((1 << shift) - 1); }
    // Vectors of so many elements, or of a divisor of it, are never of two taps.
    static constexpr int align = CHANNELS > 0 && CHANNELS % 8 != 0 ? CHANNELS & -CHANNELS : 8;
};

// Where the workspace goes on behind so many elements.
DEVICE Element* behind(Element* from, int elements) { return from + (elements + 127ll) / 128 * 128; }

// Copies `from`, images x channels x pixels, to `to`, images x pixels x channels, whose channels are even: tile `block` of an image, 64
// channels of 32 pixels a block of 256 threads.
DEVICE void channels_last(const Element* from, Element* to, int channels, int pixels, int block) {
    SHARED Element tile[64][33];
    const int across = ceil_div(pixels, 32), thread = thread_x();
    const int pixel0 = block % across * 32, channel0 = block / across * 64;
    const long long image = (long long)block_y() * channels * pixels;
#pragma unroll
    for (int i = 0; i < 64; i += 8) {
        const int channel = channel0 + thread / 32 + i, pixel = pixel0 + thread % 32;
        if (channel < channels && pixel < pixels) tile[thread / 32 + i][thread % 32] = from[image + channel * pixels + pixel];
    }
    barrier();
    const int pair = thread % 32 * 2, channel = channel0 + pair;
#pragma unroll
    for (int i = 0; i < 32; i += 8) {
        const int row = thread / 32 + i, pixel = pixel0 + row;
        if (channel >= channels || pixel >= pixels) continue;
        *(Vec<Element, 2>*)(to + image + pixel * channels + channel) = Vec<Element, 2>{tile[pair][row], tile[pair + 1][row]};
    }
}

// Copies weights, out x in x taps of each group, to rows x taps x summed channels: rows are output channels, or input ones
// with BY_INPUT.
template <bool BY_INPUT>
DEVICE void filters_by_tap(const Element* from, Element* to, int in_channels, int out_channels, int elements) {
    const int index = block_x() * 256 + thread_x();
    if (index >= elements) return;
    const int rows = BY_INPUT ? in_channels : out_channels, summed = BY_INPUT ? out_channels : in_channels;
    const int channel = index % summed, tap = index / summed % TAPS, row = index / summed / TAPS % rows;
    const int group = index / summed / TAPS / rows;
    const int out = BY_INPUT ? channel : row, in = BY_INPUT ? row : channel;
    to[index] = from[((group * out_channels + out) * in_channels + in) * TAPS + tap];
}

// Element (outer, k): the channel of k, of the pixel that the tap of k meets at pixel `outer` of all images.
// Forward it is an input pixel, at `outer` * stride - pad + tap * dilation; backward an output one, (`outer` + pad - tap *
// dilation) / stride, where that divides.
template <bool FORWARD> struct TapPixels {
    static constexpr bool along_k = true, gathers = false;
    static constexpr int align = Channels::align;
    const Element* data;
    Channels channels;
    // Channels of all groups; what is read, height x width of `images`; what `outer` counts.
    int all_channels, images, height, width, outer_height, outer_width;
    int ph, pw, dh, dw;

    struct Slot {
        int image, y, x;
    };
    DEVICE Slot slot(int outer) const {
        const int pixels = outer_height * outer_width, image = outer / pixels, pixel = outer % pixels;
        // Beyond the last image: a row that no tap reaches.
        if (image >= images) return {0, -(1 << 30), 0};
        const int y = pixel / outer_width, x = pixel % outer_width;
        return {image * height, FORWARD ? y * SH - ph : y + ph, FORWARD ? x * SW - pw : x + pw};
    }
    DEVICE Slot met(Slot s, int k) const {
        const int tap = channels.tap(k), r = tap / FX * dh, c = tap % FX * dw;
        if (FORWARD) return {s.image, s.y + r, s.x + c};
        const int y = s.y - r, x = s.x - c;
        if ((SH > 1 && y % SH != 0) || (SW > 1 && x % SW != 0)) return {s.image, -1, 0};
        return {s.image, y / SH, x / SW};
    }
    template <int V> DEVICE bool contiguous() const { return align % V == 0; }
    DEVICE const Element* address(Slot s, int k) const {
        const Slot at = met(s, k);
        return data + (((at.image + at.y) * width + at.x) * all_channels + channels.channel(k));
    }
    DEVICE bool inside(Slot s, int k) const {
        const Slot at = met(s, k);
        return k < channels.count() * TAPS && (unsigned)at.y < (unsigned)height && (unsigned)at.x < (unsigned)width;
    }
    template <int V> DEVICE Vec<Element, V> load(Slot s, int k) const {
        if (contiguous<V>()) return load_vector<V>(address(s, k), inside(s, k));
        Vec<Element, V> out = {};
#pragma unroll
        for (int j = 0; j < V; ++j) {
            if (inside(s, k + j)) out[j] = *address(s, k + j);
        }
        return out;
    }
};

// Backward. Element (outer, k): weight of input channel `outer`, at the output channel and the tap of k.
template <int ALIGN> struct TapWeights {
    static constexpr bool along_k = false, gathers = false;
    static constexpr int align = ALIGN;
    const Element* data;
    Channels channels;
    int in_channels;

    struct Slot {
        int channel;
    };
    DEVICE Slot slot(int outer) const { return {outer}; }
    template <int V> DEVICE bool contiguous() const { return divides<V, ALIGN>(in_channels); }
    DEVICE const Element* address(Slot s, int k) const {
        return data + ((channels.channel(k) * TAPS + channels.tap(k)) * in_channels + s.channel);
    }
    DEVICE bool inside(Slot s, int k) const { return s.channel < in_channels && k < channels.count() * TAPS; }
    template <int V> DEVICE Vec<Element, V> load(Slot s, int k) const {
        if (contiguous<V>()) return load_vector<V>(address(s, k), inside(s, k));
        Vec<Element, V> out = {};
#pragma unroll
        for (int j = 0; j < V; ++j) {
            if (inside({s.channel + j}, k)) out[j] = *address({s.channel + j}, k);
        }
        return out;
    }
};

// Weights. Here `outer` counts channels and taps. Element (outer, k): the channel of `outer`, of the input pixel that its tap meets at output pixel
// k of all images.
struct TapChannels {
    static constexpr bool along_k = false, gathers = false;
    static constexpr int align = Channels::align;
    const Element* data;
    Channels channels;
    Conv of;

    struct Slot {
        int outer, y, x;
    };
    DEVICE Slot slot(int outer) const {
        const int tap = channels.tap(outer);
        // Beyond the last tap: a row that no pixel reaches.
        if (tap >= TAPS) return {outer, -(1 << 30), 0};
        return {outer, tap / FX * of.dh - of.ph, tap % FX * of.dw - of.pw};
    }
    // The input pixel at output pixel k, its row counted from the first image on, and whether there is one.
    struct Met {
        int row, column;
        bool exists;
    };
    DEVICE Met met(Slot s, int k) const {
        const int pixels = of.oh * of.ow, image = k / pixels, pixel = k % pixels;
        const int y = s.y + pixel / of.ow * SH, x = s.x + pixel % of.ow * SW;
        return {image * of.h + y, x, image < of.n && (unsigned)y < (unsigned)of.h && (unsigned)x < (unsigned)of.w};
    }
    template <int V> DEVICE bool contiguous() const { return align % V == 0; }
    DEVICE const Element* address(Slot s, int k) const {
        const Met at = met(s, k);
        return data + ((at.row * of.w + at.column) * of.c + channels.channel(s.outer));
    }
    DEVICE bool inside(Slot s, int k) const { return met(s, k).exists; }
    template <int V> DEVICE Vec<Element, V> load(Slot s, int k) const {
        if (contiguous<V>()) return load_vector<V>(address(s, k), inside(s, k));
        Vec<Element, V> out = {};
#pragma unroll
        for (int j = 0; j < V; ++j) {
            const Slot at = slot(s.outer + j);
            if (inside(at, k)) out[j] = *address(at, k);
        }
        return out;
    }
};
#endif
