// Goes before the source of a problem's reference on a GPU. With it an eval worker compares outputs and restores inputs
// where they are, at the speed of the device's memory, instead of moving them to the host for every candidate.
//
// All entries are launched with blocks of 256 threads, `threads` of them in all. Pointers are aligned to 256 bytes, or
// what they point to is shorter than that. A report is two counts, of what was compared and of what was wrong.

#define BLUEFIN_ENTRY extern "C" __attribute__((global)) void
#define BLUEFIN_INLINE static __attribute__((device, always_inline)) inline

using bluefin_u32 = unsigned;
using bluefin_u64 = unsigned long long;
using bluefin_i64 = long long;
using bluefin_vector = bluefin_u32 __attribute__((ext_vector_type(4)));

#if defined(__AMDGCN__)
BLUEFIN_INLINE int bluefin_lane() { return (int)__builtin_amdgcn_workitem_id_x(); }
BLUEFIN_INLINE bluefin_i64 bluefin_thread() {
    return (bluefin_i64)__builtin_amdgcn_workgroup_id_x() * 256 + bluefin_lane();
}
BLUEFIN_INLINE void bluefin_barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#else
BLUEFIN_INLINE int bluefin_lane() { return (int)__nvvm_read_ptx_sreg_tid_x(); }
BLUEFIN_INLINE bluefin_i64 bluefin_thread() {
    return (bluefin_i64)__nvvm_read_ptx_sreg_ctaid_x() * 256 + bluefin_lane();
}
BLUEFIN_INLINE void bluefin_barrier() { __syncthreads(); }
#endif

// Adds up what the threads of a block counted.
BLUEFIN_INLINE void bluefin_add(bluefin_u64 compared, bluefin_u64 wrong, bluefin_u64* report) {
    static __attribute__((shared)) bluefin_u64 sums[2];
    if (bluefin_lane() < 2) sums[bluefin_lane()] = 0;
    bluefin_barrier();
    __atomic_fetch_add(&sums[0], compared, __ATOMIC_RELAXED);
    if (wrong) __atomic_fetch_add(&sums[1], wrong, __ATOMIC_RELAXED);
    bluefin_barrier();
    if (bluefin_lane() < 2) __atomic_fetch_add(&report[bluefin_lane()], sums[bluefin_lane()], __ATOMIC_RELAXED);
}

// Fills `count` words with two values in turn.
BLUEFIN_ENTRY bluefin_fill(bluefin_u32* words, bluefin_i64 count, int even, int odd, bluefin_i64 threads) {
    for (bluefin_i64 i = bluefin_thread(); i < count; i += threads) words[i] = i % 2 ? odd : even;
}

BLUEFIN_ENTRY bluefin_copy(unsigned char* to, const unsigned char* from, bluefin_i64 bytes, bluefin_i64 threads) {
    const bluefin_i64 vectors = bytes >= 256 ? bytes / 16 : 0;
    for (bluefin_i64 i = bluefin_thread(); i < vectors; i += threads)
        ((bluefin_vector*)to)[i] = ((const bluefin_vector*)from)[i];
    for (bluefin_i64 i = vectors * 16 + bluefin_thread(); i < bytes; i += threads) to[i] = from[i];
}

// Counts bytes that differ, or groups of sixteen in which any does.
BLUEFIN_ENTRY bluefin_same(const unsigned char* got, const unsigned char* want, bluefin_i64 bytes, bluefin_u64* report,
                           bluefin_i64 threads) {
    bluefin_u64 compared = 0, wrong = 0;
    const bluefin_i64 vectors = bytes >= 256 ? bytes / 16 : 0;
    for (bluefin_i64 i = bluefin_thread(); i < vectors; i += threads) {
        const bluefin_vector difference = ((const bluefin_vector*)got)[i] ^ ((const bluefin_vector*)want)[i];
        compared += 16;
        wrong += (difference[0] | difference[1] | difference[2] | difference[3]) != 0;
    }
    for (bluefin_i64 i = vectors * 16 + bluefin_thread(); i < bytes; i += threads) {
        compared += 1;
        wrong += got[i] != want[i];
    }
    bluefin_add(compared, wrong, report);
}

BLUEFIN_INLINE double bluefin_number(const unsigned char* data, bluefin_i64 i, int type) {
    switch (type) {
    case 0: return ((const double*)data)[i];
    case 1: return ((const float*)data)[i];
    case 2: return ((const _Float16*)data)[i];
    case 3: return __builtin_bit_cast(float, (bluefin_u32)((const unsigned short*)data)[i] << 16);
    case 4: return ((const signed char*)data)[i];
    case 5: return ((const int*)data)[i];
    default: return (double)((const bluefin_i64*)data)[i];
    }
}

// Bits decide what is no number, and what is infinite: a source may be compiled with flags that promise there are none.
BLUEFIN_INLINE bool bluefin_is_right(double got, double want, double absolute, double relative) {
    constexpr bluefin_u64 magnitude = ~0ull >> 1, infinite = 0x7FFull << 52;
    const bluefin_u64 g = __builtin_bit_cast(bluefin_u64, got), w = __builtin_bit_cast(bluefin_u64, want);
    if ((g & magnitude) > infinite || (w & magnitude) > infinite)
        return (g & magnitude) > infinite && (w & magnitude) > infinite;
    if ((g & magnitude) == infinite || (w & magnitude) == infinite) return g == w;
    return __builtin_fabs(got - want) <= absolute + relative * __builtin_fabs(want);
}

// Counts elements that are further from what is wanted than the tolerance. Types: 0 FP64, 1 FP32, 2 FP16, 3 BF16, 4 INT8,
// 5 INT32, 6 INT64.
BLUEFIN_ENTRY bluefin_close(const unsigned char* got, const unsigned char* want, bluefin_i64 elements, int type,
                            double absolute, double relative, bluefin_u64* report, bluefin_i64 threads) {
    bluefin_u64 compared = 0, wrong = 0;
    for (bluefin_i64 i = bluefin_thread(); i < elements; i += threads) {
        compared += 1;
        wrong += !bluefin_is_right(bluefin_number(got, i, type), bluefin_number(want, i, type), absolute, relative);
    }
    bluefin_add(compared, wrong, report);
}
