// What the tile loops read and write. A tile loop computes C(row, column) = sum over k of A(row, k) * B(k, column), one
// block of C a workgroup; where A, B and C lie in memory is the business of operands. An operand has
//   along_k     which index is contiguous in memory: k, or the other one (a row of A, a column of B: `outer`)
//   gathers     whether its elements must be found one by one; an operand that does not is dense
//   slot(outer) what depends on `outer` only, worked out once, before the loop over k
//   load<V>     V elements from (outer, k) on, along its contiguous index (a gathering one that is not along_k: V is 1);
//               zero outside the tensor
// and, when dense, so that a copy engine may do the work,
//   contiguous<V>()   every vector of V is aligned and within one run of memory, cut short at the tensor's end only
//   address, valid<V> where such a vector starts and how many of its elements exist.
// An output has store<V>: V columns of one row, what lies outside the tensor is dropped.
#pragma once
#include "prelude.h"

template <int V> DEVICE Vec<Element, V> load_run(const Element* from, int valid) {
    if (valid >= V) return *(const Vec<Element, V>*)from;
    Vec<Element, V> out = {};
#pragma unroll
    for (int j = 0; j < V; ++j) {
        if (j < valid) out[j] = from[j];
    }
    return out;
}

// A matrix in memory. Contiguous along k: element (outer, k) is data[outer * stride + k], else data[k * stride + outer].
template <bool ALONG_K> struct Matrix {
    static constexpr bool along_k = ALONG_K, gathers = false;
    const Element* data;
    int outers, depth, stride;

    struct Slot {
        int outer;
    };
    DEVICE Slot slot(int outer) const { return {outer}; }
    template <int V> DEVICE bool contiguous() const { return stride % V == 0; }
    DEVICE const Element* address(Slot s, int k) const {
        return data + (ALONG_K ? s.outer * stride + k : k * stride + s.outer);
    }
    template <int V> DEVICE int valid(Slot s, int k) const {
        const int run = ALONG_K ? depth - k : outers - s.outer;
        const bool inside = ALONG_K ? s.outer < outers : k < depth;
        return inside ? max(0, min(V, run)) : 0;
    }
    template <int V> DEVICE Vec<Element, V> load(Slot s, int k) const {
        const Element* from = address(s, k);
        const int count = valid<V>(s, k);
        if (contiguous<V>()) return load_run<V>(from, count);
        Vec<Element, V> out = {};
#pragma unroll
        for (int j = 0; j < V; ++j) {
            if (j < count) out[j] = from[j];
        }
        return out;
    }
};

// A row-major matrix to be written.
template <class T> struct MatrixOut {
    T* data;
    int rows, columns, stride;

    template <int V> DEVICE void store(int row, int column, Vec<float, V> value) const {
        if (row >= rows) return;
        T* to = data + row * stride + column;
        if (stride % V == 0 && column + V <= columns) {
            *(Vec<T, V>*)to = __builtin_convertvector(value, Vec<T, V>);
            return;
        }
#pragma unroll
        for (int j = 0; j < V; ++j) {
            if (column + j < columns) to[j] = (T)value[j];
        }
    }
};

// Part `part` of `parts` of the loop over k, in whole steps; the last parts may be empty.
struct Span {
    int begin, end;
};
DEVICE Span span_of(int depth, int step, int part, int parts) {
    const int chunk = ceil_div(ceil_div(depth, step), parts) * step;
    const int begin = min(part * chunk, depth);
    return {begin, min(begin + chunk, depth)};
}

// Sums the parts of a split loop over k, one thread an element.
DEVICE void reduce_parts(const float* partial, Element* out, int elements, int parts, int index) {
    if (index >= elements) return;
    float sum = 0;
    for (int p = 0; p < parts; ++p) sum += partial[(unsigned long long)p * elements + index];
    out[index] = (Element)sum;
}
