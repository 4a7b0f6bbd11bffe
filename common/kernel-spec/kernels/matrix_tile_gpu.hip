// The tile loop on matrix cores, 16 bits summed in FP32: WM x WN waves share a BM x BN block, each keeps its part of the
// sums in INSTR x INSTR (AMD) or 16 x 8 (NVIDIA) pieces, and BK-deep slices of A and B pass through STAGES buffers of
// shared memory. On NVIDIA with two or more stages, dense operands are copied by cp.async, STAGES - 1 slices ahead, and
// lie in shared memory as in memory (ldmatrix transposes); otherwise slices travel through registers, are transposed
// there if need be, and lie with k contiguous.
#pragma once
#include "slice_mover_gpu.hip"

#if ON_NVIDIA
constexpr int WAVES_ACROSS = WN;
#else
// Waves of 64 lanes are what WM x WN counts: where they have 32, two are side by side.
constexpr int WAVES_ACROSS = WN * (64 / WAVE);
#endif
constexpr int TILE_THREADS = WM * WAVES_ACROSS * WAVE;
constexpr int WAVE_ROWS = BM / WM, WAVE_COLUMNS = BN / WAVES_ACROSS;

// The eight-element chunks of a line are permuted by the line's number, so that eight lanes reading one chunk each from
// eight successive lines meet no bank twice.
struct Swizzled {
    template <int, int LINE> static DEVICE int place(int line, int column) {
        constexpr int CHUNKS = LINE / 8 < 8 ? LINE / 8 : 8;
        const int chunk = column / 8 ^ ((line / (8 / CHUNKS) ^ line / 8) & (CHUNKS - 1));
        return line * LINE + chunk * 8 + column % 8;
    }
    // In a slice of BK-deep lines, in one of OUTER-wide ones.
    static DEVICE int k_first(int outer, int k) { return place<0, BK>(outer, k); }
    template <int OUTER> static DEVICE int outer_first(int outer, int k) { return place<0, OUTER>(k, outer); }
};

#if ON_NVIDIA
// A wave's sums on NVIDIA.
template <bool A_K_FIRST, bool B_K_FIRST> struct WaveSums {
    static constexpr int DOWN = WAVE_ROWS / 16, ACROSS = WAVE_COLUMNS / 8;
    Vec<float, 4> sums[DOWN][ACROSS] = {};

    DEVICE void add(const Element* slice_a, const Element* slice_b, int row0, int column0, int lane) {
        const int line = lane % 8, low = lane / 8 % 2 * 8, high = lane / 16 * 8;
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            Vec<unsigned, 4> left[DOWN];
#pragma unroll
            for (int y = 0; y < DOWN; ++y) {
                const int row = row0 + y * 16;
                left[y] = A_K_FIRST ? matrix_load<false>(slice_a + Swizzled::k_first(row + low + line, k + high))
                                    : matrix_load<true>(slice_a + Swizzled::outer_first<BM>(row + low, k + high + line));
            }
#pragma unroll
            for (int x = 0; x < ACROSS; x += 2) {
                const int column = column0 + x * 8;
                const auto right =
                    B_K_FIRST ? matrix_load<false>(slice_b + Swizzled::k_first(column + high + line, k + low))
                              : matrix_load<true>(slice_b + Swizzled::outer_first<BN>(column + high, k + low + line));
#pragma unroll
                for (int y = 0; y < DOWN; ++y) {
                    matrix_fma(sums[y][x], left[y], right[0], right[1]);
                    matrix_fma(sums[y][x + 1], left[y], right[2], right[3]);
                }
            }
        }
    }
    template <class C> DEVICE void store(const C& c, int row0, int column0, int lane) const {
#pragma unroll
        for (int y = 0; y < DOWN; ++y) {
#pragma unroll
            for (int x = 0; x < ACROSS; ++x) {
                const int row = row0 + y * 16 + lane / 4, column = column0 + x * 8 + lane % 4 * 2;
                c.template store<2>(row, column, Vec<float, 2>{sums[y][x][0], sums[y][x][1]});
                c.template store<2>(row + 8, column, Vec<float, 2>{sums[y][x][2], sums[y][x][3]});
            }
        }
    }
};
#else
// A wave's sums on AMD. A lane takes LANE_K neighbouring k at once; those of another group of lanes come behind them, where
// there are more groups than it takes to hold a row.
template <bool A_K_FIRST, bool B_K_FIRST> struct WaveSums {
    static constexpr int DOWN = WAVE_ROWS / INSTR, ACROSS = WAVE_COLUMNS / INSTR, REGISTERS = INSTR * INSTR / WAVE;
    static constexpr int GROUPS = LANE_K == 16 ? 1 : WAVE / INSTR;
    Vec<float, REGISTERS> sums[DOWN][ACROSS] = {};

    static DEVICE Vec<Element, LANE_K> fragment(const Element* slice, int outer, int k, int lane) {
        Vec<Element, LANE_K> out;
#pragma unroll
        for (int i = 0; i < LANE_K; i += 8) {
            const int at = Swizzled::k_first(outer + lane % INSTR, k + lane / INSTR % GROUPS * LANE_K + i);
            const auto run = *(const Vec<Element, 8>*)(slice + at);
#pragma unroll
            for (int j = 0; j < 8; ++j) out[i + j] = run[j];
        }
        return out;
    }
    DEVICE void add(const Element* slice_a, const Element* slice_b, int row0, int column0, int lane) {
#pragma unroll
        for (int k = 0; k < BK; k += GROUPS * LANE_K) {
            Vec<Element, LANE_K> left[DOWN];
#pragma unroll
            for (int y = 0; y < DOWN; ++y) left[y] = fragment(slice_a, row0 + y * INSTR, k, lane);
#pragma unroll
            for (int x = 0; x < ACROSS; ++x) {
                const Vec<Element, LANE_K> right = fragment(slice_b, column0 + x * INSTR, k, lane);
#pragma unroll
                for (int y = 0; y < DOWN; ++y) matrix_fma(sums[y][x], left[y], right);
            }
        }
    }
    template <class C> DEVICE void store(const C& c, int row0, int column0, int lane) const {
#pragma unroll
        for (int y = 0; y < DOWN; ++y) {
#pragma unroll
            for (int x = 0; x < ACROSS; ++x) {
#pragma unroll
                for (int r = 0; r < REGISTERS; ++r) {
                    const int row = matrix_row<INSTR>(row0 + y * INSTR, r, lane);
                    c.template store<1>(row, column0 + x * INSTR + lane % INSTR, Vec<float, 1>{sums[y][x][r]});
                }
            }
        }
    }
};
#endif

template <class A, class B, class C>
static DEVICE void tile_loop(const A& a, const B& b, const C& c, int row0, int column0, Span span) {
    using MoverA = SliceMover<A, Swizzled, BM, TILE_THREADS>;
    using MoverB = SliceMover<B, Swizzled, BN, TILE_THREADS>;
    SHARED_SPACE(space, STAGES * (BM + BN) * BK * 2);
    Element* slices_a = (Element*)space;
    Element* slices_b = slices_a + STAGES * MoverA::SIZE;

    const int thread = thread_x(), lane = thread % WAVE, wave = thread / WAVE;
    const int wave_row = wave / WAVES_ACROSS * WAVE_ROWS, wave_column = wave % WAVES_ACROSS * WAVE_COLUMNS;
    WaveSums<MoverA::K_FIRST, MoverB::K_FIRST> sums;

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
    const auto multiply = [&] DEVICE_LAMBDA(int stage) {
        sums.add(slices_a + stage * MoverA::SIZE, slices_b + stage * MoverB::SIZE, wave_row, wave_column, lane);
    };

    if constexpr (COPIES) {
#if ON_NVIDIA
        int ahead = span.begin, stage = 1;
        // The first rounds only send for slices: in a loop of their own they would double the code that a compiler has the most work with.
#pragma unroll 1
        for (int k = span.begin - (STAGES - 1) * BK; k < span.end; k += BK, ahead += BK) {
            // This slice has landed for every thread, and the one before it is read no more: its stage takes the next.
            copy_wait<STAGES - 2>();
            barrier();
            const int next = stage == 0 ? STAGES - 1 : stage - 1;
            if (ahead < span.end) fetch(ahead, next);
            copy_commit();
            if (k >= span.begin) multiply(stage);
            if (ahead < span.end) store(next);
            stage = stage == STAGES - 1 ? 0 : stage + 1;
        }
        copy_wait<0>();
#endif
    } else {
        int stage = 0;
        fetch(span.begin, 0);
#pragma unroll 1
        for (int k = span.begin; k < span.end; k += BK) {
            // With two stages the barrier below already tells that nobody reads this one any more.
            if (STAGES == 1) barrier();
            store(stage);
            barrier();
            if (k + BK < span.end) fetch(k + BK, 0);
            multiply(stage);
            if (STAGES == 2) stage ^= 1;
        }
    }
    sums.store(c, row0 + wave_row, column0 + wave_column, lane);
}
