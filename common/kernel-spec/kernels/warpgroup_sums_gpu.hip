// A warpgroup's part of a BM x BN tile of C in registers.
#pragma once
#include "tile_operands_gpu.hip"
#include "warpgroup_gpu.hip"

constexpr int GROUP_ROWS = BM / WM, GROUP_COLUMNS = BN / WN;

template <bool A_K_FIRST, bool B_K_FIRST> struct GroupSums {
    static constexpr int DOWN = GROUP_ROWS / 64, REGISTERS = GROUP_COLUMNS / 2;
    float sums[DOWN][REGISTERS] = {};

    // The descriptor of the part of a slice from (outer, k) on; outer is a multiple of 64, k of 16.
    template <bool K_FIRST, int OUTER> static DEVICE unsigned long long descriptor(const Element* slice, int outer, int k) {
        const int at = K_FIRST ? k / 64 * (OUTER * 64) + outer * 64 + k % 64 : outer * BK + k * 64;
        return matrix_descriptor(slice + at, BK * 128);
    }
    DEVICE void add(const Element* slice_a, const Element* slice_b, int row0, int column0) {
        warpgroup_begin();
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            const auto right = descriptor<B_K_FIRST, BN>(slice_b, column0, k);
#pragma unroll
            for (int y = 0; y < DOWN; ++y) {
                const auto left = descriptor<A_K_FIRST, BM>(slice_a, row0 + y * 64, k);
                warpgroup_fma<GROUP_COLUMNS, A_K_FIRST, B_K_FIRST>(sums[y], left, right);
            }
        }
        warpgroup_commit();
    }
    template <class C> DEVICE void store(const C& c, int row0, int column0, int thread) {
        const int lane = thread % WAVE, row = row0 + thread / WAVE * 16 + lane / 4, quarter = lane % 4;
#pragma unroll
        for (int y = 0; y < DOWN; ++y) {
            warpgroup_settle(sums[y]);
#pragma unroll
            for (int r = 0; r < REGISTERS; r += 16) {
                // Four lanes hold two columns each of four runs of eight; each gets one run whole.
                c.template store<8>(row + y * 64, column0 + r * 2 + quarter * 8, gather(sums[y], r, lane));
                c.template store<8>(row + y * 64 + 8, column0 + r * 2 + quarter * 8, gather(sums[y], r + 2, lane));
            }
        }
    }

  private:
    // Among four lanes: run `lane % 4` of the four that begin at registers r, r + 4, r + 8 and r + 12.
    static DEVICE Vec<float, 8> gather(const float (&from)[REGISTERS], int r, int lane) {
        float pairs[4][2];
#pragma unroll
        for (int i = 0; i < 8; ++i) pairs[i / 2][i % 2] = from[r + i / 2 * 4 + i % 2];
#pragma unroll
        for (int mask = 1; mask <= 2; mask *= 2) {
            const bool upper = (lane & mask) != 0;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if ((i & mask) != 0) continue;
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    float &low = pairs[i][j], &high = pairs[i + mask][j];
                    const float other = lane_xor(upper ? low : high, lane, mask);
                    low = upper ? other : low;
                    high = upper ? high : other;
                }
            }
        }
        Vec<float, 8> out;
#pragma unroll
        for (int i = 0; i < 8; ++i) out[i] = pairs[i / 2][i % 2];
        return out;
    }
};
