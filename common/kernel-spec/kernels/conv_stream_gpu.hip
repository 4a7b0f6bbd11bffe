// A 1 x 1 convolution with stride 1 and no padding on Hopper's copy engine, forward and backward: for each image and group,
// a matrix of channels x pixels is the weights (or their transpose) times another one.
#pragma once
#include "conv_operands_gpu.hip"
#include "stream_tile_gpu.hip"

// WEIGHTS_ALONG_K: the summed channels are contiguous in the weights.
template <bool WEIGHTS_ALONG_K>
DEVICE void stream_pixels(const Element* weights, const Images<const Element>& in, const Images<Element>& out, int groups,
                          unsigned char* maps, int blocks) {
    const int rows = out.group_channels, depth = in.group_channels, pixels = in.pixels;
    const int inner = WEIGHTS_ALONG_K ? depth : rows, lines = WEIGHTS_ALONG_K ? rows : depth, sheets = in.images * groups;
    const Tensor filters = {weights, inner, lines, groups, 2ll * inner, 2ll * inner * lines};
    const Tensor channels = {in.data, pixels, depth, sheets, 2ll * pixels, 2ll * pixels * depth};
    const int down = ceil_div(rows, BM), across = ceil_div(pixels, BN);
    // Neighbouring blocks share pixels: the images are larger than the weights.
    const auto tile_of = [=] DEVICE_LAMBDA(int i) {
        const int sheet = i / (down * across);
        return Place{i % down * BM, i / down % across * BN, sheet % groups, sheet};
    };
    const auto out_of = [=] DEVICE_LAMBDA(const Place& at) {
        return MatrixOut<Element, ALIGN_C>{out.data + at.sheet_b * rows * pixels, rows, pixels};
    };
    stream_tiles<WEIGHTS_ALONG_K, false>(filters, channels, maps, down * across * sheets, blocks, depth, tile_of, out_of);
}
