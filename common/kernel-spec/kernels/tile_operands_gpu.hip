// What the tile loops read and write. A tile loop computes C(row, column) = sum over k of A(row, k) * B(k, column), one
// block of C a workgroup; where A, B and C lie in memory is the business of operands. An operand has
//   along_k     which index is contiguous in memory: k, or the other one (a row of A, a column of B: `outer`)
//   gathers     whether its elements must be found one by one; an operand that does not is dense
//   align       what the length of its lines is a multiple of (1, 2, 4 or 8, at most VEC); 1 where it gathers, 0 where that is asked at run
//               time
//   slot(outer) what depends on `outer` only, worked out once, before the loop over k
//   load<V>     V elements from (outer, k) on, along its contiguous index (a gathering one that is not along_k: V is 1);
//               zero outside the tensor
// and, when dense, so that a copy engine may do the work,
//   contiguous<V>()   every vector of V (that begins at a multiple of V) is aligned and either exists whole or not at all
//   address, inside   where such a vector starts and whether it exists.
// An output has store<V>: V columns of one row, what lies outside the tensor is dropped.
// ALIGN_A, ALIGN_B and ALIGN_C are compiled in: both ways of moving a slice, unrolled, are two to four times the work for a compiler. ALIGN_A and ALIGN_C
// are 0 on the vector units where one operand gathers: compilers send for the other one too late if nothing is between (13 % on an H200).
#pragma once
#include "prelude.h"

template <int V> DEVICE Vec<Element, V> load_vector(const Element* from, bool inside) {
    Vec<Element, V> out = {};
    if (inside) out = *(const Vec<Element, V>*)from;
    return out;
}

#if defined(VEC)
// Elements that are moved at once: VEC, or fewer where lines are no multiples of it. Of odd lines they are taken one by one.
template <class Operand> constexpr int VECTOR = Operand::align <= 1 || Operand::align > VEC ? VEC : Operand::align;
#endif

// Whether lines of that length are multiples of V.
template <int V, int ALIGN> DEVICE bool divides(int length) { return ALIGN == 0 ? length % V == 0 : ALIGN % V == 0; }

// A matrix in memory. Contiguous along k: element (outer, k) is data[outer * line + k], else data[k * line + outer].
// ALIGN is what `align` is.
template <bool ALONG_K, int ALIGN> struct Matrix {
    static constexpr bool along_k = ALONG_K, gathers = false;
    static constexpr int align = ALIGN;
    const Element* data;
    int outers, depth;
    // From one line to the next, more than is seen of it where groups lie side by side.
    int line = ALONG_K ? depth : outers;

    struct Slot {
        int outer;
    };
    DEVICE Slot slot(int outer) const { return {outer}; }
    template <int V> DEVICE bool contiguous() const {
        return divides<V, ALIGN>(ALONG_K ? depth : outers) && divides<V, ALIGN>(line);
    }
    DEVICE const Element* address(Slot s, int k) const {
        return data + (ALONG_K ? s.outer * line + k : k * line + s.outer);
    }
    DEVICE bool inside(Slot s, int k) const { return s.outer < outers && k < depth; }
    template <int V> DEVICE Vec<Element, V> load(Slot s, int k) const {
        const Element* from = address(s, k);
        if (contiguous<V>()) return load_vector<V>(from, inside(s, k));
        Vec<Element, V> out = {};
#pragma unroll
        for (int j = 0; j < V; ++j) {
            if (s.outer + (ALONG_K ? 0 : j) < outers && k + (ALONG_K ? j : 0) < depth) out[j] = from[j];
        }
        return out;
    }
};

// A row-major matrix to be written, of ALIGN likewise.
template <class T, int ALIGN> struct MatrixOut {
    T* data;
    int rows, columns;
    // From one row to the next.
    int line = columns;

    template <int V> DEVICE void store(int row, int column, Vec<float, V> value) const {
        if (row >= rows || column >= columns) return;
        T* to = data + row * line + column;
        if (divides<V, ALIGN>(columns) && divides<V, ALIGN>(line)) {
            *(Vec<T, V>*)to = convert<T>(value);
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
