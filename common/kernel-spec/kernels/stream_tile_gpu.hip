// The tile loop for dense operands on Hopper's copy engine, 16 bits summed in FP32. A block stays and takes one BM x BN tile
// after the other. Its first warpgroup only feeds: it has BK-deep slices of A and B copied into STAGES buffers of shared
// memory, also those of the next tile while this one is written. WM x WN others multiply.
#pragma once
#include "tensor_copy_gpu.hip"
#include "warpgroup_sums_gpu.hip"

constexpr int GROUPS = WM * WN;
constexpr int TILE_THREADS = (GROUPS + 1) * 4 * WAVE;
// Registers of a thread, in eights: what every one begins with, what a feeding one keeps, and what that leaves to one that
// multiplies. Whoever asked for more would wait for ever.
constexpr int FIRST_REGISTERS = 65536 / TILE_THREADS / 8 * 8, FEEDER_REGISTERS = 24;
constexpr int REGISTERS = ((GROUPS + 1) * FIRST_REGISTERS - FEEDER_REGISTERS) / GROUPS / 8 * 8;
constexpr int SLICE_BYTES = (BM + BN) * BK * 2;

// Which part of the operands a tile is made of.
struct Place {
    int row, column, sheet_a, sheet_b;
};

// An operand in boxes of 64 elements a line.
template <bool K_FIRST, int OUTER> struct Boxes {
    static constexpr int LINES = K_FIRST ? OUTER : BK;
    static DEVICE void copy(Element* slice, const void* map, int outer, int k, int sheet, Gate* gate) {
#pragma unroll
        for (int i = 0; i < OUTER * BK / (64 * LINES); ++i) {
            Element* to = slice + i * (64 * LINES);
            if (K_FIRST) {
                copy_box(to, map, k + i * 64, outer, sheet, gate);
            } else {
                copy_box(to, map, outer + i * 64, k, sheet, gate);
            }
        }
    }
};

// `maps` is device memory for two maps of each block. tile_of(i) is the place of tile i, out_of(place) where C goes.
template <bool A_K_FIRST, bool B_K_FIRST, class TileOf, class OutOf>
static DEVICE void stream_tiles(const Tensor& a, const Tensor& b, unsigned char* maps, int tiles, int blocks, int depth,
                                const TileOf& tile_of, const OutOf& out_of) {
    SHARED_SPACE(space, STAGES * SLICE_BYTES + 1024);
    Element* slices_a = (Element*)space;
    Element* slices_b = slices_a + STAGES * BM * BK;
    Gate* full = (Gate*)(space + STAGES * SLICE_BYTES);
    Gate* empty = full + STAGES;
    unsigned char* scratch = space + STAGES * SLICE_BYTES + 512;

    const int thread = thread_x(), lane = thread % WAVE, group = thread / (4 * WAVE);
    unsigned char* map_a = maps + block_x() * (2 * MAP_BYTES);
    unsigned char* map_b = map_a + MAP_BYTES;
    if (thread < WAVE) {
        describe(a, A_K_FIRST ? BM : BK, map_a, scratch, lane);
        describe(b, B_K_FIRST ? BN : BK, map_b, scratch + MAP_BYTES, lane);
    }
    if (thread == WAVE) {
        for (int s = 0; s < STAGES; ++s) {
            gate_init(full + s, 1);
            gate_init(empty + s, GROUPS);
        }
    }
    fence_writes();
    barrier();

    int stage = 0, parity = 0;
    const auto advance = [&] DEVICE_LAMBDA() {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    };
    if (group == 0) {
        if constexpr (GROUPS > 1) keep_registers<FEEDER_REGISTERS>();
        if (thread == 0) {
#pragma unroll 1
            for (int tile = block_x(); tile < tiles; tile += blocks) {
                const Place at = tile_of(tile);
#pragma unroll 1
                for (int k = 0; k < depth; k += BK) {
                    // The first round finds every stage empty.
                    gate_wait(empty + stage, parity ^ 1);
                    gate_announce(full + stage, SLICE_BYTES);
                    Boxes<A_K_FIRST, BM>::copy(slices_a + stage * BM * BK, map_a, at.row, k, at.sheet_a, full + stage);
                    Boxes<B_K_FIRST, BN>::copy(slices_b + stage * BN * BK, map_b, at.column, k, at.sheet_b, full + stage);
                    advance();
                }
            }
        }
        return;
    }

    if constexpr (GROUPS > 1) take_registers<REGISTERS>();
    const int worker = group - 1;
    const int group_row = worker / WN * GROUP_ROWS, group_column = worker % WN * GROUP_COLUMNS;
#pragma unroll 1
    for (int tile = block_x(); tile < tiles; tile += blocks) {
        GroupSums<A_K_FIRST, B_K_FIRST> sums;
        int last = -1;
#pragma unroll 1
        for (int k = 0; k < depth; k += BK) {
            gate_wait(full + stage, parity);
            sums.add(slices_a + stage * BM * BK, slices_b + stage * BN * BK, group_row, group_column);
            // The slice before this one is multiplied: its stage may be filled again.
            warpgroup_wait<1>();
            if (last >= 0 && thread % (4 * WAVE) == 0) gate_arrive(empty + last);
            last = stage;
            advance();
        }
        warpgroup_wait<0>();
        if (last >= 0 && thread % (4 * WAVE) == 0) gate_arrive(empty + last);
        const Place at = tile_of(tile);
        sums.store(out_of(at), at.row + group_row, at.column + group_column, thread % (4 * WAVE));
    }
}
