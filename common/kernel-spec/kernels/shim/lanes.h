// What lanes of a warp tell each other: shuffles, ballots, votes. A warp is BLUEFIN_WARP lanes.
#pragma once

#if BLUEFIN_WARP == 64
using bluefin_mask = unsigned long long;
#else
using bluefin_mask = unsigned;
#endif

#if BLUEFIN_AMD
// The lane's number in its wave.
BLUEFIN_DEVICE unsigned bluefin_wave_lane() {
#if BLUEFIN_WAVE == 64
    return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
#else
    return __builtin_amdgcn_mbcnt_lo(~0u, 0u);
#endif
}
// A bit for each lane of the warp that executes this and whose `predicate` holds.
BLUEFIN_DEVICE bluefin_mask bluefin_ballot(bool predicate) {
#if BLUEFIN_WAVE == BLUEFIN_WARP && BLUEFIN_WAVE == 64
    return __builtin_amdgcn_ballot_w64(predicate);
#elif BLUEFIN_WAVE == BLUEFIN_WARP
    return __builtin_amdgcn_ballot_w32(predicate);
#else
    return (unsigned)(__builtin_amdgcn_ballot_w64(predicate) >> (bluefin_wave_lane() & 32));
#endif
}
#else
BLUEFIN_DEVICE bluefin_mask bluefin_active() {
    unsigned mask;
    asm volatile("activemask.b32 %0;" : "=r"(mask));
    return mask;
}
BLUEFIN_DEVICE bluefin_mask bluefin_ballot_of(bluefin_mask mask, bool predicate) {
    unsigned lanes;
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, %2; }"
                 : "=r"(lanes) : "r"((unsigned)predicate), "r"(mask));
    return lanes;
}
BLUEFIN_DEVICE bluefin_mask bluefin_ballot(bool predicate) { return bluefin_ballot_of(bluefin_active(), predicate); }
BLUEFIN_DEVICE unsigned bluefin_wave_lane() {
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}
#endif
BLUEFIN_DEVICE unsigned __lane_id() { return bluefin_wave_lane() & (BLUEFIN_WARP - 1); }

// The 32 bits that lane `from` holds, a number within the wave. The lanes of `mask` are those that take part.
BLUEFIN_DEVICE unsigned bluefin_of_lane(bluefin_mask mask, unsigned bits, unsigned from) {
#if BLUEFIN_AMD
    return (unsigned)__builtin_amdgcn_ds_bpermute((int)(from * 4), (int)bits);
#else
    unsigned other;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, %3;" : "=r"(other) : "r"(bits), "r"(from), "r"(mask));
    return other;
#endif
}

// A value of any size that lane `from` holds.
template <class T> BLUEFIN_DEVICE T bluefin_take(bluefin_mask mask, T value, unsigned from) {
    constexpr int words = (sizeof(T) + 3) / 4;
    unsigned parts[words] = {};
    __builtin_memcpy(parts, &value, sizeof(T));
#pragma unroll
    for (int i = 0; i < words; ++i) parts[i] = bluefin_of_lane(mask, parts[i], from);
    __builtin_memcpy(&value, parts, sizeof(T));
    return value;
}

template <class T> BLUEFIN_DEVICE T __shfl_sync(bluefin_mask mask, BLUEFIN_OPEN T value, int from, int width = BLUEFIN_WARP) {
    const unsigned self = bluefin_wave_lane();
    return bluefin_take(mask, value, (self & ~(width - 1u)) | (from & (width - 1)));
}
template <class T> BLUEFIN_DEVICE T __shfl_up_sync(bluefin_mask mask, BLUEFIN_OPEN T value, unsigned by, int width = BLUEFIN_WARP) {
    const unsigned self = bluefin_wave_lane(), within = self & (width - 1u);
    return bluefin_take(mask, value, within < by ? self : self - by);
}
template <class T> BLUEFIN_DEVICE T __shfl_down_sync(bluefin_mask mask, BLUEFIN_OPEN T value, unsigned by, int width = BLUEFIN_WARP) {
    const unsigned self = bluefin_wave_lane(), within = self & (width - 1u);
    return bluefin_take(mask, value, within + by >= (unsigned)width ? self : self + by);
}
template <class T> BLUEFIN_DEVICE T __shfl_xor_sync(bluefin_mask mask, BLUEFIN_OPEN T value, int lanes, int width = BLUEFIN_WARP) {
    const unsigned self = bluefin_wave_lane(), other = self ^ (unsigned)lanes, end = (self + width) & ~(width - 1u);
    return bluefin_take(mask, value, other >= end ? self : other);
}

#if BLUEFIN_AMD
BLUEFIN_DEVICE bluefin_mask bluefin_active() { return bluefin_ballot(true); }
BLUEFIN_DEVICE bluefin_mask bluefin_ballot_of(bluefin_mask mask, bool predicate) { return bluefin_ballot(predicate) & mask; }
#endif

// Those without a mask, which CUDA no longer has.
template <class T> BLUEFIN_DEVICE T __shfl(BLUEFIN_OPEN T value, int from, int width = BLUEFIN_WARP) {
    return __shfl_sync(bluefin_active(), value, from, width);
}
template <class T> BLUEFIN_DEVICE T __shfl_up(BLUEFIN_OPEN T value, unsigned by, int width = BLUEFIN_WARP) {
    return __shfl_up_sync(bluefin_active(), value, by, width);
}
template <class T> BLUEFIN_DEVICE T __shfl_down(BLUEFIN_OPEN T value, unsigned by, int width = BLUEFIN_WARP) {
    return __shfl_down_sync(bluefin_active(), value, by, width);
}
template <class T> BLUEFIN_DEVICE T __shfl_xor(BLUEFIN_OPEN T value, int lanes, int width = BLUEFIN_WARP) {
    return __shfl_xor_sync(bluefin_active(), value, lanes, width);
}

#if BLUEFIN_CUDA
using bluefin_ballot_result = unsigned;
#else
using bluefin_ballot_result = unsigned long long;
#endif
BLUEFIN_DEVICE bluefin_ballot_result __activemask() { return bluefin_active(); }
BLUEFIN_DEVICE bluefin_ballot_result __ballot(int predicate) { return bluefin_ballot(predicate != 0); }
BLUEFIN_DEVICE unsigned long long __ballot64(int predicate) { return bluefin_ballot(predicate != 0); }
BLUEFIN_DEVICE bluefin_ballot_result __ballot_sync(bluefin_mask mask, int predicate) {
    return bluefin_ballot_of(mask, predicate != 0);
}
BLUEFIN_DEVICE int __any(int predicate) { return bluefin_ballot(predicate != 0) != 0; }
BLUEFIN_DEVICE int __all(int predicate) { return bluefin_ballot(predicate == 0) == 0; }
BLUEFIN_DEVICE int __any_sync(bluefin_mask mask, int predicate) { return bluefin_ballot_of(mask, predicate != 0) != 0; }
BLUEFIN_DEVICE int __all_sync(bluefin_mask mask, int predicate) { return bluefin_ballot_of(mask, predicate == 0) == 0; }
BLUEFIN_DEVICE int __uni_sync(bluefin_mask mask, int predicate) {
    return __all_sync(mask, predicate) || !__any_sync(mask, predicate);
}

// The lanes of `mask` that hold the same bits.
template <class T> BLUEFIN_DEVICE bluefin_ballot_result __match_any_sync(bluefin_mask mask, T value) {
    constexpr int words = (sizeof(T) + 3) / 4;
    unsigned parts[words] = {};
    __builtin_memcpy(parts, &value, sizeof(T));
    bluefin_mask same = 0;
    for (int lane = 0; lane < BLUEFIN_WARP; ++lane) {
        bool is_same = mask >> lane & 1;
#pragma unroll
        for (int i = 0; i < words; ++i) is_same &= __shfl_sync(mask, parts[i], lane) == parts[i];
        if (is_same) same |= (bluefin_mask)1 << lane;
    }
    return same;
}
template <class T> BLUEFIN_DEVICE bluefin_ballot_result __match_all_sync(bluefin_mask mask, T value, int* all) {
    *all = (bluefin_mask)__match_any_sync(mask, value) == mask;
    return *all ? mask : 0;
}

#define BLUEFIN_REDUCTION(name, T, join)                                         \
    BLUEFIN_DEVICE T __reduce_##name##_sync(bluefin_mask mask, T value) {        \
        T a = 0;                                                                 \
        bool first = true;                                                       \
        for (int lane = 0; lane < BLUEFIN_WARP; ++lane) {                        \
            const T b = __shfl_sync(mask, value, lane);                          \
            if (!(mask >> lane & 1)) continue;                                   \
            a = first ? b : (join);                                              \
            first = false;                                                       \
        }                                                                        \
        return a;                                                                \
    }
BLUEFIN_REDUCTION(add, unsigned, a + b)
BLUEFIN_REDUCTION(add, int, a + b)
BLUEFIN_REDUCTION(min, unsigned, a < b ? a : b)
BLUEFIN_REDUCTION(min, int, a < b ? a : b)
BLUEFIN_REDUCTION(max, unsigned, a < b ? b : a)
BLUEFIN_REDUCTION(max, int, a < b ? b : a)
BLUEFIN_REDUCTION(and, unsigned, a & b)
BLUEFIN_REDUCTION(or, unsigned, a | b)
BLUEFIN_REDUCTION(xor, unsigned, a ^ b)
