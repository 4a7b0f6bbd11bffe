// What kernels use of CUB and hipCUB most: reductions and prefix sums of blocks and warps, loads and stores of a block. Nothing of a whole
// device, which hosts call.
#pragma once

#include "bluefin/groups.h"
#include "bluefin/half.h"

// A file of either dialect may say that the other name stands for its own.
#if BLUEFIN_CUDA
namespace cub {}
namespace hipcub = cub;
#else
namespace hipcub {}
namespace cub = hipcub;
#endif

#if BLUEFIN_CUDA
namespace cub {
#else
namespace hipcub {
#endif
struct Sum {
    template <class T> BLUEFIN_MEMBER T operator()(const T& a, const T& b) const { return a + b; }
};
struct Max {
    template <class T> BLUEFIN_MEMBER T operator()(const T& a, const T& b) const { return b > a ? b : a; }
};
struct Min {
    template <class T> BLUEFIN_MEMBER T operator()(const T& a, const T& b) const { return b < a ? b : a; }
};

// The least and the largest number of a type.
template <class T> struct FpLimits;
#define BLUEFIN_LIMITS(T, most)                                \
    template <> struct FpLimits<T> {                           \
        BLUEFIN_MEMBER_OF_BOTH static T Max() { return most; } \
        BLUEFIN_MEMBER_OF_BOTH static T Lowest() { return -most; } \
    };
BLUEFIN_LIMITS(float, 3.402823466e38f)
BLUEFIN_LIMITS(double, 1.7976931348623157e308)
BLUEFIN_LIMITS(_Float16, (_Float16)65504.0f)
#if __clang_major__ >= 19
BLUEFIN_LIMITS(__bf16, (__bf16)3.38953139e38f)
#endif
#undef BLUEFIN_LIMITS

// A value and where it is, and which of two is taken: of equal values the one that comes first.
template <class K, class V> struct KeyValuePair {
    using Key = K;
    using Value = V;
    K key;
    V value;
    BLUEFIN_MEMBER_OF_BOTH KeyValuePair() {}
    BLUEFIN_MEMBER_OF_BOTH KeyValuePair(const K& key, const V& value) : key(key), value(value) {}
    BLUEFIN_MEMBER_OF_BOTH bool operator!=(const KeyValuePair& other) const { return value != other.value || key != other.key; }
};
struct ArgMax {
    template <class K, class V> BLUEFIN_MEMBER KeyValuePair<K, V> operator()(const KeyValuePair<K, V>& a, const KeyValuePair<K, V>& b) const {
        return b.value > a.value || a.value == b.value && b.key < a.key ? b : a;
    }
};
struct ArgMin {
    template <class K, class V> BLUEFIN_MEMBER KeyValuePair<K, V> operator()(const KeyValuePair<K, V>& a, const KeyValuePair<K, V>& b) const {
        return b.value < a.value || a.value == b.value && b.key < a.key ? b : a;
    }
};

// Which way each goes is said for the sake of speed alone: results are the same.
enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS };
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
enum BlockLoadAlgorithm {
    BLOCK_LOAD_DIRECT, BLOCK_LOAD_STRIPED, BLOCK_LOAD_VECTORIZE, BLOCK_LOAD_TRANSPOSE, BLOCK_LOAD_WARP_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED
};
enum BlockStoreAlgorithm {
    BLOCK_STORE_DIRECT, BLOCK_STORE_STRIPED, BLOCK_STORE_VECTORIZE, BLOCK_STORE_TRANSPOSE, BLOCK_STORE_WARP_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED
};
// A file's own, for its host.
struct CachingDeviceAllocator {
    template <class... Values> CachingDeviceAllocator(Values&&...) {}
};

// Lane 0 gets the values of all, or of the first `valid` lanes, in their order.
template <class T, int LANES = BLUEFIN_WARP> struct WarpReduce {
    static_assert((LANES & (LANES - 1)) == 0 && LANES <= BLUEFIN_WARP, "lanes are a power of two, of one warp");
    struct TempStorage {};
    BLUEFIN_MEMBER WarpReduce(TempStorage&) {}
    template <class Join> BLUEFIN_MEMBER static T bluefin_reduce(BLUEFIN_OPEN T value, Join join, int valid) {
        const int lane = (int)(__lane_id() % LANES);
        const bluefin_mask mask = bluefin_active();
        if (valid > LANES) valid = LANES;
#pragma unroll
        for (int by = 1; by < LANES; by *= 2) {
            const T other = __shfl_down_sync(mask, value, by, LANES);
            if (lane + by < valid) value = join(value, other);
        }
        return value;
    }
    template <class Join> BLUEFIN_MEMBER T Reduce(BLUEFIN_OPEN T value, Join join, int valid = LANES) {
        return bluefin_reduce(value, join, valid);
    }
    BLUEFIN_MEMBER T Sum(BLUEFIN_OPEN T value, int valid = LANES) { return bluefin_reduce(value, cub::Sum(), valid); }
};

// Values of a warp's lanes up to each of them. What all of them come to is without the first that is given.
template <class T, int LANES = BLUEFIN_WARP> struct WarpScan {
    static_assert((LANES & (LANES - 1)) == 0 && LANES <= BLUEFIN_WARP, "lanes are a power of two, of one warp");
    struct TempStorage {};
    BLUEFIN_MEMBER WarpScan(TempStorage&) {}
    template <class Join> BLUEFIN_MEMBER static T bluefin_scan(T value, Join join) {
        const int lane = (int)(__lane_id() % LANES);
        const bluefin_mask mask = bluefin_active();
#pragma unroll
        for (int by = 1; by < LANES; by *= 2) {
            const T other = __shfl_up_sync(mask, value, by, LANES);
            if (lane >= by) value = join(other, value);
        }
        return value;
    }
    BLUEFIN_MEMBER static T bluefin_last(T value) { return __shfl_sync(bluefin_active(), value, LANES - 1, LANES); }
    // What is before this lane, if any is.
    BLUEFIN_MEMBER static T bluefin_before(T scanned, T first) {
        const T before = __shfl_up_sync(bluefin_active(), scanned, 1, LANES);
        return __lane_id() % LANES == 0 ? first : before;
    }
    template <class Join> BLUEFIN_MEMBER void InclusiveScan(T in, T& out, Join join) { out = bluefin_scan(in, join); }
    template <class Join> BLUEFIN_MEMBER void InclusiveScan(T in, T& out, Join join, T& all) {
        out = bluefin_scan(in, join);
        all = bluefin_last(out);
    }
    template <class Join> BLUEFIN_MEMBER void ExclusiveScan(T in, T& out, T first, Join join) {
        const T before = bluefin_before(bluefin_scan(in, join), first);
        out = __lane_id() % LANES == 0 ? first : join(first, before);
    }
    template <class Join> BLUEFIN_MEMBER void ExclusiveScan(T in, T& out, T first, Join join, T& all) {
        const T scanned = bluefin_scan(in, join), before = bluefin_before(scanned, first);
        all = bluefin_last(scanned);
        out = __lane_id() % LANES == 0 ? first : join(first, before);
    }
    BLUEFIN_MEMBER void InclusiveSum(T in, T& out) { out = bluefin_scan(in, cub::Sum()); }
    BLUEFIN_MEMBER void InclusiveSum(T in, T& out, T& all) { InclusiveScan(in, out, cub::Sum(), all); }
    BLUEFIN_MEMBER void ExclusiveSum(T in, T& out) { out = bluefin_before(bluefin_scan(in, cub::Sum()), T()); }
    BLUEFIN_MEMBER void ExclusiveSum(T in, T& out, T& all) {
        const T scanned = bluefin_scan(in, cub::Sum());
        all = bluefin_last(scanned);
        out = bluefin_before(scanned, T());
    }
};

// A value for each warp of a block of so many threads, without a constructor.
template <class T, int THREADS> struct bluefin_of_warps {
    enum { WARPS = (THREADS + BLUEFIN_WARP - 1) / BLUEFIN_WARP };
    alignas(T) unsigned char bytes[sizeof(T) * WARPS];
    BLUEFIN_MEMBER T& operator[](int warp) { return reinterpret_cast<T*>(bytes)[warp]; }
};

// Thread 0 gets the values of all threads, or of the first `valid`, in their order.
template <class T, int X, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1, int = 0> struct BlockReduce {
    enum { THREADS = X * Y * Z };
    struct TempStorage {
        bluefin_of_warps<T, THREADS> warps;
    };
    TempStorage& storage;
    BLUEFIN_MEMBER BlockReduce(TempStorage& storage) : storage(storage) {}
    template <class Join> BLUEFIN_MEMBER T Reduce(BLUEFIN_OPEN T value, Join join, int valid = THREADS) {
        const int rank = (int)cooperative_groups::bluefin_rank(), warp = rank / BLUEFIN_WARP;
        const int in_warp = valid - warp * BLUEFIN_WARP;
        value = WarpReduce<T>::bluefin_reduce(value, join, in_warp);
        if (rank % BLUEFIN_WARP == 0 && in_warp > 0) storage.warps[warp] = value;
        __syncthreads();
        if (rank == 0) {
            for (int other = 1; other * BLUEFIN_WARP < valid; ++other) value = join(value, storage.warps[other]);
        }
        return value;
    }
    template <int N, class Join> BLUEFIN_MEMBER T Reduce(T (&values)[N], Join join) {
        T value = values[0];
#pragma unroll
        for (int i = 1; i < N; ++i) value = join(value, values[i]);
        return Reduce(value, join);
    }
    BLUEFIN_MEMBER T Sum(BLUEFIN_OPEN T value, int valid = THREADS) { return Reduce(value, cub::Sum(), valid); }
    template <int N> BLUEFIN_MEMBER T Sum(T (&values)[N]) { return Reduce(values, cub::Sum()); }
};

// Values of a block's threads up to each of them. A thread may have several, one behind the other.
template <class T, int X, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1, int = 0> struct BlockScan {
    enum { THREADS = X * Y * Z };
    struct TempStorage {
        bluefin_of_warps<T, THREADS> warps;
    };
    TempStorage& storage;
    BLUEFIN_MEMBER BlockScan(TempStorage& storage) : storage(storage) {}

    // What is before a thread, if it is not the first, and what all come to.
    struct bluefin_found {
        T before, all;
    };
    template <class Join> BLUEFIN_MEMBER bluefin_found bluefin_scan(T value, Join join) {
        const int rank = (int)cooperative_groups::bluefin_rank(), warp = rank / BLUEFIN_WARP, lane = rank % BLUEFIN_WARP;
        const T scanned = WarpScan<T>::bluefin_scan(value, join);
        if (lane == BLUEFIN_WARP - 1 || rank == THREADS - 1) storage.warps[warp] = scanned;
        __syncthreads();
        bluefin_found found = {WarpScan<T>::bluefin_before(scanned, value), storage.warps[0]};
        T warps_before = storage.warps[0];
        for (int other = 1; other * BLUEFIN_WARP < THREADS; ++other) {
            if (other == warp) warps_before = found.all;
            found.all = join(found.all, storage.warps[other]);
        }
        if (warp > 0) found.before = lane == 0 ? warps_before : join(warps_before, found.before);
        return found;
    }

    template <int N, class Join> BLUEFIN_MEMBER void InclusiveScan(T (&in)[N], T (&out)[N], Join join, T& all) {
        T value = in[0];
#pragma unroll
        for (int i = 1; i < N; ++i) value = join(value, in[i]);
        const bluefin_found found = bluefin_scan(value, join);
        value = cooperative_groups::bluefin_rank() == 0 ? in[0] : join(found.before, in[0]);
        out[0] = value;
#pragma unroll
        for (int i = 1; i < N; ++i) out[i] = value = join(value, in[i]);
        all = found.all;
    }
    template <int N, class Join> BLUEFIN_MEMBER void ExclusiveScan(T (&in)[N], T (&out)[N], T first, Join join, T& all) {
        T value = in[0];
#pragma unroll
        for (int i = 1; i < N; ++i) value = join(value, in[i]);
        const bluefin_found found = bluefin_scan(value, join);
        value = cooperative_groups::bluefin_rank() == 0 ? first : join(first, found.before);
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const T next = join(value, in[i]);
            out[i] = value;
            value = next;
        }
        all = found.all;
    }
    template <int N, class Join> BLUEFIN_MEMBER void InclusiveScan(T (&in)[N], T (&out)[N], Join join) {
        T all;
        InclusiveScan(in, out, join, all);
    }
    template <int N, class Join> BLUEFIN_MEMBER void ExclusiveScan(T (&in)[N], T (&out)[N], T first, Join join) {
        T all;
        ExclusiveScan(in, out, first, join, all);
    }
    template <class Join> BLUEFIN_MEMBER void InclusiveScan(T in, T& out, Join join, T& all) {
        const bluefin_found found = bluefin_scan(in, join);
        out = cooperative_groups::bluefin_rank() == 0 ? in : join(found.before, in);
        all = found.all;
    }
    template <class Join> BLUEFIN_MEMBER void ExclusiveScan(T in, T& out, T first, Join join, T& all) {
        const bluefin_found found = bluefin_scan(in, join);
        out = cooperative_groups::bluefin_rank() == 0 ? first : join(first, found.before);
        all = found.all;
    }
    template <class Join> BLUEFIN_MEMBER void InclusiveScan(T in, T& out, Join join) {
        T all;
        InclusiveScan(in, out, join, all);
    }
    template <class Join> BLUEFIN_MEMBER void ExclusiveScan(T in, T& out, T first, Join join) {
        T all;
        ExclusiveScan(in, out, first, join, all);
    }
    template <int N> BLUEFIN_MEMBER void InclusiveSum(T (&in)[N], T (&out)[N]) { InclusiveScan(in, out, cub::Sum()); }
    template <int N> BLUEFIN_MEMBER void InclusiveSum(T (&in)[N], T (&out)[N], T& all) { InclusiveScan(in, out, cub::Sum(), all); }
    template <int N> BLUEFIN_MEMBER void ExclusiveSum(T (&in)[N], T (&out)[N]) { ExclusiveScan(in, out, T(), cub::Sum()); }
    template <int N> BLUEFIN_MEMBER void ExclusiveSum(T (&in)[N], T (&out)[N], T& all) {
        ExclusiveScan(in, out, T(), cub::Sum(), all);
    }
    BLUEFIN_MEMBER void InclusiveSum(T in, T& out) { InclusiveScan(in, out, cub::Sum()); }
    BLUEFIN_MEMBER void InclusiveSum(T in, T& out, T& all) { InclusiveScan(in, out, cub::Sum(), all); }
    BLUEFIN_MEMBER void ExclusiveSum(T in, T& out) { ExclusiveScan(in, out, T(), cub::Sum()); }
    BLUEFIN_MEMBER void ExclusiveSum(T in, T& out, T& all) { ExclusiveScan(in, out, T(), cub::Sum(), all); }
};

// Where the value `i` of a thread is: its values follow each other, or those of all threads alternate.
template <int THREADS, int N, bool STRIPED> BLUEFIN_DEVICE int bluefin_place(int i) {
    const int rank = (int)cooperative_groups::bluefin_rank();
    return STRIPED ? i * THREADS + rank : rank * N + i;
}

// The same for a thread that says its place in the block.
#define BLUEFIN_LOAD(name, head, place)                                                                                  \
    template <head class T, int N, class From> BLUEFIN_DEVICE void LoadDirect##name(int rank, From from, T (&values)[N]) { \
        _Pragma("unroll") for (int i = 0; i < N; ++i) values[i] = from[place];                                           \
    }                                                                                                                    \
    template <head class T, int N, class From> BLUEFIN_DEVICE void LoadDirect##name(int rank, From from, T (&values)[N], int valid) { \
        _Pragma("unroll") for (int i = 0; i < N; ++i) if (place < valid) values[i] = from[place];                        \
    }                                                                                                                    \
    template <head class T, int N, class From, class Other>                                                              \
    BLUEFIN_DEVICE void LoadDirect##name(int rank, From from, T (&values)[N], int valid, Other other) {                  \
        _Pragma("unroll") for (int i = 0; i < N; ++i) values[i] = place < valid ? (T)from[place] : (T)other;             \
    }                                                                                                                    \
    template <head class T, int N, class To> BLUEFIN_DEVICE void StoreDirect##name(int rank, To to, T (&values)[N]) {    \
        _Pragma("unroll") for (int i = 0; i < N; ++i) to[place] = values[i];                                             \
    }                                                                                                                    \
    template <head class T, int N, class To> BLUEFIN_DEVICE void StoreDirect##name(int rank, To to, T (&values)[N], int valid) { \
        _Pragma("unroll") for (int i = 0; i < N; ++i) if (place < valid) to[place] = values[i];                          \
    }
#define BLUEFIN_THREADS int THREADS,
BLUEFIN_LOAD(Blocked, , rank * N + i)
BLUEFIN_LOAD(Striped, BLUEFIN_THREADS, i * THREADS + rank)
#undef BLUEFIN_THREADS
#undef BLUEFIN_LOAD

template <class T, int X, int N, BlockLoadAlgorithm HOW = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1, int = 0> struct BlockLoad {
    struct TempStorage {};
    BLUEFIN_MEMBER BlockLoad() {}
    BLUEFIN_MEMBER BlockLoad(TempStorage&) {}
    template <class From> BLUEFIN_MEMBER void Load(From from, T (&values)[N]) {
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] = from[bluefin_place<X * Y * Z, N, HOW == BLOCK_LOAD_STRIPED>(i)];
    }
    template <class From> BLUEFIN_MEMBER void Load(From from, T (&values)[N], int valid) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const int place = bluefin_place<X * Y * Z, N, HOW == BLOCK_LOAD_STRIPED>(i);
            if (place < valid) values[i] = from[place];
        }
    }
    template <class From, class Other> BLUEFIN_MEMBER void Load(From from, T (&values)[N], int valid, Other other) {
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] = other;
        Load(from, values, valid);
    }
};

template <class T, int X, int N, BlockStoreAlgorithm HOW = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1, int = 0> struct BlockStore {
    struct TempStorage {};
    BLUEFIN_MEMBER BlockStore() {}
    BLUEFIN_MEMBER BlockStore(TempStorage&) {}
    template <class To> BLUEFIN_MEMBER void Store(To to, T (&values)[N], int valid = X * Y * Z * N) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const int place = bluefin_place<X * Y * Z, N, HOW == BLOCK_STORE_STRIPED>(i);
            if (place < valid) to[place] = values[i];
        }
    }
};
}  // namespace cub, or hipcub
