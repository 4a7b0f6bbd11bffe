//! Lanes of a warp and threads of a block that work together in HIP and CUDA files: shuffles, votes, cooperative groups, CUB.

use crate::common::write;
use crate::people::{CUDA, HIP, Known, check, right};

/// A CUDA file's warps have 32 lanes, also on waves of 64.
#[test]
fn lanes_of_cuda() {
    let kernel = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n__global__ void found(int* out) {\n    \
        const int t = threadIdx.x, lane = t % warpSize;\n    int sum = t;\n    \
        for (int by = 16; by > 0; by /= 2) sum += __shfl_down_sync(0xffffffff, sum, by);\n    \
        out[t] = __shfl_sync(0xffffffff, sum, 0);\n    out[64 + t] = __shfl_up_sync(0xffffffff, t, 1);\n    \
        out[128 + t] = __shfl_xor_sync(0xffffffff, t, 5, 8);\n    out[192 + t] = (int)__ballot_sync(0xffffffff, t >= 40);\n    \
        out[256 + t] = __any_sync(0xffffffff, t == 3) + 2 * __all_sync(0xffffffff, t < 40) + 4 * __syncthreads_count(t < 50);\n    \
        auto tile = cg::tiled_partition<8>(cg::this_thread_block());\n    \
        out[320 + t] = cg::reduce(tile, t, cg::plus<int>()) + (int)tile.ballot(lane % 8 == 2);\n    __syncwarp();\n    \
        int all = 7;\n    const double wide = t / 8 * 1e10;\n    out[384 + t] = (int)__match_any_sync(0xffffffff, wide);\n    \
        out[448 + t] = (int)__match_all_sync(0xffffffff, t / 32, &all);\n    out[448 + t] += 5 * all;\n    \
        out[448 + t] += (int)__match_all_sync(0xffffffff, t / 2, &all);\n    out[448 + t] += 10 * all;\n    \
        auto quarter = cg::tiled_partition<4>(cg::tiled_partition<16>(cg::this_thread_block()));\n    \
        out[512 + t] = quarter.meta_group_rank() + 10 * quarter.meta_group_size() + 100 * tile.meta_group_rank() + 10000 * tile.meta_group_size();\n}\n";
    let each = |value: fn(i64) -> i64| (0..64).map(value);
    let values = each(|t| if t < 32 { 496 } else { 1520 })
        .chain(each(|t| if t % 32 == 0 { t } else { t - 1 }))
        .chain(each(|t| t ^ 5))
        .chain(each(|t| if t < 32 { 0 } else { i64::from(0xffff_ff00_u32 as i32) }))
        .chain(each(|t| if t < 32 { 1 + 2 + 200 } else { 200 }))
        .chain(each(|t| t / 8 * 64 + 28 + 4))
        .chain(each(|t| i64::from((0xff_u32 << (t % 32 / 8 * 8)) as i32)))
        .chain(each(|_| -1 + 5))
        .chain(each(|t| t % 16 / 4 + 40 + 100 * (t / 8) + 80_000));
    right(&Known::integers(values), "people.cu", "found", CUDA, kernel);
}

/// Lanes that are together in a branch, and tiles whose size is known when they are made.
#[test]
fn groups_of_cuda() {
    let kernel = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n__global__ void found(int* out) {\n    \
        const int t = threadIdx.x;\n    for (int i = 0; i < 4; ++i) out[64 * i + t] = -1;\n    if (t % 3 == 1) {\n        \
        const cg::coalesced_group group = cg::coalesced_threads();\n        out[t] = group.thread_rank() + 100 * group.size();\n        \
        out[64 + t] = group.shfl(t, 2);\n        out[128 + t] = group.shfl_down(t, 1) + 1000 * cg::reduce(group, 1, cg::plus<int>());\n    }\n    \
        const cg::thread_group tile = cg::tiled_partition(cg::this_thread_block(), 4);\n    out[192 + t] = tile.thread_rank() + 10 * tile.size();\n}\n";
    let each = |value: fn(i64) -> i64| (0..64).map(move |t| if t % 3 == 1 { value(t) } else { -1 });
    // Of lanes 0 to 31 these are 1, 4, ... 31, of the others 34, 37, ... 61.
    let values = each(|t| if t < 32 { t / 3 + 1100 } else { (t - 34) / 3 + 1000 })
        .chain(each(|t| if t < 32 { 7 } else { 40 }))
        .chain(each(|t| if t < 32 { 11_000 + (t + 3).min(31) } else { 10_000 + (t + 3).min(61) }))
        .chain((0..64).map(|t| t % 4 + 40));
    right(&Known::integers(values), "people.cu", "found", CUDA, kernel);

    // A grid of one block waits for itself; of several the wait fails as an assert would.
    let kernel = "#include <cooperative_groups.h>\n__global__ void found(int* out) {\n    __shared__ int x;\n    if (threadIdx.x == 0) x = 1;\n    \
        cooperative_groups::this_grid().sync();\n    if (threadIdx.x == 63) out[0] = x;\n}\n";
    let known = Known::integers([1]);
    right(&known, "people.cu", "found", CUDA, kernel);
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "people.cu", &known.source(CUDA, kernel));
    let spec = known.spec("people.cu", "found");
    let (before, behind) = spec.rsplit_once("grid = [1]").unwrap();
    write(folder.path(), "spec.toml", &format!("{before}grid = [2]{behind}"));
    let report = check(folder.path(), "gfx942", 1);
    let detail = report["candidates"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("an assert fails (trap 121)") && detail.contains("(people.cu:"), "{detail}");
}

/// What kernels use of CUB: in the order of threads, also where the join does not commute.
#[test]
fn blocks_of_cub() {
    let kernel = "#include <cub/cub.cuh>\nstruct Last {\n    __device__ int operator()(int a, int b) const { return b >= 0 ? b : a; }\n};\n\
        __global__ void found(int* out) {\n    const int t = threadIdx.x;\n    using Reduce = cub::BlockReduce<int, 64>;\n    \
        __shared__ typename Reduce::TempStorage a;\n    __shared__ int told[4];\n    int pair[2] = {t, 2 * t}, sums[2];\n    \
        const int sum = Reduce(a).Sum(t);\n    __syncthreads();\n    const int most = Reduce(a).Reduce(t * 7 % 64, cub::Max(), 50) + (cub::FpLimits<float>::Lowest() == -cub::FpLimits<float>::Max() ? 0 : 9);\n    \
        __syncthreads();\n    const int pairs = Reduce(a).Sum(pair);\n    __syncthreads();\n    \
        const int last = Reduce(a).Reduce(t % 9 == 0 ? t : -1, Last());\n    \
        if (t == 0) {\n        told[0] = sum;\n        told[1] = most;\n        told[2] = pairs;\n        told[3] = last;\n    }\n    \
        __syncthreads();\n    out[t] = told[t % 4];\n    using Scan = cub::BlockScan<int, 64, cub::BLOCK_SCAN_WARP_SCANS>;\n    \
        __shared__ typename Scan::TempStorage b;\n    int before, all, upto;\n    Scan(b).ExclusiveSum(t, before, all);\n    __syncthreads();\n    \
        Scan(b).InclusiveScan(t % 5 == 0 ? t : -1, upto, Last());\n    __syncthreads();\n    \
        int from, only, of_warp, of_lanes;\n    Scan(b).ExclusiveScan(t, from, 1000, cub::Max(), only);\n    __syncthreads();\n    \
        __shared__ typename cub::WarpScan<int, 16>::TempStorage d[4];\n    \
        cub::WarpScan<int, 16>(d[t / 16]).ExclusiveScan(t, of_warp, 1000, cub::Sum(), of_lanes);\n    \
        out[448 + t] = from + only + of_warp + of_lanes;\n    Scan(b).ExclusiveSum(pair, sums);\n    \
        out[64 + t] = before + all;\n    out[128 + t] = upto;\n    cub::BlockStore<int, 64, 2>().Store(out + 192, sums);\n    __syncthreads();\n    \
        cub::BlockLoad<int, 64, 2, cub::BLOCK_LOAD_STRIPED>().Load(out + 192, pair, 100, 5);\n    out[320 + t] = pair[0] + pair[1];\n    \
        using Warp = cub::WarpReduce<int, 16>;\n    __shared__ typename Warp::TempStorage c[4];\n    \
        const int of_16 = Warp(c[t / 16]).Sum(t);\n    out[384 + t] = t % 16 == 0 ? of_16 : -1;\n}\n";
    let sums = |at: i64| 3 * (at / 2) * (at / 2 - 1) / 2 + at % 2 * (at / 2);
    let values = (0..64)
        .map(|t| [2016, 63, 6048, 63][t % 4])
        .chain((0..64).map(|t| t * (t - 1) / 2 + 2016))
        .chain((0..64).map(|t| t / 5 * 5))
        .chain((0..128).map(sums))
        .chain((0..64).map(|t| sums(t) + if t + 64 < 100 { sums(t + 64) } else { 5 }))
        .chain((0..64).map(|t| if t % 16 == 0 { 16 * t + 120 } else { -1 }))
        // What all come to is without the first.
        .chain((0..64).map(|t| 1063 + 1000 + (t / 16 * 16..t).sum::<i64>() + t / 16 * 256 + 120));
    let known = Known::integers(values);
    right(&known, "people.cu", "found", CUDA, kernel);
    // There a warp is a wave.
    let of_hip = kernel.replace("cub/cub.cuh", "hipcub/hipcub.hpp").replace("cub::", "hipcub::");
    right(&known, "people.hip", "found", HIP, &of_hip);
    let renamed = kernel.replace("#include <cub/cub.cuh>", "#include <hipcub/hipcub.hpp>\nnamespace cub = hipcub;");
    right(&known, "people.hip", "found", HIP, &renamed);
}

/// Pairs of CUB with places, and loads by a thread's place in the block.
#[test]
fn places_of_cub() {
    let kernel = "#include <cub/cub.cuh>\n__global__ void found(int* out) {\n    const int t = threadIdx.x;\n    \
        using Pair = cub::KeyValuePair<long, float>;\n    using Reduce = cub::BlockReduce<Pair, 64, cub::BLOCK_REDUCE_RAKING>;\n    \
        __shared__ typename Reduce::TempStorage a;\n    __shared__ int told[2];\n    \
        const Pair most = Reduce(a).Reduce(Pair(t, t * 5 % 64), cub::ArgMax());\n    __syncthreads();\n    \
        const Pair least = Reduce(a).Reduce(Pair(t, t / 2 % 8), cub::ArgMin());\n    \
        if (t == 0) {\n        told[0] = most.key + 1000 * (int)most.value;\n        told[1] = least.key;\n    }\n    \
        __syncthreads();\n    out[t] = told[t % 2];\n    __syncthreads();\n    int two[2];\n    \
        cub::LoadDirectStriped<32>(t % 32, out, two);\n    out[64 + t] = two[0] + 2 * two[1];\n    __syncthreads();\n    \
        cub::LoadDirectBlocked(t, out + 64, two, 128 - 64, 9);\n    cub::StoreDirectBlocked(t, out + 128, two);\n}\n";
    let told = |t: i64| if t % 2 == 0 { 63_051 } else { 0 };
    let values = (0..64).map(told).chain((0..64).map(|t| 3 * told(t)));
    let values = values.chain((0..128).map(|t| if t < 64 { 3 * told(t) } else { 9 }));
    right(&Known::integers(values), "people.cu", "found", CUDA, kernel);
}

/// What a lane gives that nobody takes may be open, and says nothing of what the lane is.
#[test]
fn values_of_one_lane_alone() {
    let kernel = "__device__ int places(int* count) {\n    const unsigned active = __activemask();\n    \
        const int leader = __ffs(active) - 1, rank = __popc(active & (1u << threadIdx.x % 32) - 1);\n    int first;\n    \
        if (rank == 0) first = atomicAdd(count, __popc(active));\n    first = __shfl_sync(active, first, leader);\n    \
        return first + rank;\n}\n\
        __global__ void found(int* out) {\n    const int t = threadIdx.x;\n    __shared__ int counts[2];\n    if (t < 2) counts[t] = 0;\n    \
        __syncthreads();\n    out[t] = t % 3 == 1 ? places(counts + t / 32) : -1;\n}\n";
    let before = |t: i64| (t / 32 * 32..t).filter(|before| before % 3 == 1).count() as i64;
    let values = (0..64).map(|t| if t % 3 == 1 { before(t) } else { -1 });
    right(&Known::integers(values), "people.cu", "found", CUDA, kernel);
}
