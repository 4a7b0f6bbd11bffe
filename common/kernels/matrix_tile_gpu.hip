// The tile loop on matrix cores, FP16 summed in FP32: WM x WN waves share a BM x BN block, each keeps its part of the
// sums in INSTR x INSTR (AMD) or 16 x 8 (NVIDIA) pieces, and BK-deep slices of A and B pass through STAGES buffers of
// shared memory. On NVIDIA with two or more stages, dense operands are copied by cp.async, STAGES - 1 slices ahead, and
// lie in shared memory as in memory (ldmatrix transposes); otherwise slices travel through registers, are transposed
// there if need be, and lie with k contiguous.
#pragma once
#include "tile_operands_gpu.hip"

constexpr int TILE_THREADS = WM * WN * WAVE;
constexpr int WAVE_ROWS = BM / WM, WAVE_COLUMNS = BN / WN;

#if defined(__NVPTX__)
constexpr bool COPIES = STAGES >= 2;
#else
constexpr bool COPIES = false;
#endif

// Where element (row, column) of a slice of WIDTH columns lies. The eight-element chunks of a row are permuted by the
// row's number, so that eight lanes reading one chunk each from eight successive rows meet no bank twice.
template <int WIDTH> DEVICE int swizzled(int row, int column) {
    constexpr int CHUNKS = WIDTH / 8 < 8 ? WIDTH / 8 : 8;
    const int chunk = column / 8 ^ ((row / (8 / CHUNKS) ^ row / 8) & (CHUNKS - 1));
    return row * WIDTH + chunk * 8 + column % 8;
}

// Moves an operand's slices into shared memory. COPIED: by cp.async, as they lie in memory. Otherwise through registers,
// with k contiguous, in blocks of DEEP x WIDE (k x outer) elements a thread.
template <class Operand, int OUTER> struct SliceMover {
    static constexpr bool COPIED = COPIES && !Operand::gathers;
    static constexpr bool K_FIRST = !COPIED || Operand::along_k;
    static constexpr int SIZE = OUTER * BK;
    static constexpr int LINE = K_FIRST ? BK : OUTER;
    static constexpr int WIDE = Operand::along_k || Operand::gathers ? 1 : COPIED ? VEC : VEC < 4 ? VEC : 4;
    static constexpr int DEEP = Operand::along_k ? VEC : COPIED ? 1 : Operand::gathers ? 8 : 4;
    static constexpr int BLOCKS = SIZE / (WIDE * DEEP);
    static constexpr int ITEMS = (BLOCKS + TILE_THREADS - 1) / TILE_THREADS;
    // What one load brings.
    static constexpr int RUN = Operand::along_k ? DEEP : WIDE;
    static constexpr int LOADS = WIDE * DEEP / RUN;

    typename Operand::Slot slots[ITEMS];
    Vec<half, RUN> values[COPIED ? 1 : ITEMS][LOADS];

    static DEVICE bool mine(int item, int thread) {
        return BLOCKS % TILE_THREADS == 0 || thread + item * TILE_THREADS < BLOCKS;
    }
    static DEVICE int outer_of(int index) {
        return Operand::along_k ? index / (BK / DEEP) : index % (OUTER / WIDE) * WIDE;
    }
    static DEVICE int k_of(int index) {
        return Operand::along_k ? index % (BK / DEEP) * DEEP : index / (OUTER / WIDE) * DEEP;
    }
    DEVICE void start(const Operand& operand, int outer, int thread) {
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) slots[i] = operand.slot(outer + outer_of(thread + i * TILE_THREADS));
    }
    // Sends for the slice from `k` on; `slice` is where it will lie.
    DEVICE void fetch(const Operand& operand, int k, half* slice, int thread) {
#if defined(__NVPTX__)
        if constexpr (COPIED) {
            const bool contiguous = operand.template contiguous<RUN>();
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) {
                if (!mine(i, thread)) continue;
                const int index = thread + i * TILE_THREADS;
                const int line = K_FIRST ? outer_of(index) : k_of(index);
                half* to = slice + swizzled<LINE>(line, K_FIRST ? k_of(index) : outer_of(index));
                const int from_k = k + k_of(index);
                if (contiguous) {
                    const bool inside = operand.inside(slots[i], from_k);
                    copy_async<RUN * 2>(to, inside ? operand.address(slots[i], from_k) : operand.data, inside);
                } else {
                    *(Vec<half, RUN>*)to = operand.template load<RUN>(slots[i], from_k);
                }
            }
            return;
        }
#endif
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            if (!mine(i, thread)) continue;
            const int from_k = k + k_of(thread + i * TILE_THREADS);
#pragma unroll
            for (int j = 0; j < LOADS; ++j) values[i][j] = operand.template load<RUN>(slots[i], from_k + j);
        }
    }
    // Puts what was fetched through registers into shared memory.
    DEVICE void store(half* slice, int thread) const {
        if constexpr (!COPIED) {
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) {
                if (!mine(i, thread)) continue;
                const int index = thread + i * TILE_THREADS;
#pragma unroll
                for (int o = 0; o < WIDE; ++o) {
                    Vec<half, DEEP> column;
#pragma unroll
                    for (int j = 0; j < DEEP; ++j) {
                        column[j] = Operand::along_k ? values[i][0][j] : values[i][j % LOADS][o];
                    }
                    *(Vec<half, DEEP>*)(slice + swizzled<LINE>(outer_of(index) + o, k_of(index))) = column;
                }
            }
        }
    }
};

#if defined(__NVPTX__)
// A wave's sums on NVIDIA.
template <bool A_K_FIRST, bool B_K_FIRST> struct WaveSums {
    static constexpr int DOWN = WAVE_ROWS / 16, ACROSS = WAVE_COLUMNS / 8;
    Vec<float, 4> sums[DOWN][ACROSS] = {};

    DEVICE void add(const half* slice_a, const half* slice_b, int row0, int column0, int lane) {
        const int line = lane % 8, low = lane / 8 % 2 * 8, high = lane / 16 * 8;
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            Vec<unsigned, 4> left[DOWN];
#pragma unroll
            for (int y = 0; y < DOWN; ++y) {
                const int row = row0 + y * 16;
                left[y] = A_K_FIRST ? matrix_load<false>(slice_a + swizzled<BK>(row + low + line, k + high))
                                    : matrix_load<true>(slice_a + swizzled<BM>(k + high + line, row + low));
            }
#pragma unroll
            for (int x = 0; x < ACROSS; x += 2) {
                const int column = column0 + x * 8;
                const auto right = B_K_FIRST ? matrix_load<false>(slice_b + swizzled<BK>(column + high + line, k + low))
                                             : matrix_load<true>(slice_b + swizzled<BN>(k + low + line, column + high));
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
// A wave's sums on AMD. A lane takes eight neighbouring k at once and feeds them to two instructions, four each: that
// permutes k, in A and in B alike, which a sum does not notice.
template <bool A_K_FIRST, bool B_K_FIRST> struct WaveSums {
    static constexpr int DOWN = WAVE_ROWS / INSTR, ACROSS = WAVE_COLUMNS / INSTR, REGISTERS = INSTR * INSTR / WAVE;
    Vec<float, REGISTERS> sums[DOWN][ACROSS] = {};

    static DEVICE Vec<half, 8> fragment(const half* slice, int outer, int k, int lane) {
        return *(const Vec<half, 8>*)(slice + swizzled<BK>(outer + lane % INSTR, k + lane / INSTR * 8));
    }
    DEVICE void add(const half* slice_a, const half* slice_b, int row0, int column0, int lane) {
#pragma unroll
        for (int k = 0; k < BK; k += WAVE / INSTR * 8) {
            Vec<half, 8> left[DOWN];
#pragma unroll
            for (int y = 0; y < DOWN; ++y) left[y] = fragment(slice_a, row0 + y * INSTR, k, lane);
#pragma unroll
            for (int x = 0; x < ACROSS; ++x) {
                const Vec<half, 8> right = fragment(slice_b, column0 + x * INSTR, k, lane);
#pragma unroll
                for (int y = 0; y < DOWN; ++y) {
                    matrix_fma(sums[y][x], left[y].lo, right.lo);
                    matrix_fma(sums[y][x], left[y].hi, right.hi);
                }
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
                    const int row = row0 + y * INSTR + r / 4 * 4 * (WAVE / INSTR) + lane / INSTR * 4 + r % 4;
                    c.template store<1>(row, column0 + x * INSTR + lane % INSTR, Vec<float, 1>{sums[y][x][r]});
                }
            }
        }
    }
};
#endif

template <class A, class B, class C>
static DEVICE void matrix_tile(const A& a, const B& b, const C& c, int row0, int column0, Span span) {
    using MoverA = SliceMover<A, BM>;
    using MoverB = SliceMover<B, BN>;
    SHARED half slices_a[STAGES * MoverA::SIZE];
    SHARED half slices_b[STAGES * MoverB::SIZE];

    const int thread = thread_x(), lane = thread % WAVE, wave = thread / WAVE;
    const int wave_row = wave / WN * WAVE_ROWS, wave_column = wave % WN * WAVE_COLUMNS;
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

    int stage = 0;
    if constexpr (COPIES) {
#if defined(__NVPTX__)
        int ahead = span.begin;
        for (int s = 0; s < STAGES - 1; ++s, ahead += BK) {
            if (ahead < span.end) {
                fetch(ahead, s);
                store(s);
            }
            copy_commit();
        }
#pragma unroll 1
        for (int k = span.begin; k < span.end; k += BK, ahead += BK) {
            // This slice has landed for every thread, and the one before it is read no more: its stage takes the next.
            copy_wait<STAGES - 2>();
            barrier();
            const int next = stage == 0 ? STAGES - 1 : stage - 1;
            if (ahead < span.end) fetch(ahead, next);
            copy_commit();
            multiply(stage);
            if (ahead < span.end) store(next);
            stage = stage == STAGES - 1 ? 0 : stage + 1;
        }
        copy_wait<0>();
#endif
    } else {
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
