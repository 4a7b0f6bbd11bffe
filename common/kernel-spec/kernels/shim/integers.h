// Integer intrinsics, bits of floats, and loads with a hint.
#pragma once

BLUEFIN_BOTH int __popc(unsigned x) { return __builtin_popcount(x); }
BLUEFIN_BOTH int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
BLUEFIN_BOTH int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
BLUEFIN_BOTH int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
BLUEFIN_BOTH int __ffs(int x) { return __builtin_ffs(x); }
BLUEFIN_BOTH int __ffsll(long long x) { return __builtin_ffsll(x); }
BLUEFIN_BOTH int __ffs(unsigned x) { return __builtin_ffs((int)x); }
BLUEFIN_BOTH int __ffsll(unsigned long long x) { return __builtin_ffsll((long long)x); }
BLUEFIN_BOTH int __ffsll(long x) { return __builtin_ffsll(x); }
BLUEFIN_BOTH int __ffsll(unsigned long x) { return __builtin_ffsll((long long)x); }
BLUEFIN_BOTH unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
BLUEFIN_BOTH unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }

// Products of the lower 24 bits.
BLUEFIN_BOTH int __mul24(int x, int y) { return (int)((unsigned)x << 8) / 256 * ((int)((unsigned)y << 8) / 256); }
BLUEFIN_BOTH unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffff) * (y & 0xffffff); }
BLUEFIN_BOTH int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
BLUEFIN_BOTH unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((unsigned long long)x * y >> 32); }
BLUEFIN_BOTH long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
BLUEFIN_BOTH unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}

BLUEFIN_BOTH unsigned __sad(int x, int y, unsigned z) { return z + (x < y ? (unsigned)y - x : (unsigned)x - y); }
BLUEFIN_BOTH unsigned __usad(unsigned x, unsigned y, unsigned z) { return z + (x < y ? y - x : x - y); }
BLUEFIN_BOTH int __hadd(int x, int y) { return (int)(((long long)x + y) >> 1); }
BLUEFIN_BOTH int __rhadd(int x, int y) { return (int)(((long long)x + y + 1) >> 1); }
BLUEFIN_BOTH unsigned __uhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y) >> 1); }
BLUEFIN_BOTH unsigned __urhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y + 1) >> 1); }

BLUEFIN_BOTH unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return (unsigned)((((unsigned long long)high << 32 | low) << (by & 31)) >> 32);
}
BLUEFIN_BOTH unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (by & 31));
}
// The same by at most 32.
BLUEFIN_BOTH unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned by) {
    return by >= 32 ? low : __funnelshift_l(low, high, by);
}
BLUEFIN_BOTH unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned by) {
    return by >= 32 ? high : __funnelshift_r(low, high, by);
}
// Bytes of x and y, numbered 0 to 7, chosen by the digits of `selector`.
BLUEFIN_BOTH unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned result = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const unsigned chosen = (unsigned)(bytes >> ((selector >> 4 * i & 7) * 8)) & 255;
        result |= (selector >> 4 * i & 8 ? (chosen & 128 ? 255u : 0u) : chosen) << 8 * i;
    }
    return result;
}
// Sums of products of the four bytes of x and y.
BLUEFIN_BOTH int __dp4a(int x, int y, int sum) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sum += (int)(signed char)(x >> 8 * i) * (signed char)(y >> 8 * i);
    return sum;
}
BLUEFIN_BOTH unsigned __dp4a(unsigned x, unsigned y, unsigned sum) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sum += (x >> 8 * i & 255) * (y >> 8 * i & 255);
    return sum;
}
// Sums of products of the two halves of x and two bytes of y, the lower or the upper ones.
BLUEFIN_BOTH int bluefin_dp2a(int x, int y, int sum) {
    return sum + (short)x * (signed char)y + (x >> 16) * (signed char)(y >> 8);
}
BLUEFIN_BOTH unsigned bluefin_dp2a(unsigned x, unsigned y, unsigned sum) {
    return sum + (x & 0xffff) * (y & 255) + (x >> 16) * (y >> 8 & 255);
}
BLUEFIN_BOTH int __dp2a_lo(int x, int y, int sum) { return bluefin_dp2a(x, y, sum); }
BLUEFIN_BOTH int __dp2a_hi(int x, int y, int sum) { return bluefin_dp2a(x, y >> 16, sum); }
BLUEFIN_BOTH unsigned __dp2a_lo(unsigned x, unsigned y, unsigned sum) { return bluefin_dp2a(x, y, sum); }
BLUEFIN_BOTH unsigned __dp2a_hi(unsigned x, unsigned y, unsigned sum) { return bluefin_dp2a(x, y >> 16, sum); }
BLUEFIN_BOTH unsigned __bitextract_u32(unsigned x, unsigned from, unsigned bits) {
    return bits == 0 ? 0 : x << (32 - from - bits & 31) >> (32 - bits);
}

BLUEFIN_BOTH int __float_as_int(float x) { return bluefin_bits<int>(x); }
BLUEFIN_BOTH unsigned __float_as_uint(float x) { return bluefin_bits<unsigned>(x); }
BLUEFIN_BOTH float __int_as_float(int x) { return bluefin_bits<float>(x); }
BLUEFIN_BOTH float __uint_as_float(unsigned x) { return bluefin_bits<float>(x); }
BLUEFIN_BOTH long long __double_as_longlong(double x) { return bluefin_bits<long long>(x); }
BLUEFIN_BOTH double __longlong_as_double(long long x) { return bluefin_bits<double>(x); }
BLUEFIN_BOTH int __double2hiint(double x) { return (int)(bluefin_bits<long long>(x) >> 32); }
BLUEFIN_BOTH int __double2loint(double x) { return (int)bluefin_bits<long long>(x); }
BLUEFIN_BOTH double __hiloint2double(int high, int low) {
    return bluefin_bits<double>((unsigned long long)(unsigned)high << 32 | (unsigned)low);
}

// A hint that nobody writes to it while the kernel runs.
template <class T> BLUEFIN_DEVICE T __ldg(const T* from) { return *from; }
template <class T> BLUEFIN_DEVICE T __ldca(const T* from) { return *from; }
template <class T> BLUEFIN_DEVICE T __ldcg(const T* from) { return *from; }
template <class T> BLUEFIN_DEVICE T __ldcs(const T* from) { return *from; }
template <class T> BLUEFIN_DEVICE void __stcg(T* to, T value) { *to = value; }
template <class T> BLUEFIN_DEVICE void __stcs(T* to, T value) { *to = value; }
