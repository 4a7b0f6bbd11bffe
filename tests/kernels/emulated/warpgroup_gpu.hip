// Hopper's warpgroup instructions on the CPU: operands are read where their descriptors say, when the instruction is issued
// or, with LATE, when it is waited for.
#pragma once
#include "prelude.h"

DEVICE unsigned long long matrix_descriptor(const Element* from, int across) {
    const unsigned long long address = (unsigned char*)from - emulated::base();
    if (address % 16 != 0 || address >= 1 << 18) emulated::fail("no address of shared memory");
    return address >> 4 | (unsigned long long)(across >> 4) << 16 | 64ull << 32 | 1ull << 62;
}

DEVICE void fence_writes() {}
DEVICE void warpgroup_begin() {}
DEVICE void warpgroup_commit() {
    auto& self = emulated::fibers[emulated::current];
    self.batches.push_back(std::move(self.batch));
    self.batch.clear();
}
template <int PENDING> DEVICE void warpgroup_wait() {
    auto& batches = emulated::fibers[emulated::current].batches;
    for (; batches.size() > PENDING; batches.pop_front()) {
        for (const auto& run : batches.front()) run();
    }
}

// Element (outer, k) of an operand. PTX ISA, "Canonical layouts" with 128-byte swizzling: bits 4 to 6 of an address are
// exchanged with those of its line, bits 7 to 9.
template <bool K_FIRST> DEVICE float descriptor_element(unsigned long long descriptor, int outer, int k) {
    const unsigned start = (descriptor & 0x3fff) << 4, across = (descriptor >> 16 & 0x3fff) << 4;
    const unsigned eight = (descriptor >> 32 & 0x3fff) << 4;
    unsigned at = K_FIRST ? start + outer / 8 * eight + outer % 8 * 128 + k * 2
                          : start + outer / 64 * across + k / 8 * eight + k % 8 * 128 + outer % 64 * 2;
    at ^= (at >> 7 & 7) << 4;
    Element value;
    memcpy(&value, emulated::base() + at, 2);
    return (float)value;
}

template <int COLUMNS, bool A_K_FIRST, bool B_K_FIRST>
DEVICE void warpgroup_fma(float (&c)[COLUMNS / 2], unsigned long long left, unsigned long long right) {
    const int lane = emulated::current % WAVE, wave = emulated::current / WAVE % 4;
    float* sums = c;
    const auto run = [=] {
        for (int r = 0; r < COLUMNS / 2; ++r) {
            const int row = wave * 16 + lane / 4 + r / 2 % 2 * 8, column = r / 4 * 8 + lane % 4 * 2 + r % 2;
            for (int k = 0; k < 16; ++k) {
                sums[r] += descriptor_element<A_K_FIRST>(left, row, k) * descriptor_element<B_K_FIRST>(right, column, k);
            }
        }
    };
    if (emulated::late) {
        emulated::fibers[emulated::current].batch.push_back(run);
    } else {
        run();
    }
}
template <int COUNT> DEVICE void warpgroup_settle(float (&)[COUNT]) {}
