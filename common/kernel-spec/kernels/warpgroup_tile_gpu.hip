// The tile loop on Hopper's warpgroup instructions, 16 bits summed in FP32: WM x WN warpgroups share a BM x BN block, and
// BK-deep slices of A and B pass through STAGES buffers of shared memory. While one slice is multiplied, the one behind
// it may still be, and STAGES - 2 are on their way. Dense operands are copied by cp.async and lie as in memory.
#pragma once
#include "slice_mover_gpu.hip"
#include "warpgroup_sums_gpu.hip"

constexpr int TILE_THREADS = WM * WN * 4 * WAVE;

// As the instructions want it: blocks of 64 elements a line.
struct Blocked {
    template <int LINES, int> static DEVICE int place(int line, int column) {
        return column / 64 * (LINES * 64) + line * 64 + ((column / 8 ^ line) & 7) * 8 + column % 8;
    }
};

template <class A, class B, class C>
static DEVICE void tile_loop(const A& a, const B& b, const C& c, int row0, int column0, Span span) {
    using MoverA = SliceMover<A, Blocked, BM, TILE_THREADS>;
    using MoverB = SliceMover<B, Blocked, BN, TILE_THREADS>;
    SHARED_SPACE(space, STAGES * (BM + BN) * BK * 2);
    Element* slices_a = (Element*)space;
    Element* slices_b = slices_a + STAGES * MoverA::SIZE;

    const int thread = thread_x(), group = thread / (4 * WAVE);
    const int group_row = group / WN * GROUP_ROWS, group_column = group % WN * GROUP_COLUMNS;
    GroupSums<MoverA::K_FIRST, MoverB::K_FIRST> sums;

    MoverA mover_a;
    MoverB mover_b;
    mover_a.start(a, row0, thread);
    mover_b.start(b, column0, thread);

    const auto fetch = [&] DEVICE_LAMBDA(int k, int stage) {
        mover_a.fetch(a, k, slices_a + stage * MoverA::SIZE, thread);
        mover_b.fetch(b, k, slices_b + stage * MoverB::SIZE, thread);
    };
    const auto store = [&] DEVICE_LAMBDA(int stage) {
        mover_a.store(slices_a + stage * MoverA::SIZE, thread);
        mover_b.store(slices_b + stage * MoverB::SIZE, thread);
    };

    int ahead = span.begin, stage = 2;
    // The first rounds only send for slices: in a loop of their own they would double the code that a compiler has the most work with.
#pragma unroll 1
    for (int k = span.begin - (STAGES - 2) * BK; k < span.end; k += BK, ahead += BK) {
        copy_wait<STAGES - 3>();
        fence_writes();
        // This slice has landed for every thread, and no warpgroup reads the last but one: its stage takes the next.
        barrier();
        const int next = stage < 2 ? stage + STAGES - 2 : stage - 2;
        if (ahead < span.end) fetch(ahead, next);
        copy_commit();
        if (k >= span.begin) sums.add(slices_a + stage * MoverA::SIZE, slices_b + stage * MoverB::SIZE, group_row, group_column);
        if (ahead < span.end) store(next);
        warpgroup_wait<1>();
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
    copy_wait<0>();
    warpgroup_wait<0>();
    sums.store(c, row0 + group_row, column0 + group_column, thread % (4 * WAVE));
}
