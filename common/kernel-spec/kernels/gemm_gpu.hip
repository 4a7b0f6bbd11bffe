// C = A * B, batched, either operand transposed. The row-major view: a column-major product is the row-major product
// of the operands exchanged (C^T = B^T * A^T), so `rows`, `columns`, TRANS_LEFT and TRANS_RIGHT speak of that view, and
// COL_MAJOR exchanges the pointers.
#include "tile_operands_gpu.hip"

struct Operands {
    const Element *left, *right;
};

DEVICE Operands operands_of(const Element* a, const Element* b, int rows, int columns, int depth, int batch) {
    const long long left_size = (long long)rows * depth, right_size = (long long)depth * columns;
    return {(COL_MAJOR ? b : a) + batch * left_size, (COL_MAJOR ? a : b) + batch * right_size};
}

#if defined(REFERENCE)
KERNEL BLOCK_OF(256) gemm_reference(const Element* a, const Element* b, Element* c, int rows, int columns, int depth) {
    const int index = block_x() * 256 + thread_x();
    if (index >= rows * columns) return;
    const int row = index / columns, column = index % columns;
    const Operands of = operands_of(a, b, rows, columns, depth, block_z());
    // FP64, so that the reference's own rounding is no part of the comparison.
    double sum = 0;
    for (int k = 0; k < depth; ++k) {
        const float left = of.left[TRANS_LEFT ? k * rows + row : row * depth + k];
        const float right = of.right[TRANS_RIGHT ? column * depth + k : k * columns + column];
        sum += (double)left * right;
    }
    c[(long long)block_z() * rows * columns + index] = (Element)(float)sum;
}
#endif

#if defined(TILED) || defined(MATRIX) || defined(STREAM)
#if defined(STREAM)
#include "stream_tile_gpu.hip"
#elif defined(WARPGROUP)
#include "warpgroup_tile_gpu.hip"
#elif defined(MATRIX)
#include "matrix_tile_gpu.hip"
#else
#include "vector_tile_gpu.hip"
#endif

struct Corner {
    int row, column;
};

// Blocks that run together form bands of BAND tile rows, whose slices of A and B then meet in the cache.
#if !defined(BAND)
#define BAND 8
#endif
DEVICE Corner corner_of(int block, int rows, int columns) {
    const int down = ceil_div(rows, BM), across = ceil_div(columns, BN);
    const int band = block / (BAND * across), within = block % (BAND * across);
    const int height = min(BAND, down - band * BAND);
    return {(band * BAND + within % height) * BM, within / height * BN};
}

#if defined(STREAM)
// A matrix as Matrix<ALONG_K> has it, of every product of the batch.
template <bool ALONG_K> DEVICE Tensor tensor_of(const Element* data, int outers, int depth, int batch) {
    const int inner = ALONG_K ? depth : outers, lines = ALONG_K ? outers : depth;
    return {data, inner, lines, batch, 2ll * inner, 2ll * inner * lines};
}

KERNEL BLOCK_ALONE(TILE_THREADS)
gemm_stream(const Element* a, const Element* b, Element* c, unsigned char* maps, int rows, int columns, int depth,
            int batch, int blocks) {
    const Operands of = operands_of(a, b, rows, columns, depth, 0);
    const int tiles = ceil_div(rows, BM) * ceil_div(columns, BN);
    const auto tile_of = [=] DEVICE_LAMBDA(int i) {
        const Corner at = corner_of(i % tiles, rows, columns);
        return Place{at.row, at.column, i / tiles, i / tiles};
    };
    const auto out_of = [=] DEVICE_LAMBDA(const Place& at) {
        return MatrixOut<Element, ALIGN_C>{c + at.sheet_a * (long long)rows * columns, rows, columns};
    };
    stream_tiles<!TRANS_LEFT, TRANS_RIGHT>(tensor_of<!TRANS_LEFT>(of.left, rows, depth, batch),
                                           tensor_of<TRANS_RIGHT>(of.right, columns, depth, batch), maps, tiles * batch,
                                           blocks, depth, tile_of, out_of);
}
#else
template <class Out>
DEVICE void gemm_tile(const Element* a, const Element* b, const Out& out, int rows, int columns, int depth, Span span) {
    const Operands of = operands_of(a, b, rows, columns, depth, block_z());
    const Corner at = corner_of(block_x(), rows, columns);
    const Matrix<!TRANS_LEFT, ALIGN_A> left = {of.left, rows, depth};
    const Matrix<TRANS_RIGHT, ALIGN_B> right = {of.right, columns, depth};
    tile_loop(left, right, out, at.row, at.column, span);
}

#if defined(SPLIT)
KERNEL BLOCK_OF(TILE_THREADS)
gemm_tile_split(const Element* a, const Element* b, float* partial, int rows, int columns, int depth, int batch) {
    const long long size = (long long)rows * columns;
    const MatrixOut<float, ALIGN_C> out = {partial + (block_y() * (long long)batch + block_z()) * size, rows, columns};
    gemm_tile(a, b, out, rows, columns, depth, span_of(depth, BK, block_y(), SPLIT));
}

KERNEL BLOCK_OF(256) gemm_reduce(const float* partial, Element* c, int elements) {
    reduce_parts(partial, c, elements, SPLIT, block_x() * 256 + thread_x());
}
#else
KERNEL BLOCK_OF(TILE_THREADS)
gemm_tile(const Element* a, const Element* b, Element* c, int rows, int columns, int depth) {
    const MatrixOut<Element, ALIGN_C> out = {c + block_z() * (long long)rows * columns, rows, columns};
    gemm_tile(a, b, out, rows, columns, depth, {0, depth});
}
#endif
#endif
#endif
