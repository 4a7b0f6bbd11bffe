#include "prelude.h"

#if REFERENCE

KERNEL BLOCK_OF(64) row_sums_reference(const float* matrix, float* sums, int rows, int columns) {
    int row = block_x() * 64 + thread_x();
    if (row >= rows) return;
    float sum = 0;
    for (int column = 0; column < columns; ++column) sum += matrix[(long)row * columns + column];
    sums[row] = sum;
}

#else

KERNEL BLOCK_OF(THREADS) row_sums_tree(const float* matrix, float* sums, int columns) {
    SHARED float parts[THREADS];
    const float* row = matrix + (long)block_x() * columns;
    float sum = 0;
    for (int first = thread_x(); first < columns; first += THREADS * UNROLL) {
#pragma unroll
        for (int step = 0; step < UNROLL; ++step) {
            int column = first + step * THREADS;
            if (column < columns) sum += row[column];
        }
    }
    parts[thread_x()] = sum;
    barrier();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (thread_x() < half) parts[thread_x()] += parts[thread_x() + half];
        barrier();
    }
    if (thread_x() == 0) sums[block_x()] = parts[0];
}

#endif
