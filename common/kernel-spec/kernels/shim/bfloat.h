// BF16: the compiler's own type, which clang has on every GPU from 19 on; products and sums are of FP32, and rounded.
#pragma once

#include "bluefin/half.h"

#if __clang_major__ < 19
#error "bfloat16 needs clang 19 or later"
#endif

using bluefin_bfloat = __bf16;
BLUEFIN_PAIR(bluefin_bfloat2, bluefin_bfloat)
BLUEFIN_SIXTEEN(bluefin_bfloat, bluefin_bfloat2)
BLUEFIN_BOTH bluefin_bfloat __hfma(bluefin_bfloat a, bluefin_bfloat b, bluefin_bfloat c) {
    return (bluefin_bfloat)__builtin_fmaf((float)a, (float)b, (float)c);
}
BLUEFIN_BOTH bluefin_bfloat2 __hfma2(bluefin_bfloat2 a, bluefin_bfloat2 b, bluefin_bfloat2 c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}

BLUEFIN_BOTH bluefin_bfloat __float2bfloat16(float x) { return (bluefin_bfloat)x; }
BLUEFIN_BOTH bluefin_bfloat __float2bfloat16_rn(float x) { return (bluefin_bfloat)x; }
// Towards zero, down, and up: the upper half of the bits, or what is next to it.
BLUEFIN_BOTH bluefin_bfloat __float2bfloat16_rz(float x) {
    return x != x ? (bluefin_bfloat)x : bluefin_bits<bluefin_bfloat>((unsigned short)(bluefin_bits<unsigned>(x) >> 16));
}
BLUEFIN_BOTH bluefin_bfloat bluefin_bfloat_away(float x) {
    const unsigned bits = bluefin_bits<unsigned>(x);
    return bluefin_bits<bluefin_bfloat>((unsigned short)((bits >> 16) + ((bits & 0xffff) != 0)));
}
BLUEFIN_BOTH bluefin_bfloat __float2bfloat16_rd(float x) { return x < 0 ? bluefin_bfloat_away(x) : __float2bfloat16_rz(x); }
BLUEFIN_BOTH bluefin_bfloat __float2bfloat16_ru(float x) { return x > 0 ? bluefin_bfloat_away(x) : __float2bfloat16_rz(x); }
BLUEFIN_BOTH bluefin_bfloat __double2bfloat16(double x) { return (bluefin_bfloat)x; }
BLUEFIN_BOTH float __bfloat162float(bluefin_bfloat x) { return (float)x; }
BLUEFIN_BOTH bluefin_bfloat __int2bfloat16_rn(int x) { return (bluefin_bfloat)(float)x; }
BLUEFIN_BOTH int __bfloat162int_rz(bluefin_bfloat x) { return (int)(float)x; }
BLUEFIN_BOTH unsigned short __bfloat16_as_ushort(bluefin_bfloat x) { return bluefin_bits<unsigned short>(x); }
BLUEFIN_BOTH bluefin_bfloat __ushort_as_bfloat16(unsigned short x) { return bluefin_bits<bluefin_bfloat>(x); }
BLUEFIN_BOTH bluefin_bfloat2 make_bfloat162(bluefin_bfloat x, bluefin_bfloat y) { return {x, y}; }
BLUEFIN_BOTH bluefin_bfloat2 __halves2bfloat162(bluefin_bfloat x, bluefin_bfloat y) { return {x, y}; }
BLUEFIN_BOTH bluefin_bfloat2 __bfloat162bfloat162(bluefin_bfloat x) { return {x, x}; }
BLUEFIN_BOTH bluefin_bfloat2 __float2bfloat162_rn(float x) { return {(bluefin_bfloat)x, (bluefin_bfloat)x}; }
BLUEFIN_BOTH bluefin_bfloat2 __floats2bfloat162_rn(float x, float y) { return {(bluefin_bfloat)x, (bluefin_bfloat)y}; }
BLUEFIN_BOTH bluefin_bfloat2 __float22bfloat162_rn(float2 x) { return {(bluefin_bfloat)x.x, (bluefin_bfloat)x.y}; }
BLUEFIN_BOTH float2 __bfloat1622float2(bluefin_bfloat2 x) { return make_float2((float)x.x, (float)x.y); }
BLUEFIN_BOTH float __low2float(bluefin_bfloat2 x) { return (float)x.x; }
BLUEFIN_BOTH float __high2float(bluefin_bfloat2 x) { return (float)x.y; }
BLUEFIN_BOTH bluefin_bfloat __low2bfloat16(bluefin_bfloat2 x) { return x.x; }
BLUEFIN_BOTH bluefin_bfloat __high2bfloat16(bluefin_bfloat2 x) { return x.y; }
BLUEFIN_ADDS(bluefin_bfloat, bluefin_bfloat2)

BLUEFIN_RAW(__nv_bfloat16_raw, bluefin_bfloat)
using __hip_bfloat16_raw = __nv_bfloat16_raw;

// A file for both includes either header, whatever its dialect is taken for.
using __nv_bfloat16 = bluefin_bfloat;
using nv_bfloat16 = bluefin_bfloat;
using __nv_bfloat162 = bluefin_bfloat2;
using nv_bfloat162 = bluefin_bfloat2;
using __hip_bfloat16 = bluefin_bfloat;
using __hip_bfloat162 = bluefin_bfloat2;
using hip_bfloat16 = bluefin_bfloat;
