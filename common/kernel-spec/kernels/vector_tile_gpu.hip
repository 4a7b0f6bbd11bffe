// The tile loop on the vector units: every thread keeps TM x TN sums of a BM x BN block in registers, and the
// workgroup passes BK-deep slices of A and B through shared memory. STAGES is 1 (two barriers a slice) or 2 (one, and
// twice the shared memory); the next slice is always on its way from memory while this one is multiplied.
#pragma once
#include "tile_operands_gpu.hip"

constexpr int TILE_THREADS = (BM / TM) * (BN / TN);
// Not every compiler expands a macro in a pragma.
constexpr int UNROLLED = UNROLL;

// The part of a slice that a thread moves: ITEMS vectors of WIDTH, from memory into registers, then into shared memory,
// where a slice lies as [k][outer], so that a thread's sums read vectors. The padding keeps rows of one column apart.
template <class Operand, int OUTER> struct SliceMover {
    static constexpr int WIDTH = Operand::gathers && !Operand::along_k ? 1 : VECTOR<Operand>;
    static constexpr int VECTORS = OUTER * BK / WIDTH;
    static constexpr int ITEMS = (VECTORS + TILE_THREADS - 1) / TILE_THREADS;
    static constexpr int STRIDE = OUTER + 4;
    static constexpr int SIZE = BK * STRIDE;

    typename Operand::Slot slots[ITEMS];
    Vec<Element, WIDTH> values[ITEMS];

    static DEVICE bool mine(int item, int thread) {
        return VECTORS % TILE_THREADS == 0 || thread + item * TILE_THREADS < VECTORS;
    }
    static DEVICE int outer_of(int index) {
        return Operand::along_k ? index / (BK / WIDTH) : index % (OUTER / WIDTH) * WIDTH;
    }
    static DEVICE int k_of(int index) {
        return Operand::along_k ? index % (BK / WIDTH) * WIDTH : index / (OUTER / WIDTH);
    }
    DEVICE void start(const Operand& operand, int outer, int thread) {
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) slots[i] = operand.slot(outer + outer_of(thread + i * TILE_THREADS));
    }
    DEVICE void fetch(const Operand& operand, int k, int thread) {
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            if (mine(i, thread)) values[i] = operand.template load<WIDTH>(slots[i], k + k_of(thread + i * TILE_THREADS));
        }
    }
    DEVICE void store(float* slice, int thread) const {
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            if (!mine(i, thread)) continue;
            const int index = thread + i * TILE_THREADS;
            float* to = slice + k_of(index) * STRIDE + outer_of(index);
            const auto wide = convert<float>(values[i]);
            if constexpr (Operand::along_k) {
#pragma unroll
                for (int j = 0; j < WIDTH; ++j) to[j * STRIDE] = wide[j];
            } else {
                *(Vec<float, WIDTH>*)to = wide;
            }
        }
    }
};

// A thread's COUNT places along one side of the block lie in runs of RUN, spread over the side, so that the lanes of a
// wave read neighbouring runs.
template <int COUNT, int SIDE> struct Spread {
    static constexpr int RUN = COUNT < 4 ? COUNT : 4;
    static DEVICE int run(int number, int position) { return number * (SIDE / COUNT) * RUN + position * RUN; }
    static DEVICE void read(float* out, const float* side, int position) {
#pragma unroll
        for (int i = 0; i < COUNT / RUN; ++i) {
            const auto values = *(const Vec<float, RUN>*)(side + run(i, position));
#pragma unroll
            for (int j = 0; j < RUN; ++j) out[i * RUN + j] = values[j];
        }
    }
};

template <class A, class B, class C>
static DEVICE void tile_loop(const A& a, const B& b, const C& c, int row0, int column0, Span span) {
    using MoverA = SliceMover<A, BM>;
    using MoverB = SliceMover<B, BN>;
    using Rows = Spread<TM, BM>;
    using Columns = Spread<TN, BN>;
    SHARED float slices_a[STAGES * MoverA::SIZE];
    SHARED float slices_b[STAGES * MoverB::SIZE];

    const int thread = thread_x();
    const int across = thread % (BN / TN), down = thread / (BN / TN);
    float sums[TM][TN] = {};

    MoverA mover_a;
    MoverB mover_b;
    mover_a.start(a, row0, thread);
    mover_b.start(b, column0, thread);
    mover_a.fetch(a, span.begin, thread);
    mover_b.fetch(b, span.begin, thread);

    int stage = 0;
#pragma unroll 1
    for (int k = span.begin; k < span.end; k += BK) {
        float* slice_a = slices_a + stage * MoverA::SIZE;
        float* slice_b = slices_b + stage * MoverB::SIZE;
        // With two stages the barrier below already tells that nobody reads this one any more.
        if (STAGES == 1) barrier();
        mover_a.store(slice_a, thread);
        mover_b.store(slice_b, thread);
        barrier();
        if (k + BK < span.end) {
            mover_a.fetch(a, k + BK, thread);
            mover_b.fetch(b, k + BK, thread);
        }
#pragma unroll UNROLLED
        for (int i = 0; i < BK; ++i) {
            float left[TM], right[TN];
            Rows::read(left, slice_a + i * MoverA::STRIDE, down);
            Columns::read(right, slice_b + i * MoverB::STRIDE, across);
#pragma unroll
            for (int y = 0; y < TM; ++y) {
#pragma unroll
                for (int x = 0; x < TN; ++x) sums[y][x] = fma(left[y], right[x], sums[y][x]);
            }
        }
        if (STAGES == 2) stage ^= 1;
    }

#pragma unroll
    for (int y = 0; y < TM; ++y) {
        const int row = row0 + Rows::run(y / Rows::RUN, down) + y % Rows::RUN;
#pragma unroll
        for (int x = 0; x < TN; x += Columns::RUN) {
            Vec<float, Columns::RUN> values;
#pragma unroll
            for (int j = 0; j < Columns::RUN; ++j) values[j] = sums[y][x + j];
            c.template store<Columns::RUN>(row, column0 + Columns::run(x / Columns::RUN, across), values);
        }
    }
}
