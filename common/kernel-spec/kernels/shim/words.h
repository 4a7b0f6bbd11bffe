// Qualifiers and macros of both dialects, for clang.
#pragma once

#if defined(__AMDGCN__)
#define BLUEFIN_AMD 1
#if defined(__GFX9__)
#define BLUEFIN_WAVE 64
#else
#define BLUEFIN_WAVE 32
#endif
#else
#define BLUEFIN_AMD 0
#define BLUEFIN_WAVE 32
#endif

// Lanes that shuffles and ballots speak of. CUDA's warps have 32 on every GPU, so that a file in its dialect is right on waves
// of 64 as well: each of their halves is a warp.
#if BLUEFIN_CUDA
#define BLUEFIN_WARP 32
#else
#define BLUEFIN_WARP BLUEFIN_WAVE
#endif

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((device))
#if BLUEFIN_AMD
// Clang has two words for these bounds on AMD's GPUs, and makes nothing of its launch_bounds there. The second number is waves of a SIMD in HIP,
// and blocks of a multiprocessor in CUDA. Functions take the numbers apart, as a macro would at the commas of template arguments too.
constexpr unsigned bluefin_threads_of(unsigned threads, unsigned = 0, unsigned = 0) { return threads; }
constexpr unsigned bluefin_waves_of(unsigned, unsigned waves = 0, unsigned = 0) { return waves; }
#if BLUEFIN_CUDA
#define __launch_bounds__(...) __attribute__((amdgpu_flat_work_group_size(1, bluefin_threads_of(__VA_ARGS__))))
#else
#define __launch_bounds__(...)                                                      \
    __attribute__((amdgpu_flat_work_group_size(1, bluefin_threads_of(__VA_ARGS__)), \
                   amdgpu_waves_per_eu(bluefin_waves_of(__VA_ARGS__))))
#endif
#else
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#endif
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __attribute__((aligned(bytes)))
#define __device_builtin__
#define __grid_constant__

// Without lines of their own, so that a fault in one names the line that calls it.
#define BLUEFIN_DEVICE static __attribute__((device, always_inline, nodebug)) inline
#define BLUEFIN_BOTH static __attribute__((host, device, always_inline, nodebug)) inline
#define BLUEFIN_MEMBER __attribute__((device, always_inline, nodebug)) inline
#define BLUEFIN_MEMBER_OF_BOTH __attribute__((host, device, always_inline, nodebug)) inline

#if BLUEFIN_CUDA
// Clang compiles a file in CUDA's dialect as one in HIP's, of whose headers it has none.
#undef __HIPCC__
#undef __HIP__
#if !defined(__CUDACC__)
#define __CUDACC__ 1
#endif
#define CUDART_VERSION 12000
#define CUDA_VERSION 12000
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 0
#if BLUEFIN_AMD && !defined(__CUDA_ARCH__)
// What tells device code from host code in many files; that it is 700 promises atomics on FP64 and nothing newer.
#define __CUDA_ARCH__ 700
#endif
#else
#define __HIPCC__ 1
#if !defined(__HIP__)
#define __HIP__ 1
#endif
#if !defined(__HIP_DEVICE_COMPILE__)
#define __HIP_DEVICE_COMPILE__ 1
#endif
#if BLUEFIN_AMD
#define __HIP_PLATFORM_AMD__ 1
#define __HIP_PLATFORM_HCC__ 1
#else
#define __HIP_PLATFORM_NVIDIA__ 1
#define __HIP_PLATFORM_NVCC__ 1
#endif
#define HIP_VERSION 60000000
#define HIP_VERSION_MAJOR 6
#define HIP_VERSION_MINOR 0
#define HIP_SYMBOL(name) name
#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#define HIP_DYNAMIC_SHARED_ATTRIBUTE
#endif

// In front of a parameter that lanes may leave open whose values are not taken: clang takes a value that nobody gave for a reason to think that
// its lane is not there, and leaves out the condition under which another one was given.
#define BLUEFIN_OPEN __attribute__((maybe_undef))

// Bits of a value as those of another type.
template <class To, class From> BLUEFIN_BOTH constexpr To bluefin_bits(const From& from) {
    return __builtin_bit_cast(To, from);
}

// Classes with virtual destructors name it; nothing on a device makes what it would free.
#if BLUEFIN_AMD
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Winline-new-delete"
inline __attribute__((device)) void operator delete(void*, __SIZE_TYPE__) noexcept { __builtin_trap(); }
inline __attribute__((device)) void operator delete(void*) noexcept { __builtin_trap(); }
#pragma clang diagnostic pop
#endif
