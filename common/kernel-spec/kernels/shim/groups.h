// Cooperative groups: blocks, tiles of a power of two lanes, and the grid, whose barrier is for one block.
#pragma once

#include "bluefin/gpu.h"

namespace cooperative_groups {
BLUEFIN_DEVICE unsigned bluefin_rank() {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}

// Any of those below, for functions that take all of them.
struct thread_group {
    // Of a tile; 0 for a block.
    unsigned bluefin_lanes;
    BLUEFIN_MEMBER void sync() const {
        if (bluefin_lanes == 0) {
            __syncthreads();
        } else {
            __syncwarp();
        }
    }
    BLUEFIN_MEMBER unsigned size() const {
        return bluefin_lanes == 0 ? blockDim.x * blockDim.y * blockDim.z : bluefin_lanes;
    }
    BLUEFIN_MEMBER unsigned num_threads() const { return size(); }
    BLUEFIN_MEMBER unsigned thread_rank() const { return bluefin_rank() % size(); }
};

struct thread_block {
    BLUEFIN_MEMBER operator thread_group() const { return {0}; }
    BLUEFIN_MEMBER static void sync() { __syncthreads(); }
    BLUEFIN_MEMBER static unsigned thread_rank() { return bluefin_rank(); }
    BLUEFIN_MEMBER static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
    BLUEFIN_MEMBER static unsigned num_threads() { return size(); }
    BLUEFIN_MEMBER static dim3 group_index() { return blockIdx; }
    BLUEFIN_MEMBER static dim3 thread_index() { return threadIdx; }
    BLUEFIN_MEMBER static dim3 group_dim() { return blockDim; }
    BLUEFIN_MEMBER static dim3 dim_threads() { return blockDim; }
};
BLUEFIN_DEVICE thread_block this_thread_block() { return {}; }

struct grid_group {
    BLUEFIN_MEMBER static unsigned long long size() {
        return (unsigned long long)thread_block::size() * gridDim.x * gridDim.y * gridDim.z;
    }
    BLUEFIN_MEMBER static unsigned long long num_threads() { return size(); }
    BLUEFIN_MEMBER static unsigned long long block_rank() {
        return ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    }
    BLUEFIN_MEMBER static unsigned long long thread_rank() { return block_rank() * thread_block::size() + bluefin_rank(); }
    BLUEFIN_MEMBER static dim3 group_dim() { return gridDim; }
    BLUEFIN_MEMBER static bool is_valid() { return gridDim.x * gridDim.y * gridDim.z == 1; }
    // No spec has a cooperative launch: a grid of one block waits for itself.
    BLUEFIN_MEMBER static void sync() {
        if (!is_valid()) __assert_fail("grid.sync() with one block", "", 0, "");
        __syncthreads();
    }
};
BLUEFIN_DEVICE grid_group this_grid() { return {}; }

// The lanes of a warp that execute this together, numbered without those that do not.
struct coalesced_group {
    bluefin_mask bluefin_lanes;
    BLUEFIN_MEMBER void sync() const { __syncwarp(bluefin_lanes); }
    BLUEFIN_MEMBER unsigned size() const { return (unsigned)__builtin_popcountll(bluefin_lanes); }
    BLUEFIN_MEMBER unsigned num_threads() const { return size(); }
    BLUEFIN_MEMBER unsigned thread_rank() const {
        return (unsigned)__builtin_popcountll(bluefin_lanes & (((bluefin_mask)1 << __lane_id()) - 1));
    }
    // The lane of the warp that has a rank.
    BLUEFIN_MEMBER int bluefin_lane_of(unsigned rank) const {
        bluefin_mask lanes = bluefin_lanes;
        for (unsigned i = 0; i < rank; ++i) lanes &= lanes - 1;
        return (int)__builtin_ctzll(lanes);
    }
    template <class T> BLUEFIN_MEMBER T shfl(BLUEFIN_OPEN T value, unsigned from) const {
        return __shfl_sync(bluefin_lanes, value, bluefin_lane_of(from % size()));
    }
    template <class T> BLUEFIN_MEMBER T shfl_up(BLUEFIN_OPEN T value, unsigned by) const {
        const unsigned rank = thread_rank();
        return shfl(value, rank < by ? rank : rank - by);
    }
    template <class T> BLUEFIN_MEMBER T shfl_down(BLUEFIN_OPEN T value, unsigned by) const {
        const unsigned rank = thread_rank();
        return shfl(value, rank + by >= size() ? rank : rank + by);
    }
    BLUEFIN_MEMBER int any(int predicate) const { return __any_sync(bluefin_lanes, predicate); }
    BLUEFIN_MEMBER int all(int predicate) const { return __all_sync(bluefin_lanes, predicate); }
};
BLUEFIN_DEVICE coalesced_group coalesced_threads() { return {bluefin_active()}; }

// `size` neighbouring lanes of a warp.
template <unsigned lanes, class Parent = thread_block> struct thread_block_tile {
    static_assert((lanes & (lanes - 1)) == 0 && lanes <= BLUEFIN_WARP, "a tile has a power of two lanes, at most a warp");
    BLUEFIN_MEMBER operator thread_group() const { return {lanes}; }
    BLUEFIN_MEMBER static void sync() { __syncwarp(); }
    BLUEFIN_MEMBER static unsigned thread_rank() { return bluefin_rank() & (lanes - 1); }
    BLUEFIN_MEMBER static constexpr unsigned size() { return lanes; }
    BLUEFIN_MEMBER static constexpr unsigned num_threads() { return lanes; }
    // Among the tiles of its parent, which is the block or a larger tile.
    BLUEFIN_MEMBER static unsigned meta_group_rank() { return Parent::thread_rank() / lanes; }
    BLUEFIN_MEMBER static unsigned meta_group_size() { return (Parent::size() + lanes - 1) / lanes; }
    // Its lanes among those of the warp.
    BLUEFIN_MEMBER static bluefin_mask bluefin_lanes() {
        return (~(bluefin_mask)0 >> (BLUEFIN_WARP - lanes)) << (__lane_id() & ~(lanes - 1));
    }
    template <class T> BLUEFIN_MEMBER static T shfl(BLUEFIN_OPEN T value, int from) { return __shfl_sync(bluefin_lanes(), value, from, lanes); }
    template <class T> BLUEFIN_MEMBER static T shfl_up(BLUEFIN_OPEN T value, unsigned by) {
        return __shfl_up_sync(bluefin_lanes(), value, by, lanes);
    }
    template <class T> BLUEFIN_MEMBER static T shfl_down(BLUEFIN_OPEN T value, unsigned by) {
        return __shfl_down_sync(bluefin_lanes(), value, by, lanes);
    }
    template <class T> BLUEFIN_MEMBER static T shfl_xor(BLUEFIN_OPEN T value, int mask) {
        return __shfl_xor_sync(bluefin_lanes(), value, mask, lanes);
    }
    BLUEFIN_MEMBER static bluefin_ballot_result ballot(int predicate) {
        return bluefin_ballot_of(bluefin_lanes(), predicate != 0) >> (__lane_id() & ~(lanes - 1));
    }
    BLUEFIN_MEMBER static int any(int predicate) { return __any_sync(bluefin_lanes(), predicate); }
    BLUEFIN_MEMBER static int all(int predicate) { return __all_sync(bluefin_lanes(), predicate); }
};
template <unsigned lanes, class Parent> BLUEFIN_DEVICE thread_block_tile<lanes, Parent> tiled_partition(const Parent&) {
    return {};
}
BLUEFIN_DEVICE thread_group tiled_partition(const thread_group&, unsigned lanes) { return {lanes}; }
template <class Group> BLUEFIN_DEVICE void sync(const Group& group) { group.sync(); }

template <class T> struct plus {
    BLUEFIN_MEMBER T operator()(T a, T b) const { return a + b; }
};
template <class T> struct less {
    BLUEFIN_MEMBER T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T> struct greater {
    BLUEFIN_MEMBER T operator()(T a, T b) const { return a < b ? b : a; }
};
// Of all lanes of the tile, in every lane.
template <class Tile, class T, class Join> BLUEFIN_DEVICE T reduce(const Tile& tile, T value, Join join) {
    for (unsigned by = Tile::size() / 2; by > 0; by /= 2) value = join(value, tile.shfl_xor(value, (int)by));
    return value;
}
template <class T, class Join> BLUEFIN_DEVICE T reduce(const coalesced_group& group, T value, Join join) {
    T result = group.shfl(value, 0);
    for (unsigned rank = 1; rank < group.size(); ++rank) result = join(result, group.shfl(value, rank));
    return result;
}
}
