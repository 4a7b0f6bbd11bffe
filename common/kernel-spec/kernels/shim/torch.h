// What PyTorch's headers bring along for kernels: its names of the types of 16 bits, marks of functions, and tensors that a kernel takes: where their
// elements are, and sizes. They are contiguous here, as tensors are unless somebody has turned them.
#pragma once

#include "bluefin/complex.h"
#include "bluefin/operands.h"
#if __has_include(<tuple>)
#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>
#include <type_traits>
#endif

namespace c10 {
using Half = __half;
#if __clang_major__ >= 19
using BFloat16 = bluefin_bfloat;
#endif
}  // namespace c10
namespace at {
using namespace c10;
// A tensor of the host's, which structures of both sides may have: nothing is in it.
class TensorBase {
public:
    template <class T = void> T* data_ptr() const;
    template <class T = void> const T* const_data_ptr() const;
    long size(long) const;
    long dim() const;
    long numel() const;
    bool defined() const;
};
class Tensor : public TensorBase {};

template <class T> struct DefaultPtrTraits { using PtrType = T*; };
template <class T> struct RestrictPtrTraits { using PtrType = T*; };

// What is computed in: of floats of 16 bits those of 32.
template <class T> struct OpMathType { using type = T; };
template <> struct OpMathType<__half> { using type = float; };
#if __clang_major__ >= 19
template <> struct OpMathType<bluefin_bfloat> { using type = float; };
#endif
template <class T> using opmath_type = typename OpMathType<T>::type;
// What sums are of: of integers those of 64 bits as well.
template <class T, bool = true, bool = __is_integral(T)> struct AccumulateType { using type = opmath_type<T>; };
template <class T, bool Gpu> struct AccumulateType<T, Gpu, true> { using type = long; };
template <bool Gpu> struct AccumulateType<bool, Gpu, true> { using type = bool; };
template <> struct AccumulateType<float, false, false> { using type = double; };
template <class T, bool Gpu = true> using acc_type = typename AccumulateType<T, Gpu>::type;

template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class index_t = long long> struct TensorAccessor {
    T* elements;
    index_t sizes_of_all[N];
    BLUEFIN_MEMBER_OF_BOTH TensorAccessor(T* elements, const index_t* sizes) : elements(elements) {
        for (size_t i = 0; i < N; ++i) sizes_of_all[i] = sizes[i];
    }
    BLUEFIN_MEMBER_OF_BOTH T* data() const { return elements; }
    BLUEFIN_MEMBER_OF_BOTH index_t size(index_t at) const { return sizes_of_all[at]; }
    BLUEFIN_MEMBER_OF_BOTH index_t getSize(index_t at) const { return size(at); }
    BLUEFIN_MEMBER_OF_BOTH index_t stride(index_t at) const {
        index_t all = 1;
        for (size_t i = at + 1; i < N; ++i) all *= sizes_of_all[i];
        return all;
    }
    BLUEFIN_MEMBER_OF_BOTH decltype(auto) operator[](index_t at) const {
        if constexpr (N == 1) {
            return (elements[at]);
        } else {
            return TensorAccessor<T, N - 1, Traits, index_t>(elements + at * stride(0), sizes_of_all + 1);
        }
    }
};

// Sizes are fields with names, by which each is a size of its own in a spec.
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class index_t = long long> struct GenericPackedTensorAccessor;
#define BLUEFIN_ACCESSOR(N, ...)                                                                                         \
    template <class T, template <class> class Traits, class index_t> struct GenericPackedTensorAccessor<T, N, Traits, index_t> { \
        T* elements;                                                                                                     \
        index_t __VA_ARGS__;                                                                                             \
        BLUEFIN_MEMBER_OF_BOTH TensorAccessor<T, N, Traits, index_t> accessor() const {                                  \
            const index_t all[] = {__VA_ARGS__};                                                                         \
            return {elements, all};                                                                                      \
        }                                                                                                                \
        BLUEFIN_MEMBER_OF_BOTH T* data() const { return elements; }                                                      \
        BLUEFIN_MEMBER_OF_BOTH index_t size(index_t at) const { return accessor().size(at); }                            \
        BLUEFIN_MEMBER_OF_BOTH index_t getSize(index_t at) const { return accessor().size(at); }                         \
        BLUEFIN_MEMBER_OF_BOTH index_t getStride(index_t at) const { return accessor().stride(at); }                     \
        BLUEFIN_MEMBER_OF_BOTH index_t numElements() const { return size(0) * stride(0); }                               \
        BLUEFIN_MEMBER_OF_BOTH index_t stride(index_t at) const { return accessor().stride(at); }                        \
        BLUEFIN_MEMBER_OF_BOTH decltype(auto) operator[](index_t at) const { return accessor()[at]; }                    \
    };
BLUEFIN_ACCESSOR(1, size0)
BLUEFIN_ACCESSOR(2, size0, size1)
BLUEFIN_ACCESSOR(3, size0, size1, size2)
BLUEFIN_ACCESSOR(4, size0, size1, size2, size3)
BLUEFIN_ACCESSOR(5, size0, size1, size2, size3, size4)
#undef BLUEFIN_ACCESSOR
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, long long>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class index_t = long long>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, Traits, index_t>;

namespace cuda { namespace detail {
// Sizes that are fields with names, and the strides of what is contiguous, which are the same fields.
template <class Index> struct bluefin_sizes {
    Index size0, size1, size2, size3;
    BLUEFIN_MEMBER_OF_BOTH Index operator[](long long at) const { return at == 0 ? size0 : at == 1 ? size1 : at == 2 ? size2 : size3; }
};
template <class Index> struct bluefin_strides {
    Index size0, size1, size2, size3;
    BLUEFIN_MEMBER_OF_BOTH Index operator[](long long at) const {
        return (at < 1 ? size1 : 1) * (at < 2 ? size2 : 1) * (at < 3 ? size3 : 1);
    }
};
// A tensor of four dimensions. Whoever reads it by more finds none.
template <class T, class Index> struct TensorInfo {
    T* data;
    union {
        bluefin_sizes<Index> sizes;
        bluefin_strides<Index> strides;
    };
    static constexpr int dims = 4;
    BLUEFIN_MEMBER_OF_BOTH bool isContiguous() const { return true; }
};
template <class T, class Index, int Dims> struct IndexToOffset {
    BLUEFIN_MEMBER_OF_BOTH static Index get(Index at, const TensorInfo<T, Index>&) { return at; }
};
} }  // namespace cuda::detail
}  // namespace at
namespace at {
template <class T> BLUEFIN_BOTH T ceil_div(T x, T by) { return (x + by - 1) / by; }
namespace cuda {
template <class T> BLUEFIN_BOTH T ATenCeilDiv(T x, T by) { return (x + by - 1) / by; }
}  // namespace cuda
}  // namespace at
namespace torch {
using namespace at;
}
// The tensors and conversions of Torch before it was PyTorch.
template <class T, int Dims> using THCDeviceTensor = at::PackedTensorAccessor32<T, Dims>;
template <class From, class To> struct ScalarConvert {
    BLUEFIN_MEMBER_OF_BOTH static To to(From x) { return (To)x; }
};
template <class T> BLUEFIN_BOTH T THCCeilDiv(T x, T by) { return (x + by - 1) / by; }
template <class T> BLUEFIN_DEVICE T gpuAtomicAdd(T* to, T value) { return atomicAdd(to, value); }
template <class T> BLUEFIN_DEVICE void gpuAtomicAddNoReturn(T* to, T value) { atomicAdd(to, value); }
// What extensions are built with.
#if !defined(WITH_CUDA)
#define WITH_CUDA 1
#endif
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, blocks)
#define C10_WARP_SIZE BLUEFIN_WARP
#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type)                                                   \
    for (index_type i = (index_type)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)
#if !defined(CUDA_KERNEL_LOOP)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
#endif
