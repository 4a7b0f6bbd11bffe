// A grouped 2D convolution as a matrix product, group by group: the tensors seen as the operands of a tile loop. Those here
// are of NCHW; NHWC, where channels lie innermost in images and in filters, has its own (conv_channels_gpu.hip).
// FY, FX, SH and SW (filter size, stride) are baked in, so that divisions by them are cheap; POINTWISE says that the
// filter is 1 x 1 with stride 1 and no padding, where an image is a matrix of channels x pixels as it lies in memory.
#pragma once
#include "tile_operands_gpu.hip"

// Sizes in the forward sense, all convolution kernels take them in this order.
#define CONV_PARAMETERS                                                                                               \
    int n, int c, int h, int w, int k, int g, int fy, int fx, int oh, int ow, int ph, int pw, int sh, int sw, int dh, \
        int dw
#define CONV_SIZES n, c, h, w, k, g, fy, fx, oh, ow, ph, pw, sh, sw, dh, dw

struct Conv {
    int n, c, h, w, k, g, fy, fx, oh, ow, ph, pw, sh, sw, dh, dw;

    // Channels of a group.
    DEVICE int in_channels() const { return c / g; }
    DEVICE int out_channels() const { return k / g; }
};

// Where an element lies in images of so many channels (of all groups) and pixels.
DEVICE int image_at(int channels, int pixels, int image, int channel, int pixel) {
    return NHWC ? (image * pixels + pixel) * channels + channel : (image * channels + channel) * pixels + pixel;
}
// Where a weight lies in filters of so many channels (of a group) and taps.
DEVICE int weight_at(int channels, int taps, int filter, int channel, int tap) {
    return NHWC ? (filter * taps + tap) * channels + channel : (filter * channels + channel) * taps + tap;
}
// Which channel and which place (pixel or tap) is at `index` of so many of both, image after image or filter after filter.
struct Cell {
    int channel, place;
};
DEVICE Cell cell_of(int channels, int places, int index) {
    return NHWC ? Cell{index % channels, index / channels % places} : Cell{index / places % channels, index % places};
}

// Images (n x channels of all groups x pixels) from the first channel of a group on.
template <class T> struct Images {
    T* data;
    int images, channels, group_channels, pixels;

    DEVICE int image_size() const { return channels * pixels; }
};

DEVICE Images<const Element> input_images(const Conv& v, const Element* x, int group) {
    return {x + group * v.in_channels() * v.h * v.w, v.n, v.c, v.in_channels(), v.h * v.w};
}
DEVICE Images<const Element> output_images(const Conv& v, const Element* y, int group) {
    return {y + group * v.out_channels() * v.oh * v.ow, v.n, v.k, v.out_channels(), v.oh * v.ow};
}

// V elements of one channel that follow each other by (image, pixel); `left` of them exist.
template <int V>
DEVICE Vec<Element, V> load_pixels(const Images<const Element>& of, const Element* from, int pixel, int left) {
    Vec<Element, V> out = {};
#pragma unroll
    for (int j = 0; j < V; ++j) {
        if (j < left) out[j] = *from;
        ++from;
        if (++pixel == of.pixels) {
            pixel = 0;
            from += of.image_size() - of.pixels;
        }
    }
    return out;
}

// Element (outer, k): channel k of pixel `outer` of all images. ALIGN is what `align` is.
template <int ALIGN> struct PixelColumns {
    static constexpr bool along_k = false, gathers = false;
    static constexpr int align = ALIGN;
    const Element* data;
    Images<const Element> of;

    struct Slot {
        int offset, pixel, left;
    };
    DEVICE Slot slot(int outer) const {
        const int image = outer / of.pixels, pixel = outer % of.pixels;
        return {image * of.image_size() + pixel, pixel, of.images * of.pixels - outer};
    }
    template <int V> DEVICE bool contiguous() const { return divides<V, ALIGN>(of.pixels); }
    DEVICE const Element* address(Slot s, int k) const { return data + (s.offset + k * of.pixels); }
    DEVICE bool inside(Slot s, int k) const { return s.left > 0 && k < of.group_channels; }
    template <int V> DEVICE Vec<Element, V> load(Slot s, int k) const {
        if (contiguous<V>()) return load_vector<V>(address(s, k), inside(s, k));
        return load_pixels<V>(of, address(s, k), s.pixel, inside(s, k) ? s.left : 0);
    }
};
template <int ALIGN> DEVICE PixelColumns<ALIGN> pixel_columns(const Images<const Element>& of) { return {of.data, of}; }

// Element (outer, k): channel `outer` of pixel k of all images. ALIGN is what `align` is.
template <int ALIGN> struct PixelRows {
    static constexpr bool along_k = true, gathers = false;
    static constexpr int align = ALIGN;
    const Element* data;
    Images<const Element> of;

    struct Slot {
        int offset;
        bool exists;
    };
    DEVICE Slot slot(int outer) const { return {outer * of.pixels, outer < of.group_channels}; }
    template <int V> DEVICE bool contiguous() const { return divides<V, ALIGN>(of.pixels); }
    DEVICE const Element* address(Slot s, int k) const {
        const int image = k / of.pixels, pixel = k % of.pixels;
        return data + (image * of.image_size() + s.offset + pixel);
    }
    DEVICE bool inside(Slot s, int k) const { return s.exists && k < of.images * of.pixels; }
    template <int V> DEVICE Vec<Element, V> load(Slot s, int k) const {
        if (contiguous<V>()) return load_vector<V>(address(s, k), inside(s, k));
        return load_pixels<V>(of, address(s, k), k % of.pixels, s.exists ? of.images * of.pixels - k : 0);
    }
};
template <int ALIGN> DEVICE PixelRows<ALIGN> pixel_rows(const Images<const Element>& of) { return {of.data, of}; }

// What is written: row = channel, column = pixel of all images. ALIGN is what `align` is.
template <int ALIGN> struct PixelColumnsOut {
    Images<Element> of;

    template <int V> DEVICE void store(int row, int column, Vec<float, V> value) const {
        if (row >= of.group_channels) return;
        const int left = of.images * of.pixels - column;
        if (left <= 0) return;
        const int image = column / of.pixels;
        int pixel = column % of.pixels;
        Element* to = of.data + (image * of.image_size() + row * of.pixels + pixel);
        if (divides<V, ALIGN>(of.pixels)) {
            *(Vec<Element, V>*)to = convert<Element>(value);
            return;
        }
        if constexpr (V == 8) {
            if (divides<4, ALIGN>(of.pixels)) {
                store<4>(row, column, Vec<float, 4>{value[0], value[1], value[2], value[3]});
                store<4>(row, column + 4, Vec<float, 4>{value[4], value[5], value[6], value[7]});
                return;
            }
        }
#pragma unroll
        for (int j = 0; j < V; ++j) {
            if (j < left) *to = (Element)value[j];
            ++to;
            if (++pixel == of.pixels) {
                pixel = 0;
                to += of.image_size() - of.pixels;
            }
        }
    }
};

#if defined(FY)
constexpr int TAPS = FY * FX;

// Forward. Element (outer, k): the input under tap k % TAPS of output pixel `outer`, channel k / TAPS.
struct InputPatches {
    static constexpr bool along_k = false, gathers = true;
    static constexpr int align = 1;
    const Element* data;
    Conv of;

    struct Slot {
        int offset, y, x;
    };
    DEVICE Slot slot(int outer) const {
        const int pixels = of.oh * of.ow, image = outer / pixels, pixel = outer % pixels;
        // Beyond the last image: a row that no tap reaches.
        if (image >= of.n) return {0, -(1 << 30), 0};
        return {image * of.c * of.h * of.w, pixel / of.ow * SH - of.ph, pixel % of.ow * SW - of.pw};
    }
    template <int V> DEVICE Vec<Element, V> load(Slot s, int k) const {
        static_assert(V == 1);
        const int channel = k / TAPS, tap = k % TAPS;
        const int y = s.y + tap / FX * of.dh, x = s.x + tap % FX * of.dw;
        if (channel >= of.in_channels() || (unsigned)y >= (unsigned)of.h || (unsigned)x >= (unsigned)of.w) return {};
        return Vec<Element, V>{data[s.offset + (channel * of.h + y) * of.w + x]};
    }
};

// Backward. Element (outer, k): the output gradient that met input pixel `outer` through tap k % TAPS, channel k / TAPS.
struct OutputPatches {
    static constexpr bool along_k = false, gathers = true;
    static constexpr int align = 1;
    const Element* data;
    Conv of;

    struct Slot {
        int offset, y, x;
    };
    DEVICE Slot slot(int outer) const {
        const int pixels = of.h * of.w, image = outer / pixels, pixel = outer % pixels;
        if (image >= of.n) return {0, -(1 << 30), 0};
        return {image * of.k * of.oh * of.ow, pixel / of.w + of.ph, pixel % of.w + of.pw};
    }
    template <int V> DEVICE Vec<Element, V> load(Slot s, int k) const {
        static_assert(V == 1);
        const int channel = k / TAPS, tap = k % TAPS;
        const int y = s.y - tap / FX * of.dh, x = s.x - tap % FX * of.dw;
        if (channel >= of.out_channels() || y < 0 || x < 0 || y % SH != 0 || x % SW != 0) return {};
        if (y / SH >= of.oh || x / SW >= of.ow) return {};
        return Vec<Element, V>{data[s.offset + (channel * of.oh + y / SH) * of.ow + x / SW]};
    }
};

// Backward. Element (outer, k): weight of input channel `outer`, output channel k / TAPS, tap k % TAPS.
struct WeightsByInput {
    static constexpr bool along_k = true, gathers = true;
    static constexpr int align = 1;
    const Element* data;
    Conv of;

    struct Slot {
        int channel;
    };
    DEVICE Slot slot(int outer) const { return {outer}; }
    template <int V> DEVICE Vec<Element, V> load(Slot s, int k) const {
        const int in_channels = of.in_channels(), depth = of.out_channels() * TAPS;
        Vec<Element, V> out = {};
#pragma unroll
        for (int j = 0; j < V; ++j) {
            const int at = k + j;
            if (s.channel < in_channels && at < depth) {
                out[j] = data[(at / TAPS * in_channels + s.channel) * TAPS + at % TAPS];
            }
        }
        return out;
    }
};

// Weights. Element (outer, k): the input under tap outer % TAPS of channel outer / TAPS at output pixel k of all images.
struct InputTaps {
    static constexpr bool along_k = true, gathers = true;
    static constexpr int align = 1;
    const Element* data;
    Conv of;

    struct Slot {
        int offset, y, x;
    };
    DEVICE Slot slot(int outer) const {
        const int channel = outer / TAPS, tap = outer % TAPS;
        if (channel >= of.in_channels()) return {0, -(1 << 30), 0};
        return {channel * of.h * of.w, tap / FX * of.dh - of.ph, tap % FX * of.dw - of.pw};
    }
    template <int V> DEVICE Vec<Element, V> load(Slot s, int k) const {
        const int pixels = of.oh * of.ow, pixel = k % pixels;
        int image = k / pixels, row = pixel / of.ow, column = pixel % of.ow;
        Vec<Element, V> out = {};
#pragma unroll
        for (int j = 0; j < V; ++j) {
            const int y = s.y + row * SH, x = s.x + column * SW;
            if (image < of.n && (unsigned)y < (unsigned)of.h && (unsigned)x < (unsigned)of.w) {
                out[j] = data[image * of.c * of.h * of.w + s.offset + y * of.w + x];
            }
            if (++column == of.ow) {
                column = 0;
                if (++row == of.oh) {
                    row = 0;
                    ++image;
                }
            }
        }
        return out;
    }
};
#endif
