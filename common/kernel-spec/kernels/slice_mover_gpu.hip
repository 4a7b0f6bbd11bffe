// What the tile loops on matrix cores share: slices of an operand on their way into shared memory.
#pragma once
#include "tile_operands_gpu.hip"

// With copies under way by cp.async; otherwise a slice travels through registers.
#if ON_NVIDIA
constexpr bool COPIES = STAGES >= 2;
#else
constexpr bool COPIES = false;
#endif

// Moves an operand's BK-deep slices into shared memory, with THREADS threads. COPIED: by cp.async, as they lie in memory.
// Otherwise through registers, with k contiguous, in blocks of DEEP x WIDE (k x outer) elements a thread.
// Layout::place<LINES, LINE>(line, column) is where an element of a slice of LINES lines of LINE elements lies; it keeps
// runs of eight together.
template <class Operand, class Layout, int OUTER, int THREADS> struct SliceMover {
    static constexpr bool COPIED = COPIES && !Operand::gathers;
    static constexpr bool K_FIRST = !COPIED || Operand::along_k;
    static constexpr int SIZE = OUTER * BK;
    static constexpr int WIDE = Operand::along_k || Operand::gathers ? 1 : COPIED || VECTOR<Operand> < 4 ? VECTOR<Operand> : 4;
    static constexpr int DEEP = Operand::along_k ? VECTOR<Operand> : COPIED ? 1 : Operand::gathers ? 8 : 4;
    static constexpr int BLOCKS = SIZE / (WIDE * DEEP);
    static constexpr int ITEMS = (BLOCKS + THREADS - 1) / THREADS;
    // Blocks side by side along the index that is contiguous in memory. Where the threads fill whole rows of them, a
    // thread's blocks lie straight below each other: what depends on the place along a row is worked out once.
    static constexpr int ACROSS = Operand::along_k ? BK / DEEP : OUTER / WIDE;
    static constexpr bool STRAIGHT = THREADS % ACROSS == 0;
    // What one load brings.
    static constexpr int RUN = Operand::along_k ? DEEP : WIDE;
    static constexpr int LOADS = WIDE * DEEP / RUN;

    typename Operand::Slot slots[ITEMS];
    Vec<Element, RUN> values[COPIED ? 1 : ITEMS][LOADS];

    static DEVICE bool mine(int item, int thread) {
        return BLOCKS % THREADS == 0 || thread + item * THREADS < BLOCKS;
    }
    static DEVICE int across(int item, int thread) {
        return STRAIGHT ? thread % ACROSS : (thread + item * THREADS) % ACROSS;
    }
    static DEVICE int down(int item, int thread) {
        return STRAIGHT ? thread / ACROSS + item * (THREADS / ACROSS) : (thread + item * THREADS) / ACROSS;
    }
    static DEVICE int outer_of(int item, int thread) {
        return Operand::along_k ? down(item, thread) : across(item, thread) * WIDE;
    }
    static DEVICE int k_of(int item, int thread) {
        return (Operand::along_k ? across(item, thread) : down(item, thread)) * DEEP;
    }
    static DEVICE int place(int outer, int k) {
        return K_FIRST ? Layout::template place<OUTER, BK>(outer, k) : Layout::template place<BK, OUTER>(k, outer);
    }
    DEVICE void start(const Operand& operand, int outer, int thread) {
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) slots[i] = operand.slot(outer + outer_of(i, thread));
    }
    // Sends for the slice from `k` on; `slice` is where it will lie.
    DEVICE void fetch(const Operand& operand, int k, Element* slice, int thread) {
#if ON_NVIDIA
        if constexpr (COPIED) {
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) {
                if (!mine(i, thread)) continue;
                Element* to = slice + place(outer_of(i, thread), k_of(i, thread));
                const int from_k = k + k_of(i, thread);
                if (operand.template contiguous<RUN>()) {
                    const bool inside = operand.inside(slots[i], from_k);
                    copy_async<RUN * 2>(to, inside ? operand.address(slots[i], from_k) : operand.data, inside);
                } else {
                    *(Vec<Element, RUN>*)to = operand.template load<RUN>(slots[i], from_k);
                }
            }
            return;
        }
#endif
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            if (!mine(i, thread)) continue;
            const int from_k = k + k_of(i, thread);
#pragma unroll
            for (int j = 0; j < LOADS; ++j) values[i][j] = operand.template load<RUN>(slots[i], from_k + j);
        }
    }
    // Puts what was fetched through registers into shared memory.
    DEVICE void store(Element* slice, int thread) const {
        if constexpr (!COPIED) {
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) {
                if (!mine(i, thread)) continue;
#pragma unroll
                for (int o = 0; o < WIDE; ++o) {
                    Vec<Element, DEEP> column;
#pragma unroll
                    for (int j = 0; j < DEEP; ++j) {
                        column[j] = Operand::along_k ? values[i][0][j] : values[i][j % LOADS][o];
                    }
                    *(Vec<Element, DEEP>*)(slice + place(outer_of(i, thread) + o, k_of(i, thread))) = column;
                }
            }
        }
    }
};
