// Where a thread is, barriers and fences, and what a kernel says to its host, which is left out.
#pragma once

#include <stddef.h>

#if BLUEFIN_AMD
// Behind the arguments of a kernel the runtime passes how many blocks there are.
BLUEFIN_DEVICE unsigned bluefin_blocks(int axis) {
    return ((const __attribute__((address_space(4))) unsigned*)__builtin_amdgcn_implicitarg_ptr())[axis];
}
#define BLUEFIN_THREAD(axis) __builtin_amdgcn_workitem_id_##axis()
#define BLUEFIN_BLOCK(axis) __builtin_amdgcn_workgroup_id_##axis()
#define BLUEFIN_THREADS(axis) (unsigned)__builtin_amdgcn_workgroup_size_##axis()
#define BLUEFIN_BLOCKS(axis) bluefin_blocks(#axis[0] - 'x')
#else
#define BLUEFIN_THREAD(axis) __nvvm_read_ptx_sreg_tid_##axis()
#define BLUEFIN_BLOCK(axis) __nvvm_read_ptx_sreg_ctaid_##axis()
#define BLUEFIN_THREADS(axis) __nvvm_read_ptx_sreg_ntid_##axis()
#define BLUEFIN_BLOCKS(axis) __nvvm_read_ptx_sreg_nctaid_##axis()
#endif

// An object whose members are read by functions, so that it takes no memory.
#define BLUEFIN_INDEX(name, of)                                                                 \
    struct bluefin_##name {                                                                     \
        __declspec(property(get = bluefin_x)) unsigned x;                                       \
        __declspec(property(get = bluefin_y)) unsigned y;                                       \
        __declspec(property(get = bluefin_z)) unsigned z;                                       \
        BLUEFIN_MEMBER static unsigned bluefin_x() { return of(x); }                            \
        BLUEFIN_MEMBER static unsigned bluefin_y() { return of(y); }                            \
        BLUEFIN_MEMBER static unsigned bluefin_z() { return of(z); }                            \
        BLUEFIN_MEMBER operator dim3() const { return dim3(of(x), of(y), of(z)); }              \
        BLUEFIN_MEMBER operator uint3() const { return make_uint3(of(x), of(y), of(z)); }       \
    };                                                                                          \
    extern const __attribute__((device, weak)) bluefin_##name name
BLUEFIN_INDEX(threadIdx, BLUEFIN_THREAD);
BLUEFIN_INDEX(blockIdx, BLUEFIN_BLOCK);
BLUEFIN_INDEX(blockDim, BLUEFIN_THREADS);
BLUEFIN_INDEX(gridDim, BLUEFIN_BLOCKS);
constexpr int warpSize = BLUEFIN_WARP;

#if !BLUEFIN_CUDA
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
#endif

#if BLUEFIN_AMD
BLUEFIN_DEVICE void __syncthreads() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
BLUEFIN_DEVICE void __syncwarp(unsigned long long = ~0ull) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
BLUEFIN_DEVICE void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
BLUEFIN_DEVICE void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
BLUEFIN_DEVICE void __threadfence_system() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, ""); }

// Threads of the block for which `predicate` is not 0. The waves' counts meet in shared memory.
BLUEFIN_DEVICE int __syncthreads_count(int predicate) {
    static __attribute__((shared)) int count;
    __syncthreads();
    if ((__builtin_amdgcn_workitem_id_x() | __builtin_amdgcn_workitem_id_y() | __builtin_amdgcn_workitem_id_z()) == 0)
        count = 0;
    __syncthreads();
    if (predicate) __hip_atomic_fetch_add(&count, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    __syncthreads();
    return count;
}
BLUEFIN_DEVICE int __syncthreads_or(int predicate) { return __syncthreads_count(predicate) != 0; }
BLUEFIN_DEVICE int __syncthreads_and(int predicate) { return __syncthreads_count(!predicate) == 0; }

BLUEFIN_DEVICE long long clock64() { return (long long)__builtin_readcyclecounter(); }
BLUEFIN_DEVICE long long wall_clock64() { return (long long)__builtin_readcyclecounter(); }
BLUEFIN_DEVICE void __trap() { __builtin_trap(); }
BLUEFIN_DEVICE void __nanosleep(unsigned) { __builtin_amdgcn_s_sleep(1); }
#else
// `__syncthreads` is a builtin of clang's.
BLUEFIN_DEVICE void __syncwarp(unsigned mask = ~0u) { asm volatile("bar.warp.sync %0;" ::"r"(mask) : "memory"); }
BLUEFIN_DEVICE void __threadfence() { asm volatile("membar.gl;" ::: "memory"); }
BLUEFIN_DEVICE void __threadfence_block() { asm volatile("membar.cta;" ::: "memory"); }
BLUEFIN_DEVICE void __threadfence_system() { asm volatile("membar.sys;" ::: "memory"); }
BLUEFIN_DEVICE int __syncthreads_count(int predicate) { return __nvvm_bar0_popc(predicate); }
BLUEFIN_DEVICE int __syncthreads_or(int predicate) { return __nvvm_bar0_or(predicate); }
BLUEFIN_DEVICE int __syncthreads_and(int predicate) { return __nvvm_bar0_and(predicate); }

BLUEFIN_DEVICE long long clock64() {
    long long cycles;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles));
    return cycles;
}
BLUEFIN_DEVICE long long wall_clock64() {
    long long nanoseconds;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    return nanoseconds;
}
BLUEFIN_DEVICE void __trap() { asm volatile("trap;"); }
BLUEFIN_DEVICE void __nanosleep(unsigned nanoseconds) { asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds)); }
#endif
BLUEFIN_DEVICE int clock() { return (int)clock64(); }

BLUEFIN_DEVICE void* memcpy(void* to, const void* from, size_t bytes) { return __builtin_memcpy(to, from, bytes); }
BLUEFIN_DEVICE void* memmove(void* to, const void* from, size_t bytes) { return __builtin_memmove(to, from, bytes); }
BLUEFIN_DEVICE void* memset(void* to, int value, size_t bytes) { return __builtin_memset(to, value, bytes); }

// Nobody reads what a kernel prints while it is tuned.
template <class... Values> BLUEFIN_DEVICE int printf(const char*, Values...) { return 0; }
// Without lines of its own, and with a number of its own (see bluefin-amd's `Fault::Trap`): the fault names the line of the assert. A GPU gives up
// at one trap or the other.
extern "C" __attribute__((device, always_inline, nodebug)) inline void __assert_fail(const char*, const char*, unsigned, const char*) noexcept {
#if BLUEFIN_AMD
    asm volatile("s_trap 121");
#endif
    __trap();
}

// Where a pointer leads to within shared memory, as inline assembly takes it.
BLUEFIN_DEVICE size_t __cvta_generic_to_shared(const void* pointer) {
    return (unsigned)(__SIZE_TYPE__)(const __attribute__((address_space(3))) char*)pointer;
}
