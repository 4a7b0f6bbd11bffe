// What of a runtime's interface files name beside their kernels. Bodies of host functions are left out before a file is compiled,
// so that types and a few functions are enough.
#pragma once

#include <stddef.h>

#include "bluefin/textures.h"

#define BLUEFIN_NAME_OF(name) struct name##_of_bluefin
// `api` is hip or cuda.
#define BLUEFIN_RUNTIME(api)                                                                                             \
    enum api##Error_t { api##Success = 0, api##ErrorInvalidValue = 1, api##ErrorMemoryAllocation = 2,                    \
                        api##ErrorUnknown = 999 };                                                                       \
    using api##Error = api##Error_t;                                                                                     \
    enum api##MemcpyKind { api##MemcpyHostToHost, api##MemcpyHostToDevice, api##MemcpyDeviceToHost,                      \
                           api##MemcpyDeviceToDevice, api##MemcpyDefault };                                              \
    using api##Stream_t = BLUEFIN_NAME_OF(api##_stream)*;                                                                \
    using api##Event_t = BLUEFIN_NAME_OF(api##_event)*;                                                                  \
    using api##Graph_t = BLUEFIN_NAME_OF(api##_graph)*;                                                                  \
    using api##GraphExec_t = BLUEFIN_NAME_OF(api##_executable)*;                                                         \
    using api##GraphNode_t = BLUEFIN_NAME_OF(api##_node)*;                                                               \
    using api##MemPool_t = BLUEFIN_NAME_OF(api##_pool)*;                                                                 \
    using api##Function_t = BLUEFIN_NAME_OF(api##_function)*;                                                            \
    using api##Module_t = BLUEFIN_NAME_OF(api##_module)*;                                                                \
    using api##Array_t = BLUEFIN_NAME_OF(api##_array)*;                                                                  \
    using api##TextureObject_t = bluefin_texture;                                                                        \
    using api##SurfaceObject_t = bluefin_surface;                                                                        \
    struct api##Extent { size_t width, height, depth; };                                                                 \
    struct api##PitchedPtr { void* ptr; size_t pitch, xsize, ysize; };                                                   \
    struct api##DeviceProp_of_bluefin {                                                                                  \
        char name[256];                                                                                                  \
        size_t totalGlobalMem, sharedMemPerBlock, totalConstMem;                                                         \
        int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate, major, minor;       \
        int multiProcessorCount, maxThreadsPerMultiProcessor, concurrentKernels, integrated, canMapHostMemory;           \
        char gcnArchName[256];                                                                                           \
    };                                                                                                                   \
    template <class... Values> api##Error_t api##Malloc(Values&&...);                                                    \
    template <class... Values> api##Error_t api##MallocManaged(Values&&...);                                             \
    template <class... Values> api##Error_t api##Free(Values&&...);                                                      \
    template <class... Values> api##Error_t api##Memcpy(Values&&...);                                                    \
    template <class... Values> api##Error_t api##MemcpyAsync(Values&&...);                                               \
    template <class... Values> api##Error_t api##MemcpyToSymbol(Values&&...);                                            \
    template <class... Values> api##Error_t api##Memset(Values&&...);                                                    \
    template <class... Values> api##Error_t api##MemsetAsync(Values&&...);                                               \
    template <class... Values> api##Error_t api##EventCreate(Values&&...);                                               \
    template <class... Values> api##Error_t api##EventRecord(Values&&...);                                               \
    template <class... Values> api##Error_t api##EventSynchronize(Values&&...);                                          \
    template <class... Values> api##Error_t api##EventElapsedTime(Values&&...);                                          \
    template <class... Values> api##Error_t api##EventDestroy(Values&&...);                                              \
    template <class... Values> api##Error_t api##StreamCreate(Values&&...);                                              \
    template <class... Values> api##Error_t api##StreamSynchronize(Values&&...);                                         \
    template <class... Values> api##Error_t api##StreamDestroy(Values&&...);                                             \
    template <class... Values> api##Error_t api##LaunchKernel(Values&&...);                                              \
    template <class... Values> api##Error_t api##GetDevice(Values&&...);                                                 \
    template <class... Values> api##Error_t api##SetDevice(Values&&...);                                                 \
    template <class... Values> api##Error_t api##GetDeviceProperties(Values&&...);                                       \
    template <class... Values> api##Error_t api##GetDeviceCount(Values&&...);                                            \
    template <class... Values> api##Error_t api##DeviceGetAttribute(Values&&...);                                        \
    template <class... Values> api##Error_t api##FuncSetAttribute(Values&&...);                                          \
    template <class... Values> api##Error_t api##FuncGetAttributes(Values&&...);                                         \
    template <class... Values> api##Error_t api##MallocAsync(Values&&...);                                               \
    template <class... Values> api##Error_t api##FreeAsync(Values&&...);                                                 \
    template <class... Values> api##Error_t api##MallocPitch(Values&&...);                                               \
    template <class... Values> api##Error_t api##FreeHost(Values&&...);                                                  \
    template <class... Values> api##Error_t api##HostAlloc(Values&&...);                                                 \
    template <class... Values> api##Error_t api##MallocHost(Values&&...);                                                \
    template <class... Values> api##Error_t api##HostMalloc(Values&&...);                                                \
    template <class... Values> api##Error_t api##HostFree(Values&&...);                                                  \
    template <class... Values> api##Error_t api##Memcpy2D(Values&&...);                                                  \
    template <class... Values> api##Error_t api##MemcpyFromSymbol(Values&&...);                                          \
    template <class... Values> api##Error_t api##GetSymbolAddress(Values&&...);                                          \
    template <class... Values> api##Error_t api##EventCreateWithFlags(Values&&...);                                      \
    template <class... Values> api##Error_t api##EventQuery(Values&&...);                                                \
    template <class... Values> api##Error_t api##StreamCreateWithFlags(Values&&...);                                     \
    template <class... Values> api##Error_t api##StreamWaitEvent(Values&&...);                                           \
    template <class... Values> api##Error_t api##StreamBeginCapture(Values&&...);                                        \
    template <class... Values> api##Error_t api##StreamEndCapture(Values&&...);                                          \
    template <class... Values> api##Error_t api##GraphInstantiate(Values&&...);                                          \
    template <class... Values> api##Error_t api##GraphLaunch(Values&&...);                                               \
    template <class... Values> api##Error_t api##GraphDestroy(Values&&...);                                              \
    template <class... Values> api##Error_t api##GraphExecDestroy(Values&&...);                                          \
    template <class... Values> api##Error_t api##OccupancyMaxActiveBlocksPerMultiprocessor(Values&&...);                 \
    template <class... Values> api##Error_t api##OccupancyMaxPotentialBlockSize(Values&&...);                            \
    template <class... Values> api##Error_t api##PeekAtLastError(Values&&...);                                           \
    template <class... Values> api##Error_t api##RuntimeGetVersion(Values&&...);                                         \
    template <class... Values> api##Error_t api##DriverGetVersion(Values&&...);                                          \
    api##Error_t api##DeviceSynchronize();                                                                               \
    api##Error_t api##DeviceReset();                                                                                     \
    api##Error_t api##GetLastError();                                                                                    \
    const char* api##GetErrorString(api##Error_t);                                                                       \
    const char* api##GetErrorName(api##Error_t);

#if BLUEFIN_CUDA
BLUEFIN_RUNTIME(cuda)
using cudaDeviceProp = cudaDeviceProp_of_bluefin;
using cudaArray = cuda_array_of_bluefin;
using CUstream = cudaStream_t;
using CUdeviceptr = unsigned long long;
using CUdevice = int;
using CUevent = cudaEvent_t;
using CUfunction = cudaFunction_t;
using CUmodule = cudaModule_t;
using CUcontext = BLUEFIN_NAME_OF(CUcontext)*;
using CUlinkState = BLUEFIN_NAME_OF(CUlinkState)*;
enum CUresult : int { CUDA_SUCCESS = 0 };
enum CUjit_option : int {};
enum CUjitInputType : int {};
enum CUdevice_attribute : int {};
enum CUfunction_attribute : int {};
#else
BLUEFIN_RUNTIME(hip)
using hipDeviceProp_t = hipDeviceProp_of_bluefin;
using hipDevice_t = int;
using hipDeviceptr_t = void*;
#define hipLaunchKernelGGL(kernel, grid, block, shared, stream, ...) ((void)0)
#define hipLaunchKernel(kernel, grid, block, shared, stream, ...) ((void)0)
#endif

// What clang makes of `<<<...>>>`.
extern "C" int hipConfigureCall(dim3, dim3, size_t = 0, void* = nullptr);
extern "C" int cudaConfigureCall(dim3, dim3, size_t = 0, void* = nullptr);
extern "C" unsigned __cudaPushCallConfiguration(dim3, dim3, size_t = 0, void* = nullptr);
extern "C" unsigned __hipPushCallConfiguration(dim3, dim3, size_t = 0, void* = nullptr);
