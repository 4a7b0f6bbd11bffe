// `nvcuda::wmma`: matrix tiles that the lanes of a warp hold together, multiplied without matrix instructions. Element i of a tile, by rows, is in
// lane i % 32, so that a lane finds what it needs of both operands by shuffles.
#pragma once

#include "bluefin/operands.h"

#if !BLUEFIN_AMD
#error "mma.h is for CUDA's compilers, or for AMD's GPUs: clang has it not for NVIDIA's"
#endif

namespace nvcuda {
namespace wmma {
struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32;
}

template <class T> struct bluefin_held { using type = T; };
template <> struct bluefin_held<precision::tf32> { using type = float; };
template <class Use, int M, int N, int K> struct bluefin_extent { static constexpr int rows = M, columns = N; };
template <int M, int N, int K> struct bluefin_extent<matrix_a, M, N, K> { static constexpr int rows = M, columns = K; };
template <int M, int N, int K> struct bluefin_extent<matrix_b, M, N, K> { static constexpr int rows = K, columns = N; };

template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment {
    using element_type = typename bluefin_held<T>::type;
    using storage_element_type = element_type;
    using extent = bluefin_extent<Use, M, N, K>;
    static constexpr int num_elements = extent::rows * extent::columns / 32;
    static constexpr int num_storage_elements = num_elements;
    element_type x[num_elements];
};

BLUEFIN_DEVICE float __float_to_tf32(float x) {
    const unsigned bits = __float_as_uint(x);
    return (bits & 0x7f800000u) == 0x7f800000u ? x : __uint_as_float((bits + 0x1000u) & 0xffffe000u);
}

template <class Fragment, class T> BLUEFIN_DEVICE void fill_fragment(Fragment& to, T value) {
    for (int i = 0; i < Fragment::num_elements; ++i) to.x[i] = (typename Fragment::element_type)value;
}

// Where element `at` of a tile is in memory.
template <class Fragment> BLUEFIN_DEVICE size_t bluefin_place(int at, unsigned stride, bool by_rows) {
    const unsigned i = at * 32 + __lane_id(), columns = Fragment::extent::columns;
    const size_t row = i / columns, column = i % columns;
    return by_rows ? row * stride + column : column * stride + row;
}
template <class Layout> constexpr bool bluefin_by_rows = true;
template <> constexpr bool bluefin_by_rows<col_major> = false;

template <class Use, int M, int N, int K, class T, class Layout, class From>
BLUEFIN_DEVICE void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& to, const From* from, unsigned stride) {
    using Fragment = fragment<Use, M, N, K, T, Layout>;
    for (int i = 0; i < Fragment::num_elements; ++i) {
        to.x[i] = from[bluefin_place<Fragment>(i, stride, bluefin_by_rows<Layout>)];
    }
}
template <int M, int N, int K, class T, class From>
BLUEFIN_DEVICE void load_matrix_sync(fragment<accumulator, M, N, K, T>& to, const From* from, unsigned stride, layout_t layout) {
    using Fragment = fragment<accumulator, M, N, K, T>;
    for (int i = 0; i < Fragment::num_elements; ++i) {
        to.x[i] = from[bluefin_place<Fragment>(i, stride, layout == mem_row_major)];
    }
}
template <int M, int N, int K, class T, class To>
BLUEFIN_DEVICE void store_matrix_sync(To* to, const fragment<accumulator, M, N, K, T>& from, unsigned stride, layout_t layout) {
    using Fragment = fragment<accumulator, M, N, K, T>;
    for (int i = 0; i < Fragment::num_elements; ++i) {
        to[bluefin_place<Fragment>(i, stride, layout == mem_row_major)] = from.x[i];
    }
}

// What products of T are added up in.
template <class T> struct bluefin_sum_of { using type = T; };
template <> struct bluefin_sum_of<__half> { using type = float; };

template <int M, int N, int K, class T, class LayoutA, class LayoutB, class D, class C>
BLUEFIN_DEVICE void mma_sync(fragment<accumulator, M, N, K, D>& to, const fragment<matrix_a, M, N, K, T, LayoutA>& a,
                             const fragment<matrix_b, M, N, K, T, LayoutB>& b, const fragment<accumulator, M, N, K, C>& c, bool = false) {
    using Sum = typename bluefin_sum_of<C>::type;
    constexpr int count = M * N / 32, span = 32 / N * K, words = span > 32 ? span / 32 : 1;
    const int lane = (int)__lane_id();
    Sum sums[count];
    for (int i = 0; i < count; ++i) sums[i] = (Sum)c.x[i];
#pragma unroll 1
    for (int k = 0; k < K; ++k) {
        // The 32 elements of a sum of which k is the same lie in as many rows of a, and in one of b.
        const int row = k * N / 32;
        auto own = b.x[0];
#pragma unroll
        for (int i = 1; i < K * N / 32; ++i) own = row == i ? b.x[i] : own;
        const Sum right = (Sum)__shfl_sync(~0u, own, k * N % 32 + lane % N);
#pragma unroll
        for (int i = 0; i < count; ++i) {
            const int within = lane / N * K + k + i * span % 32;
            auto left = __shfl_sync(~0u, a.x[i * span / 32], within % 32);
#pragma unroll
            for (int word = 1; word < words; ++word) {
                const auto other = __shfl_sync(~0u, a.x[i * span / 32 + word], within % 32);
                left = within / 32 == word ? other : left;
            }
            sums[i] += (Sum)left * right;
        }
    }
    for (int i = 0; i < count; ++i) to.x[i] = (D)sums[i];
}
}  // namespace wmma
}  // namespace nvcuda
