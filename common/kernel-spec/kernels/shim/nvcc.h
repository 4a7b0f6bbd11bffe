// nvcc has CUDA's own headers. A file in HIP's dialect finds its names as those of CUDA here.
#pragma once

#include <cuda_runtime.h>
#include "bluefin/function.h"
#if defined(__CUDACC_RTC__)
#include "bluefin/rtc.h"
#endif
#if !BLUEFIN_CUDA
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define __HIPCC__ 1
#define __HIP_PLATFORM_NVIDIA__ 1
#define __HIP_PLATFORM_NVCC__ 1
#define __HIP_DEVICE_COMPILE__ 1
#define HIP_SYMBOL(name) name
#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#define hipThreadIdx_x threadIdx.x
#define hipThreadIdx_y threadIdx.y
#define hipThreadIdx_z threadIdx.z
#define hipBlockIdx_x blockIdx.x
#define hipBlockIdx_y blockIdx.y
#define hipBlockIdx_z blockIdx.z
#define hipBlockDim_x blockDim.x
#define hipBlockDim_y blockDim.y
#define hipBlockDim_z blockDim.z
#define hipGridDim_x gridDim.x
#define hipGridDim_y gridDim.y
#define hipGridDim_z gridDim.z
#define hipLaunchKernelGGL(kernel, grid, block, shared, stream, ...) ((void)0)
#define hipSuccess cudaSuccess
using hipError_t = cudaError_t;
using hipStream_t = cudaStream_t;
using hipEvent_t = cudaEvent_t;
using hipDeviceProp_t = cudaDeviceProp;
using __hip_bfloat16 = __nv_bfloat16;
using __hip_bfloat162 = __nv_bfloat162;
using hip_bfloat16 = __nv_bfloat16;

__device__ __forceinline__ float unsafeAtomicAdd(float* to, float value) { return atomicAdd(to, value); }
#endif

// Shuffles without a mask: HIP's, and those of CUDA's before 13.
#if !BLUEFIN_CUDA || __CUDACC_VER_MAJOR__ >= 13
template <class T> __device__ __forceinline__ T __shfl(T value, int from, int width = 32) {
    return __shfl_sync(__activemask(), value, from, width);
}
template <class T> __device__ __forceinline__ T __shfl_up(T value, unsigned by, int width = 32) {
    return __shfl_up_sync(__activemask(), value, by, width);
}
template <class T> __device__ __forceinline__ T __shfl_down(T value, unsigned by, int width = 32) {
    return __shfl_down_sync(__activemask(), value, by, width);
}
template <class T> __device__ __forceinline__ T __shfl_xor(T value, int mask, int width = 32) {
    return __shfl_xor_sync(__activemask(), value, mask, width);
}
#endif
#if !BLUEFIN_CUDA
// CUDA's own of these names return other types, and compile for old architectures alone. A header of its library has a function of such a name, and goes first.
#if __has_include(<cuda/std/__functional/invoke.h>)
#include <cuda/std/__functional/invoke.h>
#endif
#define __ballot(predicate) ((unsigned long long)__ballot_sync(__activemask(), (predicate)))
#define __any(predicate) __any_sync(__activemask(), (predicate))
#define __all(predicate) __all_sync(__activemask(), (predicate))
#endif
