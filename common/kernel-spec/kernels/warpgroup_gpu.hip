// Hopper's warpgroup instructions: four waves in a row multiply from shared memory, and the sums come behind the waves.
#pragma once
#include "prelude.h"

// Where A or B lies: in blocks of 64 halves (128 bytes) a line, contiguous along k or along the other index, the eight
// chunks of a line permuted by its number modulo 8, from a multiple of 1024 bytes on. Eight lines are 1024 bytes; `across`
// is the distance of two blocks in bytes (it matters only where the blocks lie side by side along the other index).
// PTX ISA, "Asynchronous warpgroup level matrix shared memory layout" and "Matrix descriptor format".
DEVICE unsigned long long matrix_descriptor(const Element* from, int across) {
    const unsigned long long address = (shared_address(from) & 0x3ffff) >> 4;
    return address | (unsigned long long)(across >> 4) << 16 | 64ull << 32 | 1ull << 62;
}

// What the threads wrote into shared memory is seen by the matrix cores after this (and a barrier).
DEVICE void fence_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void warpgroup_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void warpgroup_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most PENDING of the committed groups are under way.
template <int PENDING> DEVICE void warpgroup_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

#define NAMES_32 \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
    "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define NAMES_64 \
    NAMES_32 "," \
    "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
    "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define NAMES_128 \
    NAMES_64 "," \
    "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79," \
    "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95," \
    "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111," \
    "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define SUMS_8(i) \
    "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), "+f"(c[i + 6]), \
        "+f"(c[i + 7])
#define SUMS_32(i) SUMS_8(i), SUMS_8(i + 8), SUMS_8(i + 16), SUMS_8(i + 24)
#define SUMS_64 SUMS_32(0), SUMS_32(32)
#define SUMS_128 SUMS_64, SUMS_32(64), SUMS_32(96)
// `a` and on: the numbers of the operands behind the sums.
#define WARPGROUP_FMA(columns, names, sums, a, b, turn_a, turn_b)                                                 \
    asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n" columns                  \
                 "k16.f32." PTX_FACTORS " {" names "}, " a ", " b ", p, 1, 1, " turn_a ", " turn_b ";}"         \
                 : sums                                                                                           \
                 : "l"(left), "l"(right), "n"(A_K_FIRST ? 0 : 1), "n"(B_K_FIRST ? 0 : 1))

// C += A * B, 64 x COLUMNS x 16. Register r of C in lane l of wave w: row 16 * w + l / 4 + (r / 2 % 2) * 8, column
// 8 * (r / 4) + 2 * (l % 4) + r % 2.
template <int COLUMNS, bool A_K_FIRST, bool B_K_FIRST>
DEVICE void warpgroup_fma(float (&c)[COLUMNS / 2], unsigned long long left, unsigned long long right) {
    static_assert(COLUMNS == 64 || COLUMNS == 128 || COLUMNS == 256);
    if constexpr (COLUMNS == 64) {
        WARPGROUP_FMA("64", NAMES_32, SUMS_32(0), "%32", "%33", "%34", "%35");
    } else if constexpr (COLUMNS == 128) {
        WARPGROUP_FMA("128", NAMES_64, SUMS_64, "%64", "%65", "%66", "%67");
    } else {
        WARPGROUP_FMA("256", NAMES_128, SUMS_128, "%128", "%129", "%130", "%131");
    }
}

// Nothing that reads the sums moves up over this.
template <int COUNT> DEVICE void warpgroup_settle(float (&c)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) asm volatile("" : "+f"(c[i])::"memory");
}
